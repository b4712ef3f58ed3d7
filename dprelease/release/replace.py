"""Writing a single file: as a whole or not at all, and durable."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from dprelease.ledger.model.process import sync_folder

__all__ = ["replace_file"]


def replace_file(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Put a file in the place of what is there, in one step: a reader sees the old one or the new one.

    Args:
        path: Of the file; its folder exists.
        data: What it holds then.
        mode: Who may read it.

    Raises:
        OSError: It cannot be written; nothing is left behind.
    """
    handle, made = tempfile.mkstemp(prefix=".dprelease-", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, mode)
            file.write(data)
            file.flush()
            os.fsync(handle)
        os.replace(made, path)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
