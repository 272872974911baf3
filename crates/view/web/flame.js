// Host stacks as a flame graph: the width of a frame is the time of threads that call the GPU in it.

import { el, time, percent } from "./format.js";
import { Picture, hue, hash, emptyPage } from "./picture.js";

const ROW = 18;
const ROWS_MAX = 120;

/** `keep(state)` puts what is shown into the address. */
export async function flamePage(run, state, keep) {
  const page = await run.json("flame.json");
  if (page.why) return emptyPage("Host stacks", page.why);
  let kind = state.of === "idle" ? "idle" : "whole";
  let path = (state.path ?? "").split(".").filter(Boolean).map(Number);
  const sum = el("p");
  const trail = el("p");
  const search = el("input", { class: "filter", type: "search", placeholder: "mark frames", "aria-label": "mark frames whose name contains", value: state.q ?? "", input: () => refresh() });
  const choices = [["whole", "All the time"], ["idle", "While no GPU was busy"]].map(([key, label]) => {
    const button = el("button", { type: "button", click: () => { kind = key; path = []; refresh(); } }, label);
    button.kind = key;
    return button;
  });
  const picture = new Picture("Flame graph of host stacks, callers above what they call.", width => frames(width));

  function tree() { return page[kind]; }
  /** The frame that fills the width: `[name, total, children]`. */
  function root() {
    let node = [null, tree().total_ns, tree().children];
    for (const name of path) node = node[2].find(child => child[0] === name) ?? node;
    return node;
  }
  function frames(width) {
    const { names } = tree();
    const whole = root();
    const words = search.value.toLowerCase();
    const marks = [];
    let deepest = 0;
    const place = (node, x, depth, trailSoFar) => {
      const w = width * node[1] / Math.max(whole[1], 1);
      if (w < 0.7 || depth >= ROWS_MAX) return;
      const label = names[node[0]];
      const isFound = words && label.toLowerCase().includes(words);
      deepest = Math.max(deepest, depth);
      marks.push({ x, y: depth * ROW, w: Math.max(w - 0.5, 0.5), h: ROW - 1, fill: isFound ? hue(285, 8, 70) : hue(20 + hash(label) % 40, 4 + hash(label) % 6, 65), label,
        text: `${label}: ${time(node[1])}, ${percent(node[1], tree().total_ns)} of all, ${percent(node[1], whole[1])} of what is shown`, act: () => { path = trailSoFar; refresh(); } });
      let left = x;
      for (const child of node[2]) { place(child, left, depth + 1, [...trailSoFar, child[0]]); left += width * child[1] / Math.max(whole[1], 1); }
    };
    const top = path.length ? [whole] : whole[2];
    let left = 0;
    for (const node of top) { place(node, left, 0, path.length ? path : [node[0]]); left += width * node[1] / Math.max(whole[1], 1); }
    return { height: (deepest + 1) * ROW + 4, marks };
  }
  function refresh() {
    picture.chosen = -1;
    picture.said.textContent = "";
    choices.forEach(button => button.setAttribute("aria-pressed", String(button.kind === kind)));
    sum.textContent = tree().total_ns > 0 ? `${time(tree().total_ns)} of ${page.is_sampled ? "samples" : "recorded Python functions"} of threads that call the GPU.` : "No GPU was idle while a stack was recorded.";
    trail.replaceChildren(...(path.length ? [el("button", { type: "button", click: () => { path = []; refresh(); } }, "show all"), " ", path.map(name => tree().names[name]).join(" › ")] : []));
    keep({ ...(kind === "idle" ? { of: "idle" } : {}), ...(path.length ? { path: path.join(".") } : {}), ...(search.value ? { q: search.value } : {}) });
    picture.draw();
  }
  refresh();
  return el("div", { class: "page wide" }, el("h1", {}, "Host stacks"), sum, el("p", {}, choices, " ", search), trail, picture.root);
}
