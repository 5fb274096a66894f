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
# # Show, attend and tell
#
# Xu et al. ([arXiv 1502.03044](https://arxiv.org/abs/1502.03044)) write a caption word by word, and
# look at the image before each of them: softly, at all places by weights, or hard, at one place
# that is drawn. This notebook trains both on generated pictures, and the same decoder on one vector
# for the whole picture, and draws the paper's figure 3. Then come eyes that move (Mnih et al.,
# [arXiv 1406.6247](https://arxiv.org/abs/1406.6247)), and words that find regions (Lee et al.,
# [arXiv 1803.08024](https://arxiv.org/abs/1803.08024)).

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
RECIPES = HERE.parent / "training"
ZOO = HERE.parent / "models"
FOLDER = Path(os.environ.get("NOTEBOOK_FOLDER", tempfile.mkdtemp()))
STEPS = os.environ.get("NOTEBOOK_STEPS")  # fewer steps for a quick look; the recipes' own if unset
PICTURES = int(os.environ.get("NOTEBOOK_SENTENCES", "500"))
NAMES = {
    "soft": "show_attend_tell_small.scenes",
    "hard": "show_attend_tell_small.scenes_hard",
    "pooled": "show_attend_tell_small.scenes_pooled",
}


def learn(recipe: Path, *options: str) -> az.tasks.Task:
    """The task of a recipe, trained; for a quick look on little data."""
    overrides = [f"run={FOLDER / recipe.stem}", *options]
    if STEPS:
        overrides += [f"training.steps={STEPS}", f"training.evaluate_every={STEPS}"]
        overrides += ["data.size=200", "data.validation_size=20", "training.batch_size=8"]
    return az.training.fit(recipe, overrides).task


# %% [markdown]
# ## The pictures
#
# One to four things each, of some size, colour and shape. Captions tell of one, or of two that are
# beside or above each other; all those of a picture are right. In the split `unseen` are sizes,
# colours and shapes that training never has together. The boxes of the things are known: top, left,
# bottom and right, in fractions. Shown is the first picture of `unseen`.

# %%
recipe = RECIPES / "captioning" / f"{NAMES['soft']}.yaml"
data = az.training.read_recipe(recipe, [f"data.test_size={PICTURES}"]).data
scenes = {split: data.read(split) for split in ("test", "unseen")}
for split, corpus in scenes.items():
    print(split, *corpus.captions[0], sep="\n    ")
print(scenes["unseen"].boxes[0])
keras.utils.save_img(FOLDER / "scene.png", scenes["unseen"].images[0], scale=False)
Image(FOLDER / "scene.png", width=192)

# %% [markdown]
# ## Training three captioners
#
# The same encoder, decoder and data. `pooled` looks at no place: it has the mean of the grid,
# whatever the word. `hard` starts from what `soft` has learnt, since draws that know nothing yet
# teach very slowly. A caption has a word at least, and its end.

# %%
start = {"hard": [f"init={FOLDER / NAMES['soft']}"]}
captioners = {
    title: learn(
        RECIPES / "captioning" / f"{name}.yaml", "search.min_length=2", *start.get(title, [])
    )
    for title, name in NAMES.items()
}

# %% [markdown]
# ## Who tells it right
#
# Per cent of captions that are one of the picture's to the letter. Beside it how much of the
# attention of a word that names a thing lies within that thing's box, and how much of the picture
# these boxes take: looks that were spread evenly would have as much.

# %%
for split, corpus in scenes.items():
    for title, task in captioners.items():
        report = task.evaluate(corpus)
        told = f"{split}, {title}: {report['exact_match']:.1f} % exact"
        if "mass_in_boxes" in report:
            told += f", {report['mass_in_boxes']:.2f} of looks in boxes"
            told += f" of {report['area_of_boxes']:.2f} of the picture"
        print(told)

# %% [markdown]
# ## How many things
#
# One vector has more to hold as things are added; attention has no more to look at.

# %%
for count in range(1, 5):
    options = [f"data.test_size={PICTURES}", f"data.min_things={count}", f"data.max_things={count}"]
    some = az.training.read_recipe(recipe, options).data.read("test")
    shares = {title: task.evaluate(some)["exact_match"] for title, task in captioners.items()}
    print(count, *(f"{title} {share:.1f} %" for title, share in shares.items()))

# %% [markdown]
# ## Wrong words, or right ones in wrong places
#
# A caption that is none of them may still have all the words of one, as when the colours of both
# things are exchanged.

# %%
answers = {}
for title, task in captioners.items():
    answers[title] = task.predict(scenes["unseen"].images)
    pairs = list(zip(answers[title], scenes["unseen"].captions, strict=True))
    right = [answer.text in captions for answer, captions in pairs]
    words = [
        sorted(answer.text.split()) in [sorted(caption.split()) for caption in captions]
        for answer, captions in pairs
    ]
    exact, alike = 100 * np.mean(right), 100 * np.mean(words)
    print(f"{title}: {exact:.1f} % right, {alike - exact:.1f} % of the right words elsewhere")

