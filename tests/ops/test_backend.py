"""Only supported Keras backends are used without a warning."""

from __future__ import annotations

import warnings

import pytest

from attention_zoo.ops.backend import check_backend
from tests.layers.running import in_fresh_process

IMPORT_WITH_TORCH = """
import warnings
import keras
keras.backend.backend = lambda: "torch"
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import attention_zoo
print(*(w.message for w in caught if "backend" in str(w.message)), sep="\\n")
"""


@pytest.mark.parametrize("name", ["tensorflow", "jax"])
def test_supported_backend_gives_no_warning(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_backend(name)


@pytest.mark.parametrize("name", ["torch", "numpy"])
def test_other_backend_gives_a_warning_with_the_fix(name: str) -> None:
    with pytest.warns(UserWarning, match=f"{name}.*Set KERAS_BACKEND to tensorflow or jax"):
        check_backend(name)


@pytest.mark.slow
def test_import_with_torch_warns_once() -> None:
    """Keras itself runs on the installed backend; only its name is replaced."""
    (line,) = in_fresh_process(IMPORT_WITH_TORCH).splitlines()
    assert "does not support the Keras backend 'torch'" in line
