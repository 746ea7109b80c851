"""The files of an export: scripts, options, manifest, benchmark, and the row that says what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import polars as pl
import yaml

from sweep.errors import UserError
from sweep.export import kubernetes, sglang, trtllm, vllm
from sweep.export.benchmark import benchmark, row
from sweep.export.command import Command
from sweep.export.deployment import Deployment, Pool
from sweep.export.documented import documented
from sweep.files import write_atomic

WRITERS: dict[str, ModuleType] = {"vllm": vllm, "sglang": sglang, "trtllm": trtllm}


@dataclass(frozen=True)
class Bundle:
    """An export: commands of the servers by role, of the router where pools are split, of the benchmark; files by name."""

    deployment: Deployment
    servers: dict[str, Command]
    router: Command | None
    bench: Command
    files: dict[str, str]

    @property
    def checkpoint(self) -> str:
        """The first line of a script: which checkpoint, or a demand for its name."""
        d = self.deployment
        if d.checkpoint:
            return f"CHECKPOINT={d.checkpoint}"
        return "CHECKPOINT=${CHECKPOINT:?" + missing_checkpoint(d) + "}"


def missing_checkpoint(d: Deployment) -> str:
    """What a person must supply where the engine cannot make the format while it loads."""
    return f"the id or path of a checkpoint of {d.model.name} in {d.formats.weights}"


def bundle(d: Deployment) -> Bundle:
    """Everything that an export writes. Raises UserError for what the engine cannot be told."""
    writer = WRITERS[d.engine]
    servers = {pool.role: writer.server(d, pool) for pool in d.pools}
    urls = kubernetes.worker_urls(d)
    router = writer.router(d, urls) if d.split else None
    options = {}
    if d.engine == "trtllm":
        options = {trtllm.config_file(pool): _yaml(trtllm.config(d, pool)) for pool in d.pools}
        if d.split:
            options[trtllm.ROUTER_FILE] = _yaml(trtllm.router_config(urls))
    made = Bundle(d, servers, router, benchmark(d), {})
    checkpoint = d.checkpoint or f"set this: {missing_checkpoint(d)}"
    files = dict(options)
    for pool in d.pools:
        files[f"{pool.role}.sh"] = _script(made, servers[pool.role], _about(d, pool))
    packaged_router = None if d.engine == "vllm" else router
    if router is not None:
        files["router.sh"] = _script(made, router, _about_router(d))
    files["bench.sh"] = _script(made, made.bench, "measures the deployment as it was priced")
    files["kubernetes.yaml"] = kubernetes.manifest(d, servers, packaged_router, options, checkpoint)
    files["deployment.csv"] = pl.DataFrame([{k: v for k, v in row(d).items() if v is not None}]).write_csv()
    made.files.update(files)
    return made


def _yaml(content: object) -> str:
    text: str = yaml.safe_dump(content, sort_keys=False)
    return text


def _about(d: Deployment, pool: Pool) -> str:
    workers = f"one of {pool.replicas} {pool.role} workers" if d.split or pool.replicas > 1 else "the server"
    nodes = f" over {pool.nodes} nodes: run it on each, with NODE_RANK=0, 1, ... and HEAD=the first node's address"
    return f"{workers}, {pool.gpus} x {d.hardware}{nodes if pool.nodes > 1 else ''}"


def _about_router(d: Deployment) -> str:
    origin = "; run it in a checkout of vLLM, whose package does not have it" if d.engine == "vllm" else ""
    return f"the router in front of both pools; hosts are those of kubernetes.yaml{origin}"


def _script(made: Bundle, command: Command, about: str) -> str:
    told = documented(made.deployment.engine)
    head = f"#!/usr/bin/env bash\n# {about}\n# flags as {told.engine} {told.version} documents them\nset -euo pipefail\n"
    return f"{head}{made.checkpoint}\n{command.shell()}\n"


def write(made: Bundle, folder: Path) -> None:
    """Write the files, each at once. Raises UserError where the folder cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in made.files.items():
            write_atomic(folder / name, content.encode())
            if name.endswith(".sh"):
                (folder / name).chmod(0o755)
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", field="--output", value=folder) from None
