"""Every error that the program can raise has a text, and every text an error; what the texts show can be typed."""

from __future__ import annotations

import re
from collections import Counter

import pytest
import yaml
from typer.testing import CliRunner

from dprelease.cli.app import app
from dprelease.error_codes import codes_meant, codes_near, entries, error_pages, error_texts, first_sentence
from dprelease.ledger import schemes
from dprelease.spec.project import load_policy, load_project

from .documents import ROOT
from .test_documents import problem_of

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_REMEDY = re.compile(r"^\*\*What to do:\*\* (.+?)(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
_SENTENCE_END = re.compile(r"[.?!](?=\s|\Z)")
EXAMPLES = [(code, text) for code, page in error_texts().items() for _, text in _FENCE.findall(page)]


def raised() -> set[str]:
    """Every code in the source."""
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "dprelease").rglob("*.py"))
    return {code for text in sources for code in re.findall(r"DPR-[A-Z]\d{3}", text)}


def prose(text: str) -> str:
    """An entry without its examples and what to do."""
    return _REMEDY.sub("", _FENCE.sub("", text)).strip()


def test_every_error_has_a_text() -> None:
    assert sorted(raised() - set(error_texts())) == [], "write it into dprelease/error_codes"


def test_every_text_is_of_an_error() -> None:
    assert sorted(set(error_texts()) - raised()) == []


def test_every_error_has_one_text_in_order_on_its_page() -> None:
    by_page = {name: [code for code, _ in entries(page)] for name, page in error_pages().items()}
    headings = sum(len(re.findall(r"^#+ ", page, re.MULTILINE)) - 1 for page in error_pages().values())

    every = Counter(code for codes in by_page.values() for code in codes)
    assert [code for code, times in every.items() if times > 1] == []
    assert headings == sum(map(len, by_page.values()))
    for name, codes in by_page.items():
        assert codes == sorted(codes), name
        for code in codes:
            longest = max((each for each in by_page if code.startswith(f"DPR-{each}")), key=len, default="")
            assert longest == name, f"{code} is on page {name}"


@pytest.mark.parametrize("name", error_pages())
def test_a_page_has_fewer_than_400_lines(name: str) -> None:
    assert len(error_pages()[name].splitlines()) < 400


@pytest.mark.parametrize("code", error_texts())
def test_a_text_says_what_is_wrong_and_why_and_what_to_do(code: str) -> None:
    text = error_texts()[code]
    said = prose(text)

    assert len(_REMEDY.findall(text)) == 1
    assert len(_SENTENCE_END.findall(said)) >= 2
    assert said.endswith(".")
    assert said[0].isupper() or said[0] == "`"
    assert 15 < len(first_sentence(text)) < 260
    assert text.count("```") % 2 == 0


@pytest.mark.parametrize("code", error_texts())
def test_every_command_of_a_text_exists(code: str) -> None:
    commands = re.findall(r"`(dprelease [^`]+)`", " ".join(error_texts()[code].split()))

    assert [problem for line in commands if (problem := problem_of(line))] == []


@pytest.mark.parametrize(("code", "example"), EXAMPLES, ids=[code for code, _ in EXAMPLES])
def test_every_example_is_yaml_of_known_fields(code: str, example: str) -> None:
    loaded = yaml.load(example, yaml.BaseLoader)  # as the reader of specs: `on` is a name
    known = (ROOT / "specs" / "schema.json").read_text(encoding="utf-8") + _OF_THE_POLICY_AND_SETTINGS

    assert isinstance(loaded, dict)
    assert [name for name in _fields(loaded) if f'"{name}"' not in known] == []


@pytest.mark.parametrize(("code", "example"), EXAMPLES, ids=[code for code, _ in EXAMPLES])
def test_every_example_of_a_policy_or_of_settings_loads_without_a_problem(code: str, example: str) -> None:
    top = set(yaml.load(example, yaml.BaseLoader))
    if top == {"accounts"}:
        assert load_policy(example, code).accounts
    elif top & {"ledger", "host", "shared_anchors"}:
        ledger = "" if "ledger" in top else "ledger: sqlite:///state/ledger.db\n"
        assert load_project(ledger + example, code, schemes())


# What stands in policy.yaml and dprelease.yaml, which the schema of a spec does not have.
_OF_THE_POLICY_AND_SETTINGS = (
    '"accounts" "composition" "lifetime" "window" "nests" "selecting" "order" "parallel" "per" "ledger" "host" '
    '"shared_anchors" "approvals" "required"'
)
# Below these come names that the author chooses.
_CHOSEN = {
    "accounts", "references", "tables", "queries", "measures", "derive", "hierarchies", "columns", "nests", "labels", "to",
    "expect", "target", "levels", "required",
}  # fmt: skip


def _fields(value: object, *, chosen: bool = False) -> list[str]:
    """The names of fields in an example, without those that an author chooses."""
    if isinstance(value, list):
        return [name for each in value for name in _fields(each)]
    if not isinstance(value, dict):
        return []
    found = [] if chosen else [str(name) for name in value]
    for name, each in value.items():
        found += _fields(each, chosen=not chosen and name in _CHOSEN)
    return found


def test_a_wrong_field_in_an_example_would_be_found() -> None:
    assert _fields({"tables": {"mine": {"bonds": {"max_rows": 3}}}}) == ["tables", "bonds", "max_rows"]


def _explain(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["explain", *arguments])
    return done.exit_code, " ".join(done.output.split())


def test_a_code_is_found_as_people_write_it() -> None:
    assert codes_meant("DPR-S413") == codes_meant("s413") == codes_meant(" dpr-s413 ") == ("DPR-S413",)
    assert len(codes_meant("S41")) == len([code for code in error_texts() if code.startswith("DPR-S41")])
    assert codes_meant("budget") == codes_meant("") == codes_meant("S4133") == ()
    assert "DPR-S413" in codes_near("DPR-S431")


def test_the_command_prints_the_text_of_a_code() -> None:
    code, said = _explain("s413")

    assert code == 0
    assert said == "DPR-S413 " + " ".join(error_texts()["DPR-S413"].split())


def test_the_command_prints_several_texts_and_lists_those_of_a_beginning() -> None:
    both = _explain("S413", "K104")[1]
    assert "DPR-S413 A query" in both
    assert "**What to do:**" in both.partition("DPR-K104")[2]
    listed = _explain("K1")[1]
    assert "DPR-K122" in listed
    assert "What to do" not in listed


def test_the_command_without_a_code_lists_every_first_sentence() -> None:
    code, said = _explain()

    assert code == 0
    assert all(f"{each} {first_sentence(text)}" in said for each, text in error_texts().items())


def test_an_unknown_code_ends_with_2_and_names_what_is_near() -> None:
    code, said = _explain("DPR-S441")

    assert code == 2
    assert "DPR-S414" in said
    assert _explain("budget")[0] == 2
