# SPDX-License-Identifier: Apache-2.0
"""One rank of a gloo group that compares what it is about to capture.

    python rank.py RANK PORT PARTS.json

PARTS.json holds one object a rank; null means a rank that never announces anything.
Prints "agreed", or the message that stops start-up.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch.distributed as dist


def main() -> None:
    rank, port = int(sys.argv[1]), sys.argv[2]
    parts = json.loads(Path(sys.argv[3]).read_text())
    dist.init_process_group(
        "gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=len(parts)
    )
    from specgrid.vllm_plugin import _agreement
    from specgrid.vllm_plugin._seam import StopStartupError

    if parts[rank] is None:
        time.sleep(8)
        return
    try:
        _agreement.compare(parts[rank], dist.group.WORLD)
    except StopStartupError as error:
        print(error)
    else:
        print("agreed")


if __name__ == "__main__":
    main()
