// A matrix of attention weights: one cell for each pair of a row and a column token.

import { create, getLargest, quote } from "./dom.js";

const CELL = { least: 15, most: 32, width: 780 }; // pixels
const drawn = new WeakMap(); // canvas -> weights

const clamp = (value, least, most) => Math.min(Math.max(value, least), most);

// Draw one pixel for each weight in the accent colour; the style enlarges the canvas.
function draw(canvas) {
  const weights = drawn.get(canvas), largest = getLargest(weights.flat());
  const context = canvas.getContext("2d"), { width, height } = canvas;
  const image = context.createImageData(width, height);
  const accent = getComputedStyle(document.documentElement).getPropertyValue("--accent").split(",");
  weights.forEach((row, y) => row.forEach((weight, x) => {
    image.data.set([...accent, 255 * (largest > 0 ? weight / largest : 0)], 4 * (y * width + x));
  }));
  context.putImageData(image, 0, 0);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
  document.querySelectorAll(".cells canvas").forEach(draw));

// Scripts whose characters stay upright in vertical text.
const UPRIGHT = /\p{Script=Han}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Script=Hangul}/u;

function makeLabels(className, tokens) {
  const labels = tokens.map((token) => create("span",
    { dir: "auto", title: token, className: UPRIGHT.test(token) ? "upright" : "" }, token));
  return create("div", { className, ariaHidden: "true" }, ...labels);
}

export class Matrix {
  // `onSelect` is called with the row and the column under the pointer, or with nulls.
  constructor(rows, columns, weights, onSelect) {
    Object.assign(this, { rows, columns, weights });
    const canvas = create("canvas", {
      width: columns.length, height: rows.length, role: "img",
      ariaLabel: `Attention weights, ${rows.length} rows and ${columns.length} columns`,
    });
    this.canvas = canvas;
    drawn.set(canvas, weights);
    draw(canvas);
    this.bands = ["row", "column"].map((side) => create("i", { className: `band ${side}`, hidden: true }));
    this.cells = create("div", { className: "cells" }, canvas, ...this.bands);
    const scroll = create("div", { className: "scroll matrix", tabIndex: 0, role: "group",
      ariaLabel: "Attention matrix" },
    create("span"), makeLabels("columns", columns), makeLabels("rows", rows), this.cells);
    const cell = clamp(Math.floor(CELL.width / columns.length), CELL.least, CELL.most);
    scroll.style.setProperty("--cell", `${cell}px`);
    scroll.style.setProperty("--rows", rows.length);
    scroll.style.setProperty("--columns", columns.length);
    this.status = create("p", { className: "status", role: "status" });
    this.element = create("div", {}, scroll, this.status);
    this.cells.addEventListener("mousemove", (event) => {
      const box = canvas.getBoundingClientRect();
      const find = (offset, size, count) => clamp(Math.floor(offset / size * count), 0, count - 1);
      const row = find(event.clientY - box.top, box.height, rows.length);
      onSelect(row, find(event.clientX - box.left, box.width, columns.length));
    });
    this.cells.addEventListener("mouseleave", () => onSelect(null, null));
    this.mark(null, null);
  }

  // Outline a row and a column, and describe them below the matrix.
  mark(row, column) {
    [row, column].forEach((index, side) => {
      const name = ["row", "column"][side];
      this.bands[side].hidden = index === null;
      this.bands[side].style.setProperty("--index", index ?? 0);
      this.element.querySelectorAll(`.${name}s span`).forEach(
        (label, other) => label.classList.toggle("active", other === index));
    });
    this.status.replaceChildren(...this.describe(row, column));
  }

  describe(row, column) {
    const { rows, columns, weights } = this;
    if (row === null && column === null) return ["Hover over a token or a cell for its weights."];
    if (row !== null && column !== null) {
      const weight = (weights[row][column] ?? 0).toFixed(3);
      return [...quote(rows[row]), " → ", ...quote(columns[column]), `  ${weight}`];
    }
    const [token, others, values] = row !== null
      ? [rows[row], columns, weights[row]]
      : [columns[column], rows, weights.map((one) => one[column])];
    return [...quote(token), row !== null ? " → " : " ← ", ...listLargest(others, values)];
  }
}

// The tokens with the largest weights, with their weights.
export function listLargest(tokens, weights, count = 4) {
  const ranked = tokens.map((token, index) => [token, weights[index] ?? 0])
    .filter(([, weight]) => weight >= 0.0005).sort((a, b) => b[1] - a[1]).slice(0, count);
  if (!ranked.length) return ["no token"];
  return ranked.flatMap(([token, weight], rank) =>
    [rank ? ", " : "", ...quote(token), ` ${weight.toFixed(3)}`]);
}
