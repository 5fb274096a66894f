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
# # Copying and coverage
#
# A summary has to have names and figures right, and to say nothing twice. See, Liu and Manning
# ([arXiv 1704.04368](https://arxiv.org/abs/1704.04368)) give a sequence-to-sequence model two
# things for it: it may copy a word of the text instead of saying one of its vocabulary, and its
# attention knows where it has looked. This notebook trains a model with neither, with the first
# and with both, on generated reports, and draws their figures 1 and 4.

# %%
import json
import os
import tempfile
from pathlib import Path

import numpy as np
from IPython.display import Image

import attention_zoo as az

HERE = Path(__file__).parent if "__file__" in globals() else Path.cwd()
RECIPES = HERE.parent / "training" / "summarization"
ZOO = HERE.parent / "models" / "summarization"
FOLDER = Path(os.environ.get("NOTEBOOK_FOLDER", tempfile.mkdtemp()))
STEPS = os.environ.get("NOTEBOOK_STEPS")  # fewer steps for a quick look; the recipes' own if unset
REPORTS = int(os.environ.get("NOTEBOOK_SENTENCES", "300"))
SPLITS = ("test", "unseen", "long")
NAMES = {
    "says": "pointer_generator_small.reports_no_copy",
    "says or copies": "pointer_generator_small.reports_five",
    "says or copies, coverage": "pointer_generator_coverage_small.reports_five",
}

# %% [markdown]
# ## The reports
#
# A report tells of a few events among much that is none: events long past, only planned, or not
# true. Its summary says in a sentence each what has happened. Names and figures of the split `test`
# are common ones; those of `unseen` stand in no training report, so that no vocabulary has them.
# Training has up to five events a report, and `long` six to ten.

# %%
recipe = az.training.read_recipe(RECIPES / "pointer_generator_small.reports_five.yaml")
corpora = {split: recipe.data.read(split).take(range(REPORTS)) for split in SPLITS}
for split, pairs in corpora.items():
    print(f"{split}: {pairs.sources[0]}\n    -> {pairs.targets[0]}\n")

# %% [markdown]
# ## Training three models
#
# The same sizes and data; coverage comes in at half of the steps. The model that cannot copy gets
# more of them: it has to learn every common name and figure by itself.

# %%
tasks = {}
for title, name in NAMES.items():
    overrides = [f"run={FOLDER / name}", "data.max_events=5"]
    if STEPS:
        overrides += [f"training.steps={STEPS}", f"training.evaluate_every={STEPS}"]
        overrides += ["data.size=500", "data.validation_size=20", "training.batch_size=8"]
        overrides += [f"model.coverage.from_step={int(STEPS) // 2}"] * ("coverage" in title)
    tasks[title] = az.training.fit(RECIPES / f"{name}.yaml", overrides).task

# %% [markdown]
# ## Names and figures
#
# `facts` is how many of them are right. A model that only says words can know those that it has
# read in training; what it has not, it cannot.

# %%
answers = {}
for title, task in tasks.items():
    for split, pairs in corpora.items():
        report = task.evaluate(pairs)
        told = {key: round(report[key], 1) for key in ("rouge1", "rouge2", "rougeL", "facts")}
        print(f"{title}, {split}: {told}, copied {report['copied_tokens']:.0f} % of words")
    answers[title] = task.predict(corpora["unseen"].sources)

# %% [markdown]
# ## What is copied
#
# How probable it is that a word was copied: names and figures, and other words.

# %%
for title in list(NAMES)[1:]:
    shares: dict[str, list[float]] = {"names and figures": [], "other words": []}
    for answer in answers[title]:
        for word, copied in zip(answer.tokens, answer.copied, strict=True):
            fact = bool(az.metrics.facts(f"a {word}"))
            shares["names and figures" if fact else "other words"].append(copied)
    means = {kind: round(float(np.mean(values or [0.0])), 2) for kind, values in shares.items()}
    print(f"{title}: {means}")

# %% [markdown]
# ## What is said twice
#
# The paper's figure 4: how many of the n-grams of a summary stood in it before, without coverage
# and with it, and in the summaries as they should be. The reports are those of `long`, which have
# more events than a model has ever had to keep apart.

# %%
written = {
    title: [answer.text for answer in task.predict(corpora["long"].sources)]
    for title, task in tasks.items()
}
written["as it should be"] = list(corpora["long"].targets)
repeats = {
    title: {n: az.metrics.repeated_ngrams(texts, n) for n in range(1, 5)}
    for title, texts in written.items()
}
az.inspection.plot_length_curve(
    repeats, FOLDER / "repeats.png", "n-grams that stood there before (%)", xlabel="n"
)
Image(FOLDER / "repeats.png")

# %% [markdown]
# ## Where a summary came from
#
# The paper's figure 1, on a report whose names no model has seen: the attention of the summary on
# the report, what was copied framed, and below each word of the summary a bar for the probability
# that it was copied. The page beside it follows the pointer, word by word.

# %%
shown = answers["says or copies, coverage"]
az.inspection.write_summary_page(shown[:10], FOLDER / "summaries.html")
az.inspection.plot_summary_heat(shown[0], FOLDER / "heat.png", title="says or copies, coverage")
Image(FOLDER / "heat.png")

# %% [markdown]
# The same report, by the model that cannot copy.

# %%
plain = answers["says"][0]
az.inspection.plot_summary_heat(plain, FOLDER / "plain.png", title="says")
Image(FOLDER / "plain.png")

# %% [markdown]
# ## Real texts
#
# Subjects of e-mails (AESLC) and sentences that sum up papers (SciTLDR), as the recipes of
# `training/summarization` measure them; every figure is that of a card in `models/summarization`.

# %%
for path in sorted(ZOO.glob("*/results.json")):
    results = json.loads(path.read_text("utf-8"))
    for entry in results["evaluations"]:
        metrics = entry["metrics"]
        names = ("rouge1", "rouge2", "rougeL", "facts", "repeated_3grams")
        told = ", ".join(f"{key} {metrics[key]:.4g}" for key in names if key in metrics)
        print(f"{path.parent.name}, {entry['split']}: {told}")
