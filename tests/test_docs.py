"""The code of the documentation pages runs unchanged."""

from __future__ import annotations

import inspect
import json
import re
import runpy
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest

import attention_zoo as az
from attention_zoo.cli import main
from attention_zoo.user_modules import import_user_modules
from tests import pages
from tests.cli.test_main import attention_zoo
from tests.hub import use_cache, write_repository
from tests.layers.running import array
from tests.models.public.checkpoints import GOLDEN
from tests.test_migration import load_case

DOCS = Path(__file__).parents[1] / "docs"
README = DOCS.parent / "README.md"
TFA = DOCS / "migrating-from-tfa.md"
TFA_NAMES = """
AttentionMechanism AttentionWrapper AttentionWrapperState BahdanauAttention
BahdanauMonotonicAttention BaseDecoder BasicDecoder BasicDecoderOutput BeamSearchDecoder
BeamSearchDecoderOutput BeamSearchDecoderState CustomSampler Decoder
FinalBeamSearchDecoderOutput GreedyEmbeddingSampler InferenceSampler LuongAttention
LuongMonotonicAttention SampleEmbeddingSampler Sampler ScheduledEmbeddingTrainingSampler
ScheduledOutputTrainingSampler SequenceLoss TrainingSampler dynamic_decode gather_tree
gather_tree_from_array hardmax monotonic_attention safe_cumprod sequence_loss tile_batch
"""
"""What `dir(tfa.seq2seq)` listed in 0.23, without its modules."""


@pytest.fixture
def run_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Function that runs the code blocks of a page in an empty folder and returns its names."""
    monkeypatch.chdir(tmp_path)
    return lambda name, **names: pages.run_page(DOCS / name, tmp_path, **names)


@pytest.fixture(scope="module")
def your_own(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Globals of the page's code, and the folder in which it ran."""
    folder = tmp_path_factory.mktemp("your_own")
    return pages.run_page(DOCS / "write-your-own.md", folder, folder=folder)


def test_every_code_block_is_run() -> None:
    """A page with code is run by a test; at most five blocks are not run, and say why."""
    tests = "".join(path.read_text("utf-8") for path in Path(__file__).parent.rglob("test_*.py"))
    blocks = {
        page.name: found
        for page in [*DOCS.glob("*.md"), README]
        if (found := pages.read_blocks(page))
    }
    assert [name for name in blocks if f'"{name}"' not in tests] == []
    found = [block for page in blocks.values() for block in page]
    assert {block.language for block in found} <= set(pages.RUNNERS)
    assert len([block for block in found if block.reason is not None]) <= 5


