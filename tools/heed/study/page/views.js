// Views. Each view draws one part of a pane from `state`, and registers the keys of `state` that it
// reads.

const mapKeys = ["quantity", "checkpoint", "scale", "range", "theme"];
const rounded = (x) => (Number.isNaN(x) ? null : Number(x.toPrecision(6))); // the digits that maps have
const rowOf = (numbers, n, i) => Array.from(numbers.slice(i * n, (i + 1) * n));
const chosenMap = (pane, q = quantity()) => mapOf(pane, q, state.layer, state.head);
const axesOf = (q) => q.axes ?? ["query", "key"]; // the names of rows and of columns
const isChosen = ({ layer, head }) => layer === state.layer && head === state.head;

/** Shows every head as a small map. A click on a map selects its head. */
function overviewView(pane) {
  const n = pane.tokens.length;
  const panels = headsOf(pane).map(({ layer, head }) => {
    const canvas = el("canvas", { class: n > 48 ? "fine" : "", "aria-hidden": true });
    const caption = el("span");
    const button = el("button", { type: "button", onclick: () => change({ layer, head }) }, canvas, caption);
    return { layer, head, canvas, caption, button };
  });
  const buttons = panels.map((panel) => panel.button);
  const grid = el("div", { class: "heads", role: "group", "aria-label": `Heads of ${pane.name}` }, ...buttons);
  grid.style.setProperty("--heads", pane.heads);
  pressOneOf(grid, buttons, pane.heads);
  const [row, column] = [() => `largest magnitude at ${axesOf(quantity())[0]}`, () => axesOf(quantity())[1]];
  const largest = () => [["head", "smallest", "largest", row(), column()],
    ...panels.filter((p) => mapOf(pane, quantity(), p.layer, p.head)).map((p) => extremesOf(pane, p))];
  const behind = numbersBehind("each head's range", largest, () => allCells(pane));
  const draw = () => panels.forEach(({ layer, head, canvas, caption, button }) => {
    const map = mapOf(pane, quantity(), layer, head);
    const scale = scaleOf(pane, quantity(), layer, head);
    canvas.style.visibility = map ? "visible" : "hidden";
    if (map) paint(canvas, numbersOf(map, n), n, n, scale, theme());
    setPressed(button, isChosen({ layer, head }));
    button.title = faintText(map, scale);
    caption.replaceChildren(headName(layer, head), ...badgeOf(reportOf(pane, layer, head)),
      ...(isFaint(map, scale) ? [el("small", {}, " below 2 %")] : []));
  });
  addView(["layer", "head", ...mapKeys], () => (draw(), behind.draw()));
  return el("section", { class: "view overview" }, el("h3", {}, "All heads"), grid, behind.element);
}

// A map is faint if its largest magnitude is so small on the scale that its cells have nearly the color of 0.
const isFaint = (map, scale) => Boolean(map) && map.scale < 0.02 * scale.max;
const faintText = (map, scale) => (isFaint(map, scale) ? `The largest magnitude of this map is ${show(map.scale)}, ` +
  `which is below 2 % of the color scale's limit ${show(scale.max)}.` : "");

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

