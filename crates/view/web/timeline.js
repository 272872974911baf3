// The timeline: lanes of slices at any zoom, selected, searched and summed.

import { el, time, count, percent, amount, fact, spread, words } from "./format.js";
import { TileStore, TILE_PX } from "./tiles.js";
import { TRACK_H, COUNTER_H, colour, renderTile, trackTop, isDark } from "./draw.js";
import { table } from "./table.js";
import { perfettoDialog } from "./perfetto.js";

const AXIS_H = 22;
const MAP_H = 26;
const GROUP_H = 20;
const GAP = 3;
const TRACKS_SHOWN = 6;
const LABELS_AT_ONCE = 1500;
const SETTLED_MS = 140;
/** After this without a move the address is set and neighbours are fetched. */
const REST_MS = 250;
const TILES_DRAWN_AT_ONCE = 60;
const MAP_LANES_MAX = 12;
const TICK_PX = 110;
const NS_PER_PX_MIN = 0.05;

export class Timeline {
  /**
   * `moved(state)` is called when the view came to rest, for the address of the page; `lanes` are the numbers of those that are shown, all
   * where it is null; `labelOf(event)` is written before the name of an event; `span` is the length of the axis where runs share one.
   */
  constructor(run, { moved = () => {}, linked = null, lanes = null, labelOf = null, span = 0 } = {}) {
    this.lanesShown = lanes;
    this.labelOf = labelOf;
    this.axisSpan = Math.max(run.lanes.span_ns, span);
    this.run = run;
    this.moved = moved;
    this.linked = linked;
    this.info = run.lanes;
    this.store = new TileStore(run, () => this.draw());
    this.folded = new Set(this.info.lanes.filter(lane => lane.is_folded).map(lane => lane.group));
    this.closed = new Set(this.folded);
    this.open = new Set();
    this.pins = new Set();
    this.selected = null;
    this.links = [];
    this.area = null;
    this.found = null;
    this.scroll = 0;
    this.start = 0;
    this.nsPerPx = 1;
    this.lastZoom = 0;
    this.frames = [];
    this.root = this.build();
  }

  build() {
    this.canvas = el("canvas", { tabindex: "0", role: "application", "aria-label": "Timeline. W and S zoom, A and D move, F fits the selection, slash searches, question mark shows all keys." });
    this.tip = el("div", { class: "tip", hidden: true });
    this.stage = el("div", { class: "stage" }, this.canvas, this.tip);
    this.side = el("div", { class: "side", tabindex: "0", role: "region", "aria-label": "Selection" });
    this.search = el("input", { type: "search", placeholder: "search ( / )", "aria-label": "search names",
      keydown: event => { if (event.key === "Enter") { event.preventDefault(); this.find(!event.shiftKey); } if (event.key === "Escape") this.canvas.focus(); },
      change: () => this.listFound() });
    this.where = el("span", { class: "soft" });
    const button = (label, title, act) => el("button", { type: "button", title, "aria-label": title, click: () => { this.canvas.focus(); act(); } }, label);
    const tools = el("div", { class: "tools" }, this.search, button("‹", "previous match (,)", () => this.find(false)), button("›", "next match (.)", () => this.find(true)),
      button("−", "zoom out (S)", () => this.zoom(1.5)), button("+", "zoom in (W)", () => this.zoom(1 / 1.5)), button("fit", "whole timeline (0)", () => this.fit()),
      el("span", { class: "grow" }, this.where), this.run.isArchive ? null : button("Perfetto…", "open in Perfetto", () => perfettoDialog(this.run, text => { document.getElementById("status").textContent = text; })), button("?", "keys", () => this.help()));
    const root = el("div", { class: "timeline" }, tools, this.stage, this.side);
    this.listen();
    this.observer = new ResizeObserver(entries => this.resize(entries[0].devicePixelContentBoxSize?.[0]));
    this.observer.observe(this.stage, { box: "devicePixelContentBoxSize" in ResizeObserverEntry.prototype ? "device-pixel-content-box" : "content-box" });
    root.timeline = this;
    return root;
  }

  /** `device` is the size in device pixels, which browsers know exactly where the ratio is no whole number. */
  resize(device) {
    const box = this.stage.getBoundingClientRect();
    if (!box.width || !box.height) return;
    this.ratio = window.devicePixelRatio || 1;
    const isFirst = !this.width;
    const seen = isFirst ? 0 : this.plotWidth * this.nsPerPx;
    this.width = box.width;
    this.height = box.height;
    this.labelWidth = box.width < 600 ? 92 : Math.min(230, Math.round(box.width * 0.16));
    // An emulated ratio is not in the size that the browser tells.
    const pixels = (size, told) => Math.abs(told - size * this.ratio) < 1 ? told : Math.round(size * this.ratio);
    this.canvas.width = pixels(box.width, device?.inlineSize);
    this.canvas.height = pixels(box.height, device?.blockSize);
    if (!isFirst) this.show(this.start, this.start + seen, true);
    else { if (this.wanted) this.restore(this.wanted); else this.fit(); }
    this.draw();
  }

  get plotWidth() { return Math.max(1, this.width - this.labelWidth); }
  x(ns) { return this.labelWidth + (ns - this.start) / this.nsPerPx; }
  ns(x) { return this.start + (x - this.labelWidth) * this.nsPerPx; }

  // ---- view ----

  show(from, to, isQuiet = false) {
    const span = Math.max(to - from, 1);
    this.nsPerPx = Math.max(span / this.plotWidth, NS_PER_PX_MIN);
    this.start = from;
    this.lastZoom = performance.now();
    this.limit();
    this.changed(isQuiet);
  }

  fit() {
    const margin = this.axisSpan * 0.01 + 1;
    this.show(-margin, this.axisSpan + margin);
  }

  zoom(factor, x = null) {
    const at = x ?? (this.pointer?.x > this.labelWidth ? this.pointer.x : this.labelWidth + this.plotWidth / 2);
    const ns = this.ns(at);
    const widest = (this.axisSpan + 2) * 1.5 / this.plotWidth;
    this.nsPerPx = Math.min(Math.max(this.nsPerPx * factor, NS_PER_PX_MIN), Math.max(widest, NS_PER_PX_MIN));
    this.start = ns - (at - this.labelWidth) * this.nsPerPx;
    this.lastZoom = performance.now();
    this.limit();
    this.changed();
  }

