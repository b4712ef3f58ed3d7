"""How is it published? A plan and its measurements in; a bundle of files out, the same bytes every time.

Floor 6. ``render`` is pure; ``write`` and ``check_bundle`` touch one folder. To add a format, write its file and put it
in ``dprelease.formats.FORMATS``.

>>> from pathlib import Path
>>> folder_for(Path("releases"), "survey", "2024").as_posix()
'releases/survey/2024'
"""

from __future__ import annotations

from dprelease.publish.base import NOTICE, AccountFacts, AccountPoint, CapChange, Facts, Looked, Publication, Restated
from dprelease.publish.bundle.checks.whole_bundle import SENTENCES, Check, check_bundle
from dprelease.publish.bundle.compare import Comparison, Released, compare_releases
from dprelease.publish.bundle.folder import folder_for, set_aside, write
from dprelease.publish.bundle.package import check_publishable, render
from dprelease.publish.measured import published_tables
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
    "published_tables",
    "rehearse",
    "render",
    "set_aside",
    "write",
]
