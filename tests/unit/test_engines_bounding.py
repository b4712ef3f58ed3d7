"""Bounds of units inside the engine: stable, keyed, checked by others than who made them, and never an error."""

from __future__ import annotations

import random
import re
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import Catalog, Column, PrivateJoin, Source, Table, TableBounds
from dprelease.engines.duck import bounding
from dprelease.engines.duck import loaded as room
from dprelease.engines.duck import pipeline as reading
from dprelease.engines.duck.engine import DuckDBEngine
from dprelease.engines.unit_cells import CountedRows
from dprelease.errors import BrokenPromiseError
from dprelease.noise.exact import Exact, open_exact, open_histogram, open_keys

SECRET, OTHER = bytes(range(32)), bytes(range(1, 33))
ROWS, UNITS = Quantity(kind="rows"), Quantity(kind="units")
DISTINCT = Quantity(kind="distinct", column="x")
SUM = Quantity(kind="sum", column="x", low=-1000, high=1000)
X = Column(name="x", type="integer")
KEY = Column(name="key", type="text", keys=("a", "b", "c", "d"))
EVERY = [ROWS, UNITS, DISTINCT, SUM, Quantity(kind="quantile", column="x", low=0, high=500)]
Rows = Sequence[tuple[Any, ...]]


def visits(**more: Any) -> Table:
    fields = {"unit_id": "user", "columns": (KEY, X), **more}
    return Table(name="visits", account="a", source=Source(file="visits*.csv", format="csv"), **fields)


def write(folder: Path, rows: Rows, parts: int = 1, name: str = "visits", head: str = "user,key,x") -> None:
    for part in range(parts):
        lines = [head, *(",".join("" if item is None else str(item) for item in row) for row in rows[part::parts])]
        (folder / f"{name}{part}.csv").write_text("\n".join(lines) + "\n")


@contextmanager
def opened(folder: Path) -> Iterator[DuckDBEngine]:
    engine = DuckDBEngine(folder, {})
    try:
        yield engine
    finally:
        engine.close()


def values(box: Any) -> Any:
    return open_exact(box).tolist() if isinstance(box, Exact) else [str(part) for part in open_histogram(box)]


def ask(folder: Path, tables: Table | Sequence[Table], asked: Sequence[Quantity], **more: Any) -> list[Any]:
    """What an engine of its own answers; ``more`` is the secret, the keys, and the fields of the grouping."""
    secret, keys = more.pop("secret", SECRET), more.pop("keys", None)
    known = [tables] if isinstance(tables, Table) else list(tables)
    catalog = Catalog(tables={table.name: table for table in known}, exclusions={"some": (1, 3)})
    grouping = Grouping(**{"table": "visits", "by": (), **more})
    with opened(folder) as engine:
        found = [values(box) for box in engine.aggregate(catalog, grouping, asked, {}, secret, keys)]
        left = {name for (name,) in engine._backend.con.execute("SHOW TABLES").fetchall()}
        kept = 2 * sum(table.bounds is not None or table.name != "visits" for table in known)
        assert len(left) == len(known) + kept  # loaded tables and what the tables' own bounds keep; nothing of the pass
        return found


def many(seed: int = 1) -> list[tuple[Any, ...]]:
    """Units of very different size, some without an id, with rows that are equal in everything."""
    draw = random.Random(seed)
    rows = [(int(draw.expovariate(0.2)), draw.choice("abcd"), draw.randrange(500)) for _ in range(800)]
    return [*rows, *rows[:50], *((None, draw.choice("abcd"), draw.randrange(500)) for _ in range(30))]


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("null_id", ["drop", "unit"])
@pytest.mark.parametrize("truncate", ["sample", "first", "last"])
def test_the_order_of_rows_and_their_files_play_no_part(null_id: Any, truncate: Any, tmp_path: Path) -> None:
    order = ("x",) if truncate != "sample" else ()
    table = visits(null_id=null_id, bounds=TableBounds(max_rows=12, truncate=truncate, order_by=order))
    rows, found = many(), []
    for parts in (1, 10, 3):
        folder = tmp_path / str(parts)
        folder.mkdir()
        write(folder, rows, parts)
        found.append(ask(folder, table, EVERY, by=("key",), max_groups=2, max_rows_per_group=3))
        random.Random(parts).shuffle(rows)
    assert found[0] == found[1] == found[2]


def of_unit(folder: Path, user: str, secret: bytes = SECRET) -> list[int]:
    """Which of the values 0 to 99 of one unit are kept: each is a cell of its own."""
    slots = Column(name="x", type="integer", keys=tuple(range(100)))
    table = visits(columns=(Column(name="user", type="text"), slots), bounds=TableBounds(max_rows=10))
    (counts,) = ask(folder, table, [ROWS], by=("x",), where=f"user = '{user}'", secret=secret)
    return [at for at, count in enumerate(counts) if count]


