# SPDX-License-Identifier: Apache-2.0
"""Every flag of ``vllm serve`` in vLLM 0.33.0 and how many values it takes.

This is a table of names, read off vLLM's own argument parser, and nothing else:
what the few flags that matter here mean is in ``vllm_config.py``. It is needed
whole, because without the number of values of ``--trust-remote-code`` or
``--lora-modules`` nobody can tell a value from the model's name, and because a
misspelt flag can be told from one that merely does not matter here.
"""

from __future__ import annotations

VLLM_VERSION = "0.33.0"

_NONE = """
--aggregate-engine-logging --allow-credentials --allow-deprecated-quantization
--async-scheduling --cohere-is-reasoning-model --cudagraph-metrics
--data-parallel-external-lb --data-parallel-hybrid-lb
--data-parallel-multi-port-external-lb --dcp-q-replicate --disable-auto-tool-choice
--disable-batch-sharded-sampling --disable-cascade-attn --disable-chunked-mm-input
--disable-chunked-prefill --disable-cumem-allocator --disable-custom-all-reduce
--disable-dbo --disable-elastic-ep --disable-ep-weight-filter --disable-eplb
--disable-expert-parallel --disable-fastapi-docs --disable-fault-tolerance
--disable-flash-late-interaction --disable-flashinfer-autotune
--disable-force-include-usage --disable-hc-sp --disable-hybrid-kv-cache-manager
--disable-layerwise-nvtx-tracing --disable-log-deltas --disable-log-outputs
--disable-log-requests --disable-log-stats --disable-logging-iteration-details
--disable-lora --disable-mamba-cache-stochastic-rounding
--disable-mamba-shared-prefix-checkpoint --disable-mfu-metrics
--disable-mixed-moe-lora-format --disable-mm-embeds --disable-moe-shared-loras
--disable-nccl-comm-suspend --disable-nccl-for-dp-synchronization
--disable-offline-docs --disable-per-request-metrics --disable-prefix-caching
--disable-prompt-embeds --disable-prompt-tokens-details --disable-request-id-headers
--disable-return-routed-experts --disable-scale-out --disable-server-load-tracking
--disable-shm-tensor-arena --disable-sleep-mode --disable-sliding-window
--disable-ssl-refresh --disable-tokenizer-info-endpoint
--disable-tower-connector-lora --disable-trace-replay --disable-uvicorn-access-log
--enable-auto-tool-choice --enable-batch-sharded-sampling --enable-cascade-attn
--enable-chunked-mm-input --enable-chunked-prefill --enable-cumem-allocator
--enable-custom-all-reduce --enable-dbo --enable-elastic-ep
--enable-ep-weight-filter --enable-eplb --enable-expert-parallel
--enable-fastapi-docs --enable-fault-tolerance --enable-flash-late-interaction
--enable-flashinfer-autotune --enable-force-include-usage --enable-hc-sp
--enable-hybrid-kv-cache-manager --enable-layerwise-nvtx-tracing --enable-log-deltas
--enable-log-outputs --enable-log-requests --enable-logging-iteration-details
--enable-lora --enable-mamba-cache-stochastic-rounding
--enable-mamba-shared-prefix-checkpoint --enable-mfu-metrics
--enable-mixed-moe-lora-format --enable-mm-embeds --enable-moe-shared-loras
--enable-nccl-comm-suspend --enable-nccl-for-dp-synchronization
--enable-offline-docs --enable-per-request-metrics --enable-prefix-caching
--enable-prompt-embeds --enable-prompt-tokens-details --enable-request-id-headers
--enable-return-routed-experts --enable-scale-out --enable-server-load-tracking
--enable-shm-tensor-arena --enable-sleep-mode --enable-sliding-window
--enable-ssl-refresh --enable-tokenizer-info-endpoint --enable-tower-connector-lora
--enable-trace-replay --enable-uvicorn-access-log --enforce-eager
--exclude-tools-when-tool-choice-none --fail-on-environ-validation
--fully-sharded-loras --grpc --headless --help --interleave-mm-strings
--jit-monitor-verbose --kv-cache-metrics --kv-sharing-fast-prefill
--language-model-only --log-error-stack --long-prefill-token-threshold-adaptive
--mm-device-do-normalize --mm-encoder-only --monokernel --no-allow-credentials
--no-allow-deprecated-quantization --no-async-scheduling
--no-cohere-is-reasoning-model --no-cudagraph-metrics --no-data-parallel-external-lb
--no-data-parallel-hybrid-lb --no-dcp-q-replicate --no-enforce-eager
--no-exclude-tools-when-tool-choice-none --no-fail-on-environ-validation
--no-fully-sharded-loras --no-interleave-mm-strings --no-jit-monitor-verbose
--no-kv-cache-metrics --no-kv-sharing-fast-prefill --no-language-model-only
--no-log-error-stack --no-long-prefill-token-threshold-adaptive
--no-mm-device-do-normalize --no-mm-encoder-only --no-monokernel --no-numa-bind
--no-ray-workers-use-nsight --no-return-sampling-mask
--no-return-tokens-as-token-ids --no-scheduler-reserve-full-isl
--no-skip-mm-profiling --no-skip-tokenizer-init --no-sleep-mode-offload-cudagraph
--no-specialize-active-lora --no-swa-bounded-replay --no-tokens-only
--no-trust-remote-code --no-trust-request-chat-template --no-trust-request-mm-kwargs
--no-use-fp64-gumbel --no-use-replayssm --no-use-tqdm-on-load --numa-bind
--ray-workers-use-nsight --return-sampling-mask --return-tokens-as-token-ids
--scheduler-reserve-full-isl --skip-mm-profiling --skip-tokenizer-init
--sleep-mode-offload-cudagraph --specialize-active-lora --swa-bounded-replay
--tokens-only --trust-remote-code --trust-request-chat-template
--trust-request-mm-kwargs --use-fp64-gumbel --use-replayssm --use-tqdm-on-load -dpe
-dph -dpm -ep -h
"""

