"""The launch files set `TF_CONFIG` for each host."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from attention_zoo.training.hosts import is_chief, several

CLUSTER = Path(__file__).resolve().parents[2] / "training" / "cluster"
COMMANDS = {
    "scontrol": 'test "$1 $2 $3" = "show hostnames node[1-3]" && printf "node1\\nnode2\\nnode3\\n"',
    "srun": 'shift; for SLURM_PROCID in 0 1 2; do export SLURM_PROCID; "$@"; done',
    "attention-zoo": 'echo "$TF_CONFIG"; printf "%s|" "$@"; echo',
}


def run_with(
    commands: dict[str, str], folder: Path, script: list[str], **variables: str
) -> list[str]:
    """Run a script with fake commands and return the lines of its output."""
    for name, text in commands.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", **variables}
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_slurm_script_sets_tf_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = [str(CLUSTER / "slurm.sh"), "my recipe.yaml", "run=/shared/run"]
    lines = run_with(COMMANDS, tmp_path, script, SLURM_JOB_NODELIST="node[1-3]", PORT="999")
    workers = ["node1:999", "node2:999", "node3:999"]
    for index in range(3):
        assert json.loads(lines[2 * index]) == {
            "cluster": {"worker": workers},
            "task": {"type": "worker", "index": index},
        }
        assert lines[2 * index + 1] == "train|my recipe.yaml|run=/shared/run|"
        monkeypatch.setenv("TF_CONFIG", lines[2 * index])
        assert several()
        assert is_chief() is (index == 0)
    assert len(lines) == 6


def test_slurm_script_fails_if_a_host_fails(tmp_path: Path) -> None:
    commands = {**COMMANDS, "attention-zoo": "exit 2"}
    with pytest.raises(AssertionError):
        run_with(commands, tmp_path, [str(CLUSTER / "slurm.sh")], SLURM_JOB_NODELIST="node[1-3]")


def read_documents() -> dict[str, dict[str, Any]]:
    text = (CLUSTER / "kubernetes.yaml").read_text("utf-8")
    return {document["kind"]: document for document in yaml.safe_load_all(text)}


def test_kubernetes_job_sets_tf_config(tmp_path: Path) -> None:
    job = read_documents()["Job"]
    name, spec = job["metadata"]["name"], job["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    variables = {one["name"]: one["value"] for one in container["env"]}
    hosts = spec["completions"]
    assert spec["parallelism"] == hosts
    assert spec["completionMode"] == "Indexed"
    for index in range(hosts):
        script = [*container["command"], *container["args"]]
        variables["JOB_COMPLETION_INDEX"] = str(index)
        lines = run_with(COMMANDS, tmp_path, script, **variables)
        config = json.loads(" ".join(lines[:-1]))
        subdomain = spec["template"]["spec"]["subdomain"]
        workers = [f"{name}-{number}.{subdomain}:12345" for number in range(hosts)]
        assert config["cluster"] == {"worker": workers}
        assert config["task"] == {"type": "worker", "index": index}
        assert lines[-1] == f"train|{variables['RECIPE']}|run={variables['RUN']}|"
    root = CLUSTER.parents[1]
    assert (root / variables["RECIPE"]).is_file()


def test_kubernetes_network_policy_admits_the_job_only() -> None:
    documents = read_documents()
    pods = {"job-name": documents["Job"]["metadata"]["name"]}
    policy = documents["NetworkPolicy"]["spec"]
    assert policy["podSelector"]["matchLabels"] == pods
    (rule,) = policy["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": pods}}]
    assert documents["Service"]["spec"]["selector"] == pods
    assert (
        documents["Service"]["metadata"]["name"]
        == (documents["Job"]["spec"]["template"]["spec"]["subdomain"])
    )
