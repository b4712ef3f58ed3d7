"""What README and docs show can be typed and comes out as shown."""

from __future__ import annotations

import doctest
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer.main

from dprelease import errors
from dprelease.cli.app import app

from .documents import ROOT, STARTER, Block, blocks, documents

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
WITH_EXAMPLES = [path for path in documents() if ">>> " in path.read_text(encoding="utf-8")]


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _shown_commands() -> Iterator[tuple[str, str]]:
    for block in blocks("console", "bash"):
        for offset, line in enumerate(block.text.splitlines()):
            if line.startswith("dprelease "):
                yield f"{block.file}:{block.line + offset}", line
    for path in documents():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            for shown in re.findall(r"`(dprelease [^`]+)`", line):
                yield f"{_name(path)}:{number}", shown


SHOWN = list(_shown_commands())


def problem_of(line: str) -> str:
    """What is wrong with a command line: an unknown command or option; empty where nothing is."""
    command: Any = typer.main.get_command(app)
    words = shlex.split(line)[1:]
    while hasattr(command, "commands"):
        if not words:
            return ""  # a group by itself prints its help
        if words[0].startswith("-"):
            break
        if words[0] not in command.commands:
            return f"no command {words[0]!r}"
        command = command.commands[words.pop(0)]
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    unknown = [word for word in words if word.startswith("--") and word.split("=")[0] not in known]
    return f"no option {unknown[0]!r}" if unknown else ""


@pytest.mark.parametrize(("where", "line"), SHOWN, ids=[where for where, _ in SHOWN])
def test_every_command_shown_exists_with_its_options(where: str, line: str) -> None:
    assert problem_of(line) == ""


def test_an_unknown_command_or_option_would_be_found() -> None:
    assert problem_of("dprelease forget everything") == "no command 'forget'"
    assert problem_of("dprelease ledger burn") == "no command 'burn'"
    assert problem_of("dprelease run spec.yaml --quick") == "no option '--quick'"
    assert problem_of("dprelease --quick") == "no option '--quick'"


def test_every_command_is_in_the_table_of_commands() -> None:
    command: Any = typer.main.get_command(app)
    named = "".join(re.findall(r"^\| (`dprelease .+?) \| ", COMMANDS, re.MULTILINE))

    missing = [name for name in command.commands if f"`dprelease {name}" not in named]

    assert missing == []


def test_every_make_target_shown_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    inline = [
        name for path in documents() for name in re.findall(r"`make ([a-z0-9-]+)", path.read_text(encoding="utf-8"))
    ]
    fenced = [
        name for block in blocks("console", "bash") for name in re.findall(r"^make ([a-z0-9-]+)", block.text, re.M)
    ]

    assert {"demo", "test"} <= set(fenced)
    assert set(inline + fenced) <= targets


def test_every_make_target_says_what_it_does() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.+)$", text, re.MULTILINE)

    assert phony is not None
    assert set(phony[1].split()) == set(re.findall(r"^([a-z0-9-]+):.*## ", text, re.MULTILINE))


def test_the_exit_codes_that_are_listed_are_those_of_the_errors() -> None:
    described = re.search(r"^Exit codes: (.+?)\n\Z", COMMANDS, re.MULTILINE | re.DOTALL)
    raised = {
        kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.DpReleaseError) and kind is not errors.DpReleaseError
    }

    assert described is not None
    assert {int(code) for code in re.findall(r"\d+", described[1])} == raised | {0, 130}


def test_every_link_to_a_file_leads_somewhere() -> None:
    broken = [
        f"{_name(path)}: {target}"
        for path in documents()
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text(encoding="utf-8"))
        if not (path.parent / target).exists()
    ]

    assert broken == []


@pytest.mark.parametrize("block", [*blocks("python"), *blocks("py")], ids=str)
def test_python_without_a_prompt_compiles(block: Block) -> None:
    if ">>> " not in block.text:
        compile(block.text, str(block), "exec")


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=_name)
def test_python_examples_of_the_documents_come_out_as_shown(path: Path) -> None:
    result = doctest.testfile(str(path), module_relative=False)

    assert result.attempted > 0
    assert result.failed == 0


def test_the_pipeline_of_a_new_project_names_what_exists() -> None:
    source = (STARTER / "pipeline.py.txt").read_text(encoding="utf-8")

    compile(source, "pipeline.py", "exec")
    imported = re.findall(r"^from (dprelease\S*) import (\w+)$", source, re.MULTILINE)

    assert imported
    for module, name in imported:
        assert hasattr(__import__(module, fromlist=[name]), name), f"{module}.{name}"


_MARK = re.compile(r" {0,3}(>|[+*-] )")
_AFTER = re.compile(r"  |[|>#<]|[+*-] |\d+\. |.*:$|$")


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_line_of_a_formula_is_taken_for_a_quotation_or_a_list(path: Path) -> None:
    """A paragraph that is broken before a sign: Markdown would end it there."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = [line for before, line in pairwise(text.split("\n")) if _MARK.match(line) and not _AFTER.match(before)]
    assert found == [], "break the line behind the sign"


def test_no_figure_of_the_readme_is_left_open() -> None:
    assert "{{" not in README


def test_the_readme_is_short_and_shows_one_small_picture() -> None:
    pictures = re.findall(r"!\[.+?\]\((.+?)\)", README)

    assert len(README.splitlines()) < 120
    assert len(pictures) == 1
    assert (ROOT / pictures[0]).read_bytes().startswith(b"\x89PNG")
    assert (ROOT / pictures[0]).stat().st_size < 150_000


def test_every_page_that_the_readme_held_before_is_one_link_away() -> None:
    linked = set(re.findall(r"\]\(docs/([^)#]+)", README))

    assert {
        "commands.md",
        "files-of-a-project.md",
        "glossary.md",
        "tutorial/first-release.md",
        "how-to/choose-epsilon.md",
        "how-to/start-from-your-own-csv.md",
        "how-to/when-something-goes-wrong.md",
    } <= linked
