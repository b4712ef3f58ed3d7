"""Reservations read without the parser of every other entry, of which a long ledger has very many.

The whole text must be of one form: that of canonical JSON with all fields of a ``reserve`` entry, each of its type, and
no others. Whatever is not (a character that JSON escapes, a number that is negative, an approval, an entry of an older
schema) is left to the parser. So what is read here is what the parser would read: ``test_ledger_audit_quick`` holds the
two beside one another.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar

from pydantic_core import from_json

from dprelease.canonical import Value
from dprelease.ledger.model.balance import Actor, Balance, Charged, Marks
from dprelease.ledger.model.entry import Reserved
from dprelease.plan.document.account import AccountLosses
from dprelease.privacy.budget import Budget, Loss
from dprelease.privacy.filters import Spent

__all__ = ["quick_reserved"]

Made = TypeVar("Made", bound=Value)


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
_numbers = re.compile(f"{_in_quotes(_LETTERS)}:{_got(_WHOLE)}")
_sums = re.compile(f"{_in_quotes(_LETTERS)}:{_object(loss=_two, reveals=_two)}")


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
    return _made(
        Reserved,
        {
            "at": at,
            "by": _actor(by),
            "marks": _made(Marks, {"place": int(place), "heads": _ordered(_numbers, heads, int)}),
            "balances": tuple([_balance(*each) for each in _balances.findall(balances)]),
            "release": release,
            "period": period,
            "plan": plan,
            "plan_fingerprint": mark,
            "spec_fingerprint": spec,
            "charges": tuple([_charge(*each) for each in _charges.findall(charges)]),
            "environment": _environment(environment),
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
    return _made(Charged, {**fields, "windows": further})


def _losses(
    delta: str, epsilon: str, delta_before: str, before: str, at: str, cap: str, rho: str, *names: str
) -> AccountLosses:
    composition, name, window = names
    fields: dict[str, Any] = {"name": name, "composition": composition, "cap": _cap(at, cap, rho)}
    fields |= {"before": _loss(delta_before, before), "after": _loss(delta, epsilon), "window": window}
    return _made(AccountLosses, fields)


def _balance(account: str, opened: str, releases: str, series: str, loss: str, reveals: str, windows: str) -> Balance:
    return _made(
        Balance,
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
    names = [each[0] for each in found]
    if any(name >= after for name, after in pairwise(names)):
        raise ValueError("keys are not in their order")
    return {name: value(*rest) for name, *rest in found}


def _sum(loss: str, reveals: str) -> Spent:
    return _made(Spent, {"loss": _fraction(loss), "reveals": _rational(reveals)})


_price = lru_cache(1000)(_sum)  # what a release costs, which many do; the sum of an account is hardly ever the same


@lru_cache(1000)
def _loss(delta: str, epsilon: str) -> Loss:
    """Each is told twice: what stands behind a release is what there was before the next one."""
    return _made(Loss, {"epsilon": _fraction(epsilon), "delta": _rational(delta)})


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
def _environment(text: str) -> dict[str, str]:
    plain: dict[str, str] = from_json(text)
    if text.count('":"') != len(plain) or list(plain) != sorted(plain):
        raise ValueError("keys are not in their order")
    return plain


_KINDS: tuple[type[Value], ...] = (Reserved, Charged, AccountLosses, Balance, Marks, Spent, Loss)
_NAMES = {kind: set(kind.model_fields) for kind in _KINDS}
_set = object.__setattr__


def _made(kind: type[Made], fields: dict[str, Any]) -> Made:
    """A value of fields that were checked: what ``model_construct`` does in three times as long.

    All of its fields must be there, in their order, on which its hash depends.
    """
    value = kind.__new__(kind)
    _set(value, "__dict__", fields)
    _set(value, "__pydantic_fields_set__", _NAMES[kind])
    _set(value, "__pydantic_extra__", None)
    _set(value, "__pydantic_private__", None)
    return value
