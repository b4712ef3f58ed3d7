"""certificate.pdf: all of its fields, tagged, and the same bytes wherever and whenever it is made."""

from __future__ import annotations

import builtins
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from dprelease.catalog.table import Mapped
from dprelease.errors import BrokenPromiseError, MissingExtra
from dprelease.plan.document import ReleasePlan
from dprelease.plan.document.approval import Signed
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.publish.accounting.levels import NONE, levels
from dprelease.publish.base import NOTICE, Content
from dprelease.publish.certificate import compiler
from dprelease.publish.certificate.blocks import BLANK, BlockList, BlockText, CertificateTable, texts_of
from dprelease.publish.certificate.compiler import compiled
from dprelease.publish.certificate.glyphs import COVERED, in_lines, printable
from dprelease.publish.certificate.pdf import certificate_data, certificate_files, certificate_texts
from dprelease.publish.certificate.sections import MOST_STEPS, certificate_blocks, rational_text
from dprelease.signature import PublicKey
from dprelease.spec.fields.published.office import Office
from tests.unit.formats_example import chosen, hostile, plain, whole

ZCDP = ACCOUNTANTS["zcdp"].words
CASES: dict[str, Callable[[], Content]] = {"plain": plain, "chosen": chosen, "hostile": hostile, "whole": whole}
KEY = "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
ROOT = Path(__file__).parents[2]
MOMENT = datetime(2024, 4, 5, tzinfo=UTC)
AGAIN = """
import sys, time
time.time = lambda: 4102444800.0
from tests.unit.formats_example import plain
from dprelease.publish.certificate.pdf import certificate_files
sys.stdout.buffer.write(certificate_files(plain(), {})["certificate.pdf"])
"""
# What would be markup, code, a file, a package or a control sign, if any of it were not a plain string.
HOSTILE = (
    '#eval("1+1") $x^2$ *b* _i_ @ref <label> `raw` = h',
    '#import "@preview/cetz:0.3.0"',
    '#read("/etc/hostname") #image("/etc/hostname") #include "/etc/hostname"',
    "]] #panic() ))}} \\ \" ' // comment /* */ ~ --- #sys.inputs.data",
    '"}); #set page(width: 1pt)',
    "https://example.org/ file:///etc/hostname",
    "a\x00b\u202ec\ue000d\ufffe統計 😀 ﷺ ก",
    "x" * 300,
)


def text_of(content: Content) -> str:
    """The words of a certificate, in reading order."""
    return " ".join(" ".join(certificate_texts(content)).split())


def tables_of(content: Content) -> dict[str, CertificateTable]:
    return {each.caption: each for each in certificate_blocks(content) if isinstance(each, CertificateTable)}


def with_office(content: Content, **said: Any) -> Content:
    """The same release with what an office states of it."""
    plan = content.plan.model_copy(update={"office": Office.model_validate_json(json.dumps(said))})
    return replace(content, plan=plan)


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
    return certificate_files(content, {})["certificate.pdf"]


def test_it_has_every_field_that_a_certificate_needs() -> None:
    content = plain()
    text, plan, facts = text_of(content), content.plan, content.facts
    wanted = [
        "Regional monitor: population and income", "2024-03", "Example Statistical Office", "Regional planning",
        "Unsigned. Not valid unless signed.", "no approval of the plan was recorded",
        "19/10", "1/1000000000", "7/3200", "add_remove", "each person", ZCDP.framework, ZCDP.theorem,
        "1/4", "3/4",
        "region of persons", "income of persons", "one person more or less", "8 at once",
        "discrete Gaussian", "L2 200,000", "8,000,000", "there are no invariants", "ab" * 32,
        "A mean is the middle of its clip", "acs", "3.1", "3.7", "opendp 0.15.0", "operating system",
        facts.plan_fingerprint, plan.spec_fingerprint, facts.ledger_hash, "17, charged 2024-04-05 06:00:03 UTC",
        "A legal opinion", "no approval of the plan was recorded",
    ]  # fmt: skip
    assert [each for each in wanted if each not in text] == []
    assert NOTICE not in text
    assert NOTICE in text_of(plain(rehearsal=True))


