"""Every accountant, engine and kind of ledger of its table is taken through plan, run, verify and diff; wrong ones fail."""

from __future__ import annotations

import csv
import html
import importlib
import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from dprelease.catalog.aggregate import Grouping, Quantity, TotalsCube
from dprelease.catalog.cells import CellSlice
from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.source import SOURCE_FORMATS
from dprelease.catalog.table import Catalog, Key, Source, Table
from dprelease.engines import ENGINES, DuckDBEngine, engine_for
from dprelease.errors import BrokenPromiseError, LedgerError, SpecError, Unsupported
from dprelease.ledger import LEDGERS, open_ledger, schemes
from dprelease.noise.exact import Exact, ExactHistogram
from dprelease.plan.document import ReleasePlan
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.accountants.base import Accountant, LossClaim, Words
from dprelease.privacy.accountants.zcdp import Zcdp
from dprelease.privacy.event import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    Sensitivity,
)
from dprelease.release import direct
from dprelease.release.check import check_release
from dprelease.release.diff import compare_sides, open_side
from dprelease.release.planning import open_target, plan_release
from dprelease.release.run import Request
from dprelease.spec.load import load
from dprelease.spec.project import load_project
from dprelease.spec.schema import json_schema
from tests import postgres as servers
from tests.project import SETTINGS, small_project
from tests.statistical_files import KINDS, packed_as, write_statistical
from tests.workbook_files import write_columns

postgres_server, postgres = servers.postgres_server, servers.postgres  # fixtures

SPEC = """dprelease: 1
release: {name: survey, period: 2024, title: A survey, curator: Example Office}
privacy: {unit: {entity: person}, budget: {epsilon: 0.1, delta: 1e-9}, noise: gaussian, accounting: auto}
tables:
  people:
    account: people
    source: {file: people-1.csv, null_values: ["", N]}
    columns: {sex: {type: integer, keys: [1, 2]}}
queries:
  population: {table: people, by: [sex], measures: {persons: {count: rows}}}
publish: {formats: [csv, json, html]}
"""


def spec(accounting: str = "auto", file: str = "people-1.csv") -> str:
    return SPEC.replace("accounting: auto", f"accounting: {accounting}").replace("people-1.csv", file)


def planned(path: Path) -> ReleasePlan:
    target = open_target(path)
    return plan_release(target)


def travelled(path: Path) -> tuple[ReleasePlan, Path]:
    """Plan, run, verify and diff in this process; the plan and the bundle."""
    plan = planned(path)
    bundle = Path(direct.run_directly(Request(target=str(path))).folder)
    wrong = [check for check in check_release(bundle) if check.passed is False]
    assert not wrong
    found = compare_sides(open_side(str(path)), open_side(str(bundle)), Fraction(95, 100))
    assert not found.moved.differences
    assert open_side(str(bundle)).plan == plan
    return plan, bundle


@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_every_accountant_travels_from_a_plan_to_a_bundle(name: str, tmp_path: Path) -> None:
    plan, bundle = travelled(small_project(tmp_path / "project", spec(name), 40))
    assert plan.certified == name
    words = ACCOUNTANTS[name].words
    assert words.how in html.unescape((bundle / "accounting.html").read_text("utf-8"))
    registry = " ".join((bundle / "registry.yaml").read_text("utf-8").split())
    assert words.framework in registry


@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_the_names_of_the_table_are_those_of_the_spec_and_of_its_schema(name: str) -> None:
    assert load(spec(name), "s").spec.privacy.accounting == name
    (known,) = [each["enum"] for each in _fields(json_schema(), "accounting")]
    assert known == ["auto", *ACCOUNTANTS]
    with pytest.raises(SpecError, match="DPR-S202") as caught:
        load(spec("moments"), "s")
    assert name in str(caught.value)


