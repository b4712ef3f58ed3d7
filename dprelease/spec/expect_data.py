"""A file of thresholds that the owner of data writes for ``dprelease look``: they mark lines of it, and decide nothing.

```yaml
expect_data: 1
tables:
  people:
    rows: {at_least: 1000}
    columns:
      income: {null: {at_most: 5 %}, unreadable: {at_most: 0}}
queries:
  income:
    no_cell: {at_most: 1 %}
    clipped: {average: {at_most: 2 %}}
```
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema, model_validator

from dprelease.errors import Problem
from dprelease.spec.fields.document import ReleaseSpec, SpecValue
from dprelease.spec.load import read_model
from dprelease.spec.text.findings import Findings, Hidden
from dprelease.spec.text.names import did_you_mean, shown
from dprelease.spec.text.nodes import Path, Places
from dprelease.spec.text.numbers import Numeral
from dprelease.spec.text.scalars import Version, kind_of, refuse

__all__ = ["Amount", "ColumnLimits", "ExpectedData", "LimitSpec", "QueryLimits", "TableLimits", "load_expected"]

_SHARE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?%")
_WHOLE = re.compile(r"[0-9]+")


class Amount(SpecValue):
    """A number of rows or values, or a share of those that were looked at."""

    number: int | None = None
    share: Fraction | None = None

    def of(self, whole: int) -> Fraction:
        """How many that are."""
        return Fraction(self.number) if self.number is not None else (self.share or Fraction(0)) * whole

    def __str__(self) -> str:
        """As it is written."""
        return f"{self.number:,}" if self.number is not None else f"{float((self.share or 0) * 100):g} %"


def _amount(value: Any) -> Any:
    if isinstance(value, Amount):
        return value
    text = value.text if isinstance(value, Numeral) else value
    if isinstance(text, str) and _WHOLE.fullmatch(text):
        return Amount(number=int(text))
    share = _SHARE.fullmatch(text) if isinstance(text, str) else None
    if share is not None and Fraction(share[1]) <= 100:
        return Amount(share=Fraction(share[1]) / 100)
    hint = "write a whole number, such as 100, or a share of 0 % to 100 %, such as 2.5 %"
    raise refuse("DPR-S240", f"is {kind_of(value)}, neither a number of rows nor a share of them", hint)


_Written = Annotated[
    Amount,
    BeforeValidator(_amount),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9.]+ ?%$"}]}),
]


class LimitSpec(SpecValue):
    """What is expected of a count; beyond it the line is marked."""

    at_least: _Written | None = Field(None, description="A number, or a share such as 2 %.")
    at_most: _Written | None = Field(None, description="A number, or a share such as 2 %.")

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise refuse("DPR-S241", "says no limit", "write `{at_most: 2 %}` or `{at_least: 1000}`")
        return self

    def holds(self, count: int, whole: int) -> bool:
        """Whether a count is as expected, where there are so many in the whole."""
        low, high = self.at_least, self.at_most
        return (low is None or count >= low.of(whole)) and (high is None or count <= high.of(whole))

    def __str__(self) -> str:
        """As it is written."""
        parts = {"at least": self.at_least, "at most": self.at_most}
        return " and ".join(f"{word} {amount}" for word, amount in parts.items() if amount is not None)


class ColumnLimits(SpecValue):
    """Of a column, read, joined or computed."""

    null: LimitSpec | None = Field(None, description="Values that are stored as null, or stand for it.")
    unreadable: LimitSpec | None = Field(None, description="Values that the declared type cannot hold.")
    not_listed: LimitSpec | None = Field(None, description="Values that are none of the declared keys.")
    outside: LimitSpec | None = Field(None, description="Values outside the declared range.")


class TableLimits(SpecValue):
    """Of a table."""

    rows: LimitSpec | None = Field(None, description="Rows of all its files.")
    unparsed: LimitSpec | None = Field(None, description="Lines of a CSV that are no rows of its columns.")
    out_of_period: LimitSpec | None = Field(None, description="Rows outside the release's period, or without a time.")
    no_unit_id: LimitSpec | None = Field(None, description="Rows without the id of a unit.")
    truncated: LimitSpec | None = Field(None, description="Rows beyond `max_rows` of their unit.")
    columns: dict[str, ColumnLimits] = Field({}, description="By name.")


class QueryLimits(SpecValue):
    """Of a query."""

    no_cell: LimitSpec | None = Field(None, description="Rows that are looked at and are in no cell.")
    groups: LimitSpec | None = Field(None, description="Groups beyond `max_groups` of their unit.")
    rows_in_groups: LimitSpec | None = Field(None, description="Rows beyond `max_rows_per_group`.")
    clipped: dict[str, LimitSpec] = Field({}, description="By measure the values that its clip moves.")


class ExpectedData(SpecValue):
    """The whole file."""

    expect_data: Version = Field(description="Version of this format: 1.")
    tables: dict[str, TableLimits] = Field({}, description="By name, as in the spec.")
    queries: dict[str, QueryLimits] = Field({}, description="By name, as in the spec.")


_MODELS: Mapping[str, type[BaseModel]] = {
    "": ExpectedData,
    "tables.*": TableLimits,
    "tables.*.columns.*": ColumnLimits,
    "queries.*": QueryLimits,
    **{f"tables.*.{name}": LimitSpec for name in TableLimits.model_fields if name != "columns"},
    **{f"tables.*.columns.*.{name}": LimitSpec for name in ColumnLimits.model_fields},
    **{f"queries.*.{name}": LimitSpec for name in QueryLimits.model_fields if name != "clipped"},
    "queries.*.clipped.*": LimitSpec,
}


def load_expected(text: str | bytes, file: str, spec: ReleaseSpec) -> ExpectedData:
    """Read a file of thresholds for a spec.

    Args:
        text: The file.
        file: Its name in messages.
        spec: Whose tables, columns, queries and measures it names.

    Raises:
        SpecError: With every problem, in file order.
    """
    return read_model(text, file, ExpectedData, _MODELS, partial(_check_names, spec=spec), {})[0]


def _check_names(expected: ExpectedData, places: Places, hidden: Hidden, *, spec: ReleaseSpec) -> list[Problem]:
    findings = Findings(places, hidden)

    def known(at: Path, what: str, names: Iterable[str]) -> bool:
        if (name := str(at[-1])) in (names := list(names)):
            return True
        findings.add("DPR-S242", at, f"is no {what} of the spec: {shown(name)!r}", did_you_mean(name, names), key=True)
        return False

    for name, table in expected.tables.items():
        if known(("tables", name), "table", spec.tables):
            own = spec.tables[name]
            joined = [column for join in own.join for column in join.add]
            columns = [*own.columns, *joined, *([own.unit_id] if own.unit_id else [])]
            columns += [own.time.column] if own.time else []
            for column in table.columns:
                known(("tables", name, "columns", column), f"column of table {name!r}", columns)
    for name, query in expected.queries.items():
        if known(("queries", name), "query", spec.queries):
            for label in query.clipped:
                known(("queries", name, "clipped", label), f"measure of query {name!r}", spec.queries[name].measures)
    return findings.problems
