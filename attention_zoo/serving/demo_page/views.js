// The view of a response: by the name of the task, else by the names of the outputs.

import { create, makeCard, makeMessage } from "./dom.js";
import { showCaption, showGlimpses, showRetrieval } from "./image_views.js";
import { showClasses, showMasks, showMatch, showTags, showText } from "./text_views.js";

const MAX_JSON = 20000; // characters

// Views with the outputs that they need; the first one whose outputs exist is used.
const VIEWS = {
  retrieval: [showRetrieval, ["image_indices", "similarities", "tokens"], "images"],
  glimpses: [showGlimpses, ["locations", "classes", "probabilities", "text", "tokens"], "image"],
  tagging: [showTags, ["words", "offsets", "tags", "scores"], "text"],
  masked_language_modeling: [showMasks, ["predictions", "probabilities", "text"], "text"],
  matching: [showMatch, ["first_tokens", "second_tokens", "scores"], "first"],
  captioning: [showCaption, ["text", "tokens", "lengths", "scores"], "image"],
  classification: [showClasses, ["classes", "probabilities", "text", "tokens"], "text"],
  translation: [showText, ["text", "tokens", "lengths", "scores"], "text"],
};
const SAME_VIEW = { summarization: "translation", language_modeling: "translation" };

export const TITLES = {
  captioning: ["Caption", "Describe"],
  classification: ["Class", "Classify"],
  glimpses: ["Class", "Classify"],
  language_modeling: ["Continuation", "Continue"],
  masked_language_modeling: ["Filled text", "Fill masks"],
  matching: ["Result", "Compare"],
  retrieval: ["Images", "Search"],
  summarization: ["Summary", "Summarize"],
  tagging: ["Tags", "Tag"],
  translation: ["Translation", "Translate"],
};

function chooseView(outputs, context) {
  const name = SAME_VIEW[context.task] ?? context.task;
  const candidates = [VIEWS[name], ...Object.values(VIEWS)].filter(Boolean);
  return candidates.find(([, needed, input]) =>
    input in context.inputs && needed.every((key) => key in outputs))?.[0];
}

// Return the elements that show the outputs of a response.
// The context has `task`, `title` and `inputs`: the texts and images that were sent, by name.
export function showOutputs(columns, context) {
  const isNamed = columns !== null && typeof columns === "object" && !Array.isArray(columns);
  const isRetrieval = isNamed && "image_indices" in columns;
  const outputs = isNamed && Object.fromEntries(Object.entries(columns).map(([name, values]) =>
    [name, isRetrieval || !Array.isArray(values) ? values : values[0]]));
  const isOk = outputs && (isRetrieval ? outputs.ok?.[0] : outputs.ok) !== false;
  if (outputs && !isOk) {
    const reason = isRetrieval ? outputs.error?.[0] : outputs.error;
    return [makeMessage(reason || "The input was not processed.")];
  }
  const view = outputs && chooseView(outputs, context);
  try {
    if (view) return view(outputs, context);
  } catch (error) { // outputs of the same names with other shapes
    console.error(error);
  }
  return showJson(columns, context);
}

function showJson(value, context) {
  const text = JSON.stringify(value, null, 2);
  const shown = text.length > MAX_JSON ? `${text.slice(0, MAX_JSON)}…` : text;
  return [makeCard(context.title, create("pre", { className: "scroll", tabIndex: 0 }, shown))];
}
