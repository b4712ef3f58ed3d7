"""The commands. Each reads its arguments, calls one function of the floors below, and hands the result to a view."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.approve import approve
from dprelease.cli.due import due
from dprelease.cli.keys import keys_app
from dprelease.cli.ledger import ledger_app
from dprelease.cli.schedule import schedule, serve
from dprelease.errors import DpReleaseError, out_of_memory

__all__ = ["app", "run_app"]

app = typer.Typer(
    name="dprelease",
    help="Plan, measure once and publish differentially private statistics from one YAML file.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
)
app.add_typer(ledger_app, name="ledger")
app.add_typer(keys_app, name="keys")
app.command()(approve)
app.command()(due)
app.command()(schedule)
app.command()(serve)
_INTERRUPTED = 130

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Period = Annotated[
    str | None, typer.Option("--period", metavar="PERIOD", help="Takes the place of `release.period`: 2024-03.")
]


def run_app() -> None:
    """Run the command line; every error of ours becomes its message and its exit code, never a traceback."""
    try:
        app()
    except DpReleaseError as error:
        from dprelease.cli.views import complain

        complain(error)
        sys.exit(error.exit_code)
    except MemoryError:
        from dprelease.cli.views import complain

        exhausted = out_of_memory()  # without a traceback, whose frames may hold rows
        complain(exhausted)
        sys.exit(exhausted.exit_code)
    except SystemExit as stop:
        if stop.code == _INTERRUPTED:  # the command line has already turned Ctrl-C into this
            sys.stderr.write("\ninterrupted; what was measured is kept, the same command resumes it\n")
        raise


def _show_version(wanted: bool) -> None:
    if wanted:
        from dprelease import __version__

        typer.echo(f"dprelease {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Plan, measure once and publish differentially private statistics from one YAML file."""


@app.command()
def init(folder: Annotated[Path, typer.Argument(help="A new or empty folder.")]) -> None:
    """Write a project to start from: spec, policy, reference tables, made-up data, pipeline."""
    from dprelease.cli.views import say
    from dprelease.starter import create_project

    written = create_project(folder)
    for path in written:
        say(f"  {path}")
    say(f"\nNext:  cd {folder} && dprelease plan quickstart.yaml")


@app.command()
def validate(
    spec: Annotated[Path, typer.Argument(help="A spec file.")], period: Period = None, as_json: Json = False
) -> None:
    """Check a spec and its references; every problem at once, with line and column."""
    from dprelease.cli.views import say, say_json, warn
    from dprelease.release.planning import open_target

    target = open_target(spec, period)
    target.project.resolve(target.loaded)
    target.project.accounts(target.loaded)
    warn(target.loaded.warnings)
    read = target.loaded.spec
    if as_json:
        say_json({"valid": True, "release": read.release.name, "period": read.release.period})
        return
    say(
        f"{spec}: valid. {read.release.name}/{read.release.period}, "
        f"{len(read.tables)} table(s), {len(read.queries)} queries"
    )


def _epsilons(text: str) -> tuple[Fraction, ...]:
    """The budgets of ``--what-if epsilon=0.5,1,2``, exact."""
    name, _, values = text.partition("=")
    if not text:
        return ()
    try:
        found = tuple(Fraction(value.strip()) for value in values.split(","))
    except (ValueError, ZeroDivisionError):
        found = ()
    if name.strip() != "epsilon" or not found or min(found) <= 0:
        raise typer.BadParameter("write epsilons above 0, such as epsilon=0.5,1,2", param_hint="--what-if")
    return found


def _confidence(text: str) -> Fraction:
    try:
        found = Fraction(text)
    except (ValueError, ZeroDivisionError):
        found = Fraction(0)
    if not 0 < found < 1:
        raise typer.BadParameter("write a share between 0 and 1, such as 0.95", param_hint="--confidence")
    return found


@app.command()
def plan(
    spec: Annotated[Path, typer.Argument(help="A spec file.")],
    out: Annotated[Path | None, typer.Option(help="Freeze the plan in this file for review.")] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Every accountant side by side.")] = False,
    solve: Annotated[bool, typer.Option("--solve", help="The smallest epsilon that meets every target.")] = False,
    what_if: Annotated[
        str, typer.Option("--what-if", metavar="epsilon=E,E,...", help="Margins at other budgets: epsilon=0.5,1,2.")
    ] = "",
    horizon: Annotated[
        int | None,
        typer.Option("--horizon", metavar="N", min=1, max=1000, help="How N coming releases like it add up."),
    ] = None,
    period: Period = None,
    as_json: Json = False,
) -> None:
    """Show what each query will cost and how accurate it will be; reads no data."""
    from dprelease.cli.plan import show_plan

    show_plan(
        spec,
        out,
        compare=compare,
        solve=solve,
        epsilons=_epsilons(what_if),
        as_json=as_json,
        period=period,
        horizon=horizon or 0,
    )


