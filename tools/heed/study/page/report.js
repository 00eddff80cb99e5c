// The page: its data, its state (what is selected), and the controls that change the state.

const data = JSON.parse(document.getElementById("data").textContent);
const panes = data.panes;
const views = []; // {keys, draw}
// query and key are the cell at which keys move; it is pinned, that is, selected and outlined, until the user presses
// Escape. hover is the cell under the pointer, or null. fromHead, fromQuery and fromHover are the same for the map of
// routes. columns has the names of the columns that the tables of heads show.
const state = { quantity: 0, layer: 0, head: 0, checkpoint: 0, query: 0, key: 0, pinned: true, hover: null, token: 0,
  fromHead: 0, fromQuery: 0, fromHover: null, range: "heads", scale: 0, theme: "auto", columns: [] };

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
const longest = panes.reduce((a, b) => (b.checkpoints.length > a.checkpoints.length ? b : a));
const tokenOf = (pane) => Math.min(state.token, pane.tokens.length - 1);
const inside = (pane, cell) => cell.map((i) => Math.min(i, pane.tokens.length - 1));
const cursorOf = (pane) => inside(pane, [state.query, state.key]);
const hoverOf = (pane) => state.hover && inside(pane, state.hover);
const headsOf = (pane) => Array.from({ length: pane.layers * pane.heads }, (_, k) =>
  ({ layer: Math.floor(k / pane.heads), head: k % pane.heads }));

/** Returns the checkpoint of the pane whose step is nearest to the step that the slider selects. */
function checkpointOf(pane) {
  const step = longest.checkpoints[state.checkpoint].step ?? Infinity;
  const distance = (other) => (other.step === step ? 0 : Math.abs((other.step ?? Number.MAX_VALUE) - step));
  if (pane === longest) return pane.checkpoints[state.checkpoint];
  return pane.checkpoints.reduce((a, b) => (distance(b) <= distance(a) ? b : a));
}

const ofHead = (layer, head) => (entry) => entry.layer === layer && entry.head === head;
/** Returns the maps of a quantity at a checkpoint. Maps of the pane are the same at all checkpoints. */
const mapsOf = (pane, q, checkpoint = checkpointOf(pane)) => checkpoint.maps[q.name] ?? pane.maps?.[q.name] ?? [];
const mapOf = (pane, q, layer, head) => mapsOf(pane, q).find(ofHead(layer, head));
const reportOf = (pane, layer, head) => checkpointOf(pane).heads?.find(ofHead(layer, head));
const fromOf = (pane, layer) => checkpointOf(pane).routes?.[layer]?.from ?? [];

/** Returns for each query how much of the token's gradient comes from it: the sum of magnitudes over the heads. */
function flowInto(pane, layer, token) {
  const n = pane.tokens.length;
  const maps = fromOf(pane, layer).map((map) => numbersOf(map, n));
  const through = (i) => maps.reduce((sum, numbers) => sum + Math.abs(numbers[i * n + token] || 0), 0);
  return Array.from({ length: n }, (_, i) => through(i));
}

const weightsName = "hook_pattern"; // the quantity A; its scale ends at 1
/** Returns whether the scale of a quantity has two sides. In a pane with differences, it has for every quantity. */
const isSigned = (pane, q) => Boolean(q.signed) || mapsOf(pane, q)
  .some((map) => numbersOf(map, pane.tokens.length).hasNegative);

/** Returns the color scale of a map. Unless the range is that of a panel, it is the same for all heads and panes. */
function scaleOf(pane, q, layer, head) {
  const sign = { signed: isSigned(pane, q), curve: curves[state.scale] };
  if (state.range === "panel") return { max: mapOf(pane, q, layer, head)?.scale ?? 0, ...sign };
  if (q.name === weightsName) return { max: 1, ...sign };
  const maps = panes.flatMap((other) => (state.range === "steps" ? other.checkpoints : [checkpointOf(other)])
    .flatMap((checkpoint) => mapsOf(other, q, checkpoint)));
  return { max: Math.max(0, ...maps.map((map) => map.scale)), ...sign };
}

