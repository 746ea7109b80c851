"""`python -m sweep` is the same program as `servesweep`."""

from sweep.cli import program

program()
