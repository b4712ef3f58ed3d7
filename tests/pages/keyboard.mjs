// Walks through the tables of a page by the keyboard alone, and prints what is then there: one line of JSON.
//
//   node tests/pages/keyboard.mjs PAGE.html STEP...
//
// A step is a key (Tab, Enter, Space) with `*N` behind it where it is pressed N times, or `=text`, which is typed.

import { closed, evaluate, opened, send, visit } from "./browser.mjs";

const [page, ...steps] = process.argv.slice(2);
const KEYS = { Tab: ["Tab", 9], Enter: ["Enter", 13, "\r"], Space: [" ", 32, " "] };

const SEEN = `(() => {
  const table = document.querySelector("table.estimates");
  const active = document.activeElement;
  return {
    focus: active.tagName.toLowerCase(), words: active.textContent.trim().slice(0, 40),
    outline: getComputedStyle(active).outlineStyle,
    rows: [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => row.cells[0].textContent.trim()),
    sorted: [...table.tHead.rows[0].cells].map((head) => head.getAttribute("aria-sort")),
    status: document.querySelector("[role=status]")?.textContent ?? null,
    buttons: document.querySelectorAll("thead button").length,
  };
})()`;

try {
  const session = await opened();
  await visit(session, page);
  const seen = [await evaluate(session, SEEN)];
  for (const step of steps) {
    if (step.startsWith("=")) {
      await send("Input.insertText", { text: step.slice(1) }, session);
    } else {
      const [name, times] = step.split("*");
      const [key, windowsVirtualKeyCode, text] = KEYS[name];
      for (let at = 0; at < Number(times ?? 1); at += 1) {
        const event = { key, code: name, windowsVirtualKeyCode };
        await send("Input.dispatchKeyEvent", { type: "keyDown", ...event, ...(text ? { text } : {}) }, session);
        await send("Input.dispatchKeyEvent", { type: "keyUp", ...event }, session);
      }
    }
    seen.push(await evaluate(session, SEEN));
  }
  console.log(JSON.stringify(seen));
} finally {
  await closed();
}
