"""The one place where exact values exist: the planned noise is the noise that is drawn, and it is drawn once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.catalog.aggregate import Grouping, Quantity, TotalsCube, cells_of
from dprelease.catalog.cells import CellSlice
from dprelease.catalog.factor import Factor
from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.table import Catalog, Key, Table
from dprelease.errors import BrokenPromiseError
from dprelease.ledger import Charge, Ledger, StepKey, open_ledger
from dprelease.noise import Exact, ExactHistogram, ExactKeys, Measurement
from dprelease.noise.mechanisms.factor import draw_factor
from dprelease.noise.mechanisms.threshold import least_threshold
from dprelease.plan.document import Account, Batch, ReleasePlan
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.budget import Budget
from dprelease.privacy.unit import Neighboring
from dprelease.release import draw as drawing
from dprelease.release.data.sources import RunSources, SourceKey
from dprelease.release.draw import DataSource, draw_batch
from tests.planned import SPEC, plan_of
from tests.reference_thresholds import partition_pi

CELLS = 20_000
WIDE = SPEC.replace('["01", "02", "06"]', '["01"]').replace("keys: [1, 2]", f"keys: {{from: 1, to: {CELLS}}}")
WIDE = WIDE.partition("  income:\n    table")[0]
PURE = Account(
    name="people",
    unit="person",
    neighboring=Neighboring.ADD_REMOVE,
    composition="basic",
    lifetime=Budget(epsilon=Fraction(2)),
)


class Zeros:
    """An engine whose exact values are all zero, so that what comes back is the noise alone."""

    def __init__(self, canary: str = "", units: Mapping[str, int] | None = None) -> None:
        self.calls, self.selections, self.canary, self.units = 0, 0, canary, dict(units or {})
        self.secrets: list[bytes] = []

    def describe(self, table: Table) -> None:
        """Nothing to check."""

    def check(self, *_: object) -> None:
        """Nothing to check."""

    def expect(self, catalog: Catalog, asked: object) -> None:
        """It reads everything, every time."""

    def aggregate(
        self,
        catalog: Catalog,
        grouping: Grouping,
        quantities: Sequence[Quantity],
        references: Mapping[str, ReferenceTable],
        secret: bytes = b"",
        keys: Sequence[tuple[Key, ...]] | None = None,
        within: CellSlice | None = None,
        cube: TotalsCube | None = None,
    ) -> tuple[Exact | ExactHistogram, ...]:
        self.calls += 1
        self.secrets.append(secret)
        if self.canary:
            raise ValueError(self.canary)
        cells = cells_of(grouping, catalog) if keys is None else len(keys)
        none = np.zeros(0, dtype=np.int64)
        return tuple(
            ExactHistogram(cells or 0, none, none, none)
            if quantity.kind == "quantile"
            else Exact(np.zeros(cells or 0, dtype=np.int64))
            for quantity in quantities
        )

    def units_by_key(
        self, catalog: Catalog, grouping: Grouping, references: Mapping[str, ReferenceTable], secret: bytes = b""
    ) -> ExactKeys:
        self.selections += 1
        self.secrets.append(secret)
        return ExactKeys(tuple((key,) for key in self.units), np.array(list(self.units.values()), dtype=np.int64))

    def present(self, table: Table) -> None:
        """There is no file."""

    def fingerprint(self, table: Table, key: bytes) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        """Nothing to forget."""


known_plan = cache(plan_of)


def reserved(plan: ReleasePlan, folder: Path) -> Ledger:
    ledger = open_ledger("sqlite:///ledger.db", folder)
    ledger.reserve(plan, [Charge(account=a, events=plan.cost_of(a), cap=a.lifetime) for a in plan.accounts])
    return ledger


def drawn_of(batch: Batch, plan: ReleasePlan, ledger: Ledger, engine: Zeros) -> tuple[Measurement, ...]:
    identity = (plan.release.name, plan.release.period, plan.fingerprint())
    pinned = RunSources().pin(ledger, identity, plan.catalog.tables, engine, SourceKey(bytes(32)))
    return draw_batch(batch, DataSource(plan.catalog, {}, engine, pinned), ledger, identity)


def measured(plan: ReleasePlan, ledger: Ledger, engine: Zeros) -> list[list[int]]:
    (batch,) = plan.batches()
    answers = drawn_of(batch, plan, ledger, engine)
    return [answer.values.tolist() for answer in answers]


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_what_is_drawn_has_the_planned_scale(tmp_path: Path, noise: str) -> None:
    """Fails for a scale wrong by a tenth in either direction: over 20,000 cells the spread is known to 1.2 %."""
    plan = plan_of(WIDE.replace("delta: 1e-9}", f"delta: 1e-9}}\n  noise: {noise}"))
    (step,) = plan.steps
    (values,) = measured(plan, reserved(plan, tmp_path), Zeros())
    assert len(values) == CELLS == step.cells
    assert np.std(values) == pytest.approx(np.sqrt(step.law.variance), rel=0.07)


def test_two_steps_of_one_pass_have_noise_of_their_own(tmp_path: Path) -> None:
    """The same cells, scale and law: two numbers of one cell differ by more than nothing nearly everywhere."""
    second = '  m: {table: people, by: [region, sex], where: "sex = 1", measures: {m: {count: rows}}}\n'
    plan = plan_of(
        WIDE.replace("population:", "n:").replace("delta: 1e-9}", "delta: 1e-9}\n  noise: gaussian") + second
    )
    one, other = measured(plan, reserved(plan, tmp_path), Zeros())
    assert len(one) == len(other) == CELLS
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.06  # 8 standard errors


def test_a_total_of_one_cell_is_hidden_too(tmp_path: Path) -> None:
    """Twelve totals of 0, each a draw of its own, at a scale where half of all noise is no 0 at the least."""
    text = "".join(
        f"  n{at}: {{table: people, measures: {{n: {{count: sex}}}}}}\n".replace(
            "sex", 'rows, where: "sex = 1"' if at % 2 else "rows"
        )
        for at in range(2)
    )
    plan = plan_of(WIDE.partition("  population:")[0] + text)
    (batch,) = plan.batches()
    found = []
    for at in range(6):
        (tmp_path / str(at)).mkdir()
        found += [each[0] for each in measured(plan, reserved(plan, tmp_path / str(at)), Zeros())]
    assert len(batch.steps) == 2
    assert all(step.cells == 1 and step.law.variance > 1 for step in plan.steps)
    assert any(found)


def test_a_joint_step_is_drawn_committed_and_read_back_whole(tmp_path: Path) -> None:
    """A K-norm draw: one vector of noise per cell, stored quantity by quantity, each with the planned law."""
    text = WIDE.replace(
        "{persons: {count: rows}}", "{persons: {count: rows}, sexes: {count: sex}, paid: {count: income}}"
    )
    plan, engine = plan_of(text, accounts=[PURE]), Zeros()
    (step,) = plan.steps
    assert (step.mechanism, len(step.parts)) == ("count_knorm", 3)
    ledger = reserved(plan, tmp_path)
    (values,) = measured(plan, ledger, engine)
    assert len(values) == 3 * CELLS
    for part in range(3):
        noise = values[part * CELLS : (part + 1) * CELLS]
        assert np.std(noise) == pytest.approx(np.sqrt(step.law.variance), rel=0.07)
    assert np.corrcoef(np.reshape(values, (3, CELLS)))[0, 1] == pytest.approx(0.5, abs=0.05), "one draw hides them all"
    assert measured(plan, ledger, engine) == [values]
    assert engine.calls == 1
    assert ledger.check() == ()


def test_ranges_are_drawn_at_the_planned_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is handed to the noise of a factor is the step's own scale; that noise has its own tests."""
    text = WIDE.replace(f"to: {CELLS}", "to: 64").replace(
        "by: [region, sex],", "by: [region, sex], ranges: {of: sex, which: prefixes},"
    )
    plan, handed = plan_of(text), []

    def noted(exact: Exact, factor: Factor, scale: Fraction, *_: object) -> npt.NDArray[np.int64]:
        handed.append((factor, scale))
        return draw_factor(exact, factor, scale)

    monkeypatch.setattr(drawing, "draw_factor", noted)
    (step,) = plan.steps
    measured(plan, reserved(plan, tmp_path), Zeros())
    assert handed == [(step.factor, step.scale)]


