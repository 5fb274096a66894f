// Views of generated texts, filled masks, tags, classes and matched texts.
// A view takes the outputs of one row, and a context: inputs, task and title.

import {
  create, formatNumber, formatShare, getLargest, isNumber, makeBars, makeCard, makeChoices, quote,
} from "./dom.js";
import { listLargest, Matrix } from "./matrix.js";
import { alignTokens, trim, Words } from "./tokens.js";

const asList = (value) => (Array.isArray(value) ? value : [value]);

// Return the hypotheses as objects; unused beams have a null score and are dropped.
export function listHypotheses(outputs, names) {
  const hypotheses = asList(outputs.scores).map((score, n) => ({
    score, ...Object.fromEntries(names.map((name) => [name, outputs[name]?.[n]])),
  }));
  const scored = hypotheses.filter((one) => isNumber(one.score));
  return scored.length ? scored : hypotheses.slice(0, 1);
}

// The cards of the chosen hypothesis; below the first one, the n-best list if there are several.
export function showRanked(hypotheses, makeCards) {
  const [top, bottom] = [create("div"), create("div")];
  const show = (index) => {
    const [card, ...others] = makeCards(hypotheses[index]);
    top.replaceChildren(card);
    bottom.replaceChildren(...others);
  };
  show(0);
  if (hypotheses.length < 2) return [top, bottom];
  const contents = hypotheses.map(({ text, score }) => [
    create("span", { className: "grow", dir: "auto" }, text || "(empty)"),
    create("small", { title: "score" }, formatNumber(score)),
  ]);
  const choices = makeChoices("Hypotheses", contents, show);
  return [top, makeCard(`${hypotheses.length} best`, choices), bottom];
}

export const makeNote = (text) => create("p", { className: "hint" }, text);

// Generated text: translations, summaries and continuations.
export function showText(outputs, context) {
  const names = ["text", "tokens", "lengths", "finished", "token_scores", "copied", "origins", "attention"];
  const hypotheses = listHypotheses(outputs, names);
  const sources = trim(outputs.source_tokens ?? []);
  return showRanked(hypotheses, (one) => makeHypothesis(one, sources, outputs, context));
}

function makeHypothesis(hypothesis, sources, outputs, context) {
  const tokens = trim(hypothesis.tokens ?? [], hypothesis.lengths);
  const words = new Words("Output tokens", tokens, hypothesis.text);
  words.element.classList.add("result-text");
  const isCopied = markCopies(words, hypothesis);
  const status = create("p", { className: "status", role: "status" });
  const notes = [
    ...(isCopied ? [makeNote("Underlined words are copied from the source.")] : []),
    ...(hypothesis.finished === false ? [makeNote("The output ends at the maximum length.")] : []),
    ...(outputs.source_truncated ? [makeNote("The source was truncated.")] : []),
  ];
  if (!tokens.length) words.element.replaceChildren(create("em", {}, "(empty)"));
  const card = makeCard(context.title, words.element, status, ...notes);
  const hasAttention = hypothesis.attention && tokens.length && sources.length;
  const describe = (index) => {
    const score = hypothesis.token_scores?.[index];
    status.replaceChildren(...(index === null || !isNumber(score) ? [
      tokens.length ? `Score ${formatNumber(hypothesis.score)}, ${tokens.length} tokens.` : "",
    ] : [...quote(tokens[index]), ` has probability ${formatShare(Math.exp(score))}`,
      ...describeCopy(hypothesis, index, sources)]));
  };
  describe(null);
  if (!hasAttention) {
    words.onSelect((index) => { words.mark(index); describe(index); });
    return [card];
  }
  const weights = crop(hypothesis.attention, tokens.length, sources.length);
  const onMark = (row) => describe(row);
  const pair = connect(words, tokens, sources, weights, context.inputs.text, "Source", onMark);
  return [card, makeCard("Attention",
    makeNote("Hover over an output token to shade the source by its attention weights."),
    pair.other.element, pair.matrix.element)];
}

const crop = (weights, rows, columns) =>
  weights.slice(0, rows).map((row) => row.slice(0, columns).map((weight) => weight ?? 0));

// Mark words that are more probably copied than generated; return whether there are any.
function markCopies(words, { copied, origins }) {
  if (!copied || !origins) return false;
  const isCopied = words.tokens.map((_, index) => copied[index] > 0.5 && origins[index] >= 0);
  words.tokens.forEach((token, index) => token.classList.toggle("copied", isCopied[index]));
  return isCopied.includes(true);
}

