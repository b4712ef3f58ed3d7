"""What surrounds the draws: who sees what, what leaks beside the tables, and what officers have to add themselves.

For a parallel account: what its cap is about, and what it does not promise.

Only what this tool knows is stated. Everything else is printed as not stated, or as left to somebody by name.
"""

from __future__ import annotations

from typing import Any

from dprelease.plan.document import Account, ReleasePlan
from dprelease.plan.document.approval import approval_lines
from dprelease.privacy.unit import Neighboring
from dprelease.publish.accounting.semantics import attributes
from dprelease.publish.base import Facts
from dprelease.signature import PublicKey
from dprelease.words import phrase

__all__ = [
    "ACTORS",
    "MODEL",
    "SIDE_CHANNELS",
    "apart",
    "apart_facts",
    "dpia",
    "iso_terms",
    "release_identity",
    "report_fields",
    "series_told",
    "signature_line",
    "surroundings",
]

NOT_STATED = "not stated"
MODEL = (
    "Central: one party holds the data as they are, adds the noise, and gives out noisy numbers alone. The guarantee "
    "is about what is given out. It holds against readers who know all but one unit's data, and who work together."
)
ACTORS = (
    (
        "Curator: runs the release",
        "the data as they are, and everything below",
        "trusted with the data, and to run this software unchanged",
    ),
    (
        "Machine and orchestrator of the run",
        "the data in the memory of one process; elsewhere names, states and noisy numbers",
        "trusted: whoever can look into that process sees the data",
    ),
    (
        "Keeper of the ledger",
        "plans, charges, noisy numbers, and keyed hashes of the data files",
        "trusted to keep every entry; changes show in its chain of hashes",
    ),
    (
        "Approvers and authors",
        "the specification and the plan; planning reads no data",
        "trusted with the choice of budget, keys, bounds and clips",
    ),
    ("Readers: everybody else", "this bundle", "not trusted: they may know anything and do anything with it"),
)
SIDE_CHANNELS = (
    "Outside the guarantee: how long the run took, how much memory it used, whether it ran out of either, and what can "
    "be seen of the machine while it runs. None of it is in this bundle.",
    "Which rows, columns and files there are, and in which order, follows from public keys, or from a selection by "
    "noise that is part of the loss.",
    "Values that mean nothing are read as null or moved into their range. No error and no log quotes a value.",
    "Noise is drawn as whole numbers, by exact arithmetic, from the operating system's source of entropy; it is not "
    "floating-point noise, and no seed can repeat it.",
)
_OFFICER = "to be filled in by the data protection officer"
_CONTROLLER = "to be filled in by the controller"
_MOST_NAMED = 12


def surroundings(plan: ReleasePlan) -> dict[str, Any]:
    """What ``accounting.json`` says of all this, as far as it follows from the plan alone."""
    return {
        "deployment": {
            "model": MODEL,
            "actors": [{"actor": who, "sees": sees, "trust": trust} for who, sees, trust in ACTORS],
        },
        "side_channels": list(SIDE_CHANNELS),
        "dpia": [{"topic": topic, "answer": answer} for topic, answer in dpia(plan)],
        "iso_20889": [{"here": here, "term": term} for here, term in iso_terms(plan)],
        "fields": [
            {"number": number, "field": field, "where": where, "not_stated": missing}
            for number, field, where, missing in report_fields(plan)
        ],
    }


def release_identity(plan: ReleasePlan, facts: Facts) -> list[tuple[str, str]]:
    """What the release is, and what nobody wrote down of it."""
    release, restates = plan.release, facts.restates
    before = "nothing: no earlier release of this name and period was replaced"
    if restates is not None:
        what = f" ({restates.what})" if restates.what else ""
        before = f"ledger entry {restates.sequence}, plan {restates.plan_fingerprint[:12]}: {restates.reason}{what}"
    known, series = "; ".join(facts.changed_data), " ".join(series_told(plan, facts))
    return [
        ("Product", release.title or release.name),
        ("Release and period", f"{release.name}, {release.period}"),
        ("Curator", release.curator or NOT_STATED),
        ("Contact", release.contact or NOT_STATED),
        ("Intended use", release.intended_use or NOT_STATED),
        *([("Publications of this period", series)] if series else []),
        ("Product type", "tables of noisy statistics"),
        ("Supersedes", before),
        (
            "Errata",
            f"the data changed while it was measured: {known}" if known else "none was known when it was charged",
        ),
        ("Signatories", "; ".join(approval_lines(facts.approvals)) or _unsigned(facts)),
    ]


