r"""What a monitor should know, as a file of Prometheus' text format: periods, budgets, the ledger's last entry.

Every figure is public or the operator's own; none comes from the data. Amounts are decimals of exact rationals: for
alarms, not for accounts.

>>> print(_family("dprelease_x", "Something.", [_sample("dprelease_x", 1, release='a"b')]), end="")
# HELP dprelease_x Something.
# TYPE dprelease_x gauge
dprelease_x{release="a\"b"} 1
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any, get_args

from dprelease.release.records.status import UNBOUNDED
from dprelease.release.schedule.due import State

__all__ = ["metrics_text"]

_WAITING = ("due", "late")


def metrics_text(
    schedules: Sequence[Mapping[str, Any]],
    status: Mapping[str, Any],
    newest: Mapping[str, str],
    now: datetime,
    *,
    sound: bool | None,
) -> str:
    """The file.

    Args:
        schedules: Of each schedule, what ``due_facts`` says.
        status: What ``status_facts`` says of the ledger.
        newest: Of each release, when its newest published period was reserved, as ISO text.
        now: When this is written.
        sound: Whether a full check of the ledger found nothing; None: it was not made.
    """
    states = get_args(State)
    periods = [
        _sample("dprelease_periods", each["count"].get(state, 0), release=each["release"], state=state)
        for each in schedules
        for state in states
    ]
    ages = [
        _sample("dprelease_oldest_due_seconds", _oldest(each["periods"], now), release=each["release"])
        for each in schedules
    ]
    reserved = [
        _sample("dprelease_last_published_timestamp_seconds", _stamp(newest[name]), release=name)
        for name in sorted(newest)
    ]
    families = [
        _family("dprelease_periods", "Periods of a schedule, by what stands of them.", periods),
        _family("dprelease_oldest_due_seconds", "For how long the oldest unpublished period is due; 0: none.", ages),
        _family(
            "dprelease_last_published_timestamp_seconds", "When the newest published release was reserved.", reserved
        ),
        *(_amounts(what, status["accounts"]) for what in ("spent", "left", "cap")),
        _single("dprelease_open_releases", "Releases that were begun and are not published.", len(status["open"])),
        _single("dprelease_ledger_entries", "Entries of the ledger.", status["entries"]),
        *([] if sound is None else [_single("dprelease_ledger_sound", "1: a full check found nothing.", int(sound))]),
        _single("dprelease_written_timestamp_seconds", "When this file was written.", int(now.timestamp())),
    ]
    return "".join(families)


def _oldest(periods: Iterable[Mapping[str, Any]], now: datetime) -> int:
    since = [each["due"] for each in periods if each["state"] in _WAITING]
    return int(max(((now - datetime.fromisoformat(text)).total_seconds() for text in since), default=0))


def _stamp(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def _amounts(what: str, accounts: Iterable[Mapping[str, Any]]) -> str:
    """Of the lifetime cap of every account, and of each of its windows."""
    name, rows = f"dprelease_account_{what}", []
    for account in accounts:
        for each in (account, *account["windows"]):
            window = f"{each['per']} {each['window']}" if each is not account else ""
            value = "+Inf" if each[what] == UNBOUNDED else repr(float(Fraction(each[what])))
            rows.append(_sample(name, value, account=account["name"], window=window, currency=each["currency"]))
    return _family(name, f"Of an account: {what}, in the currency of its cap.", rows)


def _single(name: str, words: str, value: int) -> str:
    return _family(name, words, [_sample(name, value)])


def _sample(name: str, value: object, **labels: str) -> str:
    """A line of the text format (Prometheus, exposition formats, version 0.0.4)."""
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value}" if inside else f"{name} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _family(name: str, words: str, samples: Iterable[str]) -> str:
    return "\n".join([f"# HELP {name} {words}", f"# TYPE {name} gauge", *samples]) + "\n"
