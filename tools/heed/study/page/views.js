// Views: each draws one part of a pane from `state` and says which keys of it it reads.

/** An element. Children that are texts become text, never HTML. */
function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

/** A number in three digits, a text as it is, nothing as a dash. */
function show(x) {
  if (typeof x === "string") return x;
  if (typeof x === "boolean") return x ? "yes" : "no";
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  const size = Math.abs(x);
  let text = x.toPrecision(3);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) text = x.toExponential(2);
  else if (Number.isInteger(x) || size >= 1000) text = x.toFixed(0);
  return text.replaceAll("-", "−");
}
const percent = (share) => (Number.isFinite(share) ? `${(100 * share).toFixed(1)} %`.replace("-", "−") : "–");

const visibleSigns = { " ": "␣", "\n": "↵", "\t": "⇥", "\u00a0": "⍽" };
/** A token whose spaces and control characters can be seen. */
function visible(token) {
  const sign = (c) => visibleSigns[c] ?? String.fromCharCode(0x2400 + c.charCodeAt(0));
  return token === "" ? "∅" : token.replace(/[\u0000-\u0020\u00a0]/g, sign);
}
const labelsOf = (pane) => pane.tokens.map(visible).map((text) => (text.length > 9 ? text.slice(0, 8) + "…" : text));
const headName = (layer, head) => `L${layer}H${head}`;

/** "6 “c”", or of a cell of several tokens "24–27 “c”". */
function tokenName(pane, i) {
  const first = i * pane.block;
  const last = Math.min(first + pane.block, pane.length) - 1;
  return `${last > first ? `${first}–${last}` : first} “${visible(pane.tokens[i])}”`;
}