# %% [markdown]
# ## Where each word looked
#
# The paper's figure 3: the picture, and for each word the picture again, lit where the model
# looked. First softly, then hard.

# %%
for title in ("soft", "hard"):
    peaks = [look.max() for answer in answers[title] for look in answer.attention]
    print(f"{title}: the place that is looked at most has {np.mean(peaks):.2f} of a look")
    shown = answers[title][0]
    az.inspection.plot_caption_overlay(
        shown.image,
        shown.attention,
        shown.tokens,
        FOLDER / f"{title}.png",
        f"{title}: {shown.text}",
    )
az.inspection.write_caption_page(answers["soft"][:10], FOLDER / "captions.html")
Image(FOLDER / "soft.png")

# %%
Image(FOLDER / "hard.png")

# %% [markdown]
# ## Eyes that move
#
# A `RecurrentAttentionModel` never sees the whole image: it takes six glimpses of 8 x 8 pixels,
# each where the ones before suggest. Where to look it learns from nothing but whether its answer
# was right. The digits are generated. A vote is of several paths that stray as in training.

# %%
recipe = RECIPES / "glimpses" / "ram_mnist.digits.yaml"
digits = az.training.read_recipe(recipe, [f"data.test_size={PICTURES}"]).data.read("test")
looker = learn(recipe)
paths = looker.predict(list(digits.images))
truth = [digits.classes[label] for label in digits.labels]
for number, told in enumerate(zip(*(path.tokens for path in paths), strict=True), 1):
    wrong = np.mean([one != other for one, other in zip(told, truth, strict=True)])
    print(f"after glimpse {number}: {100 * wrong:.1f} % wrong")
voted = keras.ops.convert_to_numpy(looker.model.vote(digits.images)).argmax(-1)
wrong = np.mean([looker.classes[one] != other for one, other in zip(voted, truth, strict=True)])
print(f"by a vote: {100 * wrong:.1f} % wrong")

# %% [markdown]
# The path of one image, numbered: left the image, right what was seen at each glimpse, and below it
# what the model would have said then.

# %%
path = paths[0]
_, scales, size, *_ = path.seen.shape
drawn = path.image, path.locations, size, scales
az.inspection.plot_glimpse_path(*drawn, FOLDER / "glimpses.png", path.tokens, path.text)
az.inspection.write_glimpse_gif(*drawn, path=FOLDER / "glimpses.gif", answers=path.tokens)
Image(FOLDER / "glimpses.png")

# %%
Image(FOLDER / "glimpses.gif")

# %% [markdown]
# ## Words that find regions
#
# A `CrossAttentionRetriever` compares each word with each region. A text seeks its picture among
# all those of a split, and a picture its texts: how many per cent are found first, among the first
# five and the first ten. What is said of several pictures in the same words can find one of them
# only.

# %%
retriever = learn(RECIPES / "retrieval" / "cross_attention_retriever_small.scenes.yaml")
for split, corpus in scenes.items():
    report = retriever.evaluate(corpus)
    for side, told in (("image", "pictures of texts"), ("text", "texts of pictures")):
        shares = [f"{report[f'{side}_recall{k}']:.1f}" for k in (1, 5, 10)]
        print(f"{split}, {told}: {' / '.join(shares)} %")
    inside, even = report["mass_in_boxes"], report["area_of_boxes"]
    print(f"{split}: {inside:.2f} of looks in boxes of {even:.2f} of the picture")

# %% [markdown]
# The two pictures of `test` that match a text best, and the regions that match each word there.

# %%
index = retriever.index(scenes["test"])
(found,) = retriever.predict([scenes["test"].captions[0][0]], index=index, n_best=2)
az.inspection.plot_word_regions(found, FOLDER / "regions.png")
Image(FOLDER / "regions.png")

# %% [markdown]
# ## Measured
#
# What the cards in `models` say, each figure as its run has measured it.

# %%
METRICS = (
    "bleu4",
    "cider",
    "exact_match",
    "mass_in_boxes",
    "error",
    "image_recall1",
    "text_recall1",
)
TASKS = ("captioning", "glimpses", "retrieval")
for path in [path for name in TASKS for path in sorted((ZOO / name).glob("*/results.json"))]:
    results = json.loads(path.read_text("utf-8"))
    for entry in results["evaluations"]:
        figures = {key: entry["metrics"][key] for key in METRICS if key in entry["metrics"]}
        told = ", ".join(f"{key} {value:.4g}" for key, value in figures.items())
        print(f"{path.parent.name}, {entry['data']}: {told}")
