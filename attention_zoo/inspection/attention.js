// Views of attention weights: head view, token view, model view and image overlays.
// The data are in the element #attention-data; `attention_data.py` describes their encoding.
"use strict";
(() => {
  const LEVELS = 255; // byte of the largest weight
  const LEAST = 0.0005; // smaller weights are 0.000, so they are not printed beside the tokens
  const MAX_CANVAS = 16384; // pixels; browsers draw nothing on longer canvases
  const STATUS_TOKENS = 5; // tokens that the status line lists
  const data = JSON.parse(document.getElementById("attention-data").textContent);
  const darkMode = matchMedia("(prefers-color-scheme: dark)");
  const byId = (id) => document.getElementById(id);

  // ---- Elements ----
  function create(tag, properties = {}, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  }

  const formatWeight = (weight) =>
    weight >= LEAST || weight === 0 ? weight.toFixed(3) : weight.toExponential(1);

  // A token is a radio button within its label: the browser provides Tab, arrow keys and, for
  // screen readers, name, position and state.
  function makeToken(text, index, side, group) {
    const input = create("input", { type: "radio", name: group });
    const label = create("label", { className: "token" }, input, text.labels[index]);
    label.classList.toggle("special", text.special[index] === 1);
    Object.assign(label.dataset, { side, index });
    return label;
  }

  // A running text of tokens; `dir` lets Arabic run from right to left.
  function makeText(text, side, group, ariaLabel) {
    const words = text.labels.flatMap((_, index) => {
      const word = makeToken(text, index, side, group);
      return text.gaps[index] ? [" ", word] : [word];
    });
    return create("p", { className: "text", dir: "auto", role: "radiogroup", ariaLabel }, ...words);
  }

  // ---- Weights ----
  const decode = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

  // The colours of all levels, as 32-bit pixels; `colorize` returns red, green, blue and opacity.
  function makePalette(colorize) {
    const bytes = new Uint8ClampedArray(4 * (LEVELS + 1));
    for (let i = 0; i <= LEVELS; i++) bytes.set(colorize(i / LEVELS), 4 * i);
    return new Uint32Array(bytes.buffer);
  }

  // Draw one pixel for each weight; the style of the page enlarges the canvas.
  function drawHeat(canvas, weights, start, palette) {
    const context = canvas.getContext("2d"), { width, height } = canvas;
    const image = context.createImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    for (let i = 0; i < pixels.length; i++) pixels[i] = palette[weights[start + i]];
    context.putImageData(image, 0, 0);
  }

  const layers = data.layers.map((layer) => {
    const [targets, sources] = [data.texts[layer.targets], data.texts[layer.sources]];
    return {
      ...layer, targets, sources, weights: decode(layer.weights),
      rows: targets.labels.length, columns: sources.labels.length,
      heads: [...layer.largest.keys()], isSelf: layer.targets === layer.sources,
    };
  });

  // ---- State: the selected layer and heads, and the active token ----
  const state = {
    layer: layers[0],
    heads: [], // indices of the selected heads
    mean: null, // their mean weights, rows * columns
    pinned: null, // the selected token: {side, index}
    hovered: null, // the token under the pointer, which overrides the selected one
  };

  function selectLayer(layer, heads) {
    Object.assign(state, { layer, pinned: null, hovered: null });
    byId("layer").value = layers.indexOf(layer);
    fillHeads();
    fillTokens();
    selectHeads(heads);
  }

  function selectHeads(heads) {
    const { layer } = state, size = layer.rows * layer.columns, mean = new Float64Array(size);
    for (const head of heads) {
      const scale = layer.largest[head] / LEVELS / heads.length;
      for (let i = 0; i < size; i++) mean[i] += layer.weights[head * size + i] * scale;
    }
    Object.assign(state, { heads, mean });
    const inputs = byId("heads").querySelectorAll("input");
    inputs.forEach((input, head) => { input.checked = heads.includes(head); });
    byId("all-heads").disabled = heads.length === layer.heads.length;
    for (const cell of byId("grid").querySelectorAll(".cell")) {
      const isLayer = layers[cell.dataset.layer] === layer;
      cell.ariaPressed = String(isLayer && heads.includes(Number(cell.dataset.head)));
    }
    update();
  }

  // Mean weight between the active token and a token of the other side.
  function getMean(active, index) {
    const [row, column] = active.side === "target" ? [active.index, index] : [index, active.index];
    return state.mean[row * state.layer.columns + column];
  }

  // ---- Controls ----
  const getHue = (head) => (217 + 137.5 * head) % 360; // golden angle: neighbours differ most

  function fillHeads() {
    const chips = state.layer.heads.map((value) => {
      const input = create("input", { type: "checkbox", value });
      const chip = create("label", { className: "chip" }, input, String(value + 1));
      chip.style.setProperty("--hue", getHue(value));
      return chip;
    });
    byId("heads").replaceChildren(byId("heads").firstElementChild, ...chips);
  }

  function connectControls() {
    byId("layer").append(...layers.map((layer, value) => create("option", { value }, layer.name)));
    byId("layer").addEventListener("change", () => {
      const layer = layers[byId("layer").value];
      const kept = state.heads.filter((head) => head < layer.heads.length);
      selectLayer(layer, kept.length ? kept : layer.heads);
    });
    byId("heads").addEventListener("change", () => {
      const checked = byId("heads").querySelectorAll("input:checked");
      selectHeads(Array.from(checked, (input) => Number(input.value)));
    });
    byId("all-heads").addEventListener("click", () => selectHeads(state.layer.heads));
    byId("opaque").addEventListener("change", drawLines);
  }

  // ---- Head view and token view ----
  function fillTokens() {
    const { layer } = state;
    byId("status").parentElement.style.setProperty("--rows", Math.max(layer.rows, layer.columns));
    const sides = [["Target", "target", layer.targets], ["Source", "source", layer.sources]];
    for (const [, side, text] of sides) {
      byId(`${side}s`).replaceChildren(...text.labels.map((title, index) => {
        const token = makeToken(text, index, side, "head-view");
        token.append(create("small", { ariaHidden: "true" }), create("bdi", { title }, token.lastChild));
        return token;
      }));
    }
    const shown = layer.isSelf ? sides.slice(0, 1) : sides;
    byId("words").replaceChildren(...shown.flatMap(([name, side, text]) => {
      const words = makeText(text, side, "token-view", `${name} tokens`);
      return layer.isSelf ? [words] : [create("h3", {}, name), words];
    }));
    byId("token-hint").textContent = "Hover over a word or select it: the " + (layer.isSelf
      ? "text is shaded by its attention weights."
      : "other text is shaded by the attention weights between them.");
  }

  // Show the active token: marks, shades, weights, status and lines.
  function update() {
    const { layer, pinned } = state, active = state.hovered ?? pinned;
    const count = active?.side === "target" ? layer.columns : layer.rows;
    let largest = 0;
    for (let i = 0; active && i < count; i++) largest = Math.max(largest, getMean(active, i));
    for (const token of document.querySelectorAll(".views .token")) {
      const side = token.dataset.side, index = Number(token.dataset.index);
      // The text of a self-attention stands for both sides.
      const isBoth = layer.isSelf && token.parentElement.parentElement.id === "words";
      const isSame = (other) => other?.index === index && (isBoth || other.side === side);
      const isShaded = largest > 0 && (isBoth || side !== active.side);
      const weight = isShaded ? getMean(active, index) : 0;
      token.firstElementChild.checked = isSame(pinned);
      token.classList.toggle("active", isSame(active));
      token.style.setProperty("--a", isShaded ? (weight / largest).toFixed(3) : 0);
      const number = token.querySelector("small");
      if (number) number.textContent = weight >= LEAST ? formatWeight(weight) : "";
    }
    for (const id of ["status", "token-status"]) byId(id).replaceChildren(...describe(active));
    drawLines();
  }

  function describe(active) {
    const { layer, heads, mean } = state;
    if (!heads.length) return ["Select a head."];
    if (!active) {
      const numbers = heads.map((head) => head + 1).join(", ");
      const several = heads.length === layer.heads.length ? "all heads" : `heads ${numbers}`;
      const name = heads.length > 1 ? `mean of ${several}` : `head ${numbers}`;
      const largest = formatWeight(mean.reduce((a, b) => Math.max(a, b)));
      return [`${layer.name}, ${name}: largest weight ${largest}.`];
    }
    const quote = (label) => ["“", create("bdi", {}, label), "”"];
    const isTarget = active.side === "target", { targets, sources } = layer;
    const [own, others] = isTarget ? [targets, sources] : [sources, targets];
    const ranked = others.labels.map((label, index) => [label, getMean(active, index)])
      .filter(([, weight]) => weight > 0).sort((a, b) => b[1] - a[1]).slice(0, STATUS_TOKENS);
    const parts = ranked.flatMap(([label, weight], rank) =>
      [rank ? ", " : "", ...quote(label), ` ${formatWeight(weight)}`]);
    const verb = isTarget ? " attends to " : " is attended to by ";
    return [...quote(own.labels[active.index]), verb, ...(ranked.length ? parts : ["no token"]), "."];
  }

  // The lines to draw: of the active token, one for each head; else, so that the overview stays
  // readable and fast, one for each pair of tokens, that of its strongest head.
  function* listLines(active) {
    const { layer, heads } = state, size = layer.rows * layer.columns;
    for (let i = 0; i < size; i++) {
      const column = i % layer.columns, row = (i - column) / layer.columns;
      if (active && active.index !== (active.side === "target" ? row : column)) continue;
      const lines = heads
        .map((head) => [row, column, head, layer.weights[head * size + i] * layer.largest[head] / LEVELS])
        .filter(([, , , weight]) => weight > 0);
      if (active) yield* lines;
      else if (lines.length) yield lines.reduce((a, b) => (b[3] > a[3] ? b : a));
    }
  }

  // The lines are on a canvas: 120 tokens have up to 14,400 of them.
  function drawLines() {
    const { layer, heads } = state, active = state.hovered ?? state.pinned, canvas = byId("lines");
    const width = canvas.parentElement.clientWidth;
    const heights = ["targets", "sources"].map((id) => byId(id).getBoundingClientRect().height);
    const height = Math.max(...heights), ratio = Math.min(devicePixelRatio, MAX_CANVAS / height);
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.lineWidth = active ? 2 : 1;
    const isRelative = byId("opaque").value === "largest", lightness = darkMode.matches ? 66 : 42;
    const opaque = isRelative ? Math.max(...heads.map((head) => layer.largest[head])) : 1;
    const [rowHeight, columnHeight] = [heights[0] / layer.rows, heights[1] / layer.columns];
    let lines = 0;
    for (const [row, column, head, weight] of listLines(active)) {
      context.strokeStyle = `hsl(${getHue(head)} 75% ${lightness}%)`;
      context.globalAlpha = Math.min(weight / opaque, 1);
      context.beginPath();
      context.moveTo(0, (row + 0.5) * rowHeight);
      context.lineTo(width, (column + 0.5) * columnHeight);
      context.stroke();
      lines += 1;
    }
    Object.assign(canvas.dataset, { lines, width });
    canvas.ariaLabel = `${lines} lines between targets and sources`;
  }

  function readToken(event) {
    const token = event.target.closest(".token");
    return token ? { side: token.dataset.side, index: Number(token.dataset.index) } : null;
  }

  function connectTokens() {
    const views = document.querySelector(".views");
    const set = (name, token) => {
      if (token?.side === state[name]?.side && token?.index === state[name]?.index) return;
      state[name] = token;
      update();
    };
    views.addEventListener("mouseover", (event) => set("hovered", readToken(event)));
    views.addEventListener("mouseleave", () => set("hovered", null));
    views.addEventListener("focusin", (event) => set("pinned", readToken(event) ?? state.pinned));
    views.addEventListener("click", (event) => {
      if (!event.target.closest(".token, button")) set("pinned", null);
    });
    views.addEventListener("keydown", (event) => {
      const token = readToken(event);
      if (!token) return;
      if (event.key === "Escape") set("pinned", null);
      if (event.target.name !== "head-view" || !/^Arrow(Left|Right)$/.test(event.key)) return;
      // To the same row of the other column; up and down are those of the radio group.
      const tokens = byId(event.key === "ArrowLeft" ? "targets" : "sources").children;
      tokens[Math.min(token.index, tokens.length - 1)].firstElementChild.focus();
      event.preventDefault();
    });
  }

  // ---- Model view ----
  function fillGrid() {
    const grid = byId("grid"), count = Math.max(...layers.map((layer) => layer.heads.length));
    grid.style.setProperty("--heads", count);
    for (let head = 1; head <= count; head++) {
      grid.append(create("span", { className: "head", ariaHidden: "true" }, String(head)));
      grid.lastChild.style.gridColumn = head + 1;
    }
    layers.forEach((layer, number) => {
      // Long paths may break after a slash or an underscore.
      const name = layer.name.split(/(?<=[/_])/).flatMap((part) => [part, create("wbr")]);
      grid.append(create("span", { className: "layer" }, ...name));
      for (const head of layer.heads) {
        const canvas = create("canvas", { width: layer.columns, height: layer.rows });
        // Without smoothing, a reduced heat map would lack rows and columns.
        canvas.classList.toggle("sharp", Math.max(layer.columns, layer.rows) < 40);
        const cell = create("button", { type: "button", className: "cell", tabIndex: -1 }, canvas);
        const largest = formatWeight(layer.largest[head]);
        cell.title = cell.ariaLabel = `${layer.name}, head ${head + 1}, largest weight ${largest}`;
        cell.style.gridColumn = head + 2;
        Object.assign(cell.dataset, { layer: number, head });
        grid.append(cell);
      }
    });
    grid.querySelector(".cell").tabIndex = 0;
    grid.addEventListener("keydown", moveInGrid);
    grid.addEventListener("click", (event) => {
      const cell = event.target.closest(".cell");
      if (!cell) return;
      selectLayer(layers[cell.dataset.layer], [Number(cell.dataset.head)]);
      byId("head-view-title").scrollIntoView({ block: "nearest" });
    });
  }

  function drawGrid() {
    const color = getComputedStyle(document.body).getPropertyValue("--heat").split(",");
    const palette = makePalette((share) => [...color, 255 * share]);
    for (const cell of byId("grid").querySelectorAll(".cell")) {
      const layer = layers[cell.dataset.layer], size = layer.rows * layer.columns;
      drawHeat(cell.firstElementChild, layer.weights, cell.dataset.head * size, palette);
    }
  }

  // One cell takes part in the Tab order; arrow keys move to its neighbours.
  function moveInGrid(event) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const { target: cell, key } = event;
    if (!moves[key]) return; // Tab leaves the grid, Enter and Space open the cell
    event.preventDefault();
    const [down, right] = moves[key], { dataset } = cell;
    const [layer, head] = [Number(dataset.layer) + down, Number(dataset.head) + right];
    const next = byId("grid").querySelector(`[data-layer="${layer}"][data-head="${head}"]`);
    if (next) [cell.tabIndex, next.tabIndex] = [-1, 0];
    next?.focus();
  }

  // ---- Image overlays ----
  const STOPS = [[88, 28, 135], [190, 40, 140], [245, 130, 70], [252, 250, 170]];

  // Transparent at weight 0; the colour scale ends at the largest weight of all words.
  const heatPalette = makePalette((share) => {
    const position = share * (STOPS.length - 1);
    const left = Math.min(Math.floor(position), STOPS.length - 2), part = position - left;
    const color = STOPS[left].map((value, i) => value * (1 - part) + STOPS[left + 1][i] * part);
    return [...color, 255 * Math.min(0.85, 3 * share)];
  });

  function fillOverlay(section) {
    const image = data.images[section.dataset.image], text = data.texts[image.text];
    const weights = decode(image.weights), size = image.rows * image.columns;
    const photo = section.querySelector(".photo");
    const makeHeat = (index) => {
      const canvas = create("canvas", { width: image.columns, height: image.rows });
      drawHeat(canvas, weights, index * size, heatPalette);
      return canvas;
    };
    const scale = create("canvas", { className: "scale", width: LEVELS + 1, height: 1 });
    drawHeat(scale, [...Array(LEVELS + 1).keys()], 0, heatPalette);
    const words = makeText(text, "image", `image-${section.dataset.image}`, "Output tokens");
    section.querySelector(".details").append(
      words, create("p", { className: "legend" }, "0", scale, formatWeight(image.largest)));
    section.querySelector(".gallery").append(...text.labels.map((label, index) => {
      const copy = photo.cloneNode(true);
      copy.firstElementChild.alt = ""; // the caption names it
      copy.append(makeHeat(index));
      return create("figure", {}, copy, create("figcaption", { dir: "auto" }, label));
    }));
    connectOverlay(photo, words, makeHeat);
  }

  // Show the overlay of the word under the pointer, else of the selected word, else none.
  function connectOverlay(photo, words, makeHeat) {
    let pinned = null;
    const show = (token) => {
      photo.querySelector("canvas")?.remove();
      if (token) photo.append(makeHeat(Number(token.dataset.index)));
      for (const one of words.children) one.classList.toggle("active", one === token);
    };
    words.addEventListener("mouseover", (event) => show(event.target.closest(".token") ?? pinned));
    words.addEventListener("mouseleave", () => show(pinned));
    words.addEventListener("focusin", (event) => show((pinned = event.target.closest(".token"))));
    words.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.target.checked = false;
      show((pinned = null));
    });
  }

  // ---- Start ----
  for (const element of document.querySelectorAll("[data-script]")) element.hidden = false;
  if (layers.length) {
    connectControls();
    fillGrid();
    selectLayer(layers[0], layers[0].heads);
    connectTokens();
    drawGrid();
    const canvas = byId("lines"), area = canvas.parentElement;
    const isResized = () => canvas.dataset.width !== String(area.clientWidth);
    new ResizeObserver(() => isResized() && drawLines()).observe(area);
    for (const draw of [drawGrid, drawLines]) darkMode.addEventListener("change", draw);
  }
  document.querySelectorAll("[data-image]").forEach(fillOverlay);
})();
