"""Bundles with noisy keys, rankings, quantiles, bounds and derived tables: complete, described, and checked."""

from __future__ import annotations

import csv
import io
import json
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from dprelease.catalog.aggregate import Quantity
from dprelease.errors import BrokenPromiseError
from dprelease.noise import CHOICES, SELECTIONS, Measurement
from dprelease.privacy.unit import Neighboring
from dprelease.publish import Publication, check_bundle, render, write
from dprelease.publish.accounting.choices import draw_row, laws_of_loss
from dprelease.publish.accounting.glossary import dictionary, not_protected, post_processing, relation
from dprelease.publish.accounting.guide import how_read, selections
from dprelease.publish.accounting.plan_words import quantity_words as words_of
from tests.planned import SPEC, plan_of
from tests.unit.choices_example import DERIVED, KEYS, choices, measured
from tests.unit.publish_example import facts, plan
from tests.unit.test_publish_bundle import forge
from tests.unit.test_publish_pages import Outline


@cache
def published(derive: bool = False) -> Publication:
    made = choices(DERIVED if derive else ())
    return render(made, measured(), facts(made))


def rows(made: Publication, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(made.files[f"tables/{name}.csv"].decode(), newline="")))


def page(name: str, derive: bool = False) -> str:
    return Outline(published(derive).files[name].decode()).text


def failed(folder: Path) -> set[str]:
    return {check.name for check in check_bundle(folder) if check.passed is False}


def test_selected_keys_are_the_rows_of_their_table() -> None:
    assert [(row["term"], row["visits"]) for row in rows(published(), "terms")] == [
        (key[0], str(50 + at)) for at, key in enumerate(KEYS)
    ]


def test_a_selection_that_finds_no_key_is_a_table_without_rows(tmp_path: Path) -> None:
    made = choices()
    bundle = render(made, measured(()), facts(made))
    assert rows(bundle, "terms") == []
    read = pq.read_table(io.BytesIO(bundle.files["tables/terms.parquet"]))
    assert (read.num_rows, str(read.schema.field("term").type)) == (0, "string")
    write(bundle, tmp_path / "bundle")
    assert failed(tmp_path / "bundle") == set()


def test_a_key_that_is_no_valid_text_is_spelled_out() -> None:
    made = choices()
    bundle = render(made, measured((("a\ud800b",),)), facts(made))
    assert rows(bundle, "terms")[0]["term"] == "a\\ud800b"


def test_a_ranking_has_ranks_and_keys_and_no_numbers() -> None:
    assert rows(published(), "top") == [{"rank": "1", "page": "help"}, {"rank": "2", "page": "home"}]


def test_excluded_combinations_are_not_there_and_suppressed_rows_are_blank() -> None:
    found = rows(published(), "countries")
    assert [(row["country"], row["new"]) for row in found] == [
        ("DE", "true"), ("DE", "false"), ("FR", "true"), ("FR", "false"), ("US", "true"),
    ]  # fmt: skip
    last = {name: text for name, text in found[-1].items() if name not in ("country", "new")}
    assert {text for name, text in last.items() if name.endswith("_status")} == {"blank"}
    assert {text for name, text in last.items() if not name.endswith("_status")} == {""}
    assert "1 row is blank: the noisy users was below 30." in page("index.html")


def test_without_suppression_every_row_has_its_numbers() -> None:
    made = choices(suppress=None)
    found = rows(render(made, measured(), facts(made)), "countries")
    assert [row["users"] for row in found] == ["100", "101", "102", "103", "3"]


def test_a_quantile_has_no_standard_error() -> None:
    first = rows(published(), "countries")[0]
    assert (first["middle_q50"], first["middle_q50_se"]) == ("240", "")
    assert first["middle_q50_margin"]


