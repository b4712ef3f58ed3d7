"""The files of a bundle: repeatable, complete, and with keys exactly as declared."""

from __future__ import annotations

import csv
import io
import json
from functools import cache
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from dprelease.catalog.table import Catalog, Column, Key
from dprelease.errors import BrokenPromiseError, PublishError
from dprelease.noise import Measurement
from dprelease.plan.document import PlannedQuery, Publish, ReleasePlan
from dprelease.publish import NOTICE, Publication, check_publishable, folder_for, published_tables, render
from tests.unit.publish_example import STATES, facts, measurements, plan, table


@cache
def _example(**changes: object) -> Publication:
    return render(plan(), measurements(), facts(plan(), **changes))


def published(of: ReleasePlan | None = None, **changes: object) -> Publication:
    """The bundle of a plan; the example's is made once and shared, for nothing can change it."""
    return render(of, measurements(), facts(of, **changes)) if of else _example(**changes)


def rows(publication: Publication, query: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(publication.files[f"tables/{query}.csv"].decode(), newline="")))


def parquet(publication: Publication, query: str) -> Any:
    return pq.read_table(io.BytesIO(publication.files[f"tables/{query}.parquet"]))


def keyed(keys: tuple[Key, ...], kind: Any = "text", labels: dict[str, str] | None = None) -> ReleasePlan:
    """The example with other keys for its regions."""
    old = table()
    columns = tuple(
        Column(name="region", type=kind, keys=keys, labels=labels or {}) if each.name == "region" else each
        for each in old.columns
    )
    made = plan()
    changed = old.model_copy(update={"columns": columns})
    return made.model_copy(update={"catalog": Catalog(tables={"persons": changed}, references=made.catalog.references)})


def test_rendering_twice_gives_the_same_bytes() -> None:
    first, second = (render(plan(), measurements(), facts(plan())) for _ in range(2))
    assert first.files == second.files


def test_equal_plans_give_the_same_bytes_whatever_order_their_mappings_had() -> None:
    made = plan()
    again = ReleasePlan.from_canonical(made.canonical())
    backwards = dict(reversed(measurements().items()))
    assert render(again, backwards, facts(again)).files == published(made).files


def test_the_bundle_has_exactly_these_files() -> None:
    tables = {f"tables/{query}.{ending}" for query in ("population", "income") for ending in ("csv", "parquet")}
    tables |= {"tables/workbook.xlsx", "datapackage.json"}
    steps = {f"measurements/{step.id}.csv" for step in plan().steps} | {"measurements/recipe.json"}
    pages = {"index.html", "accounting.html", "accounting.json", "facts.json", "plan.json", "manifest.json"}
    pages |= {"registry.yaml", "nist-800-226.md", "SHA256SUMS"}
    assert set(published().files) == tables | steps | pages


def test_a_format_that_was_not_asked_for_is_not_there() -> None:
    files = set(published(plan(publish=Publish(formats=("csv",)))).files)
    assert not any(name.endswith((".html", ".parquet", ".xlsx", ".pdf")) for name in files)
    assert {"tables/income.csv", "accounting.json"} <= files


def test_columns_are_the_keys_then_six_for_each_measure_in_the_authors_order() -> None:
    header = published().files["tables/income.csv"].decode().splitlines()[0].split(",")
    expected = ["state", "sex"]
    for name in ("earners", "total", "average"):
        expected += [name, *(f"{name}_{end}" for end in ("se", "margin", "lower", "upper", "status"))]
    assert header == expected == parquet(published(), "income").column_names


def test_leading_zeros_survive_in_csv_and_parquet() -> None:
    states = [state for state in STATES for _ in range(2)]
    assert [row["state"] for row in rows(published(), "income")] == states
    assert b'\r\n"06",1,' in published().files["tables/income.csv"]
    column = parquet(published(), "income").column("state")
    assert (str(column.type), column.to_pylist()) == ("string", states)


