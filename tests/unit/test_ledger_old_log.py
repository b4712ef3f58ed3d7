"""A log that was left behind by a killed process is never played into another file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dprelease.errors import Corrupt
from tests.ledgers import SQLiteLedger, charges, plan, standing_of


def test_a_log_without_its_ledger_stops_a_new_one_and_recovery_goes_on_once_it_is_set_aside(tmp_path: Path) -> None:
    database, anchor = tmp_path / "state" / "ledger.db", tmp_path / "elsewhere" / "head.json"
    child = os.fork()
    if not child:  # dies with a log that was never folded in
        made = plan()
        SQLiteLedger(database, [anchor]).reserve(made, charges(made))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    log = database.with_name("ledger.db-wal")
    assert log.stat().st_size > 0
    database.unlink()
    ledger = SQLiteLedger(database, [anchor])
    with pytest.raises(Corrupt, match="is gone"):
        standing_of(ledger, ["people"])
    with pytest.raises(Corrupt, match="is still there"):
        ledger.recover("deleted")
    assert not database.exists()
    shutil.move(log, tmp_path / "old-log")
    assert any("is lost" in line for line in ledger.recover("deleted"))
    assert ledger.check() == ()
    assert len(standing_of(ledger, ["people"]).of("people").charged) == 1
