"""Engine versions from what logs and tables say."""

import pytest

from sweep.versions import VLLM_RELEASES, encode_version


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0.19.0", 1900),
        ("0.24.0+rhaiv.13", 2400),
        ("0.11.0 (image in the doc)", 1100),
        ("v1.2.3", 10203),
        ("0.5 era", 500),
        ("1.3.0rc2", 10300),
        ("2025-08-20", 1001),
        ("2025-07", 1000),
        ("Dec 2023 (PR 2031)", 206),
        ("September 2024", 602),
        ("2023-07", 100),
        ("2031-01", None),
        ("nightly", None),
        ("", None),
        (None, None),
    ],
)
def test_a_version_or_a_date_becomes_a_number(text, number):
    assert encode_version(text) == number


def test_dates_mean_vllm_releases_only():
    assert encode_version("2025-07", engine="sglang") is None
    assert encode_version("0.5.9", engine="sglang") == 509


def test_releases_are_in_order():
    months = [(year, month) for year, month, _ in VLLM_RELEASES]
    assert months == sorted(set(months))
    assert [r for *_, r in VLLM_RELEASES] == sorted(r for *_, r in VLLM_RELEASES)
