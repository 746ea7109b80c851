"""Where the installed program keeps its data files."""

from __future__ import annotations

from pathlib import Path


def conf_dir() -> Path:
    """The configuration tree: `sweep/conf` in an installed wheel, the repository's `conf` in a checkout."""
    here = Path(__file__).resolve().parent
    packaged = here / "conf"
    return packaged if packaged.is_dir() else here.parent / "conf"
