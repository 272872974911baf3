// The theme and the tooltips that all charts share.
"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const order = ["system", "light", "dark"];
  // Storage is forbidden to pages opened from disk in some browsers; the choice then lasts as long as the page.
  const stored = () => { try { return localStorage.getItem("llmprof-theme"); } catch { return null; } };
  const store = (value) => { try { localStorage.setItem("llmprof-theme", value); } catch { /* see above */ } };
  const apply = (theme) => {
    if (theme === "system") delete root.dataset.theme; else root.dataset.theme = theme;
    button.textContent = "theme: " + theme;
    document.dispatchEvent(new Event("themechange"));
  };
  let theme = order.includes(stored()) ? stored() : "system";
  button.addEventListener("click", () => {
    theme = order[(order.indexOf(theme) + 1) % order.length];
    store(theme);
    apply(theme);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => apply(theme));
  apply(theme);

  const tip = document.getElementById("tip");
  const llmprof = window.llmprof = {
    showTip(text, x, y) {
      if (tip.textContent !== text) tip.textContent = text;
      tip.hidden = false;
      const { width, height } = tip.getBoundingClientRect();
      tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - width - 8)) + "px";
      tip.style.top = (y + 18 + height > innerHeight ? Math.max(4, y - height - 10) : y + 18) + "px";
    },
    hideTip() { tip.hidden = true; },
  };
  // The browser's own tooltips come late and cannot be styled: take their text, keep it for screen readers.
  for (const title of document.querySelectorAll("svg.chart title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.parentNode.setAttribute("aria-label", title.textContent);
    title.remove();
  }
  document.addEventListener("pointermove", (event) => {
    if (event.target.tagName === "CANVAS") return;
    const mark = event.target.closest && event.target.closest("[data-tip]");
    if (mark) llmprof.showTip(mark.dataset.tip, event.clientX, event.clientY); else llmprof.hideTip();
  });
  document.addEventListener("scroll", llmprof.hideTip, { passive: true });
})();
