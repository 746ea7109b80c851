"""`servesweep collectives`: rows in, prices or reasons out; how close the prices are to measured ones."""

import importlib.util

import polars as pl
import pytest
import yaml

from sweep import cli
from sweep.calibrate import collective_accelerators as calibrate
from sweep.catalog.fitted_collectives import COLUMNS, ROWS, fitted_collectives
from sweep.catalog.hardware import hardware, hardware_names
from sweep.collectives import price_collectives
from sweep.errors import UserError
from sweep.fields.engine import ENGINES
from sweep.paths import conf_dir

MIB = 2**20


def row(**values):
    return {"id": "a", "hardware": "h100_sxm", "n_gpus": 8, "bytes": MIB} | values


def price(*rows, **options):
    return price_collectives(pl.DataFrame(list(rows), infer_schema_length=None), **options)


def one(**values):
    (result,) = price(row(**values)).to_dicts()
    return result


def reason(**values):
    result = price(row(**values), row(id="good")).to_dicts()
    assert [r["status"] for r in result] == ["invalid", "ok"]
    assert result[0]["time_us"] is None
    return result[0]["reason"]


def test_a_row_is_priced_with_its_bus_bandwidth_and_algorithm():
    result = one(bytes=512 * MIB)
    assert result["status"] == "ok"
    assert result["algorithm"] == "nvls"
    assert result["priced_by"] == "fitted"
    assert result["busbw_gbps"] == pytest.approx(2 * 7 / 8 * 512 * MIB / (result["time_us"] * 1e3))


def test_defaults_are_nccl_all_reduce():
    assert one() == one(
        implementation="nccl", nvls="auto", primitive="all_reduce", algorithm="auto", n_nodes=None
    )
    assert one(implementation="rccl", hardware="mi300x") == one(hardware="mi300x")


def test_the_id_column_is_kept_or_counted():
    frame = pl.DataFrame({"hardware": ["h100_sxm"] * 2, "n_gpus": [2, 4], "bytes": [MIB, MIB]})
    assert price_collectives(frame)["id"].to_list() == [0, 1]
    assert price(row(id=7))["id"].to_list() == [7]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"hardware": "h1000"}, "hardware=h1000"),
        ({"hardware": None}, "hardware: is missing"),
        ({"n_gpus": 1}, "n_gpus=1"),
        ({"n_gpus": -4}, "n_gpus=-4"),
        ({"bytes": 0}, "bytes=0"),
        ({"bytes": None}, "bytes: is missing"),
        ({"implementation": "mpi"}, "implementation=mpi"),
        ({"nvls": "maybe"}, "nvls=maybe"),
        ({"primitive": "allreduce"}, "all_reduce"),
        ({"algorithm": "tree"}, "algorithm=tree"),
        ({"primitive": "all_gather", "algorithm": "one_shot"}, "algorithm=one_shot"),
        ({"hardware": "l40s", "nvls": "on"}, "l40s has no reduction in the switch"),
        ({"algorithm": "nvls", "nvls": "off"}, "needs nvls"),
        ({"n_gpus": 32, "n_nodes": 1}, "n_nodes=1"),
        ({"n_gpus": 8, "n_nodes": 9}, "n_nodes=9"),
    ],
)
def test_an_impossible_value_makes_its_row_invalid_and_names_it(values, says):
    assert says in reason(**values)


def test_text_and_fractions_are_no_counts():
    frame = pl.DataFrame(
        {"hardware": ["h100_sxm"] * 4, "n_gpus": ["8", "x", "2.5", "nan"], "bytes": [MIB] * 4}
    )
    assert price_collectives(frame)["status"].to_list() == ["ok", "invalid", "invalid", "invalid"]


def test_nothing_priced_is_an_error_and_so_is_a_missing_column():
    with pytest.raises(UserError, match="no row could be priced"):
        price(row(n_gpus=0))
    with pytest.raises(UserError, match="bytes"):
        price_collectives(pl.DataFrame({"hardware": ["h100_sxm"], "n_gpus": [8]}))
    with pytest.raises(UserError, match="no rows"):
        price_collectives(pl.DataFrame(schema=["hardware", "n_gpus", "bytes"]))


def test_nodes_decide_who_needs_the_nic():
    inside, across = one(bytes=256 * MIB), one(bytes=256 * MIB, n_nodes=2)
    assert across["time_us"] > inside["time_us"]
    rack = {"hardware": "gb300", "n_gpus": 8, "bytes": 256 * MIB}
    assert one(**rack, n_nodes=2)["time_us"] == one(**rack)["time_us"]
    assert one(n_gpus=16, n_nodes=2) == one(n_gpus=16)


def test_nvls_off_is_the_ring():
    on, off = one(bytes=2**33, nvls="on"), one(bytes=2**33, nvls="off")
    assert (on["algorithm"], off["algorithm"]) == ("nvls", "ring")
    assert on["time_us"] < off["time_us"]


@pytest.mark.parametrize(
    "primitive", ["all_gather", "reduce_scatter", "all_to_all", "p2p", "dispatch", "combine"]
)
def test_every_primitive_is_priced_above_its_bytes_over_the_link(primitive):
    n = 2 if primitive == "p2p" else 8
    result = one(primitive=primitive, n_gpus=n, bytes=64 * MIB)
    share = 1.0 if primitive == "p2p" else 7 / 8
    assert result["time_us"] > share * 64 * MIB / 450e3
    assert result["busbw_gbps"] < 450


