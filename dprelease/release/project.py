"""Where things are: the project's folder, its ledger and policy, and the files that a spec names.

Every relative path, in a spec as in ``dprelease.yaml``, is relative to the folder of ``dprelease.yaml``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.canonical import fingerprint, sha256
from dprelease.catalog.reference import References, read_reference
from dprelease.catalog.table import Catalog
from dprelease.errors import LedgerError, PlanError, Problem, SpecError, TableMismatch, Where
from dprelease.ledger import schemes
from dprelease.plan.document import Account, Parallel, Window
from dprelease.plan.resolve.catalog import references_needed, resolve
from dprelease.privacy.budget import Budget
from dprelease.privacy.convert import factor
from dprelease.privacy.unit import Neighboring
from dprelease.regular import TooLarge, is_utf8, read_regular
from dprelease.release.data.allowed_places import misplaced_sources
from dprelease.release.data.approved_queries import approved_hashes, queries_of
from dprelease.release.data.public_files import LARGEST_REFERENCE, Confidential, confidential_files, read_reference_file
from dprelease.release.data.theme import theme_of
from dprelease.signature import PrivateKey, read_private
from dprelease.spec.checks.accounts import parallel_flaws
from dprelease.spec.fields.published.theme import Theme
from dprelease.spec.ledger_url import ledger_resolved
from dprelease.spec.load import Loaded, load
from dprelease.spec.period import CALENDAR, beyond, span
from dprelease.spec.project import HOST, AccountSpec, PolicySpec, ProjectSpec, load_policy, load_project
from dprelease.spec.text.names import listed, shown

if TYPE_CHECKING:
    from dprelease.ledger import Ledger

__all__ = ["SETTINGS", "Project", "account_of", "read_text", "reference_tables"]

SETTINGS = "dprelease.yaml"
_LARGEST_TEXT = 1 << 20
_VARIABLE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


def read_text(path: Path, shown: str, hint: str = "give the path of a spec file") -> bytes:
    """The bytes of a file that the author wrote; of one above 1 MiB as many NULs, for the loader refuses it unread.

    Raises:
        SpecError: If it cannot be read; the message names it as ``shown``.
    """
    try:
        return read_regular(path, _LARGEST_TEXT)
    except TooLarge:
        return bytes(_LARGEST_TEXT + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise SpecError(
            [Problem("DPR-S001", f"cannot read {shown}: {reason}", _other_than_folder(path) or hint, Where(shown))]
        ) from None


def _other_than_folder(path: Path) -> str:
    """What to type in place of a folder; empty: it is none."""
    if not path.is_dir():
        return ""
    beside = sorted(each.name for each in path.glob("*.yaml") if each.name not in (SETTINGS, "policy.yaml"))
    return f"give a file in it: {listed(beside)}" if beside else "give a spec file, not a folder"


@dataclass(frozen=True)
class Project:
    """One folder with a ``dprelease.yaml``, and what the data owner's policy allows in it."""

    folder: Path
    settings: ProjectSpec
    policy: PolicySpec

    @classmethod
    def find(cls, start: Path) -> Project:
        """The project that a file or folder belongs to: the nearest ``dprelease.yaml`` upward.

        Raises:
            SpecError: If there is none, or it or the policy is wrong.
        """
        begin = start.resolve()
        for folder in (begin, *begin.parents):
            if (folder / SETTINGS).is_file():
                return cls.open(folder)
        raise SpecError(
            [
                Problem(
                    "DPR-S002",
                    f"no {SETTINGS} found from {start} upward",
                    "it says where ledger, policy and releases are; `dprelease init DIR` writes one",
                    Where(str(start)),
                )
            ]
        )

    @classmethod
    def open(cls, folder: Path) -> Project:
        """Read ``dprelease.yaml`` and the policy that it names.

        Raises:
            SpecError: One of them is wrong, or the ledger could not name the folder (DPR-S922).
        """
        path = folder / SETTINGS
        if not is_utf8(folder):
            says = f"the folder of the project has a name that is no UTF-8 text: {shown(str(folder), 200)}"
            raise SpecError([Problem("DPR-S922", says, "rename the folder, or move the project", Where(SETTINGS))])
        settings = load_project(read_text(path, str(path)), str(path), schemes())
        policy = folder / settings.policy
        hint = (
            f"`policy:` of {SETTINGS} names it; it is the data owner's, and says what may be spent: "
            "`dprelease init DIR` writes one to start from"
        )
        return cls(folder, settings, load_policy(read_text(policy, str(policy), hint), str(policy)))

    @property
    def releases(self) -> Path:
        """The folder of published bundles."""
        return self.folder / self.settings.releases

    @property
    def prefect_home(self) -> Path:
        """Where Prefect keeps its own database; not an audit trail."""
        return self.folder / self.settings.prefect_home

    @property
    def source_key(self) -> Path:
        """The file of the key that sources are fingerprinted with."""
        return self.folder / self.settings.source_key

    def signing_key(self, environment: Mapping[str, str]) -> PrivateKey | None:
        """The key that releases are signed with; None where the project names none.

        Raises:
            SpecError: If a variable is not set (DPR-K106), the file lies among the releases (DPR-K107), or it is no
                private key of the user's own (DPR-K101 to DPR-K103).
        """
        written = self.settings.signing_key
        if written is None:
            return None
        where = Where(str(self.folder / SETTINGS))
        for name in _VARIABLE.findall(written):
            if not environment.get(name):
                hint = f"export {name}=FILE, with the file of the private key, and run the same command again"
                says = f"the environment variable {name} is not set; `signing_key: {written}` needs it"
                raise SpecError([Problem("DPR-K106", says, hint, where)])
        path = self.folder / _VARIABLE.sub(lambda found: environment[found[1]], written)
        if path.resolve().is_relative_to(self.releases.resolve()):
            hint = "move it out of there at once, make a new key if anybody may have seen it, and correct `signing_key`"
            raise SpecError([Problem("DPR-K107", "the signing key lies among the published releases", hint, where)])
        return read_private(path)

    @cached_property
    def theme(self) -> Theme | None:
        """Colours and logo of the office; errors as of :func:`theme_of`."""
        return theme_of(self.settings.theme, self.folder, str(self.folder / SETTINGS))

    def ledger_url(self, environment: Mapping[str, str]) -> str:
        """Where the ledger is, with variables filled in: never shown; ``settings.ledger`` is, for it has no secret.

        Raises:
            LedgerError: If a variable is not set, or gives no place of a ledger.
        """
        return ledger_resolved(self.settings.ledger, environment, schemes())

    def load(self, path: Path, period: str | None = None) -> Loaded:
        """The spec in a file of the project, of its own period or of another one."""
        return load(read_text(path, str(path)), str(path), period)

    @property
    def confidential(self) -> dict[tuple[int, int], Confidential]:
        """The files that are there and that a spec of the project reads as a source."""
        return confidential_files(self.folder, (self.releases, self.prefect_home), os.environ)

    def resolve(self, loaded: Loaded) -> tuple[Catalog, str]:
        """The catalog of a spec, and the fingerprint of the spec with the content of its public references.

        A reference that cannot be read is reported by ``resolve``, located, beside every other problem.
        """
        needed = references_needed(loaded.spec)
        apart = self.confidential if needed else {}
        paths = {name: self.folder / loaded.spec.references[name].file for name in needed}
        files = {name: read_reference_file(path, apart) for name, path in paths.items()}
        queries = queries_of(loaded, self.folder)
        catalog = resolve(loaded, files, queries)
        pinned = {name: sha256(data) for name, data in files.items() if isinstance(data, bytes)}
        approved = {"queries": approved_hashes(loaded, queries, self.policy)} if queries else {}
        return catalog, fingerprint({"references": pinned, "spec": loaded.fingerprint, **approved})

    def accounts(self, loaded: Loaded) -> tuple[Account, ...]:
        """The policy's accounts that the spec's tables name, checked against the spec's unit and relation.

        Raises:
            SpecError: If the policy has no such account, if the spec's unit or relation says nothing about the
                account's (``privacy.convert``), if its window cannot be told from the spec's tables and period, if
                it is parallel and the spec reads more than units of one stretch (``spec.checks.accounts``), or if data
                come from elsewhere than the policy allows (DPR-S919).
        """
        problems, named = [], {}
        for table, described in loaded.spec.tables.items():
            name, where = described.account, loaded.where("tables", table, "account")
            account = self.policy.accounts.get(name)
            if account is None:
                known = ", ".join(sorted(self.policy.accounts)) or "none"
                hint = f"the policy ({self.settings.policy}) has: {known}; its owner can add one"
                problems.append(Problem("DPR-S410", f"no account {name!r} in the policy", hint, where))
                continue
            problems += _of_stretches(loaded, name, account) or _of_unit(loaded, name, account)
            problems += _of_selecting(loaded, name, account)
            problems += _of_window(loaded, table, name, account)
            problems += _of_invariants(loaded, table, name, account)
            named[name] = account_of(name, account)
        problems += misplaced_sources(loaded, self.folder, self.policy.sources_under)
        if problems:
            raise SpecError(list(dict.fromkeys(problems)))
        return tuple(named[name] for name in sorted(named))

    def open_ledger(self) -> Ledger:
        """The ledger that ``dprelease.yaml`` names, with its anchors; nothing is created until the first reservation.

        Raises:
            LedgerError: If its URL has an unknown scheme, a variable in it is not set, this host has no name
                (DPR-L327), or the policy demands an anchor that all hosts share and there is none (DPR-L326).
            MissingExtra: If its driver is not installed.
        """
        from dprelease.ledger import open_ledger  # many commands open none

        settings = self.settings
        if self.policy.shared_anchor == "required" and not settings.shared_anchors:
            raise LedgerError(
                f"the policy ({settings.policy}) demands a shared anchor, and dprelease.yaml lists none",
                detail="without it a ledger that lost its end can look whole to a host that did not write it",
                hint="write `shared_anchors: [/mnt/shared/head.json]`: a file that every host sees under this path",
                code="DPR-L326",
            )
        url = self.ledger_url(os.environ)
        host = _host(settings.host or "", os.environ)
        return open_ledger(url, self.folder, settings.anchors, host, settings.shared_anchors)


