"""A spec with a schedule as a Prefect deployment has it: name, when, and words for people. Without Prefect.

Everything here is public: it is stored in clear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dprelease.canonical import Value
from dprelease.errors import OrchestratorError, SpecError
from dprelease.spec.period import EXAMPLES

if TYPE_CHECKING:
    from dprelease.release.project import Project
    from dprelease.spec.fields.schedule import Scheduled
    from dprelease.spec.load import Loaded
    from dprelease.spec.period import Per

__all__ = ["Kept", "Product", "Registered", "is_product", "kept_plans", "product_of", "products_in"]


@dataclass(frozen=True)
class Product:
    """One release with a schedule.

    Attributes:
        scheduled: Its name, which is the deployment's, and when a run starts.
        project: That it is of.
        target: The spec's absolute path.
        description: For Prefect's page, in Markdown.
        tags: To search by.
        version: Fingerprint of the spec and its references, read for one fixed period: it changes when what is
            released changes, and not with the period, the schedule, comments or layout.
    """

    scheduled: Scheduled
    project: Project
    target: Path
    description: str
    tags: tuple[str, ...]
    version: str

    @property
    def name(self) -> str:
        """The name of the release, and of the deployment."""
        return self.scheduled.name

    @property
    def home(self) -> Path:
        """Where Prefect may write, on the machine that runs it."""
        return self.project.prefect_home.resolve()


class Kept(Value):
    """Which periods keep the plan of an earlier spec, and from which one the spec as it is now holds."""

    published: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    holds_from: str = ""


class Registered(Value):
    """How a product stands with a Prefect server.

    Attributes:
        release: Its name.
        deployment: ``FLOW/NAME``, by which Prefect knows it.
        state: What was done.
        changes: What was brought up to date.
        version: Fingerprint of the spec.
        schedule: When a run starts.
        pool: The work pool whose workers run it; empty: ``serve``.
        paused: Whether somebody has stopped its schedule in Prefect; left as it is.
        page: The deployment's page.
        kept: Where another spec was registered before: which periods keep their plan.
    """

    release: str
    deployment: str
    state: Literal["created", "changed", "unchanged"]
    changes: tuple[str, ...]
    version: str
    schedule: str
    pool: str
    paused: bool
    page: str
    kept: Kept | None = None


def products_in(places: Sequence[Path]) -> tuple[Product, ...]:
    """The products of specs, and of every spec with a schedule in and below folders.

    Raises:
        SpecError: If one cannot be read, or a spec that was named has no schedule.
    """
    from dprelease.release.project import Project
    from dprelease.release.schedule.due import find_scheduled

    paths: dict[Path, None] = {}
    for place in places:
        path = place.resolve()
        if not path.is_dir():
            paths[path] = None
            continue
        scheduled, problems = find_scheduled(Project.find(path))
        if problems:
            raise SpecError(problems)
        paths |= dict.fromkeys(each.resolve() for each in scheduled if each.resolve().is_relative_to(path))
    return tuple(product_of(path) for path in paths)


def is_product(project: Project, target: Path) -> bool:
    """Whether a spec is one that runs of Prefect may release: it has a schedule, and the project lists it.

    Args:
        project: The project, on the machine that would release it.
        target: An absolute path; it need not exist.
    """
    from dprelease.release.schedule.due import find_scheduled

    path = target.resolve()
    if not target.is_absolute() or not _is_listed(project, path):
        return False
    top = project.folder.resolve()
    below = (folder for folder in path.parents if folder != top and folder.is_relative_to(top))
    nested = any((folder / "dprelease.yaml").is_file() for folder in below)
    scheduled, _ = find_scheduled(project)
    return not nested and path in {each.resolve() for each in scheduled}


def _is_listed(project: Project, path: Path) -> bool:
    places = [(project.folder / each).resolve() for each in project.settings.products]
    return any(path.is_relative_to(place) for place in places)


def product_of(path: Path) -> Product:
    """Read a spec with a schedule, whole: one that could not be released is refused here.

    Raises:
        SpecError: If it is wrong, or has no schedule.
        OrchestratorError: If the project does not list it (DPR-O115).
    """
    from dprelease.release.project import Project
    from dprelease.release.schedule.due import read_scheduled

    path = path.resolve()
    scheduled = read_scheduled(path)
    project = Project.find(path.parent)
    if not _is_listed(project, path):
        raise OrchestratorError(
            f"{path.name} is none of the `products` of {project.folder / 'dprelease.yaml'}",
            detail=f"it lists {', '.join(project.settings.products) or 'none'}",
            hint="add the spec, or the folder that it lies in, to `products` there: runs of Prefect release no other",
            code="DPR-O115",
        )
    kind = scheduled.schedule.period
    # Any period would do for the version, if it is always the same; one after the last would be refused.
    sample = min(EXAMPLES[kind], scheduled.schedule.last or EXAMPLES[kind])
    loaded = project.load(path, sample)
    accounts = tuple(account.name for account in project.accounts(loaded))
    return Product(
        scheduled=scheduled,
        project=project,
        target=path,
        description=_description(loaded, kind, accounts),
        tags=("dprelease", scheduled.name, *(f"account:{account}" for account in accounts)),
        version=project.resolve(loaded)[1],
    )


def _description(loaded: Loaded, kind: Per, accounts: Sequence[str]) -> str:
    from dprelease.plan.explain.facts import budget_facts
    from dprelease.spec.fields.published.told import first_said

    spec = loaded.spec
    said = first_said(spec.release.title, spec.release.languages)
    title = (said or spec.release.name).replace(spec.release.period, f"({kind})")
    budget = ", ".join(f"{name} {value}" for name, value in budget_facts(spec.privacy.budget).items())
    return (
        f"**{title}**, released once for every {kind}.\n\n"
        f"- protects one {spec.privacy.unit} ({spec.privacy.neighboring.value.replace('_', ' ')})\n"
        f"- budget of each: {budget}\n"
        f"- charged to: {', '.join(accounts)}\n"
        f"- {len(spec.queries)} queries on {', '.join(spec.tables)}\n\n"
        "What is missing is told from the ledger: a run releases every period that is due, and a run too many "
        "releases nothing.\n"
    )


def kept_plans(product: Product) -> Kept:
    """What the ledger has of a product under another spec than the one there is now.

    Raises:
        LedgerError: If the ledger cannot be read.
    """
    from dprelease.release.records.status import policy_accounts
    from dprelease.release.schedule.due import due_facts

    ledger = product.project.open_ledger()
    latest = {each.period: each for each in ledger.reservations() if each.release == product.name}
    other = {period: each for period, each in latest.items() if _differs(product, period, each.spec_fingerprint)}
    facts = due_facts(product.scheduled, ledger, policy_accounts(product.project), datetime.now(UTC))
    ahead = [slot["period"] for slot in facts["periods"] if slot["period"] not in latest]
    return Kept(
        published=tuple(sorted(period for period, each in other.items() if each.state == "closed")),
        open=tuple(sorted(period for period, each in other.items() if each.state == "open")),
        holds_from=ahead[0] if ahead else "",
    )


def _differs(product: Product, period: str, fingerprint: str) -> bool:
    try:
        return product.project.resolve(product.project.load(product.target, period))[1] != fingerprint
    except SpecError:  # a period that the spec cannot be read for any more
        return True