// --- what the data has
const stepName = data.step_name ?? "step"; // what the slider selects: a training step, or a distance
const manySteps = data.step_name ? "all distances" : "all checkpoints";
const hasWeights = data.quantities.some(({ name }) => name === weightsName);
const every = panes.flatMap((pane) => pane.checkpoints);
const hasRoutes = (pane) => pane.checkpoints.some(({ routes }) => routes?.length > 0);
const hasEffects = every.some(({ heads }) => heads?.some(({ needed }) => Number.isFinite(needed)));
const effectColumns = !hasEffects ? [] : [
  { name: "needed", unit: "of L", what: "L without the head, minus L, on sequences of the task" },
  { name: "suffices", unit: "of L", what: "L without all heads of the layer, minus L without all of them but this one" },
  { name: "predicted", unit: "of L", what: "the change that the gradient predicts for needed" }];
const headColumns = [...data.head_columns, ...effectColumns];

/** Returns the names of the columns, at most six, that the tables of heads show at first. The effects are among them. */
function firstColumns() {
  const main = data.head_columns.filter((column) => column.main);
  const first = (main.length > 0 ? main : data.head_columns).slice(0, 6 - effectColumns.length);
  return [...first, ...effectColumns].map(({ name }) => name);
}

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
  return { text: color("text"), muted: color("muted"), line: color("line"), accent: color("accent") };
}
const applyTheme = () => change({ theme: state.theme });
// This view is registered first, because all other views read the colors of the theme.
addView(["theme"], () => (document.documentElement.dataset.theme = theme()));
prefersDark.addEventListener("change", applyTheme);
for (const [event, now] of [["beforeprint", true], ["afterprint", false]])
  window.addEventListener(event, () => ((printing = now), applyTheme()));

// --- the clipboard
let statusTimer = 0;
function showStatus(text) {
  const status = document.getElementById("status");
  status.textContent = text;
  clearTimeout(statusTimer);
  statusTimer = setTimeout(() => (status.textContent = ""), 2500);
}

async function copyRows(rows) {
  const text = csvOf(rows);
  try {
    await navigator.clipboard.writeText(text);
  } catch { // the clipboard is not allowed or not available
    const focused = document.activeElement;
    const area = el("textarea", { "aria-label": "text to copy" }, text);
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    focused.focus();
    if (!copied) return showStatus("The browser does not allow copying here");
  }
  showStatus(`Copied ${rows.length - 1} rows`);
}

// --- controls
const most = (key) => Math.max(...panes.map((pane) => pane[key]));

/** Creates a selection list that shows and sets state[key]. Each option is [value, text]. */
function choice(name, key, options) {
  const select = el("select", {}, ...options.map(([value, text]) => el("option", { value }, text)));
  select.addEventListener("change", () => change({ [key]: options[select.selectedIndex][0] }));
  addView([key], () => (select.selectedIndex = options.findIndex(([value]) => value === state[key])));
  return el("label", {}, name, select);
}

/** Draws the loss of all checkpoints, [[step, loss], ...], with a line at the selected step. */
function lossCurve(points) {
  const known = points.filter(([, loss]) => Number.isFinite(loss));
  const steps = known.map(([step]) => step);
  const [first, last, top] = [Math.min(...steps), Math.max(...steps), Math.max(...known.map(([, loss]) => loss)) || 1];
  const x = (step) => (200 * (step - first)) / Math.max(last - first, 1);
  const line = known.map(([step, loss]) => `${x(step)},${40 - (40 * loss) / top}`).join(" ");
  const curve = el("div", { role: "img",
    "aria-label": `Loss over training, from ${show(known[0][1])} to ${show(known.at(-1)[1])} nats` });
  curve.innerHTML = `<svg class="loss" viewBox="0 0 200 40" preserveAspectRatio="none"><polyline points="${line}"/>` +
    `<line y1="0" y2="40" class="marker"/></svg>`; // numbers only
  const marker = curve.querySelector(".marker");
  addView(["checkpoint"], () => ["x1", "x2"].forEach((end) => marker.setAttribute(end, x(longest.checkpoints[state.checkpoint].step))));
  return curve;
}

function slider() {
  const input = el("input", { type: "range", min: 0, max: longest.checkpoints.length - 1, step: 1, id: "checkpoint" });
  const output = el("output", { for: "checkpoint" });
  input.addEventListener("input", () => change({ checkpoint: Number(input.value) }));
  addView(["checkpoint"], () => {
    const { step } = longest.checkpoints[state.checkpoint];
    input.value = state.checkpoint;
    const weights = step === null ? "final weights" : `${stepName} ${step}`;
    const isSelection = longest.saved_checkpoints > longest.checkpoints.length;
    const all = isSelection ? `, selected from ${longest.saved_checkpoints}` : "";
    output.textContent = `${weights} (${state.checkpoint + 1} of ${longest.checkpoints.length}${all})`;
    input.setAttribute("aria-valuetext", output.textContent);
  });
  const label = el("label", {}, data.step_name ? "Distance" : "Checkpoint", input, output);
  const curve = longest.loss_curve?.some(([, loss]) => Number.isFinite(loss)) ? [lossCurve(longest.loss_curve)] : [];
  return el("div", { class: "steps" }, ...curve, label);
}

