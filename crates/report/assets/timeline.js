// The timeline: rows of events that do not overlap, drawn on a canvas. A redraw looks only at the visible events, found by binary
// search. Events narrower than a few pixels add up to the utilization of their pixels, which is drawn as height: a row that is busy a
// tenth of the time is a tenth full. Rows are painted into an ImageData: a hundred thousand calls of fillRect would take ten times as
// long. What a reader does with it is in timeline_input.js.
"use strict";
for (const figure of document.querySelectorAll("figure.timeline")) {
  const AXIS = 30, GAP = 6, COLORS = 10, SHADES = 8, NARROW = 2.5;
  const canvas = figure.querySelector("canvas");
  const context = canvas.getContext("2d", { alpha: false });
  const output = figure.querySelector("output");
  const by = figure.querySelector(".by");
  const meta = JSON.parse(figure.querySelector("script.meta").textContent);
  const rows = decode(figure.querySelector("script.events").textContent, meta.rows);
  const total = rows.reduce((sum, row) => sum + row.start.length, 0);
  // Zero is the start of the recording; the first event that is drawn may begin later.
  const firstNs = meta.first_ns, endNs = Math.max(meta.end_ns, firstNs + 1), span = endNs - firstNs;
  const least = Math.min(span, 100);
  const rowHeight = Math.max(7, Math.min(18, Math.floor(560 / Math.max(rows.length, 1))));
  const lanes = layout();
  const height = AXIS + lanes.reduce((sum, lane) => sum + lane.rows.length * rowHeight + GAP, 0) + 4;
  const redraws = [];
  let GUTTER = 150, width = 0, ratio = 1, image = null, from = firstNs, to = endNs, scheduled = false, theme = null, found = null, selected = null;

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
    return { ground: pixel(ground), rule: pixel(channels("rule")), marks, paper: read("ground"), ink: read("ink"), muted: read("muted"),
      css: Array.from({ length: COLORS }, (_, color) => read("c" + color)) };
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
    const across = canvas.width;
    const base = groundLine(ticks);
    const pixels = new Uint32Array(image.data.buffer);
    for (let y = 0; y < canvas.height; y++) pixels.set(base, y * across);
    const line = new Uint32Array(across), level = new Float32Array(across), share = new Float32Array(across), labels = [];
    let visible = 0;
    for (const lane of lanes) lane.busy = 0;
    for (const lane of lanes) {
      lane.rows.forEach((row, depth) => {
        line.set(base);
        const painted = paintRow(row, line, level, share, labels);
        visible += painted.count;
        // Rows below the first hold what runs inside its events.
        if (depth === 0) lane.busy = painted.busy / (to - from);
        fillRow(row, base, line, level, pixels);
      });
    }
    context.putImageData(image, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    writeText(ticks, labels);
    drawPhases();
    drawSelected();
    output.textContent = `${duration(from)} to ${duration(to)} of ${duration(span)} · ${visible.toLocaleString("en")} of ` +
      `${total.toLocaleString("en")} events` + (found ? ` · ${found.at >= 0 ? found.at + 1 + " of " : ""}${found.count.toLocaleString("en")} found` : "");
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

  // Paints the visible events of a row into a line of pixels and how full each pixel is into `level`; notes the names that have room.
  function paintRow(row, line, level, share, labels) {
    const { start, end, name } = row;
    const left = Math.round(GUTTER * ratio), right = line.length;
    const scale = (right - left) / (to - from);
    const color = by.value === "phase" ? row.phase : name;
    const first = above(end, from), last = above(start, to);
    const shaded = (which, match) => theme.marks[which % COLORS * (SHADES + 1) + (match ? SHADES : 2)];
    level.fill(0);
    share.fill(0);
    let busy = 0;
    for (let i = first; i < last; i++) {
      const x = left + (start[i] - from) * scale, w = (end[i] - start[i]) * scale;
      const match = !found || found.flags[name[i]] === 1;
      busy += Math.min(end[i], to) - Math.max(start[i], from);
      if (w >= NARROW) {
        const begin = Math.max(Math.round(x), left), stop = Math.min(Math.round(x + w), right);
        // A pixel of ground between neighbours keeps them apart.
        const until = Math.max(stop - 1, begin + 1);
        line.fill(shaded(color[i], match), begin, until);
        level.fill(1, begin, until);
        share.fill(match ? 4 : 2, begin, until);
        if (rowHeight >= 12 && (stop - begin) / ratio > 36) {
          labels.push({ x: begin / ratio + 4, y: row.y + rowHeight / 2, room: (stop - begin) / ratio - 8, name: name[i], match });
        }
        continue;
      }
      const begin = Math.max(x, left), stop = Math.min(Math.max(x + w, begin), right);
      for (let column = Math.floor(begin); column < right && (column < stop || column === Math.floor(begin)); column++) {
        const part = Math.max(Math.min(stop, column + 1) - Math.max(begin, column), 0);
        level[column] = Math.min(level[column] + part, 1);
        // The event that covers most of a pixel gives its colour; one that was searched for comes before all others.
        const rank = part + (match && found ? 2 : 0) + 1e-6;
        if (rank > share[column]) {
          share[column] = rank;
          line[column] = shaded(color[i], match);
        }
      }
    }
    return { count: last - first, busy };
  }

  // Copies a line of pixels down a row, each pixel as high as it is full and never less than a pixel.
  function fillRow(row, base, line, level, pixels) {
    const top = Math.round(row.y * ratio), bottom = Math.min(Math.round((row.y + rowHeight - 1) * ratio), canvas.height);
    const high = bottom - top, across = line.length;
    for (let y = top; y < bottom; y++) {
      const needed = (bottom - y - 1) / high;
      const begin = y * across;
      for (let x = 0; x < across; x++) {
        const full = level[x];
        pixels[begin + x] = full > 0 && (full > needed || y === bottom - 1) ? line[x] : base[x];
      }
    }
  }

  // As much of a text as fits into `room` pixels in the font that is set.
  function fitted(text, room) {
    if (context.measureText(text).width <= room) return text;
    let low = 0, high = text.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (context.measureText(text.slice(0, middle) + "…").width <= room) low = middle; else high = middle - 1;
    }
    return low > 0 ? text.slice(0, low) + "…" : "";
  }

  function writeText(ticks, labels) {
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (const { x, y, room, name, match } of labels) {
      context.fillStyle = match ? theme.paper : theme.muted;
      context.fillText(fitted(meta.labels[name] || meta.names[name] || "?", room), x, y);
    }
    context.textAlign = "center";
    context.textBaseline = "alphabetic";
    context.fillStyle = theme.paper;
    context.fillRect(0, 0, width, AXIS - 9);
    context.fillStyle = theme.muted;
    for (const { x, text } of ticks) {
      context.fillText(text, Math.min(Math.max(x, GUTTER + 3 * text.length), width - 3.5 * text.length), 14);
    }
    context.fillStyle = theme.paper;
    context.fillRect(0, AXIS - 9, GUTTER - 1, height);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "top";
    const roomy = GUTTER >= 140;
    for (const lane of lanes) {
      const busy = (lane.busy * 100).toFixed(lane.busy < 0.0995 ? 1 : 0) + " %";
      context.fillStyle = theme.muted;
      context.textAlign = "right";
      if (roomy) context.fillText(busy, GUTTER - 8, lane.y + 1);
      context.fillStyle = theme.ink;
      context.textAlign = "left";
      context.fillText(fitted(lane.name, GUTTER - (roomy ? 56 : 12)), 8, lane.y + 1);
    }
  }

  // Phases as a strip below the axis.
  function drawPhases() {
    const scale = (width - GUTTER) / (to - from);
    for (const [phase, start, end] of meta.windows) {
      if (end < from || start > to) continue;
      const begin = Math.max(GUTTER + (start - from) * scale, GUTTER), stop = Math.min(GUTTER + (end - from) * scale, width);
      context.fillStyle = theme.css[phase % COLORS];
      context.fillRect(begin, AXIS - 8, Math.max(stop - begin - 0.5, 0.5), 4);
    }
  }

  function drawSelected() {
    if (!selected) return;
    const { row, index } = selected, scale = (width - GUTTER) / (to - from);
    const begin = GUTTER + (row.start[index] - from) * scale, stop = GUTTER + (row.end[index] - from) * scale;
    if (stop < GUTTER || begin > width) return;
    const left = Math.max(begin, GUTTER);
    context.strokeStyle = theme.ink;
    context.lineWidth = 2;
    context.strokeRect(left - 1, row.y - 1, Math.max(Math.min(stop, width) - left, 2) + 2, rowHeight + 1);
  }

  function schedule() {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => { scheduled = false; draw(); });
  }

  function show(begin, end) {
    const extent = Math.min(Math.max(end - begin, least), span);
    from = Math.min(Math.max(begin, firstNs), endNs - extent);
    to = from + extent;
    schedule();
  }

  const time = (x) => from + (x - GUTTER) / (width - GUTTER) * (to - from);

  // The event at a place of the canvas; `reach` pixels beside it count.
  function under(x, y, reach = 2) {
    const row = rows.find((row) => y >= row.y && y < row.y + rowHeight);
    if (!row || x < GUTTER) return null;
    const slack = reach * (to - from) / (width - GUTTER), now = time(x);
    const index = above(row.end, now - slack);
    return index < row.start.length && row.start[index] <= now + slack ? { row, index } : null;
  }

  by.addEventListener("change", schedule);
  document.addEventListener("themechange", () => { theme = null; schedule(); });
  // Paper is light: a frame later would be too late.
  matchMedia("print").addEventListener("change", () => { theme = null; draw(); });
  const resize = () => {
    const dense = window.devicePixelRatio || 1;
    width = canvas.clientWidth || 900;
    GUTTER = Math.min(200, Math.round(width * 0.3));
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * dense);
    canvas.height = Math.round(height * dense);
    image = context.createImageData(canvas.width, canvas.height);
    draw();
  };
  new ResizeObserver(resize).observe(figure);
  resize();
  figure.timeline = {
    show, draw, schedule, redraws, canvas, total, rows, meta, span, firstNs, endNs, time, under, duration,
    get GUTTER() { return GUTTER; },
    get window() { return [from, to]; },
    get width() { return width; },
    get found() { return found; },
    set found(value) { found = value; schedule(); },
    get selected() { return selected; },
    set selected(value) { selected = value; schedule(); },
  };
}
