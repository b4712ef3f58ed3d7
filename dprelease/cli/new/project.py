"""From a conversation to the files of a project: checked before anything is written, planned after."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import typer

from dprelease.cli.new.conversation import Talk
from dprelease.cli.new.questions import Interview
from dprelease.cli.new.rows import Place
from dprelease.cli.options import require_settings
from dprelease.cli.views import say
from dprelease.errors import Problem, SpecError, Where
from dprelease.ledger import schemes
from dprelease.regular import replace_file
from dprelease.release.project import SETTINGS, Project
from dprelease.spec.load import load
from dprelease.spec.project import load_policy, load_project
from dprelease.starter.code_lists import code_list
from dprelease.starter.first_spec import FirstSpec, policy_yaml, spec_yaml

__all__ = ["begin"]


def begin(
    place: Place,
    given: Mapping[str, str],
    *,
    out: Path | None,
    folder: Path | None,
    terminal: bool,
    proposed: bool,
    replaced: bool,
) -> None:
    """Ask, write, validate, plan, and say what to type next.

    Args:
        place: Where the rows are.
        given: Answers of the command line, by option.
        out: The spec to write.
        folder: The project's folder.
        terminal: Whether somebody can be asked.
        proposed: Whether proposals are taken without asking.
        replaced: Whether a spec that is there may be written over.

    Raises:
        SpecError: Nothing was written, or what was written cannot be planned; the message says which.
    """
    project = _project_of(folder or Path())
    if project is not None and folder is not None:
        require_settings(folder)
    at = (folder or Path()).resolve() if project is None else project.folder
    accounts = None if project is None else {each: of.unit for each, of in project.policy.accounts.items()}
    questions = Interview(given, terminal=terminal, proposed=proposed)
    spec, account = Talk(questions, place.rows(at), accounts).held()
    spec_file = at / f"{spec.name}.yaml" if out is None else out
    written = {spec_file: spec_yaml(spec).encode()}
    if account is not None:
        policy = policy_yaml(account.name, spec.entity, account.epsilon, account.delta, account.selecting)
        settings = (files("dprelease.starter") / "project" / SETTINGS).read_bytes()
        load_policy(policy, str(at / "policy.yaml"))
        load_project(settings, str(at / SETTINGS), schemes())
        written |= {at / "policy.yaml": policy.encode(), at / SETTINGS: settings}
    load(written[spec_file].decode(), str(spec_file))
    written |= {at / "reference" / f"{name}.csv": code_list(name).content for name in spec.code_lists}
    _write(written, spec_file, may_ask=questions.on_terminal, replaced=replaced)
    _show(spec, spec_file, place, questions, (out, folder))


def _project_of(folder: Path) -> Project | None:
    """The project that a folder is in, if it is in one; what is wrong in it is told."""
    begin_at = folder.resolve()
    known = any((each / SETTINGS).is_file() for each in (begin_at, *begin_at.parents))
    return Project.find(folder) if known else None


def _write(written: Mapping[Path, bytes], spec_file: Path, *, may_ask: bool, replaced: bool) -> None:
    """All files, and none where one that is there would be lost."""
    there = [
        path
        for path, content in written.items()
        if path.exists() and not (path.is_file() and path.read_bytes() == content)
    ]
    lost = [path for path in there if path != spec_file or not replaced]
    for path in lost:
        if path != spec_file or not may_ask or not typer.confirm(f"\n{path} is there already: write over it?"):
            hint = "name another spec by `--out`, or add `--replace`" if path == spec_file else "move it away first"
            raise SpecError([Problem("DPR-S910", "is there already, and nothing was written", hint, Where(str(path)))])
    try:
        for path, content in written.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, content)
    except OSError as error:
        says = f"cannot be written: {error.strerror}"
        raise SpecError([Problem("DPR-S910", says, "write where you may", Where(str(spec_file)))]) from None
    say()
    for path in written:
        say(f"wrote {path}")


def _show(
    spec: FirstSpec,
    spec_file: Path,
    place: Place,
    questions: Interview,
    other: tuple[Path | None, Path | None],
) -> None:
    from dprelease.cli.commands.validate import validate_command
    from dprelease.cli.views.plan import show_plan

    out, project = other
    words = [*place.words, *(("--out", str(out)) if out else ()), *(("--project", str(project)) if project else ())]
    shown = spec_file.relative_to(Path.cwd()) if spec_file.is_relative_to(Path.cwd()) else spec_file
    try:
        say()
        validate_command(spec_file)
        say()
        show_plan(spec_file, None, compare=False, solve=None, epsilons=(), as_json=False)
        say("\nNext, where you are:")
        for line in (
            f"  dprelease look {shown} --i-can-see-the-data     counts of what would be left out, on a terminal",
            f"  dprelease run {shown}                           charges the account, and publishes",
            f"  dprelease verify {spec.name}/{spec.period}      checks what was published",
        ):
            say(line)
    finally:
        say(f"\n{questions.asked} question(s) asked. Without any, the same is:")
        say(questions.repeated(*words))
