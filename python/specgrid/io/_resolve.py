# SPDX-License-Identifier: Apache-2.0
"""vLLM 0.33.0's defaults, overrides and refusals, setting by setting.

Each rule names the file of vLLM it follows. What comes out are the fields of a
ServeConfig; tests/vllm compares them with vLLM's own on random command lines.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from specgrid._errors import ConfigError
from specgrid._plugin_settings import usable_settings
from specgrid.io._settings import SettingsReader, Source
from specgrid.io._values import (
    both_set,
    compilation_mode,
    graph_mode_name,
    guess_method,
    integer,
    load_json,
    size_list,
    speculative_method,
)
from specgrid.io._vllm_flags import VLLM_VERSION
from specgrid.io.vllm_command import short

PERFORMANCE_MODES = ("balanced", "interactivity", "throughput")
# vllm/config/vllm.py: the V1 runner follows a schedule for these methods only.
_V1_SCHEDULE_METHODS = ("ngram", "eagle", "eagle3", "mtp", "draft_model", "dflash")
_SCHEDULE_KEYS = (
    "num_speculative_tokens_per_batch_size",
    "speculative_token_schedule",  # the name in vLLM #48944
)
_SUFFIX_TREE_DEPTH = 24


class Resolver(SettingsReader):
    """Fills in defaults over the settings given, in reading order."""

    def fields(self) -> dict[str, Any]:
        """The fields of a ServeConfig."""
        raw = self._raw
        model = self._given("model")
        name = None if model is None else str(model.value)
        if model is not None:
            self._add("model", name, "given", model.origin)

        compilation, cc_origin = self._object("compilation_config")
        speculative, sc_origin = self._speculative()
        additional, ac_origin = self._object("additional_config")
        plugin, plugin_problems = usable_settings(additional.get("specgrid", {}))
        self._notes += [f"{ac_origin}: {problem}" for problem in plugin_problems]

        performance = self._text("performance_mode", "balanced")
        if performance not in PERFORMANCE_MODES:
            raise ConfigError(
                f"--performance-mode is {short(performance)}; choose one of "
                + ", ".join(PERFORMANCE_MODES)
            )
        tp = self._parallel("tensor_parallel_size")
        pp = self._parallel("pipeline_parallel_size")
        dp = self._parallel("data_parallel_size")
        seqs, tokens = self._batch_limits(performance, dp)
        active = self._number("max_num_active_seqs", 1)
        if active is not None and active > seqs:
            raise ConfigError(
                f"max_num_active_seqs ({active}) is above max_num_seqs ({seqs}); "
                f"vLLM refuses to start: lower it to at most {seqs}"
            )

        method, num_spec = self._drafting(speculative, sc_origin)
        schedule, schedule_origin = self._schedule(speculative, sc_origin, plugin)
        runner = self._runner(speculative, method, pp)
        dropped = self._dropped(schedule, dp, runner, method)
        adaptive = bool(speculative.get("enable_adaptive_verification", False))
        if adaptive:
            self._add("enable_adaptive_verification", True, "given", sc_origin)
        self._performance(performance)
        mode = self._graph_mode(compilation, cc_origin, schedule, dropped, runner)
        sizes, largest = self._sizes(compilation, cc_origin, name)
        compile_sizes = self._compile_sizes(compilation, cc_origin)
        lora = self._lora_cases(compilation, seqs, tokens, num_spec)
        device = self._device
        self._add(
            "platform_ceiling",
            device.platform_ceiling,
            "assumed" if device.ceiling_assumed else "given",
            "512; 1024 on compute capability 10.x (B200, B300): --gpu changes it"
            if device.ceiling_assumed
            else device.ceiling_detail,
        )
        pass_config = compilation.get("pass_config")
        sp = isinstance(pass_config, dict) and bool(pass_config.get("enable_sp"))
        if schedule is not None and not dropped:
            self._schedule_notes(schedule, schedule_origin)
        return {
            "model": name,
            "max_num_seqs": seqs,
            "max_num_active_seqs": active,
            "max_num_batched_tokens": tokens,
            "num_speculative_tokens": num_spec,
            "speculative_method": method,
            "schedule": schedule,
            "schedule_dropped": dropped,
            "cudagraph_mode": mode,
            "cudagraph_capture_sizes": sizes,
            "max_cudagraph_capture_size": largest,
            "compile_sizes": compile_sizes,
            "performance_mode": performance,
            "model_runner": runner,
            "adaptive_verification": adaptive,
            "data_parallel_size": dp,
            "tensor_parallel_size": tp,
            "sequence_parallel_size": tp if sp else 1,
            "lora_cases": lora,
            "platform_ceiling": device.platform_ceiling,
            "plugin": plugin,
            "plugin_problems": tuple(plugin_problems),
            "settings": tuple(self._settings),
            "notes": tuple(self._notes),
            "ignored_flags": tuple(dict.fromkeys(raw.unused)),
            "unknown_flags": tuple(dict.fromkeys(raw.unknown)),
            "replaced": tuple(raw.replaced),
        }

    def _parallel(self, name: str) -> int:
        value = self._number(name, 1)
        return 1 if value is None else value

    def _performance(self, mode: str) -> None:
        given = self._given("performance_mode")
        if given is not None:
            self._add("performance_mode", mode, "given", given.origin)

    def _batch_limits(self, performance: str, dp: int) -> tuple[int, int]:
        """max_num_seqs and max_num_batched_tokens (vllm/engine/arg_utils.py)."""
        device = self._device
        entry = self._raw.entry_point
        if entry == "batch":
            default_seqs, default_tokens = 128, 2048
        elif device.memory_gib >= 160:
            default_seqs, default_tokens = 1024, 16384
        elif device.memory_gib >= 70 and not device.is_a100 and not device.is_gb10:
            default_seqs = 1024
            default_tokens = 16384 if entry == "offline" else 8192
        else:
            default_seqs = 256
            default_tokens = 8192 if entry == "offline" else 2048
        because = ""
        low_latency = ("deepep_low_latency", "nixl_ep")
        if (
            self._text("all2all_backend", "") in low_latency
            and self._switch("enable_expert_parallel")
            and dp > 1
        ):
            default_tokens = 256
            because = f"all2all backend {self._text('all2all_backend', '')}"
        if performance == "throughput":
            default_seqs, default_tokens = 2 * default_seqs, 2 * default_tokens

        length = self._max_model_len()
        seqs = self._number("max_num_seqs", 1)
        tokens = self._number("max_num_batched_tokens", 1, human=True)
        names = {"server": "API server", "offline": "LLM class", "batch": "run-batch"}
        where = f"{names[entry]} on {device.name}"
        if device.assumed and entry != "batch":
            where += " (assumed; --device-memory-gib or --gpu changes it)"
        if performance == "throughput":
            where += ", doubled by --performance-mode throughput"
        if tokens is None:
            default = default_tokens
            if length is not None:
                if self._whole_prompts() and length > default:
                    default, because = length, "max_model_len, without chunked prefill"
                if (most := (seqs or default_seqs) * length) < default:
                    default, because = most, "max_num_seqs x max_model_len"
            tokens = int(
                self._add(
                    "max_num_batched_tokens", default, "vLLM default", because or where
                )
            )
        elif length is not None and tokens < length and self._whole_prompts():
            raise ConfigError(
                f"without chunked prefill max_num_batched_tokens ({tokens}) must be at "
                f"least max_model_len ({length}); vLLM refuses to start: raise "
                "--max-num-batched-tokens or drop --no-enable-chunked-prefill"
            )
        if seqs is None:
            seqs = min(default_seqs, tokens)
            lowered = "lowered to max_num_batched_tokens"
            where = where if seqs == default_seqs else lowered
            self._add("max_num_seqs", seqs, "vLLM default", where)
        # Requests before tokens, whichever of them was given.
        self._settings.sort(key=lambda s: s.name == "max_num_batched_tokens")
        if tokens < seqs:
            raise ConfigError(
                f"max_num_batched_tokens ({tokens}) is below max_num_seqs ({seqs}); "
                "vLLM refuses to start: give --max-num-batched-tokens at least "
                f"{seqs}, or lower --max-num-seqs to {tokens}"
            )
        return seqs, tokens

    def _whole_prompts(self) -> bool:
        chunked = self._given("enable_chunked_prefill")
        return chunked is not None and not chunked.value

    def _max_model_len(self) -> int | None:
        given = self._given("max_model_len")
        if given is None or str(given.value).strip().lower() in ("auto", "-1"):
            return None
        return self._number("max_model_len", 1, human=True)

    def _speculative(self) -> tuple[dict[str, Any], str]:
        config, origin = self._object("speculative_config")
        shortcuts = (
            ("spec_method", "method"),
            ("spec_model", "model"),
            ("spec_tokens", "num_speculative_tokens"),
        )
        for name, key in shortcuts:
            given = self._given(name)
            if given is None:
                continue
            if key in config:
                raise ConfigError(
                    f"{given.origin} and {origin} both set {key}; vLLM refuses to "
                    "start: keep one of them"
                )
            config[key] = given.value
            self._shortcut[key] = given.origin
            origin = origin or given.origin
        return config, origin

    def _drafting(self, config: dict[str, Any], origin: str) -> tuple[str | None, int]:
        """The drafting method and K (vllm/config/speculative.py)."""
        override = self._number("num_speculative_tokens", 0)
        if override is not None:
            return (str(config.get("method", "")) or None), override
        if not config:
            self._add(
                "num_speculative_tokens", 0, "vLLM default", "no speculative decoding"
            )
            return None, 0
        method = config.get("method")
        draft = config.get("model")
        if method is not None:
            where = self._shortcut.get("method", "")
            method = speculative_method(method, where or f"{origin}: method")
            where = where or origin
            self._add("speculative_method", method, "given", where)
        elif draft in ("ngram", "[ngram]"):
            method = str(
                self._add("speculative_method", "ngram", "vLLM default", "from model")
            )
        else:
            method = guess_method(str(draft or ""))
            self._add(
                "speculative_method",
                method,
                "assumed",
                "vLLM reads it from the draft model's config",
            )
        given = config.get("num_speculative_tokens")
        if given is not None:
            where = self._shortcut.get("num_speculative_tokens", "")
            value = integer(given, where or f"{origin}: num_speculative_tokens", 1)
            self._add("num_speculative_tokens", value, "given", where or origin)
            return method, value
        if method == "suffix":
            depth = config.get("suffix_decoding_max_tree_depth", _SUFFIX_TREE_DEPTH)
            value = integer(depth, f"{origin}: suffix_decoding_max_tree_depth", 1)
            detail = "suffix decoding's tree depth"
            self._add("num_speculative_tokens", value, "vLLM default", detail)
            return method, value
        if method == "mtp":
            self._add(
                "num_speculative_tokens",
                1,
                "assumed",
                "vLLM takes n_predict of the model's config, which is not read here; "
                "give num_speculative_tokens to be sure",
            )
            return method, 1
        raise ConfigError(
            f"{origin} has no num_speculative_tokens; vLLM would look for it in the "
            "draft model's config, which is not read here: add "
            "--speculative-config.num_speculative_tokens N, or the key to the JSON"
        )

    def _schedule(
        self, config: dict[str, Any], origin: str, plugin: dict[str, Any]
    ) -> tuple[Any, str]:
        override = self._given("schedule")
        if override is not None:
            self._add("schedule", override.value, "given", override.origin)
            return override
        rows = plugin.get("schedule")
        if rows is not None:
            where = self._raw.values["additional_config"].origin + ": specgrid.schedule"
            self._add("schedule", rows, "given", where)
            return rows, where
        for key in _SCHEDULE_KEYS:
            rows = config.get(key)
            if rows is None:
                continue
            if isinstance(rows, str):
                rows = load_json(rows, f"{origin}: {key}")
            where = f"{origin}: {key}"
            self._add("schedule", rows, "given", where)
            return rows, where
        return None, ""

    def _schedule_notes(self, rows: Any, origin: str) -> None:
        if not isinstance(rows, list) or "speculative" not in origin:
            return
        if any(isinstance(row, (list, tuple)) and len(row) == 5 for row in rows[:1000]):
            self._notes.append(
                f"The schedule has context ranges. vLLM {VLLM_VERSION} takes 3-item "
                "rows only: pass it as --additional-config "
                '\'{"specgrid": {"schedule": [...]}}\' with the specgrid plug-in, or '
                "use a vLLM that has #48944."
            )

    def _runner(
        self, config: dict[str, Any], method: str | None, pp: int
    ) -> Literal["V1", "V2"]:
        """Which model runner vLLM picks (vllm/config/vllm.py: use_v2_model_runner)."""
        value = self._raw.environment.get("VLLM_USE_V2_MODEL_RUNNER")
        runner: Literal["V1", "V2"]
        if value is not None:
            if not re.fullmatch(r"\d+", value.strip()):
                raise ConfigError(
                    f"VLLM_USE_V2_MODEL_RUNNER={short(value)} is not a number; "
                    "write 1 or 0"
                )
            runner = "V2" if int(value) else "V1"
            self._add("model_runner", runner, "given", "VLLM_USE_V2_MODEL_RUNNER")
            return runner
        parallel = config.get("parallel_drafting") and method not in (
            "dflash",
            "dspark",
        )
        blockers = [
            reason
            for reason, holds in (
                (f"method {method}", method in ("suffix", "custom_class")),
                ("parallel drafting", parallel),
                ("use_heterogeneous_vocab", config.get("use_heterogeneous_vocab")),
                ("dual batch overlap", self._micro_batches()),
                (
                    "pipeline parallelism with external_launcher",
                    pp > 1
                    and self._text("distributed_executor_backend", "")
                    == "external_launcher",
                ),
            )
            if holds
        ]
        runner = "V1" if blockers else "V2"
        detail = (
            f"V2 does not support {', '.join(blockers)}" if blockers else "since 0.29.0"
        )
        self._add("model_runner", runner, "vLLM default", detail)
        return runner

    def _micro_batches(self) -> bool:
        given = self._given("ubatch_size")
        size = 0 if given is None else integer(given.value, given.origin, 0)
        return self._switch("enable_dbo") or size > 1

    def _dropped(self, schedule: Any, dp: int, runner: str, method: str | None) -> str:
        if schedule is None:
            return ""
        if dp > 1:
            return (
                f"vLLM drops the schedule with data_parallel_size {dp}: ranks could "
                "choose different draft lengths and deadlock (#45963)"
            )
        if runner == "V1" and method not in _V1_SCHEDULE_METHODS:
            return f"the V1 model runner has no schedule for method {method}"
        return ""

    def _graph_mode(
        self,
        config: dict[str, Any],
        origin: str,
        schedule: Any,
        dropped: str,
        runner: str,
    ) -> str:
        level_given = self._given("optimization_level")
        level = 2
        if level_given is not None:
            level = integer(level_given.value, level_given.origin, 0, high=3)
        given = config.get("cudagraph_mode")
        source: Source = "vLLM default"
        detail = f"optimization level {level}"
        if given is not None:
            mode, source, detail = graph_mode_name(given, origin), "given", origin
        else:
            mode = ("NONE", "PIECEWISE", "FULL_AND_PIECEWISE", "FULL_AND_PIECEWISE")[
                level
            ]
            if level_given is not None:
                source, detail = "given", level_given.origin
        eager = self._given("enforce_eager")
        if eager is not None and eager.value:
            mode, source, detail = "NONE", "given", eager.origin
        if schedule is not None and not dropped and runner == "V1" and "FULL" in mode:
            detail = (
                f"{detail}; the V1 model runner lowers {mode}, because it cannot vary "
                "the query length"
            )
            mode = "PIECEWISE"
        compile_mode = compilation_mode(config.get("mode"), origin, level)
        if compile_mode != "VLLM_COMPILE" and "PIECEWISE" in mode:
            detail = f"{detail}; {mode} needs compilation mode VLLM_COMPILE"
            mode = "NONE" if mode == "PIECEWISE" else "FULL_DECODE_ONLY"
        return str(self._add("cudagraph_mode", mode, source, detail))

    def _sizes(
        self, config: dict[str, Any], origin: str, model: str | None
    ) -> tuple[tuple[int, ...] | None, int | None]:
        sizes: tuple[int, ...] | None = None
        flag = self._given("cudagraph_capture_sizes")
        inner = config.get("cudagraph_capture_sizes")
        if flag is not None and inner is not None:
            raise both_set("cudagraph_capture_sizes", flag.origin, origin)
        if flag is not None:
            sizes = size_list(flag.value, flag.origin)
            self._add("cudagraph_capture_sizes", list(sizes), "given", flag.origin)
        elif inner is not None:
            sizes = size_list(inner, f"{origin}: cudagraph_capture_sizes")
            self._add("cudagraph_capture_sizes", list(sizes), "given", origin)
        largest: int | None = None
        flag = self._given("max_cudagraph_capture_size")
        inner = config.get("max_cudagraph_capture_size")
        if flag is not None and inner is not None:
            raise both_set("max_cudagraph_capture_size", flag.origin, origin)
        if flag is not None:
            largest = self._number("max_cudagraph_capture_size", 0)
        elif inner is not None:
            where = f"{origin}: max_cudagraph_capture_size"
            largest = integer(inner, where, 0)
            self._add("max_cudagraph_capture_size", largest, "given", origin)
        elif sizes is None and model is not None and "gpt-oss" in model.lower():
            largest = 1024
            self._add(
                "max_cudagraph_capture_size",
                1024,
                "vLLM default",
                "set by vLLM for gpt-oss models (here told by the model's name)",
            )
        return sizes, largest

    def _compile_sizes(
        self, config: dict[str, Any], origin: str
    ) -> tuple[int | str, ...]:
        value = config.get("compile_sizes")
        if value is None:
            return ()
        if not isinstance(value, list):
            raise ConfigError(
                f"{origin}: compile_sizes is {short(value)}; write a list of token "
                "counts"
            )
        word = "cudagraph_capture_sizes"
        sizes = tuple(
            x if x == word else integer(x, f"{origin}: compile_sizes", 1) for x in value
        )
        self._add("compile_sizes", list(sizes), "given", origin)
        return sizes

    def _lora_cases(
        self, config: dict[str, Any], seqs: int, tokens: int, num_spec: int
    ) -> tuple[int, ...]:
        """vllm/v1/worker/gpu/lora_utils.py: one set of graphs per count of LoRAs."""
        if not self._switch("enable_lora"):
            return (0,)
        if num_spec and tokens < seqs * (1 + num_spec):
            raise ConfigError(
                f"with LoRA and drafts vLLM wants max_num_batched_tokens ({tokens}) "
                f"at least max_num_seqs x (1 + num_speculative_tokens) = "
                f"{seqs * (1 + num_spec)}; raise --max-num-batched-tokens"
            )
        loras = self._number("max_loras", 1)
        if loras is None:
            loras = int(self._add("max_loras", 1, "vLLM default", ""))
        if not config.get("cudagraph_specialize_lora", True) or not self._switch(
            "specialize_active_lora"
        ):
            return (0, loras + 1)
        powers = [1 << i for i in range((loras + 1).bit_length())]
        return (0, *sorted({p for p in powers if p <= loras + 1} | {loras + 1}))
