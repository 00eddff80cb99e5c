// Views. Each draws one part of the page from its data and `state`, and registers the keys of `state` that it reads.

// --- sections
/** Returns about five round numbers, with equal distances, from at most `low` to at least `high`. */
function ticksOf(low, high) {
  const raw = (high - low || Math.abs(high) || 1) / 5;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= raw) * power;
  const [first, last] = [Math.floor(low / step), Math.ceil(high / step)];
  return Array.from({ length: last - first + 1 }, (_, k) => (first + k) * step);
}

/**
 * Draws lines over x: {title, x_name, y_name, series: [{name, x, y}]}. A missing y interrupts its line. If x is what the
 * slider selects, a vertical line marks the selected step.
 */
function chartView({ title, x_name, y_name, series }) {
  const ticks = (values) => ticksOf(...(values.length > 0 ? [Math.min(...values), Math.max(...values)] : [0, 1]));
  const xTicks = ticks(series.flatMap(({ x }) => x));
  const yTicks = ticks(series.flatMap(({ y }) => y).filter(Number.isFinite));
  const [left, right, top, high, height] = [58, 14, 8, 200, 250];
  const color = (k) => `stroke:var(--line-${k % 6});stroke-dasharray:${["none", "6 3", "2 3"][Math.floor(k / 6) % 3]}`;
  const draw = (width) => {
    const place = (ticks, from, to) => (value) =>
      from + ((value - ticks[0]) / (ticks.at(-1) - ticks[0] || 1)) * (to - from);
    const [x, y] = [place(xTicks, left, width - right), place(yTicks, top + high, top)];
    // A point between missing values is a short line.
    const path = (one) => one.x.map((at, k) => {
      const [before, known, after] = [k - 1, k, k + 1].map((i) => Number.isFinite(one.y[i]));
      return known ? `${before ? "L" : "M"}${x(at)} ${y(one.y[k])}${before || after ? "" : "m-3 0h6"}` : "";
    }).join("");
    const marked = x_name.endsWith("step") && hasSteps ? longest.checkpoints[state.checkpoint].step : null;
    return svg("svg", { role: "img", "aria-label": title, width, height, viewBox: `0 0 ${width} ${height}` },
      ...yTicks.flatMap((value) => [svg("path", { class: "grid", d: `M${left} ${y(value)}H${width - right}` }),
        svg("text", { class: "right", x: left - 6, y: y(value) + 4 }, tickText(value))]),
      ...xTicks.map((value) => svg("text", { x: x(value), y: top + high + 18 }, tickText(value))),
      svg("text", { x: (left + width - right) / 2, y: top + high + 36 }, show(x_name)),
      svg("text", { transform: `translate(11 ${top + high / 2}) rotate(-90)` }, show(y_name)),
      ...(marked === null ? [] : [svg("path", { class: "marker", d: `M${x(marked)} ${top}v${high}` })]),
      ...series.map((one, k) =>
        svg("path", { class: "line", style: color(k), d: path(one) }, svg("title", {}, one.name))));
  };
  const legend = el("ul", { class: "legend" }, ...series.map(({ name }, k) => el("li", {},
    svg("svg", { width: 24, height: 10, "aria-hidden": true },
      svg("path", { class: "line", style: color(k), d: "M2 5H22" })), show(name))));
  const rows = () => [["line", x_name, y_name],
    ...series.flatMap(({ name, x, y }) => x.map((at, k) => [name, at, y[k]]))];
  return el("div", { class: "view" }, el("h3", {}, show(title)), drawnToFit(draw, ["checkpoint"]), legend,
    numbersBehind(title, rows).element);
}

/** Creates an element that contains draw(its width in pixels), also after a change of the width or of `keys`. */
function drawnToFit(draw, keys = []) {
  const holder = el("div", { class: "fit" });
  const redraw = () => holder.clientWidth && holder.replaceChildren(draw(Math.min(holder.clientWidth, 720)));
  new ResizeObserver(redraw).observe(holder);
  addView(keys, redraw);
  return holder;
}

/**
 * Draws a network: {title, what, nodes: [{name, column, row}], edges: [{from, to, name, value}]}. Row 0 is at the top. An
 * edge connects two nodes by their indices; its width is that of |value|, and its color that of the sign. A curve leads around
 * the nodes between two nodes of one row or column.
 */
