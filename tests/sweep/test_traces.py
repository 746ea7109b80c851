"""Readers of traces: formats, faults told with their place, and the fast path against the careful one."""

import gzip
import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.errors import UserError
from sweep.traces import reader, source
from sweep.traces.problems import POLICIES
from sweep.traces.reader import read
from sweep.traces.requests import Ragged, Requests, offsets

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"


def written(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def plain_csv(n, seed=1):
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "arrival_ns": np.cumsum(rng.integers(0, 10**8, n)),
            "isl": rng.integers(1, 4000, n),
            "osl": rng.integers(1, 900, n),
        }
    )
    return frame, frame.write_csv().encode()


def test_azure_dates_become_nanoseconds_since_the_first_request(tmp_path):
    requests = read(written(tmp_path, "a.csv", AZURE)).requests
    assert requests.epoch_ns == 1_700_158_546_680_590_000
    assert requests.arrival_ns.tolist() == [0, 4_314_579_000]
    assert requests.isl.tolist() == [374, 396]
    assert requests.osl.tolist() == [44, 109]
    assert (requests.arrival_ns.dtype, requests.isl.dtype, requests.osl.dtype) == (
        np.int64,
        np.int32,
        np.int32,
    )


def test_mooncake_hash_ids_become_ragged_blocks(tmp_path):
    lines = [
        {"timestamp": 0, "input_length": 1100, "output_length": 5, "hash_ids": [0, 1, 2]},
        {"timestamp": 3000, "input_length": 600, "output_length": 7, "hash_ids": [0, 9]},
    ]
    requests = read(written(tmp_path, "m.jsonl", "".join(json.dumps(x) + "\n" for x in lines))).requests
    assert requests.arrival_ns.tolist() == [0, 3_000_000_000]
    assert requests.block_tokens == 512
    assert [requests.blocks.row(i).tolist() for i in range(2)] == [[0, 1, 2], [0, 9]]


def test_sessions_become_a_chain_of_dependent_turns_after_the_requests_that_arrive_by_themselves(tmp_path):
    session = {
        "session_id": "s",
        "arrival_time_ns": 50,
        "sub_requests": [
            {"input_toks": 10, "output_toks": 2, "tool_duration_ns": 700},
            {"input_toks": 20, "output_toks": 3, "tool_duration_ns": 900},
            {"input_toks": 30, "output_toks": 4},
        ],
    }
    flat = {
        "input_toks": 5,
        "output_toks": 6,
        "arrival_time_ns": 80,
        "input_tok_ids": [1, 2],
        "output_tok_ids": [3],
    }
    empty = {"session_id": "none", "sub_requests": []}
    text = "".join(json.dumps(x) + "\n" for x in (session, flat, empty))
    requests = read(written(tmp_path, "s.jsonl", text)).requests
    assert requests.arrival_ns.tolist() == [50, 80, 50, 50]
    assert requests.isl.tolist() == [10, 5, 20, 30]
    assert requests.parent.tolist() == [-1, -1, 0, 2]
    assert requests.tool_ns.tolist() == [0, 0, 700, 900]
    assert requests.file_order.tolist() == [0, 3, 1, 2]
    assert requests.n_open == 2
    assert requests.tokens.row(1).tolist() == [1, 2, 3]
    assert len(requests.tokens.row(0)) == 0


def test_a_prompt_without_ids_has_no_identity_even_where_its_output_has(tmp_path):
    text = '{"input_toks":1,"output_toks":1,"arrival_time_ns":0,"input_tok_ids":[7],"output_tok_ids":[8]}\n'
    text += '{"input_toks":1,"output_toks":1,"arrival_time_ns":1,"output_tok_ids":[8]}\n'
    text += '{"input_toks":1,"output_toks":1,"arrival_time_ns":2,"input_tok_ids":[7]}\n'
    for many in (1, 100):
        tokens = read(written(tmp_path, "t.jsonl", text * many), on_bad_line="stop").requests.tokens
        assert sorted(tokens.length.tolist()) == [0] * many + [1] * many + [2] * many


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "json", "parquet"])
def test_columns_are_found_by_mapping_in_every_format(tmp_path, suffix):
    frame = pl.DataFrame({"when": [1.5, 2.25], "In Tok": [10, 20], "out": [3, 4], "who": ["a", "b"]})
    path = tmp_path / f"t.{suffix}"
    {
        "csv": frame.write_csv,
        "jsonl": frame.write_ndjson,
        "json": frame.write_json,
        "parquet": frame.write_parquet,
    }[suffix](path)
    requests = read(path, columns="arrival=when:s; isl=In Tok, osl=out,model=who").requests
    assert requests.arrival_ns.tolist() == [1_500_000_000, 2_250_000_000]
    assert requests.isl.tolist() == [10, 20]
    assert [requests.models[m] for m in requests.model] == ["a", "b"]
    assert requests.of_model("b").osl.tolist() == [4]


