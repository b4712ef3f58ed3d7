"""What bundles said that was false: which sentences, since when, and what they should say.

``TEXTS`` counts the wordings of the pages. A bundle names its own in ``rendered_with``; one without a number was made
with the first. ``verify`` looks for every sentence of ``KNOWN`` in the files of a bundle, whatever number it names, and
shows the erratum beside what was found. The table is closed: who finds another false sentence mends the page, adds one
to ``TEXTS`` and one entry here, and never takes one out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from html import unescape

from dprelease.plan.document import ReleasePlan
from dprelease.privacy.unit import Neighboring
from dprelease.publish.accounting.guarantee import chances_told
from dprelease.publish.columns import moves
from dprelease.publish.site.paging import page_path

__all__ = ["KINDS_OF_TEXTS", "KNOWN", "TEXTS", "Erratum", "Found", "errata_of", "plain_text"]

TEXTS = 11
"""The wording of pages that this version writes; one more whenever a sentence of ``KNOWN`` was mended."""

KINDS_OF_TEXTS = {"texts_recipe": 2, "texts_files": 5}
"""The wordings of ``recipe.json`` and of all further files with sentences that are no pages, each by itself.

One more whenever such a sentence changes, so that other words on a page excuse no difference in them.
"""

READABLE = ("index.html", "accounting.html", "accounting.json", "registry.yaml", "nist-800-226.md")
CERTIFICATE = "certificate.pdf"
_ADDITIVE = (
    "(ε, δ) bounds every probability by e^ε times the other one plus δ. It does not say that the loss is at most ε but "
    "for an event of probability δ: the chance of a loss above ε can be many times δ"
)
_MARKUP = re.compile(r"<(?:style|script)\b.*?</(?:style|script)>|<!--.*?-->|<[^>]*>", re.DOTALL | re.IGNORECASE)
_BLOCK_ENDS = re.compile(r"</(?:p|li|d[dt]|t[dhr]|h\d|caption|figcaption|summary|title)>", re.IGNORECASE)
_MARK = "\0"


def _how_likely(plan: ReleasePlan) -> str:
    above, passed = (chances_told(plan)[name] for name in ("above", "passed"))
    if not above:
        return "For this release no loss above its ε is possible."
    return (
        f"For this release a loss above its ε has a probability of at most {above}, and a limit is passed with at most "
        f"{passed}."
    )


def _noisy(plan: ReleasePlan) -> bool:
    return plan.loss[plan.certified].delta > 0


def _classes_alone(plan: ReleasePlan) -> bool:
    """Whether classes of several steps are counted, and no square is added up."""
    kinds = {part.kind for step in plan.steps for part in step.parts if part.grain > 1}
    return "quantile" in kinds and "square" not in kinds


def _exchanged_too_cheaply(plan: ReleasePlan) -> bool:
    """Whether a unit in the place of another one was priced by the numbers of one period, or of the part alone."""
    several = any(step.series is not None or (step.joined and step.gauge is None) for step in plan.steps)
    return several and plan.neighboring is Neighboring.ADD_REMOVE


def _moved(plan: ReleasePlan) -> bool:
    return any(moves(plan, query) for query in plan.queries)


def _pages_of_moved(plan: ReleasePlan) -> tuple[str, ...]:
    """The first pages of tables whose numbers were moved after they were estimated; further ones say the same."""
    return tuple(page_path(query.name) for query in plan.queries if moves(plan, query))


@dataclass(frozen=True)
class Erratum:
    """A sentence that pages had, and was false.

    Attributes:
        name: Stable words for it.
        until: It was mended in this wording (``TEXTS``); all before may have it.
        pattern: Finds it in the plain text of a file (:func:`plain_text`); the whole match is quoted. None: it stood
            only in the certificate, whose text is not read, and is told by the wording of the bundle.
        instead: What is true, as a whole text.
        holds: For which plans it was false.
        certificate: Whether ``certificate.pdf`` said it too.
        figure: What is true of one release, in numbers; empty where the text is enough.
        only: The files in which it was false, where it is true elsewhere, by the plan; none: it is looked for in
            ``READABLE``.
    """

    name: str
    until: int
    pattern: re.Pattern[str] | None
    instead: str
    holds: Callable[[ReleasePlan], bool] = lambda _: True
    certificate: bool = False
    figure: Callable[[ReleasePlan], str] = lambda _: ""
    only: Callable[[ReleasePlan], tuple[str, ...]] = lambda _: ()

    def said_of(self, plan: ReleasePlan) -> str:
        """What is true, of this release."""
        return " ".join(filter(None, (self.instead, self.figure(plan))))


@dataclass(frozen=True)
class Found:
    """An erratum that concerns a bundle: in which files, and the words that one of them has."""

    erratum: Erratum
    files: tuple[str, ...]
    words: str


KNOWN: tuple[Erratum, ...] = (
    Erratum(
        name="limits but for delta",
        until=2,
        pattern=re.compile(
            r"These limits hold but for an event of probability [^\n]{1,60}?, which no attacker can bring about"
        ),
        instead=f"{_ADDITIVE}, and so can the chance that what somebody believes passes these limits.",
        holds=_noisy,
        figure=_how_likely,
    ),
    Erratum(
        name="any outcome, or with another",
        until=2,
        pattern=re.compile(r"at most \S+ times as likely with one [^\n]{1,120}? as without, or with another"),
        instead="The factor is about one unit more or less. For one unit in the place of another one the line of that "
        "name in the table of losses holds, which has a larger factor.",
        holds=lambda plan: plan.neighboring is Neighboring.ADD_REMOVE,
    ),
    Erratum(
        name="apart from a chance of delta",
        until=2,
        pattern=re.compile(
            r"(?:at most \S+ times as likely with one [^\n]{1,160}?"
            r"|how much likelier one [^\n]{1,120}? can make any outcome"
            r"|any outcome is at most the factor as likely with the one as with the other)"
            r", apart from a chance of [^\s.]+"
        ),
        instead=f"{_ADDITIVE}. The probability of any set of outcomes is at most the factor times as large, plus δ.",
        holds=_noisy,
        certificate=True,
    ),
    Erratum(
        name="every row is one unit",
        until=2,
        pattern=re.compile(r"(?:[Ee]very row of a table|in other tables every row) is one [^\s;,.\"]+"),
        instead="That a row is one unit is what the author of the specification declared, and was not checked: where "
        "one unit has several rows, it loses more, by the line for as many units at once.",
        certificate=True,
    ),
    Erratum(
        name="loss of an account without its delta",
        until=2,
        pattern=re.compile(
            r"the privacy loss of all releases charged to account .{1,200}? is ε = [\d.,]+(?![\d.,]| at δ)"
            r"(?: of at most [\d.,]+)?"
        ),
        instead="The loss of an account is read at the delta of its cap, which need not be that of the release: it can "
        "be below the loss of the release alone. accounting.json names both deltas, under “accounts”.",
    ),
    Erratum(
        name="the controller",
        until=2,
        pattern=re.compile(r"^Controller\n(?!to be filled in)[^\n]+", re.MULTILINE),
        instead="The controller in the sense of the law was not asked for. What stands there is the curator of the "
        "specification.",
        holds=lambda plan: bool(plan.release.curator),
    ),
    Erratum(
        name="levels of the certificate",
        until=2,
        pattern=None,
        instead="The levels of the section on allocation are the first key columns of the tables, and no levels that "
        "anybody declared; those of a workload with levels are in accounting.json, under “allocation”.",
        certificate=True,
    ),
    Erratum(
        name="± beside a number that was moved",
        until=3,
        pattern=re.compile(r"estimate ± margin at [^\n%]{1,20} % confidence"),
        instead="The ± beside a number that was made non-negative or whole is of the estimate before; read the "
        "interval columns. Without noise the number lies between _lower and _upper; the number shown can lie outside.",
        holds=_moved,
        only=_pages_of_moved,
    ),
    Erratum(
        name="squares that nobody added up",
        until=8,
        pattern=re.compile(r"Squares were rounded to their grid before they were added up; the margin covers that"),
        instead="No square was added up for this release: its quantiles were made of counts of classes of values.",
        holds=_classes_alone,
        certificate=True,
    ),
    Erratum(
        name="a unit in the place of another one, of a series or of a part and its rest",
        until=9,
        pattern=None,
        instead="The lines “one unit in the place of another one” and those of single attributes told too small a loss "
        "where periods share their noise, or a share is drawn as its part and its rest: they left out the other "
        "draws that read a row, or the rest. Two units at once bound both, and `dprelease publish` tells what is true. "
        "What was charged and certified, which is about one unit more or less, was right.",
        holds=_exchanged_too_cheaply,
        certificate=True,
    ),
    Erratum(
        name="the estimate is not moved",
        until=3,
        pattern=re.compile(r"The estimate itself is not moved"),
        instead="Numbers that were made non-negative or whole were moved after they were estimated: their interval is "
        "about the estimate before.",
        holds=_moved,
    ),
)


def errata_of(files: Mapping[str, bytes], names: frozenset[str], plan: ReleasePlan, texts: int) -> Iterator[Found]:
    """Every known false sentence that a bundle has, in the order of ``KNOWN``.

    Args:
        files: The files of the bundle that can be read.
        names: The names of all its files.
        plan: As it is shown.
        texts: The wording that the bundle says it was made with; 1 where it says none.
    """
    read = {name: plain_text(files[name]) for name in READABLE if name in files}
    for erratum in KNOWN:
        if not erratum.holds(plan):
            continue
        said = {}
        if erratum.pattern is not None:
            only = erratum.only(plan)
            texts_of = {name: plain_text(files[name]) for name in only if name in files} if only else read
            said = {name: match.group() for name, text in texts_of.items() if (match := erratum.pattern.search(text))}
        if erratum.certificate and CERTIFICATE in names and texts < erratum.until:
            said.setdefault(CERTIFICATE, "")
        if said:
            yield Found(erratum, tuple(said), " ".join(next(iter(said.values())).split()) or erratum.name)


@lru_cache(maxsize=16)
def plain_text(data: bytes) -> str:
    """What a reader sees of a page, one block a line; any other text on one line. White space is folded."""
    text = data.decode(errors="replace")
    if text.lstrip().startswith("<"):
        text = unescape(_MARKUP.sub("", _BLOCK_ENDS.sub(_MARK, text.replace(_MARK, ""))))
    return "\n".join(" ".join(block.split()) for block in text.split(_MARK) if block.strip())