function networkView({ title, what, nodes, edges }) {
  const size = (key) => 1 + Math.max(...nodes.map((node) => node[key]));
  const largest = Math.max(...edges.map(({ value }) => Math.abs(value)));
  const draw = (width) => {
    const [wide, high] = [Math.max(width / size("column"), 52), 64];
    const at = ({ column, row }) => [(column + 0.5) * wide, (row + 0.5) * high];
    const [w, h] = [size("column") * wide, size("row") * high];
    const path = ({ from, to }) => {
      const [[x1, y1], [x2, y2]] = [at(nodes[from]), at(nodes[to])];
      const bend = (x1 === x2 && Math.abs(y2 - y1) > high) || (y1 === y2 && Math.abs(x2 - x1) > wide) ? 0.25 : 0;
      return `M${x1} ${y1}Q${(x1 + x2) / 2 + bend * (y2 - y1)} ${(y1 + y2) / 2 - bend * (x2 - x1)} ${x2} ${y2}`;
    };
    return svg("svg", { role: "img", "aria-label": title, width: w, height: h, viewBox: `0 0 ${w} ${h}` },
      ...edges.map((edge) => svg("path", { class: edge.value < 0 ? "edge negative" : "edge", d: path(edge),
        "stroke-width": 1 + 8 * Math.abs(edge.value) / largest }, svg("title", {}, `${edge.name}: ${show(edge.value)}`))),
      ...nodes.map((node) => svg("text", { class: "node", x: at(node)[0], y: at(node)[1] + 4 }, node.name)));
  };
  const rows = () => [["from", "to", "name", "value"],
    ...edges.map(({ from, to, name, value }) => [nodes[from].name, nodes[to].name, name, value])];
  return el("div", { class: "view network" }, el("h3", {}, show(title)), ...noteOf(what),
    scrolling(title, drawnToFit(draw)), numbersBehind(title, rows).element);
}

function sectionView({ key, title, sentences = [], tables = [], maps = [], charts = [], network }, k) {
  return el("details", { class: "section", id: key, open: k < 2 }, el("summary", {}, el("h2", {}, show(title))),
    ...sentences.map((text) => el("p", {}, show(text))), ...tables.map(tableView), ...maps.map(sectionMaps),
    ...charts.filter(({ kind = "curves" }) => kind === "curves").map(chartView), ...(network ? [networkView(network)] : []));
}

// --- panes
/** Shows the maps of all heads, and the selected head as a large map. */
function headMaps(pane) {
  const heads = headsOf(pane);
  return mapsView({ name: `heads of ${pane.name}`, key: "cell", keys: ["layer", "head", "quantity", "checkpoint"],
    across: pane.heads, choose: (k) => change(heads[k]),
    describe: () => ({ title: `${headName(state)}: ${quantity().title}`, axes: ["query", "key"], rows: pane.tokens,
      columns: pane.tokens, rowNames: tokenNames(pane), columnNames: tokenNames(pane), limit: limitOf(quantity()),
      signed: quantity().signed,
      words: titleOf({ name: quantity().title, unit: quantity().unit }),
      panels: heads.map((head) =>
        ({ title: headName(head), numbers: cellsOf(pane, quantity(), head), mark: markOf(pane, head) })),
      chosen: heads.findIndex(isChosen), textOf: (i, j) => cellText(pane, i, j), lack }) });
}

const lack = "not stored for this head or checkpoint";

/** Returns a text with the value of every quantity at one cell of the selected head. */
function cellText(pane, i, j) {
  const where = `${headName(state)}, query ${tokenName(pane, i)}, key ${tokenName(pane, j)}: `;
  const others = data.quantities.filter((q) => q !== quantity());
  const parts = [quantity(), ...others].map((q) => {
    const x = cellsOf(pane, q, state)?.[i * pane.tokens.length + j];
    return `${q.title} ${x === undefined ? lack : Number.isNaN(x) ? "masked" : `= ${show(x)}`}`;
  });
  return where + [...parts, measuredText(pane, i, j)].filter(Boolean).join(", ");
}

/** Returns the measured change of L if the cell is cut, or how to measure it. */
function measuredText(pane, i, j) {
  if (!pane.cells) return "";
  const found = pane.block === 1 && pane.cells.find((cell) => isChosen(cell) && cell.query === i && cell.key === j);
  if (found) return `measured change = ${show(found.effect)}`;
  const range = (k) => (pane.block === 1 ? k : `${k * pane.block}-${Math.min((k + 1) * pane.block, pane.length) - 1}`);
  return `measured change: add --cut "${headName(state)}[${range(i)},${range(j)}]" to the command`;
}

