"""Damaged inputs for the readers' fuzz tests: a few hundred each, and ten thousand in the long tests."""

from __future__ import annotations

import copy
import math
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sweep import parquet_file
from sweep.errors import UserError
from sweep.parquet_file import ParquetDecoder

CASES: list[Any] = [200, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(7200)])]

JUNK: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**30]),
    st.sampled_from([0.5, -0.5, 1e-320, 1e308, math.nan, math.inf, -math.inf]),
    st.text(max_size=6),
    st.sampled_from(["../../etc/passwd", "/etc/passwd", "\x00", "x" * 5000, "null", "NaN", "1e999", "fp8"]),
    st.just([]),
    st.just({}),
    st.lists(st.integers(-2, 2), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


def places(document: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of everything in a document, itself left out."""
    inner = document.items() if isinstance(document, dict) else ()
    inner = enumerate(document) if isinstance(document, list) else inner
    return [p for key, value in inner for p in ((*prefix, key), *places(value, (*prefix, key)))]


@st.composite
def damaged(draw: st.DrawFn, document: Any) -> Any:
    """The document with one to three of its values replaced by junk, or taken out."""
    found = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        paths = places(found)
        if not paths:
            break
        *way, last = draw(st.sampled_from(paths))
        holder = found
        for key in way:
            holder = holder[key]
        if draw(st.integers(0, 3)) == 0:
            del holder[last]
        else:
            holder[last] = draw(JUNK)
    return found


@st.composite
def damaged_text(draw: st.DrawFn, text: str) -> bytes:
    """Text with some bytes replaced, cut out or put in, and sometimes cut short."""
    data = bytearray(text.encode())
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        length = draw(st.integers(0, 6))
        junk = draw(
            st.one_of(
                st.binary(max_size=6),
                st.sampled_from(
                    [b",", b"\n", b'"', b"-1", b"nan", b"inf", b"1e999", b"", b"9" * 25, b"[", b"{", b"!!"]
                ),
            )
        )
        data[at : at + length] = junk
    if draw(st.integers(0, 9)) == 0:
        del data[draw(st.integers(0, len(data))) :]
    return bytes(data)


@pytest.fixture
def one_decoder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Parquet files go through one process that is kept, so that a case takes milliseconds; one that ends is replaced."""
    start = parquet_file._started
    running: list[subprocess.Popen[bytes]] = []

    def started() -> subprocess.Popen[bytes]:
        if not running or running[-1].poll() is not None:
            running.append(start())
        return running[-1]

    monkeypatch.setattr(parquet_file, "_started", started)
    monkeypatch.setattr(ParquetDecoder, "__exit__", lambda *_: None)
    yield
    for process in running:
        process.kill()
        process.communicate()


def fuzz(cases: int, inputs: st.SearchStrategy[Any], take: Callable[[Any], object]) -> None:
    """Give `take` so many inputs: it returns, or raises UserError with one line."""

    @settings(
        max_examples=cases,
        derandomize=cases < 1000,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        phases=[Phase.generate],
    )
    @given(inputs)
    def one(value: Any) -> None:
        try:
            take(value)
        except UserError as error:
            assert error.message
            assert len(error.message.splitlines()) == 1
            assert error.message.isprintable()

    one()
