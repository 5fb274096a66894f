// Fields of the inputs of a signature. A field has an `element`, `set(value)` for an example, and
// `read()`, which returns the JSON value of the input or throws an error for the person.

import { create } from "./dom.js";
import { decode, DrawingPad, readImage, TYPES } from "./images.js";

const MASK = "[MASK]";
const LONG = ["summarization", "classification"]; // tasks with long texts
const LABELS = {
  captioning: { image: "Image" },
  classification: { text: "Text" },
  glimpses: { image: "Image" },
  language_modeling: { text: "Beginning of the text" },
  masked_language_modeling: { text: "Text with [MASK]" },
  matching: { first: "First text", second: "Second text" },
  retrieval: { image: "Images", text: "Text" },
  summarization: { text: "Text to summarize" },
  tagging: { text: "Sentence" },
  translation: { text: "Text to translate" },
};
const SMALL = { maxBytes: 200_000, maxSide: 512 }; // several images share the body of a request
const LARGE = { maxBytes: 1_000_000, maxSide: 1024 };
const MAX_IMAGES = 12;

let count = 0;

const getLabel = (name, task) => LABELS[task]?.[name] ?? name.replaceAll("_", " ");

export function makeField(name, spec, task, onError) {
  if (name === "image" && spec.dtype === "string") return new ImageField(name, task, onError);
  const isText = spec.dtype === "string" && spec.shape.length === 1;
  return isText ? new TextField(name, task) : new JsonField(name, spec);
}

class TextField {
  constructor(name, task, rows = LONG.includes(task) ? 10 : 4) {
    this.name = name;
    this.label = getLabel(name, task);
    const id = `field-${++count}`;
    this.input = create("textarea", { id, rows, dir: "auto", spellcheck: false });
    this.input.addEventListener("input", () => this.input.removeAttribute("aria-invalid"));
    const label = create("label", { htmlFor: id }, this.label);
    const tools = task === "masked_language_modeling" ? [this.makeMaskButton()] : [];
    this.element = create("div", { className: "field" },
      create("div", { className: "line" }, label, ...tools), this.input);
  }

  makeMaskButton() {
    const button = create("button", { type: "button", className: "small" }, `Insert ${MASK}`);
    button.addEventListener("click", () => {
      this.input.setRangeText(MASK, this.input.selectionStart, this.input.selectionEnd, "end");
      this.input.focus();
    });
    return button;
  }

  set(value) {
    this.input.value = value;
    this.input.removeAttribute("aria-invalid");
  }

  read() {
    if (this.input.value.trim()) return this.input.value;
    this.fail(`${this.label}: enter a text.`);
  }

  fail(message) {
    this.input.setAttribute("aria-invalid", "true");
    this.input.focus();
    throw new Error(message);
  }
}

// An input of another type, as JSON.
class JsonField extends TextField {
  constructor(name, spec) {
    super(name, null, 4);
    const shape = spec.shape.slice(1).map((size) => (size < 0 ? "?" : size)).join(", ");
    this.label = `${this.label}: ${spec.dtype} (${shape}) as JSON`;
    this.element.querySelector("label").textContent = this.label;
  }

  set(value) {
    super.set(JSON.stringify(value));
  }

  read() {
    try {
      return JSON.parse(super.read());
    } catch (error) {
      return this.fail(error instanceof SyntaxError ? `${this.label}: this is not JSON.` : error.message);
    }
  }
}

// One image, or several for retrieval: from files, or drawn.
class ImageField {
  constructor(name, task, onError) {
    Object.assign(this, { name, onError, images: [], isMultiple: task === "retrieval" });
    this.label = getLabel(name, task);
    this.limits = this.isMultiple ? SMALL : LARGE;
    const id = `field-${++count}`;
    this.input = create("input", { id, type: "file", accept: TYPES.join(), multiple: this.isMultiple });
    this.input.addEventListener("change", () => this.add(this.input.files));
    const label = create("label", { className: "button", htmlFor: id },
      this.isMultiple ? "Add images" : "Choose an image");
    this.list = create("div", { className: "thumbnails" });
    const zone = create("div", { className: "zone" }, this.input, label,
      create("span", { className: "hint" }, "or drop it here"), this.list);
    zone.addEventListener("dragover", (event) => event.preventDefault());
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      this.add(event.dataTransfer.files);
    });
    this.element = create("div", { className: "field", role: "group", ariaLabel: this.label },
      create("span", { className: "label" }, this.label), zone, this.makePad(task === "glimpses"));
  }

  makePad(isDark) {
    const [light, dark] = ["#ffffff", "#000000"];
    const pen = create("input", { type: "color", value: isDark ? light : dark });
    const background = create("input", { type: "color", value: isDark ? dark : light });
    const size = create("input", { type: "range", min: 4, max: 60, value: isDark ? 22 : 16 });
    const canvas = create("canvas", { className: "pad", role: "img", ariaLabel: "Drawing pad" });
    this.pad = new DrawingPad(canvas, pen, size, background);
    const clear = create("button", { type: "button", className: "small" }, "Clear");
    const use = create("button", { type: "button", className: "small" },
      this.isMultiple ? "Add drawing" : "Use drawing");
    clear.addEventListener("click", () => this.pad.clear());
    background.addEventListener("change", () => this.pad.clear());
    use.addEventListener("click", () => this.addDrawing());
    return create("details", { className: "drawing" }, create("summary", {}, "Draw an image"), canvas,
      create("div", { className: "line" }, create("label", {}, "Pen ", pen),
        create("label", {}, "Size ", size), create("label", {}, "Background ", background)),
      create("div", { className: "line" }, use, clear));
  }

  async addDrawing() {
    if (this.pad.isEmpty) return;
    this.pad.isEmpty = true;
    await this.addBlob(await this.pad.toBlob(), `drawing-${++count}.png`, false);
  }

  async add(files) {
    this.onError(null);
    for (const file of files) await this.addBlob(file, file.name, true);
    this.input.value = "";
  }

  async addBlob(blob, name, isFile) {
    try {
      const image = await readImage(blob, name, { ...this.limits, isFile });
      this.show(this.isMultiple ? [...this.images, image].slice(-MAX_IMAGES) : [image]);
    } catch (error) {
      this.onError(error.message);
    }
  }

  // With several images, those of all examples are searched.
  async set(value, values) {
    this.show([]);
    const shown = this.isMultiple ? values : [value];
    for (const [n, { b64 }] of shown.entries()) await this.addBlob(decode(b64), `example-${n + 1}.png`, false);
  }

  show(images) {
    this.images = images;
    this.list.replaceChildren(...images.map((image) => {
      const remove = create("button",
        { type: "button", className: "small", ariaLabel: `Remove ${image.name}` }, "×");
      remove.addEventListener("click", () => this.show(this.images.filter((one) => one !== image)));
      const save = create("a", { href: image.url, download: image.name }, image.name);
      return create("figure", {}, create("img", { src: image.url, alt: image.name }), remove,
        create("figcaption", { title: image.name }, image.isFile ? image.name : save));
    }));
  }

  async read() {
    if (!this.pad.isEmpty) await this.addDrawing();
    if (!this.images.length) {
      this.input.focus();
      throw new Error(`${this.label}: choose or draw an image.`);
    }
    return this.isMultiple ? this.images : this.images[0];
  }
}
