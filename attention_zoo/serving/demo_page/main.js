// The page: chooses a model, sends its inputs and shows the response.

import {
  getModelPath, getUrl, hasToken, isToken, request, RequestError, setToken,
} from "./api.js";
import { makeCommand, makeCommandView } from "./curl.js";
import { byId, create, makeMessage } from "./dom.js";
import { makeField } from "./fields.js";
import { isOption, Option } from "./options.js";
import { readSignatures } from "./signatures.js";
import { showOutputs, TITLES } from "./views.js";

const DEFAULT = "serving_default", WITH_OPTIONS = "serve_with_options";
const ORDER = ["image", "first", "second", "text"]; // of inputs
const RETRY = 1000; // milliseconds, while models are loading
const FIELD = /^inputs(\.\w+)?(\[0\])?: /; // of an error message
const LOADING = "The models are loading.";
const EXAMPLE_LENGTH = 200; // characters of a button

// `isFilling` is true while an example is written into the fields.
const state = {
  model: null, fields: [], options: [], signature: DEFAULT, running: null, isFilling: false,
};

function showMessage(message, target = byId("message")) {
  target.replaceChildren(...(message ? [makeMessage(message)] : []));
}

function describeError(error) {
  if (!(error instanceof RequestError)) return error.message;
  const message = error.message.replace(FIELD, "");
  return error.status ? `${message} (HTTP status ${error.status})` : message;
}

// Show an error of a request; 401 shows the field of the token.
function showError(error, target) {
  const needsToken = error.status === 401;
  if (needsToken) {
    byId("token-form").hidden = false;
    byId("token").focus();
  }
  showMessage(needsToken && !hasToken() ? null : describeError(error), target);
}

// ---- Models ----

// Try again later; the message is inserted once, because screen readers announce it.
function retry(load) {
  if (byId("message").textContent !== LOADING) showMessage(LOADING);
  setTimeout(load, RETRY);
}

async function loadModels() {
  try {
    await request("readyz"); // before, the list lacks models
    const { models } = await request("v1/models");
    byId("token-form").hidden = true;
    const options = models.map(({ name }) => create("option", { value: name }, name));
    byId("model").replaceChildren(...options);
    document.querySelector(".model").hidden = models.length < 2;
    byId("model").onchange = () => { location.hash = encodeURIComponent(byId("model").value); };
    window.onhashchange = () => selectModel(findModel(models));
    await selectModel(findModel(models));
  } catch (error) {
    if (error.status === 503) retry(loadModels);
    else showError(error);
  }
}

// The model that the fragment of the address names, else the first one.
function findModel(models) {
  const name = location.hash.slice(1);
  return models.find((one) => encodeURIComponent(one.name) === name) ?? models[0];
}

async function selectModel(model) {
  state.running?.abort();
  state.model = model;
  byId("model").value = model.name;
  byId("main").inert = true; // the form is that of the previous model
  byId("result").replaceChildren();
  byId("time").textContent = "";
  try {
    const { metadata } = await request(`${getModelPath(model.name)}/metadata`);
    if (state.model !== model) return;
    showMessage(null);
    showForm(model, readSignatures(metadata));
    byId("main").hidden = byId("main").inert = false;
  } catch (error) {
    if (state.model !== model) return;
    byId("main").hidden = true;
    if (error.status === 503) retry(() => state.model === model && selectModel(model));
    else showError(error);
  }
}

const rank = (name) => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length);

function showForm(model, signatures) {
  state.signature = DEFAULT in signatures ? DEFAULT : Object.keys(signatures)[0];
  const inputs = Object.entries(signatures[state.signature]);
  const optional = Object.entries(signatures[WITH_OPTIONS] ?? {})
    .filter(([, spec]) => isOption(spec)).sort(([a], [b]) => a.localeCompare(b));
  state.fields = inputs.filter(([, spec]) => !spec.isOptional)
    .sort(([a], [b]) => rank(a) - rank(b) || a.localeCompare(b))
    .map(([name, spec]) => makeField(name, spec, model.task));
  state.options = optional.map(([name, spec]) => new Option(name, spec));
  byId("model-name").textContent = model.name;
  byId("task").textContent = (model.task ?? "").replaceAll("_", " ");
  byId("fields").replaceChildren(...state.fields.map(({ element }) => element));
  byId("options").hidden = !state.options.length;
  byId("options").open = false;
  document.querySelector("#options .options").replaceChildren(...state.options.map(({ element }) => element));
  byId("run").textContent = TITLES[model.task]?.[1] ?? "Run";
  byId("result").replaceChildren(create("p", { className: "empty" }, "The result appears here."));
  showExamples(model);
}

