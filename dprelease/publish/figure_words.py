"""What is said of how numbers are judged, moved and rounded, and the legend of the signs beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dprelease.estimate import PublishedTable, coded
from dprelease.estimate.figures import STATES
from dprelease.measures.text import exact_text
from dprelease.plan.document import Publish, ReleasePlan
from dprelease.publish.numbers import percent
from dprelease.words import marked, phrase

__all__ = [
    "MOVED",
    "MOVED_HELD",
    "PAGE_MOVED",
    "PAGE_MOVED_HELD",
    "Signs",
    "judged_words",
    "mostly_unreliable",
    "notes_on_numbers",
    "rounded_words",
    "signs_of",
    "state_words",
    "suppressed",
    "warning_above",
]

MOVED = marked(
    "this number was moved after it was estimated. Margin, lower and upper end are about the estimate before, which "
    "stands beside it as unadjusted, and the number itself can lie outside of them."
)
MOVED_HELD = marked(
    "this number was moved after it was estimated. Lower and upper end hold what the noise allows, and the number "
    "itself as well; no margin about it can be promised. The estimate before, with its standard error, stands beside "
    "it as unadjusted: the one for sums of your own."
)
PAGE_MOVED = marked(
    "Numbers were adjusted after they were estimated. The interval in brackets is about the estimate before, which "
    "stands beside each; the number itself can lie outside of it."
)
PAGE_MOVED_HELD = marked(
    "Numbers were adjusted after they were estimated. The interval in brackets holds what the noise allows and the "
    "number itself; the estimate before stands beside it, and is the one for sums of your own."
)
_ROUNDED = marked(
    "Rounded after the noise, for reading: {numbers}. The nearest multiple was taken, of two the even one, and the "
    "ends of intervals were moved outward. Rounded numbers may not add up. It protects nothing: the noisy "
    "measurements are public."
)


@dataclass(frozen=True, eq=False)
class Signs:
    """What stands beside numbers that are not plain, or in their place.

    Attributes:
        of: The sign of each state.
        words: What each state says.
        gone: Shape ``(cells,)``: which rows were suppressed.
    """

    of: Mapping[str, str]
    words: Mapping[str, str]
    gone: npt.NDArray[np.bool_]

    def legend(self, table: PublishedTable, first: int, last: int) -> tuple[tuple[str, str], ...]:
        """Each sign that occurs in these rows, with what it says."""
        there = self.occurring(table, first, last)
        return tuple((self.of[state], words) for state, words in self.words.items() if state in there)

    def occurring(self, table: PublishedTable, first: int, last: int) -> set[str]:
        """The states that numbers of these rows are in."""
        found: set[str] = set()
        gone = self.gone[first:last]
        for measure in table.measures:
            status = coded(measure.status)
            codes = status.part(first, last)
            there = {status.keys[code] for code in np.unique(codes).tolist()}
            found |= there & {"caution", "unreliable", "not_distinguishable"}
            if "blank" in there:
                blank = codes == status.keys.index("blank")
                found |= {"withheld"} if (blank & gone).any() else set()
                never = measure.impossible[first:last]
                found |= {"not_applicable"} if (blank & never).any() else set()
                found |= {"no_estimate"} if (blank & ~gone & ~never).any() else set()
            found |= {"low"} if measure.lows[first:last].any() else set()
        return found


def _moved_words(table: PublishedTable) -> list[str]:
    """Which numbers of a table were moved, and what stands beside them; nothing where none was."""
    moved = [each for each in table.measures if each.unadjusted is not None]
    if not moved:
        return []
    words = phrase(MOVED_HELD) if moved[0].held else phrase(MOVED)
    return [f"{', '.join(each.shown for each in moved)}: {words}"]


def rounded_words(table: PublishedTable) -> list[str]:
    """Which numbers of a table were rounded, and to what; nothing where none was."""
    told = [
        phrase("{name} to multiples of {base}", name=each.shown, base=exact_text(each.base))
        for each in table.measures
        if each.base is not None
    ]
    return [phrase(_ROUNDED, numbers=", ".join(told))] if told else []


def notes_on_numbers(table: PublishedTable) -> list[str]:
    """Which numbers of a table were moved, which were rounded, and which are percentages."""
    units = [
        phrase("{name}: in {unit}, with its margin and its interval.", name=each.shown, unit=each.unit)
        for each in table.measures
        if each.unit
    ]
    return [*_moved_words(table), *rounded_words(table), *units]


def judged_words(publish: Publish) -> list[str]:
    """By what rules numbers are marked, withheld and rounded after the noise."""
    above, figures = publish.unreliable_above, publish.figures
    if figures is None:
        return _judged_before(publish)
    found = []
    if above is not None and publish.unreliable_show == "blank":
        found.append(
            phrase(
                "A number is withheld where half its interval is more than {above} % of it, but for counts whose "
                "interval begins at 0.",
                above=percent(above),
            )
        )
    elif above is not None:
        found.append(
            phrase(
                "A number is marked unreliable where half its interval is more than {above} % of it.",
                above=percent(above),
            )
        )
    if figures.caution_above is not None:
        found.append(phrase("Above {above} % it is marked to be used with care.", above=percent(figures.caution_above)))
    if above is not None and figures.shares is not None:
        limits = figures.shares
        found.append(
            phrase(
                "A share is judged by the width of its interval: reliable up to {narrow}, unreliable from {wide} on, "
                "and between these where it is wider than {relative} % of the share, or of what the share leaves "
                "where that is smaller.",
                narrow=exact_text(limits.narrow),
                wide=exact_text(limits.wide),
                relative=percent(limits.relative),
            )
        )
    if figures.bases:
        found.append(phrase(_ROUNDED, numbers=phrase("some numbers, each to multiples of a base that its table names")))
    return found


def _judged_before(publish: Publish) -> list[str]:
    """The same of plans from before there were rules for figures."""
    above = publish.unreliable_above
    if above is None:
        return []
    if publish.unreliable_show == "blank":
        return [phrase("A number whose margin is more than {above} % of its size is withheld.", above=percent(above))]
    return [
        phrase("A number whose margin is more than {above} % of its size is marked unreliable.", above=percent(above))
    ]


def state_words(publish: Publish) -> dict[str, str]:
    """What each state says, by the limits of a release; nothing in plans from before there were signs."""
    figures = publish.figures
    if figures is None:
        return {}
    limits = {
        "caution": "" if figures.caution_above is None else percent(figures.caution_above),
        "unreliable": "" if publish.unreliable_above is None else percent(publish.unreliable_above),
    }
    words = {state: phrase(text, **limits) for state, text in STATES.items() if state in figures.symbols}
    if figures.shares is not None:
        words["unreliable"] += phrase(" (a share: where its interval is wide in itself)")
    if publish.unreliable_show == "blank":
        words["unreliable"] += phrase("; in the place of a number it is withheld for this")
    return words


def suppressed(plan: ReleasePlan, table: PublishedTable) -> npt.NDArray[np.bool_]:
    """Which rows of a table were withheld because a noisy number of theirs was below the query's limit.

    The measure that decides is blank in exactly those: ``estimate`` withholds a row where it is below or unknown.
    """
    query = None if table.derived else plan.query(table.name)
    if query is None or query.suppress_below is None:
        return np.zeros(table.cells, dtype=bool)
    decides = next(each for each in table.measures if each.name == query.suppress_below[0])
    return coded(decides.status).where("blank")


def signs_of(plan: ReleasePlan, table: PublishedTable) -> Signs | None:
    """The signs of a table; None in plans from before there were signs."""
    figures = plan.publish.figures
    return None if figures is None else Signs(figures.symbols, state_words(plan.publish), suppressed(plan, table))


def mostly_unreliable(table: PublishedTable) -> bool:
    """Whether more than half of the numbers of a table that have an estimate are unreliable."""
    judged = [each for each in table.measures if each.held]
    weak = sum(each.status.count("unreliable") for each in judged)
    return 2 * weak > sum(len(each.status) - each.status.count("blank") for each in judged) > 0


def warning_above(table: PublishedTable, coarser: str) -> str:
    """What is said above a table most of whose numbers are unreliable, and where there are better ones.

    Args:
        table: The table.
        coarser: The title of one that has the same by fewer keys; empty: there is none.
    """
    if not mostly_unreliable(table):
        return ""
    found = phrase("More than half of the numbers of this table are unreliable: the noise is large beside them.")
    return f"{found} {phrase('“{table}” has the same by fewer keys.', table=coarser)}" if coarser else found
