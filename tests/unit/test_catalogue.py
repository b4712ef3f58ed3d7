"""What catalogues are told: the same in every file, valid by their rules, inert, and nothing where nothing was said."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, get_args

import pytest

from dprelease.errors import SpecError
from dprelease.plan.document import CatalogueEntry, ReleasePlan
from dprelease.publish import Restated, check_bundle, render, write
from dprelease.publish.catalogue.code_lists import (
    FREQUENCIES,
    LANGUAGE_CODES,
    PUBLISHER_TYPES,
    THEMES,
    licence_type,
)
from dprelease.publish.catalogue.entry import told_of
from dprelease.spec.fields.published.catalogued import LICENCES, Frequency, PublisherType, Theme
from dprelease.spec.load import load
from dprelease.words import LANGUAGES
from tests.unit import languages_example
from tests.unit.publish_example import facts, measurements, plan
from tests.unit.test_publish_pages import Outline

ENTRY = CatalogueEntry(
    licence="https://creativecommons.org/licenses/by/4.0/",
    identifier="https://doi.org/10.5281/zenodo.1234",
    keywords=("population", 'in"come</script>'),
    spatial="United States",
    themes=("SOCI", "ECON"),
    frequency="monthly",
    publisher_type="national_authority",
)
SPEC = """dprelease: 1
release:
  name: monitor
  period: 2024-03
  licence: cc-by-4.0
  identifier: "doi:10.5281/zenodo.{{ period }}"
  keywords: [population, income]
  spatial: United States
  temporal: {from: 2024-03-01, to: 2024-03-31}
  published: 2024-05-01
  next: 2024-06-01
  version: 2.0
  themes: [SOCI, ECON]
  frequency: monthly
  publisher_type: national_authority
privacy: {unit: {entity: person}, budget: {epsilon: 1, delta: 1e-9}}
tables:
  people: {account: a, source: {file: people.csv}, columns: {sex: {type: integer, keys: [1, 2]}}}
queries:
  people: {table: people, by: [sex], measures: {persons: {count: rows}}}
