"""Whose an anchor is: one host's own file, or one that every host sees; and which hosts must still be asked."""

from __future__ import annotations

import socket
from collections.abc import Collection, Sequence

from dprelease.errors import LedgerError
from dprelease.ledger.model.entry import Placed

__all__ = ["Hosts"]


class Hosts:
    """How entries name the anchors of a ledger.

    Of a ledger in a file, and of a shared anchor, the name is the path. Of a host's own file, where several hosts use
    one server, it is the host's name and the path, for no other host can look for it.

    Args:
        several: Whether several hosts can use the ledger.
        name: The name of this host; empty: the one that the operating system has.
        shared: Paths of anchors that every host sees under the same path.
    """

    def __init__(self, several: bool, name: str = "", shared: Collection[str] = ()) -> None:
        self.several = several
        self.here = name or socket.gethostname()
        self.shared = frozenset(shared)

    def name(self, path: str) -> str:
        """The name of an anchor of this project."""
        return path if not self.several or path in self.shared else f"{self.here}:{path}"

    def path(self, name: str) -> str:
        """Where this host finds an anchor; empty: it is another host's own."""
        if not self.several or name.startswith("/"):
            return name
        host, _, path = name.partition(":")
        return path if host == self.here else ""

    def named(self, names: Sequence[str], paths: Sequence[str]) -> tuple[str, ...]:
        """The names that the ledger has from now on: those of other hosts, and what this project lists."""
        kept = [name for name in names if self.several and not self.path(name)]
        return (*kept, *map(self.name, paths))

    def others(self, names: Sequence[str]) -> tuple[str, ...]:
        """The other hosts that have anchors of their own."""
        return tuple(dict.fromkeys(name.partition(":")[0] for name in names if self.several and not self.path(name)))

    def proven(self, names: Sequence[str]) -> bool:
        """Whether an anchor that every host writes to has all that was ever handed on."""
        return any(name.startswith("/") for name in names)

    def moved(self, place: Placed, server: str) -> bool:
        """Whether the server was restored or failed over since this was said."""
        return bool(place.server and server and place.server != server)

    def require_shared(self, names: Sequence[str]) -> None:
        """Refuse to go on without a shared anchor that the ledger has: what is written here would be missing in it.

        Raises:
            LedgerError: Names it.
        """
        for name in names:
            if self.several and name.startswith("/") and name not in self.shared:
                raise LedgerError(
                    f"the ledger has the shared anchor {name}, and this project does not list it",
                    detail="what this host wrote would be missing in it, and another host could not tell",
                    hint="add it to `shared_anchors` in dprelease.yaml; if it is lost for good, "
                    "`dprelease ledger recover --why TEXT` goes on without it",
                    code="DPR-L325",
                )

    def require_asked(self, place: Placed, server: str) -> None:
        """Refuse a server whose data were put back or failed over until the anchors of every host were asked.

        What was lost may be known to one host alone. An anchor that every host writes to knows it as well, and was
        asked already.

        Raises:
            LedgerError: Names the hosts.
        """
        if self.proven(place.anchors):
            return
        moved = self.moved(place, server)
        missing = self.others(place.anchors) if moved else tuple(host for host in place.unasked if host != self.here)
        if missing:
            raise LedgerError(
                "the server of the ledger was restored or failed over, and may have lost what only these hosts know: "
                + ", ".join(missing),
                detail="their anchors must be asked before anything is read, charged or drawn",
                hint="type `dprelease ledger recover --why TEXT` on each of them and here; `--gone HOST` for one that "
                "is gone for good, with its anchors",
                code="DPR-L324",
            )

    def unasked(self, place: Placed | None, server: str, gone: Collection[str]) -> tuple[str, ...]:
        """The hosts that must still be asked once this one was, in a recovery.

        Args:
            place: What the ledger last said.
            server: What its server's data are called now.
            gone: Hosts that are gone for good.
        """
        if place is None or self.proven(place.anchors):
            return ()
        left = self.others(place.anchors) if self.moved(place, server) else place.unasked
        return tuple(host for host in left if host != self.here and host not in gone)

    def warnings(self, names: Sequence[str], *, every: bool) -> tuple[str, ...]:
        """What this host could not notice; one sentence each.

        Args:
            names: The names that the ledger has; none where nothing was ever written.
            every: Also what is no news to a host that has used the ledger before.
        """
        if not self.several or self.shared:
            return ()
        warnings = []
        if names and not any(self.path(name) for name in names):
            warnings.append(
                f"host {self.here} is new to this ledger, whose anchors are each of one host: it cannot know what was "
                "lost before it came; list a file that every host sees under `shared_anchors` in dprelease.yaml, or "
                "let `host` be a name that stays"
            )
        if every:
            warnings.append(
                "no anchor of this ledger is shared by its hosts: what only another host has seen, and its server has "
                "lost, is noticed here only if the server tells that it was restored; list a file that every host sees "
                "under `shared_anchors` in dprelease.yaml"
            )
        return tuple(warnings)
