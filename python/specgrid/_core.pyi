# The native core, by hand; stubtest checks the names, tests/test_core_raw.py
# the keywords. Private: users import specgrid.
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

_Int64 = npt.NDArray[np.int64]
_Fault = tuple[int, int, int, int, int, int, int]

__version__: str

# ---- schedule --------------------------------------------------------------------

def check_rows(rows: _Int64, form: int) -> _Fault: ...
def build_grid(
    rows: _Int64, form: int
) -> tuple[_Fault | None, _Int64 | None, _Int64 | None, _Int64 | None]: ...
def rows_from_list(rows: object) -> tuple[_Int64, bool] | None: ...

# ---- lookup ----------------------------------------------------------------------

class Lookup:
    def __init__(
        self,
        batches: _Int64,
        contexts: _Int64,
        k: _Int64,
        max_num_seqs: int,
        num_speculative_tokens: int,
    ) -> None: ...
    @property
    def max_num_seqs(self) -> int: ...
    @property
    def num_speculative_tokens(self) -> int: ...
    @property
    def num_columns(self) -> int: ...
    def at(self, batch: int, context: int) -> int: ...
    def column_of(self, context: int) -> int: ...
    def dense(self, item_bytes: int) -> npt.NDArray[Any]: ...
    def column_list(self) -> list[int]: ...
    def tiers(self) -> tuple[tuple[int, int, int, int], ...]: ...
    def canonical(self) -> tuple[_Int64, _Int64, _Int64]: ...
    def gather(self, batches: _Int64, contexts: _Int64) -> npt.NDArray[np.int32]: ...

# ---- capture ---------------------------------------------------------------------

def capture_sizes(
    limits: _Int64,
    tiers: _Int64,
    rule: int,
    interactivity: bool,
    explicit_sizes: _Int64 | None,
    explicit_max: int | None,
) -> tuple[int, int, _Int64, npt.NDArray[np.uint8]]: ...
def align_sizes(sizes: _Int64, max_size: int, query_len: int) -> _Int64: ...

# ---- graphs ----------------------------------------------------------------------

class GraphTable:
    def __init__(
        self,
        sizes: _Int64,
        query_lens: _Int64,
        lora_cases: _Int64,
        diagonal: _Int64,
        limits: _Int64,
        decode_mode: int,
        mixed_mode: int,
        varlen_decode: bool,
        policy: int,
        clamp_loras: bool,
    ) -> None: ...
    @property
    def num_graphs(self) -> int: ...
    def columns(self) -> tuple[_Int64, ...]: ...
    def dispatch_many(
        self,
        num_reqs: _Int64,
        num_tokens: _Int64,
        query_len: _Int64,
        num_active_loras: _Int64,
        max_query_len: int,
        num_ubatches: int,
    ) -> tuple[int, _Int64]: ...
    def explain_many(
        self, num_reqs: _Int64, query_len: _Int64, num_active_loras: int
    ) -> tuple[_Int64, _Int64, _Int64]: ...
    def used(self, diagonal: _Int64) -> npt.NDArray[np.bool_]: ...
    def candidates(self) -> tuple[_Int64, _Int64, _Int64, _Int64, _Int64]: ...
    def bind_dispatch(
        self, graph_type: Callable[..., Any], refuse: Callable[..., Any]
    ) -> Callable[..., Any]: ...

# ---- plan ------------------------------------------------------------------------

_Points = tuple[_Int64, _Int64, _Int64]
_Labels = tuple[bool, int, _Int64, _Int64, _Int64, _Int64]

class SharedProblem:
    def __init__(
        self,
        *,
        query_lens: _Int64,
        max_num_seqs: int,
        max_decode_tokens: int,
        max_size: int,
        one_ladder: bool,
        piecewise: bool,
        decode: _Int64,
        mixed: _Int64,
        full_time: _Int64,
        piecewise_time: _Int64,
        sizes: _Int64,
        forced: _Int64,
        graphs_each: _Int64,
        graph_bytes: _Int64,
        graph_seconds: _Int64,
        pool_bytes: _Int64,
        graph_limits: _Int64,
    ) -> None: ...
    def frontier(
        self, budget: int, num_threads: int, time_limit: float
    ) -> _Points | None: ...
    def unlimited(self, num_threads: int, time_limit: float) -> _Points | None: ...
    def labels(self, limits: _Int64, max_labels: int, time_limit: float) -> _Labels: ...
    def rough(self, limits: _Int64, time_limit: float) -> _Labels: ...
    def least(self) -> _Int64: ...

class LadderProblem:
    def __init__(self, *, lengths: _Int64, steps: _Int64, limits: _Int64) -> None: ...
    def frontier(
        self, budget: int, plain: bool, num_threads: int, time_limit: float
    ) -> _Points | None: ...
    def labels(self, limits: _Int64, max_labels: int, time_limit: float) -> _Labels: ...
    def rough(self, limits: _Int64, time_limit: float) -> _Labels: ...
    def least(self) -> _Int64: ...

# ---- tune ------------------------------------------------------------------------

_Float64 = npt.NDArray[np.float64]
_LabelPoints = tuple[_Int64, _Int64, _Float64]

def tune_surface(
    batches: _Int64,
    contexts: _Int64,
    step_us: _Float64,
    rows: _Float64,
    columns: _Int64,
    threads: int,
) -> _Float64: ...
def tune_grid(
    points: list[_LabelPoints],
    tokens_per_step: _Float64,
    max_num_seqs: int,
    columns: _Int64,
    padded_batch: _Float64,
    extra_us: _Float64,
    weights: _Float64,
    max_us_per_token: float,
    tolerance: float,
    max_rows: int,
    max_columns: int,
    threads: int,
) -> tuple[
    npt.NDArray[np.int32],
    _Float64,
    _Float64,
    npt.NDArray[np.uint8],
    _Int64,
    _Int64,
    _Float64,
    _Float64,
]: ...
def tune_report(
    points: list[_LabelPoints],
    tokens: _Float64,
    max_num_seqs: int,
    columns: _Int64,
    padded_batch: _Float64,
    extra_us: _Float64,
    weights: _Float64,
    table: npt.NDArray[np.int32],
    threads: int,
) -> tuple[
    _Float64,
    npt.NDArray[np.uint8],
    float,
    float,
    float,
    _Float64,
    _Float64,
    _Int64,
]: ...
def compress_line(
    cost: _Float64, max_entries: int, non_increasing: bool
) -> tuple[_Float64, _Int64]: ...
def compress_bands(
    cost: _Float64, max_entries: int, non_increasing: bool, threads: int
) -> tuple[_Float64, _Int64, _Int64]: ...
def tune_joint(
    share: _Float64,
    graph_us: _Float64,
    eager_us: _Float64,
    run_us: float,
    max_graphs: int,
) -> tuple[_Float64, _Int64]: ...
