"""``dprelease schedule`` and ``dprelease serve``: what they ask of Prefect, with its settings in place.

Prefect is imported inside the functions only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dprelease.errors import DpReleaseError, OrchestratorError
from dprelease.flows.deployment import Product, Registered, products_in
from dprelease.flows.server.settings import api_in_use, prepared, refused_by_server, run_environment

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["schedule", "serve"]


_START = "start one with `prefect server start`, and export PREFECT_API_URL=http://127.0.0.1:4200/api"


def schedule(
    specs: Sequence[Path], *, pool: str | None = None, every: float | None = None, most: int = 0
) -> tuple[Registered, ...]:
    """Register a deployment for each spec with the Prefect server that the environment names.

    Args:
        specs: Files, or folders of them.
        pool: A work pool that exists; None: ``serve`` runs them.
        every: Seconds between two runs, in the place of cron; for tests.
        most: Periods that one run releases at most; 0: all.

    Raises:
        SpecError: If a spec is wrong, or has no schedule.
        OrchestratorError: If no server is named, or it does not answer or refuses.
    """
    products = products_in(specs)
    with _prefect(products) as deploy:
        return tuple(deploy.register(products, pool, every, most))


def serve(
    specs: Sequence[Path],
    *,
    every: float | None = None,
    most: int = 0,
    told: Callable[[tuple[Registered, ...]], None] = lambda registered: None,
    lost: Callable[[str], None] = lambda text: None,
) -> None:
    """Register the specs, and run here whatever the server starts of them, until interrupted.

    Args:
        specs: Files, or folders of them.
        every: As of :func:`schedule`.
        most: As of :func:`schedule`.
        told: Called once, when they are registered.
        lost: Called when the server is lost.

    Raises:
        SpecError: If a spec is wrong, or has no schedule.
        OrchestratorError: If no server is named, or it does not answer when this begins.
    """
    products = products_in(specs)
    with _prefect(products) as deploy:
        told(tuple(deploy.register(products, None, every, most)))
        deploy.run_deployments(products, every, most, lost)


@contextmanager
def _prefect(products: Sequence[Product]) -> Iterator[ModuleType]:
    """Prefect, as a scheduled run shall find it; what goes wrong in it is an error of ours."""
    if not api_in_use():
        raise OrchestratorError("no Prefect server is named, and a schedule needs one", hint=_START, code="DPR-O110")
    if not products:
        raise OrchestratorError(
            "there is no spec with a schedule", hint="name a spec that has one: see `schedule:`", code="DPR-O111"
        )
    wrong: str | DpReleaseError = ""
    folders = dict.fromkeys(product.project.folder for product in products)
    with prepared(products[0].home, run_environment(products[0].home, folders)):
        try:
            from dprelease.flows.deploy import deploy

            yield deploy
        except DpReleaseError:
            raise
        except Exception as error:  # no data is near
            wrong = (
                refused_by_server(error)
                or f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no text'}"[:300]
            )
    if isinstance(wrong, DpReleaseError):
        raise wrong
    if wrong:
        named = urlsplit(api_in_use())
        raise OrchestratorError(
            f"Prefect's server at {named.hostname}:{named.port} could not be used",
            detail=wrong,
            hint=_START,
            code="DPR-O112",
        )
