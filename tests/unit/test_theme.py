"""Themes: colours alone, readable ones, and a logo that needs no network; the usual ones hold themselves to it."""

from __future__ import annotations

import re
from base64 import b64encode
from importlib.resources import files as package_files
from pathlib import Path

import pytest

from dprelease.errors import SpecError
from dprelease.publish import check_bundle, render, write
from dprelease.release.data.theme import theme_of
from dprelease.spec.fields.published.theme import (
    COLOURS,
    LARGEST_LOGO,
    Theme,
    ThemeError,
    ThemeSpec,
    logo_of,
    read_theme,
)
from tests.unit.publish_example import facts, measurements, plan
from tests.unit.test_publish_pages import Outline

SVG = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><rect width="9" height="9"/></svg>'
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
CSS = """/* of the office */
:root { --link: #006633; --bar: #063 }
@media (prefers-color-scheme: dark) {
  :root { --link: #7fd6a3; }
}
"""


def test_the_usual_colours_are_those_of_the_style_sheet_and_pass() -> None:
    sheet = (package_files("dprelease.publish") / "templates" / "style.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", sheet, re.DOTALL)
    for at in (0, 1):
        found = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", blocks[at]))
        assert {name: usual[at] for name, usual in COLOURS.items()} == found
    every = "".join(f"--{name}: {light};" for name, (light, _) in COLOURS.items())
    dark = "".join(f"--{name}: {each};" for name, (_, each) in COLOURS.items())
    read_theme(f":root {{ {every} }} @media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}")


def test_a_theme_is_read_and_stands_in_every_page_of_a_bundle_that_verifies(tmp_path: Path) -> None:
    (tmp_path / "theme.css").write_text(CSS, encoding="utf-8")
    (tmp_path / "logo.svg").write_bytes(SVG)
    theme = theme_of(ThemeSpec(css="theme.css", logo="logo.svg"), tmp_path, "dprelease.yaml")
    assert theme == Theme(
        light={"link": "#006633", "bar": "#063"},
        dark={"link": "#7fd6a3"},
        logo=f"data:image/svg+xml;base64,{b64encode(SVG).decode()}",
    )
    made = plan()
    made = made.model_copy(update={"publish": made.publish.model_copy(update={"formats": ("csv", "html")})})
    write(render(made, measurements(), facts(made, theme=theme)), tmp_path / "bundle")
    for path in (tmp_path / "bundle").rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert "@media screen { :root { --link: #006633; --bar: #063; } }" in text
        (logo,) = [attributes for tag, attributes in Outline(text).tags if tag == "img"]
        assert (logo["src"], logo["alt"]) == (theme.logo, "Example Statistical Office")
    assert [check.name for check in check_bundle(tmp_path / "bundle") if check.passed is False] == []


def test_without_a_theme_facts_and_pages_are_as_before() -> None:
    assert '"theme"' not in facts(plan()).canonical()
    assert "@media screen { :root" not in render(plan(), measurements(), facts(plan())).files["index.html"].decode()


@pytest.mark.parametrize(
    ("css", "code"),
    [
        ("body { display: none }", "DPR-S498"),
        (":root { --link: red }", "DPR-S498"),
        (":root { --link: url(x) }", "DPR-S498"),
        (":root { --lnk: #063 }", "DPR-S498"),
        (":root { color: #063 }", "DPR-S498"),
        (":root { --link: #063 } .flag { display: none }", "DPR-S498"),
        ('@import "x"; :root { --link: #063 }', "DPR-S498"),
        (":root { --link: #063; } </style><script>", "DPR-S498"),
        (" " * 16_000 + "x", "DPR-S498"),
        (":root { --link: #99ccff }", "DPR-S499"),
        (":root { --ground: #888888 }", "DPR-S499"),
        ("@media (prefers-color-scheme: dark) { :root { --text: #333333 } }", "DPR-S499"),
        (":root { --q2: #d8e9fb }", "DPR-S499"),
    ],
)
def test_what_is_no_colour_or_cannot_be_read_is_refused(css: str, code: str) -> None:
    with pytest.raises(ThemeError) as caught:
        read_theme(css)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "data",
    [b"GIF89a", b"", b"<html>", SVG.replace(b"<rect", b"<script>x</script><rect"), b"<svg>" + bytes(LARGEST_LOGO)],
    ids=["gif", "empty", "html", "script", "large"],
)
def test_a_logo_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(ThemeError) as caught:
        logo_of(data)
    assert caught.value.code == "DPR-S500"


def test_a_png_is_a_logo_and_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert logo_of(PNG).startswith("data:image/png;base64,")
    with pytest.raises(SpecError) as caught:
        theme_of(ThemeSpec(css="gone.css"), tmp_path, "dprelease.yaml")
    assert caught.value.problems[0].code == "DPR-S497"


def test_a_forged_theme_in_facts_gives_no_markup() -> None:
    forged = Theme(light={"link": "#063;} </style><script>x</script>", "x": "#063"}, logo="data:text/html,<script>")
    made = plan()
    page = render(made, measurements(), facts(made, theme=forged)).files["index.html"].decode()
    assert not {"img", "script"} & {tag for tag, _ in Outline(page).tags}
