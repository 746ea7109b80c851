"""Inputs that cannot matter in a run: found by rule, for one deployment and for a grid."""

from __future__ import annotations

import numpy as np
import pytest

from sweep.cli import VERBS
from sweep.fields import by_key
from sweep.fields.inert import RULES, inert, of_record
from sweep.fields.readers import READERS, needs_verb
from sweep.hydra_sweeper import compose_grid
from sweep.schema import field_by_key, fields_of_group
from tests.deployments import evaluated, record_of


@pytest.mark.parametrize(
    ("key", "given", "needs"),
    [
        ("moe.ep_load_balance", {"ep_load_balance": 2.0}, "a model with experts"),
        ("moe.ep_load_balance", {"model": "qwen3_30b_a3b", "ep_load_balance": 2.0}, "moe_ep > 1"),
        ("disagg.prefill_tp", {"prefill_tp": 2}, "disaggregate=true"),
        ("speculation.speculative_acceptance_rate", {"speculative_acceptance_rate": 0.5}, "draft tokens"),
        ("parallelism.micro_batch_size", {"micro_batch_size": 4}, "pp > 1"),
        ("comms.quick_reduce", {"quick_reduce": True}, "more than one GPU"),
        ("workload.request_rate", {"request_rate": 3.0}, "load=rate"),
        ("engine.kernel_launch_latency_us", {"kernel_launch_latency_us": 50.0}, "cudagraph_mode=none"),
        ("engine.kv_offload_gb_s", {"kv_offload_gb_s": 10.0}, "an offload tier"),
        ("host.sampling_top_k", {"sampling": False, "sampling_top_k": 50}, "sampling"),
        ("attention.sliding_window_layer_fraction", {"sliding_window_layer_fraction": 0.3}, "a window"),
    ],
)
def test_an_input_that_cannot_matter_is_named_with_what_it_needs_and_indeed_changes_nothing(
    key: str, given: dict[str, object], needs: str
) -> None:
    assert needs in inert(of_record(record_of(**given)[0]), [key], verb="estimate")[key]
    name = key.rsplit(".", 1)[-1]
    without = {**given, name: by_key()[key].default}
    rows = evaluated(given, without).results.view(np.float64).reshape(2, -1)
    assert np.array_equal(rows[0], rows[1], equal_nan=True)


def test_an_input_that_matters_is_not_named() -> None:
    p = record_of(tp=2, quick_reduce=True)[0]
    assert inert(of_record(p), ["comms.quick_reduce", "parallelism.tp", "workload.isl"], verb="sweep") == {}


def test_in_a_grid_one_row_in_which_an_input_matters_is_enough() -> None:
    line = ["hardware=h100_sxm", "moe.ep_load_balance=1.5", "parallelism.tp=8", "parallelism.moe_ep=8"]
    dense = compose_grid(["model=llama_3_1_8b", *line])
    mixed = compose_grid(["model=llama_3_1_8b,qwen3_30b_a3b", *line])
    assert set(inert(dense.possible(), dense.given, verb="sweep")) == {
        "moe.ep_load_balance",
        "parallelism.moe_ep",
    }
    assert inert(mixed.possible(), mixed.given, verb="sweep") == {}


def test_rules_name_inputs_that_exist() -> None:
    assert [key for rule in RULES for key in rule.keys if key not in by_key()] == []


def test_the_table_of_readers_names_keys_and_verbs_that_exist() -> None:
    known = {*field_by_key(), *fields_of_group(), "grid"}
    assert [key for key in READERS if key not in known] == []
    assert {verb for verbs in READERS.values() for verb in verbs} <= set(VERBS)


@pytest.mark.parametrize(
    ("key", "verb", "needs"),
    [
        ("search.seed", "plan", "servesweep search"),
        ("search.seed", "search", None),
        ("demand", "sweep", "servesweep plan or nightly"),
        ("demand.spare", "nightly", None),
        ("output.keep", "plan", "servesweep sweep or search"),
        ("output.report", "plan", None),
        ("model", "plan", None),
        ("workload.isl", "search", None),
    ],
)
def test_a_key_of_another_verb_needs_that_verb(key: str, verb: str, needs: str | None) -> None:
    assert needs_verb(key, verb) == needs
    found = inert(of_record(record_of()[0]), [key], verb=verb)
    assert found == ({} if needs is None else {key: needs})
