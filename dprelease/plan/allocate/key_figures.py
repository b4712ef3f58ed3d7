"""Whether the numbers that the front page is to begin with will be published, told before anything is charged."""

from __future__ import annotations

from typing import NoReturn

from dprelease.catalog.reference import key_as_text
from dprelease.errors import PlanError
from dprelease.plan.document import KeyFigure, ReleasePlan
from dprelease.spec.text.names import did_you_mean, shown

__all__ = ["check_key_figures"]


def check_key_figures(plan: ReleasePlan) -> None:
    """Each names a table of the plan, a number of it and one row that is published whatever the data are.

    Raises:
        PlanError: If one does not (DPR-S756 to S759).
    """
    for at, each in enumerate(plan.publish.key_figures):
        _check(plan, f"publish.key_figures[{at}]", each)


def _check(plan: ReleasePlan, where: str, figure: KeyFigure) -> None:
    tables = {query.name: query for query in plan.queries}
    query = tables.get(figure.table)
    if query is None:
        hint = did_you_mean(figure.table, tables, "name a query, or a table of its `marginals`")
        _refuse("DPR-S756", f"`{where}.table` means no table of a query: {shown(figure.table)!r}", hint)
    names = (*query.measures, *query.compare)
    if figure.measure not in names:
        hint = did_you_mean(figure.measure, names, "name a number that the table publishes")
        _refuse("DPR-S757", f"`{where}.measure` means no number of {query.name}: {shown(figure.measure)!r}", hint)
    columns = plan.keys(query)
    chosen = (query.selection, query.ranking, query.ranges, query.excluding)
    if any(each is not None for each in chosen) or any(column.keys is None for column in columns):
        says = f"`{where}` names a row of {query.name}, whose rows are not all combinations of declared keys"
        _refuse("DPR-S758", says, "name a table that has a row for every combination of declared keys")
    if set(figure.keys) != {column.name for column in columns}:
        wanted = ", ".join(f"{column.name}: KEY" for column in columns)
        _refuse("DPR-S758", f"`{where}.keys` does not name a row of {query.name}", f"write `keys: {{{wanted}}}`")
    for column in columns:
        keys = {key_as_text(key) for key in column.keys or ()}
        key = figure.keys[column.name]
        if key not in keys:
            hint = did_you_mean(key, keys, "write a key as the column has it; one such as 06 in quotation marks")
            _refuse("DPR-S759", f"`{where}.keys.{column.name}` is no key of the column: {shown(key)!r}", hint)


def _refuse(code: str, says: str, hint: str) -> NoReturn:
    raise PlanError(says, hint=hint, code=code)
