# SPDX-License-Identifier: Apache-2.0
"""Many threads on the same objects give the serial answers (no shared state)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from specgrid import Schedule, capture_sizes

ROWS = [
    (b, b + 6, c, c + 99, (b + c) % 7) for b in range(1, 64, 7) for c in (1, 101, 201)
]


def test_answers_do_not_depend_on_threads() -> None:
    shared = Schedule(ROWS).lookup(4096, 6)

    def work(_: int) -> tuple[object, ...]:
        lookup = Schedule(ROWS).lookup(4096, 6)
        batches = np.arange(4097)
        return (
            lookup.digest,
            shared.dense().tobytes(),
            shared.gather(batches, batches).tobytes(),
            tuple(capture_sizes(64, 6, ROWS)),
        )

    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(work, range(64)))
    assert len(answers) == 1
