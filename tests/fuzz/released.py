"""A release of made-up rows from its first file to its last: run, verified, compared with itself and, without noise, with pandas."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dprelease.catalog.table import Catalog
from dprelease.errors import BrokenPromiseError, DpReleaseError
from dprelease.ledger import open_ledger
from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.publish import check_bundle, check_publishable
from dprelease.release.diff import compare_sides, open_side
from dprelease.release.direct import run_directly
from dprelease.release.request import Request
from tests.fuzz.carried import COMPOSITIONS, ROOT, Fault, planned, project, within
from tests.fuzz.oracle import TOTAL, Expected, NoOracle, Oracle, References
from tests.fuzz.rows import made_up, written
from tests.fuzz.silence import silence

__all__ = ["Compared", "released"]

ROWS = 120
_LONGEST = 120
_MOST_CELLS = 400  # of a table that are compared


class Compared(Counter[str]):
    """How many published numbers of every kind of measure were equal, and what was not compared."""


def released(text: str, seed: int, folder: Path, *, silent: bool = True) -> tuple[str, Compared]:
    """What came of releasing made-up rows by a spec that is planned, and what of it was held against pandas.

    Args:
        text: Of the spec.
        seed: Of the rows.
        folder: Empty; the project is made there.
        silent: Without noise, and held against pandas; else with it.

    Raises:
        Fault: If anything is wrong with it.
    """
    found = Compared()
    try:
        plan = _openable(text, seed)
        check_publishable(plan)
        references = references_of(plan.catalog)
        frames = made_up(plan, references, seed, ROWS)
        project(plan, text, folder)
        variables = written(plan, frames, folder)
    except NoOracle as why:
        return f"no rows ({why})", found
    except DpReleaseError as refused:
        return f"not publishable ({refused.code})", found
    with pytest.MonkeyPatch.context() as patch, within(_LONGEST), silence() if silent else nullcontext():
        for name, value in variables.items():
            patch.setenv(name, value)
        try:
            outcome = run_directly(Request(target=str(folder / "spec.yaml")))
        except BrokenPromiseError as broken:
            raise Fault(f"seed {seed}: {broken}") from broken
        except DpReleaseError as refused:
            if any(each.state not in ("void", "given_up") for each in _charged(folder)):
                raise Fault(f"seed {seed}: charged without a release: {refused}") from refused
            return f"refused by the run ({refused.code})", found
    bundle = Path(outcome.folder)
    _whole(bundle, folder, seed)
    if silent:
        made = ReleasePlan.model_validate_json((bundle / "plan.json").read_text("utf-8"))
        oracle = Oracle(made, frames, references)
        for query in made.queries:
            found += _held(oracle, query, bundle / "tables" / f"{query.name}.csv", seed)
    return "released, verified, compared", found


def _openable(text: str, seed: int) -> ReleasePlan:
    """Its plan with an account that takes it: one that adds up epsilons takes pure noise, and any takes what zcdp does.

    One that adds up distributions is opened with all plans beforehand, which is for tests of the ledger.
    """
    asked = COMPOSITIONS[seed % len(COMPOSITIONS)]
    plan = planned(text, seed, "zcdp" if asked == "pld" else asked)
    pure = all("gaussian" not in step.mechanism and step.selecting is None for step in plan.steps)
    return plan if asked != "basic" or pure else planned(text, seed, "zcdp")


def references_of(catalog: Catalog) -> References:
    """The public files of the examples, as texts."""
    return {
        name: pd.read_csv(ROOT / "specs" / each.file, dtype=str, keep_default_na=False)
        for name, each in catalog.references.items()
    }


def _charged(folder: Path) -> list[Any]:
    return list(open_ledger("sqlite:///state/ledger.db", folder).reservations())


def _whole(bundle: Path, folder: Path, seed: int) -> None:
    wrong = [each for each in check_bundle(bundle) if each.passed is False]
    if wrong:
        raise Fault(f"seed {seed}: {wrong}")
    side = open_side(str(bundle))
    compared = compare_sides(side, side, Fraction(95, 100))
    if compared.dropped or compared.added:
        raise Fault(f"seed {seed}: a bundle differs from itself")
    states = [each.state for each in _charged(folder)]
    if states != ["closed"]:
        raise Fault(f"seed {seed}: one release, and the ledger has {states}")


def _held(oracle: Oracle, query: PlannedQuery, path: Path, seed: int) -> Compared:
    """One published table against pandas."""
    found = Compared()
    if not path.exists():
        return Compared({"no CSV": 1})
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    try:
        rows, by = oracle.counted(query)
        if query.ranking is not None:
            return _ranked(query, rows, table, seed)
    except NoOracle as why:
        return Compared({f"no oracle ({why})": 1})
    withheld = query.suppress_below is not None or oracle.plan.publish.unreliable_show == "blank"
    figures = oracle.plan.publish.figures
    bases = {} if figures is None else figures.bases.get(query.name, {})
    groups: dict[tuple[int, ...], dict[tuple[str, ...], pd.DataFrame]] = {}
    for _, row in table.head(_MOST_CELLS).iterrows():
        key = tuple(row[name] for name in by)
        at = tuple(place for place, part in enumerate(key) if part != TOTAL or query.totals is None)
        if at not in groups:
            keys = pd.Series([tuple(cell[place] for place in at) for cell in rows["_cell"]], rows.index, object)
            groups[at] = {cell: rows[[each == cell for each in keys]] for cell in set(keys)}
        mine = groups[at].get(tuple(key[place] for place in at), rows.iloc[:0])
        for name, measure in query.measures.items():
            try:
                expected = oracle.expected(query, mine, measure)
            except NoOracle as why:
                found[f"no oracle ({why})"] += 1
                continue
            if name in bases:
                expected = expected.wider(float(bases[name]) / 2)
            what = f"seed {seed}: {query.name} {key} {name}"
            blank = withheld or (expected.edge and query.totals is not None)
            found[_told(row[name], measure.kind, expected, what, withheld=blank)] += 1
    if query.selection is not None:
        _selected(query, rows, table, seed)
    return found


def _told(text: str, kind: str, expected: Expected, what: str, *, withheld: bool) -> str:
    if text == "":
        if math.isnan(expected.low) or withheld or kind == "counted_ratio":  # of a quantile that could be 0
            return f"{kind}, blank"
        raise Fault(f"{what}: nothing is published, and it is {expected}")
    if math.isnan(expected.low):
        raise Fault(f"{what}: {text} is published, and there is none")
    if not expected.holds(float(text)):
        raise Fault(f"{what}: {text} is published, and it is {expected}")
    return kind


def _selected(query: PlannedQuery, rows: pd.DataFrame, table: pd.DataFrame, seed: int) -> None:
    """No key is left out that has as many units as one that is shown."""
    units = rows.groupby("_cell")["_unit"].nunique()
    shown = {tuple(row[name] for name in query.by) for _, row in table.iterrows()}
    if not shown <= set(units.index):
        raise Fault(f"seed {seed}: {query.name} shows keys that nobody has")
    if shown and any(count >= min(units[key] for key in shown) for key, count in units.items() if key not in shown):
        raise Fault(f"seed {seed}: {query.name} leaves out a key with as many units")


def _ranked(query: PlannedQuery, rows: pd.DataFrame, table: pd.DataFrame, seed: int) -> Compared:
    """The counts of a list fall, and no other key has more."""
    assert query.ranking is not None
    sizes = {
        of: rows.groupby("_cell")["_unit"].nunique() if of == "units" else rows.groupby("_cell").size()
        for of in ("units", "rows")
    }
    listed = [(row[query.by[0]],) for _, row in table.iterrows()]
    for size in sizes.values():
        told = [int(size.get(key, 0)) for key in listed]
        others = [int(count) for key, count in size.items() if key not in listed]
        if told == sorted(told, reverse=True) and (not others or min(told) >= max(others)):
            return Compared({"list": len(listed)})
    raise Fault(f"seed {seed}: {query.name} is {listed}")
