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
# Xu et al. ([arXiv 1502.03044](https://arxiv.org/abs/1502.03044)) generate a caption word by word
# and attend to the image before each word. Soft attention weights all positions of the image; hard
# attention samples one position. This notebook trains both on generated images, and as a baseline
# the same decoder without attention, and plots figure 3 of the paper. Then it trains a recurrent
# attention model, which classifies images from glimpses (Mnih et al.,
# [arXiv 1406.6247](https://arxiv.org/abs/1406.6247)), and stacked cross-attention for image-text
# retrieval (Lee et al., [arXiv 1803.08024](https://arxiv.org/abs/1803.08024)).

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
STEPS = os.environ.get("NOTEBOOK_STEPS")  # fewer steps for a quick run; the recipes' own if unset
IMAGES = int(os.environ.get("NOTEBOOK_SENTENCES", "500"))
NAMES = {
    "soft": "show_attend_tell_small.scenes",
    "hard": "show_attend_tell_small.scenes_hard",
    "pooled": "show_attend_tell_small.scenes_pooled",
}


def train(recipe: Path, *options: str) -> az.tasks.Task:
    """Train the task of a recipe, with NOTEBOOK_STEPS on a small training set."""
    overrides = [f"run={FOLDER / recipe.stem}", *options]
    if STEPS:
        overrides += [f"training.steps={STEPS}", f"training.evaluate_every={STEPS}"]
        overrides += ["data.size=200", "data.validation_size=20", "training.batch_size=8"]
    return az.training.fit(recipe, overrides).task


# %% [markdown]
# ## The images
#
# Each image contains one to four objects of different sizes, colours and shapes. A caption
# describes one object, or two objects beside or above each other; each caption of an image counts
# as correct. The split `unseen` has combinations of size, colour and shape that do not occur in
# training. The box of each object is known: top, left, bottom and right as fractions of the image.
# The figure is the first image of `unseen`.

# %%
recipe = RECIPES / "captioning" / f"{NAMES['soft']}.yaml"
data = az.training.read_recipe(recipe, [f"data.test_size={IMAGES}"]).data
scenes = {split: data.read(split) for split in ("test", "unseen")}
for split, corpus in scenes.items():
    print(split, *corpus.captions[0], sep="\n    ")
print(scenes["unseen"].boxes[0])
keras.utils.save_img(FOLDER / "scene.png", scenes["unseen"].images[0], scale=False)
Image(FOLDER / "scene.png", width=192)

# %% [markdown]
# ## Train three captioners
#
# Encoder, decoder and data are the same. `pooled` has no attention: it uses the mean of the grid
# for every word. `hard` starts from the weights of `soft`, because hard attention learns slowly
# from random weights. `search.min_length=2` requires one word and the end token.

# %%
init = {"hard": [f"init={FOLDER / NAMES['soft']}"]}
captioners = {
    title: train(
        RECIPES / "captioning" / f"{name}.yaml", "search.min_length=2", *init.get(title, [])
    )
    for title, name in NAMES.items()
}

# %% [markdown]
# ## Exact match and attention mass
#
# Exact match is the percentage of predictions that equal one of the captions of the image. The
# attention mass (0 to 1) is that of a word inside the box of the object that it names. With uniform
# attention it equals the area of the boxes.

# %%
for split, corpus in scenes.items():
    for title, task in captioners.items():
        report = task.evaluate(corpus)
        line = f"{split}, {title}: exact match {report['exact_match']:.1f} %"
        if "mass_in_boxes" in report:
            line += f", attention mass in boxes {report['mass_in_boxes']:.2f}"
            line += f", area of boxes {report['area_of_boxes']:.2f}"
        print(line)

# %% [markdown]
# ## Exact match by number of objects
#
# With mean pooling, one vector represents all objects. With attention, each word needs only the
# features of one object.

# %%
for count in range(1, 5):
    options = [f"data.test_size={IMAGES}", f"data.min_things={count}", f"data.max_things={count}"]
    corpus = az.training.read_recipe(recipe, options).data.read("test")
    scores = {title: task.evaluate(corpus)["exact_match"] for title, task in captioners.items()}
    print(count, *(f"{title} {score:.1f} %" for title, score in scores.items()))

# %% [markdown]
# ## Correct words in the wrong order
#
# A wrong caption may still have the same words as a correct one, for instance if the colours of two
# objects are swapped.

