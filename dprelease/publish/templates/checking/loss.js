// What the draws of a release cost, from their sensitivities and scales alone.
//
// Of one draw: low and high around the least rho that is proved of it, and the rho that was stated before that was
// known (`plain`). `high` is true of every draw; where this page does not know the exact figure, `exact` is false, and
// a published figure below `high` is neither confirmed nor denied. `keeps` is 1 less the delta of its own.
const known = (rho, plain = rho) => ({ low: rho, high: rho, plain, exact: true, keeps: ONE });
const between = (found, plain) => ({ low: found.low, high: smaller(found.high, plain), plain, exact: true, keeps: ONE });
const atMost = (found, plain) => ({ low: ZERO, high: smaller(found.high, plain), plain, exact: false, keeps: ONE });
const square = (q) => mul(q, q), half = (q) => div(q, TWO);
const NOTHING = known(ZERO);

function plus(a, b) {
  return {
    low: add(a.low, b.low), high: add(a.high, b.high), plain: add(a.plain, b.plain),
    exact: a.exact && b.exact, keeps: mul(a.keeps, b.keeps),
  };
}

// Of a draw that is repeated: the delta of many times is 1 - (1 - delta)^n.
function timesOf(a, n) {
  const m = Q(n);
  return {
    low: mul(a.low, m), high: mul(a.high, m), plain: mul(a.plain, m), exact: a.exact,
    keeps: Q(a.keeps.n ** n, a.keeps.d ** n),
  };
}

// Randomized response, which is the worst of every pure draw: epsilon tanh(epsilon / 2) = epsilon (1 - E) / (1 + E) with
// E = exp(-epsilon).
function response(epsilon) {
  const e = expMinus(epsilon);
  const at = (x) => mul(epsilon, div(sub(ONE, x), add(ONE, x)));
  return { low: larger(at(e.high), ZERO), high: at(e.low) };
}

// Discrete Laplace noise on a cell that moves by c whole steps: h (c - 2 q (1 - q^c) / (1 - q^2)), h = 1 / scale,
// q = exp(-h).
function laplaceCell(scale, c) {
  const h = div(ONE, scale), moved = Q(c < 0n ? -c : c);
  if (cmp(moved, ONE) <= 0) return response(mul(moved, h));
  const one = expMinus(h), all = expMinus(mul(moved, h)), two = expMinus(mul(TWO, h));
  const part = (q, qc, q2) => div(mul(TWO, mul(q, sub(ONE, qc))), sub(ONE, q2));
  const high = mul(h, sub(moved, part(one.low, all.high, two.low)));
  const low = mul(h, sub(moved, part(one.high, all.low, two.high)));
  return { low: larger(low, ZERO), high };
}

function laplace(event) {
  const scale = rational(event.scale), s = event.sensitivity;
  const plain = div(rational(s.l2_squared), mul(TWO, square(scale)));
  const ways = s.shifts || [];
  if (ways.length) {
    let worst = { low: ZERO, high: ZERO };
    for (const way of ways) {
      const each = way.map((c) => laplaceCell(scale, BigInt(c)));
      const low = each.reduce((a, b) => add(a, b.low), ZERO), high = each.reduce((a, b) => add(a, b.high), ZERO);
      worst = { low: larger(worst.low, low), high: larger(worst.high, high) };
    }
    return between(worst, plain);
  }
  const norms = [s.l1, s.l2_squared, s.linf].map(rational);
  if (norms.some((q) => q.n === 0n || q.d !== 1n)) return known(plain);
  const one = laplaceCell(scale, 1n), whole = laplaceCell(scale, norms[0].n);
  const found = { low: smaller(mul(norms[1], one.low), whole.low), high: smaller(mul(norms[1], one.high), whole.high) };
  return between(found, plain);
}

// What is epsilon-private and nothing more is known of it.
const anyPure = (epsilon) => between(response(epsilon), half(square(epsilon)));

// K-norm noise that moves by a norm of 1 loses epsilon with a chance a, -epsilon with a exp(-epsilon), and else nothing,
// so that its rho is a epsilon (1 - exp(-epsilon)); a as in docs/proofs/tight-rho.md, section 3, where it is rounded up to
// 53 bits. The sum over r of q^r f(r) is 1 / (1 - q) times the sum of the forward differences of f at 0, times x^i, for
// x = q / (1 - q).
function knorm(event) {
  const epsilon = div(rational(event.gauge), rational(event.scale)), plain = half(square(epsilon));
  if (cmp(rational(event.gauge), ONE) !== 0) return between(response(epsilon), plain);
  const q = expMinus(epsilon), [above, below] = differences(event.ball, event.dimension);
  const sum = (all, x) => all.reduceRight((total, each) => add(mul(total, x), Q(each)), ZERO);
  const at = (one, other) => div(sum(above, div(one, sub(ONE, one))), mul(sum(below, div(other, sub(ONE, other))), sub(ONE, one)));
  const root = expMinus(half(epsilon)), least = (x) => div(ONE, square(add(ONE, x)));
  const low = larger(at(q.low, q.high), least(root.high)), high = larger(at(q.high, q.low), least(root.low));
  const most = div(ONE, add(ONE, q.low)), up = add(ONE, Q(1n, 1n << 51n));
  const found = { low: mul(smaller(low, most), sub(ONE, q.high)), high: mul(mul(smaller(high, most), up), sub(ONE, q.low)) };
  return between({ low: mul(found.low, epsilon), high: mul(found.high, epsilon) }, plain);
}

