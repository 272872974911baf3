// Ranks × steps: whose own time is long, and in which steps.

import { el, time, count } from "./format.js";
import { table } from "./table.js";
import { Picture, emptyPage } from "./picture.js";

const LEFT = 64;
const CELL_MIN = 4;
const CELL_MAX = 22;
const HEIGHT_MAX = 640;

export async function ranksPage(run, go) {
  const page = await run.json("ranks.json");
  if (page.why) return emptyPage("Ranks", page.why);
  const all = page.steps.length;
  const steps = page.has_marked_steps ? `${count(all)} ${all === 1 ? "step" : "steps"}` : "the whole recording as one step, since nothing marks steps";
  const picture = new Picture(`Own time of ${count(page.ranks.length)} ranks in ${count(page.steps.length)} steps, relative to the median rank of the step.`, width => cells(page, width, go));
  return el("div", { class: "page" }, el("h1", {}, "Ranks × steps"),
    el("p", {}, `Own time is the time of a step without waiting for other ranks in collectives. ${count(page.ranks.length)} ranks, ${steps}.`),
    el("p", { class: "soft" }, "Blue: at most 1 % longer than the median rank of the step, or shorter; orange: longer, deepest at 50 % and more."),
    picture.root, el("h2", {}, "Ranks"), rankTable(page));
}

/** The own time of a rank ÷ that of the median rank of the step. */
function excess(page, rank, step) {
  const own = page.own_ns[rank]?.[step] ?? -1;
  const median = page.steps[step].median_own_ns;
  return own < 0 || !(median > 0) ? null : own / median;
}

function colourOf(ratio) {
  const isDark = document.documentElement.dataset.theme === "dark";
  if (ratio === null) return isDark ? "#2a323c" : "#e6e9ed";
  const part = Math.min(Math.max((ratio - 1) / 0.5, -1), 1);
  const light = isDark ? 34 + 30 * Math.abs(part) : 90 - 40 * Math.abs(part);
  return part > 0.02 ? `hsl(28 80% ${light}%)` : `hsl(212 55% ${light}%)`;
}

/** A cell for each rank and step, or for the longest of those that share one. */
function cells(page, width, go) {
  const columns = Math.min(page.steps.length, Math.max(1, Math.floor((width - LEFT) / CELL_MIN)));
  const rows = Math.min(page.ranks.length, Math.floor(HEIGHT_MAX / CELL_MIN));
  const [perColumn, perRow] = [Math.ceil(page.steps.length / columns), Math.ceil(page.ranks.length / rows)];
  const cellWidth = Math.min((width - LEFT) / columns, 40);
  const cellHeight = Math.min(HEIGHT_MAX / rows, CELL_MAX);
  const marks = [];
  for (let row = 0; row * perRow < page.ranks.length; row += 1) {
    for (let column = 0; column * perColumn < page.steps.length; column += 1) {
      let worst = { ratio: null, rank: row * perRow, step: column * perColumn };
      for (let rank = row * perRow; rank < Math.min((row + 1) * perRow, page.ranks.length); rank += 1) {
        for (let step = column * perColumn; step < Math.min((column + 1) * perColumn, page.steps.length); step += 1) {
          const ratio = excess(page, rank, step);
          if (ratio !== null && (worst.ratio === null || ratio > worst.ratio)) worst = { ratio, rank, step };
        }
      }
      const step = page.steps[worst.step];
      const own = page.own_ns[worst.rank]?.[worst.step] ?? -1;
      const text = `rank ${page.ranks[worst.rank]}, step ${step.number ?? worst.step}: ${own < 0 ? "not recorded" : `${time(own)}, ${worst.ratio === null ? "no median" : `${worst.ratio.toFixed(3)}× the median rank`}`}`;
      marks.push({ x: LEFT + column * cellWidth, y: row * cellHeight, w: cellWidth - (cellWidth > 6 ? 1 : 0), h: cellHeight - (cellHeight > 6 ? 1 : 0), fill: colourOf(worst.ratio), text, act: step.mark ? () => go("timeline", { q: step.mark }) : null });
    }
  }
  const every = Math.max(1, Math.ceil(14 / cellHeight));
  const texts = [];
  for (let row = 0; row * perRow < page.ranks.length; row += every) texts.push({ x: LEFT - 6, y: row * cellHeight + cellHeight / 2, text: `rank ${page.ranks[row * perRow]}`, align: "right" });
  const bottom = rows * cellHeight + 10;
  texts.push({ x: LEFT, y: bottom, text: `step ${page.steps[0].number ?? 0}` });
  if (columns > 12) texts.push({ x: LEFT + columns * cellWidth, y: bottom, text: String(page.steps.at(-1).number ?? page.steps.length - 1), align: "right" });
  return { height: bottom + 8, marks, texts };
}

function rankTable(page) {
  const rows = page.ranks.map((rank, place) => {
    const own = page.own_ns[place].filter(value => value >= 0).sort((a, b) => a - b);
    return { rank, steps: own.length, median: own[Math.floor(own.length / 2)] ?? null, longest: own.at(-1) ?? null,
      // Where all ranks take the same time, none is longest.
      led: page.steps.filter(step => step.longest_rank === rank && step.longest_own_ns > step.median_own_ns).length, isStraggler: page.stragglers.includes(rank) };
  });
  return table([
    { head: "Rank", value: row => row.rank, text: row => String(row.rank) },
    { head: "Steps", number: true, value: row => row.steps, text: row => count(row.steps) },
    { head: "Own time, median", number: true, value: row => row.median, text: row => time(row.median) },
    { head: "Longest", number: true, value: row => row.longest, text: row => time(row.longest) },
    { head: "Steps in which it is longest", number: true, value: row => row.led, text: row => count(row.led) },
    { head: "Straggler", value: row => row.isStraggler ? 1 : 0, text: row => row.isStraggler ? "yes" : "" },
  ], rows, { noun: "ranks", sort: 2 });
}
