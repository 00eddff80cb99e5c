// Components of the views: elements, formatting of numbers and tokens, tables, maps, charts and networks.

// The namespace of SVG elements; the page contains no URL.
const vector = Object.assign(document.createElement("div"), { innerHTML: "<svg></svg>" }).firstChild.namespaceURI;
const fill = (element, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
};
/** Creates an element of HTML. Children that are strings become text nodes, never HTML. */
const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
/** Creates an element of SVG. */
const svg = (tag, attributes, ...children) => fill(document.createElementNS(vector, tag), attributes, children);

/** Formats a value: a number with three significant digits, a string by visibleText(), a missing value as a dash. */
function show(x) {
  if (typeof x === "string") return visibleText(x);
  if (!Number.isFinite(x)) return "–";
  const size = Math.abs(x);
  let text = x.toPrecision(3);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) text = x.toExponential(2);
  else if (Number.isInteger(x) || size >= 1000) text = x.toFixed(0);
  return text.replaceAll("-", "−");
}
/** Formats a number for the tick of an axis: without zeros at its end. */
const tickText = (x) => String(Number(x.toPrecision(3))).replace("-", "−");
const rounded = (x) => (Number.isFinite(x) ? Number(x.toPrecision(6)) : null); // the digits that maps have
/** Returns the largest magnitude of numbers that are not masked. */
function largest(numbers) {
  let most = 0;
  for (const x of numbers) if (Math.abs(x) > most) most = Math.abs(x);
  return most;
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
const labelsOf = (texts) => texts.map(visibleText).map((text) => (text.length > 9 ? text.slice(0, 8) + "…" : text));

// --- tables
const scrolling = (name, ...children) => el("div", { class: "scroll", tabindex: 0, role: "region",
  "aria-label": `${name}; scrolls sideways if it is wider than the page` }, ...children);

/**
 * Creates a table of `columns`, [{name, unit, what}]. draw(rows) shows rows of texts and numbers. If `sorts` is true, a
 * press on a column's title sorts the rows: first numbers from the largest and texts from the first, then the other way
 * round. Missing values are last.
 */
function tableOf(name, columns, sorts = true) {
  let [rows, by, up] = [[], null, true];
  const body = el("tbody");
  const isMissing = (x) => typeof x !== "string" && !Number.isFinite(x);
  const order = (a, b) => (typeof a === "string" ? a.localeCompare(String(b), "en", { numeric: true }) : a - b);
  const compare = ({ [by]: a }, { [by]: b }) => isMissing(a) - isMissing(b) || (up ? 1 : -1) * order(a, b);
  const line = ([first, ...rest]) => el("tr", {}, el("th", { scope: "row" }, show(first)),
    ...rest.map((value) => el("td", {}, show(value))));
  const draw = (given) => {
    rows = given;
    titles.forEach((title, k) => (title.ariaSort = k === by ? (up ? "ascending" : "descending") : null));
    body.replaceChildren(...(by === null ? rows : rows.toSorted(compare)).map(line));
  };
  const press = (k) => () => {
    [by, up] = [k, by === k ? !up : rows.some((row) => typeof row[k] === "string")];
    draw(rows);
  };
  const titles = columns.map(({ name, unit, what }, k) => el("th", { scope: "col", title: what ?? "" },
    sorts ? el("button", { type: "button", class: "sort", onclick: press(k) }, show(name)) : show(name),
    ...(unit ? [el("small", {}, unit)] : [])));
  const table = el("table", { "aria-label": name }, el("thead", {}, el("tr", {}, ...titles)), body);
  return { element: scrolling(name, table), draw };
}

/** Creates a link that saves rows() as a CSV file. The first row has the titles of the columns. */
function csvLink(name, rows) {
  const cell = (x) => {
    if (typeof x === "string" && /[",\n\r]/.test(x)) return `"${x.replaceAll('"', '""')}"`;
    return x === null || x === undefined || Number.isNaN(x) ? "" : String(x);
  };
  const text = () => rows().map((row) => row.map(cell).join(",") + "\n").join("");
  return el("a", { href: "#", download: `${name}.csv`, "aria-label": `CSV: ${name}`, onclick: (event) =>
    (event.target.href = URL.createObjectURL(new Blob([text()], { type: "text/csv" }))) }, "CSV");
}
const titleOf = ({ name, unit }) => (unit ? `${name} (${unit})` : name);

/** Creates a link to the CSV file of a view, and the table "Numbers", which is filled when the user opens it. */
function numbersBehind(name, rows, forCsv = rows) {
  const details = el("details", { class: "numbers" }, el("summary", {}, "Numbers"));
  const draw = () => {
    const [titles, ...lines] = details.open ? rows() : [[]];
    const table = tableOf(`Numbers: ${name}`, titles.map((name) => ({ name })), false);
    table.draw(lines);
    details.replaceChildren(details.firstChild, table.element);
  };
  details.addEventListener("toggle", draw);
  return { element: el("div", { class: "tools" }, csvLink(name, forCsv), details), draw };
}

/** Creates the view of a table of a section: {title, what, columns, rows}. */
function tableView({ title, what, columns, rows }) {
  const table = tableOf(title, columns);
  table.draw(rows);
  return el("div", { class: "view" }, el("h3", {}, show(title)), ...noteOf(what), table.element,
    el("div", { class: "tools" }, csvLink(title, () => [columns.map(titleOf), ...rows])));
}
const noteOf = (what) => (what ? [el("p", { class: "muted" }, show(what))] : []);

// --- maps
/** Creates a color bar with five ticks. draw(scale, text, masked) draws it; `text` describes the scale. */
function colorBar() {
  const canvas = el("canvas", { "aria-hidden": true });
  const ticks = el("div", { class: "ticks" });
  const words = el("div", { class: "muted" });
  const draw = (scale, text, masked) => {
    paint(canvas, Array.from({ length: 256 }, (_, k) => valueAt(k / 255, scale)), 1, 256, scale, theme());
    ticks.replaceChildren(...[0, 0.25, 0.5, 0.75, 1].map((place) =>
      el("span", { style: `left:${100 * place}%` }, tickText(valueAt(place, scale)))));
    const swatch = el("span", { class: "swatch", style: `background:rgb(${ramps[theme()].masked})` });
    words.replaceChildren(`${text}, ${scale.root ? "root" : "linear"} scale`, ...(masked ? ["; ", swatch, " masked"] : []));
  };
  return { element: el("div", { class: "bar" }, canvas, ticks, words), draw };
}

/** Returns the cell to which a key moves from the cell (i, j), or nothing. */
function cellByKey(key, numbers, rows, columns, [i, j]) {
  const row = Array.from(numbers.slice(i * columns, (i + 1) * columns));
  const isVisible = (x) => !Number.isNaN(x);
  const to = { ArrowUp: [i - 1, j], ArrowDown: [i + 1, j], ArrowLeft: [i, j - 1], ArrowRight: [i, j + 1],
    PageUp: [i - 10, j], PageDown: [i + 10, j], Home: [i, row.findIndex(isVisible)],
    End: [i, row.findLastIndex(isVisible)] }[key];
  return to && [[to[0], rows], [to[1], columns]].map(([x, n]) => Math.min(Math.max(x, 0), n - 1));
}

/**
 * Shows maps: a small map of each panel, if there are several, and a large map of the chosen panel. A text has the values
 * of the cell under the pointer or, without one, of the selected cell. state[key] is {cell, pinned, hover}: the cell at
 * which keys move, whether it is selected, and the cell under the pointer or null. A click or a key selects a cell until
 * Escape. describe() returns what is shown, and is called when one of `keys` of the state changes:
 *   title, axes: [name of rows, name of columns], rows, columns: labels, rowNames, columnNames: longer ones, if they differ
 *   limit, signed: the color scale; words: text that describes it
 *   panels: [{title, numbers: [rows x columns] or null, mark}], chosen: index of the large one
 *   textOf(i, j): values of the cell in row i and column j of the large map; lack: text if it has no numbers
 * choose(k) chooses a panel. `across` is the number of small maps in a row.
 */
function mapsView({ name, key, keys, across, describe, choose }) {
  state[key] ??= { cell: [0, 0], pinned: false, hover: null };
  const [title, bar, picture] = [el("h4"), colorBar(), el("canvas")];
  const readout = el("output", { class: "readout" });
  const canvas = el("canvas", { class: "map", tabindex: 0, role: "application", "aria-roledescription": "heat map",
    "aria-label": `Map of ${name}: arrow keys move from cell to cell` });
  const holder = el("div", {}, canvas);
  const group = `maps ${views.length}`; // no other view has this name
  const small = describe().panels.map((_, k) => {
    const [canvas, caption] = [el("canvas", { "aria-hidden": true }), el("span")];
    const input = el("input", { type: "radio", name: group, onchange: () => choose(k) });
    return { canvas, caption, input, element: el("label", {}, input, canvas, caption), painted: [] };
  });
  const grid = el("div", { class: "panels", role: "radiogroup", "aria-label": `Maps of ${name}`,
    style: `--across:${across}` }, ...small.map(({ element }) => element));
  let [map, at, labels] = [describe(), null, {}];

  const within = (cell) => cell && [Math.min(cell[0], map.rows.length - 1), Math.min(cell[1], map.columns.length - 1)];
  const numbers = () => map.panels[map.chosen]?.numbers;
  // A map with a largest magnitude below 2 % of the limit has nearly one color.
  const faintOf = (panel) => (panel?.numbers && largest(panel.numbers) < 0.02 * map.limit ? " below 2 %" : "");
  const scale = () => ({ max: map.limit, signed: map.signed, root: map.signed && state.root });
  const move = (patch) => change({ [key]: { ...state[key], ...patch } });
  const drawCell = () => {
    const [cell, hover] = [within(state[key].cell), within(state[key].hover)];
    const pinned = state[key].pinned ? cell : null;
    canvas.hidden = !numbers();
    if (numbers() && holder.clientWidth)
      at = drawMap(canvas, { picture, ...labels, axes: map.axes, cell: hover ?? cell, pinned, hover },
        Math.min(holder.clientWidth, 576), pageColors());
    const shown = hover ?? pinned;
    readout.textContent = !numbers() ? map.lack
      : shown ? map.textOf(...shown) : "No cell is selected. Click one, or use the arrow keys.";
  };
  const draw = () => {
    map = describe();
    labels = { rows: labelsOf(map.rows), columns: labelsOf(map.columns) };
    const [sizes, look] = [[map.rows.length, map.columns.length], JSON.stringify([scale(), theme()])];
    title.textContent = map.title + faintOf(map.panels[map.chosen]).replace(/.+/, ",$& of the color scale's limit");
    map.panels.forEach((panel, k) => {
      const { canvas, caption, input, painted } = small[k];
      canvas.style.visibility = panel.numbers ? "visible" : "hidden";
      canvas.style.imageRendering = sizes[1] > 48 ? "auto" : ""; // smooth, because it is drawn smaller
      if (panel.numbers && (painted[0] !== panel.numbers || painted[1] !== look)) {
        paint(canvas, panel.numbers, ...sizes, scale(), theme());
        small[k].painted = [panel.numbers, look];
      }
      input.checked = k === map.chosen;
      const badge = panel.mark ? [" ", el("b", { class: "badge" }, panel.mark)] : [];
      caption.replaceChildren(panel.title, ...badge, faintOf(panel));
    });
    bar.element.hidden = !numbers();
    if (numbers()) {
      paint(picture, numbers(), ...sizes, scale(), theme());
      bar.draw(scale(), map.words, numbers().some(Number.isNaN));
    }
    behind.draw();
    drawCell();
  };
  const pointed = ({ offsetX, offsetY }) => {
    const [i, j] = [Math.floor(offsetY / at?.cellHeight), Math.floor((offsetX - at?.left) / at?.cellWidth)];
    return i >= 0 && i < map.rows.length && j >= 0 && j < map.columns.length ? [i, j] : null;
  };
  canvas.addEventListener("pointermove", (event) => {
    const hover = pointed(event);
    if (String(hover) !== String(state[key].hover)) move({ hover });
  });
  canvas.addEventListener("pointerleave", () => move({ hover: null }));
  canvas.addEventListener("click", (event) =>
    pointed(event) && move({ cell: pointed(event), pinned: true, hover: null }));
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Escape") return move({ pinned: false });
    const cell = cellByKey(event.key, numbers(), map.rows.length, map.columns.length, within(state[key].cell));
    if (!cell) return;
    event.preventDefault();
    move({ cell, pinned: true, hover: null });
  });

  const rowOf = ({ numbers }, i) =>
    Array.from(numbers.slice(i * map.columns.length, (i + 1) * map.columns.length), rounded);
  const linesOf = (panel) => map.rows.flatMap((row, i) =>
    rowOf(panel, i).map((x, j) => [panel.title, i, row, j, map.columns[j], x]).filter((line) => line[5] !== null));
  const behind = numbersBehind(name, () => [[map.axes.join(" \\ "), ...(map.columnNames ?? map.columns)],
    ...(numbers() ? (map.rowNames ?? map.rows).map((row, i) => [row, ...rowOf(map.panels[map.chosen], i)]) : [])],
    () => [["map", map.axes[0], `${map.axes[0]} label`, map.axes[1], `${map.axes[1]} label`, "value"],
      ...map.panels.filter((panel) => panel.numbers).flatMap(linesOf)]);
  addView([...keys, "root", "theme"], draw);
  addView([key], drawCell);
  new ResizeObserver(drawCell).observe(holder);
  const large = el("div", { class: "view large" }, title, holder, readout, bar.element, behind.element);
  return el("div", { class: "maps" }, ...(small.length > 1 ? [el("div", { class: "view" }, grid)] : []), large);
}

/** Shows the maps of a section: {title, what, signed, row_axis, column_axis, rows, columns, panels}. */
function sectionMaps({ title, what, signed, row_axis, column_axis, rows, columns, panels }) {
  const key = `maps ${views.length}`; // no other view has this key
  const chosen = `${key} panel`;
  state[chosen] = 0;
  const flat = panels.map(({ title, values }) => ({ title: show(title), numbers: values.flat().map((x) => x ?? NaN) }));
  const limit = Math.max(...flat.map(({ numbers }) => largest(numbers)));
  const textOf = (i, j) => `${flat[state[chosen]].title}: ${row_axis} ${visibleText(rows[i])}, ${column_axis} ` +
    `${visibleText(columns[j])}: ${show(flat[state[chosen]].numbers[i * columns.length + j])}`;
  return el("div", { class: "view" }, el("h3", {}, show(title)), ...noteOf(what), mapsView({ name: title, key,
    keys: [chosen], across: Math.min(panels.length, 4), choose: (k) => change({ [chosen]: k }),
    describe: () => ({ title: flat[state[chosen]].title, axes: [row_axis, column_axis], rows, columns, limit, signed,
      words: title, panels: flat, chosen: state[chosen], textOf }) }));
}
