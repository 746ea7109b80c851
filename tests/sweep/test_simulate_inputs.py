"""What people get wrong with `servesweep simulate`: one line with file and field, exit 2; or the request is reported."""

import copy
import json

import polars as pl
import pytest

from sweep.cli import main
from sweep.simulate.command import default_cluster

GOOD = {"input_toks": 64, "output_toks": 8, "arrival_time_ns": 0}


def cluster(change=None):
    data = json.loads(default_cluster().read_text())
    if change is not None:
        change(data)
    return data


def node(data):
    return data["nodes"][0]


def instance(data):
    return data["nodes"][0]["instances"][0]


FAULTS = {
    "no nodes": (lambda d: d.pop("nodes"), ["nodes", "missing"]),
    "another count of nodes": (lambda d: d.update(num_nodes=3), ["num_nodes", "1 entries"]),
    "another count of instances": (lambda d: node(d).update(num_instances=2), ["num_instances"]),
    "no model": (lambda d: instance(d).pop("model_name"), ["model_name", "missing"]),
    "an unknown model": (lambda d: instance(d).update(model_name="meta-llama/Llama-9"), ["Llama-9"]),
    "unknown hardware": (lambda d: instance(d).update(hardware="H999"), ["H999"]),
    "a misspelt key": (lambda d: instance(d).update(tp_siz=2), ["tp_siz", "tp_size"]),
    "a role that is none": (lambda d: instance(d).update(pd_type="both"), ["pd_type", "prefill, decode"]),
    "memory as a word": (lambda d: instance(d)["npu_mem"].update(mem_size="big"), ["mem_size", "number"]),
    "a fraction of memory above 1": (lambda d: instance(d)["npu_mem"].update(mem_util=1.5), ["mem_util"]),
    "no bandwidth": (lambda d: instance(d)["npu_mem"].update(mem_bw=0), ["mem_bw"]),
    "a negative latency": (lambda d: d.update(link_latency=-1), ["link_latency"]),
    "links of other dimensions": (lambda d: d.update(link_bw=[16, 16, 16]), ["link_bw", "dimensions"]),
    "accelerators that are no product": (
        lambda d: instance(d).update(num_npus=6, tp_size=4),
        ["num_npus", "tp_size x pp_size"],
    ),
    "more stages than layers": (
        lambda d: instance(d).update(pp_size=64, tp_size=1, num_npus=64),
        ["pp_size", "layers"],
    ),
    "weights that do not fit": (lambda d: instance(d)["npu_mem"].update(mem_size=8), ["weights"]),
    "decode without prefill": (lambda d: instance(d).update(pd_type="decode"), ["decode", "prefill"]),
    "a dtype that is none": (lambda d: instance(d).update(dtype="fp7"), ["dtype", "fp7"]),
    "interleaving alone": (
        lambda d: instance(d).update(enable_sub_batch_interleaving=True),
        ["interleaving", "attention offloading"],
    ),
    "weights in a memory that is not there": (
        lambda d: instance(d).update(placement={"default": {"weights": "cxl:0"}}),
        ["cxl:0", "placement"],
    ),
    "a power figure missing": (
        lambda d: node(d).update(power={"base_node_power": 60}),
        ["power.cpu.idle_power"],
    ),
}


