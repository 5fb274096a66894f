// Views of captions, glimpses and retrieved images.

import {
  create, createSvg, formatNumber, formatShare, getLargest, isNumber, isolate, makeBars,
  makeCard, makeMessage, quote,
} from "./dom.js";
import { listHypotheses, makeNote, showRanked } from "./text_views.js";
import { trim, Words } from "./tokens.js";

const STOPS = [[88, 28, 135], [190, 40, 140], [245, 130, 70], [252, 250, 170]];

// The colour of a share of the largest weight: red, green, blue and opacity.
function getHeat(share) {
  const position = Math.min(Math.max(share, 0), 1) * (STOPS.length - 1);
  const left = Math.min(Math.floor(position), STOPS.length - 2), part = position - left;
  const color = STOPS[left].map((value, i) => value * (1 - part) + STOPS[left + 1][i] * part);
  return [...color, 255 * Math.min(0.85, 3 * share)];
}

// Draw weights of a grid; the style stretches the canvas over the image.
function makeHeat(weights, largest) {
  const [height, width] = [weights.length, weights[0].length];
  const canvas = create("canvas", { width, height, ariaHidden: "true" });
  const context = canvas.getContext("2d"), image = context.createImageData(width, height);
  const shares = weights.flat().map((weight) => (largest > 0 ? (weight ?? 0) / largest : 0));
  shares.forEach((share, i) => image.data.set(getHeat(share), 4 * i));
  context.putImageData(image, 0, 0);
  return canvas;
}

export function makePhoto(image, alt, ...overlays) {
  const photo = create("div", { className: "photo" }, create("img", { src: image.url, alt }), ...overlays);
  photo.style.setProperty("--ratio", `${image.width} / ${image.height}`);
  return photo;
}

// Show the heat map of the token under the pointer or of the selected token over a photo.
function connectHeat(words, photo, attention, largest, onShow) {
  const show = (index) => {
    photo.querySelector("canvas")?.remove();
    if (index !== null) photo.append(makeHeat(attention[index], largest));
    words.mark(index);
    onShow(index);
  };
  words.onSelect(show);
  show(null);
}

function makeScale(largest) {
  const ramp = makeHeat([[...Array(101).keys()].map((n) => n / 100)], 1);
  ramp.className = "scale";
  return create("p", { className: "legend" }, "0", ramp, formatNumber(largest, 3));
}

// A caption, with the attention weights of each token over the image.
export function showCaption(outputs, context) {
  const hypotheses = listHypotheses(outputs,
    ["text", "tokens", "lengths", "finished", "token_scores", "attention"]);
  return showRanked(hypotheses, (one) => makeCaption(one, context));
}

function makeCaption(hypothesis, context) {
  const tokens = trim(hypothesis.tokens, hypothesis.lengths), image = context.inputs.image;
  const words = new Words("Output tokens", tokens, hypothesis.text);
  words.element.classList.add("result-text");
  const status = create("p", { className: "status", role: "status" });
  const note = hypothesis.finished === false ? [makeNote("The output ends at the maximum length.")] : [];
  const describe = (index) => {
    const score = index === null ? null : hypothesis.token_scores?.[index];
    status.replaceChildren(...(isNumber(score)
      ? [...quote(tokens[index]), ` has probability ${formatShare(Math.exp(score))}`]
      : [`Score ${formatNumber(hypothesis.score)}, ${tokens.length} tokens.`]));
  };
  if (!tokens.length) words.element.replaceChildren(create("em", {}, "(empty)"));
  const card = makeCard(context.title, words.element, status, ...note);
  if (!hypothesis.attention || !tokens.length) {
    words.onSelect((index) => { words.mark(index); describe(index); });
    describe(null);
    return [card];
  }
  const weights = hypothesis.attention.slice(0, tokens.length);
  const largest = getLargest(weights.flat(2));
  const photo = makePhoto(image, "The image with attention weights");
  connectHeat(words, photo, weights, largest, describe);
  const copies = tokens.map((token, index) => create("figure", {},
    makePhoto(image, "", makeHeat(weights[index], largest)),
    create("figcaption", { dir: "auto", title: token }, token)));
  return [card, makeCard("Attention",
    makeNote("Hover over a token to show its attention weights over the image."),
    create("div", { className: "photo-line" }, photo, makeScale(largest)),
    create("div", { className: "gallery" }, ...copies))];
}

