// The page: its data, its state (what is selected), and the controls that change the state.

const data = JSON.parse(document.getElementById("data").textContent);
const panes = data.panes ?? []; // a page of circuits has only sections
data.quantities ??= [];
data.head_columns ??= [];
const views = []; // {keys, draw}
// quantity and checkpoint are indices. root is true if signed maps have the root scale. mapsView() describes cell and
// route, and adds further keys.
const state = { quantity: 0, layer: 0, head: 0, checkpoint: 0, root: false, theme: "auto" };

/** Registers a view. `draw` is called when one of these keys of `state` changes. */
function addView(keys, draw) {
  views.push({ keys, draw });
}

function change(patch) {
  Object.assign(state, patch);
  for (const { keys, draw } of views) if (keys.some((key) => key in patch)) draw();
}

// --- selection in a pane
const quantity = () => data.quantities[state.quantity];
const longest = panes.reduce((a, b) => (b.checkpoints.length > a.checkpoints.length ? b : a), { checkpoints: [] });
const headsOf = (pane) => Array.from({ length: pane.layers * pane.heads }, (_, k) =>
  ({ layer: Math.floor(k / pane.heads), head: k % pane.heads }));
const headName = ({ layer, head }) => `L${layer}H${head}`;
const isChosen = ({ layer, head }) => layer === state.layer && head === state.head;

/** Returns the selected checkpoint of the pane. A pane with fewer checkpoints than another one ends at its last. */
const checkpointOf = (pane) => pane.checkpoints[Math.min(state.checkpoint, pane.checkpoints.length - 1)];

const ofHead = ({ layer, head }) => (entry) => entry.layer === layer && entry.head === head;
/** Returns the mark of a head; "" if it has none or its effect does not count. */
function markOf(pane, head) {
  const mark = checkpointOf(pane).heads?.find(ofHead(head))?.mark ?? "";
  return mark === "-" ? "" : mark;
}
/** Returns the maps of a quantity. Maps of the pane are the same at all checkpoints. */
const mapsOf = (pane, q) => checkpointOf(pane).maps[q.name] ?? [];
/** Returns the cells of the map of a head, [n x n], or nothing if the map is not stored. */
function cellsOf(pane, q, head) {
  const map = mapsOf(pane, q).find(ofHead(head));
  return map && numbersOf(map, pane.tokens.length);
}
/** Returns the limit of the color scale, which is the same for all heads, layers and panes. Weights are from 0 to 1. */
const limitOf = (q) => (q.name === weightsName ? 1 :
  Math.max(0, ...panes.flatMap((pane) => mapsOf(pane, q).map((map) => map.scale))));

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

// --- what the data has
const weightsName = "hook_pattern"; // the quantity A
const every = panes.flatMap((pane) => pane.checkpoints);
const hasRoutes = (pane) => pane.checkpoints.some(({ routes }) => routes?.length > 0);
if (every.some(({ routes }) => routes?.some(({ from }) => from.length > 0))) {
  data.quantities.push({ name: "routes_from", title: "dL/dx through K and V", unit: "", signed: true,
    what: "the part of the gradient at a token (column) that comes from a query (row) through a head's keys and values" });
  for (const { maps, routes } of every) maps.routes_from = routes.flatMap(({ from }) => from);
}
const hasSteps = longest.checkpoints.length > 1;
const reports = every.flatMap(({ heads }) => heads ?? []);
const allColumns = [
  ...data.head_columns.map(({ name, ...column }, k) => ({ name: name.replaceAll("_", " "), ...column, of: (report) => report.values[k] })),
  { name: "mark", unit: "", what: "how the prediction differs from needed", main: true, of: (report) => report.mark ?? null },
].filter(({ of }) => reports.some((report) => (of(report) ?? null) !== null));
const hasEffects = allColumns.some(({ name }) => name === "needed");
const headColumns = allColumns.toSorted((a, b) => Boolean(b.main) - Boolean(a.main)); // the main ones are first

// --- theme
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
let printing = false;
function theme() {
  if (printing) return "light";
  return state.theme === "auto" ? (prefersDark.matches ? "dark" : "light") : state.theme;
}
function pageColors() {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(`--${name}`);
  return { text: color("text"), muted: color("muted"), line: color("line") };
}
const applyTheme = () => change({ theme: state.theme });
// This view is registered first, because all other views read the colors of the theme.
addView(["theme"], () => (document.documentElement.dataset.theme = theme()));
prefersDark.addEventListener("change", applyTheme);
for (const [event, now] of [["beforeprint", true], ["afterprint", false]])
  window.addEventListener(event, () => {
    printing = now;
    if (now) document.querySelectorAll("details.section").forEach((details) => (details.open = true));
    applyTheme();
  });

// --- controls
/** Creates a selection list that shows and sets state[key]. Each option is [value, text]. */
function choice(name, key, options) {
  const select = el("select", {}, ...options.map(([, text]) => el("option", {}, text)));
  select.addEventListener("change", () => change({ [key]: options[select.selectedIndex][0] }));
  addView([key], () => (select.selectedIndex = options.findIndex(([value]) => value === state[key])));
  return el("label", {}, name, select);
}

