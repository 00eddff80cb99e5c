// Components of the views: elements, formatting of numbers and tokens, tables, and maps.

/** Creates an element of HTML. Children that are strings become text nodes, never HTML. */
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
  if (!Number.isFinite(x)) return "–";
  const size = Math.abs(x);
  let text = x.toPrecision(3);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) text = x.toExponential(2);
  else if (Number.isInteger(x) || size >= 1000) text = x.toFixed(0);
  return text.replaceAll("-", "−");
}
/** Formats a number for the tick of an axis: without zeros at its end. */
const tickText = (x) => String(Number(x.toPrecision(3))).replace("-", "−");
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
const noteOf = (what) => (what ? [el("p", { class: "muted" }, show(what))] : []);

// --- tables
const scrolling = (name, ...children) => el("div", { class: "scroll", tabindex: 0, role: "region",
  "aria-label": `${name}; scrolls sideways if it is wider than the page` }, ...children);

/**
 * Creates a table of `columns`, [{name, unit}], and rows of texts and numbers. A press on a column's title sorts the rows:
 * first numbers from the largest and texts from the first, then the other way round. Missing values are last.
 */
function tableOf(name, columns, rows) {
  let [by, up] = [null, true];
  const body = el("tbody");
  const isMissing = (x) => typeof x !== "string" && !Number.isFinite(x);
  const order = (a, b) => (typeof a === "string" ? a.localeCompare(String(b), "en", { numeric: true }) : a - b);
  const compare = ({ [by]: a }, { [by]: b }) => isMissing(a) - isMissing(b) || (up ? 1 : -1) * order(a, b);
  const line = ([first, ...rest]) => el("tr", {}, el("th", { scope: "row" }, show(first)),
    ...rest.map((value) => el("td", {}, show(value))));
  const sort = (k) => () => {
    [by, up] = [k, by === k ? !up : rows.some((row) => typeof row[k] === "string")];
    titles.forEach((title, at) => (title.ariaSort = at === by ? (up ? "ascending" : "descending") : null));
    body.replaceChildren(...rows.toSorted(compare).map(line));
  };
  const titles = columns.map(({ name, unit }, k) => el("th", { scope: "col" },
    el("button", { type: "button", class: "sort", onclick: sort(k) }, show(name)),
    ...(unit ? [el("small", {}, unit)] : [])));
  body.append(...rows.map(line));
  return scrolling(name, el("table", { "aria-label": name }, el("thead", {}, el("tr", {}, ...titles)), body));
}

/** Creates the table "Numbers" of a view. rows() returns its titles and rows when it is open, and after draw(). */
function numbersBehind(name, rows) {
  const details = el("details", { class: "numbers" }, el("summary", {}, "Numbers"));
  const draw = () => {
    const [titles, ...lines] = details.open ? rows() : [[]];
    const table = tableOf(`Numbers: ${name}`, titles.map((name) => ({ name })), lines);
    details.replaceChildren(details.firstChild, table);
  };
  details.addEventListener("toggle", draw);
  return { element: details, draw };
}

// --- maps
/** Creates a color bar with five ticks. draw(scale, masked) draws it. */
function colorBar() {
  const canvas = el("canvas", { "aria-hidden": true });
  const ticks = el("div", { class: "ticks" });
  const words = el("div", { class: "muted" });
  const draw = (scale, masked) => {
    paint(canvas, Array.from({ length: 256 }, (_, k) => valueAt(k / 255, scale)), 1, 256, scale, theme());
    ticks.replaceChildren(...[0, 0.25, 0.5, 0.75, 1].map((place) =>
      el("span", { style: `left:${100 * place}%` }, tickText(valueAt(place, scale)))));
    const swatch = el("span", { class: "swatch", style: `background:rgb(${ramps[theme()].masked})` });
    words.replaceChildren(`${scale.root ? "root" : "linear"} scale`, ...(masked ? ["; ", swatch, " masked"] : []));
  };
  return { element: el("div", { class: "bar" }, canvas, ticks, words), draw };
}

const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/**
 * Shows maps: a small map of each panel, if there are several, and a large map of the chosen panel. state[key] is {panel,
 * cell, hover}: the title of the chosen panel, the selected cell, and the cell under the pointer or null. A click or an
 * arrow key selects a cell. A text has the values of the cell under the pointer or, without one, of the selected cell.
 * describe() returns what is shown, and is called when one of `keys` of the state changes:
 *   name: text that describes the values; axes: [name of rows, name of columns]; rows, columns: names of rows and columns
 *   labels: [of rows, of columns], if they differ from the names; limit, signed: the color scale
 *   panels: [{title, numbers: [rows x columns], or nothing if they are not stored}]
 *   textOf(title, i, j): values of the cell in row i and column j, if they are more than that of the map
 * `across` is the number of small maps in a row.
 */
