// Components of the views: elements, formatting of numbers and tokens, tables, color bars and
// interactive maps.

/** Creates an element. Children that are strings become text nodes, never HTML. */
function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

/** Formats a value: a number with three significant digits, a string by visibleText(), a missing value as a dash. */
function show(x) {
  if (typeof x === "string") return visibleText(x);
  if (typeof x === "boolean") return x ? "yes" : "no";
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  const size = Math.abs(x);
  let text = x.toPrecision(3);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) text = x.toExponential(2);
  else if (Number.isInteger(x) || size >= 1000) text = x.toFixed(0);
  return text.replaceAll("-", "−");
}
function percent(share) {
  if (!Number.isFinite(share)) return "–";
  return `${(Math.abs(share) < 5e-4 ? 0 : 100 * share).toFixed(1)} %`.replace("-", "−");
}

/** Returns a visible text for a space or control character: the same as token_text() of tools/plot/text.h. */
function signOf(character) {
  const code = character.codePointAt(0);
  const hex = (digits) => code.toString(16).padStart(digits, "0");
  return { " ": "␣", "\n": "\\n", "\t": "\\t", "\r": "\\r" }[character] ??
    (code < 0xa0 ? `\\x${hex(2)}` : `U+${hex(4).toUpperCase()}`);
}
/** Returns the token with visible spaces and control characters. */
const visible = (token) => (token === "" ? "∅" : token.replace(/[\p{Z}\p{C}]/gu, signOf));
/** Returns a text that may contain a token, with the spaces visible that HTML would not show or that are in (). */
const visibleText = (text) =>
  text.replace(/^ +| +$| {2,}|(?<=\() +(?=\))|(?! )[\p{Z}\p{C}]/gu, (found) => visible(found));
const labelsOf = (pane) => pane.tokens.map(visible).map((text) => (text.length > 9 ? text.slice(0, 8) + "…" : text));
const headName = (layer, head) => `L${layer}H${head}`;

/** Returns the position and the text of row or column i: ["6", "c"], or ["24–27", "cabc"] for several tokens. */
function tokensAt(pane, i) {
  const first = i * pane.block;
  const last = Math.min(first + pane.block, pane.length) - 1;
  if (pane.block === 1) return [String(first), visible(pane.tokens[i])];
  const texts = (pane.texts ?? []).slice(first, last + 1);
  const between = texts.some((text) => [...text].length > 1) ? " " : "";
  return [`${first}–${last}`, texts.map(visible).join(between)];
}
/** Returns the name of row or column i: '6 “c”', or '24–27 “cabc”' if a cell covers several tokens. */
function tokenName(pane, i) {
  const [position, text] = tokensAt(pane, i);
  return text ? `${position} “${text}”` : position;
}
const tokenNames = (pane) => pane.tokens.map((_, i) => tokenName(pane, i));

/** Creates a cell of a table. Its property sortKey is the value by which sortable() sorts. */
const dataCell = (value) => Object.assign(el("td", {}, show(value)), { sortKey: value });
const rowHeading = (value, ...content) => Object.assign(el("th", { scope: "row" }, ...content), { sortKey: value });

/** Creates a table from rows of cells. The first row has the headings. The first cell of a row names the row. */
function tableOf([head, ...rows], name) {
  const line = ([name, ...cells]) => el("tr", {}, rowHeading(name, show(name)), ...cells.map(dataCell));
  const names = head.map((name) => el("th", { scope: "col" }, show(name)));
  return el("table", { "aria-label": name }, el("thead", {}, el("tr", {}, ...names)),
    el("tbody", {}, ...rows.map(line)));
}

/**
 * Makes each column's title a button that sorts the rows: first numbers from the largest and texts from the first, then
 * the other way round. Missing values are always last. Returns a function that sorts again after rows have changed.
 */
function sortable(table) {
  const titles = [...table.tHead.rows[0].cells];
  let [column, up] = [null, true];
  const isMissing = (x) => x === null || x === undefined || Number.isNaN(x);
  const order = (a, b) => (typeof a === "string" ? a.localeCompare(String(b), "en", { numeric: true }) : a - b);
  const sort = () => {
    if (column === null) return;
    titles.forEach((title, k) => k !== column && title.removeAttribute("aria-sort"));
    titles[column].setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = (row) => row.cells[column].sortKey;
    const rows = [...table.tBodies[0].rows];
    const known = rows.filter((row) => !isMissing(key(row))).sort((a, b) => (up ? 1 : -1) * order(key(a), key(b)));
    table.tBodies[0].append(...known, ...rows.filter((row) => isMissing(key(row))));
  };
  titles.forEach((title, k) => {
    const press = () => {
      const isText = [...table.tBodies[0].rows].some((row) => typeof row.cells[k].sortKey === "string");
      [column, up] = [k, column === k ? !up : isText];
      sort();
    };
    title.replaceChildren(el("button", { type: "button", class: "sort", onclick: press }, ...title.childNodes));
  });
  return sort;
}

