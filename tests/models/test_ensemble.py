"""An ensemble equals the mean of its members' probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import attention_zoo as az
from tests.layers.running import array, close
from tests.models.generation_conformance import SOURCE, TARGET, VOCABULARY, randomise
from tests.models.keras_methods import KerasMethodsConformance

SIZES = {**VOCABULARY, "units": 6, "embedding_dim": 5}


def members() -> list[Any]:
    names = ("rnnsearch_small", "luong_small", "seq2seq_initial_small")
    models = [az.models.from_preset(name, **SIZES) for name in names]
    for model in models:
        randomise(model)
    return models


def probabilities(model: Any) -> np.ndarray:
    return array(keras.ops.softmax(model({"source": SOURCE, "target": TARGET}), axis=-1))


class TestEnsemble(KerasMethodsConformance):
    covers = az.models.Ensemble

    def make(self) -> az.models.Ensemble:
        return az.models.Ensemble(members())

    def inputs(self) -> dict[str, np.ndarray]:
        return {"source": SOURCE, "target": TARGET}

    def training_examples(self, model: Any) -> tuple[Any, Any, Any]:
        labels = np.concatenate([TARGET[:, 1:], np.zeros((3, 1), "int32")], 1)
        return self.inputs(), labels, az.losses.SequenceCrossEntropy()

    def test_probabilities_are_the_mean(self) -> None:
        models = members()
        expected = np.mean([probabilities(model) for model in models], axis=0)
        close(probabilities(az.models.Ensemble(models)), expected, 1e-6)

    @pytest.mark.full
    def test_search_scores_by_the_mean(self) -> None:
        models = members()
        both = az.models.Ensemble(models)
        result = both.compiled_search(SOURCE, beam_width=3, n_best=2, max_length=6)
        for rank in range(2):
            tokens = result.tokens[:, rank]
            start = np.full((len(tokens), 1), 2, "int32")
            target = np.where(tokens == 0, 1, tokens)[:, :-1].astype("int32")
            inputs = {"source": SOURCE, "target": np.concatenate([start, target], 1)}
            parts = [array(keras.ops.softmax(model(inputs), axis=-1)) for model in models]
            for part in parts:  # a search never selects padding or the start token
                part[..., [0, 2]] = 0
            parts = [part / part.sum(-1, keepdims=True) for part in parts]
            log_probs = np.log(np.mean(parts, axis=0) + 1e-30)
            for row in range(len(tokens)):
                n = int(result.lengths[row, rank])
                expected = log_probs[row, range(n), tokens[row, :n]]
                close(result.token_scores[row, rank, :n], expected, 1e-4)

    @pytest.mark.full
    def test_files(self, tmp_path: Path) -> None:
        both = self.make()
        both.save_to_preset(tmp_path / "folder")
        both.save(tmp_path / "both.keras")
        for repeated in (
            az.models.from_preset(tmp_path / "folder"),
            keras.saving.load_model(tmp_path / "both.keras"),
        ):
            assert type(repeated) is az.models.Ensemble
            close(probabilities(repeated), probabilities(both), 1e-7)

    def test_invalid_members_are_rejected(self) -> None:
        with pytest.raises(ValueError, match="members is empty"):
            az.models.Ensemble([])
        small, large = (
            az.models.from_preset("luong_small", **{**SIZES, "target_vocabulary_size": size})
            for size in (9, 10)
        )
        with pytest.raises(ValueError, match=r"differ in target_vocabulary_size: \[9, 10\]"):
            az.models.Ensemble([small, large])