function mapsView(key, keys, across, describe) {
  let [map, chosen, at] = [describe()];
  const { name } = map;
  state[key] ??= { panel: map.panels[0]?.title, cell: [0, 0], hover: null };
  const [title, bar, picture] = [el("h4"), colorBar(), el("canvas")];
  const readout = el("output", { class: "readout" });
  const canvas = el("canvas", { class: "map", tabindex: 0, role: "application", "aria-roledescription": "heat map",
    "aria-label": `Map of ${name}: arrow keys move from cell to cell` });
  const holder = el("div", {}, canvas);
  const move = (patch) => change({ [key]: { ...state[key], ...patch } });
  const group = `maps ${views.length}`; // no other view has this name
  const small = map.panels.map((panel) => {
    const [canvas, caption] = [el("canvas", { "aria-hidden": true }), el("span")];
    const input = el("input", { type: "radio", name: group, onchange: () => move({ panel: panel.title }) });
    return { canvas, caption, input, element: el("label", {}, input, canvas, caption) };
  });
  const grid = el("div", { class: "panels", role: "radiogroup", "aria-label": `Maps of ${name}`,
    style: `--across:${across}` }, ...small.map(({ element }) => element));
  const behind = numbersBehind(name, () => [[map.axes.join(" \\ "), ...map.columns],
    ...(chosen?.numbers ? map.rows.map((row, i) => [row, ...map.columns.map((_, j) => valueOf(i, j))]) : [])]);

  const valueOf = (i, j) => chosen.numbers[i * map.columns.length + j];
  const within = ([i, j]) =>
    [[i, map.rows.length], [j, map.columns.length]].map(([x, n]) => Math.min(Math.max(x, 0), n - 1));
  // A map with a largest magnitude below 2 % of the limit has nearly one color.
  const faintOf = ({ numbers }) => (numbers && largest(numbers) < 0.02 * map.limit ? " below 2 %" : "");
  const scale = () => ({ max: map.limit, signed: map.signed, root: map.signed && state.root });
  const paintOn = (canvas, { numbers }) => paint(canvas, numbers, map.rows.length, map.columns.length, scale(), theme());
  const draw = () => {
    map = describe();
    map.panels.forEach((panel, k) => {
      const { canvas, caption } = small[k];
      canvas.style.visibility = panel.numbers ? "visible" : "hidden";
      canvas.style.imageRendering = map.columns.length > 48 ? "auto" : ""; // smooth, because it is drawn smaller
      if (panel.numbers) paintOn(canvas, panel);
      caption.textContent = show(panel.title) + faintOf(panel);
    });
    chosen = null;
    drawLarge();
  };
  const drawLarge = () => {
    const { panel, cell, hover } = state[key];
    if (chosen?.title !== panel) {
      chosen = map.panels.find(({ title }) => title === panel) ?? { title: panel };
      small.forEach(({ input }, k) => (input.checked = map.panels[k] === chosen));
      title.textContent = `${panel ? `${show(panel)}: ` : ""}${show(map.name)}` +
        faintOf(chosen).replace(/.+/, ",$& of the color scale's limit");
      canvas.hidden = bar.element.hidden = !chosen.numbers;
      if (chosen.numbers) {
        paintOn(picture, chosen);
        bar.draw(scale(), chosen.numbers.some(Number.isNaN));
      }
      behind.draw();
    }
    const [i, j] = within(hover ?? cell);
    const [rows, columns] = (map.labels ?? [map.rows, map.columns]).map(labelsOf);
    if (chosen.numbers && holder.clientWidth)
      at = drawMap(canvas, { picture, rows, columns, axes: map.axes, cell: [i, j] },
        Math.min(holder.clientWidth, 576), pageColors());
    readout.textContent = !chosen.numbers ? notStored : map.textOf?.(chosen.title, i, j) ??
      `${show(panel)}: ${map.axes[0]} ${show(map.rows[i])}, ${map.axes[1]} ${show(map.columns[j])}: ${show(valueOf(i, j))}`;
  };
  const pointed = ({ offsetX, offsetY }) => {
    const cell = [Math.floor(offsetY / at?.cellHeight), Math.floor((offsetX - at?.left) / at?.cellWidth)];
    return String(cell) === String(within(cell)) ? cell : null;
  };
  canvas.addEventListener("pointermove", (event) => {
    const hover = pointed(event);
    if (String(hover) !== String(state[key].hover)) move({ hover });
  });
  canvas.addEventListener("pointerleave", () => move({ hover: null }));
  canvas.addEventListener("click", (event) => pointed(event) && move({ cell: pointed(event) }));
  canvas.addEventListener("keydown", (event) => {
    if (!steps[event.key]) return;
    event.preventDefault();
    move({ cell: within(within(state[key].cell).map((x, k) => x + steps[event.key][k])), hover: null });
  });
  addView([...keys, "root", "theme"], draw);
  addView([key], drawLarge);
  new ResizeObserver(drawLarge).observe(holder);
  const large = el("div", { class: "view large" }, title, holder, readout, bar.element, behind.element);
  return el("div", { class: "maps" }, ...(small.length > 1 ? [el("div", { class: "view" }, grid)] : []), large);
}
const notStored = "not stored for this head or checkpoint";
