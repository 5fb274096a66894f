from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers import CRF
from attention_zoo.losses import CRFLoss
from attention_zoo.ops import attach_mask, implicit_mask
from tests.layers.conformance import LayerConformance
from tests.layers.running import (
    MODES,
    POLICIES,
    array,
    arrays,
    compiled,
    differentiable,
    randomise,
    same,
)
from tests.ops import chain_oracle as oracle

GOLDEN = Path(__file__).parents[2] / "golden" / "crf.npz"
NAMES = ["O", "B-A", "I-A", "B-B"]
MASKS = {
    "none": np.ones((3, 5), "bool"),
    "right": np.arange(5) < np.array([[5], [2], [0]]),
    "left": np.arange(5) >= np.array([[1], [4], [5]]),
    "holes": np.array([[1, 0, 1, 1, 0], [0, 1, 0, 0, 1], [0, 0, 1, 0, 0]], "bool"),
}


def energies_of(crf: CRF, emissions: np.ndarray, mask: np.ndarray) -> oracle.Energies:
    """Return the potentials of the oracle: -inf for transitions that the scheme forbids."""
    size = emissions.shape[-1]
    zero = np.zeros(size)
    learned = [array(crf.transitions)]
    learned += [zero if x is None else array(x) for x in (crf.starts, crf.ends)]
    if crf.constraints is not None:
        allowed = zip(learned, crf.constraints, strict=True)
        learned = [np.where(which, energy, -np.inf) for energy, which in allowed]
    return oracle.Energies(emissions, *learned, mask)


