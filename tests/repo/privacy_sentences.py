"""Every sentence about privacy that has a number in it: its pattern, and its numbers recomputed by another route.

What a release of a plan costs is worked out here from the scales and sensitivities of its steps, by Google's
``dp_accounting`` (losses composed on a grid) and plain formulas; nothing of ``dprelease.privacy`` is called.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from dp_accounting.pld import privacy_loss_distribution as pld

from dprelease.plan.document import ReleasePlan
from dprelease.plan.verify.mathematics.top_loss import top_mass
from dprelease.privacy.crosscheck import _listed

__all__ = ["ABOUT_PRIVACY", "KNOWN", "Truth", "number", "sentences", "truth"]

N = r"((?:\d[\d,]*(?:\.\d+)?)(?: × 10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?|10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)"
_DIGITS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_GRID = 1e-4
_MANY = 1 << 12  # a scale from which discrete noise is as continuous to far below what is compared here
NEAR = 1.004  # what a grid of 10^-4 may lose


def number(text: str) -> float:
    """A number as pages write it."""
    plain = text.replace(",", "")
    if match := re.fullmatch(r"(?:([\d.]+) × )?10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", plain):
        return float(match[1] or 1) * 10.0 ** int(match[2].translate(_DIGITS))
    return float(plain)


@dataclass(frozen=True)
class Truth:
    """A release by the other route.

    Attributes:
        plan: What it is about; only its mechanisms, sensitivities, scales and own deltas are read.
        law: The loss of the composed draws, without those that may reveal with a delta of their own.
        reveals: The sum of those deltas.
        slack: By how much the grid may have rounded a loss up; for laws with a largest loss, which it must not pass.
    """

    plan: ReleasePlan
    law: Any
    reveals: float
    slack: float

    def delta(self, epsilon: float) -> float:
        """Delta at epsilon."""
        finite = float(self.law.get_delta_for_epsilon(epsilon + (self.slack if epsilon else 0)))
        return self.reveals + (1 - self.reveals) * finite

    def above(self, epsilon: float) -> float:
        """The probability of a loss above epsilon, of the grid's law, which is rounded up."""
        return self._of(lambda loss: loss > epsilon + self.slack) + self.reveals

    def below(self, epsilon: float) -> float:
        """The probability of a loss below -epsilon."""
        return self._of(lambda loss: loss < -epsilon - self.slack) + self.reveals

    def _of(self, holds: Callable[[float], bool]) -> float:
        return max(
            sum(float(mass) for k, mass in enumerate(dense._probs) if holds((dense._lower_loss + k) * _GRID))
            for dense in (self.law._pmf_remove.to_dense_pmf(), self.law._pmf_add.to_dense_pmf())
        )

    @property
    def epsilon(self) -> float:
        """What the plan claims."""
        return float(self.plan.loss[self.plan.certified].epsilon)


def truth(plan: ReleasePlan) -> Truth:
    """The release of a plan by the other route; a pair of data sets in which every draw moves as much as it can."""
    return _truth(plan.canonical())


