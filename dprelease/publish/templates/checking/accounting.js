// What accounting.json says of the loss: against plan.json, and worked out again from the draws.
const near = (said, own, slack) => cmp(said, mul(own, sub(ONE, slack))) >= 0 && cmp(said, mul(own, add(ONE, slack))) <= 0;
const DIGITS = Q(1n, 10n ** 20n), ROUNDED = rational("0.000002");

async function checkAccounting(all, manifest) {
  let plan, said;
  try {
    const text = decoded(await all.bytes("plan.json"));
    plan = JSON.parse(text);
    const whole = `${canonical(plan)}\n` === text && (await sha256(utf8(text.slice(0, -1)))) === manifest.plan_fingerprint;
    all.put(whole, say("plan.json is the plan that the manifest names"));
    said = await all.json("accounting.json");
    checkAgainstPlan(all, plan, said);
  } catch (error) {
    all.put(false, say("accounting.json and plan.json can be read"), reason(error));
    return;
  }
  try {
    checkLoss(all, said);
  } catch (error) {
    all.put(null, say("loss of accounting.json"), say("not worked out again: {why}", { why: reason(error) }));
  }
}

// Budget, caps, scales and losses stand in both files, in one as rationals and in the other as decimals that are rounded up.
function checkAgainstPlan(all, plan, said) {
  const wrong = [], steps = new Map(plan.steps.map((each) => [each.id, each]));
  if (said.steps.length !== plan.steps.length) wrong.push(say("the number of draws"));
  for (const step of said.steps) {
    const planned = steps.get(step.id), noise = step.event.noise || step.event;
    if (!planned || (step.scale !== null && cmp(rational(step.scale), rational(planned.scale)) !== 0)) wrong.push(say("the scale of {step}", { step: step.id }));
    else if (noise.scale && cmp(rational(noise.scale), rational(planned.scale)) !== 0) wrong.push(say("the scale of the event of {step}", { step: step.id }));
  }
  const names = Object.keys(plan.loss).sort(), listed = Object.keys(said.loss).filter((name) => name !== "certified").sort();
  if (canonical(names) !== canonical(listed)) wrong.push(say("the accountants"));
  for (const name of names.filter((each) => listed.includes(each))) {
    for (const part of ["epsilon", "delta"]) {
      const exact = rational(plan.loss[name][part]), shown = rational(said.loss[name][part]);
      if (cmp(shown, exact) < 0 || cmp(shown, add(mul(exact, add(ONE, ROUNDED)), Q(1n, 10n ** 7n))) > 0) wrong.push(say("{part} by {name}", { part, name }));
    }
  }
  for (const part of Object.keys(said.budget)) {
    const asked = plan.budget[part];
    if (asked === undefined || asked === null || cmp(rational(asked), rational(said.budget[part])) !== 0) wrong.push(say("{part} of the budget", { part }));
  }
  const caps = new Map(plan.accounts.map((each) => [each.name, each.lifetime]));
  for (const each of said.accounts || []) {
    const cap = caps.get(each.name);
    if (!cap || Object.keys(each.cap).some((part) => !cap[part] || cmp(rational(cap[part]), rational(each.cap[part])) !== 0)) wrong.push(say("the cap of account {name}", { name: each.name }));
  }
  const certified = said.loss.certified, by = said.loss[plan.certified];
  if (!certified || !by || certified.accountant !== plan.certified || certified.epsilon !== by.epsilon || certified.delta !== by.delta) wrong.push(say("the certified loss"));
  if (said.totals && cmp(rational(said.totals.epsilon), rational(plan.loss[plan.certified].epsilon)) !== 0) wrong.push(say("the total epsilon"));
  all.put(!wrong.length, say("accounting.json says what plan.json says of budget, caps, scales and losses"), wrong.length ? say("accounting.json differs in {what}", { what: wrong }) : []);
}

function checkLoss(all, said) {
  const events = said.steps.map((step) => step.event), own = events.map(loss).reduce(plus, NOTHING);
  let rho = own.high;
  if (said.totals && said.totals.rho) {
    const shown = rational(said.totals.rho), before = near(shown, own.plain, DIGITS);
    const isIt = cmp(shown, mul(own.low, sub(ONE, DIGITS))) >= 0 && cmp(shown, mul(own.high, add(ONE, DIGITS))) <= 0;
    const figures = { published: decimalUp(shown, 9), own: decimalUp(own.high, 9) };
    let detail = say("published {published}, at most {own}; this page has no exact formula for some draws", figures);
    if (own.exact) detail = say("published {published}, worked out {own}", figures);
    else if (before) detail = say("published {published}, at most {own}", figures);
    all.put(before || isIt ? (own.exact || before ? true : null) : false, say("rho of accounting.json is that of its draws"), detail);
    if (before || isIt) rho = shown;
  }
  checkBasic(all, events, said.loss.basic);
  checkZcdp(all, rho, own, said.loss);
}

function checkBasic(all, events, published) {
  if (!published) return;
  const sum = pureLoss({ kind: "composed", events });
  const shown = rational(published.epsilon), delta = rational(published.delta);
  if (!sum) { all.put(null, say("epsilon by basic composition"), say("Gaussian noise has an epsilon for every delta, and the best division is not looked for here")); return; }
  const figures = { epsilon: published.epsilon, delta: published.delta, sum: decimalUp(sum.epsilon, 7) };
  const up = say("published {epsilon} at delta {delta}, the draws add up to {sum}", figures);
  if (cmp(delta, sum.delta) < 0) all.put(false, say("epsilon of accounting.json by basic composition"), up);
  else if (cmp(shown, sum.epsilon) >= 0 || near(shown, sum.epsilon, DIGITS)) all.put(near(shown, sum.epsilon, ROUNDED) || cmp(sub(shown, sum.epsilon), Q(1n, 10n ** 7n)) <= 0, say("epsilon of accounting.json by basic composition"), up);
  else all.put(null, say("epsilon by basic composition"), say("{figures}; a delta that is left over allows less, which is not worked out here", { figures: up }));
}

function checkZcdp(all, rho, own, losses) {
  const published = losses.zcdp, certified = losses.certified;
  if (!published) { all.put(null, say("epsilon by zCDP"), say("none is published")); return; }
  const delta = rational(published.delta), left = sub(ONE, div(sub(ONE, delta), own.keeps));
  if (left.n <= 0n) { all.put(rho.n === 0n ? true : null, say("epsilon by zCDP"), say("there is none at that delta")); return; }
  const mine = epsilonUpper(rho, left), shown = rational(published.epsilon);
  const holds = near(shown, mine, ROUNDED) || (cmp(shown, mine) >= 0 && cmp(sub(shown, mine), Q(1n, 10n ** 7n)) <= 0);
  all.put(holds, say("epsilon of accounting.json by zCDP, at delta {delta}", { delta: published.delta }), say("published {published}, worked out {own}", { published: published.epsilon, own: decimalUp(mine, 7) }));
  if (certified.accountant === "zcdp") return;
  const what = say("certified epsilon {epsilon} of accounting.json, by {accountant}", { epsilon: certified.epsilon, accountant: certified.accountant });
  if (certified.delta === published.delta && cmp(rational(certified.epsilon), shown) > 0) all.put(false, what, say("it is above that of zCDP"));
  else all.put(null, what, say("sharper than what this page works out, and not above it; `dprelease verify` derives it again"));
}
