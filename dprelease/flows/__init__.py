"""Who runs it, when, and what if it fails? The flow, its tasks and retries, and a server where there is none.

Floor 8, and the only place that imports Prefect; importing this package does not (that takes a second, and most
commands never need it).

>>> api_in_use({"PREFECT_API_URL": "http://127.0.0.1:4200/api"})
'http://127.0.0.1:4200/api'
>>> api_in_use({})
''
"""

from __future__ import annotations

from dprelease.flows.deploy.schedules import schedule, serve
from dprelease.flows.executor import execute
from dprelease.flows.server.reach import exposed, prefect_server
from dprelease.flows.server.settings import api_in_use

__all__ = ["api_in_use", "execute", "exposed", "prefect_server", "schedule", "serve"]
