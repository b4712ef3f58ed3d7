"""Sentences that past bundles had and that were false: each is found where it stood, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.canonical import dumps, sha256
from dprelease.plan.document import ReleasePlan
from dprelease.privacy.budget import Loss
from dprelease.privacy.unit import Neighboring
from dprelease.publish import SENTENCES, Check, check_bundle, render, write
from dprelease.publish.accounting.glossary import post_processing
from dprelease.publish.bundle.step_files import RECIPE
from dprelease.publish.errata import CERTIFICATE, KINDS_OF_TEXTS, KNOWN, TEXTS, errata_of, plain_text
from dprelease.publish.manifest import Manifest, sums_file
from tests.planned import plan_of
from tests.unit.publish_example import facts, measurements, plan
from tests.unit.series_example import series_plan
from tests.unit.test_publish_files import published
from tests.unit.unadjusted_example import bundle, moved_plan

# As templates of the first wording wrote them, line ends and markup included.
FIRST = {
    "limits but for delta": (
        "accounting.html",
        "<p>These limits hold but for an event of probability 10⁻⁹, which no attacker can bring about. What\n"
        "is true of a group as a whole",
    ),
    "any outcome, or with another": (
        "accounting.html",
        "<dt>Any outcome</dt><dd>at most 7.39 times as likely with one person as without, or with another</dd>",
    ),
    "apart from a chance of delta": (
        "index.html",
        "<li><strong>7.39 times</strong> at most: how much likelier one person can make any outcome, apart from a "
        "chance of 10⁻⁹</li>",
    ),
    "every row is one unit": ("registry.yaml", "      - each person; every row of a table is one person\n      - Two"),
    "loss of an account without its delta": (
        "index.html",
        "<p>Releases add up. After this one, the privacy loss of all releases charged to\n\naccount <bdi>acs</bdi> "
        "is ε = 0.981 of at most 4.\n\n</p>",
    ),
    "the controller": (
        "accounting.html",
        '<tr><th scope="row"><bdi>Controller</bdi></th><td class="words"><bdi>Example Statistical Office</bdi></td>',
    ),
}


# Of plans whose numbers are moved after they are estimated, as templates of the second wording wrote them.
MOVED = {
    "± beside a number that was moved": (
        "pages/areas__state__sex.html",
        '<caption id="caption-t"><span><bdi>areas: sex, for each state</bdi>: estimate ± margin at 95 % confidence</span>',
    ),
    "the estimate is not moved": (
        "index.html",
        "<li>says, as surely as the margin, that the number lies between 0 and 11. The estimate itself is not moved.</li>",
    ),
}

SQUARES = "squares that nobody added up"
EXCHANGED = "a unit in the place of another one, of a series or of a part and its rest"


def counted_and_spread(measure: str) -> ReleasePlan:
    """A plan of one query of 3 cells with one measure of incomes."""
    return plan_of(f"""
dprelease: 1
release: {{name: a, period: 2024}}
privacy: {{unit: {{entity: person}}, neighboring: add_remove, budget: {{epsilon: 1, delta: 1e-9}}}}
tables:
  people:
    account: demo
    source: {{file: people.csv}}
    columns: {{area: {{type: integer, keys: [1, 2, 3]}}, income: {{type: decimal, range: [0, 500000]}}}}
