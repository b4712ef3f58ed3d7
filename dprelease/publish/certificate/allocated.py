"""What of the budget each level and each query got, as the certificate says it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from dprelease.plan.document import ReleasePlan
from dprelease.publish.accounting.levels import NONE, Level, levels
from dprelease.publish.certificate.blocks import Block, BlockColumn, BlockHeading, BlockText, CertificateTable
from dprelease.publish.numbers import at_most, percent
from dprelease.words import marked, phrase

__all__ = ["LONGEST", "MOST_ALLOCATED", "allocated", "cut_off"]

MOST_ALLOCATED = 120
LONGEST = 48  # signs of an exact rational
_SEE = marked("see accounting.json")


def allocated(plan: ReleasePlan) -> Iterator[Block]:
    """The section on the allocation: shares of the levels, then of the queries of each."""
    every = levels(plan)
    levelled = any(level.name != NONE for level in every)
    yield BlockHeading(phrase("Allocation"))
    yield BlockText(
        phrase(
            "The share is the part of the budget by which the noise was scaled; the shares are exact and add up to one."
        )
        + (
            phrase(
                " The levels are those of a workload, or first key columns that are nested in one another by the "
                "specification."
            )
            if levelled
            else ""
        )
        + phrase(
            " What a query costs, ρ, is computed from the scales of its draws, which are 64-bit numbers, and rounded "
            "up; it is of all draws that the query needs, so that these do not add up where draws are shared."
        )
    )
    if len(every) > 1:
        heads = (
            BlockColumn(phrase("Level")),
            BlockColumn(phrase("Share of the release"), 1, "exact"),
            BlockColumn(phrase("Percent"), 0, "number"),
            BlockColumn(phrase("Queries"), 0, "number"),
        )
        rows = [(_level_named(level), *_part(level.share), str(len(level.queries))) for level in every[:MOST_ALLOCATED]]
        yield CertificateTable(phrase("Shares of the levels"), heads, tuple(rows))
    yield _by_query(every, levelled)


def _by_query(every: tuple[Level, ...], levelled: bool) -> CertificateTable:
    own = any(each.reveals for level in every for each in level.queries)
    heads = [BlockColumn(phrase("Query"), 2)]
    if levelled:
        heads += [BlockColumn(phrase("Level"), 1), BlockColumn(phrase("Share of the level"), 1, "exact")]
    heads += [
        BlockColumn(phrase("Share of the release"), 1, "exact"),
        BlockColumn(phrase("Percent"), 0, "number"),
        BlockColumn("ρ", 0, "number"),
    ]
    if own:
        heads += [BlockColumn(phrase("Own δ"), 0, "number")]
    rows = []
    for level, each in [(one, each) for one in every for each in one.queries]:
        within = (_level_named(level), _part(each.within)[0]) if levelled else ()
        more = (at_most(each.reveals),) if own else ()
        rows.append((each.query, *within, *_part(each.share), at_most(each.rho, 5), *more))
    caption = phrase("Allocation by level and query") if levelled else phrase("Allocation by query")
    return cut_off(caption, tuple(heads), rows, MOST_ALLOCATED, "allocation")


def _level_named(level: Level) -> str:
    return phrase(NONE) if level.name == NONE else level.name


def _part(value: Fraction) -> tuple[str, str]:
    """A share as an exact rational, or where it is found if that is too long, and in percent."""
    text = str(value)
    return (text if len(text) <= LONGEST else phrase(_SEE), f"{percent(value)} %")


def cut_off(
    caption: str, heads: tuple[BlockColumn, ...], rows: list[tuple[str, ...]], most: int, where: str
) -> CertificateTable:
    """A table of the first rows; its caption says how many there are, and where all of them are."""
    if len(rows) > most:
        all_of_them = phrase(", all of them are in accounting.json, under “{where}”", where=where) if where else ""
        caption = phrase(
            "{caption}: the first {most} of {count}{all_of_them}",
            caption=caption,
            most=most,
            count=len(rows),
            all_of_them=all_of_them,
        )
    return CertificateTable(caption, heads, tuple(rows[:most]))