def test_a_signature_and_the_signatories_are_named() -> None:
    content = plain()
    alice = Signed(
        name="alice", role="data-owner", key=KEY, at="2024-04-01T08:00:00Z", signature="", heads={}, statement=""
    )
    facts = content.facts.model_copy(update={"signer": KEY, "approvals": (alice,)})
    text = text_of(replace(content, facts=facts))
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
        text = text_of(content)
        assert "Share of the level" not in text
        assert "Shares of the levels" not in text
    content = plain()
    facts = content.facts.model_copy(update={"plan_fingerprint": nested().fingerprint()})
    text = text_of(replace(content, plan=nested(), facts=facts))
    assert "region 1/4 25 % 1" in text
    assert "state 3/4 75 % 1" in text


OFFICE_LINES = (
    "Version", "Where errors are told, and corrections appear", "Clearance number",
    "Controller, in the sense of the law", "Region, law and sector", "Legal basis",
    "Advice of the data protection officer", "Retention of the data", "Why this budget",
)  # fmt: skip


def test_what_the_office_did_not_say_is_a_line_to_write_on_and_nothing_is_put_in_its_place() -> None:
    content = plain()
    rows = {row[0]: row[1] for table in tables_of(content).values() for row in table.rows if len(row) == 2}
    assert [rows[name] for name in OFFICE_LINES] == ["1", *[BLANK] * (len(OFFICE_LINES) - 1)]
    assert tables_of(content)["To be signed"].rows == ((BLANK,) * 4,) * 3
    assert tables_of(content)["By the office, in its own words"].rows == ((BLANK,) * 3,)
    curator = content.plan.release.curator
    assert text_of(content).count(curator) == 1  # as the curator, and neither as controller nor as signatory


def test_what_the_office_says_stands_there_in_its_own_words() -> None:
    said = {
        "controller": "Ministry", "jurisdiction": "Land, StatG, public", "legal_basis": "Section 16 StatG",
        "officer_advice": "No objection, 2 May 2024", "retention": "Deleted after 5 years",
        "why_this_budget": "The board chose it", "version": "1.0", "corrections": "errata@example.org",
        "clearance": "FY24-017",
        "alternatives": [{"budget": "half of it", "accuracy": "margins twice as wide", "why_not": "too wide"}],
        "signatories": [{"role": "Data owner", "name": "A. Owner", "date": "2024-05-03"}, {"role": "Board"}],
    }  # fmt: skip
    content = with_office(plain(), **said)
    tables = tables_of(content)
    rows = {row[0]: row[1] for table in tables.values() for row in table.rows if len(row) == 2}
    order = (
        "version", "corrections", "clearance", "controller", "jurisdiction", "legal_basis", "officer_advice",
        "retention", "why_this_budget",
    )  # fmt: skip
    assert [rows[name] for name in OFFICE_LINES] == [said[name] for name in order]
    signed = (("Data owner", "A. Owner", "2024-05-03", BLANK), ("Board", BLANK, BLANK, BLANK))
    assert tables["To be signed"].rows == signed
    assert tables["By the office, in its own words"].rows == (("half of it", "margins twice as wide", "too wide"),)


def test_footnotes_stand_only_where_they_have_a_row() -> None:
    assert "“Within”" not in text_of(plain())
    content = plain()
    facts = content.facts.model_copy(update={"plan_fingerprint": nested().fingerprint()})
    text = text_of(replace(content, plan=nested(), facts=facts))
    assert "within one region" in text
    assert "“Within” says" in text


