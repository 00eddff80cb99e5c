// Views. Each draws one part of the page from its data and `state`, and registers the keys of `state` that it reads.

// --- sections
/** Shows a table: {title, what, columns: [{name, unit}], rows}. Columns without a value are not shown. */
function tableView({ title, what, columns, rows }) {
  const kept = [...columns.keys()].filter((k) => rows.length === 0 || rows.some((row) => row[k] !== null));
  return el("div", { class: "view" }, el("h3", {}, show(title)), ...noteOf(what),
    tableOf(title, kept.map((k) => columns[k]), rows.map((row) => kept.map((k) => row[k]))));
}

/** Shows the maps of a section: {title, what, signed, row_axis, column_axis, rows, columns, panels}. */
function sectionMaps({ title, what, signed, row_axis, column_axis, rows, columns, panels }) {
  const flat = panels.map(({ title, values }) => ({ title, numbers: values.flat().map((x) => x ?? NaN) }));
  const limit = Math.max(...flat.map(({ numbers }) => largest(numbers)));
  return el("div", { class: "view" }, el("h3", {}, show(title)), ...noteOf(what), mapsView(`maps ${views.length}`, [],
    Math.min(panels.length, 4), () =>
      ({ name: title, axes: [row_axis, column_axis], rows, columns, limit, signed, panels: flat })));
}

/** Returns about five round numbers, with equal distances, from at most `low` to at least `high`. */
function ticksOf(low, high) {
  const raw = (high - low || Math.abs(high) || 1) / 5;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= raw) * power;
  const [first, last] = [Math.floor(low / step), Math.ceil(high / step)];
  return Array.from({ length: last - first + 1 }, (_, k) => (first + k) * step);
}

/** Draws lines over x: {title, x_name, y_name, series: [{name, x, y}]}. A missing y interrupts its line. */
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
    return svg("svg", { role: "img", "aria-label": title, width, height, viewBox: `0 0 ${width} ${height}` },
      ...yTicks.flatMap((value) => [svg("path", { class: "grid", d: `M${left} ${y(value)}H${width - right}` }),
        svg("text", { class: "right", x: left - 6, y: y(value) + 4 }, tickText(value))]),
      ...xTicks.map((value) => svg("text", { x: x(value), y: top + high + 18 }, tickText(value))),
      svg("text", { x: (left + width - right) / 2, y: top + high + 36 }, show(x_name)),
      svg("text", { transform: `translate(11 ${top + high / 2}) rotate(-90)` }, show(y_name)),
      ...series.map((one, k) =>
        svg("path", { class: "line", style: color(k), d: path(one) }, svg("title", {}, one.name))));
  };
  const legend = el("ul", { class: "legend" }, ...series.map(({ name }, k) => el("li", {},
    svg("svg", { width: 24, height: 10, "aria-hidden": true },
      svg("path", { class: "line", style: color(k), d: "M2 5H22" })), show(name))));
  const rows = () => [["line", x_name || "x", y_name || "y"],
    ...series.flatMap(({ name, x, y }) => x.map((at, k) => [name, at, y[k]]))];
  return el("div", { class: "view" }, el("h3", {}, show(title)), drawnToFit(draw), legend,
    numbersBehind(title, rows).element);
}

/** Creates an element that contains draw(its width in pixels), also after a change of the width. */
function drawnToFit(draw) {
  const holder = el("div");
  const redraw = () => holder.clientWidth && holder.replaceChildren(draw(Math.min(holder.clientWidth, 720)));
  new ResizeObserver(redraw).observe(holder);
  return holder;
}

/**
 * Draws a network: {title, what, nodes: [{name, column, row}], edges: [{from, to, name, value}]}. Row 0 is at the top. An
 * edge connects two nodes by their indices; its width is that of |value|, and its color that of the sign. A curve leads around
 * the nodes between two nodes of one row or column.
 */
function networkView({ title, what, nodes, edges }) {
  const size = (key) => 1 + Math.max(...nodes.map((node) => node[key]));
  const most = largest(edges.map(({ value }) => value));
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
        "stroke-width": 1 + 8 * Math.abs(edge.value) / most }, svg("title", {}, `${edge.name}: ${show(edge.value)}`))),
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
  return mapsView("head", ["quantity", "checkpoint"], pane.heads, () => {
    const { name, title, unit, signed } = quantity();
    return { name: unit ? `${title} (${unit})` : title, axes: ["query", "key"], signed, limit: limitOf(quantity()),
      rows: pane.names, columns: pane.names, labels: [pane.tokens, pane.tokens],
      panels: headsOf(pane).map((title) => ({ title, numbers: cellsOf(pane, name, title) })),
      textOf: (head, i, j) => cellText(pane, head, i, j) };
  });
}

/** Returns a text with the value of every quantity at one cell of a head, and the measured change of L if it is cut. */
function cellText(pane, head, i, j) {
  const others = data.quantities.filter((q) => q !== quantity());
  const parts = [quantity(), ...others].map(({ name, title }) => {
    const x = cellsOf(pane, name, head)?.[i * pane.tokens.length + j];
    return `${title} ${x === undefined ? notStored : Number.isNaN(x) ? "masked" : `= ${show(x)}`}`;
  });
  return `${head}, query ${pane.names[i]}, key ${pane.names[j]}: ` +
    [...parts, ...(pane.cells ? [measuredText(pane, head, i, j)] : [])].join(", ");
}

/** Returns the measured change of L if the cell is cut, or how to measure it. */
function measuredText(pane, head, i, j) {
  const found = pane.cells.find((cell) => headName(cell) === head && cell.query === i && cell.key === j);
  if (found && pane.block === 1) return `measured change = ${show(found.effect)}`;
  return `measured change: add --cut "${head}[${rangeOf(pane, i)},${rangeOf(pane, j)}]" to the command`;
}

/** Shows the parts of the gradient at each token before each layer: rows are the routes that it takes. */
function routesView(pane) {
  const routesOf = (of) => checkpointOf(of).routes ?? [];
  const valuesOf = ({ parts }) => parts.flatMap(({ values }) => values);
  const titleOf = (layer) => `before layer ${layer}`;
  const view = mapsView("route", ["checkpoint"], pane.layers, () => {
    const routes = routesOf(pane);
    const rows = routes[0].parts.map(({ name }) => name.replace("L0", ""));
    return { name: "part of dL/d(residual stream) along the sum of all routes", axes: ["route", "token"], signed: true,
      rows, columns: pane.names, labels: [rows, pane.tokens],
      limit: Math.max(...panes.flatMap(routesOf).map((route) => largest(valuesOf(route)))),
      panels: routes.map((route, layer) => ({ title: titleOf(layer), numbers: valuesOf(route) })),
      textOf: (title, i, t) => {
        const { total, parts } = routes.find((_, layer) => titleOf(layer) === title);
        const value = parts[i].values[t];
        return `${parts[i].name} at token ${pane.names[t]}, ${title}: ${show(value)} of |dL/d residual| = ` +
          `${show(total[t])}, a share of ${show(value / total[t])}`;
      } };
  });
  return el("section", { class: "view routes" }, el("h3", {}, "Routes of the gradient at each token"), view);
}
