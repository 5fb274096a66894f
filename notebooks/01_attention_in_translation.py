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
# # Attention in translation
#
# Bahdanau, Cho and Bengio ([arXiv 1409.0473](https://arxiv.org/abs/1409.0473)) motivate attention
# with two figures. A translation model that encodes a sentence as one vector gets worse on long
# sentences (figure 2). A model with attention does not, and its weights can be plotted (figure 3).
# This notebook trains both models from scratch on generated sentences with dates, times and
# quantities, and plots both figures.
#
# The models have about the same number of parameters and the same corpus. The model without
# attention trains on more sentences and for more steps:
#
# - `RNNSearch`: the decoder attends to all states of a bidirectional encoder before each step.
# - `Seq2Seq`: the decoder gets only the final state of the encoder, as its initial state.

# %%
import os
import tempfile
from pathlib import Path

from IPython.display import Image

import attention_zoo as az

HERE = Path(__file__).parent if "__file__" in globals() else Path.cwd()
RECIPES = HERE.parent / "training" / "translation"
FOLDER = Path(os.environ.get("NOTEBOOK_FOLDER", tempfile.mkdtemp()))
STEPS = os.environ.get("NOTEBOOK_STEPS")  # fewer steps for a quick run; the recipes' own if unset
SENTENCES = int(os.environ.get("NOTEBOOK_SENTENCES", "500"))
NAMES = {"RNNSearch": "rnnsearch_small", "Seq2Seq": "seq2seq_initial_small"}

# %% [markdown]
# ## The sentences
#
# A sentence is a chain of one to four clauses. Sentences of the split `long` have five to eight.

# %%
recipe = az.training.read_recipe(RECIPES / "rnnsearch_small.dates_en_fr.yaml")
corpora = {split: recipe.data.read(split) for split in ("train", "test", "long")}
for split, pairs in corpora.items():
    print(f"{split}: {pairs.sources[0]}\n    -> {pairs.targets[0]}")

# %% [markdown]
# ## Train both models

# %%
tasks = {}
for title, preset in NAMES.items():
    overrides = [f"run={FOLDER / preset}"]
    if STEPS:
        overrides += [f"training.steps={STEPS}", f"training.evaluate_every={STEPS}"]
    result = az.training.fit(RECIPES / f"{preset}.dates_en_fr.yaml", overrides)
    tasks[title] = result.task

# %% [markdown]
# ## Exact match by source length
#
# Exact match on held-out sentences, by the number of source words. The vertical line marks the
# longest training sentence.

# %%
curves = {}
longest = max(len(s) for s in tasks["RNNSearch"].source_tokenizer.encode(corpora["train"].sources))
for title, task in tasks.items():
    sources = corpora["test"].sources[:SENTENCES] + corpora["long"].sources[:SENTENCES]
    targets = corpora["test"].targets[:SENTENCES] + corpora["long"].targets[:SENTENCES]
    answers = [answer.text for answer in task.predict(sources)]
    lengths = [len(ids) for ids in task.source_tokenizer.encode(sources)]
    edges = range(10, max(lengths), 10)
    scores = az.metrics.by_length(az.metrics.exact_match, answers, targets, lengths, edges)
    curves[title] = {score.first + 5: score.value for score in scores}
az.inspection.plot_length_curve(curves, FOLDER / "length.png", longest_trained=longest)
Image(FOLDER / "length.png")

# %% [markdown]
# ## Attention weights
#
# Rows are target words, columns are source words.

# %%
sentence = "they arrive on Monday, March 3, 2031; dinner is at 5:04 PM."
(answer,) = tasks["RNNSearch"].predict([sentence])
az.inspection.plot_alignment(
    answer.attention, answer.tokens, answer.source_tokens, FOLDER / "attention.png"
)
Image(FOLDER / "attention.png")