def test_long_step_tables_are_cut_and_say_so() -> None:
    content = plain()
    more = tuple(content.plan.steps[0].model_copy(update={"id": f"further-{at}"}) for at in range(100))
    plan = content.plan.model_copy(update={"steps": (*content.plan.steps, *more)})
    facts = content.facts.model_copy(update={"plan_fingerprint": plan.fingerprint()})
    text = text_of(replace(content, plan=plan, facts=facts))
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
    assert root["/Lang"].startswith("en")
    assert "/OutputIntents" in root
    assert root["/ViewerPreferences"]["/DisplayDocTitle"]
    assert reader.metadata.title.startswith("Certificate of privacy accounting: ")
    kinds = tags(root["/StructTreeRoot"])
    assert {"/H1", "/H2", "/Table", "/TR", "/TH", "/TD", "/Caption", "/L", "/P"} <= set(kinds)
    assert {"/Figure", "/Formula"} & set(kinds) == set()  # there is nothing that would need words in its place
    assert kinds.count("/H1") == 1
    assert all(page["/Tabs"] == "/S" for page in reader.pages)
    assert 1 <= len(reader.pages) <= 4
    described = root["/Metadata"].get_data().decode()
    assert re.search(r"<pdfuaid:part>1</pdfuaid:part>|pdfuaid:part=\"1\"", described)
    assert re.search(r"<pdfaid:part>2</pdfaid:part>|pdfaid:part=\"2\"", described)
    assert re.search(r"<pdfaid:conformance>A</pdfaid:conformance>|pdfaid:conformance=\"A\"", described)
    fonts = [font.get_object() for page in reader.pages for font in page["/Resources"]["/Font"].values()]
    assert all("/ToUnicode" in font for font in fonts)
    kept = [font["/DescendantFonts"][0].get_object()["/FontDescriptor"] for font in fonts]
    assert all({"/FontFile2", "/FontFile3"} & set(each) for each in kept)


def tags(node: Any) -> list[str]:
    """The kinds of all elements of a structure tree."""
    node = node.get_object() if hasattr(node, "get_object") else node
    if isinstance(node, list):
        return [kind for each in node for kind in tags(each)]
    if not isinstance(node, dict):
        return []
    own = [str(node["/S"])] if "/S" in node else []
    return own + (tags(node["/K"]) if "/K" in node else [])


def test_every_text_is_in_the_file_and_can_be_copied_out_of_it() -> None:
    """Hashes as well: where they may break is no sign of the text."""
    pypdf = pytest.importorskip("pypdf")
    content = plain()
    shown = "".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(made(content))).pages)
    bare = "".join(shown.split())
    lacking = [each for each in certificate_texts(content) if "".join(each.split()) not in bare]
    assert [each for each in lacking if len(each) < 60] == []  # a longer one can go on behind the foot of a page
    assert content.facts.plan_fingerprint in shown
    assert "\u200b" not in shown


@pytest.mark.slow
def test_the_bytes_are_the_same_on_repeat_on_other_days_in_other_folders_and_with_other_fonts(tmp_path: Path) -> None:
    once = made(plain())
    fonts = next(iter(Path("/usr/share/fonts").rglob("*.[to]tf")), tmp_path).parent
    other = {"TZ": "Asia/Tokyo", "SOURCE_DATE_EPOCH": "1", "LC_ALL": "C", "LANG": "C", "HOME": str(tmp_path)}
    environment = {**os.environ, **other, "PYTHONPATH": str(ROOT), "TYPST_FONT_PATHS": str(fonts)}
    done = subprocess.run(
        [sys.executable, "-c", AGAIN], cwd=tmp_path, env=environment, capture_output=True, check=True, timeout=300
    )
    assert done.stdout == once
    assert list(tmp_path.iterdir()) == []


def test_the_time_in_it_is_that_of_the_charge() -> None:
    pypdf = pytest.importorskip("pypdf")
    reader = pypdf.PdfReader(io.BytesIO(made(plain())))
    assert reader.metadata.creation_date.date().isoformat() == "2024-04-05"


