// The checks, in the order in which they are shown. Each says what holds or fails, and which file it is about.
const MANIFEST = "manifest.json", SIGNATURE = "manifest.sig", SUMS = "SHA256SUMS", SUMS_SIGNATURE = "SHA256SUMS.sig";
const PAYLOAD_TYPE = "application/vnd.in-toto+json";
const OF_SYSTEMS = /(^|\/)(\.DS_Store|Thumbs\.db|desktop\.ini)$/; // put into folders by file managers
const MOST_BYTES = 2 ** 31 - 1; // of one buffer of a browser

class Checked {
  constructor(files, say) { this.files = files; this.say = say; this.results = []; this.found = Object.create(null); }
  put(ok, what, detail = []) {
    const result = { ok, what, detail };
    this.results.push(result);
    this.say(result);
    return ok;
  }
  async bytes(path) {
    const file = this.files.get(path);
    if (!file) throw refusal("{path} is missing", { path });
    if (file.size > MOST_BYTES) throw refusal("{path} has over 2 GB, which a browser cannot hold: use `dprelease verify`", { path });
    return new Uint8Array(await file.arrayBuffer());
  }
  async json(path) { return JSON.parse(decoded(await this.bytes(path))); }
}

async function readManifest(all) {
  try {
    const raw = await all.bytes(MANIFEST), text = decoded(raw), manifest = JSON.parse(text);
    if (manifest === null || typeof manifest.files !== "object" || manifest.files === null) throw refusal("it lists no files");
    if (!all.put(`${canonical(manifest)}\n` === text, say("{file} is in its one canonical form", { file: MANIFEST }))) return null;
    const names = [MANIFEST, SIGNATURE, ...Object.keys(manifest.files)].map((name) => name.toLowerCase());
    if (!all.put(new Set(names).size === names.length, say("{file} lists no two files whose names differ in capitals alone", { file: MANIFEST }))) return null;
    all.found[MANIFEST] = await sha256(raw);
    return manifest;
  } catch (error) {
    all.put(false, say("{file} can be read", { file: MANIFEST }), reason(error));
    return null;
  }
}

async function checkFiles(all, manifest) {
  const wrong = [], names = Object.keys(manifest.files);
  for (const path of names) {
    const said = manifest.files[path];
    if (!all.files.has(path)) { wrong.push(say("{path}: missing", { path })); continue; }
    const bytes = await all.bytes(path);
    all.found[path] = await sha256(bytes);
    if (bytes.length !== said.bytes || all.found[path] !== said.sha256) wrong.push(say("{path}: not the file that the manifest lists", { path }));
  }
  all.put(!wrong.length, say("all {count} files are those that the manifest lists", { count: names.length }), wrong);
  const beside = new Set([MANIFEST, ...(manifest.signature === SIGNATURE ? [SIGNATURE] : [])]);
  if (manifest.sums === SUMS) { beside.add(SUMS); if (manifest.signature === SIGNATURE) beside.add(SUMS_SIGNATURE); }
  const extra = [...all.files.keys()].filter((path) => !Object.hasOwn(manifest.files, path) && !beside.has(path) && !OF_SYSTEMS.test(path));
  all.put(!extra.length, say("no file is there that the manifest does not list"), extra.slice(0, 10));
}

function statement(all, manifest) {
  return canonical({
    _type: "https://in-toto.io/Statement/v1",
    predicateType: "https://dprelease.org/release/v1",
    subject: Object.keys(all.found).sort(byCodePoint).map((name) => ({ digest: { sha256: all.found[name] }, name })),
    predicate: {
      ledger: { hash: manifest.ledger.hash, sequence: manifest.ledger.sequence }, period: manifest.period,
      plan_fingerprint: manifest.plan_fingerprint, release: manifest.release, signer: manifest.signer,
      spec_fingerprint: manifest.spec_fingerprint,
    },
  });
}

