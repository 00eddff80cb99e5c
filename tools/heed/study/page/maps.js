// Maps: decoding of numbers from the page's data, colors, and drawing of a map with labels.
"use strict";

const hiddenCode = -32768;
const largestCode = 32767;
const decoded = new WeakMap();

/**
 * Decodes a map that encode_map() (page.h) has encoded. Returns [n, n] numbers, row-major. A masked cell is NaN. Their
 * property hasNegative is true if a number is below 0.
 */
function numbersOf(map, n) {
  if (decoded.has(map)) return decoded.get(map);
  const text = atob(map.data);
  const numbers = new Float64Array(n * n).fill(NaN);
  let at = 0;
  for (let i = 0; i < n; ++i) {
    for (let j = 0; j < (map.triangle ? i + 1 : n); ++j, at += 2) {
      const code = ((text.charCodeAt(at) | (text.charCodeAt(at + 1) << 8)) << 16) >> 16;
      if (code !== hiddenCode) numbers[i * n + j] = (map.scale * code) / largestCode;
    }
  }
  numbers.hasNegative = numbers.some((x) => x < 0);
  decoded.set(map, numbers);
  return numbers;
}

// Colors of the scales. viridis has every 16th color of tools/plot/colormap.cpp, and the last
// color. blue and orange are the negative and the positive half of the signed scale; their first
// color is that of the value 0.
const ramps = {
  viridis: ("440154 48186a 472d7b 424086 3b528b 33638d 2c728e 26828e 21918c 1fa088 28ae80 3fbc73 5ec962 " +
    "84d44b addc30 d8e219 fde725").split(" "),
  light: {
    blue: "ffffff dee7fa bfcff1 9fb7e6 7da1db 598bcf 2676c3".split(" "),
    orange: "ffffff ffdfce fdc1a4 f3a47c e58856 d66b31 c44e00".split(" "),
    masked: "bbbbbb",
  },
  dark: {
    blue: "14171c 1d3a5f 2a5f9e 4787cf 82b8f5".split(" "),
    orange: "14171c 4d2c12 8a4c17 c87432 f5ab73".split(" "),
    masked: "4b515b",
  },
};

const channels = (hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));

/** Returns the color of a ramp (a list of colors) at `share`, from 0 (first color) to 1 (last color). */
function rampColor(ramp, share) {
  const at = Math.min(Math.max(share, 0), 1) * (ramp.length - 1);
  const low = Math.min(Math.floor(at), ramp.length - 2);
  const [a, b] = [channels(ramp[low]), channels(ramp[low + 1])];
  return a.map((x, c) => Math.round(x + (b[c] - x) * (at - low)));
}

const colorTables = new Map();
const tableSteps = 512;

/** Returns 513 colors for the places 0, 1/512, ..., 1 of a scale (see placeOf()). */
function colorTable(theme, signed) {
  const key = theme + signed;
  if (!colorTables.has(key)) {
    const { blue, orange } = ramps[theme];
    const signedColor = (place) => rampColor(place < 0.5 ? blue : orange, Math.abs(2 * place - 1));
    const color = (place) => (signed ? signedColor(place) : rampColor(ramps.viridis, place));
    colorTables.set(key, Array.from({ length: tableSteps + 1 }, (_, i) => color(i / tableSteps)));
  }
  return colorTables.get(key);
}

// Curves of a scale. "to" converts a share of the limit to a distance from the color of 0; both are from 0 to 1. "from"
// is its inverse.
const steepness = 1000;
const curves = [
  { name: "linear", words: "linear scale", to: (x) => x, from: (x) => x },
  { name: "root", words: "root scale", to: Math.sqrt, from: (x) => x * x },
  { name: "logarithm", words: `logarithm of 1 + ${steepness} × the share of the limit`,
    to: (x) => Math.log1p(steepness * x) / Math.log1p(steepness),
    from: (x) => Math.expm1(x * Math.log1p(steepness)) / steepness },
];

/** Returns the place, 0 to 1, of a value on a scale {max, signed, curve}. On a signed scale, 0 has the place 0.5. */
function placeOf(value, scale) {
  const share = value / (scale.max || 1);
  const distance = Math.sign(share) * scale.curve.to(Math.abs(share));
  return scale.signed ? (distance + 1) / 2 : distance;
}

/** Returns the value at a place; the inverse of placeOf(). */
function valueAt(place, scale) {
  const distance = scale.signed ? 2 * place - 1 : place;
  return scale.max * Math.sign(distance) * scale.curve.from(Math.abs(distance));
}

