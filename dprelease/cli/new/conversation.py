"""The questions, in their order, to a first spec: each explains itself in one line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal
from unicodedata import combining, normalize

from dprelease.catalog.dialect import ENCODINGS
from dprelease.catalog.table import ColumnType
from dprelease.cli.new import reading
from dprelease.cli.new.questions import Interview
from dprelease.cli.new.rows import FirstTable
from dprelease.cli.views import say
from dprelease.errors import Problem, SpecError
from dprelease.release.data.column_names import ColumnNames, first_line
from dprelease.spec.text.names import COLUMN_NAME
from dprelease.starter.first_spec import FirstColumn, FirstSpec

__all__ = ["NewAccount", "Talk"]

_MARKS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}
_NAMES = {mark: name for name, mark in _MARKS.items()}
_RELEASE, _PERIOD = "[a-z0-9][a-z0-9-]{0,62}", "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


@dataclass(frozen=True)
class NewAccount:
    """An account to open: its name, cap and the part of its delta for selected keys."""

    name: str
    epsilon: str
    delta: str
    selecting: str


class Talk:
    """One conversation about the rows of one table.

    Args:
        questions: Who answers.
        rows: What they are about.
        accounts: The accounts of the policy that is there, to the unit of each; None: there is no policy.
    """

    def __init__(
        self,
        questions: Interview,
        rows: FirstTable,
        accounts: Mapping[str, str] | None,
    ) -> None:
        self._questions, self._ask = questions, questions.ask
        self._rows = rows
        self._accounts = accounts
        self._form: dict[str, str] = {}
        self._used: dict[str, ColumnType | None] = {}
        self._types: Mapping[str, ColumnType] = {}

    def held(self) -> tuple[FirstSpec, NewAccount | None]:
        """Ask everything.

        Returns:
            The spec, and the account that is to be opened for it; None: it is in the policy.

        Raises:
            SpecError: If the file cannot be taken, an answer is wrong, or one is missing and nobody can be asked.
        """
        found = self._columns()
        names, self._types = found.names, found.types
        if self._questions.on_terminal:
            say("\n".join(["The columns, by the first line or the file's own dictionary:", *_numbered(names)]))
        entity, unit_id, max_rows = self._unit(names)
        by = self._published([name for name in names if name != unit_id])
        numbers = self._numbers([name for name in names if name != unit_id])
        time, time_type = self._time(names)
        self._notation()
        first = self._release(entity)
        account, opened = self._account(entity)
        self._questions.require_all()
        plain = self._plain_names(names, [name for name in (*self._used, unit_id) if name])
        columns = {each.name: each for each in (*by, *numbers)}
        for each in by:
            columns[each.name] = replace(each, range=columns[each.name].range)
        named = {name: replace(each, name=plain[name]) for name, each in columns.items()}
        spec = replace(
            first,
            account=account,
            table=re.sub(r"\W+", "_", self._rows.name, flags=re.ASCII).strip("_") or "rows",
            source=(*self._rows.source, *self._form.items()),
            unit_id=plain.get(unit_id, ""),
            max_rows=max_rows,
            time=plain.get(time, ""),
            time_type=time_type,
            columns=tuple(named.values()),
            by=tuple(named[each.name] for each in by),
            numbers=tuple(replace(each, name=plain[each.name]) for each in numbers),
        )
        return spec, opened

    def _columns(self) -> ColumnNames:
        if self._rows.columns is not None:
            return self._rows.columns
        path = self._rows.path
        line = None if self._rows.header or path is None else first_line(path)
        there = tuple(_MARKS.values()) if line is None else line.delimiters
        why = "A CSV has one sign between its fields; it is taken from the first line alone."
        if len(there) > 1 or self._questions.has("--delimiter"):
            proposal = None if line is None else _NAMES[there[0]]
            name = self._ask("--delimiter", "comma, semicolon, tab or bar", why, reading.among(_MARKS), proposal)
        else:
            name = _NAMES[there[0]] if there else "comma"
        sure = None if line is None else line.encoding
        encoding = sure
        if sure is None or self._questions.has("--encoding"):
            why = "The first line does not tell how letters beyond a-z are stored: utf-8, latin-1, windows-1252, ..."
            encoding = self._ask("--encoding", "encoding", why, reading.among(ENCODINGS), _usual(line))
        mark = _MARKS[name or "comma"]
        if mark != ",":
            self._form["delimiter"] = "tab" if mark == "\t" else json.dumps(mark)
        if encoding not in (None, "utf-8"):
            self._form["encoding"] = str(encoding)
        if name is None or (encoding is None and line is not None and not line.line.isascii()):
            self._questions.require_all()  # without them nobody knows the names
        return ColumnNames(self._rows.header) if line is None else line.named(mark, encoding or "utf-8")

    def _unit(self, names: Sequence[str]) -> tuple[str, str, str]:
        why = "Who is protected: the tables look much the same with any one of them or without."
        entity = self._ask("--unit", "one row is about a person, a household, ...", why, reading.some, "person")
        why = "If one of them can have several rows, a column says whose a row is; `none`: every row is another one."
        likely = _likely_id(names) if self._questions.on_terminal else None  # no pipe is told a name that nobody chose
        read = reading.column_of(names, none=True)
        unit_id = self._ask("--id", "column of the id, or none", why, read, likely) or ""
        rows = ""
        if unit_id:
            why = "More rows of one are left out; noise grows with this number. Take it from how the data are made."
            question = f"rows of one {entity or 'unit'} that count"
            rows = self._ask("--max-rows", question, why, reading.counting_number) or ""
        return entity or "", unit_id, rows

    def _published(self, names: Sequence[str]) -> list[FirstColumn]:
        why = "The first table has one row for every combination of these columns' values; `none`: one row in all."
        chosen = self._ask("--by", "columns, with commas between", why, reading.columns_of(names)) or ()
        found = []
        for name in chosen:
            kind = self._type(name)
            why = (
                "Every value that can be, from a code list or a questionnaire, never from the data: "
                "`1,2`, `2015..2024`, `@us-states`, or `bands 0,18,65,120`."
            )
            if kind is not None:
                keys = self._ask(f"--keys {name}", f"values of {name}", why, reading.keys_of(kind))
                found += [] if keys is None else [reading.published(name, kind, keys)]
        return found

    def _type(self, name: str) -> ColumnType | None:
        if name not in self._used:
            why = f"How {name} is read: text (codes too), integer, decimal, boolean, date or timestamp."
            guess = self._types.get(name) or reading.guessed_type(name)
            self._used[name] = self._ask(f"--type {name}", f"type of {name}", why, reading.kind_of_column, guess)
        return self._used[name]

    def _numbers(self, names: Sequence[str]) -> list[FirstColumn]:
        why = "Rows are counted in any case; of these columns there will be totals and averages. `none`: counts alone."
        chosen = self._ask("--numbers", "columns, with commas between", why, reading.columns_of(names), "none") or ()
        found = []
        for name in chosen:
            kind = self._type(name)
            if kind not in (None, "integer", "decimal"):
                says = f"--numbers: column {name!r} is of type {kind}, of which there is no total"
                raise SpecError([Problem("DPR-S908", says, "choose columns of type integer or decimal")])
            why = "The least and greatest value that can be, from the questionnaire or a law; others are held to it."
            limits = self._ask(f"--range {name}", f"range of {name}", why, reading.pair)
            why = (
                "Noise grows with the clip: values beyond it count as its end. Tighter is less noise and more cut off."
            )
            proposal = ",".join(limits) if limits else None
            clip = self._ask(f"--clip {name}", f"clip of {name}", why, reading.pair, proposal)
            found.append(FirstColumn(name, kind or "decimal", range=limits, clip=clip))
        return found

    def _time(self, names: Sequence[str]) -> tuple[str, Literal["date", "timestamp"]]:
        likely = [
            name for name in names if (self._types.get(name) or reading.guessed_type(name)) in ("date", "timestamp")
        ]
        if not likely and not self._questions.has("--time"):
            return "", "date"
        why = "A column whose day says whether a row is of the period; `none`: all rows of the file are."
        time = self._ask("--time", "column, or none", why, reading.column_of(names, none=True), "none") or ""
        if not time:
            return "", "date"
        return time, "timestamp" if self._type(time) == "timestamp" else "date"

    def _notation(self) -> None:
        """How a CSV writes the values that are read; nothing in its first line tells."""
        if not self._rows.is_csv:
            return
        kinds = set(self._used.values())
        if "decimal" in kinds or self._questions.has("--decimal"):
            why = "The sign before decimal digits; a number that is written otherwise would count as missing."
            proposal = "comma" if "delimiter" in self._form else "point"
            mark = self._ask("--decimal", "point or comma", why, reading.among(("point", "comma")), proposal)
            self._form |= {"decimal": '","'} if mark == "comma" else {}
        if kinds & {"date", "timestamp"} or self._questions.has("--date-format"):
            why = "How a day is written: %Y-%m-%d is 2024-03-07, %d.%m.%Y is 07.03.2024 or 7.3.2024."
            form = self._ask("--date-format", "form of a day", why, reading.some, "%Y-%m-%d")
            self._form |= {"date_format": json.dumps(form)} if form not in (None, "%Y-%m-%d") else {}

    def _release(self, entity: str) -> FirstSpec:
        why = "With its name a release is made once for each period: 2024, 2024-Q1, 2024-03, or once."
        period = self._ask("--period", "period", why, reading.matching(_PERIOD, "2024, 2024-03 or the like"))
        why = "What it may cost: epsilon, and delta far below one over the number of people. 1,1e-9 is a usual start."
        budget = self._ask("--budget", "epsilon,delta", why, reading.budget) or ("", "")
        why = "The name of the release, in the ledger and as its folder: a-z, 0-9 and -."
        proposal = re.sub("[^a-z0-9]+", "-", self._rows.name.lower()).strip("-") or None
        name = self._ask("--name", "name", why, reading.matching(_RELEASE, "a-z, 0-9 and -"), proposal)
        told = {}
        for option, why in (
            ("title", "What a reader sees above the table; may be empty."),
            ("curator", "The office that answers for the release; may be empty."),
            ("contact", "Where readers may ask; may be empty."),
        ):
            told[option] = self._ask(f"--{option}", option, why, reading.optional, "") or ""
        epsilon, delta = budget
        head = FirstSpec(
            name or "", period or "", told["title"], told["curator"], told["contact"], entity, "", "", "", "", ()
        )
        return replace(head, epsilon=epsilon, delta=delta)

    def _account(self, entity: str) -> tuple[str, NewAccount | None]:
        if self._accounts is not None:
            why = "The account that pays, of the data owner's policy; it is never changed from here."
            usual = next((name for name, unit in self._accounts.items() if unit == entity), None)
            return self._ask("--account", "account", why, reading.among(self._accounts), usual) or "", None
        why = "The account that keeps what all releases about these people cost together."
        form = reading.matching(COLUMN_NAME.pattern, "letters, digits and _")
        account = self._ask("--account", "account", why, form, "people") or ""
        why = "The cap of the account, for all releases together; the data owner's choice, as 4,1e-8."
        epsilon, delta = self._ask("--cap", "epsilon,delta", why, reading.budget) or ("1", "1")
        return account, NewAccount(account, epsilon, delta, f"{float(Fraction(delta) / 2):g}".replace("e-0", "e-"))

    def _plain_names(self, names: Sequence[str], chosen: Sequence[str]) -> dict[str, str]:
        """The names in the spec; where the file's cannot stand in one, all columns get names of their own.

        Then a column that nobody chose is called by its place, so that no name of it is written.
        """
        if not self._rows.header and all(COLUMN_NAME.fullmatch(name) for name in chosen):
            return {name: name for name in chosen}
        if not self._rows.is_csv:
            says = "a column that was chosen has a name that cannot stand in a spec: a-z, A-Z, 0-9 and _ can"
            raise SpecError([Problem("DPR-S907", says, "give it another name there, or in a view of the rows")])
        plain: dict[str, str] = {}
        for name in names:
            own = re.sub(r"\W+", "_", _ascii(name), flags=re.ASCII).strip("_") or "column"
            own = own if COLUMN_NAME.fullmatch(own) else f"c_{own}"[:63]
            place = f"column_{len(plain) + 1}"
            plain[name] = own if name in chosen and own not in plain.values() else place
        self._form |= {} if self._rows.header else {"skip": "1  # the first line: the columns get the names below"}
        self._form["header"] = f"[{', '.join(map(json.dumps, plain.values()))}]"
        return plain


def _numbered(names: Sequence[str]) -> list[str]:
    return [f"  {at:>3}  {name if name.isprintable() else ascii(name)}" for at, name in enumerate(names, start=1)]


def _ascii(name: str) -> str:
    """A name with its letters' marks left out.

    >>> _ascii("Größe"), _ascii("Genève")
    ('Grosse', 'Geneve')
    """
    return "".join(each for each in normalize("NFKD", name.replace("ß", "ss")) if not combining(each))


def _likely_id(names: Sequence[str]) -> str | None:
    """A column that is called an id; without one nothing is proposed: a wrong `none` would protect rows, not people."""
    return next((name for name in names if re.fullmatch(r"id|.*[_ -]id|.*[a-z]I[dD]|pid|uid", name, re.ASCII)), None)


def _usual(line: object) -> str:
    """What to propose where the first line does not tell: bytes beyond ASCII that are not UTF-8 are likely latin-1."""
    found = getattr(line, "line", b"")
    return "utf-8" if found.isascii() else "latin-1"