@pytest.mark.parametrize(
    "wrong",
    [
        Measurement("terms.keys", np.zeros(0, dtype=np.int64)),
        Measurement("terms.keys", np.zeros(0, dtype=np.int64), keys=(("a", "b"),)),
        Measurement("terms.rows", np.arange(4)),
        Measurement("top.pages", np.array([0, 0])),
        Measurement("top.pages", np.array([0, 4])),
        Measurement("top.pages", np.array([0])),
        Measurement("countries.q0", np.arange(6)),
    ],
)
def test_a_measurement_of_another_size_is_our_bug(wrong: Measurement) -> None:
    made = choices()
    with pytest.raises(BrokenPromiseError) as caught:
        render(made, {**measured(), wrong.step: wrong}, facts(made))
    assert caught.value.code == "DPR-W102"


def test_such_a_bundle_passes_its_checks(tmp_path: Path) -> None:
    write(published(), tmp_path / "bundle")
    assert failed(tmp_path / "bundle") == set()


@pytest.mark.thin(every=2)
@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("terms", b"red shoes", b"\xc3\xbcber"),
        ("terms", b"red shoes", b"other"),
        ("top", b'1,"help"', b'2,"help"'),
        ("top", b"home", b"help"),
        ("top", b"home", b"hell"),
        ("countries", b'"FR",false', b'"FR",true'),
    ],
)
def test_rows_that_cannot_be_are_found(tmp_path: Path, name: str, old: bytes, new: bytes) -> None:
    write(published(), tmp_path / "bundle")
    data = published().files[f"tables/{name}.csv"]
    assert data.count(old) == 1
    forge(tmp_path / "bundle", f"tables/{name}.csv", data.replace(old, new))
    assert failed(tmp_path / "bundle") == {"tables", "rendered again"}


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("formats", [("csv", "parquet", "html"), ("parquet",), ("csv",)])
def test_derived_tables_are_made_again(tmp_path: Path, formats: tuple[str, ...]) -> None:
    made = choices(DERIVED)
    made = made.model_copy(update={"publish": made.publish.model_copy(update={"formats": formats})})
    write(render(made, measured(), facts(made)), tmp_path / "bundle")
    assert failed(tmp_path / "bundle") == set()


@pytest.mark.thin(first=1)
@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("gap", b'"DE",true,700.0', b'"DE",true,701.0'),
        ("byland", b'"FR"', b'"US"'),
        ("byland", b"241.0", b""),
        ("all", b"2002.0", b"2002.1"),
    ],
)
def test_a_forged_derived_table_is_found(tmp_path: Path, name: str, old: bytes, new: bytes) -> None:
    write(published(derive=True), tmp_path / "bundle")
    data = published(derive=True).files[f"tables/{name}.csv"]
    assert old in data
    forge(tmp_path / "bundle", f"tables/{name}.csv", data.replace(old, new, 1))
    assert failed(tmp_path / "bundle") == {"tables", "rendered again"}


def test_the_pages_tell_how_the_data_was_read() -> None:
    told = page("accounting.html")
    for line in (*how_read(choices()), *selections(choices()), *post_processing(choices())):
        assert " ".join(line.split()) in told
    for said in (
        "visits: rows with the same user_id are one user; a row without one counts as a user of its own.",
        "visits: of one user at most 100 rows count; of more, a random sample of them, by a secret key, stay.",
        "visits: each row is joined with at most 1 row of users of the same user.",
        "visits: new is computed row by row: day < 3.",
        "visits: length is the interval that seconds lies in.",
        "countries: only rows where seconds < 4000.",
        "countries: one unit counts in at most 3 cells and with at most 10 rows in each; which ones is decided",
    ):
        assert any(line.startswith(said) for line in how_read(choices())), said
    assert how_read(plan()) == ()


def test_the_pages_tell_how_keys_were_chosen() -> None:
    first, second, third = selections(choices())
    assert "plus noise, is at least 40; the noisy number itself is not published" in first
    assert "at most δ = 10⁻⁹" in second
    assert "one with 34 or fewer units appears in at most 5 % of cases, and one with 45 or more is missing" in third
    assert any(
        "was decided by noise, and is covered by the guarantee: terms" in line for line in not_protected(choices())
    )
    assert any("left out of: countries" in line for line in not_protected(choices()))
    assert "Which rows appear was decided by noise" in page("index.html")