def test_keys_are_never_changed_not_even_dangerous_ones() -> None:
    keys = ("=1+1", '+a"b', "-\r\nc,d", "@\te")
    made = keyed(keys)
    expected = [key for key in keys for _ in range(2)]
    assert [row["region"] for row in rows(published(made), "population")] == expected
    assert parquet(published(made), "population").column("region").to_pylist() == expected


def test_lines_end_as_rfc_4180_says() -> None:
    text = published().files["tables/population.csv"]
    assert text.count(b"\r\n") == text.count(b"\n") == 9


@pytest.mark.parametrize(
    ("kind", "keys", "arrow", "text"),
    [
        ("integer", (1, 2, 3, 4), "int64", "1"),
        ("date", ("2024-03-07", "2024-03-08", "2024-03-09", "2024-03-10"), "date32[day]", "2024-03-07"),
    ],
)
def test_keys_have_the_declared_type_in_parquet(kind: str, keys: tuple[Key, ...], arrow: str, text: str) -> None:
    made = published(keyed(keys, kind))
    assert str(parquet(made, "population").column("region").type) == arrow
    assert rows(made, "population")[0]["region"] == text


def test_counts_are_whole_numbers_in_every_file() -> None:
    assert rows(published(), "population")[0]["persons"] == "2810"
    assert rows(published(), "income")[0]["total"] == str(5210 * 61000 + 1_234_567)
    types = dict(
        zip(parquet(published(), "income").column_names, parquet(published(), "income").schema.types, strict=True)
    )
    assert [str(types[name]) for name in ("earners", "earners_margin", "earners_lower", "earners_se", "total")] == [
        "int64",
        "int64",
        "int64",
        "double",
        "double",
    ]


def test_a_count_at_the_limits_of_64_bits_is_published_all_the_same() -> None:
    extreme = np.array([2**63 - 1, -(2**63), 0, 0, 0, 0, 0, 0])
    made = plan()
    answers = {**measurements(), "population.rows": Measurement("population.rows", extreme)}
    found = parquet(render(made, answers, facts(made)), "population").column("persons").to_pylist()
    assert found[0] > 2**62
    assert found[1] < -(2**62)


def test_every_estimate_is_in_csv_and_parquet_to_the_last_bit() -> None:
    made = published()
    for each in published_tables(plan(), measurements()):
        lines, columns = rows(made, each.name), parquet(made, each.name).to_pydict()
        for measure in each.measures:
            for name, numbers in (
                (measure.name, measure.value),
                (f"{measure.name}_se", measure.standard_error),
                (f"{measure.name}_margin", measure.margin),
                (f"{measure.name}_lower", measure.lower),
                (f"{measure.name}_upper", measure.upper),
            ):
                expected = [None if np.isnan(number) else number for number in numbers.tolist()]
                assert [float(line[name]) if line[name] else None for line in lines] == expected
                assert columns[name] == expected
            assert tuple(line[f"{measure.name}_status"] for line in lines) == measure.status
            assert tuple(columns[f"{measure.name}_status"]) == measure.status


def test_what_is_blank_is_an_empty_field_and_a_null() -> None:
    last = rows(published(), "income")[-1]
    ends = ("", "_se", "_margin", "_lower", "_upper", "_status")
    assert [last[f"average{end}"] for end in ends] == ["", "", "", "", "", "blank"]
    assert parquet(published(), "income").column("average").to_pylist()[-1] is None


def test_parquet_says_what_it_is() -> None:
    metadata = parquet(published(), "income").schema.metadata
    assert {key.decode(): value.decode() for key, value in metadata.items()} == {
        "title": "Income by state and sex",
        "release": "regional-monitor",
        "period": "2024-03",
        "confidence": "19/20",
        "plan_fingerprint": plan().fingerprint(),
    }


def test_a_rehearsal_says_so_in_every_page_and_table() -> None:
    made = published(rehearsal=True)
    for path in ("index.html", "accounting.html", "accounting.json"):
        assert NOTICE.encode() in made.files[path]
        assert NOTICE.encode() not in published().files[path]
    for query in ("population", "income"):
        assert {row["rehearsal"] for row in rows(made, query)} == {NOTICE}
        found = parquet(made, query)
        assert set(found.column("rehearsal").to_pylist()) == {NOTICE}
        assert found.schema.metadata[b"notice"].decode() == NOTICE
    assert json.loads(made.files["manifest.json"])["rehearsal"] is True


