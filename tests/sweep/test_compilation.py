"""Compilation happens once, in the process that starts a run."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed, parallel_config

from sweep.coefficients import coefficients
from sweep.evaluate import Evaluator
from sweep.hydra_sweeper import compose_grid

ROOT = Path(__file__).resolve().parents[2]


def compilations(evaluator: Evaluator) -> tuple[int, float]:
    """Kernels that this process compiles to evaluate a block, and a figure of it."""
    from numba.core import event

    class Counter(event.Listener):
        n = 0

        def on_start(self, e: event.Event) -> None:
            self.n += e.data["dispatcher"].py_func.__module__.startswith("kernels.")

        def on_end(self, e: event.Event) -> None:
            pass

    counter = Counter()
    event.register("numba:compile", counter)
    try:
        figure = float(np.nansum(evaluator.block(0, 2)))
        return counter.n, figure
    finally:
        event.unregister("numba:compile", counter)


def evaluator() -> Evaluator:
    grid = compose_grid(["model=llama_3_1_8b", "hardware=h100_sxm,h200_sxm"])
    return Evaluator(grid, coefficients(grid.hardware, "fitted"))


def test_workers_find_the_kernels_compiled() -> None:
    ours = evaluator()
    expected = float(np.nansum(ours.block(0, 2)))
    with parallel_config(backend="loky", n_jobs=2):
        assert Parallel()(delayed(compilations)(ours) for _ in range(2)) == [(0, expected)] * 2


def test_kernels_as_plain_python_give_the_same_figures() -> None:
    program = (
        "import sys; import numpy as np; from tests.sweep.test_compilation import evaluator;"
        "sys.stdout.write(' '.join(map(float.hex, evaluator().block(0, 2).ravel().tolist())))"
    )
    settings = os.environ | {"SERVESWEEP_JIT": "0"}
    plain = subprocess.run(
        [sys.executable, "-c", program], env=settings, cwd=ROOT, capture_output=True, text=True, check=True
    )
    figures = [float.fromhex(word) for word in plain.stdout.split()]
    np.testing.assert_allclose(figures, evaluator().block(0, 2).ravel(), rtol=1e-12, equal_nan=True)
