"""From a spec and its public files to a catalog: pinned, spelled out, and refused where they do not fit."""

from __future__ import annotations

import hashlib

import pytest

from dprelease.catalog.table import Catalog, Join, Range
from dprelease.errors import Problem, SpecError
from dprelease.plan.resolve.catalog import references_needed, resolve
from dprelease.spec.fields.columns import MOST_KEYS
from dprelease.spec.load import load

from .spec_example import PLACES, SPEC, swapped


def catalog(text: str = SPEC, places: bytes | None = PLACES) -> Catalog:
    return resolve(load(text, "spec.yaml"), {"places": places})


def problems_of(text: str = SPEC, places: bytes | None = PLACES) -> tuple[Problem, ...]:
    with pytest.raises(SpecError) as caught:
        catalog(text, places)
    return caught.value.problems


def found(text: str = SPEC, places: bytes | None = PLACES) -> list[tuple[str, int]]:
    return [(problem.code, problem.where.line if problem.where else 0) for problem in problems_of(text, places)]


def test_a_reference_is_pinned_by_its_content() -> None:
    reference = catalog().references["places"]

    assert reference.sha256 == hashlib.sha256(PLACES).hexdigest()
    assert reference.file == "reference/places.csv"
    assert reference.columns == {"district": "text", "region": "text", "coast": "boolean"}


def test_every_form_of_keys_is_spelled_out_in_order() -> None:
    table = catalog().tables["people"]

    assert table.column("district").keys == ("0101", "0102", "0201")
    assert table.column("region").keys == ("01", "02")
    assert table.column("sex").keys == (1, 2)
    assert table.column("adult").keys == (True, False)
    assert table.column("race").keys == tuple(range(1, 10))
    assert table.column("born").keys == ("2024-02-27", "2024-02-28", "2024-02-29", "2024-03-01")
    assert table.column("income").keys is None


def test_keys_of_a_reference_come_in_the_order_of_its_file() -> None:
    places = b"district,region,coast\n0201,02,true\n0101,01,true\n0202,02,false\n"

    assert catalog(places=places).tables["people"].column("region").keys == ("02", "01")


def test_columns_carry_what_was_declared() -> None:
    table = catalog().tables["people"]
    income, region = table.column("income"), table.column("region")

    assert income.range == Range(low=-10000, high=500000)
    assert (str(income.step), income.outside, income.reference) == ("1/2", "null", None)
    assert (region.reference, region.labels) == ("places", {"01": "Coast"})
    assert table.column("sex").null == 2
    assert table.column("adult").labels == {"true": "Adult"}
    assert table.joins == (Join(reference="places", on="district", add=("region",)),)
    assert (table.files.file, table.source.format) == ("${env:DATA}/people-*.csv", "csv")
    assert table.source.null_values == ("", "N", "99")
    assert table.account == "demo"


def test_labels_of_integers_go_by_the_number() -> None:
    table = catalog(swapped("{1: Male, 2: Female}", "{01: Male, 2: Female}")).tables["people"]

    assert table.column("sex").labels == {"1": "Male", "2": "Female"}


def test_the_same_input_gives_the_same_bytes() -> None:
    assert catalog().canonical() == catalog("# moved\n" + SPEC).canonical()


def test_only_references_in_use_are_needed() -> None:
    spare = swapped("references:\n", "references:\n  spare: {file: spare.csv, columns: {a: text}}\n")
    loaded = load(spare, "s")

    assert references_needed(loaded.spec) == ("places",)
    assert set(resolve(loaded, {"places": PLACES}).references) == {"places"}


def test_a_missing_file_is_told_once_at_its_name() -> None:
    (problem,) = problems_of(places=None)

    assert (problem.code, str(problem.where)) == ("DPR-S601", "spec.yaml:12:18")
    assert "reference/places.csv" in problem.hint


@pytest.mark.parametrize(
    "places",
    [
        b"",
        b"district,region\n0101,01\n",
        b"district,region,coast\n0101,01\n",
        b"district,region,coast\n0101,01,maybe\n",
        b"district,region,coast\n\xff,01,true\n",
        b'district,region,coast\n"0101,01,true\n',
    ],
    ids=["empty", "a column missing", "fields missing", "a wrong value", "not UTF-8", "an open quote"],
)
def test_a_file_that_is_not_as_declared(places: bytes) -> None:
    assert found(places=places) == [("DPR-S602", 12)]


def test_a_day_that_does_not_exist() -> None:
    text = swapped("coast: boolean", "coast: date")

    assert found(text, b"district,region,coast\n0101,01,2024-02-30\n") == [("DPR-S602", 12)]


def test_a_join_key_must_be_unique_in_the_reference() -> None:
    places = PLACES + b"0101,02,true\n"

    assert found(places=places) == [("DPR-S603", 18)]


def test_keys_from_a_reference_without_lines() -> None:
    assert found(places=b"district,region,coast\n") == [("DPR-S604", 20), ("DPR-S604", 21)]


def test_labels_and_nulls_must_be_keys_of_the_reference() -> None:
    text = swapped("labels: {01: Coast}", "labels: {03: Coast}, null: 09")

    assert found(text) == [("DPR-S526", 21), ("DPR-S527", 21)]


def test_more_keys_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_KEYS == 1_000_000
    monkeypatch.setattr("dprelease.plan.resolve.catalog.MOST_KEYS", 2)

    assert found() == [("DPR-S605", 20)]


def test_more_than_ten_million_cells_with_the_keys_of_a_reference() -> None:
    lines = "".join(f"{number},{number % 5 + 1:02},true\n" for number in range(1_000))
    text = swapped("by: [region, sex]", "by: [district, sex, race]", swapped("{from: 1, to: 9}", "{from: 1, to: 9000}"))

    assert found(text, b"district,region,coast\n" + lines.encode()) == [("DPR-S528", 33)]


def test_all_problems_at_once_in_file_order() -> None:
    text = swapped("labels: {01: Coast}", "labels: {03: Coast}")

    assert found(text, PLACES + b"0101,02,true\n") == [("DPR-S603", 18), ("DPR-S526", 21)]
