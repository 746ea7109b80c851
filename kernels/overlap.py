"""How much of a collective stays exposed."""

from kernels.jit import inlined

DEEPEP_HIDDEN = 0.65
"""Share of the expert all-to-all that DeepEP hides (spec of the compatible tool)."""
SYNC_FREE_HIDDEN = (0.65, 0.75, 0.80, 0.85)
"""By SyncFree stage 0 (plain DeepEP) to 3."""
QUICK_REDUCE = 0.6
"""Share of all-reduce time that a quantised one takes where none was measured (spec of the compatible tool)."""
FUSED_NORM_ALL_REDUCE = 0.8

BUILTIN_ALL_REDUCE_US = 200.0
"""comm_model=builtin: set-up per all-reduce of a training-scale communicator."""
BUILTIN_ALL_TO_ALL_US = 200.0
"""comm_model=builtin: sync and fixed cost per all-to-all."""


@inlined
def exposed_share(ceiling, compute_us, comm_us):
    """1 - min(ceiling, compute / comm): hidden time is bounded by the flag and by the compute there is."""
    if ceiling <= 0.0 or comm_us <= 0.0:
        return 1.0
    return 1.0 - min(ceiling, compute_us / comm_us)


@inlined
def all_reduce_factor(p, quantizes):
    """Multiplier on tensor-parallel all-reduce time from efficiency, quick-reduce and norm fusion.

    `quantizes`: a measured kernel (kernels.collectives) prices quick-reduce already.
    """
    factor = p.tp_allreduce_efficiency
    if p.quick_reduce > 0.0 and not quantizes:
        factor *= QUICK_REDUCE
    if p.fuse_rmsnorm_allreduce > 0.0:
        factor *= FUSED_NORM_ALL_REDUCE
    return factor


@inlined
def all_to_all_factor(p):
    """Multiplier on expert all-to-all time from efficiency and DeepEP or SyncFree hiding."""
    factor = p.ep_a2a_efficiency
    if p.sync_free_stage > 0.0 or p.enable_deepep > 0.0:
        factor *= 1.0 - SYNC_FREE_HIDDEN[int(p.sync_free_stage)]
    return factor
