"""Readers of measured collectives: units, duplicates, what counts and what does not."""

import polars as pl
import pytest

from sweep.calibrate import collective_tables as tables
from sweep.calibrate.collective_accelerators import record, reference, within_physics
from sweep.errors import UserError

MIB = 2**20


def write(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(columns).write_parquet(path)


@pytest.fixture
def database(tmp_path):
    comm = tmp_path / "h100_sxm" / "comm"
    write(
        comm / "nccl" / "2.29.2" / "nccl_perf.parquet",
        op_name=["all_reduce", "all_reduce", "alltoall", "all_reduce"],
        nccl_dtype=["half", "half", "half", "int8"],
        num_gpus=[8, 8, 4, 8],
        message_size=[4096, 4096, 1024, 8192],
        latency=[0.016, 0.018, 0.007, 9.0],
    )
    write(
        comm / "vllm" / "0.19.0" / "custom_allreduce_perf.parquet",
        op_name=["all_reduce"] * 2,
        allreduce_dtype=["bfloat16"] * 2,
        backend=["vllm_graph", "vllm_eager"],
        num_gpus=[8, 8],
        message_size=[4096, 4096],
        latency=[0.005, 0.03],
    )
    write(
        comm / "sglang" / "0.5.12" / "wideep_deepep_ll_perf.parquet",
        node_num=[1, 2],
        hidden_size=[7168, 7168],
        num_token=[128, 128],
        num_topk=[8, 8],
        num_experts=[256, 256],
        combine_avg_t_us=[67.0, 99.0],
        dispatch_avg_t_us=[37.0, 99.0],
    )
    return tmp_path


def test_elements_become_bytes_milliseconds_microseconds_and_copies_one(database):
    rows = tables.read_database(database)
    assert rows.columns == list(tables.COLUMNS)
    nccl = rows.filter(pl.col("implementation") == "nccl", pl.col("primitive") == "all_reduce")
    assert nccl["bytes"].to_list() == [8192]
    assert nccl["time_us"].to_list() == [pytest.approx(17.0)]
    assert rows.filter(pl.col("primitive") == "all_to_all")["bytes"].to_list() == [2048]


def test_eager_launches_and_other_nodes_do_not_count(database):
    rows = tables.read_database(database)
    assert rows.filter(pl.col("implementation") == "vllm")["time_us"].to_list() == [pytest.approx(5.0)]
    combine = rows.filter(pl.col("primitive") == "combine_ll")
    assert combine["time_us"].to_list() == [67.0]
    assert combine["bytes"].to_list() == [pytest.approx(128 * 8 * (1 - (7 / 8) ** 8) * 7168 * 2, abs=1)]


def test_a_folder_without_tables_is_named(tmp_path):
    with pytest.raises(UserError, match="holds no collective tables"):
        tables.read_database(tmp_path)


def test_points_that_no_link_could_reach_are_dropped():
    fast = 2 * 7 / 8 * 64 * MIB / 300e3
    table = pl.DataFrame(
        [("a100_sxm_80", "nccl", "1", "all_reduce", 8, 64 * MIB, t) for t in (0.9 * fast, 1.1 * fast)],
        schema=tables.COLUMNS,
        orient="row",
    )
    assert within_physics(table, record("a100_sxm_80"))["time_us"].to_list() == [1.1 * fast]


def test_the_reference_version_speaks_and_else_the_newest():
    rows = [
        ("h100_sxm", "sglang", version, "all_reduce", n, MIB, 1.0)
        for version, n in (("0.5.9", 2), ("0.5.10", 2), ("0.5.14", 2), ("0.5.9", 4), ("0.5.14", 4))
    ]
    chosen = reference(pl.DataFrame(rows, schema=tables.COLUMNS, orient="row"))
    assert dict(chosen.select("n_gpus", "version").iter_rows()) == {2: "0.5.10", 4: "0.5.14"}


def test_instinct_rows_are_read_with_their_bytes(shared):
    rows = tables.read_instinct_csv(shared / "measured" / "amd_operators.csv")
    custom = rows.filter(
        pl.col("primitive") == "all_reduce", pl.col("hardware") == "mi300x", pl.col("n_gpus") == 4
    )
    assert dict(custom["implementation"].value_counts().iter_rows()) == {"vllm": 10, "int4": 9}
    assert custom.filter(pl.col("bytes") == MIB).sort("time_us")["time_us"].to_list() == [22.91, 24.72]
    assert {"dispatch", "combine", "dispatch_ll", "combine_ll"} <= set(rows["primitive"])


def test_a_kernel_speaks_for_every_engine_that_calls_it_and_sizes_that_were_guessed_for_none(tmp_path):
    file = tmp_path / "instinct.csv"
    header = "source_url,hardware,op,shape_or_bytes,n_gpus,dtype,value,unit,notes"
    row = "u,mi355x,allreduce_aiter_2stage_tuned,98304,8,bf16,6.8,us,"
    file.write_text("\n".join([header, row + "after PR", row + "size is approximate"]))
    rows = tables.read_instinct_csv(file)
    assert sorted(rows["implementation"]) == ["atom", "vllm"]


def test_bus_bandwidth_stands_in_for_a_missing_time(shared):
    rows = tables.read_all_reduce_csv(shared / "measured" / "allreduce_dev.csv")
    large = rows.filter(pl.col("hardware") == "h200_sxm", pl.col("n_gpus") == 4, pl.col("bytes") == 2**33)
    assert large["time_us"].to_list() == [pytest.approx(1.5 * 2**33 / 363.3e3)]
    assert rows["time_us"].null_count() == 0