def test_a_measured_step_is_neither_read_nor_drawn_again(tmp_path: Path) -> None:
    plan, engine = known_plan(WIDE), Zeros()
    ledger = reserved(plan, tmp_path)
    assert measured(plan, ledger, engine) == measured(plan, ledger, engine)
    assert engine.calls == 1


def test_an_unexpected_error_is_told_by_class_and_step_alone(tmp_path: Path) -> None:
    plan = known_plan(WIDE)
    with pytest.raises(BrokenPromiseError, match=r"ValueError while measuring population\.rows") as caught:
        measured(plan, reserved(plan, tmp_path), Zeros("canary 123457"))
    assert "123457" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


VISITS = """
dprelease: 1
release: {name: visits, period: 2024}
privacy:
  unit: {entity: person}
  budget: {epsilon: 5, delta: 1e-6}
tables:
  visits:
    account: web
    unit_id: user
    source: {file: visits.csv}
    bounds: {max_rows: 4}
    columns:
      page: {type: text, keys: [a, b, c]}
      term: {type: text}
      seconds: {type: integer, range: [0, 60]}
queries:
  terms:
    table: visits
    by: [term]
    keys: private
    min_units: 20
    bounds: {max_groups: 2, max_rows_per_group: 1}
    measures: {users: {count: units}, seconds: {sum: seconds, clip_per: unit_cell}}
  pages: {table: visits, by: [page], measures: {middle: {quantiles: seconds, at: [0.5]}}}
  first: {table: visits, top_k: page, k: 2}
"""


