r"""What happens, while it happens: a line of JSON for every event of a release, and spans of OpenTelemetry.

Both are off until the operator asks: ``DPRELEASE_LOG=json`` (or ``dprelease --log json``) writes lines to standard
error; spans are made where ``OTEL_TRACES_EXPORTER`` or ``OTEL_EXPORTER_OTLP_ENDPOINT`` is set, OpenTelemetry's API is
installed, and somebody has configured its SDK (``opentelemetry-instrument dprelease run ...``).

Which events there are, and which fields a line may have, are two closed lists: names of the spec, ids of the plan,
codes of our errors, and counts of steps that the plan fixes. No text that a library wrote gets in, for it may quote a
row; nor a count of rows, a size or a number of a table. A line says when something was done, which can depend on how
many rows there are: these logs are the office's own.

>>> line_of("measured", "2024-05-01T00:00:00.000Z", release="visits", period="2024-04", step="visits: n")
'{"time":"2024-05-01T00:00:00.000Z","level":"info","event":"measured","release":"visits","period":"2024-04","step":"visits: n"}\n'
"""  # noqa: E501 - a line is a line

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Literal, get_args

__all__ = ["EVENTS", "FIELDS", "VARIABLE", "Event", "line_of", "tell", "traced"]

VARIABLE = "DPRELEASE_LOG"
_TRACES = ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

Event = Literal[
    "reserved",  # the budget of a release is charged
    "found",  # the release was begun, or finished, before
    "pinned",  # its sources are as they should be, and the loss is agreed upon
    "measured",  # a step has its answer, committed
    "published",  # the bundle is written, and the release closed
    "given_back",  # nothing was read: its budget is returned
    "given_up",  # it was ended by hand, and stays charged
    "failed",  # the command ends with this error
]
EVENTS: tuple[str, ...] = get_args(Event)
FIELDS = ("release", "period", "plan", "entry", "batch", "step", "steps", "reused", "code", "error")
_STANDARD_ERROR = 2


def tell(event: Event, **known: str | int) -> None:
    """Write one line, if lines are asked for.

    Args:
        event: What happened.
        known: Some of ``FIELDS``.

    Raises:
        ValueError: If an event or a field is not in the lists.
    """
    if os.environ.get(VARIABLE) != "json":
        return
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    # One write for a line: several threads and processes share the stream.
    os.write(_STANDARD_ERROR, line_of(event, now, **known).encode())


def line_of(event: Event, now: str, **known: str | int) -> str:
    """A line of the log, with the newline at its end; arguments and errors as of :func:`tell`."""
    if event not in EVENTS or not known.keys() <= set(FIELDS):
        raise ValueError(f"{event}: one of the events and fields of the log was expected")
    level = "error" if event == "failed" else "info"
    fields = {name: known[name] for name in FIELDS if name in known}
    return json.dumps({"time": now, "level": level, "event": event, **fields}, separators=(",", ":")) + "\n"


@contextmanager
def traced(name: str, **known: str | int) -> Iterator[None]:
    """A span of OpenTelemetry around a part of a release; nothing where none are asked for.

    What an error says is not recorded, as OpenTelemetry would by itself: only its class and, of an error of ours, its
    code.

    Args:
        name: Of the part: ``measure``.
        known: Some of ``FIELDS``, as attributes ``dprelease.<field>``.

    Raises:
        ValueError: If a field is not in the list.
    """
    if not known.keys() <= set(FIELDS):
        raise ValueError(f"{name}: fields of the log were expected")
    tracer = _tracer()
    if tracer is None:
        yield
        return
    from opentelemetry.trace import Status, StatusCode

    attributes = {f"dprelease.{field}": value for field, value in known.items()}
    with tracer.start_as_current_span(
        f"dprelease.{name}", attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as made:
        try:
            yield
        except BaseException as error:
            made.set_status(Status(StatusCode.ERROR, getattr(error, "code", "") or type(error).__name__))
            raise


def _tracer() -> Any:
    """OpenTelemetry's tracer for this package; None where no spans are asked for, or its API is not installed."""
    if not any(os.environ.get(name) for name in _TRACES):
        return None
    try:
        from opentelemetry.trace import get_tracer
    except ImportError:
        return None
    return get_tracer("dprelease")
