"""Where things are: the project's folder, its ledger and policy, and the files that a spec names.

Every relative path, in a spec as in ``dprelease.yaml``, is relative to the folder of ``dprelease.yaml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dprelease.canonical import fingerprint, sha256
from dprelease.catalog.reference import ReferenceTable, read_reference
from dprelease.catalog.table import Catalog
from dprelease.errors import Problem, SpecError, TableMismatch, Where
from dprelease.plan.document import Account
from dprelease.plan.resolve import references_needed, resolve
from dprelease.privacy.budget import Budget
from dprelease.spec.load import Loaded, load
from dprelease.spec.project import PolicySpec, ProjectSpec, load_policy, load_project

__all__ = ["Project", "read_text", "reference_tables"]

_SETTINGS = "dprelease.yaml"
_LARGEST_TEXT = 1 << 20


def read_text(path: Path, shown: str) -> bytes:
    """The bytes of a file that the author wrote, at most 1 MiB and one byte (the loader refuses that one).

    Raises:
        SpecError: If it cannot be read; the message names it as ``shown``.
    """
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST_TEXT + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise SpecError(
            [Problem("DPR-S001", f"cannot read {shown}: {reason}", "give the path of a spec file", Where(shown))]
        ) from None


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
            if (folder / _SETTINGS).is_file():
                return cls.open(folder)
        raise SpecError(
            [
                Problem(
                    "DPR-S002",
                    f"no {_SETTINGS} found from {start} upward",
                    "it says where ledger, policy and releases are; `dprelease init DIR` writes one",
                    Where(str(start)),
                )
            ]
        )

    @classmethod
    def open(cls, folder: Path) -> Project:
        """Read ``dprelease.yaml`` and the policy that it names."""
        path = folder / _SETTINGS
        settings = load_project(read_text(path, str(path)), str(path))
        policy = folder / settings.policy
        return cls(folder, settings, load_policy(read_text(policy, str(policy)), str(policy)))

    @property
    def releases(self) -> Path:
        """The folder of published bundles."""
        return self.folder / self.settings.releases

    @property
    def prefect_home(self) -> Path:
        """Where Prefect keeps its own database; not an audit trail."""
        return self.folder / self.settings.prefect_home

    def load(self, path: Path) -> Loaded:
        """The spec in a file of the project."""
        return load(read_text(path, str(path)), str(path))

    def reference_bytes(self, loaded: Loaded) -> dict[str, bytes | None]:
        """The bytes of every public reference that the spec names; None where a file cannot be read."""
        found: dict[str, bytes | None] = {}
        for name in references_needed(loaded.spec):
            try:
                found[name] = (self.folder / loaded.spec.references[name].file).read_bytes()
            except OSError:
                found[name] = None  # resolve reports it, located, beside every other problem
        return found

    def resolve(self, loaded: Loaded) -> tuple[Catalog, str]:
        """The catalog of a spec, and the fingerprint of the spec with the content of its references."""
        files = self.reference_bytes(loaded)
        catalog = resolve(loaded, files)
        pinned = {name: sha256(data) for name, data in files.items() if data is not None}
        return catalog, fingerprint({"references": pinned, "spec": loaded.fingerprint})

    def accounts(self, loaded: Loaded) -> tuple[Account, ...]:
        """The policy's accounts that the spec's tables name, checked against the spec's unit and relation.

        Raises:
            SpecError: If the policy has no such account, or it protects another unit or relation.
        """
        privacy, problems, found = loaded.spec.privacy, [], {}
        for table, described in loaded.spec.tables.items():
            name, where = described.account, loaded.where("tables", table, "account")
            account = self.policy.accounts.get(name)
            if account is None:
                known = ", ".join(sorted(self.policy.accounts)) or "none"
                hint = f"the policy ({self.settings.policy}) has: {known}; its owner can add one"
                problems.append(Problem("DPR-S410", f"no account {name!r} in the policy", hint, where))
                continue
            if account.unit != str(privacy.unit):
                hint = f"the account protects one {account.unit}; write `unit: {{entity: {account.unit}}}`"
                where = loaded.where("privacy", "unit")
                problems.append(
                    Problem("DPR-S411", f"unit {privacy.unit} is not that of account {name!r}", hint, where)
                )
            if account.neighboring != privacy.neighboring:
                hint = f"write `neighboring: {account.neighboring.value}`, as the policy says"
                where = loaded.where("privacy", "neighboring")
                problems.append(Problem("DPR-S412", f"account {name!r} has another neighbouring relation", hint, where))
            private = [query for query in loaded.spec.queries.values() if query.keys == "private"]
            mine = [query for query in private if loaded.spec.tables[query.table].account == name]
            if mine and account.composition == "zcdp" and not account.lifetime.selecting:
                hint = "its owner writes `selecting` beside `delta` in the policy, before the account is first used"
                where = loaded.where("queries", next(n for n, q in loaded.spec.queries.items() if q is mine[0]), "keys")
                problems.append(
                    Problem("DPR-S413", f"account {name!r} keeps no delta for `keys: private`", hint, where)
                )
            found[name] = Account(
                name=name,
                unit=account.unit,
                neighboring=account.neighboring,
                composition=account.composition,
                lifetime=Budget(epsilon=account.lifetime.epsilon, delta=account.lifetime.delta),
                selecting=account.lifetime.selecting,
            )
        if problems:
            raise SpecError(list(dict.fromkeys(problems)))
        return tuple(found[name] for name in sorted(found))


def reference_tables(catalog: Catalog, folder: Path) -> Mapping[str, ReferenceTable]:
    """The references of a plan, read again and held against their pinned content.

    Raises:
        TableMismatch: If a file is gone or is no longer what the plan was made with.
    """
    found = {}
    for name, reference in catalog.references.items():
        try:
            data = (folder / reference.file).read_bytes()
        except OSError:
            data = b""
        if sha256(data) != reference.sha256:
            raise TableMismatch(
                f"reference {name!r} ({reference.file}) is not the file that the plan was made with",
                hint=f"put back the file with SHA-256 {reference.sha256[:12]}..., or release under another period",
                code="DPR-E301",
            )
        found[name] = read_reference(data, reference.columns)
    return found
