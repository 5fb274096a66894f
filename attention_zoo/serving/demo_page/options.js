// Controls of the optional inputs of a signature; an empty control leaves the default.

import { create } from "./dom.js";

// Ranges of sliders; other numbers have no slider.
const RANGES = { max_length: [1, 200, 1], temperature: [0.1, 2, 0.05], top: [1, 20, 1] };
const LABELS = {
  max_length: "Maximum length",
  prefixes: "Begin the output with",
  seed: "Seed",
  temperature: "Temperature",
  top: "Predictions per mask",
};

const isInteger = (dtype) => /^u?int/.test(dtype);

export class Option {
  constructor(name, spec) {
    Object.assign(this, { name, spec, isRow: spec.shape.length === 1 });
    this.label = LABELS[name] ?? name.replaceAll("_", " ");
    const isText = spec.dtype === "string";
    this.input = create("input", {
      type: isText || spec.dtype === "bool" ? "text" : "number", dir: "auto", placeholder: this.getPlaceholder(),
      step: isInteger(spec.dtype) ? "1" : "any", className: isText ? "wide" : "",
    });
    const slider = RANGES[name] && this.makeSlider(...RANGES[name]);
    this.element = create("label", { className: "option" }, create("span", {}, this.label),
      ...(slider ? [slider] : []), this.input);
  }

  // 0 stands for the default of some options.
  getPlaceholder() {
    const { initial } = this.spec;
    if (initial === undefined || initial === "" || initial === 0) return "default";
    return typeof initial === "number" ? String(Number(initial.toFixed(4))) : String(initial);
  }

  makeSlider(min, max, step) {
    const slider = create("input", { type: "range", min, max, step, ariaLabel: this.label });
    slider.value = this.spec.initial || (min + max) / 2;
    slider.addEventListener("input", () => { this.input.value = slider.value; });
    this.input.addEventListener("input", () => { if (this.input.value) slider.value = this.input.value; });
    return slider;
  }

  // Return the value of the option; undefined for the default.
  read() {
    const { spec, input } = this, text = input.value;
    if (input.validity.badInput) this.fail("must be a number");
    if (text === "") return undefined;
    const value = spec.dtype === "string" ? text : this.parse(text);
    return this.isRow ? [value] : value;
  }

  parse(text) {
    if (this.spec.dtype === "bool") {
      if (!["true", "false"].includes(text)) this.fail("must be true or false");
      return text === "true";
    }
    const value = Number(text);
    if (isInteger(this.spec.dtype) && !Number.isSafeInteger(value)) this.fail("must be a whole number");
    return value;
  }

  fail(reason) {
    this.input.closest("details").open = true;
    this.input.focus();
    throw new Error(`${this.label}: ${reason}.`);
  }
}

// Options are scalars, or texts of each row.
export const isOption = (spec) => spec.isOptional && spec.shape.length <= 1;
