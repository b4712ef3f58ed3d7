"""Bundles as pages over all of them need them: which product, which period, which language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from dprelease.plan.document import ReleasePlan
from dprelease.publish.base import Facts
from dprelease.publish.manifest import Manifest
from dprelease.publish.products.over_periods import in_order
from dprelease.publish.products.series import Numbers
from dprelease.publish.site.localised import languages_of, plan_in_spoken_language
from dprelease.words import DEFAULT, LANGUAGES, spoken

__all__ = [
    "INDEX",
    "Listed",
    "Tongues",
    "current_of",
    "file_beside",
    "in_other_languages",
    "languages_of_product",
    "newest_first",
    "products_of",
    "title_of_product",
]

INDEX = "index.html"
Tongues = Sequence[tuple[str, str, str]]  # of the same page in other languages: tag, name, address


@dataclass(frozen=True)
class Listed:
    """A bundle as the page needs it.

    Attributes:
        path: The path of its folder below the page, with forward slashes: ``survey/2024``.
        manifest: Its list of files.
        facts: What the ledger said.
        plan: What was planned.
        numbers: Of the tables that ``products.tables.wanted_tables`` names what their CSV files have.
    """

    path: str
    manifest: Manifest
    facts: Facts
    plan: ReleasePlan
    numbers: Numbers = field(default_factory=dict)

    @property
    def front(self) -> str:
        """Its front page, from the folder of all releases, in the language that is spoken where it has that one.

        Its manifest where it has no page.
        """
        pages = (f"{spoken().tag}/index.html", "index.html")
        first = next((page for page in pages if page in self.manifest.files), "manifest.json")
        return f"{self.path}/{first}"

    @property
    def shown(self) -> ReleasePlan:
        """The plan with the names of the language that is spoken."""
        return plan_in_spoken_language(self.plan)


def languages_of_product(newest: Sequence[Listed]) -> tuple[str, ...]:
    """Those of the newest publication."""
    return languages_of(newest[0].plan) if newest else (DEFAULT,)


def file_beside(path: str, newest: Sequence[Listed]) -> str:
    """The name of a file in the language that is spoken: its own in the first one, else with the tag in it."""
    name, ending = path.rsplit(".", 1)
    return path if spoken().tag == languages_of_product(newest)[0] else f"{name}.{spoken().tag}.{ending}"


def in_other_languages(newest: Sequence[Listed], page: str = INDEX) -> Tongues:
    """The same page in every other language."""
    tags = languages_of_product(newest)
    return tuple(
        (tag, LANGUAGES[tag].name, f"{page.removesuffix('.html')}.{tag}.html" if at else page)
        for at, tag in enumerate(tags)
        if tag != spoken().tag
    )


def newest_first(listed: Sequence[Listed]) -> list[Listed]:
    """The bundles by their ledger entries."""
    return sorted(listed, key=lambda each: (-each.facts.ledger_sequence, each.path))


def products_of(newest: Sequence[Listed]) -> dict[str, list[Listed]]:
    """The bundles of each folder of a product, the product with the newest one first."""
    found: dict[str, list[Listed]] = {}
    for each in newest:
        found.setdefault(each.path.partition("/")[0], []).append(each)
    return found


def current_of(product: Sequence[Listed]) -> list[Listed]:
    """The newest publication of each period, the newest period first."""
    found: dict[str, Listed] = {}
    for each in product:
        found.setdefault(each.manifest.period, each)
    return [found[period] for period in in_order(list(found))]


def title_of_product(each: Listed) -> str:
    """Of a product, whatever the period: the title of its newest publication without a period at its end."""
    return _without_period(each.shown.release.title or each.manifest.release, each.manifest.period)


def _without_period(title: str, period: str) -> str:
    """A title without the period at its end, and without the short word that leads to it.

    >>> [_without_period(title, "2014") for title in ("Fatal crashes in 2014", "Incomes, 2014", "2014", "Age 14")]
    ['Fatal crashes', 'Incomes', '2014', 'Age 14']
    """
    if title == period or not title.endswith(period):
        return title
    return re.sub(r"\s\w{1,3}$", "", title.removesuffix(period).rstrip(" ,:-("))
