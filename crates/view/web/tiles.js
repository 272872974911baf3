// Tiles: fetched once, drawn once to a canvas of their own, and copied while the view moves.

export const TILE_PX = 512;
const TILES_KEPT = 3000;
const CANVASES_KEPT = 800;
const REQUESTS_AT_ONCE = 6;
const ANCESTORS = 8;
/** A tile that did not come is asked for again after this, when the view moves. */
const RETRY_MS = 2000;

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

/** A counter's tile is JSON: points where no pixel has two of them, which is all that deeper levels show, else pixels. */
function parseCounter(buffer) {
  const counter = JSON.parse(new TextDecoder().decode(buffer));
  return { counter, exact: !!counter.points, tracks: [] };
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
    for (let up = 1; level + up <= this.run.lanes.top_level; up += 1) {
      const tile = this.tiles.get(this.key(lane, level + up, Math.floor(x / 2 ** up)));
      if (tile?.data && (up <= ANCESTORS || tile.data.exact || this.run.isArchive)) return this.touch(tile);
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
    this.queue = places.map(place => this.stored(place)).filter(({ lane, level, x }) => !this.tiles.has(this.key(lane, level, x)) && !this.ancestor(lane, level, x)?.data.exact);
    this.pump();
  }

  /** The place itself, or the nearest above it that an archive has a tile of. */
  stored({ lane, level, x, isAhead = false }) {
    const { tiles } = this.run.lanes.lanes[lane];
    while (tiles && level < this.run.lanes.top_level && !isWithin(tiles[level], x)) { level += 1; x = Math.floor(x / 2); }
    return { lane, level, x, isAhead };
  }

  pump() {
    while (this.running < REQUESTS_AT_ONCE && this.queue.length) {
      const { lane, level, x, isAhead } = this.queue.shift();
      const key = this.key(lane, level, x);
      if (this.tiles.has(key)) continue;
      const tile = { key, lane, level, x, data: null, canvas: null };
      this.tiles.set(key, tile);
      this.running += 1;
      const began = performance.now();
      const parse = this.run.lanes.lanes[lane].kind === "counter" ? parseCounter : parseTile;
      this.run.tile(lane, level, x, isAhead).then(buffer => {
        tile.data = parse(buffer);
        this.times.push(performance.now() - began);
      }, () => setTimeout(() => this.tiles.delete(key), RETRY_MS)).finally(() => {
        this.running -= 1;
        this.evict();
        this.pump();
        this.arrived();
      });
    }
  }

  get isLoading() { return this.running > 0 || this.queue.length > 0; }

  /** Those that were used last stay. A canvas takes several times the memory of its tile, so fewer of them do. */
  evict() {
    let older = this.tiles.size - CANVASES_KEPT;
    for (const [key, tile] of this.tiles) {
      if (older <= 0) break;
      older -= 1;
      tile.canvas = null;
      if (tile.data && this.tiles.size > TILES_KEPT) this.tiles.delete(key);
    }
  }
}

/** Whether a number is in one of the intervals, first and last of each in one list. */
function isWithin(bounds, number) {
  let [low, high] = [0, (bounds?.length ?? 0) / 2];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (bounds[2 * middle + 1] < number) low = middle + 1; else high = middle;
  }
  return low < (bounds?.length ?? 0) / 2 && bounds[2 * low] <= number;
}
