// Filters of the roofline: phases, kinds, and which device figures the roofs come from.
"use strict";
for (const figure of document.querySelectorAll("figure.roofline")) {
  // The chart is there twice, for wide and narrow windows: one of them counts.
  const points = [...figure.querySelectorAll(".point")];
  const counted = points.filter((point) => point.closest(".wide"));
  const roofs = [...figure.querySelectorAll(".roofs")];
  const boxes = [...figure.querySelectorAll("[data-filter]")];
  const output = figure.querySelector("output");
  const apply = () => {
    const off = (name, value) => boxes.some((box) => box.dataset.filter === name && box.value === value && !box.checked);
    for (const point of points) {
      point.classList.toggle("hidden", off("phase", point.dataset.phase) || off("kind", point.dataset.kind));
    }
    const shown = counted.filter((point) => !point.classList.contains("hidden")).length;
    const basis = figure.querySelector(".basis:checked");
    for (const roof of roofs) roof.classList.toggle("hidden", Boolean(basis && basis.value && basis.value !== roof.dataset.basis));
    output.textContent = shown === counted.length ? `${shown} point${shown === 1 ? "" : "s"}` : `${shown} of ${counted.length} points`;
  };
  figure.addEventListener("change", apply);
  apply();
}
