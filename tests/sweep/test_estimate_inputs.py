"""The command line of `servesweep estimate`: flags, environment, YAML, overrides, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sweep.errors import UserError
from sweep.estimation.arguments import build, parse
from sweep.estimation.experiment import hardware_values, read, read_hardware
from sweep.estimation.given import Given, from_environment, from_override
from sweep.estimation.rules import Deployment, deployment
from sweep.schema import ALL_FIELDS

NAMED = ("--model", "llama_3_1_8b", "--hardware", "h100_sxm")


def asked(*argv: str, environment: dict[str, str] | None = None) -> Deployment:
    _, givens = parse([*NAMED, *argv])
    return deployment([*from_environment(environment or {}), *givens])


def value(key: str, *argv: str) -> Any:
    return asked(*argv).values.get(key)


def test_every_flag_of_the_compatible_estimator_is_an_option() -> None:
    options = build()._option_string_actions
    flags = [s.flag for f in ALL_FIELDS for s in f.seeds if s.spec == "inferasim" and s.flag.startswith("--")]
    assert [flag for flag in flags if flag not in options] == []


def test_help_groups_by_question_names_units_and_marks_what_often_matters() -> None:
    text = build().format_help()
    assert "What does communication cost?\n" in text
    assert "\u2691 Tensor-parallel width" in " ".join(text.split())
    assert "[GB/s]" in text and "--profile-only" not in text


def test_aliases_and_canonical_names_set_the_same_input() -> None:
    for alias, name in (
        ("--prefix-hit-fraction", "--prefix-cache-hit-rate"),
        ("--target-num-nodes", "--target-nodes"),
    ):
        assert (
            asked(alias, "0.5" if "prefix" in alias else "2").values
            == asked(name, "0.5" if "prefix" in name else "2").values
        )
    assert value("des.kv_blocks", "--des-cache-slots", "7") == 7


def test_the_environment_gives_the_core_shape_and_a_flag_wins_over_it() -> None:
    environment = {"INFERASIM_TP": "8", "INFERASIM_EP": "4", "INFERASIM_PP": "2", "INFERASIM_VP": "2"}
    shape = asked(environment=environment).values
    assert (shape["parallelism.tp"], shape["parallelism.moe_ep"], shape["parallelism.virtual_stages"]) == (
        8,
        4,
        2,
    )
    assert asked("--tp", "4", environment=environment).values["parallelism.tp"] == 4


def test_attention_dp_of_the_compatible_tool_divides_tp_and_ours_multiplies_gpus() -> None:
    theirs = asked("--tp", "8", "--attention-dp-size", "4").values
    assert (theirs["parallelism.tp"], theirs["parallelism.attention_dp"]) == (2, 4)
    ours = asked("--tp", "8", "--attention-dp", "4").values
    assert (ours["parallelism.tp"], ours["parallelism.attention_dp"]) == (8, 4)


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        (("--tp", "8", "--attention-dp-size", "3"), ("--attention-dp-size=3", "does not divide --tp 8")),
        (
            ("--disaggregate", "--prefill-tp", "4", "--prefill-attention-dp", "3"),
            ("--prefill-attention-dp=3", "--prefill-tp 4"),
        ),
        (("--prefill-rate-us-per-token", "5"), ("--prefill-rate-lo-tokens", "--prefill-rate-hi-tokens")),
        (
            tuple(
                "--prefill-rate-us-per-token 5 --prefill-rate-lo-tokens 9 --prefill-rate-hi-tokens 8".split()
            ),
            ("--prefill-rate-hi-tokens=8", "not above"),
        ),
        (("--prefill-tp", "4"), ("--prefill-tp", "--disaggregate")),
        (("--kv-transfer-bw-gbps", "50"), ("--kv-transfer-bw-gbps", "--disaggregate")),
        (("--request-rate", "3", "--arrival-model", "closed"), ("--request-rate=3", "poisson")),
        (("--request-rate", "3", "--serving-model", "static"), ("static", "--request-rate")),
        (("--load-benchmark-scaling", "LICENSE"), ("--load-benchmark-scaling", "--anchor-store")),
        (("--anchor-store", "no/such/folder"), ("--anchor-store=no/such/folder", "no such file")),
        (("--serving-model", "fluid"), ("--serving-model=fluid", "continuous, static")),
        (("--weight-dtype", "fp7"), ("--weight-dtype=fp7", "nearest: fp")),
        (("--input-len", "-4"), ("--input-len=-4", "out of range")),
        (("--speculative-acceptance-rate", "1.5"), ("--speculative-acceptance-rate", "<= 1")),
        (("--max-concurency", "4"), ("--max-concurency", "nearest: --max-concurrency")),
        (("parallelism.pt=2",), ("parallelism.pt", "nearest: parallelism.tp")),
    ],
)
def test_what_is_wrong_or_contradictory_is_refused_by_the_name_that_was_written(
    argv: tuple[str, ...], names: tuple[str, ...]
) -> None:
    with pytest.raises(UserError) as told:
        asked(*argv)
    assert all(name in told.value.message for name in names), told.value.message


def test_a_model_and_an_accelerator_must_be_named() -> None:
    with pytest.raises(UserError, match="which model"):
        deployment(parse(["--hardware", "h100_sxm"])[1])
    with pytest.raises(UserError, match="which accelerator"):
        deployment(parse(["--model", "llama_3_1_8b"])[1])


def test_an_alias_has_its_own_default_and_its_own_reading_of_zero() -> None:
    assert value("workload.osl") == 128
    assert value("engine.max_num_batched_tokens") == 0
    assert value("engine.block_size", "--kv-block-size", "0") == 1
    assert value("engine.gpu_memory_utilization", "--kv-cache-memory-fraction", "0") == 1.0
    assert value("disagg.kv_transfer_bw_gbps", "--disaggregate", "--kv-transfer-bw-gbps", "0") is None


def test_an_engine_version_is_written_as_engines_do_or_as_its_number() -> None:
    assert value("engine.engine_version", "--engine-version", "0.19.0") == 1900.0
    assert value("engine.engine_version", "--engine-version", "1900") == 1900.0


def test_zero_means_zero_where_it_can_and_is_not_taken_for_unset() -> None:
    assert value("engine.decode_step_overhead_us", "--decode-step-overhead-us", "0") == 0.0
    assert value("engine.mixed_batch_penalty", "--mixed-batch-penalty", "0") == 0.0
    assert value("attention.sliding_window", "--sliding-window", "0") == 0


def test_the_serving_model_and_an_open_rate_decide_the_load() -> None:
    assert value("workload.load", "--serving-model", "static") == "static"
    assert value("workload.load", "--request-rate", "3") == "rate"
    assert not asked("--request-rate", "3").simulate
    assert asked("--request-rate", "3", "--arrival-model", "poisson").simulate
    assert asked("--des-workload-file", "requests.json").simulate


def test_fp4_means_mxfp4_on_amd() -> None:
    _, givens = parse(["--model", "gpt_oss_120b", "--gpu-arch", "mi355x", "--weight-dtype", "fp4"])
    assert deployment(givens).values["precision.weight_dtype"] == "mxfp4"
    assert value("precision.weight_dtype", "--weight-dtype", "fp4") == "nvfp4"


def test_switches_can_only_be_set_and_no_sampling_clears_sampling() -> None:
    assert value("host.sampling", "--no-sampling") is False
    assert value("comms.quick_reduce", "--quick-reduce") is True


def test_overrides_take_hydra_keys_short_names_and_the_experiment_s_own() -> None:
    assert value("engine.block_size", "engine.block_size=32") == 32
    assert value("workload.osl", "osl=7") == 7
    assert value("parallelism.tp", "tensor_model_parallel_size=8") == 8
    with pytest.raises(UserError, match="neither an option nor key=value"):
        from_override("nonsense")


def test_the_example_experiment_is_read_and_what_serving_ignores_is_named(shared: Path) -> None:
    file = shared / "examples/experiment/deepseek_r1-FP8-serving.yaml"
    givens, notes = read(file, {"INFERASIM_TP": "4"})
    values = deployment([*givens, Given("hardware.name", "mi355x", "--gpu-arch")])
    assert values.model == "deepseek_v3"
    assert (values.values["parallelism.tp"], values.values["parallelism.moe_ep"]) == (4, 8)
    assert values.values["workload.isl"] == 2048
    assert "lr_warmup_iters" in notes[0] and "micro_batch_size" in notes[0]


def test_an_inference_block_counts_and_flags_win_over_it(tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(
        "modules:\n  pre_trainer:\n    model: llama_3_1_8b.yaml\n    overrides: {tensor_model_parallel_size: 2}\n"
        "inference:\n  input_len: 99\n  collective: {decode_comm_overlap: 0.5}\n"
        "  disaggregation: {enabled: true, decode_replicas: 3}\n  unknown_knob: 4\n"
    )
    givens, notes = read(file, {})
    _, flags = parse(["--hardware", "h100_sxm", "--input-len", "50"])
    values = deployment([*givens, *flags]).values
    assert (
        values["workload.isl"],
        values["comms.decode_comm_overlap"],
        values["disagg.decode_replicas"],
    ) == (50, 0.5, 3)
    assert "unknown_knob" in notes[0]


def test_a_hardware_configuration_sets_the_links_and_names_what_it_does_not(shared: Path) -> None:
    givens, notes = read_hardware(shared / "examples/experiment/hardware_config.yaml", {})
    values = {g.key: g.value for g in givens}
    assert values["hardware.link_gb_s"] == 1024.0 and values["hardware.nic_gb_s"] == 50.0
    assert values["cluster.scale_up_gpus"] == 8 and values["cluster.interconnect"] == "switch"
    assert "rccl_overhead_us" in notes[0]


def test_a_bandwidth_share_counts_relative_to_the_reference_s() -> None:
    values = {g.key: g.value for g in hardware_values({"node_bw": 1000.0, "bw_eff": 0.35}, "f")[0]}
    assert values["hardware.link_gb_s"] == 500.0


@pytest.mark.parametrize("text", ["- a\n", "a: [", "a: b: c", "\x00"])
def test_a_file_that_is_no_experiment_is_refused_by_its_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=r"bad\.yaml"):
        read(file, {})


def test_a_missing_file_is_refused_by_its_name() -> None:
    with pytest.raises(UserError, match=r"absent\.yaml: cannot be read"):
        read("absent.yaml", {})


def test_a_static_batch_is_the_given_one_else_the_concurrency_else_one_sequence() -> None:
    static = ("--serving-model", "static")
    assert value("workload.inference_batch_size", *static) == 1
    assert value("workload.inference_batch_size", *static, "--inference-batch-size", "16") == 16
    assert value("workload.inference_batch_size", *static, "--max-concurrency", "8") is None
