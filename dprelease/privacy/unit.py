"""Who is protected, and what it means for two data sets to differ in one of them."""

from __future__ import annotations

from enum import StrEnum

from dprelease.canonical import Value

__all__ = ["Neighboring", "PrivacyUnit"]


class Neighboring(StrEnum):
    """The relation between two data sets that the guarantee makes hard to tell apart.

    ``add_remove``: one has one unit more. ``replace_one``: same size, one unit's rows replaced by others.
    """

    ADD_REMOVE = "add_remove"
    REPLACE_ONE = "replace_one"


class PrivacyUnit(Value):
    """Who is protected, as printed: ``person``, or ``person`` per ``month``."""

    entity: str
    per: str | None = None

    def __str__(self) -> str:
        return f"{self.entity}-{self.per}" if self.per else self.entity
