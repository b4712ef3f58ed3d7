"""The log of events has no field that is not listed, no value of the data and no text of a library; spans neither."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dprelease import event_log
from dprelease.errors import Unavailable
from dprelease.event_log import EVENTS, FIELDS, VARIABLE, line_of, tell, traced
from tests.project import CANARY, command, forked, small_project


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_a_run_writes_a_line_for_every_event_and_step_and_a_second_one_finds_it(tmp_path: Path) -> None:
    small_project(tmp_path, rows=30)
    first = forked(tmp_path, "--log", "json", "run", "spec.yaml", "--direct")
    told = lines(first.err)
    plan = json.loads(next((tmp_path / "releases").rglob("plan.json")).read_text())
    steps = [step["id"] for step in plan["steps"]]
    assert [each["event"] for each in told] == ["reserved", "pinned", *["measured"] * len(steps), "published"]
    assert sorted(each["step"] for each in told if each["event"] == "measured") == sorted(steps)
    assert {(each["release"], each["period"]) for each in told} == {("survey", "2024")}
    assert (told[-1]["steps"], told[-1]["reused"]) == (len(steps), 0)
    again = forked(tmp_path, "run", "spec.yaml", "--direct", variables={VARIABLE: "json"})
    assert [each["event"] for each in lines(again.err)] == ["found"]


def test_nothing_of_the_data_is_in_a_line(tmp_path: Path) -> None:
    small_project(tmp_path, rows=300)
    told = lines(forked(tmp_path, "--log", "json", "run", "spec.yaml", "--direct").err)
    known = {"time", "level", "event", *FIELDS}
    assert all(each.keys() <= known for each in told)
    texts = json.dumps([{name: each[name] for name in each if name != "time"} for each in told])
    for secret in (str(CANARY), "people-", "300", "06-01"):
        assert secret not in re.sub(r"[0-9a-f]{64}", "", texts)


def test_an_error_is_a_line_with_its_code_and_without_its_text(tmp_path: Path) -> None:
    small_project(tmp_path, rows=3)
    for path in tmp_path.glob("people-*.csv"):
        path.unlink()
    ended = forked(tmp_path, "--log", "json", "run", "spec.yaml", "--direct")
    (told,) = (each for each in lines(ended.err) if each["event"] == "failed")
    assert (told["level"], told["error"], told["code"][:5]) == ("error", "Unavailable", "DPR-E")
    assert told.keys() == {"time", "level", "event", "code", "error"}


def test_without_being_asked_nothing_is_written_and_another_format_is_refused(tmp_path: Path) -> None:
    small_project(tmp_path, rows=3)
    assert not lines(forked(tmp_path, "run", "spec.yaml", "--direct").err)
    assert "json is the only format" in command(tmp_path, "--log", "xml", "due", code=2)


@pytest.mark.parametrize(("event", "field"), [("drawn", "step"), ("measured", "value")])
def test_an_event_or_a_field_that_is_not_listed_is_refused(event: Any, field: str) -> None:
    with pytest.raises(ValueError, match="of the log"):
        line_of(event, "now", **{field: "x"})


def test_the_lists_are_what_is_used() -> None:
    """Every event is told somewhere, and what is told is listed: `tell` raises where it is not."""
    source = "".join(path.read_text() for path in Path(event_log.__file__).parent.rglob("*.py"))
    assert all(f'ell("{event}"' in source for event in EVENTS)


class _Span:
    def __init__(self, name: str, more: dict[str, Any]) -> None:
        self.name, self.more = name, more
        self.status: Any = None

    def set_status(self, status: Any) -> None:
        self.status = status


class _Tracer:
    def __init__(self) -> None:
        self.made: list[_Span] = []

    @contextmanager
    def start_as_current_span(self, name: str, **more: Any) -> Iterator[_Span]:
        self.made.append(_Span(name, more))
        yield self.made[-1]


def test_a_span_has_public_names_and_of_an_error_its_code_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenTelemetry by itself records an exception's text, as an event and as the status of the span."""
    trace = pytest.importorskip("opentelemetry.trace")
    tracer = _Tracer()
    monkeypatch.setattr(trace, "get_tracer", lambda name: tracer)
    with traced("measure", release="visits"):
        pass
    assert not tracer.made, "nobody has asked for spans"
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    with pytest.raises(Unavailable), traced("measure", release="visits", steps=3):
        raise Unavailable("could not convert 'Alice Secret' to float", code="DPR-E102")
    with pytest.raises(ValueError, match="Alice"), traced("publish"):
        raise ValueError("Alice Secret")
    first, second = tracer.made
    assert first.name == "dprelease.measure"
    assert first.more == {
        "attributes": {"dprelease.release": "visits", "dprelease.steps": 3},
        "record_exception": False,
        "set_status_on_exception": False,
    }
    assert [each.status.description for each in (first, second)] == ["DPR-E102", "ValueError"]
    with pytest.raises(ValueError, match="fields"), traced("measure", rows=3):
        pass


def test_a_line_goes_to_standard_error_in_one_write(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "json")
    tell("measured", step="a\nb")
    (line,) = capfd.readouterr().err.splitlines()
    assert json.loads(line)["step"] == "a\nb"
