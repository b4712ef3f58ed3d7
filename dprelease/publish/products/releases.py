"""The pages over the releases of a project, and their feeds. Pure; ``publishing.overview`` reads and writes them.

``releases/index.html`` lists all of them, ``releases/NAME/index.html`` the periods of one product; each table of a
product of two periods or more has a page with all of its numbers (``products.over_periods``). They are in the first
language of their newest publication; ``index.TAG.html`` and ``feed.TAG.xml`` beside them are in its other ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any
from urllib.parse import quote

from dprelease.publish.accounting.drawings import Figure, history_figures
from dprelease.publish.base import NOTICE, AccountFacts, AccountPoint, Facts
from dprelease.publish.catalogue.entry import Told, told_of
from dprelease.publish.catalogue.feed import FEED_FILE, Entry, feed
from dprelease.publish.catalogue.linked import as_script, catalogue_of
from dprelease.publish.html_text import render_page, themed, utc
from dprelease.publish.numbers import at_most
from dprelease.publish.products.listed import (
    INDEX,
    Listed,
    Tongues,
    current_of,
    file_beside,
    in_other_languages,
    languages_of_product,
    newest_first,
    products_of,
    title_of_product,
)
from dprelease.publish.products.over_periods import FOLDER
from dprelease.publish.products.series import panels_of
from dprelease.publish.products.tables import links_over_periods, pages_over_periods, tables_over_periods
from dprelease.spec.period import span
from dprelease.words import amount, phrase, speaking, spoken

__all__ = ["overview_files", "releases_page"]


def releases_page(listed: Sequence[Listed], unreadable: Sequence[str] = (), others: Tongues = ()) -> bytes:
    """The page, in the language that is spoken.

    Args:
        listed: The bundles, in any order.
        unreadable: Paths of folders that should hold a bundle, and hold none that can be read.
        others: The same page in each other language: its tag, its name, and where it is.
    """
    newest = newest_first(listed)
    replaced = _replaced(newest)
    products = products_of(newest)
    return render_page(
        "releases.html.j2",
        notice=phrase(NOTICE) if listed and all(each.facts.rehearsal for each in listed) else "",
        others=others,
        feed=file_beside(FEED_FILE, newest),
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
    newest = newest_first(listed)
    replaced = _replaced(newest)
    found: dict[str, bytes] = {}
    for tag in languages_of_product(newest):
        with speaking(tag):
            found[file_beside(INDEX, newest)] = releases_page(listed, unreadable, in_other_languages(newest))
            found[file_beside(FEED_FILE, newest)] = _feed(newest, "", phrase("Releases"))
    for name, product in products_of(newest).items():
        for tag in languages_of_product(product):
            with speaking(tag):
                page, told = (f"{name}/{file_beside(each, product)}" for each in (INDEX, FEED_FILE))
                found[page] = _product_page(product, replaced, _home(languages_of_product(newest)))
                found[told] = _feed(product, f"{name}/", title_of_product(product[0]))
                found |= pages_over_periods(name, product)
        for table in tables_over_periods(product):
            found |= {f"{name}/{FOLDER}/{path}": data for path, data in table.files()}
    return found


def _home(tags: Sequence[str]) -> str:
    """The page over all releases, in the language that is spoken where it has that one."""
    tag = spoken().tag
    return f"../index.{tag}.html" if tag in tags[1:] else f"../{INDEX}"


def _replaced(newest: Sequence[Listed]) -> dict[str, int]:
    """The ledger entry of what replaced a plan, by its fingerprint."""
    return {
        each.facts.restates.plan_fingerprint: each.facts.ledger_sequence
        for each in reversed(newest)
        if each.facts.restates is not None
    }


def _product_line(name: str, product: Sequence[Listed]) -> dict[str, Any]:
    periods = sorted({each.manifest.period for each in product})
    several = phrase(
        "{count} periods, {first} to {last}", count=amount(len(periods)), first=periods[0], last=periods[-1]
    )
    return {
        "href": quote(f"{name}/{_page_of(product)}"),
        "title": title_of_product(product[0]),
        "name": name,
        "periods": several if len(periods) > 1 else phrase("period {period}", period=periods[0]),
    }


def _page_of(product: Sequence[Listed]) -> str:
    """The page of a product in the language that is spoken, or in its first one."""
    tag = spoken().tag
    return f"index.{tag}.html" if tag in languages_of_product(product)[1:] else INDEX


def _catalogued(each: Listed, below: str) -> tuple[Told, str, str]:
    return told_of(each.shown, each.facts), each.manifest.period, quote(each.front.removeprefix(below))


def _product_page(product: Sequence[Listed], replaced: Mapping[str, int], home: str) -> bytes:
    """The page of one product, its newest publication first; ``home`` is the page over all releases."""
    below = product[0].path.partition("/")[0] + "/"
    newest = product[0]
    current = {each.manifest.period: each for each in current_of(product)}
    tables, too_large = links_over_periods(product)
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
        title=title_of_product(newest),
        **themed(newest.facts.theme),
        release=newest.shown.release,
        others=in_other_languages(product),
        feed=file_beside(FEED_FILE, product),
        home=home,
        told=told,
        lines=lines,
        tables=tables,
        too_large=too_large,
        series=panels_of(newest.shown, [(period, each.numbers) for period, each in current.items()]),
        corrections=[
            (each.manifest.period, each.facts.restates.reason) for each in product if each.facts.restates is not None
        ],
        linked=as_script(catalogue_of(title_of_product(newest), [_catalogued(each, below) for each in product])),
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
    return feed(entries, title, below.rstrip("/"), file_beside(FEED_FILE, newest), file_beside(INDEX, newest))


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
