"""Tables whose units have many rows, every quantity that can be asked of them, and how far one unit may move it."""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from dprelease.catalog.aggregate import BoundedAggregate, Grouping, Quantity
from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.sensitivity import sensitivity
from dprelease.catalog.table import (
    Binned,
    Catalog,
    Column,
    Computed,
    Join,
    Key,
    Mapped,
    PrivateJoin,
    Range,
    Reference,
    Source,
    Table,
    TableBounds,
    Zeros,
)
from dprelease.engines import ENGINES, Engine
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring
from tests.conformance.people import SECRET, opened
from tests.conformance.reference_engine import ReferenceEngine
from tests.statistical_files import KINDS as STATISTICAL_KINDS
from tests.statistical_files import packed_as, write_statistical

KINDS: Mapping[str, Any] = {"reference": ReferenceEngine, **ENGINES}
NAMES = ("user", "country", "page", "day", "seconds", "amount", "adult")
LENT_NAMES = ("user", "tenure", "since")
LANDS = ReferenceTable(columns={"country": ("DE", "FR", "US"), "union": ("EU", "EU", "none")})
REFERENCES = {"lands": LANDS}


def _range(low: int, high: int) -> Range:
    return Range(low=Fraction(low), high=Fraction(high))


def visits(shape: str = "csv", unit: str = "text", slots: int = 0, **more: Any) -> Table:
    """Visits of users: columns of every type, a public join, and one column of each kind of derivation.

    With ``slots`` there is one more column in the files, which says of each row in which of so many cells it is.
    """
    joined = tuple(join for join in more.get("private_joins", ()))
    lent = {
        "tenure": Column(name="tenure", type="integer", keys=(1, 2, 3), range=_range(0, 9), lent_by="users"),
        "since": Column(name="since", type="date", lent_by="users"),
    }
    columns = (
        Column(name="user", type=unit),
        Column(name="country", type="text", keys=("DE", "FR", "US")),
        Column(name="page", type="text"),
        Column(name="day", type="date", keys=("2024-02-29", "2024-03-01"), null="2024-03-01"),
        Column(name="seconds", type="integer", range=_range(-50, 100)),
        Column(name="amount", type="decimal", range=_range(-1000, 1000), outside="null"),
        Column(name="adult", type="boolean", keys=(True, False)),
        *([Column(name="slot", type="integer", keys=tuple(range(slots)))] if slots else []),
        Column(name="union", type="text", keys=("EU", "none"), reference="lands"),
        *(lent[name] for join in joined for name in join.add),
        Column(
            name="band",
            type="text",
            keys=("[-50,0)", "[0,10.5)", "[10.5,100)"),
            derivation=Binned(of="seconds", edges=(Fraction(-50), Fraction(0), Fraction(21, 2), Fraction(100))),
        ),
        Column(
            name="topic",
            type="text",
            keys=("sport", "news"),
            derivation=Mapped(of="page", pairs=(("a", "sport"), ("b", "news"), ("A", "news")), otherwise="sport"),
        ),
        Column(name="late", type="boolean", keys=(False, True), null=False, derivation=Computed(sql="seconds >= 10")),
    )
    fields = {"unit_id": "user", "joins": (Join(reference="lands", on="country", add=("union",)),), **more}
    return Table(
        name="visits", account="a", source=Source(file=f"visits*.{shape}", format=shape), columns=columns, **fields
    )


def users(shape: str = "csv", unit: str = "text", **more: Any) -> Table:
    columns = (
        Column(name="user", type=unit),
        Column(name="tenure", type="integer", keys=(1, 2, 3), range=_range(0, 9)),
        Column(name="since", type="date"),
    )
    source = Source(file=f"users*.{shape}", format=shape)
    return Table(name="users", account="a", source=source, columns=columns, unit_id="user", **more)


def hidden(table: Table) -> Table:
    """The same table, but its unit id is no declared column."""
    return table.model_copy(update={"columns": tuple(each for each in table.columns if each.name != table.unit_id)})


