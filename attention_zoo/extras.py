"""Optional dependencies: packages that `pip install attention-zoo` leaves out."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

EXTRAS = {
    "babel": "dates",
    "fastapi": "serve",
    "huggingface_hub": "hub",
    "matplotlib": "plots",
    "pyarrow": "data",
    "rouge_score": "metrics",
    "sacrebleu": "metrics",
    "scipy": "inspection",
    "sentencepiece": "sentencepiece",
    "tensorboard": "tensorboard",
    "tensorflow_datasets": "tfds",
    "uvicorn": "serve",
}
"""The extra of setup.cfg that installs a module."""


@contextmanager
def explain_missing_package() -> Iterator[None]:
    """Raise ValueError with the install command if an optional import in the context fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in EXTRAS:
            raise
        raise ValueError(describe_missing(name)) from None


def check_installed(modules: Collection[str]) -> None:
    """Raise ValueError if one of these modules is not installed."""
    for name in modules:
        if find_spec(name) is None:
            raise ValueError(describe_missing(name))


def describe_missing(module: str) -> str:
    """Return the message for a module that is not installed."""
    package = f"'attention-zoo[{EXTRAS[module]}]'" if module in EXTRAS else module
    return f"{module} is not installed; run `pip install {package}`"
