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
# # Self-attention or a CRF
#
# A tag depends on the other words and on the other tags. A CRF models transitions between adjacent
# tags and scores whole tag sequences (Lample et al.,
# [arXiv 1603.01360](https://arxiv.org/abs/1603.01360)). Deep self-attention attends from each word
# to all words and predicts each tag independently (Tan et al.,
# [arXiv 1712.01586](https://arxiv.org/abs/1712.01586)). This notebook trains both on generated
# sentences and compares their results on real ones.

# %%
import json
import os
import tempfile
from pathlib import Path

import keras
import numpy as np
from IPython.display import Image

import attention_zoo as az

HERE = Path(__file__).parent if "__file__" in globals() else Path.cwd()
RECIPES = HERE.parent / "training" / "tagging"
ZOO = HERE.parent / "models" / "tagging"
FOLDER = Path(os.environ.get("NOTEBOOK_FOLDER", tempfile.mkdtemp()))
STEPS = os.environ.get("NOTEBOOK_STEPS")  # fewer steps for a quick run; the recipes' own if unset
SENTENCES = int(os.environ.get("NOTEBOOK_SENTENCES", "1000"))
NAMES = {
    "LSTMs, characters, CRF": "bilstm_cnn_crf_constrained.orders",
    "self-attention, softmax": "deep_att_small.orders",
}

# %% [markdown]
# ## The sentences
#
# Adjacent words determine the tags of quantities and items. The sender and the receiver depend on
# the first word, and on whether the sentence ends with "the other way round". The split `long` has
# up to twice as many items between the two ends as the training sentences.

# %%
recipe = az.training.read_recipe(RECIPES / f"{NAMES['self-attention, softmax']}.yaml")
corpora = {split: recipe.data.read(split) for split in ("test", "long")}
corpora = {split: corpus.take(range(SENTENCES)) for split, corpus in corpora.items()}
for word, tag in zip(corpora["test"].words[0], corpora["test"].tags[0], strict=True):
    print(f"{word}/{tag}", end=" ")

# %% [markdown]
# ## Train both models

# %%
tasks = {}
for title, name in NAMES.items():
    overrides = [f"run={FOLDER / name}"]
    if STEPS:
        overrides += [f"training.steps={STEPS}", f"training.evaluate_every={STEPS}"]
    tasks[title] = az.training.fit(RECIPES / f"{name}.yaml", overrides).task

# %% [markdown]
# ## F1 by label
#
# F1 of spans. SENDER and RECEIVER depend on both ends of the sentence.

# %%
for split, corpus in corpora.items():
    for title, task in tasks.items():
        report = task.evaluate(corpus)
        by_label = {part["label"]: round(part["f1"], 1) for part in report["by_label"]}
        print(f"{split}  {title}: F1 {report['f1']:.1f}, invalid sequences {report['invalid']}")
        print(f"      {by_label}")

# %% [markdown]
# ## Transitions of the CRF
#
# Softmax over the transition scores from one tag (row) to the next one (column). Transitions that
# the tag scheme forbids are white.

# %%
crf = tasks["LSTMs, characters, CRF"].model.head.crf
scores = keras.ops.convert_to_numpy(crf.transitions)
allowed = crf.constraints.transitions
probabilities = np.where(allowed, np.exp(scores), 0.0)
probabilities = probabilities / probabilities.sum(axis=1, keepdims=True)
az.inspection.plot_alignment(probabilities, crf.tags, crf.tags, FOLDER / "transitions.png")
Image(FOLDER / "transitions.png")

# %% [markdown]
# ## Self-attention weights
#
# The attention weights of each head of the last layer: the word of a row attends to the words of
# the columns.

# %%
task = tasks["self-attention, softmax"]
words = min(corpora["test"].words, key=len)
(answer,) = task.predict([words])
print(answer.text)
az.inspection.plot_heads(
    answer.attention[-1], answer.tokens, answer.source_tokens, FOLDER / "heads.png"
)
Image(FOLDER / "heads.png")

# %% [markdown]
# ## Real sentences
#
# Parts of speech in web text (UD English EWT) and entities in posts (WNUT 2017), trained with the
# recipes in `training/tagging`. The results are those of the model cards in `models/tagging`.

# %%
for path in sorted(ZOO.glob("*/results.json")):
    results = json.loads(path.read_text("utf-8"))
    for entry in results["evaluations"]:
        metrics = entry["metrics"]
        figures = {key: metrics[key] for key in ("accuracy", "f1", "invalid") if key in metrics}
        line = ", ".join(f"{key} {value:.4g}" for key, value in figures.items())
        print(f"{path.parent.name}, {entry['split']}: {line}")
