# SPDX-License-Identifier: Apache-2.0
"""Lookups: which k for this step, on one server's limits."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from specgrid import _backend
from specgrid._check import MAX_COUNT, count, whole
from specgrid._errors import ConfigError

if TYPE_CHECKING:
    import torch

    from specgrid._schedule import Schedule

DEFAULT_MAX_DENSE_BYTES = 8 * 2**30


class Tier(NamedTuple):
    """All uniform decode batches of one query length.

    Attributes:
        query_len: Tokens per request in a step, 1 + k.
        k: Draft tokens per request.
        min_batch: Fewest requests at which any context schedules k.
        max_batch: Most requests at which any context schedules k.
    """

    query_len: int
    k: int
    min_batch: int
    max_batch: int


class Lookup:
    """The table from (batch, context) to k, kept factorised.

    Batches in the gaps and after the end of a schedule carry the range before
    them, and k is clamped to num_speculative_tokens, as vLLM does
    (`build_dynamic_sd_schedule_lookup`, 0.33.0; columns as in #48944). What is
    stored is one row per batch range, so limits in the billions cost nothing.

    Made by `Schedule.lookup`. `lookup[batch]` needs a single context column,
    `lookup[batch, context]` always works; batch 0 drafts nothing.

    Args:
        schedule: The schedule to lay over the limits.
        max_num_seqs: Most requests in a step, 1 to 2**31 - 1.
        num_speculative_tokens: Largest k, 1 to 2**31 - 2.

    Raises:
        ConfigError: If a limit is out of range.

    Example:
        >>> from specgrid import Schedule
        >>> rows = [(1, 32, 1, 512, 3), (1, 32, 513, 4096, 2)]
        >>> lookup = Schedule(rows).lookup(32, 3)
        >>> lookup[8, 100], lookup[8, 100_000]
        (3, 2)
    """

    __slots__ = (
        "_dense",
        "_impl",
        "_schedule",
        "max_num_seqs",
        "num_speculative_tokens",
    )

    def __init__(
        self, schedule: Schedule, max_num_seqs: int, num_speculative_tokens: int
    ) -> None:
        self.max_num_seqs = count("max_num_seqs", max_num_seqs)
        self.num_speculative_tokens = count(
            "num_speculative_tokens",
            num_speculative_tokens,
            high=MAX_COUNT - 1,
            remedy="a schedule needs a server that drafts",
        )
        self._schedule = schedule
        self._impl = _backend.active().Lookup(
            schedule._batches,
            schedule._contexts,
            schedule._k,
            self.max_num_seqs,
            self.num_speculative_tokens,
        )
        self._dense: npt.NDArray[Any] | None = None

    # ---- single answers -------------------------------------------------------

    def __getitem__(self, key: int | tuple[int, int]) -> int:
        if isinstance(key, tuple) and len(key) == 2:
            batch, context = key
        elif self._impl.num_columns == 1:
            batch, context = key, 0
        else:
            raise TypeError(
                f"this lookup has {self.num_columns} context columns; write "
                "lookup[batch, context]"
            )
        try:
            k: int = self._impl.at(batch, context)
        except IndexError:
            raise self._index_error(batch, context) from None
        except TypeError:
            # Floats, NumPy scalars and integers beyond 64 bits come here.
            whole_batch, whole_context = whole(batch), whole(context)
            if whole_batch is None or whole_context is None:
                raise TypeError(
                    "batch and context must be whole numbers, not "
                    f"{batch!r:.40} and {context!r:.40}"
                ) from None
            if not 0 <= whole_batch <= self.max_num_seqs or whole_context < 0:
                raise self._index_error(whole_batch, whole_context) from None
            k = self._impl.at(whole_batch, min(whole_context, MAX_COUNT))
        return k

    def _index_error(self, batch: int, context: int) -> IndexError:
        if context < 0:
            return IndexError(f"context must be >= 0, not {context}")
        return IndexError(f"batch must be in 0..{self.max_num_seqs}, not {batch}")

    def bucket_of(self, context: int) -> int:
        """Index of the context column for `context` computed tokens (>= 0).

        Raises:
            IndexError: If context is negative.
        """
        number = whole(context)
        if number is None:
            raise TypeError(f"context must be a whole number, not {context!r:.40}")
        if number < 0:
            raise self._index_error(1, number)
        column: int = self._impl.column_of(min(number, MAX_COUNT))
        return column

    def __len__(self) -> int:
        return self.max_num_seqs + 1

    @property
    def num_columns(self) -> int:
        """How many context ranges the table tells apart."""
        columns: int = self._impl.num_columns
        return columns

    @property
    def context_ranges(self) -> tuple[tuple[int, int], ...]:
        """Inclusive (context_lo, context_hi) of each column, in tokens."""
        return self._schedule.context_ranges

    @property
    def schedule(self) -> Schedule:
        """The schedule the table was made from."""
        return self._schedule

    # ---- whole tables -----------------------------------------------------------

    def dense(
        self,
        dtype: npt.DTypeLike | None = None,
        *,
        max_dense_bytes: int = DEFAULT_MAX_DENSE_BYTES,
    ) -> npt.NDArray[Any]:
        """The whole table as an array.

        Args:
            dtype: Type of the elements. When not given: the smallest unsigned
                type that holds num_speculative_tokens.
            max_dense_bytes: Largest table that is made; bytes.

        Returns:
            Array (max_num_seqs + 1, num_columns), row 0 zero. Without dtype a
            read-only view of one table that the lookup keeps, with dtype a
            writable copy.

        Raises:
            ConfigError: If the table would be over max_dense_bytes, or dtype
                cannot hold its values. Nothing is allocated then.

        Example:
            >>> from specgrid import Schedule
            >>> Schedule([(1, 2, 4), (3, 9, 1)]).lookup(3, 4).dense()
            array([[0], [4], [4], [1]], dtype=uint8)
        """
        item_bytes = self._item_bytes()
        wanted = None if dtype is None else np.dtype(dtype)
        if wanted is not None and (
            wanted.kind not in "iuf"
            or (wanted.kind != "f" and np.iinfo(wanted).max < self._largest_k())
        ):
            raise ConfigError(
                f"dtype {wanted} cannot hold k up to {self._largest_k()}; "
                f"use {self._natural_dtype()}"
            )
        self._check_size(wanted or self._natural_dtype(), max_dense_bytes)
        if self._dense is None:
            if wanted is not None and wanted != self._natural_dtype():
                table: npt.NDArray[Any] = self._impl.dense(item_bytes)
                return table.astype(wanted)
            self._dense = self._impl.dense(item_bytes)
        if wanted is not None:
            return self._dense.astype(wanted)
        view = self._dense.view()
        view.flags.writeable = False
        return view

    def tolist(
        self, *, max_dense_bytes: int = DEFAULT_MAX_DENSE_BYTES
    ) -> list[int] | list[list[int]]:
        """The whole table as lists; what vLLM's scheduler indexes.

        Returns:
            `list[int]` of length max_num_seqs + 1 with one context column, else
            a list of one list per batch. Index 0 is zero.

        Raises:
            ConfigError: If the lists would be over max_dense_bytes.
        """
        self._check_size(np.dtype(np.uintp), max_dense_bytes)
        if self._impl.num_columns == 1:
            column: list[int] = self._impl.column_list()
            return column
        rows: list[list[int]] = self.dense(max_dense_bytes=max_dense_bytes).tolist()
        return rows

    def gather(
        self, batches: npt.ArrayLike, contexts: npt.ArrayLike | None = None
    ) -> npt.NDArray[np.int32]:
        """k for many steps at once.

        Args:
            batches: Requests per step, whole numbers in 0..max_num_seqs.
            contexts: Computed tokens per step, >= 0, same shape or broadcast
                with batches. Needed with more than one context column.

        Returns:
            k per step, int32, in the broadcast shape.

        Raises:
            IndexError: If a batch or context is out of range; names its place.
            TypeError: If the arrays are not whole numbers.

        Example:
            >>> from specgrid import Schedule
            >>> Schedule([(1, 4, 2), (5, 8, 1)]).lookup(8, 2).gather([0, 4, 5])
            array([0, 2, 1], dtype=int32)
        """
        if contexts is None and self._impl.num_columns > 1:
            raise TypeError(
                f"this lookup has {self.num_columns} context columns; give contexts"
            )
        b = _int64("batches", batches)
        c = _int64("contexts", contexts) if contexts is not None else None
        if c is not None and c.shape != b.shape:
            b, c = (np.ascontiguousarray(x) for x in np.broadcast_arrays(b, c))
        flat_contexts = np.empty(0, np.int64) if c is None else c.ravel()
        try:
            found: npt.NDArray[np.int32] = self._impl.gather(b.ravel(), flat_contexts)
        except IndexError as error:
            at = int(str(error))
            context = 0 if c is None else int(flat_contexts[at])
            reason = self._index_error(int(b.ravel()[at]), context)
            raise IndexError(f"element {at}: {reason}") from None
        return found.reshape(b.shape)

    def to_torch(self, device: Any = None) -> torch.Tensor:
        """The dense table as a tensor; on the CPU over the same memory.

        Args:
            device: Where to copy the tensor; stays on the CPU when not given.

        Raises:
            ImportError: If torch is not installed; says how to get it.
        """
        try:
            import torch
        except ImportError as error:
            raise ImportError(
                "to_torch needs torch: pip install 'specgrid[torch]'"
            ) from error
        self.dense()
        assert self._dense is not None
        tensor = torch.from_numpy(self._dense)
        return tensor if device is None else tensor.to(device)

    # ---- summaries ----------------------------------------------------------------

    def tiers(self) -> list[Tier]:
        """The narrowest and widest batch of every reachable k.

        Taken over all context columns, so a tier holds every batch that some
        context drafts k tokens at. Sorted by query length; needs no dense
        table.

        Example:
            >>> from specgrid import Schedule
            >>> Schedule([(1, 16, 16), (17, 256, 2)]).lookup(256, 16).tiers()
            [Tier(query_len=3, k=2, min_batch=17, max_batch=256),
             Tier(query_len=17, k=16, min_batch=1, max_batch=16)]
        """
        return [Tier(*tier) for tier in self._impl.tiers()]

    @property
    def is_constant(self) -> bool:
        """Whether every batch and context has the same k."""
        return len(self.tiers()) == 1

    @property
    def digest(self) -> str:
        """SHA-256 of the table, hex; equal for equal tables everywhere.

        Two schedules written differently that give every (batch, context) the
        same k under the same max_num_seqs have the same digest.
        """
        starts, context_his, k = self._impl.canonical()
        state = hashlib.sha256(b"specgrid lookup 1\0")
        for part in ([self.max_num_seqs, len(starts)], starts, context_his, k):
            state.update(np.ascontiguousarray(part, dtype="<i8").tobytes())
        return state.hexdigest()

    def _largest_k(self) -> int:
        return self.tiers()[-1].k

    def _item_bytes(self) -> int:
        return int(self._natural_dtype().itemsize)

    def _natural_dtype(self) -> np.dtype[Any]:
        return np.min_scalar_type(self.num_speculative_tokens)

    def _check_size(self, dtype: np.dtype[Any], max_dense_bytes: int) -> None:
        needed = len(self) * self.num_columns * dtype.itemsize
        if needed > max_dense_bytes:
            raise ConfigError(
                f"a dense table of {len(self)} x {self.num_columns} {dtype} needs "
                f"{needed} bytes, over max_dense_bytes={max_dense_bytes}; use "
                "lookup[batch, context], gather() or tiers(), which need no table"
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Lookup):
            return NotImplemented
        return (
            self.num_speculative_tokens == other.num_speculative_tokens
            and self.digest == other.digest
        )

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return (
            f"<Lookup of {self.max_num_seqs} requests x {self.num_columns} context "
            f"columns, k up to {self.num_speculative_tokens}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            Lookup,
            (self._schedule, self.max_num_seqs, self.num_speculative_tokens),
        )


def _int64(name: str, values: npt.ArrayLike) -> npt.NDArray[np.int64]:
    array = np.asarray(values)
    if array.size == 0:
        return np.empty(array.shape, np.int64)
    if array.dtype.kind == "f" and np.all(np.isfinite(array) & (array % 1 == 0)):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be whole numbers, not {array.dtype}")
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise IndexError(f"{name} must be below 2**63, not {array.max()}")
    return np.ascontiguousarray(array, dtype=np.int64)
