"""Several hosts on one ledger: what each of them knows, and what is asked before a server that lost something is used.

The server is a file that says that it is in no folder, and is called as the test wants; a real one is in the
conformance tests and in ``tests/e2e/test_hosts.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import LedgerError
from dprelease.ledger.anchors.anchors import Anchor
from dprelease.ledger.ledger import Ledger
from dprelease.ledger.model.entry import Anchored
from dprelease.ledger.stores.sqlite import SQLiteStore
from tests.ledgers import SQLiteLedger, World, charges, fill, plan


class Server:
    """A store that several hosts use."""

    def __init__(self, path: Path, name: str) -> None:
        self._store = SQLiteStore(path)
        self.server = name
        self.folder = None
        self.place = f"server:{path.name}"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Cluster(World):
    """A server that can be put back as it was, and hosts with a home each."""

    name = "1/1"

    def host(self, name: str, *, shared: bool = False, anchors: int = 1) -> Ledger:
        store: Any = Server(self.path, self.name)
        own = [self.folder / name / f"head{number or ''}" for number in range(anchors)]
        ledger = Ledger(store, own, host=name, shared=[self.folder / "shared"] if shared else [])
        opened: Any = ledger
        self._open.append(opened)
        return ledger

    def fail_over(self) -> None:
        """The newest backup is all that is left, and the server says so."""
        self.restore()
        self.name = f"{self.name}+"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.stop()


FIRST, SECOND, THIRD = plan(), plan(period="2025", cost="3/10"), plan(period="2026", cost="2/10")


def refused(use: Callable[[], object], code: str) -> str:
    with pytest.raises(LedgerError) as caught:
        use()
    assert caught.value.code == code, caught.value
    return caught.value.summary


def spent(ledger: Ledger) -> Fraction:
    (charge,) = charges(plan(period="2099", cost="100"))
    _, (facts,) = ledger.quote([charge], "2099")
    return facts.before.epsilon


def test_a_host_that_only_looks_knows_what_another_one_wrote_and_by_name(cluster: Cluster) -> None:
    fill(cluster.host("a"), FIRST)
    fill(cluster.host("b"), plan(release="other", steps={"one": "visits"}))
    cluster.backup()
    fill(cluster.host("a"), SECOND)
    void = cluster.host("a").reserve(THIRD, charges(THIRD))
    cluster.host("a").void("survey", "2026", void.plan_fingerprint, "no file")

    cluster.host("b").reservations()

    cluster.restore()  # and the server does not say so: its disk was put back
    refused(lambda: cluster.host("b").find("survey", "2025"), "DPR-L310")
    said = cluster.host("b").recover("the disk was put back")
    assert "survey 2025 is lost: it is charged, and never measured again" in said
    assert not any("2026" in line for line in said)
    refused(lambda: cluster.host("b").reserve(SECOND, charges(SECOND)), "DPR-L113")
    assert spent(cluster.host("b")) == Fraction(4, 10)


def test_a_writer_knows_what_was_written_between_its_look_and_its_write(cluster: Cluster) -> None:
    fill(cluster.host("b"), FIRST)
    cluster.backup()
    fill(cluster.host("a"), SECOND)
    fill(cluster.host("b"), THIRD)  # had never looked since
    cluster.restore()
    said = cluster.host("b").recover("the disk was put back")
    assert [line for line in said if "is lost" in line] == [
        "survey 2025 is lost: it is charged, and never measured again",
        "survey 2026 is lost: it is charged, and never measured again",
    ]


def test_a_new_host_has_an_anchor_with_everything_once_it_has_looked(cluster: Cluster) -> None:
    fill(cluster.host("a"), FIRST)
    fill(cluster.host("a"), SECOND)
    assert "host b is new to this ledger" in cluster.host("b").warnings()[0]
    known = Anchor(cluster.folder / "b" / "head").all()
    assert known is not None
    assert {line.period for line in known.releases.values()} == {"2024", "2025"}
    assert known.balances["people"].spent.loss == Fraction(4, 10)
    assert cluster.host("a").warnings() == ()
    assert "no anchor of this ledger is shared" in cluster.host("a").warnings(every=True)[0]
    assert SQLiteLedger(cluster.folder / "file.db").warnings(every=True) == ()


def test_a_server_that_was_put_back_is_not_used_before_every_host_was_asked(cluster: Cluster) -> None:
    for name in "abc":
        fill(cluster.host(name), plan(release=name, steps={"one": "visits"}))
    cluster.backup()
    kept = cluster.host("a").reserve(SECOND, charges(SECOND))
    cluster.fail_over()

    refused(lambda: cluster.host("a").exists, "DPR-L310")
    assert "a, c" in refused(lambda: cluster.host("b").exists, "DPR-L324")
    assert cluster.host("b").check() != ()

    said = cluster.host("b").recover("failed over")
    assert "still to be asked, each by `ledger recover` there: a, c" in said
    refused(lambda: cluster.host("b").reserve(SECOND, charges(SECOND)), "DPR-L324")
    said = cluster.host("a").recover("failed over")
    assert any("survey 2025 is lost" in line for line in said)
    assert "c" in refused(lambda: cluster.host("a").exists, "DPR-L324")
    assert "was not asked since" in cluster.host("c").check()[0]
    assert cluster.host("c").recover("failed over")
    for name in "abc":
        ledger = cluster.host(name)
        assert ledger.check() == ()
        refused(partial(ledger.reserve, SECOND, charges(SECOND)), "DPR-L113")
    assert kept.plan_fingerprint == SECOND.fingerprint()


def test_a_host_that_is_gone_for_good_need_not_be_asked_and_what_was_open_ends(cluster: Cluster) -> None:
    for name in "ab":
        fill(cluster.host(name), plan(release=name, steps={"one": "visits"}))
    cluster.host("a").reserve(FIRST, charges(FIRST))
    cluster.backup()
    cluster.fail_over()
    refused(lambda: cluster.host("b").exists, "DPR-L324")
    said = cluster.host("b").recover("failed over", gone=["a"])
    assert "survey 2024 was ended: answers of it may be lost" in said
    assert cluster.host("b").check() == ()
    refused(lambda: cluster.host("b").reserve(FIRST, charges(FIRST)), "DPR-L113")


def test_one_host_alone_knows_all_and_asks_nobody(cluster: Cluster) -> None:
    fill(cluster.host("a"), FIRST)
    cluster.backup()
    cluster.fail_over()
    fill(cluster.host("a"), SECOND)
    bodies = [body for entry in cluster.host("a").entries() if isinstance(body := entry.facts(), Anchored)]
    assert [(body.server, body.why) for body in bodies] == [
        ("1/1", "a new ledger"),
        ("1/1+", "the server was restored or failed over, and nothing is missing"),
    ]
    cluster.backup()
    fill(cluster.host("a"), THIRD)
    cluster.fail_over()
    refused(lambda: cluster.host("a").exists, "DPR-L310")


def test_a_shared_anchor_knows_what_no_other_host_has_seen(cluster: Cluster) -> None:
    for name in "ab":
        fill(cluster.host(name, shared=True), plan(release=name, steps={"one": "visits"}))
    cluster.backup()
    cluster.fail_over()
    fill(cluster.host("b", shared=True), FIRST)  # nothing was missing
    cluster.backup()
    fill(cluster.host("a", shared=True), SECOND)
    cluster.restore()
    for name in "abc":
        refused(partial(cluster.host(name, shared=True).find, "survey", "2025"), "DPR-L310")
    said = cluster.host("b", shared=True).recover("the disk was put back")
    assert "survey 2025 is lost: it is charged, and never measured again" in said
    refused(lambda: cluster.host("b", shared=True).reserve(SECOND, charges(SECOND)), "DPR-L113")
    assert cluster.host("b", shared=True).warnings(every=True) == ()


def test_a_shared_anchor_is_not_left_out_by_one_host(cluster: Cluster) -> None:
    fill(cluster.host("a", shared=True), FIRST)
    assert "shared" in refused(lambda: cluster.host("b").exists, "DPR-L325")
    (cluster.folder / "shared").unlink()
    refused(lambda: cluster.host("b", shared=True).exists, "DPR-L312")
    assert cluster.host("b").recover("its disk is lost for good")
    fill(cluster.host("b"), SECOND)
    assert cluster.host("b").check() == ()


def test_an_anchor_that_is_left_out_knows_the_entry_that_says_so(tmp_path: Path) -> None:
    world = World(tmp_path)
    two = world.folder / "two"
    fill(world.ledger(), FIRST)
    world.backup()
    fill(world.ledger(two), SECOND)
    world.restore()
    with pytest.raises(LedgerError, match="DPR-L310"):
        world.ledger(world.folder / "three").find("survey", "2025")
    two.unlink()
    with pytest.raises(LedgerError, match="DPR-L310"):
        world.ledger(world.folder / "three").find("survey", "2025")
    world.ledger(world.folder / "three").recover("restored")
    assert world.ledger(world.folder / "three").check() == ()
    world.stop()


def test_an_anchor_that_was_left_out_long_ago_still_knows_of_another_course(tmp_path: Path) -> None:
    """A ledger that was rolled back and used with an edited list, before such a list was refused."""
    world = World(tmp_path)
    fill(world.ledger(), FIRST)
    world.backup()
    fill(world.ledger(), SECOND)
    newer = world.head.read_bytes()
    world.restore()
    world.head.write_bytes(b"".join(newer.splitlines(keepends=True)[:5]))
    fill(world.ledger(bare=True), SECOND)
    world.head.write_bytes(newer)
    assert "was rolled back" in world.ledger(bare=True).check()[0]
    with pytest.raises(LedgerError, match="DPR-L31"):
        fill(world.ledger(world.folder / "three"), THIRD)
    world.stop()
