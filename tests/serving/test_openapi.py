"""The OpenAPI description, and requests that are generated from it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serving.local_server import Client, serve


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with serve() as client:
        yield client


def test_paths_and_errors(client: Client) -> None:
    description: Any = client.request("GET", "/openapi.json").body
    assert description["openapi"].startswith("3.")
    paths = description["paths"]
    assert [*paths] == [
        "/healthz",
        "/readyz",
        "/metrics",
        "/v1/models",
        "/v1/models/{name}/versions/{version}",
        "/v1/models/{name}",
        "/v1/models/{name}/versions/{version}:predict",
        "/v1/models/{name}:predict",
        "/v1/models/{name}/versions/{version}/metadata",
        "/v1/models/{name}/metadata",
    ]
    for path, operations in paths.items():
        for operation in operations.values():
            parameters = [one["name"] for one in operation.get("parameters", ())]
            assert sorted(parameters) == sorted(re.findall(r"\{(\w+)\}", path))
    predict = paths["/v1/models/{name}:predict"]["post"]
    schema = predict["requestBody"]["content"]["application/json"]["schema"]
    assert {*schema["properties"]} == {"signature_name", "instances", "inputs"}
    expected = {"200", "400", "404", "408", "413", "415", "500", "503", "504"}
    assert predict["responses"].keys() == expected
    assert not any("422" in o["responses"] for path in paths.values() for o in path.values())
    assert [*description["components"]["schemas"]] == ["Error"]
    assert "securitySchemes" not in description["components"]


def test_operations_need_the_token() -> None:
    token = "0123456789abcdef"
    with serve(app_options={"token": token}) as client:
        headers = {"Authorization": f"Bearer {token}"}
        description: Any = client.request("GET", "/openapi.json", headers=headers).body
    assert description["components"]["securitySchemes"] == {
        "token": {"type": "http", "scheme": "bearer"}
    }
    for path, operations in description["paths"].items():
        for operation in operations.values():
            needs_token = path not in ("/healthz", "/readyz")
            assert ("401" in operation["responses"]) == needs_token
            assert operation.get("security") == ([{"token": []}] if needs_token else None)


def test_the_page_loads_local_files_only(client: Client) -> None:
    page = client.request("GET", "/docs").body.decode()
    assert "http" not in page.replace("http-equiv", "")
    for name in ("swagger-ui-bundle.js", "swagger-ui.css"):
        assert f'"/docs/static/{name}"' in page
        assert len(client.request("GET", f"/docs/static/{name}").body) > 100_000
    for value in ("bytes=5-1", "bytes=99999999-", "x"):  # ranges are ignored
        headers = {"Range": value}
        assert client.request("GET", "/docs/static/swagger-ui.css", headers=headers).status == 200


@pytest.mark.slow
@pytest.mark.parametrize("name", ["upper", None])
def test_generated_requests_cause_no_errors_of_the_server(
    client: Client, name: str | None, tmp_path: Path
) -> None:
    """schemathesis sends valid and invalid requests, with the name of a model or any name."""
    config = "" if name is None else f'[parameters]\n"path.name" = "{name}"\n"path.version" = "1"\n'
    (tmp_path / "schemathesis.toml").write_text(config)
    command = [str(Path(sys.executable).parent / "schemathesis"), "run", "--no-color"]
    command += ["--checks", "not_a_server_error,content_type_conformance", "--max-examples", "40"]
    command += ["--seed", "1", f"http://127.0.0.1:{client.port}/openapi.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert client.predict({"instances": ["a"]}).status == 200
    metrics = client.request("GET", "/metrics").body.decode()
    counts = re.findall(r'requests_total\{model="upper",status="400",.*\} (\S+)', metrics)
    assert name is None or sum(map(float, counts)) > 50  # the requests reached the model
