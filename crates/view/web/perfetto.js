// The timeline in a Perfetto UI: another page gets the trace, so a person is asked first.

import { el } from "./format.js";

const ADDRESS_KEPT = "llmprof-perfetto";
const PUBLIC_ADDRESS = "https://ui.perfetto.dev";
const PING_MS = 200;
/** A first visit loads some 20 MB. */
const PATIENCE_MS = 120_000;

/** A dialog that says what will happen; `say(text)` tells how it goes on. */
export function perfettoDialog(run, say) {
  const address = el("input", { type: "url", size: "34", value: localStorage.getItem(ADDRESS_KEPT) ?? PUBLIC_ADDRESS, "aria-label": "address of the Perfetto UI" });
  const wrong = el("p", { class: "bad", role: "alert" });
  const open = () => {
    const target = readAddress(address.value);
    if (!target) { wrong.textContent = "An address begins with http:// or https://."; return; }
    localStorage.setItem(ADDRESS_KEPT, address.value);
    dialog.close();
    handOver(run, target, say);
  };
  const dialog = el("dialog", { class: "perfetto", close: () => dialog.remove() }, el("h2", {}, "Open in Perfetto"),
    el("p", {}, "Opens the page at this address in another tab and hands the trace of this run to it, inside this browser. The page is not part of llmprof: the public one is loaded from the internet. An own copy of the UI works as well."),
    el("p", {}, address), wrong,
    el("p", {}, el("button", { type: "button", click: open }, "Open"), " ", el("a", { href: `${run.base}trace.pftrace`, download: "trace.pftrace" }, "Download the file instead"), " ", el("button", { type: "button", click: () => dialog.close() }, "Cancel")));
  document.body.append(dialog);
  dialog.showModal();
}

function readAddress(text) {
  const target = URL.canParse(text) ? new URL(text) : null;
  return target && /^https?:$/.test(target.protocol) ? target : null;
}

/** The tab answers PING when its page is ready: what Perfetto's page expects of those that open it. */
async function handOver(run, target, say) {
  const tab = window.open(target.href);
  if (!tab) { say("the browser did not open a tab: allow pop-ups for this page"); return; }
  const ready = new Promise((done, fail) => {
    const began = performance.now();
    const timer = setInterval(() => {
      if (performance.now() - began > PATIENCE_MS) finish(() => fail(new Error(`no Perfetto UI answers at ${target.origin}`)));
      else tab.postMessage("PING", target.origin);
    }, PING_MS);
    const listen = event => { if (event.origin === target.origin && event.source === tab && event.data === "PONG") finish(done); };
    const finish = act => { clearInterval(timer); removeEventListener("message", listen); act(); };
    addEventListener("message", listen);
  });
  try {
    const [buffer] = await Promise.all([run.binary("trace.pftrace"), ready]);
    tab.postMessage({ perfetto: { buffer, title: run.lanes.title ?? "llmprof", keepApiOpen: false } }, target.origin, [buffer]);
    say("");
  } catch (error) {
    say(error.message);
  }
}