class TestCRF(LayerConformance):
    covers = CRF
    changed = {
        "num_tags": 5,
        "tag_scheme": "BIO",
        "tags": NAMES[::-1],
        "use_boundaries": False,
        "transitions_initializer": "zeros",
    }

    @pytest.mark.full
    def test_example(self) -> None:
        super().test_example()

    together = {"tags": {"tag_scheme": "BIO"}}
    skip_nan_check_of = ("num_tags",)

    # Potentials are at least float32, so these two tests differ here.
    test_dtype_policy = None
    test_dtype_argument_applies_to_every_weight = None

    def make(self, **options: Any) -> CRF:
        if "tag_scheme" in options:
            options.setdefault("tags", NAMES)
        return super().make(**options)

    def tensors(self, batch: int = 3) -> tuple[np.ndarray, ...]:
        return (np.random.default_rng(0).normal(size=(batch, 5, 4)).astype("float32"),)

    def behaviour(self, layer: CRF) -> list[np.ndarray]:
        """A wrong number of tags raises an error."""
        if layer.num_tags in (None, 4):
            return super().behaviour(layer)
        with pytest.raises(ValueError, match=f"must be .*{layer.num_tags}"):
            super().behaviour(layer)
        return []

    @pytest.mark.parametrize("policy", POLICIES)
    def test_potentials_are_float32_under_any_policy(self, policy: str) -> None:
        """Equal to those of float32 emissions, also in a model of half precision."""
        (emissions,) = self.tensors()
        keras.config.set_dtype_policy(policy)
        crf = CRF(dtype="float32" if policy in ("float16", "bfloat16") else None)
        inputs = keras.Input((5, 4), dtype="float32")
        model = keras.Model(inputs, crf(inputs))
        randomise(crf)
        got = model(emissions)
        assert keras.backend.standardize_dtype(got.dtype) == "float32"
        keras.config.set_dtype_policy("float32")
        repeated = CRF()
        repeated.build((None, 5, 4))
        repeated.set_weights(crf.get_weights())
        same(got, repeated(emissions))
        half = crf(ops.cast(emissions, "float16"))
        assert keras.backend.standardize_dtype(half.dtype) == "float32"

    @pytest.mark.every_backend
    @pytest.mark.parametrize("scheme", [None, "BIO"])
    @pytest.mark.parametrize("where", MASKS)
    def test_equals_brute_force(self, where: str, scheme: str | None) -> None:
        mask, (emissions,) = MASKS[where], self.tensors()
        crf = self.make_random(**({} if scheme is None else {"tag_scheme": scheme}))
        of = energies_of(crf, emissions, mask)
        potentials = crf(emissions, mask=mask)
        tags, score = arrays(crf.decode(potentials))
        several, scores = arrays(crf.decode(potentials, 3))
        marginals = array(crf.marginals(potentials))
        samples = array(crf.sample(potentials, 50, seed=1))
        costs = array(CRFLoss("none")(tags, potentials))
        for row in range(3):
            paths, listed = oracle.list_paths(of, row)
            order = np.argsort(-listed)[:3]
            best = oracle.place_tags(paths[order[0]], mask[row])
            assert tags[row].tolist() == several[row, 0].tolist() == best.tolist()
            assert score[row] == pytest.approx(listed[order[0]], abs=1e-5)
            np.testing.assert_allclose(scores[row, : len(order)], listed[order], atol=1e-5)
            np.testing.assert_allclose(
                marginals[row], oracle.compute_expectations(of, row)[0], atol=1e-5
            )
            cost = oracle.log_sum(listed) - listed[order[0]]
            assert costs[row] == pytest.approx(cost, abs=1e-5)
            possible = {tuple(path) for path in paths[np.isfinite(listed)].tolist()}
            assert {tuple(path) for path in samples[row][:, mask[row]].tolist()} <= possible

    @pytest.mark.full
    @pytest.mark.parametrize("mode", MODES[1:])
    def test_methods_compile(self, mode: str) -> None:
        crf, (emissions,) = self.make_random(tag_scheme="BIO"), self.tensors()

        def run(emissions: Any, mask: Any) -> Any:
            potentials, tags = crf(emissions, mask=mask, return_tags=True)
            return (
                tags,
                *crf.decode(potentials, 3),
                crf.marginals(potentials),
                crf.sample(potentials, 2),
            )

        for got, expected in zip(
            compiled(run, mode)(emissions, MASKS["holes"]),
            run(emissions, MASKS["holes"]),
            strict=True,
        ):
            np.testing.assert_allclose(array(got), array(expected), atol=1e-5)

    # masks

    def test_masks_combine_and_no_mask_is_passed_on(self) -> None:
        crf, (emissions,) = self.make_random(), self.tensors()
        first, second = MASKS["right"], MASKS["holes"]
        expected = crf(emissions, mask=first & second)
        carrying = attach_mask(ops.convert_to_tensor(emissions), ops.convert_to_tensor(first))
        got = crf(carrying, mask=second)
        same(got, expected)
        assert implicit_mask(got) is None
        same(implicit_mask(carrying), first)
        same(crf(carrying), crf(emissions, mask=first))
        same(crf(emissions, mask=first.astype("int32")), crf(emissions, mask=first))
        inputs = keras.Input((5,), dtype="int32")
        embedded = keras.layers.Embedding(9, 4, mask_zero=True)(inputs)
        assert implicit_mask(crf(embedded)) is None
        with pytest.raises(ValueError, match="mask has dtype float32"):
            crf(emissions, mask=first.astype("float32"))
        with pytest.raises(ValueError, match=r"mask has shape.*is expected"):
            crf(emissions, mask=np.ones((3, 6), "bool"))

    @pytest.mark.parametrize("fill", [np.nan, np.inf])
    def test_values_at_masked_positions_do_not_affect_outputs(self, fill: float) -> None:
        crf, (emissions,) = self.make_random(tag_scheme="BIO"), self.tensors()
        mask, labels = MASKS["holes"], np.zeros((3, 5), "int32")
        loss = CRFLoss("none")
        run = differentiable(crf, lambda x: loss(labels, crf(x, mask=mask)))

        def filled(value: float) -> np.ndarray:
            return np.where(mask[..., None], emissions, np.float32(value))

        expected, got = run(filled(0)), run(filled(fill))
        for a, b in zip(keras.tree.flatten(got), keras.tree.flatten(expected), strict=True):
            assert np.isfinite(a).all()
            same(a, b)
        assert not got[1][0][~mask].any()

    # forbidden tags

    def test_forbidden_tags_are_never_decoded_and_get_no_gradient(self) -> None:
        crf = self.make_random(tag_scheme="BIO")
        emissions = np.zeros((2, 4, 4), "float32")
        emissions[..., 2] = 1e4  # I-A is only allowed after B-A
        potentials = crf(emissions)
        tags, scores = arrays(crf.decode(potentials, 4))
        assert tags[:, 0].tolist() == 2 * [[1, 2, 2, 2]]
        assert not array(crf.marginals(potentials))[:, 0, 2].any()
        for row, path in itertools.product(range(2), range(4)):
            if np.isfinite(scores[row, path]):
                assert crf.constraints.find_first_violation(tags[row, path]) is None
        run = differentiable(crf, lambda x: CRFLoss()(np.ones((2, 4), "int32"), crf(x)))
        _, (by_emissions,), by_weights = run(self.tensors(2)[0][:, :4])
        assert not by_emissions[:, 0, 2].any()
        for gradient, allowed in zip(by_weights, crf.constraints, strict=True):
            assert np.isfinite(gradient).all()
            assert not gradient[~allowed].any()

    def test_scheme_constrains_the_ends_without_boundaries(self) -> None:
        crf = self.make_random(tag_scheme="BIO", use_boundaries=False)
        assert len(crf.weights) == 1
        emissions = np.zeros((1, 1, 4), "float32")
        emissions[..., 2] = 9
        assert array(crf.decode(crf(emissions))[0]).tolist() != [[2]]

    # TensorFlow Addons

    @pytest.mark.parametrize("case", ["crf", "crf_length0", "crf_single_step"])
    def test_golden_functions(self, case: str) -> None:
        data = golden(case)
        steps = data["unary"].shape[1]
        mask, some = np.arange(steps) < data["lengths"][:, None], data["lengths"] > 0
        chain = zoo_ops.make_chain(data["unary"], data["transitions"], mask=mask)
        likelihood = -array(CRFLoss("none", dtype="float32")(data["tags"], zoo_ops.pack(chain)))
        assert_close_to_golden(likelihood, data["log_likelihood"])
        assert_close_to_golden(zoo_ops.path_score(chain, data["tags"]), data["sequence_score"])
        assert_close_to_golden(zoo_ops.log_partition(chain), data["log_norm"])
        allowed = zoo_ops.partial_score(chain, data["tag_bitmap"])
        assert_close_to_golden(array(allowed)[some], data["multitag_sequence_score"][some])
        narrow = np.where(data["tag_bitmap"], data["unary"], -np.inf)
        cut = zoo_ops.make_chain(narrow, data["transitions"], mask=mask)
        for name, of in (("decode", chain), ("constrained", cut)):
            tags, score = arrays(zoo_ops.best_path(of))
            same(tags[some], data[f"{name}_tags"][some])
            assert_close_to_golden(score[some], data[f"{name}_score"][some])
            assert not tags[~some].any()
            assert not score[~some].any()

    @pytest.mark.parametrize("case", ["boundary", "kernel_boundary", "boundary_nomask", "kernel"])
    def test_golden_layer(self, case: str) -> None:
        data = golden(f"crf_layer_{case}")
        emissions = data["inputs"]
        if "kernel" in data:
            emissions = emissions @ data["kernel"] + data["bias"]
        crf = CRF(4, use_boundaries="left_boundary" in data)
        crf.build((None, None, 4))
        names = ("chain_kernel", "left_boundary", "right_boundary")
        crf.set_weights([data[name] for name in names if name in data])
        potentials = crf(emissions, mask=data.get("mask"))
        tags, score = crf.decode(potentials)
        counts = data.get("mask", np.ones(emissions.shape[:2], "bool"))
        same(np.where(counts, array(tags), 0), np.where(counts, data["decode_tags"], 0))
        assert_close_to_golden(score, data["decode_score"])
        assert_close_to_golden(zoo_ops.log_partition(zoo_ops.unpack(potentials)), data["log_norm"])
        assert_close_to_golden(
            -array(CRFLoss("none")(data["tags"], potentials)), data["log_likelihood"]
        )

    # misuse

    def test_invalid_arguments_are_rejected(self) -> None:
        with pytest.raises(ValueError, match=r"inputs must be \(batch, positions, 3\), got shape"):
            CRF(3)(np.zeros((2, 5, 4), "float32"))
        crf = self.make_random()
        with pytest.raises(ValueError, match=r"inputs must be \(batch, positions, 4\), got shape"):
            crf(np.zeros((2, 4), "float32"))
        with pytest.raises(ValueError, match=r"potentials must be \(batch, .*, 5\), got shape"):
            crf.decode(np.zeros((2, 9, 4), "float32"))
        with pytest.raises(ValueError, match="count must be at least 1"):
            crf.decode(crf(*self.tensors()), 0)


