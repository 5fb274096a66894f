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
# A summary needs correct names and numbers and should not repeat itself. See, Liu and Manning
# ([arXiv 1704.04368](https://arxiv.org/abs/1704.04368)) add two mechanisms to a
# sequence-to-sequence model. With copying, it generates a word from the vocabulary or copies a word
# of the source. With coverage, its attention also takes the sum of the previous attention weights
# as input. This notebook trains three models on generated reports: without either, with copying,
# and with copying and coverage. It plots figures 1 and 4 of the paper.

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
STEPS = os.environ.get("NOTEBOOK_STEPS")  # fewer steps for a quick run; the recipes' own if unset
REPORTS = int(os.environ.get("NOTEBOOK_SENTENCES", "300"))
SPLITS = ("test", "unseen", "long")
NAMES = {
    "generate": "pointer_generator_small.reports_no_copy",
    "generate or copy": "pointer_generator_small.reports_five",
    "generate or copy, coverage": "pointer_generator_coverage_small.reports_five",
}

# %% [markdown]
# ## The reports
#
# A report describes a few events among distractors: events that are long past, only planned or not
# true. Its summary has one sentence per event. Names and numbers in the split `test` are frequent
# in training. Those in `unseen` do not occur in training and are not in the vocabulary. Reports
# have up to five events in training and six to ten in `long`.

# %%
recipe = az.training.read_recipe(RECIPES / "pointer_generator_small.reports_five.yaml")
corpora = {split: recipe.data.read(split).take(range(REPORTS)) for split in SPLITS}
for split, pairs in corpora.items():
    print(f"{split}: {pairs.sources[0]}\n    -> {pairs.targets[0]}\n")

# %% [markdown]
# ## Train three models
#
# Model sizes and data are equal. Coverage starts after half of the steps. The model without copying
# trains for more steps, because it has to learn to generate each frequent name and number.

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
# ## Names and numbers
#
# `facts` is the percentage of correct names and numbers. A model without copying cannot generate
# those that do not occur in training.

# %%
answers = {}
for title, task in tasks.items():
    for split, pairs in corpora.items():
        report = task.evaluate(pairs)
        scores = {key: round(report[key], 1) for key in ("rouge1", "rouge2", "rougeL", "facts")}
        print(f"{title}, {split}: {scores}, copied {report['copied_tokens']:.0f} % of words")
    answers[title] = task.predict(corpora["unseen"].sources)

# %% [markdown]
# ## Copy probabilities
#
# The mean probability that a word was copied, for names and numbers and for other words.

# %%
for title in list(NAMES)[1:]:
    probabilities: dict[str, list[float]] = {"names and numbers": [], "other words": []}
    for answer in answers[title]:
        for word, copied in zip(answer.tokens, answer.copied, strict=True):
            is_fact = bool(az.metrics.extract_facts(f"a {word}"))
            probabilities["names and numbers" if is_fact else "other words"].append(copied)
    means = {
        kind: round(float(np.mean(values or [0.0])), 2) for kind, values in probabilities.items()
    }
    print(f"{title}: {means}")

# %% [markdown]
# ## Repetition
#
# Figure 4 of the paper: the percentage of the n-grams of a summary that occur earlier in it, for
# each model and for the reference summaries. The reports are those of `long`, which have more
# events than the training reports.

# %%
summaries = {
    title: [answer.text for answer in task.predict(corpora["long"].sources)]
    for title, task in tasks.items()
}
summaries["reference"] = list(corpora["long"].targets)
repeats = {
    title: {n: az.metrics.repeated_ngrams(texts, n) for n in range(1, 5)}
    for title, texts in summaries.items()
}
az.inspection.plot_length_curve(repeats, FOLDER / "repeats.png", "repeated n-grams (%)", xlabel="n")
Image(FOLDER / "repeats.png")

# %% [markdown]
# ## Attention and copied words
#
# Figure 1 of the paper, for a report with names that do not occur in training. The report is shaded
# by the attention weights of the summary, and copied words are framed. The bar below each word of
# the summary is the probability that it was copied. The HTML page shows the weights of the word
# under the mouse pointer.

# %%
title = "generate or copy, coverage"
az.inspection.write_summary_page(answers[title][:10], FOLDER / "summaries.html")
az.inspection.plot_summary_heat(answers[title][0], FOLDER / "heat.png", title=title)
Image(FOLDER / "heat.png")

# %% [markdown]
# The same report with the model without copying.

# %%
title = "generate"
az.inspection.plot_summary_heat(answers[title][0], FOLDER / "plain.png", title=title)
Image(FOLDER / "plain.png")

# %% [markdown]
# ## Real texts
#
# Subject lines of e-mails (AESLC) and one-sentence summaries of papers (SciTLDR), trained with the
# recipes in `training/summarization`. The results are those of the model cards in
# `models/summarization`.

# %%
for path in sorted(ZOO.glob("*/results.json")):
    results = json.loads(path.read_text("utf-8"))
    for entry in results["evaluations"]:
        metrics = entry["metrics"]
        names = ("rouge1", "rouge2", "rougeL", "facts", "repeated_3grams")
        line = ", ".join(f"{key} {metrics[key]:.4g}" for key in names if key in metrics)
        print(f"{path.parent.name}, {entry['split']}: {line}")
