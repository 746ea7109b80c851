"""Hydra's multirun as one array job: a Sweeper plugin that turns sweeps into axes instead of jobs."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from sweep.axes import Grid
from sweep.compose import Composition, first_line, grid_of, preset_axes
from sweep.errors import UserError
from sweep.hydra_folder import BoundedFolder
from sweep.overrides import Setting, config_groups, parse
from sweep.paths import conf_dir
from sweep.schema import RUN_GROUPS, root_schema

DEFAULT_GRID = "default"
NO_GRID = "none"


class GridSweeper(Sweeper):
    """Composes every swept choice once and hands the task one `Grid`."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.hydra_context = hydra_context
        self.config = config
        self.task: Callable[[Any], Any] = task_function

    def sweep(self, arguments: list[str]) -> Any:
        assert self.config is not None and self.hydra_context is not None
        loader = self.hydra_context.config_loader
        composition = Composition(self.config, parse(arguments, loader), loader)
        return self.task(grid_of(composition, composition.choices["grid"], arguments))


def register() -> None:
    """Make the schema and the sweeper known to Hydra.

    Hydra only instantiates plugins of a package `hydra_plugins`; this module appears in it under an alias, so
    that the project needs no top-level folder of that name.
    """
    Plugins.instance()
    package = sys.modules.setdefault("hydra_plugins", types.ModuleType("hydra_plugins"))
    alias = "hydra_plugins.servesweep"
    package.servesweep = sys.modules[alias] = sys.modules[__name__]  # type: ignore[attr-defined]
    GridSweeper.__module__ = alias
    Plugins.instance().register(GridSweeper)
    Plugins.instance().register(BoundedFolder)
    store = ConfigStore.instance()
    store.store(name="schema", node=root_schema())
    store.store(
        group="hydra/sweeper", name="servesweep", node={"_target_": f"{alias}.{GridSweeper.__name__}"}
    )


def compose_grid(overrides: Sequence[str], *, config_dirs: Sequence[Path] = ()) -> Grid:
    """The grid that Hydra `overrides` describe; folders in `config_dirs` add choices to the tree's groups."""
    register()
    search_path = create_config_search_path(str(conf_dir()))
    for folder in config_dirs:
        if not folder.is_dir():
            raise UserError("is not a folder", field="--config-dir", value=folder)
        search_path.prepend("command-line", f"{BoundedFolder.scheme()}://{folder.resolve()}")
    GlobalHydra.instance().clear()
    hydra = Hydra.create_main_hydra2("servesweep", search_path)
    try:
        lines = _with_preset(list(overrides), hydra)
        result = hydra.multirun("config", lambda grid: grid, lines, with_log_configuration=False)
    except (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"the configuration does not compose: {first_line(error)}") from None
    finally:
        GlobalHydra.instance().clear()
    assert isinstance(result, Grid)
    return result


def _with_preset(lines: list[str], hydra: Hydra) -> list[str]:
    """`lines` checked, on top of the axes of the grid preset that applies."""
    loader = hydra.config_loader
    own = [line for line in lines if line.startswith(("hydra.", "hydra/"))]
    settings = {s.key: s for s in parse([x for x in lines if x not in own], loader)}
    grid = str(settings["grid"].values[0]) if "grid" in settings else _implied_grid(settings)
    options = config_groups(loader)["grid"]
    preset = parse(preset_axes(loader, grid, options), loader, file=f"conf/grid/{grid}.yaml")
    merged = {**{s.key: s for s in preset}, **settings}
    merged["grid"] = Setting("grid", (grid,), is_group=True, swept=False)
    if "model.path" in merged:
        merged["model"] = Setting("model", merged.pop("model.path").values, is_group=True, swept=True)
    return [*own, *(s.line() for s in merged.values())]


def _implied_grid(settings: dict[str, Setting]) -> str:
    """Without a word about the deployment or its load, the main job; else exactly what was asked."""
    run_only = all(key.split(".", 1)[0] in (*RUN_GROUPS, "slo", "price") for key in settings)
    return DEFAULT_GRID if run_only else NO_GRID
