"use strict";
// Everything here adds to a page that is whole without it.
for (const box of document.querySelectorAll(".table")) {
  const table = box.querySelector("table"), body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, at) => {
    const cell = row.cells[at];
    if (cell.dataset.v === undefined) return cell.textContent;
    return cell.dataset.v === "" ? Infinity : Number(cell.dataset.v);
  };
  const sort = (at) => {
    const down = heads[at].getAttribute("aria-sort") === "ascending";
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[at].setAttribute("aria-sort", down ? "descending" : "ascending");
    const order = (a, b) => {
      const x = key(a, at), y = key(b, at);
      // What is not known stays at the end, whichever way the rest is sorted.
      if (x === Infinity || y === Infinity) return (x === Infinity) - (y === Infinity);
      const compared = typeof x === "number" && typeof y === "number" ? x - y
        : String(x).localeCompare(String(y), "en", { numeric: true });
      return down ? -compared : compared;
    };
    body.append(...[...body.rows].sort(order));
  };
  heads.forEach((head, at) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(at));
    head.replaceChildren(button);
  });
  if (body.rows.length < 6) continue;
  const label = document.createElement("label"), input = document.createElement("input");
  label.className = "filter";
  label.append("Show only rows with ", input);
  input.type = "search";
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase().split(/\s+/);
    for (const row of body.rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !wanted.every((word) => text.includes(word));
    }
  });
  box.before(label);
}
for (const figure of document.querySelectorAll("figure")) {
  const out = figure.querySelector("output"), drawing = figure.querySelector(".drawing");
  const marks = [...figure.querySelectorAll("svg rect, svg circle")].filter((mark) => mark.querySelector("title") && !mark.closest(".legend"));
  let chosen = -1;
  const show = (at) => {
    if (marks[chosen]) marks[chosen].classList.remove("chosen");
    chosen = at;
    if (!marks[at]) return;
    marks[at].classList.add("chosen");
    out.textContent = marks[at].querySelector("title").textContent;
  };
  if (marks.length) drawing.setAttribute("aria-label", drawing.getAttribute("aria-label") + ". Arrow keys go from value to value.");
  marks.forEach((mark, at) => mark.addEventListener("pointerenter", () => show(at)));
  drawing.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !marks.length) return;
    event.preventDefault();
    show((chosen + step + marks.length) % marks.length);
  });
}
const theme = document.getElementById("theme");
theme.hidden = false;
theme.addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
const save = document.getElementById("save");
save.hidden = false;
save.addEventListener("click", () => {
  const data = document.getElementById("report-data").textContent;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([data], { type: "application/json" }));
  link.download = "report-data.json";
  link.click();
});
