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
# Bahdanau, Cho and Bengio ([arXiv 1409.0473](https://arxiv.org/abs/1409.0473)) made one argument
# with two pictures. A translator that squeezes a sentence into one vector gets worse as sentences
# grow (figure 2); one that looks back at the source while it writes does not, and where it looks
# can be seen (figure 3). This notebook draws both, from scratch, on generated sentences full of
# dates, times and quantities.
#
# Two models with about as many parameters, the same data, the same training:
#
# - `RNNSearch`: a bidirectional encoder keeps one row a word; before each step the decoder
#   looks at all of them.
# - `Seq2Seq`: the decoder gets the encoder's last state, and that is all.

# %%
import os
import tempfile
from pathlib import Path

from IPython.display import Image

import attention_zoo as az

HERE = Path(__file__).parent if "__file__" in globals() else Path.cwd()
RECIPES = HERE.parent / "training" / "translation"
FOLDER = Path(os.environ.get("NOTEBOOK_FOLDER", tempfile.mkdtemp()))
STEPS = os.environ.get("NOTEBOOK_STEPS")  # fewer steps for a quick look; the recipes' own if unset
SENTENCES = int(os.environ.get("NOTEBOOK_SENTENCES", "500"))
NAMES = {"RNNSearch": "rnnsearch_small", "Seq2Seq": "seq2seq_initial_small"}

# %% [markdown]
# ## The sentences
#
# A sentence is a chain of clauses. The split `long` chains up to twice as many as the training
# sentences do.

# %%
recipe = az.training.read_recipe(RECIPES / "rnnsearch_small.dates_en_fr.yaml")
corpora = {split: recipe.data.read(split) for split in ("train", "test", "long")}
for split, pairs in corpora.items():
    print(f"{split}: {pairs.sources[0]}\n    -> {pairs.targets[0]}")

# %% [markdown]
# ## Training both

# %%
tasks = {}
for title, preset in NAMES.items():
    overrides = [f"run={FOLDER / preset}"]
    if STEPS:
        overrides += [f"training.steps={STEPS}", f"training.evaluate_every={STEPS}"]
    result = az.training.fit(RECIPES / f"{preset}.dates_en_fr.yaml", overrides)
    tasks[title] = result.task

# %% [markdown]
# ## Quality against length
#
# Exact match of sentences never seen in training, by the number of words in the source. Right of
# the line are lengths that no training sentence has.

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
# ## Where it looked
#
# Rows are the words that were written, columns those that were read.

# %%
sentence = "they arrive on Monday, March 3, 2031; dinner is at 5:04 PM."
(answer,) = tasks["RNNSearch"].predict([sentence])
az.inspection.plot_alignment(
    answer.attention, answer.tokens, answer.source_tokens, FOLDER / "attention.png"
)
Image(FOLDER / "attention.png")
