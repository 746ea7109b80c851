"""`servesweep workload`: what a trace contains, and a synthetic workload fitted to it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep.arguments import Parser
from sweep.errors import UserError, nearest
from sweep.files import check_target, write_atomic

if TYPE_CHECKING:
    from sweep.traces.fit import Fit
    from sweep.traces.reader import Trace
    from sweep.traces.requests import Requests
    from sweep.traces.summary import Summary

MOST_HOURS = 48
"""Hours printed one by one; a longer trace shows the first and the last of them."""


def _parser() -> Parser:
    parser = Parser(
        prog="servesweep workload",
        example="servesweep workload trace.csv",
        description="What a trace contains (rates, lengths, burstiness, prefix reuse), and a synthetic workload fitted to it.",
    )
    parser.add_argument(
        "file",
        nargs="+",
        metavar="FILE",
        help="CSV, JSONL, JSON or parquet, plain or gzipped; folders and globs too",
    )
    parser.add_argument(
        "--columns", default="", metavar="MAP", help="arrival=NAME[:ns|us|ms|s],isl=NAME,osl=NAME,..."
    )
    parser.add_argument("--format", default="auto", help="auto (by content), csv, jsonl, json or parquet")
    parser.add_argument("--on-bad-line", default="stop", help="stop, skip or report (default: %(default)s)")
    parser.add_argument(
        "--block-tokens", type=int, default=512, help="tokens per entry of hash_ids (default: %(default)s)"
    )
    parser.add_argument("--model", help="only the requests of this model")
    parser.add_argument(
        "--fit", type=Path, metavar="OUT.yaml", help="write the fitted workload as a Hydra group choice"
    )
    parser.add_argument(
        "--plot", type=Path, metavar="OUT.png", help="where the plot goes (default: results/<trace>.png)"
    )
    parser.add_argument("--no-plot", action="store_true", help="draw nothing")
    parser.add_argument(
        "--json", action="store_true", help="one object for programs; draws only where --plot says so"
    )
    return parser


def main(argv: Sequence[str]) -> int:
    """Read, summarise, fit, draw."""
    arguments = _parser().parse_args(list(argv))
    from sweep.png import check_png
    from sweep.traces.fit import fit
    from sweep.traces.problems import POLICIES
    from sweep.traces.reader import read
    from sweep.traces.summary import summarise

    if arguments.on_bad_line not in POLICIES:
        raise UserError(
            "unknown policy", field="--on-bad-line", value=arguments.on_bad_line, allowed=", ".join(POLICIES)
        )
    if arguments.block_tokens < 1:
        raise UserError("must be at least 1", field="--block-tokens", value=arguments.block_tokens)
    if arguments.plot and arguments.no_plot:
        raise UserError("contradicts --no-plot", field="--plot", value=arguments.plot)
    check_png(arguments.plot)
    check_target(arguments.plot, "--plot")
    check_target(arguments.fit, "--fit")
    trace = read(
        arguments.file,
        columns=arguments.columns,
        on_bad_line=arguments.on_bad_line,
        format=arguments.format,
        block_tokens=arguments.block_tokens,
    )
    for line in trace.report.lines():
        print(f"servesweep workload: {line}", file=sys.stderr)
    requests = _chosen(trace.requests, arguments.model)
    found = summarise(requests)
    fitted = fit(requests, prefix_hit_rate=0.0 if found.reuse is None else found.reuse.hit_rate)
    if arguments.fit:
        _write_fit(arguments.fit, fitted, trace, found)
    plot = _plot_path(arguments)
    if plot is not None:
        _draw(plot, requests, found, fitted, trace)
    if arguments.json:
        print(json.dumps(_as_dict(trace, found, fitted), indent=1))
        return 0
    print(text(trace, found, fitted))
    for path in (arguments.fit, plot):
        if path is not None:
            print(path)
    return 0


def _chosen(requests: Requests, model: str | None) -> Requests:
    if model is None:
        return requests
    if model not in requests.models:
        raise UserError(
            "no request of this model",
            field="--model",
            value=model,
            allowed=", ".join(requests.models[:20]) or "a trace that names models",
            near=nearest(model, requests.models),
        )
    return requests.of_model(model)


def _plot_path(arguments: Any) -> Path | None:
    if arguments.no_plot or (arguments.json and arguments.plot is None):
        return None
    given: Path | None = arguments.plot
    return given or Path("results") / f"{_stem(arguments.file)}.png"


def _stem(files: Sequence[str]) -> str:
    name = Path(files[0]).name.split(".")[0].strip("*?[]")
    return name or "workload"


def _draw(path: Path, requests: Requests, found: Summary, fitted: Fit, trace: Trace) -> None:
    from dataclasses import replace

    from sweep.traces.figure import draw
    from sweep.traces.synthetic import synthesize

    few = replace(fitted.traffic, n_requests=min(fitted.traffic.n_requests, 1_000_000), hourly_rates=())
    title = f"{Path(trace.files[0]).name}: {found.n_requests:,} requests in {duration(found.span_s)}"
    draw(path, title, requests, found, synthesize(few) if few.rate_per_s > 0.0 else None)


def _as_dict(trace: Trace, found: Summary, fitted: Fit) -> dict[str, Any]:
    report = trace.report
    return {
        "files": list(trace.files),
        "lines": report.n_lines,
        "bad_lines": report.n_bad,
        "first_bad_lines": [one.error.message for one in report.bad[:20]],
        "notes": report.notes,
        **found.as_dict(),
        "fit": fitted.as_dict(),
    }


def duration(seconds: float) -> str:
    """A span in words."""
    for name, size in (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.1f} s"


def text(trace: Trace, found: Summary, fitted: Fit) -> str:
    """The summary for people."""
    lines = [
        f"{found.n_requests:,} requests in {duration(found.span_s)}, {found.rate_per_s:.4g}/s on average, "
        f"{found.peak_minute_rate_per_s:.4g}/s in the busiest minute",
    ]
    if found.n_followers:
        lines.append(f"{found.n_followers:,} of them are later turns of sessions; rates count sessions")
    if found.models:
        shares = [f"{name} {n / found.n_requests:.1%}" for name, n in list(found.models.items())[:8]]
        lines.append("models    " + ", ".join(shares))
    lines += ["", *_lengths_table(found), "", *_arrivals(found), "", *_hours(found), "", *_reuse(found), ""]
    return "\n".join([*lines, *_fit_lines(fitted)])


def _lengths_table(found: Summary) -> list[str]:
    names = list(found.isl)
    rows = ["tokens    " + "".join(f"{name:>9}" for name in names)]
    for label, figures in (("prompt", found.isl), ("output", found.osl)):
        rows.append(f"{label:10}" + "".join(f"{figures[name]:>9,.0f}" for name in names))
    return rows


def _arrivals(found: Summary) -> list[str]:
    dispersion = ", ".join(
        f"{value:.2f} in {window} s" for window, value in found.dispersion.items() if value > 0
    )
    lines = [f"burstiness: gaps between arrivals have cv {found.gap_cv:.2f} (Poisson 1)"]
    if dispersion:
        lines.append(f"            variance over mean of arrivals per window: {dispersion} (Poisson 1)")
    if found.clock_step_s > 0:
        lines.append(
            f"            times come in steps of {found.clock_step_s:g} s: arrivals were spread over each for these figures"
        )
    elif found.n_simultaneous:
        lines.append(f"            {found.n_simultaneous:,} requests arrive at the instant of another")
    return lines


def _hours(found: Summary) -> list[str]:
    most = max(float(found.hour_rate_per_s.max()), 1e-12)
    rows = [
        f"{start:18} {rate:10.4g}/s  {'#' * round(40 * rate / most)}"
        for start, rate in zip(found.hour_start, found.hour_rate_per_s.tolist(), strict=True)
    ]
    if len(rows) > MOST_HOURS:
        half = MOST_HOURS // 2
        rows = [*rows[:half], f"... {len(rows) - 2 * half:,} hours ...", *rows[-half:]]
    return ["rate by hour", *rows]


def _reuse(found: Summary) -> list[str]:
    if found.reuse is None:
        return ["prefix reuse: unknown (the trace has neither block hashes nor token ids)"]
    r = found.reuse
    lines = [
        f"prefix reuse: {r.hit_rate:.1%} of prompt tokens with an unlimited cache "
        f"({r.n_blocks:,} full blocks of {r.block_tokens} tokens, {r.n_distinct:,} distinct)"
    ]
    if r.hit_rate > 0:
        needed = [
            f"{share:.0%} of that with {r.blocks_for(share) * r.block_tokens:,} tokens"
            for share in (0.5, 0.9)
        ]
        lines.append(f"              {', '.join(needed)} of LRU cache")
    return lines


def _fit_lines(fitted: Fit) -> list[str]:
    t = fitted.traffic
    lines = [
        "fitted workload",
        f"  lengths   lognormal: prompt mean {t.isl:,.0f} sigma {t.isl_sigma:.2f}, output mean {t.osl:,.0f} sigma "
        f"{t.osl_sigma:.2f}, correlation {t.length_correlation:.2f}",
        f"  arrivals  {t.process}, {t.rate_per_s:.4g}/s, burstiness {t.burstiness:.3g}"
        + (f", {len(t.hourly_rates)} hourly rates" if t.hourly_rates else ""),
        f"  distance  prompt {fitted.isl_ks:.2f}, output {fitted.osl_ks:.2f}, gaps {fitted.gap_ks:.2f} "
        "(Kolmogorov-Smirnov, 0 = alike)",
    ]
    if max(fitted.isl_ks, fitted.osl_ks) > 0.1:
        lines.append(
            "  lengths are not lognormal: workload.lengths=empirical workload.trace=FILE draws them from the trace"
        )
    return lines


def _write_fit(path: Path, fitted: Fit, trace: Trace, found: Summary) -> None:
    import yaml

    from sweep.traces.traffic import as_workload

    keys = as_workload(fitted.traffic, path.stem)
    if fitted.prefix_hit_rate > 0:
        keys["prefix_hit_rate"] = min(round(fitted.prefix_hit_rate, 4), 0.999)
    head = (
        f"# Fitted to {Path(trace.files[0]).name}: {found.n_requests:,} requests in {duration(found.span_s)}.\n"
        f"# Put it into DIR/workload/ and run: servesweep --config-dir DIR workload={path.stem}\n"
    )
    try:
        write_atomic(path, (head + yaml.safe_dump(keys, sort_keys=False)).encode())
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", file=str(path)) from None
