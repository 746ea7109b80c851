"""The files that install the job: each passes its own tool where that is at hand, and says what the job does."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from sweep.nightly.job import job_of
from sweep.paths import conf_dir

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "docs" / "deploy"


def checked_by(tool: str, *arguments: str) -> None:
    """Run a tool that must find nothing; skips where it is not installed."""
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    done = subprocess.run([tool, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def test_the_dockerfile_passes_hadolint() -> None:
    checked_by("hadolint", str(DEPLOY / "Dockerfile"))


def test_the_dockerfile_copies_what_the_project_is_made_of() -> None:
    copied = re.findall(r"^COPY (.+) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    names = " ".join(copied).split()
    assert [name for name in names if not (ROOT / name).exists()] == []
    assert {"pyproject.toml", "README.md", "kernels", "sweep", "conf"} <= set(names)


def test_the_units_pass_systemd(tmp_path: Path) -> None:
    for kind in ("service", "timer"):
        text = (DEPLOY / f"servesweep-nightly.{kind}").read_text()
        (tmp_path / f"servesweep-nightly.{kind}").write_text(
            re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", text)
        )
    units = [str(path) for path in sorted(tmp_path.iterdir())]
    checked_by("systemd-analyze", "verify", "--man=no", *units)
    checked_by("systemd-analyze", "calendar", "*-*-* 01:30:00 UTC")


def test_the_service_takes_a_changed_plan_for_success_and_outlives_the_job() -> None:
    unit = (DEPLOY / "servesweep-nightly.service").read_text()
    assert "SuccessExitStatus=10\n" in unit
    minutes = int(re.search(r"TimeoutStartSec=(\d+)min", unit)[1])  # type: ignore[index]
    assert minutes > job_of(["job=gateway"]).time_limit_min


def test_the_cron_line_has_five_fields_a_user_and_no_percent_sign() -> None:
    lines = [line for line in (DEPLOY / "crontab").read_text().splitlines() if re.match(r"[\d*]", line)]
    assert len(lines) == 1
    assert "%" not in lines[0]
    assert re.match(
        r"(\d+ \d+) \* \* \* servesweep /\S+/servesweep nightly --config-dir \S+ job=gateway ", lines[0]
    )


def test_the_cronjob_has_the_structure_that_kubernetes_asks_for() -> None:
    config, job = documents("cronjob.yaml")
    assert (job["apiVersion"], job["kind"], job["spec"]["concurrencyPolicy"]) == (
        "batch/v1",
        "CronJob",
        "Forbid",
    )
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    volumes = {volume["name"] for volume in pod["volumes"]}
    (container,) = pod["containers"]
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    assert pod["restartPolicy"] == "Never"
    assert "-eq 10" in container["args"][0]
    assert config["metadata"]["name"] == "servesweep-nightly"


def test_the_cronjob_passes_the_schemas_of_kubernetes() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for document in documents("cronjob.yaml"):
        validate.validate(document, "1.30", strict=True)


def test_the_job_of_the_config_map_is_a_job(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "gateway.yaml").write_text(documents("cronjob.yaml")[0]["data"]["gateway.yaml"])
    job = job_of(["job=gateway"], [tmp_path])
    assert (job.name, job.folder) == ("gateway", Path("/var/lib/servesweep/gateway"))
    assert job.log is not None and "{date}" in job.log


def test_the_workflow_passes_actionlint() -> None:
    checked_by("actionlint", str(DEPLOY / "github-actions.yaml"))


def test_the_workflow_tells_a_changed_plan_from_a_failure() -> None:
    (workflow,) = documents("github-actions.yaml")
    steps = workflow["jobs"]["nightly"]["steps"]
    (plan,) = [step for step in steps if step.get("name") == "Plan"]
    assert plan["shell"] == "bash"  # which sets pipefail: the status is not that of tee
    script = plan["run"].replace("servesweep nightly", "finish")
    for status, expected in ((0, 0), (10, 0), (3, 3), (2, 2)):
        done = subprocess.run(
            [
                "bash",
                "--noprofile",
                "--norc",
                "-eo",
                "pipefail",
                "-c",
                f"finish() {{ return {status}; }}\n{script}",
            ],
            env={"GITHUB_STEP_SUMMARY": "/dev/null", "PATH": "/usr/bin:/bin"},
            capture_output=True,
        )
        assert done.returncode == expected


def test_the_template_of_a_real_log_names_its_keys_and_its_models() -> None:
    assert (conf_dir() / "job" / "gateway.yaml").is_file()
    job = job_of(["job=gateway"])
    assert {"hardware=h100_sxm,h200_sxm,b200_sxm", "model=llama_3_3_70b"} <= set(
        job.overrides_of("chat-large")
    )
    assert job.overrides_of("qwen3_32b")[0] == "model=qwen3_32b"
