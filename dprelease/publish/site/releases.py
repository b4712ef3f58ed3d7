"""The pages over the releases of a project, and their feeds. Pure; ``publishing.overview`` reads and writes them.

``releases/index.html`` lists all of them, ``releases/NAME/index.html`` the periods of one product. They are in the
first language of their newest publication; ``index.TAG.html`` and ``feed.TAG.xml`` beside them are in its other ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any
from urllib.parse import quote

from dprelease.plan.document import ReleasePlan
from dprelease.publish.accounting.drawings import Figure, history_figures
from dprelease.publish.base import NOTICE, AccountFacts, AccountPoint, Facts
from dprelease.publish.catalogue.entry import Told, told_of
from dprelease.publish.catalogue.feed import FEED_FILE, Entry, feed
from dprelease.publish.catalogue.linked import as_script, catalogue_of
from dprelease.publish.html_text import render_page, themed, utc
from dprelease.publish.manifest import Manifest
from dprelease.publish.numbers import at_most
from dprelease.publish.site.localised import languages_of, plan_in_spoken_language
from dprelease.publish.site.series import Numbers, panels_of
from dprelease.spec.period import span
from dprelease.words import DEFAULT, LANGUAGES, amount, phrase, speaking, spoken

__all__ = ["Listed", "overview_files", "releases_page"]

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
        numbers: Of its small tables what their CSV files have; what a product shows over its periods.
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


def releases_page(listed: Sequence[Listed], unreadable: Sequence[str] = (), others: Tongues = ()) -> bytes:
    """The page, in the language that is spoken.

    Args:
        listed: The bundles, in any order.
        unreadable: Paths of folders that should hold a bundle, and hold none that can be read.
        others: The same page in each other language: its tag, its name, and where it is.
    """
    newest = _newest(listed)
    replaced = _replaced(newest)
    products = _products(newest)
    return render_page(
        "releases.html.j2",
        notice=phrase(NOTICE) if listed and all(each.facts.rehearsal for each in listed) else "",
        others=others,
        feed=_beside(FEED_FILE, newest),
        lines=[_line(each, replaced) for each in newest],
        **themed(newest[0].facts.theme if newest else None),
        products=[_product_line(name, each) for name, each in products.items()],
        linked=as_script(catalogue_of("", [_catalogued(each, "") for each in newest])),
        unreadable=sorted(unreadable),
        accounts=_accounts(newest),
        figures=_figures(newest),
    )


def overview_files(listed: Sequence[Listed], unreadable: Sequence[str] = ()) -> dict[str, bytes]:
    """Every file over the releases of a project, by its path in the folder of releases.

    Args:
        listed: The bundles, in any order.
        unreadable: Paths of folders that should hold a bundle, and hold none that can be read.
    """
    newest = _newest(listed)
    replaced = _replaced(newest)
    found: dict[str, bytes] = {}
    for tag in _languages(newest):
        with speaking(tag):
            found[_beside(INDEX, newest)] = releases_page(listed, unreadable, _others(newest))
            found[_beside(FEED_FILE, newest)] = _feed(newest, "", phrase("Releases"))
    for name, product in _products(newest).items():
        for tag in _languages(product):
            with speaking(tag):
                found[f"{name}/{_beside(INDEX, product)}"] = _product_page(product, replaced, _home(_languages(newest)))
                found[f"{name}/{_beside(FEED_FILE, product)}"] = _feed(product, f"{name}/", _title(product[0]))
    return found


def _languages(newest: Sequence[Listed]) -> tuple[str, ...]:
    """Those of the newest publication."""
    return languages_of(newest[0].plan) if newest else (DEFAULT,)


def _beside(path: str, newest: Sequence[Listed]) -> str:
    """The name of a file in the language that is spoken: its own in the first one, else with the tag in it."""
    name, ending = path.rsplit(".", 1)
    return path if spoken().tag == _languages(newest)[0] else f"{name}.{spoken().tag}.{ending}"


def _others(newest: Sequence[Listed]) -> Tongues:
    """The same page in every other language."""
    tags = _languages(newest)
    return tuple(
        (tag, LANGUAGES[tag].name, f"index.{tag}.html" if at else INDEX)
        for at, tag in enumerate(tags)
        if tag != spoken().tag
    )


def _home(tags: Sequence[str]) -> str:
    """The page over all releases, in the language that is spoken where it has that one."""
    tag = spoken().tag
    return f"../index.{tag}.html" if tag in tags[1:] else f"../{INDEX}"


def _newest(listed: Sequence[Listed]) -> list[Listed]:
    return sorted(listed, key=lambda each: (-each.facts.ledger_sequence, each.path))


def _replaced(newest: Sequence[Listed]) -> dict[str, int]:
    """The ledger entry of what replaced a plan, by its fingerprint."""
    return {
        each.facts.restates.plan_fingerprint: each.facts.ledger_sequence
        for each in reversed(newest)
        if each.facts.restates is not None
    }


def _products(newest: Sequence[Listed]) -> dict[str, list[Listed]]:
    """The bundles of each folder of a product, the product with the newest one first."""
    found: dict[str, list[Listed]] = {}
    for each in newest:
        found.setdefault(each.path.partition("/")[0], []).append(each)
    return found


def _title(each: Listed) -> str:
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


def _product_line(name: str, product: Sequence[Listed]) -> dict[str, Any]:
    periods = sorted({each.manifest.period for each in product})
    several = phrase(
        "{count} periods, {first} to {last}", count=amount(len(periods)), first=periods[0], last=periods[-1]
    )
    return {
        "href": quote(f"{name}/{_page_of(product)}"),
        "title": _title(product[0]),
        "name": name,
        "periods": several if len(periods) > 1 else phrase("period {period}", period=periods[0]),
    }


def _page_of(product: Sequence[Listed]) -> str:
    """The page of a product in the language that is spoken, or in its first one."""
    tag = spoken().tag
    return f"index.{tag}.html" if tag in _languages(product)[1:] else INDEX


def _catalogued(each: Listed, below: str) -> tuple[Told, str, str]:
    return told_of(each.shown, each.facts), each.manifest.period, quote(each.front.removeprefix(below))


def _product_page(product: Sequence[Listed], replaced: Mapping[str, int], home: str) -> bytes:
    """The page of one product, its newest publication first; ``home`` is the page over all releases."""
    below = product[0].path.partition("/")[0] + "/"
    newest = product[0]
    current: dict[str, Listed] = {}  # of each period the newest publication
    for each in product:
        current.setdefault(each.manifest.period, each)
    told = told_of(newest.shown, newest.facts)
    lines = [
        {
            **_line(each, replaced),
            "href": quote(each.front.removeprefix(below)),
            "told": told_of(each.shown, each.facts),
            "anchor": _anchor(each) if current[each.manifest.period] is each else "",
        }
        for each in product
    ]
    return render_page(
        "product.html.j2",
        notice=phrase(NOTICE) if all(each.facts.rehearsal for each in product) else "",
        title=_title(newest),
        **themed(newest.facts.theme),
        release=newest.shown.release,
        others=_others(product),
        feed=_beside(FEED_FILE, product),
        home=home,
        told=told,
        lines=lines,
        series=panels_of(newest.shown, [(period, each.numbers) for period, each in current.items()]),
        corrections=[
            (each.manifest.period, each.facts.restates.reason) for each in product if each.facts.restates is not None
        ],
        linked=as_script(catalogue_of(_title(newest), [_catalogued(each, below) for each in product])),
    )


def _anchor(each: Listed) -> str:
    """What the period after it links to; empty: it is no period of the calendar, and none comes after it."""
    return "" if span(each.manifest.period) is None else f"period-{each.manifest.period}"


def _feed(newest: Sequence[Listed], below: str, title: str) -> bytes:
    entries = []
    for each in newest:
        package = each.manifest.files.get("datapackage.json")
        path = f"{each.path.removeprefix(below)}/datapackage.json"
        entries.append(
            Entry(
                told=told_of(each.shown, each.facts),
                facts=each.facts,
                name=each.manifest.release,
                period=each.manifest.period,
                href=each.front.removeprefix(below),
                package=None if package is None else (path, package.bytes),
            )
        )
    return feed(entries, title, below.rstrip("/"), _beside(FEED_FILE, newest), _beside(INDEX, newest))


def _line(each: Listed, replaced: Mapping[str, int]) -> dict[str, Any]:
    """A release as shown."""
    plan, manifest, facts = each.shown, each.manifest, each.facts
    loss, release = plan.loss[plan.certified], plan.release
    revision = ""
    if release.revision:
        revision = phrase(", revision {number} of {all}", number=release.revision, all=release.revisions)
    exact = phrase("; beside it exact totals, unprotected") if plan.invariants else ""
    by = replaced.get(manifest.plan_fingerprint)
    return {
        "href": quote(each.front),
        "title": release.title or manifest.release,
        "name": manifest.release + revision,
        "period": manifest.period,
        "charged": utc(facts.reserved_at),
        "sequence": facts.ledger_sequence,
        "loss": f"ε = {at_most(loss.epsilon)}, δ = {at_most(loss.delta)}{exact}",
        "unit": str(plan.unit),
        "signed": facts.key_fingerprint,
        "replaced_by": "" if by is None else phrase("ledger entry {entry}", entry=by),
        "rehearsal": facts.rehearsal,
    }


def _latest(newest: Sequence[Listed]) -> dict[tuple[str, str], tuple[AccountFacts, Facts]]:
    """Every account as the newest release that was charged to it knows it; rehearsals are charged to none.

    Of a parallel account every stretch of time that was charged, by itself. A planned revision knows an account as it
    was when the first publication was charged.
    """
    found: dict[tuple[str, str], tuple[AccountFacts, Facts]] = {}
    for each in sorted(newest, key=lambda one: -_charged(one.facts)):
        if not each.facts.rehearsal:
            for account in each.facts.accounts:
                found.setdefault((account.name, account.window), (account, each.facts))
    return dict(sorted(found.items()))


def _charged(facts: Facts) -> int:
    """The ledger entry that paid for a release."""
    return facts.paid_by or facts.ledger_sequence


def _accounts(newest: Sequence[Listed]) -> list[tuple[str, str, str, str, int]]:
    """Name, unit, what is spent, the cap, and the ledger entry of the last charge that is known here."""
    return [
        (
            account.label,
            account.unit,
            _at_delta(account.after.epsilon, account.after.delta),
            "" if cap.epsilon is None else _at_delta(cap.epsilon, cap.delta),
            _charged(facts),
        )
        for account, facts in _latest(newest).values()
        for cap in (account.cap,)
    ]


def _at_delta(epsilon: Fraction, delta: Fraction) -> str:
    return phrase("ε = {epsilon} at δ = {delta}", epsilon=at_most(epsilon), delta=at_most(delta))


def _figures(newest: Sequence[Listed]) -> tuple[Figure, ...]:
    """For each account its loss behind every charge, from the newest bundle that it paid for."""
    latest: dict[str, tuple[AccountFacts, Facts]] = {}
    for account, facts in sorted(_latest(newest).values(), key=lambda each: -_charged(each[1])):
        latest.setdefault(account.name, (account, facts))
    if not latest:
        return ()
    points: list[AccountPoint] = []
    for name, (_, facts) in sorted(latest.items()):
        points += [point for point in facts.history if point.account == name]
    merged = {"accounts": tuple(latest[name][0] for name in sorted(latest)), "history": tuple(points)}
    return history_figures(newest[0].plan, newest[0].facts.model_copy(update=merged))
