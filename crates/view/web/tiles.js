// Tiles: fetched once, drawn once to a canvas of their own, and copied while the view moves.

import { binary } from "./data.js";

export const TILE_PX = 512;
const TILES_KEPT = 3000;
const REQUESTS_AT_ONCE = 6;
const ANCESTORS = 8;

/** Columns of a tile's tracks, as tile.rs writes them. */
export function parseTile(buffer) {
  const tracks = [];
  const head = new DataView(buffer);
  let at = 0;
  let exact = true;
  while (at < buffer.byteLength) {
    const slices = head.getUint32(at, true);
    const cells = head.getUint32(at + 4, true);
    at += 8;
    const take = (Type, length) => { const column = new Type(buffer, at, length); at += column.byteLength; return column; };
    tracks.push({
      starts: take(Float64Array, slices), durations: take(Float64Array, slices), names: take(Uint32Array, slices), events: take(Uint32Array, slices),
      pixels: take(Uint16Array, cells), covered: take(Uint16Array, cells), counts: take(Uint32Array, cells), cellNames: take(Uint32Array, cells),
    });
    at = Math.ceil(at / 8) * 8;
    exact &&= cells === 0;
  }
  return { tracks, exact };
}

export class TileStore {
  constructor(run, arrived) {
    this.run = run;
    this.arrived = arrived;
    this.tiles = new Map();
    this.queue = [];
    this.running = 0;
    this.times = [];
  }

  key(lane, level, x) { return `${lane}/${level}/${x}`; }

  /** The tile that shows a place, or null. A tile without cells stands for all below it. */
  get(lane, level, x) {
    const tile = this.tiles.get(this.key(lane, level, x));
    if (tile?.data) return this.touch(tile);
    const above = this.ancestor(lane, level, x);
    return above?.data.exact ? above : null;
  }

  /** The nearest tile above that is here. */
  ancestor(lane, level, x) {
    for (let up = 1; level + up <= 40; up += 1) {
      const tile = this.tiles.get(this.key(lane, level + up, Math.floor(x / 2 ** up)));
      if (tile?.data && (up <= ANCESTORS || tile.data.exact || this.run.lanes.top_level !== undefined)) return this.touch(tile);
    }
    return null;
  }

  touch(tile) {
    // A Map keeps the order of insertion: what is used goes to its end.
    this.tiles.delete(tile.key);
    this.tiles.set(tile.key, tile);
    return tile;
  }

  /** Asks for tiles in the order given; what an earlier call asked for and this one does not is dropped. */
  want(places) {
    this.queue = places.filter(({ lane, level, x }) => x >= 0 && !this.tiles.has(this.key(lane, level, x)) && !this.ancestor(lane, level, x)?.data.exact);
    this.pump();
  }

  pump() {
    while (this.running < REQUESTS_AT_ONCE && this.queue.length) {
      const { lane, level, x } = this.queue.shift();
      const key = this.key(lane, level, x);
      if (this.tiles.has(key)) continue;
      const tile = { key, lane, level, x, data: null, canvas: null };
      this.tiles.set(key, tile);
      this.running += 1;
      const began = performance.now();
      const isCounter = this.run.lanes.lanes[lane].kind === "counter";
      binary(`${this.run.base}tile/${lane}/${level}/${x}`, this.run.lanes.top_level !== undefined).then(buffer => {
        tile.data = isCounter ? { counter: JSON.parse(new TextDecoder().decode(buffer)), exact: false, tracks: [] } : parseTile(buffer);
        this.times.push(performance.now() - began);
      }, () => this.missing(tile)).finally(() => {
        this.running -= 1;
        this.evict();
        this.pump();
        this.arrived();
      });
    }
  }

  /** An archive has no tile below one that shows everything: that one is asked for instead. */
  missing(tile) {
    const top = this.run.lanes.top_level;
    if (top === undefined) { this.tiles.delete(tile.key); return; }
    if (tile.level < top) this.queue.unshift({ lane: tile.lane, level: tile.level + 1, x: Math.floor(tile.x / 2) });
  }

  get isLoading() { return this.running > 0 || this.queue.length > 0; }

  evict() {
    for (const [key, tile] of this.tiles) {
      if (this.tiles.size <= TILES_KEPT) break;
      if (tile.data) this.tiles.delete(key);
    }
  }
}
