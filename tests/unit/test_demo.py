"""`dprelease demo`: its tables, its picture, and what it refuses."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from dprelease.attacks import ATTACKS
from dprelease.attacks.base import Drawing, DrawnPoints
from dprelease.attacks.svg import svg_of
from dprelease.cli.operate.demo import demo_command
from dprelease.errors import SpecError

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_prints_its_tables_draws_its_picture_and_has_a_page(
    attack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    carried_out = ATTACKS[attack](1)
    monkeypatch.setitem(ATTACKS, attack, lambda seed: carried_out)
    demo_command(attack, svg=tmp_path / "picture.svg", as_json=True)
    shown = json.loads(capsys.readouterr().out)
    drawn = ElementTree.fromstring((tmp_path / "picture.svg").read_text("utf-8"))

    assert shown["attack"] == attack
    assert all(len(row) == len(table["head"]) for table in shown["tables"] for row in table["rows"])
    dots = [each for series in carried_out.drawing.series if series.kind == "dots" for each in series.points]
    assert len(drawn.findall(f"{SVG}circle")) == len(dots) > 3
    assert drawn.findtext(f"{SVG}desc")
    page = (ROOT / "docs" / "why" / f"{attack}.md").read_text("utf-8")
    assert f"dprelease demo {attack}\n" in page
    assert f"]({attack}.md)" in (ROOT / "docs" / "why" / "README.md").read_text("utf-8")

    demo_command(attack)
    printed = capsys.readouterr().out
    shown_there = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    assert shown_there
    assert [each for each in shown_there if each not in _without_spaces_at_ends(printed)] == []


def _without_spaces_at_ends(text: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def test_a_person_reads_plain_tables(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    attack = ATTACKS["differencing"](1)  # the quickest one
    monkeypatch.setitem(ATTACKS, "differencing", lambda seed: attack)
    demo_command("differencing")
    text = capsys.readouterr().out

    assert attack.tables[0].title in text
    assert text.endswith(f"What stops it: {attack.stopped_by}\n")


def test_wrong_names_and_folders_are_refused_before_anything_is_done(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="there is no attack 'reconstruct'") as wrong:
        demo_command("reconstruct")
    assert "reconstruction" in str(wrong.value)
    with pytest.raises(SpecError, match="is no folder"):
        demo_command("reconstruction", svg=tmp_path / "none" / "picture.svg")


def test_places_of_a_drawing_are_those_of_its_axes() -> None:
    dots = DrawnPoints("a < b", ((1.0, 0.5), (10.0, 0.75), (100.0, 1.0)))
    drawn = ElementTree.fromstring(svg_of(Drawing("t", "s", "x", "y", (dots,), powers_across=True)))
    circles = [(float(each.attrib["cx"]), float(each.attrib["cy"])) for each in drawn.findall(f"{SVG}circle")]

    assert circles == [(70, 330), (345, 190), (620, 50)]
    texts = [each.text for each in drawn.findall(f"{SVG}text")]
    assert {"1", "10", "100", "0.5", "1.0", "a < b"} <= set(texts)
