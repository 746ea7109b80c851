"""`servesweep estimate`: the report, the object for programs, verdicts and warnings."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from sweep.cli import EXIT_INPUT, main

LLAMA = ("--model", "llama_3_1_8b", "--hardware", "h100_sxm", "--max-concurrency", "32")
SECTION_9 = (
    "status reason ttft_ms tpot_ms e2e_ms output_tok_s_per_gpu total_tok_s_per_gpu weights_gib_per_gpu weights_gib "
    "kv_capacity_tokens kv_capacity_tokens_total max_concurrency over_ceiling usd_per_m_input usd_per_m_output "
    "usd_per_m_total bound"
).split()


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    status = main(["estimate", *argv])
    told = capsys.readouterr()
    return status, told.out, told.err


def answer(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    status, out, _ = run(capsys, *argv, "--json")
    assert status == 0
    return dict(json.loads(out))


def test_the_report_shows_memory_by_class_performance_step_split_and_pollution_twice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, out, _ = run(capsys, *LLAMA, "--tp", "2")
    assert status == 0
    text = " ".join(out.split())
    for words in (
        "llama_3_1_8b on 2 x h100_sxm (TP2)",
        "attention",
        "dense MLPs",
        "LM head",
        "KV cache",
        "TTFT",
        "TPOT",
        "interactivity",
        "all-reduce, exposed",
        "exposed communication",
        "of decode time is in steps with prefill",
        "above pure decode",
        "$/M tokens",
    ):
        assert words in text, words


def test_the_object_has_the_names_of_the_tables_and_its_parts_add_up(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = answer(capsys, *LLAMA)
    assert [name for name in SECTION_9 if name not in found] == []
    assert sum(found["step_ms_by_part"].values()) == pytest.approx(found["step_ms"])
    assert sum(found["memory"]["weights_by_class_gib"].values()) == pytest.approx(found["weights_gib"])


def test_the_inference_mode_selects_the_projection(capsys: pytest.CaptureFixture[str]) -> None:
    memory = answer(capsys, *LLAMA, "--inference-mode", "memory")
    performance = answer(capsys, *LLAMA, "--inference-mode", "performance")
    assert "tpot_ms" not in memory and "memory" in memory
    assert "tpot_ms" in performance and "kv_pool_gib_per_gpu" not in performance


def test_what_does_not_fit_has_a_verdict_and_the_smallest_changes_that_would_make_it_fit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, out, _ = run(capsys, "--model", "llama_3_1_70b", "--hardware", "h100_sxm")
    assert status == 0
    assert "does not fit" in out and "would fit with" in out and "parallelism.tp=" in out
    found = answer(capsys, "--model", "llama_3_1_70b", "--hardware", "h100_sxm")
    assert found["status"] == "infeasible" and found["tpot_ms"] is None and found["memory"]["remedies"]


def test_an_input_set_by_hand_that_changes_nothing_is_a_warning_under_its_own_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, _, err = run(capsys, *LLAMA, "--ep-load-balance", "1.5")
    assert status == 0
    assert (
        err.strip()
        == "servesweep estimate: --ep-load-balance changes nothing here: it needs a model with experts"
    )


def test_the_roofline_is_never_slower_than_the_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, *LLAMA, "--fidelity", "roofline")["tpot_ms"] < answer(capsys, *LLAMA)["tpot_ms"]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--model", "lama_3_1_8b", "--hardware", "h100_sxm"), "llama_3_1_8b"),
        (("--model", "llama_3_1_8b", "--hardware", "h1000"), "h100"),
        ((*LLAMA, "--tensor-parallel", "2"), "--tensor-parallel"),
        ((*LLAMA, "--fidelity", "tables"), "--fidelity"),
        ((*LLAMA, "--config", "absent.yaml"), "absent.yaml"),
        ((*LLAMA, "--moe-router-coverage", "absent.json"), "absent.json"),
    ],
)
def test_a_mistake_is_one_line_and_exit_status_2(
    argv: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run(capsys, *argv)
    assert status == EXIT_INPUT and out == ""
    assert len(err.strip().splitlines()) == 1 and words in err


def test_help_loads_no_compiler_and_no_table_library() -> None:
    script = (
        "import sys; from sweep.estimation.arguments import build; build().format_help(); "
        "print(sorted({'numba', 'polars', 'hydra', 'rich', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_estimate_loads_no_table_library() -> None:
    program = (
        "import sys; from sweep.cli import main; "
        "main('estimate --model llama_3_1_8b --hardware h100_sxm --json'.split()); "
        "print({'polars', 'hydra', 'matplotlib'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.strip().endswith("set()")


def test_an_open_arrival_process_is_simulated_beside_the_closed_form(
    capsys: pytest.CaptureFixture[str],
) -> None:
    load = ("--request-rate", "4", "--arrival-model", "poisson", "--des-num-requests", "200")
    found = answer(capsys, *LLAMA, *load)
    simulated = found["simulated"]
    assert simulated["n_finished"] == 200 and simulated["rejected"] == 0
    assert simulated["tpot_mean_ms"] == pytest.approx(found["tpot_ms"], rel=0.25)
    assert simulated["ttft_p50_ms"] <= simulated["ttft_p99_ms"]
    again = answer(capsys, *LLAMA, *load)
    assert again["simulated"] == simulated
    other = answer(capsys, *LLAMA, *load, "--des-seed", "7")
    assert other["simulated"] != simulated
    _, out, _ = run(capsys, *LLAMA, *load)
    assert "Simulated" in out and "p99" in out


def test_a_fleet_a_token_pool_and_a_prompt_limit_change_the_simulation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    load = ("--request-rate", "20", "--arrival-model", "poisson", "--des-num-requests", "200")
    one = answer(capsys, *LLAMA, *load)["simulated"]
    four = answer(capsys, *LLAMA, *load, "--des-instances", "4")["simulated"]
    assert four["tpot_mean_ms"] < one["tpot_mean_ms"]
    small = answer(capsys, *LLAMA, *load, "--des-kv-cache-tokens", "4000")["simulated"]
    assert small["ttft_mean_ms"] > 5.0 * one["ttft_mean_ms"]


def test_a_load_curve_rises_through_the_sustainable_rate(capsys: pytest.CaptureFixture[str]) -> None:
    load = (
        "--request-rate",
        "4",
        "--arrival-model",
        "deterministic",
        "--des-num-requests",
        "100",
        "--des-sweep",
    )
    curve = answer(capsys, *LLAMA, *load)["simulated"]["load_curve"]
    rates = [point["offered_per_s"] for point in curve]
    assert len(curve) >= 6 and rates == sorted(rates)
    assert rates[-1] > 20.0, "up to what the deployment sustains, not to what is offered"


def test_report_30_an_estimate_says_what_its_operator_times_stand_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    measured = answer(capsys, *LLAMA)["operator_times"]
    assert set(measured) == {"gemm_bf16", "prefill_gqa", "decode_gqa", "elementwise"}
    assert not measured["gemm_bf16"]["inherited"] and measured["gemm_bf16"]["hardware"] == "h100_sxm"
    carried = answer(capsys, "--model", "llama_3_1_8b", "--hardware", "rtx_3090", "--max-concurrency", "4")
    assert any(source["inherited"] for source in carried["operator_times"].values())
    assert answer(capsys, *LLAMA, "--fidelity", "roofline")["operator_times"] == {}
    _, out, _ = run(capsys, *LLAMA)
    assert "operator times:" in out


def test_split_pools_have_an_account_each(capsys: pytest.CaptureFixture[str]) -> None:
    pools = (
        "--model",
        "llama_3_1_70b",
        "--hardware",
        "h100_sxm",
        "--disaggregate",
        "--prefill-tp",
        "1",
        "--decode-tp",
        "4",
    )
    found = answer(capsys, *pools)
    assert found["status"] == "infeasible" and found["memory"]["fits"] and not found["prefill_memory"]["fits"]
    _, out, _ = run(capsys, *pools)
    assert "prefill pool" in out and "decode pool" in out and "does not fit" in out


def test_an_illegal_shape_cannot_run_which_is_not_the_same_as_not_fitting(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, out, _ = run(capsys, *LLAMA, "--tp", "3")
    assert "cannot run: tp does not divide the attention heads" in out and "does not fit" not in out
