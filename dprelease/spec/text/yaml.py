"""Strict YAML: scalars by the YAML 1.2 core rules, one document, no aliases, anchors, merge keys, tags or duplicates.

Built on the events of PyYAML's parser, which is iterative, with a stack of our own: size and depth are limited
before anything is built. Where both are known to say the same, the events are libyaml's (``_quickly``).
https://yaml.org/spec/1.2.2/#103-core-schema
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from dprelease.catalog.reference import REORDERS
from dprelease.errors import Problem, SpecError, Where
from dprelease.spec.text.names import shown
from dprelease.spec.text.nodes import MappingEntry, Places, Scalar, YamlNode
from dprelease.spec.text.numbers import Constant, Numeral

__all__ = ["LARGEST", "read_yaml"]

LARGEST = 1 << 20
_DEEPEST = 32
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
}
_QUOTE_TEMPLATE = 'put the whole text in quotes, "{{ ... }}", for a bare brace begins a mapping'
# Words of the parser to what the author did and what to do about it.
_SYNTAX = (
    ("mapping values are not allowed", "a second `: ` in one line", 'put text that holds a colon in quotes: "A: b"'),
    ("could not find expected ':'", "a line that is neither `name: value` nor a list item", "add the colon"),
    ("found unexpected end of stream", "a quote that is never closed", "close the quote"),
    ("expected ',' or", "brackets that are not closed, or a missing comma", "close the bracket or add the comma"),
    ("cannot start any token", "text that begins with a sign that YAML keeps for itself", "put the text in quotes"),
    ("expected <block end>", "a line whose indentation fits nothing above it", "indent it like its siblings"),
    (
        "expected alphabetic or numeric character",
        "a `*` or `&` begins a reference here",
        "rows are counted by `{count: rows}`; any other text that begins so stands in quotes",
    ),
    ("unknown escape character", "an unknown escape in double quotes", "use single quotes, or write \\\\"),
)


# Of a text of these characters alone libyaml makes what PyYAML's own parser makes of it (``_quickly``): no tab, `?` or
# `%`, and no end of a line or mark of byte order but the line feed.
_ALIKE = re.compile("[\n -$&->@-~\u00a0-\u1fff\u2030-\ud7ff]*")
_QUICK: type[Any] | None = getattr(yaml, "CSafeLoader", None)


class _Stop(Exception):
    """Nothing after this point can be read."""


@dataclass(frozen=True)
class _Key:
    """The name in a mapping that waits for its value; without text it was no name, and its value is dropped."""

    text: str | None
    line: int
    column: int


@dataclass
class _Frame:
    """A list or mapping under construction, from where it starts (counted from 1)."""

    line: int
    column: int
    items: list[YamlNode] | None
    entries: dict[str, MappingEntry]
    key: _Key | None = None
    is_key: bool = False
    is_template: bool = False


@dataclass
class _Reader:
    """Takes the parser's events one by one; keeps the tree as far as it is built, and every problem."""

    file: str
    lines: list[str]
    problems: list[Problem] = field(default_factory=list)
    stack: list[_Frame] = field(default_factory=list)
    root: YamlNode | None = None
    documents: int = 0
    line: int = 1
    column: int = 1

    def report(self, code: str, summary: str, hint: str, key: _Key | None = None) -> None:
        place = key or self
        self.problems.append(Problem(code, summary, hint, Where(self.file, place.line, place.column)))

    def take(self, event: yaml.Event) -> None:
        if event.start_mark is not None:
            self.line, self.column = event.start_mark.line + 1, event.start_mark.column + 1
        if isinstance(event, yaml.DocumentStartEvent):
            self.begin(event)
        elif isinstance(event, yaml.AliasEvent):
            self.report("DPR-S105", f"alias `*{shown(str(event.anchor))}`", "write the value out again")
            self.place(YamlNode(self.line, self.column, Constant("", None)))
        elif isinstance(event, yaml.ScalarEvent):
            self.refuse_decorations(event)
            self.place(YamlNode(self.line, self.column, self.scalar(event)))
        elif isinstance(event, yaml.CollectionStartEvent):
            self.refuse_decorations(event)
            self.open(is_list=isinstance(event, yaml.SequenceStartEvent))
        elif isinstance(event, yaml.CollectionEndEvent):
            self.close()

    def begin(self, event: yaml.DocumentStartEvent) -> None:
        self.documents += 1
        if self.documents > 1:
            self.report("DPR-S108", "a second document begins here", "keep one document in a file: no `---` inside")
            raise _Stop
        if event.version or event.tags:
            self.report("DPR-S112", "a directive (a line that begins with %)", "leave it out")

    def refuse_decorations(self, event: yaml.NodeEvent) -> None:
        if event.anchor is not None:
            hint = "leave it out, and write the value wherever it is needed"
            self.report("DPR-S105", f"anchor `&{shown(event.anchor)}`", hint)
        tag = getattr(event, "tag", None)
        if tag is not None:
            hint = 'leave it out: 1 is a number, "1" is text, and each field says which it takes'
            self.report("DPR-S107", f"tag `{shown(str(tag))}`", hint)

    def scalar(self, event: yaml.ScalarEvent) -> Scalar:
        text = str(event.value)
        bad = _UNPRINTABLE.search(text)
        if bad:
            summary = f"a control character or half a character (U+{ord(bad[0]):04X})"
            self.report("DPR-S114", summary, "write the text without it")
            text = _UNPRINTABLE.sub("?", text)
        escaped = REORDERS.search(text)
        if escaped and not any(map(REORDERS.search, self.lines)):  # else it stands there as it is, which was told
            self.refuse_order(escaped[0])
        if event.style:  # None or empty where it is plain
            return text
        if "{{" in text:
            self.report("DPR-S111", "a bare `{{ ... }}`", _QUOTE_TEMPLATE)
        if text in _CONSTANTS:
            return Constant(text, _CONSTANTS[text])
        return Numeral(text) if Numeral.matches(text) else text

    def refuse_order(self, sign: str, key: _Key | None = None) -> None:
        """A sign that has what is around it shown in another order than it is written in."""
        self.report(
            "DPR-S920",
            f"a sign that reorders what is shown around it (U+{ord(sign):04X})",
            "take it out: Arabic and Hebrew have their direction without it; U+200E, U+200F and U+061C may stay",
            key,
        )

    def open(self, *, is_list: bool) -> None:
        if len(self.stack) >= _DEEPEST:
            self.report("DPR-S102", f"nested deeper than {_DEEPEST}", "no spec needs that: flatten it")
            raise _Stop
        parent = self.stack[-1] if self.stack else None
        is_key = False
        if parent is not None and parent.items is None and parent.key is None:
            is_key = True
            self.refuse_key(parent)
        self.stack.append(_Frame(self.line, self.column, [] if is_list else None, {}, is_key=is_key))

    def refuse_key(self, frame: _Frame) -> None:
        if self.lines[self.line - 1][: self.column].endswith("{{"):
            frame.is_template = True
            self.report("DPR-S111", "a bare `{{ ... }}`", _QUOTE_TEMPLATE, _Key(None, self.line, self.column - 1))
        else:
            self.report("DPR-S110", "a list or mapping where a name belongs", "a name is text: `name: value`")

    def close(self) -> None:
        frame = self.stack.pop()
        if frame.is_key:
            self.stack[-1].key = _Key(None, frame.line, frame.column)
            return
        value = frame.entries if frame.items is None else tuple(frame.items)
        # What was meant as text is left as an empty scalar, so that it is not told a second time as a mapping.
        is_text = frame.is_template and bool(self.stack)
        self.place(YamlNode(frame.line, frame.column, Constant("", None) if is_text else value))

    def place(self, node: YamlNode) -> None:
        if not self.stack:
            self.root = node
            return
        frame = self.stack[-1]
        if frame.items is not None:
            frame.items.append(node)
        elif frame.key is None:
            text = node.value if isinstance(node.value, str) else getattr(node.value, "text", None)
            frame.key = _Key(text, node.line, node.column)
        else:
            self.enter(frame.entries, frame.key, node)
            frame.key = None

    def enter(self, entries: dict[str, MappingEntry], key: _Key, node: YamlNode) -> None:
        if key.text is None:
            return
        first = entries.get(key.text)
        if key.text == "<<":
            self.report("DPR-S106", "merge key `<<`", "write the fields out", key)
        elif first is not None:
            summary = f"`{shown(key.text)}` is given twice, first at {first.line}:{first.column}"
            self.report("DPR-S109", summary, "keep one of the two", key)
        else:
            entries[key.text] = MappingEntry(key.line, key.column, node)


