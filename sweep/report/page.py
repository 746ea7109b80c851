"""One self-contained page: body, style, scripts and data in a single file."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def page(title: str, body: str, data: dict[str, Any], scripts: Sequence[str]) -> bytes:
    """The page. `body` and `title` are markup and text of ours; everything from outside is in `data` or escaped in `body`."""
    own = "\n".join(source(name) for name in scripts)
    return "".join(
        (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n',
            f"<title>{html.escape(title)}</title>\n<style>\n{source('style.css')}</style>\n</head>\n<body>\n",
            f"<h1>{html.escape(title)}</h1>\n{body}\n",
            f'<script id="data" type="application/json">{as_json(data)}</script>\n',
            f'<script>\n"use strict";\n{own}</script>\n</body>\n</html>\n',
        )
    ).encode()


def source(name: str) -> str:
    """One of the files beside this module."""
    return (FOLDER / name).read_text(encoding="utf-8")


def as_json(data: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("&", "\\u0026")


def table(heads: Sequence[str], rows: Sequence[Sequence[tuple[str, bool]]]) -> str:
    """An HTML table; each cell is its text and whether it is a number. All text is escaped."""
    top = "".join(f"<th>{html.escape(head)}</th>" for head in heads)
    body = "".join("<tr>" + "".join(_cell(*cell) for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{top}</tr>{body}</table></div>'


def _cell(text: str, number: bool) -> str:
    return f"<td{' class=n' if number else ''}>{html.escape(text)}</td>"
