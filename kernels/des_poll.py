"""When the reference simulator notices an arrival (compat mode only).

It asks an idle engine for work only when its backend has an event: the end of a layer, message or transfer anywhere.
Without any event its clock jumps in ticks of a millisecond; a start-up alarm makes the first arrival exact.
"""

from kernels.des_layout import NEVER, instances
from kernels.jit import internal


@internal
def poll_ns(w, arrival):
    """First moment, not before `arrival`, at which an idle engine is asked for work; NEVER if none is idle."""
    if arrival == NEVER:
        return NEVER
    idle, busy = False, False
    for i in range(instances(w).size):
        inst = instances(w)[i]
        free = inst.n_inflight < inst.pp and inst.pending_batch < 0
        idle = idle or (free and (inst.n_inflight == 0 or inst.lead_free <= w.now))
        busy = busy or inst.n_inflight > 0
    if not idle:
        return NEVER
    if not busy:
        if arrival <= w.now:
            return w.now
        ticks = (arrival - w.now + w.tick_ns - 1) // w.tick_ns
        return w.now + ticks * w.tick_ns
    return arrival
