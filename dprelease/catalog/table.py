"""The public description of data: declared by the author, never measured."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import ClassVar, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr

from dprelease.canonical import GrownValue, Value
from dprelease.catalog.names import Names
from dprelease.catalog.source import AnySource, DatabaseSource, DeltaSource, MetastoreSource, Source
from dprelease.catalog.weight import Weighting
from dprelease.errors import BrokenPromiseError
from dprelease.privacy.randomized import RandomizedResponse

__all__ = [
    "AnySource",
    "Binned",
    "Catalog",
    "Column",
    "ColumnType",
    "Computed",
    "DatabaseSource",
    "DeltaSource",
    "Derivation",
    "Hierarchy",
    "Join",
    "Key",
    "Mapped",
    "MetastoreSource",
    "PrivateJoin",
    "Range",
    "Reference",
    "Source",
    "Table",
    "TableBounds",
    "TimeFilter",
    "Zeros",
]

ColumnType = Literal["text", "integer", "decimal", "boolean", "date", "timestamp"]
# Text, integer or boolean; a date key is its ISO text. Strict, so that True never becomes 1 nor "06" six.
Key = StrictBool | StrictInt | StrictStr


class Range(Value):
    """Declared inclusive limits of a number; public knowledge, never the observed ones."""

    low: Fraction
    high: Fraction


class Binned(Value):
    """A column of intervals of a number: bin i holds [edges[i], edges[i + 1]); outside all of them is null.

    Attributes:
        of: The number, a column that is declared before.
        edges: Rising, at least two.
    """

    of: str
    edges: tuple[Fraction, ...] = Field(min_length=2)

    @property
    def labels(self) -> tuple[str, ...]:
        """The keys of the bins, lowest first.

        >>> Binned(of="age", edges=(0, 18, Fraction(37, 2))).labels
        ('[0,18)', '[18,18.5)')
        """
        texts = [_decimal(edge) for edge in self.edges]
        return tuple(f"[{low},{high})" for low, high in pairwise(texts))


class Mapped(Value):
    """A column that gives each value of another one a key; what is not listed gets ``otherwise``, a null none.

    Attributes:
        of: A text, integer, boolean or date column that is declared before.
        pairs: (its value, the key); a value is listed once.
        otherwise: The key of every other value that is not null; None: it is null.
    """

    of: str
    pairs: tuple[tuple[Key, Key], ...]
    otherwise: Key | None = None


class Computed(Value):
    """A column computed from others of the same row by a total function.

    Attributes:
        sql: The canonical text of an expression (``catalog.expressions.expression``).
    """

    sql: str


Derivation = Binned | Mapped | Computed


class Column(GrownValue):
    """One column as declared.

    Attributes:
        name: Its name in the source (or in the reference that a join adds it from).
        type: How its text or stored value is read.
        keys: Its public key set in published order, or None where it has none.
        labels: Key (as text) to the words that a reader sees.
        range: For integer and decimal: values outside are clamped or become null.
        step: The grid of sums: values are rounded to multiples of it before they are clipped.
        rank_step: The grid of quantiles, where it is another one; None: it is ``step``.
        step_from: Who chose the grids: the author, or the limits of what is measured. None: nobody had to, as for
            whole numbers; or the plan is older than this field, and a decimal without a written step had a step of 1.
        outside: What happens to a number outside ``range``.
        null: The key that a null belongs to; None: a null belongs to no cell.
        measured_in: The unit of its numbers, such as EUR, as a reader sees it.
        reference: The reference that a join adds this column from; None: no public join does.
        lent_by: The confidential table that a join adds this column from; None: no such join does.
        derivation: How it is computed from other columns of the row; None: it is not.
        partition: Whether its value stands in the path of a file, in a folder ``name=value``.
        title: What a reader of a page sees in the place of its name; plans have it in ``Catalog.names``.
        collected: By which law its values were randomized before they were collected; None: they are the truth.
    """

    LATER: ClassVar[tuple[str, ...]] = ("rank_step", "step_from", "partition", "title", "collected")
    name: str
    type: ColumnType
    keys: tuple[Key, ...] | None = None
    labels: dict[str, str] = {}
    range: Range | None = None
    step: Fraction = Fraction(1)
    rank_step: Fraction | None = None
    step_from: Literal["spec", "limits"] | None = None
    outside: Literal["clamp", "null"] = "clamp"
    null: Key | None = None
    measured_in: str = ""
    reference: str | None = None
    lent_by: str | None = None
    derivation: Derivation | None = None
    partition: bool = False
    title: str = ""
    collected: RandomizedResponse | None = None

    def grid_of(self, kind: str) -> Fraction:
        """The grid that a quantity of this kind is measured on: ``quantile``, or one that is a sum of values.

        >>> share = Column(name="share", type="decimal", step=Fraction(1, 10**6), rank_step=Fraction(1, 1000))
        >>> [str(share.grid_of(kind)) for kind in ("sum", "square", "quantile")]
        ['1/1000000', '1/1000000', '1/1000']
        """
        return self.rank_step if kind == "quantile" and self.rank_step is not None else self.step

    @property
    def shown(self) -> str:
        """What a reader sees: its title, or its name."""
        return self.title or self.name

    @property
    def grids(self) -> tuple[Fraction, ...]:
        """The grids that values are rounded to exactly, from their own digits; none for what is whole already."""
        if self.type != "decimal":
            return ()
        return tuple(dict.fromkeys((self.grid_of("sum"), self.grid_of("quantile"))))

    @property
    def in_source(self) -> bool:
        """Whether it is read from the table's own files."""
        return self.reference is None and self.lent_by is None and self.derivation is None

    @property
    def cells(self) -> int:
        """How many public keys it has."""
        return len(self.keys or ())


