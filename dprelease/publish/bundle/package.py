"""A release as a bundle of files in memory: pure, with no clock and no file."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType

from dprelease.canonical import sha256
from dprelease.errors import BrokenPromiseError, MissingExtra
from dprelease.formats import FORMATS, Format
from dprelease.freed_memory import give_back
from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.presentation import Presentation, presented
from dprelease.privacy.accountants.rho import as_priced
from dprelease.publish.accounting.nist import nist_markdown
from dprelease.publish.accounting.registry import registry_yaml
from dprelease.publish.accounting.report import accounting_json
from dprelease.publish.base import (
    Content,
    Facts,
    Publication,
    table_names,
)
from dprelease.publish.bundle.audit_page import AUDIT_FILE, audit_markdown
from dprelease.publish.bundle.measurements import as_published, measurement_files
from dprelease.publish.bundle.research import moved_file, research_paths
from dprelease.publish.bundle.step_files import RECIPE, measurement_paths
from dprelease.publish.columns import check_queries
from dprelease.publish.comparing.columns import compared_tables
from dprelease.publish.comparing.earlier import EarlierRelease, draws_of, earlier_files
from dprelease.publish.comparing.series import with_sums
from dprelease.publish.derive.tables import check_derived_tables, derived_tables, seed_of
from dprelease.publish.errata import KINDS_OF_TEXTS, TEXTS
from dprelease.publish.layouts import filed
from dprelease.publish.manifest import (
    MANIFEST_FILE,
    SIGNATURE_FILE,
    SUMS_FILE,
    SUMS_SIGNATURE_FILE,
    FileFacts,
    LedgerFacts,
    Manifest,
    signature_file,
    sums_file,
)
from dprelease.publish.measured import inputs_of, queries_as_tables
from dprelease.publish.packed import Data, Files, digest_in, kept, size_in
from dprelease.publish.publishable import named_function
from dprelease.publish.rounded import rounded_tables
from dprelease.publish.site.localised import languages_of, titled
from dprelease.signature import PrivateKey

__all__ = [
    "LOOK_FILE",
    "MAKING",
    "bundle_files",
    "files_beside",
    "planned_files",
    "render",
    "renderers",
]

LOOK_FILE = "presentation.json"
MAKING = "while making "  # begins the note on an error that says what was being made
_MOST_NAMED = 5  # paths in a message
_LIBRARIES = {name for form in FORMATS.values() for name in form.made_with} - {"zlib"}
RENDERERS = ("dprelease", "duckdb", "numpy", *sorted(_LIBRARIES))  # whose versions a manifest names
_ALWAYS = (
    SUMS_FILE,
    "accounting.json",
    "facts.json",
    "manifest.json",
    "nist-800-226.md",
    "plan.json",
    "registry.yaml",
    RECIPE,
)


def render(
    plan: ReleasePlan,
    measurements: Mapping[str, Measurement],
    facts: Facts,
    key: PrivateKey | None = None,
    look: Presentation | None = None,
    earlier: Mapping[str, EarlierRelease] = MappingProxyType({}),
) -> Publication:
    """The bundle of a release; the same bytes for the same arguments and versions of packages.

    Args:
        plan: The plan that was measured.
        measurements: By step id; every step of the plan has one.
        facts: What the ledger and the environment say.
        key: To sign with; None: the bundle is unsigned, and says so.
        look: How it is shown, where that is not how the plan says.
        earlier: By period, what is taken of the earlier releases that it compares with.

    Raises:
        PlanError: If the SQL of a derived table is not allowed (DPR-P15.).
        PublishError: If the plan cannot be published or a step has no measurement (DPR-W1..).
        BrokenPromiseError: If the facts are of another plan (DPR-W107), or name another signer (DPR-W108).
    """
    if facts.signer != ("" if key is None else key.public.text):
        raise BrokenPromiseError("the facts name another signer than the key to sign with", code="DPR-W108")
    files = bundle_files(plan, measurements, facts, look, earlier=earlier)
    manifest = Manifest.from_canonical(files[MANIFEST_FILE])
    if key is None:
        return Publication(Files({**kept(files), SUMS_FILE: sums_file(manifest, None)}))
    signature = signature_file(manifest, key)
    sums = sums_file(manifest, signature)
    beside = {SIGNATURE_FILE: signature, SUMS_FILE: sums, SUMS_SIGNATURE_FILE: key.sign_ssh(sums)}
    return Publication(Files({**kept(files), **beside}))


def bundle_files(
    plan: ReleasePlan,
    measurements: Mapping[str, Measurement],
    facts: Facts,
    look: Presentation | None = None,
    given: Mapping[str, bytes] | None = None,
    measured: Mapping[str, bytes] | None = None,
    earlier: Mapping[str, EarlierRelease] = MappingProxyType({}),
    most_rows: int | None = None,
) -> Files:
    """Every file of a bundle but the signature and the checksums; arguments and errors as of :func:`render`.

    Args:
        plan: The plan that was measured.
        measurements: By step id.
        facts: What the ledger and the environment say.
        look: How it is shown, where that is not how the plan says.
        given: Files of the bundle, where it is made again to be checked: those of a format that cannot be made here,
            for want of its library, are taken from these.
        measured: The files of the measurements, where they were made and compared already; None: they are made here.
        earlier: By period, what is taken of the earlier releases that it compares with.
        most_rows: How many rows of each table are written, where that is tried only; None: all of them.
    """
    text = plan.canonical()
    if facts.plan_fingerprint != sha256(text.encode()):
        raise BrokenPromiseError(
            "the facts of the ledger are of another plan than the one to publish",
            hint="nothing was published; check the ledger with `dprelease ledger check`",
            code="DPR-W107",
        )
    shown = plan if look is None else presented(plan, look)
    check_queries(shown)
    check_derived_tables(shown)
    with _making("the tables"):
        measurements = as_published(measurements)
        shown = type(plan).reread(
            text if look is None else shown.canonical()
        )  # equal plans, equal bytes: mappings in canonical order
        inputs = inputs_of(shown, measurements, draws_of(earlier))
        tables = queries_as_tables(shown, inputs)
        summed = with_sums(shown, tables, inputs)
        derived = derived_tables(shown, summed, inputs, seed_of(measurements), earlier)
        tables = compared_tables(shown, tables, inputs, earlier)
    published = (*rounded_tables(shown, tables), *derived)
    del inputs, tables, summed, derived
    give_back()  # what the tables were made of
    if most_rows is not None:
        published = tuple(each.first(most_rows) for each in published)
    content = Content(shown, published, facts, measurements)
    with ThreadPoolExecutor(thread_name_prefix="dprelease-aside") as threads:  # whatever fails, it is waited for
        with as_priced(plan.is_older is True):
            aside = _begun(threads, content, given)
        with _making("measurements/"):
            measured = measurement_files(shown, measurements, earlier) if measured is None else measured
        with as_priced(plan.is_older is True):
            files = files_beside(content, measured, given, aside)
    if look is not None:
        files[LOOK_FILE] = (look.canonical() + "\n").encode()
    files["plan.json"] = f"{text}\n".encode()
    files.update(earlier_files(earlier))
    files[MANIFEST_FILE] = _manifest(plan, facts, Files(files)).to_bytes()
    return Files(files)


def files_beside(
    content: Content,
    measured: Mapping[str, bytes],
    given: Mapping[str, bytes] | None = None,
    aside: Mapping[str, Future[Mapping[str, Data]]] = MappingProxyType({}),
) -> dict[str, Data]:
    """The files that are made of tables, plan and facts, with those of the measurements, which they link to.

    Args:
        content: What is published.
        measured: The files of the measurements.
        given: As of :func:`bundle_files`.
        aside: Those of formats that another thread is making, by the name of the format.
    """
    files: dict[str, Data] = {**kept(measured)}
    in_files = titled(replace(content, tables=filed(content.plan, content.tables)))
    for path, make in (("registry.yaml", registry_yaml), ("nist-800-226.md", nist_markdown)):
        with _making(path):
            files[path] = make(content)
    if content.facts.audit is not None:
        with _making(AUDIT_FILE):
            files[AUDIT_FILE] = audit_markdown(content, content.facts.audit)
    for form in _formats(content):
        if form.name in aside:
            files.update(aside[form.name].result())
            continue
        with _making(f"the files of format {form.name}"):
            files.update(kept(format_files(form, in_files if form.as_filed else content, Files(files), given)))
        give_back()  # the texts of its columns
    files.update(moved_file(content.plan, content.tables))
    with _making("accounting.json"):
        files["accounting.json"] = accounting_json(content)
    files["facts.json"] = (content.facts.canonical() + "\n").encode()
    return files


def _formats(content: Content) -> list[Format]:
    """Those that are published, in the order in which they are made."""
    return [form for form in FORMATS.values() if form.name in content.plan.publish.formats]


def _begun(
    threads: Executor, content: Content, given: Mapping[str, bytes] | None
) -> dict[str, Future[Mapping[str, Data]]]:
    """Let the files of formats that are made ``aside`` be made from now on, under the settings of this thread."""

    def made(form: Format) -> Mapping[str, Data]:
        with _making(f"the files of format {form.name}"):
            return kept(format_files(form, content, {}, given))

    return {form.name: threads.submit(copy_context().run, made, form) for form in _formats(content) if form.aside}


@contextmanager
def _making(what: str) -> Iterator[None]:
    """Let whatever goes wrong here say what was being made."""
    try:
        yield
    except Exception as error:
        error.add_note(f"{MAKING}{what}")
        raise


def format_files(
    form: Format, content: Content, files: Mapping[str, bytes], given: Mapping[str, bytes] | None = None
) -> Mapping[str, bytes]:
    """The files of one format.

    Args:
        form: The format.
        content: What is published.
        files: Made so far.
        given: In the place of its files where it cannot be made here; None: that is an error.

    Raises:
        BrokenPromiseError: If they are not those that its line in ``FORMATS`` declares (DPR-W110).
        MissingExtra: If it needs what this machine has not, and none are given.
    """
    names = table_names(content.plan)
    try:
        found: Mapping[str, bytes] = named_function(form.render)(content, files)
    except MissingExtra:
        if given is None:
            raise
        return {path: given[path] for path in form.paths(names) if path in given}
    wrong = form.wrong(found, names, languages_of(content.plan)[1:])
    if wrong:
        raise BrokenPromiseError(
            f"the format {form.name} does not write the files that it declares: {', '.join(wrong[:_MOST_NAMED])}",
            hint="nothing was published; its line in `dprelease/formats.py` says which files it has",
            code="DPR-W110",
        )
    return found


def _manifest(plan: ReleasePlan, facts: Facts, files: Mapping[str, bytes]) -> Manifest:
    """The manifest of these files."""
    return Manifest(
        release=plan.release.name,
        period=plan.release.period,
        files={path: FileFacts(sha256=digest_in(files, path), bytes=size_in(files, path)) for path in files},
        plan_fingerprint=facts.plan_fingerprint,
        spec_fingerprint=plan.spec_fingerprint,
        ledger=LedgerFacts.model_validate(facts.ledger),
        rehearsal=facts.rehearsal,
        signature=SIGNATURE_FILE if facts.signer else "unsigned",
        signer=facts.signer,
        rendered_with=renderers(),
        sums=SUMS_FILE,
    )


def renderers() -> dict[str, str]:
    """Versions of what the bytes of a bundle depend on beside what is published."""
    found = {"zlib": zlib.ZLIB_RUNTIME_VERSION, "texts": str(TEXTS)}
    found |= {kind: str(number) for kind, number in KINDS_OF_TEXTS.items()}
    for name in RENDERERS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def planned_files(plan: ReleasePlan) -> tuple[str, ...]:
    """The paths of the files that a release of the plan has, in order.

    Left out are the signatures, which the project decides, ``presentation.json``, which only a later look has,
    ``audit.md``, which a release has that was attacked before, and ``pages/``, whose number goes by the size of the
    tables, and the pages in further languages.
    """
    found = [*_ALWAYS, *measurement_paths(plan).values(), *research_paths(plan)]
    found += [path for name in plan.publish.formats for path in FORMATS[name].paths(table_names(plan))]
    return tuple(sorted(set(found)))
