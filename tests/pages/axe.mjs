// Runs axe-core over pages, wide and narrow, light and dark, and measures whether a page scrolls sideways.
//
//   npm install --prefix DIR axe-core
//   node tests/pages/axe.mjs DIR/node_modules/axe-core/axe.min.js PAGE.html...
//
// Needs Node 18 or later and an installed Chromium (CHROMIUM names another one than `chromium`). One line of JSON for
// each page and setting; it ends with 1 where a violation is serious or critical, or a page scrolls sideways.

import { readFileSync } from "node:fs";

import { closed, evaluate, opened, send, visit } from "./browser.mjs";

const [axePath, ...pages] = process.argv.slice(2);
if (!axePath || pages.length === 0) {
  console.error("usage: node axe.mjs AXE.min.js PAGE.html...");
  process.exit(2);
}
const axe = readFileSync(axePath, "utf8");
const RUN = `axe.run(document, {resultTypes: ["violations", "incomplete"]}).then((found) => ({
  violations: found.violations.map((each) => ({id: each.id, impact: each.impact, help: each.help,
    nodes: each.nodes.length, first: each.nodes[0].html.slice(0, 200)})),
  incomplete: found.incomplete.map((each) => each.id),
  passes: found.passes.length,
}))`;
const SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth";

async function look(session, page, width, scheme) {
  const screen = { width, height: 900, deviceScaleFactor: 1, mobile: width < 500 };
  await send("Emulation.setDeviceMetricsOverride", screen, session);
  await send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] }, session);
  await visit(session, page);
  const dark = await evaluate(session, 'matchMedia("(prefers-color-scheme: dark)").matches');
  if (dark !== (scheme === "dark")) throw new Error(`the browser would not show ${scheme}`);
  const sideways = await evaluate(session, SIDEWAYS);
  await evaluate(session, axe + ";0");
  return { page, width, scheme, sideways, ...(await evaluate(session, RUN)) };
}

let bad = 0;
try {
  const sessionId = await opened();
  for (const page of pages) {
    for (const [width, scheme] of [[1440, "light"], [1440, "dark"], [390, "light"]]) {
      const found = await look(sessionId, page, width, scheme);
      console.log(JSON.stringify(found));
      bad += found.violations.filter((each) => ["serious", "critical"].includes(each.impact)).length;
      bad += found.sideways > 0 ? 1 : 0;
    }
  }
} finally {
  await closed();
}
process.exit(bad ? 1 : 0);