class Join(Value):
    """A left join with a public reference whose key is unique: it adds columns and never rows."""

    reference: str
    on: str
    add: tuple[str, ...]


class PrivateJoin(Value):
    """A left join with another confidential table on the unit id of both: it adds columns of the same unit's rows.

    Attributes:
        table: The other table; its unit is the same entity.
        on: The unit id of this table.
        max_matches: Of the other table's rows, at most so many per unit are joined (truncated as that table says).
            A row of this table without a match stays, with nulls.
        add: Columns of the other table.
    """

    table: str
    on: str
    max_matches: int = Field(ge=1)
    add: tuple[str, ...]


class TableBounds(Value):
    """How many rows of the table one unit may have; further ones are left out by a rule that sees only the unit's rows.

    Attributes:
        max_rows: Per unit, over the whole table.
        truncate: Which rows stay: a keyed random sample, or the first or last by ``order_by``.
        order_by: Columns of the source; only for ``first`` and ``last``. Ties break on the full row content.
    """

    max_rows: int = Field(ge=1)
    truncate: Literal["sample", "first", "last"] = "sample"
    order_by: tuple[str, ...] = ()


class TimeFilter(Value):
    """Only rows of the release's period are read: those whose time lies in ``[start, end)``.

    A selection by a row's own value maps neighbouring data sets to neighbouring data sets (what one unit adds, removes
    or replaces stays rows of that unit, and no more of them), so no sensitivity grows. It comes before anything counts
    the rows of a unit, so that bounds hold per period; and it acts on every table by itself, so that a private join
    meets only rows of the period on a side that has a time. Two periods without a common day read no row in common:
    a window of an account is charged only by releases that may have seen its rows.

    Attributes:
        column: The column of the source, declared or only named here; a null or unreadable time belongs to no period.
        type: How it is read; a timestamp's day is that in UTC.
        start: The first day.
        end: The first day after it.
    """

    column: str
    type: Literal["date", "timestamp"]
    start: date
    end: date


class Reference(Value):
    """A public file, pinned by its content."""

    name: str
    file: str
    sha256: str
    columns: dict[str, ColumnType]


