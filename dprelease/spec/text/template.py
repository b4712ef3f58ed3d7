"""``{{ period }}`` in a spec: three texts, found by one regular expression and replaced before anything else is read.

One spec serves every period of a release. Nothing is computed here, and no template engine is asked: what may stand
between the braces is a closed table, and so is where. What is put in is a period of letters, digits, ``.``, ``_`` and
``-`` that begins with a letter or digit, or a day in ISO form: in a path it can neither leave its folder nor match
another file, and in an expression, where it has to stand in single quotes, it cannot end them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pydantic import TypeAdapter, ValidationError

from dprelease.errors import Problem, SpecError, Where
from dprelease.spec.period import CALENDAR, beyond, span
from dprelease.spec.text.names import nearest, shown
from dprelease.spec.text.nodes import MappingEntry, Path, Places, YamlNode, scalars
from dprelease.spec.text.numbers import Constant, Numeral
from dprelease.spec.text.scalars import Period
from dprelease.spec.text.translate import dotted, pattern

__all__ = ["filled", "refused_templates", "require_period", "written_period"]

_WHERE = frozenset(("queries.*.where", "queries.*.measures.*.where"))
_SOURCE = {f"tables.*.source.{name}" for name in ("file", "delta", "metastore", "database", "table", "schema")}
_RELEASE = {f"release.{name}" for name in ("title", "citation", "identifier")}
_IN_LANGUAGES = {"release.title.*", "queries.*.title.*", "derive.*.title.*", "release.abstract", "release.abstract.*"}
_PLACES = _WHERE | _RELEASE | {"queries.*.title", "derive.*.title"} | _IN_LANGUAGES | _SOURCE
_NAMES = ("period", "period.start", "period.end")
_ALLOWED = "there is {{ period }}, {{ period.start }} and {{ period.end }}"
_ELSEWHERE = (
    "write the text itself: templates stand in `title`, `citation` and `identifier` of `release`, in `title` and "
    "`where` of `queries`, in `where` of measures, in `title` of `derive`, and in `file`, `delta`, `metastore`, "
    "`database`, `table` and `schema` of a `source`"
)
_GIVE = "write `period: 2024-03` under `release`, or give it: `--period 2024-03`"

_TEMPLATE = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_BRACES = re.compile(r"\{\{|\}\}")
_IN_VARIABLE = re.compile(r"\$(?:\{[^}]*)?\{\{")
# The quotes of an expression: text in single ones, names in double ones; a doubled quote does not end them.
_QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")
_PUT_IN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,49}")
_PERIOD: TypeAdapter[str] = TypeAdapter(Period)
# Fills templates whose period is missing or wrong, so that the rest of the spec is checked in the same go.
_STAND_IN = "2000-01-01"


def require_period(period: str) -> None:
    """Refuse what cannot be a period, before it takes the place of the one in the spec.

    >>> require_period("2024-03")

    Raises:
        SpecError: With the rule that it breaks (DPR-S217, DPR-S917).
    """
    wrong = _wrong_period(period)
    if wrong is not None:
        raise SpecError([Problem(wrong["code"], f"the period that was asked for {wrong['summary']}", wrong["hint"])])


def _wrong_period(text: str) -> Mapping[str, str] | None:
    try:
        _PERIOD.validate_python(text)
    except ValidationError as error:
        found = error.errors(include_url=False)[0]
        return {**found["ctx"], "code": found["type"]}
    return None


def written_period(root: YamlNode) -> str | None:
    """The text of ``release.period``; None where there is none, "" where it is no text at all."""
    release = root.value.get("release") if isinstance(root.value, Mapping) else None
    if release is None or not isinstance(release.node.value, Mapping) or "period" not in release.node.value:
        return None
    found = release.node.value["period"].node.value
    return found.text if isinstance(found, Numeral | Constant) else found if isinstance(found, str) else ""


def filled(root: YamlNode, file: str, period: str | None) -> tuple[YamlNode, list[Problem]]:
    """A spec with a period in the place of its own, and in the place of every template.

    Args:
        root: The spec as it was read.
        file: Its name in messages.
        period: What takes the place of ``release.period``; None: that one stays, if it is there.

    Returns:
        The spec of that period, and every problem: a template that is none (DPR-S301), stands where none may
        (DPR-S302), needs a period that nobody gave (DPR-S303) or days that it does not have (DPR-S304), a period that
        is too long for a path (DPR-S305), a template outside of the quotes of an expression (DPR-S306) or inside a
        variable of the environment (DPR-S307). What is wrong is left as it is.
    """
    wanted = written_period(root) if period is None else period
    has_template = any(_BRACES.search(text) for _, text, _ in scalars(root))
    problems = _period_problems(root, file, wanted, has_template=has_template)
    if period is not None:
        root = _with_period(root, period)
    if not has_template:
        return root, problems
    is_told = wanted is None or _PUT_IN.fullmatch(wanted) is None or _wrong_period(wanted) is not None
    filler = _Filler(file, _STAND_IN if wanted is None or is_told else wanted)
    root = _replaced(root, (), filler.text)
    return root, [*problems, *filler.problems]


def refused_templates(root: YamlNode, file: str) -> list[Problem]:
    """Templates in a file that has no period: the project's settings, the policy."""
    return [
        Problem("DPR-S302", f"`{dotted(path)}` holds a template", "write the text itself", _place(file, node))
        for path, text, node in scalars(root)
        if "{{" in text
    ]


