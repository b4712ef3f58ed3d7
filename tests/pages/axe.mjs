// Runs axe-core over pages, wide and narrow, light and dark, and measures whether a page scrolls sideways.
//
//   npm install --prefix DIR axe-core
//   node tests/pages/axe.mjs DIR/node_modules/axe-core/axe.min.js PAGE.html...
//
// Needs Node 18 or later and an installed Chromium (CHROMIUM names another one than `chromium`). One line of JSON for
// each page and setting; it ends with 1 where a violation is serious or critical, or a page scrolls sideways.

import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [axePath, ...pages] = process.argv.slice(2);
if (!axePath || pages.length === 0) {
  console.error("usage: node axe.mjs AXE.min.js PAGE.html...");
  process.exit(2);
}
const axe = readFileSync(axePath, "utf8");
const profile = mkdtempSync(join(tmpdir(), "axe-"));
const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", `--user-data-dir=${profile}`];
// The remote debugging protocol over two pipes: messages are JSON, each ended by a NUL. No WebSocket is needed.
const browser = spawn(process.env.CHROMIUM ?? "chromium", flags, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
const [, , , toBrowser, fromBrowser] = browser.stdio;
const waiting = new Map();
let number = 0;
let rest = "";
fromBrowser.setEncoding("utf8").on("data", (text) => {
  const messages = (rest + text).split("\0");
  rest = messages.pop();
  for (const each of messages.map((message) => JSON.parse(message))) {
    const found = waiting.get(each.id ?? each.method);
    if (!found) continue;
    waiting.delete(each.id ?? each.method);
    each.error ? found.reject(new Error(each.error.message)) : found.resolve(each.result ?? each.params);
  }
});

const heard = (key) => new Promise((resolve, reject) => waiting.set(key, { resolve, reject }));

function send(method, params = {}, sessionId = undefined) {
  number += 1;
  toBrowser.write(`${JSON.stringify({ id: number, method, params, sessionId })}\0`);
  return heard(number);
}

async function evaluate(session, expression) {
  const found = await send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true }, session);
  if (found.exceptionDetails) throw new Error(found.exceptionDetails.exception?.description ?? found.exceptionDetails.text);
  return found.result.value;
}

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
  const loaded = heard("Page.loadEventFired");
  await send("Page.navigate", { url: pathToFileURL(resolve(page)).href }, session);
  await loaded;
  const dark = await evaluate(session, 'matchMedia("(prefers-color-scheme: dark)").matches');
  if (dark !== (scheme === "dark")) throw new Error(`the browser would not show ${scheme}`);
  const sideways = await evaluate(session, SIDEWAYS);
  await evaluate(session, axe + ";0");
  return { page, width, scheme, sideways, ...(await evaluate(session, RUN)) };
}

let bad = 0;
try {
  const { targetId } = await send("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
  await send("Page.enable", {}, sessionId);
  for (const page of pages) {
    for (const [width, scheme] of [[1440, "light"], [1440, "dark"], [390, "light"]]) {
      const found = await look(sessionId, page, width, scheme);
      console.log(JSON.stringify(found));
      bad += found.violations.filter((each) => ["serious", "critical"].includes(each.impact)).length;
      bad += found.sideways > 0 ? 1 : 0;
    }
  }
} finally {
  await send("Browser.close").catch(() => browser.kill());
  await new Promise((ended) => (browser.exitCode === null ? browser.on("exit", ended) : ended()));
  rmSync(profile, { recursive: true, force: true });
}
process.exit(bad ? 1 : 0);
