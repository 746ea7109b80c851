"""A checkpoint's mean width counts while the class keeps the checkpoint's format."""

import numpy as np
import pytest

from kernels.dtypes import BFLOAT16, FP8, INT4_WO, NVFP4
from kernels.weights import class_width, stored_width


@pytest.mark.parametrize(
    ("dtype", "stored", "mean", "expected"),
    [
        (NVFP4, NVFP4, 1.0977, 1.0977),
        (INT4_WO, INT4_WO, 0.5625, 0.5625),
        (NVFP4, NVFP4, np.nan, 0.5625),
        (FP8, NVFP4, 1.0977, 1.0),
        (BFLOAT16, BFLOAT16, np.nan, 2.0),
    ],
)
def test_mean_width_is_the_checkpoints_own(dtype, stored, mean, expected):
    assert stored_width(float(dtype), float(stored), mean) == expected


def test_a_class_without_a_mean_has_its_formats_width():
    assert stored_width(float(INT4_WO), float(INT4_WO), np.nan) == class_width(float(INT4_WO))