function openTables() {
  const all = [...document.querySelectorAll("details.numbers")];
  const open = !all.every((details) => details.open);
  all.forEach((details) => (details.open = open));
}

const hasSteps = longest.checkpoints.length > 1;
const ranges = [["heads", "all heads"], ["panel", "per panel"], ...(hasSteps ? [["steps", manySteps]] : [])];

function buildControls() {
  const upTo = (n) => Array.from({ length: n }, (_, k) => [k, String(k)]);
  const form = document.getElementById("controls");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.append(choice("Show", "quantity", data.quantities.map((q, k) => [k, q.title])),
    choice("Layer", "layer", upTo(most("layers"))), choice("Head", "head", upTo(most("heads"))),
    ...(hasSteps ? [slider()] : []), choice("Color range", "range", ranges),
    choice("Color scale", "scale", curves.map(({ name }, k) => [k, name])),
    choice("Theme", "theme", [["auto", "system"], ["light", "light"], ["dark", "dark"]]),
    el("button", { type: "button", onclick: openTables }, "All numbers"),
    el("button", { type: "button", "aria-label": "Keys", onclick: openHelp }, "?"));
}

// --- keys
const openHelp = () => document.getElementById("help").showModal();

function turn(key, by, count) {
  change({ [key]: (state[key] + by + count) % count });
  return true;
}
function toCheckpoint(by) {
  change({ checkpoint: Math.min(Math.max(state.checkpoint + by, 0), longest.checkpoints.length - 1) });
  return true;
}
/** Handles a key that was pressed on a map. Returns whether the key is a shortcut. */
function shortcut(key) {
  const counts = { h: ["head", most("heads")], l: ["layer", most("layers")], q: ["quantity", data.quantities.length],
    s: ["scale", curves.length] };
  const [name, count] = counts[key.toLowerCase()] ?? [];
  if (name) return turn(name, key === key.toLowerCase() ? 1 : -1, count);
  return (key === "," || key === ".") && toCheckpoint(key === "," ? -1 : 1);
}

document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "?") openHelp();
  if (event.key === "Escape") change({ pinned: false });
});

// --- the address
const mostTokens = Math.max(...panes.map((pane) => pane.tokens.length));
const numbersIn = (text, form) => {
  const numbers = form.exec(text)?.slice(1).map(Number) ?? [NaN];
  return numbers.every((number) => number < mostTokens) ? numbers : null;
};
function cellOf(text) {
  if (text === "none") return { pinned: false };
  const [query, key] = numbersIn(text, /^(\d+)-(\d+)$/) ?? [];
  return query === undefined ? null : { query, key, token: key, pinned: true };
}
// A part of the address that is one of `texts`, by the index in state[key].
const indexPart = (key, texts) => ({ text: () => texts[state[key]],
  read: (text) => (texts.includes(text) ? { [key]: texts.indexOf(text) } : null) });

// Parts of the address. "text" returns the part for the current state, and "read" returns the change of the state that
// a part describes, or nothing if the part is invalid.
const addressParts = {
  head: { text: () => headName(state.layer, state.head),
    read: (text) => panes.flatMap(headsOf).find(({ layer, head }) => headName(layer, head) === text) },
  map: indexPart("quantity", data.quantities.map(({ name }) => name)),
  cell: { text: () => (state.pinned ? `${state.query}-${state.key}` : "none"), read: cellOf },
  token: { text: () => state.token, read: (text) => numbersIn(text, /^(\d+)$/) && { token: Number(text) } },
  checkpoint: indexPart("checkpoint", longest.checkpoints.map(({ step }) => String(step ?? "final"))),
  range: { text: () => state.range, read: (text) => (ranges.some(([name]) => name === text) ? { range: text } : null) },
  scale: indexPart("scale", curves.map(({ name }) => name)),
};

/** Returns the change of the state that the address describes. */
function addressChange() {
  const given = new URLSearchParams(location.hash.slice(1));
  return Object.assign({}, ...Object.entries(addressParts).map(([name, { read }]) => read(given.get(name) ?? "")));
}

