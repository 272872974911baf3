// What a reader does with the timeline: zoom, move, search, select. The wheel alone scrolls the page.
"use strict";
for (const figure of document.querySelectorAll("figure.timeline")) {
  const { timeline } = figure;
  const { canvas, rows, meta, firstNs, endNs, show, duration } = timeline;
  const find = figure.querySelector(".find");
  const details = figure.querySelector(".details");
  const zoom = (factor, center) => {
    const [from, to] = timeline.window, middle = center ?? (from + to) / 2;
    show(middle - (middle - from) * factor, middle + (to - middle) * factor);
  };
  const move = (share) => {
    const [from, to] = timeline.window;
    show(from + (to - from) * share, to + (to - from) * share);
  };
  const actions = {
    in: () => zoom(0.5), out: () => zoom(2), left: () => move(-0.25), right: () => move(0.25), all: () => show(firstNs, endNs),
    next: () => jump(1), previous: () => jump(-1),
  };
  figure.querySelector(".controls").addEventListener("click", (event) => {
    const action = actions[event.target.dataset.action];
    if (action) action();
  });

  canvas.addEventListener("wheel", (event) => {
    const lines = event.deltaMode === 1 ? 33 : 1;
    const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      zoom(Math.exp(event.deltaY * lines * 0.004), timeline.time(event.offsetX));
    } else if (sideways) {
      event.preventDefault();
      move((event.deltaX || event.deltaY) * lines / (timeline.width - timeline.GUTTER));
    }
  }, { passive: false });

  // Dragging selects a range to zoom into; with Shift, and by touch, it moves.
  const band = figure.querySelector(".band");
  let grip = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const [from, to] = timeline.window;
    grip = { x: event.offsetX, from, to, moves: event.shiftKey || event.pointerType === "touch", dragged: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (grip) {
      const far = Math.abs(event.offsetX - grip.x) > 4;
      grip.dragged ||= far;
      if (!grip.dragged) return;
      window.llmprof.hideTip();
      if (grip.moves) {
        const shift = (grip.x - event.offsetX) / (timeline.width - timeline.GUTTER) * (grip.to - grip.from);
        canvas.classList.add("dragging");
        show(grip.from + shift, grip.to + shift);
      } else {
        const left = Math.max(Math.min(grip.x, event.offsetX), timeline.GUTTER);
        band.hidden = false;
        band.style.left = canvas.offsetLeft + left + "px";
        band.style.width = Math.max(Math.max(grip.x, event.offsetX) - left, 1) + "px";
        band.style.top = canvas.offsetTop + "px";
        band.style.height = canvas.offsetHeight + "px";
      }
      return;
    }
    const hit = timeline.under(event.offsetX, event.offsetY);
    if (hit) window.llmprof.showTip(described(hit).slice(0, 3).join("\n"), event.clientX, event.clientY);
    else window.llmprof.hideTip();
  });
  const release = () => { grip = null; band.hidden = true; canvas.classList.remove("dragging"); };
  canvas.addEventListener("pointerup", (event) => {
    const held = grip;
    release();
    if (!held) return;
    if (!held.dragged) return select(timeline.under(event.offsetX, event.offsetY));
    if (!held.moves) {
      const [a, b] = [timeline.time(held.x), timeline.time(event.offsetX)];
      show(Math.min(a, b), Math.max(a, b));
    }
  });
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => window.llmprof.hideTip());
  canvas.addEventListener("dblclick", (event) => {
    const hit = timeline.under(event.offsetX, event.offsetY);
    if (!hit) return;
    const begin = hit.row.start[hit.index], end = hit.row.end[hit.index];
    show(begin - (end - begin) * 0.1, end + (end - begin) * 0.1);
  });

  const keys = {
    "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all", Home: "all",
    w: "in", s: "out", a: "left", d: "right", W: "in", S: "out", A: "left", D: "right",
  };
  let over = false;
  canvas.addEventListener("pointerenter", () => { over = true; });
  canvas.addEventListener("pointerleave", () => { over = false; });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest && event.target.closest("input, select, textarea");
    const ours = event.target === canvas || (over && !typing);
    if (!ours || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") select(null);
    if (!(event.key in keys)) return;
    event.preventDefault();
    actions[keys[event.key]]();
  });

  function described({ row, index }) {
    const phase = meta.phases[row.phase[index]];
    return [
      meta.names[row.name[index]] || "?",
      `${duration(row.end[index] - row.start[index])} at ${duration(row.start[index])}`,
      `${meta.lanes[row.lane]}${phase ? " · " + phase : ""}`,
    ];
  }

  // Shows an event below the timeline, with all of its name.
  function select(hit) {
    timeline.selected = hit;
    details.hidden = !hit;
    if (!hit) return;
    const name = hit.row.name[hit.index];
    let count = 0, sum = 0;
    for (const row of rows) {
      if (row.lane !== hit.row.lane) continue;
      for (let i = 0; i < row.name.length; i++) {
        if (row.name[i] === name) { count++; sum += row.end[i] - row.start[i]; }
      }
    }
    const again = `${count.toLocaleString("en")} of this name in the lane: ${duration(sum)} in all, ${duration(sum / count)} on average`;
    details.replaceChildren(...[...described(hit), again].map((text, line) => {
      const element = document.createElement(line ? "span" : "code");
      element.textContent = text;
      return element;
    }));
  }

  function search(text) {
    const wanted = text.trim().toLowerCase();
    if (!wanted) {
      timeline.found = null;
      return;
    }
    mark((name) => name.toLowerCase().includes(wanted));
  }

  // Marks the events whose names are wanted.
  function mark(isWanted) {
    const flags = Uint8Array.from(meta.names, (name) => (isWanted(name) ? 1 : 0));
    const hits = [];
    for (const row of rows) {
      for (let index = 0; index < row.name.length; index++) if (flags[row.name[index]]) hits.push({ row, index });
    }
    hits.sort((a, b) => a.row.start[a.index] - b.row.start[b.index]);
    timeline.found = { flags, hits, count: hits.length, at: -1 };
  }

  // Moves to the next hit, or the first one after the left edge; zooms in where it would be too narrow to see.
  function jump(direction) {
    const { found } = timeline;
    if (!found || !found.count) return;
    const [from, to] = timeline.window;
    if (found.at < 0) {
      const first = found.hits.findIndex(({ row, index }) => row.start[index] >= from);
      found.at = direction > 0 ? Math.max(first, 0) : (first <= 0 ? found.count : first) - 1;
    } else {
      found.at = (found.at + direction + found.count) % found.count;
    }
    const { row, index } = found.hits[found.at];
    const begin = row.start[index], length = row.end[index] - begin;
    const extent = Math.max(Math.min(to - from, Math.max(length, 100) * 40), length * 1.5);
    show(begin + length / 2 - extent / 2, begin + length / 2 + extent / 2);
    select({ row, index });
  }
  find.addEventListener("input", () => search(find.value));
  find.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    jump(event.shiftKey ? -1 : 1);
  });

  // Links of findings and tables lead to the first interval of a phase or the first event of a name, whichever timeline has it.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-show-phase]");
    if (link) {
      const phase = meta.phases.indexOf(link.dataset.showPhase);
      const window = meta.windows.find(([number]) => number === phase);
      if (!window) return;
      event.preventDefault();
      show(window[1] - (window[2] - window[1]) * 0.05, window[2] + (window[2] - window[1]) * 0.05);
      figure.scrollIntoView({ block: "center" });
      return;
    }
    const name = event.target.closest("a[data-name]")?.dataset.name;
    if (name === undefined || !meta.names.includes(name)) return;
    event.preventDefault();
    mark((other) => other === name);
    find.value = name;
    jump(1);
    figure.scrollIntoView({ block: "center" });
  });
}
