"""What every engine must say, and how a driver's failure is told without a driver's words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Protocol, TypeVar

from dprelease.catalog.aggregate import Grouping, Quantity, TotalsCube
from dprelease.catalog.cells import CellSlice
from dprelease.catalog.reference import References
from dprelease.catalog.table import Catalog, Column, Key, Table
from dprelease.errors import DpReleaseError, EngineError, NotEnoughMemory, Unavailable
from dprelease.noise.exact import Exact, ExactHistogram, ExactKeys

__all__ = ["MEMORY", "Engine", "Maker", "OpenedEngine", "scrubbed"]

MEMORY = "DPRELEASE_MEMORY"  # the variable of the environment with the memory that a process may take

Result = TypeVar("Result")


class Engine(Protocol):
    """Runs bounded exact aggregates over confidential tables; safe to call from several threads."""

    def describe(self, table: Table) -> None:
        """Check that the source is there and has the declared columns; reads headers and schemas only.

        Raises:
            Unavailable: If a file or an environment variable is missing.
            TableMismatch: If a declared column is missing from a file, or is in it twice, or a file is there twice.
        """
        ...

    def check(
        self,
        catalog: Catalog,
        grouping: Grouping,
        quantities: Sequence[Quantity],
        references: References,
        within: CellSlice | None = None,
    ) -> None:
        """Refuse everything that :meth:`aggregate` and :meth:`units_by_key` would refuse as ``Unsupported``.

        It reads no file, so that a plan that this engine cannot run is told before anything is charged for it.

        Args:
            catalog: As for :meth:`aggregate`, and so are the others.
            grouping: See there.
            quantities: The quantities of the grouping's steps; a selection of keys has none.
            references: See there.
            within: See there.

        Raises:
            Unsupported: Says what cannot be computed; depends on public declarations alone.
        """
        ...

    def present(self, table: Table) -> None:
        """Check that the source can be read now, without reading any of it.

        Raises:
            Unavailable: If a file or an environment variable is missing, or a file may not be read.
        """
        ...

    def fingerprint(self, table: Table, key: bytes) -> tuple[str, ...]:
        """Keyed hashes of what the source holds now, sorted: one per file, whatever the files' names and order.

        The second time is cheap where nothing was written. Taken both before a table is first read and after a call
        of :meth:`aggregate` or :meth:`units_by_key`, it is that of the rows that the call answered from, even if this
        engine read them earlier and kept them.

        Args:
            table: Whose source; of a source without rows its account counts too, so that no two accounts share it.
            key: 64 secret bytes (32 of an earlier key); without them the hashes tell nothing.

        Raises:
            Unavailable: If the source cannot be read now, or is written to meanwhile.
            TableMismatch: If two of its files are one file, or have the same rows, byte for byte.
            EngineError: If it was written to since its rows were read, whatever it holds now.
        """
        ...

    def expect(self, catalog: Catalog, asked: Iterable[tuple[Grouping, Sequence[Quantity]]]) -> None:
        """Say what will be asked, by the plan alone, so that an engine need not read what nothing looks at.

        No answer depends on it: whatever else is asked is answered too, if need be by reading more.

        Args:
            catalog: As for :meth:`aggregate`.
            asked: Groupings, and what is asked of each; a selection of keys has no quantity.
        """
        ...

    def aggregate(
        self,
        catalog: Catalog,
        grouping: Grouping,
        quantities: Sequence[Quantity],
        references: References,
        secret: bytes,
        keys: Sequence[tuple[Key, ...]] | None = None,
        within: CellSlice | None = None,
        cube: TotalsCube | None = None,
    ) -> tuple[Exact | ExactHistogram, ...]:
        """Total every quantity in every cell of a grouping, over rows that obey the declared bounds.

        The order: rows as they are typed, those of the table's ``time`` alone; at most ``max_rows`` of each unit;
        private joins, each of which makes at most ``max_matches`` rows of one; public joins and derived columns;
        ``where``; ``complete``, which drops a row without a key in one of its columns; the cells, where a row outside
        them is dropped; at most ``max_groups`` cells of each unit and ``max_rows_per_group`` of its rows in each.

        Args:
            catalog: What is declared: the table, those that it joins, the cells that are left out.
            grouping: Which rows, and which cells.
            quantities: What a row or a unit contributes; see ``catalog.aggregate.Quantity``.
            references: The public tables that joins name.
            secret: 32 bytes that samples of a unit's rows are drawn by; a table without units ignores it.
            keys: The cells of a grouping with private keys, in published order. The bounds act before they are
                looked at, so that a unit keeps the same rows as in :meth:`units_by_key`.
            within: Of numbers of complete rows that no bound of the grouping leaves out: only the cells of some keys of
                the first column of ``by``, in the same order. They hold what they hold among all cells.
            cube: From which other groupings are asked too: an engine may count it once, keep it and add up what it
                answers, which gives the same totals. Of a table with units it says nothing.

        Returns:
            One box per quantity, in order. Of a quantile an ``ExactHistogram`` of clipped grid steps; of everything
            else an ``Exact`` of shape ``(cells,)`` and type ``int64``: grid steps, row-major over the keys of ``by``
            (the last column runs fastest) without what is left out, 0 where no row fell. A total beyond ``2**62`` in
            size is clamped to it, which moves no total further than its rows do.

        Raises:
            Unavailable: If a source cannot be reached now.
            Unsupported: If this engine cannot compute that; depends on public declarations alone.
            TableMismatch: As in :meth:`describe`.
            EngineError: If the driver failed; names the class of its error and nothing else.
            BrokenPromiseError: If the bounded rows break a bound: a bug; it tells no number.
        """
        ...

    def units_by_key(self, catalog: Catalog, grouping: Grouping, references: References, secret: bytes) -> ExactKeys:
        """The keys that occur in a grouping with private keys, and how many units have each of them.

        A column with declared keys takes only these, any other one every value that is not null. Keys are in the
        order of their texts.

        Args:
            catalog: As for :meth:`aggregate`.
            grouping: With ``private``; its ``where`` and its bounds act as there.
            references: As there.
            secret: As there.

        Raises:
            Unavailable: As in :meth:`aggregate`, and so are ``Unsupported``, ``TableMismatch``, ``EngineError`` and
                ``BrokenPromiseError``.
        """
        ...

    def close(self) -> None:
        """Forget every loaded row; the engine cannot be used afterwards."""
        ...


class OpenedEngine(Engine, Protocol):
    """What ``ENGINES`` opens: it also hands over what it reads."""

    def stored(
        self, table: Table, columns: Sequence[Column], show: Callable[[int, int], None]
    ) -> Iterator[Sequence[Any]]:
        """Stored values of all rows, block by block, each a list of Arrow arrays: for counts that a person looks at.

        They are those of the state that :meth:`fingerprint` was last asked about, or it says that there is another.

        Args:
            table: The declaration.
            columns: What is read.
            show: Called after every file of the source with how many are done, and how many there are.

        Raises:
            Unavailable: As in :meth:`describe`, and so is ``TableMismatch``.
        """
        ...

    def digest_rows(
        self, table: Table, columns: Sequence[str], days: Sequence[tuple[date, date]], key: bytes
    ) -> tuple[str, ...]:
        """A keyed hash of the rows of each of some stretches of time, whatever their order: what series hold on to.

        Args:
            table: With a ``time``, whose own period does not matter here.
            columns: The columns of its source that count.
            days: Of each stretch its first day, and the first one after it.
            key: 64 secret bytes (32 of an earlier key); without them the hashes tell nothing.

        Raises:
            Unavailable: As in :meth:`aggregate`, and so are ``TableMismatch`` and ``EngineError``.
        """
        ...


class Maker(Protocol):
    """The class of an engine: what it reads, and how one is opened."""

    @property
    def formats(self) -> frozenset[str]:
        """The formats of sources that it reads, as ``catalog.source.SOURCE_FORMATS`` names them."""
        ...

    def __call__(self, folder: Path, environment: Mapping[str, str]) -> OpenedEngine:
        """Open one; sources are relative to the folder, and ``${env:NAME}`` in them names this environment."""
        ...


def scrubbed(doing: str, action: Callable[[], Result]) -> Result:
    """Run an action; whatever a driver raises becomes an error that names its class and nothing else.

    A driver quotes the row that it stumbled over, so neither its text nor the error itself (as cause or
    context) may travel on: the new error is raised after the ``except`` block has ended.

    Raises:
        Unavailable: For a failure of the operating system (it has an ``errno``): later it may work.
        NotEnoughMemory: Where more memory was asked for than there is.
        EngineError: For every other failure.
    """
    try:
        return action()
    except DpReleaseError:
        raise
    except Exception as error:
        kind, outside = type(error).__name__, isinstance(error, OSError) and error.errno is not None
        exhausted = isinstance(error, MemoryError) or kind == "OutOfMemoryException"
    if exhausted:
        raise NotEnoughMemory(
            f"{doing}: there is not enough memory",
            detail="nothing is ever written to disk in its place; what was charged stays charged",
            hint=f"free some memory, or allow more of it (`export {MEMORY}=8GB`, the container's limit); then run the "
            "same command again: it goes on where it stopped",
            code="DPR-E004",
        )
    if outside:
        raise Unavailable(
            f"{doing}: the source cannot be read ({kind})",
            hint="check that the file is there and may be read, then run the same command again",
            code="DPR-E103",
        )
    raise EngineError(
        f"{doing}: failed ({kind}); the driver's own words are withheld, they may quote rows",
        hint="check the files and the free memory of this machine; the budget of this step stays reserved",
        code="DPR-E001",
    )