function csvOf(rows) {
  const cell = (x) => {
    if (x === null || x === undefined || Number.isNaN(x)) return "";
    return typeof x === "string" && /[",\n\r]/.test(x) ? `"${x.replaceAll('"', '""')}"` : String(x);
  };
  return rows.map((row) => row.map(cell).join(",") + "\n").join("");
}

const copyButton = (name, rows) =>
  el("button", { type: "button", "aria-label": `Copy CSV: ${name}`, onclick: () => copyRows(rows()) }, "Copy CSV");

/** Makes an arrow key press the next button of a group in its direction. Tab stops only at the pressed button. */
function pressOneOf(holder, buttons, columns) {
  holder.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    const next = buttons[buttons.indexOf(event.target) + by];
    if (!next) return;
    event.preventDefault();
    next.click();
    next.focus();
  });
}
function setPressed(button, pressed) {
  button.setAttribute("aria-pressed", pressed);
  button.tabIndex = pressed ? 0 : -1;
}

/** Creates the table "Numbers" of a view, which is filled when the user opens it, and a button that copies `forCsv`. */
function numbersBehind(name, rows, forCsv = rows) {
  const holder = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Numbers: ${name}` });
  const details = el("details", { class: "numbers" }, el("summary", {}, "Numbers"), holder);
  const draw = () => details.open && holder.replaceChildren(tableOf(rows(), name));
  details.addEventListener("toggle", draw);
  return { element: el("div", { class: "tools" }, copyButton(name, forCsv), details), draw };
}

/** Creates a color bar with five ticks. draw(scale, text) draws it; `text` describes the scale. */
function colorBar() {
  const canvas = el("canvas", { "aria-hidden": true });
  const ticks = el("div", { class: "ticks" });
  const words = el("div", { class: "muted" });
  const draw = (scale, text) => {
    const places = Array.from({ length: 256 }, (_, k) => valueAt(k / 255, scale));
    paint(canvas, places, 1, 256, scale, theme());
    ticks.replaceChildren(...[0, 0.25, 0.5, 0.75, 1].map((place) =>
      el("span", { style: `left:${100 * place}%` }, show(valueAt(place, scale)))));
    const swatch = el("span", { class: "swatch", style: `background:#${ramps[theme()].masked}` });
    words.replaceChildren(text, "; ", swatch, " masked");
  };
  return { element: el("div", { class: "bar" }, canvas, ticks, words), draw };
}

const rangeWords = () => ({ heads: "range of all heads", panel: "range of this panel", steps: `range of ${manySteps}` });
const scaleWords = (q, scale) =>
  [q.title, q.unit, rangeWords()[state.range], scale.curve.words].filter(Boolean).join(", ");

/**
 * Creates an interactive map, for pointer and keyboard. describe() returns the map for drawMap() with its
 * `numbers`, or a falsy value to hide the map. point([row, column]) is called when the pointer enters a cell, and
 * point(null) when it leaves the cells. move(row, column) is called when a click or a key moves the cursor.
 * choose(row, column) is called when the user selects a cell or a label. For a label of a row, the column is
 * null; for a label of a column, the row is null.
 */
function explorable(label, { describe, point, move, choose }) {
  const canvas = el("canvas", { class: "map", tabindex: 0, role: "application", "aria-roledescription": "heat map",
    "aria-label": label });
  const holder = el("div", {}, canvas);
  let map = null;
  let at = null;
  const draw = () => {
    map = describe();
    canvas.hidden = !map;
    if (map && holder.clientWidth) at = drawMap(canvas, map, Math.min(holder.clientWidth, 576), pageColors());
  };
  const cellUnder = (event) => (at ? cellAt(at, map, event.offsetX, event.offsetY) : { row: null, column: null });
  canvas.addEventListener("pointermove", (event) => {
    const { row, column } = cellUnder(event);
    const cell = row !== null && column !== null ? [row, column] : null;
    if (String(cell) !== String(map.hover)) point(cell);
  });
  canvas.addEventListener("pointerleave", () => point(null));
  canvas.addEventListener("click", (event) => {
    const { row, column } = cellUnder(event);
    if (row !== null && column !== null) move(row, column);
    if (row !== null || column !== null) choose(row, column);
  });
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Enter") choose(...(event.shiftKey ? [map.cursor[0], null] : map.cursor));
    else if (!moveByKey(event.key, map, move) && !shortcut(event.key)) return;
    event.preventDefault();
  });
  new ResizeObserver(draw).observe(holder);
  return { element: holder, draw };
}

function moveByKey(key, { numbers, rows, columns, cursor: [i, j] }, move) {
  const row = Array.from(numbers.slice(i * columns, (i + 1) * columns));
  const first = Math.max(0, row.findIndex((x) => !Number.isNaN(x)));
  const last = row.findLastIndex((x) => !Number.isNaN(x));
  const to = { ArrowUp: [i - 1, j], ArrowDown: [i + 1, j], ArrowLeft: [i, j - 1], ArrowRight: [i, j + 1],
    PageUp: [i - 10, j], PageDown: [i + 10, j], Home: [i, first], End: [i, last < 0 ? columns - 1 : last] }[key];
  if (!to) return false;
  const within = (x, n) => Math.min(Math.max(x, 0), n - 1);
  move(within(to[0], rows), within(to[1], columns));
  return true;
}
