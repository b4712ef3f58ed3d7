"""certificate.pdf: all of its fields, tagged, and the same bytes wherever and whenever it is made."""

from __future__ import annotations

import builtins
import io
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dprelease.catalog.table import Mapped
from dprelease.errors import MissingExtra
from dprelease.plan.document import ReleasePlan
from dprelease.plan.document.approval import Signed
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.publish.accounting import certificate
from dprelease.publish.accounting.certificate import (
    MOST_STEPS,
    certificate_files,
    certificate_html,
    rational_text,
)
from dprelease.publish.accounting.levels import NONE, levels
from dprelease.publish.base import NOTICE, Content
from dprelease.signature import PublicKey
from tests.unit.formats_example import chosen, hostile, plain, whole

ZCDP = ACCOUNTANTS["zcdp"].words
CASES: dict[str, Callable[[], Content]] = {"plain": plain, "chosen": chosen, "hostile": hostile, "whole": whole}
KEY = "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
ROOT = Path(__file__).parents[2]
AGAIN = """
import sys, time
time.time = lambda: 4102444800.0
from tests.unit.formats_example import plain
from dprelease.publish.accounting.certificate import certificate_files
sys.stdout.buffer.write(certificate_files(plain(), {})["certificate.pdf"])
"""


def text_of(page: bytes) -> str:
    """The words of a page, without its marks."""
    body = re.sub(r"<style>.*?</style>", " ", page.decode(), flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", body).split())


def nested() -> ReleasePlan:
    """The plan with regions that are made of states."""
    plan = plain().plan
    table = plan.catalog.tables["persons"]
    pairs = (("06", "4"), ("08", "4"), ("12", "3"), ("36", "1"), ("48", "3"), ("50", "1"))
    columns = {column.name: column for column in table.columns}
    region = columns.pop("region").model_copy(update={"derivation": Mapped(of="state", pairs=pairs)})
    changed = table.model_copy(update={"columns": (*columns.values(), region)})
    return plan.model_copy(update={"catalog": plan.catalog.model_copy(update={"tables": {"persons": changed}})})


def made(content: Content) -> bytes:
    try:
        return certificate_files(content, {})["certificate.pdf"]
    except MissingExtra as missing:
        pytest.skip(str(missing))


def test_it_has_every_field_that_a_certificate_needs() -> None:
    content = plain()
    text, plan, facts = text_of(certificate_html(content)), content.plan, content.facts
    wanted = [
        "Regional monitor: population and income", "2024-03", "Example Statistical Office", "Regional planning",
        "Unsigned. Not valid unless signed.", "no approval of the plan was recorded",
        "19/10", "1/1000000000", "7/3200", "add_remove", "each person", ZCDP.framework, ZCDP.theorem,
        "1/4", "3/4",
        "region of persons", "income of persons", "one person more or less", "8 at once",
        "discrete Gaussian", "L2 200,000", "8,000,000", "there are no invariants", "ab" * 32,
        "A mean is the middle of its clip", "acs", "3.1", "3.7", "opendp 0.15.0", "operating system",
        facts.plan_fingerprint, plan.spec_fingerprint, facts.ledger_hash, "17, charged 2024-04-05 06:00:03 UTC",
        "A legal opinion",
    ]  # fmt: skip
    assert [each for each in wanted if each not in text] == []
    assert NOTICE not in text
    assert NOTICE in text_of(certificate_html(plain(rehearsal=True)))


def test_a_signature_and_the_signatories_are_named() -> None:
    content = plain()
    alice = Signed(
        name="alice", role="data-owner", key=KEY, at="2024-04-01T08:00:00Z", signature="", heads={}, statement=""
    )
    facts = content.facts.model_copy(update={"signer": KEY, "approvals": (alice,)})
    text = text_of(certificate_html(replace(content, facts=facts)))
    assert "Not valid unless signed." in text
    assert "Unsigned" not in text
    assert PublicKey.from_text(KEY).fingerprint in text
    assert f"alice data-owner 2024-04-01 08:00:00 UTC {KEY}" in text


def test_shares_of_levels_and_queries_are_exact_and_add_up() -> None:
    found = levels(nested())
    assert {level.name: level.share for level in found} == {"region": Fraction(1, 4), "state": Fraction(3, 4)}
    assert sum(level.share for level in found) == 1
    for level in found:
        assert sum(query.within for query in level.queries) == 1
        assert all(query.within * level.share == query.share for query in level.queries)


def test_a_first_key_column_is_a_level_only_where_the_specification_nests_it_in_another_one() -> None:
    """Regions that are no recoding of the states are no level, and neither are tables without a key."""
    for content in (plain(), whole()):
        assert [(level.name, level.share) for level in levels(content.plan)] == [(NONE, Fraction(1))]
        text = text_of(certificate_html(content))
        assert "Level" not in text
        assert "Share of the level" not in text
    content = plain()
    facts = content.facts.model_copy(update={"plan_fingerprint": nested().fingerprint()})
    text = text_of(certificate_html(replace(content, plan=nested(), facts=facts)))
    assert "Level region , 1/4 of the release" in text
    assert "Level state , 3/4 of the release" in text


def test_what_nobody_was_asked_for_is_a_line_to_write_on_and_no_statement() -> None:
    text = text_of(certificate_html(plain()))
    for name in ("Controller, in the sense of the law", "Region, law and sector", "Clearance number", "Signature"):
        assert f"{name} {'_' * 48}" in text
    assert "Region, law, sector" not in text


def test_footnotes_stand_only_where_they_have_a_row() -> None:
    assert "“Within”" not in text_of(certificate_html(plain()))
    content = plain()
    facts = content.facts.model_copy(update={"plan_fingerprint": nested().fingerprint()})
    text = text_of(certificate_html(replace(content, plan=nested(), facts=facts)))
    assert "within one region" in text
    assert "“Within” says" in text


def test_long_step_tables_are_cut_and_say_so() -> None:
    content = plain()
    more = tuple(content.plan.steps[0].model_copy(update={"id": f"further-{at}"}) for at in range(100))
    plan = content.plan.model_copy(update={"steps": (*content.plan.steps, *more)})
    facts = content.facts.model_copy(update={"plan_fingerprint": plan.fingerprint()})
    text = text_of(certificate_html(replace(content, plan=plan, facts=facts)))
    assert f"the first {MOST_STEPS} of 104, all of them are in accounting.json" in text
    assert text.count("further-") == MOST_STEPS - 4


@pytest.mark.parametrize(
    "value", [Fraction(1, 3), Fraction(10**60 + 1, 3 * 10**60), Fraction(7**90, 5**90), Fraction(1, 7**99)]
)
def test_a_rational_is_exact_or_just_above(value: Fraction) -> None:
    text = rational_text(value)
    if text.startswith("≤ "):
        shown = Fraction(text[2:])
        assert value <= shown <= value * (1 + Fraction(1, 10**8))
    else:
        assert Fraction(text) == value


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("case", CASES)
def test_it_is_tagged_and_says_its_language_and_title(case: str) -> None:
    pypdf = pytest.importorskip("pypdf")
    content = CASES[case]()
    reader = pypdf.PdfReader(io.BytesIO(made(content)))
    root = reader.trailer["/Root"]
    assert root["/MarkInfo"]["/Marked"]
    assert root["/Lang"] == "en"
    assert root["/ViewerPreferences"]["/DisplayDocTitle"]
    assert reader.metadata.title.startswith("Certificate of privacy accounting: ")
    kinds = tags(root["/StructTreeRoot"])
    assert {"/H1", "/H2", "/Table", "/TR", "/TH", "/TD", "/Caption", "/L", "/P"} <= set(kinds)
    assert kinds.count("/H1") == 1
    assert all(page["/Tabs"] == "/S" for page in reader.pages)
    assert 1 <= len(reader.pages) <= 4
    identification = re.search(rb'xmlns:(\w+)="http://www.aiim.org/pdfua/ns/id/"', root["/Metadata"].get_data())
    assert identification is not None
    assert identification[1] + b':part="1"' in root["/Metadata"].get_data()


def tags(node: Any) -> list[str]:
    """The kinds of all elements of a structure tree."""
    node = node.get_object() if hasattr(node, "get_object") else node
    if isinstance(node, list):
        return [kind for each in node for kind in tags(each)]
    if not isinstance(node, dict):
        return []
    own = [str(node["/S"])] if "/S" in node else []
    return own + (tags(node["/K"]) if "/K" in node else [])


@pytest.mark.slow
def test_the_bytes_are_the_same_on_repeat_on_other_days_and_in_other_folders(tmp_path: Path) -> None:
    once = made(plain())
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TZ": "Asia/Tokyo", "SOURCE_DATE_EPOCH": "1", "LANG": "C"}
    done = subprocess.run(
        [sys.executable, "-c", AGAIN], cwd=tmp_path, env=environment, capture_output=True, check=True, timeout=300
    )
    assert done.stdout == once
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_another_plan_has_another_identifier_and_the_environment_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    pypdf = pytest.importorskip("pypdf")
    content = plain()
    ids = pypdf.PdfReader(io.BytesIO(made(content))).trailer["/ID"]
    assert "SOURCE_DATE_EPOCH" not in os.environ
    assert bytes(ids[0].original_bytes) == bytes.fromhex(content.facts.plan_fingerprint)[:16]


@pytest.mark.slow
def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by the page as it is, nor by one into which somebody got a reference."""
    made(plain())  # or skip
    from weasyprint.urls import URLFetcher

    asked, opened = [], []
    real = URLFetcher.fetch

    def fetch(self: Any, url: str, headers: Any = None) -> Any:
        asked.append(url)
        return real(self, url, headers)

    monkeypatch.setattr(URLFetcher, "fetch", fetch)
    monkeypatch.setattr(urllib.request.OpenerDirector, "open", lambda self, *rest, **more: opened.append(rest))
    made(hostile())
    assert asked == []
    links = ("https://example.org/a.png", "file:///etc/hostname", "data:image/png;base64,AAAA")
    marks = "".join(f'<img alt="" src="{link}">' for link in links)
    real_html = certificate.certificate_html
    poisoned = real_html(plain()).decode().replace("<h1>", f"<h1>{marks}").encode()
    monkeypatch.setattr(certificate, "certificate_html", lambda content: poisoned)
    made(plain())
    assert set(asked) == set(links)
    assert opened == []


@pytest.mark.parametrize(
    ("error", "hint"), [(ImportError("no"), r'pip install "dprelease\[pdf\]"'), (OSError("cannot load"), "Pango")]
)
def test_what_is_missing_is_named(error: Exception, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name == "weasyprint":
            raise error
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtra, match=hint) as caught:
        certificate_files(plain(), {})
    assert "publish: formats" in str(caught.value)


def test_what_an_author_writes_is_inert() -> None:
    content = plain()
    release = content.plan.release.model_copy(
        update={"title": '<img src="https://x.example">\u202e', "curator": "\"><style>@import 'https://x.example'"}
    )
    page = certificate_html(replace(content, plan=content.plan.model_copy(update={"release": release}))).decode()
    assert "<img" not in page
    assert page.count("<style>") == 1
    assert "\u202e" not in page
