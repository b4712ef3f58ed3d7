"""How do I use it from a notebook? The commands as functions, and what they publish as DataFrames.

Floor 9, beside ``cli``: each function calls what its command calls, so that checks, refusals and charges are the same.
``import dprelease as dp`` gives these names. Every refusal is a ``DpReleaseError`` with ``code``, ``hint`` and the
``exit_code`` of the command.

>>> sorted(__all__)
['DpReleaseError', 'init', 'open', 'plan', 'read_measurements', 'run', 'spend', 'verify']
"""

from __future__ import annotations

from dprelease.api.measurements import read_measurements
from dprelease.api.plans import init, plan, spend
from dprelease.api.releases import open_release as open
from dprelease.api.releases import run, verify
from dprelease.errors import DpReleaseError

__all__ = ["DpReleaseError", "init", "open", "plan", "read_measurements", "run", "spend", "verify"]
