# SPDX-License-Identifier: Apache-2.0
"""Captured graphs and dispatch: which CUDA graph serves which decode step.

`GraphSet` is a size list turned into graphs under one of three policies. It
plans; nothing is captured here. What the schedule makes of it is `Coverage`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from specgrid import _backend
from specgrid._capture import align_sizes
from specgrid._check import MAX_COUNT, count, whole
from specgrid._coverage import Coverage
from specgrid._errors import ConfigError
from specgrid._lookup import Lookup, Tier
from specgrid._rows import RowsLike
from specgrid._schedule import Schedule

Policy: TypeAlias = Literal["vllm-0.33", "per-query-length", "reachable"]
Mode: TypeAlias = Literal[
    "NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"
]
Int64: TypeAlias = npt.NDArray[np.int64]

# Most graphs of one LoRA case; far above what a GPU can hold.
MAX_SHAPES = 2**26

# Numbers shared with `enum class GraphPolicy` in csrc/core/graphs.hpp.
POLICIES: dict[str, int] = {"vllm-0.33": 0, "per-query-length": 1, "reachable": 2}
# Numbers shared with `enum class GraphMode`.
GRAPH_MODES = ("NONE", "PIECEWISE", "FULL")
_NONE, _PIECEWISE, _FULL = range(3)
# Mode of graphs of the decode routine, and of mixed graphs (vLLM's
# CUDAGraphMode); 0 as the first means that decode has no routine of its own.
_ROUTINES: dict[str, tuple[int, int]] = {
    "NONE": (_NONE, _NONE),
    "PIECEWISE": (_NONE, _PIECEWISE),
    "FULL": (_NONE, _FULL),
    "FULL_DECODE_ONLY": (_FULL, _NONE),
    "FULL_AND_PIECEWISE": (_FULL, _PIECEWISE),
}
MODES = tuple(_ROUTINES)


class Graph(NamedTuple):
    """One captured graph, or the answer that there is none.

    Attributes:
        mode: "FULL", "PIECEWISE", or "NONE" for an eager step.
        num_tokens: Tokens of the step after padding.
        num_reqs: Most requests it serves; None for any number (PIECEWISE).
        query_len: Tokens per request it is captured for; None for any.
        num_active_loras: LoRA case.
        max_query_len: Most tokens a request may have, where only that is
            bounded (variable-length decode graphs); else None.
        num_ubatches: Micro-batches the step is split into; 1 for no split.
    """

    mode: str
    num_tokens: int
    num_reqs: int | None
    query_len: int | None
    num_active_loras: int
    max_query_len: int | None = None
    num_ubatches: int = 1


class Served(NamedTuple):
    """Why a uniform decode step has the graph it has.

    Attributes:
        num_reqs: Requests of the step.
        query_len: Tokens per request.
        graph: The graph that serves it; mode "NONE" when it runs eager.
        own: The smallest captured FULL graph of its query length that could
            serve it, whether or not dispatch finds it.
        hidden_by: The graph of another query length for which dispatch passes
            over `own`; None when nothing is hidden.
    """

    num_reqs: int
    query_len: int
    graph: Graph
    own: Graph | None
    hidden_by: Graph | None

    @property
    def num_tokens(self) -> int:
        """Tokens of the step before padding."""
        return self.num_reqs * self.query_len

    @property
    def padding(self) -> int:
        """Tokens added to reach the graph; 0 for an eager step."""
        return self.graph.num_tokens - self.num_tokens


@dataclass(frozen=True, eq=False)
class CandidateTable:
    """What vLLM's V2 graph manager looks graphs up in, run by run.

    Row i holds for LoRA case `lora_cases[i]` and every token count from
    `first_tokens[i]` to `last_tokens[i]`: graphs
    `indices[offsets[i]:offsets[i + 1]]` of `GraphSet.all_graphs`, in the order
    in which the manager tries them. Above the last row of a LoRA case there is
    no graph. All arrays are int64.
    """

    lora_cases: Int64
    first_tokens: Int64
    last_tokens: Int64
    offsets: Int64
    indices: Int64

    def __len__(self) -> int:
        return len(self.lora_cases)

    def __iter__(self) -> Iterator[tuple[int, int, int, list[int]]]:
        """Yields (LoRA case, first tokens, last tokens, graph indices)."""
        indices = self.indices.tolist()
        offsets = self.offsets.tolist()
        yield from zip(
            self.lora_cases.tolist(),
            self.first_tokens.tolist(),
            self.last_tokens.tolist(),
            (indices[begin:end] for begin, end in pairwise(offsets)),
            strict=True,
        )


class GraphSet:
    """The graphs a server captures, and which of them serves a step.

    Policies:

    - "vllm-0.33": what vLLM 0.33.0 does. Every query length is rounded over
      every size, and one ladder of FULL sizes serves all query lengths: a
      batch takes the nearest captured token count, and when that belongs to
      another query length the batch drops to PIECEWISE (vLLM #56136).
    - "per-query-length": the same graphs, one ladder per query length.
    - "reachable": of these graphs only those that a step of the schedule can
      replay. Covers at least what "vllm-0.33" covers, with no more graphs, and
      pads a batch of the schedule no further than "per-query-length" does. The
      argument is in docs/reachability.md.

    PIECEWISE and mixed FULL graphs are the same under all policies.

    Args:
        sizes: Capture sizes in tokens, any order; repeats are joined, as vLLM
            does. A `CaptureSizes` is fine.
        max_num_seqs: Most requests in a step.
        num_speculative_tokens: Draft tokens per request, the most if a schedule
            is given.
        schedule: A Schedule, or rows as it takes them.
        max_size: Largest FULL decode graph in tokens; the largest size when not
            given.
        mode: vLLM's cudagraph_mode, resolved.
        lora_cases: Active-LoRA counts that are captured, in capture order.
            Empty means (0,), as in vLLM.
        policy: See above.
        decode_query_len: Widest decode step in tokens per request; 1 +
            num_speculative_tokens when not given. Where it is not above
            num_speculative_tokens (a draft decode) the schedule adds no query
            lengths (vLLM #48329).
        varlen_decode: Decode graphs by total tokens, for any mix of 1 to
            decode_query_len tokens a request (adaptive verification).
        num_ubatches: Micro-batches of the twins captured beside FULL graphs
            (dual batch overlap); 1 for none.
        ubatch_min_tokens: Fewest tokens a twin is captured for
            (dbo_decode_token_threshold).
        mixed_within_decode: Mixed graphs only up to max_num_seqs x
            decode_query_len tokens (vLLM's use_kda_recoverssm).
        runner: "v2", or "v1" for the older runner: sizes are rounded to
            multiples of the query length where decode graphs are FULL, and a
            schedule turns every FULL mode into PIECEWISE.

    Raises:
        ConfigError: If a setting is out of range or unknown, or no size is left
            after the V1 runner's rounding.
        ScheduleError: If the schedule is not valid.

    Source: vLLM 0.33.0, `v1/worker/gpu/cudagraph_utils.py` (V2) and
    `v1/cudagraph_dispatcher.py` (V1).

    Example:
        >>> graphs = GraphSet(
        ...     [1, 2, 4, 8, 16, 24], max_num_seqs=8, num_speculative_tokens=2)
        >>> graphs.dispatch(num_reqs=4, num_tokens=12, query_len=3)[:4]
        ('FULL', 18, 6, 3)
    """

    def __init__(
        self,
        sizes: Iterable[int],
        *,
        max_num_seqs: int,
        num_speculative_tokens: int = 0,
        schedule: Schedule | RowsLike | None = None,
        max_size: int | None = None,
        mode: Mode | str = "FULL_AND_PIECEWISE",
        lora_cases: Iterable[int] = (0,),
        policy: Policy | str = "vllm-0.33",
        decode_query_len: int | None = None,
        varlen_decode: bool = False,
        num_ubatches: int = 1,
        ubatch_min_tokens: int = 32,
        mixed_within_decode: bool = False,
        runner: Literal["v2", "v1"] | str = "v2",
    ) -> None:
        arguments = dict(locals())
        del arguments["self"]
        self.max_num_seqs = count("max_num_seqs", max_num_seqs)
        self.num_speculative_tokens = count(
            "num_speculative_tokens", num_speculative_tokens, 0, MAX_COUNT - 1
        )
        self.policy = one_of("policy", policy, POLICIES)
        self.runner = one_of("runner", runner, ("v2", "v1"))
        self.mode = one_of("mode", mode, MODES)
        self.decode_query_len = count(
            "decode_query_len",
            1 + self.num_speculative_tokens
            if decode_query_len is None
            else decode_query_len,
        )
        if schedule is not None and not isinstance(schedule, Schedule):
            schedule = Schedule(schedule)
        self.schedule: Schedule | None = schedule
        self.lookup: Lookup | None = None
        if schedule is not None:
            self.lookup = schedule.lookup(
                self.max_num_seqs, self.num_speculative_tokens
            )
        array = size_array(sizes)
        cases = _lora_cases(lora_cases)
        arguments.update(sizes=array, schedule=schedule, lora_cases=cases)
        self._arguments = arguments
        limit = None if max_size is None else count("max_size", max_size)
        if self.runner == "v1":
            array, limit = self._as_v1(array, limit, varlen_decode, num_ubatches)
            cases = tuple(sorted(cases, reverse=True))
        self.lora_cases = cases
        self.max_size = limit or (int(array[-1]) if len(array) else 1)
        self._size_array = array
        self._runs = self._diagonal_runs()
        self.query_lens = tuple(sorted({run[0] for run in self._runs}))
        if len(array) * len(self.query_lens) > MAX_SHAPES:
            raise ConfigError(
                f"{len(array)} sizes x {len(self.query_lens)} query lengths are more "
                f"than {MAX_SHAPES} graphs; use fewer sizes"
            )
        self.num_ubatches = count("num_ubatches", num_ubatches, 1, 2**15 - 1)
        decode_mode, mixed_mode = _ROUTINES[self.mode]
        most = min(self.max_num_seqs * self.decode_query_len, MAX_COUNT)
        limits = (
            self.max_num_seqs,
            self.max_size,
            self.decode_query_len,
            most if mixed_within_decode else 0,
            self.num_ubatches,
            count("ubatch_min_tokens", ubatch_min_tokens, 0),
        )
        self._table = _backend.active().GraphTable(
            array,
            np.array(self.query_lens, np.int64),
            np.array(self.lora_cases, np.int64),
            np.array(self._runs, np.int64).ravel(),
            np.array(limits, np.int64),
            decode_mode,
            mixed_mode,
            bool(varlen_decode),
            POLICIES[self.policy],
            self.runner == "v2",
        )
        # Shadows the method below by a plain function of the back end: one call
        # a step is where the price of a Python frame shows.
        self.__dict__["dispatch"] = self._table.bind_dispatch(Graph, _refuse)

    def _as_v1(
        self, array: Int64, limit: int | None, varlen_decode: bool, num_ubatches: int
    ) -> tuple[Int64, int | None]:
        """Settings as the V1 runner resolves them."""
        if self.policy != "vllm-0.33" or varlen_decode or num_ubatches != 1:
            raise ConfigError(
                "the V1 runner has one query length and no variant graphs; with "
                "runner='v1' use policy='vllm-0.33' and no varlen_decode or "
                "num_ubatches, or use runner='v2'"
            )
        if self.schedule is not None and self.mode not in ("NONE", "PIECEWISE"):
            self.mode = "PIECEWISE"
        decodes_full = self.mode not in ("NONE", "PIECEWISE")
        if not decodes_full or self.decode_query_len == 1 or not len(array):
            return array, limit
        aligned = align_sizes(
            array.tolist(), limit or int(array[-1]), self.decode_query_len
        )
        return np.array(aligned, np.int64), aligned[-1]

    def _diagonal_runs(self) -> list[tuple[int, int, int]]:
        """(query_len, batch_lo, batch_hi) of every batch the schedule decodes.

        Disjoint within a query length, sorted; all context columns joined.
        """
        if self.lookup is None or not self.varies_query_len:
            return [(self.decode_query_len, 1, self.max_num_seqs)]
        offset = self.decode_query_len - self.num_speculative_tokens
        starts, context_his, k = self.lookup._impl.canonical()
        ends = [*(start - 1 for start in starts[1:].tolist()), self.max_num_seqs]
        lines = np.asarray(k).reshape(len(starts), len(context_his)).tolist()
        runs: dict[int, list[tuple[int, int]]] = {}
        for lo, hi, line in zip(starts.tolist(), ends, lines, strict=True):
            for value in set(line):
                spans = runs.setdefault(value + offset, [])
                if spans and spans[-1][1] == lo - 1:
                    spans[-1] = (spans[-1][0], hi)
                else:
                    spans.append((lo, hi))
        return [(q, lo, hi) for q in sorted(runs) for lo, hi in runs[q]]

    # ---- what is captured --------------------------------------------------------

    @property
    def sizes(self) -> list[int]:
        """Capture sizes in tokens, ascending; rounded ones for the V1 runner."""
        sizes: list[int] = self._size_array.tolist()
        return sizes

    @property
    def num_graphs(self) -> int:
        """Captured graphs of all modes and LoRA cases."""
        number: int = self._table.num_graphs
        return number

    @cached_property
    def all_graphs(self) -> list[Graph]:
        """Every graph in capture order: PIECEWISE, then FULL, largest first."""
        mode, tokens, reqs, lens, loras, max_lens, ubatches = self.columns()
        return list(
            map(
                Graph,
                [GRAPH_MODES[m] for m in mode.tolist()],
                tokens.tolist(),
                [n or None for n in reqs.tolist()],
                [n or None for n in lens.tolist()],
                loras.tolist(),
                [n or None for n in max_lens.tolist()],
                ubatches.tolist(),
            )
        )

    def columns(self) -> tuple[Int64, Int64, Int64, Int64, Int64, Int64, Int64]:
        """`all_graphs` as arrays, one per field of `Graph`, in its order.

        Returns:
            mode (0 NONE, 1 PIECEWISE, 2 FULL), num_tokens, num_reqs, query_len,
            num_active_loras, max_query_len, num_ubatches; 0 stands for None.
        """
        mode, tokens, reqs, lens, loras, max_lens, ubatches = self._table.columns()
        return mode, tokens, reqs, lens, loras, max_lens, ubatches

    def graphs(self, mode: str) -> list[Graph]:
        """Captured graphs of one mode in capture order, largest first.

        Args:
            mode: "FULL" or "PIECEWISE".

        Example:
            >>> graphs = GraphSet([1, 2, 4], max_num_seqs=4)
            >>> [graph.num_tokens for graph in graphs.graphs("FULL")]
            [4, 2, 1]
        """
        one_of("mode", mode, GRAPH_MODES)
        return [graph for graph in self.all_graphs if graph.mode == mode]

    def count(self, mode: str) -> int:
        """How many graphs of a mode are captured."""
        wanted = GRAPH_MODES.index(one_of("mode", mode, GRAPH_MODES))
        return int(np.count_nonzero(self.columns()[0] == wanted))

    @cached_property
    def tiers(self) -> list[Tier]:
        """Batches by query length: the narrowest and the widest of each."""
        # Tokens a request decodes beside its drafts: 1 but for draft decodes.
        own = max(self.decode_query_len - self.num_speculative_tokens, 1)
        tiers: dict[int, Tier] = {}
        for q, lo, hi in self._runs:
            seen = tiers.get(q)
            tiers[q] = Tier(q, q - own, seen.min_batch if seen else lo, hi)
        return list(tiers.values())

    @property
    def varies_query_len(self) -> bool:
        """Whether the schedule sets the query length of decode steps."""
        return (
            self.lookup is not None
            and self.decode_query_len > self.num_speculative_tokens
            and self.runner == "v2"
        )

    @property
    def diagonal_runs(self) -> list[tuple[int, int, int]]:
        """(query_len, batch_lo, batch_hi): batches the schedule decodes so."""
        return list(self._runs)

    def candidate_table(self) -> CandidateTable:
        """The table a runner looks graphs up in, as flat arrays.

        For "vllm-0.33" it is the table of vLLM's own manager, order included.
        For the other policies each row lists the nearest graph of every query
        length, so vLLM's rule, the first compatible one, finds it.

        Example:
            >>> table = GraphSet([1, 2, 4], max_num_seqs=4).candidate_table()
            >>> [(first, last) for _, first, last, _ in table]
            [(0, 1), (2, 2), (3, 4)]
        """
        return CandidateTable(*self._table.candidates())

    def padding_table(self) -> Int64:
        """The size every token count is padded to, from 0 to the largest size.

        What the V1 runner keeps, and what makes it refuse `compile_sizes` whose
        entry differs from its index (vLLM #49548).

        Example:
            >>> GraphSet([1, 2, 4], max_num_seqs=4).padding_table().tolist()
            [0, 1, 2, 4, 4]
        """
        sizes = np.concatenate(([0], self._size_array))
        return sizes[np.searchsorted(sizes, np.arange(sizes[-1] + 1))]

    # ---- which graph serves a step -----------------------------------------------

    def dispatch(
        self,
        num_reqs: int,
        num_tokens: int,
        query_len: int | None = None,
        num_active_loras: int = 0,
        *,
        max_query_len: int | None = None,
        num_ubatches: int = 1,
    ) -> Graph:
        """The graph that serves one step.

        Args:
            num_reqs: Requests in the step, at most max_num_seqs.
            num_tokens: Tokens in the step.
            query_len: Tokens per request when all requests decode the same
                number; None for any other step.
            num_active_loras: LoRA adapters active in the step.
            max_query_len: Most tokens of a request, for variable-length decode
                graphs; None when a prefill takes part.
            num_ubatches: Micro-batches the step is split into.

        Returns:
            The captured graph; one of mode "NONE", with the step's own numbers,
            when no graph serves it.

        Raises:
            ConfigError: If a number is out of range.

        Example:
            >>> graphs = GraphSet([1, 2, 4, 8], max_num_seqs=8)
            >>> graphs.dispatch(3, 3, query_len=1).num_tokens
            4
        """
        graph: Graph = self.__dict__["dispatch"](
            num_reqs,
            num_tokens,
            query_len,
            num_active_loras,
            max_query_len=max_query_len,
            num_ubatches=num_ubatches,
        )
        return graph

    def dispatch_many(
        self,
        num_reqs: npt.ArrayLike,
        num_tokens: npt.ArrayLike,
        query_len: npt.ArrayLike | None = None,
        num_active_loras: npt.ArrayLike = 0,
        *,
        max_query_len: int | None = None,
        num_ubatches: int = 1,
    ) -> Int64:
        """Graphs for many steps at once.

        Args:
            num_reqs: Requests per step.
            num_tokens: Tokens per step.
            query_len: Tokens per request per step; None, or 0 in an array, for
                steps that are not uniform.
            num_active_loras: Active LoRA adapters per step.
            max_query_len: As in `dispatch`, for all steps.
            num_ubatches: As in `dispatch`, for all steps.

        Returns:
            Indices into `all_graphs`, int64, -1 for none, in the broadcast
            shape of the arguments.

        Raises:
            ConfigError: If a number is out of range; names the step.

        Example:
            >>> graphs = GraphSet([1, 2, 4, 8], max_num_seqs=8)
            >>> graphs.dispatch_many([3, 9], [3, 9], [1, 0]).tolist()
            Traceback (most recent call last):
            ...
            specgrid._errors.ConfigError: step 1: num_reqs must be between 0 and ...
            >>> graphs.dispatch_many([3, 8], [3, 9], [1, 0]).tolist()
            [5, -1]
        """
        given = (
            _step_array("num_reqs", num_reqs),
            _step_array("num_tokens", num_tokens),
            _step_array("query_len", 0 if query_len is None else query_len),
            _step_array("num_active_loras", num_active_loras),
        )
        shape = np.broadcast_shapes(*(array.shape for array in given))
        flat = [
            array.ravel()
            if array.size == 1 or array.shape == shape
            else np.ascontiguousarray(np.broadcast_to(array, shape)).ravel()
            for array in given
        ]
        if 0 in shape:
            return np.empty(shape, np.int64)
        longest = 0 if max_query_len is None else max_query_len or -1
        bad, found = self._table.dispatch_many(*flat, longest, num_ubatches)
        if bad >= 0:
            reqs, tokens, lens, loras = (
                int(array[min(bad, array.size - 1)]) for array in flat
            )
            try:
                _refuse(
                    reqs, tokens, lens, loras, longest, num_ubatches, self.max_num_seqs
                )
            except ConfigError as error:
                raise ConfigError(f"step {bad}: {error}") from None
        indices: Int64 = found.reshape(shape)
        return indices

    def explain(
        self, num_reqs: int, query_len: int, num_active_loras: int = 0
    ) -> Served:
        """The graph of one uniform decode step, and what hides a better one.

        Args:
            num_reqs: Requests in the step.
            query_len: Tokens per request.
            num_active_loras: LoRA adapters active in the step.

        Raises:
            ConfigError: If a number is out of range.

        Example:
            >>> rows = [(1, 8, 6), (9, 32, 4), (33, 128, 3)]
            >>> graphs = GraphSet(range(8, 513, 8), max_num_seqs=128,
            ...                   num_speculative_tokens=6, schedule=rows)
            >>> served = graphs.explain(1, 7)
            >>> served.graph.mode, served.own.num_tokens, served.hidden_by.num_tokens
            ('PIECEWISE', 14, 8)
        """
        num_reqs = count("num_reqs", num_reqs, 1, self.max_num_seqs)
        query_len = count("query_len", query_len)
        loras = count("num_active_loras", num_active_loras, 0)
        graph, own, hidden_by = (
            int(found[0])
            for found in self._table.explain_many(
                np.array([num_reqs]), np.array([query_len]), loras
            )
        )
        return Served(
            num_reqs,
            query_len,
            self.dispatch(
                num_reqs,
                num_reqs * query_len,
                query_len,
                loras,
                max_query_len=query_len,
            )
            if graph >= 0
            else Graph("NONE", num_reqs * query_len, num_reqs, None, loras),
            self.all_graphs[own] if own >= 0 else None,
            self.all_graphs[hidden_by] if hidden_by >= 0 else None,
        )

    def coverage(self, num_active_loras: int | None = None) -> Coverage:
        """Which graph serves every batch of the schedule.

        Args:
            num_active_loras: Active LoRA adapters of the batches; the first
                LoRA case when not given. All cases have the same coverage.

        Raises:
            ConfigError: If max_num_seqs x context columns is over 2**24; ask
                `explain` or `dispatch_many` for single batches then.
        """
        return Coverage(self, num_active_loras)

    def __repr__(self) -> str:
        return (
            f"<GraphSet {self.policy}, {self.mode}: {self.num_graphs} graphs, query "
            f"lengths {', '.join(map(str, self.query_lens))}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (self._arguments,))


def _restore(arguments: dict[str, Any]) -> GraphSet:
    return GraphSet(**arguments)


def size_array(sizes: Iterable[int]) -> Int64:
    """Sizes in tokens as an ascending array without repeats.

    Raises:
        ConfigError: If one is not a whole number between 1 and 2**31 - 1.
    """
    if isinstance(sizes, str | bytes) or not isinstance(sizes, Iterable):
        raise ConfigError(
            f"sizes must be a list of token counts, not {sizes!r:.80}; write [1, 2, 4]"
        )
    if isinstance(sizes, np.ndarray) and sizes.dtype.kind in "iu":
        array = sizes.ravel()
    else:
        values = list(sizes)
        if set(map(type, values)) <= {int}:
            try:
                array = np.array(values, np.int64)
            except OverflowError:
                array = np.array([_checked_sizes(values)], np.int64)
        else:
            array = np.array(_checked_sizes(values), np.int64)
    if array.size and not (array.min() >= 1 and array.max() <= MAX_COUNT):
        _checked_sizes(array.tolist())
    array = array.astype(np.int64, copy=False)
    if np.all(array[1:] > array[:-1]):
        return np.ascontiguousarray(array)
    return np.unique(array)


def _checked_sizes(values: list[Any]) -> list[int]:
    return [count(f"sizes[{i}]", value) for i, value in enumerate(values)]


def _lora_cases(cases: Iterable[int]) -> tuple[int, ...]:
    values = tuple(
        count(f"lora_cases[{i}]", case, 0) for i, case in enumerate(cases)
    ) or (0,)
    if len(set(values)) < len(values):
        raise ConfigError(
            f"lora_cases {values} repeats a case, and a graph can be captured only "
            "once; list each count once"
        )
    return values


def one_of(name: str, value: object, known: Iterable[str]) -> str:
    names = tuple(known)
    if not isinstance(value, str) or value not in names:
        raise ConfigError(
            f"{name} must be one of {', '.join(names)}, not {value!r:.80}"
        )
    return value


def _step_array(name: str, values: npt.ArrayLike) -> Int64:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        flat = [whole(value) for value in array.ravel().tolist()]
        if any(value is None for value in flat):
            raise ConfigError(f"{name} must be whole numbers, not {array.dtype}")
        array = np.array(flat, np.int64).reshape(array.shape)
    return array.astype(np.int64, order="C", copy=False)


def _refuse(
    num_reqs: int,
    num_tokens: int,
    query_len: int,
    num_active_loras: int,
    max_query_len: int,
    num_ubatches: int,
    max_num_seqs: int,
) -> NoReturn:
    """Says which number of a step is out of range."""
    if not 0 <= num_reqs <= max_num_seqs:
        raise ConfigError(
            f"num_reqs must be between 0 and max_num_seqs={max_num_seqs}, not "
            f"{num_reqs}; a server never schedules more requests than max_num_seqs"
        )
    if num_tokens < 0:
        raise ConfigError(f"num_tokens must be >= 0, not {num_tokens}")
    for name, value in (("query_len", query_len), ("max_query_len", max_query_len)):
        if value < 0:
            raise ConfigError(
                f"{name} must be at least 1, or None when it does not apply"
            )
    if num_active_loras < 0:
        raise ConfigError(f"num_active_loras must be >= 0, not {num_active_loras}")
    raise ConfigError(f"num_ubatches must be at least 1, not {num_ubatches}")


__all__ = ["CandidateTable", "Graph", "GraphSet", "Mode", "Policy", "Served"]