def refused(capsys, *arguments):
    """The one line of a refusal."""
    assert main(["simulate", *map(str, arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.strip().splitlines()
    assert len(lines) == 1, err
    assert "Traceback" not in err
    return lines[0]


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_cluster_is_one_line_with_its_field(name, tmp_path, capsys):
    change, words = FAULTS[name]
    data = copy.deepcopy(cluster())
    change(data)
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(data))
    line = refused(capsys, f"--cluster-config={path}")
    for word in words:
        assert word in line


@pytest.mark.parametrize("text", ["", "{", "[]", '{"nodes": 7}', "[" * 5000])
def test_a_cluster_that_is_no_json_object_is_refused(text, tmp_path, capsys):
    path = tmp_path / "cluster.json"
    path.write_text(text)
    assert str(path) in refused(capsys, f"--cluster-config={path}")


def trace(tmp_path, *lines):
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return path


BAD_LINES = {
    "no JSON": ("{nope", []),
    "a negative prompt": ({**GOOD, "input_toks": -5}, ["input_toks", "-5"]),
    "no output": ({**GOOD, "output_toks": 0}, ["output_toks"]),
    "a negative time": ({**GOOD, "arrival_time_ns": -1}, ["arrival_time_ns"]),
    "a word for a number": ({**GOOD, "input_toks": "many"}, ["input_toks", "many"]),
    "a field missing": ({"input_toks": 5, "arrival_time_ns": 0}, ["output"]),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_bad_line_stops_the_run_with_file_line_and_field(name, tmp_path, capsys):
    line, words = BAD_LINES[name]
    path = trace(tmp_path, GOOD, GOOD, line, GOOD)
    told = refused(capsys, f"--dataset={path}")
    assert str(path) in told
    assert "3" in told.replace(str(path), "")
    for word in words:
        assert word in told


def test_a_missing_dataset_is_one_line(tmp_path, capsys):
    assert "nowhere.jsonl" in refused(capsys, f"--dataset={tmp_path / 'nowhere.jsonl'}")


def test_a_bad_line_in_the_middle_of_a_large_trace_stops_is_skipped_or_told(tmp_path, capsys):
    lines = [{**GOOD, "input_toks": 8, "output_toks": 1, "arrival_time_ns": 1000 * k} for k in range(30_000)]
    lines[20_000] = {**GOOD, "output_toks": "x"}
    path = trace(tmp_path, *lines)
    assert "20001" in refused(capsys, f"--dataset={path}").replace(",", "")
    for policy in ("skip", "report"):
        assert main(["simulate", f"--dataset={path}", f"--on-bad-line={policy}", "--json"]) == 0
        out, err = capsys.readouterr()
        assert json.loads(out)["finished"] == 29_999
        assert "20001" in err.replace(",", "")
        assert "output_toks" in err
    assert "nonsense" in refused(capsys, f"--dataset={path}", "--on-bad-line=nonsense")


def test_requests_that_cannot_run_are_reported_and_the_rest_run_on(tmp_path, capsys):
    path = trace(tmp_path, GOOD, {**GOOD, "input_toks": 500_000}, {**GOOD, "input_toks": 20_000}, GOOD)
    small = cluster(lambda d: instance(d)["npu_mem"].update(mem_size=17.5))
    where = tmp_path / "cluster.json"
    where.write_text(json.dumps(small))
    out = tmp_path / "r.parquet"
    assert main(["simulate", f"--dataset={path}", f"--cluster-config={where}", f"--parquet={out}"]) == 0
    frame = pl.read_parquet(out).sort("request id")
    assert frame["status"].to_list() == ["finished", "rejected", "rejected", "finished"]
    assert "context" in frame["reason"][1]
    assert "KV blocks" in frame["reason"][2]
    assert "2 of 4 requests did not finish" in capsys.readouterr().err


def test_unsorted_and_equal_arrivals_are_served_in_order_of_time(tmp_path):
    times = [9_000_000, 0, 5_000_000, 5_000_000]
    path = trace(tmp_path, *({**GOOD, "arrival_time_ns": t} for t in times))
    out = tmp_path / "r.parquet"
    assert main(["simulate", f"--dataset={path}", f"--parquet={out}"]) == 0
    frame = pl.read_parquet(out).sort("request id")
    assert frame["arrival"].to_list() == times
    assert (frame["status"] == "finished").all()


def test_a_prompt_over_the_budget_without_chunks_is_reported_not_waited_for(tmp_path):
    path = trace(tmp_path, {**GOOD, "input_toks": 3000}, GOOD)
    out = tmp_path / "r.parquet"
    flags = ("--no-enable-chunked-prefill", "--max-num-batched-tokens=2048")
    assert main(["simulate", f"--dataset={path}", f"--parquet={out}", *flags]) == 0
    frame = pl.read_parquet(out).sort("request id")
    assert frame["status"].to_list() == ["rejected", "finished"]
    assert "budget" in frame["reason"][0]
