"""A process that releases the redistricting example under fixed entropy and a clock that stands still.

Its engine is Spark, or the embedded one under Spark's name: then nothing of the two bundles may differ. Named
``duckdb`` it is the example as it stands.
"""

from __future__ import annotations

import shutil
import sys
from datetime import datetime, tzinfo
from pathlib import Path

import pytest

from dprelease.engines import ENGINES, DuckDBEngine
from dprelease.ledger.model.balance import Actor
from tests.e2e.seen import run, with_test_key

ROOT = Path(__file__).parents[2]
ACCOUNT = "    account: census\n"


def main(kind: str, folder: Path, data: Path) -> None:
    """One release."""
    folder.mkdir()
    for name in ("dprelease.yaml", "policy.yaml"):
        shutil.copy(ROOT / "specs" / name, folder)
    shutil.copytree(ROOT / "specs" / "reference", folder / "reference")
    text = (ROOT / "specs" / "redistricting.yaml").read_text(encoding="utf-8")
    if kind != "duckdb":
        assert text.count(ACCOUNT) == 1
        text = text.replace(ACCOUNT, f"{ACCOUNT}    engine: spark\n")
    (folder / "spec.yaml").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPRELEASE_POPULATION", str(data))
        patch.setenv("DPRELEASE_SPARK_MASTER", "local[2]")
        _stand_still(patch)
        if kind == "spark":
            from dprelease.engines.spark.session import spark_context

            spark_context({"DPRELEASE_SPARK_MASTER": "local[2]"})  # whatever it draws is drawn before the key is fixed
        else:
            patch.setitem(ENGINES, "spark", DuckDBEngine)
        with_test_key(patch)
        code, said = run(folder)
    print(said)
    sys.exit(code)


def _stand_still(patch: pytest.MonkeyPatch) -> None:
    """One moment and one process, for the ledger notes both."""

    class Still(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Still:
            return cls(2026, 1, 1, 12, tzinfo=tz)

    patch.setattr("dprelease.ledger.model.process.datetime", Still)
    patch.setattr("dprelease.ledger.model.process.Actor", lambda **named: Actor(**{**named, "process": 1}))


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
