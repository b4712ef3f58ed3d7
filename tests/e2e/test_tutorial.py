"""The tutorial, typed: its commands and edits in order, in an empty folder, and every line that it shows.

``run`` is given ``--direct`` here; ``test_readme.py`` takes the same first steps through Prefect, word for word.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.project import forked, on_terminal

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "first-release.md"
_FENCE = re.compile(r"^```(?P<kind>[a-z]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_ENDS = re.compile(r"  # stops with exit code (\d+)$")


class Fence(NamedTuple):
    """A fenced block of the page."""

    kind: str
    lines: list[str]


def fences(text: str) -> list[Fence]:
    return [Fence(found["kind"], found["text"].splitlines()) for found in _FENCE.finditer(text)]


def not_said(shown: list[str], said: str) -> list[str]:
    """The lines shown that do not stand in what was said, in this order; ``...`` stands for any lines.

    Lines that follow one another on the page do so in what was said.
    """
    lines, at, anywhere = [line.rstrip() for line in said.splitlines()], 0, True
    for line in shown:
        if line == "...":
            anywhere = True
            continue
        places = range(at, len(lines)) if anywhere else range(at, min(at + 1, len(lines)))
        found = next((place for place in places if lines[place] == line), None)
        if found is None:
            return [line]
        at, anywhere = found + 1, False
    return []


def edited(text: str, change: list[str]) -> str:
    """A file after an edit that is shown as a diff: what is taken away or stays is there exactly once."""
    before = "".join(line[1:] + "\n" for line in change if not line.startswith("+"))
    after = "".join(line[1:] + "\n" for line in change if not line.startswith("-"))
    assert text.count(before) == 1, before
    return text.replace(before, after)


def typed(folder: Path, line: str) -> tuple[Path, str]:
    """Run a line of the page; the folder afterwards, and what was said."""
    ends = _ENDS.search(line)
    program, *words = shlex.split(line, comments=True)
    if program == "cd":
        return folder / words[0], ""
    assert program == "dprelease"
    if words[0] == "look":
        code, said = on_terminal(folder, *words)
    else:
        ended = forked(folder, *words, *(["--direct"] if words[0] == "run" else []))
        code, said = ended.code, ended.out + ended.err
    assert code == (int(ends[1]) if ends else 0), f"{line}: exit {code}\n{said}"
    assert "Traceback" not in said
    return folder, said


@pytest.mark.slow
def test_the_tutorial_can_be_typed_and_comes_out_as_shown(tmp_path: Path) -> None:
    folder, said, everything = tmp_path, "", ""
    for kind, lines in fences(PAGE.read_text(encoding="utf-8")):
        if kind == "console":
            for line in lines:
                folder, said = typed(folder, line)
                everything += said
        elif kind == "diff":
            spec = folder / "quickstart.yaml"
            spec.write_text(edited(spec.read_text(encoding="utf-8"), lines), encoding="utf-8")
        else:
            assert not_said(lines, said) == [], said

    assert "loss re-derived" in everything
    assert "FAIL" not in everything
    home = (folder / "releases/quickstart/2024/index.html").read_text(encoding="utf-8")
    assert "<title>People and incomes by district, 2024</title>" in home
    assert "incomes were cut off at 60,000" in home
    assert len(list((folder / "releases/quickstart").glob("2024.superseded-*"))) == 1
    for named in ("tables", "accounting.html"):
        assert (folder / "releases/quickstart/2024" / named).exists()
    assert (folder / "releases-synthetic/quickstart/2024/index.html").exists()


def test_the_page_shows_nothing_but_commands_edits_and_what_a_command_said() -> None:
    found = fences(PAGE.read_text(encoding="utf-8"))

    assert {each.kind for each in found} == {"console", "diff", "text"}
    assert all(found[k - 1].kind == "console" for k, each in enumerate(found) if each.kind == "text")
    typed_words = [line.split()[1] for each in found if each.kind == "console" for line in each.lines]
    assert {"init", "validate", "look", "plan", "run", "verify", "publish", "ledger"} <= set(typed_words)


def test_a_wrong_line_a_missing_one_and_a_wrong_order_would_be_found() -> None:
    said = "one\ntwo  \nthree\nfour\n"

    assert not_said(["one", "two", "...", "four"], said) == []
    assert not_said(["one", "three"], said) == ["three"]
    assert not_said(["three", "...", "one"], said) == ["one"]
    assert not_said(["twe"], said) == ["twe"]
    with pytest.raises(AssertionError):
        edited("a: 1\n", ["-a: 2", "+a: 3"])