_ONE = """
--additional-config --all2all-backend --allowed-headers --allowed-local-media-path
--allowed-methods --allowed-origins --anthropic-disabled-thinking-effort
--api-server-count --attention-backend --attention-config --aux-output-config
--block-size --chat-template --chat-template-content-format --code-revision
--cohere-format --compilation-config --config --config-format --convert
--cp-kv-cache-interleave-size --cpu-distributed-timeout-seconds --cpu-offload-gb
--custom-histogram-buckets --data-parallel-address --data-parallel-backend
--data-parallel-rank --data-parallel-rpc-port --data-parallel-size
--data-parallel-size-local --data-parallel-start-rank
--data-parallel-supervisor-port --dbo-decode-token-threshold
--dbo-prefill-token-threshold --dcp-comm-backend --dcp-kv-cache-interleave-size
--decode-context-parallel-size --default-chat-template-kwargs --default-mm-loras
--device-ids --device-memory-utilization --diffusion-config
--disable-access-log-for-endpoints --distributed-executor-backend
--distributed-timeout-seconds --download-dir --dp-supervisor-probe-failure-threshold
--dp-supervisor-probe-interval-s --dp-supervisor-probe-timeout-s --dp-sync-interval
--dtype --ec-manager-config --ec-transfer-config --elastic-ep-max-dp-size
--engram-config --eplb-config --expert-placement-strategy --fault-tolerance-config
--fingerprint-mode --fingerprint-value --gdn-prefill-backend --generation-config
--gpu-memory-utilization --grpc-port --h11-max-header-count
--h11-max-incomplete-event-size --hf-config-path --hf-overrides --host
--io-processor-plugin --ir-op-priority --jit-monitor-mode --kda-decode-backend
--kda-prefill-backend --kernel-config --kv-cache-dtype --kv-cache-memory-bytes
--kv-cache-metrics-sample --kv-events-config --kv-offloading-backend
--kv-offloading-size --kv-transfer-config --limit-mm-per-prompt --linear-backend
--load-format --log-config-file --log-level --logging-config --logprobs-mode
--long-prefill-token-threshold --lora-dtype --mamba-backend --mamba-block-size
--mamba-cache-dtype --mamba-cache-mode --mamba-cache-philox-rounds
--mamba-ssm-cache-dtype --mamba-ssu-algorithm --master-addr --master-port
--max-cpu-loras --max-cudagraph-capture-size --max-log-len --max-logprobs
--max-lora-cls-labels --max-lora-rank --max-loras --max-model-len
--max-num-active-seqs --max-num-batched-tokens --max-num-queued-reqs
--max-num-queued-tokens --max-num-scheduled-tokens --max-num-seqs
--max-parallel-loading-workers --media-io-kwargs --middleware
--mm-encoder-attn-backend --mm-encoder-attn-dtype --mm-encoder-fp8-scale-path
--mm-encoder-fp8-scale-save-margin --mm-encoder-fp8-scale-save-path
--mm-encoder-tp-mode --mm-hasher-algorithm --mm-ipc-gpu-memory-gb
--mm-processor-cache-gb --mm-processor-cache-type --mm-processor-device
--mm-processor-kwargs --mm-shm-cache-max-object-size-mb --mm-tensor-ipc --model
--model-class-overrides --model-impl --model-loader-extra-config --moe-backend
--nnodes --node-rank --num-gpu-blocks-override --offload-backend
--offload-group-size --offload-num-in-group --offload-prefetch-step
--optimization-level --otlp-traces-endpoint --override-generation-config
--per-request-spec-decode-metrics --performance-mode --pipeline-parallel-size
--pooler-config --port --prefill-context-parallel-size --prefill-schedule-interval
--prefix-cache-retention-interval --prefix-caching-hash-algo --prefix-match-unit
--profiler-config --pt-load-map-location --quantization --quantization-config
--reasoning-config --reasoning-effort-map --reasoning-parser
--reasoning-parser-plugin --renderer-num-workers --replayssm-buffer-len
--response-role --revision --root-path --runner --safetensors-load-strategy
--safetensors-prefetch-block-size --safetensors-prefetch-num-threads --scheduler-cls
--scheduling-policy --seed --show-hidden-metrics-for-version --shutdown-timeout
--sleep-mode-backend --sparse-indexer-topk-backend --spec-method --spec-model
--spec-tokens --speculative-config --sse-keep-alive-interval --ssl-ca-certs
--ssl-cert-reqs --ssl-certfile --ssl-ciphers --ssl-keyfile --stream-interval
--structured-outputs-config --tensor-parallel-size --tokenizer --tokenizer-mode
--tokenizer-revision --tool-call-parser --tool-parser-plugin --tool-server
--tool-strict-level --ubatch-size --uds --uvicorn-log-level --video-pruning-method
--video-pruning-rate --watchdog-config --watermark --watermark-config
--weight-transfer-config --worker-cls --worker-extension-cls -ac -asc -cc -dc -dcp
-dp -dpa -dpb -dpl -dpn -dpp -dpr -n -pcp -pp -q -r -sc -tp
"""

