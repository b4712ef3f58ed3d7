"""What a release costs an account whose unit, or whose relation between data sets, is not that of its spec.

The account's promise is about two data sets that are one step of *its* relation apart. If n steps of the spec's
relation always lead from one to the other, a release costs the account what it costs n units of the spec
(``group.of_event``). Here is that n, or the reason why there is none. U is the unit of the account, u that of the spec,
and ``nests`` says that every row of one U belongs to one of at most k units u, none of which has rows of another U: k
persons make up a household, 12 person-months a person. A data set may be any collection of units; the steps in between
need be no data set that ever was.

============  =====================  =====================  ==========================================================
Units         Account                Spec                   Steps
============  =====================  =====================  ==========================================================
U = u         the same relation      the same relation      1
U = u         ``replace_one``        ``add_remove``         2: the old rows are taken out, the new ones put in
U = u         ``add_remove``         ``replace_one``        none: a replacement never changes how many units there are
U of k u      ``add_remove``         ``add_remove``         k: the units in the U enter, or leave, one by one
U of k u      ``replace_one``        ``add_remove``         2 k: at most k leave, then at most k enter
U of k u      ``replace_one``        ``replace_one``        none: the new household may have more or fewer persons
U of k u      ``add_remove``         ``replace_one``        none, as above
others        any                    any                    none that can be known from names
============  =====================  =====================  ==========================================================

No step fewer would do: a step of ``add_remove`` changes the number of one kind of unit by one. So k units that enter
are k steps, and k units of one content in the place of k of another are 2 k.
``tests/laws/test_filters_units.py`` lists all small nested data sets, and breadth-first search finds the same numbers.

**A spec whose unit is the larger one** (the account protects a person, the spec a household) protects the person too.
Under ``add_remove`` for both it would take two steps, a household with the person for one without, as long as a person
has rows in one household only; four if one person is replaced by another one in another household. Nothing in a policy
says in how many households a person is, and ``nests`` must not be used to say it: it would grant half of what is
needed. So this is refused; an account for households, with ``nests: {person: 5}``, takes both kinds of spec.

>>> factor("person", Neighboring.ADD_REMOVE, "household", Neighboring.REPLACE_ONE, {"person": 5})
10
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dprelease.errors import PlanError
from dprelease.privacy.event import Approximate, Composed, Event, KeySelection
from dprelease.privacy.group import of_event
from dprelease.privacy.unit import Neighboring

__all__ = ["converted", "factor"]

_STRETCHES = ("hour", "day", "week", "month", "quarter", "year")


def factor(
    spec_unit: str,
    spec_relation: Neighboring,
    account_unit: str,
    account_relation: Neighboring,
    nests: Mapping[str, int],
) -> int:
    """How many steps of a spec's relation one step of an account's relation takes at most; proof above.

    Args:
        spec_unit: As printed, ``person`` or ``person-month``.
        spec_relation: What the spec's sensitivities are about.
        account_unit: Whom the account protects.
        account_relation: Its relation.
        nests: The nests of the account: by unit, of how many of them one unit of the account is made up at most.

    Raises:
        PlanError: Where the spec's guarantee says nothing about the account's, or a number in ``nests`` is below 1.
    """
    inside = 1 if spec_unit == account_unit else _inside(spec_unit, account_unit, nests)
    if spec_relation is Neighboring.ADD_REMOVE:
        return inside if account_relation is Neighboring.ADD_REMOVE else 2 * inside
    if account_relation is Neighboring.ADD_REMOVE:
        raise PlanError(
            f"a spec with `neighboring: replace_one` says nothing about one {account_unit} more or less, "
            "which the account protects",
            detail="its guarantee takes the number of units for public",
            hint="write `neighboring: add_remove` in the spec",
            code="DPR-P411",
        )
    if spec_unit != account_unit:
        raise PlanError(
            f"a spec with `neighboring: replace_one` per {spec_unit} does not cover one {account_unit} replaced, "
            "which the account protects",
            detail=f"the number of {spec_unit} units in one {account_unit} may change",
            hint="write `neighboring: add_remove` in the spec",
            code="DPR-P412",
        )
    return 1


def converted(event: Event, factor: int) -> Event:
    """The event as it is for an account: for ``factor`` steps of the spec's relation (``group.of_event``).

    A selection of keys for one unit is charged as noise and a (0, delta) event, which is the same for every accountant
    and filter, and what ledgers have held since there were selections: entries, and the series of accounts, keep their
    digests. For several units it stays whole.

    Raises:
        UnsupportedEvent: If nothing can be proved for so many units at once.
    """
    if factor == 1 and isinstance(event, KeySelection) and event.units == 1:
        return Composed(events=(event.noise, Approximate(epsilon=Fraction(0), delta=event.delta)))
    return of_event(event, factor)


def _what_to_write(spec_unit: str, account_unit: str) -> str:
    """In the spec the unit of the account; or in the policy how many of the spec's units make up one of the account."""
    (entity, per), account = _parts(spec_unit), _parts(account_unit)
    as_account = f"{{entity: {account[0]}, per: {account[1]}}}" if account[1] else f"{{entity: {account_unit}}}"
    said = f"write `unit: {as_account}` in the spec"
    if account[0] == spec_unit:  # a part of what the spec protects; why the number of parts helps nobody: above
        return said
    if entity == account_unit:
        made_up = f"the data hold at most 12 of the {per}s of every {account_unit}"
        return f"{said}; or, if {made_up}, whoever keeps policy.yaml can say so: `nests: {{{spec_unit}: 12}}`"
    return (
        f"{said}; or, if every {account_unit} is made up of a few {spec_unit} units, none of them in two, "
        f"whoever keeps policy.yaml can say of how many at most: `nests: {{{spec_unit}: 5}}`"
    )


def _parts(unit: str) -> tuple[str, str]:
    """Entity and stretch of time of a unit as printed; any other text is all entity."""
    entity, _, per = unit.rpartition("-")
    return (entity, per) if entity and per in _STRETCHES else (unit, "")


def _inside(spec_unit: str, account_unit: str, nests: Mapping[str, int]) -> int:
    most = nests.get(spec_unit)
    if most is None:
        known = f", and is made up of: {', '.join(sorted(nests))}" if nests else ""
        raise PlanError(
            f"the spec protects one {spec_unit}, and its account one {account_unit}{known}",
            hint=_what_to_write(spec_unit, account_unit),
            code="DPR-P410",
        )
    if most < 1:
        raise PlanError(
            f"`nests` says that one {account_unit} is made up of at most {most} {spec_unit} units",
            hint=f"write a whole number from 1 on in policy.yaml, such as `nests: {{{spec_unit}: 5}}`",
            code="DPR-P413",
        )
    return most
