"""What is released, and which of its publications a plan is of."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from dprelease.canonical import Value

__all__ = ["ReleaseInfo"]


class ReleaseInfo(Value):
    """What is released: its identity in the ledger is (name, period).

    Attributes:
        name: Of the release.
        period: That it is about.
        title: What a reader sees.
        curator: The office that answers for it.
        contact: Where readers may ask.
        intended_use: What it is made for.
        revisions: How often the period is to be released again, with the rows that came late.
        revision: Which of these revisions this is; 0: the first publication.
        restatement: How many publications of the same question this one replaces; 0: it is the first one.
    """

    name: str
    period: str
    title: str = ""
    curator: str = ""
    contact: str = ""
    intended_use: str = ""
    revisions: int = Field(default=0, ge=0)
    revision: int = Field(default=0, ge=0)
    restatement: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _planned(self) -> Self:
        if self.revision > self.revisions:
            raise ValueError("a revision that was not planned")
        return self

    @model_serializer(mode="wrap")
    def _without_later_fields(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Plans that were made before there were these fields keep their fingerprints.
        written: dict[str, Any] = plain(self)
        for name in ("revisions", "revision", "restatement"):
            if not written[name]:
                del written[name]
        return written
