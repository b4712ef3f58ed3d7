// The page itself. A bundle is not trusted: whatever it says becomes text, and never markup.
const KEYS = JSON.parse(document.getElementById("known-keys").textContent);
const $ = (id) => document.getElementById(id);
const SENTENCES = {
  PASS: (name) => `These are the files that ${name} signed, and what can be worked out here of their loss is as they say.`,
  FAIL: () => "Do not rely on these files: something in them is not as it was published.",
  UNSIGNED: () => "These files agree with one another, and nobody signed them: they show nothing of who made them.",
};

function show(result) {
  const line = document.createElement("li"), word = document.createElement("b");
  line.className = result.ok === true ? "ok" : result.ok === false ? "bad" : "open";
  word.textContent = result.ok === true ? "Holds" : result.ok === false ? "Fails" : "Not checked";
  line.append(word, ` ${result.what}${result.detail ? `: ${result.detail}` : ""}`);
  $("checks").append(line);
}

function conclude(found, sentence) {
  $("verdict").textContent = sentence;
  $("verdict").className = found;
  document.documentElement.dataset.verdict = found;
}

async function check(files) {
  $("checks").replaceChildren();
  delete document.documentElement.dataset.verdict;
  $("verdict").className = "";
  $("verdict").textContent = `Checking ${files.size} files…`;
  try {
    const results = await verify(files, KEYS, show);
    const signer = results.find((each) => each.what === "the signer is one that this page knows");
    const found = verdict(results);
    conclude(found, SENTENCES[found](signer ? signer.detail : ""));
  } catch (error) {
    conclude("FAIL", `This folder could not be checked: ${error.message}`);
  }
}

// Paths below the folder of the bundle: the folder itself has another name on every computer.
function inside(paths) {
  const tops = new Set(paths.map((path) => path.split("/")[0]));
  const nested = tops.size === 1 && paths.every((path) => path.includes("/"));
  return (path) => (nested ? path.slice(path.indexOf("/") + 1) : path);
}
function gathered(found) {
  const rest = inside(found.map(([path]) => path));
  return new Map(found.map(([path, file]) => [rest(path), file]));
}

async function walk(entry, path) {
  if (entry.isFile) return [[path, await new Promise((done, failed) => entry.file(done, failed))]];
  const reader = entry.createReader(), all = [];
  for (;;) { // a browser gives a hundred entries at a time
    const some = await new Promise((done, failed) => reader.readEntries(done, failed));
    if (!some.length) return all;
    for (const each of some) all.push(...(await walk(each, `${path}/${each.name}`)));
  }
}

$("folder").addEventListener("change", (event) => {
  check(gathered(Array.from(event.target.files, (file) => [file.webkitRelativePath || file.name, file])));
});
const stop = (event) => event.preventDefault();
document.addEventListener("dragover", stop);
document.addEventListener("drop", async (event) => {
  event.preventDefault();
  const entries = Array.from(event.dataTransfer.items, (item) => item.webkitGetAsEntry()).filter(Boolean);
  const found = [];
  for (const entry of entries) found.push(...(await walk(entry, entry.name)));
  check(gathered(found));
});
if (!globalThis.crypto?.subtle) conclude("FAIL", "Open this page by https, or as a file: a browser computes no hashes on any other page.");
const KNOWN = KEYS.map((each) => `${each.name}: ${each.key}`);
for (const text of KNOWN.length ? KNOWN : ["none: no signature can hold on this page."]) {
  const line = document.createElement("li");
  line.textContent = text;
  $("keys").append(line);
}
document.documentElement.dataset.ready = "yes";