def test_a_sample_is_the_secrets_and_the_units_own(tmp_path: Path) -> None:
    mine = [("me", "a", at) for at in range(100)]
    write(tmp_path, mine)
    alone = of_unit(tmp_path, "me")
    assert len(alone) == 10
    write(tmp_path, [*(("you", "b", at) for at in range(100)), *reversed(mine), ("they", "a", 1)])
    assert of_unit(tmp_path, "me") == alone
    assert of_unit(tmp_path, "you") != alone
    assert of_unit(tmp_path, "me", OTHER) != alone
    write(tmp_path, [row for row in mine if row[2] != alone[0]])  # the tenth place goes to one more row, no other moves
    assert len(set(of_unit(tmp_path, "me")) & set(alone)) == 9


def test_cells_of_a_unit_are_sampled_by_the_secret(tmp_path: Path) -> None:
    slots = Column(name="x", type="integer", keys=tuple(range(100)))
    write(tmp_path, [("me", "a", at) for at in range(100)] + [("you", "a", at) for at in range(0, 100, 7)])
    found = [
        ask(tmp_path, visits(columns=(slots,)), [ROWS], by=("x",), max_groups=20, secret=secret)[0]
        for secret in (SECRET, OTHER)
    ]
    assert [sum(counts) for counts in found] == [35, 35]
    assert found[0] != found[1]


@pytest.mark.slow
def test_first_and_last_put_nulls_and_then_content_at_the_end(tmp_path: Path) -> None:
    write(tmp_path, [("u", "a", 5), ("u", "b", None), ("u", "c", 1), ("u", "d", 5), ("u", "d", 5)])
    for truncate, most, kept in [
        ("first", 1, [0, 0, 1, 0]), ("first", 2, [1, 0, 1, 0]), ("first", 4, [1, 0, 1, 2]),
        ("last", 1, [1, 0, 0, 0]), ("last", 3, [1, 0, 0, 2]), ("last", 4, [1, 0, 1, 2]), ("last", 5, [1, 1, 1, 2]),
    ]:  # fmt: skip
        bounds = TableBounds(max_rows=most, truncate=truncate, order_by=("x",))
        assert ask(tmp_path, visits(bounds=bounds), [ROWS], by=("key",)) == [kept], (truncate, most)


def test_rows_without_an_id_are_dropped_or_stand_alone(tmp_path: Path) -> None:
    write(tmp_path, [("1", "a", 1)] * 4 + [(None, "a", 1)] * 3 + [("2", "a", 1), ("", "b", 2)])
    asked = [ROWS, UNITS, Quantity(kind="sum", column="x", low=0, high=3, per="unit_cell")]
    bounds = {"by": ("key",), "max_groups": 1, "max_rows_per_group": 2}
    assert ask(tmp_path, visits(), asked, **bounds) == [[3, 0, 0, 0], [2, 0, 0, 0], [3, 0, 0, 0]]
    alone = visits(null_id="unit", bounds=TableBounds(max_rows=3))
    assert ask(tmp_path, alone, asked, **bounds) == [[6, 1, 0, 0], [5, 1, 0, 0], [6, 2, 0, 0]]


@pytest.mark.parametrize(("kind", "units"), [("text", 6), ("integer", 3), ("boolean", 2), ("date", 1)])
def test_ids_are_equal_where_their_typed_values_are(kind: Any, units: int, tmp_path: Path) -> None:
    write(tmp_path, [(user, "a", 1) for user in ("1", "01", " 1", "0", "true", "2024-02-29", "1")])
    table = visits(columns=(Column(name="user", type=kind), KEY, X))
    if kind == "integer":
        write(tmp_path, [(user, "a", 1) for user in ("1", "01", "1e0", "0", "-0", "true", "9" * 20, "7")])
    assert ask(tmp_path, table, [UNITS]) == [[units]]


@pytest.mark.slow
def test_a_unit_with_a_hundred_thousand_rows_is_one_unit(tmp_path: Path) -> None:
    rows = [(at, "abcd"[at % 4], at) for at in range(200)]
    write(tmp_path, [*rows, *(("crowd", "abcd"[at % 4], at % 30_001) for at in range(100_000))])
    table = visits(bounds=TableBounds(max_rows=50))
    (counts, units) = ask(tmp_path, table, [ROWS, UNITS], by=("key",), max_groups=2, max_rows_per_group=5)
    assert sum(counts) == 200 + 10
    assert sum(units) == 200 + 2


