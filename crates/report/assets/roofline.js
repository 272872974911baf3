// Filters of the roofline: phases, kinds, and which device figures the roofs come from.
"use strict";
for (const figure of document.querySelectorAll("figure.roofline")) {
  const points = [...figure.querySelectorAll(".point")];
  const roofs = [...figure.querySelectorAll(".roofs")];
  const boxes = [...figure.querySelectorAll("[data-filter]")];
  const output = figure.querySelector("output");
  const apply = () => {
    const off = (name, value) => boxes.some((box) => box.dataset.filter === name && box.value === value && !box.checked);
    let shown = 0;
    for (const point of points) {
      const hide = off("phase", point.dataset.phase) || off("kind", point.dataset.kind);
      point.classList.toggle("hidden", hide);
      shown += !hide;
    }
    const basis = figure.querySelector(".basis:checked");
    for (const roof of roofs) roof.classList.toggle("hidden", Boolean(basis && basis.value && basis.value !== roof.dataset.basis));
    output.textContent = shown === points.length ? `${shown} points` : `${shown} of ${points.length} points`;
  };
  figure.addEventListener("change", apply);
  apply();
}