def read_yaml(text: str | bytes, file: str, *, loader: type[Any] = yaml.SafeLoader) -> tuple[Places, list[Problem]]:
    """The tree of a YAML file, and what is wrong with its YAML.

    Args:
        text: At most 1 MiB.
        file: Its name in messages.
        loader: Whose parser: the one whose messages are put into words here, unless nobody reads them.

    Returns:
        The tree (what is refused left out, or read without its decoration), and every problem in file order.

    Raises:
        SpecError: If there is no tree: not UTF-8, too large, nested deeper than 32, not YAML, several documents,
            or no mapping at the top. It carries what was found before as well.
    """
    decoded = _decode(text, file)
    reordered = REORDERS.search(decoded)
    if not reordered and loader is yaml.SafeLoader and (quick := _quickly(decoded, file)) is not None:
        return quick, []
    reader = _Reader(file, decoded.splitlines() or [""])
    if reordered:  # in a comment, too: whoever reviews the file would read something else than what it says
        column = reordered.start() - decoded.rfind("\n", 0, reordered.start())
        reader.refuse_order(reordered[0], _Key(None, decoded.count("\n", 0, reordered.start()) + 1, column))
    try:
        for event in yaml.parse(decoded, Loader=loader):
            reader.take(event)
    except _Stop:
        raise SpecError(reader.problems) from None
    except yaml.reader.ReaderError as error:
        line = decoded.count("\n", 0, error.position) + 1
        column = error.position - decoded.rfind("\n", 0, error.position)
        summary = f"a control character (U+{ord(decoded[error.position]):04X})"
        reader.report("DPR-S114", summary, "save the file as plain UTF-8 text", _Key(None, line, column))
        raise SpecError(reader.problems) from None
    except yaml.MarkedYAMLError as error:
        _report_syntax(reader, error)
        raise SpecError(reader.problems) from None
    except (ValueError, OverflowError):  # the parser computes \U escapes and versions without a limit
        reader.report("DPR-S103", "not YAML: an escape or a version near here is out of range", "write it otherwise")
        raise SpecError(reader.problems) from None
    if reader.root is None or not isinstance(reader.root.value, dict):
        reader.report("DPR-S113", "no `name: value` lines", "begin with `dprelease: 1`, or see `dprelease init`", _TOP)
        raise SpecError(reader.problems)
    return Places(file, reader.root), reader.problems


