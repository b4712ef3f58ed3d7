"""``verify.html``: one static page in which a browser checks a bundle, without this program and without a network.

It is hosted apart from bundles, by the office whose keys it holds: who could forge a bundle could forge a page in it.
Its own policy allows nothing but the script and the style that stand in it, by their hashes. It speaks every language
of pages: the sentences of all of them stand in it, and whoever looks chooses.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from markupsafe import Markup

from dprelease.publish.html_text import render_page, visible
from dprelease.signature import PublicKey
from dprelease.words import DEFAULT, LANGUAGES, catalogue

__all__ = ["SCRIPTS", "checking_page", "said_by"]

SCRIPTS = ("words.js", "exact.js", "loss.js", "bytes.js", "ed25519.js", "accounting.js", "checks.js", "page.js")
_SAID = re.compile(r'\b(?:say|refusal)\(\s*"((?:[^"\\]|\\.)*)"')
_STILL = re.compile(r'_\("([^"]*)"\)')


def checking_page(keys: Sequence[tuple[str, PublicKey]]) -> bytes:
    """The page, for the keys that an office stands for; the same bytes for the same keys.

    Args:
        keys: Each with whose it is, and since when or until when, in words.
    """
    script, style = "\n" + "".join(_part(name) for name in SCRIPTS), "\n" + _part("page.css")
    known = [{"name": visible(name), "key": key.text} for name, key in keys]
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"
    )
    return render_page(
        "checking/page.html.j2",
        policy=Markup(policy),  # noqa: S704 - hashes, in single quotes
        style=Markup(style),  # noqa: S704 - of this package
        script=Markup(script),  # noqa: S704 - of this package
        keys=_as_script(known),
        words=_as_script(_words(script)),
        languages=[(tag, language.name) for tag, language in LANGUAGES.items()],
    )


def _as_script(value: object) -> Markup:
    return Markup(json.dumps(value, ensure_ascii=False).replace("<", "\\u003c"))  # noqa: S704 - no tag can begin or end in it


def said_by(script: str) -> list[str]:
    """The sentences that a script says, in its order; each stands whole in one pair of quotes."""
    return [json.loads(f'"{found}"') for found in _SAID.findall(script)]


def _words(script: str) -> dict[str, dict[str, str]]:
    """By language, what each sentence of the page is in it; the English one is the key."""
    page = _STILL.findall(_part("page.html.j2"))
    asked = list(dict.fromkeys((*page, *said_by(script))))
    others = [tag for tag in LANGUAGES if tag != DEFAULT]
    return {tag: {sentence: catalogue(tag).one[sentence] for sentence in asked} for tag in others}


@cache
def _part(name: str) -> str:
    return (files("dprelease.publish") / "templates" / "checking" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
