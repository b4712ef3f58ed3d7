"""The sentences of pages as catalogues need them: found in templates and modules, and written to a catalogue.

``python tools/catalogue.py de`` adds to ``dprelease/words/de.po`` what it lacks, without a translation, takes out what
is said nowhere, and puts all of it in the order of the code. The tests refuse a catalogue with a sentence untranslated.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from jinja2 import Environment, nodes

from dprelease.publish.bundle.checks.checking_page import SCRIPTS, said_by
from dprelease.words import Catalogue, folded, read_catalogue
from dprelease.words.languages import LANGUAGES

ROOT = Path(__file__).parents[1] / "dprelease"
_ONE = {"phrase", "marked"}
_MANY = {"phrase_many", "marked_many"}
_SAID = "from dprelease.words import"
_PLACE = re.compile(r"%\((\w+)\)s")
Message = str | tuple[str, str]


@cache
def messages(package: Path = ROOT) -> Mapping[Message, str]:
    """Every sentence that belongs to a catalogue, with the first place that says it: ``publish/site/html.py:12``."""
    found: dict[Message, str] = {}
    for path in sorted(package.rglob("*.py")):
        if path.parent.name == "words" and path.name != "messages.py":
            continue
        text = path.read_text(encoding="utf-8")
        if _SAID not in text and path.name != "messages.py":
            continue
        for message, line in _of_module(text):
            found.setdefault(message, f"{path.relative_to(package)}:{line}")
    for path in sorted(package.rglob("*.j2")):
        for message, line in _of_template(path.read_text(encoding="utf-8")):
            found.setdefault(message, f"{path.relative_to(package)}:{line}")
    for name in SCRIPTS:
        path = package / "publish/templates/checking" / name
        for message in said_by(path.read_text(encoding="utf-8")):
            found.setdefault(message, f"{path.relative_to(package)}:1")
    return found


def _of_module(text: str) -> Iterator[tuple[Message, int]]:
    for node in ast.walk(ast.parse(text)):
        name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        if isinstance(node, ast.Call) and name in _ONE | _MANY:
            texts = [each.value for each in node.args[: 2 if name in _MANY else 1] if isinstance(each, ast.Constant)]
            if name in _ONE and len(texts) == 1:
                yield folded(str(texts[0])), node.lineno
            if name in _MANY and len(texts) == 2:
                yield (folded(str(texts[0])), folded(str(texts[1]))), node.lineno


def _of_template(text: str) -> Iterator[tuple[Message, int]]:
    environment = Environment(extensions=["jinja2.ext.i18n"], autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.newstyle_gettext = True  # type: ignore[attr-defined]
    for node in environment.parse(text).find_all(nodes.Call):
        name = node.node.name if isinstance(node.node, nodes.Name) else ""
        texts = [
            _folded(each.value) for each in node.args if isinstance(each, nodes.Const) and isinstance(each.value, str)
        ]
        if name in ("_", "gettext") and texts:
            yield texts[0], node.lineno
        if name == "ngettext":
            yield (texts[0].replace("{num}", "{number}"), texts[1].replace("{num}", "{number}")), node.lineno


def _folded(text: str) -> str:
    return folded(_PLACE.sub(r"{\1}", text).replace("%%", "%"))


def written(tag: str, said: dict[Message, Message]) -> str:
    """The text of a catalogue with these translations; a sentence without one has an empty one."""
    head = f'msgid ""\nmsgstr ""\n"Language: {tag}\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
    head += f'"Plural-Forms: nplurals=2; plural=(n {"> 1" if LANGUAGES[tag].several(0) is False else "!= 1"});\\n"\n'
    blocks = [f"# The sentences of pages in {LANGUAGES[tag].name}. Made by tools/catalogue.py.\n{head}"]
    for message, place in messages().items():
        at = f"#: {place.rpartition(':')[0]}\n"
        if isinstance(message, str):
            blocks.append(f"{at}msgid {_quoted(message)}\nmsgstr {_quoted(str(said.get(message, '')))}\n")
        else:
            found = said.get(message, "")
            one, many = found if isinstance(found, tuple) else ("", "")
            blocks.append(
                f"{at}msgid {_quoted(message[0])}\nmsgid_plural {_quoted(message[1])}\n"
                f"msgstr[0] {_quoted(one)}\nmsgstr[1] {_quoted(many)}\n"
            )
    return "\n".join(blocks)


def all_said(held: Catalogue) -> dict[Message, Message]:
    """What a catalogue has, of either form."""
    found: dict[Message, Message] = {}
    found.update(held.one.items())
    found.update(held.many.items())
    return found


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def main(tag: str) -> int:
    """Write the catalogue anew; how many sentences have no translation."""
    path = ROOT / "words" / f"{tag}.po"
    known = read_catalogue(path.read_text(encoding="utf-8"), whole=False) if path.exists() else None
    said = {} if known is None else all_said(known)
    path.write_text(written(tag, said), encoding="utf-8")
    return sum(message not in said for message in messages())


if __name__ == "__main__":
    for each in sys.argv[1:]:
        sys.stdout.write(f"{each}: {main(each)} sentences have no translation\n")