def partitioned(table: Table, *names: str) -> Table:
    """The same table with some columns in the paths of its files."""
    columns = tuple(each.model_copy(update={"partition": each.name in names}) for each in table.columns)
    file = "/".join([*(f"{name}=*" for name in names), table.files.file])
    return table.model_copy(update={"columns": columns, "source": table.source.model_copy(update={"file": file})})


WITH_USERS = (PrivateJoin(table="users", on="user", max_matches=2, add=("tenure", "since")),)


def catalog_of(
    *tables: Table,
    exclusions: Mapping[str, tuple[int, ...]] | None = None,
    zeros: Mapping[str, Zeros] | None = None,
) -> Catalog:
    lands = Reference(name="lands", file="lands.csv", sha256="0" * 64, columns={"country": "text", "union": "text"})
    named = {table.name: table for table in tables}
    return Catalog(
        tables=named, references={"lands": lands}, exclusions=dict(exclusions or {}), zeros=dict(zeros or {})
    )


def quantities() -> list[Quantity]:
    """One of each kind, per row and per unit and cell, with and without a filter."""
    whole: dict[str, Any] = {"column": "seconds", "low": -10, "high": 40}
    fine: dict[str, Any] = {"column": "amount", "step": Fraction(1, 4), "low": -40, "high": 100}
    coarse: dict[str, Any] = {"column": "seconds", "step": Fraction(7), "low": -5, "high": 11}
    cell: dict[str, Any] = {"per": "unit_cell"}
    late: dict[str, Any] = {"where": "seconds >= 10"}
    return [
        Quantity(kind="rows"),
        Quantity(kind="rows", **late),
        Quantity(kind="units"),
        Quantity(kind="units", **late),
        *(Quantity(kind="nonnull", column=name) for name in ("page", "seconds", "late")),
        Quantity(kind="nonnull", column="amount", **cell),
        Quantity(kind="balance", column="amount"),
        Quantity(kind="balance", column="amount", **late),
        Quantity(kind="balance", **late),
        Quantity(kind="balance", **late, **cell),
        Quantity(kind="rest", **late),
        Quantity(kind="rest", column="amount", **late),
        *(Quantity(kind="distinct", column=name) for name in ("page", "seconds", "amount", "day", "adult")),
        Quantity(kind="distinct", column="page", **late),
        Quantity(kind="sum", **whole),
        Quantity(kind="sum", **whole, centre=3, **late),
        Quantity(kind="sum", **whole, **cell),
        Quantity(kind="sum", **fine),
        Quantity(kind="sum", **fine, **cell, **late),
        Quantity(kind="sum", **coarse, centre=-2, **cell),
        Quantity(kind="square", **whole, centre=15),
        Quantity(kind="square", **whole, centre=15, grain=7, offset=40),
        Quantity(kind="square", **whole, centre=15, grain=7, offset=40, **cell),
        Quantity(kind="square", **fine, grain=3, **cell),
        Quantity(kind="quantile", at=Fraction(1, 2), **whole),
        Quantity(kind="quantile", at=Fraction(9, 10), **fine, **late),
        Quantity(kind="quantile", at=Fraction(0), **coarse),
    ]


def bounds() -> list[dict[str, Any]]:
    """Every combination of bounds of a query."""
    return [
        {name: size for name, size in (("max_groups", groups), ("max_rows_per_group", rows)) if size}
        for groups in (None, 1, 2)
        for rows in (None, 1, 3)
    ]