def test_a_planted_breach_draws_nothing_and_tells_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    write(tmp_path, [("u7", "abcd"[at % 4], at) for at in range(97)])

    def no_cells(_: Any, rows: Any, __: Any, ___: Any, ____: bytes, columns: Sequence[str]) -> Any:
        return rows.select("unit", "cell", *columns)

    with monkeypatch.context() as patch:
        patch.setattr(reading, "bounded_cells", no_cells)
        patch.setattr(reading, "bounded_pairs", lambda _, pairs, *__: pairs)
        patch.setattr(CountedRows, "_left", lambda _, some: (np.ones(len(some.unit), dtype=np.bool_), some.rows))
        for bound, name in (({"max_groups": 3}, "max_groups"), ({"max_rows_per_group": 24}, "max_rows_per_group")):
            for asked in EVERY:
                with pytest.raises(BrokenPromiseError, match=f"DPR-B200.* {name};") as caught:
                    ask(tmp_path, visits(), [asked], by=("key",), **bound)
                shown = re.sub(r"\bline \d+", "line", "".join(traceback.format_exception(caught.value)))
                assert not any(word in shown for word in ("u7", "97", " 24", SECRET.hex()))
        assert ask(tmp_path, visits(), [ROWS], by=("key",), max_groups=4, max_rows_per_group=25) == [[25, 24, 24, 24]]
    monkeypatch.setattr(room, "bounded_rows", lambda _, rows, *__: rows)
    with pytest.raises(BrokenPromiseError, match=r"DPR-B200.* max_rows;"):
        ask(tmp_path, visits(bounds=TableBounds(max_rows=96)), [ROWS])
    table = visits(columns=(KEY.model_copy(update={"keys": None}), X), bounds=TableBounds(max_rows=96))
    grouping, catalog = Grouping(table="visits", by=("key",), private=True), Catalog(tables={"visits": table})
    with opened(tmp_path) as engine, pytest.raises(BrokenPromiseError, match="DPR-B200"):
        engine.units_by_key(catalog, grouping, {}, SECRET)


def test_a_join_that_multiplies_more_than_it_says_is_caught(tmp_path: Path, monkeypatch: Any) -> None:
    write(tmp_path, [("u", "a", 1), ("u", "b", 1)])
    write(tmp_path, [("u", at) for at in range(4)], name="users", head="user,y")
    tables = joined(2, bounds=TableBounds(max_rows=2))
    assert ask(tmp_path, tables, [ROWS]) == [[4]]
    plain = bounding.bounded_rows
    monkeypatch.setattr(
        room,
        "bounded_rows",
        lambda stage, rows, table, *rest: rows if table.name == "users" else plain(stage, rows, table, *rest),
    )
    with pytest.raises(BrokenPromiseError, match="DPR-B200"):
        ask(tmp_path, tables, [ROWS])


def joined(most: int, kind: Any = "text", **more: Any) -> list[Table]:
    lent = Column(name="y", type="integer", lent_by="users")
    join = PrivateJoin(table="users", on="user", max_matches=most, add=("y",))
    own = Column(name="y", type="integer")
    source = Source(file="users*.csv", format="csv")
    columns = (Column(name="user", type=kind), own)
    users = Table(name="users", account="a", source=source, unit_id="user", columns=columns)
    return [visits(columns=(KEY, X, lent), private_joins=(join,), **more), users]


@pytest.mark.slow
def test_private_joins_meet_rows_of_the_same_unit_alone(tmp_path: Path) -> None:
    write(tmp_path, [("1", "a", 1), ("1", "b", 2), ("2", "a", 3), ("3", "c", 4), (None, "d", 5)])
    write(tmp_path, [("1", 10), ("1", 20), ("1", 30), ("2", None), ("9", 7), (None, 8)], name="users", head="user,y")
    asked = [ROWS, Quantity(kind="nonnull", column="y"), UNITS, Quantity(kind="sum", column="y", low=0, high=99)]
    for kind in ("text", "integer"):
        tables = joined(3, kind, null_id="unit")
        found = [[4, 3, 1, 1], [3, 3, 0, 0], [2, 1, 1, 1], [60, 60, 0, 0]]
        assert ask(tmp_path, tables, asked, by=("key",)) == found
        counts, present, _, summed = ask(tmp_path, joined(2, kind, null_id="unit"), asked, by=("key",))
        assert (counts, present) == ([3, 2, 1, 1], [2, 2, 0, 0])
        assert summed[0] == summed[1]  # both rows of the unit meet the same two


