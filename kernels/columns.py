"""From a matrix of results to columns."""

from kernels.jit import kernel

TILE = 64
"""Rows of a tile: 64 rows of 50 columns stay in the first-level cache while they are read column by column."""


@kernel
def transpose_to_float32(matrix, columns):
    """Write `matrix`, float64 (rows, k), into `columns`, float32 (k, rows); NaN stays NaN."""
    rows, k = matrix.shape
    for first in range(0, rows, TILE):
        last = min(first + TILE, rows)
        for j in range(k):
            for i in range(first, last):
                columns[j, i] = matrix[i, j]