// Browsers limit how often a page may change its address, so the page waits until changes pause.
let addressTimer = 0;
function writeAddress() {
  const texts = Object.entries(addressParts).map(([name, { text }]) => [name, text()]);
  history.replaceState(null, "", `#${new URLSearchParams(texts)}`);
}
addView(["layer", "head", "quantity", "query", "key", "pinned", "token", "checkpoint", "range", "scale"], () => {
  clearTimeout(addressTimer);
  addressTimer = setTimeout(writeAddress, 200);
});
window.addEventListener("hashchange", () => change(addressChange()));

// --- start
function paneView(pane) {
  const value = el("p");
  addView(["checkpoint"], () => {
    const { step, value: number } = checkpointOf(pane);
    const when = step === null ? "" : ` at step ${step}`;
    if (number === undefined) value.replaceChildren(show(pane.objective));
    else value.replaceChildren("L is ", el("b", {}, show(pane.objective)), `. L = ${show(number)}${when}.`);
  });
  const block = pane.block > 1 ? [el("p", { class: "muted" }, `A cell covers ${pane.block} × ${pane.block} tokens` +
    (pane.block_rule ? `: ${pane.block_rule}.` : "."))] : [];
  const title = el("h2", {}, pane.name, " ", el("small", { class: "muted" }, pane.hash ?? ""));
  return el("article", { class: "pane" }, title, value, ...block,
    el("div", { class: "pair" }, overviewView(pane), headView(pane)), ...(hasWeights ? [tokensView(pane)] : []),
    routesView(pane), headsView(pane));
}

/**
 * Selects the head data.chosen or, if it is null, the head with the largest |dL/dg|, where g is a gate on the output
 * of the head. Also selects the last query, and the key with the largest magnitude for this query.
 */
function firstChoice() {
  state.checkpoint = data.first_checkpoint ?? longest.checkpoints.length - 1;
  const [pane] = panes;
  const n = pane.tokens.length;
  const size = (report) => Math.abs(report.importance ?? 0);
  const reports = checkpointOf(pane).heads ?? [];
  const inAll = ({ layer, head }) => panes.every((other) => layer < other.layers && head < other.heads);
  const cell = [...(pane.block === 1 && panes.length === 1 ? pane.cells ?? [] : [])]
    .filter((cut) => !data.chosen || (cut.layer === data.chosen.layer && cut.head === data.chosen.head))
    .sort((a, b) => Math.abs(b.effect) - Math.abs(a.effect))[0];
  const { layer, head } = cell ?? data.chosen ??
    reports.filter(inAll).reduce((a, b) => (size(b) > size(a) ? b : a), { layer: 0, head: 0 });
  const map = mapOf(pane, quantity(), layer, head);
  const row = map ? Array.from(numbersOf(map, n).slice((n - 1) * n), (x) => Math.abs(x || 0)) : [0];
  const key = cell?.key ?? row.indexOf(Math.max(...row));
  const query = cell?.query ?? n - 1;
  Object.assign(state, { layer, head, query, key, token: key, fromHead: head, fromQuery: query,
    columns: firstColumns() });
}

const definition = ({ title, name, what, unit }) =>
  [el("dt", {}, title ?? columnName(name)), el("dd", {}, what, unit ? ` (${unit})` : "")];

/** Removes the texts of report.html about things that this page does not have. */
function removeUnneeded() {
  const has = { checkpoints: hasSteps, weights: hasWeights, routes: panes.some(hasRoutes),
    summary: data.summary?.length > 0,
    marks: every.some(({ heads }) => heads?.some((report) => markOf(report))) };
  for (const element of document.querySelectorAll("[data-needs]"))
    if (!has[element.dataset.needs]) element.remove();
}

function start() {
  firstChoice();
  Object.assign(state, addressChange());
  removeUnneeded();
  document.getElementById("title").textContent = data.title;
  document.getElementById("made-by").append("heed ", data.heed, ": ", el("code", {}, data.command));
  document.getElementById("summary")?.append(...data.summary.map((text) => el("p", {}, show(text))));
  const shownColumns = () => headColumns.filter(({ name }) => state.columns.includes(name));
  addView(["columns"], () => document.getElementById("definitions").replaceChildren(
    ...[...data.quantities, ...shownColumns()].flatMap(definition)));
  buildControls();
  document.body.style.setProperty("--panes", panes.length);
  document.getElementById("panes").append(...panes.map(paneView));
  document.getElementById("tables").append(...(data.tables ?? []).map(tableView));
  change(state); // draws all views
}
start();
