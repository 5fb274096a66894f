"""The image and the Kubernetes manifest: linters, and agreement with the server."""

from __future__ import annotations

import argparse
import functools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from attention_zoo.cli.serve import add_arguments
from attention_zoo.serving.config import read_config
from attention_zoo.serving.server import DRAIN_TIMEOUT

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCKERFILE, MANIFEST = DEPLOY / "Dockerfile", DEPLOY / "kubernetes.yaml"


def run_tool(*command: str) -> tuple[int, str]:
    """Run a command of this environment; return its exit status and its output."""
    path = Path(sys.executable).with_name(command[0])
    done = subprocess.run([path, *command[1:]], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@functools.cache
def read_image() -> dict[str, str]:
    """The last instruction of each kind, with continued lines joined."""
    lines = DOCKERFILE.read_text("utf-8").replace("\\\n", " ").splitlines()
    return dict(re.findall(r"^([A-Z]+) +(.+)$", "\n".join(lines), re.M))


@functools.cache
def read_manifest() -> dict[str, Any]:
    """Objects by kind."""
    objects = list(yaml.safe_load_all(MANIFEST.read_text("utf-8")))
    kinds = {one["kind"]: one for one in objects}
    assert len(kinds) == len(objects)
    return kinds


def get_pod() -> dict[str, Any]:
    pod: dict[str, Any] = read_manifest()["Deployment"]["spec"]["template"]["spec"]
    return pod


def get_container() -> dict[str, Any]:
    (container,) = get_pod()["containers"]
    assert isinstance(container, dict)
    return container


def parse(arguments: list[str]) -> argparse.Namespace:
    """Arguments of `attention-zoo serve`; raises SystemExit for unknown options."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(arguments)


def parse_image() -> argparse.Namespace:
    words = [json.loads(read_image()[name]) for name in ("ENTRYPOINT", "CMD")]
    assert words[0][:2] == ["attention-zoo", "serve"]
    return parse([*words[0][2:], *words[1]])


def parse_pod() -> argparse.Namespace:
    entrypoint = json.loads(read_image()["ENTRYPOINT"])
    return parse([*entrypoint[2:], *get_container()["args"]])


def test_the_dockerfile_passes_hadolint() -> None:
    assert run_tool("hadolint", str(DOCKERFILE)) == (0, "")


def test_hadolint_reports_problems(tmp_path: Path) -> None:
    bad = tmp_path / "Dockerfile"
    bad.write_text(DOCKERFILE.read_text("utf-8").replace(" --no-cache-dir", ""), "utf-8")
    status, output = run_tool("hadolint", str(bad))
    assert status
    assert "DL3042" in output


def test_the_manifest_is_valid() -> None:
    status, output = run_tool("kubernetes-validate", "--strict", str(MANIFEST))
    assert status == 0, output
    assert output.count("passed") == len(read_manifest())


def test_unknown_keys_of_a_manifest_are_reported(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    text = MANIFEST.read_text("utf-8")
    bad.write_text(text.replace("runAsNonRoot", "runAsNoRoot"), "utf-8")
    status, output = run_tool("kubernetes-validate", "--strict", str(bad))
    assert status
    assert "runAsNoRoot" in output


def test_options_exist() -> None:
    image, pod = parse_image(), parse_pod()
    assert (image.host, pod.host) == ("0.0.0.0", "0.0.0.0")
    assert image.config == "/models/config.yaml"
    assert Path(image.config).parent == Path(read_image()["WORKDIR"])
    assert pod.token_file
    with pytest.raises(SystemExit):
        parse(["--tokens-file=x"])


def test_ports_agree() -> None:
    port = parse_image().port
    (exposed,) = get_container()["ports"]
    assert [int(read_image()["EXPOSE"]), exposed["containerPort"], parse_pod().port] == [port] * 3
    assert f"127.0.0.1:{port}/readyz" in read_image()["HEALTHCHECK"]
    (service,) = read_manifest()["Service"]["spec"]["ports"]
    probes = [get_container()[f"{kind}Probe"]["httpGet"] for kind in ("startup", "readiness")]
    live = get_container()["livenessProbe"]["httpGet"]
    assert service["targetPort"] == exposed["name"]
    assert {probe["port"] for probe in (*probes, live)} == {exposed["name"]}
    assert [probe["path"] for probe in (*probes, live)] == ["/readyz", "/readyz", "/healthz"]


def test_files_are_mounted(tmp_path: Path) -> None:
    """The configuration, its models and the token are in volumes of the pod."""
    volumes = {one["name"]: one for one in get_pod()["volumes"]}
    mounts = {Path(one["mountPath"]): one for one in get_container()["volumeMounts"]}
    assert {one["name"] for one in mounts.values()} == {*volumes}
    arguments, objects = parse_pod(), read_manifest()
    config, token = Path(arguments.config), Path(arguments.token_file)
    name = volumes[mounts[config.parent]["name"]]["configMap"]["name"]
    assert name == objects["ConfigMap"]["metadata"]["name"]
    assert [*objects["ConfigMap"]["data"]] == [config.name]
    assert "secret" in volumes[mounts[token.parent]["name"]]
    (tmp_path / config.name).write_text(objects["ConfigMap"]["data"][config.name], "utf-8")
    models = Path(read_image()["WORKDIR"])
    assert mounts[models]["readOnly"]
    for model in read_config(tmp_path / config.name):
        assert Path(model.path).is_relative_to(models)


def test_the_pod_has_no_privileges() -> None:
    context, own = get_pod()["securityContext"], get_container()["securityContext"]
    assert context["runAsNonRoot"]
    assert read_image()["USER"] == str(context["runAsUser"])
    assert f"--uid {context['runAsUser']} " in read_image()["RUN"]
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert own["readOnlyRootFilesystem"]
    assert not own["allowPrivilegeEscalation"]
    writable = [one for one in get_container()["volumeMounts"] if not one.get("readOnly")]
    assert [one["mountPath"] for one in writable] == ["/tmp"]


def test_objects_select_the_pods() -> None:
    objects = read_manifest()
    deployment = objects["Deployment"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    assert objects["Service"]["spec"]["selector"] == labels
    assert objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    scaler = objects["HorizontalPodAutoscaler"]["spec"]
    assert scaler["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert scaler["minReplicas"] > objects["PodDisruptionBudget"]["spec"]["minAvailable"]
    assert "replicas" not in deployment["spec"]  # they would reset the number of the autoscaler


def test_running_requests_can_end() -> None:
    delay = get_container()["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert get_pod()["terminationGracePeriodSeconds"] >= delay + DRAIN_TIMEOUT
