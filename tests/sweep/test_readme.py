"""What the README promises: its lines work as printed, from an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sweep.cli import VERBS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINES = [span for span in re.findall(r"`([^`\n]+)`", README) if re.search(r"(^|&& )servesweep .", span)]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which `servesweep` is this checkout's program."""
    folder = tmp_path_factory.mktemp("bin")
    script = folder / "servesweep"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m sweep "$@"\n')
    script.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.parametrize("line", [line for line in LINES if " DIR" not in line])
def test_a_line_of_the_readme_works_in_an_empty_folder(
    line: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_verb_is_in_the_readme() -> None:
    shown = " ".join(LINES)
    missing = [verb for verb in VERBS if verb != "sweep" and f"servesweep {verb}" not in shown]
    assert missing == []


def test_links_of_the_readme_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
