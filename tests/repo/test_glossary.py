"""Every word that only the project or its field knows has its one sentence in the glossary."""

from __future__ import annotations

import re

import pytest

from dprelease.privacy.accountants import ACCOUNTANTS

from .documents import ROOT, documents

PAGE = ROOT / "docs" / "glossary.md"
ENTRIES = re.findall(r"^- \*\*(?:\[(.+?)\]\(.+?\)|(.+?))\*\*: (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
SENTENCES = {linked or plain: sentence for linked, plain, sentence in ENTRIES}

TERMS = [
    "account",
    "accountant",
    "anchor",
    "approval",
    "budget",
    "bundle",
    "cap",
    "ceiling",
    "cell",
    "clip",
    "composition",
    "confidence",
    "curator",
    "delta",
    "derive",
    "draw",
    "entity",
    "entry",
    "epsilon",
    "expect",
    "fingerprint",
    "grid",
    "invariant",
    "keys",
    "ledger",
    "lifetime",
    "manifest",
    "margin",
    "marginal",
    "measure",
    "measurement",
    "mechanism",
    "neighboring",
    "noise",
    "period",
    "pin",
    "plan",
    "policy",
    "query",
    "reference",
    "rehearsal",
    "release",
    "restatement",
    "revision",
    "rho",
    "scale",
    "sensitivity",
    "share",
    "source",
    "spec",
    "stale",
    "step",
    "suppress",
    "target",
    "unit",
    "unreliable",
    "window",
    "workload",
]
PAIRS = ("differential privacy", "exponential mechanism", "frozen plan", "private keys", "standard error")


@pytest.mark.parametrize("term", [*TERMS, *PAIRS])
def test_a_term_is_explained(term: str) -> None:
    assert term in SENTENCES


def test_every_accountant_that_is_no_plain_word_is_explained() -> None:
    known = {name.lower() for name in SENTENCES}
    named = {name for name in ACCOUNTANTS if name not in ("basic", "advanced")}

    assert {"zcdp", "pld"} <= named
    assert named <= known


def test_each_entry_is_one_sentence_and_they_are_in_order() -> None:
    assert list(SENTENCES) == sorted(SENTENCES, key=str.lower)
    assert len(SENTENCES) == len(ENTRIES) == PAGE.read_text(encoding="utf-8").count("\n- ")
    for term, sentence in SENTENCES.items():
        assert re.fullmatch(r"[A-Z][^.]+(?:`[^`]+`[^.]*)*\.", sentence), term


def test_no_term_is_explained_that_no_document_uses() -> None:
    texts = " ".join(" ".join(path.read_text(encoding="utf-8").split()) for path in documents() if path != PAGE)

    unused = [term for term in SENTENCES if not re.search(rf"\b{re.escape(term)}", texts, re.IGNORECASE)]

    assert unused == []
