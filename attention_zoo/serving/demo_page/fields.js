// Fields of the inputs of a signature. A field has an `element`, `set(value)` for an example, and
// `read()`, which throws an error for the user or returns `json`, the value of the input in a request,
// `shown`, its texts and images by name for the view, and `images`, those of the request.

import { create, makeMessage } from "./dom.js";
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
// Several images share the bytes and pixels of a request.
const SMALL = { maxImages: 12, maxBytes: 200_000, maxPixels: 1 << 20, maxSide: 512 };
const LARGE = { maxImages: 1, maxBytes: 1_000_000, maxPixels: 1 << 24, maxSide: 1024 };

let count = 0;

const getLabel = (name, task) => LABELS[task]?.[name] ?? name.replaceAll("_", " ");

export function makeField(name, spec, task) {
  const isRow = spec.shape.length === 1, isText = spec.dtype === "string" && spec.shape.length <= 1;
  if (name === "image" && isText && isRow) return new ImageField(name, task);
  return isText ? new TextField(name, isRow, task) : new JsonField(name, spec);
}

// A text; `isRow` is false for inputs without axes.
class TextField {
  constructor(name, isRow, task, rows = LONG.includes(task) ? 10 : 4) {
    Object.assign(this, { name, isRow });
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
    const text = this.readText();
    return { json: this.wrap(text), shown: { [this.name]: text }, images: [] };
  }

  readText() {
    return this.input.value.trim() ? this.input.value : this.fail(`${this.label}: enter a text.`);
  }

  // Return the value of the input of a request with one row.
  wrap(value) {
    return this.isRow ? [value] : value;
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
    super(name, spec.shape.length > 0, null, 4);
    const shape = spec.shape.slice(1).map((size) => (size < 0 ? "?" : size)).join(", ");
    this.label = `${this.label}: ${spec.dtype} (${shape}) as JSON`;
    this.element.querySelector("label").textContent = this.label;
  }

  set(value) {
    super.set(JSON.stringify(value));
  }

  read() {
    const text = this.readText();
    try {
      return { json: this.wrap(JSON.parse(text)), shown: {}, images: [] };
    } catch {
      return this.fail(`${this.label}: the value must be valid JSON.`);
    }
  }
}

// One image, or several for retrieval: from files, or drawn.
class ImageField {
  constructor(name, task) {
    const isMultiple = task === "retrieval";
    Object.assign(this, { name, isMultiple, limits: isMultiple ? SMALL : LARGE, images: [] });
    this.pending = Promise.resolve();
    this.label = getLabel(name, task);
    const id = `field-${++count}`;
    this.input = create("input", { id, type: "file", accept: TYPES.join(), multiple: this.isMultiple });
    this.input.addEventListener("change", () => {
      this.add(this.input.files);
      this.input.value = "";
    });
    const label = create("label", { className: "button", htmlFor: id },
      this.isMultiple ? "Add images" : "Choose an image");
    this.list = create("div", { className: "thumbnails" });
    this.messages = create("div");
    const zone = create("div", { className: "zone" }, this.input, label,
      create("span", { className: "hint" }, "or drop it here"), this.list);
    zone.addEventListener("dragover", (event) => event.preventDefault());
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      this.add(event.dataTransfer.files);
    });
    this.element = create("div", { className: "field", role: "group", ariaLabel: this.label },
      create("span", { className: "label" }, this.label), zone, this.messages,
      this.makePad(task === "glimpses"));
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

  // Run a task after the earlier ones, so that images are read in the order of the user's actions.
  enqueue(task) {
    this.pending = this.pending.then(task, task);
    return this.pending;
  }

  addDrawing() {
    if (this.pad.isEmpty) return;
    this.pad.isUsed = true;
    const blob = this.pad.toBlob(), name = `drawing-${++count}.png`;
    this.enqueue(() => this.readAll([{ name, getBlob: () => blob, isFile: false }]));
  }

  add(files) {
    if (!files.length) return;
    this.pad.isUsed = true;
    const sources = [...files].map((file) => ({ name: file.name, getBlob: () => file, isFile: true }));
    this.enqueue(() => this.readAll(sources));
  }

  // With several images, those of all examples are searched.
  set(value, values) {
    this.pad.isUsed = true;
    const sources = (this.isMultiple ? values : [value]).map(({ b64 }, n) =>
      ({ name: `example-${n + 1}.png`, getBlob: () => decode(b64), isFile: false }));
    return this.enqueue(() => {
      this.show([]);
      return this.readAll(sources);
    });
  }

  // Read images in order and show them; list those that are not added.
  async readAll(sources) {
    const errors = [], excess = [], { maxImages } = this.limits;
    for (const [index, { name, getBlob, isFile }] of sources.entries()) {
      if ((this.isMultiple ? this.images.length : index) >= maxImages) {
        excess.push(name);
        continue;
      }
      try {
        const image = await readImage(await getBlob(), name, { ...this.limits, isFile });
        this.show(this.isMultiple ? [...this.images, image] : [image]);
      } catch (error) {
        errors.push(error.message);
      }
    }
    const maximum = this.isMultiple ? `${maxImages} images` : "one image";
    if (excess.length) errors.push(`The maximum is ${maximum}. Not added: ${excess.join(", ")}.`);
    this.messages.replaceChildren(...errors.map(makeMessage));
  }

  show(images) {
    this.images = images;
    this.list.replaceChildren(...images.map((image) => {
      const remove = create("button",
        { type: "button", className: "small", ariaLabel: `Remove ${image.name}` }, "×");
      remove.addEventListener("click", () => this.remove(image));
      const save = create("a", { href: image.url, download: image.name }, image.name);
      return create("figure", {}, create("img", { src: image.url, alt: image.name }), remove,
        create("figcaption", { title: image.name }, image.isFile ? image.name : save));
    }));
  }

  // Remove an image; the focus moves to the button of the next one.
  remove(image) {
    const index = this.images.indexOf(image);
    this.show(this.images.filter((one) => one !== image));
    const buttons = this.list.querySelectorAll("button");
    (buttons[Math.min(index, buttons.length - 1)] ?? this.input).focus();
  }

  async read() {
    if (!this.pad.isUsed) this.addDrawing();
    await this.pending;
    const { images } = this;
    if (!images.length) {
      this.input.focus();
      throw new Error(`${this.label}: choose or draw an image.`);
    }
    const json = images.map(({ b64 }) => ({ b64 }));
    return { json, shown: this.isMultiple ? { images } : { image: images[0] }, images };
  }
}
