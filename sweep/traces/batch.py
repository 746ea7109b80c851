"""A few thousand requests on their way from a file into `Requests`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sweep.errors import UserError
from sweep.traces.requests import Hashes, Int32s, Int64s, Ragged, Requests, in_order, offsets


@dataclass(frozen=True)
class Batch:
    """Columns of consecutive lines; `line` is where each request stands, `parent` counts from the batch's start."""

    line: Int64s
    arrival_ns: Int64s
    isl: Int32s
    osl: Int32s
    blocks: Ragged | None = None
    tokens: Ragged | None = None
    model: pl.Series | None = None
    parent: Int64s | None = None
    tool_ns: Int64s | None = None

    def __len__(self) -> int:
        return len(self.line)


class ModelCodes:
    """Numbers the models of a trace in the order in which they appear."""

    def __init__(self) -> None:
        self._code: dict[str, int] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names by code."""
        return tuple(self._code)

    def code(self, name: str) -> int:
        """The code of one name. Raises UserError beyond 32,767 names."""
        code = self._code.setdefault(name, len(self._code))
        if code > np.iinfo(np.int16).max:
            raise UserError("more than 32,767 different models in one trace", field="columns.model")
        return code

    def coded(self, column: pl.Series) -> NDArray[np.int16]:
        """Codes of a column of names; missing ones are the empty name."""
        names = column.fill_null("")
        for name in names.unique(maintain_order=True).to_list():
            self.code(name)
        return names.replace_strict(
            list(self._code), list(self._code.values()), return_dtype=pl.Int16
        ).to_numpy()


class Builder:
    """Collects batches; column by column they become one `Requests`, so that no column is held twice."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self._models = ModelCodes()
        self._codes: list[NDArray[np.int16]] = []
        self.n = 0

    def add(self, batch: Batch) -> None:
        self._codes.append(np.zeros(0, np.int16) if batch.model is None else self._models.coded(batch.model))
        self.batches.append(batch)
        self.n += len(batch)

    def requests(self, *, block_tokens: int, absolute: bool) -> Requests:
        """All requests in order of arrival. Dates become times since the first of them."""
        arrival: Int64s = self._joined("arrival_ns", np.int64)
        epoch = int(arrival.min()) if absolute and len(arrival) else None
        if epoch is not None:
            arrival -= epoch
        blocks = self._ragged("blocks", np.uint64)
        parent = self._parents()
        model = None
        if self._models.names and self._models.names != ("",):
            parts = zip(self.batches, self._codes, strict=True)
            missing = self._models.code("") if self._partial("model") else 0
            model = np.concatenate(
                [codes if b.model is not None else np.full(len(b), missing, np.int16) for b, codes in parts]
            )
        unsorted = Requests(
            arrival_ns=arrival,
            isl=self._joined("isl", np.int32),
            osl=self._joined("osl", np.int32),
            parent=parent,
            tool_ns=None if parent is None else self._joined("tool_ns", np.int64),
            blocks=blocks,
            block_tokens=block_tokens if blocks is not None else 0,
            tokens=self._ragged("tokens", np.int32),
            model=model,
            models=self._models.names if model is not None else (),
            epoch_ns=epoch,
        )
        self.batches.clear()
        return in_order(unsorted)

    def _partial(self, name: str) -> bool:
        return any(getattr(batch, name) is None for batch in self.batches)

    def _joined(self, name: str, dtype: type) -> NDArray[Any]:
        parts = [getattr(b, name) for b in self.batches]
        filled = [
            np.zeros(len(b), dtype) if p is None else p for b, p in zip(self.batches, parts, strict=True)
        ]
        return np.concatenate(filled) if filled else np.zeros(0, dtype)

    def _ragged(self, name: str, dtype: type) -> Ragged | None:
        if all(getattr(batch, name) is None for batch in self.batches):
            return None
        rows = [
            getattr(b, name) or Ragged(np.zeros(len(b) + 1, np.int64), np.zeros(0, dtype))
            for b in self.batches
        ]
        return Ragged(
            offsets(np.concatenate([r.length for r in rows])), np.concatenate([r.value for r in rows])
        )

    def _parents(self) -> Int64s | None:
        if all(batch.parent is None for batch in self.batches):
            return None
        starts = offsets(np.array([len(b) for b in self.batches]))[:-1]
        none = np.int64(-1)
        return np.concatenate(
            [
                np.full(len(b), none) if b.parent is None else np.where(b.parent < 0, none, b.parent + start)
                for b, start in zip(self.batches, starts, strict=True)
            ]
        )


def ragged(lists: list[NDArray[Any]], dtype: type) -> Ragged:
    """Rows given one by one as a `Ragged`."""
    value: NDArray[Any] = np.concatenate(lists).astype(dtype) if lists else np.zeros(0, dtype)
    return Ragged(offsets(np.array([len(one) for one in lists], np.int64)), value)


def as_hashes(ids: NDArray[np.int64]) -> Hashes:
    """Hash ids of a file as unsigned words; only equality matters."""
    return ids.view(np.uint64)
