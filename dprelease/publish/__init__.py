"""How is it published? A plan and its measurements in; a bundle of files out, the same bytes every time.

Floor 6. ``render`` is pure; ``write`` and ``check_bundle`` touch one folder. To add a format, write its file and put it
in ``dprelease.formats.FORMATS``.

Each name is imported when it is first used: a plan asks for one of them, and a release for nearly all.

>>> from pathlib import Path
>>> from dprelease.publish import folder_for
>>> folder_for(Path("releases"), "survey", "2024").as_posix()
'releases/survey/2024'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dprelease.publish.base import (
        NOTICE,
        AccountFacts,
        AccountPoint,
        CapChange,
        Facts,
        Looked,
        Publication,
        Restated,
    )
    from dprelease.publish.bundle.checks.whole_bundle import SENTENCES, Check, check_bundle
    from dprelease.publish.bundle.compare import Comparison, Released, compare_releases
    from dprelease.publish.bundle.folder import folder_for, set_aside, write
    from dprelease.publish.bundle.package import render
    from dprelease.publish.measured import published_tables
    from dprelease.publish.packed import kept_beside
    from dprelease.publish.publishable import check_publishable
    from dprelease.publish.rehearsed import rehearse

__all__ = [
    "NOTICE",
    "SENTENCES",
    "AccountFacts",
    "AccountPoint",
    "CapChange",
    "Check",
    "Comparison",
    "Facts",
    "Looked",
    "Publication",
    "Released",
    "Restated",
    "check_bundle",
    "check_publishable",
    "compare_releases",
    "folder_for",
    "kept_beside",
    "published_tables",
    "rehearse",
    "render",
    "set_aside",
    "write",
]

_MODULES = {
    "base": (
        "NOTICE",
        "AccountFacts",
        "AccountPoint",
        "CapChange",
        "Facts",
        "Looked",
        "Publication",
        "Restated",
    ),
    "bundle.checks.whole_bundle": (
        "SENTENCES",
        "Check",
        "check_bundle",
    ),
    "bundle.compare": (
        "Comparison",
        "Released",
        "compare_releases",
    ),
    "bundle.folder": (
        "folder_for",
        "set_aside",
        "write",
    ),
    "bundle.package": ("render",),
    "measured": ("published_tables",),
    "packed": ("kept_beside",),
    "publishable": ("check_publishable",),
    "rehearsed": ("rehearse",),
}

if not TYPE_CHECKING:  # a type checker knows the names from above, and no others

    def __getattr__(name: str) -> Any:
        for module, names in _MODULES.items():
            if name in names:
                return getattr(import_module(f"dprelease.publish.{module}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