// The class of an image, with the path of the glimpses.
export function showGlimpses(outputs, context) {
  const { classes, probabilities, locations, text } = outputs, image = context.inputs.image;
  const points = locations.map(([y, x]) => [50 * (x + 1), 50 * (y + 1)]);
  const path = createSvg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" },
    createSvg("polyline", { points: points.map(String).join(" ") }));
  const marks = points.map(([x, y], index) => {
    const mark = create("b", { className: "glimpse", ariaHidden: "true" }, String(index + 1));
    mark.style.left = `${x}%`;
    mark.style.top = `${y}%`;
    return mark;
  });
  const items = points.map((_, index) => {
    const item = create("li", { tabIndex: 0 }, isolate(outputs.tokens[index]));
    const mark = (isActive) => () => marks[index].classList.toggle("active", isActive);
    for (const name of ["mouseenter", "focus"]) item.addEventListener(name, mark(true));
    for (const name of ["mouseleave", "blur"]) item.addEventListener(name, mark(false));
    return item;
  });
  return [
    makeCard(context.title, create("p", { className: "result-text", dir: "auto" }, text),
      makeBars("Probabilities", classes.map((name, n) => [name, probabilities[n]]), [text])),
    makeCard("Glimpses", makeNote("Numbers are the centres of the glimpses, in order."),
      create("div", { className: "photo-line" },
        makePhoto(image, "The image with the locations of the glimpses", path, ...marks),
        create("div", {}, makeNote("Class predicted after each glimpse:"),
          create("ol", { className: "glimpses" }, ...items)))),
  ];
}

// Images ranked for a text: `outputs` are those of all images and of the texts.
export function showRetrieval(outputs, context) {
  const images = context.inputs.images;
  const tokens = trim(outputs.tokens[0], outputs.lengths?.[0]);
  const bestImages = outputs.image_indices[0], attention = outputs.attention?.[0];
  // All images are ranked; attention weights exist for the best ones, those of `image_indices`.
  const ranked = outputs.similarities.map(([similarity], image) => ({ image, similarity }))
    .filter(({ similarity }) => isNumber(similarity)).sort((a, b) => b.similarity - a.similarity);
  const largest = getLargest(attention?.flat(3) ?? []);
  const words = new Words("Tokens of the text", tokens, context.inputs.text);
  const figures = ranked.map(({ image, similarity }, rank) => {
    const photo = makePhoto(images[image], `Image ${image + 1}`);
    const caption = create("figcaption", { title: images[image].name },
      `${rank + 1}. ${images[image].name}`,
      create("small", { title: "similarity" }, formatNumber(similarity, 3)));
    const weights = attention?.[bestImages.indexOf(image)];
    return { photo, weights, element: create("figure", {}, photo, caption) };
  });
  words.onSelect((index) => {
    words.mark(index);
    for (const { photo, weights } of figures) {
      photo.querySelector("canvas")?.remove();
      if (index !== null && weights) photo.append(makeHeat(weights[index], largest));
    }
  });
  const failed = images.flatMap((image, index) => (outputs.image_ok?.[index] === false
    ? [makeMessage(`${image.name}: ${outputs.image_error[index]}`)] : []));
  const note = "Images are sorted by similarity, best first. Hover over a token to show its attention"
    + " weights.";
  return [makeCard(context.title, makeNote(note), words.element, ...failed,
    create("div", { className: "gallery large" }, ...figures.map(({ element }) => element)))];
}
