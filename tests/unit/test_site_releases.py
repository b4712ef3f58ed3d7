"""The page over all releases: complete, in order, inert, and never in the way of a release."""

from __future__ import annotations

import json
import os
import re
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.plan.document import ReleasePlan
from dprelease.privacy.budget import Loss
from dprelease.publish import AccountPoint, Facts, Restated, folder_for, render, write
from dprelease.publish.bundle.folder import files_in
from dprelease.release.publishing.overview import OVERVIEW, write_overview
from dprelease.release.publishing.published import Shelf, shelf_of
from dprelease.signature import PublicKey
from tests.unit import languages_example
from tests.unit.publish_example import facts, measurements, plan
from tests.unit.test_publish_pages import Outline

KEY = "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="


def released(root: Path, period: str, sequence: int, title: str = "Monitor", **changes: object) -> ReleasePlan:
    made = plan()
    made = made.model_copy(update={"release": made.release.model_copy(update={"period": period, "title": title})})
    said = facts(made, ledger_sequence=sequence, **changes)
    write(render(made, measurements(), said), folder_for(root, made.release.name, period))
    return made


def point(sequence: int, epsilon: int) -> AccountPoint:
    loss = Loss(epsilon=Fraction(epsilon), delta=Fraction(1, 10**8))
    return AccountPoint(account="acs", release="monitor", period=f"p{sequence}", sequence=sequence, after=loss)


def page(root: Path) -> Outline:
    assert write_overview(root) == ""
    return Outline((root / OVERVIEW).read_text(encoding="utf-8"))


def test_releases_stand_there_the_newest_first_with_links(tmp_path: Path) -> None:
    for sequence, period in ((3, "2024-01"), (17, "2024-03"), (9, "2024-02")):
        released(tmp_path, period, sequence)
    found = page(tmp_path)
    links = [attributes["href"] for tag, attributes in found.tags if tag == "a" and attributes["href"] != "#main"]
    product = ["regional-monitor/index.html", "feed.xml"]
    assert links == [*product, *(f"regional-monitor/2024-0{at}/index.html" for at in (3, 2, 1))]
    assert all((tmp_path / str(link)).is_file() for link in links)
    assert found.text.count("unsigned") == 3
    assert "ε = 1.9, δ = 10⁻⁹ for each person" in found.text
    assert "script" not in {tag for tag, _ in found.tags}


def test_what_was_replaced_is_marked(tmp_path: Path) -> None:
    old = released(tmp_path, "2024-03", 3)
    folder = folder_for(tmp_path, old.release.name, "2024-03")
    folder.rename(folder.with_name("2024-03.superseded-abc"))
    restated = Restated(plan_fingerprint=old.fingerprint(), sequence=3, reason="wrong file")
    released(tmp_path, "2024-03", 8, "Monitor, corrected", restates=restated)
    text = page(tmp_path).text
    assert text.index("Monitor, corrected") < text.index("superseded by ledger entry 8")
    assert text.count("superseded") == 1


def test_the_chart_is_of_the_newest_bundle_of_each_account(tmp_path: Path) -> None:
    released(tmp_path, "2024-01", 3, history=(point(3, 1),))
    assert "loss behind every charge" not in page(tmp_path).text, "one charge is no line"
    released(tmp_path, "2024-02", 9, history=(point(3, 1), point(9, 2)))
    found = page(tmp_path)
    assert "Stairs over the last 2 charges, up to ε = 2 at δ = 10⁻⁸." in found.text
    assert [tag for tag, _ in found.tags].count("polyline") == 2  # one account: its stairs and its cap
    assert "acs: ε = 3.7 at δ = 10⁻⁸ (at most ε = 8 at δ = 10⁻⁸) for each person, as of ledger entry 9." in found.text


