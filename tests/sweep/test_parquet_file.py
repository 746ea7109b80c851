"""Parquet files of others: read as they are, and over any damage refused by name while the program goes on."""

from __future__ import annotations

import base64
import io
import zlib
from pathlib import Path

import polars as pl
import pytest

from sweep import parquet_child, parquet_file
from sweep.cli import main
from sweep.errors import UserError
from sweep.parquet_file import ParquetDecoder, read_parquet
from sweep.table_io import read_table
from sweep.traces.reader import read

FATAL = zlib.decompress(
    base64.b64decode(
        "eNq1k79v00AUx88/GlnA0CHvFEsePIDVClQcl2IbdeglLSUiCY4BVUyVE8dpwI0ruyQtEwN/QGcmxv4BDPwVDPwNiL+gExPvbCsNGSoW"
        "nk73fXfv3fu8O9ke8+sggwlmGypArk0oVSoVCFSh+gBewiomVggRefC2KN0lIKtbpLKq1m4FaTqeBvHhJANCFfpRwGH4hoIpsAM7bVBg"
        "obS4hJCXUMoiShFE6ec1Shpncc64EHAYl6LxXfgPlOQvypVkfJaIqlEfHlPMRu9SnLtXUuGCqLafyWmSnGJVkO+Ji+9SbPDuSw8JCFA1"
        "ddv4IWj/8JT0lwxVYnyTtJsfg/6WgRLj04p283XoxQrm0S8SVQwFpcovU7vDfP/FwZNscDQ8DmpfxYfcXIeh7fHJmeL6rFeu863njGWs"
        "mWuP3fcwPpvx/RZjozKvg9J4xxddPjF+vvmal27xZYOV+TxUCMY7PJ6TCs4un/qb3Yx1djHijOaRgtMoBK39ljfN5qiCfzKwZszm/X0Y"
        "zQ/tF/WbeWajxVtB3eP3QZsVNbxXS/VGrNnjaFReZf/p+eA4tt4cnEX9SYeRWtdL4iDN9LWT89OjZLKuT4dpNk4murVR3zD1tf77cRzq"
        "duSaVj/cjKLQsqPIscL6I8t2AtMNLHcriqzIDoaha62r2xohxSARfq4e/rx/ABbOtx8="
    )
)
"""A trace of four requests with one byte of a definition level changed: a run of 2^61 rows, for which polars 1 and 2
ask memory and, as there is none, end their process."""
FRAME = pl.DataFrame(
    {"arrival_ns": [0, 1000, 2000], "isl": [10, 20, 30], "osl": [1, 2, 3], "kind": ["a", None, "c"], "ids": [[1], [], [2, 3]]}
)  # fmt: skip


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    FRAME.write_parquet(tmp_path / "sound.parquet")
    return tmp_path / "sound.parquet"


@pytest.fixture
def fatal(tmp_path: Path) -> Path:
    (tmp_path / "fatal.parquet").write_bytes(FATAL)
    return tmp_path / "fatal.parquet"


def test_a_sound_file_is_read_as_it_is(sound: Path) -> None:
    typed = FRAME.with_columns(
        pl.col("kind").cast(pl.Categorical), at=pl.col("arrival_ns").cast(pl.Datetime("ns"))
    )
    with ParquetDecoder() as decoder:
        for frame in (FRAME, typed, FRAME.clear()):
            frame.write_parquet(sound)
            found = decoder.table(sound)
            assert found.equals(frame)
            assert found.schema == frame.schema
            assert decoder.table(sound, ["osl", "isl"]).equals(frame.select("osl", "isl"))


def test_a_long_table_comes_in_pieces(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_file, "ROWS_AT_ONCE", 2)
    assert read_parquet(sound).equals(FRAME)


def test_a_name_with_signs_of_a_pattern_is_a_name(tmp_path: Path) -> None:
    FRAME.write_parquet(tmp_path / "a.parquet")
    FRAME.head(1).write_parquet(tmp_path / "[a].parquet")
    assert read_parquet(tmp_path / "[a].parquet").height == 1


