"""An estimate priced by measured operator tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweep.api import sweep
from sweep.errors import UserError
from sweep.estimation.arguments import parse
from sweep.estimation.price import Estimate, estimate
from sweep.verbs.estimate import gathered

FLAGS = "--model llama_3_1_8b --isl 1024 --osl 256 --max-num-batched-tokens 2048 --concurrency".split()
pytestmark = pytest.mark.measured


@pytest.fixture(scope="module")
def bundles(shared: Path) -> str:
    return str(shared / "measured/operator_profiles")


def estimated(*flags: str) -> Estimate:
    return estimate(gathered(parse([*FLAGS, *flags])[1]))


@pytest.mark.parametrize("hardware", ["rtx_4090", "RTXPRO6000"])
def test_tables_price_near_what_the_fit_says_and_say_so(bundles: str, hardware: str) -> None:
    tables = estimated("16", "--hardware", hardware, "--operator-profiles", bundles)
    fitted = estimated("16", "--hardware", hardware)
    assert tables.fidelity == "tables"
    assert any("operator times: tables of RTX" in note for note in tables.notes)
    for name in ("ttft_ms", "tpot_ms"):
        ratio = tables.results[name] / fitted.results[name]
        assert ratio == pytest.approx(1.0, abs=0.3)
        assert ratio != 1.0
    assert tables.memory == fitted.memory


def test_a_decode_step_of_one_sequence_is_the_sum_of_its_looked_up_layers(bundles: str) -> None:
    from sweep.profiles import read_profile

    profile = read_profile(Path(bundles), "RTX4090", "meta-llama/Llama-3.1-8B", "bf16", 1)
    per_layer = (
        "layernorm",
        "qkv_proj",
        "rotary_emb",
        "o_proj",
        "layernorm",
        "gate_up_proj",
        "act_fn",
        "down_proj",
    )
    linear_ns = sum(float(profile.linear[name].at(1.0)) for name in per_layer)
    dense_ms = (32 * linear_ns + float(profile.sequence["lm_head"].at(1.0))) / 1e6
    tpot_ms = estimated("1", "--hardware", "rtx_4090", "--operator-profiles", bundles).results["tpot_ms"]
    assert dense_ms < tpot_ms < 1.1 * dense_ms


def test_tables_without_a_bundle_are_refused_with_what_is_there(bundles: str) -> None:
    with pytest.raises(
        UserError, match=r"no operator profile of llama_3_1_8b on h100_sxm.*RTX4090/meta-llama"
    ):
        estimated("1", "--hardware", "h100", "--operator-profiles", bundles)
    with pytest.raises(UserError, match="needs profile bundles"):
        estimate(gathered(parse([*FLAGS, "1", "--hardware", "h100"])[1]), "tables")


def test_a_grid_is_told_what_to_do_instead() -> None:
    with pytest.raises(UserError, match=r"one deployment at a time.*calibrate operators"):
        sweep("model=llama_3_1_8b", "hardware=rtx_4090", "fidelity=tables")