  pan(px) {
    this.start += px * this.nsPerPx;
    this.limit();
    this.changed();
  }

  limit() {
    const seen = this.plotWidth * this.nsPerPx;
    this.start = Math.min(Math.max(this.start, -0.9 * seen), this.axisSpan - 0.1 * seen);
  }

  changed(isQuiet = false) {
    this.tip.hidden = true;
    this.draw();
    if (!isQuiet) this.linked?.(this);
    this.isResting = false;
    clearTimeout(this.rest);
    this.rest = setTimeout(() => {
      if (!this.root.isConnected) return;
      this.isResting = true;
      this.moved(this.state());
      this.draw();
    }, REST_MS);
  }

  /** What the address keeps: time and span, scroll, selected event and area, search, pinned and opened lanes, folded groups. */
  state() {
    const state = { t: `${Math.round(this.start)},${Math.round(this.plotWidth * this.nsPerPx)}` };
    if (this.scroll) state.y = String(Math.round(this.scroll));
    if (this.selected) state.s = `${this.selected.trace}.${this.selected.event}`;
    if (this.area) state.a = `${Math.round(this.area[0])},${Math.round(this.area[1])}`;
    if (this.search.value) state.q = this.search.value;
    if (this.pins.size) state.p = [...this.pins].join(",");
    if (this.open.size) state.o = [...this.open].join(",");
    // A group by its first lane; nothing where all are open that are folded at first.
    if (this.closed.size || this.folded.size) state.g = [...this.closed].map(group => this.info.lanes.findIndex(lane => lane.group === group)).join(",");
    return state;
  }

  restore(state) {
    if (state.q) this.search.value = state.q;
    if (!this.width) { this.wanted = state; return; }
    this.wanted = null;
    const numbers = text => text ? text.split(",").map(Number).filter(Number.isFinite) : [];
    const [start, span] = numbers(state.t);
    if (span > 0) this.show(start, start + span); else this.fit();
    this.scroll = Number(state.y) || 0;
    this.pins = new Set(numbers(state.p));
    this.open = new Set(numbers(state.o));
    if (state.g !== undefined) this.closed = new Set(numbers(state.g).map(lane => this.info.lanes[lane]?.group).filter(group => group !== undefined));
    const [from, to] = numbers(state.a);
    if (to > from) this.select(from, to);
    const [trace, event] = state.s?.split(".").map(Number) ?? [];
    if (Number.isFinite(event)) this.choose({ trace, event });
    else if (state.q) this.listFound(state.longest === "1");
  }

  // ---- layout ----

  rows() {
    const rows = [];
    let top = MAP_H + AXIS_H;
    const heights = this.info.lanes.map(lane => (lane.kind === "counter" ? COUNTER_H : lane.tracks * TRACK_H) + GAP);
    const groups = new Set(this.info.lanes.map(lane => lane.group));
    const hasRoom = top + heights.reduce((sum, height) => sum + height, groups.size * (GROUP_H + GAP)) <= this.height;
    const place = (lane, number) => {
      const tracks = hasRoom || this.open.has(number) ? lane.tracks : Math.min(lane.tracks, TRACKS_SHOWN);
      const height = lane.kind === "counter" ? COUNTER_H : tracks * TRACK_H;
      rows.push({ lane, number, tracks, top, height });
      top += height + GAP;
    };
    for (const number of this.pins) if (this.info.lanes[number]) place(this.info.lanes[number], number);
    const fixed = top;
    let group = null;
    top -= this.scroll;
    this.info.lanes.forEach((lane, number) => {
      if (this.pins.has(number) || this.lanesShown?.has(number) === false) return;
      if (lane.group !== group) {
        group = lane.group;
        rows.push({ group, top, height: GROUP_H });
        top += GROUP_H + GAP;
      }
      if (!this.closed.has(group)) place(lane, number);
    });
    this.content = top + this.scroll - fixed;
    this.fixed = fixed;
    return rows;
  }

  // ---- drawing ----

  draw() {
    if (this.isDrawing) return;
    this.isDrawing = true;
    requestAnimationFrame(() => { this.isDrawing = false; if (this.root.isConnected && this.width) this.paint(); });
  }

  paint() {
    const began = performance.now();
    const context = this.canvas.getContext("2d");
    const style = getComputedStyle(document.documentElement);
    const ink = { text: style.getPropertyValue("--text"), soft: style.getPropertyValue("--soft"), back: style.getPropertyValue("--back"), panel: style.getPropertyValue("--panel"), line: style.getPropertyValue("--line"), accent: style.getPropertyValue("--accent"), select: style.getPropertyValue("--select"), mark: style.getPropertyValue("--mark") };
    this.ink = ink;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.fillStyle = ink.back;
    context.fillRect(0, 0, this.width, this.height);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const rows = this.rows();
    this.shownRows = rows;
    const nsPerDevicePx = this.nsPerPx / this.ratio;
    this.level = Math.min(this.info.top_level, Math.max(0, Math.floor(Math.log2(nsPerDevicePx))));
    const tileNs = TILE_PX * 2 ** this.level;
    const first = Math.max(Math.floor(this.start / tileNs), 0);
    const last = Math.floor(Math.min(this.start + this.plotWidth * this.nsPerPx, this.info.span_ns) / tileNs);
    const wanted = [];
    const ahead = [];
    this.stale = 0;
    this.rendered = 0;
    this.labels = [];
    context.save();
    context.beginPath();
    context.rect(this.labelWidth, MAP_H + AXIS_H, this.plotWidth, this.height);
    context.clip();
    this.paintGrid(context, ink);
    for (const row of rows) {
      if (row.group !== undefined || row.top + row.height < MAP_H + AXIS_H || row.top > this.height) continue;
      if (!this.pins.has(row.number) && row.top < this.fixed) {
        context.save();
        context.beginPath();
        context.rect(0, this.fixed, this.width, this.height);
        context.clip();
      }
      // Tiles meet at whole device pixels, so no seam shows.
      context.setTransform(1, 0, 0, 1, 0, 0);
      for (let x = first; x <= last; x += 1) {
        wanted.push({ lane: row.number, level: this.level, x });
        this.paintTile(context, row, x, nsPerDevicePx);
      }
      context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
      if (this.isResting) ahead.push(...this.neighbours(row.number, first, last));
      if (!this.pins.has(row.number) && row.top < this.fixed) context.restore();
    }
    this.paintLabels(context);
    this.paintSelection(context, rows, ink);
    context.restore();
    this.paintHeads(context, rows, ink);
    this.paintAxis(context, ink);
    this.paintMap(context, ink, wanted);
    this.store.want([...wanted, ...ahead]);
    this.where.textContent = `${time(this.start)} – ${time(this.start + this.plotWidth * this.nsPerPx)} (${time(this.plotWidth * this.nsPerPx)})`;
    this.frames.push(performance.now() - began);
    if (this.frames.length > 2000) this.frames.splice(0, 1000);
    const settles = began - this.lastZoom < SETTLED_MS + 50;
    if (this.stale || settles) {
      clearTimeout(this.again);
      this.again = setTimeout(() => this.draw(), settles ? SETTLED_MS : 0);
    }
  }