def drawn(plan: ReleasePlan, ledger: Ledger, engine: Zeros) -> dict[str, Measurement]:
    answers = [answer for batch in plan.batches() for answer in drawn_of(batch, plan, ledger, engine)]
    return {answer.step: answer for answer in answers}


def test_keys_are_selected_once_and_everything_else_is_counted_over_them(tmp_path: Path) -> None:
    """A term of one person is not shown, one of a million is; the second run finds every answer and reads nothing."""
    plan, engine = known_plan(VISITS), Zeros(units={"rare": 1, "usual": 10**6})
    verify(plan)
    ledger = reserved(plan, tmp_path)
    found = drawn(plan, ledger, engine)
    assert found["terms.keys"].keys == (("usual",),)
    assert [len(found[step].values) for step in ("terms.units", "terms.seconds-sum")] == [1, 1]
    assert all(0 <= value <= 60 for value in found["pages.seconds-q50"].values)
    assert set(found["first.list"].values.tolist()) < {0, 1, 2}
    assert (engine.selections, engine.calls) == (1, 2)
    again = drawn(plan, ledger, engine)
    assert {step: answer.to_bytes() for step, answer in again.items()} == {
        step: answer.to_bytes() for step, answer in found.items()
    }
    assert (engine.selections, engine.calls) == (1, 2)
    assert ledger.check() == ()


def test_a_run_that_was_cut_off_after_the_selection_counts_over_the_keys_that_were_committed(tmp_path: Path) -> None:
    """The second process sees other terms, and still counts those that the first one has selected."""
    plan = known_plan(VISITS)
    ledger = reserved(plan, tmp_path)
    (batch,) = (each for each in plan.batches() if each.selection)
    key = StepKey(plan.release.name, plan.release.period, plan.fingerprint(), "terms.keys")
    ledger.commit(key, Measurement("terms.keys", np.ones(2, dtype=np.int64), keys=(("old",), ("older",))))
    engine = Zeros(units={"new": 10**6})
    answers = drawn_of(batch, plan, ledger, engine)
    assert [len(answer.values) for answer in answers] == [2, 2, 2]
    assert (engine.selections, engine.calls) == (0, 1)


def test_every_pass_of_a_release_truncates_by_one_secret_that_is_in_no_plan(tmp_path: Path) -> None:
    plan, engine = known_plan(VISITS), Zeros(units={"usual": 10**6})
    drawn(plan, reserved(plan, tmp_path), engine)
    (secret,) = set(engine.secrets)
    assert len(secret) == 32
    assert secret.hex() not in plan.canonical()
    another = Zeros(units={"usual": 10**6})
    drawn(plan, reserved(plan, tmp_path / "other"), another)
    assert set(another.secrets) != {secret}


def test_a_coin_decides_where_it_beats_a_threshold_on_laplace_noise(tmp_path: Path) -> None:
    """With little epsilon for a key a coin shows keys of fewer units; both say so in words that verify holds them to."""
    coin = plan_of(
        VISITS.replace("epsilon: 5", "epsilon: 1/2").replace("delta: 1e-6}", "delta: 1e-6}\n  noise: laplace")
    )
    step = coin.step("terms.keys")
    assert step.mechanism == "optimal_selection"
    assert step.selecting is not None
    laplace = least_threshold("laplace", step.scale, step.selecting.delta, 2)
    assert 20 < step.selecting.threshold < laplace
    verify(coin)
    for lie in ({"threshold": step.selecting.threshold - 5}, {"left_out": 7}, {"delta": step.selecting.delta / 2}):
        wrong = step.model_copy(update={"selecting": step.selecting.model_copy(update=lie)})
        steps = tuple(wrong if each.id == step.id else each for each in coin.steps)
        with pytest.raises(BrokenPromiseError):
            verify(coin.model_copy(update={"steps": steps}))
    engine = Zeros(units={"rare": 1, "usual": 10**4})
    found = drawn(coin, reserved(coin, tmp_path), engine)
    assert found["terms.keys"].keys == (("usual",),)


