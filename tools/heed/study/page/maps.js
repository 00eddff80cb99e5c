// Maps: decoding of numbers from the page's data, colors, and drawing of a map with labels.
"use strict";

const decoded = new WeakMap();

/** Decodes a map that encode_map() (page.h) has encoded. Returns [n, n] numbers, row-major. A masked cell is NaN. */
function numbersOf(map, n) {
  if (decoded.has(map)) return decoded.get(map);
  const text = atob(map.data);
  const numbers = new Float64Array(n * n).fill(NaN);
  let at = 0;
  for (let i = 0; i < n; ++i) {
    for (let j = 0; j <= i; ++j, at += 2) {
      const code = ((text.charCodeAt(at) | (text.charCodeAt(at + 1) << 8)) << 16) >> 16;
      if (code !== -32768) numbers[i * n + j] = (map.scale * code) / 32767;
    }
  }
  decoded.set(map, numbers);
  return numbers;
}

const channels = (hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
const rampSteps = 512;

/** Returns 513 colors, interpolated linearly between the given ones. */
function ramp(text) {
  const stops = text.split(" ").map(channels);
  return Array.from({ length: rampSteps + 1 }, (_, i) => {
    const at = (i / rampSteps) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    return stops[low].map((x, c) => Math.round(x + (stops[low + 1][c] - x) * (at - low)));
  });
}

// Colors of the scales. viridis has every 16th color of tools/plot/colormap.cpp, and the last
// color. blue and orange are the negative and the positive half of the signed scale; their first
// color is that of the value 0.
const ramps = {
  viridis: ramp("440154 48186a 472d7b 424086 3b528b 33638d 2c728e 26828e 21918c 1fa088 28ae80 3fbc73 5ec962 " +
    "84d44b addc30 d8e219 fde725"),
  light: {
    blue: ramp("ffffff dee7fa bfcff1 9fb7e6 7da1db 598bcf 2676c3"),
    orange: ramp("ffffff ffdfce fdc1a4 f3a47c e58856 d66b31 c44e00"),
    masked: channels("bbbbbb"),
  },
  dark: {
    blue: ramp("14171c 1d3a5f 2a5f9e 4787cf 82b8f5"),
    orange: ramp("14171c 4d2c12 8a4c17 c87432 f5ab73"),
    masked: channels("4b515b"),
  },
};

/** Returns the color of a value on a scale {max, signed, root}. A value beyond the scale has the color of its end. */
function colorOf(value, { max, signed, root }, theme) {
  if (Number.isNaN(value)) return ramps[theme].masked;
  const share = Math.min(Math.max(signed ? Math.abs(value) : value, 0) / (max || 1), 1);
  const half = value < 0 ? ramps[theme].blue : ramps[theme].orange;
  return (signed ? half : ramps.viridis)[Math.round(rampSteps * (root ? Math.sqrt(share) : share))];
}

/** Returns the value at a place of the color bar, from 0 (left end) to 1 (right end). */
function valueAt(place, { max, signed, root }) {
  const distance = signed ? 2 * place - 1 : place;
  return max * distance * (root ? Math.abs(distance) : 1);
}

/** Draws one pixel for each cell. CSS or drawMap() enlarges the picture. */
function paint(canvas, numbers, rows, columns, scale, theme) {
  const image = new ImageData(columns, rows);
  numbers.forEach((value, k) => {
    const color = colorOf(value, scale, theme);
    for (let c = 0; c < 3; ++c) image.data[4 * k + c] = color[c];
    image.data[4 * k + 3] = 255;
  });
  canvas.width = columns;
  canvas.height = rows;
  canvas.getContext("2d").putImageData(image, 0, 0);
}

const labelFont = "11px ui-monospace, 'DejaVu Sans Mono', monospace";
const labelRoom = 64; // largest width of a label in pixels
const titleRoom = 16; // height of the title of an axis in pixels

/** Returns sizes and positions of the parts of a map in CSS pixels. A map is at most as high as it is wide. */
function mapLayout(context, { rows, columns }, width) {
  context.font = labelFont;
  const widest = (labels) => Math.min(labelRoom, Math.max(0, ...labels.map((text) => context.measureText(text).width)));
  const left = Math.ceil(widest(rows)) + 8 + titleRoom;
  const wide = width - left - 2;
  const cellWidth = wide / columns.length;
  const cellHeight = rows.length === columns.length ? cellWidth : Math.min(26, wide / rows.length);
  const upright = widest(columns) <= Math.max(cellWidth, 9);
  const bottom = (upright ? 16 : Math.ceil(widest(columns)) + 8) + titleRoom;
  const base = rows.length * cellHeight;
  return { left, wide, base, cellWidth, cellHeight, upright, width, height: base + bottom + 1 };
}

// Draws as many labels of one axis as fit.
function drawLabels(labels, size, put) {
  const step = Math.ceil(12 / size);
  labels.forEach((text, k) => k % step === 0 && put(text, k));
}

function drawAxes(context, { rows, columns, axes }, at, colors) {
  const { left, wide, base, height, cellWidth, cellHeight, upright } = at;
  const put = (text, x, y, align, turned = false, room = labelRoom) => {
    context.save();
    context.textAlign = align;
    context.translate(x, y);
    if (turned) context.rotate(-Math.PI / 2);
    context.fillText(text, 0, 0, room);
    context.restore();
  };
  context.textBaseline = "middle";
  context.fillStyle = colors.text;
  context.font = labelFont;
  drawLabels(rows, cellHeight, (text, k) =>
    put(text, left - 5, Math.max((k + 0.5) * cellHeight, 6), "right"));
  drawLabels(columns, cellWidth, (text, k) =>
    put(text, left + (k + 0.5) * cellWidth, base + (upright ? 9 : 5), upright ? "center" : "right", !upright));
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = colors.muted;
  put(axes[1], left + wide / 2, height - 7, "center", false, wide);
  put(axes[0], 7, base / 2, "center", true, base);
}

// Outlines a cell by a white line and a black line around it, which are visible on every color.
function outline(context, { left, cellWidth, cellHeight }, [row, column]) {
  context.lineWidth = 1.5;
  for (const [color, grow] of [["#000", 1.5], ["#fff", 0]]) {
    context.strokeStyle = color;
    context.strokeRect(left + column * cellWidth - grow, row * cellHeight - grow, cellWidth + 2 * grow,
      cellHeight + 2 * grow);
  }
}

/**
 * Draws a map with the given width in CSS pixels. Returns its layout. `map` is {picture, rows, columns, axes, cell}. `rows`
 * and `columns` are labels, and `cell` is the cell to outline.
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
  context.drawImage(map.picture, at.left, 0, at.wide, at.base);
  context.strokeStyle = colors.line;
  context.strokeRect(at.left, 0.5, at.wide, at.base);
  outline(context, at, map.cell);
  drawAxes(context, map, at, colors);
  return at;
}
