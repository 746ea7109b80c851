"""Messages and ring collectives in whole nanoseconds, without congestion (specification section 12).

    hop(x) = floor(latency + x / bandwidth)            red(x) = 3 floor(x / memory bandwidth)
    all-reduce of S over N    10 + 2 (N-1) (hop(S/N) + 10) + (N-1) red(S/N)
    reduce-scatter of S       10 + (N-1) (hop(S/N) + 10 + red(S/N))
    all-gather, shard s       10 + (N-1) (hop(s) + 10)

when all ranks enter together; `ring` is the same ring step by step for ranks that do not.
"""

from kernels.jit import internal
from kernels.once import compiled_once

ENDPOINT_NS = 10
"""Time of one endpoint, ns."""


@internal
def hop_ns(n_bytes, latency, bytes_per_ns):
    """One message over one link."""
    return int(latency + n_bytes / bytes_per_ns)


@internal
def reduce_ns(n_bytes, bytes_per_ns):
    """Reduction of a received piece: one write, two reads."""
    return 3 * int(n_bytes // bytes_per_ns)


@compiled_once()
def ring(clk, slot, scratch, first, stride, n, hop, reduce, n_reduce, n_gather):
    """Ring steps over the `n` ranks first, first + stride, ...: `n_reduce` with a reduction, `n_gather` without.

    A rank enters at max(its clock, its link free) and leaves, with its link, when its last piece has
    arrived: t_i <- max(t_(i-1) + hop, t_i) + 10 (+ reduce). Updates `clk` and `slot`.
    """
    even = True
    for k in range(n):
        r = first + k * stride
        clk[r] = max(clk[r], slot[r])
        even = even and clk[r] == clk[first]
    if even:
        left = (
            clk[first]
            + ENDPOINT_NS
            + n_reduce * (hop + ENDPOINT_NS + reduce)
            + n_gather * (hop + ENDPOINT_NS)
        )
        for k in range(n):
            clk[first + k * stride] = left
            slot[first + k * stride] = left
        return
    for k in range(n):
        scratch[k] = clk[first + k * stride] + ENDPOINT_NS
    for step in range(n_reduce + n_gather):
        work = ENDPOINT_NS + (reduce if step < n_reduce else 0)
        last = scratch[n - 1]
        before = last
        for k in range(n):
            mine = scratch[k]
            scratch[k] = max(before + hop, mine) + work
            before = mine
    for k in range(n):
        clk[first + k * stride] = scratch[k]
        slot[first + k * stride] = scratch[k]


@internal
def all_reduce(clk, slot, scratch, first, stride, n, n_bytes, latency, bytes_per_ns, memory_bytes_per_ns):
    """All-reduce of `n_bytes` over `n` ranks."""
    if n <= 1:
        return
    piece = n_bytes / n
    hop = hop_ns(piece, latency, bytes_per_ns)
    ring(clk, slot, scratch, first, stride, n, hop, reduce_ns(piece, memory_bytes_per_ns), n - 1, n - 1)


@internal
def all_gather(clk, slot, scratch, first, stride, n, shard_bytes, latency, bytes_per_ns):
    """All-gather of one shard per rank over `n` ranks."""
    if n <= 1:
        return
    ring(clk, slot, scratch, first, stride, n, hop_ns(shard_bytes, latency, bytes_per_ns), 0, 0, n - 1)


@internal
def reduce_scatter(clk, slot, scratch, first, stride, n, n_bytes, latency, bytes_per_ns, memory_bytes_per_ns):
    """Reduce-scatter of `n_bytes` over `n` ranks."""
    if n <= 1:
        return
    piece = n_bytes / n
    hop = hop_ns(piece, latency, bytes_per_ns)
    ring(clk, slot, scratch, first, stride, n, hop, reduce_ns(piece, memory_bytes_per_ns), n - 1, 0)


@internal
def tensor_sum_ns(inst, n_bytes):
    """All-reduce of `n_bytes` over the tensor-parallel ranks of an instance that all enter together."""
    if inst.tp <= 1:
        return 0
    piece, others = n_bytes / inst.tp, inst.tp - 1
    hop = hop_ns(piece, inst.tp_latency, inst.tp_bytes_per_ns) + ENDPOINT_NS
    return ENDPOINT_NS + 2 * others * hop + others * reduce_ns(piece, inst.reduce_bytes_per_ns)