// The bytes of the signer's key where the signature holds, else null.
async function checkSignature(all, manifest, keys) {
  if (manifest.signature !== SIGNATURE) {
    const quiet = manifest.signer === "" && !all.files.has(SIGNATURE);
    all.put(quiet ? null : false, say("signature"), quiet ? say("there is none: nothing shows who made these files") : say("the manifest says unsigned, beside a signer or a signature"));
    return null;
  }
  const known = keys.find((each) => each.key === manifest.signer);
  const told = known ? known.name : say("{file} names {signer}", { file: MANIFEST, signer: String(manifest.signer).slice(0, 80) });
  all.results.signer = known ? known.name : "";
  const ours = all.put(Boolean(known), say("the signer is one that this page knows"), told);
  try {
    const text = decoded(await all.bytes(SIGNATURE)), envelope = JSON.parse(text);
    if (`${canonical(envelope)}\n` !== text) throw refusal("it is not in its one canonical form");
    if (envelope.payloadType !== PAYLOAD_TYPE || envelope.signatures.length !== 1) throw refusal("it is not one signature of an in-toto statement");
    const payload = base64(envelope.payload), kind = utf8(PAYLOAD_TYPE);
    const key = base64(String(manifest.signer).replace(/^ed25519:/, ""));
    const message = joined(utf8(`DSSEv1 ${kind.length} `), kind, utf8(` ${payload.length} `), payload);
    const signed = await signedBy(key, base64(envelope.signatures[0].sig), message);
    const holds = all.put(signed.ok, say("{file} is a signature of that key", { file: SIGNATURE }), signed.how);
    const name = (await sha256(key)).slice(0, 16);
    const whole = all.put(
      same(utf8(statement(all, manifest)), payload) && envelope.signatures[0].keyid === name,
      say("what was signed is exactly these files, this release and this entry of the ledger"),
    );
    return ours && holds && whole ? key : null;
  } catch (error) {
    all.put(false, say("{file} can be read", { file: SIGNATURE }), reason(error));
    return null;
  }
}

// SHA256SUMS lists every file, the manifest and its signature too; its own signature is one of OpenSSH.
async function checkSums(all, manifest) {
  if (manifest.sums !== SUMS) return;
  try {
    const listed = Object.create(null);
    for (const name of [MANIFEST, SIGNATURE, ...Object.keys(manifest.files)]) {
      if (all.files.has(name)) listed[name] = all.found[name] || (await sha256(await all.bytes(name)));
    }
    const text = Object.keys(listed).sort(byCodePoint).map((name) => `${listed[name]}  ${name}\n`).join("");
    const raw = await all.bytes(SUMS);
    all.put(same(raw, utf8(text)), say("{file} lists these files with these hashes", { file: SUMS }));
    if (manifest.signature !== SIGNATURE) return;
    const ok = await sshSigned(decoded(await all.bytes(SUMS_SIGNATURE)), base64(manifest.signer.replace(/^ed25519:/, "")), raw);
    all.put(ok, say("{file} is a signature of the same key", { file: SUMS_SIGNATURE }));
  } catch (error) {
    all.put(false, say("{file} and its signature can be read", { file: SUMS }), reason(error));
  }
}

// https://github.com/openssh/openssh-portable/blob/master/PROTOCOL.sshsig
async function sshSigned(text, key, message) {
  const string = (bytes) => joined(new Uint8Array([bytes.length >>> 24, (bytes.length >>> 16) & 255, (bytes.length >>> 8) & 255, bytes.length & 255]), bytes);
  const kind = utf8("ssh-ed25519"), namespace = utf8("file"), hash = utf8("sha512"), magic = utf8("SSHSIG");
  const lines = /^-----BEGIN SSH SIGNATURE-----\n((?:[A-Za-z0-9+/=]{1,70}\n)+)-----END SSH SIGNATURE-----\n$/.exec(text);
  if (!lines) return false;
  const blob = base64(lines[1].replaceAll("\n", "")), at = blob.length - 64;
  if (at < 0) return false;
  const signature = blob.subarray(at), one = new Uint8Array([0, 0, 0, 1]), publicKey = joined(string(kind), string(key));
  const head = joined(magic, one, string(publicKey), string(namespace), string(utf8("")), string(hash), string(joined(string(kind), string(signature))));
  if (!same(blob, head)) return false;
  const signed = joined(magic, string(namespace), string(utf8("")), string(hash), string(await sha512(message)));
  return (await signedBy(key, signature, signed)).ok;
}

// files: a Map of paths to what has `size` and `arrayBuffer()`; keys: what the office stands for, [{name, key}].
async function verify(files, keys, say = () => {}) {
  const all = new Checked(files, say), manifest = await readManifest(all);
  if (!manifest) return all.results;
  await checkFiles(all, manifest);
  const signer = await checkSignature(all, manifest, keys);
  await checkSums(all, manifest);
  await checkAccounting(all, manifest);
  all.results.signed = signer !== null;
  return all.results;
}

function verdict(results) {
  if (results.some((each) => each.ok === false)) return "FAIL";
  return results.signed ? "PASS" : "UNSIGNED";
}
