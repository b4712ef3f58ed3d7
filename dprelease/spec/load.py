"""From text to a frozen spec, or every problem at once in file order, each with its line and column."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from dprelease.canonical import fingerprint
from dprelease.errors import Problem, SpecError, Where
from dprelease.spec.checks.whole_spec import check_spec, warnings_of
from dprelease.spec.fields.document import MODELS, ReleaseSpec
from dprelease.spec.text.findings import Hidden, remainder
from dprelease.spec.text.names import shown
from dprelease.spec.text.nodes import Places, YamlNode, plain, scalars
from dprelease.spec.text.numbers import Numeral
from dprelease.spec.text.template import filled, refused_templates, require_period, written_period
from dprelease.spec.text.translate import dotted, problems_of
from dprelease.spec.text.yaml import read_yaml

__all__ = ["Loaded", "load", "read_model"]

Model = TypeVar("Model", bound=BaseModel)
_MOST = 100
_VARIABLE = re.compile(r"\$\{env:[A-Za-z_][A-Za-z0-9_]*\}")
# Where variables may stand: `file`, `delta` and `database` of a table's `source`, and these of dprelease.yaml.
_SOURCES = {("source", name) for name in ("file", "delta", "database")}
_HOLDERS = {("ledger",), ("signing_key",), ("host",)}
# Stands in for a required part that is wrong, so that the other parts are checked in the same go.
_STAND_INS: Mapping[str, Any] = {
    "dprelease": Numeral("1"),
    "release": {"name": "x"},
    "privacy": {"unit": {"entity": "x"}, "budget": {"epsilon": Numeral("1"), "delta": Numeral("1e-9")}},
    "tables": {},
    "queries": {},
}


@dataclass(frozen=True)
class Loaded:
    """A spec and the places of its parts.

    Attributes:
        spec: What the author wrote, of one period.
        places: Where it stands.
        written_period: What the file has as ``release.period``, whichever period was asked for; None: nothing.
    """

    spec: ReleaseSpec
    places: Places
    written_period: str | None = None

    @property
    def file(self) -> str:
        """The name of the file, as it was given."""
        return self.places.file

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of the content: comments, layout and the order of names do not matter; that of lists does.

        Of the schedule the number of revisions counts, for it changes what is charged; their times do not.
        """
        found, revisions = self.spec.fingerprint(), self.spec.revisions
        return fingerprint({"revisions": revisions, "spec": found}) if revisions else found

    @cached_property
    def warnings(self) -> tuple[Problem, ...]:
        """What is allowed, and seldom what is wanted; in file order."""
        return tuple(_in_order(warnings_of(self.spec, self.places)))

    def where(self, *path: str | int) -> Where:
        """The best known place of a path such as ``("tables", "persons", "columns", "sex")``."""
        return self.places.value(*path)


def load(text: str | bytes, file: str, period: str | None = None) -> Loaded:
    """Read a spec; what it says of its period, ``{{ period }}`` and the like, is filled in before anything is checked.

    Args:
        text: YAML, at most 1 MiB; bytes are UTF-8.
        file: Its name in messages.
        period: Takes the place of ``release.period``; None: that one.

    Raises:
        SpecError: With every problem of YAML, templates, fields and names, in file order; or with the one of a
            ``period`` that cannot be one.
    """
    if period is not None:
        require_period(period)
    read, problems = read_yaml(text, file)
    root, wrong = filled(read.root, file, period)
    spec, places = _modelled(Places(file, root), problems + wrong, ReleaseSpec, MODELS, check_spec, _STAND_INS)
    return Loaded(spec.with_written_shares(), places, written_period(read.root))


def read_model(
    text: str | bytes,
    file: str,
    model: type[Model],
    models: Mapping[str, type[BaseModel]],
    check_names: Callable[[Model, Places, Hidden], list[Problem]],
    stand_ins: Mapping[str, Any],
) -> tuple[Model, Places]:
    """Read a YAML file into a model, by the same rules for every file that an author writes.

    Args:
        text: The file.
        file: Its name in messages.
        model: The model of the whole file.
        models: The models of its mappings, by pattern.
        check_names: Finds what crosses fields, in what is left after wrong parts are taken out.
        stand_ins: See :func:`dprelease.spec.text.findings.remainder`.

    Raises:
        SpecError: With every problem, in file order.
    """
    places, problems = read_yaml(text, file)
    return _modelled(places, problems + refused_templates(places.root, file), model, models, check_names, stand_ins)


def _modelled(
    places: Places,
    problems: list[Problem],
    model: type[Model],
    models: Mapping[str, type[BaseModel]],
    check_names: Callable[[Model, Places, Hidden], list[Problem]],
    stand_ins: Mapping[str, Any],
) -> tuple[Model, Places]:
    """What was read as a model, unless there is a problem: one that was found before, or one more."""
    taken = {problem.where for problem in problems}
    refused = _refused_variables(places.root, places.file)
    problems = problems + [problem for problem in refused if problem.where not in taken]
    taken = {problem.where for problem in problems}
    data = plain(places.root)
    value: Model | None
    try:
        value, hidden = model.model_validate(data), Hidden()
    except ValidationError as error:
        # What is wrong as text is also wrong as a field: one cause, told once.
        problems += [problem for _, problem in problems_of(error, places, models) if problem.where not in taken]
        value, hidden = remainder(model, data, stand_ins)
    if value is not None:
        problems += [problem for problem in check_names(value, places, hidden) if problem.where not in taken]
    if problems or value is None:
        raise SpecError(_in_order(problems))
    return value, places


def _in_order(problems: list[Problem]) -> list[Problem]:
    def place(problem: Problem) -> tuple[int, int]:
        return (problem.where.line, problem.where.column) if problem.where else (0, 0)

    found = sorted(dict.fromkeys(problems), key=place)
    if len(found) > _MOST:
        more = Problem("DPR-S199", f"and {len(found) - _MOST} more problems", "correct these first", found[_MOST].where)
        return [*found[:_MOST], more]
    return found


def _refused_variables(root: YamlNode, file: str) -> list[Problem]:
    """Variables of the environment outside of a place of a source, wherever they stand."""
    problems = []
    for path, text, node in scalars(root):
        where = Where(file, node.line, node.column)
        if "${" not in text:
            continue
        if path[-2:] not in _SOURCES and path not in _HOLDERS:
            if "${env:" in text:
                hint = (
                    "only `file`, `delta`, `database` of a `source` may hold one; write the value here, never a secret"
                )
                problems.append(Problem("DPR-S213", f"`{dotted(path)}` holds ${{env:...}}", hint, where))
        elif "${" in _VARIABLE.sub("", text):
            summary = f"`{dotted(path)}` holds a variable that is not ${{env:NAME}}: {shown(text)}"
            problems.append(Problem("DPR-S219", summary, "write ${env:NAME}, with letters, digits and _", where))
    return problems
