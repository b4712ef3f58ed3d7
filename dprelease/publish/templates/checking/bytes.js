// Bytes, hashes, and JSON as it must be written: one text has one value, and one value one text.
const utf8 = (s) => new TextEncoder().encode(s);
const hex = (b) => Array.from(new Uint8Array(b), (x) => x.toString(16).padStart(2, "0")).join("");
const same = (a, b) => a.length === b.length && a.every((x, i) => x === b[i]);
const joined = (...parts) => {
  const all = new Uint8Array(parts.reduce((n, each) => n + each.length, 0));
  let at = 0;
  for (const each of parts) { all.set(each, at); at += each.length; }
  return all;
};
const sha256 = async (b) => hex(await crypto.subtle.digest("SHA-256", b));
const sha512 = async (b) => new Uint8Array(await crypto.subtle.digest("SHA-512", b));

function base64(text) { // the one spelling alone
  const raw = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  if (toBase64(raw) !== text) throw refusal("base64 in another spelling than its own");
  return raw;
}
function toBase64(raw) {
  let text = "";
  for (let i = 0; i < raw.length; i += 0x3000) text += btoa(String.fromCharCode(...raw.subarray(i, i + 0x3000)));
  return text;
}

// A byte order mark stays, and is then no canonical JSON; what is no UTF-8 is an error.
const decoded = (b) => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(b);
const byCodePoint = (a, b) => { // the order of Python's texts; that of JavaScript is by halves of code points
  const x = Array.from(a), y = Array.from(b);
  for (let i = 0; i < Math.min(x.length, y.length); i += 1) {
    if (x[i] !== y[i]) return x[i].codePointAt(0) - y[i].codePointAt(0);
  }
  return x.length - y.length;
};
function canonical(v) { // sorted keys, no spaces, whole numbers; a name that stands twice is lost, and so is seen
  if (v === null || typeof v === "boolean") return String(v);
  if (typeof v === "string") return JSON.stringify(v);
  if (typeof v === "number") {
    if (!Number.isSafeInteger(v) || Object.is(v, -0)) throw refusal("a number that is no whole number below 2^53");
    return String(v);
  }
  if (Array.isArray(v)) return `[${v.map(canonical).join(",")}]`;
  return `{${Object.keys(v).sort(byCodePoint).map((k) => `${JSON.stringify(k)}:${canonical(v[k])}`).join(",")}}`;
}
