"""``ledger:`` of a project: the place of a ledger, as its stores take one; secrets only as ``${env:NAME}``.

Which stores there are is handed in (``ledger.LEDGERS``): they stand on a floor above this one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from dprelease.catalog.urls import HOLD, VARIABLE, Scheme, in_place, user_part
from dprelease.errors import LedgerError
from dprelease.spec.text.scalars import kind_of, refuse

__all__ = ["ledger_resolved", "ledger_text", "misplaced"]

_PASSWORD = re.compile(r"[?&](?:ssl)?password=([^&]*)", re.IGNORECASE)


def ledger_text(value: Any) -> str:
    """What an author writes of a ledger is text.

    Raises:
        PydanticCustomError: If it is something else.
    """
    if not isinstance(value, str):
        raise refuse("DPR-S220", f"is {kind_of(value)}, no ledger", "write the place of one, in quotes where in doubt")
    return value


def misplaced(written: str, schemes: Iterable[Scheme]) -> tuple[str, str, str] | None:
    """What is wrong with the place of a ledger: code, words and hint; a variable may be all of it, or stand in it.

    It is no place of any store, or has a password in it: the file is no place for secrets. None: it is good.
    """
    bare, known = VARIABLE.sub(HOLD, written), tuple(schemes)
    if not bare.startswith(HOLD) and not any(scheme.takes(bare) for scheme in known):
        # What looks like a server may have a password in it, which no message repeats.
        what = "names no place that a ledger can be in" if "@" in written else f"is {kind_of(written)}, no ledger"
        return "DPR-S220", what, "write " + ", or ".join(f"`ledger: {scheme.example}`" for scheme in known)
    _, colon, password = user_part(bare, known).partition(":")
    passwords = [password] if colon else []
    if any(each.strip(HOLD) for each in [*passwords, *_PASSWORD.findall(bare)]):
        hint = "write ${env:NAME} in its place, such as postgresql://user:${env:DPRELEASE_PASSWORD}@host/database"
        return "DPR-S226", "holds a password", hint
    return None


def ledger_resolved(written: str, environment: Mapping[str, str], schemes: Iterable[Scheme]) -> str:
    """The place of a ledger with its variables; it may hold a password, and is never shown (``written`` may be).

    What stands for a user or a password in the text of a server is percent-encoded: the variable holds it as it is.
    Every text of one server becomes the same one (``Scheme.same``), for a ledger knows its place by its text.

    Args:
        written: A place in which :func:`misplaced` finds nothing wrong.
        environment: What variables may name.
        schemes: The schemes of the stores that there are.

    Raises:
        LedgerError: If a variable is not set, or does not give the place of a ledger; quotes no value of any.
    """
    known = tuple(schemes)
    try:
        place = in_place(written, environment, known)
    except KeyError as missing:
        name = missing.args[0]
        raise LedgerError(
            f"the environment variable {name} is not set; `ledger: {written}` needs it",
            hint=f"export {name}=... and run the same command again",
            code="DPR-L145",
        ) from None
    taking = next((scheme for scheme in known if scheme.takes(place)), None)
    if taking is None or "\0" in place:
        beginnings = " and ".join(scheme.prefixes[0] for scheme in known)
        raise LedgerError(
            f"`ledger: {written}` gives no place of a ledger: it begins with none of {beginnings}",
            hint="correct the environment variable, or write the place in dprelease.yaml",
            code="DPR-L145",
        )
    return place if taking.same is None else taking.same(place)