def golden(case: str) -> dict[str, np.ndarray]:
    with np.load(GOLDEN) as data:
        return {k.split("/", 1)[1]: data[k] for k in data.files if k.startswith(f"{case}/")}


def assert_close_to_golden(got: Any, want: np.ndarray) -> None:
    """Compare with the tolerance of the golden vectors."""
    np.testing.assert_allclose(np.asarray(got, "float64"), want, rtol=1e-5, atol=1e-5)


def make_tagger(**options: Any) -> tuple[keras.Model, CRF]:
    """Return a model from words to potentials, tags and sentence lengths."""
    words = keras.Input((None,), dtype="int32", name="words")
    embedded = keras.layers.Embedding(12, 8, mask_zero=True)(words)
    crf = CRF(**options)
    potentials, tags = crf(keras.layers.Dense(4)(embedded), return_tags=True)
    count = keras.layers.Dense(1)(keras.layers.GlobalAveragePooling1D()(embedded))
    return keras.Model(words, {"potentials": potentials, "tags": tags, "count": count}), crf


def make_sentences(count: int = 256) -> tuple[np.ndarray, np.ndarray]:
    """Return words, padded with 0, and tags: B-A or O depending on the word, I-A after 1."""
    rng = np.random.default_rng(0)
    words = rng.integers(1, 12, (count, 7))
    words[np.arange(7) >= rng.integers(1, 8, (count, 1))] = 0
    starts = np.isin(words, (1, 2))
    tags = np.where(starts, 1, 0)
    for t in range(1, 7):
        goes_on = (tags[:, t - 1] > 0) & (words[:, t] > 8)
        tags[:, t] = np.where(goes_on & ~starts[:, t], 2, tags[:, t])
    return words.astype("int32"), np.where(words > 0, tags, 0).astype("int32")


