// Colours, and the drawing of tiles.

import { TILE_PX } from "./tiles.js";
import { hash } from "./picture.js";

export const TRACK_H = 17;
export const COUNTER_H = 40;

/** Hue and saturation by category; causes of idle time by name. */
const HUES = {
  gemm: [212, 60], gemv: [200, 60], attention: [265, 50], conv: [235, 55], elementwise: [38, 70], norm: [60, 60], softmax: [285, 45], reduce: [75, 50],
  copy: [150, 45], cat: [160, 40], index: [170, 40], communication: [340, 60], memset: [140, 25], operator: [120, 35], python: [25, 35], api: [0, 45],
  system: [15, 20], profiler: [0, 0], range: [180, 40], phase: [220, 40], stack: [30, 55], sync: [350, 35], host: [100, 15],
  "engine step": [235, 45],
};
const IDLE_HUES = {
  "host busy": [28, 75], "host in sync call": [350, 60], "launch latency": [50, 75], "in launch call": [15, 60], "inter-kernel gap": [90, 30],
  "queued, not started": [290, 35], "data loading": [200, 40], unknown: [0, 0],
};
const REQUEST_HUES = { "in the client": [0, 0], "until the first token": [38, 70], tokens: [212, 55], "whole answer": [212, 55] };
const colours = new Map();

export const isDark = () => document.documentElement.dataset.theme === "dark";

/** The fill of a name: its category's hue, a shade of its own; null while the name is on the way. */
export function colour(run, name, arrived) {
  const dark = isDark();
  const key = `${run.number}/${name}/${dark}`;
  const known = colours.get(key);
  if (known) return known;
  const entry = run.name(name, arrived);
  if (!entry) return null;
  const [label, category] = entry;
  const own = category === "idle" ? IDLE_HUES[label] : category === "request" ? REQUEST_HUES[label] ?? [0, 65] : null;
  const [hue, saturation] = own ?? HUES[category] ?? [310, 25];
  const shade = own ? 0 : hash(label) % 13 - 6;
  const fill = `hsl(${hue} ${saturation}% ${(dark ? 62 : 72) + shade}%)`;
  colours.set(key, fill);
  return fill;
}

export const unnamedColour = () => isDark() ? "#59636e" : "#afb8c1";

export function forgetColours() { colours.clear(); }

/** Draws slices and cells of a tile to a canvas (with `isUnnamed` where names are still on the way) `TILE_PX * scale` wide; `rows` tracks of `rowHeight` device pixels. */
export function renderTile(run, tile, scale, rows, rowHeight, arrived) {
  const width = Math.max(1, Math.ceil(TILE_PX * scale));
  const canvas = new OffscreenCanvas(width, Math.max(1, Math.ceil(rows * rowHeight)));
  const context = canvas.getContext("2d");
  const pixel = 2 ** tile.level;
  const from = tile.x * TILE_PX * pixel;
  const perNs = scale / pixel;
  const fill = name => {
    const known = colour(run, name, arrived);
    canvas.isUnnamed ||= !known;
    return known ?? unnamedColour();
  };
  tile.data.tracks.slice(0, rows).forEach((track, row) => {
    const top = row * rowHeight;
    const height = rowHeight - Math.max(1, Math.round(rowHeight / 16));
    for (let cell = 0; cell < track.pixels.length; cell += 1) {
      // A slice that is too short to see still shows.
      const part = Math.max(track.covered[cell] / 65535, 0.12);
      context.fillStyle = fill(track.cellNames[cell]);
      context.fillRect(track.pixels[cell] * scale, top + height * (1 - part), Math.max(scale, 0.6), height * part);
    }
    for (let slice = 0; slice < track.starts.length; slice += 1) {
      const left = Math.max((track.starts[slice] - from) * perNs, -2);
      const right = Math.min((track.starts[slice] + track.durations[slice] - from) * perNs, width + 2);
      context.fillStyle = fill(track.names[slice]);
      context.fillRect(left, top, Math.max(right - left - (right - left > 4 ? 1 : 0), 0.6), height);
    }
  });
  return canvas;
}
