"""A first compilation takes a while: say so instead of looking dead, and use a second core for it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_S = 4.0
"""Loading compiled kernels from the cache takes less than this, on a busy machine too."""
STEP, LAUNCH = "step", "launch"
"""Parts that are compiled by themselves: the step model; what starts a batch in the simulator."""


@contextmanager
def announced(*parts: str) -> Iterator[None]:
    """Around a kernel's first call: one line on stderr if it takes longer than loading from the cache does.

    Where `parts` (STEP and LAUNCH, by default STEP) are not compiled yet, a second process does that meanwhile.
    """
    line = "compiling the kernels, once per machine and version (about half a minute) ..."
    timer = threading.Timer(PATIENCE_S, lambda: print(line, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    missing = _missing(parts or (STEP,))
    command = [sys.executable, "-m", __name__, *missing]
    quiet = subprocess.DEVNULL
    helper = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet) if missing else None
    try:
        yield
    finally:
        timer.cancel()
        if helper is not None:
            helper.terminate()
            helper.wait()


def _missing(parts: tuple[str, ...]) -> list[str]:
    from kernels.once import is_compiled

    names = {STEP: "step_model", LAUNCH: "launch_wave"}
    return [part for part in parts if not is_compiled(names[part])]


def compile_parts(parts: list[str]) -> None:
    """Compile parts into the cache, each under its lock: whoever needs one meanwhile waits for it."""
    from kernels.des_price import load_launch
    from kernels.step import load_step
    from sweep.fields import record_dtype

    for part in parts:
        load_launch() if part == LAUNCH else load_step(record_dtype())


if __name__ == "__main__":
    compile_parts(sys.argv[1:])
