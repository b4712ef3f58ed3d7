"""What is said of how numbers are judged, moved and rounded, and the legend of the signs beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dprelease.estimate import PublishedTable
from dprelease.estimate.figures import STATES
from dprelease.measures.text import exact_text
from dprelease.plan.document import PlannedQuery, Publish, ReleasePlan
from dprelease.publish.numbers import percent

__all__ = [
    "MOVED",
    "MOVED_HELD",
    "PAGE_MOVED",
    "PAGE_MOVED_HELD",
    "coarser",
    "judged_words",
    "legend",
    "mostly_unreliable",
    "moved_words",
    "rounded_words",
    "warning_above",
]

MOVED = (
    "this number was moved after it was estimated. Margin, lower and upper end are about the estimate before, which "
    "stands beside it as unadjusted, and the number itself can lie outside of them."
)
MOVED_HELD = (
    "this number was moved after it was estimated. Lower and upper end hold what the noise allows, and the number "
    "itself as well; no margin about it can be promised. The estimate before, with its standard error, stands beside "
    "it as unadjusted: the one for sums of your own."
)
PAGE_MOVED = (
    "Numbers were adjusted after they were estimated. The interval in brackets is about the estimate before, which "
    "stands beside each; the number itself can lie outside of it."
)
PAGE_MOVED_HELD = (
    "Numbers were adjusted after they were estimated. The interval in brackets holds what the noise allows and the "
    "number itself; the estimate before stands beside it, and is the one for sums of your own."
)
_ROUNDED = (
    "rounded to multiples of {} after the noise, for reading: the nearest multiple, of two the even one, and the ends "
    "of intervals outward. Rounded numbers may not add up. It protects nothing: the noisy measurements are public."
)


def moved_words(table: PublishedTable) -> list[str]:
    """Which numbers of a table were moved, and what stands beside them; nothing where none was."""
    moved = [each for each in table.measures if each.unadjusted is not None]
    return [f"{', '.join(each.name for each in moved)}: {MOVED_HELD if moved[0].held else MOVED}"] if moved else []


def rounded_words(table: PublishedTable) -> list[str]:
    """Which numbers of a table were rounded, and to what."""
    return [
        f"{each.name}: {_ROUNDED.format(exact_text(each.base))}" for each in table.measures if each.base is not None
    ]


def judged_words(publish: Publish) -> list[str]:
    """By what rules numbers are marked, withheld and rounded after the noise."""
    above, figures = publish.unreliable_above, publish.figures
    done = "withheld" if publish.unreliable_show == "blank" else "marked unreliable"
    if figures is None:
        return (
            [] if above is None else [f"A number whose margin is more than {percent(above)} % of its size is {done}."]
        )
    found = []
    if above is not None:
        least = ", but for counts whose interval begins at 0" if publish.unreliable_show == "blank" else ""
        found.append(f"A number is {done} where half its interval is more than {percent(above)} % of it{least}.")
    if figures.caution_above is not None:
        found.append(f"Above {percent(figures.caution_above)} % it is marked to be used with care.")
    if above is not None and figures.shares is not None:
        limits = figures.shares
        found.append(
            f"A share is judged by the width of its interval: reliable up to {exact_text(limits.narrow)}, unreliable "
            f"from {exact_text(limits.wide)} on, and between these where it is wider than {percent(limits.relative)} % "
            "of the share, or of what the share leaves where that is smaller."
        )
    if figures.bases:
        found.append(f"Some numbers were {_ROUNDED.format('a base')}")
    return found


def legend(publish: Publish, occurring: Iterable[str]) -> list[tuple[str, str]]:
    """Each sign that occurs, with what it says, in the order of ``STATES``; nothing in plans without signs."""
    figures, there = publish.figures, set(occurring)
    if figures is None:
        return []
    limits = {
        "caution": "" if figures.caution_above is None else percent(figures.caution_above),
        "unreliable": "" if publish.unreliable_above is None else percent(publish.unreliable_above),
    }
    words = {state: text.format(**limits) for state, text in STATES.items()}
    if figures.shares is not None:
        words["unreliable"] += "; a share goes by the width of its interval"
    if publish.unreliable_show == "blank":
        words["unreliable"] += "; in the place of a number it is withheld for this"
    return [(figures.symbols[state], words[state]) for state in STATES if state in there]


def mostly_unreliable(table: PublishedTable) -> bool:
    """Whether more than half of the numbers of a table that have an estimate are unreliable."""
    judged = [each for each in table.measures if each.held]
    weak = sum(each.status.count("unreliable") for each in judged)
    return 2 * weak > sum(len(each.status) - each.status.count("blank") for each in judged) > 0


def coarser(plan: ReleasePlan, query: PlannedQuery) -> PlannedQuery | None:
    """The table of the release with one of the same measures by the most of its keys but not all; None: there is none.

    Args:
        plan: The release.
        query: Whose numbers are unreliable.
    """

    def fits(other: PlannedQuery) -> bool:
        same = (other.table, other.where, other.ranges) == (query.table, query.where, query.ranges)
        shared = any(each in query.measures.values() for each in other.measures.values())
        return same and shared and set(other.by) < set(query.by)

    found: Sequence[PlannedQuery] = [each for each in plan.queries if fits(each)]
    return max(found, key=lambda each: len(each.by), default=None)


def warning_above(plan: ReleasePlan, table: PublishedTable, query: PlannedQuery | None) -> str:
    """What is said above a table most of whose numbers are unreliable, and where there are better ones."""
    if not mostly_unreliable(table):
        return ""
    found = "More than half of the numbers of this table are unreliable: the noise is as large as what they count."
    other = None if query is None else coarser(plan, query)
    return found if other is None else f"{found} “{other.title or other.name}” has the same by fewer keys."
