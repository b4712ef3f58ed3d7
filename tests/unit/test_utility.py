"""A plan compared with the truth: the figures are right, and nothing else comes out of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprelease.cli.commands.utility import utility_command
from dprelease.errors import BrokenPromiseError, SpecError
from dprelease.noise.truth import true_numbers
from dprelease.release.project import Project
from dprelease.release.tuning import utility as module
from dprelease.release.tuning.error_figures import SIZES, Errors
from dprelease.release.tuning.stand_in import require_consent, require_outside
from dprelease.release.tuning.utility import Utility, utility
from tests.project import CANARY, POLICY, SPEC, small_project
from tests.workloads import areas, crosstabs, small_workloads, spec_of, truth_of

# Nearly no noise: what is compared is then the same but for the comparison's own mistakes.
HARDLY = "{epsilon: 20, delta: 1e-9}"


def by_size(found: Utility, table: str, measure: str) -> dict[str, Errors]:
    return {each.size: each for each in found.errors if (each.table, each.measure) == (table, measure)}


def sizes_of(counts: Mapping[Any, int], cells: int) -> Counter[str]:
    found = Counter(SIZES[int(np.searchsorted((1, 10, 100, 1000), each, side="right"))] for each in counts.values())
    found["0"] += cells - len(counts)
    return +found


@pytest.mark.slow
def test_every_cell_of_a_workload_is_compared_with_its_own_count(tmp_path: Path) -> None:
    spec = small_workloads(tmp_path, spec_of(areas(), budget=HARDLY), rows=700)
    found = utility(spec, allowed=True, repeat=3)
    attributes = ("sex", "race", "puma")
    for label, keys, cells in (
        ("areas: region, total", ("region",), 2),
        ("areas: state, 1-way", ("state", "sex"), 6),
        ("areas: puma, 2-way", ("puma", "race", "sex"), 30),
    ):
        counted = by_size(found, label, "count")
        expected = sizes_of(truth_of(tmp_path, keys, attributes), cells)
        assert {size: each.compared for size, each in counted.items()} == {k: 3 * v for k, v in expected.items()}
        assert all(each.rmse < 6 * (each.standard_error or 0) for each in counted.values())
        assert all(each.rmse < 10 for each in counted.values())


def test_tables_of_a_workload_with_as_many_attributes_are_one_line(tmp_path: Path) -> None:
    found = utility(small_workloads(tmp_path, spec_of(crosstabs()), rows=300), allowed=True, repeat=1)
    assert {(each.table, each.tables) for each in found.errors} == {
        ("crosstabs: total", 1),
        ("crosstabs: 1-way", 3),
        ("crosstabs: 2-way", 3),
    }


def test_errors_are_as_large_as_the_law_says_and_a_wrong_truth_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """240 draws: the RMSE is within 6 of its standard errors (27 %) of the law; a truth that is 20 too small is not."""
    spec = small_project(tmp_path, rows=400)
    whole = {"population"}

    def pooled() -> tuple[float, float, float, float]:
        lines = [each for each in utility(spec, allowed=True, repeat=40).errors if each.table in whole]
        count = sum(each.compared for each in lines)
        assert count == 240
        square = sum(each.rmse**2 * each.compared for each in lines) / count
        law = sum((each.standard_error or 0) ** 2 * each.compared for each in lines) / count
        within = sum((each.coverage or 0) * each.compared for each in lines) / count
        return (square / law) ** 0.5, sum(each.bias * each.compared for each in lines) / count, law**0.5, within

    ratio, bias, law, within = pooled()
    assert 0.73 < ratio < 1.27
    assert abs(bias) < 6 * law / 240**0.5
    assert within > 0.86
    monkeypatch.setattr(module, "true_numbers", lambda box: true_numbers(box) - 20)
    ratio, bias, law, within = pooled()
    assert abs(bias - 20) < 6 * law / 240**0.5
    assert ratio > 1.27
    assert within < 0.5


def test_other_measures_are_told_by_the_rows_of_their_cell(tmp_path: Path) -> None:
    """A region has 101 rows, of which 9 have no income."""
    found = utility(small_project(tmp_path, rows=404), allowed=True, repeat=2)
    assert set(by_size(found, "income", "average")) == {"100-999"}
    for each in found.errors:
        assert each.standard_error is not None
        assert each.rmse >= each.mean_absolute >= abs(each.bias)


def test_rows_are_bounded_as_in_a_release(tmp_path: Path) -> None:
    """Two rows of a person at most are true: what the bounds leave out is no error of the noise."""
    text = spec_of(crosstabs(ways="[1]"), budget=HARDLY, units=True)
    found = utility(small_workloads(tmp_path, text, rows=700), allowed=True, repeat=2)
    assert all(each.rmse < 10 for each in found.errors)


@pytest.mark.slow
def test_private_keys_and_quantiles_are_compared_over_what_appears(tmp_path: Path) -> None:
    text = SPEC + (
        "  chosen: {table: people, by: [district], keys: private, measures: {persons: {count: rows}}}\n"
        "  middle: {table: people, by: [region], measures: {m: {quantiles: income, at: [0.5]}}}\n"
        "  most: {table: people, top_k: district, k: 2}\n"
    )
    spec = small_project(tmp_path, text)
    (tmp_path / "policy.yaml").write_text(POLICY.replace("delta: 1e-8}}", "delta: 1e-8, selecting: 5e-9}}"))
    found = utility(spec, allowed=True, repeat=2)
    assert by_size(found, "chosen", "persons")
    assert [each.standard_error for each in by_size(found, "middle", "m_q50").values()] == [None] * len(
        by_size(found, "middle", "m_q50")
    )
    assert found.left_out == ("most: a list of keys has no numbers",)


def test_made_up_rows_need_no_data_and_no_leave(tmp_path: Path) -> None:
    spec = small_project(tmp_path)
    (tmp_path / "people-1.csv").unlink()
    found = utility(spec, allowed=False, repeat=1, synthetic=True)
    assert found.synthetic
    assert found.errors


def test_nothing_is_read_before_somebody_says_that_it_may_be(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="confidential") as caught:
        utility(tmp_path / "there-is-none.yaml", allowed=False)
    assert caught.value.code == "DPR-S020"
    assert "--i-can-see-the-data" in caught.value.hint
    require_consent(True)


@pytest.mark.parametrize(
    "place", ["releases/a.txt", "releases-synthetic/a.txt", "x/../releases/deep/a.txt", "link/a.txt"]
)
def test_no_figure_is_written_among_the_releases(tmp_path: Path, place: str) -> None:
    small_project(tmp_path)
    (tmp_path / "releases").mkdir()
    (tmp_path / "link").symlink_to("releases")
    project = Project.find(tmp_path)
    with pytest.raises(SpecError, match="among the releases"):
        require_outside(project, tmp_path / place)
    require_outside(project, tmp_path / "figures.txt")
    require_outside(project, None)


def test_a_failure_tells_its_class_and_no_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = small_project(tmp_path)

    def fail(*_: object) -> object:
        raise ValueError(f"the sum is {CANARY}")

    monkeypatch.setattr(module, "true_numbers", fail)
    with pytest.raises(BrokenPromiseError) as caught:
        utility(spec, allowed=True, repeat=1)
    assert str(CANARY) not in str(caught.value)
    assert "ValueError" in caught.value.summary
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_what_is_handed_on_are_sums_of_errors_and_nothing_of_a_cell() -> None:
    told = {each.name for each in fields(Errors)}
    assert told == {
        "table", "tables", "measure", "size", "compared", "withheld",
        "rmse", "mean_absolute", "bias", "coverage", "standard_error",
    }  # fmt: skip


def test_json_has_no_nan_where_all_numbers_are_blank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blank = Errors("t", 1, "m", "0", 0, 4, np.nan, np.nan, np.nan, None, None)
    found = Utility("r", "2024", 1, Fraction(19, 20), synthetic=True, errors=(blank,), left_out=("x: why",))
    monkeypatch.setattr(module, "utility", lambda *_, **__: found)
    for as_json in (True, False):
        utility_command(tmp_path, allowed=True, repeat=1, synthetic=True, as_json=as_json)
    said = capsys.readouterr().out
    (line,) = json.loads(said[: said.rindex("}") + 1])["errors"]
    assert (line["rmse"], line["bias"], line["withheld"]) == (None, None, 4)
    assert "0 (+4 blank)" in said
    assert "left out  x: why" in said
    assert "nan" not in said.lower()
