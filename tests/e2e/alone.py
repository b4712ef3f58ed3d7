"""Runs a command where there is no network but the loopback, and tells what it tried to reach. Linux only.

A network namespace of its own has one interface, which is down: ``python -m tests.e2e.alone WORDS...`` puts it up and
becomes the command. ``strace`` writes down every address that the command and all that it starts ask the kernel for,
whether that could be reached or not.
"""

from __future__ import annotations

import fcntl
import ipaddress
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.project import environment
from tests.warm import Ended

__all__ = ["Asked", "alone", "asked_for", "why_not"]

_ROOT = Path(__file__).resolve().parents[2]
_CALLS = "connect,sendto,sendmsg,sendmmsg"
_ALONE = ("unshare", "--map-root-user", "--net", sys.executable, "-P", "-m", "tests.e2e.alone")
_GET_FLAGS, _SET_FLAGS, _UP = (
    0x8913,
    0x8914,
    1,
)  # SIOCGIFFLAGS, SIOCSIFFLAGS and IFF_UP in <linux/sockios.h>, <net/if.h>
_ADDRESS = re.compile(r"\{sa_family=AF_(\w+)([^}]*)")
_NUMBERS = re.compile(r"""port=htons\((\d+)\).*?(?:inet_addr\(|inet_pton\(AF_INET6, )"([^"]+)\"""")
_NAMES = (53, 853, 5353)  # DNS, DNS over TLS, multicast DNS
_RESOLVERS = ("resolve", "avahi")  # in the path of a local socket


class Asked(NamedTuple):
    """An address that the kernel was asked for: ``INET``, ``INET6``, ``UNIX`` or ``NETLINK`` (of the kernel itself)."""

    family: str
    address: str
    port: int = 0

    @property
    def outside(self) -> bool:
        """Whether it is not of this machine, or may be a question for the address of a name."""
        if self.family == "UNIX":
            return any(name in self.address for name in _RESOLVERS)
        if self.family in ("INET", "INET6"):
            return self.port in _NAMES or not ipaddress.ip_address(self.address).is_loopback
        return self.family not in ("NETLINK", "UNSPEC")


def asked_for(trace: str) -> set[Asked]:
    """Every address in what ``strace`` wrote."""
    return {_asked(family, rest) for family, rest in _ADDRESS.findall(trace)}


def _asked(family: str, rest: str) -> Asked:
    if (numbers := _NUMBERS.search(rest)) is not None:
        return Asked(family, numbers[2], int(numbers[1]))
    assert family not in ("INET", "INET6"), f"an address that this test cannot read: {rest}"
    return Asked(family, rest.partition("=")[2])


@cache
def why_not() -> str:
    """Why nothing can be run like this here; empty if it can."""
    if sys.platform != "linux":
        return "network namespaces are of Linux"
    for tool in ("unshare", "strace", "script"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    words = [*_ALONE, "strace", "-f", "--seccomp-bpf", "-o", "/dev/null", "true"]
    tried = subprocess.run(words, cwd=_ROOT, capture_output=True, text=True, check=False)
    return f"not permitted here: {tried.stderr.strip()[-200:]}" if tried.returncode else ""


def alone(
    folder: Path, *words: str, trace: Path, variables: Mapping[str, str] | None = None, hung: int = 300
) -> tuple[Ended, set[Asked]]:
    """Run a command without a network; how it ended, and what it asked for.

    Args:
        folder: It starts there.
        words: Of the command; the first one is a program.
        trace: File for what ``strace`` writes.
        variables: Further ones of its environment.
        hung: Seconds until it has failed.
    """
    traced = ["strace", "-f", "--seccomp-bpf", "-qq", "-s", "64", "-e", f"trace={_CALLS}", "-o", str(trace), *words]
    with subprocess.Popen(
        [*_ALONE, str(folder), *traced],
        cwd=_ROOT,
        env=environment(variables),
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            out, err = process.communicate(timeout=hung)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return Ended(process.returncode, out, err), asked_for(trace.read_text(encoding="utf-8"))


def _loopback_up() -> None:
    with socket.socket() as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        (flags,) = struct.unpack_from("16xh", fcntl.ioctl(any_socket, _GET_FLAGS, request))
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _UP))


def main() -> None:
    """Become the command, in its folder."""
    _loopback_up()
    if Path(sys.argv[1]).is_dir():
        os.chdir(sys.argv.pop(1))
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
