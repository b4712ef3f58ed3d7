"""The accounting's page and JSON: all 26 fields, drawings with their numbers as text, and nothing invented."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from dprelease.privacy.budget import Budget, Loss
from dprelease.privacy.unit import Neighboring
from dprelease.publish import AccountFacts, published_tables
from dprelease.publish.accounting.drawings import history_figures
from dprelease.publish.accounting.report import accounting, accounting_page
from dprelease.publish.accounting.threat_model import dpia, iso_terms, report_fields
from dprelease.publish.base import AccountPoint, Content, Facts
from tests.unit.choices_example import choices
from tests.unit.publish_example import facts, measurements, plan
from tests.unit.test_publish_pages import Outline

KEY = "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="


def history(charges: int) -> tuple[AccountPoint, ...]:
    return tuple(
        AccountPoint(
            account="acs",
            release="regional-monitor",
            period=f"2024-{1 + at % 12:02}",
            sequence=3 + at,
            after=Loss(epsilon=Fraction(37 * (at + 1), 10 * charges), delta=Fraction(1, 10**8)),
        )
        for at in range(charges)
    )


def content(**changes: Any) -> Content:
    made = plan(**changes.pop("plan", {}))
    return Content(made, published_tables(made, measurements()), facts(made, **changes), measurements())


@cache
def page(charges: int = 5, signer: str = "") -> Outline:
    return Outline(accounting_page(content(history=history(charges), signer=signer)).decode())


def test_every_field_has_a_section_and_is_on_the_page() -> None:
    rows = report_fields(plan())
    assert [number for number, *_ in rows] == list(range(1, 27))
    ids = {attributes.get("id") for _, attributes in page().tags}
    assert {where for _, _, where, _ in rows} <= ids
    assert all(field in page().text for _, field, _, _ in rows)


def test_the_order_is_that_of_the_pyramid() -> None:
    ids = [attributes["id"] for tag, attributes in page().tags if tag == "h2"]
    assert ids == ["release", "guarantee", "draws", "around", "fields"]


def test_the_example_of_an_attacker_is_rounded_against_the_release() -> None:
    told = page().text.replace(" ", "")
    for row in ("1%1:990.15%6.33%", "10%1:91.63%42.7%", "50%1:113%87%"):
        assert row in told
    assert "at most 6.69 times as likely with one person as without, or the other way round, plus 10⁻⁹" in page().text


def test_every_drawing_has_words_and_its_numbers_as_a_table() -> None:
    drawn = [attributes for tag, attributes in page().tags if tag == "svg" and attributes.get("role") == "img"]
    assert len(drawn) == 3
    assert all((attributes["aria-label"] or "").endswith("below the drawing.") for attributes in drawn)
    assert [tag for tag, _ in page().tags].count("details") == len(drawn)
    for tag, attributes in page().tags:
        if tag == "polyline":
            places = [tuple(map(float, pair.split(","))) for pair in (attributes["points"] or "").split()]
            assert all(40 <= x <= 345 and 0 <= y <= 200 for x, y in places)


@pytest.mark.parametrize(("charges", "drawn"), [(0, False), (1, False), (2, True)])
def test_the_history_of_an_account_is_drawn_from_its_second_charge_on(charges: int, drawn: bool) -> None:
    """One charge would be a flat line."""
    assert ("loss behind every charge" in page(charges).text) is drawn


def test_the_chart_of_an_account_ends_at_its_loss_and_shows_its_cap() -> None:
    (figure,) = history_figures(plan(), facts(plan(), history=history(300)))
    assert figure.rows[-1] == ("302", "regional-monitor", "2024-12", "3.7")
    assert len(figure.rows) == 200
    assert [kind for kind, _ in figure.lines] == ["reference", "curve"]
    assert "The dashed line is the cap, ε = 8 at that δ." in figure.says


@pytest.mark.parametrize("rho", [None, Fraction(1, 2)])
def test_a_cap_in_rho_is_not_drawn_on_an_axis_of_epsilon(rho: Fraction | None) -> None:
    made = facts(plan(), history=history(2))
    cap = Budget(epsilon=None if rho else Fraction(8), rho=rho, delta=Fraction(1, 10**8))
    account = made.accounts[0].model_copy(update={"cap": cap})
    (figure,) = history_figures(plan(), made.model_copy(update={"accounts": (account,)}))
    assert len(figure.lines) == (1 if rho else 2)


def test_a_signature_is_named_by_its_key_and_its_absence_said() -> None:
    assert "unsigned: the manifest's hashes show accidents, not forgery" in page().text
    assert f"by key 21fe31dfa154a261, {KEY}" in page(signer=KEY).text
    assert accounting(content())["signature"] == "unsigned"
    assert accounting(content())["signer"] is None
    signed = accounting(content(signer=KEY))
    assert (signed["signature"], signed["signer"]) == ("manifest.sig", {"key": KEY, "fingerprint": "21fe31dfa154a261"})


def test_windows_are_lines_of_the_table_of_meanings() -> None:
    window = AccountFacts(
        name="acs",
        unit="person",
        composition="zcdp",
        cap=Budget(epsilon=Fraction(2), delta=Fraction(1, 10**8)),
        before=Loss(epsilon=Fraction(1), delta=Fraction(1, 10**8)),
        after=Loss(epsilon=Fraction(7, 4), delta=Fraction(1, 10**8)),
        window="2024-03",
    )
    told = Outline(accounting_page(content(windows=(window,))).decode()).text
    assert "one person, in all releases charged so far to account acs, 2024-03" in told
    assert "5.76" in told  # exp(7/4), rounded up


def test_nothing_unknown_is_invented() -> None:
    bare = content(
        plan={"release": plan().release.model_copy(update={"curator": "", "contact": "", "intended_use": ""})}
    )
    told = Outline(accounting_page(bare).decode()).text
    for name in ("Curator", "Contact", "Intended use", "commit", "packages"):
        assert f"{name} not stated" in told.replace("\n", " ") or f"{name}not stated" in told
    assert "Region, law" not in told
    for each in (bare.plan, plan()):  # nobody was asked who the controller is; the curator is somebody else
        assert dict(dpia(each))["Controller, in the sense of the law"] == "to be filled in by the controller"
    assert "curator, contact, intended use, region" in report_fields(bare.plan)[0][3]


def test_clipping_has_the_standards_name_only_where_there_is_a_clip() -> None:
    assert any("top and bottom coding" in term for _, term in iso_terms(plan()))
    counts = plan(steps=plan().steps[:1])
    assert not any("top and bottom coding" in term for _, term in iso_terms(counts))


def test_the_other_relation_has_another_suspicion() -> None:
    made = content(plan={"neighboring": Neighboring.REPLACE_ONE})
    told = Outline(accounting_page(made).decode()).text
    assert "its data are one thing, and not a certain other" in told
    assert "one person more or less" not in told


def test_the_json_has_every_part_and_is_a_pure_function() -> None:
    made = content(history=history(3))
    found = json.loads(json.dumps(accounting(made)))
    for name in ("totals", "worked_example", "semantics", "allocation", "profile", "trade_off", "deployment",
                 "side_channels", "dpia", "iso_20889", "fields", "history", "signer"):  # fmt: skip
        assert name in found
    assert found["totals"]["rho"] == "7/3200"
    assert [each["sequence"] for each in found["history"]] == [3, 4, 5]
    assert accounting(made) == accounting(content(history=history(3)))
    deltas = [float(each["delta"]) for each in found["profile"]]
    assert deltas == sorted(deltas, reverse=True)


def test_a_release_with_chosen_keys_says_so_in_its_allocation() -> None:
    made = choices()
    told: Facts = facts(made)
    text = Outline(accounting_page(Content(made, (), told, {})).decode()).text
    assert "keys chosen" in text
    assert "one row of one user that has others too: more, less or changed" in text
