"""Configuration of a server: its models, their versions and their limits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml

from attention_zoo.extras import explain_missing_package

with explain_missing_package():
    from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

MAX_CONFIG_BYTES = 1 << 20
MAX_TEXT_BYTES, MAX_IMAGE_BYTES = 1 << 20, 12 << 20
MODEL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")

Count = Annotated[int, Field(ge=1, le=1 << 30)]
Seconds = Annotated[float, Field(gt=0, le=3600)]


class Limits(BaseModel):
    """Limits of the requests of a model.

    Attributes:
        max_body_bytes: maximum size of a body, also after decompression. None: 12 MiB for models of
            images, 1 MiB for others.
        body_timeout: maximum seconds in which a body must arrive.
        timeout: maximum seconds of a request after its body has arrived.
        max_batch_size: maximum number of rows of a request and of a batch.
        max_wait: maximum seconds that a request waits for others to share a batch.
        max_waiting: maximum number of rows that wait for the model.
        max_length: maximum of the option `max_length`, the number of tokens to generate.
        max_image_pixels: maximum number of pixels of all images of a request.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    max_body_bytes: Count | None = None
    body_timeout: Seconds = 10.0
    timeout: Seconds = 30.0
    max_batch_size: Count = 32
    max_wait: Annotated[float, Field(ge=0, le=60)] = 0.005
    max_waiting: Count = 256
    max_length: Count = 1024
    max_image_pixels: Count = 1 << 24

    @model_validator(mode="after")
    def _check_queue(self) -> Limits:
        if self.max_waiting < self.max_batch_size:
            raise ValueError(
                f"max_waiting must be at least max_batch_size, got {self.max_waiting} and"
                f" {self.max_batch_size}"
            )
        return self


class ModelConfig(BaseModel):
    """A model of a server.

    Attributes:
        name: its name in URLs: letters, digits, `_`, `.` and `-`.
        path: an export, which is version 1, or a folder of exports, whose names are the versions.
        versions: "latest" serves the highest version number, "all" every version, a list the listed
            ones.
        limits: limits of its requests.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str
    path: str
    versions: Literal["latest", "all"] | tuple[Annotated[int, Field(ge=0, lt=1 << 63)], ...] = (
        "latest"
    )
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _check_name(self) -> ModelConfig:
        check_name(self.name)
        return self


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    models: list[ModelConfig] = Field(min_length=1)


def check_name(name: str) -> None:
    """Raise ValueError if a name of a model cannot be part of a URL."""
    if not MODEL_NAME.fullmatch(name):
        raise ValueError(
            "a model name must have 1 to 200 letters, digits, '_', '.' or '-', and must not begin"
            f" with '.' or '-', got {name[:50]!r}. Rename the folder, or set name in --config."
        )


def check_names(names: Sequence[str]) -> None:
    """Raise ValueError if two models have the same name."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"two models have the name {repeated[0]!r}; rename one of them")


def read_config(path: str | Path) -> list[ModelConfig]:
    """Read a configuration file in YAML.

        models:
          - name: dates
            path: exports/dates
            versions: all
            limits: {timeout: 10}

    Args:
        path: the file. Relative paths in it are relative to its folder.

    Raises:
        ValueError: the file is missing, larger than 1 MiB, not YAML, or has an unknown key, an
            invalid value or two models of one name.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    if len(raw) > MAX_CONFIG_BYTES:
        raise ValueError(f"{path}: must have at most {MAX_CONFIG_BYTES:,} bytes")
    try:
        values = yaml.safe_load(raw.decode())
    except Exception as error:  # the constructors of YAML's types raise others than YAMLError
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{path}: not YAML: {reason}") from None
    try:
        content = _File.model_validate(_to_tuples(values))
    except ValidationError as error:
        raise ValueError(f"{path}: {_format_error(error)}") from None
    check_names([model.name for model in content.models])
    return [
        model.model_copy(update={"path": str(path.parent / model.path)}) for model in content.models
    ]


def _to_tuples(content: Any) -> Any:
    """Return the content with tuples of versions, which strict validation requires."""
    if isinstance(content, dict) and isinstance(content.get("models"), list):
        for model in content["models"]:
            if isinstance(model, dict) and isinstance(model.get("versions"), list):
                model["versions"] = tuple(model["versions"])
    return content


def _format_error(error: ValidationError) -> str:
    """Return the first error as one line that begins with the key."""
    first = error.errors()[0]
    key = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]
    ).lstrip(".")
    message = first["msg"].removeprefix("Value error, ")
    return f"{key}: {message}" if key else message
