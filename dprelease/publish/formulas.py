"""Keys that a spreadsheet would take for formulas, as they stand in CSV.

A spreadsheet runs a field that begins with one of a few signs, quotes or not. Where keys are texts from the data
(``keys: private``) anybody who could write a row could have it run by a reader. In such columns every text that begins
with one of these signs, or with an apostrophe, has an apostrophe before it: that is one to one, so that taking one
leading apostrophe off gives the key, whatever it is.

>>> [escaped(text) for text in ("=1+1", "'90s", "06", "a=b")], unescaped("'=1+1"), unescaped("''90s")
(["'=1+1", "''90s", '06', 'a=b'], '=1+1', "'90s")
"""

from __future__ import annotations

from typing import Any

from dprelease.catalog.table import Column
from dprelease.plan.document import Publish

__all__ = ["MARK", "escaped", "escapes", "unescaped", "unescaped_texts"]

MARK = "'"
# With their full-width forms, and the spaces that are skipped before them.
_SIGNS = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"


def escapes(publish: Publish, column: Column) -> bool:
    """Whether the keys of a column are escaped: where the release says so, else where they are no declared texts."""
    if publish.layout == 1 or column.type != "text":
        return False
    return column.keys is None if publish.csv_formulas is None else publish.csv_formulas == "escape"


def escaped(text: str) -> str:
    """The key as it stands in the file."""
    return f"{MARK}{text}" if text.startswith((MARK, *_SIGNS)) else text


def unescaped(text: str) -> str:
    """The key that stands in a file; the inverse of :func:`escaped`.

    Raises:
        ValueError: If it begins with a sign that would have been escaped.
    """
    if text.startswith(tuple(_SIGNS)):
        raise ValueError("a formula that is not escaped")
    return text.removeprefix(MARK)


def unescaped_texts(texts: Any) -> Any:
    """A whole column, as an Arrow array of strings without nulls; errors as of :func:`unescaped`."""
    import pyarrow as pa

    held = texts.dictionary_encode()
    known = pa.array([unescaped(text) for text in held.dictionary.to_pylist()], type=pa.string())
    return known.take(held.indices)
