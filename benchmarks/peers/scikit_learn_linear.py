"""scikit-learn: linear models of texts and of pairs of texts.

    python scikit_learn_linear.py INPUT.json OUTPUT.json

The input and the output are those of `linear_baselines.py`, which computes the metrics. Words are
lower-cased; a punctuation mark is a word.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, MultiLabelBinarizer
from sklearn.svm import LinearSVC

Models = Iterator[tuple[str, Any]]


def tokenize(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text.lower())


def make_tfidf(last: int = 1) -> TfidfVectorizer:
    """Return TF-IDF of the n-grams of 1 to `last` words."""
    options = {"tokenizer": tokenize, "token_pattern": None, "lowercase": False}
    return TfidfVectorizer(**options, ngram_range=(1, last), sublinear_tf=True)


def select_side(side: int, last: int = 1) -> Any:
    """Return TF-IDF of the first (0) or the second (1) text of each pair."""
    select = FunctionTransformer(lambda pairs: [pair[side] for pair in pairs])
    return make_pipeline(select, make_tfidf(last))


def join_sides(last: int = 1) -> FeatureUnion:
    """Return TF-IDF of both texts of each pair, with separate features for each."""
    return FeatureUnion([(str(side), select_side(side, last)) for side in (0, 1)])


def find_overlap(pair: list[str], last: int) -> dict[str, float]:
    """Return features of the n-grams that a pair shares and of those in one of the texts only."""
    features: dict[str, float] = {}
    words = [tokenize(text) for text in pair]
    for n in range(1, last + 1):
        first, second = (
            {" ".join(text[i : i + n]) for i in range(len(text) - n + 1)} for text in words
        )
        parts = {"both": first & second, "first": first - second, "second": second - first}
        for name, grams in parts.items():
            features |= {f"{name}: {gram}": 1.0 for gram in grams}
            features[f"{n}-grams, {name}"] = float(len(grams))
        shared = len(parts["both"])
        features[f"{n}-grams, covered in first"] = shared / max(len(first), 1)
        features[f"{n}-grams, covered in second"] = shared / max(len(second), 1)
    return features


def make_overlap(last: int) -> Any:
    """Return the overlap features of n-grams of 1 to `last` words."""
    find = FunctionTransformer(lambda pairs: [find_overlap(pair, last) for pair in pairs])
    return make_pipeline(find, DictVectorizer(), MaxAbsScaler())


def list_text_models(is_multi_label: bool) -> Models:
    for name, last in (("words", 1), ("words and bigrams", 2)):
        svm = (
            OneVsRestClassifier(LinearSVC(random_state=0))
            if is_multi_label
            else LinearSVC(random_state=0)
        )
        yield f"SVM, {name}", make_pipeline(make_tfidf(last), svm)


def list_pair_models(target: str) -> Models:
    if target == "classification":
        yield "SVM, first text only", make_pipeline(select_side(0), LinearSVC(random_state=0))
        yield "SVM, second text only", make_pipeline(select_side(1), LinearSVC(random_state=0))
        yield "SVM, both texts", make_pipeline(join_sides(), LinearSVC(random_state=0))
    is_regression = target == "regression"
    name = "ridge regression" if is_regression else "logistic regression"
    for words, last in (("words", 1), ("words and bigrams", 2)):
        model = Ridge() if is_regression else LogisticRegression(max_iter=2000)
        yield f"{name}, overlap of {words}", make_pipeline(make_overlap(last), model)


def predict(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the predictions of each model: classes, lists of classes or numbers, by split."""
    target, train = content["target"], content["train"]
    labels, binarizer = train["labels"], MultiLabelBinarizer()
    if target == "multi_label":
        labels = binarizer.fit_transform(labels)
    is_text = isinstance(train["inputs"][0], str)
    models = list_text_models(target == "multi_label") if is_text else list_pair_models(target)
    for name, model in models:
        model.fit(train["inputs"], labels)
        predictions = {}
        for split, inputs in content["inputs"].items():
            values = (model.decision_function if target == "ranking" else model.predict)(inputs)
            if target == "multi_label":
                values = binarizer.inverse_transform(values)
            predictions[split] = values.tolist() if hasattr(values, "tolist") else values
        yield {"model": name, "predictions": predictions}


def main() -> None:
    source, target = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        content = json.load(file)
    with open(target, "w", encoding="utf-8") as file:
        json.dump([*predict(content)], file)


if __name__ == "__main__":
    main()
