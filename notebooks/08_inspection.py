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
# # What attention weights show
#
# Papers draw conclusions from attention weights: that they align a translation with its source,
# that a head resolves pronouns, that they explain a prediction, or that they do not. This notebook
# tests such claims on models of the zoo with `attention_zoo.inspection`. The results are for
# generated texts and small models, and may differ from those of the papers.

# %%
import itertools
import os
import random
import tempfile
from pathlib import Path

import keras
import numpy as np
from IPython.display import Image, display
from scipy.special import rel_entr
from scipy.stats import spearmanr

import attention_zoo as az

HERE = Path(__file__).parent if "__file__" in globals() else Path.cwd()
ZOO = HERE.parent / "models"
MINILM = Path(os.environ.get("NOTEBOOK_MINILM", HERE.parent / "data" / "minilm_l6"))
FOLDER = Path(os.environ.get("NOTEBOOK_FOLDER", tempfile.mkdtemp()))
STEPS = int(os.environ.get("NOTEBOOK_STEPS", "400"))
SENTENCES = int(os.environ.get("NOTEBOOK_SENTENCES", "200"))
TEXTS = min(SENTENCES, 40)  # where each text needs many model calls

# %% [markdown]
# ## The alignment of a translation
#
# Bahdanau, Cho and Bengio ([arXiv 1409.0473](https://arxiv.org/abs/1409.0473), figure 3) plot the
# weights of the decoder as a soft alignment of target words (rows) and source words (columns).

# %%
translator = az.load(ZOO / "translation" / "rnnsearch_small.dates_en_fr")
with az.inspection.record(translator.model) as weights:
    (result,) = translator.predict(["they arrive on Monday, March 3, 2031; dinner is at 5:04 PM."])
((path, steps),) = weights.items()
print(f"{path}: {len(steps)} steps, the weights of each step are {steps[0].weights.shape}")
print(result.text)
az.inspection.plot_alignment(
    result.attention, result.tokens, result.source_tokens, FOLDER / "alignment.png"
)
Image(FOLDER / "alignment.png")

# %% [markdown]
# Digits that occur once in the source and once in the translation are mostly copies; a few are not,
# because hours after noon are converted. The figures are the share of these digits whose largest
# weight is on the same digit, and, as a baseline, the share of digits at the same relative position
# (rounded) in both texts.

# %%
pairs = az.data.generate_dates(SENTENCES, "en", "fr", "test")
is_aligned, is_at_position = [], []
for result in translator.predict(pairs.sources):
    for row, token in enumerate(result.tokens):
        sources = [column for column, one in enumerate(result.source_tokens) if one == token]
        if not token.isdigit() or len(sources) > 1 or list(result.tokens).count(token) > 1:
            continue
        scale = (len(result.source_tokens) - 1) / max(len(result.tokens) - 1, 1)
        is_aligned.append(sources == [result.attention[row].argmax()])
        is_at_position.append(sources == [round(row * scale)])
print(f"{len(is_aligned)} digits: largest weight on the same digit {np.mean(is_aligned):.1%}")
print(f"same relative position {np.mean(is_at_position):.1%}")

# %% [markdown]
# ## A head that resolves pronouns
#
# Vaswani et al. ([arXiv 1706.03762](https://arxiv.org/abs/1706.03762), attention visualizations)
# show one sentence in which two heads attend from "its" to its antecedent. Here, generated
# sentences contain a pronoun and two candidate antecedents, one of which is excluded by gender,
# animacy or number. The antecedent is the first or the second candidate. The head is chosen on one
# half of the sentences and tested on the other half, which has different templates and nouns.

# %%
NOUNS = [
    {
        "he": ["king", "uncle", "actor", "boy"],
        "she": ["queen", "aunt", "actress", "girl"],
        "it": ["car", "house", "boat", "phone"],
        "they": ["cats", "soldiers", "students", "farmers"],
    },
    {
        "he": ["prince", "father", "husband", "monk"],
        "she": ["princess", "mother", "wife", "nun"],
        "it": ["horse", "table", "train", "piano"],
        "they": ["dogs", "doctors", "workers", "teachers"],
    },
]
TEMPLATES = [
    [
        "the {} saw the {} near the river before {} went away .",
        "the {} waited for the {} because {} came too late .",
        "when the {} passed the {} , {} made a noise .",
    ],
    [
        "the {} stood behind the {} until {} moved .",
        "after the {} came to the {} , {} fell over .",
        "the {} stayed close to the {} , so {} got wet .",
    ],
]