function allCells(pane) {
  const n = pane.tokens.length;
  const [row, column] = axesOf(quantity());
  const rows = [["head", row, `${row} token`, column, `${column} token`, quantity().name]];
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

/** Shows the selected head as a large map, and the values of the cell at the cursor as text. */
function headView(pane) {
  const n = pane.tokens.length;
  const [title, faint, bar] = [el("h3"), el("p"), colorBar()];
  const readout = el("output", { class: "readout" });
  const scale = () => scaleOf(pane, quantity(), state.layer, state.head);
  const numbers = () => numbersOf(chosenMap(pane), n);
  const picture = el("canvas");
  const labels = labelsOf(pane);
  const map = explorable(`Map of ${pane.name}: arrow keys move from cell to cell, Enter selects a token`, {
    describe: () => chosenMap(pane) && { picture, rows: n, columns: n, rowLabels: labels, columnLabels: labels,
      rowTitle: axesOf(quantity())[0], columnTitle: axesOf(quantity())[1], numbers: numbers(), cursor: cursorOf(pane),
      pinned: state.pinned, hover: hoverOf(pane), column: hasWeights ? tokenOf(pane) : null },
    point: (hover) => change({ hover }),
    move: (query, key) => change({ query, key, pinned: true, hover: null }),
    choose: (query, key) => change({ token: key ?? query }),
  });
  const matrix = () => [[axesOf(quantity()).join(" \\ "), ...tokenNames(pane)],
    ...tokenNames(pane).map((name, i) => [name, ...rowOf(numbers(), n, i).map(rounded)])];
  const behind = numbersBehind("the map, one row for each query", () => (chosenMap(pane) ? matrix() : [[lack(pane)]]));
  addView(["layer", "head", ...mapKeys], () => {
    title.textContent = `${headName(state.layer, state.head)}: ${quantity().title}`;
    bar.element.hidden = !chosenMap(pane);
    if (chosenMap(pane)) paint(picture, numbers(), n, n, scale(), theme());
    bar.draw(scale(), scaleWords(quantity(), scale()));
    faint.textContent = faintText(chosenMap(pane), scale());
    behind.draw();
  });
  addView(["layer", "head", "query", "key", "pinned", "hover", "token", ...mapKeys], () => {
    map.draw();
    const cell = hoverOf(pane) ?? (state.pinned ? cursorOf(pane) : null);
    readout.textContent = cell ? cellText(pane, ...cell) : "No cell is selected. Click one, or use the arrow keys.";
  });
  return el("section", { class: "view one-head" }, title, map.element, readout, bar.element, faint, behind.element);
}

const lack = (pane) => (state.layer < pane.layers && state.head < pane.heads ?
  (hasWeights ? "not stored for this checkpoint" : "not stored for this head") :
  "not available, because this run does not have this head");

/** Returns a text with the value of every quantity at one cell of the selected head. */
function cellText(pane, i, j) {
  const [row, column] = axesOf(quantity());
  const where = `${headName(state.layer, state.head)}, ${row} ${tokenName(pane, i)}, ${column} ${tokenName(pane, j)}: `;
  const order = [quantity(), ...data.quantities.filter((q) => q !== quantity() && !q.axes)];
  const parts = order.map((q) => {
    const map = chosenMap(pane, q);
    if (!map) return `${q.title} ${lack(pane)}`;
    const x = numbersOf(map, pane.tokens.length)[i * pane.tokens.length + j];
    return `${q.title} ${Number.isNaN(x) ? "masked" : `= ${show(x)}`}`;
  });
  return where + [...parts, measuredText(pane, i, j)].filter(Boolean).join(", ");
}

/** Returns the measured change of L if the cell is cut, or how to measure it. */
function measuredText(pane, i, j) {
  if (!pane.cells) return "";
  const is = (cell) => cell.layer === state.layer && cell.head === state.head && cell.query === i && cell.key === j;
  const found = (pane.block > 1 ? [] : pane.cells).find(is);
  if (found) return `measured change = ${show(found.effect)}`;
  const range = (k) => (pane.block === 1 ? k : `${k * pane.block}-${Math.min((k + 1) * pane.block, pane.length) - 1}`);
  return `measured change: add --cut "${headName(state.layer, state.head)}[${range(i)},${range(j)}]" to the command`;
}

/**
 * Shows the sequence. A click selects a token. The shading of each token shows how much of the gradient at the selected
 * token comes from there. A text names the keys that the selected head reads most at the selected token.
 */
function tokensView(pane) {
  const buttons = tokenNames(pane).map((name, token) => el("button", { type: "button", class: "token", title: name,
    "aria-label": `token ${name}`, onclick: () => change({ token }) }, visible(pane.tokens[token])));
  const strip = el("div", { class: "tokens", role: "toolbar", "aria-label": `Tokens of ${pane.name}` }, ...buttons);
  pressOneOf(strip, buttons, Infinity);
  addView(["token", "layer", "checkpoint"], () => {
    const flow = flowInto(pane, state.layer, tokenOf(pane));
    const most = Math.max(...flow);
    buttons.forEach((button, i) => {
      button.style.setProperty("--share", most > 0 ? flow[i] / most : 0);
      setPressed(button, i === tokenOf(pane));
    });
  });
  const reads = el("output", { class: "reads" });
  addView(["token", "layer", "head", "checkpoint"], () => (reads.textContent = readsText(pane)));
  const what = hasRoutes(pane) ? "what it reads and the routes of its gradient" : "what it reads";
  return el("section", { class: "view tokens-view" }, el("h3", {}, `Tokens: select one to see ${what}`), strip, reads);
}

/** Returns a text with the five largest weights of the selected head at the selected token. */
function readsText(pane) {
  const [n, token] = [pane.tokens.length, tokenOf(pane)];
  const where = `${headName(state.layer, state.head)} at ${tokenName(pane, token)}`;
  const map = chosenMap(pane, { name: weightsName });
  if (!map) return `${where}: the weights are ${lack(pane)}.`;
  const row = rowOf(numbersOf(map, n), n, token);
  const largest = [...row.keys()].filter((key) => row[key]) // neither masked nor 0
    .sort((a, b) => Math.abs(row[b]) - Math.abs(row[a])).slice(0, 5);
  const texts = largest.map((key) => {
    const [position, text] = tokensAt(pane, key);
    return `${text ? `${text} at ` : ""}${position} (${row[key].toPrecision(2).replace("-", "−")})`;
  });
  const verb = isSigned(pane, { name: weightsName }) ? "changes most at" : "reads";
  const rule = pane.block > 1 ? "; the largest weight of each block" : "";
  return `${where} ${verb}: ${texts.join(", ") || "nothing"}${rule}`;
}

/** Returns a bar for each item {name, kind, value, text}. Bars begin at 0; `kind` determines the color. */
function barsOf(items) {
  const values = items.map((item) => item.value ?? 0);
  const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
  const at = (x) => (high > low ? (100 * (x - low)) / (high - low) : 0);
  return items.flatMap(({ name, kind, value, text }) => {
    const [left, right] = [at(Math.min(value, 0)), at(Math.max(value, 0))];
    const bar = el("i", { style: `--part:var(--${kind});left:${left}%;width:${right - left}%` });
    return [el("span", {}, name), el("span", { class: "track", style: `--zero:${at(0)}%` }, bar),
      el("span", { class: "share" }, text)];
  });
}

const partKind = (name) => name.match(/(residual|mlp|[QKV])$/)?.[0].toLowerCase() ?? "residual";

const chosenFrom = (pane) => fromOf(pane, state.layer);
const fromNames = (pane) => chosenFrom(pane).map(({ head }) => headName(state.layer, head));

/** Shows how much gradient reaches the selected token from each query, through the keys and values of each head. */
function fromView(pane) {
  const n = pane.tokens.length;
  const [readout, picture, bar] = [el("output", { class: "readout" }), el("canvas"), colorBar()];
  const scale = () => ({ max: Math.max(...rows().flat().map((x) => Math.abs(x || 0))), signed: true,
    curve: curves[state.scale] });
  const column = (map) => Array.from({ length: n }, (_, i) => numbersOf(map, n)[i * n + tokenOf(pane)]);
  const rows = () => chosenFrom(pane).map(column);
  const inside = ([row, query]) => [Math.min(row, chosenFrom(pane).length - 1), Math.min(query, n - 1)];
  const cursor = () => inside([state.fromHead, state.fromQuery]);
  const hover = () => state.fromHover && inside(state.fromHover);
  const map = explorable(`Origin of the token's gradient in ${pane.name}: rows are heads, columns are queries`, {
    describe: () => chosenFrom(pane).length > 0 && { picture, rows: rows().length, columns: n, height: 22,
      numbers: rows().flat(), rowLabels: fromNames(pane), columnLabels: labelsOf(pane), rowTitle: "head",
      columnTitle: "query", column: tokenOf(pane), cursor: cursor(), pinned: true, hover: hover() },
    point: (fromHover) => change({ fromHover }),
    move: (fromHead, fromQuery) => change({ fromHead, fromQuery, fromHover: null }),
    choose: (row, query) => change({ head: chosenFrom(pane)[row ?? cursor()[0]].head, query: query ?? cursor()[1],
      key: tokenOf(pane), pinned: true, hover: null }),
  });
  const behind = numbersBehind("gradient from each query", () => [["head", ...tokenNames(pane)],
    ...rows().map((row, h) => [fromNames(pane)[h], ...row.map(rounded)])]);
  const section = el("div", { class: "view" }, el("h4", {}, "The K and V parts, by query"), map.element, readout,
    bar.element, behind.element);
  addView(["token", "layer", "checkpoint", "theme", "scale", "fromHead", "fromQuery", "fromHover"], () => {
    section.hidden = chosenFrom(pane).length === 0;
    if (section.hidden) return;
    paint(picture, rows().flat(), rows().length, n, scale(), theme());
    bar.draw(scale(), "component of dL/d(residual stream) that arrives at this token, range of this token, " +
      scale().curve.words);
    map.draw();
    readout.textContent = fromText(pane, hover() ?? cursor(), rows());
  });
  addView(["token", "layer", "checkpoint"], behind.draw);
  return section;
}

function fromText(pane, [row, query], rows) {
  const x = rows[row][query];
  const where = `${fromNames(pane)[row]}, query ${tokenName(pane, query)}`;
  const whole = checkpointOf(pane).routes[state.layer].total[tokenOf(pane)];
  if (Number.isNaN(x)) return `${where}: cannot read this token, because it is masked`;
  return `${where}: ${show(x)}, ${percent(x / whole)} of the gradient at this token`;
}

/** Shows how the gradient at the selected token, before the selected layer, divides into routes through the model. */
function routesView(pane) {
  const [title, words, bars] = [el("h3"), el("p"), el("div", { class: "parts" })];
  const routes = () => checkpointOf(pane).routes?.[state.layer];
  const behind = numbersBehind("routes of this token, layer by layer", () => routeRows(pane));
  const section = el("section", { class: "view routes" }, title, words,
    el("div", { class: "pair" }, el("div", { class: "view" }, bars, behind.element), fromView(pane)));
  addView(["token", "layer", "checkpoint"], () => {
    section.hidden = !routes();
    if (!routes()) return;
    const token = tokenOf(pane);
    title.textContent = `Routes of the gradient at token ${tokenName(pane, token)}, before layer ${state.layer}`;
    words.textContent = routesText(pane, token);
    bars.replaceChildren(...barsOf(routes().parts.map(({ name, share }) =>
      ({ name, kind: partKind(name), value: share[token], text: percent(share[token]) }))));
    behind.draw();
  });
  return section;
}

/** Returns a text that names the largest route and the query that contributes most. */
function routesText(pane, token) {
  const { total, parts } = checkpointOf(pane).routes[state.layer];
  if (!(total[token] > 0)) return "No gradient arrives at this token, because L does not depend on it here.";
  const top = parts.reduce((a, b) => (Math.abs(b.share[token]) > Math.abs(a.share[token]) ? b : a));
  const flow = flowInto(pane, state.layer, token);
  const query = flow.indexOf(Math.max(...flow));
  const largest = `The largest part, ${percent(top.share[token])}, comes ${partText(top.name)}`;
  const origin = `; of all queries, ${tokenName(pane, query)} contributes most through keys and values`;
  const most = flow[query] > 0 ? origin : "";
  return `|dL/d residual| = ${show(total[token])} here. ${largest}${most}.`;
}

function partText(name) {
  if (name === "residual") return "directly along the residual stream";
  if (name === "mlp") return "through the MLP";
  const [head, side] = name.split(".");
  return `through ${head}'s ${{ Q: "query", K: "key", V: "value" }[side] ?? side}`;
}

function routeRows(pane) {
  const token = tokenOf(pane);
  const product = (a, b) => (a === null || b === null ? null : a * b);
  return [["layer", "part", "share", "share × |dL/d residual|"],
    ...(checkpointOf(pane).routes ?? []).flatMap(({ total, parts }, layer) =>
      [{ name: "whole", share: { [token]: 1 } }, ...parts].map(({ name, share }) =>
        [`before layer ${layer}`, name, share[token], product(share[token], total[token])]))];
}

/** Returns the mark of a head; "" if it has none or does not count. */
const markOf = (report) => (["", "-"].includes(report?.mark ?? "") ? "" : report.mark);
const badgeOf = (report) => (markOf(report) ? [" ", el("b", { class: "badge", title: markTitle(markOf(report)) },
  markOf(report))] : []);
const markTitle = (mark) => (mark.startsWith("x") ? `the prediction is ${mark.slice(1)} times the effect` : "see below");

/** Shows the numbers of the heads as a table. */
function headsView(pane) {
  const columns = headColumns;
  const titles = [{ name: "head" }, ...columns].map(({ name, unit, what }) =>
    el("th", { scope: "col", title: what ?? "" }, columnName(name), ...(unit ? [el("small", {}, unit)] : [])));
  const body = el("tbody");
  const table = el("table", { "aria-label": `Heads of ${pane.name}` }, el("thead", {}, el("tr", {}, ...titles)), body);
  const sort = sortable(table);
  const numbers = (report) => [...report.values, ...effectColumns.map(({ name }) => report[name] ?? null)];
  const reports = () => checkpointOf(pane).heads ?? [];
  const rows = () => [["head", ...columns.map((column) => column.name), "mark"],
    ...reports().map((report) => [headName(report.layer, report.head), ...numbers(report), report.mark ?? ""])];
  const line = (report) => {
    const { layer, head } = report;
    const name = el("button", { type: "button", onclick: () => change({ layer, head }) }, headName(layer, head));
    return el("tr", { class: isChosen(report) ? "chosen" : "" }, rowHeading(headName(layer, head), name, ...badgeOf(report)),
      ...numbers(report).map(dataCell));
  };
  const section = el("section", { class: "view heads-table" }, el("h3", {}, "Numbers of the heads"),
    el("p", { class: "muted" }, "Of the sequence shown" +
      (hasEffects ? "; needed, suffices, predicted and the marks are those of sequences of the task." : ".")),
    el("div", { class: "scroll" }, table),
    el("div", { class: "tools" }, copyButton(`heads of ${pane.name}`, rows), columnChoice()));
  addView(["checkpoint", "layer", "head", "columns"], () => {
    section.hidden = reports().length === 0;
    body.replaceChildren(...reports().map(line));
    for (const row of table.rows)
      columns.forEach(({ name }, k) => (row.cells[k + 1].hidden = !state.columns.includes(name)));
    sort();
  });
  return section;
}

const columnName = (name) => name.replaceAll("_", " ");

/** Creates the control that selects which columns the tables of heads show. */
function columnChoice() {
  const boxes = headColumns.map(({ name }) => el("input", { type: "checkbox", onchange: (event) => change({
    columns: event.target.checked ? [...state.columns, name] : state.columns.filter((other) => other !== name) }) }));
  addView(["columns"], () => boxes.forEach((box, k) => (box.checked = state.columns.includes(headColumns[k].name))));
  return el("details", { class: "columns" }, el("summary", {}, "Columns"), ...headColumns.map(({ name, what }, k) =>
    el("label", {}, boxes[k], " ", columnName(name), " ", el("span", { class: "muted" }, what))));
}

/** Shows one table of the study, such as ablation, patching or logit lens. */
function tableView({ title, what, columns, rows }) {
  const head = columns.map(({ name, unit }) => (unit ? `${name} (${unit})` : name));
  const all = [head, ...rows];
  const table = tableOf(all, title);
  sortable(table);
  return el("section", { class: "view" }, el("h2", {}, title), el("p", { class: "muted" }, what),
    el("div", { class: "scroll" }, table), el("div", { class: "tools" }, copyButton(title, () => all)));
}
