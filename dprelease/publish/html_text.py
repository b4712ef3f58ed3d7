"""Templates to pages: autoescaped, self-contained, and with no sign that can reorder the text around it."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import unicodedata
from base64 import b64encode
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from dprelease.canonical import sha256
from dprelease.catalog.names import Foreign
from dprelease.spec.fields.published.theme import Theme
from dprelease.words import amount, inside_sentence, phrase_many, spoken, translated

if TYPE_CHECKING:
    from jinja2 import BytecodeCache, Environment

__all__ = ["Script", "inert", "isolated", "moment_of", "render_page", "table_script", "themed", "utc", "visible"]

# Marks that only give a direction to their neighbours are part of correct Arabic or Hebrew text.
_HARMLESS = "\u200e\u200f\u061c"
_SPACES = "\t\n\r"
_PERIOD = re.compile(r"\b[0-9]{4}-[0-9]{2}(?:-[0-9]{2})?\b")
_PLACE = re.compile(r"%\((\w+)\)s")
_LOGO = re.compile(r"data:image/(?:png|svg\+xml);base64,[A-Za-z0-9+/]+={0,2}")


def visible(text: str) -> str:
    """The text with every control sign and every sign that reorders others written out as its code point.

    >>> visible("safe" + chr(0x202E) + "txt")
    'safe[U+202E]txt'
    """
    if text.isprintable():  # neither a control nor a format sign, nor a space but the plain one
        return text
    return "".join(_visible(sign) for sign in text)


def inert(text: str) -> Markup:
    """The text as it may stand in a page, between tags or in a quoted attribute: visible, and without markup.

    Where a page is not made by a template, nothing but this makes text of an author or of a file part of it.
    """
    return escape(visible(text))


def isolated(text: str) -> Markup:
    """Words of an author between tags, apart from the direction around them; marked where they are foreign on the page.

    >>> print(isolated("a < b"), isolated(Foreign("نعم", "ar")))
    <bdi>a &lt; b</bdi> <bdi lang="ar" dir="rtl">نعم</bdi>
    """
    marks = f' lang="{text.tag}" dir="{text.direction}"' if isinstance(text, Foreign) else ""
    return Markup(f"<bdi{marks}>{inert(text)}</bdi>")  # noqa: S704 - inert, and the tag of a language


def _told(text: str) -> Markup:
    """The same in a heading or a paragraph: no line ends within a period such as 2013-12."""
    return Markup(_PERIOD.sub(r'<span class="short">\g<0></span>', str(isolated(text))))  # noqa: S704 - digits alone


def _named(text: str) -> Markup:
    """The same of a name above a narrow column: a line may end behind each of its underscores."""
    return isolated(text).replace("_", Markup("_<wbr>"))  # no tag of it has an underscore


def _visible(sign: str) -> str:
    if sign in _SPACES:
        return " "
    hidden = unicodedata.category(sign) in ("Cc", "Cs") or unicodedata.bidirectional(sign) in (
        "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI",
    )  # fmt: skip
    return f"[U+{ord(sign):04X}]" if hidden and sign not in _HARMLESS else sign


def _finished(value: Any) -> Any:
    if type(value) is Markup:  # first, for most of what a template writes is one, or a text
        return value
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def utc(text: str) -> str:
    """A UTC time as a person reads it; anything else as it is.

    >>> utc("2024-04-05T06:00:03.123456+00:00"), utc("unknown")
    ('2024-04-05 06:00:03 UTC', 'unknown')
    """
    moment = moment_of(text)
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if moment and moment.tzinfo else text


def moment_of(text: str) -> datetime | None:
    """The time that an ISO text names; None where it names none."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def render_page(template: str, **context: Any) -> bytes:
    """A template of this package, filled.

    Args:
        template: Its file name.
        context: What it names; a name that is missing is an error.
    """
    return _environment().get_template(template).render(language=spoken(), **context).encode()


def _said(text: str, /, **places: Any) -> Markup:
    """A sentence of a template in the language that is spoken, with what belongs into its places made inert."""
    said = Markup(translated(_with_places(text)))  # noqa: S704 - a sentence of a template or of a catalogue
    return said.format(**{name: _finished(each) for name, each in places.items()})


def _said_many(one: str, many: str, number: int, /, **places: Any) -> Markup:
    """The sentence for one or that for several; the number itself stands at ``num``."""
    kept = {name: f"{{{name}}}" for name in places if name != "num"}
    said = phrase_many(_numbered(one), _numbered(many), number, **kept)
    return Markup(said).format(**{name: _finished(places[name]) for name in kept})  # noqa: S704 - as above


def _numbered(text: str) -> str:
    return _with_places(text).replace("{num}", "{number}")


@lru_cache(maxsize=1 << 12)
def _with_places(text: str) -> str:
    """A sentence as a template is compiled to have it, with its places as everywhere else: ``{name}``."""
    return _PLACE.sub(r"{\1}", text).replace("%%", "%")


def themed(theme: Theme | None) -> dict[str, Markup]:
    """What a page has of a theme: its colours, which are checked names and digits alone, and its logo."""
    return {
        "theme": Markup("" if theme is None else theme.css),  # noqa: S704 - see above
        "logo": Markup(theme.logo if theme and _LOGO.fullmatch(theme.logo) else ""),  # noqa: S704 - base64 alone
    }


@dataclass(frozen=True)
class Script:
    """A script of a page, and what the content policy knows it by: the hash of its text, in base64."""

    text: Markup
    hash: str


@cache
def table_script() -> Script:
    """The script that searches and sorts tables, for pages whose author asks for it."""
    text = (Path(__file__).parent / "templates" / "interactive.js").read_text(encoding="utf-8")
    return Script(Markup(text), b64encode(hashlib.sha256(text.encode()).digest()).decode())  # noqa: S704 - our own


@cache
def _environment() -> Environment:
    """The templates, each compiled once for every process, as Python keeps what it has compiled of its modules."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("dprelease.publish"),
        auto_reload=False,  # else every page looks whether a template has changed
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finished,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        bytecode_cache=_compiled(),
        extensions=["jinja2.ext.i18n"],
    )
    made.newstyle_gettext = True  # type: ignore[attr-defined]  # of the extension: sentences have named places
    made.globals |= {"gettext": _said, "ngettext": _said_many}
    made.filters |= {"amount": amount, "told": _told, "named": _named, "within": inside_sentence}
    return made


def _compiled() -> BytecodeCache | None:
    """Where compiled templates are kept: beside the templates, as modules are; None where Python keeps none."""
    import jinja2

    folder = Path(__file__).parent / "templates" / "__pycache__"
    if sys.dont_write_bytecode or sys.pycache_prefix:
        return None
    try:
        folder.mkdir(exist_ok=True)
    except OSError:
        return None
    if not os.access(folder, os.W_OK):
        return None
    # They depend on the options above and on what compiles them; of the template itself the file has a hash.
    made_by = sha256(Path(__file__).read_bytes() + jinja2.__version__.encode())[:16]
    return jinja2.FileSystemBytecodeCache(str(folder), f"%s.{made_by}.{sys.implementation.cache_tag}.pyc")