def _host(written: str, environment: Mapping[str, str]) -> str:
    """The name of this host with variables filled in; empty where none is written."""
    name = _VARIABLE.sub(lambda found: environment.get(found[1], ""), written)
    if written and not HOST.fullmatch(name):
        raise LedgerError(
            f"`host: {written}` gives no name of a host",
            detail="it stands in the ledger, before the anchors that this host alone has",
            hint="set its environment variable to a name of letters, digits, dots, - and _ that stays: worker-1",
            code="DPR-L327",
        )
    return name


def account_of(name: str, account: AccountSpec) -> Account:
    """The policy's account as plans and the ledger have it."""
    window = account.window
    return Account(
        name=name,
        unit=account.unit,
        neighboring=account.neighboring,
        composition=account.composition,
        lifetime=Budget(epsilon=account.lifetime.epsilon, delta=account.lifetime.delta),
        selecting=account.lifetime.selecting,
        order=account.order,
        window=None
        if window is None
        else Window(
            per=window.per,
            cap=Budget(epsilon=window.epsilon, delta=window.delta),
            column=account.time.column if account.time else None,
            type=account.time.type if account.time else None,
        ),
        nests=dict(account.nests),
        parallel=None
        if account.parallel is None or account.time is None
        else Parallel(per=account.parallel, column=account.time.column, type=account.time.type),
        prefer=account.prefer,
    )