def test_roofline_is_faster_than_fitted_and_says_so():
    ideal = price(row(), fidelity="roofline").to_dicts()[0]
    assert ideal["priced_by"] == "roofline"
    assert ideal["time_us"] < one()["time_us"]


def test_an_accelerator_without_tables_says_whose_it_takes():
    assert one(hardware="h20")["priced_by"].startswith("inherited from ")
    assert one(hardware="rtx_4090", n_gpus=4)["priced_by"].startswith("inherited from ")


@pytest.mark.parametrize("name", hardware_names())
def test_every_accelerator_has_coefficients_for_every_engine(name):
    for engine in (*ENGINES, "nccl"):
        fitted = fitted_collectives(name, engine)
        assert set(ROWS) - {"quantized"} <= set(fitted.rows) <= set(ROWS)
        for values in fitted.rows.values():
            assert set(values) <= set(COLUMNS)
            assert 0 < values["efficiency"] <= 1
            assert values["overhead_us"] >= 0
            for slowdown in (values["pair_slowdown"], values["quad_slowdown"]):
                assert (1 + slowdown) / values["efficiency"] >= 1 - 1e-4


def test_relatives_have_the_same_topology():
    for name in hardware_names():
        content = yaml.safe_load(
            (conf_dir() / "hardware" / "fitted" / f"{name}.collectives.yaml").read_text()
        )
        if "inherits" in content:
            relative = content["inherits"]
            assert hardware(relative).fields["topology"] == hardware(name).fields["topology"]


def test_the_fit_recovers_what_made_its_samples():
    """A table made by known coefficients is met within a few percent, the same bits each time."""
    source = fitted_collectives("h100_sxm", "nccl")
    c = calibrate.ideal("h100_sxm")
    source.fill(c)
    p = calibrate.record("h100_sxm")
    sizes = [2.0**e for e in range(9, 30)]
    rows = [
        ("h100_sxm", "nccl", "1", primitive, n, int(size), None)
        for primitive in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
        for n in (2, 4, 8)
        for size in sizes
    ]
    codes = {"all_reduce": (0, 0), "all_gather": (1, 0), "reduce_scatter": (2, 0), "all_to_all": (3, 1)}
    timed = [
        (
            *r[:6],
            float(
                calibrate.kc.collective(
                    codes[r[3]][0], float(r[5]), float(r[4]), float(codes[r[3]][1]), p, c
                )[0]
            ),
        )
        for r in rows
    ]
    table = pl.DataFrame(
        timed,
        schema=["hardware", "implementation", "version", "primitive", "n_gpus", "bytes", "time_us"],
        orient="row",
    )
    first = calibrate.fit_tables("h100_sxm", table, None, cross_validate=False)
    assert float(pl.Series(first.errors["nccl"]).abs().median()) < 0.03
    again = calibrate.fit_tables("h100_sxm", table, None, cross_validate=False)
    assert first.library.tobytes() == again.library.tobytes()


def test_measured_all_reduces_are_met(shared):
    """Issue target: median 15 % over all sizes, 25 % at the third quartile below 1 MiB; ours is far inside."""
    measured = pl.read_csv(shared / "measured" / "allreduce_dev.csv", infer_schema_length=None)
    ring_bytes = 2 * (pl.col("n_gpus") - 1) / pl.col("n_gpus") * pl.col("bytes")
    real = pl.coalesce("time_us", ring_bytes / (pl.col("busbw_gbps") * 1e3))
    joined = measured.with_columns(real.alias("real")).join(
        price_collectives(measured).select("id", pl.col("time_us").alias("predicted")), on="id"
    )
    errors = joined.filter(pl.col("real").is_not_null()).select(
        "bytes", (pl.col("predicted") / pl.col("real") - 1).abs().alias("error")
    )
    assert errors["error"].null_count() <= 4
    assert errors["error"].median() <= 0.05
    assert errors.filter(pl.col("bytes") < MIB)["error"].quantile(0.75) <= 0.10


def test_the_command_prices_a_file_and_reports_mistakes_in_one_line(tmp_path, capsys):
    source, target = tmp_path / "in.csv", tmp_path / "out.jsonl"
    pl.DataFrame([row(), row(id="b", n_gpus=0)]).write_csv(source)
    assert cli.main(["collectives", str(source), str(target)]) == 0
    assert pl.read_ndjson(target)["status"].to_list() == ["ok", "invalid"]
    pl.DataFrame([row(n_gpus=0)]).write_csv(source)
    capsys.readouterr()
    assert cli.main(["collectives", str(source), str(target)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.skipif(importlib.util.find_spec("ns3") is not None, reason="package ns3 is installed")
def test_ns3_without_its_package_is_one_clear_line(tmp_path, capsys):
    source = tmp_path / "in.csv"
    pl.DataFrame([row()]).write_csv(source)
    arguments = ["collectives", str(source), str(tmp_path / "out.csv"), "--network-backend", "ns3"]
    assert cli.main(arguments) == 2
    message = capsys.readouterr().err
    assert "pip install" in message
    assert message.count("\n") == 1
