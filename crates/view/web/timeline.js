// The timeline: lanes of slices at any zoom, selected, searched and summed.

import { el, time, count, percent, amount, fact, words } from "./format.js";
import { TileStore, TILE_PX } from "./tiles.js";
import { TRACK_H, COUNTER_H, colour, renderTile, isDark, unnamedColour } from "./draw.js";
import { table } from "./table.js";
import { perfettoDialog } from "./perfetto.js";

const AXIS_H = 22;
const MAP_H = 26;
const GROUP_H = 20;
const GAP = 3;
const TRACKS_SHOWN = 6;
const LABELS_AT_ONCE = 1500;
const SETTLED_MS = 140;
const NS_PER_PX_MIN = 0.05;

export class Timeline {
  /** `moved(state)` is called when the view came to rest, for the address of the page; `lanes` are the numbers of those that are shown, all where it is null. */
  constructor(run, { moved = () => {}, linked = null, lanes = null } = {}) {
    this.lanesShown = lanes;
    this.run = run;
    this.moved = moved;
    this.linked = linked;
    this.info = run.lanes;
    this.store = new TileStore(run, () => this.draw());
    this.closed = new Set();
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
    this.search = el("input", { type: "search", placeholder: "search names ( / )", "aria-label": "search names",
      keydown: event => { if (event.key === "Enter") { event.preventDefault(); this.find(!event.shiftKey); } if (event.key === "Escape") this.canvas.focus(); },
      change: () => this.listFound() });
    this.where = el("span", { class: "soft" });
    const button = (label, title, act) => el("button", { type: "button", title, "aria-label": title, click: () => { this.canvas.focus(); act(); } }, label);
    const tools = el("div", { class: "tools" }, this.search, button("‹", "previous match (,)", () => this.find(false)), button("›", "next match (.)", () => this.find(true)),
      button("−", "zoom out (S)", () => this.zoom(1.5)), button("+", "zoom in (W)", () => this.zoom(1 / 1.5)), button("fit", "whole timeline (0)", () => this.fit()),
      el("span", { class: "grow" }, this.where), this.run.isArchive ? null : button("Perfetto…", "open in Perfetto", () => perfettoDialog(this.run, text => { document.getElementById("status").textContent = text; })), button("?", "keys", () => this.help()));
    const root = el("div", { class: "timeline" }, tools, this.stage, this.side);
    this.listen();
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.stage);
    root.timeline = this;
    return root;
  }

  resize() {
    const box = this.stage.getBoundingClientRect();
    if (!box.width || !box.height) return;
    this.ratio = window.devicePixelRatio || 1;
    const isFirst = !this.width;
    const seen = isFirst ? 0 : this.plotWidth * this.nsPerPx;
    this.width = box.width;
    this.height = box.height;
    this.labelWidth = box.width < 600 ? 92 : Math.min(230, Math.round(box.width * 0.16));
    this.canvas.width = Math.round(box.width * this.ratio);
    this.canvas.height = Math.round(box.height * this.ratio);
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
    const margin = this.info.span_ns * 0.01 + 1;
    this.show(-margin, this.info.span_ns + margin);
  }

  zoom(factor, x = null) {
    const at = x ?? (this.pointer?.x > this.labelWidth ? this.pointer.x : this.labelWidth + this.plotWidth / 2);
    const ns = this.ns(at);
    const widest = (this.info.span_ns + 2) * 1.5 / this.plotWidth;
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
    this.start = Math.min(Math.max(this.start, -0.9 * seen), this.info.span_ns - 0.1 * seen);
  }

  changed(isQuiet = false) {
    this.draw();
    if (!isQuiet) this.linked?.(this);
    clearTimeout(this.rest);
    this.rest = setTimeout(() => this.moved(this.state()), 250);
  }

  state() {
    const state = { t: `${Math.round(this.start)},${Math.round(this.plotWidth * this.nsPerPx)}` };
    if (this.scroll) state.y = String(Math.round(this.scroll));
    if (this.selected) state.s = `${this.selected.trace}.${this.selected.event}`;
    if (this.area) state.a = `${Math.round(this.area[0])},${Math.round(this.area[1])}`;
    if (this.search.value) state.q = this.search.value;
    if (this.pins.size) state.p = [...this.pins].join(",");
    return state;
  }

  restore(state) {
    if (state.q) this.search.value = state.q;
    if (!this.width) { this.wanted = state; return; }
    this.wanted = null;
    const pair = text => text?.split(",").map(Number).filter(Number.isFinite) ?? [];
    const [start, span] = pair(state.t);
    if (span > 0) this.show(start, start + span); else this.fit();
    this.scroll = Number(state.y) || 0;
    this.pins = new Set(pair(state.p));
    const [from, to] = pair(state.a);
    if (to > from) this.select(from, to);
    const [trace, event] = state.s?.split(".").map(Number) ?? [];
    if (Number.isFinite(event)) this.choose({ trace, event });
  }

  // ---- layout ----

  rows() {
    const rows = [];
    let top = MAP_H + AXIS_H;
    const place = (lane, number) => {
      const tracks = this.open.has(number) ? lane.tracks : Math.min(lane.tracks, TRACKS_SHOWN);
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
    this.level = Math.min(this.info.top_level ?? 40, Math.max(0, Math.floor(Math.log2(nsPerDevicePx))));
    const tileNs = TILE_PX * 2 ** this.level;
    const first = Math.floor(this.start / tileNs);
    const last = Math.floor((this.start + this.plotWidth * this.nsPerPx) / tileNs);
    const wanted = [];
    this.stale = 0;
    this.rendered = 0;
    this.labels = [];
    context.save();
    context.beginPath();
    context.rect(this.labelWidth, MAP_H + AXIS_H, this.plotWidth, this.height);
    context.clip();
    for (const row of rows) {
      if (row.group !== undefined || row.top + row.height < MAP_H + AXIS_H || row.top > this.height) continue;
      if (!this.pins.has(row.number) && row.top < this.fixed) {
        context.save();
        context.beginPath();
        context.rect(0, this.fixed, this.width, this.height);
        context.clip();
      }
      for (let x = first; x <= last; x += 1) {
        if (x < 0) continue;
        wanted.push({ lane: row.number, level: this.level, x });
        this.paintTile(context, row, x, nsPerDevicePx);
      }
      if (!this.pins.has(row.number) && row.top < this.fixed) context.restore();
    }
    this.paintLabels(context);
    this.paintSelection(context, rows, ink);
    context.restore();
    this.paintHeads(context, rows, ink);
    this.paintAxis(context, ink);
    this.paintMap(context, ink, wanted);
    const ahead = [];
    for (const { lane, level } of wanted.filter((place, index) => wanted.findIndex(other => other.lane === place.lane) === index)) {
      ahead.push({ lane, level, x: first - 1 }, { lane, level, x: last + 1 });
    }
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

  paintTile(context, row, x, nsPerDevicePx) {
    const tile = this.store.get(row.number, this.level, x) ?? this.store.ancestor(row.number, this.level, x);
    const tileNs = TILE_PX * 2 ** this.level;
    if (!tile) {
      // Going out: what the level below has.
      for (const child of [2 * x, 2 * x + 1]) {
        const below = this.store.tiles.get(this.store.key(row.number, this.level - 1, child));
        if (below?.canvas) context.drawImage(below.canvas, this.x(child * tileNs / 2), row.top, tileNs / 2 / this.nsPerPx, row.height);
      }
      return;
    }
    if (row.lane.kind === "counter") { if (tile.level === this.level) this.paintCounter(context, row, tile); return; }
    if (tile.data.exact && tile.level !== this.level) { this.paintSlices(context, row, tile, x * tileNs, (x + 1) * tileNs); return; }
    const scale = 2 ** tile.level / nsPerDevicePx;
    const isOther = tile.scale !== scale || tile.rows !== row.tracks || tile.dark !== isDark() || tile.unnamed;
    const isMoving = performance.now() - this.lastZoom < SETTLED_MS;
    if (!tile.canvas || (isOther && tile.level === this.level && (!isMoving || tile.rows !== row.tracks))) {
      if (this.rendered < 24 || !tile.canvas) {
        this.rendered += 1;
        const kept = Math.min(scale, 2);
        tile.canvas = renderTile(this.run, tile, kept, row.tracks, TRACK_H * this.ratio, () => this.draw());
        tile.unnamed = tile.canvas.isUnnamed;
        tile.scale = scale;
        tile.rows = row.tracks;
        tile.dark = isDark();
      } else this.stale += 1;
    } else if (isOther && isMoving) this.stale += 1;
    const ownNs = TILE_PX * 2 ** tile.level;
    if (tile.level === this.level) {
      const left = this.x(tile.x * ownNs);
      context.drawImage(tile.canvas, Math.round(left * this.ratio) / this.ratio, row.top, ownNs / this.nsPerPx, row.height);
    } else {
      const share = tile.canvas.width / 2 ** (tile.level - this.level);
      const from = (x - tile.x * 2 ** (tile.level - this.level)) * share;
      context.drawImage(tile.canvas, from, 0, share, tile.canvas.height, this.x(x * tileNs), row.top, tileNs / this.nsPerPx, row.height);
    }
    this.collectLabels(row, tile);
  }

  /** A tile without cells is drawn at any zoom from its exact times. */
  paintSlices(context, row, tile, from, to) {
    const [viewFrom, viewTo] = [Math.max(from, this.start), Math.min(to, this.start + this.plotWidth * this.nsPerPx)];
    tile.data.tracks.slice(0, row.tracks).forEach((track, number) => {
      for (let slice = 0; slice < track.starts.length; slice += 1) {
        const end = track.starts[slice] + track.durations[slice];
        if (end < viewFrom || track.starts[slice] > viewTo) continue;
        const left = Math.max(this.x(track.starts[slice]), this.x(from) - 1, this.labelWidth - 1);
        const right = Math.min(this.x(end), this.x(to), this.width + 1);
        context.fillStyle = colour(this.run, track.names[slice], () => this.draw()) ?? unnamedColour();
        context.fillRect(left, row.top + number * TRACK_H, Math.max(right - left - (this.x(end) === right && right - left > 4 ? 1 : 0), 1), TRACK_H - 1);
      }
    });
    this.collectLabels(row, tile);
  }

  paintCounter(context, row, tile) {
    const { before, pixels } = tile.data.counter;
    const from = tile.x * TILE_PX * 2 ** tile.level;
    const largest = row.lane.largest || 1;
    const y = value => row.top + row.height - 2 - (row.height - 4) * value / largest;
    const end = Math.min(from + TILE_PX * 2 ** tile.level, this.info.span_ns);
    let value = before;
    let at = from;
    context.fillStyle = isDark() ? "hsl(200 45% 55% / 0.55)" : "hsl(200 60% 60% / 0.55)";
    const fill = until => { if (value !== null && until > at) context.fillRect(this.x(at), y(value), (until - at) / this.nsPerPx + 0.5, row.top + row.height - 2 - y(value)); };
    for (const [pixel, , largestHere, lastValue] of pixels) {
      const ns = from + pixel * 2 ** tile.level;
      fill(ns);
      value = largestHere; at = ns; fill(ns + 2 ** tile.level);
      value = lastValue; at = ns + 2 ** tile.level;
    }
    fill(end);
  }

  collectLabels(row, tile) {
    tile.data.tracks.slice(0, row.tracks).forEach((track, number) => {
      for (let slice = 0; slice < track.starts.length; slice += 1) {
        const width = track.durations[slice] / this.nsPerPx;
        if (width >= 28 && this.labels.length < LABELS_AT_ONCE) this.labels.push([row, number, track.starts[slice], track.durations[slice], track.names[slice]]);
      }
    });
  }

  paintLabels(context) {
    const drawn = new Set();
    context.fillStyle = "#10151b";
    for (const [row, track, start, duration, name] of this.labels) {
      const key = `${row.number}/${track}/${start}`;
      const left = Math.max(this.x(start), this.labelWidth);
      const right = Math.min(this.x(start + duration), this.width);
      const top = row.top + track * TRACK_H;
      if (drawn.has(key) || right - left < 28 || top < (this.pins.has(row.number) ? 0 : this.fixed) - 6) continue;
      drawn.add(key);
      const entry = this.run.name(name, () => this.draw());
      if (!entry) continue;
      const room = Math.floor((right - left - 6) / 5.8);
      const text = entry[0].length > room ? `${entry[0].slice(0, Math.max(room - 1, 1))}…` : entry[0];
      context.fillText(text, left + 3, top + TRACK_H / 2);
    }
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
          context.fillText(`max ${amount(row.lane.largest, row.lane.unit)}`, 10, row.top + 26);
        }
        context.fillStyle = ink.line;
        context.fillRect(0, row.top + row.height + 1, this.width, 0.5);
      }
      context.restore();
    }
    context.fillStyle = ink.line;
    context.fillRect(this.labelWidth - 1, MAP_H, 1, this.height);
  }

  paintAxis(context, ink) {
    context.fillStyle = ink.back;
    context.fillRect(0, MAP_H, this.width, AXIS_H);
    const step = niceStep(this.nsPerPx * 110);
    context.fillStyle = ink.soft;
    for (let tick = Math.ceil(this.start / step) * step; ; tick += step) {
      const x = this.x(tick);
      if (x > this.width) break;
      if (x < this.labelWidth) continue;
      context.fillRect(x, MAP_H + AXIS_H - 5, 1, 5);
      context.fillText(tickLabel(tick, step), x + 3, MAP_H + AXIS_H / 2);
    }
  }

  /** The whole timeline in one strip: how busy the streams are. */
  paintMap(context, ink, wanted) {
    context.fillStyle = ink.panel;
    context.fillRect(0, 0, this.width, MAP_H);
    const perPx = this.info.span_ns / this.plotWidth || 1;
    const level = Math.min(40, Math.max(0, Math.ceil(Math.log2(this.info.span_ns / TILE_PX + 1))));
    const lanes = this.info.lanes.map((lane, number) => ({ lane, number })).filter(({ number }) => this.lanesShown?.has(number) !== false);
    const ofKind = kind => lanes.filter(({ lane }) => lane.kind === kind);
    const shown = (["stream", "host", "engine_steps", "requests"].map(ofKind).find(found => found.length) ?? []).slice(0, 12);
    const height = (MAP_H - 2) / Math.max(shown.length, 1);
    shown.forEach(({ number }, place) => {
      wanted.push({ lane: number, level, x: 0 });
      const tile = this.store.get(number, level, 0);
      if (!tile) return;
      const track = tile.data.tracks[0];
      if (!track) return;
      const pixel = 2 ** tile.level;
      context.fillStyle = ink.accent;
      for (let cell = 0; cell < track.pixels.length; cell += 1) {
        context.globalAlpha = Math.max(track.covered[cell] / 65535, 0.15);
        context.fillRect(this.labelWidth + track.pixels[cell] * pixel / perPx, 1 + place * height, Math.max(pixel / perPx, 1), Math.max(height - 0.5, 1));
      }
      context.globalAlpha = 1;
      for (let slice = 0; slice < track.starts.length; slice += 1) context.fillRect(this.labelWidth + track.starts[slice] / perPx, 1 + place * height, Math.max(track.durations[slice] / perPx, 0.5), Math.max(height - 0.5, 1));
    });
    context.strokeStyle = ink.text;
    context.lineWidth = 1;
    const left = this.labelWidth + Math.max(this.start, 0) / perPx;
    const right = this.labelWidth + Math.min(this.start + this.plotWidth * this.nsPerPx, this.info.span_ns) / perPx;
    context.strokeRect(left + 0.5, 0.5, Math.max(right - left - 1, 2), MAP_H - 1);
    context.fillStyle = ink.soft;
    context.fillText(`${count(this.info.events)} events`, 6, MAP_H / 2);
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
      "+": () => this.zoom(1 / 1.35), "-": () => this.zoom(1.35), 0: () => this.fit(), f: () => this.focusSelection(), m: () => this.measure(), p: () => this.pin(),
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
    const ns = (x - this.labelWidth) * this.info.span_ns / this.plotWidth;
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
      : hit.cell ? `${count(hit.count)} events begin here, busy ${(100 * hit.share).toFixed(1)} %; longest: ${label}` : `${label} · ${time(hit.duration_ns)}`;
    this.tip.hidden = false;
    const left = Math.min(at.x + 12, this.width - Math.min(420, this.tip.offsetWidth) - 4);
    this.tip.style.left = `${Math.max(left, 0)}px`;
    this.tip.style.top = `${Math.min(at.y + 14, this.height - this.tip.offsetHeight - 2)}px`;
  }

  click(at) {
    const row = this.rowAt(at);
    if (row?.group !== undefined) {
      if (!this.closed.delete(row.group)) this.closed.add(row.group);
      this.changed(true);
    } else if (row && at.x < this.labelWidth) {
      if (!this.open.delete(row.number)) this.open.add(row.number);
      this.changed(true);
    } else {
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
      this.reveal(this.selected.lane);
    } else if (this.area) this.show(...this.area);
    else this.fit();
  }

  reveal(lane) {
    const row = this.rows().find(candidate => candidate.number === lane);
    if (row && !this.pins.has(lane) && (row.top < this.fixed || row.top + TRACK_H > this.height)) this.scrollBy(row.top - this.fixed - 40);
  }

  measure() {
    if (this.selected?.start_ns !== undefined) this.select(this.selected.start_ns, this.selected.start_ns + this.selected.duration_ns);
  }

  pin() {
    const lane = this.selected?.lane ?? (this.pointer && this.rowAt(this.pointer)?.number);
    if (lane === undefined || lane === null) return;
    if (!this.pins.delete(lane)) this.pins.add(lane);
    this.changed(true);
  }

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
    if (target.lane === undefined && details.lane !== null) [target.lane, target.track] = [details.lane, details.track];
    target.name ??= details.name ?? undefined;
    const rows = details.facts.filter(([key]) => key !== "name").map(([key, value]) => el("tr", {}, el("th", { scope: "row" }, words(key)), el("td", { class: "name" }, fact(key, value))));
    const links = details.links.map(link => el("li", {}, `${link.role}: `, el("button", { type: "button", click: () => this.jump(link) }, link.name.slice(0, 90)), ` ${time(link.duration_ns)}`));
    this.side.replaceChildren(el("h2", {}, facts.name ?? ""), el("div", { class: "columns" },
      el("table", {}, el("tbody", {}, rows)), links.length ? el("div", {}, el("h3", {}, "Launch"), el("ul", {}, links)) : null, this.instances(target)));
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
      box.append(el("p", {}, `${count(all.count)} × , total ${time(all.total_ns)}; min ${time(all.min_ns)}, p50 ${time(all.p50_ns)}, p90 ${time(all.p90_ns)}, p99 ${time(all.p99_ns)}, max ${time(all.max_ns)}`),
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
    const span = Math.max(Math.min(seen, duration_ns * 40), duration_ns * 3, 200);
    this.show(start_ns + duration_ns / 2 - span / 2, start_ns + duration_ns / 2 + span / 2);
    this.reveal(lane);
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

  async listFound() {
    const text = this.search.value;
    if (!text || this.run.isArchive) return;
    const found = await this.run.query("search", { text });
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
      ["P", "pin the lane"], ["/", "search"], [". ,", "next and previous match, or event of the same name"], ["Esc", "clear"]];
    const dialog = el("dialog", { close: () => dialog.remove() }, el("h2", {}, "Keys"), el("table", {}, el("tbody", {}, keys.map(([key, text]) => el("tr", {}, el("th", { scope: "row" }, el("kbd", {}, key)), el("td", {}, text))))),
      el("form", { method: "dialog" }, el("button", {}, "Close")));
    this.root.append(dialog);
    dialog.showModal();
  }
}

function counterAt(tile, ns) {
  const pixel = (ns - tile.x * TILE_PX * 2 ** tile.level) / 2 ** tile.level;
  let value = tile.data.counter.before;
  for (const [at, , , lastValue] of tile.data.counter.pixels) { if (at > pixel) break; value = lastValue; }
  return value;
}

function niceStep(ns) {
  const power = 10 ** Math.floor(Math.log10(Math.max(ns, 1)));
  return [1, 2, 5, 10].map(factor => factor * power).find(step => step >= ns) ?? 10 * power;
}

function tickLabel(ns, step) {
  const [unit, name] = step >= 1e9 ? [1e9, "s"] : step >= 1e6 ? [1e6, "ms"] : step >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  return `${(Math.round(ns / unit) || 0).toLocaleString("en-US")} ${name}`;
}
