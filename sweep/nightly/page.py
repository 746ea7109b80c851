"""report.html: one file without network or scripts; pictures are inside it."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from typing import Any

from sweep.nightly.figures import title
from sweep.nightly.words import HEADS, headline, notes, table

STYLE = """
body { font: 16px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 1150px; padding: 0 1em; color: #1a1a1a; }
table { border-collapse: collapse; margin: 1em 0; width: 100%; }
th, td { border-bottom: 1px solid #ccc; padding: 4px 10px; text-align: left; vertical-align: top; }
th { background: #f2f2f2; }
td.n { text-align: right; white-space: nowrap; }
img { max-width: 100%; }
.changed { border-left: 6px solid #D55E00; padding-left: 12px; }
"""
PLAN_HEADS = (("plan", "plan"), ("gpus", "GPUs"), ("usd_per_hour", "$/h"), ("usd_per_m_total", "$/M tok"),
              ("utilization", "utilized"), ("simulated_ttft_ms", "sim. TTFT, ms"), ("simulated_tpot_ms", "sim. TPOT, ms"))  # fmt: skip


def report_html(night: Mapping[str, Any], pictures: Mapping[str, bytes]) -> bytes:
    """The report of one night; `pictures` by name, PNG. Every string is data, never markup."""
    changed = " class=changed" if night["exit_status"] else ""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        f"<title>{html.escape(headline(night))}</title><style>{STYLE}</style>",
        f"<h1{changed}>{html.escape(headline(night))}</h1>",
        _table(HEADS, table(night["models"])),
        "<ul>" + "".join(f"<li>{html.escape(note)}</li>" for note in notes(night)) + "</ul>",
        *(_picture(name, content) for name, content in pictures.items()),
        *(_model(one) for one in night["models"]),
        "</html>\n",
    ]
    return "\n".join(parts).encode()


def _picture(name: str, content: bytes) -> str:
    data = base64.b64encode(content).decode()
    return f'<img alt="{html.escape(name)}" src="data:image/png;base64,{data}">'


def _model(one: Mapping[str, Any]) -> str:
    """How a model's load came about and which fleets were weighed."""
    found = one["forecast"]
    rates = ", ".join(f"{k.replace('_', ' ')} {v:,.3g}" for k, v in found["requests_per_s"].items())
    lines = [
        f"<h2>{html.escape(title(one))}</h2>",
        f"<p>Forecast of the busiest hour, requests/s: {html.escape(rates)}; planned with"
        f" {html.escape(found['method'].replace('_', ' '))}. Growth {found['growth_per_week']:+.1%} per week"
        f" ({html.escape(found['growth_from'])}; {found['days_seen']} days seen).</p>",
    ]
    if one.get("demand"):
        lines.append(f"<p>Demand: {html.escape(one['demand'])}. SLO: {html.escape(one['slo'])}.</p>")
    if one.get("plans"):
        lines.append(
            _table(
                [head for _, head in PLAN_HEADS], [[_text(p[k]) for k, _ in PLAN_HEADS] for p in one["plans"]]
            )
        )
    elif one.get("reason"):
        lines.append(f"<p>{html.escape(one['reason'])}</p>")
    return "\n".join(lines)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.3g}"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{html.escape(head)}</th>" for head in heads)
    body = "".join("<tr>" + "".join(_cell(text) for text in row) + "</tr>" for row in rows)
    return f"<table><tr>{top}</tr>{body}</table>"


def _cell(text: str) -> str:
    number = text.replace(",", "").replace(".", "").replace("-", "").isdigit() or text == "-"
    return f"<td{' class=n' if number else ''}>{html.escape(text)}</td>"
