"""What a file of SPSS, Stata or SAS holds: codes and not labels, nulls where a value is declared missing.

Numbers are stored as such. Whether one is a day or a moment is said by the format that the file shows it in. A text
ends before the blanks that fill its place, in the formats that fill it (all but Stata's), and at its first zero byte;
an empty text is the text of no letters, as in a CSV.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from dprelease.catalog.dialect import AS_STORED, ENCODINGS
from dprelease.catalog.table import Source, Table
from dprelease.engines.files.encodings import in_utf8
from dprelease.engines.files.header_shape import looks_like, spelling_advice
from dprelease.engines.files.statistical.moments import Shown, as_moments, shown_as
from dprelease.engines.files.statistical.process import (
    Dictionary,
    Unreadable,
    counted_rows,
    dictionary_of,
    parsed_blocks,
)
from dprelease.errors import EngineError

__all__ = ["StatisticalFile"]


class StatisticalFile:
    """One of the formats.

    Args:
        kind: Its name in ``catalog.source.SOURCE_FORMATS``.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def names(self, source: Source, path: Path) -> tuple[str, ...] | None:
        """The names of the columns, once the whole file has been gone through; None where it is not read."""
        try:
            told = dictionary_of(self._kind, path)
            return _names(source, told)
        except Unreadable:
            return None

    def unread(self, path: Path, wanted: Sequence[str]) -> dict[str, str]:
        """None: what has no type of ours is handed over as nulls or numbers, as its program says."""
        return {}

    def blocks(
        self, table: Table, path: Path, names: Sequence[str], wanted: Sequence[str], repeated: Sequence[str]
    ) -> Iterator[list[Any]]:
        """Texts as UTF-8 where they are that, numbers as doubles or whole numbers, days and moments.

        Raises:
            EngineError: If the file is not read, though it was a moment ago.
        """
        places, few = [names.index(name) for name in wanted], [names.index(name) for name in repeated]
        try:
            yield from self._columns(table, path, places, few)
        except Unreadable as error:
            problem = EngineError(
                f"table {table.name!r}: a file of {table.files.file!r} {error.says}", hint=error.hint, code="DPR-E107"
            )
        else:
            return
        raise problem

    def _columns(self, table: Table, path: Path, places: Sequence[int], few: Sequence[int]) -> Iterator[list[Any]]:
        told = dictionary_of(self._kind, path)
        encoding = _encoding(table.files, told)
        shown = [shown_as(self._kind, told.formats[at]) for at in places]
        for block in parsed_blocks(self._kind, path, places, few):
            yield [self._stored(each, kind, encoding) for each, kind in zip(block, shown, strict=True)]

    def _stored(self, array: Any, shown: Shown | None, encoding: str) -> Any:
        kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
        if pa.types.is_binary(kind):
            return _texts(array, encoding)
        return array if shown is None else as_moments(self._kind, shown, array)

    def no_rows(self, source: Source, data: bytes) -> bool:
        """Whether it surely has no row."""
        try:
            return counted_rows(self._kind, data) == 0
        except Unreadable:  # the engine will refuse it
            return False

    def advice(self, source: Source, path: Path, declared: Sequence[str]) -> tuple[str, str] | None:
        """Why it is not read, or how its names differ from the declared ones."""
        try:
            names = _names(source, dictionary_of(self._kind, path))
        except Unreadable as error:
            like = looks_like(path, besides=self._kind)
            return like or (f"the file {error.says}", error.hint)
        hint = "letters' case counts: write the names as the file has them"
        says = spelling_advice(names, declared)
        return None if says is None else (says, hint)


def _names(source: Source, told: Dictionary) -> tuple[str, ...]:
    encoding = _encoding(source, told)
    return tuple(in_utf8(name, encoding).decode("utf-8", "replace") for name in told.names)


def _encoding(source: Source, told: Dictionary) -> str:
    """What its texts are in: as declared, else as the file says, else UTF-8.

    Raises:
        Unreadable: If the file names an encoding that is not known here, or a wrong one.
    """
    if source.dialect.encoding != AS_STORED:
        return source.dialect.encoding
    if told.encoding is None:
        return "utf-8"
    try:
        found = _known().get(codecs.lookup(told.encoding).name)
    except LookupError:
        found = None
    if found is None:
        hint = f"write `encoding:` under `source`, one of {', '.join(ENCODINGS)}"
        raise Unreadable("has names or labels in an encoding that it does not say, or that is not known here", hint)
    return found


@cache
def _known() -> dict[str, str]:
    """Our names of encodings by those of the standard library; ASCII is UTF-8."""
    return {"ascii": "utf-8", **{codecs.lookup(name).name: name for name in ENCODINGS}}


def _texts(array: Any, encoding: str) -> Any:
    """Bytes of an encoding as UTF-8, a different value at a time."""
    if encoding == "utf-8":
        return array
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    words = [None if word is None else in_utf8(word, encoding) for word in encoded.dictionary.to_pylist()]
    texts = pa.DictionaryArray.from_arrays(encoded.indices, pa.array(words, pa.binary()))
    return texts if encoded is array else texts.dictionary_decode()
