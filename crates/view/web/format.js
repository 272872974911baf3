// Numbers as people read them, and elements without markup: text from a trace is never parsed as HTML.

/** Nanoseconds with the unit that suits them. */
export function time(ns) {
  if (ns === null || ns === undefined || Number.isNaN(ns)) return "–";
  const size = Math.abs(ns);
  if (size < 1e3) return `${trim(ns, 1)} ns`;
  if (size < 1e6) return `${trim(ns / 1e3, 2)} µs`;
  if (size < 1e9) return `${trim(ns / 1e6, 3)} ms`;
  return `${trim(ns / 1e9, 4)} s`;
}

function trim(value, digits) {
  return Number(value.toFixed(digits)).toLocaleString("en-US", { maximumFractionDigits: digits });
}

export function count(value) {
  return value === null || value === undefined ? "–" : value.toLocaleString("en-US");
}

export function percent(part, whole) {
  return whole > 0 ? `${(100 * part / whole).toFixed(1)} %` : "–";
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
  return `${trim(value, 2)} ${units[unit]}`;
}

/** Smallest and largest with the percentiles between them; those that need more values than there are are left out. */
export function spread(values) {
  const parts = ["min", "p50", "p90", "p99", "max"].map(name => [name, values[`${name}_ns`]]);
  return parts.filter(([, value]) => value !== null).map(([name, value]) => `${name} ${time(value)}`).join(", ");
}

/** A value of a counter with its unit. */
export function amount(value, unit) {
  if (unit === "bytes") return bytes(value);
  if (unit === "Hz") return `${trim(value / 1e9, 3)} GHz`;
  return unit ? `${trim(value, 1)} ${unit}` : count(value);
}

/** A value of the details by its key, which carries the unit. */
export function fact(key, value) {
  if (typeof value === "number") {
    if (key.endsWith("_ns")) return time(value);
    if (key.endsWith("_bytes_per_s")) return `${bytes(value)}/s`;
    if (key.endsWith("bytes")) return bytes(value);
    if (key.endsWith("_percent")) return `${value.toFixed(1)} %`;
    return count(value);
  }
  if (Array.isArray(value)) return value.join("\n");
  if (value && typeof value === "object") return Object.entries(value).map(([name, part]) => `${name} ${fact(key, part)}`).join(", ");
  return String(value);
}

/** The words of a key without its unit. */
export function words(key) {
  return key.replace(/_(ns|bytes_per_s|percent)$/, "").replace(/_bytes$/, "").replaceAll("_", " ");
}

/** An element: `el("td", {class: "number"}, "3")`. Properties that are functions are listeners. */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

/** Running text with the two marks that documents use, `code` and **strong**; a mark without its partner stays as it is. */
export function prose(text) {
  const paired = (part, mark) => {
    const pieces = part.split(mark);
    if (pieces.length % 2 === 0) {
      const last = pieces.pop();
      pieces[pieces.length - 1] += mark + last;
    }
    return pieces;
  };
  return paired(text, "`").map((piece, index) => index % 2 ? el("code", {}, piece)
    : paired(piece, "**").map((part, place) => place % 2 ? el("strong", {}, part) : part));
}