  /** What a next move shows: tiles left and right, of the level below and of that above. */
  neighbours(lane, first, last) {
    const most = level => Math.floor(this.info.span_ns / (TILE_PX * 2 ** level));
    const range = (level, from, to) => Array.from({ length: Math.max(0, Math.min(to, most(level)) - Math.max(from, 0) + 1) }, (_, place) => ({ lane, level, x: Math.max(from, 0) + place }));
    const beside = [...range(this.level, first - 1, first - 1), ...range(this.level, last + 1, last + 1)];
    const below = this.level > 0 ? range(this.level - 1, 2 * first, 2 * last + 1) : [];
    const above = this.level < this.info.top_level ? range(this.level + 1, Math.floor((first - 1) / 2), Math.floor((last + 1) / 2)) : [];
    return [...beside, ...below, ...above].map(place => ({ ...place, isAhead: true }));
  }

  /** The first device pixel right of a moment. */
  deviceX(ns) { return Math.round(this.x(ns) * this.ratio); }

  /** Copies a part of a canvas, from `source` on so wide, to where its time is. */
  copyTile(context, canvas, row, from, to, source = 0, width = canvas.width) {
    const left = this.deviceX(from);
    const shown = this.deviceX(to) - left;
    // Of a tile at its own level a column more or less is no matter; a stretched one is smoothed.
    context.imageSmoothingEnabled = Math.abs(shown - width) > 1;
    if (shown > 0) context.drawImage(canvas, source, 0, width, canvas.height, left, Math.round(row.top * this.ratio), shown, canvas.height);
  }

  paintTile(context, row, x, nsPerDevicePx) {
    const tile = this.store.get(row.number, this.level, x) ?? this.store.ancestor(row.number, this.level, x);
    const tileNs = TILE_PX * 2 ** this.level;
    const [from, to] = [x * tileNs, (x + 1) * tileNs];
    if (!tile) {
      // Going out: what the level below has.
      for (const child of [2 * x, 2 * x + 1]) {
        const below = this.store.tiles.get(this.store.key(row.number, this.level - 1, child));
        if (below?.canvas) this.copyTile(context, below.canvas, row, child * tileNs / 2, (child + 1) * tileNs / 2);
      }
      return;
    }
    if (row.lane.kind === "counter") { this.paintCounter(context, row, tile, from, to); return; }
    if (tile.data.exact && tile.level !== this.level) { this.paintSlices(context, row, tile, from, to); return; }
    this.drawTile(row, tile, nsPerDevicePx);
    const part = 2 ** (this.level - tile.level);
    const source = (x - tile.x / part) * part * tile.canvas.width;
    this.copyTile(context, tile.canvas, row, from, to, source, tile.canvas.width * part);
    this.collectLabels(row, tile);
  }

  /** Draws a tile to its canvas where that is missing or of another zoom; while zooming the old one is stretched. */
  drawTile(row, tile, nsPerDevicePx) {
    const scale = Math.min(2 ** tile.level / nsPerDevicePx, 2);
    const isOther = tile.scale !== scale || tile.ratio !== this.ratio || tile.rows !== row.tracks || tile.dark !== isDark() || tile.unnamed;
    if (tile.canvas && !isOther) return;
    const isMoving = performance.now() - this.lastZoom < SETTLED_MS;
    const isNeeded = !tile.canvas || tile.rows !== row.tracks || (tile.level === this.level && !isMoving && this.rendered < TILES_DRAWN_AT_ONCE);
    if (!isNeeded) { if (isMoving || tile.level === this.level) this.stale += 1; return; }
    this.rendered += 1;
    tile.canvas = renderTile(this.run, tile, scale, row.tracks, this.ratio, () => this.draw());
    Object.assign(tile, { unnamed: tile.canvas.isUnnamed, scale, ratio: this.ratio, rows: row.tracks, dark: isDark() });
  }

  /** A tile without cells is drawn at any zoom from its exact times. */
  paintSlices(context, row, tile, from, to) {
    const [viewFrom, viewTo] = [Math.max(from, this.start), Math.min(to, this.start + this.plotWidth * this.nsPerPx)];
    const [first, last] = [this.deviceX(viewFrom), this.deviceX(viewTo)];
    tile.data.tracks.slice(0, row.tracks).forEach((track, number) => {
      const top = Math.round(row.top * this.ratio) + trackTop(number, this.ratio);
      const height = trackTop(number + 1, this.ratio) - trackTop(number, this.ratio) - Math.max(1, Math.round(this.ratio));
      for (let slice = 0; slice < track.starts.length; slice += 1) {
        const end = track.starts[slice] + track.durations[slice];
        if (end < viewFrom || track.starts[slice] > viewTo) continue;
        const left = this.deviceX(track.starts[slice]);
        const right = this.deviceX(end);
        const [shownFrom, shownTo] = [Math.max(left, first), Math.min(Math.max(right - (right - left > 4 ? 1 : 0), left + 1), last)];
        if (shownTo <= shownFrom) continue;
        context.fillStyle = colour(this.run, track.names[slice], () => this.draw()).css;
        context.fillRect(shownFrom, top, shownTo - shownFrom, height);
      }
    });
    this.collectLabels(row, tile);
  }