def _unsigned(facts: Facts) -> str:
    """Why a release has no approval of its own; a revision has the plan that was approved, or was not, before."""
    if facts.paid_by is None:
        return "none: no approval was recorded"
    return f"those of the first publication, of ledger entry {facts.paid_by}: a revision repeats its plan"


def series_told(plan: ReleasePlan, facts: Facts) -> tuple[str, ...]:
    """What a reader must know of a period that is published several times: what is paid, and what the figures are of.

    Empty where no revision is planned.
    """
    number, revisions = plan.release.revision, plan.release.revisions
    if not revisions:
        return ()
    which = "the first publication"
    if facts.paid_by is not None:
        which = f"planned revision {number} of {revisions}; it was paid with the first publication, by ledger entry "
        which += f"{facts.paid_by}, and charged nothing itself"
    return (
        f"The period is published {1 + revisions} times: once, and in {revisions} planned "
        f"revision{'s' if revisions > 1 else ''} with the rows that came late. This is {which}.",
        "The privacy loss that is stated is that of one of these publications. Whoever has all of them has draws for "
        "each: the accounts were charged for all of them together, at once and before the first one was read.",
    )


def signature_line(signer: str) -> str:
    """Whose key signed the bundle, or that none did."""
    if not signer:
        return "unsigned: the manifest's hashes show accidents, not forgery"
    return f"manifest.sig, by key {PublicKey.from_text(signer).fingerprint}, {signer}"


def dpia(plan: ReleasePlan) -> tuple[tuple[str, str], ...]:
    """What a data protection impact assessment asks (GDPR, Article 35(7)): answered where the plan knows it."""
    read = [f"{column} of {table}" for table, column in attributes(plan.catalog)]
    more = f" and {len(read) - _MOST_NAMED} more" if len(read) > _MOST_NAMED else ""
    return (
        ("Purpose of the processing", plan.release.intended_use or _CONTROLLER),
        ("Controller, in the sense of the law", _CONTROLLER),
        ("Curator, as the specification names it", plan.release.curator or NOT_STATED),
        ("Lawful basis", _OFFICER),
        ("Whose data", f"each {plan.unit}; see the guarantee"),
        ("Categories of data that were read", f"{', '.join(read[:_MOST_NAMED])}{more}"),
        ("Special categories among them", _OFFICER),
        ("Recipients", f"whoever receives this bundle; {_CONTROLLER}"),
        ("Necessity and proportionality", _OFFICER),
        ("Retention of the data", _CONTROLLER),
        ("Retention of exact results", "none: they are never written"),
        ("Retention of noisy results", "in the ledger and in this bundle"),
        ("Risks before the measures", _OFFICER),
        ("Measures", "differential privacy, as this page says with its limits"),
        ("Residual risk", f"bounded by the table of what an attacker can learn; accepted by: {_OFFICER}"),
        ("Advice of the data protection officer, and date of review", _OFFICER),
    )


def iso_terms(plan: ReleasePlan) -> tuple[tuple[str, str], ...]:
    """What was done in the terms of ISO/IEC 20889:2018; only terms that fit without doubt, and no claim to conform."""
    clipped = any(part.kind in ("sum", "square", "quantile") for step in plan.steps for part in step.parts)
    found = [
        ("the guarantee as a whole", "differential privacy (formal privacy measurement model)"),
        ("noise on every number, or on every choice", "noise addition (randomization technique)"),
        ("totals of cells in the place of rows", "aggregation (statistical tool)"),
    ]
    if clipped:
        found.append(("values moved into a range before they are added up", "top and bottom coding (generalization)"))
    return tuple(found)