@pytest.mark.parametrize(
    ("first", "unit_ns", "absolute"),
    [
        ("1700000000", 10**9, True),
        ("1700000000123", 10**6, True),
        ("1700000000123456789", 1, True),
        ("12", 10**6, False),
    ],
)
def test_unix_times_are_told_by_their_size(tmp_path, first, unit_ns, absolute):
    trace = read(written(tmp_path, "u.csv", f"timestamp,isl,osl\n{first},1,1\n{int(first) + 5},1,1\n"))
    assert np.diff(trace.requests.arrival_ns).tolist() == [5 * unit_ns]
    assert (trace.requests.epoch_ns == int(first) * unit_ns) is absolute
    assert any("read as milliseconds" in note for note in trace.report.notes) is not absolute


@pytest.mark.parametrize(
    "moment",
    ["2024-05-01T10:00:00Z", "2024-05-01T12:00:00+02:00", "2024-05-01 10:00:00", "2024-05-01T10:00:00.000"],
)
def test_dates_with_and_without_zone_are_read(tmp_path, moment):
    text = "created_at,prompt_tokens,completion_tokens\n" + f"{moment},1,1\n" * 200
    assert read(written(tmp_path, "d.csv", text)).requests.epoch_ns == 1_714_557_600_000_000_000


def test_a_parquet_file_may_hold_dates(tmp_path):
    frame = pl.DataFrame({"timestamp": ["2024-05-01 10:00:00"] * 2, "isl": [1, 2], "osl": [3, 4]})
    frame.with_columns(pl.col("timestamp").str.to_datetime()).write_parquet(tmp_path / "p.parquet")
    assert read(tmp_path / "p.parquet").requests.epoch_ns == 1_714_557_600_000_000_000


def test_rotated_and_gzipped_files_are_one_trace(tmp_path):
    frame, text = plain_csv(300)
    lines = text.splitlines(keepends=True)
    written(tmp_path, "log.csv.2.gz", gzip.compress(b"".join(lines[:101])))
    written(tmp_path, "log.csv.1", b"".join(lines[101:201]))  # rotated away from its header
    written(tmp_path, "log.csv", lines[0] + b"".join(lines[201:]))
    for named in (
        str(tmp_path / "log.csv*"),
        tmp_path,
        [tmp_path / "log.csv.2.gz", tmp_path / "log.csv.1", tmp_path / "log.csv"],
    ):
        requests = read(named).requests
        assert np.array_equal(requests.arrival_ns, frame["arrival_ns"].to_numpy())
        assert np.array_equal(requests.osl, frame["osl"].to_numpy())


