"""Whether the numbers that the front page is to begin with will be published: told with the spec, before any charge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dprelease.catalog.reference import key_as_text
from dprelease.catalog.table import Table
from dprelease.measures import expand_measures
from dprelease.spec.fields.document import QuerySpec, ReleaseSpec
from dprelease.spec.fields.published.key_figures import KeyFigureSpec
from dprelease.spec.fields.published_sets import published_sets
from dprelease.spec.fields.workloads import TOTAL_KEY
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import did_you_mean, shown
from dprelease.spec.text.nodes import Path

__all__ = ["check_key_figures"]


@dataclass(frozen=True)
class _Published:
    """A table of which a row can be named: its query, the name of that, and its key columns."""

    name: str
    query: QuerySpec
    by: tuple[str, ...]


def check_key_figures(spec: ReleaseSpec, tables: Mapping[str, Table], findings: Findings) -> None:
    """Each names a table of a query, a number of it and one row that is published whatever the data are.

    What does not is a problem with the place where it is written (DPR-S756 to S759).

    Args:
        spec: Without a problem of its own.
        tables: Its tables, with explicit keys.
        findings: Takes the problems.
    """
    published = dict(_published(spec)) if spec.publish.key_figures else {}
    for at, figure in enumerate(spec.publish.key_figures):
        place: Path = ("publish", "key_figures", at)
        table = published.get(figure.table)
        if table is not None:
            _check(table, figure, tables[table.query.table], place, findings)
            continue
        says, hint = (
            f"means no table of a query: {shown(figure.table)!r}",
            "name a query, or a table of its `marginals`",
        )
        if figure.table in spec.derive:
            says = f"means a derived table, whose rows are not known before it is made: {shown(figure.table)!r}"
            findings.add("DPR-S756", (*place, "table"), says, hint)
        else:
            findings.add("DPR-S756", (*place, "table"), says, did_you_mean(figure.table, published, hint))


def _published(spec: ReleaseSpec) -> list[tuple[str, _Published]]:
    found = []
    for name, query in spec.queries.items():
        if query.marginals is None:
            found.append((name, _Published(name, query, query.cells_by)))
        else:
            sets = published_sets(name, query, spec.hierarchies)
            found += [(each.name, _Published(name, query, each.keys)) for each in sets]
    return found


def _check(table: _Published, figure: KeyFigureSpec, source: Table, place: Path, findings: Findings) -> None:
    query, about = table.query, ("queries", table.name)
    named, pairs = _numbers(query)
    if figure.measure not in named and not (pairs and figure.measure.startswith(pairs)):
        hint = did_you_mean(figure.measure, named, "name a number that the table publishes")
        says = f"means no number of {figure.table}: {shown(figure.measure)!r}"
        findings.add("DPR-S757", (*place, "measure"), says, hint, (*about, "measures"))
    # `keys` can be left out of a row without any: what is wrong with it is told where the figure stands.
    at = (*place, "keys") if figure.keys else place
    keys = {name: source.column(name).keys for name in table.by}
    chosen = (query.keys, query.top_k, query.ranges, query.except_)
    if any(each is not None for each in chosen) or any(each is None for each in keys.values()):
        says = f"names a row of {figure.table}, whose rows are not all combinations of declared keys"
        findings.add("DPR-S758", at, says, "name a table that has a row for every combination of declared keys", about)
        return
    if set(figure.keys) != set(table.by):
        wanted = ", ".join(f"{name}: {figure.keys.get(name, 'KEY')}" for name in table.by)
        says = f"does not name a row of {figure.table}: a row has a key of {_listed(table.by)}"
        findings.add("DPR-S758", at, says, f"write `keys: {{{wanted}}}`" if wanted else "leave `keys` out", about)
        return
    totals = query.totals or ()
    kept = tuple(name for name in table.by if not totals or figure.keys[name] != TOTAL_KEY)
    if kept != table.by and set(kept) not in map(set, totals):
        says = f"names a total of {figure.table} that is not among its `totals`"
        findings.add(
            "DPR-S758", at, says, f"write `totals: [[{', '.join(kept)}]]` in the query, or name another row", about
        )
        return
    for name in kept:
        known = [key_as_text(key) for key in keys[name] or ()]
        if figure.keys[name] not in known:
            hint = did_you_mean(figure.keys[name], known, _written(known))
            says = f"is no key of the column: {shown(figure.keys[name])!r}"
            findings.add("DPR-S759", (*place, "keys", name), says, hint)


def _listed(columns: tuple[str, ...]) -> str:
    return " and ".join(f"`{name}`" for name in columns) if columns else "no column"


def _written(known: list[str]) -> str:
    return f"write a key as the column has it, such as `{known[0]}`; one such as 06 in quotation marks"


def _numbers(query: QuerySpec) -> tuple[list[str], tuple[str, ...]]:
    """The names of the published numbers, and how those of all pairs of a comparison begin."""
    compared = {name: each.differences_between is not None for name, each in query.compare.items()}
    named = [*expand_measures(query.measures), *(name for name, paired in compared.items() if not paired)]
    return named, tuple(f"{name}_" for name, paired in compared.items() if paired)