queries: {{q: {{table: people, by: [area], measures: {{{measure}}}}}}}
publish: {{formats: [csv]}}
""")


def found(files: dict[str, str], made: ReleasePlan | None = None, texts: int = 1) -> list[str]:
    encoded = {
        name: f"<html>{text}</html>".encode() if name.endswith("html") else text.encode()
        for name, text in files.items()
    }
    return [each.erratum.name for each in errata_of(encoded, frozenset(files), made or plan(), texts)]


def test_every_known_sentence_has_its_first_wording_here_or_stood_in_the_certificate_alone() -> None:
    assert {each.name for each in KNOWN} == FIRST.keys() | MOVED.keys() | {
        "levels of the certificate",
        SQUARES,
        EXCHANGED,
    }
    assert all(each.until <= TEXTS for each in KNOWN)
    assert len({each.name for each in KNOWN}) == len(KNOWN)


@pytest.mark.parametrize("name", MOVED)
def test_what_is_false_of_moved_numbers_alone_is_found_only_beside_them(name: str) -> None:
    file, text = MOVED[name]
    assert found({file: text}, moved_plan()) == [name]
    assert found({file: text}) == []
    assert found({file: text}, moved_plan("[consistent]")) == []
    if file != "index.html":
        assert found({"pages/population.html": text}, moved_plan()) == []


@pytest.mark.slow
def test_what_is_written_now_of_moved_numbers_has_none_of_it() -> None:
    plan = moved_plan()
    files = bundle(plan)
    assert [*errata_of(files, frozenset(files), plan, TEXTS)] == []


def test_squares_are_told_where_squares_were_added_up_and_found_false_where_classes_were_counted() -> None:
    text = "<p>Squares were rounded to their grid before they were added up; the margin covers that.</p>"
    made = counted_and_spread("income: {quantiles: income, at: [0.25, 0.5, 0.75], clip: [0, 100000], from: counts}")
    assert found({"accounting.html": text}, made) == [SQUARES]
    assert not any("Squares" in line for line in post_processing(made))
    spread = counted_and_spread("income: {stddev: income, clip: [0, 100000]}")
    assert found({"accounting.html": text}, spread) == []
    assert any("Squares" in line for line in post_processing(spread))


def test_certificates_of_series_told_too_little_of_a_unit_in_the_place_of_another_one() -> None:
    assert found({CERTIFICATE: ""}, series_plan(), texts=8) == [EXCHANGED]
    assert found({CERTIFICATE: ""}, series_plan(), texts=9) == []
    replaced = series_plan(("  budget:", "  neighboring: replace_one\n  budget:"))
    assert found({CERTIFICATE: ""}, replaced, texts=8) == found({CERTIFICATE: ""}, texts=8) == []


@pytest.mark.parametrize("name", FIRST)
def test_a_sentence_is_found_as_it_was_written(name: str) -> None:
    file, text = FIRST[name]
    assert name in found({file: text})
    assert found({file: text.replace("o", "")}) == []


def test_other_forms_of_a_chance_of_delta_are_found_too() -> None:
    for text in (
        "<dd>at most 2.72 times as likely with one person as without, or with another, apart from a chance of 10⁻⁹</dd>",
        "<p>in nothing else: any outcome is at most the\nfactor as likely with the one as with the other, apart from a "
        "chance of δ. The</p>",
    ):
        assert "apart from a chance of delta" in found({"accounting.html": text})


def test_a_sentence_that_was_true_of_a_release_is_no_erratum() -> None:
    pure = plan(loss={"basic": Loss(epsilon=Fraction(2), delta=Fraction(0))}, certified="basic")
    replaced = plan(neighboring=Neighboring.REPLACE_ONE)
    file, text = FIRST["any outcome, or with another"]
    assert found({file: text}, pure) == found({file: text}) != []
    assert found({file: text}, replaced) == []
    file, text = FIRST["apart from a chance of delta"]
    assert found({file: text}, pure) == []


def test_the_certificate_is_told_by_the_wording_of_the_bundle() -> None:
    assert found({CERTIFICATE: ""}) == [
        each.name for each in KNOWN if each.certificate and each.name not in (SQUARES, EXCHANGED)
    ]
    assert found({CERTIFICATE: ""}, texts=TEXTS) == []
    assert found({}) == []


def test_plain_text_is_what_a_reader_sees() -> None:
    page = b"<html><style>p {x: 1}</style><p>One <bdi>&amp;</bdi>\n two.</p><dt>three</dt> <dd>four</dd></html>"
    assert plain_text(page) == "One & two.\nthree\nfour"
    assert plain_text(b"- a\n  b <c>\n") == "- a b <c>"


def forged(
    folder: Path, change: Callable[[dict[str, bytes]], None], texts: str | None, *, old: bool = True
) -> dict[str, Check]:
    """A bundle with other files, and the manifest that such a one would have; an old one had one number for all."""
    write(published(), folder)
    manifest = json.loads((folder / "manifest.json").read_bytes())
    names = ("index.html", "accounting.html", "accounting.json", RECIPE)
    files = {name: (folder / name).read_bytes() for name in names}
    change(files)
    for name, data in files.items():
        (folder / name).write_bytes(data)
        manifest["files"][name] = {"sha256": sha256(data), "bytes": len(data)}
    manifest["rendered_with"].pop("texts")
    if old:
        for kind in KINDS_OF_TEXTS:
            manifest["rendered_with"].pop(kind)
    if texts is not None:
        manifest["rendered_with"]["texts"] = texts
    (folder / "manifest.json").write_text(dumps(manifest) + "\n")
    (folder / "SHA256SUMS").write_bytes(sums_file(Manifest.from_canonical(dumps(manifest)), None))
    return {check.name: check for check in check_bundle(folder)}


def old_words(files: dict[str, bytes]) -> None:
    _, text = FIRST["limits but for delta"]
    files["accounting.html"] = files["accounting.html"].replace(b"</main>", f"{text}</p></main>".encode())
    told = json.loads(files["accounting.json"])
    told["not_covered"], told["dpia"] = ["other words"], []
    files["accounting.json"] = json.dumps(told).encode()


def test_a_bundle_of_the_first_wording_is_told_apart_and_its_false_sentence_is_named(tmp_path: Path) -> None:
    checks = forged(tmp_path / "bundle", old_words, None)
    assert {name for name, check in checks.items() if check.passed is False} == {SENTENCES}
    head, *lines = checks[SENTENCES].detail.split("\n")
    assert head.startswith("1 sentence ")
    assert len(lines) == 1
    assert lines[0].startswith(
        "“These limits hold but for an event of probability 10⁻⁹, which no attacker can bring about”"
    )
    assert "(accounting.html): (ε, δ) bounds every probability by e^ε times the other one plus δ." in lines[0]
    assert "a loss above its ε has a probability of at most " in lines[0]
    assert "texts an unknown version" in checks["not compared"].detail


def test_a_bundle_that_claims_todays_wording_must_have_its_words(tmp_path: Path) -> None:
    checks = forged(tmp_path / "bundle", old_words, str(TEXTS))
    assert {name for name, check in checks.items() if check.passed is False} == {
        "accounting",
        "rendered again",
        SENTENCES,
    }


def test_an_older_wording_excuses_no_figure(tmp_path: Path) -> None:
    def smaller(files: dict[str, bytes]) -> None:
        told = json.loads(files["accounting.json"])
        told["loss"]["certified"]["epsilon"] = "0.1"
        files["accounting.json"] = json.dumps(told).encode()

    checks = forged(tmp_path / "bundle", smaller, None)
    assert checks["accounting"].passed is False
    assert "loss" in checks["accounting"].detail


@pytest.mark.parametrize("relation", Neighboring)
def test_no_bundle_of_today_has_one(relation: Neighboring, tmp_path: Path) -> None:
    made = plan(neighboring=relation)
    write(render(made, measurements(), facts(made)), tmp_path / "bundle")
    (check,) = [each for each in check_bundle(tmp_path / "bundle") if each.name == SENTENCES]
    assert check.passed


@pytest.mark.parametrize("name", [RECIPE, "accounting.json"])
def test_another_wording_of_pages_excuses_no_difference_in_files_of_another_kind(tmp_path: Path, name: str) -> None:
    def change(files: dict[str, bytes]) -> None:
        files[name] = files[name].replace(b"noisy", b"noisier")

    found = forged(tmp_path / "new", change, "1", old=False)["rendered again"]
    assert found.passed is False
    assert name in found.detail
    assert forged(tmp_path / "old", change, "1")["rendered again"].passed is not False
