"""Casts, backends, clock and measured prefill rate against their equations in plain numbers."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.attention import attention_tflops, backend_factor
from kernels.cast import cast_is_given, cast_us
from kernels.coefficients import roofline_coefficients
from kernels.fabric import domain_gpus
from kernels.gemm import gemm_us
from kernels.layout import DERIVED
from kernels.peaks import clock_ratio, peak_tflops
from kernels.resolve import resolve
from tests.deployments import record_of

C = roofline_coefficients()
BF16 = 1.0


def resolved(**values: object):
    d = np.zeros(1, DERIVED)
    p = record_of(**values)[0]
    resolve(p, d[0])
    return p, d[0]


@pytest.mark.parametrize(("cast", "width"), [("fp8", 1.0), ("mxfp4", 0.53125), ("nvfp4", 0.5625)])
def test_a_cast_reads_16_bit_and_writes_the_format_once_per_gemm_input(cast: str, width: float) -> None:
    p, d = resolved(act_quant_dtype=cast, tp=2)
    n_bytes = 32 * 100 * (2 * 4096 + 14336 / 2) * (2.0 + width)
    assert cast_us(100.0, 0.0, p, d, C) == pytest.approx(n_bytes / (p["hbm_gb_s"] * 1e3))


def test_no_cast_costs_nothing_and_not_given_leaves_it_to_the_gemm() -> None:
    p, d = resolved(act_quant_dtype="none")
    assert cast_is_given(p) and cast_us(100.0, 0.0, p, d, C) == 0.0
    assert not cast_is_given(record_of()[0])


def test_casts_of_a_moe_layer_count_its_routings() -> None:
    p, d = resolved(model="qwen3_30b_a3b", act_quant_dtype="fp8")
    n_bytes = 48 * 3.0 * (100 * 2048 + 800 * (2048 + 768))
    assert cast_us(100.0, 800.0, p, d, C) == pytest.approx(n_bytes / (p["hbm_gb_s"] * 1e3))


@pytest.mark.parametrize(
    ("backend", "factor"), [("aiter", 0.85), ("triton", 1.0), ("ck", 0.9), ("hip", 1.1), (None, 1.0)]
)
def test_an_attention_library_scales_the_compute_of_the_core(backend: str | None, factor: float) -> None:
    p = record_of(attention_backend=backend)[0]
    assert backend_factor(p) == factor
    assert attention_tflops(False, p) == pytest.approx(p["tflops_bf16"] / factor)


def test_an_assumed_clock_scales_every_peak_and_no_bandwidth() -> None:
    p = record_of(gpu_clock_mhz=990.0)[0]
    assert clock_ratio(p) == pytest.approx(990.0 / p["clock_mhz"])
    assert peak_tflops(BF16, p) == pytest.approx(p["tflops_bf16"] * 990.0 / p["clock_mhz"])
    assert clock_ratio(record_of()[0]) == 1.0


@pytest.mark.parametrize("shape", [(1.0, 4096.0, 4096.0), (4096.0, 4096.0, 14336.0)])
def test_the_ceiling_backend_is_the_larger_of_fixed_shares_of_bandwidth_and_peak(
    shape: tuple[float, ...],
) -> None:
    m, n, k = shape
    p = record_of(gemm_backend="origami")[0]
    memory = 2 * (m * k + n * k + m * n) / (0.70 * p["hbm_gb_s"] * 1e3)
    compute = 2 * m * n * k / (0.60 * p["tflops_bf16"] * 1e6)
    assert gemm_us(m, n, k, BF16, p, C) == pytest.approx(max(memory, compute))


def test_a_replica_over_more_nodes_has_smaller_domains_and_a_rack_is_one() -> None:
    assert domain_gpus(record_of(tp=8)[0]) == 8
    assert domain_gpus(record_of(tp=8, target_nodes=2)[0]) == 4
    assert domain_gpus(record_of(tp=8, target_nodes=1)[0]) == 8
    rack = {"hardware": "gb200", "tp": 8, "target_nodes": 2}
    assert domain_gpus(record_of(**rack)[0]) == record_of(**rack)[0]["domain_gpus"]
