"""Every YAML that a reader can copy loads, and every spec among them can be planned without any data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dprelease.errors import MissingExtra
from dprelease.plan.verify.whole_plan import verify
from dprelease.release.project import Project
from dprelease.spec.schema import json_schema

from .documents import ROOT, SPECS, STARTER, Block, blocks
from .planning import check_yaml, plan_text, yaml_kind

FILES = sorted([*SPECS.glob("*.yaml"), *STARTER.glob("*.yaml")])
RELEASES = [path for path in FILES if yaml_kind(path.read_text(encoding="utf-8")) == "spec"]


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.thin(every=2)
@pytest.mark.parametrize("path", FILES, ids=_name)
def test_every_yaml_file_loads_and_every_spec_is_planned(path: Path) -> None:
    check_yaml(path.read_text(encoding="utf-8"), _name(path))


@pytest.mark.thin(every=4)
@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_every_yaml_block_of_the_documents_loads_and_is_planned(block: Block) -> None:
    try:
        check_yaml(block.text, str(block))
    except MissingExtra as missing:  # it loads, but a format wants libraries of the system that are not here
        pytest.skip(str(missing))


@pytest.mark.thin(first=2)
@pytest.mark.parametrize("path", RELEASES, ids=_name)
def test_a_plan_is_a_function_and_verifies(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    first, second = plan_text(text, _name(path)), plan_text(text, "b.yaml")  # the first is planned once for the file

    assert first.canonical() == second.canonical()
    assert verify(first) == first.loss[first.certified]


@pytest.mark.slow
def test_every_account_of_the_examples_can_pay_for_all_of_them() -> None:
    """Somebody who runs every example in one project is never refused."""
    from dprelease.privacy.filters import account_loss

    plans = [plan_text(path.read_text(encoding="utf-8"), _name(path)) for path in RELEASES if path.parent == SPECS]
    for account in {account.name: account for plan in plans for account in plan.accounts}.values():
        events = [plan.event_of(account.name) for plan in plans]
        loss = account_loss(account.composition, events, account.lifetime.delta)

        assert account.lifetime.epsilon is not None
        assert loss.epsilon <= account.lifetime.epsilon, account.name


def test_the_examples_show_every_accounting() -> None:
    found = {plan_text(path.read_text(encoding="utf-8"), path.name).accounting for path in RELEASES}

    assert found >= {"auto", "basic", "advanced", "rdp", "pld"}


def test_codes_keep_their_leading_zeros() -> None:
    plan = plan_text((SPECS / "acs.yaml").read_text(encoding="utf-8"), "acs.yaml")
    table = plan.catalog.tables["persons"]

    assert "06-07502" in (table.column("PUMA").keys or ())
    assert "06" in (table.column("state").keys or ())


def test_a_new_project_is_a_project(tmp_path: Path) -> None:
    from dprelease.starter import create_project

    create_project(tmp_path / "new")
    project = Project.find(tmp_path / "new")

    plan = plan_text((tmp_path / "new" / "quickstart.yaml").read_text(encoding="utf-8"), "q.yaml", project.folder)

    assert [query.name for query in plan.queries] == ["population", "income"]


def test_the_committed_schema_is_the_one_that_the_command_prints() -> None:
    """Write it again with `dprelease schema > specs/schema.json`."""
    printed = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"

    assert (SPECS / "schema.json").read_text(encoding="utf-8") == printed
