// Elements and numbers. All text becomes text nodes; nothing is parsed as HTML.

export function create(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

export function createSvg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export const byId = (id) => document.getElementById(id);

// Text in its own writing direction.
export const isolate = (text) => create("bdi", {}, text);

export const quote = (text) => ["“", isolate(text), "”"];

export function makeCard(title, ...children) {
  return create("section", { className: "card", ariaLabel: title },
    create("h2", {}, title), ...children);
}

// An error; screen readers announce it.
export const makeMessage = (text) => create("p", { className: "message", role: "alert" }, text);

export const isNumber = (value) => typeof value === "number";

// The server sends null for numbers that are not finite.
export const formatNumber = (value, digits = 2) =>
  isNumber(value) ? value.toFixed(digits).replace(/^-(?=.*[1-9])/, "−").replace("-", "") : "–";

export const formatShare = (value) => (isNumber(value) ? `${(100 * value).toFixed(1)} %` : "–");

export const sum = (values) => values.reduce((total, value) => total + value, 0);

export const getLargest = (values) => values.reduce((a, b) => Math.max(a, b), 0);

// A group of radio buttons, for views with several hypotheses.
export function makeChoices(label, contents, onChoose) {
  const name = `choices-${Math.random().toString(36).slice(2)}`;
  const items = contents.map((content, index) => {
    const input = create("input", { type: "radio", name, checked: index === 0 });
    input.addEventListener("change", () => onChoose(index));
    return create("label", { className: "choice" }, input, ...content);
  });
  return create("div", { className: "choices", role: "radiogroup", ariaLabel: label }, ...items);
}

// A list of names with probabilities as bars; `chosen` are the names to emphasize.
export function makeBars(label, rows, chosen = []) {
  const items = rows.map(([name, share]) => {
    const bar = create("i", { ariaHidden: "true" });
    bar.style.setProperty("--share", Math.min(Math.max(share ?? 0, 0), 1));
    return create("li", { className: chosen.includes(name) ? "chosen" : "" },
      create("span", { dir: "auto", title: name }, name), bar,
      create("small", {}, formatShare(share)));
  });
  return create("ul", { className: "bars", ariaLabel: label }, ...items);
}
