"""The cache of compiled kernels: shared by checkouts, never stale, safe when processes start together."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kernels
from tests.waiting import HANGS_S

TINY = '''"""A kernel that calls a part compiled once."""

from kernels.jit import kernel
from kernels.once import compiled_once


@compiled_once(reads=("weights",))
def inner(x, weights):
    return x * weights[0]


@kernel
def outer(x, weights):
    return inner(x, weights) + 1.0
'''
CALL = """
import numpy as np
from numba.core import event


class Counter(event.Listener):
    n = 0

    def on_start(self, e):
        self.n += e.data["dispatcher"].py_func.__module__ == "kernels.tiny"

    def on_end(self, e):
        pass


counter = Counter()
event.register("numba:compile", counter)
from kernels.tiny import outer

print(outer(3.0, np.full(1, 2.0)), counter.n)
"""
COMPILED_HERE, FROM_CACHE = "7.0 2", "7.0 0"
"""Result and compilations: `outer` and `inner`, or none."""


def checkout(folder: Path) -> Path:
    """A copy of the kernels' sources with the tiny kernel."""
    shutil.copytree(
        Path(kernels.__file__).parent, folder / "kernels", ignore=shutil.ignore_patterns("__pycache__")
    )
    (folder / "kernels" / "tiny.py").write_text(TINY)
    return folder


@pytest.fixture
def first(tmp_path: Path) -> Path:
    return checkout(tmp_path / "first")


def started(source: Path, cache: Path) -> subprocess.Popen[str]:
    settings = {"PYTHONPATH": str(source), "XDG_CACHE_HOME": str(cache)}
    kept = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "SERVESWEEP_NUMBA_CACHE")}
    return subprocess.Popen(
        [sys.executable, "-c", CALL], env=kept | settings, cwd=source, stdout=subprocess.PIPE, text=True
    )


def answer(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=HANGS_S)
    assert process.returncode == 0
    return out.strip()


def test_processes_that_start_together_compile_once_and_agree(first: Path, tmp_path: Path) -> None:
    answers = [answer(p) for p in [started(first, tmp_path / "cache") for _ in range(4)]]
    assert sorted(answers) == [FROM_CACHE] * 3 + [COMPILED_HERE]


def test_another_checkout_of_the_same_sources_finds_them_compiled(first: Path, tmp_path: Path) -> None:
    second = checkout(tmp_path / "second")
    assert answer(started(first, tmp_path / "cache")) == COMPILED_HERE
    assert answer(started(second, tmp_path / "cache")) == FROM_CACHE


def test_an_edit_anywhere_in_the_kernels_compiles_again(first: Path, tmp_path: Path) -> None:
    assert answer(started(first, tmp_path / "cache")) == COMPILED_HERE
    with open(first / "kernels" / "units.py", "a") as file:
        file.write("# an edit\n")
    assert answer(started(first, tmp_path / "cache")) == COMPILED_HERE


def test_a_read_only_cache_folder_falls_back_to_the_checkout(first: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert answer(started(first, blocked)) == COMPILED_HERE
    assert answer(started(first, blocked)) == FROM_CACHE