@pytest.mark.parametrize(
    ("line", "field", "reason"),
    [
        (b"5,-3,7", "isl", "at least 1"),
        (b"5,10,0", "osl", "at least 1"),
        (b"-5,10,7", "arrival_ns", "negative time"),
        (b"5,10,x", "osl", "not a number"),
        (b"5,10,1.5", "osl", "not a whole number"),
        (b"5,10", "", "2 fields where the header has 3"),
        (b"5,10,7,9", "", "4 fields where the header has 3"),
        (b"5,,7", "isl", "missing"),
        (b"5,10,999999999999", "osl", "at most"),
        (b"5,1_0,7", "isl", "not a number"),
        (b"\xff,10,7", "", "not UTF-8"),
        (b'5,"10,7', "", "not valid CSV"),
    ],
)
def test_a_bad_line_in_the_middle_of_a_large_csv_is_told_with_line_field_and_reason(
    tmp_path, line, field, reason
):
    _, text = plain_csv(50_000)
    lines = text.splitlines()
    lines[31_000] = line
    path = written(tmp_path, "t.csv", b"\n".join(lines) + b"\n")
    with pytest.raises(UserError, match="line 31001") as told:
        read(path)
    assert reason in told.value.message
    assert field in told.value.message
    for policy in ("skip", "report"):
        trace = read(path, on_bad_line=policy)
        assert len(trace.requests) == 49_999
        assert [(bad.line, bad.field) for bad in trace.report.bad] == [(31_001, field)]
        assert "line 31001" in " ".join(trace.report.lines())
        assert trace.report.n_lines == 50_000


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"input_toks":1,', "not valid JSON"),
        ("[1]", "not a JSON object"),
        ('{"input_toks":1,"output_toks":2}', "missing"),
        ('{"input_toks":true,"output_toks":2,"arrival_time_ns":3}', "not a number"),
        ('{"input_toks":NaN,"output_toks":2,"arrival_time_ns":3}', "not a number"),
        (
            '{"input_toks":1,"output_toks":2,"arrival_time_ns":3,"hash_ids":[1,"x"]}',
            "not a list of whole numbers",
        ),
        ('{"arrival_time_ns":3,"sub_requests":[{"input_toks":1}]}', "missing"),
        ('{"arrival_time_ns":3,"sub_requests":5}', "not a list of objects"),
        ("[" * 100_000, "nested too deeply"),
        ('{"input_toks":' + "9" * 5000 + "}", "not valid JSON"),
    ],
)
def test_a_bad_line_of_jsonl_is_told_and_the_rest_runs_on(tmp_path, line, reason):
    good = '{"input_toks":1,"output_toks":2,"arrival_time_ns":3,"hash_ids":[1]}'
    path = written(tmp_path, "t.jsonl", "\n".join([*[good] * 700, line, *[good] * 300]) + "\n")
    with pytest.raises(UserError, match=r"line 701.*" + reason):
        read(path)
    trace = read(path, on_bad_line="report")
    assert len(trace.requests) == 1000
    assert trace.report.n_bad == 1


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("input_length", [{"a": 1}]),
        ("output_length", [True]),
        ("output_length", [[3]]),
        ("timestamp", [{"a": 1}]),
        ("hash_ids", [[[1]]]),
        ("hash_ids", [7]),
        ("model", [["m"]]),
    ],
)
def test_a_column_that_can_hold_nothing_of_its_role_is_named(tmp_path, column, values):
    row = {"timestamp": [0], "input_length": [3], "output_length": [2], "hash_ids": [[1]], "model": ["m"]}
    pl.DataFrame(row | {column: values}).write_parquet(tmp_path / "p.parquet")
    with pytest.raises(UserError, match=f"p.parquet: {column}=.*: a column of this type is not read"):
        read(tmp_path / "p.parquet")


def test_bad_rows_of_parquet_are_told_by_their_number(tmp_path):
    frame = pl.DataFrame({"arrival_ns": [1, 2, 3], "isl": [5, None, -1], "osl": [1, 1, 1]})
    frame.write_parquet(tmp_path / "p.parquet")
    trace = read(tmp_path / "p.parquet", on_bad_line="skip")
    assert [(bad.line, bad.reason) for bad in trace.report.bad] == [(2, "missing"), (3, "must be at least 1")]
    with pytest.raises(UserError, match="line 2"):
        read(tmp_path / "p.parquet")


def test_an_incomplete_last_line_is_left_out_and_noted_under_every_policy(tmp_path):
    for policy in POLICIES:
        trace = read(written(tmp_path, "t.csv", AZURE + "2023-11-16 18:15:5"), on_bad_line=policy)
        assert len(trace.requests) == 2
        assert any("line 4: incomplete last line left out" in note for note in trace.report.notes)