def test_one_table_may_be_joined_twice_under_different_bounds(tmp_path: Path) -> None:
    write(tmp_path, [("1", "a", 1)])
    write(tmp_path, [("1", at, at) for at in range(9)], name="users", head="user,y,z")
    mine, users = joined(2)
    second = PrivateJoin(table="users", on="user", max_matches=3, add=("z",))
    lent = Column(name="z", type="integer", lent_by="users")
    mine = mine.model_copy(update={"columns": (*mine.columns, lent), "private_joins": (*mine.private_joins, second)})
    users = users.model_copy(update={"columns": (*users.columns, lent.model_copy(update={"lent_by": None}))})
    asked = [ROWS, Quantity(kind="distinct", column="y"), Quantity(kind="distinct", column="z")]
    catalog, grouping = Catalog(tables={"visits": mine, "users": users}), Grouping(table="visits", by=())
    with opened(tmp_path) as engine:
        assert [values(box) for box in engine.aggregate(catalog, grouping, asked, {}, SECRET)] == [[6], [2], [3]]


def test_cells_that_are_left_out_take_no_place_among_a_units_cells(tmp_path: Path) -> None:
    write(tmp_path, [("u", key, 1) for key in "aabbccdd"])
    for secret in (SECRET, OTHER, bytes(32)):
        (counts,) = ask(tmp_path, visits(), [ROWS], by=("key",), excluding="some", max_groups=2, secret=secret)
        assert counts == [2, 2]


def test_no_sum_overflows(tmp_path: Path) -> None:
    most = 2**63 - 1
    write(
        tmp_path,
        [("u", "a", most)] * 9 + [("u", "b", -most)] * 9 + [("u", "c", most), ("u", "c", -most), ("u", "c", 7)],
    )
    wide = Quantity(kind="sum", column="x", low=-(2**62), high=2**62)
    asked = [wide, wide.model_copy(update={"per": "unit_cell"})]
    assert ask(tmp_path, visits(), asked, by=("key",)) == [[2**62, -(2**62), 7, 0]] * 2
    assert ask(tmp_path, visits(), [asked[1].model_copy(update={"low": -9, "high": 5, "centre": -2})], by=("key",)) == [
        [7, -7, 7, 0]
    ]


def test_private_keys_are_bounded_before_they_are_looked_up(tmp_path: Path) -> None:
    rows = [("u", at, at) for at in range(20)] + [("v", at, at) for at in range(0, 20, 3)] + [("w", None, 1)]
    write(tmp_path, rows)
    table = visits(columns=(Column(name="key", type="integer"), X), null_id="unit")
    grouping = Grouping(table="visits", by=("key",), private=True, max_groups=6)
    catalog = Catalog(tables={"visits": table})
    with opened(tmp_path) as engine:
        keys, units = open_keys(engine.units_by_key(catalog, grouping, {}, SECRET))
        assert list(keys) == sorted(keys, key=lambda key: str(key[0]))
        assert units.sum() == 12
        assert all(type(key[0]) is int for key in keys)
        picked = tuple(reversed(keys[1:5]))
        boxes = engine.aggregate(catalog, grouping, [UNITS, ROWS, DISTINCT], {}, SECRET, (*picked, (77,)))
        expected = [*reversed(units[1:5].tolist()), 0]
        assert [values(box) for box in boxes] == [expected, expected, [1, 1, 1, 1, 0]]


def test_private_keys_with_declared_ones_beside_them(tmp_path: Path) -> None:
    write(tmp_path, [("u", "a", 1), ("u", "a", 10), ("v", "a", 1), ("v", "zz", 1), ("w", None, None)])
    table = visits(columns=(KEY.model_copy(update={"null": "d"}), X.model_copy(update={"null": 0})))
    with opened(tmp_path) as engine:
        grouping = Grouping(table="visits", by=("x", "key"), private=True)
        found = engine.units_by_key(Catalog(tables={"visits": table}), grouping, {}, SECRET)
    keys, units = open_keys(found)
    assert (keys, units.tolist()) == (((0, "d"), (1, "a"), (10, "a")), [1, 2, 1])


def test_tables_are_bounded_once_for_a_release(tmp_path: Path, monkeypatch: Any) -> None:
    write(tmp_path, many())
    calls, plain = [], bounding.bounded_rows
    monkeypatch.setattr(room, "bounded_rows", lambda *given: calls.append(1) or plain(*given))  # type: ignore[func-returns-value] # counts calls
    catalog = Catalog(tables={"visits": visits(bounds=TableBounds(max_rows=3))})
    with opened(tmp_path) as engine:
        found = [
            values(engine.aggregate(catalog, Grouping(table="visits", by=by), [ROWS], {}, SECRET)[0])
            for by in ((), ("key",))
        ]
    assert calls == [1]
    assert sum(found[0]) == sum(found[1])


def test_no_secret_no_sample(tmp_path: Path) -> None:
    write(tmp_path, many())
    with pytest.raises(BrokenPromiseError, match="DPR-B201"):
        ask(tmp_path, visits(), [ROWS], secret=b"short")