def write(folder: Path, table: Table, rows: Sequence[Sequence[Any]], parts: int = 1, names: Sequence[str] = ()) -> None:
    """Rows into one file or several: as text (CSV; None is empty), as Arrow infers them, or as plain values are stored.

    Of the files of SPSS, Stata and SAS those texts are days that are the text of one.
    """
    headers = list(names or (NAMES if table.name == "visits" else LENT_NAMES))
    headers += ["slot"] * any(column.name == "slot" for column in table.columns)
    folder.mkdir(exist_ok=True, parents=True)
    inside = [headers.index(column.name) for column in table.columns if column.partition]
    for part in range(parts):
        below: dict[str, list[Sequence[Any]]] = (
            {} if rows[part::parts] else {"/".join(f"{headers[at]}=" for at in inside): []}
        )
        for row in rows[part::parts]:
            below.setdefault("/".join(f"{headers[at]}={_in_path(row[at])}" for at in inside), []).append(row)
        kept = [at for at in range(len(headers)) if at not in inside]
        for where, mine in below.items():
            path = folder / where / f"{table.name}{part}.{table.source.format}"
            path.parent.mkdir(exist_ok=True, parents=True)
            columns = {headers[at]: [row[at] for row in mine] for at in kept}
            if table.source.format == "parquet":
                pq.write_table(pa.table(columns), path)
                continue
            if table.source.format in STATISTICAL_KINDS:
                write_statistical(path, {name: _days(values) for name, values in columns.items()})
                continue
            lines = [[headers[at] for at in kept], *([_text(row[at]) for at in kept] for row in mine)]
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows(lines)
            path.write_bytes(packed_as(text.getvalue().encode(), table.source.format))


def _days(values: Sequence[Any]) -> list[Any]:
    """Days in place of their texts, where all that is there is one."""
    try:
        return [None if value is None else dt.date.fromisoformat(value) for value in values]
    except (TypeError, ValueError):
        return list(values)


def _in_path(item: Any) -> str:
    return "__HIVE_DEFAULT_PARTITION__" if item is None else quote(_text(item), safe="")


def _text(item: Any) -> str:
    if item is None:
        return ""
    return str(item).lower() if isinstance(item, bool) else str(item)


@contextmanager
def opening(kind: str, folder: Path) -> Iterator[Engine]:
    engine = KINDS[kind](folder, {})
    try:
        yield engine
    finally:
        engine.close()


def asked(
    engine: Engine,
    catalog: Catalog,
    grouping: Grouping,
    quantities: Sequence[Quantity],
    keys: Sequence[tuple[Key, ...]] | None = None,
    secret: bytes = SECRET,
) -> list[Any]:
    return [opened(box) for box in engine.aggregate(catalog, grouping, quantities, REFERENCES, secret, keys)]


def table_bounds() -> list[TableBounds | None]:
    return [
        None,
        TableBounds(max_rows=1),
        TableBounds(max_rows=3),
        TableBounds(max_rows=2, truncate="first", order_by=("day", "seconds")),
        TableBounds(max_rows=2, truncate="last", order_by=("amount",)),
    ]


def claimed(catalog: Catalog, grouping: Grouping, quantity: Quantity, neighboring: Neighboring) -> Sensitivity:
    """What ``catalog.sensitivity`` claims; of a quantile, what it claims of the number of rows that it is a multiset of."""
    if quantity.kind == "quantile":
        quantity = Quantity(kind="rows", where=quantity.where)
    return sensitivity(BoundedAggregate(**grouping.model_dump(), quantity=quantity), catalog, neighboring)


def moved(before: Any, after: Any) -> list[int]:
    """How far each cell moved; of a quantile, how many rows of its multiset came or went, whichever is more."""
    if isinstance(before, list):
        assert len(before) == len(after)
        return [new - old for old, new in zip(before, after, strict=True)]
    assert before[0] == after[0]
    old, new = ({(cell, value): count for cell, value, count in each} for _, each in (before, after))
    came, went = [0] * before[0], [0] * before[0]
    for cell, value in old.keys() | new.keys():
        difference = new.get((cell, value), 0) - old.get((cell, value), 0)
        came[cell] += max(difference, 0)
        went[cell] += max(-difference, 0)
    return [max(pair) for pair in zip(came, went, strict=True)]


def assert_within(change: Sequence[int], claim: Sensitivity) -> None:
    sizes = sorted((abs(each) for each in change if each), reverse=True)
    assert len(sizes) <= claim.l0
    assert sum(sizes) <= claim.l1
    assert sum(size * size for size in sizes) <= claim.l2_squared
    assert max(sizes, default=0) <= claim.linf
    if claim.shifts:
        assert (
            any(
                len(sizes) <= len(shift) and all(size <= most for size, most in zip(sizes, shift, strict=False))
                for shift in claim.shifts
            )
            or not sizes
        )