@pytest.mark.thin(every=5)
@pytest.mark.parametrize("name", ["manifest.json", "facts.json", "plan.json"])
@pytest.mark.parametrize("data", [b"{", b"[]", b"\xff", b'{"files": {}}', None])
def test_a_broken_bundle_is_listed_as_unreadable(tmp_path: Path, name: str, data: bytes | None) -> None:
    released(tmp_path, "2024-01", 3)
    path = folder_for(tmp_path, "regional-monitor", "2024-01") / name
    if data is None:
        text = json.loads(path.read_bytes())
        path.write_text(json.dumps({**text, "plan_fingerprint": "0" * 64, "spec_fingerprint": "0" * 64}))
    else:
        path.write_bytes(data)
    released(tmp_path, "2024-02", 9)
    text = page(tmp_path).text
    assert "1 publication " in text
    assert "hold nothing that can be read as a publication" in text
    assert "regional-monitor/2024-01" in text


def test_the_public_is_told_to_type_nothing_that_takes_the_ledger(tmp_path: Path) -> None:
    released(tmp_path, "2024-01", 3)
    text = page(tmp_path).text
    assert [each for each in ("dprelease ledger", "dprelease publish", "dprelease run") if each in text] == []


def test_a_bundle_whose_facts_were_changed_is_not_listed(tmp_path: Path) -> None:
    released(tmp_path, "2024-01", 3)
    path = folder_for(tmp_path, "regional-monitor", "2024-01") / "facts.json"
    assert path.read_bytes().count(b'"ledger_sequence":3') == 1
    path.write_bytes(path.read_bytes().replace(b'"ledger_sequence":3', b'"ledger_sequence":9'))
    assert "0 publications" in page(tmp_path).text


