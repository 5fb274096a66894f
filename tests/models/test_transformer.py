# ruff: noqa: RUF012
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attention_zoo.layers import hypothesis_cache
from attention_zoo.models import Transformer
from attention_zoo.models.presets import PRESETS
from tests.layers.running import array, randomise
from tests.models.conformance import SOURCE, TARGET, VOCABULARY, ModelConformance, forward


class TestTransformer(ModelConformance):
    covers = Transformer
    options = {"embedding_dim": 8, "units": 16, "num_heads": 2, "num_layers": 2}
    changed = {
        "source_vocabulary_size": 14,
        "target_vocabulary_size": 14,
        "embedding_dim": 6,
        "units": 12,
        "num_heads": 3,
        "num_layers": 1,
        "layer": {"activation": "swiglu", "norm": "rms", "norm_first": False},
        "tie": "all",
        "dropout": 0.25,
    }
    rate = 0.01

    @staticmethod
    def fill(model: Any) -> None:
        """Kernels as they begin, for larger ones drown what comes by the way around."""
        rng = np.random.default_rng(0)
        for variable in model.trainable_variables:
            noise = rng.normal(size=tuple(variable.shape))
            if len(variable.shape) == 1:
                variable.assign(array(variable) + 0.2 * noise)
            elif "embedding" in variable.path:
                variable.assign(noise)


SIZES = {
    ("transformer_base", 37000): 65e6,
    ("transformer_big", 37000): 213e6,
}


@pytest.mark.parametrize(("name", "vocabulary"), SIZES)
def test_sizes_are_those_of_the_paper(name: str, vocabulary: int) -> None:
    """Table 3; counted layer by layer, since a big one fills a gigabyte."""
    _, settings = PRESETS.get(name)()
    width, units = settings["embedding_dim"], settings["units"]
    one = count(embedding_dim=width, units=units, num_layers=1, num_heads=settings["num_heads"])
    two = count(embedding_dim=width, units=units, num_layers=2, num_heads=settings["num_heads"])
    total = one + (settings["num_layers"] - 1) * (two - one) + (vocabulary - 5) * width
    assert total == pytest.approx(SIZES[name, vocabulary], rel=0.03)


def count(**sizes: int) -> int:
    words = {"source_vocabulary_size": 5, "target_vocabulary_size": 5}
    return int(Transformer(**words, **sizes, tie="all").count_params())


@pytest.mark.parametrize("tie", ["none", "target", "all"])
def test_ties(tie: str) -> None:
    words = {"source_vocabulary_size": 12, "target_vocabulary_size": 12}
    sizes = {"embedding_dim": 8, "units": 16, "num_heads": 2, "num_layers": 1}
    model = Transformer(**words, **sizes, tie=tie)
    tables = [v for v in model.trainable_variables if 12 in v.shape]
    assert len(tables) == {"none": 3, "target": 2, "all": 1}[tie]
    assert (model.source_embedding is model.target_embedding) is (tie == "all")
    before = forward(model, SOURCE, TARGET)
    model.target_embedding.embeddings.assign(model.target_embedding.embeddings + 1.0)
    assert forward(model, SOURCE, TARGET).shape == before.shape


@pytest.mark.parametrize("jit", [False, True])
def test_stretches_of_the_cache_change_nothing(jit: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Transformer(**VOCABULARY, embedding_dim=8, units=16, num_heads=2, num_layers=2)
    randomise(model)
    options = {"beam_width": 3, "n_best": 2, "min_length": 9, "max_length": 11, "jit": jit}
    want = model.compiled_search(SOURCE, **options)
    monkeypatch.setattr(hypothesis_cache.in_stretch, "__defaults__", ((2, 4),))
    model.__dict__.pop("_compiled")
    found = model.compiled_search(SOURCE, **options)
    np.testing.assert_array_equal(array(found.tokens), array(want.tokens))
    np.testing.assert_allclose(array(found.scores), array(want.scores), rtol=1e-5)
    np.testing.assert_allclose(array(found.attention), array(want.attention), atol=1e-5)


BAD = [
    ({"num_heads": 3}, "num_heads must divide embedding_dim, got 3 for 8"),
    ({"layer": {"nrm": "rms"}}, "layer has no 'nrm'; did you mean 'norm'"),
    ({"tie": "both"}, "tie must be one of none, target, all, got 'both'"),
    ({"tie": "all"}, "tie='all' is for one vocabulary, got 11 source and 12 target tokens"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_numbers_that_make_no_model_are_refused(options: dict, message: str) -> None:
    sizes = {"embedding_dim": 8, "units": 16, "num_heads": 2, "num_layers": 1}
    with pytest.raises(ValueError, match=message):
        Transformer(**VOCABULARY, **sizes | options)
