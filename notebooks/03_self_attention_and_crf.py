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
# # Self-attention against the CRF
#
# A tag depends on other words, and on other tags. Two answers stand in the literature: a CRF
# scores whole sequences of tags, each with the one before it (Lample et al.,
# [arXiv 1603.01360](https://arxiv.org/abs/1603.01360)); deep self-attention looks at all words from
# each of them and tags every word alone (Tan et al.,
# [arXiv 1712.01586](https://arxiv.org/abs/1712.01586)). This notebook trains both on generated
# sentences, and then sets them side by side on real ones.

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
STEPS = os.environ.get("NOTEBOOK_STEPS")  # fewer steps for a quick look; the recipes' own if unset
SENTENCES = int(os.environ.get("NOTEBOOK_SENTENCES", "1000"))
NAMES = {
    "LSTMs, characters, CRF": "bilstm_cnn_crf_constrained.orders",
    "self-attention, softmax": "deep_att_small.orders",
}

# %% [markdown]
# ## The sentences
#
# Quantities and items are told by the words beside them. Who sends and who receives is not: it
# depends on the first word, and on whether "the other way round" stands at the very end. The split
# `long` has up to twice as many items between the two.

# %%
recipe = az.training.read_recipe(RECIPES / f"{NAMES['self-attention, softmax']}.yaml")
corpora = {split: recipe.data.read(split) for split in ("test", "long")}
corpora = {split: corpus.take(range(SENTENCES)) for split, corpus in corpora.items()}
for word, tag in zip(corpora["test"].words[0], corpora["test"].tags[0], strict=True):
    print(f"{word}/{tag}", end=" ")

# %% [markdown]
# ## Training both

# %%
tasks = {}
for title, name in NAMES.items():
    overrides = [f"run={FOLDER / name}"]
    if STEPS:
        overrides += [f"training.steps={STEPS}", f"training.evaluate_every={STEPS}"]
    tasks[title] = az.training.fit(RECIPES / f"{name}.yaml", overrides).task

# %% [markdown]
# ## Who finds what
#
# F1 of spans, by label. SENDER and RECEIVER are the ones that need both ends of the sentence.

# %%
for split, corpus in corpora.items():
    for title, task in tasks.items():
        report = task.evaluate(corpus)
        by_label = {part["label"]: round(part["f1"], 1) for part in report["by_label"]}
        print(f"{split}  {title}: F1 {report['f1']:.1f}, broken sequences {report['invalid']}")
        print(f"      {by_label}")

# %% [markdown]
# ## What the CRF has learned of tags
#
# How it scores each tag (column) after each other one (row); what the scheme forbids is left
# white.

# %%
crf = tasks["LSTMs, characters, CRF"].model.head.crf
energies = keras.ops.convert_to_numpy(crf.transitions)
allowed = crf.constraints.transitions
shown = np.where(allowed, np.exp(energies), 0.0)
shown = shown / shown.sum(axis=1, keepdims=True)
az.inspection.plot_alignment(shown, crf.tags, crf.tags, FOLDER / "transitions.png")
Image(FOLDER / "transitions.png")

# %% [markdown]
# ## Where self-attention looks
#
# The heads of the last layer, one picture each: from the words of a row to those of a column.

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
# Parts of speech in web text (UD English EWT) and entities in posts (WNUT17), as the recipes of
# `training/tagging` measure them; every figure is that of a card in `models/tagging`.

# %%
for path in sorted(ZOO.glob("*/results.json")):
    results = json.loads(path.read_text("utf-8"))
    for entry in results["evaluations"]:
        metrics = entry["metrics"]
        figures = {key: metrics[key] for key in ("accuracy", "f1", "invalid") if key in metrics}
        told = ", ".join(f"{key} {value:.4g}" for key, value in figures.items())
        print(f"{path.parent.name}, {entry['split']}: {told}")