@cache
def _truth(canonical: str) -> Truth:
    plan = ReleasePlan.from_canonical(canonical)
    found: Counter[tuple[str, float, int]] = Counter()
    reveals = 0.0
    for step in plan.steps:
        scale, moved = float(step.scale), step.sensitivity
        if step.selecting is not None:
            reveals += float(step.selecting.delta)
        if step.gauge == 1:
            chance = top_mass(step.mechanism.removesuffix("_knorm"), len(step.parts), step.scale)
            found[f"joint {chance!r}", scale, 1] += 1
        elif step.gauge is not None:
            found["laplace", scale / float(step.gauge), 1] += 1
        elif "gaussian" in step.mechanism and scale < _MANY and moved.shifts:
            for cell in moved.shifts[0]:
                found["cell", scale, cell] += 1
        elif "gaussian" in step.mechanism:
            found["gaussian", scale / math.sqrt(moved.l2_squared), 1] += 1
        else:
            found["laplace", scale / float(moved.l1), 1] += 1
    whole = None
    for (kind, scale, cell), times in sorted(found.items()):
        if kind == "cell":
            one = pld.from_discrete_gaussian_mechanism(scale, sensitivity=cell, value_discretization_interval=_GRID)
        elif kind == "gaussian":
            one = pld.from_gaussian_mechanism(scale, value_discretization_interval=_GRID)
        elif kind.startswith("joint"):
            top, low = (float(kind.split()[1]) * each for each in (1, math.exp(-1 / scale)))
            one = _listed([(1 / scale, top), (0.0, 1 - top - low), (-1 / scale, low)], 0.0, _GRID)
        else:
            one = pld.from_laplace_mechanism(scale, value_discretization_interval=_GRID)
        one = one.self_compose(times) if times > 1 else one
        whole = one if whole is None else whole.compose(one)
    bounded = all(kind == "laplace" or kind.startswith("joint") for kind, _, _ in found)
    return Truth(plan, whole, reveals, _GRID * (2 * found.total() if bounded else 1))


def _pair(at: Truth, epsilon: str, delta: str) -> None:
    """(epsilon, delta) holds."""
    assert at.delta(number(epsilon)) <= number(delta) * NEAR**8 + 1e-13


def _worth(at: Truth, factor: str) -> None:
    assert math.exp(at.epsilon) <= number(factor) <= 1.01 * math.exp(at.epsilon)


def _factor(at: Truth, factor: str, delta: str | None = None) -> None:
    assert math.exp(at.epsilon) <= number(factor) <= 1.01 * math.exp(at.epsilon)
    if delta is not None:
        _pair(at, str(at.epsilon), delta)
    else:
        assert at.delta(at.epsilon) < 1e-12


def _guess(at: Truth, percent: str) -> None:
    true = 50 * (1 + at.delta(0))
    assert true / NEAR <= number(percent) <= true * 1.02


def _worst(at: Truth, percent: str, epsilon: str | None = None) -> None:
    true = 100 / (1 + math.exp(-at.epsilon))
    assert epsilon is None or at.epsilon <= number(epsilon) <= at.epsilon * (1 + 1e-5)
    assert true <= number(percent) <= true + 0.1


def _above(at: Truth, epsilon: str, chance: str, times: str, delta: str, most: str) -> None:
    assert at.epsilon <= number(epsilon) <= at.epsilon * (1 + 1e-5)
    true = at.above(at.epsilon)
    assert true <= number(chance) * NEAR**8
    assert number(chance) <= 4 * true or (at.reveals and number(chance) <= 100 * true)
    assert number(chance) / number(delta) <= number(times) <= 1.11 * number(chance) / number(delta)
    assert at.epsilon < number(most)
    assert at.above(number(most)) <= number(delta)
    assert at.above(at.epsilon) > number(delta) or at.reveals


def _passed(at: Truth, chance: str) -> None:
    """Either limit, under either data set."""
    true = at.above(at.epsilon) + at.below(at.epsilon)
    assert true <= number(chance) * NEAR**8
    assert number(chance) <= 6 * true or (at.reveals and number(chance) <= 100 * true)


def _index(at: Truth, guess: str, sure: str, passed: str | None = None) -> None:
    _guess(at, guess)
    _worst(at, sure)
    if passed is not None:
        _passed(at, passed)
    else:
        assert at.above(at.epsilon) < 1e-12


def _account(at: Truth, *pairs: str) -> None:
    for epsilon, delta in zip(pairs[::2], pairs[1::2], strict=True):
        _pair(at, epsilon, delta)


def _step(
    at: Truth, law: str, norm: str, moved: str, scale: str, sign: str, loss: str, delta: str | None = None
) -> None:
    size = number(moved) / number(scale)
    true = size * size / 2 if sign == "ρ" else size
    assert (law == "discrete Gaussian") == (norm == "L2") == (sign == "ρ")
    assert true * (1 - 1e-4) <= number(loss) <= true * 1.001
    if delta is not None:
        _selection(at, delta)