def test_the_overview_is_no_part_of_a_bundle_and_no_sign_of_a_release(tmp_path: Path) -> None:
    assert "Nothing that can be read" in page(tmp_path).text
    assert shelf_of(tmp_path) == Shelf()
    made = released(tmp_path, "2024-01", 3)
    page(tmp_path)
    folder = folder_for(tmp_path, "regional-monitor", "2024-01")
    assert OVERVIEW in files_in(folder)  # its own
    write(render(made, measurements(), facts(made, ledger_sequence=3)), folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["feed.xml", OVERVIEW, "regional-monitor"]


def test_nothing_stops_a_release(tmp_path: Path) -> None:
    assert "could not be written" in write_overview(tmp_path / "missing")
    (tmp_path / OVERVIEW).mkdir()
    assert "could not be written" in write_overview(tmp_path)
    (tmp_path / OVERVIEW).rmdir()
    (tmp_path / OVERVIEW).symlink_to(tmp_path / "elsewhere")
    assert write_overview(tmp_path) == ""
    assert not (tmp_path / OVERVIEW).is_symlink()
    assert not (tmp_path / "elsewhere").exists()


def test_what_came_in_between_is_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released(tmp_path, "2024-01", 3)
    import dprelease.release.publishing.overview as overview

    whole, calls = overview._files, []

    def page_and_another(*args: object) -> dict[str, bytes]:
        calls.append(1)
        made = whole(*args)  # type: ignore[arg-type]
        if len(calls) == 1:
            released(tmp_path, "2024-02", 9)
        return made

    monkeypatch.setattr(overview, "_files", page_and_another)
    assert "2 publications" in page(tmp_path).text
    assert len(calls) == 2


def test_rehearsals_are_marked_and_links_are_unreadable(tmp_path: Path) -> None:
    released(tmp_path, "2024-01", 3, rehearsal=True)
    found = page(tmp_path)
    assert found.text.count("NOT A RELEASE") == 2
    assert "rehearsal, not a release" in found.text
    assert "What it adds up to" not in found.text
    (tmp_path / "regional-monitor/linked").symlink_to(tmp_path / "regional-monitor/2024-01")
    assert "regional-monitor/linked" in page(tmp_path).text


def test_a_period_at_the_end_of_a_title_stays_on_one_line(tmp_path: Path) -> None:
    released(tmp_path, "2024-01", 3, "Visits in 2024-01")
    found = page(tmp_path)
    assert "Visits in 2024-01" in found.text
    assert ("span", {"class": "short"}) in [(tag, dict(attributes)) for tag, attributes in found.tags]


def test_titles_periods_and_folders_are_inert(tmp_path: Path) -> None:
    released(tmp_path, '../"<b>', 3, "<script>alert(1)</script>\u202e")
    found = page(tmp_path)
    assert not {tag for tag, _ in found.tags} & {"script", "b"}
    assert "<script>alert(1)</script>[U+202E]" in found.text
    *_, link = [attributes["href"] for tag, attributes in found.tags if tag == "a" and attributes["href"] != "#main"]
    assert link == "regional-monitor/%252E.%252F%2522%253Cb%253E/index.html"


def test_a_signer_is_shown_by_fingerprint() -> None:
    from dprelease.publish.manifest import Manifest
    from dprelease.publish.products.listed import Listed
    from dprelease.publish.products.releases import releases_page

    made = plan()
    said: Facts = facts(made, signer=KEY)
    unsigned = Manifest.from_canonical(render(made, measurements(), facts(made)).files["manifest.json"])
    text = releases_page([Listed("a/b", unsigned.model_copy(update={"signer": KEY}), said, made)]).decode()
    assert PublicKey.from_text(KEY).fingerprint in text
    assert not re.search(r">unsigned<", text)


def test_what_stands_in_the_place_of_a_manifest_is_told_at_once(tmp_path: Path) -> None:
    """A pipe that nobody writes to would hold up every run, and a sparse file fill the memory."""
    for name in ("pipe", "sparse", "folder"):
        (tmp_path / "survey" / name).mkdir(parents=True)
    os.mkfifo(tmp_path / "survey" / "pipe" / "manifest.json")
    with (tmp_path / "survey" / "sparse" / "manifest.json").open("wb") as file:
        file.truncate(6 << 30)
    (tmp_path / "survey" / "folder" / "manifest.json").mkdir()
    assert shelf_of(tmp_path).unreadable == tuple(
        str(tmp_path / "survey" / each) for each in ("folder", "pipe", "sparse")
    )


def test_pages_and_feeds_over_the_releases_are_in_every_language_of_the_newest_one(tmp_path: Path) -> None:
    made = languages_example.plan()
    write(
        render(made, languages_example.measured(made), facts(made)), folder_for(tmp_path, made.release.name, "2024-03")
    )
    assert write_overview(tmp_path) == ""
    texts = {}
    for below in ("", "bevoelkerung/"):
        for tag, end in (("de", ""), ("en", ".en")):
            page, feed = (tmp_path / f"{below}{name}" for name in (f"index{end}.html", f"feed{end}.xml"))
            texts[below, tag] = page.read_text(encoding="utf-8")
            assert f'<html lang="{tag}">' in texts[below, tag]
            assert f'xml:lang="{tag}"' in feed.read_text(encoding="utf-8")
            links = re.findall(r'(?:href)="([^"#][^"]*)"', texts[below, tag])
            assert all((page.parent / link).resolve().is_file() for link in links), links
    assert "Veröffentlichungen mit differenzieller" in texts["", "de"] or "Veröffentlichung mit" in texts["", "de"]
    assert "Bevölkerung und Einkommen" in texts["bevoelkerung/", "de"]
    assert "Population and income" in texts["bevoelkerung/", "en"]
    assert '<tr id="period-2024-03">' in texts["bevoelkerung/", "de"]
    assert 'href="2024-03/en/index.html"' in texts["bevoelkerung/", "en"]
    titles = [(tmp_path / f"bevoelkerung/feed{end}.xml").read_text(encoding="utf-8") for end in ("", ".en")]
    assert ["<title>Bevölkerung und Einkommen" in titles[0], "<title>Population and income" in titles[1]] == [True] * 2
    assert len({re.search(r"<id>(.*?)</id>", title)[1] for title in titles}) == 2  # type: ignore[index]