def generate_sentences(half: int, size: int) -> list[tuple[list[str], int, int, int]]:
    """Return words, and the positions of the pronoun, the antecedent and the other candidate."""
    nouns = NOUNS[half]
    choices = [
        (template, pronoun, candidates[::order], order)
        for pronoun, other in itertools.permutations(nouns, 2)
        for candidates in itertools.product(nouns[pronoun], nouns[other])
        for template, order in itertools.product(TEMPLATES[half], (1, -1))
    ]
    sentences = []
    for template, pronoun, candidates, order in random.Random(half).sample(choices, size):
        words = template.format(*candidates, pronoun).split()
        first, second = map(words.index, candidates)
        positions = (first, second) if order == 1 else (second, first)
        sentences.append((words, words.index(pronoun), *positions))
    return sentences


halves = [generate_sentences(half, SENTENCES // 2) for half in (0, 1)]
for words, pronoun, antecedent, other in [half[0] for half in halves]:
    print(" ".join(words))
    print(f"    {words[pronoun]}: {words[antecedent]}, not {words[other]}")

# %% [markdown]
# A head is correct on a sentence if the pronoun attends more to the antecedent than to the other
# candidate. The baseline is the nearest noun, which is the second candidate. The model is the
# pretrained sentence encoder all-MiniLM-L6-v2 (Wang et al.,
# [arXiv 2002.10957](https://arxiv.org/abs/2002.10957)), with 6 layers of 12 heads.


# %%
def compare_heads(model: keras.Model, tokenizer: object, sentences: list) -> np.ndarray:
    """Return whether each head is correct for each sentence, (sentences, layers, heads)."""
    ids = [[tokenizer.encode([word])[0] for word in words] for words, *_ in sentences]
    texts = [[tokenizer.start, *itertools.chain(*pieces), tokenizer.end] for pieces in ids]
    tokens = np.zeros((len(texts), max(map(len, texts))), "int32")
    for row, text in enumerate(texts):
        tokens[row, : len(text)] = text
    with az.inspection.record(model) as weights:
        model({"tokens": tokens})
    layers = np.stack([records[0].weights for records in weights.values()], axis=1)
    rows = []
    for row, (_, pronoun, *candidates) in enumerate(sentences):
        word_ids = [word for word, pieces in enumerate(ids[row]) for _ in pieces]
        length = len(texts[row])
        own = layers[row, :, :, :length, :length]
        by_word = az.inspection.merge_subwords(own, [None, *word_ids, None])
        antecedent, other = (by_word[:, :, pronoun, candidate] for candidate in candidates)
        rows.append(antecedent > other)
    return np.array(rows)


if MINILM.exists():
    minilm = az.models.BERT.from_preset(MINILM)
    tokenizer = az.data.load_tokenizer(MINILM)
    chosen, tested = (compare_heads(minilm, tokenizer, half) for half in halves)
    accuracies = chosen.mean(0)
    layer, head = np.unravel_index(accuracies.argmax(), accuracies.shape)
    is_correct = tested[:, layer, head]
    is_nearest = np.array([antecedent > other for _, _, antecedent, other in halves[1]])
    difference = is_correct.astype(float) - is_nearest
    error = difference.std() / np.sqrt(len(difference))
    print(f"layer {layer + 1}, head {head + 1}: {accuracies[layer, head]:.1%} of the first half")
    print(f"second half: {is_correct.mean():.1%}, nearest noun {is_nearest.mean():.1%}")
    for name in NOUNS[1]:
        rows = [row for row, (words, index, *_) in enumerate(halves[1]) if words[index] == name]
        print(f"    {name}: {is_correct[rows].sum()} of {len(rows)}")
    if difference.mean() > 2 * error:
        print("The head beats the nearest noun by more than two standard errors.")
    else:
        print("The head does not beat the nearest noun by two standard errors.")
else:
    recipe = "training/classification/minilm_l6.trec_qc.yaml"
    print(f"Skipped: no {MINILM}; {recipe} has the commands for it, or set NOTEBOOK_MINILM.")

# %% [markdown]
# Weights of that head in a sentence of the second half.

# %%
if MINILM.exists():
    words = halves[1][0][0]
    ids = tokenizer.encode([" ".join(words)])[0]
    tokens = [tokenizer.start, *ids, tokenizer.end]
    with az.inspection.record(minilm, layers=[f"encoder/{layer}/*"], heads=[int(head)]) as weights:
        minilm({"tokens": np.array([tokens])})
    ((entry,),) = weights.values()
    labels = tokenizer.tokens(tokens)
    az.inspection.plot_head_view(entry.weights[0, 0], labels, labels, FOLDER / "pronoun.png")
    display(Image(FOLDER / "pronoun.png"))

# %% [markdown]
# ## Raw attention, rollout and flow
#
# In higher layers, a hidden state mixes information from many input tokens. Abnar and Zuidema
# ([arXiv 2005.00928](https://arxiv.org/abs/2005.00928)) estimate how much of each input token
# reaches a position, from the weights of all layers below, and compare the estimates with input
# gradients and with the effect of blanking out a token, by Spearman's rank correlation. The model
# is a tagger with four self-attention layers. The output is the score of the predicted tag at the
# first word of the sender or receiver, whose tag depends on the first word and on the end of the
# sentence.

# %%
tagger = az.load(ZOO / "tagging" / "deep_att_small.orders")
TAGS = tagger.model.settings["tags"]
ORDERS = TEXTS // 2
orders = az.data.generate_orders(ORDERS, "test")
rows = {name: [] for name in ("raw attention", "rollout", "flow")}
for number, (words, result) in enumerate(
    zip(orders.words, tagger.predict(orders.words), strict=True)
):
    word = next(i for i, tag in enumerate(result.tags) if tag in ("B-SENDER", "B-RECEIVER"))
    inputs = {"tokens": np.array(tagger.tokenizer.encode([" ".join(words)]))}
    with az.inspection.record(tagger.model) as weights:
        tagger.model(inputs)
    layers = [records[0] for records in weights.values()]
    target = az.inspection.tag_emission(word, TAGS.index(result.tags[word]))
    references = [
        np.abs(az.inspection.attribute(tagger.model, inputs, target, method).scores[0])
        for method in ("gradient_x_input", "occlusion")
    ]
    for depth in range(1, len(layers) + 1):
        scores = {
            "raw attention": layers[depth - 1].weights[0].mean(0)[word],
            "rollout": az.inspection.attention_rollout(layers[:depth])[0, word],
            "flow": az.inspection.attention_flow(layers[:depth], positions=[word])[0, 0],
        }
        for name, score in scores.items():
            rows[name].append([spearmanr(score, one).statistic for one in references])
    if number == 0:
        example = words, word, scores, references
correlations = {
    name: np.array(values).reshape(ORDERS, len(layers), 2).mean(0) for name, values in rows.items()
}
for column, reference in enumerate(("gradient x input", "occlusion")):
    print(
        f"Spearman correlation with {reference}, mean of {ORDERS} sentences, layer 1 to the last:"
    )
    for name, values in correlations.items():
        print(f"    {name}: " + " ".join(f"{value:.2f}" for value in values[:, column]))
    best = max(correlations, key=lambda name: correlations[name][-1, column])
    print(f"    highest in the last layer: {best}")

# %% [markdown]
# The scores of one sentence in the last layer; each row is divided by its largest value. The
# tagged word is in the title.

# %%
words, word, scores, references = example
shown = {**scores, "gradient x input": references[0], "occlusion": references[1]}
az.inspection.plot_alignment(
    [score / score.max() for score in shown.values()],
    list(shown),
    words,
    FOLDER / "rollout.png",
    title=words[word],
)
Image(FOLDER / "rollout.png")

# %% [markdown]
# ## Attention and feature importance
#
# Jain and Wallace ([arXiv 1902.10186](https://arxiv.org/abs/1902.10186)) compare the attention
# weights of classifiers with gradients and with the change of the output when a word is removed
# (leave-one-out), by Kendall's tau. The classifier here is the hierarchical attention network of
# notebook 06: the weight of a word is its weight in the sentence times that of the sentence. The
# gradient is multiplied by the embedding, and also flows through the attention weights, which the
# paper treats as constants.

# %%
classifier = az.load(ZOO / "classification" / "han_small.reviews")
CLASSES = classifier.model.settings["classes"]


def encode_reviews(texts: list[str]) -> np.ndarray:
    """Return the token ids (B, L, W) of the sentences of reviews; 0 is padding."""
    reviews = [classifier.tokenizer.encode(az.data.split_sentences(text)) for text in texts]
    length = max(map(len, reviews))
    width = max(len(sentence) for review in reviews for sentence in review)
    tokens = np.zeros((len(reviews), length, width), "int32")
    for row, review in enumerate(reviews):
        for column, sentence in enumerate(review):
            tokens[row, column, : len(sentence)] = sentence
    return tokens


def predict(model: keras.Model, tokens: np.ndarray) -> np.ndarray:
    """Return the probabilities (B, K) of the classes."""
    logits = model.predict({"tokens": tokens}, batch_size=256, verbose=0)
    return keras.ops.convert_to_numpy(keras.ops.softmax(logits))


def total_variation(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the total variation distance of distributions over the last axis."""
    return np.abs(p - q).sum(-1) / 2


reviews = az.data.generate_reviews(TEXTS, "test", min_sentences=5, max_sentences=5)
tokens = encode_reviews(reviews.texts)
shape, flat = tokens.shape, tokens.reshape(TEXTS, -1)
is_word = flat != 0
probabilities = predict(classifier.model, tokens)
predicted = probabilities.argmax(-1)
_, weights = classifier.model({"tokens": tokens}, return_attention_scores=True)
attention = np.array(weights["tokens"]) * np.array(weights["sentences"])[..., None]
target = az.inspection.class_log_probability(predicted)
gradient = az.inspection.attribute(
    classifier.model, {"tokens": tokens}, target, "gradient_x_input"
).scores
leave_one_out = np.zeros(flat.shape)
rows, columns = np.nonzero(is_word)
without = flat[rows]
without[np.arange(len(rows)), columns] = 0  # padding is ignored
changed = predict(classifier.model, without.reshape(-1, *shape[1:]))
leave_one_out[rows, columns] = total_variation(changed, probabilities[rows])
scores = {
    "attention": attention.reshape(flat.shape),
    "gradient": np.abs(gradient).reshape(flat.shape),
    "leave-one-out": leave_one_out,
    "random": az.inspection.random_scores(flat.shape),
}
print(f"Kendall's tau, mean and standard deviation of {TEXTS} reviews")
means = {}
for first, second in itertools.combinations(scores, 2):
    tau = az.inspection.kendall_tau(scores[first], scores[second], is_word)
    means[first, second] = np.nanmean(tau)
    print(f"{first}, {second}: {means[first, second]:.2f} ± {np.nanstd(tau):.2f}")
if means["attention", "gradient"] < means["gradient", "leave-one-out"]:
    print("Attention agrees less with the gradient than leave-one-out does.")
else:
    print("Attention agrees with the gradient at least as much as leave-one-out does.")

# %% [markdown]
# Rankings with a low correlation may still have the same words at the top. The figure shows the
# probability of the predicted class after the words with the highest scores are deleted: the faster
# it decreases, the more the prediction depends on them.


# %%
def predict_class(flat_tokens: np.ndarray) -> np.ndarray:
    """Return the probability of the class that was predicted for each whole review."""
    return predict(classifier.model, flat_tokens.reshape(shape))[np.arange(TEXTS), predicted]


fractions = (0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1)
options = {"replacement": 0, "fractions": fractions}  # padding, which the model ignores
curves = az.inspection.perturbation_curves(predict_class, flat, scores, **options)
for name, curve in curves.items():
    print(f"{name}: comprehensiveness {curve.comprehensiveness.mean():.2f}")
deletion = {
    name: dict(zip(fractions, curve.deletion.mean(0), strict=True))
    for name, curve in curves.items()
}
az.inspection.plot_length_curve(
    deletion, FOLDER / "deletion.png", "probability", xlabel="fraction of deleted words"
)
Image(FOLDER / "deletion.png")

# %% [markdown]
# ## Permuted weights
#
# If attention explains a prediction, different weights should lead to a different prediction. Jain
# and Wallace permute the weights at random and report the median change of the output, as total
# variation distance. Here the weights of the sentences are permuted. The hidden states of the
# sentences do not change, so only their weighted sum and the output layer are recomputed.


# %%
def get_sentence_states(model: keras.Model, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the states (B, L, D) over which the model pools, and the weights (B, L)."""
    pooling, states = model.attention.poolings[1], []
    call = pooling.call

    def record_states(inputs: object, **options: object) -> object:
        states.append(np.array(inputs))
        return call(inputs, **options)

    pooling.call = record_states
    try:
        _, weights = model({"tokens": tokens}, return_attention_scores=True)
    finally:
        pooling.call = call
    return states[0], np.array(weights["sentences"])


def classify_states(model: keras.Model, states: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the probabilities of the classes for these weights of the sentences."""
    logits = model.head(np.einsum("bl,bld->bd", weights, states))
    return keras.ops.convert_to_numpy(keras.ops.softmax(logits))


states, sentence_weights = get_sentence_states(classifier.model, tokens)
error = np.abs(classify_states(classifier.model, states, sentence_weights) - probabilities).max()
print(f"largest difference to the model with its own weights: {error:.1e}")
rng = np.random.default_rng(1)
permuted = [
    classify_states(classifier.model, states, rng.permuted(sentence_weights, axis=1))
    for _ in range(100)
]
change = np.median([total_variation(one, probabilities) for one in permuted], axis=0)
changed_class = np.mean([one.argmax(-1) != predicted for one in permuted])
print(f"median change of the output: mean of {TEXTS} reviews {change.mean():.2f}")
print(f"permutations that change the predicted class: {changed_class:.1%}")
if change.mean() > 0.1:
    print("The predictions depend on which sentence has which weight.")
else:
    print("The predictions hardly depend on which sentence has which weight.")

# %% [markdown]
# ## Training with uniform weights
#
# Wiegreffe and Pinter ([arXiv 1908.04626](https://arxiv.org/abs/1908.04626)) first test whether
# attention matters for a task at all: they train the same model with frozen uniform weights. They
# also compare the weights of models that differ only in their random seed. Models of both kinds are
# trained here on reviews of three or four sentences, for few steps.

# %%
SEEDS = (1, 2, 3)
short = {
    split: az.data.generate_reviews(size, split, min_sentences=3, max_sentences=4)
    for split, size in (("train", 2000), ("test", max(SENTENCES, 100)))
}
short_tokens = {split: encode_reviews(corpus.texts) for split, corpus in short.items()}
short_labels = {
    split: np.array([CLASSES.index(label) for (label,) in corpus.labels])
    for split, corpus in short.items()
}


def train(seed: int, uniform: bool = False) -> keras.Model:
    """Train a hierarchical attention network; uniform weights have scores that are always 0."""
    keras.utils.set_random_seed(seed)
    model = az.models.HierarchicalAttentionNetwork(
        classifier.model.vocabulary_size,
        CLASSES,
        embedding_dim=40,
        units=40,
        attention_units=40,
        dropout=0.1,
    )
    if uniform:
        for pooling in model.attention.poolings:
            pooling.set_weights([np.zeros_like(weight) for weight in pooling.get_weights()])
            pooling.trainable = False
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0007, STEPS, warmup_target=0.007, warmup_steps=20
    )
    optimizer = keras.optimizers.Adam(schedule, clipnorm=5.0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, jit_compile=False)
    rng = np.random.default_rng(seed)
    for _ in range(STEPS):
        rows = rng.integers(len(short_tokens["train"]), size=32)
        batch = {"tokens": short_tokens["train"][rows]}
        model.train_on_batch(batch, short_labels["train"][rows])
    return model


def measure_accuracy(model: keras.Model) -> float:
    """Return the accuracy on the test reviews."""
    return float(np.mean(predict(model, short_tokens["test"]).argmax(-1) == short_labels["test"]))


models = [train(seed) for seed in SEEDS]
uniform_model = train(SEEDS[0], uniform=True)
accuracies = [measure_accuracy(model) for model in models]
uniform_accuracy = measure_accuracy(uniform_model)
for seed, accuracy in zip(SEEDS, accuracies, strict=True):
    print(f"attention, seed {seed}: accuracy {accuracy:.1%}")
print(f"uniform weights, seed {SEEDS[0]}: accuracy {uniform_accuracy:.1%}, guess {1 / 3:.1%}")
if accuracies[0] - uniform_accuracy > 0.05:
    print("With uniform weights, the same model and number of steps have a lower accuracy.")
else:
    print("After so many steps, the model with attention is not clearly better.")

# %% [markdown]
# The Jensen-Shannon divergence (nats, at most 0.69) of the sentence weights of two seeds, as the
# mean over test reviews and pairs of seeds. For comparison, the divergence from uniform weights and
# that from permuted weights of the same model are also reported.


# %%
def divergence(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the Jensen-Shannon divergence of distributions over the last axis, in nats."""
    middle = (p + q) / 2
    return (rel_entr(p, middle) + rel_entr(q, middle)).sum(-1) / 2


tokens = short_tokens["test"]
by_seed = [get_sentence_states(model, tokens)[1].astype("float64") for model in models]
is_sentence = tokens.any(-1)
uniform = is_sentence / is_sentence.sum(-1, keepdims=True)
shuffled = [weights.copy() for weights in by_seed]
for row, weights in itertools.product(range(len(tokens)), shuffled):
    weights[row, is_sentence[row]] = rng.permutation(weights[row, is_sentence[row]])
between = np.mean([divergence(p, q).mean() for p, q in itertools.combinations(by_seed, 2)])
from_uniform = np.mean([divergence(p, uniform).mean() for p in by_seed])
from_permuted = np.mean([divergence(p, q).mean() for p, q in zip(by_seed, shuffled, strict=True)])
print(f"between seeds {between:.3f}")
print(f"from uniform weights {from_uniform:.3f}, from permuted weights {from_permuted:.3f}")
if between < from_permuted:
    print("The weights of different seeds are closer to each other than to permuted weights.")
else:
    print("The weights of different seeds are no closer to each other than to permuted weights.")
