"""Numba kernels of servesweep: pure functions on numbers and arrays.

Nothing here reads a file, formats a string or raises in a hot path; a reason code
(`kernels.reasons`) says why a deployment has no answer. Times are microseconds,
memory is bytes, bandwidth is GB/s (1e9 bytes per second) unless a name says otherwise.
"""

SERVESWEEP_KERNELS = True
