"""A variance whose squares no engine can compute is refused when the spec is loaded, not when the data is read."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.catalog.aggregate import Grouping
from dprelease.engines import ENGINES
from dprelease.errors import SpecError, Unsupported
from dprelease.measures.variance import Stddev, Variance
from dprelease.plan.resolve.catalog import resolve
from dprelease.spec.load import load
from tests.embedded import EMBEDDED

SPEC = """\
dprelease: 1
release: {{name: squares, period: 2024}}
privacy: {{unit: {{entity: person}}, budget: {{epsilon: 1, delta: 1e-9}}}}
tables:
  people:
    account: demo
    source: {{file: data/people.csv}}
    columns:
      pay: {{type: {type}, range: [{low}, {high}], step: {step}}}
queries:
  spread: {{table: people, by: [], measures: {{s: {{{measure}}}}}}}
"""


def spec(
    low: int, high: int, measure: str = "variance: pay", step: str = "1", kind: str = "integer", clip: str = ""
) -> str:
    return SPEC.format(type=kind, low=low, high=high, step=step, measure=measure + clip)


@pytest.mark.thin(every=3)
@pytest.mark.parametrize("measure", ["variance", "stddev"])
@pytest.mark.parametrize(
    ("low", "high", "fits"),
    [
        (0, 2**46 - 2, True),
        (0, 2**46 - 1, False),
        (0, 2**46, False),
        (-(2**45) + 1, 2**45 - 1, True),
        (-(2**45), 2**45 - 1, False),
        (2**52, 2**52 + 2**46 - 2, True),
        (2**52, 2**52 + 2**46 - 1, False),
    ],
)
def test_the_limit_is_that_of_the_engines(measure: str, low: int, high: int, fits: bool, tmp_path: Path) -> None:
    """The loader refuses exactly what every engine would refuse; nothing is planned that cannot run."""
    model = Variance(variance="pay") if measure == "variance" else Stddev(stddev="pay")
    catalog = resolve(load(spec(0, 100), "small.yaml"), {})
    table = catalog.tables["people"]
    (column,) = table.columns
    assert column.range is not None
    wide = column.model_copy(
        update={"range": column.range.model_copy(update={"low": Fraction(low), "high": Fraction(high)})}
    )
    table = table.model_copy(update={"columns": (wide,)})
    catalog, grouping = catalog.model_copy(update={"tables": {"people": table}}), Grouping(table="people", by=())
    (tmp_path / "data").mkdir()
    (tmp_path / "data/people.csv").write_text("pay\n7\n")
    for kind in EMBEDDED:
        engine = ENGINES[kind](tmp_path, {})
        if fits:
            engine.aggregate(catalog, grouping, model.quantities(table), {}, bytes(32))
        else:
            with pytest.raises(Unsupported, match="DPR-E206"):
                engine.aggregate(catalog, grouping, model.quantities(table), {}, bytes(32))
        engine.close()

    text = spec(low, high, measure=f"{measure}: pay")
    if fits:
        load(text, "s.yaml")
    else:
        with pytest.raises(SpecError, match="DPR-S547"):
            load(text, "s.yaml")


def test_the_message_says_where_and_what_to_write() -> None:
    text = spec(0, 10**13, kind="decimal", step="0.01", measure="stddev: pay", clip=", clip: [0, 1000000000000]")

    with pytest.raises(SpecError) as caught:
        load(text, "s.yaml")
    (problem,) = caught.value.problems

    assert problem.where is not None
    assert problem.where.line is not None
    assert problem.where.column is not None
    assert (problem.code, problem.where.line) == ("DPR-S547", 11)
    assert text.splitlines()[10][problem.where.column - 1 :].startswith("clip: [0, 1000000000000]")
    assert "queries.spread.measures.s.clip" in problem.summary
    assert "`step: 0.1`" in problem.hint
    load(text.replace("step: 0.01", "step: 0.1"), "s.yaml")


def test_without_a_clip_the_column_is_what_is_too_wide() -> None:
    with pytest.raises(SpecError) as caught:
        load(spec(0, 2**47), "s.yaml")
    (problem,) = caught.value.problems

    assert "`queries.spread.measures.s.variance`" in problem.summary
    assert "`step: 10`" in problem.hint


@pytest.mark.parametrize(
    "clip", [", clip: [9, 1]", ", clip: [0, 0.5]", f", clip: [0, {2**54}]"], ids=["upside down", "off", "beyond"]
)
def test_a_clip_that_is_wrong_in_itself_is_told_once(clip: str) -> None:
    with pytest.raises(SpecError) as caught:
        load(spec(0, 10, clip=clip), "s.yaml")

    assert "DPR-S547" not in {problem.code for problem in caught.value.problems}


def test_sums_and_means_may_be_as_wide_as_ever() -> None:
    load(spec(0, 2**50, measure="mean: pay"), "s.yaml")
    load(spec(0, 2**50, measure="sum: pay"), "s.yaml")
