# SPDX-License-Identifier: Apache-2.0
"""The GPU assumed where vLLM's defaults depend on one, and presets of common GPUs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """The GPU assumed where vLLM's defaults depend on it.

    Attributes:
        memory_gib: total memory, GiB.
        is_a100: vLLM keeps the smaller defaults on any A100.
        is_gb10: likewise on GB10 (DGX Spark), whatever its memory.
        platform_ceiling: default capture ceiling in tokens: 1024 on compute
            capability 10.x (data-centre Blackwell), 512 elsewhere.
        name: what to call it in messages.
        assumed: the user did not say which GPU.
        ceiling_assumed: the user said nothing the ceiling follows from.
        ceiling_detail: the flag the ceiling follows from where one was given.
    """

    memory_gib: float = 80.0
    is_a100: bool = False
    is_gb10: bool = False
    platform_ceiling: int = 512
    name: str = "a GPU with 80 GiB"
    assumed: bool = True
    ceiling_assumed: bool = True
    ceiling_detail: str = "--platform-ceiling"


#: Presets for ``--gpu``: total memory as CUDA reports it, rounded; capture ceiling.
DEVICES: dict[str, Device] = {
    key: Device(gib, key == "a100", key == "gb10", ceiling, name, False, False, "--gpu")
    for key, gib, ceiling, name in (
        ("h100", 79, 512, "H100"),
        ("h200", 139, 512, "H200"),
        ("b200", 178, 1024, "B200"),
        ("b300", 268, 1024, "B300"),
        ("a100", 79, 512, "A100"),
        ("l40s", 44, 512, "L40S"),
        ("gb10", 119, 512, "GB10 (DGX Spark)"),
    )
}
