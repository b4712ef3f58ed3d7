// The page itself. A bundle is not trusted: whatever it says becomes text, and never markup.
const KEYS = JSON.parse(document.getElementById("known-keys").textContent);
const $ = (id) => document.getElementById(id);
const WORDS = JSON.parse(document.getElementById("words").textContent); // by language, then by the English sentence
const STILL = Array.from(document.querySelectorAll("[data-said]"), (place) => [place, say(place.textContent)]);
const SENTENCES = {
  PASS: (name) => say("These are the files that {name} signed, and what can be worked out here of their loss is as they say.", { name }),
  FAIL: () => say("Do not rely on these files: something in them is not as it was published."),
  UNSIGNED: () => say("These files agree with one another, and nobody signed them: they show nothing of who made them."),
};
const KINDS = { true: ["ok", say("Holds")], false: ["bad", say("Fails")], null: ["open", say("Not checked")] };
const shown = { language: "en", results: [], sentence: "" };
const inLanguage = (said) => spoken(said, Object.hasOwn(WORDS, shown.language) ? WORDS[shown.language] : {});

// What stands between ` and ` is what somebody types.
function put(place, said) {
  place.replaceChildren(...inLanguage(said).split("`").map((text, at) => {
    if (at % 2 === 0) return text;
    const code = document.createElement("code");
    code.textContent = text;
    return code;
  }));
}

function show(result) {
  const line = document.createElement("li"), word = document.createElement("b"), rest = document.createElement("span");
  const [kind, said] = KINDS[result.ok], detail = inLanguage(result.detail);
  line.className = kind;
  word.textContent = inLanguage(said);
  put(rest, detail ? say("{what}: {detail}", { what: result.what, detail }) : result.what);
  line.append(word, " ", rest);
  $("checks").append(line);
}
function found(result) { shown.results.push(result); show(result); }

function tell(sentence) { shown.sentence = sentence; put($("verdict"), sentence); }
function conclude(verdict, sentence) {
  tell(sentence);
  $("verdict").className = verdict;
  document.documentElement.dataset.verdict = verdict;
}

function speak(tag) {
  shown.language = tag;
  document.documentElement.lang = tag;
  for (const button of document.querySelectorAll("[data-tag]")) button.setAttribute("aria-pressed", String(button.dataset.tag === tag));
  for (const [place, said] of STILL) put(place, said);
  document.title = inLanguage(STILL[0][1]);
  put($("verdict"), shown.sentence);
  $("checks").replaceChildren();
  shown.results.forEach(show);
  listKeys();
}

async function check(files) {
  shown.results = [];
  $("checks").replaceChildren();
  delete document.documentElement.dataset.verdict;
  $("verdict").className = "";
  tell(say("Checking {count} files…", { count: files.size }));
  try {
    const results = await verify(files, KEYS, found), of = verdict(results);
    conclude(of, SENTENCES[of](results.signer));
  } catch (error) {
    conclude("FAIL", say("This folder could not be checked: {why}", { why: reason(error) }));
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

$("folder").webkitdirectory = true; // an attribute of every browser, which no standard of HTML has
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
function listKeys() {
  const known = KEYS.map((each) => `${each.name}: ${each.key}`);
  $("keys").replaceChildren();
  for (const said of known.length ? known : [say("none: no signature can hold on this page.")]) {
    const line = document.createElement("li");
    put(line, said);
    $("keys").append(line);
  }
}
for (const button of document.querySelectorAll("[data-tag]")) button.addEventListener("click", () => speak(button.dataset.tag));
const WANTED = navigator.languages.map((each) => each.split("-")[0].toLowerCase());
speak(WANTED.find((tag) => tag === "en" || Object.hasOwn(WORDS, tag)) || "en");
if (!globalThis.crypto?.subtle) conclude("FAIL", say("Open this page by https, or as a file: a browser computes no hashes on any other page."));
document.documentElement.dataset.ready = "yes";
