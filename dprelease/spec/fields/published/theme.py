"""The colours and the logo of an office, as ``theme:`` of ``dprelease.yaml`` names them; text stays readable with them.

A theme is custom properties alone: no rule, no address, no font. What it sets is held against what it leaves, for light
and dark, with the contrasts that WCAG 2.2 asks for (1.4.3: 4.5 for text, 1.4.11: 3 for marks).
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Literal

from pydantic import Field

from dprelease.canonical import Value
from dprelease.spec.fields.value import SpecValue
from dprelease.spec.text.names import did_you_mean
from dprelease.spec.text.scalars import Filled

__all__ = ["COLOURS", "LARGEST_LOGO", "LARGEST_THEME", "Theme", "ThemeError", "ThemeSpec", "logo_of", "read_theme"]

Scheme = Literal["light", "dark"]
LARGEST_THEME, LARGEST_LOGO = 1 << 14, 1 << 15  # bytes; the logo stands in every page
# The colours of every page, light and dark (``publish/templates/style.css``; a test holds the two together).
COLOURS: Mapping[str, tuple[str, str]] = {
    "ground": ("#ffffff", "#10161c"),
    "raised": ("#f3f6f9", "#19212a"),
    "text": ("#15202b", "#e8edf2"),
    "muted": ("#4a5866", "#a9b6c2"),
    "line": ("#d3dbe3", "#33404c"),
    "rule": ("#6d7b88", "#8593a0"),
    "link": ("#0b5394", "#8cc5f5"),
    "bar": ("#175a94", "#7fbcf0"),
    "span": ("#5c8fbf", "#4f82b0"),
    "whisker": ("#15202b", "#e8edf2"),
    "flag-text": ("#6b3a00", "#ffcf94"),
    "flag-ground": ("#fff3e0", "#33240f"),
    "flag-line": ("#b06a1f", "#b98142"),
    "notice-text": ("#ffffff", "#ffffff"),
    "notice-ground": ("#9b1c1c", "#a32121"),
    "q1": ("#d9eafc", "#192f46"),
    "q2": ("#a2c8f0", "#214f7c"),
    "q3": ("#619dda", "#3578b8"),
    "q4": ("#2c6fae", "#6aa6e4"),
    "q5": ("#023f6f", "#badbfe"),
}
_ON_PAGES = tuple((one, other) for one in ("text", "muted", "link") for other in ("ground", "raised"))
_TEXTS = (*_ON_PAGES, ("flag-text", "flag-ground"), ("notice-text", "notice-ground"))
_MARKS = (("bar", "ground"), ("span", "ground"), ("whisker", "ground"), ("rule", "ground"), ("flag-line", "ground"))
_TEXT, _MARK, _STEP = 4.5, 3.0, 1.2
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_ROOT = r":root ?\{([^{}]*)\}"
_DARK = rf"@media ?\( ?prefers-color-scheme ?: ?dark ?\) ?\{{ ?{_ROOT} ?\}}"
_FILE = re.compile(rf"(?:{_ROOT})? ?(?:{_DARK})?")
_COLOUR = re.compile(r"#(?:[0-9a-f]{3}|[0-9a-f]{6})", re.IGNORECASE)
_PNG = b"\x89PNG\r\n\x1a\n"


class ThemeError(Exception):
    """A theme that no page takes.

    Attributes:
        code: The code of the problem.
        says: Completes "`theme.css` ..." or "`theme.logo` ...".
        hint: What to write.
    """

    def __init__(self, code: str, says: str, hint: str) -> None:
        super().__init__(says)
        self.code, self.says, self.hint = code, says, hint


class ThemeSpec(SpecValue):
    """How the pages of an office look; relative paths start at the folder of ``dprelease.yaml``."""

    css: Filled | None = Field(None, description="A file of custom properties: `:root { --link: #0b5394; }`.")
    logo: Filled | None = Field(None, description="An SVG or PNG file of at most 32 kB.")


class Theme(Value):
    """What a bundle has of a theme.

    Attributes:
        light: Colours by name that are not the usual ones.
        dark: The same where the reader prefers a dark page.
        logo: As an address that holds its own data; empty: there is none.
    """

    light: dict[str, str] = {}
    dark: dict[str, str] = {}
    logo: str = ""

    @property
    def css(self) -> str:
        """Rules for the screen; paper keeps its own colours. Made of checked names and colours alone."""
        light, dark = (_rule(each) for each in (self.light, self.dark))
        parts = [f"@media screen {{ {light} }}"] if light else []
        parts += [f"@media screen and (prefers-color-scheme: dark) {{ {dark} }}"] if dark else []
        return "\n".join(parts)


def _rule(colours: Mapping[str, str]) -> str:
    # In the order of the table: a bundle that is read again has them in another one.
    checked = [(name, colours[name]) for name in COLOURS if _COLOUR.fullmatch(colours.get(name, ""))]
    known = [f"--{name}: {each};" for name, each in checked]
    return f":root {{ {' '.join(known)} }}" if known else ""


def read_theme(text: str) -> dict[Scheme, dict[str, str]]:
    """The colours of a theme file, light and dark; what only ``:root`` sets holds for light pages alone.

    >>> read_theme(":root { --link: #063; } /* ours */")
    {'light': {'link': '#063'}, 'dark': {}}

    Raises:
        ThemeError: If it holds anything else (DPR-S498), or something could not be read with it (DPR-S499).
    """
    found = _FILE.fullmatch(" ".join(_COMMENT.sub(" ", text).split()))
    dark = "`@media (prefers-color-scheme: dark) { :root { ... } }`"
    hint = f"write `:root {{ --link: #0b5394; }}`, and for dark pages {dark}"
    if found is None:
        raise ThemeError("DPR-S498", "holds something else than custom properties of `:root`", hint)
    schemes: dict[Scheme, dict[str, str]] = {
        "light": dict(_properties(found[1] or "")),
        "dark": dict(_properties(found[2] or "")),
    }
    for at, (scheme, colours) in enumerate(schemes.items()):
        wrong = next(_unreadable({name: usual[at] for name, usual in COLOURS.items()} | colours), None)
        if wrong is not None and colours:
            one, other, ratio, least = wrong
            says = f"gives --{one} on --{other} a contrast of {ratio:.2f} on {scheme} pages, below {least:g}"
            raise ThemeError("DPR-S499", says, "make one of the two darker or lighter, or set both")
    return schemes


def _properties(block: str) -> Iterator[tuple[str, str]]:
    for line in filter(str.strip, block.split(";")):
        name, _, colour = (part.strip() for part in line.partition(":"))
        if name.removeprefix("--") not in COLOURS or not name.startswith("--"):
            hint = did_you_mean(name.removeprefix("--"), COLOURS, f"there are: {', '.join(COLOURS)}")
            raise ThemeError("DPR-S498", f"sets {name!r}, which is no colour of the pages", hint)
        if not _COLOUR.fullmatch(colour):
            raise ThemeError("DPR-S498", f"sets {name} to {colour!r}, which is no #rgb or #rrggbb", "write #0b5394")
        yield name.removeprefix("--"), colour.lower()


def _unreadable(colours: Mapping[str, str]) -> Iterator[tuple[str, str, float, float]]:
    """Pairs of colours that are too alike, with their contrast and the least one."""
    pairs = [(*pair, _TEXT) for pair in _TEXTS] + [(*pair, _MARK) for pair in _MARKS]
    pairs += [(*pair, _STEP) for pair in pairwise(f"q{at}" for at in range(1, 6))]
    for one, other, least in pairs:
        ratio = contrast(colours[one], colours[other])
        if ratio < least:
            yield one, other, ratio, least


def contrast(one: str, other: str) -> float:
    """The contrast of two colours (WCAG 2.2, "contrast ratio"), from 1 to 21.

    >>> contrast("#000", "#ffffff"), round(contrast("#767676", "#fff"), 2)
    (21.0, 4.54)
    """
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * each for each in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def logo_of(data: bytes) -> str:
    """A logo as an address that holds its own data: an image, in which no browser runs a script.

    Raises:
        ThemeError: If it is no PNG and no SVG, too large, or an SVG that fetches something (DPR-S500).
    """
    if len(data) > LARGEST_LOGO:
        raise ThemeError("DPR-S500", f"has {len(data):,} bytes, more than {LARGEST_LOGO:,}", "simplify the drawing")
    if data.startswith(_PNG):
        return f"data:image/png;base64,{b64encode(data).decode()}"
    text = data.decode(errors="replace").lower()
    if "<svg" not in text[:1000]:
        raise ThemeError("DPR-S500", "is no SVG and no PNG", "save the logo as SVG or PNG")
    if any(sign in text for sign in ("<script", "<!entity", "@import", "<foreignobject")):
        raise ThemeError("DPR-S500", "is an SVG with a script or with parts from elsewhere", "save it as a plain SVG")
    return f"data:image/svg+xml;base64,{b64encode(data).decode()}"
