// The timeline: rows of events that do not overlap, drawn on a canvas. A redraw looks only at the visible events, found by binary
// search, and merges those that share a pixel. Each row is painted as one line of pixels in memory, copied down to the row's height:
// a hundred thousand calls of fillRect would take ten times as long.
"use strict";
for (const figure of document.querySelectorAll("figure.timeline")) {
  const GUTTER = Math.min(150, Math.round(figure.clientWidth * 0.3)), AXIS = 24, GAP = 6, COLORS = 10, SHADES = 8, FAINT = 3;
  const canvas = figure.querySelector("canvas");
  const context = canvas.getContext("2d", { alpha: false });
  const output = figure.querySelector("output");
  const find = figure.querySelector(".find");
  const by = figure.querySelector(".by");
  const meta = JSON.parse(figure.querySelector("script.meta").textContent);
  const rows = decode(figure.querySelector("script.events").textContent, meta.rows);
  const total = rows.reduce((sum, row) => sum + row.start.length, 0);
  const span = Math.max(meta.span_ns, 1);
  const least = Math.min(span, 100);
  const rowHeight = Math.max(7, Math.min(18, Math.floor(560 / Math.max(rows.length, 1))));
  const lanes = layout();
  const height = AXIS + lanes.reduce((sum, lane) => sum + lane.rows.length * rowHeight + GAP, 0) + 4;
  const redraws = [];
  let width = 0, ratio = 1, image = null, from = 0, to = span, scheduled = false, theme = null, found = null;

  function decode(text, counts) {
    const binary = atob(text);
    let at = 0;
    const next = () => {
      let value = 0, factor = 1, byte;
      // No bit operations: they would cut times at 32 bits.
      do {
        byte = binary.charCodeAt(at++);
        value += (byte & 127) * factor;
        factor *= 128;
      } while (byte > 127);
      return value;
    };
    return counts.map(([lane, count]) => {
      const row = {
        lane, start: new Float64Array(count), end: new Float64Array(count), name: new Uint32Array(count), phase: new Uint32Array(count),
      };
      let last = 0;
      for (let i = 0; i < count; i++) {
        row.start[i] = last + next();
        row.end[i] = last = row.start[i] + next();
        row.name[i] = next();
        row.phase[i] = next();
      }
      return row;
    });
  }

  function layout() {
    const lanes = [];
    let y = AXIS;
    for (const row of rows) {
      let lane = lanes[lanes.length - 1];
      if (!lane || lane.id !== row.lane) {
        if (lane) y += GAP;
        lane = { id: row.lane, name: meta.lanes[row.lane], y, rows: [] };
        lanes.push(lane);
      }
      row.y = y;
      lane.rows.push(row);
      y += rowHeight;
    }
    return lanes;
  }

  // The first position in a sorted array whose value is above `limit`.
  function above(array, limit) {
    let low = 0, high = array.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (array[middle] > limit) high = middle; else low = middle + 1;
    }
    return low;
  }

  // Colours as the pixels of an ImageData; SHADES steps from the ground to the full colour.
  function colors() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue("--" + name).trim();
    const channels = (name) => [1, 3, 5].map((at) => parseInt(read(name).slice(at, at + 2), 16));
    const pixel = ([r, g, b]) => (0xff000000 | b << 16 | g << 8 | r) >>> 0;
    const ground = channels("ground");
    const marks = new Uint32Array(COLORS * (SHADES + 1));
    for (let color = 0; color < COLORS; color++) {
      const full = channels("c" + color);
      for (let shade = 0; shade <= SHADES; shade++) {
        marks[color * (SHADES + 1) + shade] = pixel(full.map((value, i) => Math.round(ground[i] + (value - ground[i]) * shade / SHADES)));
      }
    }
    return { ground: pixel(ground), rule: pixel(channels("rule")), marks, paper: read("ground"), ink: read("ink"), muted: read("muted") };
  }

  function duration(ns) {
    const [unit, factor] = ns < 1e3 ? ["ns", 1] : ns < 1e6 ? ["µs", 1e3] : ns < 1e9 ? ["ms", 1e6] : ["s", 1e9];
    return Number((ns / factor).toPrecision(5)) + " " + unit;
  }

  function step(rough) {
    const power = 10 ** Math.floor(Math.log10(rough));
    return power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  }

  function draw() {
    const begun = performance.now();
    theme ??= colors();
    ratio = canvas.width / width;
    const ticks = axisTicks();
    const base = groundLine(ticks);
    const across = canvas.width;
    const pixels = new Uint32Array(image.data.buffer);
    const copy = (line, top, bottom) => {
      for (let y = Math.max(top, 0); y < Math.min(bottom, canvas.height); y++) pixels.set(line, y * across);
    };
    copy(base, 0, canvas.height);
    const line = new Uint32Array(across), labels = [];
    let visible = 0;
    for (const row of rows) {
      line.set(base);
      visible += paintRow(row, line, labels);
      copy(line, Math.round(row.y * ratio), Math.round((row.y + rowHeight - 1) * ratio));
    }
    context.putImageData(image, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    writeText(ticks, labels);
    output.textContent = `${duration(from)} to ${duration(to)} of ${duration(span)} · ${visible.toLocaleString("en")} of ` +
      `${total.toLocaleString("en")} events` + (found ? ` · ${found.count.toLocaleString("en")} found` : "");
    redraws.push(performance.now() - begun);
    if (redraws.length > 1000) redraws.shift();
  }

  function axisTicks() {
    const scale = (width - GUTTER) / (to - from), stride = step(90 / scale), ticks = [];
    for (let index = Math.ceil(from / stride); index * stride <= to; index++) {
      ticks.push({ x: GUTTER + (index * stride - from) * scale, text: duration(index * stride) });
    }
    return ticks;
  }

  function groundLine(ticks) {
    const line = new Uint32Array(canvas.width).fill(theme.ground);
    for (const { x } of ticks) line[Math.min(Math.round(x * ratio), canvas.width - 1)] = theme.rule;
    return line;
  }

  // Paints the visible events of a row into a line of pixels, notes the names that have room, and returns how many there are.
  function paintRow(row, line, labels) {
    const { start, end, name } = row;
    const left = Math.round(GUTTER * ratio), right = line.length;
    const scale = (right - left) / (to - from);
    const color = by.value === "phase" ? row.phase : name;
    const first = above(end, from), last = above(start, to);
    const shaded = (which, shade) => theme.marks[which % COLORS * (SHADES + 1) + shade];
    // Events narrower than a pixel add up in `covered`; the widest of them gives the colour.
    let pixel = -1, covered = 0, widest = 0, which = 0, lit = true;
    const flush = () => {
      if (pixel >= 0 && pixel < right) line[pixel] = shaded(which, lit ? Math.max(FAINT, Math.ceil(Math.min(covered, 1) * SHADES)) : 1);
      pixel = -1;
    };
    for (let i = first; i < last; i++) {
      const x = left + (start[i] - from) * scale, w = (end[i] - start[i]) * scale;
      const match = !found || found.flags[name[i]] === 1;
      if (w < 1.5) {
        const column = Math.max(Math.floor(x), left);
        if (column !== pixel) {
          flush();
          pixel = column; covered = 0; widest = -1; lit = false;
        }
        covered += w;
        if (match && !lit) { lit = true; widest = -1; }
        if (w > widest && match === lit) { widest = w; which = color[i]; }
        continue;
      }
      flush();
      const begin = Math.max(Math.round(x), left), stop = Math.min(Math.round(x + w), right);
      // A pixel of ground between neighbours keeps them apart.
      line.fill(shaded(color[i], match ? SHADES : 1), begin, Math.max(stop - (w > 2.5 ? 1 : 0), begin + 1));
      if (rowHeight >= 12 && (stop - begin) / ratio > 36) {
        labels.push({ x: begin / ratio + 4, y: row.y + rowHeight / 2, room: (stop - begin) / ratio - 8, name: name[i], match });
      }
    }
    flush();
    return last - first;
  }

  function writeText(ticks, labels) {
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (const { x, y, room, name, match } of labels) {
      const text = meta.names[name] || "?", letters = Math.floor(room / 6);
      context.fillStyle = match ? theme.paper : theme.muted;
      context.fillText(text.length > letters ? text.slice(0, letters - 1) + "…" : text, x, y);
    }
    context.textAlign = "center";
    context.textBaseline = "alphabetic";
    context.fillStyle = theme.paper;
    context.fillRect(0, 0, width, AXIS - 5);
    context.fillStyle = theme.muted;
    for (const { x, text } of ticks) {
      context.fillText(text, Math.min(Math.max(x, GUTTER + 3 * text.length), width - 3.5 * text.length), 14);
    }
    context.fillStyle = theme.paper;
    context.fillRect(0, AXIS, GUTTER - 1, height);
    context.fillStyle = theme.ink;
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "left";
    context.textBaseline = "top";
    for (const lane of lanes) {
      const letters = Math.floor((GUTTER - 14) / 6.2);
      context.fillText(lane.name.length > letters ? lane.name.slice(0, letters - 1) + "…" : lane.name, 8, lane.y + 2);
    }
  }

  function schedule() {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => { scheduled = false; draw(); });
  }

  function show(begin, end) {
    const extent = Math.min(Math.max(end - begin, least), span);
    from = Math.min(Math.max(begin, 0), span - extent);
    to = from + extent;
    schedule();
  }
  const zoom = (factor, center = (from + to) / 2) => show(center - (center - from) * factor, center + (to - center) * factor);
  const move = (share) => show(from + (to - from) * share, to + (to - from) * share);
  const actions = {
    in: () => zoom(0.5), out: () => zoom(2), left: () => move(-0.25), right: () => move(0.25), all: () => show(0, span),
  };
  const time = (event) => from + (event.offsetX - GUTTER) / (width - GUTTER) * (to - from);

  function under(event) {
    const row = rows.find((row) => event.offsetY >= row.y && event.offsetY < row.y + rowHeight);
    if (!row || event.offsetX < GUTTER) return null;
    const reach = 2 * (to - from) / (width - GUTTER), now = time(event);
    const index = above(row.end, now - reach);
    return index < row.start.length && row.start[index] <= now + reach ? { row, index } : null;
  }

  figure.querySelector(".controls").addEventListener("click", (event) => {
    const action = actions[event.target.dataset.action];
    if (action) action();
  });
  canvas.addEventListener("wheel", (event) => {
    const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    // Fully zoomed out, the wheel scrolls the page on past the timeline.
    if (!sideways && event.deltaY > 0 && to - from >= span) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 33 : 1;
    if (sideways) move((event.deltaX || event.deltaY) * lines / (width - GUTTER));
    else zoom(Math.exp(event.deltaY * lines * 0.002), time(event));
  }, { passive: false });
  let grip = null;
  canvas.addEventListener("pointerdown", (event) => {
    grip = { x: event.offsetX, from, to };
    canvas.setPointerCapture(event.pointerId);
    canvas.classList.add("dragging");
  });
  canvas.addEventListener("pointermove", (event) => {
    if (grip) {
      const shift = (grip.x - event.offsetX) / (width - GUTTER) * (grip.to - grip.from);
      show(grip.from + shift, grip.to + shift);
      return;
    }
    const hit = under(event);
    if (!hit) return window.llmprof.hideTip();
    const { row, index } = hit;
    const phase = meta.phases[row.phase[index]];
    window.llmprof.showTip(
      `${meta.names[row.name[index]] || "?"}\n${duration(row.end[index] - row.start[index])} at ${duration(row.start[index])}` +
      `\n${meta.lanes[row.lane]}${phase ? " · " + phase : ""}`, event.clientX, event.clientY);
  });
  const release = () => { grip = null; canvas.classList.remove("dragging"); };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => window.llmprof.hideTip());
  canvas.addEventListener("dblclick", (event) => {
    const hit = under(event);
    if (!hit) return;
    const begin = hit.row.start[hit.index], end = hit.row.end[hit.index];
    show(begin - (end - begin) * 0.1, end + (end - begin) * 0.1);
  });
  canvas.addEventListener("keydown", (event) => {
    const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all", Home: "all" };
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    actions[keys[event.key]]();
  });
  find.addEventListener("input", () => {
    const wanted = find.value.trim().toLowerCase();
    found = null;
    if (wanted) {
      const flags = Uint8Array.from(meta.names, (name) => (name.toLowerCase().includes(wanted) ? 1 : 0));
      let count = 0;
      for (const row of rows) for (const name of row.name) count += flags[name] || 0;
      found = { flags, count };
    }
    schedule();
  });
  by.addEventListener("change", schedule);
  document.addEventListener("themechange", () => { theme = null; schedule(); });
  // Paper is light: a frame later would be too late.
  matchMedia("print").addEventListener("change", () => { theme = null; draw(); });
  const resize = () => {
    const dense = window.devicePixelRatio || 1;
    width = canvas.clientWidth || 900;
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * dense);
    canvas.height = Math.round(height * dense);
    image = context.createImageData(canvas.width, canvas.height);
    draw();
  };
  new ResizeObserver(resize).observe(figure);
  resize();
  figure.timeline = { show, draw, redraws, canvas, total, get window() { return [from, to]; }, span };
}
