"""What a release was made with, as recorded when its budget was reserved."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

__all__ = ["environment"]

_PACKAGES = (
    "dprelease",
    "opendp",
    "duckdb",
    "ibis-framework",
    "pyarrow",
    "numpy",
    "pandas",
    "prefect",
    "dp-accounting",
)


def environment() -> dict[str, str]:
    """Versions of what touches the numbers, the sampler and where its entropy comes from; no host, no path."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    found["sampler"] = "OpenDP integer primitives (Canonne, Kamath and Steinke 2020)"
    found["entropy"] = "operating system"
    return found
