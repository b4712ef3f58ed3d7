"""Made-up rows for the tables of a plan, as texts, with values that are missing, odd or out of range; no unit exceeds a bound.

That bounds leave out what they should is for ``tests/conformance``: here they are kept to, so that pandas need not know
which rows a secret key would have kept.
"""

from __future__ import annotations

import random
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import pandas as pd

from dprelease.catalog.table import Column, DatabaseSource, DeltaSource, Table
from dprelease.plan.document import ReleasePlan
from tests.fuzz.oracle import Frames, NoOracle, References, cells_of, read

__all__ = ["made_up", "written"]

_WORDS = ("amber", "birch", "cedar", "dune", "elm", "fjord", "glade", "heath")
_MISSING, _ODD = 0.05, 0.03


def made_up(plan: ReleasePlan, references: References, seed: int, rows: int) -> Frames:
    """For every table so many rows at most.

    Raises:
        NoOracle: Where the oracle cannot read such rows.
    """
    draw = random.Random(f"rows {seed}")
    frames = {name: _frame(table, draw, rows) for name, table in plan.catalog.tables.items()}
    return {name: _within_bounds(plan, table, frames[name], references) for name, table in plan.catalog.tables.items()}


def _frame(table: Table, draw: random.Random, rows: int) -> pd.DataFrame:
    columns = {column.name: column for column in table.columns if column.in_source}
    names = list(dict.fromkeys([*columns, *([table.unit_id] if table.unit_id else [])]))
    if table.time is not None and table.time.column not in names:
        names.append(table.time.column)
    found = []
    for _ in range(rows):
        row = {}
        for name in names:
            column = columns.get(name)
            if draw.random() < _MISSING:
                row[name] = next(iter(table.source.null_values), "")
            elif name == table.unit_id:
                row[name] = str(draw.randint(1, max(2, rows // 3)))
            elif table.time is not None and name == table.time.column:
                day = table.time.start + timedelta(draw.randint(-2, (table.time.end - table.time.start).days + 1))
                row[name] = day.isoformat() + ("" if table.time.type == "date" else "T12:00:00")
            else:
                row[name] = draw.choice(_WORDS) if column is None else _text(column, draw)
        found.append(row)
    return pd.DataFrame(found, columns=names, dtype=object)


def _text(column: Column, draw: random.Random) -> str:
    if draw.random() < _ODD:
        return draw.choice(["abc", "1e400", "-7", "99999999", "zz"])
    if column.keys:
        key = draw.choice(column.keys)
        return str(key).lower() if isinstance(key, bool) else str(key)
    if column.type == "boolean":
        return draw.choice(["true", "false"])
    if column.type == "date":
        return f"20{draw.randint(10, 29)}-{draw.randint(1, 12):02d}-{draw.randint(1, 28):02d}"
    if column.type == "timestamp":
        return f"2024-{draw.randint(1, 12):02d}-{draw.randint(1, 28):02d}T{draw.randint(0, 23):02d}:30:00"
    if column.type in ("integer", "decimal"):
        low, high = (column.range.low, column.range.high) if column.range else (Fraction(-50), Fraction(50))
        step = min(column.grids, default=Fraction(1))
        number = low + step * draw.randint(0, max(1, int((high - low) / step)))
        return str(number.numerator) if number.denominator == 1 else repr(float(number))
    return draw.choice(_WORDS)


def _within_bounds(plan: ReleasePlan, table: Table, frame: pd.DataFrame, references: References) -> pd.DataFrame:
    """The rows without those that a bound would have a say in, one after the other."""
    if table.unit_id is None:
        return frame
    limits = [
        (query, query.max_groups, query.max_rows_per_group) for query in plan.queries if query.table == table.name
    ]
    typed = read(plan.catalog, table, frame, references)
    cells = [cells_of(table, query.by, typed) for query, *_ in limits]
    most = None if table.bounds is None else table.bounds.max_rows
    kept: list[int] = []
    held: dict[object, list[int]] = {}
    for at, unit in zip(typed.index, typed["_unit"], strict=True):
        mine = [*held.get(unit, []), at]
        fits = most is None or len(mine) <= most
        for (_, groups, rows), cell in zip(limits, cells, strict=True):
            there = [cell[each] for each in mine if cell[each] is not None]
            fits &= groups is None or len(set(there)) <= groups
            fits &= rows is None or all(there.count(each) <= rows for each in set(there))
        if fits:
            held[unit] = mine
            kept.append(at)
    outside = [at for at in frame.index if at not in set(typed.index)]
    return frame.loc[sorted([*kept, *outside])].reset_index(drop=True)


def written(plan: ReleasePlan, frames: Frames, folder: Path) -> dict[str, str]:
    """Write the rows where the plan looks for them, and return the variables that it looks there by.

    Raises:
        NoOracle: Where rows of such a source are made by nobody here.
    """
    variables: dict[str, str] = {}
    places: set[Path] = set()
    for name, table in plan.catalog.tables.items():
        source = table.source
        if isinstance(source, DatabaseSource | DeltaSource) or source.format not in ("csv", "parquet"):
            raise NoOracle(f"rows in {source.format}")
        if source.notation is not None and source.notation != type(source.notation)():
            raise NoOracle("another dialect")
        path = source.file
        while "${env:" in path:
            begin, _, rest = path.partition("${env:")
            variable, _, end = rest.partition("}")
            variables[variable] = "sources"
            path = f"{begin}sources{end}"
        place = folder / path.replace("**/", "").replace("*", "1").replace("?", "1")
        if place in places:
            raise NoOracle("two tables of one file")
        places.add(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.format == "csv":
            frames[name].to_csv(place, index=False)
        else:
            frames[name].to_parquet(place, index=False)
    return variables
