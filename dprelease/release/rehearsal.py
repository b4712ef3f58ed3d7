"""``--synthetic``: the whole run on made-up rows, with a ledger and a folder that cannot be mistaken for real ones."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dprelease.catalog.table import Source, Table
from dprelease.plan.document import ReleasePlan
from dprelease.starter.rows import write_rows

__all__ = ["Rehearsal"]

_ROWS = 10_000


@dataclass(frozen=True)
class Rehearsal:
    """A throw-away folder with made-up rows and an empty ledger; the real source and ledger are never opened."""

    folder: Path

    @classmethod
    def begin(cls) -> Rehearsal:
        """A fresh folder."""
        return cls(Path(tempfile.mkdtemp(prefix="dprelease-rehearsal-")))

    def tables(self, plan: ReleasePlan, tables: Mapping[str, Table]) -> dict[str, Table]:
        """The same tables, read from made-up rows drawn from their declared keys and ranges."""
        made = {}
        for name, table in tables.items():
            path = self.folder / f"{name}.csv"
            if not path.exists():
                write_rows(table, path, _ROWS, seed=plan.fingerprint())
            source = Source(file=path.name, format="csv", null_values=("",))
            made[name] = table.model_copy(update={"source": source})
        return made

    @staticmethod
    def releases(real: Path) -> Path:
        """Where rehearsal bundles go: beside the real ones, never among them."""
        return real.with_name(real.name + "-synthetic")

    def close(self) -> None:
        """Remove the made-up rows and the ledger."""
        shutil.rmtree(self.folder, ignore_errors=True)