def _of_stretches(loaded: Loaded, name: str, account: AccountSpec) -> list[Problem]:
    """A spec that reads more than units of one stretch, on a parallel account."""
    mixed = parallel_flaws(loaded.spec, name, account)
    return [Problem("DPR-S417", each.says, each.hint, loaded.where(*each.at)) for each in mixed]


def _of_unit(loaded: Loaded, name: str, account: AccountSpec) -> list[Problem]:
    """A unit and a relation that say nothing about those of the account: each by itself, else both together."""
    privacy = loaded.spec.privacy
    unit, relation, larger = str(privacy.unit), privacy.neighboring, Neighboring.ADD_REMOVE

    def refused(code: str, field: str, unit: str, own: Neighboring, theirs: Neighboring) -> list[Problem]:
        try:
            factor(unit, own, account.unit, theirs, account.nests)
        except PlanError as error:
            where = loaded.where("privacy", field)
            return [Problem(code, f"account {name!r}: {error.summary}", error.hint, where)]
        return []

    each = refused("DPR-S411", "unit", unit, larger, larger)
    each += refused("DPR-S412", "neighboring", account.unit, relation, account.neighboring)
    return each or refused("DPR-S412", "neighboring", unit, relation, account.neighboring)


def _of_invariants(loaded: Loaded, table: str, name: str, account: AccountSpec) -> list[Problem]:
    """Exact counts of a table whose account does not allow any."""
    if account.invariants:
        return []
    queries = loaded.spec.queries
    hint = "leave it out; or its owner, who alone decides this, writes `invariants: true` for the account in the policy"
    says = f"account {name!r} lets no number be published exactly"
    return [
        Problem("DPR-S418", says, hint, loaded.where("invariants", number))
        for number, each in enumerate(loaded.spec.invariants)
        if queries[each.query].table == table
    ]


