"""Where one estimate's inputs come from and what it prints (group `experiment`)."""

from __future__ import annotations

from sweep.fields.spec import Field, Seed

_Q = "What is asked?"
MODES = ("performance", "memory", "both")

FIELDS = (
    Field(
        key="experiment.config",
        doc="Experiment YAML. Moves nothing by itself: the values in it do.",
        kind="path",
        scope="run",
        auto="none",
        question=_Q,
        column=False,
        seeds=(Seed("inferasim", "--config"), Seed("inferasim", "--exp")),
    ),
    Field(
        key="experiment.hardware_config",
        doc="YAML of link figures by the compatible tool's names. Moves nothing by itself: the hardware.* figures it sets do.",
        kind="path",
        scope="run",
        auto="none",
        question=_Q,
        column=False,
        seeds=(Seed("inferasim", "--hardware-config"),),
    ),
    Field(
        key="experiment.inference_mode",
        doc="Which projections are printed. Moves nothing: both are computed alike.",
        kind="choice",
        choices=MODES,
        scope="run",
        default="both",
        question=_Q,
        column=False,
        seeds=(Seed("inferasim", "--inference-mode"),),
    ),
)
