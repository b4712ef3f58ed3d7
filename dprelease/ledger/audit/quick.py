"""Entries of the kinds of which a long ledger has very many, read without the parser of every other entry.

The whole text must be of one form: that of canonical JSON with all fields of its kind, each of its type, and no others.
Whatever is not (a character that JSON escapes, a number that is negative, an approval, an entry of an older schema) is
left to the parser. So what is read here is what the parser would read: ``test_ledger_audit_quick`` holds the two beside
one another.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from pydantic_core import from_json

from dprelease.ledger.model.balance import Actor, Balance, Charged, Marks
from dprelease.ledger.model.entry import Reserved
from dprelease.plan.document.account import AccountLosses
from dprelease.privacy.budget import Budget, Loss
from dprelease.privacy.filters import Spent

__all__ = ["PlainEntry", "plain_entry", "quick_reserved"]


def _object(**fields: str) -> str:
    return "{" + ",".join(f'"{name}":{value}' for name, value in sorted(fields.items())) + "}"


def _list_of(item: str) -> str:
    return rf"\[(?:{item}(?:,{item})*)?\]"


def _keyed(value: str) -> str:
    return rf"{{(?:{_TEXT}:{value}(?:,{_TEXT}:{value})*)?}}"


def _got(pattern: str) -> str:
    return f"({pattern})"


def _in_quotes(pattern: str) -> str:
    return f'"({pattern})"'


# Each without groups, to be part of another one; groups are put around what is read.
_LETTERS = r'[^"\\\x00-\x1f]*'
_TEXT = f'"{_LETTERS}"'
_WHOLE = "(?:0|[1-9][0-9]*)"
_NUMBER = f"{_WHOLE}(?:/[1-9][0-9]*)?"
_RATIONAL = f'"{_NUMBER}"'
_SPENT = _object(loss=_RATIONAL, reveals=_RATIONAL)
_LOSS = _object(delta=_RATIONAL, epsilon=_RATIONAL)
_MAYBE = f"(?:null|{_RATIONAL})"
_CAP = _object(delta=_RATIONAL, epsilon=_MAYBE, rho=_MAYBE)
_FACTS = _object(after=_LOSS, before=_LOSS, cap=_CAP, composition='"(?:basic|zcdp|rdp|pld)"', name=_TEXT, window=_TEXT)
_CHARGED = _object(digest=_TEXT, events="null", facts=_FACTS, spent=_SPENT, windows=_list_of(_FACTS))
_BALANCE = _object(
    account=_TEXT, opened=_WHOLE, releases=_WHOLE, series=_keyed(_WHOLE), spent=_SPENT, windows=_keyed(_SPENT)
)
_ACTOR = _object(command=_TEXT, host=_TEXT, process=_WHOLE, user=_TEXT, version=_TEXT)
_RESERVED = _object(
    approvals=r"\[\]",
    at=_in_quotes(_LETTERS),
    balances=_got(_list_of(_BALANCE)),
    by=_got(_ACTOR),
    charges=_got(_list_of(_CHARGED)),
    environment=_got(_keyed(_TEXT)),
    marks=_object(heads=_got(_keyed(_WHOLE)), place=_got(_WHOLE)),
    mended=_got(_list_of(_TEXT)),
    period=_in_quotes(_LETTERS),
    plan=_in_quotes(_LETTERS),
    plan_fingerprint=_in_quotes(_LETTERS),
    reason=_in_quotes(_LETTERS),
    release=_in_quotes(_LETTERS),
    restates=_got(f"null|{_WHOLE}"),
    revision=_got(_WHOLE),
    spec_fingerprint=_in_quotes(_LETTERS),
)
_FILES = rf"\[{_TEXT}(?:,{_TEXT})*\]"
_OF_RELEASE = dict.fromkeys(("period", "plan", "release"), _in_quotes(_LETTERS))
_MEASURED = _object(
    at=_TEXT,
    books=_got(_WHOLE),
    cells=_got(_WHOLE),
    digest=_in_quotes(_LETTERS),
    step=_in_quotes(_LETTERS),
    **_OF_RELEASE,
)
_CLOSED = _object(
    at=_TEXT,
    books=_got(_WHOLE),
    gave_up=_in_quotes(_LETTERS),
    manifest=_TEXT,
    reservation=_got(_WHOLE),
    **_OF_RELEASE,
)
_SOURCED = _object(
    accepted=_in_quotes(_LETTERS),
    accounts=_got(_keyed(_TEXT)),
    at=_TEXT,
    books=_got(_WHOLE),
    by=_ACTOR,
    key=_TEXT,
    reservation=_got(_WHOLE),
    tables=_got(_keyed(_FILES)),
    **_OF_RELEASE,
)
_two = _in_quotes(_NUMBER)
_reserved = re.compile(_RESERVED)
_charges = re.compile(
    _object(
        digest=_in_quotes(_LETTERS),
        events="null",
        facts=_got(_FACTS),
        spent=_object(loss=_two, reveals=_two),
        windows=_got(_list_of(_FACTS)),
    )
)
_facts = re.compile(
    _object(
        after=_object(delta=_two, epsilon=_two),
        before=_object(delta=_two, epsilon=_two),
        cap=_object(delta=_two, epsilon=_got(_MAYBE), rho=_got(_MAYBE)),
        composition=_in_quotes(_LETTERS),
        name=_in_quotes(_LETTERS),
        window=_in_quotes(_LETTERS),
    )
)
_balances = re.compile(
    _object(
        account=_in_quotes(_LETTERS),
        opened=_got(_WHOLE),
        releases=_got(_WHOLE),
        series=_got(_keyed(_WHOLE)),
        spent=_object(loss=_two, reveals=_two),
        windows=_got(_keyed(_SPENT)),
    )
)
_files = re.compile(f"{_in_quotes(_LETTERS)}:{_got(_FILES)}")
_numbers = re.compile(f"{_in_quotes(_LETTERS)}:{_got(_WHOLE)}")
_sums = re.compile(f"{_in_quotes(_LETTERS)}:{_object(loss=_two, reveals=_two)}")


class PlainEntry(NamedTuple):
    """What is checked of a ``measure``, ``source`` or ``close`` entry; see `Measured`, `Sourced` and `Closed`."""

    kind: str
    release: str
    period: str
    plan: str
    books: int
    reservation: int = 0
    step: str = ""
    cells: int = 0
    digest: str = ""
    accepted: str = ""
    gave_up: str = ""


def plain_entry(kind: str, text: str) -> PlainEntry | None:
    """An entry of one of the three kinds; None where it is another one, or its text is not the plain one."""
    form, read = _PLAIN.get(kind, _NEITHER)
    parts = form.fullmatch(text)
    try:
        return read(*parts.groups()) if parts else None
    except ValueError:
        return None


def _measured(books: str, cells: str, digest: str, period: str, plan: str, release: str, step: str) -> PlainEntry:
    return PlainEntry("measure", release, period, plan, int(books), 0, step, int(cells), digest)


def _closed(books: str, gave_up: str, period: str, plan: str, release: str, reservation: str) -> PlainEntry:
    return PlainEntry("close", release, period, plan, int(books), int(reservation), gave_up=gave_up)


def _sourced(accepted: str, accounts: str, books: str, *rest: str) -> PlainEntry:
    period, plan, release, reservation, tables = rest
    _in_order(accounts)
    _ordered(_files, tables, str)
    return PlainEntry("source", release, period, plan, int(books), int(reservation), accepted=accepted)


_Form = tuple[re.Pattern[str], Callable[..., PlainEntry]]
_PLAIN: dict[str, _Form] = {
    "measure": (re.compile(_MEASURED), _measured),
    "close": (re.compile(_CLOSED), _closed),
    "source": (re.compile(_SOURCED), _sourced),
}
_NEITHER: _Form = (re.compile("(?!)"), _measured)


def quick_reserved(text: str) -> Reserved | None:
    """A ``reserve`` entry whose text is canonical; None: it is for the parser to say what it is."""
    parts = _reserved.fullmatch(text)
    try:
        return _read(*parts.groups()) if parts else None
    except ValueError:
        return None


def _read(
    at: str, balances: str, by: str, charges: str, environment: str, heads: str, place: str, mended: str, *rest: str
) -> Reserved:
    period, plan, mark, reason, release, restates, revision, spec = rest
    return Reserved.of_checked(
        {
            "at": at,
            "by": _actor(by),
            "marks": Marks.of_checked({"place": int(place), "heads": _ordered(_numbers, heads, int)}),
            "balances": tuple([_balance(*each) for each in _balances.findall(balances)]),
            "release": release,
            "period": period,
            "plan": plan,
            "plan_fingerprint": mark,
            "spec_fingerprint": spec,
            "charges": tuple([_charge(*each) for each in _charges.findall(charges)]),
            "environment": _in_order(environment),
            "restates": None if restates == "null" else int(restates),
            "reason": reason,
            "revision": int(revision),
            "approvals": (),
            "mended": _mended(mended),
        },
    )


def _charge(digest: str, facts: str, loss: str, reveals: str, windows: str) -> Charged:
    own, *_ = _facts.findall(facts)
    further = () if windows == "[]" else tuple([_losses(*each) for each in _facts.findall(windows)])
    fields = {"facts": _losses(*own), "events": None, "digest": digest, "spent": _price(loss, reveals)}
    return Charged.of_checked({**fields, "windows": further})


def _losses(
    delta: str, epsilon: str, delta_before: str, before: str, at: str, cap: str, rho: str, *names: str
) -> AccountLosses:
    composition, name, window = names
    fields: dict[str, Any] = {"name": name, "composition": composition, "cap": _cap(at, cap, rho)}
    fields |= {"before": _loss(delta_before, before), "after": _loss(delta, epsilon), "window": window}
    return AccountLosses.of_checked(fields)


def _balance(account: str, opened: str, releases: str, series: str, loss: str, reveals: str, windows: str) -> Balance:
    return Balance.of_checked(
        {
            "account": account,
            "opened": int(opened),
            "spent": _sum(loss, reveals),
            "windows": _ordered(_sums, windows, _price),
            "releases": int(releases),
            "series": _ordered(_numbers, series, int),
        },
    )


def _ordered(pattern: re.Pattern[str], text: str, value: Any) -> dict[str, Any]:
    """An object whose keys are free; canonical JSON has each of them once, in their order."""
    if text == "{}":
        return {}
    found = pattern.findall(text)
    if len(found) > 1 and any(each[0] >= after[0] for each, after in pairwise(found)):
        raise ValueError("keys are not in their order")
    return {name: value(*rest) for name, *rest in found}


def _sum(loss: str, reveals: str) -> Spent:
    return Spent.of_checked({"loss": _fraction(loss), "reveals": _rational(reveals)})


_price = lru_cache(1000)(_sum)  # what a release costs, which many do; the sum of an account is hardly ever the same


@lru_cache(1000)
def _loss(delta: str, epsilon: str) -> Loss:
    """Each is told twice: what stands behind a release is what there was before the next one."""
    return Loss.of_checked({"epsilon": _fraction(epsilon), "delta": _rational(delta)})


def _fraction(text: str) -> Fraction:
    above, _, below = text.partition("/")
    return Fraction(int(above), int(below)) if below else Fraction(int(above))


_rational = lru_cache(1000)(_fraction)
_actor = lru_cache(1000)(Actor.from_canonical)


@lru_cache(1000)
def _cap(delta: str, epsilon: str, rho: str) -> Budget:
    given = {"epsilon": epsilon, "rho": rho}
    read = {name: _rational(each.strip('"')) for name, each in given.items() if each != "null"}
    return Budget(delta=_rational(delta), **read)


@lru_cache(1000)
def _mended(text: str) -> tuple[str, ...]:
    return tuple(from_json(text))


@lru_cache(1000)
def _in_order(text: str) -> dict[str, str]:
    """An object of texts."""
    plain: dict[str, str] = from_json(text)
    if text.count('":"') != len(plain) or list(plain) != sorted(plain):
        raise ValueError("keys are not in their order")
    return plain