class Held(Zeros):
    """An engine whose every cell holds the same rows, so that how often a draw falls on one value tells its scale."""

    def __init__(self, value: int, rows: int, counts: Sequence[int] = ()) -> None:
        super().__init__(units={f"key {at}": rows for at in range(6000)})
        self.value, self.rows, self.counts = value, rows, np.array(counts, dtype=np.int64)

    def aggregate(
        self,
        catalog: Catalog,
        grouping: Grouping,
        quantities: Sequence[Quantity],
        references: Mapping[str, ReferenceTable],
        secret: bytes = b"",
        keys: Sequence[tuple[Key, ...]] | None = None,
        within: CellSlice | None = None,
        cube: TotalsCube | None = None,
    ) -> tuple[Exact | ExactHistogram, ...]:
        cells = (cells_of(grouping, catalog) or 0) if keys is None else len(keys)
        place = np.arange(cells, dtype=np.int64)
        full = (place, np.full(cells, self.value, dtype=np.int64), np.full(cells, self.rows, dtype=np.int64))
        counts = self.counts if len(self.counts) else np.zeros(cells, dtype=np.int64)
        return tuple(ExactHistogram(cells, *full) if q.kind == "quantile" else Exact(counts) for q in quantities)


def only(query: str) -> ReleasePlan:
    """A plan of one query of many cells."""
    text = VISITS.partition("queries:")[0].replace("keys: [a, b, c]", "keys: {from: 1, to: 4000}")
    return plan_of(text.replace("page: {type: text", "page: {type: integer") + f"queries:\n  {query}\n")


def test_a_quantile_is_chosen_at_the_planned_scale(tmp_path: Path) -> None:
    """All rows at the low end: it is chosen half of the time at the planned scale, 98 % at half, 11 % at twice of it."""
    plan = only("middle: {table: visits, by: [page], measures: {m: {quantiles: seconds, at: [0.5]}}}")
    (step,) = plan.steps
    rows = round(2 * float(step.scale) * float(np.log(60)))  # score of the other 60 grid values: half of the rows
    (values,) = drawn(plan, reserved(plan, tmp_path), Held(0, rows)).values()
    hit = 1 / (1 + 60 * np.exp(-rows / 2 / float(step.scale)))
    assert np.mean(values.values == 0) == pytest.approx(hit, abs=0.06)
    assert 0.4 < hit < 0.6


def test_a_list_is_chosen_at_the_planned_scale(tmp_path: Path) -> None:
    """Half of 4,000 keys have one scale more: the first 40 draws take e / (1 + e) of them, at half the scale 88 %."""
    plan = only("list: {table: visits, top_k: page, k: 400, bounds: {max_groups: 1}}")
    (step,) = plan.steps
    engine = Held(0, 0, [round(float(step.scale))] * 2000 + [0] * 2000)
    (chosen,) = drawn(plan, reserved(plan, tmp_path), engine).values()
    gained = float(np.exp(round(float(step.scale)) / float(step.scale)))
    assert np.mean(chosen.values < 2000) == pytest.approx(gained / (1 + gained), abs=0.1)


@pytest.mark.parametrize(
    ("noise", "epsilon", "mechanism"),
    [
        ("gaussian", "5", "gaussian_threshold"),
        ("laplace", "5", "optimal_selection"),
        ("laplace", "2", "laplace_threshold"),
    ],
)
def test_keys_are_selected_at_the_planned_scale(tmp_path: Path, noise: str, epsilon: str, mechanism: str) -> None:
    """6,000 keys one scale below the threshold show as often as the mass function says, not as at half the scale."""
    text = VISITS.partition("  pages:")[0].replace("epsilon: 5", f"epsilon: {epsilon}")
    if mechanism == "laplace_threshold":
        text = text.replace("max_groups: 2", "max_groups: 1").replace("1e-6", "1e-8")
    plan = plan_of(
        text.replace("-6}", f"-6}}\n  noise: {noise}")
        .replace("-8}", f"-8}}\n  noise: {noise}")
        .replace("    min_units: 20\n", "")
    )
    step = plan.step("terms.keys")
    assert step.selecting is not None
    assert step.mechanism == mechanism
    scale, below = float(step.scale), max(1, round(float(step.scale)))
    units = step.selecting.threshold - below
    shown = drawn(plan, reserved(plan, tmp_path), Held(0, units))["terms.keys"].keys
    lattice = np.arange(-10_000, 10_001)
    masses = np.exp(-np.abs(lattice) / scale) if noise == "laplace" else np.exp(-((lattice / scale) ** 2) / 2)
    expected = float(masses[lattice >= below].sum() / masses.sum())
    if mechanism == "optimal_selection":
        expected = float(partition_pi(1 / step.scale, step.selecting.delta / step.sensitivity.l0, units))
    assert len(shown or ()) / 6000 == pytest.approx(expected, abs=0.03)
