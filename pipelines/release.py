"""Flows of an office: dprelease's own one, and who is told when it fails. One line for each product that wants its own.

A deployment names one as its entry point, ``pipelines.release.monthly_visits``, where this folder can be imported. A
product that wants nothing of its own needs no line: ``dprelease schedule`` takes ``dprelease.flows.flow.dprelease``.
"""

from __future__ import annotations

from dprelease.flows.flow import dprelease
from pipelines.notify import tell

__all__ = ["monthly_visits"]

monthly_visits = dprelease.with_options(on_failure=[tell], on_crashed=[tell])
