// The page: its data, its state (what is selected), and the controls that change the state.

const data = JSON.parse(document.getElementById("data").textContent);
const panes = data.panes;
const views = []; // {keys, draw}
const state = { quantity: 0, layer: 0, head: 0, checkpoint: 0, query: 0, key: 0, token: 0, fromHead: 0, fromQuery: 0,
  range: "heads", theme: "auto", roots: {} };

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
const cursorOf = (pane) => [state.query, state.key].map((i) => Math.min(i, pane.tokens.length - 1));
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
const mapOf = (pane, q, layer, head) => checkpointOf(pane).maps[q.name]?.find(ofHead(layer, head));
const reportOf = (pane, layer, head) => checkpointOf(pane).heads.find(ofHead(layer, head));
const fromOf = (pane, layer) => checkpointOf(pane).routes?.[layer]?.from ?? [];

/** Returns for each query how much of the token's gradient comes from it: the sum of magnitudes over the heads. */
function flowInto(pane, layer, token) {
  const n = pane.tokens.length;
  const maps = fromOf(pane, layer).map((map) => numbersOf(map, n));
  const through = (i) => maps.reduce((sum, numbers) => sum + Math.abs(numbers[i * n + token] || 0), 0);
  return Array.from({ length: n }, (_, i) => through(i));
}

/** Returns the color scale of a head. All panes have the same scale, so that their colors are comparable. */
function scaleOf(q, layer, head) {
  const maps = panes.flatMap((pane) => (state.range === "steps" ? pane.checkpoints : [checkpointOf(pane)]))
    .flatMap((checkpoint) => checkpoint.maps[q.name] ?? []);
  const inRange = state.range === "head" ? maps.filter(ofHead(layer, head)) : maps;
  return { max: Math.max(0, ...inRange.map((map) => map.scale)), signed: q.signed, root: state.roots[q.name] };
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
    const area = el("textarea", { "aria-hidden": true }, text);
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
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

const toggleRoot = () => change({ root: (state.roots[quantity().name] = !state.roots[quantity().name]) });
function rootBox() {
  const box = el("input", { type: "checkbox", onchange: toggleRoot });
  addView(["root", "quantity"], () => (box.checked = state.roots[quantity().name]));
  const title = "Colors are linear in the square root of the value, so that small values are visible";
  return el("label", { title }, box, "Root scale");
}

function openTables() {
  const all = [...document.querySelectorAll("details.numbers")];
  const open = !all.every((details) => details.open);
  all.forEach((details) => (details.open = open));
}

function buildControls() {
  const upTo = (n) => Array.from({ length: n }, (_, k) => [k, String(k)]);
  const ranges = [["heads", "all heads"], ["head", "each head"], ["steps", "all checkpoints"]];
  const several = longest.checkpoints.length > 1;
  const form = document.getElementById("controls");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.append(choice("Show", "quantity", data.quantities.map((q, k) => [k, q.title])),
    choice("Layer", "layer", upTo(most("layers"))), choice("Head", "head", upTo(most("heads"))),
    ...(several ? [slider()] : []), rootBox(), choice("Color range", "range", several ? ranges : ranges.slice(0, 2)),
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
  const counts = { h: ["head", most("heads")], l: ["layer", most("layers")], q: ["quantity", data.quantities.length] };
  const [name, count] = counts[key.toLowerCase()] ?? [];
  if (name) return turn(name, key === key.toLowerCase() ? 1 : -1, count);
  if (key === "," || key === ".") return toCheckpoint(key === "," ? -1 : 1);
  if (key === "r") toggleRoot();
  return key === "r";
}

document.addEventListener("keydown", (event) => {
  if (event.key === "?" && !document.querySelector("dialog[open]")) openHelp();
});

// --- start
function paneView(pane) {
  const value = el("p");
  addView(["checkpoint"], () => {
    const { step, value: number } = checkpointOf(pane);
    const when = step === null ? "" : ` at step ${step}`;
    value.replaceChildren("L = ", el("b", {}, pane.objective), `: ${show(number)}${when}`);
  });
  const block = pane.block > 1 ? [el("p", { class: "muted" }, `A cell covers ${pane.block} × ${pane.block} tokens` +
    (pane.block_rule ? `: ${pane.block_rule}.` : "."))] : [];
  const title = el("h2", {}, pane.name, " ", el("small", { class: "muted" }, pane.hash ?? ""));
  return el("article", { class: "pane" }, title, value, ...block,
    el("div", { class: "pair" }, overviewView(pane), headView(pane)), tokensView(pane), routesView(pane),
    headsView(pane), edgesView(pane));
}

/**
 * Selects the head data.chosen or, if it is null, the head with the largest |dL/dg|, where g is a gate on the output
 * of the head. Also selects the last query, and the key with the largest magnitude for this query.
 */
function firstChoice() {
  state.checkpoint = longest.checkpoints.length - 1;
  const [pane] = panes;
  const n = pane.tokens.length;
  const size = (report) => Math.abs(report.importance ?? 0);
  const inAll = ({ layer, head }) => panes.every((other) => layer < other.layers && head < other.heads);
  const { layer, head } = data.chosen ??
    checkpointOf(pane).heads.filter(inAll).reduce((a, b) => (size(b) > size(a) ? b : a));
  const map = mapOf(pane, quantity(), layer, head);
  const row = map ? Array.from(numbersOf(map, n).slice((n - 1) * n), (x) => Math.abs(x || 0)) : [0];
  const key = row.indexOf(Math.max(...row));
  Object.assign(state, { layer, head, query: n - 1, key, token: key, fromHead: head, fromQuery: n - 1, root: false });
  for (const q of data.quantities) state.roots[q.name] = q.signed; // values of gradients vary by orders of magnitude
}

function start() {
  firstChoice();
  document.title = data.title;
  document.getElementById("title").textContent = data.title;
  document.getElementById("made-by").append("heed ", data.heed, ": ", el("code", {}, data.command));
  document.getElementById("quantities").append(...data.quantities.flatMap((q) =>
    [el("dt", {}, q.title), el("dd", {}, q.what, q.unit ? ` (${q.unit})` : "")]),
    ...data.head_columns.flatMap((c) => [el("dt", {}, c.name), el("dd", {}, c.what, c.unit ? ` (${c.unit})` : "")]));
  buildControls();
  const holder = document.getElementById("panes");
  holder.style.setProperty("--panes", panes.length);
  holder.append(...panes.map(paneView));
  document.getElementById("tables").append(...(data.tables ?? []).map(tableView));
  change(state); // draws all views
}
start();