_TOP = _Key(None, 1, 1)


def _quickly(text: str, file: str) -> Places | None:
    """The tree by libyaml, five times as fast, where nothing is wrong and the other parser would build the same one.

    The two differ in the characters that are not in ``_ALIKE``, in where an empty scalar stands and in what may stand
    behind the sign of a block scalar. None in each of these cases, and wherever there is something to be told.
    """
    if _QUICK is None or not _ALIKE.fullmatch(text):
        return None
    reader = _Reader(file, text.splitlines())
    try:
        for event in yaml.parse(text, Loader=_QUICK):
            if isinstance(event, yaml.ScalarEvent) and (event.style in ("|", ">") or not (event.style or event.value)):
                return None
            reader.take(event)
    except (_Stop, yaml.YAMLError, ValueError, OverflowError, IndexError):
        return None
    if reader.problems or reader.root is None or not isinstance(reader.root.value, dict):
        return None
    return Places(file, reader.root)


def _decode(text: str | bytes, file: str) -> str:
    size = len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "surrogatepass"))
    if size > LARGEST:
        hint = "move long key lists to a reference file"
        raise SpecError([Problem("DPR-S101", "the file is larger than 1 MiB", hint, Where(file, 1, 1))])
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        column = error.start - text.rfind(b"\n", 0, error.start)
        problem = Problem("DPR-S100", "not UTF-8 here", "save the file as UTF-8", Where(file, line, column))
        raise SpecError([problem]) from None


def _report_syntax(reader: _Reader, error: yaml.MarkedYAMLError) -> None:
    """One problem for where the parser gave up, in words of the file instead of the parser's."""
    reason = error.problem or "unreadable"
    unclosed = "unexpected end of stream" in reason and error.context_mark is not None
    mark = error.context_mark if unclosed else error.problem_mark or error.context_mark
    place = _Key(None, mark.line + 1, mark.column + 1) if mark else _TOP
    line = reader.lines[place.line - 1] if place.line <= len(reader.lines) else ""
    if any(
        problem.code == "DPR-S111" and problem.where and problem.where.line == place.line for problem in reader.problems
    ):
        return
    if "{{" in line:
        reader.report("DPR-S111", "a bare `{{ ... }}`", _QUOTE_TEMPLATE, place)
    elif "\t" in line[: len(line) - len(line.lstrip())] or "'\\t'" in reason:
        reader.report("DPR-S104", "a tab in the indentation", "indent with spaces", place)
    else:
        found = next(((what, hint) for words, what, hint in _SYNTAX if words in reason), None)
        what, hint = found or (reason, "correct the YAML here")
        reader.report("DPR-S103", f"not YAML: {what}", hint, place)