def test_plan_json_is_the_plan() -> None:
    assert published().files["plan.json"] == (plan().canonical() + "\n").encode()


def test_a_step_without_an_answer_is_named() -> None:
    answers = measurements()
    del answers["income.total"]
    with pytest.raises(PublishError, match=r"income\.total") as caught:
        render(plan(), answers, facts(plan()))
    assert caught.value.code == "DPR-W101"


@pytest.mark.parametrize(
    "wrong",
    [Measurement("income.total", np.zeros(3, dtype=np.int64)), Measurement("other", np.zeros(12, dtype=np.int64))],
)
def test_an_answer_of_another_step_or_size_is_refused(wrong: Measurement) -> None:
    with pytest.raises(BrokenPromiseError) as caught:
        render(plan(), {**measurements(), "income.total": wrong}, facts(plan()))
    assert caught.value.code == "DPR-W102"


def test_facts_of_another_plan_are_refused() -> None:
    with pytest.raises(BrokenPromiseError) as caught:
        render(plan(), measurements(), facts(plan(), plan_fingerprint="0" * 64))
    assert caught.value.code == "DPR-W107"


def _renamed(**changes: object) -> ReleasePlan:
    made = plan()
    return plan(queries=(made.queries[0].model_copy(update=changes), made.queries[1]))


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (_renamed(name="../up"), "DPR-W201"),
        (_renamed(name="con"), "DPR-W201"),
        (_renamed(name="INCOME"), "DPR-W103"),
        (_renamed(measures={"sex": plan().queries[0].measures["persons"]}), "DPR-W104"),
        (_renamed(by=("region", "income")), "DPR-W105"),
        (keyed((2**70, 2, 3, 4), "integer"), "DPR-W106"),
        (keyed(("2024-02-30", "a", "b", "c"), "date"), "DPR-W106"),
        (keyed(("\ud800", "a", "b", "c")), "DPR-W106"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_spent(bad: ReleasePlan, code: str) -> None:
    with pytest.raises(PublishError) as caught:
        check_publishable(bad)
    assert caught.value.code == code
    assert caught.value.hint


@pytest.mark.parametrize("path", ["../a", "/a", "a/../b", "a//b", "", ".", "a\\b", "a\0", "tables/nul.csv", "a.", "é"])
def test_no_path_of_a_publication_can_leave_its_folder(path: str) -> None:
    with pytest.raises(PublishError) as caught:
        Publication({path: b""})
    assert caught.value.code == "DPR-W201"


def test_a_publication_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        published().files["index.html"] = b""  # type: ignore[index] # the very thing that must fail


@pytest.mark.parametrize("period", ["..", ".", "../../etc", "Q1/2024", "a\\b", "", "März 2024"])
def test_any_period_has_a_folder_of_its_own_inside_the_releases(tmp_path: Any, period: str) -> None:
    folder = folder_for(tmp_path, "monitor", period)
    assert folder.resolve().parent == (tmp_path / "monitor").resolve()
    assert folder_for(tmp_path, "monitor", "2024-03").name == "2024-03"


def test_a_query_without_keys_is_one_line() -> None:
    made = plan()
    old = made.queries[0]
    query = PlannedQuery.model_validate({**old.model_dump(), "by": (), "measures": old.measures})
    step = made.steps[0].model_copy(
        update={"cells": 1, "aggregate": made.steps[0].aggregate.model_copy(update={"by": ()})}
    )
    single = plan(queries=(query, made.queries[1]), steps=(step, *made.steps[1:]))
    answers = {**measurements(), "population.rows": Measurement("population.rows", np.array([30_000]))}
    found = render(single, answers, facts(single))
    head = b"persons,persons_se,persons_margin,persons_lower,persons_upper,persons_status"
    text = head + b"\r\n30000,20.0,39,29961,30039,ok\r\n"
    assert found.files["tables/population.csv"] == text
    assert "everything" in found.files["index.html"].decode()