function slider() {
  const input = el("input", { type: "range", min: 0, max: longest.checkpoints.length - 1, step: 1, id: "checkpoint" });
  const output = el("output", { for: "checkpoint" });
  input.addEventListener("input", () => change({ checkpoint: Number(input.value) }));
  addView(["checkpoint"], () => {
    const { step } = longest.checkpoints[state.checkpoint];
    input.value = state.checkpoint;
    const weights = step === null ? "final weights" : `step ${step}`;
    const isSelection = longest.saved_checkpoints > longest.checkpoints.length;
    const all = isSelection ? `, selected from ${longest.saved_checkpoints}` : "";
    output.textContent = `${weights} (${state.checkpoint + 1} of ${longest.checkpoints.length}${all})`;
    input.setAttribute("aria-valuetext", output.textContent);
  });
  return el("label", {}, "Checkpoint", input, output);
}

function buildControls() {
  const form = document.getElementById("controls");
  form.addEventListener("submit", (event) => event.preventDefault());
  const maps = panes.length > 0 ? [choice("Show", "quantity", data.quantities.map((q, k) => [k, q.title]))] : [];
  form.append(...maps, ...(hasSteps ? [slider()] : []),
    choice("Signed maps", "root", [[false, "linear scale"], [true, "root scale"]]),
    choice("Theme", "theme", [["auto", "system"], ["light", "light"], ["dark", "dark"]]));
}

// --- start
function paneView(pane) {
  const value = el("p");
  addView(["checkpoint"], () => {
    const { step, value: number } = checkpointOf(pane);
    const when = step === null ? "" : ` at step ${step}`;
    value.replaceChildren("L is ", el("b", {}, show(pane.objective)), `. L = ${show(number)}${when}.`);
  });
  const block = pane.block > 1 ? [el("p", { class: "muted" }, `A cell covers ${pane.block} × ${pane.block} tokens` +
    (pane.block_rule ? `: ${pane.block_rule}.` : "."))] : [];
  const loss = pane.loss_curve ? [chartView({ title: "Loss over training", x_name: "step", y_name: "nats",
    series: [{ name: "loss", x: pane.loss_curve.map(([step]) => step), y: pane.loss_curve.map(([, y]) => y) }] })] : [];
  const title = el("h2", {}, pane.name, " ", el("small", { class: "muted" }, pane.hash ?? ""));
  return el("article", { class: "pane" }, title, value, ...block, headMaps(pane),
    tokensView(pane), ...(hasRoutes(pane) ? [routesView(pane)] : []),
    ...(pane.checkpoints.some(({ heads }) => heads?.length > 0) ? [headsView(pane)] : []), ...loss);
}

/**
 * Selects the cell with the largest measured effect, in the head data.chosen if it is not null. Without measured cells,
 * selects data.chosen or the head with the largest |dL/dg|, where g is a gate on the output of the head.
 */
function firstChoice() {
  state.checkpoint = longest.checkpoints.length - 1;
  const [pane] = panes;
  const top = (list, sizeOf) => list.reduce((a, b) => (sizeOf(b) > sizeOf(a) ? b : a), list[0]);
  const cells = pane.block === 1 && panes.length === 1 ? pane.cells ?? [] : [];
  const importance = data.head_columns.findIndex(({ name }) => name === "importance");
  const cell = top(cells.filter((cut) => !data.chosen || ofHead(data.chosen)(cut)), (cut) => Math.abs(cut.effect));
  const { layer, head } = cell ?? data.chosen ?? top(checkpointOf(pane).heads ?? [], (report) =>
    Math.abs(report.values[importance])) ?? { layer: 0, head: 0 };
  const first = cell ? [cell.query, cell.key] : [pane.tokens.length - 1, 0];
  Object.assign(state, { layer, head, cell: { cell: first, pinned: Boolean(cell), hover: null } });
}

/** Removes the texts of report.html about things that this page does not have. */
function removeUnneeded() {
  const has = { weights: panes.length > 0, routes: panes.some(hasRoutes), summary: data.summary?.length > 0,
    marks: panes.some((pane) => headsOf(pane).some((head) => markOf(pane, head))) };
  for (const element of document.querySelectorAll("[data-needs]"))
    if (!has[element.dataset.needs]) element.remove();
}

function start() {
  if (panes.length > 0) firstChoice();
  removeUnneeded();
  document.getElementById("title").textContent = data.title;
  document.getElementById("made-by").append("heed ", data.heed, ": ", el("code", {}, data.command));
  document.getElementById("summary")?.append(...data.summary.map((text) => el("p", {}, show(text))));
  document.getElementById("definitions").append(...[...data.quantities, ...headColumns].flatMap(
    ({ title, name, what, unit }) => [el("dt", {}, title ?? name), el("dd", {}, what, unit ? ` (${unit})` : "")]));
  buildControls();
  document.body.style.setProperty("--panes", panes.length);
  document.getElementById("panes").append(...panes.map(paneView));
  document.getElementById("sections").append(...(data.sections ?? []).map(sectionView));
  change(state); // draws all views
}
start();
