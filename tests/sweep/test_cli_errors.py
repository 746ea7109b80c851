"""Wrong inputs of the sweep verb: one line on stderr, exit 2, no traceback, nothing on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweep.cli import main

WRONG = {
    "a misspelt key": (["workload.concurency=4"], ["workload.concurency", "workload.concurrency"]),
    "a misspelt group": (["modle=llama_3_1_8b"], ["modle", "model"]),
    "a misspelt choice": (["hardware=h100_sxn"], ["hardware=h100_sxn", "h100_sxm"]),
    "a misspelt model": (["model=llama_3_1_8"], ["model=llama_3_1_8", "llama_3_1_8b"]),
    "a misspelt choice in a list": (["workload=chat,rga"], ["workload=rga", "rag"]),
    "a key without its group": (["tp=2"], ["'tp'", "parallelism.tp"]),
    "a value out of range": (["parallelism.tp=0"], ["parallelism.tp=0", ">= 1"]),
    "a word for a number": (["workload.isl=long"], ["workload.isl=long", "whole number"]),
    "a fraction for a count": (["model.n_layers=2.5"], ["model.n_layers=2.5", "whole number"]),
    "a wrong choice of a field": (["engine.engine=vlm"], ["engine.engine=vlm", "vllm"]),
    "brackets left open": (["workload.isl=[1,2"], ["workload.isl"]),
    "an empty range": (["workload.concurrency=range(5,1)"], ["workload.concurrency=range(5,1)", "no value"]),
    "a pattern without a match": (["hardware=glob(zz*)"], ["hardware=glob(zz*)", "no value"]),
    "an interval": (["workload.isl=interval(1,4)"], ["interval"]),
    "a preset that is none": (["grid=huge"], ["grid=huge", "default"]),
    "a run setting swept": (["fidelity=fitted,roofline"], ["fidelity", "cannot be swept"]),
    "not an override": (["foo"], ["foo"]),
    "an unknown option": (["--mulitrun", "model=llama_3_1_8b"], ["--mulitrun"]),
    "a folder that is not there": (["--config-dir", "nowhere", "grid=small"], ["nowhere"]),
    "a folder that is not named": (["grid=small", "--config-dir"], ["--config-dir", "which folder"]),
    "a huge range": (["workload.isl=range(1,100000000)"], ["workload.isl"]),
    "a choice that is a path": (["price=../on_demand"], ["price=../on_demand", "on_demand"]),
    "a model file that is none": (["model=none.json"], ["none.json"]),
    "more requests than there are people": (["workload.concurrency=1e30"], ["workload.concurrency"]),
    "a missing value for a required field": (["workload.isl=null"], ["workload.isl", "must be given"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_one_line_and_exit_2(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, words = WRONG[name]
    assert main(["sweep", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in err
    for word in words:
        assert word in err
    assert list(tmp_path.iterdir()) == []
