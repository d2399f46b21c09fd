# SPDX-License-Identifier: Apache-2.0
"""Runs code in sub-interpreters of a fresh process; a script, not a test.

    python interpreters.py isolated CODE [BEFORE [AFTER]]
        one with its own GIL, closed to modules that do not say they are ready
    python interpreters.py legacy CODE ...
        one that shares the GIL and takes any module
    python interpreters.py many CODE ...
        isolated ones in eight threads, three a thread

The main interpreter runs BEFORE and AFTER. An error of CODE comes on stderr.
"""

from __future__ import annotations

import sys
import threading

if sys.version_info >= (3, 13):
    import _interpreters as interpreters

    def create(kind: str) -> int:
        return interpreters.create(kind)

    def run(interpreter: int, code: str) -> str:
        error = interpreters.run_string(interpreter, code)
        return error.formatted if error else ""

else:
    import _xxsubinterpreters as interpreters

    def create(kind: str) -> int:
        return interpreters.create(isolated=kind == "isolated")

    def run(interpreter: int, code: str) -> str:
        try:
            interpreters.run_string(interpreter, code)
        except interpreters.RunFailedError as error:
            return str(error)
        return ""


# Beside another, making and ending one is not safe in Python 3.12.
one_at_a_time = threading.Lock()


def run_once(kind: str, code: str) -> str:
    with one_at_a_time:
        interpreter = create(kind)
    error = run(interpreter, code)
    with one_at_a_time:
        interpreters.destroy(interpreter)
    return error


def run_many(code: str) -> str:
    errors: list[str] = []

    def work() -> None:
        errors.extend(run_once("isolated", code) for _ in range(3))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 24, f"{len(errors)} of 24 ended"
    return max(errors)


if __name__ == "__main__":
    kind, code, before, after = [*sys.argv[1:], "", ""][:4]
    exec(before)
    found = run_many(code) if kind == "many" else run_once(kind, code)
    exec(after)
    sys.exit(found or None)
