"""What each engine documents: flags, options of its configuration file, container images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sweep.catalog.yaml_file import read_yaml
from sweep.errors import UserError, nearest

FOLDER = Path(__file__).with_name("documented")
ENGINES = ("vllm", "sglang", "trtllm")


@dataclass(frozen=True)
class Documented:
    """One engine's documentation: meaning by flag; `config` by dotted option, empty where there is no such file."""

    engine: str
    version: str
    source: str
    serve: Mapping[str, str]
    bench: Mapping[str, str]
    config: Mapping[str, str]
    image: Mapping[str, str]


@cache
def documented(engine: str) -> Documented:
    """The documentation of an engine. Raises UserError for one that no export is written for."""
    if engine not in ENGINES:
        raise UserError(
            "no export is written for this engine",
            field="engine.engine",
            value=engine,
            allowed=", ".join(ENGINES),
            near=nearest(engine, ENGINES),
        )
    content = read_yaml(FOLDER / f"{engine}.yaml")
    return Documented(
        engine=engine,
        version=str(content["version"]),
        source=str(content["source"]),
        serve=content["serve"],
        bench=content["bench"],
        config=content.get("config", {}),
        image=content["image"],
    )
