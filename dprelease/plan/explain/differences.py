"""What two plans ask and promise otherwise, as text: of the release as a whole, and of any two values of one kind.

Whatever field a plan has is looked at, also one that was added after this was written: the few that have words of their
own are named here, and every other one is told by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dprelease.canonical import Value, sha256
from dprelease.catalog.table import Column, Hierarchy, Key, Table
from dprelease.plan.document import Invariant, PlannedSeries, ReleasePlan
from dprelease.plan.explain.facts import loss_facts

__all__ = [
    "Difference",
    "field_differences",
    "keys_text",
    "release_differences",
    "same_table",
    "text_of",
    "union",
    "unlike",
]

T = TypeVar("T")

_MOST = 120  # signs of a text
# Fields of a plan that have words of their own here or in ``plan.explain.changes``, or that follow from others.
_TOLD = frozenset(
    ("format", "release", "spec_fingerprint", "unit", "neighboring", "budget", "accounting", "accounts", "catalog",
     "queries", "steps", "loss", "certified", "outputs", "considered", "naive", "unspent", "derive", "publish",
     "workloads", "invariants")
)  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """A fact that two plans do not share, as text; empty on the side that does not have it."""

    what: str
    before: str
    after: str


def union(one: Collection[T], two: Collection[T]) -> list[T]:
    """What is in either of them: in the order of the first, then what the second alone has."""
    return list(dict.fromkeys([*one, *two]))


def text_of(value: Any) -> str:
    """A value of a plan for people; what a field says by default is left out, and a long text is cut.

    >>> text_of((1, True, None)), text_of({"a": (1, 2)}), text_of(())
    ('1, yes, ', 'a 1, 2', '')
    >>> len(text_of("x" * 1000))
    120
    """
    text = _plain(value)
    return text if len(text) <= _MOST else f"{text[: _MOST - 12]}... {sha256(text.encode())[:8]}"


def _plain(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, PlannedSeries):
        return _plain(_facts_of(value))
    if isinstance(value, Value):
        return _plain({name.replace("_", " "): getattr(value, name) for name in type(value).model_fields})
    if isinstance(value, Mapping):
        said = {name: each for name, each in value.items() if not _is_nothing(each)}
        return ", ".join(name if each is True else f"{name} {_plain(each)}" for name, each in said.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_plain, value))
    return str(value)


def _facts_of(series: PlannedSeries) -> dict[str, Any]:
    """A series by its ends: a list of all of its periods would be all that anybody sees of it."""
    first, last = series.periods[0], series.periods[-1]
    return {
        "periods": first if first == last else f"{first} to {last}",
        "skipped": series.skipped,
        "sums": series.sums,
        "horizon": series.horizon,
        "minimize": series.minimize,
        "band": " ".join(map(str, series.band.coefficients)),
    }


def _is_nothing(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, str | Sequence | Mapping) and not value)


def field_differences(of: str, one: Value, two: Value, skipped: Collection[str] = ()) -> Iterator[Difference]:
    """Every field in which two values of one kind differ, by its name.

    Args:
        of: Whose fields they are; empty: nobody's, the name stands alone.
        one: Before.
        two: After.
        skipped: Fields that are told elsewhere.
    """
    for name in type(one).model_fields:
        if name in skipped or getattr(one, name) == getattr(two, name):
            continue
        what = f"{name.replace('_', ' ')} of {of}" if of else name.replace("_", " ")
        yield Difference(what, text_of(getattr(one, name)), text_of(getattr(two, name)))


def unlike(*told: tuple[str, ...]) -> Iterator[Difference]:
    """Those of some facts (what, before, after) that are not the same before and after."""
    for what, before, after in told:
        if before != after:
            yield Difference(what, before, after)


def release_differences(first: ReleasePlan, second: ReleasePlan) -> Iterator[Difference]:
    """What is said of the release as a whole and not of one query, always in the same order."""
    yield from _of_release(first, second)
    yield from unlike(
        ("unit", str(first.unit), str(second.unit)),
        ("neighboring", str(first.neighboring), str(second.neighboring)),
        ("budget", text_of(first.budget), text_of(second.budget)),
        ("accounting", first.accounting, second.accounting),
    )
    accounts = [{each.name: each for each in plan.accounts} for plan in (first, second)]
    yield from _members("account", accounts[0], accounts[1], lambda each: "charged")
    for name in sorted(first.loss.keys() | second.loss.keys()):
        told = [plan.loss.get(name) for plan in (first, second)]
        yield from unlike((f"loss by {name}", *(text_of(loss_facts(each)) if each else "" for each in told)))
    yield from unlike(
        ("certified by", first.certified, second.certified),
        ("unspent", first.unspent or "", second.unspent or ""),
        ("confidence", str(first.publish.confidence), str(second.publish.confidence)),
    )
    yield from field_differences("", first.publish, second.publish, {"confidence"})
    yield from _of_catalog(first, second)
    exact = [{_exact(each): each for each in plan.invariants} for plan in (first, second)]
    yield from _members("invariant", exact[0], exact[1], lambda each: each.why, {"id", "cells"})
    derived = [{each.name: each for each in plan.derive} for plan in (first, second)]
    yield from _members("derived table", derived[0], derived[1], lambda each: "published")
    yield from field_differences("", first, second, _TOLD)


def _of_release(first: ReleasePlan, second: ReleasePlan) -> Iterator[Difference]:
    one, two = first.release, second.release
    yield from unlike(
        ("release", one.name, two.name),
        ("period", one.period, two.period),
        ("revision", str(one.revision), str(two.revision)),
        ("planned revisions", str(one.revisions), str(two.revisions)),
    )
    yield from field_differences("", one, two, {"name", "period", "revision", "revisions", "restatement"})


def _members(
    kind: str,
    one: Mapping[str, T],
    two: Mapping[str, T],
    said: Callable[[T], str],
    skipped: Collection[str] = ("name",),
) -> Iterator[Difference]:
    """Members by name: those that one side alone has, and the fields in which those of both differ."""
    for name in union(one.keys(), two.keys()):
        before, after = one.get(name), two.get(name)
        if before is not None and after is not None:
            if isinstance(before, Value) and isinstance(after, Value):
                yield from field_differences(f"{kind} {name}", before, after, skipped)
            continue
        yield Difference(f"{kind} {name}", "" if before is None else said(before), "" if after is None else said(after))


def _exact(invariant: Invariant) -> str:
    """What is published exactly: ids are numbered, and another one may be left out before it."""
    by = invariant.aggregate.by
    return f"{invariant.query}.{invariant.measure}" + (f" by {', '.join(by)}" if by else "")


def _of_catalog(first: ReleasePlan, second: ReleasePlan) -> Iterator[Difference]:
    one, two = first.catalog, second.catalog
    for name in sorted(one.references.keys() | two.references.keys()):
        marks = [each.sha256[:16] if each else "" for each in (one.references.get(name), two.references.get(name))]
        yield from unlike((f"reference {name}", *marks))
    for name in sorted(one.tables.keys() | two.tables.keys()):
        if name not in one.tables or name not in two.tables:
            yield Difference(
                f"table {name}", "read" if name in one.tables else "", "read" if name in two.tables else ""
            )
        elif not same_table(first, second, name):
            yield _of_table(one.tables[name], two.tables[name])
    for name in union(one.hierarchies.keys(), two.hierarchies.keys()):
        before, after = one.hierarchies.get(name), two.hierarchies.get(name)
        if before != after:
            same = _levels(before) == _levels(after)
            yield Difference(f"hierarchy {name}", _levels(before), "another tree" if same else _levels(after))
    yield from field_differences("", one, two, {"references", "tables", "exclusions", "hierarchies"})


def _levels(hierarchy: Hierarchy | None) -> str:
    return "" if hierarchy is None else ", ".join(hierarchy.levels)


def same_table(first: ReleasePlan, second: ReleasePlan, name: str) -> bool:
    """Whether a table is defined alike in both; where its rows lie may differ, and the days of the period."""
    one, two = first.catalog.tables[name], second.catalog.tables[name]
    return one == two or _elsewhere(one, two) == two


def _elsewhere(one: Table, two: Table) -> Table:
    """The first table with the rows and the days of the second one."""
    changes: dict[str, Any] = {"source": two.source}
    if one.time is not None and two.time is not None:
        changes["time"] = one.time.model_copy(update={"start": two.time.start, "end": two.time.end})
    return one.model_copy(update=changes)


def _of_table(one: Table, two: Table) -> Difference:
    """In what the definitions differ, in one line."""
    found = list(field_differences("", _elsewhere(one, two), two, {"name", "columns"}))
    columns = [{each.name: each for each in table.columns} for table in (one, two)]
    for name in union(columns[0].keys(), columns[1].keys()):
        before, after = columns[0].get(name), columns[1].get(name)
        if before is None or after is None:
            found.append(Difference(f"column {name}", _kind(before), _kind(after)))
        elif before != after:
            found += field_differences(name, before, after, {"name", "keys"})
            if before.keys != after.keys:
                found.append(Difference(f"keys of {name}", *keys_text(before.keys, after.keys)))
    if not found:
        return Difference(f"definition of table {one.name}", "", "another order of its columns")
    sides = (((each.what, each.before) for each in found), ((each.what, each.after) for each in found))
    told = ["; ".join(f"{what}: {text or 'none'}" for what, text in side) for side in sides]
    return Difference(f"definition of table {one.name}", told[0], told[1])


def _kind(column: Column | None) -> str:
    return "" if column is None else column.type


def keys_text(one: tuple[Key, ...] | None, two: tuple[Key, ...] | None) -> tuple[str, str]:
    """How many keys there are before and after, and how many of the later ones are new; empty where none are declared.

    >>> keys_text(("a", "b"), ("b", "c")), keys_text(("a", "b"), ("b", "a"))
    (('2 keys', '2 keys, 1 of them new'), ('2 keys', '2 keys, in another order'))
    """
    if one is None or two is None:
        return ("" if one is None else f"{len(one)} keys", "" if two is None else f"{len(two)} keys")
    new = len({(type(key), key) for key in two} - {(type(key), key) for key in one})
    more = f", {new} of them new" if new else ", in another order" if len(one) == len(two) else ""
    return f"{len(one)} keys", f"{len(two)} keys{more}"
