// Answers of the server, and what is said while one is awaited.

const NAMES_PER_BLOCK = 1024;
/** Tiles of a lane in one file of an archive, as archive.rs writes them: their lengths, then the tiles. */
const TILES_PER_PACK = 64;
const PACKS_KEPT = 64;
/** After this a person wants to know that something happens. */
export const SLOW_MS = 100;

/** What the server does meanwhile, by the part of a path that names it. */
const WORK = {
  runs: "loading the list of runs", compare: "comparing the runs", lanes: "laying out the timeline", run: "composing the page of the run", tile: "loading the timeline", names: "loading names", plot: "loading charts", trace: "writing the Perfetto trace",
  event: "loading the event", instances: "collecting events of this name", totals: "summing the selection", search: "searching", find: "searching", query: "running the query",
  steps: "collecting steps", requests: "collecting requests", ranks: "comparing ranks", memory: "summing allocations", flame: "collecting host stacks",
};

let waiting = 0;
function status(text) {
  document.getElementById("status").textContent = text;
}

function workOf(path) {
  const [head] = path.replace(/^r\/\d+\//, "").split(/[/.?]/);
  return WORK[head] ?? "loading";
}

/** Of what nobody waits for (`isAhead`) nothing is said. */
async function ask(path, read, isAhead = false) {
  waiting += 1;
  const timer = isAhead ? null : setTimeout(() => status(`${workOf(path)}…`), SLOW_MS);
  try {
    const answer = await fetch(path, { cache: "no-store" });
    if (!answer.ok) throw new Error(`${path.split("?")[0]}: ${answer.status}`);
    const value = await read(answer);
    failed = false;
    return value;
  } catch (error) {
    failed = true;
    status(error instanceof TypeError ? "llmprof view does not answer; is it still running?" : `cannot read ${error.message}`);
    throw error;
  } finally {
    clearTimeout(timer);
    waiting -= 1;
    if (waiting === 0 && !failed) status("");
  }
}
let failed = false;

export const json = path => ask(path, answer => answer.json());
const text = path => ask(path, answer => answer.text());
const binary = (path, isAhead) => ask(path, answer => answer.arrayBuffer(), isAhead);

/** One run of the server. */
export class Run {
  constructor(number) {
    this.number = number;
    this.base = `r/${number}/`;
    this.labels = new Map();
    this.blocks = new Map();
    this.packs = new Map();
  }

  static async open(number) {
    const run = new Run(number);
    run.lanes = await run.json("lanes.json");
    return run;
  }

  json(path) { return json(this.base + path); }

  text(path) { return text(this.base + path); }

  binary(path) { return binary(this.base + path); }

  page() {
    this.pagePromise ??= this.json("run.json");
    return this.pagePromise;
  }

  /** Whether this is a folder of files: nothing is computed. */
  get isArchive() { return !!this.lanes.is_archive; }

  /** A tile as bytes. An archive has those of a lane in the order of its list, the widest first, several in a file. */
  async tile(lane, level, x, isAhead) {
    if (!this.isArchive) return binary(`${this.base}tile/${lane}/${level}/${x}`, isAhead);
    const { tiles } = this.lanes.lanes[lane];
    let place = placeWithin(tiles[level], x);
    for (let above = level + 1; above <= this.lanes.top_level; above += 1) place += countWithin(tiles[above]);
    const path = `${this.base}tile/${lane}/${Math.floor(place / TILES_PER_PACK)}`;
    if (!this.packs.has(path)) {
      if (this.packs.size >= PACKS_KEPT) this.packs.delete(this.packs.keys().next().value);
      this.packs.set(path, binary(path, isAhead).catch(error => { this.packs.delete(path); throw error; }));
    }
    const pack = await this.packs.get(path);
    const lengths = new Uint32Array(pack, 0, TILES_PER_PACK);
    const start = lengths.slice(0, place % TILES_PER_PACK).reduce((sum, length) => sum + length, lengths.byteLength);
    return pack.slice(start, start + lengths[place % TILES_PER_PACK]);
  }

  /** Facts of an event. An archive has them in blocks of one table. */
  async event(trace, event) {
    if (!this.isArchive) return this.json(`event/${trace}/${event}`);
    if (!this.lanes.has_facts) return null;
    const [number, row] = [event >>> 28, event & 0x0fffffff];
    const block = await this.json(`event/${trace}/${number}/${Math.floor(row / 256)}.json`);
    return block[row % 256];
  }

  /** `[label, category]` of a name, or null while its block is on the way; `arrived` is called then. */
  name(number, arrived) {
    const known = this.labels.get(number);
    if (known) return known;
    const block = Math.floor(number / NAMES_PER_BLOCK);
    if (!this.blocks.has(block)) {
      this.blocks.set(block, this.json(`names/${block}.json`).then(names => {
        names.forEach((name, place) => this.labels.set(block * NAMES_PER_BLOCK + place, name));
        arrived?.();
      }, () => this.blocks.delete(block)));
    }
    return null;
  }

  query(path, values) {
    const words = Object.entries(values).filter(([, value]) => value !== null && value !== undefined);
    return this.json(`${path}?${new URLSearchParams(words)}`);
  }
}

/** How many numbers intervals have, first and last of each in one list. */
function countWithin(bounds = []) {
  let sum = 0;
  for (let at = 0; at < bounds.length; at += 2) sum += bounds[at + 1] - bounds[at] + 1;
  return sum;
}

/** The place of a number among those of intervals that hold it, first and last of each in one list. */
function placeWithin(bounds, number) {
  let before = 0;
  let at = 0;
  for (; bounds[at + 1] < number; at += 2) before += bounds[at + 1] - bounds[at] + 1;
  return before + number - bounds[at];
}
