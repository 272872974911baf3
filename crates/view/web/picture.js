// A canvas of marks: rectangles with a text and, where one leads somewhere, an action. Keys move from mark to mark.

import { el } from "./format.js";

const FONT = "11px system-ui, sans-serif";
/** A thinner mark is hard to hit with a pointer. */
const HIT_PX = 2;

/**
 * `layout(width)` returns {height, marks, texts}: a mark is {x, y, w, h, fill, text, label, act}, a text {x, y, text, align}.
 * `label` says what the picture shows.
 */
export class Picture {
  constructor(label, layout) {
    this.layout = layout;
    this.chosen = -1;
    this.canvas = el("canvas", { tabindex: "0", role: "img", "aria-label": `${label} Arrow keys move between marks, Enter opens one.` });
    this.tip = el("div", { class: "tip", hidden: true });
    this.said = el("p", { class: "soft", role: "status", "aria-live": "polite" });
    this.stage = el("div", { class: "picture" }, this.canvas, this.tip);
    this.root = el("div", {}, this.stage, this.said);
    this.root.picture = this;
    this.canvas.addEventListener("pointermove", event => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.canvas.addEventListener("click", event => { const place = this.at(event); if (place >= 0) { this.choose(place); this.marks[place].act?.(); } });
    this.canvas.addEventListener("keydown", event => { if (this.key(event)) event.preventDefault(); });
    new ResizeObserver(() => this.draw()).observe(this.stage);
  }

  draw() {
    const width = Math.floor(this.stage.getBoundingClientRect().width);
    if (!width) return;
    const ratio = window.devicePixelRatio || 1;
    const { height, marks, texts = [] } = this.layout(width);
    this.marks = marks;
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const context = this.canvas.getContext("2d");
    const style = getComputedStyle(document.documentElement);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = FONT;
    context.textBaseline = "middle";
    for (const mark of marks) {
      context.fillStyle = mark.fill;
      context.fillRect(mark.x, mark.y, Math.max(mark.w, 0.5), Math.max(mark.h, 0.5));
      if (mark.label && mark.w > 24) {
        const room = Math.floor((mark.w - 6) / 5.8);
        context.fillStyle = "#10151b";
        context.fillText(mark.label.length > room ? `${mark.label.slice(0, Math.max(room - 1, 1))}…` : mark.label, mark.x + 3, mark.y + mark.h / 2, mark.w - 4);
      }
    }
    context.fillStyle = style.getPropertyValue("--soft");
    for (const text of texts) {
      context.textAlign = text.align ?? "left";
      // Labels of an axis end at it; a long one is set narrower.
      context.fillText(text.text, text.x, text.y, text.align === "right" ? text.x : undefined);
    }
    context.textAlign = "left";
    const chosen = marks[this.chosen];
    if (chosen) {
      context.strokeStyle = style.getPropertyValue("--text");
      context.lineWidth = 2;
      context.strokeRect(chosen.x, chosen.y, Math.max(chosen.w, HIT_PX), Math.max(chosen.h, HIT_PX));
    }
  }

  /** The mark under the pointer; the last drawn is on top. */
  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    for (let place = (this.marks?.length ?? 0) - 1; place >= 0; place -= 1) {
      const mark = this.marks[place];
      if (x >= mark.x && x < mark.x + Math.max(mark.w, HIT_PX) && y >= mark.y && y < mark.y + Math.max(mark.h, HIT_PX)) return place;
    }
    return -1;
  }

  hover(event) {
    const place = this.at(event);
    this.tip.hidden = place < 0;
    if (place < 0) return;
    const box = this.canvas.getBoundingClientRect();
    this.tip.textContent = this.marks[place].text;
    this.canvas.style.cursor = this.marks[place].act ? "pointer" : "default";
    this.tip.style.left = `${Math.max(0, Math.min(event.clientX - box.left + 12, box.width - this.tip.offsetWidth - 4))}px`;
    this.tip.style.top = `${event.clientY - box.top + 14}px`;
  }

  choose(place) {
    this.chosen = place;
    this.said.textContent = this.marks[place]?.text ?? "";
    this.draw();
  }

  /** The nearest mark in the direction of an arrow. */
  key(event) {
    const marks = this.marks ?? [];
    const from = marks[this.chosen];
    const middle = mark => [mark.x + mark.w / 2, mark.y + mark.h / 2];
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [0, 0];
    if (event.key === "Enter") { from?.act?.(); return !!from; }
    if (!dx && !dy) return false;
    if (!from) { if (marks.length) this.choose(0); return true; }
    const [x, y] = middle(from);
    let best = -1;
    let least = Infinity;
    marks.forEach((mark, place) => {
      const [otherX, otherY] = middle(mark);
      const along = (otherX - x) * dx + (otherY - y) * dy;
      const aside = Math.abs((otherX - x) * dy) + Math.abs((otherY - y) * dx);
      if (place !== this.chosen && along > 0.01 && along + 4 * aside < least) { least = along + 4 * aside; best = place; }
    });
    if (best >= 0) this.choose(best);
    return true;
  }
}

/** A fill of the same hue everywhere; `shade` from 0 to 12 tells neighbours apart. */
export function hue(degrees, shade = 6, saturation = 55) {
  const isDark = document.documentElement.dataset.theme === "dark";
  return `hsl(${degrees} ${saturation}% ${(isDark ? 60 : 70) + shade - 6}%)`;
}

/** A number of its own for each text, the same on every page. */
export function hash(text) {
  let value = 7;
  for (let place = 0; place < text.length; place += 1) value = (value * 31 + text.charCodeAt(place)) >>> 0;
  return value;
}

/** A page without data says why. */
export function emptyPage(title, why) {
  return el("div", { class: "page" }, el("h1", {}, title), el("p", {}, why));
}
