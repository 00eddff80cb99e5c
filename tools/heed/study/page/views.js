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

/** Shows a picture that heed has drawn: {title, what, svg}. */
const pictureView = ({ title, what, svg }) => el("div", { class: "view" }, scrolling(title,
  el("img", { src: `data:image/svg+xml,${encodeURIComponent(svg)}`, alt: what })));

/** Shows the numbers of a chart: {title, x_name, y_name, series: [{name, x, y}]}. */
const chartNumbers = ({ title, x_name, y_name, series }) => el("div", {}, show(title), numbersBehind(title, () =>
  [["line", x_name || "x", y_name || "y"], ...series.flatMap(({ name, x, y }) => x.map((at, k) => [name, at, y[k]]))]).element);

/** Shows the numbers of a network: {title, nodes: [{name}], edges: [{from, to, name, value}]}. */
const networkNumbers = ({ title, nodes, edges }) => numbersBehind(title, () => [["from", "to", "name", "value"],
  ...edges.map(({ from, to, name, value }) => [nodes[from].name, nodes[to].name, name, value])]).element;

function sectionView({ key, title, sentences = [], tables = [], maps = [], charts = [], network }, k) {
  const curves = charts.filter(({ kind = "curves" }) => kind === "curves");  // tables contain the numbers of points
  return el("details", { class: "section", id: key, open: k < 2 }, el("summary", {}, el("h2", {}, show(title))),
    ...sentences.map((text) => el("p", {}, show(text))), ...tables.map(tableView), ...maps.map(sectionMaps),
    ...(data.pictures?.[key] ?? []).map(pictureView), ...curves.map(chartNumbers), ...(network ? [networkNumbers(network)] : []));
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
