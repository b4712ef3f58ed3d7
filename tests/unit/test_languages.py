"""Pages in several languages: whole, with the same numbers, and with names where programs have ids."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from io import BytesIO
from posixpath import dirname, normpath

import pytest

from dprelease.canonical import dumps
from dprelease.errors import SpecError
from dprelease.formats import FORMATS
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.presentation import presentation
from dprelease.publish import SENTENCES, check_bundle, render, write
from dprelease.publish.base import AccountPoint
from dprelease.publish.manifest import Manifest, sums_file
from dprelease.publish.site.front import series_of
from dprelease.publish.site.html import html_files
from dprelease.spec.load import load
from dprelease.words import LANGUAGES, day_written, number_written, speaking
from tests.planned import SPEC as PLAIN
from tests.planned import plan_of
from tests.unit.languages_example import FILES, SPEC, YEARLY, bundle, measured, plan, yearly
from tests.unit.publish_example import facts
from tests.words import blocks_of_numbers

_LINK = re.compile(r'(?:href|src)="([^"]*)"')


def pages(folder: str = "") -> dict[str, str]:
    """The pages of one language by their paths in its folder."""
    own = re.compile(rf"{folder}(index\.html|accounting\.html|pages/.*)")
    return {found[1]: bundle()[path].decode() for path in bundle() if (found := own.fullmatch(path))}


def test_each_language_has_the_same_pages_and_says_which_it_is() -> None:
    assert pages().keys() == pages("en/").keys()
    for path, page in pages().items():
        assert '<html lang="de">' in page, path
        assert f'hreflang="en" href="{"../" * path.count("/")}en/' in page, path
    for path, page in pages("en/").items():
        assert '<html lang="en">' in page, path
        assert f'<link rel="alternate" hreflang="de" href="{"../" * (1 + path.count("/"))}' in page, path


def test_every_link_leads_to_a_file_of_the_bundle_or_to_the_list_of_releases() -> None:
    for path in (path for path in bundle() if path.endswith(".html")):
        for link in _LINK.findall(bundle()[path].decode()):
            target = normpath(f"{dirname(path)}/{link.partition('#')[0]}".lstrip("/")) if link[0] != "#" else path
            assert target in bundle() or target == "../../index.html", (path, link)


def test_each_number_of_a_page_is_in_the_other_language_as_well_in_the_same_place() -> None:
    for path, page in pages().items():
        # but for the sizes of files that each language has of its own
        texts = (
            re.sub('<nav class="panel".*?</nav>', "", each, flags=re.DOTALL) for each in (page, pages("en/")[path])
        )
        here, there = (blocks_of_numbers(text, tag) for text, tag in zip(texts, ("de", "en"), strict=True))
        assert here == there, path
        assert sum(map(len, here)) > (5 if "crosstabs." in path else 20), path


def test_numbers_and_days_are_written_as_each_language_writes_them() -> None:
    assert re.search(r"<b>\d{1,3}\.\d{3}</b> ± \d", pages()["index.html"])
    assert "geplant für den 5. Mai 2024" in pages()["index.html"]
    assert "1 March 2024 to 31 March 2024" in pages("en/")["index.html"]
    said = {}
    for tag in LANGUAGES:
        with speaking(tag):
            said[tag] = (
                number_written("−1,234,567.89"),
                day_written(_day("2024-03-01")),
                day_written(_day("2024-12-31")),
            )
    assert said == {
        "en": ("−1,234,567.89", "1 March 2024", "31 December 2024"),
        "de": ("−1.234.567,89", "1. März 2024", "31. Dezember 2024"),
        "fr": ("−1\u202f234\u202f567,89", "1er mars 2024", "31 décembre 2024"),
    }


def _day(text: str):  # type: ignore[no-untyped-def]
    from datetime import date

    return date.fromisoformat(text)


def test_labels_of_another_script_have_their_language_and_direction() -> None:
    for folder in ("", "en/"):
        assert '<bdi lang="ar" dir="rtl">العربية</bdi>' in pages(folder)["index.html"]
        assert '<bdi lang="tr" dir="ltr">Türkçe</bdi>' in pages(folder)["index.html"]
    assert "<bdi>Deutsch</bdi>" in pages()["index.html"]


def test_words_that_one_language_lacks_are_those_of_the_other_and_marked() -> None:
    assert '<bdi lang="de" dir="ltr">Einkommen nach Region</bdi>' in pages("en/")["index.html"]
    assert "<bdi>Einkommen nach Region</bdi>" in pages()["index.html"]


def test_names_stand_where_ids_were_in_every_sentence_of_a_page() -> None:
    german, english = (_plain(pages(folder)["index.html"]) for folder in ("", "en/"))
    for name in ("rich", "average", "middle_q50", "tongue", "income > 0", "person)"):
        assert not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", german), name
    assert "Gutverdienende geteilt durch Menschen" in german
    assert "High earners divided by People" in english
    assert "Nur Zeilen, bei denen das Einkommen über 0 liegt." in german
    assert "only rows where it is above 50,000" in english
    assert "Mittleres Einkommen (EUR)" in german
    assert "Quantil bei 50 % von Einkommen in EUR" in german
    assert german.index("Ein Satz der Redaktion.") > german.index("Einkommen nach Region")
    assert "Wie viele Menschen in den Regionen leben" in german


def _plain(page: str) -> str:
    return " ".join(
        re.sub(r"<style>.*?</style>|<script.*?</script>|<[^>]*>", " ", page, flags=re.DOTALL)
        .replace("\u00a0", " ")
        .split()
    )


def test_files_for_programs_keep_the_ids_and_have_the_names_beside_them() -> None:
    assert bundle()["tables/income.csv"].startswith(b"region,tongue,persons,")
    (income,) = [each for each in json.loads(bundle()["datapackage.json"])["resources"] if each["name"] == "income"]
    titles = {each["name"]: each.get("title") for each in income["schema"]["fields"]}
    assert titles["region"] == "Region"
    assert titles["average"] == "Mittleres Einkommen"
    stat = json.loads(bundle()["tables/income.json"])
    assert stat["dimension"]["tongue"]["label"] == "Muttersprache"
    assert stat["dimension"]["region"]["category"]["label"] == {"N": "Norden", "S": "Süden"}


def test_links_of_the_files_lead_to_those_of_the_language_of_the_page() -> None:
    links = {folder: set(_LINK.findall(bundle()[f"{folder}index.html"].decode())) for folder in ("", "en/")}
    assert {"tables/workbook.xlsx", "certificate.pdf"} <= links[""]
    assert {"../en/tables/workbook.xlsx", "../en/certificate.pdf", "../en/accounting.html"} <= links["en/"]


def test_a_bundle_in_two_languages_verifies_and_a_word_that_was_changed_is_found(tmp_path) -> None:  # type: ignore[no-untyped-def]
    made = plan()
    folder = tmp_path / "it"
    write(render(made, measured(made), facts(made)), folder)
    checks = {each.name: each.passed for each in check_bundle(folder)}
    assert False not in checks.values(), checks
    page = folder / "en" / "index.html"
    page.write_bytes(page.read_bytes().replace(b"at most", b"about", 1))
    assert False in {each.passed for each in check_bundle(folder)}


def test_plans_and_pages_without_names_are_as_they_were() -> None:
    made = plan_of(PLAIN)
    assert made.catalog.names is None
    assert '"names"' not in made.canonical()
    files = render(made, measured(made), facts(made, accounts=())).files
    assert "index.html" in files
    assert not any(path.startswith(("de/", "en/")) for path in files)
    assert b"tongues" not in bytes(files["index.html"]).partition(b"</style>")[2]


def test_other_words_are_another_look_and_no_other_measurement() -> None:
    other = plan_of(SPEC.replace("Gutverdienende, en: High", "Reiche, en: Rich").replace("[de, en]", "[en, de]"), FILES)
    look = presentation(plan(), other)
    assert look.names is not None
    assert look.names.languages == ("en", "de")


def test_the_period_before_is_the_last_one_that_was_charged_before() -> None:
    def point(period: str, sequence: int, release: str = "bevoelkerung") -> AccountPoint:
        known = facts(plan()).accounts[0].after
        return AccountPoint(account="acs", release=release, period=period, sequence=sequence, after=known)

    history = (point("2023-12", 3), point("2024-02", 9, "other"), point("2024-01", 8), point("2024-04", 9))
    found = series_of(plan(), facts(plan(), history=history))
    assert (found.before, found.next) == ("2024-01", "5 May 2024")
    assert series_of(plan(), facts(plan(), history=())).before == ""


@pytest.mark.parametrize(
    ("period", "more", "day"),
    [
        ("2024-03", "", "2024-05-05"),
        ("2024-03", ", skip: {2024-04: lost}", "2024-06-05"),
        ("2024-03", ", last: 2024-03", ""),
    ],
)
def test_the_next_day_is_that_of_the_schedule_where_the_spec_asks_for_it(period: str, more: str, day: str) -> None:
    schedule = f'schedule: {{cron: "0 6 5 * *", timezone: Europe/Paris, period: month{more}}}\n'
    text = PLAIN.replace(
        "{name: survey, period: 2024, title: A survey}", f"{{name: survey, period: {period}, next: schedule}}"
    )
    made: ReleasePlan = plan_of(text + schedule)
    assert made.release.next == day


HEAD = "release: {name: survey, period: 2024, title: A survey}"


@pytest.mark.parametrize(
    ("code", "old", "new"),
    [
        ("DPR-S470", "title: A survey", "title: {}"),
        ("DPR-S471", "title: A survey", "title: {english: A survey}"),
        ("DPR-S472", "title: A survey", "languages: [en, xx]"),
        ("DPR-S473", "title: A survey", "languages: [en, en]"),
        ("DPR-S473", "title: A survey", "languages: []"),
        ("DPR-S474", "title: A survey", "next: 2024-02-30"),
        ("DPR-S477", "title: A survey", "next: schedule"),
        ("DPR-S478", "by: [region, sex],", "by: [region, sex], names: {people: {title: x}},"),
        ("DPR-S479", "by: [region, sex],", "by: [region, sex], condition: nobody,"),
        ("DPR-S479", "by: [region, sex],", "by: [region, sex], names: {persons: {condition: nobody}},"),
        ("DPR-S517", "keys: [1, 2]", "keys: [1, 2], labels: {reference: nowhere, column: name}"),
    ],
)
def test_words_that_cannot_be_shown_are_refused(code: str, old: str, new: str) -> None:
    assert old in PLAIN
    with pytest.raises(SpecError, match=code):
        load(PLAIN.replace(old, new), "spec.yaml")


@pytest.mark.parametrize(
    ("code", "old", "new", "file"),
    [
        ("DPR-S475", "column: {de: name_de", "key: code, column: {de: name_de", FILES["places"]),
        ("DPR-S476", "", "", b"region,name_de,name_en\nN,Norden,North\nS,S,South\nN,Nord,North\n"),
    ],
)
def test_labels_that_a_reference_does_not_give_are_refused(code: str, old: str, new: str, file: bytes) -> None:
    text = (
        SPEC.replace("columns: {region: text,", "columns: {region: text, code: text,") if code == "DPR-S475" else SPEC
    )
    with pytest.raises(SpecError) as found:
        plan_of(text.replace(old, new) if old else text, {"places": file})
    assert any(each.code in (code, "DPR-S602") for each in found.value.problems)


@cache
def fronts() -> dict[str, str]:
    """The front pages of a release with all that pages can have, by language."""
    listed = {path: b"" for form in FORMATS.values() for path, _ in form.once}
    files = html_files(yearly(), listed)
    return {
        tag: files[path].decode()
        for tag, path in (("de", "index.html"), ("fr", "fr/index.html"), ("en", "en/index.html"))
    }


def test_columns_that_compare_maps_and_chosen_clips_are_told_with_titles_in_every_language() -> None:
    german, french, english = (_plain(page).replace("\u202f", " ") for page in fronts().values())
    assert "Anteil : Anteil an der Summe bei gleichem Merkmal Gebiet: Menschen, in Prozent" in german
    assert "Anteil: Die Summe ist aus denselben Ziehungen wie ihre Teile" in german
    assert "in der Art gleich 1 ist" in german
    assert "further: leer, denn vor dieser Veröffentlichung wurde keine von 2020 veröffentlicht." in german
    assert "Für total und Mittleres Einkommen wurde jeder Wert von Einkommen zuerst" in german
    assert "Zu average gibt es keine Karte: Die Intervalle von 5 der 5 Gebiete" in german
    assert "Nicht auf der Karte: 6 ." in german
    assert "mit Art in den Spalten" in german
    assert "part dans le total pour Zone identique : Habitants, en pourcentage" in french
    assert "avec Genre en colonnes" in french
    assert "écriture 12 du registre, révision 1, remplacement 2, manifeste abababababab" in french
    assert "Share : share of People in the total within Area, in percent" in english
    assert "(ledger entry 12, revision 1, replacement 2, manifest abababababab)" in english


def test_a_column_across_has_the_title_of_its_measure_and_the_label_of_its_key_in_the_language_of_the_page() -> None:
    heads = {
        tag: re.findall(r'<th scope="col" class="num">(?:<bdi[^>]*>)?([^<]*: [^<]*)', page)
        for tag, page in fronts().items()
    }
    assert heads["de"] == ["Menschen: erste", "Menschen: ikinci", "average: erste", "average: ikinci"]
    assert heads["en"] == ["People: first", "People: ikinci", "average: first", "average: ikinci"]


def test_the_script_of_tables_is_one_and_finds_its_words_and_the_marks_of_numbers_on_the_table() -> None:
    marks = {"de": (",", "."), "fr": (",", "\u202f"), "en": (".", ",")}
    words = {
        "de": ("Zeilen suchen", "{shown} von {all} Zeilen"),
        "fr": ("Chercher des lignes", "{shown} sur {all} lignes"),
        "en": ("Find rows", "{shown} of {all} rows"),
    }
    scripts = {}
    for tag, page in fronts().items():
        (scripts[tag],) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
        tables = re.findall(r'<table class="estimates"([^>]*)>', page)
        assert len(tables) > 3
        for attributes in tables:
            told = dict(re.findall(r'data-(\w+)="([^"]*)"', attributes))
            assert (told["find"], told["count"]) == words[tag]
            assert (told["point"], told["group"]) == marks[tag]
    assert len(set(scripts.values())) == 1
    assert not re.search(r"rows\b[^.;({=]* of | of \$|Find", scripts["de"])


def test_data_for_search_engines_are_in_the_language_of_their_page() -> None:
    told = {}
    for tag, page in fronts().items():
        (text,) = re.findall(r'<script type="application/ld\+json">(.*?)</script>', page, re.DOTALL)
        told[tag] = json.loads(text)
    assert {tag: each["inLanguage"] for tag, each in told.items()} == {"de": "de", "fr": "fr", "en": "en"}
    assert (told["de"]["name"], told["en"]["name"]) == ("Menschen und Einkommen", "People and income")
    assert told["de"]["description"].startswith("Ein Absatz der Redaktion. Statistiken des Zeitraums 2024")
    assert told["en"]["description"].startswith("A paragraph of the editors. Statistics of period 2024")
    assert told["fr"]["description"].startswith("Statistiques de la période 2024")  # the author wrote no French
    assert {"@type": "PropertyValue", "name": "Menschen", "alternateName": "n"} in told["de"]["variableMeasured"]
    assert {"@type": "PropertyValue", "name": "index"} in told["de"]["variableMeasured"]


def test_a_column_that_compares_can_be_named_and_no_other_one() -> None:
    with pytest.raises(SpecError) as caught:
        load(
            YEARLY.format(period=2024).replace("      share: {title: {de: Anteil", "      shore: {title: {de: Anteil"),
            "spec.yaml",
        )
    assert [(each.code, each.hint) for each in caught.value.problems] == [("DPR-S478", "did you mean `share`?")]


def test_accounting_and_certificate_are_in_every_language_with_the_losses_of_the_plan() -> None:
    german, english = (_plain(bundle()[path].decode()) for path in ("accounting.html", "en/accounting.html"))
    assert "Rechenschaft über den Datenschutz: Bevölkerung und Einkommen 2024-03" in german
    assert "Privacy accounting: Population and income 2024-03" in english
    assert "eine Einheit ( Person ), in allen Veröffentlichungen, die bisher das Konto acs belasten" in german
    assert "one person , in all releases charged so far to account acs" in english
    told = json.loads(bundle()["accounting.json"])  # of the plan as it is, in English
    assert told["unit"]["entity"] == "person"
    assert "Only what was" not in german
    for text, point in ((german, ","), (english, ".")):
        assert f"ε = {told['loss'][told['certified']]['epsilon'][:4].replace('.', point)}" in text
    assert bundle()["certificate.pdf"] != bundle()["en/certificate.pdf"]
    pypdf = pytest.importorskip("pypdf")
    certificate = {}
    for path, tag in (("certificate.pdf", "de"), ("en/certificate.pdf", "en")):
        certificate[tag] = pypdf.PdfReader(BytesIO(bundle()[path])).trailer["/Root"]["/Lang"]
    assert {tag: each[:2] for tag, each in certificate.items()} == {"de": "de", "en": "en"}


def test_a_bundle_from_before_that_verifies_without_them(tmp_path) -> None:  # type: ignore[no-untyped-def]
    made = plan()
    folder = tmp_path / "it"
    write(render(made, measured(made), facts(made)), folder)
    manifest = json.loads((folder / "manifest.json").read_bytes())
    for path in ("en/accounting.html", "en/certificate.pdf", "en/tables/workbook.xlsx"):
        (folder / path).unlink()
        del manifest["files"][path]

    def failed(texts: str, texts_files: str = "1") -> set[str]:
        manifest["rendered_with"] |= {"texts": texts, "texts_files": texts_files}
        (folder / "manifest.json").write_text(dumps(manifest) + "\n")
        (folder / "SHA256SUMS").write_bytes(sums_file(Manifest.from_canonical(dumps(manifest)), None))
        return {check.name for check in check_bundle(folder) if check.passed is False and check.name != SENTENCES}

    assert failed("5") == set()
    assert failed("6") == {"rendered again"}
    assert failed("5", "2") == {"rendered again"}


def test_what_the_author_says_of_the_data_stands_where_a_reader_meets_them() -> None:
    pages = {tag: _plain(bundle()[f"{folder}index.html"].decode()) for tag, folder in (("de", ""), ("en", "en/"))}
    assert "Aus den Daten „Menschen“: Alle Gemeldeten am Stichtag." in pages["de"]
    assert "From the data “People”: Everybody registered on the day." in pages["en"]
    accounting = _plain(bundle()["en/accounting.html"].decode())
    assert "people People Everybody registered on the day." in accounting
    assert "people.tongue Mother tongue As told by themselves" in accounting
    (income,) = [each for each in json.loads(bundle()["datapackage.json"])["resources"] if each["name"] == "income"]
    assert income["sources"] == [{"title": "Menschen", "description": "Alle Gemeldeten am Stichtag."}]
    told = {each["name"]: each["description"] for each in income["schema"]["fields"]}
    assert told["tongue"].startswith("key: text; Nach eigener Angabe")


def test_the_period_before_is_linked_where_it_stands_even_if_it_was_given_up() -> None:
    made = yearly()
    point = AccountPoint(account="acs", release="yearly", period="2023", sequence=1, after=made.facts.accounts[0].after)
    content = replace(made, facts=made.facts.model_copy(update={"history": (point,)}))
    listed = {path: b"" for form in FORMATS.values() for path, _ in form.once}
    files = html_files(content, listed)
    assert '<a rel="prev" href="../index.html#period-2023">2023</a>' in files["index.html"].decode()
    assert '<a rel="prev" href="../../index.html#period-2023">2023</a>' in files["fr/index.html"].decode()
