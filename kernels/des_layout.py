"""Arrays that the discrete-event simulator works on: their records, and the world that bundles them.

Times are integer nanoseconds. -1 stands for "none" in every index. Settings of an instance come first in its
record, its state after them; a run starts from zeroed state (see `kernels.des_blocks.reset`).
"""

import numpy as np

from kernels.layout import DERIVED
from kernels.priced import PRICED
from kernels.tables import TABLES
from kernels.views import fields, record_at, view

PENDING, WAITING, RUNNING, HANDED_OVER, FINISHED, REJECTED = range(6)
"""State of a request."""

MIXED, PREFILL, DECODE = range(3)
"""Role of an instance."""

PRICE_TABLES, PRICE_STEP = range(2)
"""What prices an instance's steps: operator tables or the step kernel."""

ROUTE_LOAD, ROUTE_RR, ROUTE_RAND, ROUTE_LEAST, ROUTE_PREFIX, ROUTE_KV, ROUTE_CUSTOM = range(7)
"""Fleet routing, see `kernels.routing`; CUSTOM stops the loop with `asked` and waits for `answer`."""
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
        # what is asked: block0 is the first cell of `World.table`, token0 of `World.token_ns` (-1: not recorded)
        "arrival isl osl block0 token0 next_in_session tool_ns "
        # state: `reached` = prompt + generated, `computed` = tokens whose KV exists,
        # `blocks` held and `indexed` of them findable, `next` in the waiting list
        # `joined` the tick at which it joined its instance's cohort (kernels.des_cohort), -1 outside
        "state instance next computed reached generated blocks indexed initial last_token joined "
        # what is reported
        "first_token finish queued started cached preemptions recomputed reason prefill_instance"
    )
)

INSTANCE = np.dtype(
    _integers(
        # scheduler settings
        "max_seqs budget threshold chunked reserve block_size size_index caching identify n_blocks max_len role group node "
        "pp tp ep_total local_ep exclusive_prefill max_prefill_seqs kv_pool_tokens spec_tokens stream_interval "
        "skip_prefill micro_batch cohorts "
        # where its parts of the shared arrays start
        "block_base owner_base running_base running_cap batch_base item_base residue_base "
        # price: table, model shape, bytes
        "pricer table offloads weight_load_ns pim_channels pim_split interleave n_layers hidden n_experts experts_per_token expert_policy elem_bytes "
        "kv_send_bytes is_moe tier tier_blocks tier_block_bytes "
        "cpu_latency cpu_bytes_per_ns reduce_bytes_per_ns transfer_bytes_per_token "
        # state
        "n_running waiting_head waiting_tail n_waiting free_head free_tail n_free n_inflight lead_free next_batch "
        "queued_tokens pending_batch egress_free reserved_tokens "
        # who decodes together (kernels.des_cohort): members, their tokens, least and most of tokens - ticks; who does not
        "cohort cohort_tokens cohort_min cohort_max ticks last_tick joins n_fresh n_loners "
        # counts
        "n_steps n_requests n_finished n_preempted recomputed prompt_tokens generated busy_ns hit_tokens asked_tokens recalled_tokens "
        "peak_blocks mixed_steps"
    )
    + [
        (name, np.float64)
        for name in (
            "tp_bytes_per_ns tp_latency pp_bytes_per_ns pp_latency dp_bytes_per_ns dp_latency pd_bytes_per_ns "
            "pd_latency spec_acceptance draft_cost step_overhead_ns mixed_overhead_ns sequence_overhead_ns "
            "pim_ns_per_token pim_fixed_ns pim_transfer_ns"
        ).split()
    ]
)

BATCH = np.dtype(
    _integers(
        "live instance start stage0_end end n_items dummy cohort "
        # composition: tokens and sequences as priced (DP padding included), prompt tokens and their prior
        # context, decoding sequences and the sum, least and most of their contexts, generated queries
        "tokens seqs prefill_seqs chunk kv_prefill n_decode kv_sum kv_min kv_max kv_load_bytes pd_tokens attention_ns"
    )
)

ITEM = np.dtype(_integers("request tokens prior decoding epoch"))
"""One request's share of a batch: new tokens, tokens computed before, whether it decodes, preemptions until then."""

BLOCK = np.dtype(_integers("users hash next previous"))
"""One KV block: requests that hold it, dense hash id (-1 none), neighbours in the free list."""

RESIDUE = np.dtype(_integers("count head tail"))
"""Members of a cohort whose context reaches a block's end in the same steps; a list where blocks have an identity."""