  /** Steps of a counter within a time: bars from the same bottom, so that where two share a pixel the higher shows. */
  paintCounter(context, row, tile, from, to) {
    const { before, points, pixels } = tile.data.counter;
    const bottom = Math.round((row.top + row.height - 2) * this.ratio);
    const perValue = (row.height - 4) * this.ratio / (row.lane.largest || 1);
    const end = Math.min(to, this.info.span_ns);
    context.fillStyle = isDark() ? "#2c5c72" : "#a9d3e8";
    let [value, at] = [before, tile.x * TILE_PX * 2 ** tile.level];
    const hold = until => {
      const [begin, finish] = [Math.max(at, from), Math.min(until, end)];
      if (value !== null && finish > begin) {
        const left = this.deviceX(begin);
        const height = Math.round(value * perValue);
        context.fillRect(left, bottom - height, Math.max(this.deviceX(finish) - left, 1), height);
      }
      at = until;
    };
    for (const [ns, next] of points ?? []) { hold(ns); value = next; }
    for (const [pixel, , largest, last] of pixels ?? []) {
      hold((tile.x * TILE_PX + pixel) * 2 ** tile.level);
      value = largest;
      hold((tile.x * TILE_PX + pixel + 1) * 2 ** tile.level);
      value = last;
    }
    hold(end);
  }

  collectLabels(row, tile) {
    tile.data.tracks.slice(0, row.tracks).forEach((track, number) => {
      for (let slice = 0; slice < track.starts.length; slice += 1) {
        const width = track.durations[slice] / this.nsPerPx;
        if (width >= 28 && this.labels.length < LABELS_AT_ONCE) this.labels.push([row, number, track.starts[slice], track.durations[slice], track.names[slice], track.events[slice]]);
      }
    });
  }

  paintLabels(context) {
    const drawn = new Set();
    context.fillStyle = "#10151b";
    for (const [row, track, start, duration, name, event] of this.labels) {
      const key = `${row.number}/${track}/${start}`;
      const left = Math.max(this.x(start), this.labelWidth);
      const right = Math.min(this.x(start + duration), this.width);
      const top = row.top + track * TRACK_H;
      if (drawn.has(key) || right - left < 28 || top < (this.pins.has(row.number) ? 0 : this.fixed) - 6) continue;
      drawn.add(key);
      const entry = this.run.name(name, () => this.draw());
      if (!entry) continue;
      const room = Math.floor((right - left - 6) / 5.8);
      const label = this.labelled(entry[0], event);
      const text = label.length > room ? `${label.slice(0, Math.max(room - 1, 1))}…` : label;
      context.fillText(text, left + 3, top + TRACK_H / 2, right - left - 4);
    }
  }

  /** The name of an event after what tells it from others of its name. */
  labelled(name, event) {
    const label = this.labelOf?.(event);
    return label === undefined ? name : `${label}: ${name}`;
  }

  paintSelection(context, rows, ink) {
    const place = target => {
      const row = rows.find(candidate => candidate.number === target.lane);
      if (!row || target.track >= row.tracks) return row ? { row, y: row.top + row.height } : null;
      return { row, y: row.top + target.track * TRACK_H };
    };
    if (this.area) {
      const [left, right] = this.area.map(ns => this.x(ns));
      context.fillStyle = ink.select;
      context.fillRect(left, 0, right - left, this.height);
      context.fillStyle = ink.accent;
      context.fillRect(left, 0, 1, this.height);
      context.fillRect(right, 0, 1, this.height);
    }
    const selected = this.selected;
    if (!selected || selected.lane === undefined) return;
    const at = place(selected);
    if (!at) return;
    context.lineWidth = 2;
    context.strokeStyle = ink.text;
    context.strokeRect(this.x(selected.start_ns), at.y, Math.max(selected.duration_ns / this.nsPerPx, 3), TRACK_H - 1);
    context.strokeStyle = ink.mark;
    context.fillStyle = ink.mark;
    for (const link of this.links) {
      const other = place(link);
      if (!other || link.role === "operator") continue;
      const [from, to] = link.role === "launched" ? [{ ...selected, y: at.y }, { ...link, y: other.y }] : [{ ...link, y: other.y }, { ...selected, y: at.y }];
      const [x0, y0, x1, y1] = [this.x(from.start_ns + Math.min(from.duration_ns, this.nsPerPx * 4)), from.y + TRACK_H / 2, this.x(to.start_ns), to.y + TRACK_H / 2];
      const bend = Math.max(20, Math.abs(x1 - x0) / 3);
      context.beginPath();
      context.moveTo(x0, y0);
      context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
      context.stroke();
      context.beginPath();
      context.moveTo(x1, y1); context.lineTo(x1 - 7, y1 - 4); context.lineTo(x1 - 7, y1 + 4);
      context.fill();
    }
  }

  paintHeads(context, rows, ink) {
    context.fillStyle = ink.line;
    context.fillRect(this.labelWidth - 1, MAP_H, 1, this.height);
    for (const row of rows) {
      const isPinned = this.pins.has(row.number);
      if (row.top + row.height < (isPinned ? MAP_H : this.fixed) || row.top > this.height) continue;
      context.save();
      context.beginPath();
      context.rect(0, isPinned ? MAP_H + AXIS_H : this.fixed, this.width, this.height);
      context.clip();
      if (row.group !== undefined) {
        context.fillStyle = ink.panel;
        context.fillRect(0, row.top, this.width, GROUP_H);
        context.fillStyle = ink.text;
        context.font = "600 11px system-ui, sans-serif";
        context.fillText(`${this.closed.has(row.group) ? "▸" : "▾"} ${row.group}`, 6, row.top + GROUP_H / 2);
        context.font = "11px system-ui, sans-serif";
      } else {
        context.fillStyle = ink.back;
        context.fillRect(0, row.top, this.labelWidth - 1, row.height);
        context.fillStyle = ink.text;
        const more = row.lane.tracks > TRACKS_SHOWN ? (this.open.has(row.number) ? " ▴" : ` ▾${row.lane.tracks}`) : "";
        const room = Math.floor((this.labelWidth - 18) / 6) - more.length;
        const title = row.lane.title.length > room ? `${row.lane.title.slice(0, room - 1)}…` : row.lane.title;
        context.fillText(`${isPinned ? "★ " : ""}${title}${more}`, 10, row.top + Math.min(row.height, TRACK_H) / 2);
        if (row.lane.kind === "counter") {
          context.fillStyle = ink.soft;
          context.fillText(`max ${amount(row.lane.largest, row.lane.unit)}`, 10, row.top + 26, this.labelWidth - 14);
        }
        context.fillStyle = ink.line;
        context.fillRect(0, row.top + row.height + 1, this.width, 0.5);
      }
      context.restore();
    }
  }

