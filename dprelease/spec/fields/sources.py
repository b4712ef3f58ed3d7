"""What the author writes of a confidential source: files, how a CSV writes its rows, or a table elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic.config import JsonDict

from dprelease.canonical import GrownValue
from dprelease.catalog.dialect import AS_STORED, ENCODINGS, STATISTICAL, Dialect, day_pattern
from dprelease.catalog.source import (
    DATABASE_SCHEMES,
    EXPORT,
    SOURCE_FORMATS,
    AnySource,
    DatabaseSource,
    DeltaSource,
    MetastoreSource,
    Source,
    store_problem,
)
from dprelease.catalog.urls import HOLD, VARIABLE, user_part
from dprelease.spec.fields.value import SpecValue
from dprelease.spec.text.names import shown
from dprelease.spec.text.numbers import Constant, Numeral
from dprelease.spec.text.scalars import AsWritten, Filled, Flag, Whole, kind_of, refuse

__all__ = ["SourceSpec"]

_SAME = {"ascii": "utf-8", "utf8": "utf-8", "latin1": "latin-1", "iso-8859-1": "latin-1", "iso8859-1": "latin-1"}
_MOST_SKIPPED = 1000
_VARIABLE = re.compile(r"\$\{env:[^}]*\}")


def _readable(file: str) -> str:
    if file.lower().endswith((".xls", ".xlsm", ".xlsb", ".ods")):
        says = "is a workbook of a kind that is not read"
        raise refuse(
            "DPR-S216", says, "save it as an Excel workbook (.xlsx) or the sheet as CSV in UTF-8, and name that file"
        )
    if not file.lower().endswith((*SOURCE_FORMATS.values(),)):
        *endings, last = SOURCE_FORMATS.values()
        says = f"names a file that ends in none of {', '.join(endings)} and {last}"
        raise refuse("DPR-S216", says, "export it as one of these")
    if _WHOLE_DISK.match(file):
        says = "looks for files on the whole disk: no folder is named before the `**`"
        raise refuse("DPR-S248", says, "name the folder that they are in, as in /srv/office/visits/**/*.csv")
    if "://" in file and not file.startswith("${") and (problem := store_problem(_VARIABLE.sub("x", file))):
        raise refuse("DPR-S245", *problem)
    return file


_SECRET = re.compile(r"[?&](?:user|(?:ssl)?password)=([^&]*)", re.IGNORECASE)
_WHOLE_DISK = re.compile(r"/+(?:[^/]*[*?\[][^/]*/+)*\*\*(?:/|$)")
_FOREIGN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def _database(written: str) -> str:
    """A URL of a known kind; what looks like a server may have a password in it, which no message repeats."""
    bare, known = VARIABLE.sub(HOLD, written), tuple(DATABASE_SCHEMES.values())
    examples = ", ".join(f"`database: {each.example}`" for each in known)
    if not bare.startswith(HOLD) and not any(scheme.takes(bare) for scheme in known):
        begins = any(bare.lower().startswith(prefix.rstrip("/")) for each in known for prefix in each.prefixes)
        if _FOREIGN.match(bare) and not begins:
            raise refuse("DPR-S237", "names a database of a kind that is not read", EXPORT)
        raise refuse("DPR-S237", "is no URL of a database", f'write {examples}, or "${{env:NAME}}" that holds one')
    credentials = [*user_part(bare, known).split(":"), *_SECRET.findall(bare)]
    if any(each.strip(HOLD) for each in credentials):
        hint = "name one variable that holds the whole URL, ${env:OFFICE_DB}; or leave user and password to a service "
        raise refuse("DPR-S238", "holds a user or a password", f"{hint}file (?service=NAME) and a password file")
    return written


def _query_file(file: str) -> str:
    if not file.lower().endswith(".sql"):
        raise refuse(
            "DPR-S236", "names a query that is no .sql file", "write the query into a file, such as people.sql"
        )
    return file


def _encoding(name: str) -> str:
    plain = name.strip().lower().replace("_", "-")
    plain = plain.replace("cp125", "windows-125").replace("windows125", "windows-125")
    plain = {"shift-jis": "shift_jis", "sjis": "shift_jis"}.get(plain, _SAME.get(plain, plain))
    if plain.startswith(("utf-16", "utf16", "utf-32", "utf32", "ucs-2")):
        hint = "save the file as UTF-8: where a character is two bytes, one lost byte changes every row below it"
        raise refuse("DPR-S231", f"is {name!r}, in which lines cannot be read apart", hint)
    if plain not in ENCODINGS:
        raise refuse("DPR-S231", f"is {name!r}, which is not known", f"write one of {', '.join(ENCODINGS)}")
    return plain


def _date_format(text: str) -> str:
    try:
        day_pattern(text)
    except ValueError:
        why = "%y: a year of two digits says no century" if "%y" in text else "%d, %m and %Y, once each"
        hint = 'write `date_format: "%d.%m.%Y"` for 07.03.2024 or 7.3.2024; a time of day after it is HH:MM[:SS]'
        says = f"holds {why}" if "%y" in text else f"does not hold {why}, and nothing else after a %"
        raise refuse("DPR-S232", says, hint) from None
    return text


def _one_of(marks: Mapping[str, str]) -> Callable[[Any], str]:
    """The mark that a text is or names; others are told with all that there are, each in quotes."""

    def check(value: Any) -> str:
        text = value.text if isinstance(value, Numeral | Constant) else value
        if isinstance(text, str) and text in marks:
            return marks[text]
        raise refuse(
            "DPR-S202", f"is {kind_of(value)}, no such mark", f"write one of {', '.join(map(_in_quotes, marks))}"
        )

    return check


def _in_quotes(mark: str) -> str:
    return mark if mark.isalpha() else json.dumps(mark)


_DELIMITERS = {",": ",", ";": ";", "|": "|", "tab": "\t", "\t": "\t"}
_QUOTES = {'"': '"', "'": "'", "none": "none"}
_DECIMALS = {".": ".", ",": ","}
_THOUSANDS = {mark: mark for mark in (".", ",", "'", " ", "\u2019", "\u00a0", "\u202f")}


def _mark(marks: Mapping[str, str]) -> Any:
    return BeforeValidator(_one_of(marks), json_schema_input_type=Literal[tuple(marks)])


def _header(value: Any) -> tuple[Any, ...]:
    """The listed names; none for ``true``: then a line of the file names the columns."""
    written = value.value if isinstance(value, Constant) else value
    if written is True or (isinstance(written, list | tuple) and written):
        return () if written is True else tuple(written)
    hint = "write `header: [id, sex, age]`, all columns in the order of the file, where no line of it names them"
    raise refuse("DPR-S203", f"is {kind_of(value)}, neither true nor a list of names", hint)


def _skipped(number: int) -> int:
    if not 0 <= number <= _MOST_SKIPPED:
        raise refuse("DPR-S209", f"is not from 0 to {_MOST_SKIPPED:,}", "write how many lines come before the header")
    return number


def _lake(folder: str) -> str:
    place = _VARIABLE.sub("x", f"{folder}/x")
    if "://" in folder and not folder.startswith("${") and (problem := store_problem(place)):
        raise refuse("DPR-S245", *problem)
    if folder.lower().endswith(".parquet") or any(mark in folder for mark in "*?["):
        raise refuse("DPR-S247", "names files", "name the folder that holds `_delta_log`: `delta: data/visits`")
    return folder


def _numbered(version: int) -> int:
    if version < 0:
        raise refuse("DPR-S209", "is negative", _NEWEST)
    return version


_NEWEST = (
    "write `version: N`: the newest one is the number of the last file NNN.json in the folder `_delta_log`, and what "
    "`python -c 'import deltalake; print(deltalake.DeltaTable(\"FOLDER\").version())'` prints"
)
_NAMED = re.compile(r"[A-Za-z0-9_]{1,128}\.[A-Za-z0-9_]{1,128}")


def _metastore(name: str) -> str:
    """The name of a database and of a table in it: of letters that mean nothing to anybody who is handed them."""
    if not _NAMED.fullmatch(name):
        says = f"is no name of a table in a metastore: {shown(name)!r}"
        hint = "write the database and the table, as in `metastore: office.visits`, with letters, digits and _"
        if name.count(".") == 2:
            hint = f"{hint}; tables of other catalogs (Unity, Iceberg) are not read: name their files"
        raise refuse("DPR-S740", says, hint)
    return name


_OF_FILES = ("file",)
_OF_CSV = (
    *("delimiter", "quote", "decimal", "thousands", "encoding", "header", "skip"),
    *("date_format", "true_values", "false_values"),
)
_OF_LAKES = ("delta", "version")
_OF_METASTORES = ("metastore", "version")
_OF_DATABASES = ("database", "table", "in_schema", "view", "query")
_KINDS: Mapping[str, tuple[str, ...]] = {
    "file": (*_OF_FILES, *_OF_CSV),
    "delta": _OF_LAKES,
    "metastore": _OF_METASTORES,
    "database": _OF_DATABASES,
}
"""The kinds of sources, by the field that makes a source one: its fields, besides those that every kind has."""

_ONE_KIND: JsonDict = {"oneOf": [{"required": [kind]} for kind in _KINDS]}


class SourceSpec(SpecValue, GrownValue):
    """Where the confidential rows are, and how they are written: of one kind of `_KINDS`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(json_schema_extra=_ONE_KIND)
    LATER: ClassVar[tuple[str, ...]] = (*_OF_FILES, *_OF_CSV, *_OF_LAKES, *_OF_METASTORES[:1], *_OF_DATABASES)
    file: Annotated[Filled, AfterValidator(_readable)] | None = Field(
        None,
        description="Path, pattern or address in a store; ${env:NAME} may stand in it. Its ending says what it is: "
        f"{', '.join(SOURCE_FORMATS.values())}.",
    )
    delta: Annotated[Filled, AfterValidator(_lake)] | None = Field(
        None,
        description="Instead: the folder of a Delta table, or its address; ${env:NAME} may stand in it.",
    )
    version: Annotated[Whole, AfterValidator(_numbered)] | None = Field(
        None, description="Delta: the number of the version that is read."
    )
    metastore: Annotated[Filled, AfterValidator(_metastore)] | None = Field(
        None,
        description="Instead, with `engine: spark`: a table of the session's metastore, DATABASE.TABLE. Its files are "
        "Parquet, or of a Delta table, whose `version` is written too.",
    )
    database: Annotated[Filled, AfterValidator(_database)] | None = Field(
        None, description="Instead: the URL of a database, such as ${env:OFFICE_DB} or sqlite:///data/office.db."
    )
    table: Filled | None = Field(None, description="Database: the name of a table, or of a view.")
    in_schema: Filled | None = Field(
        None, alias="schema", description="Database: the schema of the table; left out: the usual one (public, main)."
    )
    view: Flag = Field(
        False, description="Database: true says that it is a view, of which a unit's rows come from that unit alone."
    )
    query: Annotated[Filled, AfterValidator(_query_file)] | None = Field(
        None, description="Database, instead of a table: a file .sql that policy.yaml lists under `source_queries`."
    )
    null_values: tuple[AsWritten, ...] = Field(("",), description="Texts that mean null.")
    delimiter: Annotated[Literal[",", ";", "\t", "|"], _mark(_DELIMITERS)] = Field(
        ",", description="CSV: what stands between two fields; `tab` is one of them."
    )
    quote: Annotated[Literal['"', "'", "none"], _mark(_QUOTES)] = Field(
        '"', description="CSV: what a field with a delimiter in it stands in."
    )
    decimal: Annotated[Literal[".", ","], _mark(_DECIMALS)] = Field(".", description="CSV: the decimal mark.")
    thousands: Annotated[Literal[".", ",", "'", " ", "\u2019", "\u00a0", "\u202f"], _mark(_THOUSANDS)] | None = Field(
        None, description="CSV: the mark between groups of three digits; left out: there is none."
    )
    encoding: Annotated[Filled, AfterValidator(_encoding), WithJsonSchema({"enum": [*ENCODINGS]})] = Field(
        "utf-8", description="CSV: the encoding of its text. SPSS, Stata, SAS: where it is not what the file says."
    )
    header: Annotated[
        tuple[Filled, ...],
        BeforeValidator(_header),
        WithJsonSchema({"oneOf": [{"const": True}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
    ] = Field((), description="CSV: `true`, or the columns in the order of a file without a line that names them.")
    skip: Annotated[Whole, AfterValidator(_skipped)] = Field(0, description="CSV: lines before the header.")
    date_format: Annotated[Filled, AfterValidator(_date_format)] | None = Field(
        None, description="CSV: how a day is written, with %d, %m and %Y; left out: YYYY-MM-DD."
    )
    true_values: tuple[AsWritten, ...] = Field((), description="CSV: texts that mean true, in any case.")
    false_values: tuple[AsWritten, ...] = Field((), description="CSV: texts that mean false, in any case.")

    @property
    def format(self) -> str:
        """The format of the files, by their ending; the kind of the source where they are not named."""
        if self.file is None:
            return next((kind for kind in ("delta", "metastore") if getattr(self, kind) is not None), "database")
        file = self.file.lower()
        return next(name for name, ending in SOURCE_FORMATS.items() if file.endswith(ending))

    @property
    def declared(self) -> AnySource:
        """The source of a plan."""
        if self.database is not None:
            return DatabaseSource(
                database=self.database,
                table=self.table,
                in_schema=self.in_schema,
                view=self.view,
                query=self.query,
                null_values=self.null_values,
            )
        if self.delta is not None:
            return DeltaSource(file=self.delta, version=self.version or 0, null_values=self.null_values)
        if self.metastore is not None:
            return MetastoreSource(file=self.metastore, version=self.version, null_values=self.null_values)
        return Source(file=self.file or "", format=self.format, null_values=self.null_values, dialect=self.dialect)

    @property
    def _names_encoding(self) -> bool:
        return self.format in STATISTICAL and "encoding" not in self.model_fields_set

    @property
    def dialect(self) -> Dialect:
        """How a CSV writes its rows."""
        return Dialect(
            delimiter=self.delimiter,
            quote=None if self.quote == "none" else self.quote,
            encoding=AS_STORED if self._names_encoding else self.encoding,
            header=not self.header,
            names=self.header,
            skip=self.skip,
            decimal=self.decimal,
            thousands=self.thousands,
            date_format=self.date_format,
            true_values=self.true_values,
            false_values=self.false_values,
        )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        said = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(said) != 1:
            found = " and ".join(said) or f"neither {' nor '.join(_KINDS)}"
            hint = 'write one: `{file: data/people.csv}` or `{database: "${env:OFFICE_DB}", table: people}`'
            raise refuse("DPR-S235", f"has {'both ' * bool(said)}{found}", hint)
        own = _KINDS[said[0]]
        others = {self._written(name): kind for kind, names in _KINDS.items() for name in names if name not in own}
        if mixed := [name for name in map(self._written, self.model_fields_set) if name in others]:
            name = min(mixed)
            says = f"has `{name}`, which only a source with `{others[name]}` has"
            raise refuse("DPR-S235", says, f"leave it out, or write `{others[name]}` in place of `{said[0]}`")
        if self.delta is not None and self.version is None:
            says = "has no `version`: a Delta table changes, and a plan names the state that it is of"
            raise refuse("DPR-S246", says, _NEWEST)
        if self.database is not None and (self.table is None) == (self.query is None):
            found = "neither table nor query" if self.table is None else "both table and query"
            hint = "write one: `table: people`, or `query: people.sql`, which the policy must list"
            raise refuse("DPR-S236", f"has {found}", hint)
        if self.query is not None and (self.in_schema is not None or self.view):
            hint = "leave `schema` and `view` out: the query itself names what it reads"
            raise refuse("DPR-S236", "has a query beside what belongs to a table", hint)
        return self

    @classmethod
    def _written(cls, name: str) -> str:
        """The name of a field in the file."""
        return cls.model_fields[name].alias or name

    @model_validator(mode="after")
    def _one_meaning(self) -> Self:
        may = {"encoding"} if self.format in STATISTICAL else set()
        written = [name for name in _OF_CSV if name in self.model_fields_set - may]
        if not self.format.startswith("csv") and written:
            says = f"has {', '.join(f'`{name}`' for name in written)}, which only a CSV has"
            raise refuse("DPR-S233", says, f"leave it out: a .{self.format} file says itself how it is written")
        if self.thousands == self.decimal:
            hint = "write the mark that the file has between thousands, or leave `thousands` out"
            raise refuse("DPR-S234", "has one mark for decimals and thousands", hint)
        if bool(self.true_values) != bool(self.false_values):
            says = "has `true_values` without `false_values`" if self.true_values else "has only `false_values`"
            raise refuse("DPR-S234", says, "write both: `true_values: [ja], false_values: [nein]`")
        small = [{text.lower() for text in texts} for texts in (self.true_values, self.false_values)]
        if both := sorted(small[0] & small[1]):
            raise refuse("DPR-S234", f"has {both[0]!r} as true and as false", "keep it in one of the lists")
        if len(set(self.header)) < len(self.header):
            hint = "give each column of the file, read or not, a name of its own, in the order of the file"
            raise refuse("DPR-S234", "has a `header` that names a column twice", hint)
        return self
