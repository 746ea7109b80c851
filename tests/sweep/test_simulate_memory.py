"""Memory tiers, power and interleaving of simulated clusters, each against its equation in plain numbers."""

import json

import numpy as np
import polars as pl
import pytest

from sweep.cli import main
from sweep.profiles import read_profile
from sweep.simulate.power import COMPONENTS
from sweep.simulate.shape import layer_weight_elements

pytestmark = pytest.mark.measured


@pytest.fixture
def simulate(shared, tmp_path):
    """Run the command line on a cluster; returns (summary, steps, per-request table)."""

    def run(cluster, lines, *flags, profiles=True, change=None):
        data = json.loads((shared / "examples/cluster" / f"{cluster}.json").read_text())
        if change is not None:
            change(data)
        where = tmp_path / "cluster.json"
        where.write_text(json.dumps(data))
        (tmp_path / "trace.jsonl").write_text("\n".join(map(json.dumps, lines)))
        out = {name: tmp_path / f"{name}.{suffix}" for name, suffix in
               (("summary", "json"), ("steps", "parquet"), ("parquet", "parquet"))}  # fmt: skip
        tables = [f"--operator-profiles={shared / 'measured/operator_profiles'}"] if profiles else []
        status = main(
            [
                "simulate",
                f"--cluster-config={where}",
                f"--dataset={tmp_path / 'trace.jsonl'}",
                "--dtype=bfloat16",
                *(f"--{name}={path}" for name, path in out.items()),
                *tables,
                *flags,
            ]
        )
        assert status == 0
        summary = json.loads(out["summary"].read_text())
        return summary, pl.read_parquet(out["steps"]), pl.read_parquet(out["parquet"])

    return run


def lines(*shapes, gap_ns=0):
    return [
        {"input_toks": isl, "output_toks": osl, "arrival_time_ns": k * gap_ns}
        for k, (isl, osl) in enumerate(shapes)
    ]


