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
# # Attention gallery: scores, alignments, structures
#
# Compute attention on one example by hand, then compare the weights of every score, alignment and
# structure. Luong, Pham and Manning ([arXiv 1508.04025](https://arxiv.org/abs/1508.04025))
# compared the first score functions; the rest of the literature fits into the same four steps:
# score, mask, align, weighted sum.

# %%
import os
import tempfile
from pathlib import Path

import keras
import numpy as np
from IPython.display import Image
from keras import ops

from attention_zoo import inspection, layers

FOLDER = Path(os.environ.get("NOTEBOOK_FOLDER", tempfile.mkdtemp()))
keras.utils.set_random_seed(1)


def show(weights, rows, columns, name):
    """Plot attention weights."""
    path = FOLDER / f"{name}.png"
    inspection.plot_alignment(ops.convert_to_numpy(weights), rows, columns, path, title=name)
    return Image(str(path))


# %% [markdown]
# ## Five steps by hand
#
# An encoder has computed four states for four words. The decoder has its own state and is about to
# generate a word. Which source states does it need?
#
# **Step 1.** The states.

# %%
words = ["w1", "w2", "w3", "w4"]
encoder_states = np.array([[[0, 1, 1], [5, 0, 1], [1, 1, 0], [0, 5, 1]]], "float32")
decoder_state = np.array([[[10, 5, 10]]], "float32")

# %% [markdown]
# **Step 2.** A score for each source state: here the inner product.

# %%
scores = layers.DotScore()(decoder_state, encoder_states)
print(ops.convert_to_numpy(scores)[0, 0])

# %% [markdown]
# **Step 3.** A softmax turns the scores into weights that sum to one.

# %%
weights, _ = layers.SoftmaxAlignment()(scores)
print(ops.convert_to_numpy(weights)[0, 0].round(4))

# %% [markdown]
# **Step 4.** Each state is multiplied by its weight.

# %%
weighted = ops.expand_dims(weights[0, 0], -1) * encoder_states[0]
print(ops.convert_to_numpy(weighted).round(4))

# %% [markdown]
# **Step 5.** The sum is the context vector, which the decoder uses together with its state.

# %%
context = ops.sum(weighted, axis=0)
print(ops.convert_to_numpy(context).round(4))

# %% [markdown]
# A layer computes the five steps in one call.

# %%
layer = layers.DotProductAttention()
context, weights = layer(decoder_state, encoder_states, return_attention_scores=True)
np.testing.assert_allclose(ops.convert_to_numpy(context)[0, 0], [5, 0, 1], atol=1e-6)
show(weights[0], ["state"], words, "five steps")

# %% [markdown]
# ## Scores: similarity of query and key
#
# A longer example: every word of a phrase attends to the phrase. Vectors are random and scores are
# untrained, so the differences come from the score functions themselves.

# %%
phrase = ["the", "red", "hat", "of", "the", "woman"]
rng = np.random.default_rng(0)
meaning = {word: rng.normal(size=8) for word in dict.fromkeys(phrase)}
states = np.array([[meaning[word] for word in phrase]], "float32")

rows, labels = [], []
for name in layers.SCORES.names():
    score = layers.LocationScore(len(phrase)) if name == "location" else name
    attention = layers.Attention(score)
    _, weights = attention(states, states, return_attention_scores=True)
    rows.append(ops.convert_to_numpy(weights)[0, 2])
    labels.append(f"{name}: hat")
show(np.stack(rows), labels, phrase, "scores")

# %% [markdown]
# "the" occurs twice and gets the same weight twice from every score that depends on content only:
# attention does not know the word order. Only two scores distinguish the positions: `location`
# scores positions, and `location_sensitive` depends on the previous attention weights.

# %%
for name, row in zip(layers.SCORES.names(), rows, strict=True):
    differ = abs(row[0] - row[4]) > 1e-6
    print(f"{name:20s} {'different weights' if differ else 'equal weights'}")

# %% [markdown]
# ## Alignments: from scores to weights
#
# The same scores of three queries with every alignment, in inference.

# %%
rows, labels = [], []
queries = states[:, [0, 2, 5]]
for name in layers.ALIGNMENTS.names():
    attention = layers.Attention("scaled_dot", name)
    _, weights = attention(queries, states, return_attention_scores=True)
    for position, row in zip((0, 2, 5), ops.convert_to_numpy(weights)[0], strict=True):
        rows.append(row)
        labels.append(f"{name}: {phrase[position]}")
show(np.stack(rows), labels, phrase, "alignments")

# %% [markdown]
# Soft alignments spread the weights, sparse ones set some to 0, hard ones select one position,
# local ones attend to a window, and monotonic ones never move backwards.
#
# ## Structures
#
# **Multi-head attention** computes several attention distributions in parallel.

# %%
heads = layers.MultiHeadAttention(num_heads=2, key_dim=4)
_, weights = heads(states, states, return_attention_scores=True)
labels = [f"head {head + 1}: {word}" for head in range(2) for word in phrase]
show(ops.reshape(weights, (-1, len(phrase))), labels, phrase, "two heads")

# %% [markdown]
# **Self-attention** in its simplest form has no weights: each word becomes an average of all words,
# weighted by similarity.

# %%
mixed, weights = layers.SelfAttention()(states, return_attention_scores=True)
show(weights[0], phrase, phrase, "self-attention")

# %% [markdown]
# **Attention pooling** uses one learned query for the whole text, **structured self-attention**
# several (hops).

# %%
vector, weights = layers.AttentionPooling(units=8)(states, return_attention_scores=True)
print("pooled:", vector.shape)
hops = layers.StructuredSelfAttention(units=8, hops=3)
matrix, hop_weights = hops(states, return_attention_scores=True)
print("hops:", matrix.shape)
both = ops.concatenate([weights, hop_weights[0]], axis=0)
show(both, ["pooling", "hop 1", "hop 2", "hop 3"], phrase, "pooling")

# %% [markdown]
# **Hierarchical attention** pools words into phrases and phrases into a text.

# %%
levels = [(None, layers.AttentionPooling(units=8)) for _ in range(2)]
text = layers.HierarchicalAttention(levels)
_, (of_words, of_phrases) = text(states.reshape(1, 2, 3, 8), return_attention_scores=True)
print("words:", ops.convert_to_numpy(of_words)[0].round(2))
print("phrases:", ops.convert_to_numpy(of_phrases)[0].round(2))

# %% [markdown]
# **Positions** add the order: with them, the outputs of the two "the" differ.

# %%
for positions in (None, *layers.POSITIONS.names()):
    keras.utils.set_random_seed(1)
    heads = layers.MultiHeadAttention(num_heads=2, key_dim=4, positions=positions)
    output = heads(states, states)
    for variable in heads.trainable_variables:  # fresh ones of zero would hide the effect
        if "position" in variable.path:
            variable.assign(rng.normal(size=variable.shape))
    output = ops.convert_to_numpy(heads(states, states))[0]
    difference = np.abs(output[0] - output[4]).max()
    print(f"{positions or 'none':8s} the two differ by {difference:.3f}")