"""


def entered(entry: CatalogueEntry | None = ENTRY, **publish: object) -> ReleasePlan:
    made = plan()
    chosen = {"formats": ("csv", "parquet", "json", "sdmx", "xlsx", "dcat", "html"), **publish}
    release = made.release.model_copy(update={"entry": entry, "next": "2024-06-01" if entry else ""})
    return made.model_copy(update={"release": release, "publish": made.publish.model_copy(update=chosen)})


@pytest.fixture(scope="module")
def files() -> Mapping[str, bytes]:
    made = entered()
    return render(made, measurements(), facts(made)).files


def test_a_spec_says_it_and_an_unknown_word_is_refused_where_it_stands() -> None:
    release = load(SPEC, "spec.yaml").spec.release
    assert release.licence == ENTRY.licence
    assert release.identifier == "https://doi.org/10.5281/zenodo.2024-03"
    assert (release.temporal and release.temporal.last, release.version) == ("2024-03-31", "2.0")
    told = (release.themes, release.frequency, release.publisher_type)
    assert told == (("SOCI", "ECON"), "monthly", "national_authority")


@pytest.mark.parametrize(
    ("old", "new", "code", "line"),
    [
        ("cc-by-4.0", "cc-by", "DPR-S490", 5),
        ("cc-by-4.0", "javascript:alert(1)", "DPR-S490", 5),
        ("cc-by-4.0", "https://a b", "DPR-S490", 5),
        ('"doi:10.5281/zenodo.{{ period }}"', '"10.5281/a b"', "DPR-S491", 6),
        ("[population, income]", "[income, income]", "DPR-S492", 7),
        ("published: 2024-05-01", "published: 2024-02-30", "DPR-S493", 10),
        ("to: 2024-03-31", "to: 2024-02-01", "DPR-S494", 9),
        ("next: 2024-06-01", "next: 2024-05-01", "DPR-S496", 11),
        ("[SOCI, ECON]", "[SOCI, population]", "DPR-S202", 13),
        ("[SOCI, ECON]", "[SOCI, SOCI]", "DPR-S492", 13),
        ("frequency: monthly", "frequency: MONTHLY", "DPR-S202", 14),
        ("publisher_type: national_authority", "publisher_type: office", "DPR-S202", 15),
    ],
)
def test_what_cannot_be_meant_is_refused(old: str, new: str, code: str, line: int) -> None:
    with pytest.raises(SpecError) as caught:
        load(SPEC.replace(old, new), "spec.yaml")
    (problem,) = caught.value.problems
    assert (problem.code, problem.where and problem.where.line) == (code, line)


def test_days_of_one_publication_are_refused_beside_a_schedule() -> None:
    scheduled = (
        SPEC.replace("  period: 2024-03\n", "") + 'schedule: {cron: "0 6 5 * *", timezone: UTC, period: month}\n'
    )
    with pytest.raises(SpecError) as caught:
        load(scheduled, "spec.yaml", "2024-03")
    assert [problem.code for problem in caught.value.problems] == ["DPR-S495"] * 3


def test_a_plan_without_it_is_written_as_before() -> None:
    assert '"entry"' not in plan().canonical()
    assert "period_column" not in plan().canonical()
    package = json.loads(render(plan(), measurements(), facts(plan())).files["datapackage.json"])
    assert not {"licenses", "keywords", "id"} & package.keys()


def test_the_data_package_has_the_licence_and_what_else_it_has_a_place_for(files: Mapping[str, bytes]) -> None:
    package = json.loads(files["datapackage.json"])
    assert package["licenses"] == [{"path": ENTRY.licence, "name": "CC-BY-4.0"}]
    assert (package["id"], tuple(package["keywords"])) == (ENTRY.identifier, ENTRY.keywords)
    assert package["dprelease"]["temporal"] == "2024-03-01/2024-03-31"
    assert package["dprelease"]["citation"].endswith(f"2024-03. Version 1. {ENTRY.identifier}")


def by_type(files: Mapping[str, bytes], kind: str) -> list[dict[str, Any]]:
    return [each for each in json.loads(files["dcat.jsonld"])["@graph"] if each["@type"] == kind]


def test_the_entry_has_what_dcat_ap_demands_and_types_for_all_it_points_at(files: Mapping[str, bytes]) -> None:
    (data,) = by_type(files, "dcat:Dataset")
    assert {"dct:title", "dct:description", "dct:publisher", "dcat:contactPoint", "dct:temporal"} <= data.keys()
    assert data["@id"] == data["dct:identifier"] == ENTRY.identifier
    graph = json.loads(files["dcat.jsonld"])["@graph"]
    named = {each["@id"] for each in graph}
    values = [
        one for each in graph for value in each.values() for one in (value if isinstance(value, list) else [value])
    ]
    pointed = {value["@id"] for value in values if isinstance(value, dict) and "@id" in value}
    media = {each["@id"] for each in graph if str(each["@type"]).startswith(("dct:", "foaf:", "skos:", "spdx:"))}
    files_of = {path for path in pointed if path.startswith("tables/")}
    files_of -= {path for path in pointed if path.endswith("#distribution")}
    mail = {"mailto:statistics@example.org"}
    assert pointed - files_of - mail <= named
    assert media
    for each in by_type(files, "dcat:Distribution"):
        path = each["dcat:downloadURL"]["@id"]
        assert each["dcat:byteSize"]["@value"] == str(len(files[path]))
        assert each["dct:license"]["@id"] == ENTRY.licence
    assert len(by_type(files, "dcat:Distribution")) == 2 * 4 + 1


def test_the_entry_has_the_recommended_terms_that_the_author_gave_and_no_others(files: Mapping[str, bytes]) -> None:
    (data,) = by_type(files, "dcat:Dataset")
    assert [each["@id"].rpartition("/")[2] for each in data["dcat:theme"]] == ["SOCI", "ECON"]
    assert data["dct:accrualPeriodicity"]["@id"].endswith("/frequency/MONTHLY")
    (office,) = by_type(files, "foaf:Agent")
    assert office["dct:type"] == {"@id": "http://purl.org/adms/publishertype/NationalAuthority"}
    (licence,) = by_type(files, "dct:LicenseDocument")
    assert licence["dct:type"] == {"@id": "http://purl.org/adms/licencetype/Attribution"}
    made = entered(CatalogueEntry(licence="https://example.org/own"))
    bare = render(made, measurements(), facts(made)).files
    assert not {"dcat:theme", "dct:accrualPeriodicity"} & by_type(bare, "dcat:Dataset")[0].keys()
    assert "dct:type" not in by_type(bare, "foaf:Agent")[0].keys() | by_type(bare, "dct:LicenseDocument")[0].keys()


def test_every_word_that_a_spec_takes_has_its_entry_in_the_list_of_catalogues() -> None:
    assert set(get_args(Theme)) == THEMES.keys()
    assert set(get_args(Frequency)) == FREQUENCIES.keys()
    assert set(get_args(PublisherType)) == PUBLISHER_TYPES.keys()
    assert LANGUAGE_CODES.keys() == LANGUAGES.keys()
    assert all(licence_type(address) for address in LICENCES.values())


def test_a_release_of_two_languages_is_described_in_both_and_no_word_is_said_to_be_english() -> None:
    made = languages_example.plan(languages_example.SPEC.replace("[csv, json, xlsx, html]", "[csv, dcat]"))
    found = render(made, languages_example.measured(made), facts(made)).files
    (data,) = by_type(found, "dcat:Dataset")
    assert [(each["@language"], each["@value"]) for each in data["dct:title"]] == [
        ("de", "Bevölkerung und Einkommen 2024-03"),
        ("en", "Population and income 2024-03"),
    ]
    assert [each["@value"].split()[0] for each in data["dct:description"]] == ["Statistiken", "Statistics"]
    assert [each["@id"].rpartition("/")[2] for each in data["dct:language"]] == ["DEU", "ENG"]
    titles = {
        each["dct:title"]["@value"]: each["dct:title"]["@language"] for each in by_type(found, "dcat:Distribution")
    }
    assert titles["Einkommen nach Region (CSV)"] == "de"


def test_every_page_has_schema_org_as_data_that_no_browser_runs(files: Mapping[str, bytes]) -> None:
    pages = [path for path in files if path.endswith(".html")]
    for path in pages:
        found = Outline(files[path].decode())
        assert "script" not in {tag for tag, _ in found.tags}, path
        (data,) = found.data
        assert (data["@context"], data["@type"]) == ("https://schema.org", "Dataset")
        assert 50 <= len(data["description"]) <= 5000
        assert data["license"] == ENTRY.licence
    assert "accounting.html" in pages
    (index,) = Outline(files["index.html"].decode()).data
    assert index["keywords"] == list(ENTRY.keywords)
    assert {each["contentUrl"] for each in index["distribution"]} <= files.keys()
    assert {"persons", "average"} <= {each["name"] for each in index["variableMeasured"]}


def test_a_publication_that_replaces_another_has_the_next_version() -> None:
    made = entered(CatalogueEntry(keywords=("a",)))
    release = made.release.model_copy(update={"restatement": 1})
    said = facts(made, restates=Restated(plan_fingerprint="a" * 64, sequence=1, reason="wrong file"))
    assert told_of(made.model_copy(update={"release": release}), said).version == "2"
    assert told_of(made, said).issued == "2024-04-05"


def test_files_can_begin_with_the_period(tmp_path: Any) -> None:
    made = entered(period_column=True)
    write(render(made, measurements(), facts(made)), tmp_path / "bundle")
    lines = (tmp_path / "bundle/tables/population.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("period,region,sex,persons,")
    assert all(line.startswith('"2024-03",') for line in lines[1:])
    assert [check.name for check in check_bundle(tmp_path / "bundle") if check.passed is False] == []
    package = json.loads((tmp_path / "bundle/datapackage.json").read_bytes())
    assert package["resources"][0]["schema"]["primaryKey"] == ["period", "region", "sex"]