  /** Round times that are seen, at least `TICK_PX` apart, and the step between them. */
  ticks() {
    const step = niceStep(this.nsPerPx * TICK_PX);
    const first = Math.ceil(this.start / step);
    const last = Math.floor((this.start + this.plotWidth * this.nsPerPx) / step);
    return { step, ticks: Array.from({ length: Math.max(0, last - first + 1) }, (_, place) => (first + place) * step) };
  }

  paintGrid(context, ink) {
    context.fillStyle = ink.panel;
    for (const tick of this.ticks().ticks) context.fillRect(Math.round(this.x(tick)), this.fixed, 1, this.height);
  }

  paintAxis(context, ink) {
    context.fillStyle = ink.back;
    context.fillRect(0, MAP_H, this.width, AXIS_H);
    const { step, ticks } = this.ticks();
    context.fillStyle = ink.soft;
    for (const tick of ticks) {
      const x = Math.round(this.x(tick));
      context.fillRect(x, MAP_H + AXIS_H - 5, 1, 5);
      context.fillText(tickLabel(tick, step, ticks.at(-1)), x + 3, MAP_H + AXIS_H / 2);
    }
    if (this.area) this.paintSpan(context, ink);
  }

  /** How long the selected time is, where the eye is while dragging. */
  paintSpan(context, ink) {
    const [left, right] = this.area.map(ns => Math.min(Math.max(this.x(ns), this.labelWidth), this.width));
    const text = time(this.area[1] - this.area[0]);
    const textWidth = context.measureText(text).width;
    const x = Math.min(Math.max((left + right - textWidth) / 2, this.labelWidth + 4), this.width - textWidth - 4);
    context.fillStyle = ink.accent;
    context.fillRect(left, MAP_H + AXIS_H - 2, right - left, 2);
    context.fillRect(x - 4, MAP_H + 2, textWidth + 8, AXIS_H - 6);
    context.fillStyle = ink.back;
    context.fillText(text, x, MAP_H + AXIS_H / 2 - 1);
  }

  /** The whole timeline in one strip: how busy the streams are. */
  paintMap(context, ink, wanted) {
    context.fillStyle = ink.panel;
    context.fillRect(0, 0, this.width, MAP_H);
    const level = this.info.top_level;
    const numbers = this.mapLanes();
    const tiles = numbers.map(number => {
      wanted.push({ lane: number, level, x: 0 });
      return this.store.get(number, level, 0);
    });
    const [left, width] = [Math.round(this.labelWidth * this.ratio), Math.max(1, Math.round(this.plotWidth * this.ratio))];
    const key = `${tiles.map(tile => tile ? 1 : 0)}/${width}/${ink.accent}`;
    if (this.map?.key !== key) this.map = { key, canvas: this.drawMap(tiles, width, ink) };
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(this.map.canvas, left, 0);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    const perPx = this.axisSpan / this.plotWidth || 1;
    context.strokeStyle = ink.text;
    context.lineWidth = 1;
    const from = this.labelWidth + Math.max(this.start, 0) / perPx;
    const to = this.labelWidth + Math.min(this.start + this.plotWidth * this.nsPerPx, this.axisSpan) / perPx;
    context.strokeRect(from + 0.5, 0.5, Math.max(to - from - 1, 2), MAP_H - 1);
    context.fillStyle = ink.soft;
    context.fillText(`${count(this.info.events)} events`, 6, MAP_H / 2);
  }

  /** Lanes of the first kind that there is. */
  mapLanes() {
    const lanes = this.info.lanes.map((lane, number) => ({ lane, number })).filter(({ number }) => this.lanesShown?.has(number) !== false);
    const ofKind = kind => lanes.filter(({ lane }) => lane.kind === kind).map(({ number }) => number);
    return (["stream", "host", "engine_steps", "requests"].map(ofKind).find(found => found.length) ?? []).slice(0, MAP_LANES_MAX);
  }

  /** Drawn once: a strip of thousands of parts takes longer than the rest of a frame. */
  drawMap(tiles, width, ink) {
    const canvas = new OffscreenCanvas(width, Math.round(MAP_H * this.ratio));
    const context = canvas.getContext("2d");
    const perPx = (this.axisSpan || 1) / width;
    const height = (canvas.height - 2) / Math.max(tiles.length, 1);
    const bar = (ns, duration, place) => context.fillRect(ns / perPx, 1 + place * height, Math.max(duration / perPx, 0.5), Math.max(height - 0.5, 1));
    context.fillStyle = ink.accent;
    tiles.forEach((tile, place) => {
      const track = tile?.data.tracks[0];
      if (!track) return;
      const pixel = 2 ** tile.level;
      for (let cell = 0; cell < track.pixels.length; cell += 1) {
        context.globalAlpha = Math.max(track.covered[cell] / 65535, 0.15);
        bar(track.pixels[cell] * pixel, pixel, place);
      }
      context.globalAlpha = 1;
      for (let slice = 0; slice < track.starts.length; slice += 1) bar(track.starts[slice], track.durations[slice], place);
    });
    return canvas;
  }

  // ---- input ----

