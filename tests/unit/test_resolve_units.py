"""Units, bounds, confidential joins, computed columns and exceptions in the catalog, and the groupings of queries."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dprelease.catalog.aggregate import Grouping, cells_of
from dprelease.catalog.table import Binned, Catalog, Computed, Join, Mapped, PrivateJoin, TableBounds
from dprelease.errors import SpecError
from dprelease.measures.count import Count
from dprelease.measures.ranked_quantile import Quantile
from dprelease.plan.resolve.catalog import references_needed, resolve
from dprelease.plan.resolve.grouping import canonical_measures, grouping_of, planned_measures
from dprelease.spec.load import load

from .spec_example import swapped
from .units_example import FILES, UNITS

LOADED = load(UNITS, "spec.yaml")
CATALOG = resolve(LOADED, FILES)
VISITS = CATALOG.tables["visits"]


def catalog(text: str = UNITS, never: bytes | None = None) -> Catalog:
    return resolve(load(text, "spec.yaml"), {**FILES, "never": never or FILES["never"]})


def found(text: str = UNITS, never: bytes | None = None) -> list[tuple[str, int, str]]:
    with pytest.raises(SpecError) as caught:
        catalog(text, never)
    return [
        (problem.code, problem.where.line if problem.where else 0, str(problem)) for problem in caught.value.problems
    ]


def grouping(query: str, text: str = UNITS) -> Grouping:
    loaded = load(text, "spec.yaml")
    return grouping_of(loaded.spec.queries[query], resolve(loaded, FILES))


def test_a_unit_id_that_is_not_declared_is_a_text_column_of_the_source() -> None:
    hidden = VISITS.column("user_id")

    assert (VISITS.unit_id, VISITS.null_id) == ("user_id", "unit")
    assert (hidden.type, hidden.keys, hidden.in_source) == ("text", None, True)
    assert CATALOG.tables["clicks"].column("who").type == "integer"
    assert [column.name for column in CATALOG.tables["clicks"].columns].count("who") == 1


def test_columns_of_the_source_come_first_and_computed_ones_after_what_they_are_computed_from() -> None:
    names = [column.name for column in VISITS.columns]
    in_source = [column.in_source for column in VISITS.columns]

    assert in_source == sorted(in_source, reverse=True)
    assert names.index("tenure") < names.index("since") < names.index("adult")


def test_bounds_and_joins_are_those_of_the_spec() -> None:
    assert VISITS.bounds == TableBounds(max_rows=100, truncate="first", order_by=("seen", "seconds"))
    assert VISITS.joins == (Join(reference="pages", on="page", add=("topic",)),)
    assert VISITS.private_joins == (PrivateJoin(table="users", on="user_id", max_matches=1, add=("tenure",)),)
    assert VISITS.most_rows == 100
    assert CATALOG.tables["users"].most_rows is None


def test_a_joined_column_says_who_lends_it() -> None:
    assert (VISITS.column("topic").reference, VISITS.column("topic").lent_by) == ("pages", None)
    assert (VISITS.column("tenure").reference, VISITS.column("tenure").lent_by) == (None, "users")
    assert VISITS.column("page").in_source


def test_bands_have_their_labels_as_keys() -> None:
    since = VISITS.column("since")

    assert since.derivation == Binned(of="tenure", edges=(Fraction(0), Fraction(1), Fraction(5, 2), Fraction(10)))
    assert since.keys == ("[0,1)", "[1,2.5)", "[2.5,10)")
    assert (since.type, since.labels) == ("text", {"[0,1)": "New"})


def test_a_map_has_its_targets_as_keys_and_its_values_by_the_type_of_its_column() -> None:
    sector, grade = VISITS.column("sector"), VISITS.column("grade")

    assert sector.derivation == Mapped(
        of="nace", pairs=((1, "farming"), (2, "industry"), (3, "farming")), otherwise="services"
    )
    assert sector.keys == ("farming", "industry", "services")
    assert grade.derivation == Mapped(of="country", pairs=(("DE", 1), ("FR", 2)))
    assert (grade.type, grade.keys, grade.null) == ("integer", (1, 2), 2)


def test_expressions_enter_as_canonical_text() -> None:
    adult, minutes = VISITS.column("adult"), VISITS.column("minutes")

    assert adult.derivation == Computed(sql="tenure >= 18 AND NOT country = 'US'")
    assert (adult.type, adult.keys, adult.null) == ("boolean", (True, False), False)
    assert minutes.derivation == Computed(sql="CAST(seconds / 60 AS INTEGER)")
    assert minutes.type == "integer"


def test_layout_of_an_expression_does_not_move_the_catalog() -> None:
    text = swapped("tenure  >= 18 and not (country='US')", "( tenure >= 18 ) AND NOT country = 'US'", UNITS)

    assert catalog(text) == CATALOG


def test_the_catalog_comes_back_from_its_canonical_form() -> None:
    assert Catalog.from_canonical(CATALOG.canonical()) == CATALOG


def test_exceptions_are_rising_positions_in_the_cross_product() -> None:
    assert CATALOG.exclusions == {"visits.never(country,device)": (1, 4)}  # (DE, desk) and (US, phone)
    assert cells_of(grouping("by_country"), CATALOG) == 4


@pytest.mark.parametrize(
    ("never", "positions"),
    [(b"country,device,why\n", ()), (b"device,why,country\ndesk,x,US\nphone,x,DE\n", (0, 5))],
    ids=["no line", "columns in another order"],
)
def test_other_files_of_exceptions(never: bytes, positions: tuple[int, ...]) -> None:
    assert catalog(never=never).exclusions == {"visits.never(country,device)": positions}


def test_one_file_of_exceptions_means_other_cells_in_a_table_with_other_keys() -> None:
    people = """
  people:
    account: demo
    source: {file: people.csv}
    columns:
      country: {type: text, keys: [IT, DE, FR, US, PL]}
      device: {type: text, keys: [phone, desk]}