def test_a_gzip_that_is_still_being_written_yields_its_whole_lines(tmp_path):
    _, text = plain_csv(20_000)
    packed = gzip.compress(text)
    trace = read(written(tmp_path, "t.csv.gz", packed[: len(packed) // 2]))
    assert 5_000 < len(trace.requests) < 15_000
    assert any("last line" in note or "cut short" in note for note in trace.report.notes)


def test_a_gzip_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "RATIO_FREE_BYTES", 10**6)
    bomb = gzip.compress(b"arrival_ns,isl,osl\n" + b"1,1,1\n" * 2_000_000)
    with pytest.raises(UserError, match="unpacks to more than"):
        read(written(tmp_path, "b.csv.gz", bomb))


def test_a_damaged_gzip_is_one_line(tmp_path):
    packed = bytearray(gzip.compress(plain_csv(5000)[1]))
    packed[2000:2100] = b"\x00" * 100
    with pytest.raises(UserError):
        read(written(tmp_path, "t.csv.gz", bytes(packed)))


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "MAX_LINE_BYTES", 1000)
    with pytest.raises(UserError, match="a line longer than"):
        read(written(tmp_path, "t.jsonl", '{"a":"' + "x" * 5000), piece_bytes=100)


def test_times_that_go_backwards_are_sorted_and_the_first_place_is_told(tmp_path):
    text = "arrival_ns,isl,osl\n5,1,1\n9,2,1\n7,3,1\n8,4,1\n1,5,1\n"
    trace = read(written(tmp_path, "t.csv", text))
    assert trace.requests.arrival_ns.tolist() == [1, 5, 7, 8, 9]
    assert trace.requests.file_order.tolist() == [4, 0, 2, 3, 1]
    assert trace.report.n_backwards == 2
    assert any("line 4: arrival_ns goes backwards" in note for note in trace.report.notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no requests in it"),
        ("arrival_ns,isl,osl\n", "no requests in it"),
        ("a,b,c\n1,2,3\n", "no column for arrival"),
        ("arrival_ns,isl,isl\n1,2,3\n", "two columns of one name"),
        ('{"arrival":1,"x":2}\n', "no column for isl"),
    ],
)
def test_files_without_requests_say_why(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        read(written(tmp_path, "t", text))


def test_mappings_are_checked(tmp_path):
    path = written(tmp_path, "a.csv", AZURE)
    for mapping, message in (
        ("isl=ContextToken", "nearest: ContextTokens"),
        ("inputs=ContextTokens", "not ROLE=COLUMN"),
        ("arrival=TIMESTAMP:fortnight", "unknown unit of time"),
    ):
        with pytest.raises(UserError, match=message):
            read(path, columns=mapping)
    with pytest.raises(UserError, match="no such file"):
        read(tmp_path / "none.csv")


def test_a_limit_reads_the_first_lines_only(tmp_path):
    assert read(written(tmp_path, "t.csv", plain_csv(500)[1]), limit=7).requests.arrival_ns.shape == (7,)
    plain_csv(500)[0].write_parquet(tmp_path / "t.parquet")
    assert len(read(tmp_path / "t.parquet", limit=7).requests) == 7


def test_of_a_million_lines_only_the_first_few_are_read_one_by_one(tmp_path, monkeypatch):
    slow, careful = reader._slow, []

    def counted(piece, *rest):
        careful.append(piece.n_lines)
        return slow(piece, *rest)

    monkeypatch.setattr(reader, "_slow", counted)
    frame, text = plain_csv(1_000_000)
    path = written(tmp_path, "big.csv", text)
    lines = frame.rename({"isl": "input_toks", "osl": "output_toks", "arrival_ns": "arrival_time_ns"})
    lines.write_ndjson(tmp_path / "big.jsonl")
    for file in (path, tmp_path / "big.jsonl"):
        careful.clear()
        requests = read(file).requests
        assert sum(careful) <= reader.FEW_LINES
        assert np.array_equal(requests.arrival_ns, frame["arrival_ns"].to_numpy())
        assert np.array_equal(requests.isl, frame["isl"].to_numpy())


def test_rows_of_a_ragged_array_are_taken_in_any_order():
    ragged = Ragged(offsets(np.array([2, 0, 3])), np.arange(5))
    taken = ragged.take(np.array([2, 1, 0, 2]))
    assert [taken.row(i).tolist() for i in range(4)] == [[2, 3, 4], [], [0, 1], [2, 3, 4]]


def test_a_selection_keeps_dependencies_inside_it():
    requests = Requests(
        arrival_ns=np.arange(4),
        isl=np.ones(4, np.int32),
        osl=np.ones(4, np.int32),
        parent=np.array([-1, -1, 0, 2]),
        tool_ns=np.arange(4),
    )
    assert requests.take(np.array([0, 2, 3])).parent.tolist() == [-1, 0, 1]
    assert requests.take(np.array([1, 3])).parent.tolist() == [-1, -1]


FIELD = st.one_of(
    st.integers(-3, 10**6).map(str),
    st.sampled_from(
        ["", "x", " 7", "7 ", "1.0", "1.5", "1e2", "+4", "nan", '"8"', "9" * 25, "1_0", "0x1", "true"]
    ),
)
CSV_LINE = st.lists(FIELD, min_size=3, max_size=3).map(",".join) | st.text(max_size=12).map(
    lambda t: t.replace("\n", "")
)
JSON_VALUE = st.one_of(
    st.integers(-3, 10**6),
    st.floats(),
    st.booleans(),
    st.none(),
    st.text(max_size=3),
    st.lists(st.integers(0, 9)),
)
JSON_LINE = st.dictionaries(
    st.sampled_from(["input_toks", "output_toks", "arrival_time_ns", "hash_ids", "sub_requests"]), JSON_VALUE
).map(json.dumps) | st.text(max_size=12).map(lambda t: t.replace("\n", ""))


def outcome(path, **options):
    trace = read(path, on_bad_line="report", **options)
    requests = trace.requests
    blocks = None if requests.blocks is None else requests.blocks.value.tolist()
    rows = (requests.arrival_ns.tolist(), requests.isl.tolist(), requests.osl.tolist(), blocks)
    return rows, [(bad.line, bad.reason) for bad in trace.report.bad], trace.report.n_lines


@settings(max_examples=100, deadline=None)
@given(lines=st.lists(CSV_LINE, max_size=8))
def test_any_csv_gives_the_same_requests_and_faults_by_the_fast_and_the_careful_path(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("fuzz") / "t.csv"
    good = ["5,6,7"] * 80
    path.write_text("\n".join(["arrival_ns,isl,osl", *good, *lines, *good]) + "\n", newline="")
    assert outcome(path) == outcome(path, limit=10**6)
    assert outcome(path, piece_bytes=1500) == outcome(path)


@settings(max_examples=100, deadline=None)
@given(lines=st.lists(JSON_LINE, max_size=8))
def test_any_jsonl_gives_the_same_requests_and_faults_by_the_fast_and_the_careful_path(
    tmp_path_factory, lines
):
    path = tmp_path_factory.mktemp("fuzz") / "t.jsonl"
    good = ['{"input_toks":1,"output_toks":2,"arrival_time_ns":3,"hash_ids":[4,5]}'] * 80
    path.write_text("\n".join([*good, *lines, *good]) + "\n", newline="")
    assert outcome(path) == outcome(path, limit=10**6)
    assert outcome(path, piece_bytes=1500) == outcome(path)


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=300), packed=st.booleans(), policy=st.sampled_from(POLICIES))
def test_any_bytes_are_read_or_refused_in_one_line(tmp_path_factory, data, packed, policy):
    path = tmp_path_factory.mktemp("fuzz") / "t"
    path.write_bytes(gzip.compress(data) if packed else data)
    try:
        assert len(read(path, on_bad_line=policy).requests) > 0
    except UserError as error:
        assert "\n" not in error.message


def test_the_public_traces_are_read_whole(shared):
    azure = read(shared / "traces" / "azure_llm_2023_conv.csv").requests
    mooncake = read(shared / "traces" / "mooncake_conversation.jsonl").requests
    assert (len(azure), len(mooncake)) == (19_366, 12_031)
    assert azure.arrival_ns[-1] == 3_501_721_937_000
    assert mooncake.blocks.offset[-1] == 288_500


def test_control_characters_beside_a_length_are_no_number():
    from sweep.traces.rows import NotARequest, tokens_of

    assert tokens_of(" 12 ", "isl") == 12
    with pytest.raises(NotARequest, match="not a number"):
        tokens_of("1\x1c", "isl")
