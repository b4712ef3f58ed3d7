"""The tokens of a row-wise expression: a closed set; whatever else a text holds is refused before it is parsed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from dprelease.catalog.expressions.tree import KEYWORDS, MOST_CHARACTERS, ExpressionError

__all__ = ["Token", "excerpt", "tokens"]

_NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_TOKEN = re.compile(
    r"(?P<blank>[ \t\r\n]+)|(?P<text>'(?:[^']|'')*')|(?P<name>\"(?:[^\"]|\"\")*\")"
    rf"|(?P<number>{_NUMBER})|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign><=|>=|<>|[=<>+\-*/(),])"
)
# Characters that no eye sees: controls other than tab and line ends, halves of characters, changes of direction.
_HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_REFUSED = {
    "--": ("comments are not allowed", "leave a blank between two minus signs"),
    "/*": ("comments are not allowed", ""),
    "==": ("== is not allowed", "write = instead of =="),
    "!=": ("!= is not allowed", "write <> instead of !="),
    "=<": ("=< is not allowed", "write <= instead of =<"),
    "=>": ("=> is not allowed", "write >= instead of =>"),
    "<=>": ("<=> is not allowed", "write ="),
    "||": ("|| is not allowed", "compare the columns one by one"),
    "&&": ("&& is not allowed", "write AND"),
    "::": (":: is not allowed", "write CAST(x AS INTEGER)"),
    "**": ("** is not allowed", "write x * x"),
    "//": ("// is not allowed", "write FLOOR(x / y)"),
    "%": ("% is not allowed", "write x - y * FLOOR(x / y)"),
    ";": ("; is not allowed", "write one expression and nothing after it"),
    ".": (". is not allowed here", "write a column without its table, and a decimal as 0.5"),
    "`": ("` is not allowed", "put an odd column name in double quotes"),
    "[": ("[ is not allowed", 'put an odd column name in double quotes, and a list in parentheses: x IN (1, 2)'),
}  # fmt: skip


@dataclass(frozen=True)
class Token:
    """One token.

    Attributes:
        kind: ``name`` is in double quotes, ``text`` in single ones; ``end`` comes after the last one.
        text: As written, without quotes.
        upper: What a keyword or a sign is called; empty for everything else, names in quotes included.
    """

    kind: Literal["text", "name", "number", "word", "sign", "end"]
    text: str
    upper: str = ""

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else excerpt(self.text)


def excerpt(text: str) -> str:
    """A piece of an expression as a message quotes it: short, and with every odd character spelled out."""
    return ascii(text if len(text) <= 40 else text[:40] + "...")


def tokens(text: str) -> list[Token]:
    """The text in tokens of the closed set; blanks are gone."""
    if len(text) > MOST_CHARACTERS:
        raise ExpressionError(f"it is longer than {MOST_CHARACTERS} characters")
    if hidden := _HIDDEN.search(text):
        raise ExpressionError(f"it holds the invisible character U+{ord(hidden[0]):04X}", "take it out")
    for opening in ("{{", "${"):
        if opening in text:
            raise ExpressionError(f"{opening} was not filled in", "templates have no place in this expression")
    read: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        _refuse(text, at, match)
        if match is None or match.lastgroup is None:
            raise ExpressionError(f"{excerpt(text[at])} is not allowed")
        at = match.end()
        if match.lastgroup != "blank":
            read.append(_token(match.lastgroup, match[0]))
    return [*read, Token("end", "")]


def _refuse(text: str, at: int, match: re.Match[str] | None) -> None:
    """Refuse what is no token, or one that runs into the next, with the best hint there is."""
    after = match.end() if match else at
    if match and match.lastgroup in ("word", "number"):
        rest = text[after : after + 1]
        hint = "write a plain number" if match.lastgroup == "number" else "leave a blank before a quotation mark"
        if rest in ("'", '"') or (match.lastgroup == "number" and (rest in (".", "_") or rest.isalnum())):
            raise ExpressionError(f"{excerpt(match[0] + rest)} is not allowed", hint)
    if match and match.lastgroup in ("text", "name") and text[after : after + 1] in ("'", '"'):
        raise ExpressionError("a quotation mark is not closed or out of place", "double it inside: 'it''s'")
    if match and match.lastgroup in ("blank", "text", "name", "word", "number"):
        return
    for sign in sorted(_REFUSED, key=len, reverse=True):
        if text.startswith(sign, at):
            raise ExpressionError(*_REFUSED[sign])
    if match is None and text[at] in ("'", '"'):
        raise ExpressionError("a quotation mark is not closed", "double it inside: 'it''s'")
    if match is None and text[at].isalpha():
        raise ExpressionError(
            f"{excerpt(text[at])} is not allowed outside quotes", "put a column name with such letters in double quotes"
        )


def _token(kind: str, text: str) -> Token:
    if kind == "text":
        return Token("text", text[1:-1].replace("''", "'"))
    if kind == "name":
        return Token("name", text[1:-1].replace('""', '"'))
    if kind == "number":
        return Token("number", text)
    if kind == "word":
        return Token("word", text, text.upper() if text.upper() in KEYWORDS else "")
    return Token("sign", text, text)
