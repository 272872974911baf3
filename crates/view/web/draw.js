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
const UNNAMED = { dark: shade(212, 10, 39), light: shade(212, 10, 72) };

export const isDark = () => document.documentElement.dataset.theme === "dark";

/** A colour as CSS and as a pixel of an image, whose bytes are red, green, blue, alpha. */
function shade(hue, saturation, lightness) {
  const [s, l] = [saturation / 100, lightness / 100];
  const part = offset => { const turn = (offset + hue / 30) % 12; return Math.round(255 * (l - s * Math.min(l, 1 - l) * Math.max(-1, Math.min(turn - 3, 9 - turn, 1)))); };
  const [red, green, blue] = [part(0), part(8), part(4)];
  return { css: `rgb(${red} ${green} ${blue})`, pixel: (0xff000000 | blue << 16 | green << 8 | red) >>> 0 };
}

/** The colour of a name: its category's hue, a shade of its own. While the name is on the way the colour has `isUnnamed`. */
export function colour(run, name, arrived) {
  const dark = isDark();
  const key = `${run.number}/${name}/${dark}`;
  const known = colours.get(key);
  if (known) return known;
  const entry = run.name(name, arrived);
  if (!entry) return { ...UNNAMED[dark ? "dark" : "light"], isUnnamed: true };
  const [label, category] = entry;
  const own = category === "idle" ? IDLE_HUES[label] : category === "request" ? REQUEST_HUES[label] ?? [0, 65] : null;
  const [hue, saturation] = own ?? HUES[category] ?? [310, 25];
  const fill = shade(hue, saturation, (dark ? 62 : 72) + (own ? 0 : hash(label) % 13 - 6));
  colours.set(key, fill);
  return fill;
}

export function forgetColours() { colours.clear(); }

/** The first device pixel of a track in its lane: tracks of a fractional height are whole pixels that differ by one. */
export const trackTop = (track, ratio) => Math.round(track * TRACK_H * ratio);

/**
 * Writes slices and cells of a tile pixel by pixel to a canvas (with `isUnnamed` where names are still on the way) of `TILE_PX * scale` device
 * pixels; `ratio` is device pixels by CSS pixels.
 */
export function renderTile(run, tile, scale, rows, ratio, arrived) {
  const width = Math.max(1, Math.round(TILE_PX * scale));
  const canvas = new OffscreenCanvas(width, Math.max(1, trackTop(rows, ratio)));
  const image = new ImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  const known = new Map();
  const pixelOf = name => {
    let pixel = known.get(name);
    if (pixel === undefined) {
      const { pixel: found, isUnnamed } = colour(run, name, arrived);
      if (isUnnamed) canvas.isUnnamed = true;
      known.set(name, pixel = found);
    }
    return pixel;
  };
  const fill = (left, right, top, bottom, name) => {
    const pixel = pixelOf(name);
    for (let row = top * width; row < bottom * width; row += width) for (let place = row + left; place < row + right; place += 1) pixels[place] = pixel;
  };
  const from = tile.x * TILE_PX * 2 ** tile.level;
  const perNs = scale / 2 ** tile.level;
  tile.data.tracks.slice(0, rows).forEach((track, row) => {
    const top = trackTop(row, ratio);
    const bottom = Math.max(trackTop(row + 1, ratio) - Math.max(1, Math.round(ratio)), top + 1);
    fillCells(track, scale, width, (x, part, name) => fill(x, x + 1, bottom - Math.max(1, Math.round((bottom - top) * part)), bottom, name));
    for (let slice = 0; slice < track.starts.length; slice += 1) {
      const left = Math.round((track.starts[slice] - from) * perNs);
      const right = Math.round((track.starts[slice] + track.durations[slice] - from) * perNs);
      // Slices in a row stay apart.
      const end = Math.max(right - (right - left > 4 ? 1 : 0), left + 1);
      if (end > 0 && left < width) fill(Math.max(left, 0), Math.min(end, width), top, bottom, track.names[slice]);
    }
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** Cells of a tile by device pixels, some of which share one: `draw(x, covered part, name)`, the name being that of the cell that covers most. */
function fillCells(track, scale, width, draw) {
  const [covered, most, names] = [new Float32Array(width), new Float32Array(width), new Uint32Array(width)];
  for (let cell = 0; cell < track.pixels.length; cell += 1) {
    const from = track.pixels[cell] * scale;
    const to = Math.min(from + scale, width);
    for (let x = Math.floor(from); x < to; x += 1) {
      const shared = Math.min(to, x + 1) - Math.max(from, x);
      const part = shared * track.covered[cell] / 65535;
      covered[x] += part;
      // A cell that covers nothing still gives a name to a pixel of its own.
      const weight = part + 1e-6 * shared;
      if (weight > most[x]) { most[x] = weight; names[x] = track.cellNames[cell]; }
    }
  }
  // A slice that is too short to see still shows.
  for (let x = 0; x < width; x += 1) if (most[x] > 0) draw(x, Math.min(Math.max(covered[x], 0.12), 1), names[x]);
}
