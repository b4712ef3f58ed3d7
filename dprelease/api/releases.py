"""Releases in a notebook: run one, open one, verify one; its tables, its plan and what it cost."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from dprelease.api.frames import Shown, figures, table_frame
from dprelease.api.plans import Accounted, Plan
from dprelease.errors import CheckFailed, PublishError, out_of_memory
from dprelease.noise import Sampler
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.facts import plan_facts, unprotected
from dprelease.publish import NOTICE, Check
from dprelease.publish.base import keys_of_query, number_names
from dprelease.publish.bundle.checks.opened import OpenedBundle
from dprelease.publish.bundle.checks.tables import published_table
from dprelease.publish.bundle.checks.whole_bundle import check_files
from dprelease.publish.bundle.package import LOOK_FILE
from dprelease.publish.derive.tables import outline
from dprelease.release.bundle_place import require_bundle
from dprelease.release.check import check_release, failure, public_key
from dprelease.release.diff import open_bundle
from dprelease.release.direct import run_directly
from dprelease.release.publishing.rendering import Outcome
from dprelease.release.run import Request

__all__ = ["Accounting", "Release", "ReleaseTable", "Verification", "json_of", "open_release", "run", "verify"]


@dataclass(frozen=True, eq=False, repr=False)
class ReleaseTable(Shown):
    """One published table.

    Attributes:
        name: The name of its query, or of the derived table.
        title: What its readers see.
        keys: Its key columns.
        measures: Its numbers; beside each stand its ``_se``, ``_margin``, ``_lower``, ``_upper`` and ``_status``.
    """

    name: str
    title: str
    keys: tuple[str, ...]
    measures: tuple[str, ...]
    _bundle: OpenedBundle
    _plan: ReleasePlan

    def to_pandas(self, *, labels: bool = False) -> pd.DataFrame:
        """The table as published, a new DataFrame each time.

        Args:
            labels: Whether public keys are shown by their labels in place of the keys themselves.

        Returns:
            The columns of the CSV file. Public keys are ordered categoricals, in declared order; numbers that are whole
            by their kind are ``Int64``. A number that was withheld is missing, and its status says why.

        Raises:
            PublishError: If the release has neither CSV nor Parquet files (DPR-W122).
            CheckFailed: If the file is not what plan and manifest say (DPR-C112).
        """
        try:
            table = published_table(self._bundle, self._plan, self.name)
            if table is not None:
                return table_frame(table, labels=labels)
        except (ValueError, KeyError):
            raise _unreadable(f"table {self.name!r}") from None
        raise PublishError(
            f"table {self.name!r} is in no file that can be read as columns: the release has neither CSV nor Parquet",
            hint="add csv to `formats` in the spec, then `dprelease publish NAME/PERIOD --look SPEC`: it is free",
            code="DPR-W122",
        )

    def _told(self) -> tuple[str, Sequence[str], Mapping[str, pd.DataFrame]]:
        title = f"{self.name}: {self.title}" if self.title else self.name
        return title, [NOTICE if self._bundle.manifest.rehearsal else ""], {"": self.to_pandas(labels=True)}

    def __repr__(self) -> str:
        return f"<Table {self.name}: {', '.join(self.measures)} by {', '.join(self.keys) or 'nothing'}>"


class Tables(dict[str, ReleaseTable]):
    """The tables of a release by name, in published order."""

    def __missing__(self, name: str) -> ReleaseTable:
        raise KeyError(f"no table {name!r}; the release has {', '.join(self)}")


@dataclass(frozen=True, eq=False, repr=False)
class Accounting(Accounted):
    """The guarantee of a release, and what it cost; ``facts`` are those of its ``accounting.json``."""

    @property
    def _account_rows(self) -> Sequence[Mapping[str, Any]]:
        return [
            {
                **{"name": each["name"], "composition": each["composition"], "window": each.get("window", "")},
                **{name: each[name].get("epsilon") for name in ("before", "after", "cap")},
                **{"delta": each["after"]["delta"], "fits": True},  # it was charged
            }
            for each in (*self.facts["accounts"], *self.facts["windows"])
        ]

    def _told(self) -> tuple[str, Sequence[str], Mapping[str, pd.DataFrame]]:
        sentences = [self.facts["notice"], self.facts.get("unprotected", "")]
        return self._cost, sentences, {"under every accountant": self.loss, "accounts": self.accounts}


@dataclass(frozen=True, eq=False, repr=False)
class Release(Shown):
    """A published release, whose files are what its manifest says.

    Attributes:
        outcome: How the run ended that published or found it; None of one that was opened.
    """

    _bundle: OpenedBundle
    _plan: ReleasePlan
    outcome: Outcome | None = None

    def __fspath__(self) -> str:
        return str(self.folder)

    @property
    def name(self) -> str:
        """The name of the release."""
        return self._bundle.manifest.release

    @property
    def period(self) -> str:
        """The period that it is about."""
        return self._bundle.manifest.period

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self._bundle.folder

    @property
    def rehearsal(self) -> bool:
        """Whether its numbers are about made-up rows."""
        return self._bundle.manifest.rehearsal

    @cached_property
    def tables(self) -> Tables:
        """Its tables by name: those of its queries, then those derived by SQL."""
        plan = self._plan
        outlines = [outline(plan, each) for each in plan.derive]
        described = [
            *((each.name, each.title, keys_of_query(plan, each), number_names(plan, each)) for each in plan.queries),
            *((t.name, t.title, t.key_columns, tuple(measure.name for measure in t.measures)) for t in outlines),
        ]
        return Tables(
            (name, ReleaseTable(name, title, tuple(column.name for column in keys), measures, self._bundle, plan))
            for name, title, keys, measures in described
        )

    @cached_property
    def plan(self) -> Plan:
        """The plan that was measured; its accounts are as they were charged."""
        marked = {"plan_fingerprint": self._bundle.manifest.plan_fingerprint}
        return Plan({**plan_facts(self._plan), **marked, "accounts": self.accounting._account_rows})

    @cached_property
    def accounting(self) -> Accounting:
        """What it cost, and what that means."""
        return Accounting(json_of(self._bundle, "accounting.json"))

    def join(self, *names: str, how: Literal["inner", "left", "outer"] = "inner", labels: bool = False) -> pd.DataFrame:
        """Some of its tables beside one another, by the key columns that they have in common.

        The keys of each table must be among those of the tables before it, or the other way round: else each row would
        meet several others. A column that two of them have is named ``TABLE_COLUMN``.

        Args:
            names: The tables; none: all of them.
            how: Which rows are kept, as in ``pandas.merge``.
            labels: As in ``Table.to_pandas``.

        Raises:
            ValueError: If the keys of two tables are not within one another.
        """
        tables = [self.tables[name] for name in names or self.tables]
        frames = [each.to_pandas(labels=labels).drop(columns="rehearsal", errors="ignore") for each in tables]
        own = [set(each.keys) for each in tables]
        often = Counter(name for frame, keys in zip(frames, own, strict=True) for name in {*frame} - keys)
        joined, known = pd.DataFrame(index=[0]), set[str]()
        for table, frame, keys in zip(tables, frames, own, strict=True):
            if known & keys not in (known, keys):
                raise ValueError(f"the keys of {table.name} are not within those before it: {', '.join(sorted(known))}")
            added = frame.rename(columns={name: f"{table.name}_{name}" for name in {*frame} - keys if often[name] > 1})
            common = [name for name in table.keys if name in known]
            joined = joined.merge(added, how=how, on=common) if common else joined.merge(added, how="cross")
            known |= keys
        return joined

    def _told(self) -> tuple[str, Sequence[str], Mapping[str, pd.DataFrame]]:
        certified = self._plan.loss[self._plan.certified]
        cost = f"It costs {certified.told}."
        signed = f"Signed by {self._bundle.manifest.signer}." if self._bundle.manifest.signer else "Not signed."
        ended = [self.outcome.note, self.outcome.warning] if self.outcome is not None else []
        rows = [
            {**vars(each), "keys": ", ".join(each.keys), "measures": ", ".join(each.measures)}
            for each in self.tables.values()
        ]
        shown = {"tables": figures(rows, dict.fromkeys(("name", "title", "keys", "measures"), "text"))}
        title = f"{self.name}/{self.period}: {self._plan.release.title or 'untitled'}"
        return title, [NOTICE if self.rehearsal else "", cost, unprotected(self._plan), signed, *ended], shown


@dataclass(frozen=True, eq=False, repr=False)
class Verification(Shown):
    """What was checked of a bundle, and how it came out."""

    checks: tuple[Check, ...]

    def to_pandas(self) -> pd.DataFrame:
        """One row for each check; ``passed`` is missing where it was not run, which is neither."""
        rows = [{"check": each.name, "passed": each.passed, "detail": each.detail} for each in self.checks]
        return figures(rows, {"check": "text", "passed": "flag", "detail": "text"})

    def _told(self) -> tuple[str, Sequence[str], Mapping[str, pd.DataFrame]]:
        skipped = [each.name for each in self.checks if each.passed is None]
        sentences = f"not run, and so neither passed nor failed: {', '.join(skipped)}" if skipped else ""
        title = f"{sum(each.passed is True for each in self.checks)} of {len(self.checks)} checks passed, none failed"
        return title, [sentences], {"checks": self.to_pandas()}


def open_release(folder: str | os.PathLike[str], *, key: str = "") -> Release:
    """Open a published release, and refuse one whose files are not what its manifest says.

    Hashes and signature are checked, but no file is made again: :func:`verify` does all that can be done.

    Args:
        folder: The folder of its bundle; or NAME/PERIOD of a release of the project in the working folder.
        key: Whose signature it must have: a key file, or the text of the key; empty: anybody's or none.

    Raises:
        PublishError: If it is no bundle (DPR-W120).
        CheckFailed: If a file was changed or is missing, or it is not signed as it says or as ``key`` asks.
    """
    bundle = open_bundle(os.fspath(folder))
    checks = check_files(bundle, public_key(key) if key else None)
    _require_passed(checks)
    if bundle.shown is None:
        raise _unreadable(LOOK_FILE)
    return Release(bundle, bundle.shown)


def json_of(bundle: OpenedBundle, name: str) -> dict[str, Any]:
    """The content of a JSON file of a bundle.

    Raises:
        CheckFailed: If there is no such file that is the manifest's, or it holds no object (DPR-C112).
    """
    try:
        content = json.loads(bundle.sound[name])
    except (KeyError, ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise _unreadable(name)
    return content


def _unreadable(name: str) -> CheckFailed:
    hint = "`dprelease verify` says what is wrong with the bundle"
    return CheckFailed(f"{name} of the bundle cannot be read", hint=hint, code="DPR-C112")


def verify(folder: str | os.PathLike[str], *, key: str = "") -> Verification:
    """Check all that can be checked of a bundle with no data and no ledger, as ``dprelease verify`` does.

    Args:
        folder: The folder of its bundle, or a release.
        key: As in :func:`open_release`.

    Raises:
        CheckFailed: If a check fails; it says which, and what was found. Or it is no bundle.
    """
    signer = public_key(key) if key else None
    require_bundle(Path(folder), os.fspath(folder))
    checks = check_release(Path(folder), signer)
    _require_passed(checks)
    return Verification(checks)


def _require_passed(checks: Sequence[Check]) -> None:
    """Raise the error of the command where a check failed, with what the command prints before it."""
    failed = [each for each in checks if each.passed is False]
    if failed:
        error = failure(checks)
        error.detail = "\n    ".join(f"{each.name}: {each.detail}" for each in failed)
        raise error


def run(
    target: str | os.PathLike[str],
    *,
    period: str | None = None,
    synthetic: bool = False,
    restate: str = "",
    accept_changed_data: str = "",
    as_planned: bool = False,
    revision: int = 0,
    early: str = "",
    sampler: Sampler = "native",
) -> Release:
    """Release a spec or a frozen plan, as ``dprelease run --direct`` does, and open what was published.

    The budget is charged before a row is read, and every step is measured once: the same call again, in this process
    or another one, finds the release and spends nothing, or goes on where it stopped.

    Args:
        target: The file of a spec, or of a plan frozen by ``plan(out=...)``.
        period: Takes the place of the spec's own.
        synthetic: Rehearse on made-up rows, at no cost.
        restate: Why it replaces what was released; charged again.
        accept_changed_data: Why a release that was begun goes on with other data.
        as_planned: Finish a release by the plan that it was begun with, though the spec has changed.
        revision: Which planned revision of the period; 0: the first publication.
        early: Why it is begun before the data of its period are complete.
        sampler: What draws integer noise: ``native`` or ``opendp``.

    Raises:
        DpReleaseError: As the command: it stops with the ``exit_code`` of the same error.
        ValueError: If two of these exclude each other.
    """
    if revision and (restate or synthetic):
        raise ValueError("`revision` is not taken together with `restate` or `synthetic`")
    if as_planned and restate:
        raise ValueError("`as_planned` is not taken together with `restate`, which plans anew")
    request = Request(
        target=str(Path(target).resolve()),
        period=period,
        synthetic=synthetic,
        restate=restate,
        accept_changed_data=accept_changed_data,
        as_planned=as_planned,
        revision=revision,
        early=early,
        sampler=sampler,
    )
    ended = _executed(request)
    if not isinstance(ended, Outcome):
        raise ended
    return replace(open_release(ended.folder), outcome=ended)


def _executed(request: Request) -> Outcome | BaseException:
    """How a run ended; an error without its traceback, whose frames a notebook keeps and may hold rows."""
    try:
        return run_directly(request)
    except MemoryError:
        return out_of_memory()
    except BaseException as error:
        error.__cause__ = error.__context__ = error.__traceback__ = None
        return error