def test_damage_that_ends_the_decoder_is_one_line_of_the_program(
    fatal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["workload", str(fatal)]) == 2
    told = capsys.readouterr().err
    assert len(told.splitlines()) == 1
    assert "fatal.parquet: is damaged" in told
    with pytest.raises(UserError, match=r"fatal\.parquet: is damaged"):
        read_table(fatal)


def test_another_file_is_read_after_one_that_ended_the_decoder(fatal: Path, sound: Path) -> None:
    with ParquetDecoder() as decoder:
        with pytest.raises(UserError, match="is damaged"):
            decoder.table(fatal)
        assert decoder.table(sound).equals(FRAME)


def test_a_file_without_its_ends_starts_no_decoder(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_file, "_started", None)
    whole = sound.read_bytes()
    for content in (b"", b"PAR1", whole[:-1], whole[1:], whole[:4] + whole[-8:]):
        sound.write_bytes(content)
        with pytest.raises(UserError, match="no whole parquet file"):
            read_parquet(sound)
    with pytest.raises(UserError, match=r"absent\.parquet: cannot be read"):
        read_parquet(sound.with_name("absent.parquet"))


def test_a_decoder_that_does_not_answer_is_ended(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "silent.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setattr(parquet_child, "__file__", str(tmp_path / "silent.py"))
    monkeypatch.setattr(parquet_file, "MOST_SECONDS", 0.2)
    with pytest.raises(UserError, match="is damaged, or needs more than"):
        read_parquet(sound)


def test_what_does_not_fit_in_the_decoders_memory_is_refused(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = Path(parquet_child.__file__).read_text()
    small = child.replace("MOST_BYTES = 8 * 1024**3", "MOST_BYTES = 1024**3")
    assert small != child
    (tmp_path / "small.py").write_text(small)
    monkeypatch.setattr(parquet_child, "__file__", str(tmp_path / "small.py"))
    pl.DataFrame({"isl": pl.zeros(2**27, pl.Int64, eager=True)}).write_parquet(sound)
    with ParquetDecoder() as decoder, pytest.raises(UserError, match="is damaged, or needs more than"):
        decoder.rows(sound, None, 0, 2**27)


def test_fewer_rows_than_are_promised_are_told(sound: Path) -> None:
    with ParquetDecoder() as decoder, pytest.raises(UserError, match="fewer rows than it says"):
        decoder.rows(sound, None, 1, 3)


def test_a_decoder_that_panics_is_started_anew(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = Path(parquet_child.__file__).read_text()
    line = "    scan = pl.scan_parquet"
    panics = child.replace(
        line,
        f"    if request['file'].endswith('panic.parquet'):\n        raise pl.exceptions.PanicException('x')\n{line}",
    )
    assert panics != child
    (tmp_path / "child.py").write_text(panics)
    monkeypatch.setattr(parquet_child, "__file__", str(tmp_path / "child.py"))
    panicking = sound.with_name("panic.parquet")
    panicking.write_bytes(sound.read_bytes())
    with ParquetDecoder() as decoder:
        with pytest.raises(UserError, match=r"panic\.parquet: cannot be read: x"):
            decoder.table(panicking)
        assert decoder.table(sound).equals(FRAME)


def test_rows_that_a_damaged_footer_promises_are_not_waited_for(
    sound: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ParquetDecoder, "height", lambda self, path: 2**62)
    for reader in (read, read_parquet):
        with pytest.raises(UserError, match="fewer rows than it says"):
            reader(sound)


def test_a_sound_trace_takes_the_types_of_its_file(tmp_path: Path) -> None:
    out = io.BytesIO()
    FRAME.with_columns(pl.col("isl").cast(pl.Int16)).write_parquet(out)
    (tmp_path / "t").write_bytes(out.getvalue())
    assert read(tmp_path / "t").requests.isl.tolist() == [10, 20, 30]