/** Draws one pixel for each cell. CSS or drawMap() enlarges the picture. */
function paint(canvas, numbers, rows, columns, scale, theme) {
  const table = colorTable(theme, scale.signed);
  const masked = channels(ramps[theme].masked);
  const image = new ImageData(columns, rows);
  for (let k = 0; k < rows * columns; ++k) {
    const place = Math.min(Math.max(placeOf(numbers[k], scale), 0), 1);
    const color = Number.isNaN(place) ? masked : table[Math.round(place * tableSteps)];
    for (let c = 0; c < 3; ++c) image.data[4 * k + c] = color[c];
    image.data[4 * k + 3] = 255;
  }
  canvas.width = columns;
  canvas.height = rows;
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

const labelFont = "11px ui-monospace, 'DejaVu Sans Mono', monospace";
const labelRoom = 64; // largest width of a label in pixels
const titleRoom = 16; // height of the title of an axis in pixels

/** Returns sizes and positions of the parts of a map in CSS pixels. Cells are square unless map.height is set. */
function mapLayout(context, map, width) {
  context.font = labelFont;
  const widest = (labels) => Math.min(labelRoom, Math.max(0, ...labels.map((text) => context.measureText(text).width)));
  const left = Math.ceil(widest(map.rowLabels)) + 8 + titleRoom;
  const cellWidth = (width - left - 2) / map.columns;
  const upright = widest(map.columnLabels) <= Math.max(cellWidth, 9);
  const bottom = (upright ? 16 : Math.ceil(widest(map.columnLabels)) + 8) + titleRoom;
  const cellHeight = map.height ?? cellWidth;
  return { left, bottom, cellWidth, cellHeight, upright, width, height: map.rows * cellHeight + bottom + 1 };
}

// Draws as many labels of one axis as fit. Always draws the label at the cursor, in bold.
function drawLabels(context, labels, size, cursor, put) {
  const step = Math.ceil(12 / size);
  labels.forEach((text, k) => {
    const chosen = k === cursor;
    if (!chosen && (k % step !== 0 || Math.abs(k - cursor) < step)) return;
    context.font = (chosen ? "bold " : "") + labelFont;
    put(text, k);
  });
}

function drawAxes(context, map, at, colors) {
  const { left, cellWidth, cellHeight, upright } = at;
  const [row, column] = map.hover ?? map.cursor;
  const base = map.rows * cellHeight;
  context.fillStyle = colors.text;
  context.textBaseline = "middle";
  context.textAlign = "right";
  drawLabels(context, map.rowLabels, cellHeight, row, (text, k) =>
    context.fillText(text, left - 5, (k + 0.5) * cellHeight + 0.5, labelRoom));
  context.textAlign = upright ? "center" : "right";
  drawLabels(context, map.columnLabels, cellWidth, column, (text, k) => {
    context.save();
    context.translate(left + (k + 0.5) * cellWidth, base + (upright ? 9 : 5));
    if (!upright) context.rotate(-Math.PI / 2);
    context.fillText(text, 0, 0, labelRoom);
    context.restore();
  });
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = colors.muted;
  context.textAlign = "center";
  context.fillText(map.columnTitle, left + (map.columns * cellWidth) / 2, at.height - 7);
  context.translate(7, base / 2);
  context.rotate(-Math.PI / 2);
  context.fillText(map.rowTitle, 0, 0);
}

// Draws a white line and a black line around it, so that the outline is visible on every color.
function outline(context, at, [row, column], thickness) {
  for (const [color, grow] of [["#000", thickness], ["#fff", 0]]) {
    context.strokeStyle = color;
    context.lineWidth = thickness;
    context.strokeRect(at.left + column * at.cellWidth - grow, row * at.cellHeight - grow, at.cellWidth + 2 * grow,
      at.cellHeight + 2 * grow);
  }
}

/**
 * Draws a map with the given width in CSS pixels. Returns its layout. `map` is {picture, rows, columns, rowLabels,
 * columnLabels, rowTitle, columnTitle, cursor, pinned, hover, column, height}. `cursor` is the cell at which keys move;
 * it is outlined if `pinned` is true. `hover` is the cell under the pointer, or null. `column` is a column to mark, or
 * null.
 */
function drawMap(canvas, map, width, colors) {
  const context = canvas.getContext("2d");
  const at = mapLayout(context, map, width);
  const sharp = Math.max(2, window.devicePixelRatio); // at least 2, for sharp prints
  canvas.width = Math.round(at.width * sharp);
  canvas.height = Math.round(at.height * sharp);
  canvas.style.width = at.width + "px";
  canvas.style.aspectRatio = `${at.width} / ${at.height}`;
  context.scale(sharp, sharp);
  context.imageSmoothingEnabled = false;
  const [wide, high] = [map.columns * at.cellWidth, map.rows * at.cellHeight];
  context.drawImage(map.picture, at.left, 0, wide, high);
  context.strokeStyle = colors.line;
  context.strokeRect(at.left, 0.5, wide, high);
  if (map.column !== null) {
    context.setLineDash([4, 3]);
    context.strokeStyle = colors.accent;
    context.lineWidth = 2;
    context.strokeRect(at.left + map.column * at.cellWidth, 1, at.cellWidth, high - 1);
    context.setLineDash([]);
  }
  if (map.pinned) outline(context, at, map.cursor, 1.5);
  if (map.hover) outline(context, at, map.hover, 0.75);
  drawAxes(context, map, at, colors);
  return at;
}

/** Returns the row and the column at a point of the canvas. A coordinate outside of the cells gives null. */
function cellAt(at, map, x, y) {
  const column = Math.floor((x - at.left) / at.cellWidth);
  const row = Math.floor(y / at.cellHeight);
  return {
    row: row >= 0 && row < map.rows ? row : null,
    column: column >= 0 && column < map.columns ? column : null,
  };
}