@app.command()
def run(
    target: Annotated[Path, typer.Argument(help="A spec, or a plan frozen by `plan --out`.")],
    period: Period = None,
    direct: Annotated[bool, typer.Option("--direct", help="Without Prefect, in this process.")] = False,
    synthetic: Annotated[bool, typer.Option("--synthetic", help="Rehearse on made-up rows; spends nothing.")] = False,
    restate: Annotated[
        str, typer.Option("--restate", metavar="REASON", help="Replace what was released; charged again, and linked.")
    ] = "",
    accept_changed_data: Annotated[
        str, typer.Option("--accept-changed-data", metavar="REASON", help="Go on with other data; the report says so.")
    ] = "",
    as_planned: Annotated[
        bool, typer.Option("--as-planned", help="Finish what was begun by its own plan, though the spec has changed.")
    ] = False,
    revision: Annotated[
        int, typer.Option("--revision", min=0, metavar="K", help="A planned revision, paid with the first publication.")
    ] = 0,
    early: Annotated[
        str, typer.Option("--early", metavar="REASON", help="Release a period before its data are complete.")
    ] = "",
    sampler: Annotated[
        str,
        typer.Option("--sampler", metavar="NAME", help="What draws integer noise: native, or opendp (slow; an extra)."),
    ] = "native",
    all_due: Annotated[
        bool, typer.Option("--due", help="Every period that is due, the earliest first; what was begun is finished.")
    ] = False,
    give_up: Annotated[
        str, typer.Option("--give-up", metavar="REASON", help="End a release that was begun; its cost stays charged.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Plan, reserve the budget, measure every step once, publish. The same command resumes after any crash."""
    from dprelease.cli.run import give_up_release, run_all_due, run_release
    from dprelease.noise import SAMPLERS

    if revision and (restate or synthetic):
        other = "--restate" if restate else "--synthetic"
        raise typer.BadParameter(f"not together with {other}", param_hint="--revision")
    if as_planned and restate:
        raise typer.BadParameter("not together with --restate, which plans anew", param_hint="--as-planned")
    chosen = next((name for name in SAMPLERS if name == sampler), None)
    if chosen is None:
        raise typer.BadParameter(" or ".join(SAMPLERS), param_hint="--sampler")
    if all_due:
        if chosen != "native":
            raise typer.BadParameter("not together with --due", param_hint="--sampler")
        if period or synthetic or restate or accept_changed_data or as_planned or revision or early or give_up:
            raise typer.BadParameter("only together with --direct and --json", param_hint="--due")
        run_all_due(target, direct=direct, as_json=as_json)
        return
    if give_up:
        give_up_release(target, give_up, period, as_json=as_json)
        return
    run_release(
        target,
        period=period,
        direct=direct,
        synthetic=synthetic,
        restate=restate,
        accept_changed_data=accept_changed_data,
        as_planned=as_planned,
        revision=revision,
        early=early,
        sampler=chosen,
        as_json=as_json,
    )


@app.command()
def publish(
    release: Annotated[str, typer.Argument(help="NAME or NAME/PERIOD.")],
    look: Annotated[
        Path | None, typer.Option("--look", metavar="SPEC", help="Take titles, labels, formats and `derive` from it.")
    ] = None,
    project: Annotated[Path, typer.Option(help="A folder of the project.")] = Path(),
    as_json: Json = False,
) -> None:
    """Render a measured release again from the ledger: free, byte-identical, or with another look."""
    from dprelease.cli.views import complain_of, say, say_json
    from dprelease.release.project import Project
    from dprelease.release.publishing import publish_again

    name, _, period = release.partition("/")
    outcome = publish_again(Project.find(project), name, period or None, look)
    if as_json:
        say_json(outcome.model_dump(mode="json"))
        return
    say(f"rendered again from {outcome.reused} stored answers; nothing drawn, nothing spent\n{outcome.folder}")
    if outcome.warning:
        complain_of(outcome.warning)


@app.command()
def verify(
    bundle: Annotated[Path, typer.Argument(help="The folder of a published release.")],
    key: Annotated[
        str, typer.Option(metavar="FILE|ed25519:...", help="Whose signature it must have: a key file, or its text.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Check the files, signature and numbers of a bundle and derive its loss again; needs no data and no ledger."""
    from dprelease.cli.verify import verify_bundle

    verify_bundle(bundle, key=key, as_json=as_json)


@app.command()
def diff(
    first: Annotated[
        str, typer.Argument(help="A bundle's folder, NAME/PERIOD, a plan frozen by `plan --out`, or a spec.")
    ],
    second: Annotated[str, typer.Argument(help="A later one; a spec is planned as it is now.")],
    confidence: Annotated[
        str, typer.Option(help="That no number is named that did not change, for all of them together.")
    ] = "0.95",
    period: Period = None,
    as_json: Json = False,
) -> None:
    """What changed between two releases, or plans, beyond what their noise explains; needs no data and no ledger."""
    from dprelease.cli.diff import show_diff

    show_diff(first, second, _confidence(confidence), as_json=as_json, period=period)


@app.command()
def utility(
    spec: Annotated[Path, typer.Argument(help="A spec file that reads stand-in data: public or made up.")],
    allowed: Annotated[
        bool,
        typer.Option("--i-can-see-the-data", help="Needed, for the figures are confidential: no noise hides them."),
    ] = False,
    repeat: Annotated[int, typer.Option("--repeat", min=1, max=1000, help="How often the plan is measured.")] = 5,
    synthetic: Annotated[bool, typer.Option("--synthetic", help="On made-up rows; reads no source.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="A new file, outside of the releases; else printed.")
    ] = None,
    period: Period = None,
    as_json: Json = False,
) -> None:
    """Compare what a plan would publish with the truth, to tune a spec on stand-in data; confidential, no release."""
    from dprelease.cli.utility import show_utility

    show_utility(spec, out, allowed=allowed, repeat=repeat, synthetic=synthetic, period=period, as_json=as_json)


@app.command()
def schema() -> None:
    """Print the JSON Schema of a spec, for editors."""
    from dprelease.cli.views import say_json
    from dprelease.spec.schema import json_schema

    say_json(json_schema())
