"""Does the noise keep its promise? Attacks on a plan by the product's own path, on made-up neighbouring data sets.

Floor 8: uses releases as the command does. It reads no source, asks no ledger and charges nothing; its rows come from
``starter``, and no answer to them leaves but as a bound (docs/decisions/0088-audits.md).

>>> from dprelease.audit.bounds import epsilon_of_event
>>> round(epsilon_of_event(above=0.7, below=0.25, delta=0), 2)
1.03
"""

from __future__ import annotations

from dprelease.audit.audit import CANARIES, MISS, AuditReport, DrawAudit, audit_spec

__all__ = ["CANARIES", "MISS", "AuditReport", "DrawAudit", "audit_spec"]
