"""Arrays that the discrete-event simulator works on: their records, and the world that bundles them.

Times are integer nanoseconds. -1 stands for "none" in every index. Settings of an instance come first in its
record, its state after them; a run starts from zeroed state (see `kernels.des_blocks.reset`).
"""

from typing import NamedTuple

import numpy as np

PENDING, WAITING, RUNNING, HANDED_OVER, FINISHED, REJECTED = range(6)
"""State of a request."""

MIXED, PREFILL, DECODE = range(3)
"""Role of an instance."""

PRICE_TABLES, PRICE_STEP = range(2)
"""What prices an instance's steps: operator tables or the step kernel."""

ROUTE_LOAD, ROUTE_RR, ROUTE_RAND = range(3)
EXPERTS_BALANCED, EXPERTS_RR, EXPERTS_RAND = range(3)

ACCEPTED, TOO_LONG_FOR_CONTEXT, TOO_LONG_FOR_POOL, PROMPT_OVER_BUDGET, SESSION_BROKEN, NO_INSTANCE = range(6)
REJECTION_TEXT = (
    "",
    "prompt and output are longer than the model's context",
    "prompt and output need more KV blocks than the instance has",
    "prompt is longer than the token budget and chunked prefill is off",
    "an earlier request of its session was rejected",
    "no instance takes requests of this kind",
)

NEVER = np.int64(2**62)
"""A time that does not come."""


def _integers(names: str) -> list[tuple[str, type]]:
    return [(name, np.int64) for name in names.split()]


REQUEST = np.dtype(
    _integers(
        # what is asked: hash0 and n_hashes are a slice of `World.hashes`, block0 the first cell of
        # `World.table`, token0 the first cell of `World.token_ns` (-1: not recorded)
        "arrival isl osl hash0 n_hashes block0 token0 next_in_session tool_ns "
        # state: `reached` = prompt + generated, `computed` = tokens whose KV exists,
        # `blocks` held and `indexed` of them findable, `next` in the waiting list
        "state instance next computed reached generated blocks indexed initial last_token ready "
        # what is reported
        "first_token finish queued started cached preemptions recomputed reason prefill_instance in_flight"
    )
)

INSTANCE = np.dtype(
    _integers(
        # scheduler settings
        "max_seqs budget threshold chunked reserve block_size caching identify n_blocks max_len role group node "
        "pp tp ep_total local_ep exclusive_prefill max_prefill_seqs kv_pool_tokens spec_tokens stream_interval "
        "skip_prefill "
        # where its parts of the shared arrays start
        "block_base owner_base running_base running_cap batch_base item_base "
        # price: table, model shape, bytes
        "pricer table n_layers hidden n_experts experts_per_token expert_policy elem_bytes kv_send_bytes is_moe "
        "cpu_latency cpu_bytes_per_ns reduce_bytes_per_ns transfer_bytes_per_token async_scheduling "
        # state
        "n_running waiting_head waiting_tail n_waiting free_head free_tail n_free n_inflight lead_free next_batch "
        "pending_batch stretching stretch_steps stretch_limit egress_free reserved_tokens idle_before "
        # counts
        "n_steps n_requests n_finished n_preempted recomputed prompt_tokens generated busy_ns hit_tokens asked_tokens "
        "peak_blocks mixed_steps"
    )
    + [
        (name, np.float64)
        for name in (
            "tp_bytes_per_ns tp_latency pp_bytes_per_ns pp_latency dp_bytes_per_ns dp_latency pd_bytes_per_ns "
            "pd_latency spec_acceptance draft_cost step_overhead_ns mixed_overhead_ns request_overhead_ns "
            "sequence_overhead_ns prompt_token_overhead_ns output_overhead_ns graph_saving_ns"
        ).split()
    ]
)

BATCH = np.dtype(
    _integers(
        "live instance start stage0_end end n_items dummy calm "
        # composition: tokens and sequences as priced (DP padding included), prompt tokens and their prior
        # context, decoding sequences and the sum, least and most of their contexts, generated queries
        "tokens seqs prefill_seqs chunk kv_prefill n_decode kv_sum kv_min kv_max kv_load_bytes pd_tokens attention_ns"
    )
)

ITEM = np.dtype(_integers("request tokens prior decoding"))
"""One request's share of a batch: new tokens, tokens computed before, whether it decodes."""

BLOCK = np.dtype(_integers("users hash next previous"))
"""One KV block: requests that hold it, dense hash id (-1 none), neighbours in the free list."""

STEP = np.dtype(
    _integers("instance start end prefill_seqs chunk n_decode kv_sum tokens blocks_used running waiting")
)
"""One engine step as the log keeps it."""

CLOCK = np.dtype(
    _integers(
        "now next_arrival n_requests n_done n_released heap_size rotation_new rotation_decode random compat tick_ns "
        "policy closed_loop n_static n_log log_steps n_events started n_buckets bucket_ns n_rejected"
    )
)

BUCKET = np.dtype(_integers("prompt_tokens generated running waiting blocks_used hit_tokens asked_tokens busy_ns"))
"""One interval of simulated time of one instance."""


class World(NamedTuple):
    """Everything a simulation reads and writes."""

    clock: np.ndarray  # CLOCK (1,)
    req: np.ndarray  # REQUEST (requests,)
    inst: np.ndarray  # INSTANCE (instances,)
    batch: np.ndarray  # BATCH (instances x batches in flight)
    items: np.ndarray  # ITEM
    running: np.ndarray  # int64, per instance its running requests in admission order
    blocks: np.ndarray  # BLOCK
    owner: np.ndarray  # int64 (instances x hashes) block that answers for a hash, -1 none
    hashes: np.ndarray  # int64 dense ids of the requests' full blocks
    table: np.ndarray  # int64 block ids of the requests
    heap: np.ndarray  # int64 (requests, 2) released requests: time, request
    token_ns: np.ndarray  # int64 time of every output token, where recorded
    log: np.ndarray  # STEP
    bucket: np.ndarray  # BUCKET (instances, intervals)
    itl: np.ndarray  # float64 (instances, bins) inter-token gaps, see kernels.des_metrics
    event: np.ndarray  # int64 (instances,) when the next thing happens at an instance
    scratch: np.ndarray  # int64 (block size + running,) residue lists of a stretch
    stage_free: np.ndarray  # int64 (instances, stages)
    node_free: np.ndarray  # int64 (nodes,) end of the host memory's last transaction
    clk: np.ndarray  # int64 scratch: clock of each rank
    slot: np.ndarray  # int64 scratch: when each rank's link is free
    ring: np.ndarray  # int64 scratch for the ring
    tables: NamedTuple  # kernels.tables.Tables
    p: np.ndarray  # input records of the step kernel, one per instance
    d: np.ndarray  # derived records, one per instance
    c: np.ndarray  # coefficients (instances, N_OPS, N_COEF)
    memo: np.ndarray  # float64 (instances, sequences, contexts) ns of a decode step, NaN = not yet priced
    parts: np.ndarray  # float64 (N_PARTS,) scratch of the step kernel