@pytest.mark.full
def test_trains_with_fit_next_to_another_weighted_output(tmp_path: Path) -> None:
    """Learns; a sentence of weight 0 is ignored; the reloaded model predicts the same."""
    model, crf = make_tagger(tag_scheme="BIO", tags=NAMES)
    words, tags = make_sentences()
    count = (words > 0).sum(1, keepdims=True).astype("float32")
    wrong = tags.copy()
    wrong[::2] = 1
    targets = {"potentials": wrong, "count": count}
    weights = {"potentials": (np.arange(256) % 2).astype("float32"), "count": np.ones(256)}
    losses = {"potentials": CRFLoss(), "count": "mse"}
    model.compile(keras.optimizers.Adam(0.05), losses, {"potentials": 1.0, "count": 0.1})
    history = model.fit(
        words, targets, 32, 12, shuffle=False, verbose=0, sample_weight=weights
    ).history
    assert history["potentials_loss"][-1] < 0.2 * history["potentials_loss"][0]
    outputs = model.predict(words, verbose=0)
    valid = words > 0
    assert (outputs["tags"] == tags)[valid].mean() > 0.97
    same(outputs["tags"], crf.decode(outputs["potentials"])[0])
    model.compile("sgd", losses, {"potentials": 1.0, "count": 0.0})
    right = {"potentials": tags, "count": count}
    each = array(CRFLoss("none")(tags, outputs["potentials"]))
    measured = model.evaluate(words, right, 64, verbose=0, return_dict=True)
    assert measured["potentials_loss"] == pytest.approx(each.mean(), rel=1e-4)
    model.save(tmp_path / "model.keras")
    repeated = keras.models.load_model(tmp_path / "model.keras")
    for name, expected in outputs.items():
        same(repeated.predict(words, verbose=0)[name], expected)
    assert repeated.evaluate(words, right, 64, verbose=0, return_dict=True) == measured
