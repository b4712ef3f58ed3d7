"""The ledger for strangers: what was charged, in the form in which ``dp_accounting`` keeps events.

``dp_accounting.DpEvent.to_named_tuple`` gives every event as its module, its class and its fields; this file writes
the same as JSON, without that package. It has no event for discrete Gaussian noise, K-norms, choices and selections,
and neither of its accountants takes all the others. So everything is written twice, each time as events that
**dominate** what was drawn (whoever composes them gets no less than the truth):

``zcdp`` (for ``RdpAccountant``): every draw as ``ZCDpEvent`` with its rho; the theorems are those of
``accountants.base.zcdp_rho``.

``pld`` (for ``PLDAccountant``): a draw that is epsilon-private as randomized response of that epsilon, the worst one
(Kairouz, Oh and Viswanath 2015, Theorem 2), written as discrete Laplace noise of scale 1 / epsilon with a change of
one, which it is; discrete Laplace noise with one worst-case vector as its cells; Gaussian noise as below; what is of no
such kind as ``UnsupportedDpEvent``, which every accountant refuses.

Deltas that draws have of their own are taken off (``reveals``, their sum D): D + (1 - D) d(epsilon) is a delta for all,
where d is that of the rest (Murtagh and Vadhan 2018, Theorem 1.5), so the rest is read at delta - D.

**Discrete Gaussian noise of scale s under** ``pld``. Let r^2 = 3/2 and s^2 = t^2 + r^2. Draw X from the continuous
N(m, t^2), m whole, then Z from the discrete Gaussian around X, weights ``exp(-(z - X)^2 / (2 r^2))``. Those weights add
up to a number between c (1 - h) and c (1 + h), with c = r sqrt(2 pi) and h = 2 sum_k exp(-2 pi^2 r^2 k^2) (Poisson
summation). Were it c, Z would be exactly discrete Gaussian with scale s around m, for two Gaussian exponents
integrated over X are one of variance t^2 + r^2. So the probability of each z is that of discrete Gaussian noise up to
a factor between exp(-k) and exp(k), with k = log((1 + h) / (1 - h)), whatever m is. With K the sum of k over all cells
that change, over all draws: if all that is released had been made from continuous noise, its probabilities Q, Q' under
two neighbours would be related to the true ones by P <= exp(K) Q and P' >= exp(-K) Q', so that

    P(S) - exp(e) P'(S) <= exp(K) (Q(S) - exp(e - 2 K) Q'(S)).

Hence e = 2 K + (epsilon of the continuous noise at delta exp(-K)) holds; ``slack`` is K. It is proved, and loses what
r^2 is beside s^2: a few hundredths of rho where the scale is about 7.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from dprelease.errors import LedgerError
from dprelease.ledger import Ledger
from dprelease.ledger.tables.tally import Tally
from dprelease.plan.document import Account
from dprelease.plan.explain.facts import budget_facts
from dprelease.privacy.accountants.base import Atom, atoms, rest_epsilon
from dprelease.privacy.accountants.reveals import peeled
from dprelease.privacy.accountants.rho import zcdp_rho
from dprelease.privacy.event import Composed, DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, RandomScale
from dprelease.privacy.filters import Spent

__all__ = ["FORMAT", "events_of", "export"]

FORMAT = "dprelease-ledger-export/1"
_MODULE = "dp_accounting.dp_event"
_ROUND = Fraction(3, 2)  # r^2
_SLACK = Fraction(1, 10**12)  # at least k: h < 2.8e-13, so log((1 + h) / (1 - h)) < 5.7e-13
_NOTES = {
    "knorm": "a K-norm draw is written as randomized response of its epsilon (zcdp: by its own rho)",
    "total_residual": "a draw of a total with residuals is written as randomized response of its epsilon (zcdp: its "
    "own rho)",
    "random_scale": "noise of one random scale is written as Gaussian noise of the smallest of its scales, as under "
    "pld discrete Gaussian noise is",
    "bounded_range": "a choice is written as randomized response of its range (zcdp: range^2 / 8)",
    "approximate": "a selection of keys is written as randomized response of its epsilon; its delta is in `reveals`",
    "parallel": "draws on parts of the units are written as what the worst parts cost",
    "concentrated": "a draw of which only rho is known has no event under pld",
    "discrete_gaussian": "discrete Gaussian noise is written under pld as continuous noise of a smaller scale, and "
    "`slack`; where that is not possible, or no worst vector is known, as UnsupportedDpEvent",
}


def export(ledger: Ledger, account: str = "") -> dict[str, Any]:
    """Everything that stands charged, by account, for a program that has never heard of this one.

    Args:
        ledger: Which is read.
        account: Only this one; empty: all.

    Raises:
        LedgerError: The ledger has no such account.
    """
    tally = ledger.tally()
    if account and account not in tally.state.accounts:
        known = ", ".join(sorted(tally.state.accounts)) or "none"
        raise LedgerError(f"the ledger has no account {account}", hint=f"it has: {known}", code="DPR-L115")
    names = [account] if account else sorted(tally.state.accounts)
    head = tally.state.head
    return {
        "format": FORMAT,
        "ledger": ledger.place,
        "head": {"sequence": head.sequence, "hash": head.hash},
        "accounts": {name: _account(tally, name) for name in names},
    }


def _account(tally: Tally, name: str) -> dict[str, Any]:
    stand = tally.state.accounts[name]
    taken = [each for each in tally.taken if name in each.parts]
    counted = Counter(each.parts[name].digest for each in taken)
    draws = {digest: events_of(tally.draws[digest]) for digest in counted}
    notes = sorted({note for digest in counted for note in draws[digest].pop("notes")})
    extra = [body.added[name] for body in tally.recovered.values() if name in body.added]
    if any(spent.loss for spent in extra):
        notes.append("a recovery added spend whose draws nobody knows: only a zcdp account can write it, under zcdp")
    reveals = sum((n * Fraction(draws[digest]["reveals"]) for digest, n in counted.items()), Fraction(0))
    slack = sum((n * Fraction(draws[digest]["slack"]) for digest, n in counted.items()), Fraction(0))
    return {
        "terms": _terms(stand.account),
        "spent": _spent(stand.balance.spent),
        "windows": {name: _spent(spent) for name, spent in sorted(stand.balance.windows.items())},
        "releases": [
            {
                "release": each.release,
                "period": each.period,
                "entry": each.sequence,
                "ended": each.ended or "open",
                "draws": each.parts[name].digest,
                "windows": list(each.parts[name].windows),
            }
            for each in taken
        ],
        "draws": draws,
        "composition": _composition(stand.account, counted, draws, extra),
        "reveals": _up(reveals + sum((spent.reveals for spent in extra), Fraction(0))),
        "slack": _up(slack),
        "notes": notes,
    }


def _spent(spent: Spent) -> dict[str, str]:
    return {"loss": str(spent.loss), "reveals": str(spent.reveals)}


def _terms(account: Account) -> dict[str, Any]:
    return {
        "unit": account.unit,
        "neighboring": account.neighboring.value,
        "composition": account.composition,
        "order": None if account.order is None else str(account.order),
        "cap": budget_facts(account.lifetime),
        "selecting": str(account.selecting),
        "parallel": account.parallel.model_dump(mode="json") if account.parallel else None,
    }


def _composition(
    account: Account, counted: Mapping[str, int], draws: Mapping[str, Any], extra: list[Spent]
) -> dict[str, Any]:
    """All draws together, in both forms; spend without draws only where rho says it."""
    lost = sum((spent.loss for spent in extra), Fraction(0))
    known = {kind: [_times(draws[digest][kind], n) for digest, n in counted.items()] for kind in ("zcdp", "pld")}
    if not lost:
        return {kind: _composed(events) for kind, events in known.items()}
    unknown = _event("UnsupportedDpEvent")
    zcdp = _composed([*known["zcdp"], _zcdp(lost)]) if account.composition == "zcdp" else unknown
    return {"zcdp": zcdp, "pld": unknown}


def events_of(draws: Composed) -> dict[str, Any]:
    """Draws in both forms, their deltas, their slack, and notes on what is written as something else.

    Every number is rounded so that nothing is flattered: rho and parameters of loss up, noise multipliers down.
    """
    if any(atom.kind == "approximate" and atom.delta > 1 - Fraction(1, 2**500) for atom in atoms(draws)):
        nothing = _event("NonPrivateDpEvent")
        note = ["an incident says that draws protected nothing: NonPrivateDpEvent"]
        return {"zcdp": nothing, "pld": nothing, "reveals": 1.0, "slack": 0.0, "notes": note}
    bare = peeled(atoms(draws))
    concentrated, pairs, cells = [], [], 0
    for atom, n in bare.atoms.items():
        concentrated.append(_times(_zcdp(zcdp_rho(atom)), n))
        pair, changed = _pair(atom)
        pairs.append(_times(pair, n))
        cells += n * changed
    kinds = {atom.kind for atom in atoms(draws)}
    return {
        "zcdp": _composed(concentrated),
        "pld": _composed(pairs),
        "reveals": _up(bare.spent),
        "slack": _up(cells * _SLACK),
        "notes": [note for kind, note in _NOTES.items() if kind in kinds],
    }


def _pair(atom: Atom) -> tuple[dict[str, Any], int]:
    """A draw under pld, and how many of its cells have slack."""
    if isinstance(atom, DiscreteLaplace) and len(atom.sensitivity.shifts) == 1:
        (worst,) = atom.sensitivity.shifts
        each = Counter(worst)
        events = [
            _times(_event("DiscreteLaplaceDpEvent", noise_parameter=_up(1 / atom.scale), sensitivity=change), n)
            for change, n in each.items()
        ]
        return _composed(events), 0
    if isinstance(atom, DiscreteGaussian):
        return _gaussian(atom.scale * atom.scale - _ROUND, atom.sensitivity.l2_squared), atom.sensitivity.l0
    if isinstance(atom, RandomScale):
        least, moved = atom.scale * min(atom.stretches) * RandomScale.GRAIN, atom.rows * RandomScale.GRAIN
        return _gaussian(least * least - _ROUND, moved**2 * atom.length_squared), atom.rows * (atom.dimension + 1)
    if isinstance(atom, Gaussian):
        return _gaussian(atom.scale * atom.scale, atom.sensitivity.l2_squared), 0
    if isinstance(atom, Laplace) and atom.sensitivity.l1:
        return _event("LaplaceDpEvent", noise_multiplier=_down(atom.scale / atom.sensitivity.l1)), 0
    epsilon = rest_epsilon(atom)
    if epsilon is None:
        return _event("UnsupportedDpEvent"), 0
    if not epsilon:
        return _event("NoOpDpEvent"), 0
    return _event("DiscreteLaplaceDpEvent", noise_parameter=_up(epsilon), sensitivity=1), 0


def _gaussian(variance: Fraction, squared: Fraction) -> dict[str, Any]:
    if not squared:
        return _event("NoOpDpEvent")
    if variance <= 0:
        return _event("UnsupportedDpEvent")
    ratio = variance / squared
    root = Fraction(math.isqrt(ratio.numerator * 10**60 // ratio.denominator), 10**30)
    return _event("GaussianDpEvent", noise_multiplier=_down(root)) if root else _event("UnsupportedDpEvent")


def _event(name: str, **fields: Any) -> dict[str, Any]:
    return {"module_name": _MODULE, "class_name": name, **fields}


def _zcdp(rho: Fraction) -> dict[str, Any]:
    return _event("ZCDpEvent", rho=_up(rho), xi=0.0)


def _composed(events: list[dict[str, Any]]) -> dict[str, Any]:
    if len(events) == 1:
        return events[0]
    return _event("ComposedDpEvent", events=events) if events else _event("NoOpDpEvent")


def _times(event: Mapping[str, Any], n: int) -> dict[str, Any]:
    return dict(event) if n == 1 else _event("SelfComposedDpEvent", event=dict(event), count=n)


def _up(value: Fraction) -> float:
    near = float(value)
    return near if near >= value else math.nextafter(near, math.inf)


def _down(value: Fraction) -> float:
    near = float(value)
    return near if near <= value else math.nextafter(near, 0.0)
