// What accounting.json says of the loss: against plan.json, and worked out again from the draws.
const near = (said, own, slack) => cmp(said, mul(own, sub(ONE, slack))) >= 0 && cmp(said, mul(own, add(ONE, slack))) <= 0;
const DIGITS = Q(1n, 10n ** 20n), ROUNDED = rational("0.000002");

async function checkAccounting(all, manifest) {
  let plan, said;
  try {
    const text = decoded(await all.bytes("plan.json"));
    plan = JSON.parse(text);
    const whole = `${canonical(plan)}\n` === text && (await sha256(utf8(text.slice(0, -1)))) === manifest.plan_fingerprint;
    all.put(whole, "plan.json is the plan that the manifest names");
    said = await all.json("accounting.json");
    checkAgainstPlan(all, plan, said);
  } catch (error) {
    all.put(false, "accounting.json and plan.json can be read", error.message);
    return;
  }
  try {
    checkLoss(all, said);
  } catch (error) {
    all.put(null, "loss of accounting.json", `not worked out again: ${error.message}`);
  }
}

// Budget, caps, scales and losses stand in both files, in one as rationals and in the other as decimals that are rounded up.
function checkAgainstPlan(all, plan, said) {
  const wrong = [], steps = new Map(plan.steps.map((each) => [each.id, each]));
  if (said.steps.length !== plan.steps.length) wrong.push("the number of draws");
  for (const step of said.steps) {
    const planned = steps.get(step.id), noise = step.event.noise || step.event;
    if (!planned || (step.scale !== null && cmp(rational(step.scale), rational(planned.scale)) !== 0)) wrong.push(`the scale of ${step.id}`);
    else if (noise.scale && cmp(rational(noise.scale), rational(planned.scale)) !== 0) wrong.push(`the scale of the event of ${step.id}`);
  }
  const names = Object.keys(plan.loss).sort(), listed = Object.keys(said.loss).filter((name) => name !== "certified").sort();
  if (canonical(names) !== canonical(listed)) wrong.push("the accountants");
  for (const name of names.filter((each) => listed.includes(each))) {
    for (const part of ["epsilon", "delta"]) {
      const exact = rational(plan.loss[name][part]), shown = rational(said.loss[name][part]);
      if (cmp(shown, exact) < 0 || cmp(shown, add(mul(exact, add(ONE, ROUNDED)), Q(1n, 10n ** 7n))) > 0) wrong.push(`${part} by ${name}`);
    }
  }
  for (const part of Object.keys(said.budget)) {
    const asked = plan.budget[part];
    if (asked === undefined || asked === null || cmp(rational(asked), rational(said.budget[part])) !== 0) wrong.push(`${part} of the budget`);
  }
  const caps = new Map(plan.accounts.map((each) => [each.name, each.lifetime]));
  for (const each of said.accounts || []) {
    const cap = caps.get(each.name);
    if (!cap || Object.keys(each.cap).some((part) => !cap[part] || cmp(rational(cap[part]), rational(each.cap[part])) !== 0)) wrong.push(`the cap of account ${each.name}`);
  }
  const certified = said.loss.certified, by = said.loss[plan.certified];
  if (!certified || !by || certified.accountant !== plan.certified || certified.epsilon !== by.epsilon || certified.delta !== by.delta) wrong.push("the certified loss");
  if (said.totals && cmp(rational(said.totals.epsilon), rational(plan.loss[plan.certified].epsilon)) !== 0) wrong.push("the total epsilon");
  all.put(!wrong.length, "accounting.json says what plan.json says of budget, caps, scales and losses", wrong.length ? `accounting.json differs in ${wrong.join(", ")}` : "");
}

function checkLoss(all, said) {
  const events = said.steps.map((step) => step.event), own = events.map(loss).reduce(plus, NOTHING);
  let rho = own.high;
  if (said.totals && said.totals.rho) {
    const shown = rational(said.totals.rho), before = near(shown, own.plain, DIGITS);
    const isIt = cmp(shown, mul(own.low, sub(ONE, DIGITS))) >= 0 && cmp(shown, mul(own.high, add(ONE, DIGITS))) <= 0;
    all.put(before || isIt ? (own.exact || before ? true : null) : false, "rho of accounting.json is that of its draws",
      `published ${decimalUp(shown, 9)}, ${own.exact ? "worked out" : "at most"} ${decimalUp(own.high, 9)}${own.exact || before ? "" : "; this page has no exact formula for some draws"}`);
    if (before || isIt) rho = shown;
  }
  checkBasic(all, events, said.loss.basic);
  checkZcdp(all, rho, own, said.loss);
}

function checkBasic(all, events, published) {
  if (!published) return;
  const sum = pureLoss({ kind: "composed", events });
  const shown = rational(published.epsilon), delta = rational(published.delta);
  if (!sum) { all.put(null, "epsilon by basic composition", "Gaussian noise has an epsilon for every delta, and the best division is not looked for here"); return; }
  const up = `published ${published.epsilon} at delta ${published.delta}, the draws add up to ${decimalUp(sum.epsilon, 7)}`;
  if (cmp(delta, sum.delta) < 0) all.put(false, "epsilon of accounting.json by basic composition", up);
  else if (cmp(shown, sum.epsilon) >= 0 || near(shown, sum.epsilon, DIGITS)) all.put(near(shown, sum.epsilon, ROUNDED) || cmp(sub(shown, sum.epsilon), Q(1n, 10n ** 7n)) <= 0, "epsilon of accounting.json by basic composition", up);
  else all.put(null, "epsilon by basic composition", `${up}; a delta that is left over allows less, which is not worked out here`);
}

function checkZcdp(all, rho, own, losses) {
  const published = losses.zcdp, certified = losses.certified;
  if (!published) { all.put(null, "epsilon by zCDP", "none is published"); return; }
  const delta = rational(published.delta), left = sub(ONE, div(sub(ONE, delta), own.keeps));
  if (left.n <= 0n) { all.put(rho.n === 0n ? true : null, "epsilon by zCDP", "there is none at that delta"); return; }
  const mine = epsilonUpper(rho, left), shown = rational(published.epsilon);
  const holds = near(shown, mine, ROUNDED) || (cmp(shown, mine) >= 0 && cmp(sub(shown, mine), Q(1n, 10n ** 7n)) <= 0);
  all.put(holds, `epsilon of accounting.json by zCDP, at delta ${published.delta}`, `published ${published.epsilon}, worked out ${decimalUp(mine, 7)}`);
  if (certified.accountant === "zcdp") return;
  const what = `certified epsilon ${certified.epsilon} of accounting.json, by ${certified.accountant}`;
  if (certified.delta === published.delta && cmp(rational(certified.epsilon), shown) > 0) all.put(false, what, "it is above that of zCDP");
  else all.put(null, what, "sharper than what this page works out, and not above it; `dprelease verify` derives it again");
}
