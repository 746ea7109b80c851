"""What the documentation promises: its commands run as printed, page by page, and its links lead somewhere."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from sweep.cli import VERBS, main
from tests.sweep.test_readme import LINES as README_LINES

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
PLACEHOLDER = re.compile(r"\.\.\.|\b(FILE|DIR|SRC|VERB|NAME|TABLE)\b|group\.(field|key)=value|> docs/")
ELSEWHERE = {
    "servesweep calibrate engine silicon_dev.csv amd_dev.csv throughput_dev.csv": "minutes, and rewrites the shipped fit",
    "servesweep grid=default 'workload.isl=range(256,7936,256)' output.report=false": "ten million rows",
    "servesweep grid=default 'workload.isl=range(256,7681,256)' output.keep=frontier output.report=false": "the same",
    "servesweep grid=default 'workload.isl=range(256,7681,640)'": "four million rows",
    "servesweep grid=default 'workload.isl=range(256,7681,25)' output.keep=frontier output.report=false": "10^8 rows",
    "servesweep bench": "run for the README",
    "servesweep nightly --config-dir /etc/servesweep job=gateway": "a job of the reader's own",
}
"""Commands that no test runs, and why."""
RESULT = {
    "model_id": "Qwen/Qwen3-32B",
    "total_input_tokens": 655360,
    "total_output_tokens": 163840,
    "completed": 640,
    "num_prompts": 640,
    "max_concurrency": 64,
    "mean_ttft_ms": 400.0,
    "mean_tpot_ms": 20.0,
    "hardware": "h100_sxm",
    "tp": 8,
}
FILES = {
    "RESULT.json": json.dumps(RESULT),
    "deployments.csv": "id,model,hardware,tp,isl,osl,concurrency\n1,qwen3_32b,H100,8,1024,256,32\n",
    "measured.csv": "id,model,hardware,backend,tp,isl,osl,concurrency,measured_ttft_ms,measured_tpot_ms\n"
    "1,llama_3_1_8b,h100_sxm,vllm,1,1024,1024,16,90,8.5\n",
    "requests.csv": "arrival_s,input_tokens,output_tokens\n0,900,200\n0.4,1500,80\n1.1,700,350\n2.0,800,120\n",
    "log.csv": "when,in,out,engine\n0,900,200,a\n0.4,1500,80,a\n1.1,700,350,a\n2.0,800,120,a\n",
}
"""Files that commands of the pages read: what a user would have."""


def commands(page: Path) -> list[str]:
    """Commands of a page, in order: lines of code blocks, and spans that say more than a verb."""
    found: list[str] = []
    fenced = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            if line.strip().startswith("servesweep "):
                found.append(re.sub(r"\s+#.*", "", line.strip()))
        else:
            spans = re.findall(r"`([^`]+)`", line)
            found += [s for s in spans if s.startswith("servesweep ") and not is_mention(s)]
    return [one for one in dict.fromkeys(found) if not PLACEHOLDER.search(one) and one not in ELSEWHERE]


def is_mention(span: str) -> bool:
    """Whether a span only names a verb (and its subject) in a sentence."""
    words = span.split()[1:]
    return all(word.isidentifier() for word in words) and len(words) <= 2


def needs_measured_tables(command: str) -> bool:
    return "_dev.csv" in command


def run(command: str) -> int:
    """A command line with `&&`, in this process."""
    for part in command.split(" && "):
        program, *arguments = shlex.split(part)
        assert program == "servesweep"
        if status := main(arguments):
            return status
    return 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_work_in_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        Path(name).write_text(content)
    for command in commands(page):
        if needs_measured_tables(command) or command in README_LINES:
            continue
        if "output.dir=run" in command:
            folder = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
            command = command.replace("output.dir=run", f"output.dir={folder}")
            command = re.sub(r"(resume|report|export) run\b", rf"\1 {folder}", command)
        assert run(command) == 0, command


@pytest.mark.measured
def test_commands_on_measured_tables_work_where_the_tables_are(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = 0
    for page in PAGES:
        for command in commands(page):
            if needs_measured_tables(command):
                located = re.sub(r"\b(\w+_dev\.csv)", rf"{shared / 'measured'}/\1", command)
                assert run(located) == 0, command
                ran += 1
    assert ran > 0


def test_what_no_test_runs_is_still_printed_somewhere() -> None:
    everything = "".join(page.read_text(encoding="utf-8") for page in (*PAGES, ROOT / "README.md"))
    assert [command for command in ELSEWHERE if command not in everything] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s:]+)\)", text):
        file, _, anchor = target.partition("#")
        aim = (page.parent / file).resolve() if file else page
        assert aim.exists(), target
        if anchor:
            heads = re.findall(r"^#+ (.+)$", aim.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^a-z0-9 -]", "", head.lower()).replace(" ", "-") for head in heads}, (
                target
            )


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if page.name != "README.md" and f"({page.name}" not in index] == []


def test_pictures_of_the_documentation_are_light() -> None:
    heavy = {p.name: p.stat().st_size for p in (ROOT / "docs").glob("*.png") if p.stat().st_size > 150_000}
    assert heavy == {}


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_every_verb_says_how_to_use_it(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main([verb, "--help"])
    except SystemExit as stop:
        status = int(stop.code or 0)
    assert status == 0
    assert "usage: servesweep" in capsys.readouterr().out


def test_percentages_of_the_models_page_are_measured() -> None:
    """Every percentage in a table of docs/model.md stands in a page that a command makes or that names the command."""
    rows = [
        line for line in (ROOT / "docs" / "model.md").read_text(encoding="utf-8").splitlines() if "| " in line
    ]
    stated = {p for row in rows for p in re.findall(r"[\d.]+ %", row)} - {"10 %"}
    known = (ROOT / "docs" / "measurements.md").read_text(encoding="utf-8")
    assert stated and [p for p in stated if p not in known] == []
