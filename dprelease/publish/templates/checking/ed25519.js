// Ed25519 (RFC 8032, section 5.1.7), for browsers that have none; not constant in time, as everything here is public.
// It refuses what browsers differ on: s of L or more, points in another spelling, keys of an order up to 8.
const P = 2n ** 255n - 19n, L = 2n ** 252n + 27742317777372353535851937790883648493n;
const mod = (a, m = P) => { const r = a % m; return r < 0n ? r + m : r; };
const pow = (b, e, m = P) => {
  let r = 1n;
  for (b = mod(b, m); e > 0n; e >>= 1n) { if (e & 1n) r = (r * b) % m; b = (b * b) % m; }
  return r;
};
const CURVE = mod(-121665n * pow(121666n, P - 2n)), ROOT = pow(2n, (P - 1n) / 4n);
const IDENTITY = [0n, 1n, 1n, 0n];
const little = (b) => BigInt(`0x${hex(Uint8Array.from(b).reverse())}`);
function point(b) { // extended coordinates; null for what is no point, or spelled otherwise
  const n = little(b), y = n & ((1n << 255n) - 1n), sign = n >> 255n;
  if (y >= P) return null;
  const u = mod(y * y - 1n), v = mod(CURVE * y * y + 1n);
  let x = mod(u * pow(v, 3n) * pow(u * pow(v, 7n), (P - 5n) / 8n));
  if (mod(v * x * x) === mod(-u)) x = mod(x * ROOT);
  else if (mod(v * x * x) !== u) return null;
  if (x === 0n && sign) return null;
  if ((x & 1n) !== sign) x = P - x;
  return [x, y, 1n, mod(x * y)];
}
function sumOf([a, b, c, d], [e, f, g, h]) {
  const A = mod((b - a) * (f - e)), B = mod((b + a) * (f + e)), C = mod(2n * d * CURVE * h), Z = mod(2n * c * g);
  const E = B - A, F = Z - C, G = Z + C, H = B + A;
  return [mod(E * F), mod(G * H), mod(F * G), mod(E * H)];
}
const multiple = (n, p) => { let r = IDENTITY; for (; n > 0n; n >>= 1n) { if (n & 1n) r = sumOf(r, p); p = sumOf(p, p); } return r; };
const samePoint = (p, q) => mod(p[0] * q[2] - q[0] * p[2]) === 0n && mod(p[1] * q[2] - q[1] * p[2]) === 0n;
const BASE = point(Uint8Array.from([0x58, ...Array(31).fill(0x66)]));

async function ed25519(key, signature, message) {
  if (key.length !== 32 || signature.length !== 64) return false;
  const A = point(key), R = point(signature.subarray(0, 32)), s = little(signature.subarray(32));
  if (!A || !R || s >= L || samePoint(multiple(8n, A), IDENTITY)) return false;
  const k = mod(little(await sha512(joined(signature.subarray(0, 32), key, message))), L);
  return samePoint(multiple(s, BASE), sumOf(R, multiple(k, A)));
}

// By this page, and by the browser as well where it can: both must say yes.
async function signedBy(key, signature, message) {
  const own = await ed25519(key, signature, message);
  let imported;
  try {
    imported = await crypto.subtle.importKey("raw", key, { name: "Ed25519" }, false, ["verify"]);
  } catch {
    return { ok: own, how: say("checked by this page; the browser has no Ed25519") };
  }
  const theirs = await crypto.subtle.verify({ name: "Ed25519" }, imported, signature, message);
  return { ok: own && theirs, how: say("checked by the browser and by this page") };
}
