"""Optional packages: a missing one is named with the command that installs it."""

from __future__ import annotations

import configparser
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import attention_zoo as az
from attention_zoo.data.synthetic import slots
from attention_zoo.extras import EXTRAS, check_installed, explain_missing_package
from attention_zoo.inspection.rollout import attention_flow
from tests.training.small import fit

USES: dict[str, Callable[[], Any]] = {
    "babel": lambda: slots._format_time.__wrapped__(1, 2, "en"),
    "matplotlib": lambda: az.inspection.plot_alignment([[1.0]], ["a"], ["b"]),
    "matplotlib.glimpses": lambda: az.inspection.plot_glimpse_path(
        [[[0.0]] * 4] * 4, [(0.0, 0.0)], glimpse_size=2
    ),
    "rouge_score": lambda: az.metrics.rouge(["a"], [["a"]]),
    "sacrebleu": lambda: az.metrics.bleu(["a"], ["a"]),
    "scipy": lambda: attention_flow([[[[1.0]]]]),
}


@pytest.mark.parametrize("use", USES)
def test_missing_package_is_named(use: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = use.partition(".")[0]
    for module in [module for module in sys.modules if module.partition(".")[0] == name]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    message = rf"^{name} is not installed; run `pip install 'attention-zoo\[{EXTRAS[name]}\]'`$"
    with pytest.raises(ValueError, match=message):
        USES[use]()


def test_a_missing_package_of_no_extra_is_named() -> None:
    with pytest.raises(ValueError, match="no_such_module is not installed; run `pip install no_s"):
        check_installed(["no_such_module"])


def test_other_import_errors_are_not_hidden() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"), explain_missing_package():
        import no_such_module  # noqa: F401


def test_extras_are_those_of_the_metadata() -> None:
    metadata = configparser.ConfigParser()
    metadata.read(Path(__file__).parents[1] / "setup.cfg")
    packages = {"huggingface_hub": "huggingface_hub", "rouge_score": "rouge-score"}
    for module, extra in EXTRAS.items():
        required = metadata["options.extras_require"][extra].split()
        package = packages.get(module, module.replace("_", "-"))
        assert any(line.startswith(f"{package}>=") for line in required), (extra, required)


def test_metrics_are_checked_before_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_installed(["sacrebleu"])
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ValueError, match=r"sacrebleu is not installed; run `pip install"):
        fit(tmp_path, monitor="bleu")
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_training_without_tensorboard_prints_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    events = az.training.tensorboard.Events(tmp_path)
    events.write_scalars(1, {"loss": 1.0})
    events.write_image(1, "attention", None)
    assert not list(tmp_path.iterdir())
    line = "no log for TensorBoard: tensorboard is not installed; run `pip install 'attention-zoo[t"
    assert capsys.readouterr().out.startswith(line)
