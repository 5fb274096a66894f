# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Attention in document classification
#
# A hierarchical attention network (Yang et al.,
# [ACL N16-1174](https://aclanthology.org/N16-1174/)) weights the words of each sentence and the
# sentences of a document. This notebook loads a model of the zoo, which classifies generated
# reviews whose class depends on one sentence. It plots the weights, and measures how often the
# largest one is that of the deciding sentence. `attention-zoo train han_small.reviews` trains it.

# %%
import json
import os
import tempfile
from pathlib import Path

import numpy as np
from IPython.display import Image

import attention_zoo as az
from attention_zoo.data.synthetic.reviews import CONTENT, OPINIONS

HERE = Path(__file__).parent if "__file__" in globals() else Path.cwd()
ZOO = HERE.parent / "models" / "classification"
FOLDER = Path(os.environ.get("NOTEBOOK_FOLDER", tempfile.mkdtemp()))
REVIEWS = int(os.environ.get("NOTEBOOK_SENTENCES", "40"))

# %% [markdown]
# ## The reviews
#
# One sentence states the reviewer's own opinion. Its opinion word determines the class: negative,
# mixed or positive. Other sentences contain opinions of other people, or opinion words in neutral
# use. All reviews have as many opinion words of each class, so word counts are not informative.

# %%
short = az.data.generate_reviews(REVIEWS, "test", min_sentences=5, max_sentences=5)
for text, (label,) in zip(short.texts[:3], short.labels, strict=False):
    print(f"{label}: {text}\n")

# %% [markdown]
# ## Predictions
#
# The class of a review, and the probabilities of all classes.

# %%
task = az.load(ZOO / "han_small.reviews")
(result,) = task.predict(short.texts[:1])
print(f"predicted: {result.text}, correct: {short.labels[0][0]}")
for name, probability in zip(result.classes, result.probabilities, strict=True):
    print(f"{name}: {probability:.4f}")

# %% [markdown]
# The weights of the sentences, and a figure of the words with the largest weights: the product of
# the weight of a word in its sentence and of the weight of the sentence. The HTML page shows
# several reviews.

# %%
for (start, end), weight in zip(result.sentences, result.sentence_attention, strict=True):
    print(f"{weight:.3f} {result.source[start:end]}")
task.plot(result, FOLDER / "attention.png")
task.write_report(task.predict(short.texts[:10]), FOLDER / "reviews.html")
Image(FOLDER / "attention.png")

# %% [markdown]
# ## One sentence determines the class
#
# The own opinion word is exchanged with each of the other opinion words of the review. Word counts
# stay the same, but the correct class is that of the other word.


# %%
def find_own_sentence(sentences: list[str]) -> int:
    """Return the index of the sentence with the reviewer's own opinion."""
    is_own = [
        any(source in sentence.lower() for source in map(str.lower, CONTENT["own_sources"]))
        for sentence in sentences
    ]
    return is_own.index(True)


def exchange_words(text: str, first: str, second: str) -> str:
    """Return a text in which two words are exchanged."""
    return text.replace(first, "\0").replace(second, first).replace("\0", second)


classes = {word: name for name, words in OPINIONS.items() for word in words}
text = short.texts[0]
sentences = az.data.split_sentences(text)
own_sentence = sentences[find_own_sentence(sentences)]
own, *others = sorted(
    (word for word in classes if f" {word}" in text), key=lambda word: word not in own_sentence
)
exchanged = [exchange_words(text, own, other) for other in others]
for other, changed in zip(others, task.predict(exchanged), strict=True):
    print(f"{own} <-> {other}: predicted {changed.text}, correct {classes[other]}")
    print(f"    {changed.source}")

# %% [markdown]
# ## Weights of the deciding sentence
#
# The percentage of reviews in which the sentence with the largest weight states the reviewer's own
# opinion, and the mean weight of that sentence. Equal weights would be 1 / n for n sentences.

# %%
corpora = {
    "5 to 12 sentences": az.data.generate_reviews(REVIEWS, "test", max_sentences=12),
    "13 to 40 sentences": az.data.generate_reviews(REVIEWS, "test", min_sentences=13),
    "41 to 80 sentences": az.data.generate_reviews(REVIEWS, "long"),
}
results = {title: task.predict(corpus.texts) for title, corpus in corpora.items()}
for title in corpora:
    is_largest, weights, equal = [], [], []
    for result in results[title]:
        sentences = [result.source[start:end] for start, end in result.sentences]
        if result.truncated:  # the deciding sentence may be missing
            continue
        index = find_own_sentence(sentences)
        is_largest.append(result.sentence_attention.argmax() == index)
        weights.append(result.sentence_attention[index])
        equal.append(1 / len(sentences))
    print(
        f"{title}: largest weight in {100 * np.mean(is_largest):.1f} % of {len(weights)} reviews, "
        f"mean weight {np.mean(weights):.2f}, equal weights {np.mean(equal):.2f}"
    )

# %% [markdown]
# ## Accuracy by number of sentences
#
# Training reviews have 5 to 12 sentences. A guess is correct for one third of the reviews.

# %%
for title, corpus in corpora.items():
    predicted = [result.labels for result in results[title]]
    is_correct = [one == labels for one, labels in zip(predicted, corpus.labels, strict=True)]
    print(f"{title}: accuracy {100 * np.mean(is_correct):.1f} %")

# %% [markdown]
# ## Results
#
# The results of the model cards in `models/classification`.

# %%
for path in sorted(ZOO.glob("*/results.json")):
    report = json.loads(path.read_text("utf-8"))
    for entry in report["evaluations"]:
        names = ("accuracy", "exact_match", "macro_f1", "expected_calibration_error")
        figures = {key: entry["metrics"][key] for key in names if key in entry["metrics"]}
        line = ", ".join(f"{key} {value:.4g}" for key, value in figures.items())
        print(f"{path.parent.name}, {entry['split']}: {line}")
