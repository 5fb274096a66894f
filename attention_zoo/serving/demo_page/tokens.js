// Texts as tokens that one can hover over, select and shade.

import { create, getLargest } from "./dom.js";

const MARKS = /^(?:▁|Ġ|##)+|@@$|<\/w>$/g; // of subword tokenizers
const NEAR = 40; // characters between tokens, where some are unknown

// Remove the empty strings that pad the tokens of a row.
export function trim(tokens, length = tokens.length) {
  let end = Math.min(length, tokens.length);
  while (end > 0 && tokens[end - 1] === "") end -= 1;
  return tokens.slice(0, end);
}

// Return parts [string, token index or -1] that together are the text; null if a token is not part
// of the text. Tokens may be in lower case; an unknown token covers the text between its neighbours.
export function alignTokens(text, tokens) {
  const lower = text.toLowerCase();
  if (lower.length !== text.length) return null;
  const spans = [];
  let cursor = 0;
  for (const token of tokens) {
    const bare = token.replace(MARKS, "").toLowerCase();
    const start = bare ? lower.indexOf(bare, cursor) : -1;
    const isFound = start >= 0 && start - cursor <= NEAR;
    spans.push(isFound ? [start, start + bare.length] : null);
    if (isFound) cursor = start + bare.length;
  }
  return fillGaps(text, spans) ? splitText(text, spans) : null;
}

// Give each token that was not found the text between its neighbours; false if there is none.
function fillGaps(text, spans) {
  for (let i = 0; i < spans.length; i++) {
    if (spans[i]) continue;
    const next = spans.slice(i).find(Boolean);
    const start = i ? spans[i - 1][1] : 0, gap = text.slice(start, next ? next[0] : text.length);
    const words = /^(\s*)(.*?)\s*$/s.exec(gap);
    if (!words[2]) return false;
    const from = start + words[1].length;
    const isLast = spans[i + 1] || !spans.slice(i).some(Boolean);
    spans[i] = [from, from + (isLast ? words[2] : words[2].split(/\s/)[0]).length];
  }
  return true;
}

function splitText(text, spans) {
  const parts = [];
  let cursor = 0;
  spans.forEach(([start, end], index) => {
    if (start > cursor) parts.push([text.slice(cursor, start), -1]);
    parts.push([text.slice(start, end), index]);
    cursor = end;
  });
  if (cursor < text.length) parts.push([text.slice(cursor), -1]);
  return parts;
}

let groups = 0;

// A text whose tokens are radio buttons within labels: the browser provides Tab and arrow keys.
export class Words {
  constructor(label, tokens, text = null, isInteractive = true) {
    const parts = (text !== null && alignTokens(text, tokens))
      || tokens.flatMap((token, index) => [[index ? " " : "", -1], [token, index]]);
    this.tokens = [];
    this.pinned = null;
    const name = `words-${++groups}`;
    const children = parts.map(([part, index]) => {
      if (index < 0) return part;
      const input = isInteractive ? [create("input", { type: "radio", name })] : [];
      const tag = isInteractive ? "label" : "span";
      const token = create(tag, { className: "token" }, ...input, part);
      token.dataset.index = index;
      this.tokens[index] = token;
      return token;
    });
    const role = isInteractive ? { role: "radiogroup" } : {};
    this.element = create("p", { className: "words", dir: "auto", ariaLabel: label, ...role },
      ...children);
  }

  // Shade the tokens in proportion to their weights; null removes the shades.
  shade(weights, largest = weights && getLargest(weights)) {
    this.tokens.forEach((token, index) => {
      const share = weights && largest > 0 ? (weights[index] ?? 0) / largest : 0;
      token.style.setProperty("--a", share.toFixed(3));
    });
  }

  // Outline a token; null outlines none.
  mark(index) {
    this.tokens.forEach((token, other) => token.classList.toggle("active", other === index));
  }

  // Call a function with the index of the token under the pointer, else the selected one, else null.
  onSelect(callback) {
    const read = (event) => {
      const token = event.target.closest?.(".token");
      return token ? Number(token.dataset.index) : null;
    };
    this.element.addEventListener("mouseover", (event) => callback(read(event) ?? this.pinned));
    this.element.addEventListener("mouseleave", () => callback(this.pinned));
    this.element.addEventListener("focusin", (event) => callback((this.pinned = read(event))));
    this.element.addEventListener("change", (event) => callback((this.pinned = read(event))));
    this.element.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.target.checked = false;
      callback((this.pinned = null));
    });
  }
}