def _fields(value: Any, name: str) -> list[dict[str, Any]]:
    if isinstance(value, list):
        return [found for each in value for found in _fields(each, name)]
    if not isinstance(value, dict):
        return []
    own = [value[name]] if isinstance(value.get(name), dict) and "enum" in value[name] else []
    return own + [found for each in value.values() for found in _fields(each, name)]


def _taken(name: str) -> list[Event]:
    """Draws of scale 40 and sensitivity 1 or 3 that the accountant has a theorem for."""
    shifts = (Sensitivity.of_one_cell(1), Sensitivity.of_one_cell(3))
    kinds = (DiscreteGaussian, Gaussian, DiscreteLaplace, Laplace)
    made = [kind(scale=Fraction(40), sensitivity=each) for kind in kinds for each in shifts]
    return [each for each in made if each.kind in ACCOUNTANTS[name].takes]


@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_an_accountant_is_above_the_exact_loss_rises_with_every_draw_and_undoes_itself(name: str) -> None:
    accountant, delta = ACCOUNTANTS[name], Fraction(1, 10**6)
    draws = _taken(name)
    assert draws
    last = Fraction(0)
    for count in range(1, len(draws) + 1):
        event = Composed(events=tuple(draws[:count]))
        epsilon = accountant.epsilon(event, delta)
        assert epsilon * (1 + Fraction(1, 10**7)) >= ACCOUNTANTS["pld"].epsilon(event, delta)
        assert epsilon > last
        assert 0 < accountant.delta(event, epsilon) <= delta * (1 + Fraction(1, 10**6))
        assert accountant.rough_epsilon(event, float(delta)) == pytest.approx(float(epsilon), rel=1e-3)
        last = epsilon
    assert accountant.epsilon(Composed(), delta) == 0
    assert accountant.delta(Composed(), Fraction(1)) == 0


class Doubled(Zcdp):
    """A new accountant that is right: it claims twice what is needed, and its second derivation is the exact loss."""

    name = "doubled"

    def epsilon(self, event: Event, delta: Fraction) -> Fraction:
        """Too much, which is true."""
        return 2 * super().epsilon(event, delta)

    def holds(self, claim: LossClaim) -> bool:
        """Not below the truth."""
        return claim.is_true()


class Halved(Zcdp):
    """Too small a loss."""

    name = "halved"

    def epsilon(self, event: Event, delta: Fraction) -> Fraction:
        """Half of what is needed."""
        return super().epsilon(event, delta) / 2


class Confident(Halved):
    """Too small a loss, and a second derivation that agrees with everything."""

    name = "confident"

    def holds(self, claim: LossClaim) -> bool:
        """Always."""
        return True


def test_a_new_accountant_leaves_specs_plans_and_bundles_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = small_project(tmp_path / "project", spec(), 40)
    before, bundle = travelled(path)
    monkeypatch.setitem(ACCOUNTANTS, "doubled", Doubled())
    after = planned(path)
    assert {**after.loss, "doubled": None} == {**before.loss, "doubled": None}
    assert (after.steps, after.certified) == (before.steps, before.certified)
    assert "doubled" in after.loss
    verify(before)
    verify(after)
    (agree,) = [check for check in check_release(bundle) if check.name == "accountants agree"]
    assert agree.passed
    assert "doubled is not in the plan" in agree.detail
    assert "doubled" in json_schema()["$defs"]["PrivacySpec"]["properties"]["accounting"]["enum"]
    assert planned(small_project(tmp_path / "asked", spec("doubled"), 40)).certified == "doubled"


