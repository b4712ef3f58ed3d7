"""What is printed where the locale has no letters but those of ASCII."""

from __future__ import annotations

import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from dprelease.cli.app import run_app


def test_a_name_that_the_locale_cannot_write_is_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, written = tmp_path / "größe", BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(written, encoding="ascii"))
    monkeypatch.setattr(sys, "argv", ["dprelease", "init", str(folder)])
    with pytest.raises(SystemExit) as end:
        run_app()
    sys.stdout.flush()
    assert end.value.code == 0
    assert (folder / "quickstart.yaml").is_file()
    assert b"gr\\xf6\\xdfe/quickstart.yaml" in written.getvalue()
