"""Hand-over: what the chosen deployment needs to run, and the command that would measure it.

A deployment (`sweep.export.deployment`) becomes command lines of its engine (`vllm`, `sglang`, `trtllm`), a Kubernetes manifest
and a benchmark. Every flag comes from the engine's documented ones (`documented/*.yaml`).
"""