def _of_selecting(loaded: Loaded, name: str, account: AccountSpec) -> list[Problem]:
    """Private keys on an account that keeps no delta for them."""
    if account.composition not in ("zcdp", "rdp") or account.lifetime.selecting:
        return []
    tables = loaded.spec.tables
    for label, query in loaded.spec.queries.items():
        if query.keys == "private" and tables[query.table].account == name:
            hint = (
                "its owner writes `selecting` beside `delta` in the policy, before the account is first used: "
                "`lifetime: {epsilon: 4, delta: 1e-6, selecting: 5e-7}`"
            )
            where = loaded.where("queries", label, "keys")
            return [Problem("DPR-S413", f"account {name!r} keeps no delta for `keys: private`", hint, where)]
    return []


def _of_window(loaded: Loaded, table: str, name: str, account: AccountSpec) -> list[Problem]:
    """A table whose rows are in no window or in those of another time, or a period that touches none.

    Nobody could say what to charge; or a row would be paid for in one window here, and in another one elsewhere.
    """
    if account.window is None or account.time is None:
        return []
    problems, per, time, own = [], account.window.per, account.time, loaded.spec.tables[table].time
    written = f"`time: {{column: {time.column}, type: {time.type}}}`"
    if own is None:
        says = f"table {table!r} has no `time`, and account {name!r} has a cap per {per} of its rows"
        problems.append(
            Problem("DPR-S414", says, f"write {written}, as its policy has it", loaded.where("tables", table))
        )
    elif own != time:
        says = f"table {table!r} has another `time` than account {name!r}, whose cap per {per} goes by {written}"
        hint = (
            f"write {written}: a row that is in one {per} by one column and in another one by the other would pay twice"
        )
        problems.append(Problem("DPR-S419", says, hint, loaded.where("tables", table, "time")))
    if span(loaded.spec.release.period) is None:
        period = loaded.spec.release.period
        end = beyond(period)
        says = f"period {period!r} is none of the calendar, and account {name!r} has a cap per {per}"
        says += f"; {end}" if end else ""
        problems.append(Problem("DPR-S415", says, f"write {CALENDAR}", loaded.where("release", "period")))
    return problems


def reference_tables(catalog: Catalog, folder: Path) -> References:
    """The references of a plan, read again and held against their pinned content.

    Raises:
        TableMismatch: If a file is gone or is no longer what the plan was made with.
    """
    tables = {}
    for name, reference in catalog.references.items():
        try:
            data = read_regular(folder / reference.file, LARGEST_REFERENCE)
        except (OSError, ValueError):
            data = b""
        if sha256(data) != reference.sha256:
            raise TableMismatch(
                f"reference {name!r} ({reference.file}) is not the file that the plan was made with",
                hint=f"put back the file with SHA-256 {reference.sha256[:12]}..., or release under another period",
                code="DPR-E301",
            )
        tables[name] = read_reference(data, reference.columns, reference.file)
    return tables