function differences(ball, dimension) {
  const k = BigInt(dimension), n = k + 1n, j = n / 2n, above = [], below = [];
  if (k < 1n || k > 2000n) throw refusal("a draw of more numbers than this page works out");
  for (let r = 0n; r < n; r += 1n) {
    above.push(ball === "count" ? ((r + 1n) ** (n - j) - r ** (n - j)) * ((r + 1n) ** j - r ** j) : (2n * r + 1n) ** k - (2n * r) ** k);
    below.push(ball === "count" ? (r + 1n) ** n - r ** n : (2n * r + 1n) ** k);
  }
  return [above, below].map((values) => {
    const found = [];
    for (let row = values; row.length; row = row.slice(1).map((each, at) => each - row[at])) found.push(row[0]);
    return found;
  });
}

// The parts that one unit can touch: the largest, or under replace_one the two largest.
function parallel(event) {
  const parts = event.events.map(loss), two = event.neighboring === "replace_one";
  const largest = (name) => {
    const sizes = parts.map((each) => each[name]).sort((a, b) => cmp(b, a));
    return two ? add(sizes[0] || ZERO, sizes[1] || ZERO) : sizes[0] || ZERO;
  };
  if (parts.some((each) => cmp(each.keeps, ONE) !== 0)) throw refusal("this page knows no formula for parallel parts that may reveal");
  return {
    low: largest("low"), high: largest("high"), plain: largest("plain"), exact: parts.every((each) => each.exact), keeps: ONE,
  };
}

const LAWS = {
  __proto__: null,
  discrete_gaussian(e) {
    const squared = rational(e.common === undefined || e.common === null ? e.sensitivity.l2_squared : e.common);
    return known(div(squared, mul(TWO, square(rational(e.scale)))));
  },
  gaussian: (e) => known(div(rational(e.sensitivity.l2_squared), mul(TWO, square(rational(e.scale))))),
  laplace: (e) => known(div(rational(e.sensitivity.l2_squared), mul(TWO, square(rational(e.scale))))),
  discrete_laplace: laplace,
  knorm,
  bounded_range: (e) => known(div(square(rational(e.epsilon)), Q(8n))),
  concentrated: (e) => known(rational(e.rho)),
  pure: (e) => anyPure(rational(e.epsilon)),
  approximate: (e) => ({ ...anyPure(rational(e.epsilon)), keeps: sub(ONE, rational(e.delta)) }),
  key_selection: (e) => { const noise = loss(e.noise); return { ...noise, keeps: mul(noise.keeps, sub(ONE, rational(e.delta))) }; },
  random_scale(e) {
    const length = add(Q(BigInt(e.dimension)), square(rational(e.total)));
    const least = e.stretches.map(rational).reduce(smaller);
    return known(div(mul(square(Q(BigInt(e.rows))), length), mul(TWO, square(mul(rational(e.scale), least)))));
  },
  total_residual(e) { // (rows / scale)-private; the exact law is in docs/proofs/total-residual.md
    const epsilon = div(Q(BigInt(e.rows)), rational(e.scale));
    return atMost(response(epsilon), half(square(epsilon)));
  },
  repeated: (e) => timesOf(loss(e.event), BigInt(e.count)),
  composed: (e) => e.events.map(loss).reduce(plus, NOTHING),
  parallel,
};

function loss(event) {
  const law = LAWS[event.kind];
  if (!law) throw refusal("this page knows no formula for draws of the kind “{kind}”", { kind: String(event.kind).slice(0, 40) });
  return law(event);
}

// Epsilon and delta of draws that have a pure epsilon of their own; null where one has none, as Gaussian noise has.
function pureLoss(e) {
  const sum = (a, b) => a && b && { epsilon: add(a.epsilon, b.epsilon), delta: add(a.delta, b.delta) };
  const none = { epsilon: ZERO, delta: ZERO };
  switch (e.kind) {
    case "discrete_laplace": case "laplace": return { epsilon: div(rational(e.sensitivity.l1), rational(e.scale)), delta: ZERO };
    case "pure": case "bounded_range": return { epsilon: rational(e.epsilon), delta: ZERO };
    case "knorm": return { epsilon: div(rational(e.gauge), rational(e.scale)), delta: ZERO };
    case "approximate": return { epsilon: rational(e.epsilon), delta: rational(e.delta) };
    case "key_selection": return sum(pureLoss(e.noise), { epsilon: ZERO, delta: rational(e.delta) });
    case "repeated": {
      const one = pureLoss(e.event), n = Q(BigInt(e.count));
      return one && { epsilon: mul(one.epsilon, n), delta: mul(one.delta, n) };
    }
    case "composed": return e.events.map(pureLoss).reduce(sum, none);
    default: return null;
  }
}