def test_the_chances_that_are_told_are_those_of_the_noise() -> None:
    """Laplace noise of scale 2, written out."""
    k = np.arange(-400, 401)
    mass = np.exp(-np.abs(k) / 2)
    mass /= mass.sum()
    assert mass[34 + k >= 40].sum() <= 0.05 < mass[36 + k >= 40].sum() + 0.05
    assert mass[45 + k < 40].sum() <= 0.05
    assert 0.5 <= mass[k >= 0].sum() <= 0.7


def test_units_with_many_rows_are_spoken_of_so() -> None:
    assert relation(choices()).endswith("has the rows of one user more than the other.")
    other = choices(neighboring=Neighboring.REPLACE_ONE)
    assert "differ in the rows of one user" in relation(other)
    told = page("accounting.html")
    assert "each user, with all of its rows: those that have one value of" in told
    assert "every row of a table is one" not in told


def test_every_choice_and_selection_has_words() -> None:
    chosen = plan_of(SPEC.replace("clip: [0, 200000]", "clip: {private: true, within: [0, 500000]}"))
    kinds = {step.mechanism: step for plan in (chosen, choices()) for step in plan.steps}
    assert set(CHOICES) <= set(kinds)
    for name in {**CHOICES, **SELECTIONS}:
        step = kinds.get(name, kinds["laplace_threshold"]).model_copy(update={"mechanism": name})
        assert "_" not in draw_row(step)["mechanism"]
        assert laws_of_loss(choices(steps=(step,)))
    assert draw_row(kinds["laplace_threshold"])["loss"] == "ε = 1.5, δ = 10⁻⁹"
    assert draw_row(kinds["laplace_threshold"])["cells"] == "keys chosen"
    assert draw_row(kinds["exponential_quantile"])["loss"] == "3 × ε = 0.25"
    clip = draw_row(kinds["exponential_clip"])
    assert clip["measured"].startswith("one clip of income for all cells, from 0 to 500,000, so that about ")
    assert clip["sensitivity"] == "score range 2"
    summed = draw_row(chosen.step("income.income-sum"))["measured"]
    assert (
        summed == "income, clipped where noise has chosen less half of that clip, in steps of a millionth of the clip"
    )
    assert draw_row(kinds["exponential_top_k"])["measured"] == "units, each once, for the 2 keys with most"


@pytest.mark.parametrize(
    ("quantity", "said"),
    [
        (Quantity(kind="units", where="a > 1"), "units, each once, where a > 1"),
        (Quantity(kind="distinct", column="page"), "different values of page"),
        (Quantity(kind="nonnull", column="x", per="unit_cell"), "units with a value of x"),
        (Quantity(kind="sum", column="x", per="unit_cell", high=9), "each unit's total of x, in steps of 1"),
        (
            Quantity(kind="quantile", column="x", at=Fraction(1, 8), low=-2, high=6, step=Fraction(1, 2)),
            "rank at 12.5 % of x, from −1 to 3",
        ),
    ],
)
def test_every_quantity_has_words(quantity: Quantity, said: str) -> None:
    assert words_of(quantity) == said


def test_the_accounting_has_a_dictionary_of_every_column() -> None:
    found = json.loads(published(derive=True).files["accounting.json"])
    told = dictionary(choices())
    assert found["dictionary"] == told
    assert told["countries"]["average"].startswith(
        "mean of seconds in s, what one user adds up to in a cell first moved"
    )
    assert told["countries"]["share"] == "long divided by visits"
    assert told["top"] == {"rank": "rank, from 1", "page": "key: text"}
    assert [each["name"] for each in found["derived"]] == [each.name for each in DERIVED]
    assert found["selections"] == list(selections(choices()))


def test_derived_tables_say_so() -> None:
    assert "Derived: made of other tables of this publication" in page("index.html", derive=True)
    told = page("accounting.html", derive=True)
    assert "select country, new, visits - long as short" in told
    assert "Derived tables were made of the published numbers" in told
    assert "Derived" not in page("accounting.html")