/**
 * Shows the sequence. Each token is shaded by the weight with which the query of the cell reads it in the selected head,
 * and a text has the five largest weights.
 */
function tokensView(pane) {
  const n = pane.tokens.length;
  const tokens = pane.tokens.map((token, i) =>
    el("span", { class: "token", title: tokenName(pane, i) }, visible(token)));
  const reads = el("output", { class: "reads" });
  addView(["cell", "layer", "head", "checkpoint"], () => {
    const query = Math.min((state.cell.hover ?? state.cell.cell)[0], n - 1);
    const row = cellsOf(pane, { name: weightsName }, state)?.slice(query * n, (query + 1) * n);
    tokens.forEach((token, key) => {
      token.style.setProperty("--share", row?.[key] || 0);
      token.classList.toggle("query", key === query);
    });
    reads.textContent = `${headName(state)} at ${tokenName(pane, query)} ${row ? readsText(pane, row) : lack}`;
  });
  return el("section", { class: "view" }, el("h3", {}, "Tokens, shaded by what the selected query reads"),
    el("div", { class: "tokens" }, ...tokens), reads);
}

/** Returns a text with the five largest weights of a row. */
function readsText(pane, row) {
  const keys = [...row.keys()].filter((key) => row[key]) // neither masked nor 0
    .sort((a, b) => row[b] - row[a]).slice(0, 5);
  const texts = keys.map((key) => {
    const [position, text] = tokensAt(pane, key);
    return `${text ? `${text} at ` : ""}${position} (${row[key].toPrecision(2)})`;
  });
  return `reads: ${texts.join(", ") || "nothing"}${pane.block > 1 ? "; the largest weight of each block" : ""}`;
}

/** Shows the parts of the gradient at each token before each layer: rows are the routes that it takes. */
function routesView(pane) {
  const routes = (of = pane) => checkpointOf(of).routes ?? [];
  const valuesOf = ({ total, parts }) => parts.flatMap(({ share }) => share.map((x, t) => x * total[t]));
  const view = mapsView({ name: `routes of ${pane.name}`, key: "route", keys: ["layer", "checkpoint"],
    across: pane.layers, choose: (layer) => change({ layer }),
    describe: () => ({ title: `Before layer ${state.layer}`, axes: ["route", "token"],
      rows: routes()[state.layer]?.parts.map(({ name }) => name) ?? [],
      columns: pane.tokens, columnNames: tokenNames(pane),
      limit: Math.max(...panes.flatMap(routes).map((route) => largest(valuesOf(route)))), signed: true,
      words: "component of dL/d(residual stream) along the sum of all routes",
      panels: routes().map((route, layer) => ({ title: `before layer ${layer}`, numbers: valuesOf(route) })),
      chosen: state.layer, lack, textOf: (i, t) => {
        const { total, parts } = routes()[state.layer];
        return `${parts[i].name} at token ${tokenName(pane, t)}, before layer ${state.layer}: ` +
          `${show(parts[i].share[t] * total[t])} of |dL/d residual| = ${show(total[t])}, ` +
          `a share of ${show(parts[i].share[t])}`;
      } }) });
  return el("section", { class: "view routes" }, el("h3", {}, "Routes of the gradient at each token"), view);
}

/** Shows the numbers of the heads as a table. */
function headsView(pane) {
  const rows = () => (checkpointOf(pane).heads ?? []).map((report) =>
    [headName(report), ...headColumns.map((column) => column.of(report))]);
  const columns = [{ name: "head" }, ...headColumns];
  const table = tableOf(`Heads of ${pane.name}`, columns);
  addView(["checkpoint"], () => table.draw(rows()));
  return el("section", { class: "view heads-table" }, el("h3", {}, "Numbers of the heads"),
    el("p", { class: "muted" }, `Of the sequence shown${hasEffects ? "; needed, suffices and the " +
      "columns after them: of sequences of the task" : ""}.`), table.element,
    el("div", { class: "tools" }, csvLink(`heads of ${pane.name}`, () => [columns.map(titleOf), ...rows()])));
}