function describeCopy({ copied, origins }, index, sources) {
  if (!(copied?.[index] > 0.5) || !(origins?.[index] >= 0)) return [];
  const origin = sources[origins[index]];
  return [`, copied with probability ${formatShare(copied[index])}`,
    ...(origin ? [" from ", ...quote(origin), `, token ${origins[index] + 1}`] : [])];
}

// Connect the rows of a matrix with `words`, and its columns with a second text: a token under the
// pointer shades the other text.
function connect(words, rows, columns, weights, text, label, onMark = () => {}) {
  const other = new Words(`${label} tokens`, columns, text);
  const select = (row, column) => {
    words.mark(row);
    other.mark(column);
    matrix.mark(row, column);
    other.shade(row === null ? null : weights[row]);
    words.shade(column === null || row !== null ? null : weights.map((one) => one[column]));
    onMark(row);
  };
  const matrix = new Matrix(rows, columns, weights, select);
  words.onSelect((row) => select(row, null));
  other.onSelect((column) => select(null, column));
  return { other, matrix };
}

// Texts with filled masks, and the most probable tokens of each mask.
export function showMasks(outputs, context) {
  const texts = asList(outputs.text);
  const [best] = texts;
  const masks = outputs.predictions.filter((tokens) => tokens[0] !== "");
  const lists = masks.map((tokens, mask) => makeCard(
    masks.length > 1 ? `Mask ${mask + 1}` : "Predictions",
    makeBars(`Mask ${mask + 1}`, tokens.map((token, n) => [token, outputs.probabilities[mask][n]]),
      tokens.slice(0, 1))));
  const text = create("p", { className: "result-text", dir: "auto" }, best);
  return [makeCard(context.title, text), create("div", { className: "columns-of-cards" }, ...lists)];
}

const HUES = [215, 150, 35, 330, 265, 185, 85, 5];

// Tags of words, in colour: spans if the task has a tag scheme, else a tag below each word.
export function showTags(outputs, context) {
  const isRanked = Array.isArray(outputs.scores);
  const names = ["tags", "probabilities", "spans", "span_labels", "span_probabilities"];
  const hypotheses = isRanked ? listHypotheses(outputs, names) : [{ ...outputs, score: outputs.scores }];
  const ranked = hypotheses.map((one) => ({ ...one, text: trim(one.tags).join(" ") }));
  return showRanked(ranked, (one) => makeTagged(one, outputs, context));
}

function makeTagged(hypothesis, outputs, context) {
  const words = trim(outputs.words, outputs.lengths), { tags, spans } = hypothesis;
  const parts = (spans ?? outputs.offsets.slice(0, words.length)).map(([start, end], n) => ({
    start, end,
    label: (spans ? hypothesis.span_labels : tags)[n],
    share: (spans ? hypothesis.span_probabilities : hypothesis.probabilities)?.[n],
  })).filter(({ start, end, label }) => end > start && label);
  const labels = [...new Set(parts.map(({ label }) => label))].sort();
  const characters = Array.from(context.inputs.text); // offsets count characters, not code units
  const slice = (start, end) => characters.slice(start, end).join("");
  const text = create("p", { className: "tagged", dir: "auto" });
  let cursor = 0;
  for (const { start, end, label, share } of parts) {
    text.append(slice(cursor, start), makeSpan(slice(start, end), label, share, labels));
    cursor = end;
  }
  text.append(slice(cursor));
  const score = `Log probability ${formatNumber(hypothesis.score)}, ${words.length} words.`;
  const none = spans && !parts.length ? [makeNote("No spans were found.")] : [];
  return [makeCard(context.title, text, ...none, create("p", { className: "status" }, score)),
    makeTagTable(words, tags, hypothesis.probabilities)];
}

function makeSpan(text, label, share, labels) {
  // A label with a direction of its own does not count for that of the sentence.
  const mark = create("span", { className: "span" }, text, create("small", { dir: "ltr" }, label));
  mark.style.setProperty("--hue", HUES[labels.indexOf(label) % HUES.length]);
  if (isNumber(share)) mark.title = `${label}, probability ${formatShare(share)}`;
  return mark;
}

