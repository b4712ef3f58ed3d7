"""An entry is a value whose hash covers all of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dprelease.canonical import sha256
from dprelease.errors import Corrupt
from dprelease.ledger.model.entry import BODIES, KINDS, Closed, LedgerEntry
from dprelease.plan.document import Head

BODY = Closed(release="survey", period="2024", plan="p", reservation=1, manifest="m", at="2024-01-01T00:00:00Z")


def test_the_hash_is_sha256_over_the_canonical_json_of_the_four_other_parts() -> None:
    entry = LedgerEntry.after(Head(sequence=1, hash="ab"), BODY)
    quoted = entry.text.replace('"', '\\"')
    assert entry.hash == sha256(f'[2,"ab","close","{quoted}"]'.encode())
    assert entry.text == BODY.canonical()


def test_an_entry_follows_the_one_before_it_and_no_other() -> None:
    first = LedgerEntry.after(Head(), BODY)
    second = LedgerEntry.after(first.head, BODY)
    assert (first.sequence, first.previous, second.sequence) == (1, "", 2)
    assert first.follows(Head())
    assert second.follows(first.head)
    assert not second.follows(Head())
    assert not LedgerEntry.after(Head(sequence=1, hash="other"), BODY).follows(first.head)


@pytest.mark.parametrize(
    "change", [{"sequence": 7}, {"previous": "x"}, {"kind": "void"}, {"text": "{}"}, {"hash": "0" * 64}]
)
def test_a_change_of_any_part_is_seen(change: dict[str, object]) -> None:
    entry = LedgerEntry.after(Head(), BODY)
    assert entry.is_whole
    altered = replace(entry, **change)  # type: ignore[arg-type]  # a field and its value
    assert not altered.is_whole
    with pytest.raises(Corrupt, match="was altered"):
        altered.facts()


def test_a_change_of_any_byte_is_seen() -> None:
    entry = LedgerEntry.after(Head(), BODY)
    data = entry.text.encode()
    for at in range(len(data)):
        flipped = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        assert not replace(entry, text=flipped.decode()).is_whole


def test_a_body_that_cannot_be_read_is_named() -> None:
    entry = replace(LedgerEntry.after(Head(), BODY), text='{"release":1}')
    with pytest.raises(Corrupt, match=r"DPR-L303 .*entry 1 "):
        entry.unchecked_facts()


def test_every_kind_has_a_body_and_bodies_are_read_back() -> None:
    assert tuple(BODIES) == KINDS
    entry = LedgerEntry.after(Head(), BODY)
    assert entry.facts() == BODY
    assert entry.body["manifest"] == "m"
