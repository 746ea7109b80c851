"""Units: the only conversion factors in the project."""

GIB = 1024.0**3
"""Bytes in one GiB: engines print GiB (and often call it GB)."""
MIB = 1024.0**2
KIB = 1024.0
GB = 1e9
"""Bytes in one GB: links and memory bandwidth are quoted in GB/s = 1e9 bytes/s."""

US_PER_S = 1e6
US_PER_MS = 1e3
MS_PER_S = 1e3
NS_PER_US = 1e3
NS_PER_S = 1_000_000_000
S_PER_HOUR = 3600.0

BYTES_PER_US_PER_GB_S = 1e3
"""One GB/s moves 1e3 bytes in a microsecond."""
FLOP_PER_US_PER_TFLOPS = 1e6
"""One TFLOP/s does 1e6 floating-point operations in a microsecond."""