BREAKS = {
    "a formula without words": "\n$ x^2 $\n",
    "a drawing without words": "\n#figure(rect(width: 1cm, height: 1cm))\n",
    "a sign for private use": '\n#"\\u{e000}"\n',
    "a letter that no font has": '\n#text("統")\n',
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_template_that_breaks_the_standards_makes_no_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What checks PDF/A-2a and PDF/UA-1 is Typst: with both asked for it refuses to write a file that breaks one."""
    broken, data = compiler._template() + BREAKS[name].encode(), certificate_data(plain())
    monkeypatch.setattr(compiler, "_template", lambda: broken)
    compiler._compiled.cache_clear()
    with pytest.raises(BrokenPromiseError) as caught:
        compiled(data, MOMENT)
    assert caught.value.code == "DPR-B110"
    monkeypatch.setattr(compiler, "STANDARDS", ())  # nothing else is wrong with it
    assert compiled(data, MOMENT).startswith(b"%PDF-")
    compiler._compiled.cache_clear()


def test_the_template_imports_and_reads_nothing() -> None:
    text = (files("dprelease.publish") / "templates" / "certificate.typ").read_text(encoding="utf-8")
    code = re.sub(r"//.*", "", text)
    assert not re.search(r"\b(import|include|read|image|plugin|eval|csv|yaml|toml|cbor|xml|bibliography)\b", code)
    assert "@" not in code
    assert code.count("json(") == 1
    assert "json(bytes(sys.inputs.data))" in code


@pytest.mark.parametrize("error", [ImportError("no"), ModuleNotFoundError("no")])
def test_what_is_missing_is_named(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name == "typst":
            raise error
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtra, match="pip install typst"):
        certificate_files(plain(period="2024-05"), {})


def test_what_an_author_writes_is_inert() -> None:
    """Every text of spec and facts, wherever it may stand, comes out as its own letters, and nothing happens."""
    pypdf = pytest.importorskip("pypdf")
    content = plain()
    one, two, three, four, five, six, seven, eight = HOSTILE
    release = content.plan.release.model_copy(
        update={"title": one, "curator": two, "contact": three, "intended_use": four}
    )
    plan = content.plan.model_copy(update={"release": release, "office": Office(
        controller=five, legal_basis=six, retention=seven, why_this_budget=eight, version=one, clearance=three,
    )})  # fmt: skip
    data = made(replace(content, plan=plan))
    reader = pypdf.PdfReader(io.BytesIO(data))
    bare = "".join("".join(page.extract_text() for page in reader.pages).split())
    lacking = [each for each in HOSTILE[:6] if "".join(each.split()) not in bare]
    assert lacking == []
    assert "a[U+0000]b[U+202E]c[U+E000]d[U+FFFE][U+7D71][U+8A08][U+1F600]" in bare
    assert b"/URI" not in data
    assert b"/EmbeddedFile" not in data
    assert all(float(page.mediabox.width) > 590 for page in reader.pages)


@pytest.mark.slow
def test_every_letter_that_is_called_covered_is_one_and_others_are_written_as_numbers() -> None:
    """In one file under PDF/A-2a, which refuses a letter that no font has."""
    covered = []
    for part in COVERED.split():
        first, _, last = part.partition("-")
        covered += [chr(at) for at in range(int(first, 16), int(last or first, 16) + 1)]
    assert len(covered) > 6000
    shown = [each for each in covered if printable(each) == each]
    assert len(shown) > 6000
    assert compiled({**certificate_data(plain()), "blocks": [BlockList(tuple(shown)).as_data()]}, MOMENT)
    assert printable("統\ue000\U0001f600") == "[U+7D71][U+E000][U+1F600]"


@pytest.mark.parametrize(
    "text", ["a" * 17, "a" * 400, "ö" * 40, "0123456789abcdef" * 4, "two words", "", "e\u0301" * 30]
)
def test_a_long_run_may_break_and_loses_no_sign(text: str) -> None:
    (found,) = texts_of([BlockText(text)])
    assert found == text
    longest = max(map(len, in_lines(text).split("\u200b")))
    assert longest <= 60


def test_a_title_without_a_space_stays_on_the_page() -> None:
    pypdf = pytest.importorskip("pypdf")
    content = plain()
    release = content.plan.release.model_copy(update={"title": "Wide" * 60, "curator": "W" * 200})
    reader = pypdf.PdfReader(
        io.BytesIO(made(replace(content, plan=content.plan.model_copy(update={"release": release}))))
    )
    beyond: list[float] = []

    def look(text: str, _: Any, at: Any, font: Any, size: float) -> None:
        del font, size
        if text.strip():
            beyond.append(float(at[4]))

    reader.pages[0].extract_text(visitor_text=look)
    assert "Wide" * 60 in "".join(reader.pages[0].extract_text().split())
    assert max(beyond, default=0.0) < 595 - 40
    assert "Wide" * 60 not in reader.pages[0].extract_text(), "no line is that long"
