"""The key of source fingerprints: made once, whole, for one user, and never beside what it protects."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dprelease.errors import LedgerError
from dprelease.release.data.sources import SourceKey


def test_a_key_is_made_on_first_use_for_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "source.key"
    before = os.umask(0)
    try:
        key = SourceKey.of(path)
    finally:
        os.umask(before)
    assert path.read_bytes() == key.secret
    assert (len(key.secret), stat.S_IMODE(path.stat().st_mode)) == (64, 0o600)
    assert {stat.S_IMODE(each.stat().st_mode) for each in (path.parent, path.parent.parent)} == {0o700}
    assert os.listdir(path.parent) == ["source.key"]
    assert SourceKey.of(path) == key
    assert SourceKey.of(tmp_path / "other" / "source.key").secret != key.secret


def test_two_processes_that_make_it_at_once_get_the_same(tmp_path: Path) -> None:
    for turn in range(20):
        with ThreadPoolExecutor(8) as pool:
            keys = list(pool.map(lambda _, at=turn: SourceKey.of(tmp_path / str(at) / "source.key").secret, range(8)))
        assert len(set(keys)) == 1
        assert os.listdir(tmp_path / str(turn)) == ["source.key"]


def test_a_key_that_is_made_halfway_is_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill before the name is given leaves no file of that name; the next run makes one."""
    path = tmp_path / "k" / "source.key"
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            SourceKey.of(path)
    assert not path.exists()
    assert len(SourceKey.of(path).secret) == 64


def test_a_key_is_durable_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    real_sync, real_link = os.fsync, os.link

    def sync(file: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(file).st_mode) else "file")
        real_sync(file)

    def link(*names: Path) -> None:
        done.append("link")
        real_link(*names)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "link", link)
    SourceKey.of(tmp_path / "k" / "source.key")
    assert done == ["folder", "file", "link", "folder"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o666])
def test_a_key_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "k" / "source.key"
    SourceKey.of(path)
    path.chmod(mode)
    refused(path, "others can reach it", f"chmod 600 {path}")


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777])
def test_a_key_that_others_can_replace_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "k" / "source.key"
    SourceKey.of(path)
    path.parent.chmod(mode)
    refused(path, "others can replace it", f"chmod 700 {path.parent}")


@pytest.mark.parametrize("size", [0, 31, 33, 63, 65, 1000])
def test_a_key_of_another_size_is_refused(tmp_path: Path, size: int) -> None:
    path = tmp_path / "k" / "source.key"
    SourceKey.of(path)
    path.write_bytes(bytes(size))
    refused(path, "a key has 64 bytes, or 32 if an earlier version made it", "put back")


def test_a_key_that_an_earlier_version_made_stays_the_key(tmp_path: Path) -> None:
    path = tmp_path / "k" / "source.key"
    SourceKey.of(path)
    path.write_bytes(bytes(range(32)))
    assert SourceKey.of(path).secret == bytes(range(32))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir(mode=0o700)
    os.mkfifo(tmp_path / "pipe", mode=0o600)
    tmp_path.chmod(0o700)
    refused(tmp_path / "folder", "it is no file")
    refused(tmp_path / "pipe", "it is no file")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    refused(tmp_path / "gone", "vanished")


def test_a_key_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "k" / "source.key"
    SourceKey.of(path)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    refused(path, "belongs to user", "")


def refused(path: Path, why: str, hint: str = "") -> None:
    with pytest.raises(LedgerError, match=why) as caught:
        SourceKey.of(path)
    assert caught.value.code == "DPR-L152"
    assert hint in caught.value.hint


def test_a_key_beside_the_ledger_or_the_releases_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "state")
    apart = (tmp_path / "state", tmp_path / "releases")
    for place in ("state/source.key", "state/deep/source.key", "releases/x/source.key", "link/source.key"):
        with pytest.raises(LedgerError) as caught:
            SourceKey.of(tmp_path / place, apart)
        assert caught.value.code == "DPR-L154"
        assert not (tmp_path / place).exists()
    assert SourceKey.of(tmp_path / "state-key" / "source.key", apart)


def test_a_rehearsal_s_key_is_kept_nowhere() -> None:
    one, two = SourceKey.thrown_away(), SourceKey.thrown_away()
    assert (len(one.secret), one.place) == (64, "")
    assert one.id != two.id
    assert len(one.id) == 16
