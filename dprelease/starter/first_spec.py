"""A first spec of one table, from what a person typed: text of YAML, in the order in which the quickstart has it.

Nothing here reads a file. Whatever is written was typed, is the name of a column, or is the same in every first spec.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from dprelease.catalog.table import ColumnType

__all__ = ["FirstColumn", "FirstSpec", "policy_yaml", "spec_yaml"]

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*")
_MEANS_SOMETHING = {"true", "false", "null", "yes", "no", "on", "off", "y", "n", "inf", "nan", "none"}


def _text(words: str) -> str:
    """A text as YAML has it, in quotes wherever it could be read as something else.

    >>> _text("Men"), _text("no"), _text("01"), _text("a: b")
    ('Men', '"no"', '"01"', '"a: b"')
    """
    plain = _WORD.fullmatch(words) and words.lower() not in _MEANS_SOMETHING
    return words if plain else json.dumps(words, ensure_ascii=False)


def _plain(words: str) -> str:
    """A number, a day or a period, which stay as they are typed; any other text as :func:`_text`."""
    return words if re.fullmatch(r"[0-9][0-9A-Za-z.-]*", words) else _text(words)


@dataclass(frozen=True)
class FirstColumn:
    """What everybody may know of a column; every part as it was typed.

    Attributes:
        name: In the spec.
        type: How its values are read.
        keys: Its public values, where they are listed.
        span: The first and the last of them, where they are whole numbers or days in a row.
        code_list: The name of a list of codes, where they are its codes.
        edges: Rising limits of bands, where it is published in these.
        range: The least and the greatest value that can be.
        clip: What a sum and a mean hold values to.
        measured_in: Such as EUR; empty: nothing is said.
    """

    name: str
    type: ColumnType
    keys: tuple[str, ...] = ()
    span: tuple[str, str] | None = None
    code_list: str = ""
    edges: tuple[str, ...] = ()
    range: tuple[str, str] | None = None
    clip: tuple[str, str] | None = None
    measured_in: str = ""

    @property
    def key(self) -> str:
        """The column that cells are made by: this one, or its bands."""
        return f"{self.name}_band" if self.edges else self.name

    @property
    def lines(self) -> list[str]:
        """What stands under ``columns``."""
        parts = [f"type: {self.type}"]
        if self.code_list:
            parts.append(f"keys: {{reference: {self.code_list.replace('-', '_')}, column: code}}")
        elif self.span:
            parts.append(f"keys: {{from: {self.span[0]}, to: {self.span[1]}}}")
        elif self.keys:
            keys = map(_text, self.keys) if self.type == "text" else self.keys
            parts.append(f"keys: [{', '.join(keys)}]")
        parts += [f"range: [{', '.join(self.range)}]"] if self.range else []
        parts += [f"measured_in: {_text(self.measured_in)}"] if self.measured_in else []
        own = f"      {_text(self.name)}: {{{', '.join(parts)}}}"
        bands = f"      {_text(self.key)}: {{bin: {_text(self.name)}, edges: [{', '.join(self.edges)}]}}"
        return [own, bands] if self.edges else [own]


@dataclass(frozen=True)
class FirstSpec:
    """A release of one table; texts as they were typed.

    Attributes:
        source: The fields under ``source``, written; ``file`` first.
        unit_id: The column of whose row it is; empty: every row is one unit.
        max_rows: How many rows of a unit count; with ``unit_id``.
        time: The column of a row's day; empty: all rows are of the period.
        time_type: How that is read.
        by: The columns that cells are made by.
        numbers: Those that are added up and averaged.
        account: The account that pays.
    """

    name: str
    period: str
    title: str
    curator: str
    contact: str
    entity: str
    epsilon: str
    delta: str
    table: str
    account: str
    source: tuple[tuple[str, str], ...]
    unit_id: str = ""
    max_rows: str = ""
    time: str = ""
    time_type: Literal["date", "timestamp"] = "date"
    columns: tuple[FirstColumn, ...] = ()
    by: tuple[FirstColumn, ...] = ()
    numbers: tuple[FirstColumn, ...] = field(default=())

    @property
    def code_lists(self) -> tuple[str, ...]:
        """The lists of codes that its columns name."""
        return tuple(dict.fromkeys(each.code_list for each in self.columns if each.code_list))


def _head(spec: FirstSpec) -> Iterable[str]:
    yield "dprelease: 1                            # version of this format"
    yield "\nrelease:"
    yield f"  name: {_plain(spec.name)}  # with `period`, the identity in the ledger: released once, ever"
    yield f"  period: {_plain(spec.period)}"
    for word, said in (("title", spec.title), ("curator", spec.curator), ("contact", spec.contact)):
        if said:
            yield f"  {word}: {_text(said)}"
    yield "\nprivacy:"
    whose = f"rows of one {spec.unit_id} are one unit" if spec.unit_id else "every row is one unit"
    yield f"  unit: {{entity: {_text(spec.entity)}}}  # who is protected; {whose}"
    yield "  neighboring: add_remove  # the tables look much the same with any one of them or without"
    yield f"  budget: {{epsilon: {spec.epsilon}, delta: {spec.delta}}}  # what this release may cost"


def _references(spec: FirstSpec) -> Iterable[str]:
    if not spec.code_lists:
        return
    from dprelease.starter.code_lists import code_list  # it reads the package

    yield "\nreferences:                             # public files; their content is part of the plan"
    for name in spec.code_lists:
        yield f"  # {code_list(name).comment}"
        columns = "columns: {code: text, name: text}"
        yield f"  {name.replace('-', '_')}: {{file: reference/{name}.csv, {columns}}}"


def _table(spec: FirstSpec) -> Iterable[str]:
    yield "\ntables:"
    yield f"  {_text(spec.table)}:"
    yield f"    account: {_text(spec.account)}  # the account of the policy that pays"
    yield "    source:"
    for word, said in spec.source:
        yield f"      {word}: {said}"
    if spec.unit_id:
        yield f"    unit_id: {_text(spec.unit_id)}  # whose row it is"
        yield f"    bounds: {{max_rows: {spec.max_rows}}}  # further rows of one {spec.entity} are left out"
    if spec.time:
        yield f"    time: {{column: {_text(spec.time)}, type: {spec.time_type}}}  # only rows of the period are read"
    yield "    columns:  # keys and ranges are public facts: never look them up in the data" + (
        "" if spec.columns else "\n      {}"
    )
    for column in spec.columns:
        yield from column.lines


def _query(spec: FirstSpec) -> Iterable[str]:
    yield "\nqueries:                                # a query is one published table"
    yield "  first:"
    if spec.title:
        yield f"    title: {_text(spec.title)}"
    yield f"    table: {_text(spec.table)}"
    if spec.by:
        keys = ", ".join(_text(each.key) for each in spec.by)
        yield f"    by: [{keys}]  # every combination is published, empty ones too"
    yield "    measures:"
    yield f"      number: {{count: {'units' if spec.unit_id else 'rows'}}}"
    for each in spec.numbers:
        low, high = each.clip or each.range or ("", "")
        clip = f"clip: [{low}, {high}]" + (", clip_per: row" if spec.unit_id else "")
        for measure, name in (("sum", f"{each.name}_total"), ("mean", f"{each.name}_average")):
            yield f"      {name}: {{{measure}: {_text(each.name)}, {clip}}}"


def spec_yaml(spec: FirstSpec) -> str:
    """The text of a spec."""
    parts = (_head(spec), _references(spec), _table(spec), _query(spec))
    lines = [
        "# Made by `dprelease new` from the names of the columns and from what was typed; no row was read.",
        *(line for part in parts for line in part),
        "\npublish:",
        "  formats: [csv, parquet, xlsx, html]",
        "  confidence: 0.95  # of the margins beside every number",
        "  unreliable: {relative_error_above: 0.5, show: flag}",
    ]
    return "\n".join(lines) + "\n"


def policy_yaml(account: str, unit: str, epsilon: str, delta: str, selecting: str) -> str:
    """The text of a policy with one account, whose losses add up as zero-concentrated differential privacy."""
    lifetime = f"{{epsilon: {epsilon}, delta: {delta}, selecting: {selecting}}}"
    return (
        "# What may be spent. Kept by whoever answers for the data; a spec can only ask for less.\n"
        "# `lifetime` is for all releases about these people together. `selecting` is the part of delta that queries\n"
        "# with `keys: private` may use; it cannot be changed once the account is in use.\n"
        "accounts:\n"
        f"  {_text(account)}:\n"
        f"    unit: {_text(unit)}\n"
        "    neighboring: add_remove\n"
        "    composition: zcdp\n"
        f"    lifetime: {lifetime}\n"
    )