@pytest.mark.parametrize(
    ("wrong", "why"), [(Halved(), "not what that accountant proves"), (Confident(), "larger than claimed")]
)
def test_an_accountant_that_claims_too_little_is_found_before_anything_is_charged(
    wrong: Accountant, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = small_project(tmp_path, spec(wrong.name), 40)
    monkeypatch.setitem(ACCOUNTANTS, wrong.name, wrong)
    with pytest.raises(BrokenPromiseError, match=why):
        direct.run_directly(Request(target=str(path)))
    assert open_target(path).project.ledger_url({}).startswith("sqlite")
    assert open_ledger("sqlite:///state/ledger.db", tmp_path).reservations() == ()


def test_an_accountant_without_words_or_a_second_derivation_cannot_be_made() -> None:
    for missing in ("words", "holds", "epsilon", "rough_epsilon", "delta", "name"):
        said = {each: getattr(Zcdp, each) for each in Accountant.__abstractmethods__ if each != missing}
        mute: type[Accountant] = type("Mute", (Accountant,), said)
        with pytest.raises(TypeError, match=missing):
            mute()
    with pytest.raises(ValueError, match="an accountant says"):
        Words(how="adds", framework="", theorem="none")


def _csv(rows: Sequence[Mapping[str, str]], path: Path) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def _parquet(rows: Sequence[Mapping[str, str]], path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(_csv(rows, path)), path)


def _packed(rows: Sequence[Mapping[str, str]], path: Path) -> None:
    path.write_bytes(packed_as(_csv(rows, path).read_bytes(), path.name.removeprefix("rows.")))


def _statistical(rows: Sequence[Mapping[str, str]], path: Path) -> None:
    upper = path.suffix == ".por"  # all names are in capitals there
    write_statistical(path, {name.upper() if upper else name: [float(row[name]) for row in rows] for name in rows[0]})


def _workbook(rows: Sequence[Mapping[str, str]], path: Path) -> None:
    write_columns(path, {name: [float(row[name]) for row in rows] for name in rows[0]})


def _sqlite(rows: Sequence[Mapping[str, str]], path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute(f"CREATE TABLE people ({', '.join(rows[0])})")
        database.executemany(
            f"INSERT INTO people VALUES ({', '.join('?' * len(rows[0]))})", [(*row.values(),) for row in rows]
        )


def _delta(rows: Sequence[Mapping[str, str]], path: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(str(path), pa.table({name: [row[name] for row in rows] for name in rows[0]}))


FILES: dict[str, Callable[[Sequence[Mapping[str, str]], Path], object]] = {
    "csv": _csv,
    "parquet": _parquet,
    **dict.fromkeys(("csv.gz", "csv.zst"), _packed),
    **dict.fromkeys(KINDS, _statistical),
    "xlsx": _workbook,
    "database": _sqlite,
    "delta": _delta,
}
ROWS = [{"sex": str(1 + k % 2)} for k in range(40)]


@pytest.mark.parametrize(("kind", "source"), [("duckdb", each) for each in sorted(ENGINES["duckdb"].formats)])
def test_every_engine_travels_with_every_source_that_it_reads(kind: str, source: str, tmp_path: Path) -> None:
    ending = SOURCE_FORMATS.get(source, f".{source}")
    text = spec(file=f"rows{ending}" if source in SOURCE_FORMATS else "rows.csv")
    if source == "database":
        text = text.replace("file: rows.csv", "database: sqlite:///rows.database, table: people")
    if source == "delta":
        text = text.replace("file: rows.csv", "delta: rows.delta, version: 0")
    path = small_project(tmp_path, text.replace("sex", "SEX") if source == "por" else text, 1)
    FILES[source](ROWS, tmp_path / f"rows{ending}")
    plan, _ = travelled(path)
    assert engine_for(plan.catalog.tables.values()) is ENGINES[kind]


def test_every_format_of_a_source_has_an_engine() -> None:
    assert {*SOURCE_FORMATS, "database", "delta", "metastore"} == {
        each for kind in ENGINES for each in ENGINES[kind].formats
    }
    with pytest.raises(SpecError, match="DPR-S216"):
        load(spec(file="rows.xls"), "s")


class LinesEngine(DuckDBEngine):
    """Reads rows that are lines of JSON."""

    formats: ClassVar[frozenset[str]] = frozenset({"lines"})
    used: ClassVar[list[str]] = []

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        """Hand the other engine the same rows as CSV."""
        copies = folder / "copies"
        copies.mkdir(exist_ok=True)
        for path in folder.glob("*.jsonl"):
            _csv([json.loads(line) for line in path.read_text("utf-8").splitlines()], copies / f"{path.stem}.csv")
        super().__init__(copies, environment)

    def describe(self, table: Table) -> None:
        """As CSV."""
        super().describe(_as_csv(table))

    def present(self, table: Table) -> None:
        """As CSV."""
        super().present(_as_csv(table))

    def fingerprint(self, table: Table, key: bytes) -> tuple[str, ...]:
        """As CSV."""
        return super().fingerprint(_as_csv(table), key)

    def aggregate(
        self,
        catalog: Catalog,
        grouping: Grouping,
        quantities: Sequence[Quantity],
        references: Mapping[str, ReferenceTable],
        secret: bytes,
        keys: Sequence[tuple[Key, ...]] | None = None,
        within: CellSlice | None = None,
        cube: TotalsCube | None = None,
    ) -> tuple[Exact | ExactHistogram, ...]:
        """As CSV."""
        self.used.append(grouping.table)
        tables = {name: _as_csv(table) for name, table in catalog.tables.items()}
        other = catalog.model_copy(update={"tables": tables})
        return super().aggregate(other, grouping, quantities, references, secret, keys, within, cube)


def _as_csv(table: Table) -> Table:
    file = table.files.file.replace(".jsonl", ".csv")
    return table.model_copy(update={"source": Source(file=file, format="csv")})


def test_a_second_engine_that_declares_a_format_is_chosen_and_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = small_project(tmp_path, spec(file="rows.jsonl"), 1)
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in ROWS), encoding="utf-8")
    with pytest.raises(SpecError, match="DPR-S216"):
        planned(path)
    monkeypatch.setitem(SOURCE_FORMATS, "lines", ".jsonl")
    with pytest.raises(Unsupported, match=r"(?s)DPR-E202.*duckdb reads csv, csv.gz") as caught:
        direct.run_directly(Request(target=str(path)))
    assert "lines" in str(caught.value)
    monkeypatch.setitem(ENGINES, "lines", LinesEngine)
    LinesEngine.used.clear()
    plan, _ = travelled(path)
    assert plan.catalog.tables["people"].source.format == "lines"
    assert LinesEngine.used == ["people"]


@pytest.mark.parametrize("kind", LEDGERS)
def test_every_kind_of_ledger_travels(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = small_project(tmp_path, spec(), 40)
    if kind != "sqlite":  # a server, whose tables are made beforehand
        database = request.getfixturevalue("postgres")
        importlib.import_module("dprelease.ledger.stores.postgres").create_postgres_ledger(
            database.owner, servers.RUNNER
        )
        monkeypatch.setenv("LEDGER", str(database.runner))
        settings = SETTINGS.replace("sqlite:///state/ledger.db", "${env:LEDGER}")
        (tmp_path / "dprelease.yaml").write_text(settings, encoding="utf-8")
    travelled(path)


@pytest.mark.parametrize("kind", LEDGERS)
def test_a_kind_of_ledger_is_written_as_its_example_says(kind: str) -> None:
    scheme = LEDGERS[kind].scheme
    assert scheme.takes(scheme.example)
    assert sum(each.takes(scheme.example) for each in schemes()) == 1
    assert load_project(f"ledger: {scheme.example}\n", "f", schemes()).ledger == scheme.example
    with pytest.raises(SpecError, match="DPR-S220") as caught:
        load_project("ledger: mysql:///x\n", "f", schemes())
    assert scheme.example in str(caught.value)
    with pytest.raises(LedgerError, match="DPR-L143  `ledger:` has an unknown scheme: mysql"):
        open_ledger("mysql://u:secret@host/db", Path())