def _period_problems(root: YamlNode, file: str, wanted: str | None, *, has_template: bool) -> list[Problem]:
    """A period that is missing where one is needed, or that is too long to be put in; others are told elsewhere."""
    where = Places(file, root).value("release", "period")
    scheduled = isinstance(root.value, Mapping) and "schedule" in root.value
    if wanted is None and (scheduled or has_template):
        why = "a scheduled release" if scheduled else "a template"
        return [Problem("DPR-S303", f"`release.period` is missing, and {why} needs one", _GIVE, where)]
    if wanted is not None and has_template and not _PUT_IN.fullmatch(wanted) and _wrong_period(wanted) is None:
        says = f"the period {shown(wanted)!r} is longer than 50, too long for a template"
        return [Problem("DPR-S305", says, f"write {CALENDAR}, or a shorter one", where)]
    return []


def _with_period(root: YamlNode, period: str) -> YamlNode:
    """The tree with that period; as it is where there is no release that could have one."""
    release = root.value.get("release") if isinstance(root.value, Mapping) else None
    if release is None or not isinstance(root.value, Mapping) or not isinstance(release.node.value, Mapping):
        return root
    old = release.node.value.get("period")
    key, at = (release, release) if old is None else (old, old.node)
    entry = MappingEntry(key.line, key.column, YamlNode(at.line, at.column, period))
    head = YamlNode(release.node.line, release.node.column, {**release.node.value, "period": entry})
    return YamlNode(root.line, root.column, {**root.value, "release": MappingEntry(release.line, release.column, head)})


def _replaced(node: YamlNode, path: Path, change: Callable[[Path, str, YamlNode | MappingEntry], str]) -> YamlNode:
    """The tree with every text changed; names stay as they are. At most 32 levels deep, as the reader sees to."""
    value = node.value
    if isinstance(value, Mapping):
        entries = {}
        for key, entry in value.items():
            change((*path, key), key, entry)
            entries[key] = MappingEntry(entry.line, entry.column, _replaced(entry.node, (*path, key), change))
        return YamlNode(node.line, node.column, entries)
    if isinstance(value, str):
        return YamlNode(node.line, node.column, change(path, value, node))
    if isinstance(value, Numeral | Constant):
        return node
    items = tuple(_replaced(item, (*path, at), change) for at, item in enumerate(value))
    return YamlNode(node.line, node.column, items)


@dataclass
class _Filler:
    """Puts one period into texts; keeps what is wrong."""

    file: str
    period: str
    problems: list[Problem] = field(default_factory=list)

    def text(self, path: Path, text: str, node: YamlNode | MappingEntry) -> str:
        """A text with the period in it; as it is where something is wrong with it."""
        if not _BRACES.search(text):
            return text
        what, name = pattern(path), f"`{dotted(path)}`"
        if what not in _PLACES or isinstance(node, MappingEntry):
            if "{{" in text:
                self._refuse("DPR-S302", f"{name} holds a template", _ELSEWHERE, node)
            return text
        wrong = _wrong_template(text) or self._wrong_use(text, quoted=what in _WHERE)
        if wrong is not None:
            code, says, hint = wrong
            self._refuse(code, f"{name} {says}", hint, node)
            return text
        days = span(self.period)
        values = {"period": self.period}
        if days is not None:
            values |= {"period.start": days[0].isoformat(), "period.end": days[1].isoformat()}
        return _TEMPLATE.sub(lambda found: values[found[1].strip()], text)

    def _refuse(self, code: str, summary: str, hint: str, node: YamlNode | MappingEntry) -> None:
        self.problems.append(Problem(code, summary, hint, _place(self.file, node)))

    def _wrong_use(self, text: str, *, quoted: bool) -> tuple[str, str, str] | None:
        """Code, what is wrong and what to write, of templates that are known."""
        if _IN_VARIABLE.search(text):
            return "DPR-S307", "holds a template in a variable", "write the whole name of the variable: ${env:NAME}"
        if quoted and not _all_in_single_quotes(text):
            hint = "write DATE '{{ period.start }}', '{{ period }}', or for a number CAST('{{ period }}' AS INTEGER)"
            return "DPR-S306", "holds a template outside of single quotes, where it would be computed with", hint
        dated = any(found[1].strip() != "period" for found in _TEMPLATE.finditer(text))
        if dated and span(self.period) is None:
            says = f"wants a day of the period {shown(self.period)!r}, which is none of the calendar"
            why = beyond(self.period)
            return "DPR-S304", says, f"write {CALENDAR}" + (f"; {why}" if why else "")
        return None


def _wrong_template(text: str) -> tuple[str, str, str] | None:
    """What is no template between the braces, and braces that stand alone."""
    for found in _TEMPLATE.finditer(text):
        name = found[1].strip()
        if name not in _NAMES:
            near = nearest(name, _NAMES)
            hint = _ALLOWED if near is None else f"did you mean {{{{ {near} }}}}? {_ALLOWED}"
            return "DPR-S301", f"holds {{{{ {shown(name)} }}}}, which is no template", hint
    if _BRACES.search(_TEMPLATE.sub("", text)):
        return "DPR-S301", "holds two braces that open or close nothing", f"write it in full: {_ALLOWED}"
    return None


def _all_in_single_quotes(text: str) -> bool:
    """Whether every template of an expression is in a text of its own, and not a number, a column or an operator."""
    inside = [found.span() for found in _QUOTED.finditer(text) if found[0].startswith("'")]
    return all(
        any(start < found.start() and found.end() < end for start, end in inside) for found in _TEMPLATE.finditer(text)
    )


def _place(file: str, node: YamlNode | MappingEntry) -> Where:
    return Where(file, node.line, node.column)