"""
    query = """
  people_by_country:
    table: people
    by: [country, device]
    except: {reference: never}
    measures: {people: {count: rows}}
"""
    text = UNITS.replace("tables:\n", "tables:" + people, 1).replace("queries:\n", "queries:" + query, 1)

    assert catalog(text).exclusions == {
        "visits.never(country,device)": (1, 4),
        "people.never(country,device)": (3, 6),  # the same two combinations
    }


def test_an_exception_that_is_no_cell_is_told_with_the_first_such_line() -> None:
    ((code, line, said),) = found(never=b"country,device,why\nUS,phone,x\nIT,desk,x\nXX,desk,x\n")

    assert (code, line) == ("DPR-S606", 56)
    assert "country 'IT', device 'desk'" in said


def test_leaving_out_every_cell_is_refused() -> None:
    every = "".join(f"{country},{device},x\n" for country in ("DE", "FR", "US") for device in ("phone", "desk"))

    assert [each[:2] for each in found(never=b"country,device,why\n" + every.encode())] == [("DPR-S607", 56)]


def test_a_list_longer_than_the_keys_of_a_reference() -> None:
    assert [each[:2] for each in found(swapped("top_k: page, k: 2}", "top_k: page, k: 4}", UNITS))] == [
        ("DPR-S577", 77)
    ]


def test_references_of_exceptions_are_needed() -> None:
    assert references_needed(LOADED.spec) == ("pages", "never")
    assert set(CATALOG.references) == {"pages", "never"}


def test_a_missing_file_of_exceptions_is_told_once() -> None:
    with pytest.raises(SpecError) as caught:
        resolve(LOADED, {**FILES, "never": None})

    assert [problem.code for problem in caught.value.problems] == ["DPR-S601"]


def test_a_missing_file_of_keys_is_not_blamed_on_lists_and_exceptions() -> None:
    text = swapped("device: text, why", "page: text, why", UNITS)
    text = swapped("by: [country, device]", "by: [country, page]", text)
    with pytest.raises(SpecError) as caught:
        resolve(load(text, "spec.yaml"), {"pages": None, "never": b"country,page,why\nDE,home,x\n"})

    assert [problem.code for problem in caught.value.problems] == ["DPR-S601"]


def test_private_keys_may_have_any_number_of_cells() -> None:
    wide = swapped(
        "keys: [DE, FR, US]", "keys: {from: 1, to: 300000}", UNITS.replace("country: text", "country: integer")
    )
    text = swapped("country: {type: text,", "country: {type: integer,", wide)
    text = swapped("{DE: 1, FR: 2}", "{1: 1, 2: 2}", text).replace("country='US'", "country = 3")
    text = swapped("by: [term, sector]", "by: [country, device, sector, page, grade]", text)
    text = swapped("    except: {reference: never}\n", "", text)

    assert grouping("terms", text).private


def test_the_grouping_of_a_query() -> None:
    assert grouping("by_country") == Grouping(
        table="visits",
        by=("country", "device"),
        where="seconds > 0 AND term IS NOT NULL",
        max_groups=3,
        max_rows_per_group=10,
        excluding="visits.never(country,device)",
    )
    assert grouping("terms") == Grouping(
        table="visits", by=("term", "sector"), max_groups=5, private=True, min_units=20
    )
    assert grouping("plans") == Grouping(table="users", by=("plan",), max_rows_per_group=1)


def test_the_cells_of_a_list_are_the_keys_of_its_column() -> None:
    assert grouping("top_pages") == Grouping(table="visits", by=("page",))
    assert grouping("top_kinds") == Grouping(table="clicks", by=("kind",), max_rows_per_group=4)
    assert cells_of(grouping("top_pages"), CATALOG) == 3


def test_queries_that_mean_the_same_rows_share_a_grouping() -> None:
    other = swapped("seconds > 0 and  term is not null", "seconds>0 AND term IS NOT NULL", UNITS)

    assert grouping("by_country", other) == grouping("by_country")


def test_filters_of_measures_are_canonical_and_measures_are_planned() -> None:
    query = LOADED.spec.queries["by_country"]
    written, made = canonical_measures(query, VISITS), planned_measures(query, VISITS)

    assert written["long"] == Count(count="rows", where="seconds > 60")
    assert list(written) == list(query.measures)
    assert isinstance(made["middle_q12_5"], Quantile)
    assert isinstance(made["least"], Quantile)
    assert made["rate"].model_dump()["of"][0]["where"] == "seconds > 60"


def test_names_that_are_checked_are_those_that_are_planned() -> None:
    query = LOADED.spec.queries["by_country"]
    names = [name for label, measure in query.measures.items() for name in measure.published(label)]

    assert names == list(planned_measures(query, VISITS))


@pytest.mark.parametrize(
    ("old", "new", "fits"),
    [
        ("max_matches: 1, add", "max_matches: 1, add", True),
        ("max_matches: 1, add", "max_matches: 2, add", False),
    ],
)
def test_a_join_that_may_double_a_single_row_asks_what_is_clipped(old: str, new: str, fits: bool) -> None:
    text = swapped("max_rows: 100, truncate: first, order_by: [seen, seconds]", "max_rows: 1", UNITS)
    text = swapped("bounds: {max_groups: 3, max_rows_per_group: 10}", "bounds: {max_groups: 3}", text)
    text = swapped("clip_per: row", "clip: [0, 9]", swapped(old, new, text))

    if fits:
        assert catalog(text).tables["visits"].most_rows == 1
    else:
        assert [each[0] for each in found(text)] == ["DPR-S556"]