def test_energy_adds_up_by_component_and_is_the_specification_s(shared, simulate):
    summary, steps, _ = simulate("single_node_power_instance", lines((100, 20), (300, 30), gap_ns=10**9))
    parts = summary["energy_kj_by_component"]
    assert list(parts) == list(COMPONENTS)
    assert sum(parts.values()) == pytest.approx(summary["energy_kj"])
    assert sum(summary["energy_kj_by_node"]) == pytest.approx(summary["energy_kj"])
    end_s = summary["makespan_ns"] / 1e9
    profile = read_profile(
        shared / "measured/operator_profiles", "RTXPRO6000", "meta-llama/Llama-3.1-8B", "bf16", 1
    )
    layers_s, standby_s = 0.0, 0.0
    rows = steps.sort("start").to_dicts()
    for k, row in enumerate(rows):
        at = {name: float(curve.at(np.array(float(row["tokens"])))) for name, curve in profile.linear.items()}
        ends = {
            name: float(curve.at(np.array(float(row["seqs"])))) for name, curve in profile.sequence.items()
        }
        block = 2 * at["layernorm"] + sum(
            at[name] for name in ("qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj")
        )
        layers_s += (at["embedding"] + 32 * (block + row["attention_ns"]) + at["final_layernorm"]) / 1e9
        layers_s += (ends["lm_head"] + ends["sampler"]) / 1e9
        until = rows[k + 1]["start"] if k + 1 < len(rows) else summary["makespan_ns"]
        standby_s += min(18.0, (until - row["end"]) / 1e9)
    assert standby_s > 0.5
    assert parts["base_node"] == pytest.approx(60 * end_s / 1e3)
    assert parts["npu"] == pytest.approx((35 * end_s + 565 * layers_s + 265 * standby_s) / 1e3)
    assert parts["cpu"] == pytest.approx(((10 + 190 * 0.15) * end_s + 190 * 0.55 * layers_s) / 1e3)
    assert parts["dram"] == pytest.approx(512 // 32 * 2 * end_s / 1e3)
    assert parts["link"] == pytest.approx(5 * end_s / 1e3)
    assert parts["nic"] == pytest.approx(20 * end_s / 1e3)
    assert parts["storage"] == pytest.approx(10 * end_s / 1e3)
    assert summary["mean_power_w"] == pytest.approx(1e3 * summary["energy_kj"] / end_s)


def test_heartbeats_tell_power_between_idle_and_everything_active(simulate, capsys):
    simulate("single_node_power_instance", lines((100, 300), (300, 300)), "--log-interval=0.5")
    told = [
        float(line.split()[3])
        for line in capsys.readouterr().err.splitlines()
        if line.startswith("Avg power consumption")
    ]
    assert len(told) > 3
    assert 400.0 < min(told) <= max(told) < 60 + 600 + 200 + 32 + 5 + 20 + 10


def test_more_accelerators_move_bytes_over_links(simulate):
    def two(data):
        data["nodes"][0]["instances"][0]["tp_size"] = 2

    both, steps, _ = simulate("single_node_power_instance", lines((512, 40)), change=two)
    moved = 2 * 32 * 2 * (2 - 1) / 2 * steps["tokens"].sum() * 4096 * 2
    idle = 5 * both["makespan_ns"] / 1e9
    assert both["energy_kj_by_component"]["link"] == pytest.approx((idle + moved * 8 * 4e-12) / 1e3)


def test_interleaving_slows_small_batches_and_hides_attention_of_large_ones(simulate):
    def ratio(n, isl):
        work = lines(*[(isl, 40)] * n)
        flags = ("--enable-attn-offloading", "--max-num-batched-tokens=8192")
        took = []
        for more in ((), ("--enable-sub-batch-interleaving",)):
            told, steps, _ = simulate("single_node_pim_instance", work, *flags, *more)
            assert told["finished"] == n
            full = steps.filter((pl.col("n_decode") == n) & (pl.col("chunk") == 0))
            took.append(full.select(pl.col("end") - pl.col("start")).to_series().median())
        return took[1] / took[0]

    # weights are read twice: the specification's example goes from 10.8 to 21.5 ms
    assert ratio(2, 16) == pytest.approx(2.0, rel=0.08)
    assert ratio(1, 16) == 1.0
    # 64 long contexts: each half's attention takes longer than the other half's weights
    assert ratio(64, 1500) < ratio(64, 400) < ratio(64, 16)
    assert ratio(64, 1500) < 1.0


def test_local_loads_are_waited_for_only_where_they_are_slower_than_the_layers(simulate):
    work = lines((64, 5))

    def slow(data):
        data["nodes"][0]["instances"][0]["npu_mem"]["mem_bw"] = 20

    plain, _, _ = simulate("single_node_single_instance", work)
    hidden, _, _ = simulate("single_node_single_instance", work, "--enable-local-offloading")
    shown, steps, _ = simulate("single_node_single_instance", work, "--enable-local-offloading", change=slow)
    # the embedding is the first to be waited for; by then the layers' own weights are there
    waited = 5 * 128256 * 4096 * 2 // 1597
    assert hidden["makespan_ns"] - plain["makespan_ns"] == pytest.approx(waited, rel=0.03)
    # all loads run at once: the largest weight, the LM head or the gates, is there last
    largest = max(2 * 4096 * 14336, 128256 * 4096) * 2 / 20
    step = steps.select(pl.col("end") - pl.col("start")).to_series().min()
    assert step > largest
    assert shown["makespan_ns"] > plain["makespan_ns"] + 4 * largest


@pytest.mark.parametrize("tp", [1, 2])
def test_weights_in_host_memory_come_one_after_the_other(simulate, tp):
    def placed(data):
        one = data["nodes"][0]["instances"][0]
        one["tp_size"] = one["num_npus"] = tp
        one["placement"] = {"default": {"weights": "npu"}, "layers": {"down_proj": {"weights": "cpu"}}}

    _, steps, _ = simulate("single_node_single_instance", lines((64, 5)), change=placed)
    per_rank = 14336 // tp * 4096 * 2
    loads_ns = 32 * tp * (per_rank // 256)
    step = steps.select(pl.col("end") - pl.col("start")).to_series()
    assert (step > loads_ns).all()
    assert step.min() < loads_ns * 1.1


def test_the_step_model_waits_for_the_busiest_memory(simulate):
    def placed(data):
        one = data["nodes"][0]["instances"][0]
        one["hardware"] = "RTXPRO6000"
        one["placement"] = {"default": {"weights": "cpu"}}

    _, steps, _ = simulate("single_node_single_instance", lines((64, 4)), profiles=False, change=placed)
    from sweep.catalog.models import resolve_model
    from sweep.simulate.instances import shape_of

    shape = shape_of(resolve_model("meta-llama/Llama-3.1-8B"), "llama")
    weights = layer_weight_elements(shape, 1, 1)
    block = (
        sum(weights[k] for k in ("qkv_proj", "o_proj", "gate_up_proj", "down_proj"))
        + 2 * weights["layernorm"]
    )
    total = (32 * block + weights["embedding"] + weights["final_layernorm"] + weights["lm_head"]) * 2
    step = steps.select(pl.col("end") - pl.col("start")).to_series()
    assert step.min() == pytest.approx(total / 256, rel=0.01)


def test_placement_that_is_not_simulated_is_refused_in_one_line(shared, tmp_path, capsys):
    data = json.loads((shared / "examples/cluster/single_node_moe_single_instance.json").read_text())
    data["nodes"][0]["instances"][0]["placement"] = {"default": {"weights": "cpu"}}
    where = tmp_path / "cluster.json"
    where.write_text(json.dumps(data))
    profiles = shared / "measured/operator_profiles"
    assert main(["simulate", f"--cluster-config={where}", f"--operator-profiles={profiles}"]) == 2
    assert "dense models" in capsys.readouterr().err


def test_power_of_some_nodes_only_models_nothing_and_says_so(shared, tmp_path, capsys):
    data = json.loads((shared / "examples/cluster/single_node_power_instance.json").read_text())
    second = json.loads(json.dumps(data["nodes"][0]))
    del second["power"]
    data["nodes"].append(second)
    data["num_nodes"] = 2
    where = tmp_path / "cluster.json"
    where.write_text(json.dumps(data))
    assert main(["simulate", f"--cluster-config={where}", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "energy_kj" not in json.loads(out)
    assert "power is not given for every node" in err
