// Prints a page as PDF once for each height that a first block of it is given, so that its tables meet the ends of sheets elsewhere.
//
//   node tests/pages/paper.mjs PAGE.html FOLDER CSS MILLIMETRES...
//
// Every cell begins and ends with a mark, S or E with the numbers of its table and row, so that the sheets can be asked
// whether a row is on two of them.

import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { closed, evaluate, opened, send, visit } from "./browser.mjs";

const [page, folder, css, ...heights] = process.argv.slice(2);
const MARKED = `(() => {
  const style = document.head.appendChild(document.createElement("style"));
  style.textContent = ${JSON.stringify(css)};
  const mark = (text) => Object.assign(document.createElement("span"), { textContent: text, style: "font: 1px monospace" });
  [...document.querySelectorAll("table")].forEach((table, at) => [...table.tBodies[0].rows].forEach((row, line) =>
    [...row.cells].forEach((cell) => {
      cell.prepend(mark("QS" + at + "x" + line + "Q "));
      cell.append(mark(" QE" + at + "x" + line + "Q"));
    })));
  const first = document.createElement("div");
  first.id = "first";
  document.querySelector("main").prepend(first);
})()`;

try {
  const session = await opened();
  await visit(session, page);
  await evaluate(session, MARKED);
  for (const height of heights) {
    await evaluate(session, `document.getElementById("first").style.height = "${height}mm"`);
    const { data } = await send("Page.printToPDF", { preferCSSPageSize: true, printBackground: true }, session);
    writeFileSync(join(folder, `${height}.pdf`), Buffer.from(data, "base64"));
  }
} finally {
  await closed();
}
