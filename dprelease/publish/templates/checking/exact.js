// Rationals of whole numbers of any size, and logarithms and exponentials between two bounds. No floating-point number
// decides anything on this page.
const gcd = (a, b) => { while (b) [a, b] = [b, a % b]; return a < 0n ? -a : a; };
const Q = (n, d = 1n) => {
  if (d === 0n) throw refusal("division by zero");
  if (d < 0n) { n = -n; d = -d; }
  const g = gcd(n, d) || 1n;
  return { n: n / g, d: d / g };
};
const add = (a, b) => Q(a.n * b.d + b.n * a.d, a.d * b.d), sub = (a, b) => Q(a.n * b.d - b.n * a.d, a.d * b.d);
const mul = (a, b) => Q(a.n * b.n, a.d * b.d), div = (a, b) => Q(a.n * b.d, a.d * b.n);
const cmp = (a, b) => { const x = a.n * b.d - b.n * a.d; return x < 0n ? -1 : x > 0n ? 1 : 0; };
const larger = (a, b) => (cmp(a, b) < 0 ? b : a), smaller = (a, b) => (cmp(a, b) < 0 ? a : b);
const ZERO = Q(0n), ONE = Q(1n), TWO = Q(2n);

// "3/2", "1.25", "1e-9": digits as they are written, never through a floating-point number.
function rational(text) {
  if (typeof text === "number" && Number.isSafeInteger(text)) return Q(BigInt(text));
  const m = /^(-?\d{1,20000})\/(\d{1,20000})$|^(-?)(\d{1,2000})(?:\.(\d{1,2000}))?(?:e([+-]?\d{1,4}))?$/i.exec(String(text));
  if (!m) throw refusal("this is no number: {text}", { text: String(text).slice(0, 40) });
  if (m[1] !== undefined) return Q(BigInt(m[1]), BigInt(m[2]));
  const e = Number(m[6] || 0) - (m[5] || "").length, v = BigInt(m[3] + m[4] + (m[5] || ""));
  return e >= 0 ? Q(v * 10n ** BigInt(e)) : Q(v, 10n ** BigInt(-e));
}

// For the search of an order only.
const asNumber = (q) => {
  const shift = q.d.toString(2).length - q.n.toString(2).length + 64;
  const v = shift >= 0 ? (q.n << BigInt(shift)) / q.d : q.n / (q.d << BigInt(-shift));
  return Number(v) * 2 ** -shift;
};
const decimalUp = (q, places) => { // rounded up
  const p = 10n ** BigInt(places), v = (q.n * p + q.d - 1n) / q.d, s = v.toString().padStart(places + 1, "0");
  return `${s.slice(0, -places)}.${s.slice(-places)}`;
};

// Fixed point: units of 1 / S. Each division cuts off less than a unit, there are fewer than 1,000 of them, and PAD is
// added on the unfavourable side.
const BITS = 320n, S = 1n << BITS, PAD = 1n << 16n;
const units = (u) => Q(u, S);

// 2 atanh(n / d) for 0 <= n / d <= 1/3.
function atanh2(n, d) {
  const t = (n << BITS) / d, t2 = (t * t) >> BITS;
  let power = t, sum = 0n;
  for (let k = 1n; power > 0n; k += 2n) { sum += power / k; power = (power * t2) >> BITS; }
  return 2n * sum;
}
const LN2 = atanh2(1n, 3n);

// Below and above the logarithm of a positive rational.
function ln(q) {
  if (q.n <= 0n) throw refusal("the logarithm of a number that is not positive");
  const k = q.n.toString(2).length - q.d.toString(2).length;
  let n = q.n, d = q.d;
  if (k > 0) d <<= BigInt(k); else n <<= BigInt(-k); // n / d is within 1/2 and 2
  const v = BigInt(k) * LN2 + (n >= d ? atanh2(n - d, n + d) : -atanh2(d - n, n + d));
  const pad = PAD * BigInt(1 + Math.abs(k));
  return { low: units(v - pad), high: units(v + pad) };
}

// Below and above exp(-q) for q >= 0: q = k ln 2 + r, and the series of exp(-r) for 0 <= r < ln 2.
function expMinus(q) {
  if (q.n < 0n) throw refusal("the exponential of a number above 0");
  const x = (q.n << BITS) / q.d, k = x / LN2, r = x - k * LN2;
  if (k >= BITS) return { low: ZERO, high: units(1n) };
  let term = S, sum = S;
  for (let i = 1n; term > 0n; i += 1n) { term = ((term * r) >> BITS) / i; sum += i % 2n ? -term : term; }
  const pad = PAD * (k + 1n); // k ln 2 is known to within so much
  return { low: larger(Q(sum - pad, S << k), ZERO), high: Q(sum + pad, S << k) };
}

// Epsilon at delta of rho-zCDP, rounded up: a rho + ln((a - 1) / a) - (ln delta + ln a) / (a - 1) holds for every order a
// above 1 (Canonne, Kamath and Steinke 2020, Proposition 12). A bad order only gives a larger figure.
function epsilonUpper(rho, delta) {
  if (rho.n === 0n || cmp(delta, ONE) >= 0) return ZERO;
  const r = asNumber(rho), l = asNumber(ln(delta).low);
  const f = (t) => { const x = Math.exp(t); return (1 + x) * r + Math.log(x / (1 + x)) - (l + Math.log1p(x)) / x; };
  let lo = -40, hi = 100;
  for (let i = 0; i < 250; i += 1) {
    const a = lo + 0.382 * (hi - lo), b = hi - 0.382 * (hi - lo);
    if (f(a) < f(b)) hi = b; else lo = a;
  }
  const x = rational(Math.exp((lo + hi) / 2).toExponential(15)), a = add(ONE, x);
  const over = sub(ZERO, add(ln(delta).low, ln(a).low));
  const all = add(add(mul(a, rho), ln(div(x, a)).high), div(over, x));
  return all.n > 0n ? all : ZERO;
}