class Table(GrownValue):
    """One confidential table.

    Attributes:
        name: Its name in the spec.
        account: The account of the policy that pays.
        source: Where its rows are.
        columns: As declared, the source's first; a derived column comes after those that it is computed from.
        joins: With public references, one after the other.
        unit_id: The column that says whose row it is, compared as canonical text; None: every row is one unit.
        null_id: What becomes of rows without an id: they are dropped, or each is a unit of its own.
        bounds: How many rows of one unit stay.
        private_joins: With confidential tables of the same units.
        time: Which rows belong to the release's period; None: all of them.
        weight: For how many people a row stands; None: for one.
        engine: What reads it and adds up; None: this machine, by the first engine that reads such a source.
    """

    LATER: ClassVar[tuple[str, ...]] = ("time", "weight", "engine")
    __slots__ = ("_known_columns", "_known_types")  # as those of ``Value``
    name: str
    account: str
    source: AnySource
    columns: tuple[Column, ...]
    joins: tuple[Join, ...] = ()
    unit_id: str | None = None
    null_id: Literal["drop", "unit"] = "drop"
    bounds: TableBounds | None = None
    private_joins: tuple[PrivateJoin, ...] = ()
    time: TimeFilter | None = None
    weight: Weighting | None = None
    engine: Literal["spark"] | None = None

    @property
    def most_rows(self) -> int | None:
        """How many rows one unit can have after joins and bounds; None: no bound is declared.

        Each of at most ``max_rows`` rows meets at most ``max_matches`` rows in every private join.
        """
        if self.unit_id is None:
            return 1
        if self.bounds is None:
            return None
        return self.bounds.max_rows * prod(join.max_matches for join in self.private_joins)

    @property
    def files(self) -> Source:
        """Its source, for a reader of files: it is handed no table whose rows are elsewhere."""
        if not isinstance(self.source, Source):
            raise BrokenPromiseError(f"the rows of table {self.name!r} are in no file")
        return self.source

    def column(self, name: str) -> Column:
        """The declared column of that name.

        Raises:
            KeyError: If there is none.
        """
        return self.named[name]

    @property
    def named(self) -> Mapping[str, Column]:
        """The columns by name; worked out once, for a thousand queries may be of a thousand columns."""
        try:
            known: Mapping[str, Column] = object.__getattribute__(self, "_known_columns")
        except AttributeError:
            known = {column.name: column for column in reversed(self.columns)}  # of two of a name the first
            object.__setattr__(self, "_known_columns", known)
        return known

    @property
    def types(self) -> Mapping[str, ColumnType]:
        """The declared type of every column, by name."""
        try:
            known: Mapping[str, ColumnType] = object.__getattribute__(self, "_known_types")
        except AttributeError:
            known = {column.name: column.type for column in self.columns}
            object.__setattr__(self, "_known_types", known)
        return known

    def cells(self, by: tuple[str, ...]) -> int:
        """The number of cells of the full cross product of the keys of ``by`` (1 where it is empty)."""
        return prod(self.column(name).cells for name in by)


class Hierarchy(Value):
    """Columns that nest: every key of a level lies in one key of the level above, by public files alone.

    A row with a key at the lowest level has that key's ancestors in the columns above, for these are looked up or
    computed from it.

    Attributes:
        name: Its name in the spec.
        levels: Columns, top first. The nodes of a level are the keys of its column in published order.
        parents: For every level but the top one: of each node the position of its parent in the level above.
    """

    name: str
    levels: tuple[str, ...]
    parents: tuple[tuple[int, ...], ...]


class Zeros(Value):
    """Key combinations of some columns that no row can have, as a public file says.

    Attributes:
        reference: The name of the public file.
        columns: The columns, in the order of a workload's attributes.
        cells: The positions of the combinations in the full cross product of their keys, the last column fastest;
            rising.
    """

    reference: str
    columns: tuple[str, ...]
    cells: tuple[int, ...]


class Catalog(GrownValue):
    """Everything declared that a plan needs, by name.

    Attributes:
        tables: The confidential tables.
        references: The public files.
        exclusions: For every query that leaves key combinations out: the positions of those cells in the full
            cross product of its keys, rising.
        hierarchies: Those that queries use.
        zeros: For every workload with impossible key combinations, by its name: which these are.
        names: What people are shown in the place of names, and in which languages; None: titles and labels alone.
    """

    LATER: ClassVar[tuple[str, ...]] = ("hierarchies", "zeros", "names")
    tables: dict[str, Table]
    references: dict[str, Reference] = {}
    exclusions: dict[str, tuple[int, ...]] = {}
    hierarchies: dict[str, Hierarchy] = {}
    zeros: dict[str, Zeros] = {}
    names: Names | None = None


def _decimal(number: Fraction) -> str:
    """A rational as digits where a decimal can write it, else as a fraction."""
    places = next((n for n in range(19) if (number * 10**n).denominator == 1), None)
    if places is None:
        return str(number)
    whole = abs(int(number * 10**places))
    digits = str(whole).rjust(places + 1, "0")
    text = digits if not places else f"{digits[:-places]}.{digits[-places:]}"
    return f"-{text}" if number < 0 else text
