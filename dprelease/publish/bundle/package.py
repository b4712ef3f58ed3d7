"""A release as a bundle of files in memory: pure, with no clock and no file."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version

from dprelease.errors import BrokenPromiseError, MissingExtra, PublishError
from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan
from dprelease.plan.presented import Presentation, presented
from dprelease.plan.ranged import rows_of
from dprelease.publish.accounting.certificate import certificate_files, require_weasyprint
from dprelease.publish.accounting.nist import nist_markdown
from dprelease.publish.accounting.registry import registry_yaml
from dprelease.publish.accounting.report import accounting_json, accounting_page
from dprelease.publish.base import Content, Facts, Publication, check_queries
from dprelease.publish.bundle.measurements import as_published, measurement_files
from dprelease.publish.bundle.signing import SIGNATURE_FILE, signed
from dprelease.publish.derive.tables import check_derived, derived_tables, seed_of
from dprelease.publish.errata import TEXTS
from dprelease.publish.formats.csvfile import csv_files
from dprelease.publish.formats.datapackage import datapackage_files
from dprelease.publish.formats.filed import filed
from dprelease.publish.formats.jsonstat import MOST_ROWS, jsonstat_files
from dprelease.publish.formats.parquet import parquet_files
from dprelease.publish.formats.sdmx import sdmx_files
from dprelease.publish.formats.xlsx import xlsx_files
from dprelease.publish.manifest import MANIFEST_FILE, FileFacts, LedgerFacts, Manifest
from dprelease.publish.measured import inputs_of, queries_as_tables
from dprelease.publish.packed import Data, Files, digest_of, kept, size_of
from dprelease.publish.site.html import site_files
from dprelease.signature import PrivateKey

__all__ = [
    "FORMATS",
    "LOOK_FILE",
    "RENDERERS",
    "bundle_files",
    "check_publishable",
    "render",
    "renderers",
]

LOOK_FILE = "presentation.json"
RENDERERS = ("dprelease", "duckdb", "jinja2", "numpy", "pyarrow", "xlsxwriter", "weasyprint")

# What is released, and the files made so far; returns further files.
Format = Callable[[Content, Mapping[str, bytes]], Mapping[str, bytes]]


def text_files(content: Content, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """``tables/<name>.csv``, and ``datapackage.json``, which says what is in them."""
    made = csv_files(content, files)
    return Files({**kept(made), **datapackage_files(content, made)})


def html_files(content: Content, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """``index.html`` and ``pages/``, which link to the files made so far, and ``accounting.html``."""
    return {"accounting.html": accounting_page(content), **site_files(content, files)}


_WHOLE = frozenset({"csv", "parquet", "sdmx"})  # hold a table of any size

# In the order in which they are made: a page knows the files that it links to.
FORMATS: dict[str, Format] = {
    "csv": text_files,
    "json": jsonstat_files,
    "sdmx": sdmx_files,
    "parquet": parquet_files,
    "xlsx": xlsx_files,
    "pdf": certificate_files,
    "html": html_files,
}

_FOR_PEOPLE = frozenset({"pdf", "html"})  # pages, whose words and form are those of the tool that makes them
# What a format needs of this machine beside the packages that every installation has; each raises MissingExtra.
_NEEDS: dict[str, Callable[[], object]] = {"pdf": require_weasyprint}


def lacking(formats: Iterable[str]) -> dict[str, str]:
    """The formats among these that cannot be made on this machine, each with what is missing in one sentence."""
    found = {}
    for name in formats:
        try:
            _NEEDS.get(name, dict)()
        except MissingExtra as missing:
            found[name] = missing.summary
    return found


def check_publishable(plan: ReleasePlan) -> None:
    """Refuse, before any budget is spent, a plan whose tables could not be made or written.

    Raises:
        PublishError: As of ``base.check_queries`` and ``derive.check_derived``; if no format would hold a large table
            (DPR-W109).
        PlanError: If the SQL of a derived table is not allowed (DPR-P15.).
        MissingExtra: If a format needs a package that is not installed.
    """
    check_queries(plan)
    check_derived(plan)
    _check_held(plan)
    for name in plan.publish.formats:
        if name in _NEEDS:
            _NEEDS[name]()


def _check_held(plan: ReleasePlan) -> None:
    """Refuse a table that no format of the release holds: those for people and for cubes leave large ones out."""
    if _WHOLE & set(plan.publish.formats):
        return
    for query in plan.queries:
        rows = rows_of(plan.keys(query), query.ranges)
        if not query.private and query.ranking is None and rows > MOST_ROWS:
            raise PublishError(
                f"query {query.name!r} has {rows:,} rows, and no format of this release holds a table of that size",
                detail=f"xlsx, json and html hold whole tables of at most {MOST_ROWS:,} rows",
                hint="add csv or parquet to `formats` under `publish`",
                code="DPR-W109",
            )


def render(
    plan: ReleasePlan,
    measurements: Mapping[str, Measurement],
    facts: Facts,
    key: PrivateKey | None = None,
    look: Presentation | None = None,
) -> Publication:
    """The bundle of a release; the same bytes for the same arguments and versions of packages.

    Args:
        plan: The plan that was measured.
        measurements: By step id; every step of the plan has one.
        facts: What the ledger and the environment say.
        key: To sign with; None: the bundle is unsigned, and says so.
        look: How it is shown, where that is not how the plan says.

    Raises:
        PlanError: If the SQL of a derived table is not allowed (DPR-P15.).
        PublishError: If the plan cannot be published or a step has no measurement (DPR-W1..).
        BrokenPromiseError: If the facts are of another plan (DPR-W107), or name another signer (DPR-W108).
    """
    if facts.signer != ("" if key is None else key.public.text):
        raise BrokenPromiseError("the facts name another signer than the key to sign with", code="DPR-W108")
    files = _bundle_files(plan, measurements, facts, look, None)
    if key is not None:
        files[SIGNATURE_FILE] = signed(Manifest.from_canonical(Files(files)[MANIFEST_FILE]), key)
    return Publication(Files(files))


def bundle_files(
    plan: ReleasePlan,
    measurements: Mapping[str, Measurement],
    facts: Facts,
    look: Presentation | None = None,
    given: Mapping[str, bytes] | None = None,
) -> Files:
    """Every file of a bundle but the signature; arguments and errors as of :func:`render`.

    Args:
        plan: The plan that was measured.
        measurements: By step id.
        facts: What the ledger and the environment say.
        look: How it is shown, where that is not how the plan says.
        given: Files of the bundle, where it is made again to be checked: those of a format that cannot be made here,
            for want of its library, are taken from these.
    """
    return Files(_bundle_files(plan, measurements, facts, look, given))


def _bundle_files(
    plan: ReleasePlan,
    measurements: Mapping[str, Measurement],
    facts: Facts,
    look: Presentation | None,
    given: Mapping[str, bytes] | None,
) -> dict[str, Data]:
    if facts.plan_fingerprint != plan.fingerprint():
        raise BrokenPromiseError(
            "the facts of the ledger are of another plan than the one to publish",
            hint="nothing was published; check the ledger with `dprelease ledger check`",
            code="DPR-W107",
        )
    shown = plan if look is None else presented(plan, look)
    check_queries(shown)
    check_derived(shown)
    measurements = as_published(measurements)
    shown = type(plan).from_canonical(shown.canonical())  # equal plans, equal bytes: mappings in canonical order
    inputs = inputs_of(shown, measurements)
    tables = queries_as_tables(shown, inputs)
    derived = derived_tables(shown, tables, inputs, seed_of(measurements))
    content = Content(shown, (*tables, *derived), facts, measurements)
    in_files = replace(content, tables=filed(shown, content.tables))
    files: dict[str, Data] = {
        **kept(measurement_files(shown, measurements)),
        "registry.yaml": registry_yaml(content),
        "nist-800-226.md": nist_markdown(content),
    }
    for name, make in FORMATS.items():
        if name in shown.publish.formats:
            told = content if name in _FOR_PEOPLE else in_files
            files.update(kept(_made(name, make, told, Files(files), given)))
    files["accounting.json"] = accounting_json(content)
    files["facts.json"] = (facts.canonical() + "\n").encode()
    if look is not None:
        files[LOOK_FILE] = (look.canonical() + "\n").encode()
    files["plan.json"] = (plan.canonical() + "\n").encode()
    files[MANIFEST_FILE] = manifest(plan, facts, Files(files)).to_bytes()
    return files


def _made(
    name: str, make: Format, content: Content, files: Mapping[str, bytes], given: Mapping[str, bytes] | None
) -> Mapping[str, bytes]:
    try:
        return make(content, files)
    except MissingExtra:
        if given is None:
            raise
        return {path: data for path, data in given.items() if path.endswith(f".{name}")}


def manifest(plan: ReleasePlan, facts: Facts, files: Mapping[str, bytes]) -> Manifest:
    """The manifest of these files."""
    return Manifest(
        release=plan.release.name,
        period=plan.release.period,
        files={path: FileFacts(sha256=digest_of(files, path), bytes=size_of(files, path)) for path in files},
        plan_fingerprint=facts.plan_fingerprint,
        spec_fingerprint=plan.spec_fingerprint,
        ledger=LedgerFacts.model_validate(facts.ledger),
        rehearsal=facts.rehearsal,
        signature=SIGNATURE_FILE if facts.signer else "unsigned",
        signer=facts.signer,
        rendered_with=renderers(),
    )


def renderers() -> dict[str, str]:
    """Versions of what the bytes of a bundle depend on beside what is published."""
    found = {"zlib": zlib.ZLIB_RUNTIME_VERSION, "texts": str(TEXTS)}
    for name in RENDERERS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
