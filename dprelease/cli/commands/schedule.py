"""``dprelease schedule`` and ``dprelease serve``: deployments with the cron of specs, and a process that runs them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dprelease.cli.options import Json
from dprelease.cli.views import complain_of, say, say_json

if TYPE_CHECKING:
    from dprelease.flows.deployment import Kept, Registered

__all__ = ["schedule_command", "serve_command"]


def schedule_command(
    specs: Annotated[list[Path], typer.Argument(metavar="SPEC...", help="Specs with a schedule, or folders of them.")],
    pool: Annotated[
        str | None, typer.Option(metavar="NAME", help="A work pool whose workers run it; else `dprelease serve` does.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Register a Prefect deployment for each spec, with its cron; says what is new and what has changed."""
    from dprelease.flows import api_in_use, exposed
    from dprelease.flows import schedule as register

    registered = register(specs, pool=pool)
    if warning := exposed():
        complain_of(warning)
    if as_json:
        say_json({"api": api_in_use(), "deployments": [each.model_dump(mode="json") for each in registered]})
        return
    for each in registered:
        say("\n".join(_lines(each)))
    if pages := _pages(api_in_use()):
        say(pages)
    if any(not each.pool for each in registered):
        say(f"\nrun them here with:  dprelease serve {' '.join(str(spec) for spec in specs)}")
    else:
        say(f"\nrun them on any host with:  prefect worker start --pool {pool}")


def serve_command(
    places: Annotated[
        list[Path] | None, typer.Argument(metavar="[SPEC|FOLDER]...", help="Specs or folders; else this folder.")
    ] = None,
) -> None:
    """Register the specs, and run here what their schedules start, until Ctrl-C."""
    from dprelease.flows import api_in_use, exposed
    from dprelease.flows import serve as run

    def told(registered: tuple[Registered, ...]) -> None:
        say(f"Prefect API: {api_in_use()}")
        if warning := exposed():
            complain_of(warning)
        for each in registered:
            say("\n".join(_lines(each)))
        if pages := _pages(api_in_use()):
            say(pages)
        say("\nserving; Ctrl-C ends it, and a release that is under way is gone on with by the next run")

    run(places or [Path()], told=told, lost=complain_of)
    say("stopped; schedules stay in Prefect, and what is missed meanwhile is caught up")


def _pages(api: str) -> str:
    """What the server must have been told for its pages to work; empty: nothing."""
    from urllib.parse import urlsplit

    address = urlsplit(api)
    if (address.hostname, address.port) in (("127.0.0.1", 4200), ("localhost", 4200)) or not address.hostname:
        return ""
    at = f"{address.scheme}://{address.hostname}" + (f":{address.port}" if address.port else "") + address.path
    return (
        "\nits pages say that they cannot connect, unless the server was started with the address that a browser has "
        f"for it:\n  PREFECT_SERVER_UI_API_URL={at} prefect server start"
    )


def _lines(each: Registered) -> list[str]:
    changed = f" ({', '.join(each.changes)})" if each.changes else ""
    lines = [
        f"{each.state} {each.deployment}{changed}",
        f"  starts   {each.schedule}" + ("; paused in Prefect" if each.paused else ""),
        f"  spec     {each.version[:12]}",
    ]
    if each.pool:
        lines.append(f"  pool     {each.pool}")
    return [*lines, f"  page     {each.page}", *(_kept(each.kept) if each.kept else [])]


def _kept(served: Kept) -> list[str]:
    """What an earlier spec still holds for."""
    lines = [
        f"  {state:8} {_range(periods)}: {'keeps' if len(periods) == 1 else 'keep'} the plan of an earlier spec"
        for state, periods in (("released", served.published), ("open", served.open))
        if periods
    ]
    return [*lines, f"  from     {served.holds_from or 'the next one'} on the spec holds as it is now"]


def _range(periods: tuple[str, ...]) -> str:
    if len(periods) == 1:
        return periods[0]
    return f"{periods[0]} to {periods[-1]} ({len(periods)})"
