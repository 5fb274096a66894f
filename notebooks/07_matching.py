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
# # Attention between two texts
#
# Whether a premise entails a hypothesis depends on how their words correspond. ESIM (Chen et al.,
# [arXiv 1609.06038](https://arxiv.org/abs/1609.06038)) aligns both texts with attention and
# compares each word with its aligned words. This notebook loads a model of the zoo, which was
# trained on generated claims, plots its alignment, and tests it on hypotheses with exchanged roles
# and denials and on premises with more facts.

# %%
import json
import os
import tempfile
from pathlib import Path

from IPython.display import Image

import attention_zoo as az
from attention_zoo.data.synthetic.worlds import Fact, evaluate_claim, write_fact

HERE = Path(__file__).parent if "__file__" in globals() else Path.cwd()
ZOO = HERE.parent / "models" / "matching"
FOLDER = Path(os.environ.get("NOTEBOOK_FOLDER", tempfile.mkdtemp()))
PAIRS = int(os.environ.get("NOTEBOOK_SENTENCES", "40"))

# %% [markdown]
# ## The claims
#
# A premise states facts about gifts and numbers of things. Some are denied, or have an unknown
# part. A hypothesis contains only words of its premise, so neither text alone and no word counts
# are informative.

# %%
claims = az.data.generate_claims(PAIRS, "test", max_facts=3)
for first, second, label in list(zip(claims.firsts, claims.seconds, claims.labels, strict=True))[
    :6
]:
    print(f"{label}: {first} | {second}")

# %% [markdown]
# ## A prediction
#
# The class of a pair, and the probabilities of all classes.


# %%
def write(fact: Fact) -> str:
    """Return the first form of the sentence for a fact."""
    return write_fact(fact, lambda n: 0)


bell = {"giver": "Cleo", "receiver": "Finn", "colour": "green", "item": "bell"}
cap = {"giver": "Kim", "receiver": "Leo", "colour": None, "item": "cap"}
pigs = {"owner": "Dora", "number": "ten", "item": "pigs"}
facts = [Fact("gift", bell), Fact("gift", cap, is_denied=True), Fact("holding", pigs)]
premise = " ".join(write(fact) for fact in facts)

task = az.load(ZOO / "esim_small.claims")
(result,) = task.predict([(premise, "Finn got the bell from Cleo.")])
print(f"{result.first} | {result.second}\npredicted: {result.text}")
for name, probability in zip(result.classes, result.probabilities, strict=True):
    print(f"{name}: {probability:.4f}")

# %% [markdown]
# ## The alignment
#
# Rows are words of the premise, columns are words of the hypothesis. The weights of a row sum to 1.

# %%
task.plot(result, FOLDER / "alignment.png")
task.write_report([result], FOLDER / "claims.html")
Image(FOLDER / "alignment.png")

# %% [markdown]
# The same as a table: for each word of the premise, the word of the hypothesis with the largest
# weight.

# %%
for word, weights in zip(result.tokens, result.attention, strict=True):
    best = int(weights.argmax())
    print(f"{word:10} {result.source_tokens[best]:10} {weights[best]:.2f}")

# %% [markdown]
# ## Exchanged roles and denials
#
# Hypotheses about the facts of the same premise. `evaluate_claim` determines the correct class: a
# gift with exchanged roles is false, and a denial exchanges entailment and contradiction. A denied
# fact excludes only itself, so another giver or owner remains possible.

# %%
CLASSES = {True: "entailment", False: "contradiction", None: "neutral"}
plain_bell = {**bell, "colour": None}
claimed = {
    "as stated": (facts[0], bell),
    "without colour": (facts[0], plain_bell),
    "roles exchanged": (facts[0], {**plain_bell, "giver": "Finn", "receiver": "Cleo"}),
    "another giver": (facts[0], {**plain_bell, "giver": "Kim"}),
    "a denied fact": (facts[1], cap),
    "another giver of a denied fact": (facts[1], {**cap, "giver": "Cleo"}),
    "a number": (facts[2], pigs),
    "another owner": (facts[2], {**pigs, "owner": "Leo"}),
}
titles, pairs, correct = [], [], []
for title, (fact, words) in claimed.items():
    for is_denied in (False, True):
        claim = Fact(fact.kind, words, is_denied)
        is_true = evaluate_claim(fact, claim)
        titles.append(title + ", denied" * is_denied)
        pairs.append((premise, write(claim)))
        correct.append(CLASSES[is_true if is_true is None else is_true != is_denied])
for title, result, label in zip(titles, task.predict(pairs), correct, strict=True):
    print(f"{title}: {result.second} -> {result.text}, correct {label}")

# %% [markdown]
# ## Accuracy by number of facts
#
# Training premises have two or three facts. A guess is correct for one third of the pairs.

# %%
curve = {}
for count in (2, 3, 5, 8):
    corpus = az.data.generate_claims(PAIRS, "test", min_facts=count, max_facts=count)
    curve[count] = task.evaluate(corpus)["accuracy"]
    print(f"{count} facts: accuracy {curve[count]:.1f} %")
az.inspection.plot_length_curve(
    {"ESIM": curve}, FOLDER / "facts.png", "accuracy (%)", longest_trained=3, xlabel="facts"
)
Image(FOLDER / "facts.png")

# %% [markdown]
# ## Results
#
# The results of the model cards in `models/matching`.

# %%
METRICS = ("accuracy", "macro_f1", "pearson", "mean_average_precision", "mean_reciprocal_rank")
for path in sorted(ZOO.glob("*/results.json")):
    results = json.loads(path.read_text("utf-8"))
    for entry in results["evaluations"]:
        figures = {key: entry["metrics"][key] for key in METRICS if key in entry["metrics"]}
        line = ", ".join(f"{key} {value:.4g}" for key, value in figures.items())
        print(f"{path.parent.name}, {entry['split']}: {line}")
