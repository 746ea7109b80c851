"""Defaults that differ by serving engine: codes are positions in the registry's list of engines."""

import numpy as np

from kernels.jit import inlined

VLLM, SGLANG, TRTLLM, ATOM = range(4)
GRAPH_NONE, GRAPH_PIECEWISE, GRAPH_FULL = range(3)

DEFAULT_TOKEN_BUDGET = np.array([8192.0, 8192.0, 8192.0, 16384.0])
"""vLLM V1 online serving on 80 GB-class GPUs, SGLang chunked_prefill_size, TensorRT-LLM max_num_tokens."""
DEFAULT_MAX_SEQS = np.array([1024.0, 4096.0, 2048.0, 1024.0])
"""vLLM V1 on 80 GB-class GPUs (256 before 0.9), SGLang max_running_requests when memory allows, TensorRT-LLM max_batch_size."""
EXCLUSIVE_PREFILL = np.array([0.0, 1.0, 0.0, 0.0])
"""SGLang runs prefill batches on their own unless enable_mixed_chunk is set."""


@inlined
def engine_default(table, engine):
    """The engine's entry of a per-engine table."""
    return table[int(engine)]
