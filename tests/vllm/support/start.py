# SPDX-License-Identifier: Apache-2.0
"""Start vLLM as far as its scheduler, once for each circumstance.

    python start.py MODEL CIRCUMSTANCES.json FOLDER

vLLM is imported once; each circumstance (environment variables, code to run first) is
a fork of that process, in which plug-ins are then looked for and loaded the way vLLM
does it, through installed entry points. Writes NAME.json, which functions ended up
replaced and what they answered, and NAME.log into FOLDER.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import vllm_sim


def start(model: str) -> dict[str, Any]:
    """A configuration, a scheduler and one step."""
    import vllm.config.vllm as config_module
    from vllm.v1.spec_decode.dynamic import utils

    rows = [[1, 4, 4], [5, 32, 0]]
    config = vllm_sim.make_config(
        model, max_num_seqs=32, v2=False, speculative_config=vllm_sim.ngram(4, rows)
    )
    scheduler = vllm_sim.make_scheduler(config)
    vllm_sim.add_request(scheduler, "a", 8, 4)
    output = scheduler.schedule()
    return {
        "lookup": scheduler.dynamic_sd_lookup,
        "k": output.num_spec_tokens_to_schedule,
        "sizes": config.compilation_config.cudagraph_capture_sizes,
        "optimized": not __debug__,
        "replaced": [
            hasattr(function, "__specgrid_seam__")
            for function in (
                utils.build_dynamic_sd_schedule_lookup,
                config_module.VllmConfig._set_cudagraph_sizes,
                type(scheduler)._update_after_schedule,
            )
        ],
    }


def in_fork(model: str, name: str, what: dict[str, Any], folder: Path) -> None:
    """One circumstance in a child process of its own."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    with (folder / f"{name}.log").open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        status = 1
        try:
            os.environ.update(what["env"])
            exec(what["before"], {})
            (folder / f"{name}.json").write_text(json.dumps(start(model)))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)


def main() -> None:
    model, circumstances, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    vllm_sim.install(
        imports=(
            "vllm.config",
            "vllm.engine.arg_utils",
            "vllm.v1.core.sched.scheduler",
            "vllm.model_executor.model_loader.weight_utils",
        )
    )
    if "specgrid" in sys.modules:
        raise RuntimeError("specgrid was imported before any plug-in was loaded")
    for name, what in json.loads(circumstances.read_text()).items():
        in_fork(model, name, what, folder)


if __name__ == "__main__":
    main()
