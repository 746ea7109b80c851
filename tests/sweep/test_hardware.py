"""The accelerator catalogue: complete, sourced, physically sane, and found by its usual spellings."""

import csv
import re

import pytest

from sweep.catalog.hardware import (
    hardware,
    hardware_index,
    hardware_names,
    inherits_from,
    known_spelling,
    relatives,
    resolve_hardware,
)
from sweep.errors import UserError
from sweep.fields import encode
from sweep.fields import hardware as hardware_fields
from sweep.paths import conf_dir

PROMISED = (
    "a100_sxm_40 a100_sxm_80 a100_pcie_80 h100_sxm h100_pcie h200_sxm h20 b200_sxm b300_sxm gb200 gb300 gb10 l4 l40s a10 "
    "rtx_3090 rtx_4090 rtx_5090 rtx_pro_6000 mi300x mi325x mi355x a100_sxm_80_pairwise_nvlink h100_sxm_pairwise_nvlink"
).split()
FIGURES = [
    f.name
    for f in hardware_fields.FIELDS
    if (f.unit and f.name != "gpu_clock_mhz") or f.name in ("sm_count", "domain_gpus", "node_gpus")
]
"""Figures of the catalogue; gpu_clock_mhz is a user's own."""
MAY_BE_UNKNOWN = {
    "tflops_fp8",
    "tflops_fp4",
    "clock_mhz",
    "host_memory_gib_per_gpu",
    "facility_kw_per_gpu",
}
FIGURE_LINE = re.compile(r"^(?P<key>\w+): (?P<value>\S+)\s+# (?P<why>\S.*)$")

every_entry = pytest.mark.parametrize("name", hardware_names())


def yaml_text(name):
    return (conf_dir() / "hardware" / f"{name}.yaml").read_text(encoding="utf-8")


def figures(name):
    return hardware(name).fields


@pytest.mark.parametrize("name", PROMISED)
def test_every_promised_accelerator_is_in_the_catalogue(name):
    assert hardware(name).fields["name"] == name


@every_entry
def test_every_value_is_legal_for_its_field(name):
    for field in hardware_fields.FIELDS:
        value = figures(name)[field.name]
        if field.kind == "choice":
            assert value in field.choices
        elif field.kind == "float" and value is not None:
            assert isinstance(value, int | float)
            assert value >= (field.low or 0)
        if field.column:
            encode(field, value)


@every_entry
def test_only_figures_that_may_be_unknown_are_null(name):
    unknown = {key for key in FIGURES if figures(name)[key] is None}
    assert unknown <= MAY_BE_UNKNOWN


@every_entry
def test_every_figure_has_a_source_or_a_reason_on_its_line(name):
    head, body = yaml_text(name).split("\nname: ", 1)
    declared = set(re.findall(r"^#   \[(\w+)\] \S", head, re.M))
    lines = {m["key"]: m for m in map(FIGURE_LINE.match, body.splitlines()) if m}
    assert set(FIGURES) <= set(lines)
    for match in lines.values():
        assert set(re.findall(r"\[(\w+)\]", match["why"])) <= declared
    assert declared == set(re.findall(r"\[(\w+)\]", body))


@every_entry
def test_the_driver_leaves_less_than_the_marketed_memory(name):
    f = figures(name)
    marketed_bytes = f["hbm_marketed_gb"] * 1024**3
    assert 0.9 * marketed_bytes < f["hbm_gib"] * 1024**3 < marketed_bytes


@every_entry
def test_peaks_are_dense_and_in_the_ratio_of_the_tensor_cores(name):
    f = figures(name)
    assert 0.05 < f["tflops_fp32"] / f["tflops_bf16"] <= 0.51
    if f["tflops_fp8"] is not None:
        assert f["tflops_fp8"] == pytest.approx(2 * f["tflops_bf16"], rel=0.02)
    if f["tflops_fp4"] is not None:
        assert f["tflops_fp4"] >= 1.99 * f["tflops_fp8"]


@every_entry
def test_formats_appear_with_their_architecture(name):
    f = figures(name)
    assert (f["tflops_fp8"] is not None) == (f["family"] != "ampere")
    assert (f["tflops_fp4"] is not None) == (f["family"] in ("blackwell", "blackwell_rtx", "cdna4"))


