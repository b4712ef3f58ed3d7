"""What every engine must say, and how a driver's failure is told without a driver's words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.table import Table
from dprelease.errors import DpReleaseError, EngineError, Unavailable
from dprelease.noise import Exact

__all__ = ["Engine", "Maker", "scrubbed"]

Result = TypeVar("Result")


class Engine(Protocol):
    """Runs bounded exact aggregates over confidential tables; safe to call from several threads."""

    def describe(self, table: Table) -> None:
        """Check that the source is there and has the declared columns; reads headers and schemas only.

        Raises:
            Unavailable: If a file or an environment variable is missing.
            TableMismatch: If a declared column is missing from a file, or is in it twice.
        """
        ...

    def aggregate(
        self,
        table: Table,
        by: tuple[str, ...],
        quantities: Sequence[Quantity],
        references: Mapping[str, ReferenceTable],
    ) -> tuple[Exact, ...]:
        """Sum every quantity in every cell, in one pass over the table.

        Args:
            table: What to read, and how its values are understood.
            by: Columns with keys, outermost first.
            quantities: What a row contributes; see ``catalog.aggregate.Quantity``.
            references: The public tables that the joins of ``table`` name.

        Returns:
            One box per quantity, in order, each of shape ``(cells,)`` and type ``int64``: grid steps, row-major
            over the keys of ``by`` (the last column runs fastest), 0 where no row fell. A total beyond
            ``2**62`` in size is clamped to it, which moves no total further than its rows do.

        Raises:
            Unavailable: If a source cannot be reached now.
            Unsupported: If this engine cannot compute that; depends on public declarations alone.
            TableMismatch: As in :meth:`describe`.
            EngineError: If the driver failed; names the class of its error and nothing else.
        """
        ...

    def close(self) -> None:
        """Forget every loaded row; the engine cannot be used afterwards."""
        ...


Maker = Callable[[Path, Mapping[str, str]], Engine]


def scrubbed(doing: str, action: Callable[[], Result]) -> Result:
    """Run an action; whatever a driver raises becomes an error that names its class and nothing else.

    A driver quotes the row that it stumbled over, so neither its text nor the error itself (as cause or
    context) may travel on: the new error is raised after the ``except`` block has ended.

    Raises:
        Unavailable: For a failure of the operating system (it has an ``errno``): later it may work.
        EngineError: For every other failure.
    """
    try:
        return action()
    except DpReleaseError:
        raise
    except Exception as error:
        kind, outside = type(error).__name__, isinstance(error, OSError) and error.errno is not None
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
