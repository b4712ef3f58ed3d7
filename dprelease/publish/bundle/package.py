"""A release as a bundle of files in memory: pure, with no clock and no file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from dprelease.canonical import Value, sha256
from dprelease.errors import BrokenPromiseError
from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan
from dprelease.publish.accounting.report import accounting_json, accounting_page
from dprelease.publish.base import (
    Content,
    Facts,
    Publication,
    check_queries,
    inputs_of,
    queries_as_tables,
)
from dprelease.publish.derive.tables import check_derived, derived_tables, seed_of
from dprelease.publish.formats.csvfile import csv_files
from dprelease.publish.formats.parquet import parquet_files
from dprelease.publish.site.html import index_page

__all__ = ["FORMATS", "MANIFEST_FILE", "Manifest", "check_publishable", "render"]

MANIFEST_FILE = "manifest.json"

# What is released, and the files made so far; returns further files.
Format = Callable[[Content, Mapping[str, bytes]], Mapping[str, bytes]]


class FileFacts(Value):
    """What the manifest says of a file."""

    sha256: str
    bytes: int


class LedgerFacts(Value):
    """The ledger entry that charged the release."""

    sequence: int
    hash: str
    reserved_at: str


class Manifest(Value):
    """Every other file of a bundle, and what they were made from; ``manifest.json`` is its canonical JSON."""

    format: Literal[1] = 1
    release: str
    period: str
    files: dict[str, FileFacts]
    plan_fingerprint: str
    spec_fingerprint: str
    ledger: LedgerFacts
    rehearsal: bool
    signature: Literal["unsigned"] = "unsigned"

    def to_bytes(self) -> bytes:
        """The bytes of the file."""
        return (self.canonical() + "\n").encode()


def html_files(content: Content, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """``index.html``, which links to the table files made so far, and ``accounting.html``."""
    return {"index.html": index_page(content, files), "accounting.html": accounting_page(content)}


# In the order in which they are made: a page knows the files that it links to.
FORMATS: dict[str, Format] = {"csv": csv_files, "parquet": parquet_files, "html": html_files}


def check_publishable(plan: ReleasePlan) -> None:
    """Refuse, before any budget is spent, a plan whose tables could not be made or written.

    Raises:
        PublishError: As of ``base.check_queries`` and ``derive.check_derived``.
        PlanError: If the SQL of a derived table is not allowed (DPR-P15.).
    """
    check_queries(plan)
    check_derived(plan)


def render(plan: ReleasePlan, measurements: Mapping[str, Measurement], facts: Facts) -> Publication:
    """The bundle of a release; the same bytes for the same arguments and versions of packages.

    Args:
        plan: The plan that was measured.
        measurements: By step id; every step of the plan has one.
        facts: What the ledger and the environment say.

    Raises:
        PlanError: If the SQL of a derived table is not allowed (DPR-P15.).
        PublishError: If the plan cannot be published or a step has no measurement (DPR-W1..).
        BrokenPromiseError: If the facts are of another plan (DPR-W107).
    """
    if facts.plan_fingerprint != plan.fingerprint():
        raise BrokenPromiseError(
            "the facts of the ledger are of another plan than the one to publish",
            hint="nothing was published; check the ledger with `dprelease ledger check`",
            code="DPR-W107",
        )
    check_publishable(plan)
    plan = type(plan).from_canonical(plan.canonical())  # equal plans, equal bytes: mappings in canonical order
    inputs = inputs_of(plan, measurements)
    tables = queries_as_tables(plan, inputs)
    derived = derived_tables(plan, tables, inputs, seed_of(measurements))
    content = Content(plan=plan, tables=(*tables, *derived), facts=facts)
    files: dict[str, bytes] = {}
    for name, make in FORMATS.items():
        if name in plan.publish.formats:
            files.update(make(content, files))
    files["accounting.json"] = accounting_json(content)
    files["plan.json"] = (plan.canonical() + "\n").encode()
    files[MANIFEST_FILE] = manifest(plan, facts, files).to_bytes()
    return Publication(files)


def manifest(plan: ReleasePlan, facts: Facts, files: Mapping[str, bytes]) -> Manifest:
    """The manifest of these files."""
    return Manifest(
        release=plan.release.name,
        period=plan.release.period,
        files={path: FileFacts(sha256=sha256(data), bytes=len(data)) for path, data in files.items()},
        plan_fingerprint=facts.plan_fingerprint,
        spec_fingerprint=plan.spec_fingerprint,
        ledger=LedgerFacts(sequence=facts.ledger_sequence, hash=facts.ledger_hash, reserved_at=facts.reserved_at),
        rehearsal=facts.rehearsal,
    )