def _selection(at: Truth, delta: str) -> None:
    """By the tail of the noise, added up: a key that one unit alone has counts 1 before the noise."""
    chosen = [step for step in at.plan.steps if step.selecting is not None]
    assert chosen
    for step in chosen:
        selecting, scale = step.selecting, float(step.scale)
        assert selecting is not None
        masses = [math.exp(-(k * k) / (2 * scale * scale)) for k in range(40 * math.ceil(scale))]
        whole = 2 * math.fsum(masses) - 1
        tail = math.fsum(masses[selecting.threshold - 1 :]) / whole
        assert step.sensitivity.l0 * tail <= number(delta) * (1 + 1e-9)


def _confidence(at: Truth, percent: str) -> None:
    assert number(percent) == 100 * at.plan.publish.confidence


def _nothing(at: Truth, *groups: str) -> None:
    """A definition: its numbers are signs of a formula, or of the law of what it names."""
    del at, groups


def _falls(at: Truth) -> None:
    """Epsilon falls as delta grows."""
    found = [at.law.get_epsilon_for_delta(delta) for delta in (1e-9, 1e-7, 1e-5, 1e-3)]
    assert found == sorted(found, reverse=True)
    assert found[0] > found[-1]


Check = Callable[..., None]

_UNIT = r"(?:person|row|user)"
_WITH = rf"with one {_UNIT} (?:as|than) (?:without, or the other way round|with another one in its place)"
KNOWN: dict[str, tuple[str, Check]] = {
    "loss": (rf"ε = {N}(?:,| at) δ = {N}(?: for each {_UNIT}(?: \(what this means\))?)?\.?", _pair),
    "certified": (rf"ε = {N}, δ = {N}, certified by \w+, which .*", _pair),
    "total": (rf"ε = {N} at δ = {N}: the privacy loss in total, for every {_UNIT}", _pair),
    "dot": (rf"A dot marks the certified loss, ε = {N}, δ = {N}\.", _pair),
    "in the assessment": (rf"\| \*\*yes\*\* \| ε = {N}, δ = {N}\.", _pair),
    "no delta": (r"\| \*\*yes\*\* \| δ is 0\.", lambda at: _pair(at, str(at.epsilon), "0")),
    "any outcomes": (rf"at most {N} times as likely {_WITH}(?:, plus {N})?", _factor),
    "factor": (
        rf"{N} times at most: how much likelier any set of outcomes can be {_WITH};?",
        _worth,
    ),
    "on top": (
        rf"δ comes on top: a probability p can become the factor times p, plus {N}",
        lambda at, d: _pair(at, str(at.epsilon), d),
    ),
    "guess": (rf"right at most {N} % of the time, from even odds: one half, and half of δ at ε = 0", _guess),
    "worst": (rf"from even odds, up to {N} % sure, where the loss is at most {N}", _worst),
    "above": (
        rf"a loss above {N} has a probability of at most {N} over the noise, {N} times δ; but for a probability of {N} "
        rf"the loss is at most {N}",
        _above,
    ),
    "passed": (
        rf"One of them is passed with a probability of at most {N} over the noise, which no attacker can bring about\.",
        _passed,
    ),
    "front": (
        rf"{N} % at most: how often an attacker who starts from even odds can guess right; the noise can fall so that "
        rf"they are right to be up to {N} % sure(?:, and surer with a probability of at most {N})?",
        _index,
    ),
    "even": (r"Guessing without the tables would be right 50 % of the time\.", _nothing),
    "account": (
        rf"After this one, the privacy loss of all releases charged to account \w+ is ε = {N} at δ = {N} "
        rf"\(at most ε = {N} at δ = {N}\)\.",
        _account,
    ),
    "other delta": (
        rf"The ε of an account is read at the δ of its cap, and that of this release at δ = {N}\.",
        lambda at, d: _pair(at, str(at.epsilon), d),
    ),
    "stairs": (
        rf".*Stairs over the last {N} charges, up to ε = {N} at δ = {N}\.",
        lambda at, _, *pair: _account(at, *pair),
    ),
    "cap": (rf"The dashed line is the cap, ε = {N} at that δ\.", lambda at, n: _pair(at, n, "0.00001")),
    "step": (
        rf"- Step \S+: ((?:discrete Gaussian|discrete Laplace))(?:, threshold)?, sensitivity (L[12]) {N}, scale {N}, loss "
        rf"([ερ]) = {N}(?:, δ = {N})?\.",
        _step,
    ),
    "gauge": (
        rf"(?:- Step \S+: )?(K-norm \((?:counts|largest change)\)|total and residuals), sensitivity gauge {N}, scale {N}, loss ε = {N}\.",
        lambda at, name, gauge, scale, loss: _step(at, name, "gauge", gauge, scale, "ε", loss),
    ),
    "own loss": (rf"ρ = {N}, δ = {N}", lambda at, _, delta: _selection(at, delta)),
    "selection": (
        rf"(?:- )?\w+: the probability that any key appears which one unit alone has is at most δ = {N}; it is part of the loss\.",
        _selection,
    ),
    "confidence": (rf".*(?:at|At|margins at) {N} % confidence(?:, beside each number\.)?", _confidence),
    "other ways": (
        r".*(?:it would charge an account (?:ε =|epsilon) [\d.]+(?: for this release)?,? at the δ of its cap|this plan's noise).*",
        _nothing,
    ),
    "laws": (r".*(?:ρ = L2² / \(2 · scale²\)|ε = (?:L1|gauge) / scale).*", _nothing),
    "theorem": (r".*\((?:Zhu, Dong and Wang 2022, Theorem 10|Dwork and Roth 2014, Theorem 3\.16)\).*", _nothing),
    "profile": (
        r"(?:[\d⁻⁰¹²³⁴⁵⁶⁷⁸⁹. ]+ ε δ A falling line: at a larger ε less remains for δ\.|δ at every ε: the privacy profile)",
        _nothing,
    ),
    "trade-off": (
        r"[\d %]+ false alarms misses A line that falls from all misses to none, below the straight line of guessing\.",
        _nothing,
    ),
    "rules": (
        r"(?:.*: |The accountant \w+ |- Certified by the accountant .*; it )?(?:adds up the ε of every draw, and their δ"
        r"|finds the exact optimum for draws of which only ε and δ are known)\.?",
        _nothing,
    ),
    "headings": (r"ε of each account at its δ(?:, rounded up)?", _nothing),
    "one delta": (
        r"The same draws have a smaller ε at a larger δ, so that a total can be below a part of it; only figures at one δ "
        r"can be compared\.",
        _falls,
    ),
    "questions": (
        r".*\| Are ε and δ (?:of the whole release stated, and rounded up|within the budget that was set before)\?",
        _nothing,
    ),
    "several": (r"Several \(ε, δ\) hold at once: .*", _nothing),
    "bits": (
        r"What a query costs, ρ, is computed from the scales of its draws, which are 64-bit numbers, and rounded up; .*",
        _nothing,
    ),
}


ABOUT_PRIVACY = re.compile(
    r"[εδρ]|probab|chance|likel|belie|attacker|guess|\bsure\b|privacy loss|\btimes\b|confidence", re.IGNORECASE
)


def sentences(text: str) -> list[str]:
    """The sentences of a plain text, block by block, that speak of privacy and have a number or both signs in them."""
    found = []
    for line in text.split("\n"):
        for each in re.split(r"(?<=[.;:?]) +(?=[^a-z])", line):
            told = re.search(r"\d", each) or ("ε" in each and "δ" in each)
            if told and ABOUT_PRIVACY.search(each) and (len(each.split()) > 3):
                found.append(each)
    return found
