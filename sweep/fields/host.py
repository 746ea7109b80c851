"""Per-step and per-request costs of the host (groups `engine` and `host`)."""

from __future__ import annotations

from sweep.fields.spec import Field, Seed

_S = "What does a step cost beside the kernels?"
_H = "What does the host add to latency?"

FIELDS = (
    Field(key="engine.mixed_batch_penalty", doc="Extra cost of steps that mix prefill and decode, as a fraction.", kind="float", low=0, auto="0.15 for piecewise graphs, else 0", question=_S, seeds=(Seed("inferasim", "--mixed-batch-penalty", default=0.0, zero=None),), moves=("tpot_ms", "ttft_ms")),
    Field(key="engine.decode_step_overhead_us", doc="Fixed host and launch time per engine step.", kind="float", low=0, unit="us", auto="fitted per engine and graph mode; 40 / 8 / 3 us for none / piecewise / full where nothing was fitted", question=_S, seeds=(Seed("inferasim", "--decode-step-overhead-us", default=0.0, zero=None),), moves=("tpot_ms",)),
    Field(key="engine.decode_admission_steps", doc="Decode steps that a finished prefill waits for at most before it joins; half of them on average.", kind="int", default=0, low=0, unit="steps", question=_S, seeds=(Seed("inferasim", "--decode-admission-steps"),), moves=("ttft_ms", "e2e_ms")),
    Field(key="engine.kernel_launch_latency_us", doc="Launch-bound floor of a decode step without graphs: kernels x this.", kind="float", default=0.0, low=0, unit="us", question=_S, seeds=(Seed("inferasim", "--kernel-launch-latency-us"),), moves=("tpot_ms",)),
    Field(key="engine.kernels_per_layer", doc="Kernels of one layer, for launch floor and occupancy.", kind="int", low=1, auto="counted from the architecture (dense GQA 11, MLA + 5, MoE + 4, shared expert + 3, indexer + 4)", question=_S, seeds=(Seed("inferasim", "--kernels-per-layer", default=12),), moves=("tpot_ms",)),
    Field(key="engine.decode_kernel_occupancy_us", doc="Least time a kernel holds the device, whatever it touches; graphs do not cancel it.", kind="float", low=0, unit="us", auto="already inside fitted operator times: 0", question=_S, seeds=(Seed("inferasim", "--decode-kernel-occupancy-us", default=4.98),), moves=("tpot_ms",)),
    Field(key="engine.fused_kernels", doc="Fused norm, rotary, quantisation and KV-store kernels: 0.7 x launch and step overhead.", kind="bool", default=False, question=_S, seeds=(Seed("inferasim", "--fused-kernels"),), moves=("tpot_ms",)),
    Field(key="engine.exclusive_prefill", doc="Whether prefill and decode never share a step: a prefill step stalls every decode.", kind="bool", auto="sglang yes, others no", question=_S, seeds=(Seed("inferasim", "--des-exclusive-prefill", default=False),), moves=("tpot_ms", "ttft_ms")),
    Field(key="engine.window_in_decode", doc="Whether decode attention of window layers reads the window only; false reads the whole context.", kind="bool", default=True, question=_S, moves=("tpot_ms",)),
    Field(key="host.request_overhead_ms", doc="Host time of a request before its prefill: accept, parse, admit, stream open.", kind="float", low=0, unit="ms", auto="fitted per engine", question=_H, seeds=(Seed("inferasim", "--request-overhead-ms", default=0.0),), moves=("ttft_ms", "e2e_ms")),
    Field(key="host.tokenize_overhead_us", doc="Server-side tokenisation per prompt token.", kind="float", default=0.0, low=0, unit="us/token", question=_H, seeds=(Seed("inferasim", "--tokenize-overhead-us"),), moves=("ttft_ms", "e2e_ms")),
    Field(key="host.detokenize_overhead_us", doc="Detokenisation and streaming per output token; on the latency path, not in throughput.", kind="float", default=0.0, low=0, unit="us/token", question=_H, seeds=(Seed("inferasim", "--detokenize-overhead-us"),), moves=("tpot_ms", "e2e_ms")),
    Field(key="host.stream_interval", doc="Output tokens buffered per flush: the client's first token comes with the first flush.", kind="int", default=1, low=1, unit="tokens", question=_H, seeds=(Seed("inferasim", "--stream-interval"),), moves=("ttft_ms", "tpot_ms")),
    Field(key="host.sampling_top_k", doc="Top-k sampling: adds a partial sort over the vocabulary; 0 = off.", kind="int", default=0, low=0, question=_H, seeds=(Seed("inferasim", "--sampling-top-k"),), moves=("tpot_ms",)),
    Field(key="host.sampling_top_p", doc="Top-p sampling: adds a threshold pass over the vocabulary; 1 = off.", kind="float", default=1.0, low=0, high=1, question=_H, seeds=(Seed("inferasim", "--sampling-top-p"),), moves=("tpot_ms",)),
    Field(key="host.sampling_temperature", doc="Sampling temperature: adds a scaling pass unless 0 or 1.", kind="float", default=1.0, low=0, question=_H, seeds=(Seed("inferasim", "--sampling-temperature"),), moves=("tpot_ms",)),
    Field(key="host.sampling", doc="Whether logits post-processing is priced.", kind="bool", default=True, question=_H, seeds=(Seed("inferasim", "--no-sampling", negated=True),), moves=("tpot_ms",)),
)