def report_fields(plan: ReleasePlan) -> tuple[tuple[int, str, str, str], ...]:
    """The 26 fields of such a report: number, field, the section of the page that has it, and what is not stated."""
    release = plan.release
    stated = {"curator": release.curator, "contact": release.contact, "intended use": release.intended_use}
    blank = [words for words, text in stated.items() if not text]
    rows = (
        ("product, curator, use, region, law, sector", "release", ", ".join([*blank, "region", "law", "sector"])),
        ("release, period, what it supersedes, errata", "release", ""),
        ("approvals and signatories", "release", "clearance number, audit before the run"),
        ("variant of differential privacy and conversion", "losses", "why this variant"),
        (
            "data: tables and period",
            "reading",
            "a hash of the data, which would tell of them; the ledger has keyed ones",
        ),
        ("unit, relation, bounds, rows without an id", "guarantee", ""),
        ("total loss, exact and rounded up; before and after", "guarantee", ""),
        ("refresh, accumulation, exhaustion", "accounts", "how often the release is refreshed"),
        ("rule of composition", "losses", ""),
        ("allocation by query and level; every mechanism", "draws", ""),
        ("partial semantics: attributes and levels", "semantics", ""),
        ("unprotected quantities and where they come from", "unprotected", ""),
        (
            "exploration and tuning on the data before",
            "unprotected",
            "whether any was done but for looks that the ledger knows; none is charged here",
        ),
        ("post-processing and its bias", "after", ""),
        ("mechanism, sampler, library, source of entropy", "provenance", ""),
        ("deployment model, actors, adversaries", "model", ""),
        ("accuracy from the law of the noise", "outputs", "errors against the truth, which would cost budget"),
        ("criteria of acceptance", "outputs", "criteria other than targets for margins"),
        ("plain words and a worked example", "example", ""),
        ("justification of the budget", "outputs", "who chose it and why; alternatives tried by the author"),
        ("software, commit, state of the tree, resolved settings", "provenance", ""),
        ("provenance: hashes, signature, ledger", "provenance", ""),
        ("side channels", "channels", ""),
        ("limits", "limits", ""),
        ("impact assessment", "dpia", "what is left to the officer there"),
        ("terms of ISO/IEC 20889 and 27559", "iso", "ISO/IEC 27559"),
    )
    return tuple((at, *row) for at, row in enumerate(rows, start=1))


def apart(plan: ReleasePlan) -> tuple[str, ...]:
    """One text for each parallel account of a plan; nothing where all releases of an account add up."""
    return tuple(_said(account) for account in plan.accounts if account.parallel is not None)


def apart_facts(plan: ReleasePlan) -> dict[str, Any]:
    """The same for ``accounting.json``; nothing without such an account, as in older bundles."""
    parallel = {account.name: account.parallel for account in plan.accounts if account.parallel is not None}
    if not parallel:
        return {}
    terms = {name: each.model_dump(mode="json") for name, each in parallel.items()}
    return {"parallel": {"accounts": terms, "says": list(apart(plan))}}


def _said(account: Account) -> str:
    per = account.stretch
    who = account.unit.removesuffix(f"-{per}")
    who = phrase("a {unit}", unit=who) if who != account.unit else phrase("whoever")
    told = {"account": account.name, "unit": account.unit, "per": per, "who": who}
    if account.neighboring is Neighboring.REPLACE_ONE:
        return phrase(
            "Account {account} protects one {unit}. Releases about different {per}s are about different units, so its "
            "cap holds for each {per} by itself, and as a unit of one {per} may be replaced by one of another, the "
            "figures are those of two {per}s together: of one that this release is about, and of the other one that "
            "lost most. It does not promise more: {who} with rows in 12 {per}s loses up to 12 times that.",
            **told,
        )
    return phrase(
        "Account {account} protects one {unit}. Releases about different {per}s are about different units, so its cap "
        "holds for each {per} by itself, and the figures are those of the {per}, of those that this release is about, "
        "that lost most. It does not promise more: {who} with rows in 12 {per}s loses up to 12 times that.",
        **told,
    )
