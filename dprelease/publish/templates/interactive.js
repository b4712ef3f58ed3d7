"use strict";
// Search and sorting of tables. The page is complete without it: every row is there, in its published order.
// Its words, and how numbers are written, stand on the tables: one script is right in every language.
const language = document.documentElement.lang;
for (const first of document.querySelectorAll("table.estimates[data-table]")) {
  const { table: name, find, count, point, group } = first.dataset;
  const tables = [...document.querySelectorAll("table.estimates[data-table]")].filter((each) => each.dataset.table === name);
  if (tables[0] !== first) continue; // parts of one table are moved together
  const bodies = tables.map((each) => each.tBodies[0]);
  const rows = [...bodies[0].rows].map((row, at) => ({
    at, parts: bodies.map((body) => body.rows[at]),
    words: [...row.querySelectorAll("th")].map((cell) => cell.textContent).join(" ").toLocaleLowerCase(language),
  }));
  if (rows.length < 2) continue;
  const status = document.createElement("span");
  status.setAttribute("role", "status");
  const label = document.createElement("label");
  const field = document.createElement("input");
  field.type = "search";
  label.append(`${find} `, field);
  const box = document.createElement("p");
  box.className = "find";
  box.append(label, " ", status);
  first.closest(".scroll").before(box);
  const amount = (whole) => String(whole).replace(/\B(?=(?:\d{3})+$)/g, group);
  const said = () => {
    const shown = rows.filter((row) => !row.parts[0].hidden).length;
    const told = { "{shown}": amount(shown), "{all}": amount(rows.length) };
    status.textContent = shown === rows.length ? "" : count.replace(/\{(?:shown|all)\}/g, (place) => told[place]);
  };
  field.addEventListener("input", () => {
    const wanted = field.value.trim().toLocaleLowerCase(language);
    for (const row of rows) for (const part of row.parts) part.hidden = !row.words.includes(wanted);
    said();
  });
  const number = (cell) => {
    const text = cell.querySelector("b")?.textContent;
    return text === undefined ? NaN : Number(text.replaceAll(group, "").replace(point, ".").replace("\u2212", "-"));
  };
  const heads = [];
  tables.forEach((table, part) => {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      heads.push(head);
      button.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const after = before === null ? "ascending" : before === "ascending" ? "descending" : null;
        for (const each of heads) each.removeAttribute("aria-sort");
        if (after) head.setAttribute("aria-sort", after);
        const cell = (row) => row.parts[part].cells[column];
        const sign = after === "descending" ? -1 : 1;
        const order = [...rows].sort((one, other) => {
          if (!after) return one.at - other.at;
          if (cell(one).tagName === "TH") {
            return sign * cell(one).textContent.localeCompare(cell(other).textContent, language, { numeric: true });
          }
          const [a, b] = [number(cell(one)), number(cell(other))];
          if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b) || one.at - other.at;
          return sign * (a - b) || one.at - other.at;
        });
        bodies.forEach((body, at) => body.append(...order.map((row) => row.parts[at])));
      });
    });
  });
}