@every_entry
def test_clock_times_units_gives_the_peak(name):
    """Peak bf16 = units x FLOP per clock x clock with a power of two of FLOP per clock and unit."""
    f = figures(name)
    if f["clock_mhz"] is None:
        pytest.skip("no clock stands for this peak")
    per_clock = f["tflops_bf16"] * 1e6 / (f["sm_count"] * f["clock_mhz"])
    assert min(abs(per_clock / p - 1) for p in (512, 1024, 2048, 4096, 8192)) < 0.05


@every_entry
def test_links_exist_where_there_is_more_than_one_gpu(name):
    f = figures(name)
    assert f["domain_gpus"] == 1 or f["link_gb_s"] > 0
    assert f["link_latency_us"] > 0
    assert f["nic_gb_s"] > 0
    assert f["domain_gpus"] % f["node_gpus"] == 0
    assert not f["multicast"] or f["topology"] == "switch"
    assert f["nic_gb_s"] <= f["link_gb_s"] < f["hbm_gb_s"]


def test_a_mesh_link_is_the_sum_over_its_peers():
    assert figures("mi300x")["link_gb_s"] == 7 * 64
    assert figures("mi355x")["link_gb_s"] == pytest.approx(7 * 76.8)


def test_rack_scale_domains_span_nodes():
    for name in ("gb200", "gb300"):
        assert (figures(name)["domain_gpus"], figures(name)["node_gpus"]) == (72, 4)


def test_blackwell_ultra_trades_int8_for_fp4():
    assert figures("gb300")["tflops_fp4"] == 15000
    assert figures("b300_sxm")["tflops_int8"] < figures("b200_sxm")["tflops_int8"] / 10


@every_entry
def test_inheritance_ends_at_an_entry_that_stands_alone(name):
    chain = relatives(name)
    assert chain[0] == name
    assert set(chain) <= set(hardware_names())
    assert inherits_from(chain[-1]) is None


def test_indices_count_the_sorted_catalogue():
    assert [hardware_index(n) for n in sorted(hardware_names())] == list(range(len(hardware_names())))


@every_entry
def test_an_entry_is_found_by_its_own_name_in_any_writing(name):
    for spelling in (name, name.upper(), name.replace("_", "-"), name.replace("_", " ")):
        assert resolve_hardware(spelling).name == name


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("H100-80GB", "h100_sxm"),
        ("H100 80GB", "h100_sxm"),
        ("NVIDIA H100 80GB HBM3", "h100_sxm"),
        ("H100 SXM5", "h100_sxm"),
        ("H100 PCIe (NVLink bridge)", "h100_pcie"),
        ("H100 (pairwise NVLink)", "h100_sxm_pairwise_nvlink"),
        ("NVIDIA H200", "h200_sxm"),
        ("B200 180GB", "b200_sxm"),
        ("B200 192GB", "b200_sxm"),
        ("NVIDIA B300 SXM6 AC", "b300_sxm"),
        ("GB200 NVL72", "gb200"),
        ("GB10 (DGX Spark)", "gb10"),
        ("NVIDIA A100-SXM4-80GB", "a100_sxm_80"),
        ("A100-SXM4-40GB", "a100_sxm_40"),
        ("A100-40", "a100_sxm_40"),
        ("A100-PCIE-80GB", "a100_pcie_80"),
        ("RTXPRO6000", "rtx_pro_6000"),
        ("RTX PRO 6000 Blackwell", "rtx_pro_6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx_pro_6000"),
        ("RTX PRO 5000 72GB", "rtx_pro_5000_72"),
        ("RTX4090", "rtx_4090"),
        ("NVIDIA GeForce RTX 4090", "rtx_4090"),
        ("NVIDIA L40S", "l40s"),
        ("AMD Instinct MI300X", "mi300x"),
        ("gfx942", "mi300x"),
        ("gfx950", "mi355x"),
    ],
)
def test_usual_spellings_resolve(spelling, name):
    assert resolve_hardware(spelling).name == name