def test_code_blocks_are_read(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nx = 1\nprint(x, 1.5)\n```\n\n```text\n2 7.25\n...\n```\n"
        "<!-- no-run: needs a GPU -->\n```sh\nfalse\n```\n```{toctree}\npage\n```\n"
    )
    first, second, third = pages.read_blocks(page)
    assert (first.line, first.language, first.reason) == (2, "python", None)
    assert (second.language, third.language, third.reason) == ("text", "sh", "needs a GPU")
    assert pages.run_page(page, tmp_path)["x"] == 1
    page.write_text("```python\nprint('one')\n```\n```text\ntwo\n```\n")
    (tmp_path / "again").mkdir()
    with pytest.raises(AssertionError, match=r"page.md:5: not printed: two"):
        pages.run_page(page, tmp_path / "again")


def test_write_your_own_saves_and_loads(your_own: dict[str, Any]) -> None:
    model = your_own["model"]
    words = np.array([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8]], "int32")
    again = keras.models.load_model(your_own["folder"] / "mine.keras")
    np.testing.assert_array_equal(array(again(words)), array(model(words)))
    np.testing.assert_allclose(array(model(words[:1, :3])), array(model(words))[:1, :3], atol=1e-6)
    parts = ("DistanceScore", "SquaredAlignment", "ResidualAttention")
    used = str(model.get_config())
    assert all(f"my_project>{part}" in used for part in parts)


def test_write_your_own_works_in_other_layers(your_own: dict[str, Any]) -> None:
    names = your_own
    layer = names["ResidualAttention"](score="dot")
    query, value = np.ones((2, 3, 8), "float32"), np.ones((2, 5, 8), "float32")
    layer(query, value)
    layer.gate.assign(2.0)
    mask = np.array([[True] * 5, [False] * 5])
    output = array(layer(query, value, value_mask=mask))
    assert output[0].tolist() == (3 * np.ones((3, 8))).tolist()
    assert not output[1].any()
    half = names["DistanceScore"](dtype="float16")(300 * query, -300 * value)
    assert (array(half) == -8 * 600.0**2).all()
    heads = az.layers.MultiHeadAttention(4, 8, score=names["DistanceScore"]())
    assert tuple(heads(query, value).shape) == (2, 3, 8)
    attention = az.layers.Attention(score=names["DistanceScore"]())
    cell = az.layers.AttentionCell(keras.layers.GRUCell(16), attention)
    memory = np.ones((2, 5, 16), "float32")
    assert tuple(az.layers.RecurrentDecoder(cell)(query, memory).shape) == (2, 3, 16)


def test_each_part_of_your_own_is_ten_lines() -> None:
    blocks = pages.read_blocks(DOCS / "write-your-own.md")
    run = [block.text for block in blocks if block.reason is None]
    classes = [text for code in run for text in re.findall(r"^class .*", code, re.S | re.M)]
    assert len(classes) == 3
    for text in classes:
        code = re.sub(r'^ +""".*?"""\n', "", text, flags=re.S | re.M)
        assert len([line for line in code.splitlines() if line.strip()]) <= 10


def test_migrating(run_page: Any) -> None:
    case = load_case("wrapper_lstm_bahdanau")
    cell = ["cell_kernel", "cell_recurrent_kernel", "cell_bias"]
    mechanism = ["attention_v", "attention_g", "attention_b", "query_kernel", "memory_kernel"]
    listed = [case[name] for name in ["attention_layer_kernel", *cell, *mechanism]]
    np.savez("wrapper.npz", **{f"{number:03d}": array for number, array in enumerate(listed)})
    names = run_page("migrating-from-tfa.md")
    mask = np.arange(case["memory"].shape[1]) < case["lengths"][:, None]
    states = [case["initial_h"], case["initial_c"]]
    outputs, _ = names["decoder"](
        case["inputs"], case["memory"], initial_state=states, memory_mask=mask
    )
    np.testing.assert_allclose(array(outputs), case["outputs_attention"], atol=1e-5, rtol=1e-5)


def test_every_own_name_on_the_page_exists() -> None:
    text = TFA.read_text("utf-8")
    for module, name in re.findall(r"`(?:az\.)?(layers|decoding|losses)\.(\w+)", text):
        assert hasattr(getattr(az, module), name), f"{module}.{name}"


def test_every_tfa_name_is_on_the_page() -> None:
    table = TFA.read_text("utf-8").split("## Names")[1].split("## Convert weights")[0]
    left = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    words = {word for cell in left for word in re.findall(r"\w+", cell)}
    assert [name for name in TFA_NAMES.split() if name not in words] == []


def gallery() -> Any:
    """Return the module that generates the gallery."""
    return SimpleNamespace(**runpy.run_path(str(DOCS / "make_gallery.py")))


def structures() -> set[type]:
    """Layers that show weights of their own: no pair of a score and an alignment under a name, no
    Transformer's layer, which shows those of the attention inside."""
    public = [getattr(az.layers, name) for name in az.layers.__all__]
    showing = {
        cls
        for cls in public
        if isinstance(cls, type)
        and issubclass(cls, keras.layers.Layer)
        and "return_attention_scores" in inspect.signature(cls.call).parameters
    }
    others = (az.layers.Attention, az.layers.TransformerEncoderLayer)
    return {cls for cls in showing if not issubclass(cls, others)}


def test_gallery_is_up_to_date() -> None:
    """A new score, alignment or position need not be on the page until the full tier runs."""
    make = gallery()
    assert make.find_problems() == []
    pictures = {path.stem: path for path in (DOCS / "gallery").iterdir()}
    assert set(pictures) <= {name for entries in make.sections().values() for name in entries}
    assert all(path.stat().st_size > 1000 for path in pictures.values())
    assert structures() <= {entry.cls for entry in make.sections()["Structures"].values()}


@pytest.mark.full
def test_gallery_is_complete() -> None:
    assert gallery().find_problems(every=True) == []


def test_problems_of_the_gallery_name_the_command(tmp_path: Path) -> None:
    make = gallery()
    (tmp_path / "gallery").mkdir()
    names = [name for entries in make.sections().values() for name in entries]
    for name in names:
        (tmp_path / "gallery" / f"{name}.png").touch()
    page = tmp_path / "gallery.md"
    page.write_text(make.page(), "utf-8")
    assert make.find_problems(tmp_path, every=True) == []
    picture = tmp_path / "gallery" / "dot.png"
    picture.unlink()
    assert make.find_problems(tmp_path) == ["docs/gallery/dot.png is missing: run `make docs`"]
    page.write_text(make.page([name for name in names if name != "dot"]), "utf-8")
    assert make.find_problems(tmp_path) == []
    stale = "docs/gallery.md is out of date: run `make docs`"
    assert make.find_problems(tmp_path, every=True)[1:] == [stale]
    picture.touch()
    page.write_text(make.page().replace("Dot product", "Product"), "utf-8")
    assert make.find_problems(tmp_path) == [stale]


def test_gallery_pictures_come_from_layers() -> None:
    weights, rows, columns = gallery().sections()["Structures"]["SelfAttention"].draw()
    weights = array(weights)
    assert weights.shape == (len(rows), len(columns)) == (6, 6)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
    np.testing.assert_allclose(weights[0], weights[4], atol=1e-6)  # "the" is "the"


@pytest.mark.slow
def test_getting_started(run_page: Any) -> None:
    names = run_page("getting-started.md")
    assert names["result"].text == "ils arrivent le lundi 3 mars 2031."
    assert Path("attention.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_translation(run_page: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import tensorflow as tf

    name, content = "Helsinki-NLP/opus-mt-de-en", "marian_translator"
    write_hub(monkeypatch, tmp_path, name, content, "refs/pr/4")
    names = run_page("translation.md")
    assert names["opus"].search.beam_width == 4
    served = tf.saved_model.load("served-opus").signatures["serving_default"]
    texts = served(text=tf.constant(["Am Montag kommen wir zurück."]))["text"].numpy()
    assert texts[0, 0].decode() == names["result"].text
    assert len(names["first"].alternatives) == 0
    assert names["second"].attention.shape[0] == len(names["second"].tokens)
    assert Path("attention.png").read_bytes().startswith(b"\x89PNG")
    assert Path("served/saved_model.pb").is_file()
    assert json.loads(Path("runs/mine/results.json").read_text())


@pytest.mark.slow
def test_large_corpora(run_page: Any) -> None:
    run_page("large-corpora.md")
    assert [path.name for path in Path("prepared").iterdir() if not path.name.startswith(".")] == []
    runs = [json.loads(Path(run, "data.json").read_text()) for run in ("first", "second")]
    assert runs[0] == runs[1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # tf2onnx
def test_search_and_export(run_page: Any) -> None:
    names = run_page("search-and-export.md")
    assert len(names["constrained"].tokens) == 3
    assert len(names["result"].alternatives) == 2
    assert names["outputs"]["text"].shape == (2, 1)
    assert names["outputs"]["ok"].numpy().tolist() == [True, False]
    (expected,) = names["task"].predict(["at 5:04 PM."], beam_width=5)
    assert names["outputs"]["text"][0, 0].numpy().decode() == expected.text
    assert names["half"].model.dtype_policy.name == "mixed_bfloat16"
    assert names["prefixed"]["text"][0, 0].numpy().startswith(b"il")
    assert np.isfinite(names["scored"]["scores"].numpy()).all()
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(names["onnx_model"].SerializeToString())
    words = np.array([[2, 5, 0]], "int32")
    (logits,) = session.run(None, {"source": words, "target": words})
    assert logits.shape == (1, 3, 50)


def write_hub(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
    content: str,
    revision: str = "main",
) -> None:
    """Write a golden checkpoint under a name of the hub, and read no other hub."""
    use_cache(monkeypatch, tmp_path / "hub")
    write_repository(tmp_path / "hub", name, GOLDEN / content, revision)


@pytest.mark.slow
def test_training(run_page: Any) -> None:
    names = run_page("training.md")
    assert (names["first"].step, names["resumed"].step, names["tuned"].step) == (4, 8, 4)
    one, other = (names[name].task.model.encoder.weights for name in ("resumed", "tuned"))
    for before, after in zip(one, other, strict=True):
        np.testing.assert_array_equal(array(after), array(before))


@pytest.mark.slow
def test_language_models(run_page: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_hub(monkeypatch, tmp_path, "google-bert/bert-base-uncased", "bert")
    names = run_page("language-models.md")
    (filled,) = names["task"].predict(["[MASK] of france"])
    assert filled.predictions[0]
    assert isinstance(names["bert"], az.models.BERT)


@pytest.mark.slow
def test_tagging(run_page: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_hub(monkeypatch, tmp_path, "dslim/bert-base-NER", "distilbert_tagger")
    names = run_page("tagging.md")
    assert (names["people"].scheme, names["people"].tags[1]) == ("BIO", "B-A")
    result, split = names["result"], names["split"]
    assert result.words == split.words
    assert len(split.alternatives) == 2
    assert not any(tags[0].startswith("I-") for tags in (result.tags, split.tags))
    assert "York" in Path("page.html").read_text("utf-8")


@pytest.mark.slow
def test_classification(run_page: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = "distilbert/distilbert-base-uncased-finetuned-sst-2-english"
    write_hub(monkeypatch, tmp_path, name, "distilbert")
    names = run_page("classification.md")
    result, listed = names["result"], names["listed"]
    assert len(result.tokens) == len(result.attention) == len(result.offsets) == 5
    assert len(listed.sentences) == len(listed.sentence_attention) == 2
    assert len(listed.alternatives) == 1
    assert names["sentiment"].classes == ("bad", "neither", "good")
    assert Path("served-sentiment", "saved_model.pb").is_file()
    assert "soup" in Path("page.html").read_text("utf-8")
    assert Path("confusion.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_matching(run_page: Any) -> None:
    result = run_page("matching.md")["result"]
    assert result.attention.shape == (3, 3)
    assert Path("alignment.png").read_bytes().startswith(b"\x89PNG")
    assert "lamp" in Path("page.html").read_text("utf-8")


@pytest.mark.slow
def test_summarization(run_page: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import tensorflow as tf

    write_hub(monkeypatch, tmp_path, "facebook/bart-large-cnn", "bart")
    names = run_page("summarization.md")
    assert names["bart"].search.beam_width == 4
    served = tf.saved_model.load("served-bart").signatures["serving_default"]
    texts = served(text=tf.constant(names["reports"].sources[:1]))["text"].numpy()
    assert texts[0, 0].decode() == names["summary"].text
    result, report = names["result"], names["reports"].sources[0]
    assert list(result.source_tokens) == report.split()
    assert 3 <= len(result.tokens) == len(result.copied) == len(result.origins)
    assert " words copied" in Path("page.html").read_text("utf-8")
    assert Path("attention.png").read_bytes().startswith(b"\x89PNG")
    log_probs = names["model"]([np.array([[2, 50]]), np.array([[4, 50, 0]])])
    np.testing.assert_allclose(np.exp(array(log_probs)).sum(-1), 1, atol=1e-5)
    assert (array(log_probs)[..., 51:] < -60).all(), "no source has these"
    assert (array(log_probs)[..., 50] > -20).all()


@pytest.mark.slow
def test_captioning(run_page: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import tensorflow as tf

    write_hub(monkeypatch, tmp_path, "nlpconnect/vit-gpt2-image-captioning", "vit_gpt2")
    names = run_page("captioning.md")
    public = tf.saved_model.load("served-public").signatures["serving_default"]
    texts = public(image=tf.constant([Path(names["image"]).read_bytes()]))["text"].numpy()
    assert texts[0, 0].decode() == names["caption"].text
    result, served = names["result"], names["outputs"]
    assert result.image.shape == (32, 32, 3)
    assert len(result.tokens) >= 2
    assert result.attention.shape == (len(result.tokens), 8, 8)
    assert Path("attention.png").read_bytes().startswith(b"\x89PNG")
    assert Path("page.html").read_text("utf-8").count("<article") == 1
    (expected,) = names["task"].predict([names["image"]])
    assert served["text"][0, 0].numpy().decode() == expected.text
    assert served["attention"].shape == (1, 1, served["tokens"].shape[2], 8, 8)


@pytest.mark.slow
def test_keras_layers(run_page: Any) -> None:
    run_page("keras-layers.md")


@pytest.mark.full
def test_inspection(run_page: Callable[..., dict[str, Any]]) -> None:
    names = run_page("inspection.md")
    assert names["entry"].weights.shape == (2, 2, 4, 4)
    assert names["entry"].mask[1, 0].tolist() == [[1, 1, 0, 0]] * 2 + [[0] * 4] * 2
    assert not names["entry"].weights[1, :, :2, 2:].any()
    assert names["outputs"]["attention_1"].shape == (2, 2, 4, 4)
    assert names["layers"][1].mask is None
    np.testing.assert_allclose(names["rollout"].sum(-1), [[1] * 4, [1, 1, 0, 0]])
    assert names["entropy"].shape == (2, 2)
    assert (names["importance"]["attention_0"] > 0).all()
    assert names["alignment"].recall > 0.5
    assert any(names["callback"].log_dir.iterdir())
    assert names["attribution"].completeness_error.max() <= 0.01
    assert set(names["curves"]) == {"integrated gradients", "rollout", "random"}
    assert len(names["steps"]) == len(names["result"].tokens) + 1


@pytest.mark.slow
def test_keras(run_page: Any) -> None:
    """Every family trains with `compile` and `fit`, and the exports need no call before."""
    import tensorflow as tf

    names = run_page("keras.md")
    assert tuple(names["translations"].tokens.shape[:2]) == (2, 1)
    assert names["summaries"].tokens.max() <= 24
    assert names["best"].shape == (2, 6)
    assert tuple(names["similarities"].shape) == (4, 4)
    assert tuple(names["weights"]["tokens"].shape) == (2, 6)
    assert tuple(names["alignment"].shape) == (2, 6, 6)
    assert tuple(names["result"].tokens.shape[:2]) == (2, 2)
    words, target = names["words"].astype("int32"), names["target"].astype("int32")
    inputs = {"source": words, "target": target}
    served, encoder = (tf.saved_model.load(name) for name in ("translator", "encoder"))
    expected = array(names["translator"](inputs))
    np.testing.assert_allclose(served.serve(inputs), expected, atol=1e-5)
    assert sorted(encoder.serve(words)) == ["memory", "states_0", "states_1"]


@pytest.mark.slow
def test_glimpses(run_page: Any) -> None:
    names = run_page("glimpses.md")
    result, other = names["result"], names["other"]
    assert result.locations.shape == (6, 2)
    assert len(other.tokens) == 6
    assert Path("path.png").read_bytes().startswith(b"\x89PNG")
    assert names["votes"].shape == (2, 10)
    for number in (1, 2):
        assert Path(f"path-{number}.gif").read_bytes().startswith(b"GIF")


@pytest.mark.slow
def test_retrieval(run_page: Any) -> None:
    names = run_page("retrieval.md")
    result = names["result"]
    assert result.source == names["texts"][0]
    assert len(result.alternatives) == 2
    assert result.attention.shape == (len(result.tokens), 8, 8)
    assert result.score == pytest.approx(names["similarities"][result.number, 0], abs=1e-5)
    assert Path("matches.png").read_bytes().startswith(b"\x89PNG")


OWN = "model-of-your-own.md"
SMALL = {
    "train": "data.size=300 data.validation_size=40 data.max_phrases=1 model.units=16"
    " training.steps=10 training.evaluate_every=10",
    "evaluate": "data.test_size=20",
}
"""Overrides of the page's commands, so that they take seconds."""


def write_own_model(folder: Path) -> list[str]:
    """Write module and recipe of the page; return its Python blocks."""
    text = (DOCS / OWN).read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (recipe,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (folder / "my_module.py").write_text(blocks[0], "utf-8")
    (folder / "my_recipe.yaml").write_text(recipe, "utf-8")
    return blocks


def test_model_of_your_own_decodes_and_loads(user_folder: Path) -> None:
    (code, _) = write_own_model(user_folder)
    lines = [line for line in code.splitlines() if line.strip() and '"""' not in line]
    assert len(lines) <= 42
    import_user_modules(["my_module"])
    model = az.models.from_preset(
        "coverage_translator", source_vocabulary_size=9, target_vocabulary_size=8, units=4
    )
    source, target = np.array([[4, 5, 6, 0]], "int32"), np.array([[2, 5, 6]], "int32")
    logits = array(model({"source": source, "target": target}))
    assert logits.shape == (1, 3, 8)
    model.save_to_preset("saved")
    again = az.models.from_preset("saved")
    assert type(again).__name__ == "CoverageTranslator"
    np.testing.assert_array_equal(array(again({"source": source, "target": target})), logits)
    padded = np.pad(source, ((0, 0), (0, 3)))
    np.testing.assert_allclose(
        array(model({"source": padded, "target": target})), logits, atol=1e-6
    )
    assert array(model.search(source, max_length=3).attention).shape == (1, 1, 3, 4)


@pytest.mark.slow
def test_model_of_your_own(user_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = write_own_model(user_folder)
    texts = Path("texts.txt")
    texts.write_text("at 5:04 PM.\n", "utf-8")
    outputs = {}
    blocks_of_commands = [b.text for b in pages.read_blocks(DOCS / OWN) if b.language == "sh"]
    for line in "".join(blocks_of_commands).splitlines():
        _, command, *words = shlex.split(line)
        assert main([command, *words, *SMALL.get(command, "").split()]) == 0
        outputs[command] = capsys.readouterr().out
        if command == "predict":
            again = attention_zoo("predict", *words)  # a process that has not trained it
            assert (again.returncode, again.stdout) == (0, outputs[command])
    assert "attention-zoo evaluate runs/coverage --import my_module" in outputs["train"]
    assert "exact_match" in outputs["evaluate"]
    assert Path("attention.png").read_bytes().startswith(b"\x89PNG")
    assert Path("served/saved_model.pb").is_file()
    names: dict[str, Any] = {}
    exec(blocks[1], names)
    assert names["result"].attention.shape[1] == len(names["result"].source_tokens)
    resumed = ["my_recipe.yaml", "run=runs/coverage", "--allow", "training.steps"]
    assert main(["train", *resumed, *SMALL["train"].split(), "training.steps=12"]) == 0
    assert "step 12/12" in capsys.readouterr().out
    del sys.modules["my_module"], az.models.MODELS._factories["CoverageTranslator"]
    assert main(["evaluate", "runs/coverage"]) == 2
    message = capsys.readouterr().err.removeprefix("attention-zoo: error: ")
    assert message in (DOCS / OWN).read_text("utf-8")


def test_scaling_names_existing_options_and_files() -> None:
    from attention_zoo.training import read_recipe

    text = (DOCS / "scaling.md").read_text("utf-8")
    recipe = DOCS.parent / "training" / "translation" / "rnnsearch_small.dates_en_fr.yaml"
    options = re.findall(r"`(training\.\w+=[\w.]+)`", text)
    assert len(options) >= 5
    for option in options:
        read_recipe(recipe, [option])
    for name in re.findall(r"`training\.(\w+)`", text):
        assert hasattr(read_recipe(recipe).training, name), name
    for file in re.findall(r"`(training/\S+)`", text):
        assert (DOCS.parent / file).is_file()
    (config,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    assert set(json.loads(config)) == {"cluster", "task"}


def test_names_in_the_glossary_exist() -> None:
    text = (DOCS / "glossary.md").read_text("utf-8")
    names = re.findall(r"`(layers|ops|decoding|models|training)\.([A-Za-z_]\w*)", text)
    options = vars(az.training.recipe.TrainingOptions())
    missing = [f"{m}.{n}" for m, n in names if not hasattr(getattr(az, m), n) and n not in options]
    assert missing == []
    methods = re.findall(r"`(Attention|Score|TransformerDecoderLayer)\.(\w+)", text)
    assert len(methods) >= 5
    assert all(hasattr(getattr(az.layers, cls), name) for cls, name in methods)
