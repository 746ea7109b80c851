"""What is worth telling, against the plan that was last told."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from sweep.nightly.compare import compared, exit_status

NIGHT = date(2026, 3, 1)


def planned(gpus: int, usd: float | None, hardware: str = "h100_sxm", **more: Any) -> dict[str, Any]:
    answer = {"plan": f"{gpus} x {hardware}", "gpus": gpus, "usd_per_hour": usd, "hardware": hardware}
    return {"status": "planned", "reason": None, "answer": answer, "announced_fleet_load": None, **more}


def change(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return compared(new, (NIGHT, old), 0.1, first_night=False)


def test_the_first_night_is_announced_and_no_alert() -> None:
    found = compared(planned(4, 8.0), None, 0.1, first_night=True)
    assert (found["changed"], found["announced"], found["change"]) == (False, True, "first plan")


def test_a_new_model_on_a_later_night_is_an_alert() -> None:
    assert compared(planned(4, 8.0), None, 0.1, first_night=False)["changed"]


def test_a_change_within_the_threshold_is_told_and_no_alert() -> None:
    found = change(planned(20, 40.0), planned(21, 42.0))
    assert not found["changed"] and not found["announced"]
    assert "within the threshold" in found["change"]


@pytest.mark.parametrize(("gpus", "sign"), [(25, "+25%"), (15, "-25%")])
def test_more_or_fewer_gpus_beyond_the_threshold_are_an_alert(gpus: int, sign: str) -> None:
    found = change(planned(20, 40.0), planned(gpus, 2.0 * gpus))
    assert found["changed"] and sign in found["change"]


def test_gpus_of_other_accelerators_compare_by_cost() -> None:
    assert not change(planned(20, 40.0), planned(8, 41.0, "b200_sxm"))["changed"]
    assert change(planned(20, 40.0), planned(8, 30.0, "b200_sxm"))["changed"]


def test_without_prices_gpus_decide() -> None:
    assert change(planned(20, None), planned(8, None, "b200_sxm"))["changed"]


def test_an_announced_fleet_that_falls_short_is_an_alert() -> None:
    found = change(planned(20, 40.0), planned(21, 42.0, announced_fleet_load=1.25))
    assert found["change"] == "the announced fleet carries 80% of the planned load"


def test_no_answer_is_never_announced() -> None:
    none = {"status": "no answer", "reason": "the weights do not fit"}
    found = compared(none, (NIGHT, planned(1, 1.0)), 0.1, first_night=False)
    assert (found["changed"], found["announced"], found["change"]) == (False, False, "the weights do not fit")


def test_the_exit_status_tells_the_worst() -> None:
    same, other, none = (
        {"status": "planned", "changed": False},
        {"status": "planned", "changed": True},
        {"status": "no answer", "changed": False},
    )
    assert exit_status([same]) == 0
    assert exit_status([same, other]) == 10
    assert exit_status([other, none]) == 3