  listen() {
    const canvas = this.canvas;
    let drag = null;
    const place = event => { const box = canvas.getBoundingClientRect(); return { x: event.clientX - box.left, y: event.clientY - box.top }; };
    canvas.addEventListener("wheel", event => {
      event.preventDefault();
      this.pointer = place(event);
      const size = event.deltaMode === 1 ? 30 : 1;
      if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY * size * 0.003))), this.pointer.x);
      else if (event.shiftKey) this.pan((event.deltaY || event.deltaX) * size);
      else {
        if (event.deltaX) this.pan(event.deltaX * size);
        this.scrollBy(event.deltaY * size);
      }
    }, { passive: false });
    canvas.addEventListener("pointerdown", event => {
      canvas.focus();
      canvas.setPointerCapture(event.pointerId);
      const at = place(event);
      const kind = at.y < MAP_H ? "map" : event.shiftKey || event.button === 1 || event.pointerType === "touch" ? "pan" : at.x < this.labelWidth ? "head" : "area";
      drag = { kind, at, last: at, from: this.ns(at.x), moved: false };
      if (kind === "map") this.moveMap(at.x);
    });
    canvas.addEventListener("pointermove", event => {
      const at = place(event);
      this.pointer = at;
      if (!drag) { this.hover(at); return; }
      drag.moved ||= Math.abs(at.x - drag.at.x) + Math.abs(at.y - drag.at.y) > 3;
      if (drag.kind === "map") this.moveMap(at.x);
      else if (drag.kind === "pan") { this.pan(drag.last.x - at.x); this.scrollBy(drag.last.y - at.y); }
      else if (drag.kind === "area" && drag.moved) { this.area = [drag.from, this.ns(at.x)].sort((a, b) => a - b); this.draw(); }
      drag.last = at;
    });
    canvas.addEventListener("pointerup", event => {
      const at = place(event);
      if (drag && !drag.moved && drag.kind !== "map") this.click(at);
      else if (drag?.kind === "area" && drag.moved && this.area) this.select(...this.area);
      drag = null;
    });
    canvas.addEventListener("pointercancel", () => { drag = null; });
    canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    canvas.addEventListener("dblclick", () => this.focusSelection());
    canvas.addEventListener("keydown", event => { if (this.key(event)) event.preventDefault(); });
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    const step = this.plotWidth * 0.12;
    const keys = {
      w: () => this.zoom(1 / 1.35), s: () => this.zoom(1.35), a: () => this.pan(-step), d: () => this.pan(step),
      ArrowLeft: () => this.pan(-step), ArrowRight: () => this.pan(step), ArrowUp: () => this.scrollBy(-60), ArrowDown: () => this.scrollBy(60),
      "+": () => this.zoom(1 / 1.35), "-": () => this.zoom(1.35), 0: () => this.fit(), f: () => this.focusSelection(), m: () => this.measure(), p: () => this.pin(), e: () => this.expand(), g: () => this.fold(),
      "/": () => this.search.focus(), ".": () => this.find(true), ",": () => this.find(false), "?": () => this.help(), Escape: () => this.clear(),
    };
    const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    act?.();
    return !!act;
  }

  scrollBy(px) {
    const most = Math.max(0, this.content - (this.height - this.fixed) + 20);
    this.scroll = Math.min(Math.max(this.scroll + px, 0), most);
    this.changed(true);
  }

  moveMap(x) {
    const ns = (x - this.labelWidth) * this.axisSpan / this.plotWidth;
    this.start = ns - this.plotWidth * this.nsPerPx / 2;
    this.limit();
    this.changed();
  }

  rowAt(at) {
    const isFixed = row => row.number !== undefined && this.pins.has(row.number);
    return this.shownRows?.find(row => at.y >= row.top && at.y < row.top + row.height && (isFixed(row) || at.y >= this.fixed));
  }

  /** What is drawn at a point. */
  hit(at) {
    const row = this.rowAt(at);
    if (!row?.lane || at.x < this.labelWidth) return null;
    const ns = this.ns(at.x);
    const tile = this.store.get(row.number, this.level, Math.floor(ns / (TILE_PX * 2 ** this.level)));
    if (!tile) return null;
    if (row.lane.kind === "counter") return { row, counter: counterAt(tile, ns) };
    const number = Math.floor((at.y - row.top) / TRACK_H);
    const track = tile.data.tracks[number];
    if (!track) return null;
    const near = 1.5 * this.nsPerPx;
    let best = null;
    for (let slice = 0; slice < track.starts.length; slice += 1) {
      const distance = Math.max(track.starts[slice] - ns, ns - track.starts[slice] - track.durations[slice], 0);
      if (distance <= near && (!best || distance < best.distance)) best = { distance, slice };
    }
    if (best) return { row, track: number, name: track.names[best.slice], event: track.events[best.slice], start_ns: track.starts[best.slice], duration_ns: track.durations[best.slice] };
    const pixel = Math.floor((ns - tile.x * TILE_PX * 2 ** tile.level) / 2 ** tile.level);
    const cell = track.pixels.indexOf(pixel);
    return cell < 0 ? null : { row, track: number, cell: true, name: track.cellNames[cell], count: track.counts[cell], share: track.covered[cell] / 65535 };
  }

  hover(at) {
    const hit = this.hit(at);
    const row = this.rowAt(at);
    this.canvas.title = at.x < this.labelWidth && row ? row.lane?.title ?? row.group : "";
    if (!hit) { this.tip.hidden = true; return; }
    const label = hit.name === undefined ? "" : this.run.name(hit.name, () => this.draw())?.[0] ?? "…";
    this.tip.textContent = hit.counter !== undefined ? (hit.counter === null ? "no value" : amount(hit.counter, hit.row.lane.unit))
      : hit.cell ? `${hit.count ? `${count(hit.count)} ${hit.count === 1 ? "event begins" : "events begin"} here, ` : ""}busy ${(100 * hit.share).toFixed(1)} %; longest: ${label}` : `${this.labelled(label, hit.event)} · ${time(hit.duration_ns)}`;
    this.tip.hidden = false;
    const left = Math.min(at.x + 12, this.width - Math.min(420, this.tip.offsetWidth) - 4);
    this.tip.style.left = `${Math.max(left, 0)}px`;
    this.tip.style.top = `${Math.min(at.y + 14, this.height - this.tip.offsetHeight - 2)}px`;
  }

  click(at) {
    const row = this.rowAt(at);
    if (row?.group !== undefined) this.toggle(this.closed, row.group);
    else if (row && at.x < this.labelWidth) this.toggle(this.open, row.number);
    else {
      const hit = this.hit(at);
      if (hit?.cell) this.zoom(1 / 8, at.x);
      else if (hit && hit.event !== undefined) this.choose({ trace: hit.row.lane.trace, lane: hit.row.number, track: hit.track, event: hit.event, name: hit.name, start_ns: hit.start_ns, duration_ns: hit.duration_ns });
      else this.clear();
    }
  }

  // ---- selection ----

  clear() {
    this.selected = null;
    this.links = [];
    this.area = null;
    this.side.replaceChildren();
    this.changed(true);
  }

  focusSelection() {
    if (this.selected?.start_ns !== undefined) {
      const margin = Math.max(this.selected.duration_ns * 0.6, 20);
      this.show(this.selected.start_ns - margin, this.selected.start_ns + this.selected.duration_ns + margin);
      this.reveal(this.selected);
    } else if (this.area) this.show(...this.area);
    else this.fit();
  }

  /** Scrolls to the track of an event, in a group that is open and a lane that shows it. */
  reveal({ lane, track = 0 }) {
    if (lane === undefined || lane === null) return;
    this.closed.delete(this.info.lanes[lane].group);
    if (track >= TRACKS_SHOWN) this.open.add(lane);
    const row = this.rows().find(candidate => candidate.number === lane);
    if (!row || this.pins.has(lane)) return;
    const top = row.top + track * TRACK_H;
    if (top < this.fixed || top + TRACK_H > this.height) this.scrollBy(top - this.fixed - Math.min(40, (this.height - this.fixed) / 2));
  }

  measure() {
    if (this.selected?.start_ns !== undefined) this.select(this.selected.start_ns, this.selected.start_ns + this.selected.duration_ns);
  }

  /** The lane of the selection, else the row under the pointer: what a key acts on. */
  get rowAtHand() {
    const lane = this.selected?.lane;
    if (lane !== undefined && lane !== null) return { number: lane, group: this.info.lanes[lane].group };
    const row = this.pointer && this.rowAt(this.pointer);
    return { number: row?.number, group: row?.group ?? row?.lane?.group };
  }

  toggle(kept, value) {
    if (value === undefined) return;
    if (!kept.delete(value)) kept.add(value);
    this.changed(true);
  }

  pin() { this.toggle(this.pins, this.rowAtHand.number); }

  /** Shows all tracks of a lane, or the first few again. */
  expand() { this.toggle(this.open, this.rowAtHand.number); }

  /** Hides the lanes of a group, or shows them again. */
  fold() { this.toggle(this.closed, this.rowAtHand.group); }

  async choose(target) {
    this.selected = target;
    this.links = [];
    this.draw();
    const details = await this.run.event(target.trace, target.event);
    if (this.selected !== target) return;
    if (!details) {
      this.side.replaceChildren(el("h2", {}, this.run.name(target.name)?.[0] ?? ""), el("p", {}, `${time(target.duration_ns)}, starts at ${time(target.start_ns)}. This archive holds no further facts: it has too many events.`));
      return;
    }
    const facts = Object.fromEntries(details.facts);
    target.start_ns ??= facts.start_ns;
    target.duration_ns ??= facts.duration_ns;
    this.links = details.links;
    if (target.track === undefined && details.lane !== null) [target.lane, target.track] = [details.lane, details.track];
    target.name ??= details.name ?? undefined;
    const rows = details.facts.filter(([key]) => key !== "name").map(([key, value]) => el("tr", {}, el("th", { scope: "row" }, words(key)), el("td", { class: "name" }, fact(key, value))));
    const links = details.links.map(link => el("li", {}, `${link.role}: `, el("button", { type: "button", click: () => this.jump(link) }, link.name.slice(0, 90)), ` ${time(link.duration_ns)}`));
    this.side.replaceChildren(el("h2", {}, facts.name ?? ""), el("div", { class: "columns" },
      el("table", {}, el("tbody", {}, rows)), links.length ? el("div", {}, el("h3", {}, "Launch"), el("ul", {}, links)) : null, this.instances(target)));
    // The panel took room from the lanes.
    this.resize();
    this.reveal(target);
    this.changed(true);
  }

  /** All slices of the same name, asked for when the part is opened. */
  instances(target) {
    if (target.name === undefined || this.run.isArchive) return null;
    const box = el("div");
    const details = el("details", { toggle: async () => {
      if (!details.open || box.childElementCount) return;
      const all = await this.run.json(`instances/${target.name}`);
      const most = Math.max(...all.histogram.counts, 1);
      const bars = all.histogram.counts.map(value => { const bar = el("i", { title: count(value) }); bar.style.height = `${100 * value / most}%`; return bar; });
      box.append(el("p", {}, `${count(all.count)} events, total ${time(all.total_ns)}; ${spread(all)}`),
        el("div", { class: "bars", role: "img", "aria-label": "distribution of durations, logarithmic" }, bars),
        el("p", { class: "soft" }, `${time(all.histogram.low_ns)} to ${time(all.histogram.high_ns)}, logarithmic`),
        el("p", {}, "Longest: ", all.longest.slice(0, 10).map(one => [el("button", { type: "button", click: () => this.jump({ ...one, name: target.name }) }, time(one.duration_ns)), " "])));
    } }, el("summary", {}, "All of this name"), box);
    return details;
  }

  /** Goes to an event that may be far away. */
  jump(target) {
    const { trace, lane, track, event, start_ns, duration_ns } = target;
    const name = typeof target.name === "number" ? target.name : undefined;
    const seen = this.plotWidth * this.nsPerPx;
    const span = Math.max(Math.min(seen, duration_ns * 8), duration_ns * 3, 200);
    const from = Math.max(start_ns + duration_ns / 2 - span / 2, -0.02 * span);
    this.show(from, from + span);
    this.reveal({ lane, track });
    this.choose({ trace, lane, track, event, name, start_ns, duration_ns });
  }

  async select(from, to) {
    this.area = [from, to];
    this.changed(true);
    if (this.run.isArchive) { this.side.replaceChildren(el("h2", {}, `Selection: ${time(to - from)}, from ${time(from)} to ${time(to)}`), el("p", {}, "Sums need llmprof view on the run; this is an archive.")); return; }
    const totals = await this.run.query("totals", { from: Math.round(from), to: Math.round(to) });
    if (!this.area || this.area[0] !== from || this.area[1] !== to) return;
    const span = to - from;
    const devices = totals.devices.map(device => el("div", {}, el("h3", {}, device.device),
      el("p", {}, `busy ${time(device.busy_ns)} (${percent(device.busy_ns, device.span_ns)}), idle ${time(device.idle_ns)} (${percent(device.idle_ns, device.span_ns)})`),
      el("table", {}, el("tbody", {}, device.causes.map(cause => el("tr", {}, el("th", { scope: "row" }, cause.cause), el("td", { class: "number" }, time(cause.total_ns)), el("td", { class: "number" }, percent(cause.total_ns, device.span_ns)))),
        device.cut_ns ? el("tr", {}, el("th", { scope: "row" }, "gaps that the selection cuts"), el("td", { class: "number" }, time(device.cut_ns)), el("td")) : null))));
    const sums = (title, rows, key) => rows.length ? el("div", {}, el("h3", {}, title), table([
      { head: "Name", value: row => row[key], text: row => row[key] },
      { head: "Count", number: true, value: row => row.count, text: row => count(row.count) },
      { head: "Time", number: true, value: row => row.total_ns, text: row => time(row.total_ns) },
      { head: "Of selection", number: true, value: row => row.total_ns, text: row => percent(row.total_ns, span) },
    ], rows, { noun: "names", sort: 2, choose: key === "label" ? row => { this.search.value = row.label; this.find(true, row.name); } : null })) : null;
    this.side.replaceChildren(el("h2", {}, `Selection: ${time(span)}, from ${time(from)} to ${time(to)}`), el("div", { class: "columns" }, devices,
      sums("Device time by category", totals.categories, "category"), sums("Device time by module", totals.modules, "module"), sums("Device events", totals.device_names, "label"), sums("Host slices (nested times included)", totals.host_names, "label")));
  }

  // ---- search ----

  async find(isForward, name = null) {
    if (this.run.isArchive) { document.getElementById("status").textContent = "search needs llmprof view on the run; this is an archive"; return; }
    const text = this.search.value;
    const target = text || this.selected?.name === undefined ? null : this.selected.name;
    if (!text && target === null && name === null) { this.search.focus(); return; }
    const from = this.selected?.start_ns ?? (isForward ? this.start : this.start + this.plotWidth * this.nsPerPx);
    const found = await this.run.query("find", { text, name: name ?? target, time: Math.round(from), back: isForward ? null : 1 });
    if (found) this.jump(found);
    else document.getElementById("status").textContent = `no ${isForward ? "further" : "earlier"} match`;
  }

  /** Lists the names that match; `toLongest` also goes to the longest event of the name with most time. */
  async listFound(toLongest = false) {
    const text = this.search.value;
    if (!text || this.run.isArchive) return;
    const found = await this.run.query("search", { text });
    if (toLongest && found.names.length) {
      const { name } = found.names.reduce((most, one) => one.total_ns > most.total_ns ? one : most);
      const [longest] = (await this.run.json(`instances/${name}`)).longest;
      if (longest) { this.jump({ ...longest, name }); return; }
    }
    this.side.replaceChildren(el("h2", {}, `${count(found.count)} events match “${text}”`), table([
      { head: "Name", value: row => row.label, text: row => row.label },
      { head: "Category", value: row => row.category, text: row => row.category },
      { head: "Count", number: true, value: row => row.count, text: row => count(row.count) },
      { head: "Time", number: true, value: row => row.total_ns, text: row => time(row.total_ns) },
    ], found.names, { noun: "names", sort: 3, choose: row => this.find(true, row.name) }));
    this.moved(this.state());
  }

  help() {
    const keys = [["W S + −", "zoom in and out at the pointer"], ["A D ← →", "move left and right"], ["↑ ↓, wheel", "scroll lanes"], ["Ctrl + wheel", "zoom at the pointer"], ["Shift + drag", "move"],
      ["drag", "select an area and sum it"], ["click", "details and launch arrows; on folded events, zoom in"], ["F, double click", "fit the selection"], ["0", "whole timeline"], ["M", "measure the selected event"],
      ["P", "pin the lane"], ["E", "all tracks of the lane"], ["G", "fold the group"], ["/", "search"], [". ,", "next and previous match, or event of the same name"], ["Esc", "clear"]];
    const dialog = el("dialog", { close: () => dialog.remove() }, el("h2", {}, "Keys"), el("table", {}, el("tbody", {}, keys.map(([key, text]) => el("tr", {}, el("th", { scope: "row" }, el("kbd", {}, key)), el("td", {}, text))))),
      el("form", { method: "dialog" }, el("button", {}, "Close")));
    this.root.append(dialog);
    dialog.showModal();
  }
}

function counterAt(tile, ns) {
  const { before, points, pixels } = tile.data.counter;
  const pixel = ns / 2 ** tile.level - tile.x * TILE_PX;
  const earlier = points ? points.filter(([time]) => time <= ns) : pixels.filter(([place]) => place <= pixel);
  return earlier.at(-1)?.at(-1) ?? before;
}

function niceStep(ns) {
  const power = 10 ** Math.floor(Math.log10(Math.max(ns, 1)));
  return [1, 2, 5, 10].map(factor => factor * power).find(step => step >= ns) ?? 10 * power;
}

/** All ticks of an axis have the unit of its last one, and as many digits as the step needs. */
function tickLabel(ns, step, last) {
  const size = Math.abs(last);
  const [unit, name] = size >= 1e9 ? [1e9, "s"] : size >= 1e6 ? [1e6, "ms"] : size >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  const digits = Math.max(0, Math.ceil(Math.log10(unit / step) - 1e-9));
  return `${(ns / unit || 0).toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${name}`;
}
