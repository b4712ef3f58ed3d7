"""Words to a PDF: tagged (PDF/A-2a and PDF/UA-1), with its fonts, and the same bytes on every machine.

Typst makes it, from a template of this package and one value that holds every word. Its fonts come with it, and those
of the machine are not looked at. The template imports nothing, and is given an empty folder as all that it could read;
a text of a release reaches it as a string, which is never markup.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from datetime import datetime
from functools import cache, lru_cache
from importlib.resources import files
from types import ModuleType
from typing import Any

from dprelease.canonical import dumps
from dprelease.errors import BrokenPromiseError, MissingExtra

__all__ = ["STANDARDS", "compiled", "require_typst"]

STANDARDS = ("a-2a", "ua-1")
_TEMPLATE = "certificate.typ"


def require_typst() -> ModuleType:
    """Typst; asked for before any budget is spent, so that a release does not lack its certificate afterwards.

    Raises:
        MissingExtra: If it is not there (DPR-X103).
    """
    try:
        import typst
    except ImportError:
        raise MissingExtra(
            "certificate.pdf needs the package typst, which is not installed",
            hint="pip install typst, or write `publish: {certificate: false}`",
            code="DPR-X103",
        ) from None
    found: ModuleType = typst
    return found


def compiled(data: Mapping[str, Any], moment: datetime) -> bytes:
    """The file of some words; the same bytes for the same words and time.

    Args:
        data: As of :func:`certificate_data`.
        moment: UTC time that the file says it was made at.

    Raises:
        MissingExtra: As of :func:`require_typst`.
        BrokenPromiseError: If the words cannot be set (DPR-B110).
    """
    return _compiled(dumps(data), int(moment.timestamp()))


@lru_cache(maxsize=16)  # a bundle that is made again, to be checked, asks for the same file
def _compiled(data: str, seconds: int) -> bytes:
    typst = require_typst()
    with tempfile.TemporaryDirectory(prefix="dprelease-") as empty:  # all that the template could read or import
        try:
            made: bytes = typst.compile(
                _template(),
                root=empty,
                package_path=empty,
                package_cache_path=empty,
                sys_inputs={"data": data},
                font_paths=[],
                ignore_system_fonts=True,
                pdf_standards=[*STANDARDS],
                timestamp=seconds,
            )
        except typst.TypstError as error:
            raise BrokenPromiseError(
                f"certificate.pdf cannot be made: {error.message}",
                hint="write `publish: {certificate: false}` to go on without it, and report the error",
                code="DPR-B110",
            ) from None
    return made


@cache
def _template() -> bytes:
    return (files("dprelease.publish") / "templates" / _TEMPLATE).read_bytes()
