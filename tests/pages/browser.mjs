// An installed Chromium by the remote debugging protocol over two pipes: messages are JSON, each ended by a NUL.
// No WebSocket is needed. CHROMIUM names another one than `chromium`.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const profile = mkdtempSync(join(tmpdir(), "axe-"));
const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", `--user-data-dir=${profile}`];
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

export const heard = (key) => new Promise((resolve, reject) => waiting.set(key, { resolve, reject }));

export function send(method, params = {}, sessionId = undefined) {
  number += 1;
  toBrowser.write(`${JSON.stringify({ id: number, method, params, sessionId })}\0`);
  return heard(number);
}

export async function evaluate(session, expression) {
  const found = await send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true }, session);
  if (found.exceptionDetails) throw new Error(found.exceptionDetails.exception?.description ?? found.exceptionDetails.text);
  return found.result.value;
}

export async function opened() {
  const { targetId } = await send("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
  await send("Page.enable", {}, sessionId);
  return sessionId;
}

export async function visit(session, page) {
  const loaded = heard("Page.loadEventFired");
  await send("Page.navigate", { url: pathToFileURL(resolve(page)).href }, session);
  await loaded;
}

export async function closed() {
  await send("Browser.close").catch(() => browser.kill());
  await new Promise((ended) => (browser.exitCode === null ? browser.on("exit", ended) : ended()));
  rmSync(profile, { recursive: true, force: true });
}
