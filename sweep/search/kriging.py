"""What evaluated deployments say about those not evaluated yet: simple kriging over the axes' choices.

The covariance of two deployments is a product over axes, so that one model learns from every scenario and
accelerator at once: exp(-((u - v) / LENGTH)^2) for numbers u, v on [0, 1], LIKENESS^(squared distance of the inputs
that the choices set, mean 1) for words, each less a share of its own. Simple kriging: Rasmussen and Williams,
Gaussian Processes for Machine Learning, 2.2. The constants were chosen on the eight spaces of docs/search.md.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from sweep.fields import LOOKUPS
from sweep.search.space import Codes, FreeAxis, Space

Floats = npt.NDArray[np.float64]

LENGTH = 1.0
LIKENESS = 0.9
OWN_NUMBER, OWN_WORD = 0.02, 0.1
"""Share of the variance that a choice has in common with no other."""
NOISE = 1e-3
BLOCK = 4096
"""Deployments predicted at once: memory stays flat."""


class Kriging:
    """Predicts figures, shape (n, figures), from those of other deployments."""

    def __init__(self, space: Space) -> None:
        self._alike = [_alike(free) for free in space.axes]

    def fit(self, codes: Codes, figures: Floats) -> Kriging:
        """Learn from `figures` (logarithms) of deployments `codes`."""
        self._codes = codes
        self._mean = figures.mean(axis=0)
        covariance = self._covariance(codes, codes) + np.float32(NOISE) * np.eye(len(codes), dtype=np.float32)
        self._factor, _ = cho_factor(covariance, lower=True, overwrite_a=True, check_finite=False)
        residuals = (figures - self._mean).astype(np.float32)
        self._weights = cho_solve((self._factor, True), residuals, check_finite=False)
        self._deviation = np.sqrt((residuals * self._weights).mean(axis=0).clip(0.0))
        return self

    def predict(self, codes: Codes) -> tuple[Floats, Floats]:
        """Expected figures of deployments `codes`, and their standard deviations."""
        parts = [self._predict(codes[i : i + BLOCK]) for i in range(0, len(codes), BLOCK)]
        mean, deviation = (np.concatenate(part) for part in zip(*parts, strict=True))
        return mean, deviation

    def _predict(self, codes: Codes) -> tuple[Floats, Floats]:
        covariance = self._covariance(codes, self._codes)
        explained = solve_triangular(self._factor, covariance.T, lower=True, check_finite=False)
        share = np.sqrt((1.0 - (explained**2).sum(axis=0)).clip(0.0))
        mean = covariance @ self._weights + self._mean
        return mean.astype(np.float64), (share[:, None] * self._deviation).astype(np.float64)

    def _covariance(self, first: Codes, second: Codes) -> npt.NDArray[np.float32]:
        product = np.ones((len(first), len(second)), np.float32)
        for axis, alike in enumerate(self._alike):
            product *= alike[:, second[:, axis]][first[:, axis]]
        return product


def _alike(free: FreeAxis) -> npt.NDArray[np.float32]:
    """Covariance of the choices of one axis, shape (radix, radix)."""
    if free.numbers is not None:
        shared = np.exp(-(((free.numbers[:, None] - free.numbers) / LENGTH) ** 2))
        own = OWN_NUMBER
    else:
        shared, own = LIKENESS ** _distance(free), OWN_WORD
    return ((1.0 - own) * shared + own * np.eye(len(shared))).astype(np.float32)


def _distance(free: FreeAxis) -> Floats:
    """Mean squared difference of the inputs that choices set, standardised; 1 on average over different choices."""
    axis = free.axis
    # a row number says nothing of likeness
    columns = [i for i, name in enumerate(axis.columns) if name not in LOOKUPS]
    table = np.nan_to_num(axis.table[:, columns], nan=-1.0)
    table = table[:, np.ptp(table, axis=0) > 0.0] if columns else table
    if table.shape[1] == 0:
        return 1.0 - np.eye(axis.radix)
    table = np.sign(table) * np.log1p(np.abs(table))
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    squares = np.zeros((axis.radix, axis.radix))
    for column in table.T:
        squares += (column[:, None] - column) ** 2
    apart = squares[squares > 0.0]
    distances: Floats = squares / apart.mean()
    return distances