STEP = np.dtype(
    _integers(
        "instance start end prefill_seqs chunk kv_prefill n_decode kv_sum tokens seqs attention_ns blocks_used running waiting"
    )
)
"""One engine step as the log keeps it."""

TIER = np.dtype(_integers("capacity ring_base latency bytes_per_ns written free"))
"""A pool of the second tier: chunks it holds, where its ring starts, its memory, chunks written so far, end of the last recall."""

BUCKET = np.dtype(
    _integers("prompt_tokens generated running waiting blocks_used hit_tokens asked_tokens busy_ns")
)
"""One interval of simulated time of one instance."""

WORLD = np.dtype(
    _integers(
        # clock and counts of a run
        "now next_arrival n_requests n_static n_released n_done n_rejected heap_size n_events n_log log_overflow "
        "rotation_new rotation_decode random compat tick_ns policy asked answer closed_loop bucket_ns request_overhead_ns "
        "last_gap last_bin more "
        # addresses of this record and of the two compiled callbacks (`kernels.calls`)
        "self pricer"
    )
    # requests, instances, their batches in flight and the items of each, requests that run at each instance
    + fields("req inst batch items running", 1)
    # KV blocks; (instances x hashes) block that answers for a hash; dense hash ids of full blocks and (block sizes,
    # requests + 1) where those of a request start; block ids of the requests
    + fields("blocks owner hashes", 1)
    + fields("hash_start", 2)
    + fields("block_table", 1)
    # pools of the second tier; chunk hashes in order of writing; (pools, hashes) whether a chunk is held
    + fields("tier tier_ring", 1)
    + fields("tier_held", 2)
    # requests in order of arrival; released requests as (time, request); time of every output token; step log
    + fields("order", 1)
    + fields("heap", 2)
    + fields("token_ns log", 1)
    # (instances, intervals), (instances, bins)
    + fields("bucket gaps", 2)
    # requests that run outside the cohort, and members since the last tick; (members, 3) heap of (tick, order, request)
    + fields("loners fresh", 1)
    + fields("due", 2)
    # next event of each instance; residues of the cohorts; batches that start together; (instances, stages) when a stage is free;
    # (instances, layers with weights) when they have come from another memory, ns after a step's start; end of the
    # host memory's last transaction per node; clock, link and scratch of each rank
    + fields("event residues members", 1)
    + fields("stage_free", 2)
    + fields("weight_ready", 2)
    + fields("node_free rank_clock rank_link ring_scratch", 1)
    # pricing: operator tables; input and derived records and (instances, operators, columns) coefficients of the
    # step kernel; (instances, sequences, contexts) decode steps already priced; scratch
    + fields("tables p d", 1)
    + fields("c memo", 3)
    + fields("priced", 1)
)
"""Everything a simulation reads and writes: its clock, and addresses of its arrays (`kernels.views`)."""

requests = view("req", REQUEST)
instances = view("inst", INSTANCE)
batches = view("batch", BATCH)
items = view("items", ITEM)
running = view("running", np.int64)
blocks = view("blocks", BLOCK)
owner = view("owner", np.int64)
hashes = view("hashes", np.int64)
hash_start = view("hash_start", np.int64, 2)
block_table = view("block_table", np.int64)
tier_pools = view("tier", TIER)
tier_ring = view("tier_ring", np.int64)
tier_held = view("tier_held", np.int8, 2)
order = view("order", np.int64)
heap = view("heap", np.int64, 2)
token_ns = view("token_ns", np.int64)
step_log = view("log", STEP)
buckets = view("bucket", BUCKET, 2)
gaps = view("gaps", np.float64, 2)
events = view("event", np.int64)
residues = view("residues", RESIDUE)
loners = view("loners", np.int64)
fresh = view("fresh", np.int64)
due = view("due", np.int64, 2)
members = view("members", np.int64)
stage_free = view("stage_free", np.int64, 2)
weight_ready = view("weight_ready", np.int64, 2)
node_free = view("node_free", np.int64)
rank_clock = view("rank_clock", np.int64)
rank_link = view("rank_link", np.int64)
ring_scratch = view("ring_scratch", np.int64)
all_tables = view("tables", TABLES)
derived = view("d", DERIVED)
coefficients = view("c", np.float64, 3)
memo = view("memo", np.float64, 3)
priced = view("priced", PRICED)
world_at = record_at(WORLD)