function showExamples(model) {
  const examples = (model.examples ?? []).filter((one) => state.fields.some(({ name }) => name in one));
  byId("examples").hidden = !examples.length;
  byId("examples").classList.toggle("pictures", examples.every((one) => Object.values(one).every(({ b64 }) => b64)));
  byId("examples").replaceChildren(create("span", { className: "hint" }, "Examples"),
    ...examples.map((example) => {
      const button = create("button", { type: "button", className: "example" }, ...describe(example));
      button.addEventListener("click", async () => {
        if (state.running || state.isFilling) return;
        await fill(example, examples);
        if (state.model === model) await run();
      });
      return button;
    }));
}

// Write an example into the fields.
async function fill(example, examples) {
  state.isFilling = true;
  try {
    for (const field of state.fields.filter(({ name }) => name in example)) {
      const values = examples.map((one) => one[field.name]);
      await field.set(example[field.name], values.filter((value) => value !== undefined));
    }
  } finally {
    state.isFilling = false;
  }
}

function describe(example) {
  const texts = Object.values(example).filter((value) => typeof value === "string").join(" | ");
  const image = Object.values(example).find((value) => value?.b64);
  const shown = texts.length > EXAMPLE_LENGTH ? `${texts.slice(0, EXAMPLE_LENGTH)}…` : texts;
  const picture = image && create("img", { src: `data:image/png;base64,${image.b64}`, alt: texts ? "" : "image" });
  return [...(picture ? [picture] : []), ...(shown ? [create("span", { dir: "auto" }, shown)] : [])];
}

// ---- Requests ----

// Return the body of a request, the images of the body, and the texts and images for the view.
async function readForm() {
  const { fields, options, signature } = state, body = { inputs: {} }, files = [], inputs = {};
  for (const field of fields) {
    const { json, shown, images } = await field.read();
    body.inputs[field.name] = json;
    Object.assign(inputs, shown);
    files.push(...images);
  }
  const values = options.map((option) => [option.name, option.read()])
    .filter(([, value]) => value !== undefined);
  Object.assign(body.inputs, Object.fromEntries(values));
  const name = values.length ? WITH_OPTIONS : signature;
  if (name !== DEFAULT) body.signature_name = name;
  return { body, files, inputs };
}

// Send the form and show the response; one request runs at a time.
async function run() {
  if (state.running || state.isFilling) return;
  const running = new AbortController(), { model } = state, focused = document.activeElement;
  state.running = running;
  setBusy(true);
  showMessage(null);
  byId("time").textContent = "";
  try {
    const { body, files, inputs } = await readForm();
    const path = `${getModelPath(model.name)}:predict`, start = performance.now();
    const response = await request(path, JSON.stringify(body), running.signal);
    const milliseconds = performance.now() - start;
    if (running.signal.aborted) return;
    const title = TITLES[model.task]?.[0] ?? "Result";
    const command = makeCommand(getUrl(path), body, files, hasToken());
    byId("result").replaceChildren(
      ...showOutputs(response.outputs, { task: model.task, title, inputs }),
      makeCommandView(command));
    byId("time").textContent = `Result in ${milliseconds.toFixed(0)} ms`;
  } catch (error) {
    if (!running.signal.aborted) showError(error, byId("result"));
  } finally {
    state.running = null;
    setBusy(false);
    // A disabled button loses the focus.
    if (document.activeElement === document.body) focused.focus();
  }
}

function setBusy(isBusy) {
  byId("run").disabled = isBusy;
  for (const button of document.querySelectorAll(".example")) button.disabled = isBusy;
  byId("output").ariaBusy = String(isBusy);
  byId("output").classList.toggle("busy", isBusy);
}

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  run();
});
byId("form").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
});
byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = byId("token").value;
  byId("token").value = "";
  if (!isToken(token)) {
    showMessage("The token must have ASCII characters without spaces. Copy it again.");
    byId("token").focus();
    return;
  }
  setToken(token);
  loadModels();
});
loadModels();
