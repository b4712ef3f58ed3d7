"""Does Prefect's server answer, and to whom? Asked by hand, beside any run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from dprelease.flows.server.settings import NO_CREDENTIALS, api_in_use
from dprelease.release.health.condition import Condition

__all__ = ["exposed", "prefect_server"]

_PROBE = 5.0  # seconds
_TAKEN = 200  # of HTTP
_CLOSED = "docs/how-to/close-the-server.md"
_LOOPBACK = ("localhost", "::1")


def exposed() -> str:
    """What is wrong with how Prefect's API can be reached, in one sentence; empty: nothing that can be seen from here.

    Whoever may use the API without credentials can run commands on every worker. On this machine's own address that is
    left to whoever runs the machine.
    """
    url = api_in_use()
    host = urlsplit(url).hostname or ""
    if not host or host in _LOOPBACK or host.startswith("127."):
        return ""
    if _answer(url, "") != _TAKEN:  # no answer, too, or a certificate that only Prefect's own settings trust
        return ""
    return (
        f"Prefect's API at {host} answers without credentials: whoever reaches it can run commands on the workers, "
        f"which hold the ledger and the keys ({_CLOSED})"
    )


def prefect_server(environment: Mapping[str, str]) -> Condition:
    """What can be told of the server that runs report to.

    Args:
        environment: ``PREFECT_API_URL`` names the server, ``PREFECT_API_AUTH_STRING`` holds credentials, if any.
    """
    url = api_in_use(environment)
    if not url:
        says = "PREFECT_API_URL is not set: every run starts a server of its own, which takes some seconds"
        return Condition("prefect", "note", says, "a schedule needs a server that stays: docs/how-to/prefect.md")
    named = urlsplit(url)
    place, status = f"{named.hostname}:{named.port}", _answer(url, environment.get("PREFECT_API_AUTH_STRING", ""))
    if isinstance(status, str):
        hint = "start it, or correct PREFECT_API_URL"
        return Condition("prefect", "wrong", f"the server at {place} does not answer ({status})", hint)
    if status in NO_CREDENTIALS:
        hint = "export PREFECT_API_AUTH_STRING=USER:PASSWORD, as the server was started with"
        return Condition("prefect", "wrong", f"the server at {place} does not take these credentials ({status})", hint)
    if status != _TAKEN:
        says = f"the server at {place} answered {status}: Prefect's API would not"
        return Condition("prefect", "wrong", says, "correct PREFECT_API_URL: it ends in /api")
    if says := exposed():
        return Condition("prefect", "wrong", says, _CLOSED)
    return Condition("prefect", "good", f"the server at {place} answers")


def _answer(url: str, credentials: str) -> int | str:
    """The status of a harmless question to the API; the name of an error where none came."""
    import httpx

    user, _, password = credentials.partition(":")
    sent: Any = {"auth": httpx.BasicAuth(user, password)} if credentials else {}
    try:
        return httpx.post(f"{url}/flow_runs/count", json={}, timeout=_PROBE, **sent).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return type(error).__name__