function makeTagTable(words, tags, probabilities) {
  const head = create("tr", {}, ...["word", "tag", "probability"].map(
    (name) => create("th", { scope: "col" }, name)));
  const rows = words.map((word, index) => create("tr", {},
    create("td", { dir: "auto" }, word), create("td", {}, tags[index]),
    create("td", { className: "number" }, formatShare(probabilities?.[index]))));
  return create("details", { className: "card" }, create("summary", {}, "All words"),
    create("div", { className: "scroll" }, create("table", {}, create("thead", {}, head),
      create("tbody", {}, ...rows))));
}

// The class of a text, with the weights of its words or of its sentences and their words.
export function showClasses(outputs, context) {
  const { classes, probabilities, text } = outputs;
  const chosen = classes.includes(text) ? [text] : text.split(", ");
  const rows = classes.map((name, n) => [name, probabilities[n]]);
  rows.sort((a, b) => (b[1] ?? 0) - (a[1] ?? 0));
  const card = makeCard(context.title,
    create("p", { className: "result-text", dir: "auto" }, text || "no class"),
    makeBars("Probabilities", rows, chosen));
  if (!outputs.attention) return [card];
  const isDocument = Array.isArray(outputs.tokens[0]);
  return [card, (isDocument ? makeDocument : makeWeighted)(outputs, context)];
}

function makeWeighted(outputs, context) {
  const tokens = trim(outputs.tokens), weights = outputs.attention;
  const words = new Words("Tokens", tokens, context.inputs.text);
  const status = create("p", { className: "status", role: "status" });
  const show = (index) => {
    words.mark(index);
    status.replaceChildren(...(index === null ? ["Largest: ", ...listLargest(tokens, weights)]
      : [...quote(tokens[index]), ` ${formatNumber(weights[index], 3)}`]));
  };
  words.shade(weights);
  words.onSelect(show);
  show(null);
  return makeCard("Attention", makeNote("Tokens are shaded by their attention weights."),
    words.element, status);
}

function makeDocument({ tokens, attention, sentence_attention: shares }, context) {
  const rows = tokens.map((row) => trim(row)), largest = getLargest(shares);
  const texts = splitSentences(context.inputs.text, rows);
  const sentences = rows.map((words, n) => {
    if (!words.length) return null;
    const line = new Words(`Sentence ${n + 1}`, words, texts?.[n] ?? null, false);
    const scale = largest > 0 ? Math.sqrt(shares[n] / largest) : 0;
    line.shade(attention[n].map((weight) => weight * scale), getLargest(attention[n]));
    const item = create("li", {}, line.element,
      create("small", { title: "weight of the sentence" }, formatNumber(shares[n], 3)));
    item.style.setProperty("--a", largest > 0 ? (shares[n] / largest).toFixed(3) : 0);
    return item;
  });
  const note = "The bar and the number at a sentence are its weight. Words are shaded by their"
    + " weights in the sentence, multiplied by the square root of its weight.";
  return makeCard("Attention", makeNote(note),
    create("ol", { className: "sentences" }, ...sentences.filter(Boolean)));
}

// Return the text of each sentence; null if the tokens are not part of the text.
function splitSentences(text, rows) {
  const parts = alignTokens(text, rows.flat());
  if (!parts) return null;
  const ends = rows.map((_, n) => rows.slice(0, n + 1).flat().length);
  const sentences = rows.map(() => "");
  let current = 0;
  for (const [part, index] of parts) {
    while (index >= ends[current]) current += 1;
    sentences[current] += part;
  }
  return sentences.map((sentence) => sentence.trim());
}

// Two texts: their class or score, and their alignment.
export function showMatch(outputs, context) {
  const { classes, probabilities, text, scores } = outputs;
  const rows = classes?.map((name, n) => [name, probabilities[n]]) ?? [];
  rows.sort((a, b) => (b[1] ?? 0) - (a[1] ?? 0));
  const main = create("p", { className: "result-text", dir: "auto" }, text ?? formatNumber(scores, 3));
  const card = makeCard(text === undefined ? "Score" : context.title, main,
    ...(classes ? [makeBars("Probabilities", rows, [text])] : []));
  const first = trim(outputs.first_tokens), second = trim(outputs.second_tokens);
  if (!outputs.attention || !first.length || !second.length) return [card];
  const weights = crop(outputs.attention, first.length, second.length);
  const words = new Words("Tokens of the first text", first, context.inputs.first);
  const pair = connect(words, first, second, weights, context.inputs.second, "Second text");
  return [card, makeCard("Alignment",
    makeNote("Hover over a token to shade the other text by its attention weights."),
    words.element, pair.other.element, pair.matrix.element)];
}
