"""Spaces small enough to enumerate, and how much of their frontiers' hypervolume a set of rows has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from sweep.axes import Grid
from sweep.coefficients import coefficients
from sweep.evaluate import Evaluator
from sweep.hydra_sweeper import compose_grid
from sweep.search.contests import Contest, contests, hypervolume
from sweep.search.figures import Figures, figures_of
from sweep.search.optimiser import Optimiser
from sweep.search.settings import Settings
from sweep.search.space import Rows, Space

BLOCK = 65_536
FULL_BLOCKS = "model=llama_3_3_70b"

SPACES = {
    "the main job": ("grid=default",),
    "long prompts, all shapes": (
        "model=qwen3_235b_a22b,llama_3_3_70b,kimi_k2",
        "hardware=h100_sxm,h200_sxm,b200_sxm,mi300x,mi355x,l40s,a100_sxm_80,rtx_pro_6000",
        "precision=checkpoint,fp8,fp8_kv8,nvfp4_kv8,kv8,w4a16",
        "parallelism=glob(*)",
        "engine.max_num_batched_tokens=1024,2048,4096,8192,16384",
        "workload=rag",
        "workload.concurrency=1,2,3,4,6,8,12,16,24,32,48,64,96,128,192,256",
    ),
    "one model, field by field": (
        FULL_BLOCKS,
        "hardware=h100_sxm,h200_sxm,b200_sxm,l40s",
        "precision=checkpoint,fp8,fp8_kv8",
        "parallelism.tp=1,2,4,8",
        "parallelism.pp=1,2,4",
        "parallelism.attention_dp=1,2",
        "engine.max_num_batched_tokens=1024,2048,4096,8192,16384",
        "engine.chunked_prefill=true,false",
        "engine.gpu_memory_utilization=0.8,0.85,0.9,0.95",
        "workload.concurrency=range(4,257,12)",
    ),
    "engines, every format": (
        "model=qwen3_32b,qwen3_30b_a3b,gpt_oss_20b",
        "hardware=glob(*)",
        "engine=vllm,sglang,trtllm",
        "precision=glob(*)",
        "parallelism=tp1,tp2,tp4,tp8",
        "workload.concurrency=1,2,4,8,16,32,48,64,96,128,192,256,384,512",
    ),
    "price books and workloads": (
        "model=llama_3_1_8b,qwen3_14b",
        "hardware=h100_sxm,h200_sxm,b200_sxm,b300_sxm,mi300x,mi325x,l40s,l4,a10,rtx_4090",
        "price=on_demand,rental_3y,neocloud",
        "precision=checkpoint,fp8,fp8_kv8,kv8",
        "parallelism=tp1,tp2,tp4",
        "engine.max_num_batched_tokens=1024,2048,8192",
        "workload=chat,rag,summarize",
        "workload.concurrency=range(8,257,8)",
    ),
    "experts and fabrics": (
        "model=deepseek_v3,kimi_k2,qwen3_235b_a22b,glm_4_5",
        "hardware=h200_sxm,b200_sxm,b300_sxm,gb200,gb300,mi355x,h800_sxm",
        "cluster=glob(*)",
        "precision=checkpoint,fp8,nvfp4,nvfp4_kv8",
        "parallelism=glob(*)",
        "engine.max_num_batched_tokens=4096,8192,16384,32768",
        "workload.concurrency=8,16,32,64,128,256,512,1024,2048",
    ),
    "split pools": (
        "model=llama_3_3_70b,qwen3_235b_a22b",
        "hardware=h100_sxm,h200_sxm,b200_sxm",
        "precision=fp8,fp8_kv8",
        "disagg.disaggregate=true,false",
        "disagg.prefill_replicas=1,2,3,4,6",
        "disagg.decode_replicas=1,2,3,4,6",
        "parallelism.tp=1,2,4,8",
        "workload=rag",
        "workload.concurrency=range(4,260,4)",
    ),
    "one model, every accelerator and format": (
        "model=qwen3_32b",
        "hardware=glob(*)",
        "precision=glob(*)",
        "parallelism=tp1,tp2,tp4,tp8,tp4_pp2",
        "engine.block_size=8,16,32",
        "engine.max_num_batched_tokens=512,1024,2048,4096,8192,16384",
        "workload.isl=4096",
        "workload.osl=512",
        "workload.concurrency=1,2,4,6,8,12,16,24,32,48,64,96,128",
    ),
}
"""Overrides by what the space varies."""


@dataclass(frozen=True)
class Enumerated:
    """A space whose rows were all evaluated."""

    grid: Grid
    frame: pl.DataFrame

    @staticmethod
    def of(*overrides: str) -> Enumerated:
        grid = compose_grid(overrides)
        evaluator = Evaluator(grid, coefficients(grid.hardware, "fitted"))
        blocks = range(0, grid.n_rows, BLOCK)
        columns = ("row", "feasible", "usd_per_m_total", "ttft_ms", "tpot_ms", "e2e_ms")
        frames = (evaluator.frame(i, min(i + BLOCK, grid.n_rows)).select(columns) for i in blocks)
        return Enumerated(grid, pl.concat(list(frames)))

    @cached_property
    def space(self) -> Space:
        return Space(self.grid)

    def figures(self, rows: Rows | None = None, within_slo: bool = False) -> Figures:
        frame = self.frame if rows is None else self.frame[rows]
        return figures_of(self.space, frame, within_slo)

    def frontiers(self, rows: Rows | None = None, within_slo: bool = False) -> dict[tuple[int, int], Contest]:
        found = contests(self.figures(rows, within_slo))
        return {(c.scenario, c.latency): c for c in found if c.meets}

    def shares(self, rows: Rows, within_slo: bool = False) -> np.ndarray:
        """Share of the hypervolume of each of the space's frontiers that `rows` have.

        Cost and latency are logarithms, and the box is the frontier's own extent and a tenth: what every deployment
        has in common does not count.
        """
        whole, found = self.frontiers(None, within_slo), self.frontiers(rows, within_slo)
        return np.array(
            [
                hypervolume(found[key].points, c.points) / hypervolume(c.points, c.points)
                if key in found
                else 0.0
                for key, c in whole.items()
            ]
        )

    def searched(self, seed: int, within_slo: bool = False, share: float = 0.01) -> Rows:
        """Rows that a search evaluates within `share` of the space."""
        evaluations = int(share * self.grid.n_rows)
        asked = {"search.evaluations": evaluations, "search.seed": seed, "search.within_slo": within_slo}
        settings = Settings.of(Grid(**{**vars(self.grid), "settings": self.grid.settings | asked}))
        optimiser = Optimiser(self.space, settings)
        while optimiser.seen.size < evaluations and (rows := optimiser.ask()).size:
            optimiser.tell(rows, self.figures(rows, within_slo))
        assert optimiser.seen.size <= evaluations
        return optimiser.seen
