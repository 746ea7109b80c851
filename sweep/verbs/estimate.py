"""`servesweep estimate`: one deployment with its full breakdown."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from sweep.estimation.arguments import parse
from sweep.estimation.experiment import read, read_hardware
from sweep.estimation.given import Given, from_environment
from sweep.estimation.rules import Deployment, deployment

CONFIG, HARDWARE_CONFIG = "experiment.config", "experiment.hardware_config"


def gathered(givens: Sequence[Given]) -> Deployment:
    """The deployment of a command line with its environment and files; a flag wins over YAML, YAML over environment."""
    files = {g.key: str(g.value) for g in givens if g.key in (CONFIG, HARDWARE_CONFIG)}
    layers = from_environment(os.environ)
    notes: list[str] = []
    for key, reader in ((CONFIG, read), (HARDWARE_CONFIG, read_hardware)):
        if key in files:
            found, said = reader(files[key], os.environ)
            layers += found
            notes += said
    return deployment([*layers, *givens], notes)


def main(argv: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    options, givens = parse(argv)
    asked = gathered(givens)
    from sweep.estimation.price import coefficients_of, estimate
    from sweep.estimation.text import as_json, inert_warnings, print_report, print_simulation

    result = estimate(asked, options.fidelity)
    simulated = None
    if asked.simulate and not result.reason:
        from sweep.estimation.simulated import simulation

        simulated = simulation(asked, result, coefficients_of(result))
    mode = asked.settings.get("experiment.inference_mode", "both")
    for line in inert_warnings(result):
        print(f"servesweep estimate: {line}", file=sys.stderr)
    if options.json:
        more = {"simulated": simulated.as_dict()} if simulated else {}
        print(json.dumps({**as_json(result, mode), **more}, indent=1))
    else:
        print_report(result, mode)
        if simulated:
            print_simulation(simulated, result)
    return 0
