"""``verify.html`` in a real browser: what it accepts, and what it names in bundles that were tampered with.

Skipped where there is no Chromium. Nothing is fetched while it runs.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dprelease.publish.bundle.checks.checking_page import checking_page
from dprelease.words import LANGUAGES
from tests.pages.browser import CHROMIUM, Browser, opened
from tests.unit.tamper_example import OURS, THEIRS, Folder, bundle, changed, lowered, rewritten
from tests.unit.test_tamper import CASES, ONLY_SIGNED, folder

pytestmark = [
    pytest.mark.skipif(shutil.which(CHROMIUM) is None, reason=f"{CHROMIUM} is not installed"),
    pytest.mark.slow,
]
# A browser follows links, so that the files are what they were.
LINKS = {"a table is a link", "a folder is a link"}
# In a bundle without a signature these leave every file as the manifest lists it, and only ``dprelease verify`` makes
# the files again; a signature finds them all.
FILE_CASES = [name for name, (_, _, same) in CASES.items() if same and name not in LINKS]


@dataclass
class Told:
    """What the page says."""

    verdict: str
    sentence: str
    checks: list[tuple[str, str]]

    @property
    def failed(self) -> str:
        return "\n".join(text for kind, text in self.checks if kind == "bad")


@dataclass
class Page:
    """The page in a browser."""

    browser: Browser
    path: Path

    def told(self, of: Path) -> Told:
        self.browser.open(self.path)
        self.browser.choose("#folder", of)
        verdict = self.browser.until("document.documentElement.dataset.verdict")
        lines = "[...document.querySelectorAll('#checks li')].map((each) => [each.className, each.textContent])"
        checks = [(kind, text) for kind, text in self.browser.value(lines)]
        return Told(verdict, self.browser.value("document.getElementById('verdict').textContent"), checks)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    at = tmp_path_factory.mktemp("page")
    (at / "verify.html").write_bytes(checking_page([("The office, since 2024", OURS.public)]))
    with opened(at / "profile") as browser:
        yield Page(browser, at / "verify.html")


def signed(at: Path) -> Folder:
    return folder(bundle(OURS), at, OURS)


def test_a_good_bundle_is_accepted_without_a_connection_and_without_a_complaint(page: Page, tmp_path: Path) -> None:
    at = signed(tmp_path)
    (at.path / ".DS_Store").write_bytes(b"x")  # a file manager's, and nobody's fault
    told = page.told(at.path)
    assert (told.verdict, told.failed) == ("PASS", "")
    assert "The office, since 2024" in told.sentence
    said = " ".join(text for _, text in told.checks)
    assert "epsilon of accounting.json by zCDP, at delta 1e-9" in said
    assert "rho of accounting.json is that of its draws" in said
    asked = [
        each["params"]["request"]["url"]
        for each in page.browser.events
        if each["method"] == "Network.requestWillBeSent"
    ]
    assert asked
    assert set(asked) == {page.path.as_uri()}
    loud = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
    assert [each for each in page.browser.events if each["method"] in loud] == []


@pytest.mark.parametrize("name", FILE_CASES)
def test_a_changed_file_is_named(name: str, page: Page, tmp_path: Path) -> None:
    act, _, _ = CASES[name]
    at = signed(tmp_path)
    before = dict(bundle(OURS))
    act(at)
    found = {path.relative_to(at.path).as_posix(): path.read_bytes() for path in at.path.rglob("*") if path.is_file()}
    touched = {path for path in {*before, *found} if before.get(path) != found.get(path)}
    assert touched
    told = page.told(at.path)
    assert told.verdict == "FAIL"
    assert "Do not rely on these files" in told.sentence
    assert any(path in told.failed for path in touched), told.failed


@pytest.mark.parametrize("name", sorted(LINKS))
def test_a_link_has_the_bytes_that_it_leads_to(name: str, page: Page, tmp_path: Path) -> None:
    at = signed(tmp_path)
    CASES[name][0](at)
    told = page.told(at.path)
    assert {path: (at.path / path).read_bytes() for path in bundle(OURS)} == dict(bundle(OURS))
    assert told.verdict == "PASS" or ": missing" in told.failed  # a browser need not follow the link of a folder


@pytest.mark.parametrize("name", [name for name, (_, _, same) in CASES.items() if not same][::4])
def test_hashes_that_were_made_again_are_seen_by_the_signature(name: str, page: Page, tmp_path: Path) -> None:
    at = signed(tmp_path)
    CASES[name][0](at)
    told = page.told(at.path)
    assert told.verdict == "FAIL"
    assert "what was signed is exactly these files" in told.failed or "manifest.json" in told.failed


@pytest.mark.parametrize("name", ONLY_SIGNED)
def test_what_a_signature_alone_finds_is_found_or_nobody_is_said_to_have_signed(
    name: str, page: Page, tmp_path: Path
) -> None:
    at = signed(tmp_path)
    ONLY_SIGNED[name][0](at)
    told = page.told(at.path)
    assert told.verdict == ("UNSIGNED" if "never signed" in name else "FAIL")
    if told.verdict == "UNSIGNED":
        assert "nobody signed them" in told.sentence


EPSILONS: dict[str, Callable[[Folder], None]] = {
    "asked for": changed("accounting.json", b'"epsilon": "1"', b'"epsilon": "0.5"'),
    "certified": lowered("accounting.json", rb'"pld",\s+"epsilon": "([0-9.]+)"'),
    "by pld": lowered("accounting.json", rb'"pld": \{\s+"epsilon": "([0-9.]+)"'),
    "cap": changed("accounting.json", b'"epsilon": "100"', b'"epsilon": "50"'),
    "zcdp": lowered("accounting.json", rb'"zcdp": \{\s+"epsilon": "([0-9.]+)"'),
    "zcdp, by little": lowered("accounting.json", rb'"zcdp": \{\s+"epsilon": "([0-9.]+)"', 2),
    "basic": lowered("accounting.json", rb'"basic": \{\s+"epsilon": "([0-9.]+)"'),
    "total": lowered("accounting.json", rb'"epsilon": "([0-9]+)/'),
    "rho": lowered("accounting.json", rb'"rho": "([0-9]+)/'),
    "a scale": lowered("accounting.json", rb'"scale": "([0-9]+)/'),
}


@pytest.mark.parametrize("name", EPSILONS)
def test_a_changed_epsilon_is_caught_even_if_all_hashes_are_made_again_and_nobody_signed(
    name: str, page: Page, tmp_path: Path
) -> None:
    at = folder(bundle(), tmp_path, None)
    EPSILONS[name](at)
    told = page.told(at.path)
    assert told.verdict == "FAIL"
    assert "accounting.json" in told.failed


def test_a_loss_that_agrees_in_both_files_and_not_with_the_draws_is_caught(page: Page, tmp_path: Path) -> None:
    """Epsilon by zCDP lowered in plan and accounting alike: it no longer follows from the noise."""
    at = folder(bundle(), tmp_path, None)
    plan = json.loads(at.read("plan.json"))
    plan["loss"]["zcdp"]["epsilon"] = "11/10"
    from dprelease.canonical import dumps, sha256

    rewritten("plan.json", sealed=False, **plan)(at)
    accounting = json.loads(at.read("accounting.json"))
    accounting["loss"]["zcdp"]["epsilon"] = "1.1"
    at.put("accounting.json", json.dumps(accounting).encode())
    at.reseal(plan_fingerprint=sha256(dumps(plan).encode()))
    told = page.told(at.path)
    assert told.verdict == "FAIL"
    assert "epsilon of accounting.json by zCDP" in told.failed


def test_names_from_a_bundle_are_text_and_names_of_objects_are_no_files(page: Page, tmp_path: Path) -> None:
    at = signed(tmp_path)
    for name in ("<img src=x onerror=alert(1)>", "toString", "__proto__", "constructor"):
        (at.path / name).write_bytes(b"x")
    told = page.told(at.path)
    assert told.verdict == "FAIL"
    assert all(name in told.failed for name in ("<img src=x onerror=alert(1)>", "toString", "__proto__", "constructor"))
    assert page.browser.value("document.images.length") == 0


def test_another_key_is_not_this_office(page: Page, tmp_path: Path) -> None:
    told = page.told(folder(bundle(THEIRS), tmp_path, THEIRS).path)
    assert told.verdict == "FAIL"
    assert "the signer is one that this page knows" in told.failed


def test_a_folder_that_is_no_bundle_is_refused(page: Page, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.txt").write_text("x")
    told = page.told(tmp_path / "other")
    assert (told.verdict, "manifest.json is missing" in told.failed) == ("FAIL", True)


def test_a_bundle_from_before_there_were_checksums_is_accepted(page: Page, tmp_path: Path) -> None:
    from dprelease.publish.manifest import Manifest, signature_file

    at = signed(tmp_path)
    old = Manifest.from_canonical(at.read("manifest.json")).model_copy(update={"sums": ""})
    at.put("manifest.json", old.to_bytes())
    at.put("manifest.sig", signature_file(old, OURS))
    for name in ("SHA256SUMS", "SHA256SUMS.sig"):
        (at.path / name).unlink()
    assert page.told(at.path).verdict == "PASS"


def test_the_page_speaks_every_language_of_pages_and_says_nothing_in_another(page: Page, tmp_path: Path) -> None:
    at = signed(tmp_path)
    at.put("accounting.json", at.read("accounting.json").replace(b'"epsilon": "1"', b'"epsilon": "0.5"'))
    (at.path / "extra.txt").write_bytes(b"x")
    told = page.told(at.path)
    said = {}
    for tag in LANGUAGES:
        page.browser.value(f"document.querySelector('[data-tag={tag}]').click()")
        assert page.browser.value("document.documentElement.lang") == tag
        pressed = "[...document.querySelectorAll('[aria-pressed=true]')].map((each) => each.dataset.tag)"
        assert page.browser.value(pressed) == [tag]
        said[tag] = page.browser.value("document.body.innerText").splitlines()
        assert page.browser.value("document.documentElement.dataset.verdict") == "FAIL"
    assert told.sentence in said["en"]
    assert (
        "Verlassen Sie sich nicht auf diese Dateien: Etwas darin ist nicht, wie es veröffentlicht wurde." in said["de"]
    )
    assert len({len(lines) for lines in said.values()}) == 1
    names = {"English", "Deutsch", "français", "Français", "", *(line for line in said["en"] if "ed25519:" in line)}
    for tag in set(LANGUAGES) - {"en"}:
        assert {line for line in said[tag] if line in said["en"]} <= names, tag
        assert not [line for line in said[tag] if "{" in line or "undefined" in line or "`" in line], tag
    page.browser.value("document.querySelector('[data-tag=en]').click()")
    assert page.browser.value("document.body.innerText").splitlines() == said["en"]


def test_a_dropped_folder_is_read_whole(page: Page, tmp_path: Path) -> None:
    """As when it is dragged onto the page: entries come a hundred at a time, and folders in folders."""
    page.browser.open(page.path)
    made: Any = page.browser.value(
        """(async () => {
          const file = (name) => ({ isFile: true, name, file: (done) => done({ name, size: 1 }) });
          const folder = (name, parts) => ({ isFile: false, name, createReader: () => {
            const left = [...parts];
            return { readEntries: (done) => done(left.splice(0, 2)) };
          } });
          const top = folder("bundle", [file("a"), file("b"), folder("in", [file("c")]), file("d"), file("e")]);
          return [...gathered(await walk(top, top.name)).keys()].sort();
        })()"""
    )
    assert made == ["a", "b", "d", "e", "in/c"]
