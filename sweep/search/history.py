"""How a search's frontiers grew: when to stop, and how sure the result is."""

from __future__ import annotations

from typing import Any

from sweep.search.contests import Contest, Floats, growth


class History:
    """Frontiers after each generation."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self._evaluations: list[int] = []
        self._contests: list[list[Contest]] = []

    @property
    def generations(self) -> int:
        return len(self._contests)

    def add(self, evaluations: int, contests: list[Contest]) -> None:
        """One more generation: rows evaluated so far, and the frontiers."""
        self._evaluations.append(evaluations)
        self._contests.append(contests)

    def stalled(self, tolerance: float) -> bool:
        """Whether the frontiers grew by less than `tolerance` over the last `patience` generations, on average."""
        if self.generations <= self.patience:
            return False
        lately = self._lately()
        return bool(lately.size and lately.mean() < tolerance)

    def _lately(self) -> Floats:
        return growth(self._contests[max(0, self.generations - 1 - self.patience)], self._contests[-1])

    def summary(self, n_scenarios: int) -> dict[str, Any]:
        """For the manifest; `told` is for people."""
        found = self._contests[-1] if self._contests else []
        scenarios = {contest.scenario for contest in found if contest.meets}
        content: dict[str, Any] = {
            "told": "no deployment that counts was found: none with a price, or none within the SLO",
            "evaluations": self._evaluations[-1] if self._evaluations else 0,
            "generations": self.generations,
            "scenarios": n_scenarios,
            "scenarios_with_a_frontier": len(scenarios),
        }
        if not scenarios:
            return content
        lately = self._lately()
        span = min(self.patience, self.generations - 1)
        missing = (
            f"; {n_scenarios - len(scenarios)} of {n_scenarios} scenarios have none"
            if len(scenarios) < n_scenarios
            else ""
        )
        return content | {
            "told": f"{len(found)} frontiers: {_grew(span, lately)}{missing}; a search cannot prove that nothing better exists",
            "growth": {
                "generations": span,
                "mean": round(float(lately.mean()), 6) if span else None,
                "most": round(float(lately.max()), 6) if span else None,
            },
            "hypervolume": [
                {"evaluations": n, "share_of_the_last": round(1.0 - float(growth(then, found).mean()), 6)}
                for n, then in zip(self._evaluations, self._contests, strict=True)
            ],
        }


def _grew(span: int, shares: Floats) -> str:
    """By how much the frontiers grew over the last `span` generations, in words."""
    if span == 0:
        return "of one generation, so whether they still grow is not known"
    over = "the last generation" if span == 1 else f"the last {span} generations"
    return f"their hypervolume grew by {shares.mean():.2%} over {over} ({shares.max():.2%} the one that grew most)"
