"""The columns of a query that compare, of which differences between all groups of a column are one for each group."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from dprelease.catalog.table import Catalog, Key
from dprelease.errors import PlanError
from dprelease.measures.comparing.comparison import ComparedNumber
from dprelease.spec.fields.columns import label_text
from dprelease.spec.fields.published.compare import MOST_GROUPS
from dprelease.spec.fields.queries import QuerySpec
from dprelease.spec.text.names import shown

__all__ = ["compared_numbers"]

_NO_NAME = re.compile(r"[^A-Za-z0-9]+")


def compared_numbers(
    name: str, query: QuerySpec, catalog: Catalog, published: Iterable[str]
) -> dict[str, ComparedNumber]:
    """The columns that compare, by their names.

    Args:
        name: Of the query.
        query: As it was written.
        catalog: Has its table, with all keys.
        published: The names of the numbers that it publishes beside.

    Raises:
        PlanError: There are too many groups, or too few, or the name of a column is taken (DPR-P345).
    """
    taken = {each.lower() for each in (*published, *query.by, *query.compare)}
    found = {}
    for label, asked in query.compare.items():
        if asked.differences_between is None:
            found[label] = asked.planned
            continue
        column = asked.differences_between
        at = f"`compare.{label}` of query {name!r}"
        groups = _groups(at, label, catalog.tables[query.table].column(column).keys or ())
        for column_name, key in groups:
            if column_name.lower() in taken:
                raise PlanError(
                    f"{at} makes a column {shown(column_name)!r}, and the query has another one of that name",
                    detail="its columns are named by itself and the groups: letters and digits of each key",
                    hint="rename one of the two",
                    code="DPR-P345",
                )
            taken.add(column_name.lower())
            found[column_name] = asked.planned.model_copy(update={"difference_from": (column, key), "among": label})
    return found


def _groups(at: str, label: str, keys: Sequence[Key]) -> list[tuple[str, str]]:
    """The name and the key of the column of each group.

    A name is the label with letters and digits of the key, without accents; or with its number, where these do not tell
    all groups apart.
    """
    if not 2 <= len(keys) <= MOST_GROUPS:
        raise PlanError(
            f"{at} compares {len(keys):,} groups, of which there are {len(keys) * (len(keys) - 1) // 2:,} pairs",
            detail=f"each group is a column; 2 to {MOST_GROUPS} of them can be read beside one another",
            hint="compare fewer groups, or all with one: `difference_from`",
            code="DPR-P345",
        )
    texts = list(map(label_text, keys))
    plain = (unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode() for text in texts)
    words = [_NO_NAME.sub("_", text).strip("_") for text in plain]
    if not all(words) or len({word.lower() for word in words}) < len(words):
        words = [str(number) for number in range(1, len(words) + 1)]
    return [(f"{label}_{word}", text) for word, text in zip(words, texts, strict=True)]