# %%
answers = {}
for title, task in captioners.items():
    answers[title] = task.predict(scenes["unseen"].images)
    pairs = list(zip(answers[title], scenes["unseen"].captions, strict=True))
    is_exact = [answer.text in captions for answer, captions in pairs]
    has_same_words = [
        sorted(answer.text.split()) in [sorted(caption.split()) for caption in captions]
        for answer, captions in pairs
    ]
    exact, same_words = 100 * np.mean(is_exact), 100 * np.mean(has_same_words)
    print(f"{title}: exact match {exact:.1f} %, wrong order {same_words - exact:.1f} %")

# %% [markdown]
# ## Attention weights
#
# Figure 3 of the paper: the image, and the image again for each word, with unattended parts
# darkened. First soft attention, then hard attention.

# %%
for title in ("soft", "hard"):
    peaks = [weights.max() for answer in answers[title] for weights in answer.attention]
    print(f"{title}: mean of the largest attention weight of a word {np.mean(peaks):.2f}")
    answer = answers[title][0]
    az.inspection.plot_caption_overlay(
        answer.image,
        answer.attention,
        answer.tokens,
        FOLDER / f"{title}.png",
        f"{title}: {answer.text}",
    )
az.inspection.write_caption_page(answers["soft"][:10], FOLDER / "captions.html")
Image(FOLDER / "soft.png")

# %%
Image(FOLDER / "hard.png")

# %% [markdown]
# ## Glimpses
#
# A `RecurrentAttentionModel` does not process the whole image: it takes six glimpses of 8 x 8
# pixels and chooses each location from the previous glimpses. Locations are trained with REINFORCE;
# the reward is a correct prediction. The digits are generated. `vote` averages the probabilities of
# several paths with locations sampled as in training.

# %%
recipe = RECIPES / "glimpses" / "ram_mnist.digits.yaml"
digits = az.training.read_recipe(recipe, [f"data.test_size={IMAGES}"]).data.read("test")
classifier = train(recipe)
paths = classifier.predict(list(digits.images))
labels = [digits.classes[label] for label in digits.labels]
for number, predicted in enumerate(zip(*(path.tokens for path in paths), strict=True), 1):
    error = np.mean([one != label for one, label in zip(predicted, labels, strict=True)])
    print(f"error after glimpse {number}: {100 * error:.1f} %")
voted = keras.ops.convert_to_numpy(classifier.model.vote(digits.images)).argmax(-1)
predicted = [classifier.classes[one] for one in voted]
error = np.mean([one != label for one, label in zip(predicted, labels, strict=True)])
print(f"error of vote: {100 * error:.1f} %")

# %% [markdown]
# The glimpse path on one image: on the left the image with the numbered locations, on the right the
# patches of each glimpse and the class predicted after it.

# %%
path = paths[0]
_, scales, size, *_ = path.patches.shape
glimpses = path.image, path.locations, size, scales
az.inspection.plot_glimpse_path(*glimpses, FOLDER / "glimpses.png", path.tokens, path.text)
az.inspection.write_glimpse_gif(*glimpses, path=FOLDER / "glimpses.gif", answers=path.tokens)
Image(FOLDER / "glimpses.png")

# %%
Image(FOLDER / "glimpses.gif")

# %% [markdown]
# ## Image-text retrieval
#
# A `CrossAttentionRetriever` attends from each word to the regions of an image. Texts retrieve
# their image among all images of a split, and images retrieve their texts: recall at 1, 5 and 10.
# Of several images with identical captions, at most one counts as found.

# %%
retriever = train(RECIPES / "retrieval" / "cross_attention_retriever_small.scenes.yaml")
for split, corpus in scenes.items():
    report = retriever.evaluate(corpus)
    for side, direction in (("image", "text to image"), ("text", "image to text")):
        recalls = [f"{report[f'{side}_recall{k}']:.1f}" for k in (1, 5, 10)]
        print(f"{split}, {direction}: recall at 1 / 5 / 10 {' / '.join(recalls)} %")
    mass, area = report["mass_in_boxes"], report["area_of_boxes"]
    print(f"{split}: attention mass in boxes {mass:.2f}, area of boxes {area:.2f}")

# %% [markdown]
# The two images of `test` that match a text best, with the attention of each word over the regions.

# %%
index = retriever.build_index(scenes["test"])
(result,) = retriever.predict([scenes["test"].captions[0][0]], index=index, n_best=2)
az.inspection.plot_word_regions(result, FOLDER / "regions.png")
Image(FOLDER / "regions.png")

# %% [markdown]
# ## Results
#
# The results of the model cards in `models`.

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
        line = ", ".join(f"{key} {value:.4g}" for key, value in figures.items())
        print(f"{path.parent.name}, {entry['data']}: {line}")
