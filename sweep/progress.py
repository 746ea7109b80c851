"""Progress of a run on stderr: rows per second and time left, only where a person watches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Advance(Protocol):
    def __call__(self, rows: int, /) -> None: ...


@contextmanager
def progress(total_rows: int, done_rows: int = 0) -> Iterator[Advance]:
    """Yields a function to call with the rows of each finished block; draws nothing unless stderr is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:,.0f} rows/s" if speed else "- rows/s")

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _rows: None
        return
    columns = (
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} rows"),
        BarColumn(),
        Rate(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("rows", total=total_rows, completed=done_rows)
        yield lambda rows: bar.advance(task, rows)
