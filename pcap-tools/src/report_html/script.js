"use strict";
// What is under the pointer, and which marks are drawn. The page says everything without it.
const units = {
  count: (n) => n.toFixed(0),
  share: (n) => n.toFixed(3),
  time: (n) => scaled(n, ["ns", "us", "ms", "s"]),
  rate: (n) => scaled(n, ["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"]),
};
function scaled(n, names) {
  let at = 0;
  while (Math.abs(n) >= 1000 && at < names.length - 1) { n /= 1000; at += 1; }
  return `${n.toFixed(at ? 3 : 0)} ${names[at]}`;
}
function value(text, place) {
  const [from, to, start, end, unit] = text.split(",");
  const share = (place - start) / (end - start);
  if (!units[unit] || share < 0 || share > 1) return null;
  return units[unit](Number(from) + share * (to - from));
}
for (const svg of document.querySelectorAll("svg[data-x]")) {
  const readout = document.createElement("div");
  readout.className = "readout";
  svg.parentNode.after(readout);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    const x = value(svg.dataset.x, (event.clientX - box.left) * scale);
    const y = value(svg.dataset.y, (event.clientY - box.top) * scale);
    readout.textContent = x && y ? `${x}, ${y}` : "";
  });
  svg.addEventListener("pointerleave", () => { readout.textContent = ""; });
}
for (const box of document.querySelectorAll("input[data-mark]")) {
  box.addEventListener("change", () => {
    const paths = box.closest("figure").querySelectorAll(`path.${box.dataset.mark}`);
    for (const path of paths) path.style.display = box.checked ? "" : "none";
  });
}
