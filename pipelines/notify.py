"""A hook that tells somebody when a run of the flow has failed: what, how, and where to look. Nothing of the data.

``DPRELEASE_WEBHOOK`` names where a message ``{"text": ...}`` is posted to (chat programs take that); without it the
message goes to the error output of the run's process. An automation does the same without code: ``automations.yaml``.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import httpx
from prefect import Flow
from prefect.client.schemas.objects import FlowRun, State
from prefect.settings import PREFECT_UI_URL

__all__ = ["message", "tell"]


def message(run: FlowRun, state: State[Any]) -> str:
    """The name of the run and of its state, which are public, and its page, where more is said."""
    page = f"{PREFECT_UI_URL.value() or ''}/runs/flow-run/{run.id}"
    return f"{run.name} is {state.name}: {page}"


def tell(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Send the message; one that cannot be sent changes nothing for the run. Prefect calls it by these names."""
    text, place = message(flow_run, state), os.environ.get("DPRELEASE_WEBHOOK")
    if not place:
        sys.stderr.write(f"{text}\n")
        return
    try:
        httpx.post(place, json={"text": text}, timeout=10).raise_for_status()
    except httpx.HTTPError as error:
        sys.stderr.write(f"{text}\n(not sent: {type(error).__name__})\n")
