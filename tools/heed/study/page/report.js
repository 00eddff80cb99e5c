// The page: its data, its state (what is selected), and the controls that change the state.

const data = JSON.parse(document.getElementById("data").textContent);
const { panes } = data;
const views = []; // {keys, draw}
// quantity and checkpoint are indices. root is true if signed maps have the root scale. mapsView() describes head and
// route, and adds further keys.
const state = { quantity: 0, checkpoint: 0, root: false };

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
const { checkpoints } = panes[0]; // a second pane has the same number
const checkpointOf = (pane) => pane.checkpoints[state.checkpoint];
const headName = ({ layer, head }) => `L${layer}H${head}`;
const headsOf = (pane) => Array.from({ length: pane.layers * pane.heads }, (_, k) =>
  headName({ layer: Math.floor(k / pane.heads), head: k % pane.heads }));
const mapsOf = (pane, name) => checkpointOf(pane).maps[name] ?? [];
/** Returns the cells of the map of a head, [n x n], or nothing if the map is not stored. */
function cellsOf(pane, name, head) {
  const map = mapsOf(pane, name).find((map) => headName(map) === head);
  return map && numbersOf(map, pane.tokens.length);
}
/** Returns the limit of the color scale, which is the same for all heads, layers and panes. Weights are from 0 to 1. */
const limitOf = ({ name }) => (name === "hook_pattern" ? 1 :
  Math.max(0, ...panes.flatMap((pane) => mapsOf(pane, name).map((map) => map.scale))));

/** Returns the positions of the tokens of row or column i: "6", or "24-27" if a cell covers several tokens. */
function rangeOf({ block, length }, i) {
  return block === 1 ? String(i) : `${i * block}-${Math.min((i + 1) * block, length) - 1}`;
}
/** Returns the name of row or column i: '6 “c”', or '24-27 “cabc”' if a cell covers several tokens. */
function tokenName(pane, i) {
  const texts = pane.block === 1 ? [pane.tokens[i]] : pane.texts.slice(i * pane.block, (i + 1) * pane.block);
  return `${rangeOf(pane, i)} “${texts.map(visible).join(texts.some((text) => [...text].length > 1) ? " " : "")}”`;
}

// --- theme
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
const theme = () => (prefersDark.matches ? "dark" : "light");
prefersDark.addEventListener("change", () => change({ theme: theme() }));
function pageColors() {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(`--${name}`);
  return { text: color("text"), muted: color("muted"), line: color("line") };
}

// --- controls
/** Creates a selection list that sets state[key]. Each option is [value, text]; the first one is selected. */
function choice(name, key, options) {
  const select = el("select", { onchange: () => change({ [key]: options[select.selectedIndex][0] }) },
    ...options.map(([, text]) => el("option", {}, text)));
  return el("label", {}, name, select);
}

function slider() {
  const input = el("input", { type: "range", min: 0, max: checkpoints.length - 1, step: 1, id: "checkpoint",
    oninput: () => change({ checkpoint: Number(input.value) }) });
  const output = el("output", { for: "checkpoint" });
  const saved = panes[0].saved_checkpoints;
  addView(["checkpoint"], () => {
    input.value = state.checkpoint;
    const all = saved > checkpoints.length ? `, selected from ${saved}` : "";
    output.textContent = `step ${checkpoints[state.checkpoint].step} (${state.checkpoint + 1} of ${checkpoints.length}${all})`;
    input.setAttribute("aria-valuetext", output.textContent);
  });
  return el("label", {}, "Checkpoint", input, output);
}

function paneView(pane) {
  pane.names = pane.tokens.map((_, i) => tokenName(pane, i));
  const value = el("p");
  addView(["checkpoint"], () => {
    const { step, value: number } = checkpointOf(pane);
    const when = step === null ? "" : ` at step ${step}`;
    value.replaceChildren("L is ", el("b", {}, show(pane.objective)), `. L = ${show(number)}${when}.`);
  });
  const rule = "the value of the largest magnitude; for routes, the sum";
  const block = pane.block > 1 ? `A cell covers ${pane.block} × ${pane.block} tokens: ${rule}.` : "";
  const title = el("h2", {}, pane.name, " ", el("small", { class: "muted" }, pane.hash));
  return el("article", { class: "pane" }, title, value, ...noteOf(block), headMaps(pane),
    ...(checkpointOf(pane).routes.length > 0 ? [routesView(pane)] : []));
}

// --- start
/** Selects the cell with the largest measured effect. If no cell was measured, selects the head L0H0. */
function firstChoice() {
  state.checkpoint = checkpoints.length - 1;
  const [{ cells, block, tokens }] = panes;
  const found = (cells ?? []).filter(() => block === 1)
    .toSorted((a, b) => Math.abs(b.effect) - Math.abs(a.effect))[0];
  const head = found ?? { layer: 0, head: 0 };
  state.head = { panel: headName(head), cell: found ? [found.query, found.key] : [tokens.length - 1, 0], hover: null };
}

document.getElementById("title").textContent = data.title;
document.getElementById("made-by").append("heed ", data.heed, ": ", el("code", {}, data.command));
document.getElementById("summary").append(
  ...(data.summary ?? []).map((text) => el("p", {}, show(text.replace(/\s+/g, " ")))));
document.getElementById("summary").hidden = !data.summary;
document.getElementById("definitions").append(...[...data.quantities, ...(data.head_columns ?? [])].flatMap(
  ({ title, name, what, unit }) => [el("dt", {}, title ?? show(name)), el("dd", {}, what, unit ? ` (${unit})` : "")]));
document.body.style.setProperty("--panes", panes.length);
const controls = [choice("Show", "quantity", data.quantities.map((q, k) => [k, q.title])),
  ...(checkpoints.length > 1 ? [slider()] : []),
  choice("Signed maps", "root", [[false, "linear scale"], [true, "root scale"]])];
firstChoice();
document.getElementById("controls").append(...controls);
document.getElementById("panes").append(...panes.map(paneView));
document.getElementById("sections").append(...(data.sections ?? []).map(sectionView));
change(state); // draws all views
