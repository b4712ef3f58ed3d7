"""Which tables of which products have a page over their periods, and its files in every language. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from dprelease.formats import FORMATS
from dprelease.publish.base import NOTICE, table_names
from dprelease.publish.formats.filed import has_table
from dprelease.publish.html_text import render_page, themed
from dprelease.publish.products.listed import (
    INDEX,
    Listed,
    current_of,
    file_beside,
    in_other_languages,
    newest_first,
    products_of,
    title_of_product,
)
from dprelease.publish.products.over_periods import FOLDER, OverPeriods, PeriodOfProduct, tables_of
from dprelease.words import amount, phrase

__all__ = ["links_over_periods", "pages_over_periods", "tables_over_periods", "wanted_tables"]

_LARGEST_TABLE, _LARGEST_PROJECT = 4 << 20, 8 << 20  # bytes of the CSV files of all periods that pages are made of


def wanted_tables(listed: Sequence[Listed]) -> dict[str, tuple[str, ...]]:
    """Which tables of which bundles pages are made of, by the path of the bundle: as small as a page can hold.

    Args:
        listed: The bundles, in any order; their numbers are not looked at.
    """
    found: dict[str, list[str]] = {}
    left = _LARGEST_PROJECT
    for product in products_of(newest_first(listed)).values():
        current = current_of(product)
        for table in tables_of([each.plan for each in current]) if len(current) > 1 else ():
            sizes = {each.path: size for each in current if (size := _size(each, table)) is not None}
            if sum(sizes.values()) <= min(left, _LARGEST_TABLE):
                left -= sum(sizes.values())
                for path in sizes:
                    found.setdefault(path, []).append(table)
    return {path: tuple(tables) for path, tables in found.items()}


def _size(each: Listed, table: str) -> int | None:
    """Bytes of a table's CSV file; None: it has none."""
    facts = each.manifest.files.get(FORMATS["csv"].path(table))
    return facts.bytes if facts is not None and has_table(each.plan, table) else None


def tables_over_periods(product: Sequence[Listed]) -> list[OverPeriods]:
    """The tables of a product whose numbers were read for two periods or more."""
    below, current = product[0].path.partition("/")[0] + "/", current_of(product)
    periods = [
        PeriodOfProduct(
            each.manifest.period,
            each.plan,
            each.shown,
            each.numbers,
            quote(f"../{each.front.removeprefix(below)}"),
        )
        for each in current
    ]
    every = [each.period for each in periods]
    found = []
    for table in tables_of([each.plan for each in periods]):
        having = [each for each in periods if table in each.numbers]
        if len(having) > 1:
            found.append(OverPeriods(table, having, every))
    return found


def pages_over_periods(name: str, product: Sequence[Listed]) -> dict[str, bytes]:
    """The pages of the tables of a product, in the language that is spoken."""
    newest = product[0]
    return {
        f"{name}/{FOLDER}/{file_beside(f'{table.name}.html', product)}": render_page(
            "periods.html.j2",
            notice=phrase(NOTICE) if all(each.facts.rehearsal for each in product) else "",
            others=in_other_languages(product, f"{table.name}.html"),
            home=f"../{file_beside(INDEX, product)}",
            product=title_of_product(newest),
            **themed(newest.facts.theme),
            **table.context(),
        )
        for table in tables_over_periods(product)
    }


def links_over_periods(product: Sequence[Listed]) -> tuple[list[tuple[str, str]], str]:
    """The pages of a product's tables over its periods, with their titles; and which of its tables have none."""
    tables = tables_over_periods(product)
    there = {table.name for table in tables}
    current = current_of(product)
    without = [name for name in table_names(current[0].plan) if name not in there] if len(current) > 1 else []
    links = [(f"{FOLDER}/{file_beside(f'{table.name}.html', product)}", table.title) for table in tables]
    several = phrase("{names} and {count} more", names=", ".join(without[:10]), count=amount(len(without) - 10))
    return links, several if len(without) > 10 else ", ".join(without)
