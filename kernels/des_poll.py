"""When the reference simulator notices an arrival (compat mode only).

It asks an idle engine for work only when its backend has an event: the end of a layer, message or transfer anywhere.
Without any event its clock jumps in ticks of a millisecond; a start-up alarm makes the first arrival exact.
"""

from kernels.des_layout import NEVER
from kernels.jit import kernel


@kernel
def poll_ns(w, arrival):
    """First moment, not before `arrival`, at which an idle engine is asked for work; NEVER if none is idle."""
    clock = w.clock[0]
    if arrival == NEVER:
        return NEVER
    idle, busy = False, False
    for i in range(w.inst.size):
        inst = w.inst[i]
        free = inst.n_inflight < inst.pp and inst.pending_batch < 0
        idle = idle or (free and (inst.n_inflight == 0 or inst.lead_free <= clock.now))
        busy = busy or inst.n_inflight > 0
    if not idle:
        return NEVER
    if not busy:
        if arrival <= clock.now:
            return clock.now
        ticks = (arrival - clock.now + clock.tick_ns - 1) // clock.tick_ns
        return clock.now + ticks * clock.tick_ns
    return arrival
