"""The command line: the table of its commands, and what becomes of an error."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from io import TextIOWrapper
from typing import Annotated, NoReturn

import typer

from dprelease.cli.commands.approve import approve_command
from dprelease.cli.commands.diff import diff_command
from dprelease.cli.commands.due import due_command
from dprelease.cli.commands.init import init_command
from dprelease.cli.commands.keys import keys_app
from dprelease.cli.commands.look import look_command
from dprelease.cli.commands.plan import PlanArguments, plan_command
from dprelease.cli.commands.publish import publish_command
from dprelease.cli.commands.run import run_command
from dprelease.cli.commands.schedule import schedule_command, serve_command
from dprelease.cli.commands.schema import schema_command
from dprelease.cli.commands.utility import utility_command
from dprelease.cli.commands.validate import validate_command
from dprelease.cli.commands.verify import verify_command
from dprelease.cli.ledger.show import ledger_app
from dprelease.cli.new.command import new_command
from dprelease.cli.operate.audit import audit_command
from dprelease.cli.operate.demo import demo_command
from dprelease.cli.operate.doctor import doctor_command
from dprelease.cli.operate.explain import explain_command
from dprelease.cli.operate.metrics import metrics_command
from dprelease.cli.operate.respond import respond_command
from dprelease.cli.options import INTERRUPTED, Stopped
from dprelease.cli.views import complain, say, say_aside
from dprelease.errors import DpReleaseError, out_of_memory
from dprelease.event_log import VARIABLE, tell
from dprelease.lean_imports import LeanImports

__all__ = ["app", "run_app"]

app = typer.Typer(
    name="dprelease",
    help="Plan, measure once and publish differentially private statistics from one YAML file.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
)
app.add_typer(ledger_app, name="ledger")
app.add_typer(keys_app, name="keys")
# In the order in which the help lists them.
_COMMANDS: dict[str, Callable[..., None]] = {
    "approve": approve_command,
    "due": due_command,
    "schedule": schedule_command,
    "serve": serve_command,
    "init": init_command,
    "new": new_command,
    "validate": validate_command,
    "look": look_command,
    "plan": plan_command,
    "run": run_command,
    "publish": publish_command,
    "verify": verify_command,
    "diff": diff_command,
    "utility": utility_command,
    "schema": schema_command,
    "explain": explain_command,
    "doctor": doctor_command,
    "metrics": metrics_command,
    "demo": demo_command,
    "audit": audit_command,
    "respond": respond_command,
}
for _name, _command in _COMMANDS.items():
    app.command(_name, cls=PlanArguments if _command is plan_command else None)(_command)


def run_app() -> None:
    """Run the command line; every error of ours becomes its message and its exit code, never a traceback."""
    sys.meta_path.insert(0, LeanImports())
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the locale cannot write is no fault
    try:
        app()
    except DpReleaseError as error:
        _end(error)
    except MemoryError:
        _end(out_of_memory())  # without a traceback, whose frames may hold rows
    except SystemExit as stop:
        if stop.code == INTERRUPTED:  # the command line has already turned Ctrl-C into this
            says = stop.says if isinstance(stop, Stopped) else "what was measured is kept, the same command resumes it"
            say_aside(f"\ninterrupted; {says}\n")
        raise


def _open_closed_streams() -> None:
    """Give a process that was started without an input or output empty ones, so that no file takes their numbers."""
    while (number := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(number)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _end(error: DpReleaseError) -> NoReturn:
    """The message of an error, its line in the log, and its exit code."""
    complain(error)
    tell("failed", code=error.code, error=type(error).__name__)
    sys.exit(error.exit_code)


def _show_version(wanted: bool) -> None:
    if wanted:
        from dprelease.version import __version__

        say(f"dprelease {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    log: Annotated[
        str, typer.Option(envvar=VARIABLE, metavar="json", help="Write every event of a release as a line of JSON.")
    ] = "",
) -> None:
    """Plan, measure once and publish differentially private statistics from one YAML file."""
    if log not in ("", "json"):
        raise typer.BadParameter("json is the only format", param_hint="--log")
    if log:
        os.environ[VARIABLE] = log  # for the processes that this one starts, too
