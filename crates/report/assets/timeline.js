// The timeline: rows of events that do not overlap, drawn on a canvas. A redraw looks only at the visible events, found by binary
// search, and merges those that share a pixel, so its cost is bounded by the number of pixels and of visible events.
"use strict";
for (const figure of document.querySelectorAll("figure.timeline")) {
  const GUTTER = Math.min(150, Math.round(figure.clientWidth * 0.3)), AXIS = 24, GAP = 6, COLORS = 10;
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
  let width = 0, from = 0, to = span, scheduled = false, theme = null, found = null;

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

  function colors() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue("--" + name).trim();
    return {
      ground: read("ground"), ink: read("ink"), muted: read("muted"), rule: read("rule"),
      marks: Array.from({ length: COLORS }, (_, index) => read("c" + index)),
    };
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
    const ratio = canvas.width / width;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.globalAlpha = 1;
    context.fillStyle = theme.ground;
    context.fillRect(0, 0, width, height);
    drawAxis();
    context.save();
    context.beginPath();
    context.rect(GUTTER, AXIS, width - GUTTER, height - AXIS);
    context.clip();
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    let visible = 0;
    for (const row of rows) visible += drawRow(row);
    context.restore();
    drawLabels();
    output.textContent = `${duration(from)} to ${duration(to)} of ${duration(span)} · ${visible.toLocaleString("en")} of ` +
      `${total.toLocaleString("en")} events` + (found ? ` · ${found.count.toLocaleString("en")} found` : "");
    redraws.push(performance.now() - begun);
    if (redraws.length > 1000) redraws.shift();
  }

  function drawAxis() {
    const scale = (width - GUTTER) / (to - from);
    const stride = step(90 / scale);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "alphabetic";
    context.textAlign = "center";
    for (let tick = Math.ceil(from / stride) * stride; tick <= to; tick += stride) {
      const x = GUTTER + (tick - from) * scale;
      context.fillStyle = theme.rule;
      context.fillRect(x, AXIS - 4, 1, height);
      context.fillStyle = theme.muted;
      const text = duration(tick);
      context.fillText(text, Math.min(Math.max(x, GUTTER + 3 * text.length), width - 3.5 * text.length), 14);
    }
    context.textAlign = "left";
  }

  function drawRow(row) {
    const { start, end, name } = row;
    const scale = (width - GUTTER) / (to - from);
    const color = by.value === "phase" ? row.phase : name;
    const first = above(end, from), last = above(start, to);
    const h = rowHeight - 1, y = row.y;
    let shade = -1, opacity = -1;
    const fill = (x, w, which, alpha) => {
      if (which !== shade) context.fillStyle = theme.marks[shade = which];
      if (alpha !== opacity) context.globalAlpha = opacity = alpha;
      context.fillRect(x, y, w, h);
    };
    // Events narrower than a pixel add up in `covered`; the widest of them gives the colour.
    let pixel = -1, covered = 0, widest = 0, which = 0, lit = true;
    const flush = () => {
      if (pixel >= 0) fill(pixel, 1, which, lit ? Math.max(0.3, Math.ceil(Math.min(covered, 1) * 5) / 5) : 0.1);
      pixel = -1;
    };
    for (let i = first; i < last; i++) {
      const x = GUTTER + (start[i] - from) * scale, w = (end[i] - start[i]) * scale;
      const match = !found || found.flags[name[i]] === 1;
      if (w < 1.5) {
        const column = Math.max(Math.floor(x), GUTTER);
        if (column !== pixel) {
          flush();
          pixel = column; covered = 0; widest = -1; lit = false;
        }
        covered += w;
        if (match && !lit) { lit = true; widest = -1; }
        if (w > widest && match === lit) { widest = w; which = color[i] % COLORS; }
        continue;
      }
      flush();
      const left = Math.max(x, GUTTER - 1), right = Math.min(x + w, width + 1);
      // A pixel of ground between neighbours keeps them apart.
      fill(left, Math.max(right - left - (w > 4 ? 1 : 0), 1), color[i] % COLORS, match ? 1 : 0.12);
      if (right - left > 36 && rowHeight >= 12) {
        const room = Math.floor((right - left - 8) / 6);
        const text = meta.names[name[i]] || "?";
        context.fillStyle = match ? theme.ground : theme.muted;
        shade = -1;
        context.fillText(text.length > room ? text.slice(0, room - 1) + "…" : text, Math.max(left, GUTTER) + 4, y + h / 2 + 1);
      }
    }
    flush();
    return last - first;
  }

  function drawLabels() {
    context.globalAlpha = 1;
    context.fillStyle = theme.ground;
    context.fillRect(0, AXIS, GUTTER - 1, height);
    context.fillStyle = theme.ink;
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "top";
    for (const lane of lanes) {
      const room = Math.floor((GUTTER - 14) / 6.2);
      const text = lane.name.length > room ? lane.name.slice(0, room - 1) + "…" : lane.name;
      context.fillText(text, 8, lane.y + 2);
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
    const ratio = window.devicePixelRatio || 1;
    width = canvas.clientWidth || 900;
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    draw();
  };
  new ResizeObserver(resize).observe(figure);
  resize();
  figure.timeline = { show, draw, redraws, canvas, total, get window() { return [from, to]; }, span };
}