_MANY = """
--allowed-media-domains --api-key --collect-detailed-traces --cpu-offload-params
--cudagraph-capture-sizes --ignore-patterns --kv-cache-dtype-skip-layers
--logits-processors --lora-modules --lora-target-modules --numa-bind-cpus
--numa-bind-nodes --offload-params --served-model-name
--sleep-preserve-parameter-names
"""

_OPTIONAL = """
--hf-token
"""


def _build() -> dict[str, str]:
    table = {}
    for nargs, names in (("0", _NONE), ("1", _ONE), ("+", _MANY), ("?", _OPTIONAL)):
        table.update(dict.fromkeys(names.split(), nargs))
    # vLLM still accepts the older spelling of a switched-off flag.
    for name in _NONE.split():
        if name.startswith(("--enable-", "--disable-")):
            table["--no-" + name[2:]] = "0"
    return table


#: Flag name (dashes, never underscores) -> "0", "1", "?" (none or one) or "+".
VLLM_FLAGS: dict[str, str] = _build()

#: Flags of earlier versions -> what vLLM 0.33.0 has in their place.
FORMER_FLAGS: dict[str, str] = {
    "--cuda-graph-sizes": "--cudagraph-capture-sizes",
    "--max-seq-len-to-capture": "--max-cudagraph-capture-size",
    "--num-speculative-tokens": "--spec-tokens",
    "--speculative-model": "--spec-model",
}