function tableOf([head, ...rows], caption) {
  const line = (cells, tag) => el("tr", {}, ...cells.map((cell, k) =>
    el(k === 0 || tag === "th" ? "th" : "td", { scope: tag === "th" ? "col" : k === 0 && "row" }, show(cell))));
  return el("table", {}, ...(caption ? [el("caption", {}, caption)] : []), el("thead", {}, line(head, "th")),
    el("tbody", {}, ...rows.map((row) => line(row, "td"))));
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

/** Buttons of which one is pressed: one stop for Tab, arrows press the others. */
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

/** What is behind a view: as a table when opened, and for the clipboard, there from `forCsv`. */
function numbersBehind(name, rows, forCsv = rows) {
  const holder = el("div", { class: "scroll" });
  const details = el("details", { class: "numbers" }, el("summary", {}, "Numbers"), holder);
  const draw = () => details.open && holder.replaceChildren(tableOf(rows(), name));
  details.addEventListener("toggle", draw);
  return { element: el("div", { class: "tools" }, copyButton(name, forCsv), details), draw };
}

/** A color bar with five ticks, and in words what it is a bar of. */
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

const rangeWords = { heads: "range of all heads", head: "range of this head", steps: "range of all checkpoints" };
const scaleWords = (q, scale) => [q.title, q.unit, rangeWords[state.range], scale.root ? "root scale" : "linear scale"]
  .filter(Boolean).join(", ");

/**
 * A map to explore by pointer and keys. `describe` gives what drawMap takes and the map's `numbers`, or
 * null; `move` and `choose` are called with a row and a column, choose from an axis with only one.
 */
function explorable(label, { describe, move, choose }) {
  const canvas = el("canvas", { class: "map", tabindex: 0, role: "application", "aria-roledescription": "heat map", "aria-label": label });
  const holder = el("div", {}, canvas);
  let map = null;
  let at = null;
  const draw = () => {
    map = describe();
    canvas.hidden = !map;
    if (map && holder.clientWidth) at = drawMap(canvas, map, Math.min(holder.clientWidth, 576), pageColors());
  };
  const under = (event) => (at ? cellAt(at, map, event.offsetX, event.offsetY) : { row: null, column: null });
  canvas.addEventListener("pointermove", (event) => {
    const { row, column } = under(event);
    if (row !== null && column !== null && String([row, column]) !== String(map.cursor)) move(row, column);
  });
  canvas.addEventListener("click", (event) => {
    const { row, column } = under(event);
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

const mapKeys = ["quantity", "moment", "root", "range", "theme"];

/** Every head as a small map: what to enlarge. */
function overviewView(pane) {
  const n = pane.tokens.length;
  const panels = headsOf(pane).map(({ layer, head }) => {
    const canvas = el("canvas", { class: n > 48 ? "fine" : "", "aria-hidden": true });
    const caption = el("span");
    const button = el("button", { type: "button", onclick: () => change({ layer, head }) }, canvas, caption);
    return { layer, head, canvas, caption, button };
  });
  const grid = el("div", { class: "heads", role: "group", "aria-label": `Heads of ${pane.name}`, style: `--heads:${pane.heads}` },
    ...panels.map((panel) => panel.button));
  pressOneOf(grid, panels.map((panel) => panel.button), pane.heads);
  const largest = () => [["head", "smallest", "largest", "largest magnitude at query", "key"],
    ...panels.filter((p) => mapOf(pane, quantity(), p.layer, p.head)).map((p) => extremesOf(pane, p))];
  const behind = numbersBehind("each head's range", largest, () => allCells(pane));
  const draw = () => panels.forEach(({ layer, head, canvas, caption, button }) => {
    const map = mapOf(pane, quantity(), layer, head);
    canvas.style.visibility = map ? "visible" : "hidden";
    if (map) paint(canvas, numbersOf(map, n), n, n, scaleOf(quantity(), layer, head), theme());
    setPressed(button, layer === state.layer && head === state.head);
    const badge = reportOf(pane, layer, head)?.saturated ? [" ", el("b", { class: "badge", title: "saturated" }, "sat.")] : [];
    caption.replaceChildren(headName(layer, head), ...badge);
  });
  addView(["layer", "head", ...mapKeys], () => (draw(), behind.draw()));
  return el("section", { class: "view overview" }, el("h3", {}, "All heads"), grid, behind.element);
}

function extremesOf(pane, { layer, head }) {
  const n = pane.tokens.length;
  const numbers = numbersOf(mapOf(pane, quantity(), layer, head), n);
  let [low, high, place] = [Infinity, -Infinity, 0];
  numbers.forEach((x, k) => {
    if (Number.isNaN(x)) return;
    [low, high] = [Math.min(low, x), Math.max(high, x)];
    if (Number.isNaN(numbers[place]) || Math.abs(x) > Math.abs(numbers[place])) place = k;
  });
  return [headName(layer, head), low, high, tokenName(pane, Math.floor(place / n)), tokenName(pane, place % n)];
}

const rounded = (x) => Number(x.toPrecision(6)); // the maps hold no more digits

function allCells(pane) {
  const n = pane.tokens.length;
  const rows = [["head", "query", "query token", "key", "key token", quantity().name]];
  for (const { layer, head } of headsOf(pane)) {
    const map = mapOf(pane, quantity(), layer, head);
    if (!map) continue;
    numbersOf(map, n).forEach((x, k) => {
      const [i, j] = [Math.floor(k / n), k % n];
      if (!Number.isNaN(x)) rows.push([headName(layer, head), i, pane.tokens[i], j, pane.tokens[j], rounded(x)]);
    });
  }
  return rows;
}

/** One head enlarged, and the cell under the cursor in words. */
function headView(pane) {
  const n = pane.tokens.length;
  const [title, readout, bar] = [el("h3"), el("output", { class: "readout" }), colorBar()];
  const current = () => mapOf(pane, quantity(), state.layer, state.head);
  const scale = () => scaleOf(quantity(), state.layer, state.head);
  const picture = el("canvas");
  const map = explorable(`Map of ${pane.name}: arrow keys go from cell to cell, Enter shows a token's routes`, {
    describe: () => current() && { picture, rows: n, columns: n, rowLabels: labelsOf(pane), columnLabels: labelsOf(pane),
      rowTitle: "query", columnTitle: "key", numbers: numbersOf(current(), n), cursor: cursorOf(pane),
      column: Math.min(state.token, n - 1) },
    move: (query, key) => change({ query, key }),
    choose: (query, key) => change({ token: key ?? query }),
  });
  const matrix = () => [["query \\ key", ...pane.tokens.map((_, j) => tokenName(pane, j))],
    ...pane.tokens.map((_, i) => [tokenName(pane, i), ...Array.from(numbersOf(current(), n).slice(i * n, (i + 1) * n), (x) =>
      (Number.isNaN(x) ? null : rounded(x)))])];
  const behind = numbersBehind("the map, a row a query", () => (current() ? matrix() : [[lack(pane)]]));
  addView(["layer", "head", ...mapKeys], () => {
    title.textContent = `${headName(state.layer, state.head)}: ${quantity().title}`;
    bar.element.hidden = !current();
    if (current()) paint(picture, numbersOf(current(), n), n, n, scale(), theme());
    bar.draw(scale(), scaleWords(quantity(), scale()));
    behind.draw();
  });
  addView(["layer", "head", "query", "key", "token", ...mapKeys], () => {
    map.draw();
    readout.textContent = cellText(pane, ...cursorOf(pane));
  });
  return el("section", { class: "view one-head" }, title, map.element, readout, bar.element, behind.element);
}

const lack = (pane) => (reportOf(pane, state.layer, state.head) ? "not kept at this checkpoint" : "of no head here");

/** Every quantity at one cell of the chosen head. */
function cellText(pane, i, j) {
  const where = `${headName(state.layer, state.head)}, query ${tokenName(pane, i)}, key ${tokenName(pane, j)}: `;
  const order = [quantity(), ...data.quantities.filter((q) => q !== quantity())];
  const parts = order.map((q) => {
    const map = mapOf(pane, q, state.layer, state.head);
    const x = map && numbersOf(map, pane.tokens.length)[i * pane.tokens.length + j];
    return map ? `${q.title} ${Number.isNaN(x) ? "masked" : `= ${show(x)}`}` : `${q.title} ${lack(pane)}`;
  });
  return where + parts.join(", ");
}

/** The sequence; a press on a token asks for its routes. Shaded: where its gradient comes from. */
function tokensView(pane) {
  const buttons = pane.tokens.map((token, i) => el("button", { type: "button", class: "token", title: tokenName(pane, i),
    "aria-label": `token ${tokenName(pane, i)}`, onclick: () => change({ token: i }) }, visible(token)));
  const strip = el("div", { class: "tokens", role: "toolbar", "aria-label": `Tokens of ${pane.name}` }, ...buttons);
  pressOneOf(strip, buttons, Infinity);
  addView(["token", "layer", "moment"], () => {
    const flow = flowInto(pane, state.layer, tokenOf(pane));
    const most = Math.max(...flow);
    buttons.forEach((button, i) => {
      button.style.setProperty("--share", most > 0 ? flow[i] / most : 0);
      setPressed(button, i === tokenOf(pane));
    });
  });
  return el("section", { class: "view" }, el("h3", {}, "Tokens: press one to see where its gradient comes from"), strip);
}

/** Bars from 0, also to the left. items: {name, kind, value, text}. */
function barsOf(items) {
  const values = items.map((item) => item.value ?? 0);
  const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
  const at = (x) => (high > low ? (100 * (x - low)) / (high - low) : 0);
  return items.flatMap(({ name, kind, value, text }) => [
    el("span", {}, name),
    el("span", { class: "track", style: `--zero:${at(0)}%` }, el("i", { style:
      `--part:var(--${kind});left:${at(Math.min(value, 0))}%;width:${at(Math.max(value, 0)) - at(Math.min(value, 0))}%` })),
    el("span", { class: "share" }, text)]);
}

const partKind = (name) => name.match(/(residual|mlp|[QKV])$/)?.[0].toLowerCase() ?? "residual";

/** The gradient at the chosen token and layer, part by part, and the queries that its K and V parts come from. */
function routesView(pane) {
  const n = pane.tokens.length;
  const [title, words, bars, layers] = [el("h3"), el("p"), el("div", { class: "parts" }), el("div", { class: "scroll" })];
  const [readout, picture, bar] = [el("output", { class: "readout" }), el("canvas"), colorBar()];
  const routes = () => momentOf(pane).routes?.[state.layer];
  const scale = () => ({ max: Math.max(0, ...fromOf(pane, state.layer).map((map) => map.scale)), signed: true, root: true });
  const rows = () => fromOf(pane, state.layer).map((map) => Array.from({ length: n }, (_, i) => numbersOf(map, n)[i * n + tokenOf(pane)]));
  const map = explorable(`Where the gradient of the token comes from, in ${pane.name}: a row a head, a column a query`, {
    describe: () => fromOf(pane, state.layer).length > 0 && { picture, rows: rows().length, columns: n, height: 22, numbers: rows().flat(),
      rowLabels: fromOf(pane, state.layer).map((from) => headName(state.layer, from.head)), columnLabels: labelsOf(pane),
      rowTitle: "head", columnTitle: "query", column: tokenOf(pane),
      cursor: [Math.min(state.fromHead, rows().length - 1), Math.min(state.fromQuery, n - 1)] },
    move: (fromHead, fromQuery) => change({ fromHead, fromQuery }),
    choose: (row, column) => change({ head: fromOf(pane, state.layer)[row ?? state.fromHead].head, query: column ?? state.fromQuery, key: tokenOf(pane) }),
  });
  const behind = numbersBehind("routes of this token, layer by layer", () => routeRows(pane));
  const behindFrom = numbersBehind("what comes from each query", () => [["head", ...pane.tokens.map((_, i) => tokenName(pane, i))],
    ...rows().map((row, h) => [headName(state.layer, fromOf(pane, state.layer)[h].head), ...row.map((x) => (Number.isNaN(x) ? null : rounded(x)))])]);
  const from = el("div", { class: "view" }, el("h4", {}, "The K and V parts, by query"), map.element, readout, bar.element, behindFrom.element);
  const section = el("section", { class: "view routes" }, title, words, el("div", { class: "pair" },
    el("div", { class: "view" }, bars, layers, behind.element), from));
  addView(["token", "layer", "moment"], () => {
    section.hidden = !routes();
    if (!routes()) return;
    const token = tokenOf(pane);
    title.textContent = `Where the gradient at token ${tokenName(pane, token)} comes from, before layer ${state.layer}`;
    words.textContent = routesText(pane, token);
    bars.replaceChildren(...barsOf(routes().parts.map(({ name, share }) =>
      ({ name, kind: partKind(name), value: share[token], text: percent(share[token]) }))));
    behind.draw();
    behindFrom.draw();
  });
  addView(["token", "layer", "moment", "theme", "fromHead", "fromQuery"], () => {
    from.hidden = fromOf(pane, state.layer).length === 0;
    if (from.hidden) return;
    paint(picture, rows().flat(), rows().length, n, scale(), theme());
    bar.draw(scale(), "|dL/d residual| that arrives here, root scale");
    map.draw();
    readout.textContent = fromText(pane, rows());
  });
  return section;
}

/** The largest part and the largest query of it, in words. */
function routesText(pane, token) {
  const { total, parts } = momentOf(pane).routes[state.layer];
  if (!(total[token] > 0)) return "No gradient arrives at this token: nothing that L asks for depends on it here.";
  const top = parts.reduce((a, b) => (Math.abs(b.share[token]) > Math.abs(a.share[token]) ? b : a));
  const flow = flowInto(pane, state.layer, token);
  const query = flow.indexOf(Math.max(...flow));
  const start = `|dL/d residual| = ${show(total[token])} here. The largest part, ${percent(top.share[token])}, is ${partWords(top.name)}`;
  return flow[query] > 0 ? `${start}; through keys and values most comes from query ${tokenName(pane, query)}.` : `${start}.`;
}

function partWords(name) {
  if (name === "residual") return "what comes straight down the residual stream";
  if (name === "mlp") return "what comes through the MLP";
  const [head, side] = name.split(".");
  return `what comes through ${head}'s ${{ Q: "query", K: "key", V: "value" }[side] ?? side}`;
}

function fromText(pane, rows) {
  const row = Math.min(state.fromHead, rows.length - 1);
  const query = Math.min(state.fromQuery, pane.tokens.length - 1);
  const x = rows[row][query];
  const head = headName(state.layer, fromOf(pane, state.layer)[row].head);
  if (Number.isNaN(x)) return `${head}, query ${tokenName(pane, query)}: does not see this token`;
  const whole = momentOf(pane).routes[state.layer].total[tokenOf(pane)];
  return `${head}, query ${tokenName(pane, query)}: ${show(x)}, ${percent(x / whole)} of the gradient at this token`;
}

function routeRows(pane) {
  const token = tokenOf(pane);
  return [["layer", "part", "share", "share × |dL/d residual|"], ...momentOf(pane).routes.flatMap(({ total, parts }, layer) =>
    [[`before layer ${layer}`, "whole", 1, total[token]], ...parts.map(({ name, share }) =>
      [`before layer ${layer}`, name, share[token], share[token] === null ? null : share[token] * total[token]])])];
}

/** The heads' numbers; itself a table. */
function headsView(pane) {
  const body = el("tbody");
  const columns = [{ name: "dL/dg", unit: "", what: "of the objective by g, the head's output times g at g = 1" }, ...data.head_columns];
  const table = el("table", {}, el("thead", {}, el("tr", {}, ...[{ name: "head" }, ...columns, { name: "" }].map(({ name, unit, what }) =>
    el("th", { scope: "col", title: what ?? "" }, name, ...(unit ? [el("small", {}, unit)] : []))))), body);
  const numbers = (report) => [report.importance, ...report.values];
  const rows = () => [["head", ...columns.map((c) => c.name), "saturated"],
    ...momentOf(pane).heads.map((report) => [headName(report.layer, report.head), ...numbers(report), Boolean(report.saturated)])];
  addView(["moment", "layer", "head"], () => {
    body.replaceChildren(...momentOf(pane).heads.map((report) => {
      const { layer, head, saturated } = report;
      const name = el("button", { type: "button", onclick: () => change({ layer, head }) }, headName(layer, head));
      return el("tr", { class: layer === state.layer && head === state.head ? "chosen" : "" }, el("th", { scope: "row" }, name),
        ...numbers(report).map((x) => el("td", {}, show(x))), el("td", {}, ...(saturated ? [el("b", { class: "badge" }, "saturated")] : [])));
    }));
  });
  return el("section", { class: "view heads-table" }, el("h3", {}, "Heads in numbers"), el("div", { class: "scroll" }, table),
    el("div", { class: "tools" }, copyButton("heads", rows)));
}

/** What one head's output does through a later head. */
function edgesView(pane) {
  const bars = el("div", { class: "parts" });
  const sorted = () => [...(momentOf(pane).edges ?? [])].sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  const behind = numbersBehind("head to head", () => [["from", "to", "value"], ...sorted().map((e) => [e.from, e.to, e.value])]);
  const section = el("section", { class: "view edges" }, el("h3", {}, "Head to head"),
    el("p", { class: "muted" }, "Gradient × activation: what the first head writes times the gradient that reaches it through the second. " +
      "The twelve largest."), bars, behind.element);
  addView(["moment"], () => {
    section.hidden = sorted().length === 0;
    bars.replaceChildren(...barsOf(sorted().slice(0, 12).map(({ from, to, value }) =>
      ({ name: `${from} → ${to}`, kind: partKind(to), value, text: show(value) }))));
    behind.draw();
  });
  return section;
}

/** A table of the study that is no view of a pane: ablation, patching, lens. */
function tableView({ title, what, columns, rows }) {
  const head = columns.map(({ name, unit }) => (unit ? `${name} (${unit})` : name));
  return el("section", { class: "view" }, el("h2", {}, title), el("p", { class: "muted" }, what),
    el("div", { class: "scroll" }, tableOf([head, ...rows])), el("div", { class: "tools" }, copyButton(title, () => [head, ...rows])));
}
