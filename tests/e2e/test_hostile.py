"""One hostile row in the data: the same exit code, the same words and the same shape of every file as without it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from tests.e2e.seen import NUMBER, WORD, Seen, canaries, seen, shape
from tests.project import PLACES, SETTINGS, command

POLICY = """accounts:
  people: {unit: person, neighboring: add_remove, composition: zcdp, lifetime: {epsilon: 4, delta: 1e-8}}
ceilings: {epsilon: 2, delta: 1e-8}
"""
SPEC = """dprelease: 1
release: {name: visits, period: 2024, title: Visits}
privacy:
  unit: {entity: person}
  budget: {epsilon: 2, delta: 1e-9}
  accounting: zcdp
  noise: gaussian
references:
  places: {file: places.csv, columns: {district: text, region: text}}
tables:
  visits:
    account: people
    source: {file: "visits.FORMAT", null_values: ["", N]}
    unit_id: user
    null_id: NULL_ID
    bounds: {max_rows: 5, truncate: first, order_by: [day]}
    join: [{reference: places, on: district, add: [region]}]
    columns:
      user: {type: text}
      district: {type: text, keys: {reference: places}}
      region: {type: text, keys: {reference: places}}
      sex: {type: integer, keys: [1, 2], null: 2}
      day: {type: date, keys: {from: 2024-02-28, to: 2024-03-01}}
      seen: {type: timestamp}
      amount: {type: decimal, range: [0, 1000], step: 0.01}
      seconds: {type: integer, range: [-60, 3600], outside: null}
      topic: {type: text}
      band: {bin: amount, edges: [0, 10, 100, 1000]}
      kind: {map: topic, to: {a: one, b: two}, otherwise: other, type: text}
      year: {sql: "YEAR(seen)", type: integer, keys: [2023, 2024]}
      pace: {sql: "CASE WHEN LENGTH(topic) < 9 THEN amount / seconds ELSE amount * seconds END", type: decimal,
             range: [-10, 10], step: 0.1}
queries:
  counts:
    table: visits
    by: [region, sex]
    bounds: {max_groups: 2, max_rows_per_group: 3}
    measures:
      visits: {count: rows}
      people: {count: units}
      known: {count: seconds}
      topics: {count_distinct: topic}
      long: {count: rows, where: "seconds > 60 OR LEFT(topic, 1) = 'b'"}
      part: {ratio: [long, visits]}
  amounts:
    table: visits
    by: [band, kind]
    where: "NOT (amount IS NULL) AND COALESCE(CAST(topic AS INTEGER), 0) < 7"
    bounds: {max_groups: 2, max_rows_per_group: 2}
    measures:
      total: {sum: amount, clip: [0, 100], clip_per: unit_cell}
      average: {mean: seconds, clip: [0, 600], clip_per: row}
      spread: {stddev: amount, clip: [0, 100], clip_per: row}
      middle: {quantiles: amount, at: [0.25, 0.5], clip: [0, 100]}
      paced: {sum: pace, clip_per: row}
  days:
    table: visits
    by: [day, year]
    bounds: {max_groups: 2, max_rows_per_group: 2}
    measures: {visits: {count: rows}, least: {min: seconds, clip: [0, 100]}}
  largest: {table: visits, top_k: district, k: 2, of: rows, bounds: {max_groups: 1, max_rows_per_group: 2}}
