"""The settings of one nightly job, from `conf/job/NAME.yaml` and the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from sweep.errors import UserError
from sweep.parts import digest

DEFAULT_JOB = "demo"
NIGHTS = ("yesterday", "last")
ANY_MODEL = "*"
"""Key of `job.models` for every model of the log that has no entry of its own, unnamed requests included."""


@dataclass(frozen=True)
class Job:
    """One job: where its traffic comes from, how it forecasts, what it plans. Fields as `sweep.fields.job` says."""

    name: str
    log: str | None
    columns: str
    on_bad_line: str
    night: str
    folder: Path
    lookback_days: int
    horizon_days: int
    forecast: str
    load_percentile: float
    growth_per_week: float | None
    peak: str
    change_threshold: float
    replay_requests: int
    time_limit_min: float
    plan: tuple[str, ...]
    models: Mapping[str, tuple[str, ...]]
    report: bool = True  # pictures and report.html
    config_dirs: tuple[Path, ...] = ()

    @property
    def reading(self) -> dict[str, Any]:
        """What decides how the log is read, as plain values."""
        return {k: getattr(self, k) for k in ("log", "columns", "on_bad_line", "lookback_days")}

    @property
    def planning(self) -> dict[str, Any]:
        """What decides the plan of given traffic, as plain values; the choices of `--config-dir` by their digests."""
        names = ("name", "lookback_days", "horizon_days", "forecast", "load_percentile", "growth_per_week", "peak",
                 "change_threshold", "replay_requests", "report")  # fmt: skip
        return {k: getattr(self, k) for k in names} | {
            "plan": list(self.plan),
            "models": {k: list(v) for k, v in self.models.items()},
            "choices": [digest(path.read_bytes()) for path in self._own_choices()],
        }

    def _own_choices(self) -> list[Path]:
        """Files of `--config-dir` that plans may use; the jobs among them are told by their values."""
        files = [path for folder in self.config_dirs for path in sorted(folder.glob("*/*.yaml"))]
        return [path for path in files if path.parent.name != "job" and path.is_file()]

    def overrides_of(self, log_name: str) -> list[str]:
        """Overrides of `servesweep plan` for the model that the log calls `log_name`; of two for one key the later counts."""
        named = [] if self.names(log_name) else [f"model={log_name}"]
        return [*named, *self.plan, *self._own(log_name)]

    def names(self, log_name: str) -> bool:
        """Whether the job itself says which model the log means by `log_name`."""
        return any(line.startswith("model=") for line in (*self.plan, *self._own(log_name)))

    def _own(self, log_name: str) -> tuple[str, ...]:
        return self.models.get(log_name, self.models.get(ANY_MODEL, ()))


def job_of(overrides: Sequence[str], config_dirs: Sequence[Path] = ()) -> Job:
    """The job that the command line names (`job=NAME`, `job.KEY=VALUE`, `output.report`); other overrides go to every plan.

    Raises UserError.
    """
    from sweep.hydra_sweeper import compose_grid

    own = [line for line in overrides if line.split("=", 1)[0].split(".", 1)[0] in ("job", "output")]
    plan = [line for line in overrides if line not in own]
    if not any(line.startswith("job=") for line in own):
        own.insert(0, f"job={DEFAULT_JOB}")
    settings = compose_grid(["grid=none", *own], config_dirs=config_dirs).settings
    given = {k.removeprefix("job."): v for k, v in settings.items() if k.startswith("job.")}
    name = str(given["name"] or "job")
    if name == "none":
        raise UserError("is no job", field="job", value="none")
    common, models = given.pop("plan"), given.pop("models")
    plan = [*_lines("job.plan", common), *plan]
    _check(plan, config_dirs)
    return Job(
        **given
        | {
            "name": name,
            "columns": given["columns"] or "",
            "night": _night(given["night"]),
            "folder": Path(given["folder"] or Path("results") / f"nightly-{Path(name).name}"),
        },
        plan=tuple(plan),
        report=bool(settings["output.report"]),
        models={str(k): tuple(_lines(f"job.models.{k}", v)) for k, v in models.items()},
        config_dirs=tuple(config_dirs),
    )


def _check(plan: Sequence[str], config_dirs: Sequence[Path]) -> None:
    """Compose the overrides of every plan, so that a slip in them is told before a log is read. Raises UserError."""
    from sweep.hydra_sweeper import compose_grid
    from sweep.planner.question import searched

    if plan:
        compose_grid(searched(plan, config_dirs), config_dirs=config_dirs)


def _night(text: str) -> str:
    if text not in NIGHTS:
        try:
            date.fromisoformat(text)
        except ValueError:
            raise UserError(
                "is no day", field="job.night", value=text, allowed="yesterday, last, YYYY-MM-DD"
            ) from None
    return text


def _lines(key: str, values: Any) -> list[str]:
    from sweep.api import lines

    if values is None:
        return []
    if isinstance(values, str):
        return [f"model={values}"]
    if not isinstance(values, Mapping) or any(isinstance(v, Mapping) for v in values.values()):
        raise UserError("must be overrides of `servesweep plan`, KEY: VALUE", field=key)
    return lines([{str(k): v for k, v in values.items()}])