@pytest.mark.parametrize(
    "spelling", ["h100_smx", "A10G", "L40", "B100", "", "A100-PCIE-40GB", "H100 64GB", "tpu"]
)
def test_another_accelerator_is_refused_not_taken_for_a_near_one(spelling):
    with pytest.raises(UserError) as caught:
        resolve_hardware(spelling)
    assert "\n" not in caught.value.message


def test_a_spelling_is_known_or_not():
    assert known_spelling("NVIDIA H100 80GB HBM3") == "h100_sxm"
    assert known_spelling("tpu") is None


def test_a_misspelt_name_names_the_nearest():
    with pytest.raises(UserError, match="nearest: h100_sxm"):
        resolve_hardware("h100_smx")


@pytest.mark.measured
@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("silicon_dev.csv", "hardware"),
        ("amd_dev.csv", "hardware"),
        ("allreduce_dev.csv", "hardware"),
        ("throughput_dev.csv", "hardware"),
        ("kv_capacity_dev.csv", "gpu"),
    ],
)
def test_every_accelerator_of_the_measured_tables_is_known(shared, table, column):
    with (shared / "measured" / table).open(encoding="utf-8", newline="") as file:
        names = {row[column] for row in csv.DictReader(file)}
    assert names
    assert all(resolve_hardware(name).name for name in names)


@pytest.mark.measured
def test_memory_is_what_engines_saw(shared):
    with (shared / "measured" / "kv_capacity_dev.csv").open(encoding="utf-8", newline="") as file:
        rows = [
            r for r in csv.DictReader(file) if r["gpu_mem_gib"] and "as the card name says" not in r["notes"]
        ]
    seen = {(r["gpu"], float(r["gpu_mem_gib"])) for r in rows} - {("RTX 4090", 24.0)}  # the card's name again
    assert seen
    for gpu, gib in seen:
        assert resolve_hardware(gpu).fields["hbm_gib"] == pytest.approx(gib, abs=0.02)


LLAMA_8B_PROJECTIONS = {"gate_up_proj": (4096, 28672), "down_proj": (14336, 4096), "qkv_proj": (4096, 6144)}
"""Columns and rows of the weights of three measured operators."""


@pytest.mark.measured
@pytest.mark.parametrize("folder", ["RTX4090", "RTXPRO6000"])
def test_no_measured_projection_beats_the_datasheet(shared, folder):
    """Within 1 %: the RTX 4090 boosts above the clock that its peak stands for."""
    f = resolve_hardware(folder).fields
    profile = shared / "measured/operator_profiles" / folder / "meta-llama/Llama-3.1-8B/bf16/tp1/dense.csv"
    with profile.open(encoding="utf-8", newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["layer"] in LLAMA_8B_PROJECTIONS]
    assert rows
    for row in rows:
        k, n = LLAMA_8B_PROJECTIONS[row["layer"]]
        us = float(row["time_us"])
        assert 2.0 * float(row["tokens"]) * k * n / us / 1e6 < 1.01 * f["tflops_bf16"]
        assert 2.0 * k * n / us / 1e3 < f["hbm_gb_s"]


@pytest.mark.measured
def test_no_measured_amd_matrix_rate_beats_the_datasheet(shared):
    with (shared / "measured" / "amd_operators.csv").open(encoding="utf-8", newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["op"].endswith("_best_tflops")]
    assert rows
    for row in rows:
        f = figures("mi355x" if "gfx950" in row["hardware"] else "mi300x")
        four_bit = "fp4" in row["dtype"] or "float4" in row["dtype"]
        eight_bit = "8" in row["dtype"].replace("bfloat16", "")
        peak = f["tflops_fp4"] if four_bit else f["tflops_fp8"] if eight_bit else f["tflops_bf16"]
        assert float(row["value"]) < peak


@pytest.mark.measured
def test_no_measured_bus_bandwidth_beats_the_links_but_by_in_switch_reduction(shared):
    with (shared / "measured" / "allreduce_dev.csv").open(encoding="utf-8", newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["busbw_gbps"] and r["n_nodes"] == "1"]
    assert rows
    for row in rows:
        f = figures(row["hardware"])
        assert float(row["busbw_gbps"]) < f["link_gb_s"] * (1.1 if f["multicast"] else 1.0)