publish: {formats: [csv, parquet, html]}
"""
NAMES = ("user", "district", "sex", "day", "seen", "amount", "seconds", "topic")
CLEAN = (f"{WORD}1", "06-01", "1", "2024-02-29", "2024-02-29T10:00:00", "12.5", "90", "a")


def row(**changed: str) -> str:
    """A row of a unit of its own, with some values replaced."""
    values = {**dict(zip(NAMES, CLEAN, strict=True)), **changed}
    quoted = ['"' + value.replace('"', '""') + '"' for value in values.values()]
    return ",".join(quoted) + "\n"


def number(text: str) -> str:
    return row(amount=text, seconds=text, sex=text, topic=text)


def rows(*lines: str) -> bytes:
    return "".join(lines).encode()


FORMULA = f"=cmd|' /C calc'!{WORD}"
HOSTILE: dict[str, bytes] = {
    "nulls": rows(",,,,,,,\n", row(amount="", seconds="N", sex="", day="", seen="", topic="")),
    "no id": rows(row(user="", topic=WORD), row(user="N"), row(user=" ")),
    "NaN": rows(*(number(text) for text in ("NaN", "nan", "-NaN", "NAN(7)"))),
    "infinities": rows(*(number(text) for text in ("inf", "-inf", "Infinity", "1e309", "-1e309", "1e" + "9" * 400))),
    "minus zero": rows(*(number(text) for text in ("-0.0", "-0", "0e-400", "5e-324"))),
    "large numbers": rows(
        *(
            number(text)
            for text in ("1e308", "-1e308", f"{NUMBER}", f"-{NUMBER}.5", f"{2**63}", f"-{2**63}", "9" * 5000)
        )
    ),
    "wrong types": rows(
        number(WORD), number("0x10"), number("1_0"), number("true"), row(sex="1.5", day="7", seen=WORD)
    ),
    "impossible dates": rows(
        *(row(day=day, seen=day) for day in ("2023-02-29", "0000-00-00", "2024-13-01", "10000-01-01", "now", "-1-1-1")),
        row(seen="2024-02-29T25:61:61"),
    ),
    "long text": rows(row(topic=WORD * 40_000), row(user=WORD * 40_000), row(district=WORD * 40_000)),
    "invalid UTF-8": b"".join(
        b"%s,06-01,1,2024-02-29,2024-02-29T10:00:00,12.5,90,%s\n" % (bad, bad)
        for bad in (b"\xff\xfe", b"\xc3\x28", b"\xe2\x82", b"\xed\xa0\x80", b"\x00", WORD.encode() + b"\x80")
    ),
    "quotes and newlines": rows(
        row(topic='"'), row(topic=f'"{WORD}""'), row(topic="a\nb"), row(user="a\r\nb", topic="\r")
    ),
    "a field too many or too few": rows("h\n", f"{WORD},06-01\n", ",".join((*CLEAN, WORD, WORD)) + "\n", "\n", ",\n"),
    "formulas": rows(row(topic=FORMULA), row(user=FORMULA), row(district=FORMULA, topic="@SUM(1)"), row(topic="+1")),
    "SQL": rows(row(topic="'; DROP TABLE t; --", user="' OR 1=1 --"), row(topic="$1", user="{0}"), row(topic="%s\\")),
    "odd ids": rows(
        *(
            row(user=name)
            for name in (" u1", "u1 ", "U1", "01", "1.0", "true", "null", "\ufeffu1", "\u202eu1", "u\x001")
        )
    ),
    "a unit with 100,000 rows": rows(
        *(f"{WORD},06-0{1 + k % 2},{1 + k % 2},2024-02-29,,{k % 99},{NUMBER},{k % 9}\n" for k in range(100_000))
    ),
    # The last row only: an open quote takes whatever follows it.
    "an open quote": f'{WORD},06-01,"1,2024-02-29'.encode(),
}
GROUPS = (
    ("nulls", "no id", "odd ids", "SQL"),
    ("NaN", "infinities", "minus zero", "large numbers", "wrong types", "impossible dates"),
    ("long text", "invalid UTF-8", "quotes and newlines", "a field too many or too few", "formulas"),
    ("a unit with 100,000 rows", "an open quote"),
)
assert sorted(kind for group in GROUPS for kind in group) == sorted(HOSTILE)


def clean_rows() -> bytes:
    draw = random.Random(5)
    lines = [",".join(NAMES) + "\n"]
    for at in range(1500):
        day = draw.choice(["2024-02-28", "2024-02-29", "2024-03-01"])
        place = draw.choice(["06-01", "06-02", "07-01"])
        values = (f"{draw.uniform(0, 300):.2f}", str(draw.randrange(900)), draw.choice("abc"))
        lines.append(",".join((f"u{at % 400}", place, draw.choice("12"), day, f"{day}T12:00:00", *values)) + "\n")
    return "".join(lines).encode()


def written(folder: Path, extra: bytes, null_id: str = "drop", form: str = "csv") -> Path:
    folder.mkdir(parents=True)
    spec = SPEC.replace("NULL_ID", null_id).replace("FORMAT", form)
    for name, text in {
        "dprelease.yaml": SETTINGS,
        "policy.yaml": POLICY,
        "places.csv": PLACES,
        "spec.yaml": spec,
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "visits.csv").write_bytes(clean_rows() + extra)
    return folder


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Seen]:
    """What is seen without hostile rows, by the handling of null ids and the format of the source."""
    known: dict[tuple[str, str], Seen] = {}

    def of(null_id: str, form: str) -> Seen:
        if (null_id, form) not in known:
            folder = written(tmp_path_factory.mktemp("clean") / "it", b"", null_id, form)
            if form == "parquet":
                as_parquet(folder)
            known[null_id, form] = seen(folder)
        return known[null_id, form]

    return of


def as_parquet(folder: Path, *extra: pa.Table) -> None:
    """The rows of ``visits.csv`` as Parquet, with the columns of ``extra`` in types of their own."""
    text = pa_csv.read_csv(folder / "visits.csv", convert_options=pa_csv.ConvertOptions(column_types=TYPES))
    pq.write_table(pa.concat_tables([text, *extra]), folder / "visits.parquet")
    (folder / "visits.csv").unlink()


TYPES = {
    "sex": pa.int64(),
    "day": pa.date32(),
    "seen": pa.timestamp("us"),
    "amount": pa.float64(),
    "seconds": pa.float64(),
}


def test_a_canary_would_be_found(tmp_path: Path) -> None:
    for at, planted in enumerate((WORD.encode(), NUMBER.to_bytes(8, "little"), pa.array([float(NUMBER)]).buffers()[1])):
        (tmp_path / f"{at}").write_bytes(b"x" * at + bytes(planted)[:9])
    assert sorted(canaries(tmp_path)) == ["0", "1", "2"]


@pytest.mark.slow
def test_the_clean_release_is_a_release(clean: Callable[[str, str], Seen]) -> None:
    known = clean("drop", "csv")
    assert known.code == 0
    assert "published visits/2024" in known.out
    assert known.err == ""
    assert "releases/visits/2024/tables/amounts.csv" in known.shape


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("few", [*GROUPS, *(pytest.param((kind,), marks=pytest.mark.nightly) for kind in HOSTILE)])
def test_a_hostile_row_is_not_seen(few: tuple[str, ...], clean: Callable[[str, str], Seen], tmp_path: Path) -> None:
    """A few kinds together; every kind by itself at night."""
    null_id = "unit" if few[0] in ("nulls", "no id", "SQL") else "drop"
    folder = written(tmp_path / "it", b"".join(HOSTILE[kind] for kind in few), null_id)
    assert seen(folder) == clean(null_id, "csv")
    assert canaries(folder) == []


@pytest.mark.slow
def test_hostile_stored_values_are_not_seen(clean: Callable[[str, str], Seen], tmp_path: Path) -> None:
    """What text cannot say and Parquet can: NaN, infinities, minus zero, times far away, and text that is no number."""
    folder = written(tmp_path / "it", b"", "drop", "parquet")
    numbers = [float("nan"), float("inf"), float("-inf"), -0.0, 1e308, -1e308, 5e-324, float(NUMBER), None]
    count = len(numbers)
    bad = {
        "user": pa.array([f"{WORD}{at}" for at in range(count)]),
        "district": pa.array([WORD] * 4 + ["06-01"] * (count - 5) + [None]),
        "sex": pa.array([None, 2**63 - 1, -(2**63), 0, 1, 2, 1, 2, 1], pa.int64()),
        "day": pa.array([-(2**31), 2**31 - 1, 0, None, *[19782] * (count - 4)], pa.int32()).cast(pa.date32()),
        "seen": pa.array([-(2**62), 2**63 - 1, 0, None, *[10**15] * (count - 4)], pa.timestamp("us")),
        "amount": pa.array(numbers),
        "seconds": pa.array(numbers[::-1]),
        "topic": pa.array([WORD * 1000, None, "\x00", "\ufeff", FORMULA, '"', "\n", " ", "a"]),
    }
    as_parquet(folder, pa.table(bad))
    assert seen(folder) == clean("drop", "parquet")
    assert canaries(folder) == []


@pytest.mark.slow
def test_all_hostile_rows_together_are_not_seen_in_a_process_of_its_own(tmp_path: Path) -> None:
    """Another process, all of its output, everything at once; the last row's open quote comes last."""
    last = HOSTILE["an open quote"]
    everything = b"".join(value for name, value in HOSTILE.items() if value != last) + last
    said = []
    for name, extra in (("a", b""), ("b", everything)):
        folder = written(tmp_path / name, extra)
        said.append((command(folder, "run", "spec.yaml", "--direct").replace(str(folder), "FOLDER"), shape(folder)))
        assert canaries(folder) == []
    assert said[0] == said[1]
