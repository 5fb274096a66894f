"""Corpora of labelled texts and pairs: options, splits, cache and messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from attention_zoo import data_cache
from attention_zoo.data import split_sentences
from attention_zoo.data.storage.columns import BATCH, ArrowColumn
from attention_zoo.tasks import Corpus
from attention_zoo.tasks.classification.corpora import LABELLED_TEXTS, LabelledTextCorpus
from attention_zoo.tasks.matching.corpora import LABELLED_PAIRS, LabelledPairCorpus
from attention_zoo.training.changes import SplitReader
from tests.data.text.test_tfds import make_mock_dataset
from tests.refusals import refuses

KINDS = [
    *(("texts", kind) for kind in ("csv", "tsv", "jsonl", "folder", "tfds")),
    *(("pairs", kind) for kind in ("csv", "tsv", "jsonl", "tfds")),
]


def make_corpus(examples: str, kind: str, **options: Any) -> Corpus:
    if examples == "texts":
        texts: Corpus = LABELLED_TEXTS.get(kind)(**options)
        return texts
    pairs: Corpus = LABELLED_PAIRS.get(kind)(**{"first": "a", "second": "b"} | options)
    return pairs


@pytest.mark.parametrize(("examples", "kind"), KINDS)
def test_every_kind_has_the_common_options(examples: str, kind: str) -> None:
    corpus = make_corpus(examples, kind)
    assert corpus.corpus == kind
    base = LabelledTextCorpus if examples == "texts" else LabelledPairCorpus
    assert isinstance(corpus, base)
    assert vars(corpus)["truncate"] is (examples == "texts")
    assert not corpus.generated
    for name in corpus.limits:
        with pytest.raises(ValueError, match=f"data.{name} must be at least 1, got 0"):
            make_corpus(examples, kind, **{name: 0})
    with pytest.raises(ValueError, match="unknown split; did you mean 'train'"):
        corpus.read("trian")


ROWS = {
    "csv": 'n;t;c\n1;"a; ""b""\nc";x\nbad\n2;d;y\n',
    "tsv": 'n\tt\tc\n1\t"a\tx\nbad\n2\td\ty\n',
    "jsonl": '{"t": ["a", "b"], "c": "x"}\n[]\n{"t": "d", "c": "y"}\n',
}
FIRST = {"csv": 'a; "b"\nc', "tsv": '"a', "jsonl": "a\nb"}


@pytest.mark.parametrize("kind", ROWS)
def test_texts(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(ROWS[kind])
    options = {"train": str(path), "text": "t", "label": "c"}
    options |= {"delimiter": ";"} if kind == "csv" else {}
    texts = make_corpus("texts", kind, **options, skip_bad=1).read("train")
    assert [*texts] == [(FIRST[kind], ("x",)), ("d", ("y",))]
    assert texts.skipped == 1
    bad = {"csv": 4, "tsv": 3, "jsonl": 2}[kind]
    with pytest.raises(ValueError, match=rf"^data\.train: .*a\.txt:{bad}: .*skip_bad=1 or more"):
        make_corpus("texts", kind, **options).read("train")


def test_texts_by_number_with_several_classes(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,x+y\nb,\n")
    options: dict[str, Any] = {"text": "0", "label": "1", "multi_label": True, "header": False}
    for kind in ("csv", "tsv"):
        path.write_text("a,x+y\nb,\n" if kind == "csv" else "a\tx+y\nb\t\n")
        corpus = make_corpus("texts", kind, test=str(path), label_separator="+", **options)
        assert corpus.read("test").labels == [("x", "y"), ()]


def test_folder(tmp_path: Path) -> None:
    for name in ("x/1.txt", "y/1.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(f"in {name}")
    texts = make_corpus("texts", "folder", validation=str(tmp_path)).read("validation")
    assert [*texts] == [("in x/1.txt", ("x",)), ("in y/1.txt", ("y",))]
    (tmp_path / "y/2.txt").write_text("")
    with pytest.raises(ValueError, match=r"^data\.validation: .*y/2\.txt:1: the field 'text' is e"):
        make_corpus("texts", "folder", validation=str(tmp_path)).read("validation")
    skipping = make_corpus("texts", "folder", validation=str(tmp_path), skip_bad=1)
    assert skipping.read("validation").skipped == 1


def test_tfds(tfds: Any, tmp_path: Path) -> None:
    rows = {"sentence": ["a", "b", ""], "label": [1, -1, 0]}
    options = {"name": "glue/sst2", "text": "sentence", "data_dir": str(tmp_path)}
    with tfds.testing.mock_data(as_dataset_fn=make_mock_dataset(rows)):
        texts = make_corpus("texts", "tfds", **options, skip_bad=1).read("validation")
    assert ([*texts], texts.unlabelled, texts.skipped) == ([("a", ("positive",))], 1, 1)
    pairs = {"sentence1": ["a"], "sentence2": ["b"], "label": [4.5]}
    options = {"name": "glue/stsb", "first": "sentence1", "second": "sentence2"}
    with tfds.testing.mock_data(as_dataset_fn=make_mock_dataset(pairs)):
        corpus = make_corpus(
            "pairs", "tfds", **options, target="regression", data_dir=str(tmp_path)
        )
        assert corpus.read("test").scores == [4.5]


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_pairs(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    if kind == "jsonl":
        path.write_text('{"q": 1, "a": "x", "b": "y", "label": 1}\n')
    else:
        path.write_text("q,a,b,label\n1,x,y,1\n".replace(",", {"csv": ",", "tsv": "\t"}[kind]))
    options: dict[str, Any] = {"train": str(path)}
    assert make_corpus("pairs", kind, **options).read("train").labels == ["1"]
    assert make_corpus("pairs", kind, **options, target="regression").read("train").scores == [1.0]
    ranking = make_corpus("pairs", kind, **options, target="ranking", group="q").read("train")
    assert (ranking.groups, ranking.scores) == (["1"], [1.0])


def test_unanswered_questions_are_an_error_or_dropped(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b,label\nq,x,1\nr,y,0\n")
    options: dict[str, Any] = {"train": str(path), "target": "ranking", "skip_bad": 5}
    with pytest.raises(ValueError, match=r"^data\.train: .*:3: group 'r' has no .*drop_unanswered"):
        make_corpus("pairs", "csv", **options).read("train")
    options |= {"drop_unanswered": True, "cache": str(tmp_path / "cache")}
    for cache in (False, str(tmp_path / "cache"), str(tmp_path / "cache")):
        pairs = make_corpus("pairs", "csv", **options | {"cache": cache}).read("train")
        assert [*pairs] == [("q", "x", 1.0, "q")]
        assert (pairs.skipped, pairs.locations()) == (1, [f"{path}:2"])


CACHED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "no class in the first rows": (
        "texts",
        "text,label\n" + "a,\n" * (2 * BATCH + 3) + "b,x|y\n" + "c,\n" * BATCH,
        {"multi_label": True},
    ),
    "no class": ("texts", "text,label\n" + "a,\n" * (BATCH + 1), {"multi_label": True}),
    "one class": ("texts", 'text,label\n"a\nb",x\nbad\nc,y\n', {"skip_bad": 1}),
    "classes": ("pairs", "a,b,label\nx,y,1\nz,x,0\n", {}),
    "numbers": ("pairs", "a,b,label\nx,y,3\nz,x,0.1\n", {"target": "regression"}),
    "ranking": ("pairs", "a,b,label\nx,y,1\nx,x,0\n", {"target": "ranking"}),
}


@pytest.mark.parametrize("case", CACHED)
def test_cached_examples_equal_those_in_memory(case: str, tmp_path: Path) -> None:
    examples, content, options = CACHED[case]
    (tmp_path / "a.csv").write_text(content)
    options = {"train": str(tmp_path / "a.csv"), **options}
    reader = SplitReader(make_corpus(examples, "csv", **options, cache=False))
    expected, fingerprint = reader.read("train"), reader.read_fingerprint("train")
    for _ in range(2):
        reader = SplitReader(make_corpus(examples, "csv", **options, cache=str(tmp_path / "c")))
        cached = reader.read("train")
        assert reader.read_fingerprint("train") == fingerprint
        assert cached.cache is not None
        assert [*cached] == [*expected]
        assert cached.locations() == expected.locations()
        assert (cached.skipped, cached.unlabelled) == (expected.skipped, 0)
        assert cached.known_classes == expected.known_classes
        for name in expected.columns:
            column, values = getattr(cached, name), getattr(expected, name)
            assert values is None or isinstance(column, ArrowColumn), name
            assert column == values, name


def test_options_of_the_task_do_not_change_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_text("text,label\na,x\n")
    options = {"train": str(tmp_path / "a.csv"), "cache": str(tmp_path / "c")}
    make_corpus("texts", "csv", **options).read("train")

    def fail(*arguments: Any) -> None:
        raise AssertionError("the examples are in the cache")

    monkeypatch.setattr(LABELLED_TEXTS.get("csv"), "_read_files", fail)
    task_options = {"class_weights": {"x": 2}, "sentences": "lines", "max_sentences": 3}
    assert len(make_corpus("texts", "csv", **options, **task_options).read("train")) == 1
    assert len(data_cache.DataCache(tmp_path / "c").list_entries()) == 1
    for change in ({"multi_label": True}, {"skip_bad": 3}):
        with pytest.raises(AssertionError):
            make_corpus("texts", "csv", **options, **change).read("train")


def test_class_weights_are_read_from_a_recipe() -> None:
    def read(weights: Any) -> Any:
        schema = OmegaConf.structured(LABELLED_TEXTS.get("csv"))
        recipe = OmegaConf.merge(schema, OmegaConf.create({"class_weights": weights}))
        corpus: Any = OmegaConf.to_object(recipe)
        # Overrides, and the recipe of a run, start from the corpus.
        again: Any = OmegaConf.to_object(OmegaConf.structured(corpus))
        assert again == corpus
        return corpus.class_weights

    assert read({0: 2, "pos": 0.5}) == {"0": 2, "pos": 0.5}
    assert read("balanced") == "balanced"
    assert read(None) is None


@refuses(
    ({"class_weights": "equal"}, r"^data\.class_weights must be null, balanced, or .* got 'equal'"),
    ({"class_weights": [1, 2]}, r"^data\.class_weights must be null, balanced, or a .* \[1, 2\]"),
    ({"class_weights": {"a": 0}}, r"class_weights: the weight of class 'a' must be .*, got 0"),
    ({"class_weights": {"a": True}}, r"class 'a' must be a positive number, got True"),
    ({"class_weights": {"a": float("inf")}}, r"class 'a' must be a positive number, got inf"),
    ({"sentences": "line"}, r"^data\.sentences must be one of lines, punctuation, got 'line'; did"),
    ({"text": "label"}, r"^data\.text and data\.label are both 'label'"),
    ({"label_separator": ""}, r"^data\.label_separator is empty"),
)
def test_invalid_options_of_texts_raise(options: dict[str, Any]) -> None:
    make_corpus("texts", "csv", **options)


@refuses(
    ({"first": ""}, r"^data\.first is missing; name the column"),
    ({"second": ""}, r"^data\.second is missing; name the column"),
    ({"second": "a"}, r"^data\.first and data\.second are both 'a'"),
    (
        {"target": "score"},
        r"^data\.target must be one of classification, regression, ranking, got 'score'",
    ),
    ({"group": "id"}, r"^data\.group=id needs data\.target=ranking"),
)
def test_invalid_options_of_pairs_raise(options: dict[str, Any]) -> None:
    make_corpus("pairs", "csv", **options)


def test_folder_has_one_class_per_text() -> None:
    with pytest.raises(ValueError, match=r"^data\.multi_label=true: a text in a folder has one"):
        make_corpus("texts", "folder", multi_label=True)


@pytest.mark.parametrize("split", ["train", "validation", "long"])
def test_training_reviews_may_be_shorter(split: str) -> None:
    options = {"size": 20, "validation_size": 20, "test_size": 20, "max_review_sentences": 12}
    longer = LABELLED_TEXTS.get("reviews")(**options)
    shorter = LABELLED_TEXTS.get("reviews")(**options, max_train_review_sentences=6)
    lengths = [len(split_sentences(text)) for text in shorter.read(split).texts]
    if split == "train":
        assert {*lengths} == {5, 6}
    else:
        assert list(shorter.read(split).texts) == list(longer.read(split).texts)


@pytest.mark.parametrize("split", ["train", "validation", "long"])
def test_training_premises_may_have_fewer_facts(split: str) -> None:
    options = {"size": 20, "validation_size": 20, "test_size": 20}
    longer = LABELLED_PAIRS.get("claims")(**options)
    shorter = LABELLED_PAIRS.get("claims")(**options, max_train_facts=2)
    premises = list(shorter.read(split).firsts)
    if split == "train":
        assert {text.count(".") for text in premises} == {2}
    else:
        assert premises == list(longer.read(split).firsts)


@pytest.mark.parametrize("value", [1, 7])
def test_maximum_of_training_texts_is_in_range(value: int) -> None:
    with pytest.raises(
        ValueError, match=r"data\.max_train_facts must be from min_facts=2 to max_facts=6"
    ):
        LABELLED_PAIRS.get("claims")(max_train_facts=value)
    with pytest.raises(ValueError, match=r"data\.max_train_review_sentences must be from"):
        LABELLED_TEXTS.get("reviews")(max_review_sentences=6, max_train_review_sentences=value)
