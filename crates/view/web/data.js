// Answers of the server, and what is said while one is awaited.

const NAMES_PER_BLOCK = 1024;
/** After this a person wants to know that something happens. */
export const SLOW_MS = 100;

/** What the server does meanwhile, by the part of a path that names it. */
const WORK = {
  runs: "loading the list of runs", lanes: "laying out the timeline", run: "composing the page of the run", tile: "loading the timeline", names: "loading names", plot: "loading charts", trace: "writing the Perfetto trace",
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

async function ask(path, read, mayMiss = false) {
  waiting += 1;
  const timer = setTimeout(() => status(`${workOf(path)}…`), SLOW_MS);
  try {
    const answer = await fetch(path, { cache: "no-store" });
    if (!answer.ok) throw new Error(`${path.split("?")[0]}: ${answer.status}`);
    const value = await read(answer);
    failed = false;
    return value;
  } catch (error) {
    if (mayMiss) throw error;
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
export const binary = (path, mayMiss) => ask(path, answer => answer.arrayBuffer(), mayMiss);

/** One run of the server. */
export class Run {
  constructor(number) {
    this.number = number;
    this.base = `r/${number}/`;
    this.labels = new Map();
    this.blocks = new Map();
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
  get isArchive() { return this.lanes.top_level !== undefined; }

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
