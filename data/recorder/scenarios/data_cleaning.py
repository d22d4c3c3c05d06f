"""River gauge and weather post exports with mixed units, re-sent blocks and stuck sensors are cleaned with a ledger."""

from __future__ import annotations

import json
import math
import re
import zlib
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

TITLE = "Cleaning a quarter of river and weather readings"
PROJECT = "gauge-intake"

STEP = timedelta(minutes=30)
COUNT = 768  # sixteen days of half hours
BASE = "raw/2025-q3"

SYSTEM = """
You work inside the intake repository of a small hydrology office. Field loggers deliver CSV exports by modem or by
memory card; your part is to find out what is wrong with a delivery, write plain Python that repairs what can be repaired,
and leave a trail by which somebody can check every changed reading. Look at the data before you decide, say what you are
unsure of, and prefer a measured answer to a guess. You have a shell, file tools and a todo list. Keep messages short.
"""

AGENTS = """
Intake of logger exports, one folder per quarter.

- `raw/<quarter>/` holds what the loggers sent, with a `DELIVERY.txt` index (one line a file).
- `catalog/stations.json` lists stations, loggers and the plausible range of each column.
- `gauge/` is the package; `scripts/` holds small helpers; `docs/` what the technicians write down.
- Target units: stage in metres, temperature in degrees Celsius, pressure in hPa, rain in millimetres per interval.
- Times in cleaned files are UTC, written like 2025-07-03T14:30. The regular interval is half an hour.
- Flag A means verified by a technician, P means provisional.
- Cleaned files go to `clean/`, anything for readers to `reports/`.
- Run the tests with `make test` or `python -m pytest -q`; they must pass before a commit.
- Commit in small steps, subject in the imperative, no more than 60 characters.
- Python 3.11, type hints where they help, no notebooks.
"""

READER = '''
"""Reading logger exports into plain rows."""

import csv
from dataclasses import dataclass
from datetime import datetime


@dataclass
class Row:
    line: int
    time: datetime
    values: dict
    flag: str


def read_rows(path):
    """All rows of one export; the first line of the file names the columns."""
    rows = []
    with open(path, newline="") as handle:
        for line, record in enumerate(csv.DictReader(handle), 2):
            flag = record.pop("flag")
            time = datetime.fromisoformat(record.pop("timestamp"))
            values = {name: float(text) for name, text in record.items()}
            rows.append(Row(line, time, values, flag))
    return rows
'''

TEST_READER = """
from datetime import datetime

from gauge.reader import read_rows


def export(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "RG-000_stage.csv"
    path.write_text(text, encoding=encoding)
    return path


def test_plain_rows(tmp_path):
    rows = read_rows(export(tmp_path, "timestamp,stage,battery_v,flag\\n2025-07-03T00:30,0.871,12.84,P\\n"))
    assert rows[0].time == datetime(2025, 7, 3, 0, 30)
    assert rows[0].values == {"stage": 0.871, "battery_v": 12.84}


def test_line_numbers_count_the_header(tmp_path):
    text = "timestamp,stage,flag\\n2025-07-03T00:00,1.0,P\\n2025-07-03T00:30,1.1,A\\n"
    assert [(r.line, r.flag) for r in read_rows(export(tmp_path, text))] == [(2, "P"), (3, "A")]
"""

LIMITS = """
[checks]
# a single reading that jumps away and comes back by more than this is a spike
spike_step_m = 0.40
# identical readings in a row before a float counts as stuck
flat_samples = 12
sentinels = -9999, NA, ---

[units]
tip_mm = 0.2
"""

MAKEFILE = """
QUARTER ?= 2025-q3

test:
\t@python -m pytest -q

clean-data:
\t@python -m gauge.clean --quarter $(QUARTER)

.PHONY: test clean-data
"""

AWK = """
# one-off for the 2023 card dump: feet to metres for the two loggers of the upper reach, whole file
BEGIN { FS = OFS = "," }
NR == 1 { print; next }
{ $2 = sprintf("%.3f", $2 * 0.305); print }
"""

PROFILE = '''
"""Print what is in each raw export without trusting any of it."""

import csv
import sys
import zlib
from collections import Counter
from pathlib import Path


def number(text):
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return None


def profile(path):
    raw = path.read_bytes()
    text = raw.decode("utf-8-sig")
    head = text.splitlines()[0]
    delimiter = ";" if ";" in head else ","
    records = list(csv.DictReader(text.splitlines(), delimiter=delimiter))
    times = Counter(r["timestamp"] for r in records)
    print(path.name)
    print(f"  rows={len(records)} bytes={len(raw)} crc32={zlib.crc32(raw):08x} delimiter={delimiter!r} bom={raw[:1] == bytes([239])}")
    print(f"  first={records[0]['timestamp']} last={records[-1]['timestamp']} repeated_times={sum(n - 1 for n in times.values())}")
    for column in [c for c in records[0] if c not in ("timestamp", "flag")]:
        good = [v for v in (number(r[column]) for r in records) if v is not None]
        bad = Counter(r[column] for r in records if number(r[column]) is None)
        print(f"  {column}: min={min(good):.3f} max={max(good):.3f} mean={sum(good) / len(good):.4f} not_numbers={dict(sorted(bad.items()))}")


for name in sys.argv[1:]:
    profile(Path(name))
'''

UNITS = '''
"""Known departures from the target units, and the way back."""

import json
from datetime import datetime, timedelta

TO_TARGET = {
    "ft": lambda v: v * 0.3048,
    "degF": lambda v: (v - 32.0) * 5.0 / 9.0,
    "mmHg": lambda v: v * 1.333224,
}


def load(path="catalog/corrections.json"):
    with open(path, encoding="utf-8") as handle:
        return json.load(handle)


def convert(rows, code, corrections, tip_mm):
    """Change the rows in place; return how many cells were converted, by unit."""
    done = {}
    for period in corrections["units"]:
        if period["code"] != code:
            continue
        start, column, unit = datetime.fromisoformat(period["from"]), period["column"], period["unit"]
        for row in rows:
            if row.time >= start and row.values.get(column) is not None:
                value = row.values[column]
                row.values[column] = value * tip_mm if unit == "tips" else TO_TARGET[unit](value)
                done[unit] = done.get(unit, 0) + 1
    return done


def shift_clock(rows, code, corrections):
    """Move the rows of a station whose logger does not keep UTC."""
    minutes = sum(c["shift_minutes"] for c in corrections["clock"] if c["code"] == code)
    for row in rows:
        row.time += timedelta(minutes=minutes)
    return minutes
'''

TEST_UNITS = """
from datetime import datetime

import pytest

from gauge.reader import Row
from gauge.units import convert, shift_clock

FIXES = {
    "units": [
        {"code": "RG-000", "column": "stage", "from": "2025-07-09T10:00", "unit": "ft"},
        {"code": "WX-000", "column": "temp", "from": "2025-07-01T00:00", "unit": "degF"},
    ],
    "clock": [{"code": "WX-000", "shift_minutes": -120}],
}


def test_feet_only_from_the_given_time():
    rows = [Row(2, datetime(2025, 7, 9, 9, 30), {"stage": 1.0}, "P"), Row(3, datetime(2025, 7, 9, 10, 0), {"stage": 3.281}, "P")]
    assert convert(rows, "RG-000", FIXES, 0.2) == {"ft": 1}
    assert rows[0].values["stage"] == 1.0
    assert rows[1].values["stage"] == pytest.approx(1.0, abs=0.001)


def test_fahrenheit():
    rows = [Row(2, datetime(2025, 7, 9), {"temp": 68.0}, "P")]
    convert(rows, "WX-000", FIXES, 0.2)
    assert rows[0].values["temp"] == pytest.approx(20.0)


def test_clock_goes_back_two_hours():
    rows = [Row(2, datetime(2025, 7, 9, 1, 0), {"temp": 68.0}, "P")]
    assert shift_clock(rows, "WX-000", FIXES) == -120
    assert rows[0].time == datetime(2025, 7, 8, 23, 0)
"""

DEDUPE = '''
"""One row per time: re-sent blocks and corrected readings."""


def merge(rows, ledger):
    """Keep the better row of each time, note the other one in the ledger."""
    best = {}
    for row in rows:
        held = best.get(row.time)
        if held is None:
            best[row.time] = row
            continue
        keep = max(held, row, key=lambda r: r.flag)
        drop = row if keep is held else held
        reason = "duplicate" if keep.values == drop.values else "conflict"
        ledger.note(drop, reason, old=drop.values, new=keep.values)
        best[row.time] = keep
    return [best[time] for time in sorted(best)]
'''

TEST_DEDUPE = """
from datetime import datetime

from gauge.dedupe import merge
from gauge.ledger import Ledger
from gauge.reader import Row

TIME = datetime(2025, 7, 8, 4, 30)


def pair(first, second):
    return [Row(10, TIME, {"stage": first[0]}, first[1]), Row(800, TIME, {"stage": second[0]}, second[1])]


def test_same_reading_twice_is_a_duplicate():
    ledger = Ledger("RG-000")
    assert len(merge(pair((0.91, "P"), (0.91, "P")), ledger)) == 1
    assert [e["reason"] for e in ledger.entries] == ["duplicate"]


def test_verified_row_survives_a_later_provisional_one():
    ledger = Ledger("RG-000")
    kept = merge(pair((0.79, "A"), (0.91, "P")), ledger)
    assert (kept[0].values["stage"], kept[0].flag) == (0.79, "A")
    assert ledger.entries[0]["line"] == 800


def test_verified_row_also_replaces_an_earlier_provisional_one():
    kept = merge(pair((0.91, "P"), (0.79, "A")), Ledger("RG-000"))
    assert kept[0].line == 800


def test_rows_come_out_in_time_order():
    rows = [Row(3, datetime(2025, 7, 9), {}, "P"), Row(2, datetime(2025, 7, 8), {}, "P")]
    assert [r.line for r in merge(rows, Ledger("RG-000"))] == [2, 3]
"""

LEDGER = '''
"""A note of every reading that was changed or dropped, one JSON object a line."""

import json
import sys
from collections import Counter


class Ledger:
    def __init__(self, code):
        self.code = code
        self.entries = []

    def note(self, row, reason, old=None, new=None, column=None):
        entry = {"code": self.code, "line": row.line, "time": row.time.isoformat(timespec="minutes"), "reason": reason}
        self.entries.append({**entry, "column": column, "old": old, "new": new})

    def count(self, reason):
        return sum(e["reason"] == reason for e in self.entries)

    def append_to(self, path):
        with open(path, "a", encoding="utf-8") as handle:
            for entry in self.entries:
                handle.write(json.dumps(entry, sort_keys=True) + "\\n")


def main(path, *reasons):
    """Counts by station and reason; with reasons, their entries."""
    with open(path, encoding="utf-8") as handle:
        entries = [json.loads(line) for line in handle]
    for (code, reason), count in sorted(Counter((e["code"], e["reason"]) for e in entries).items()):
        mine = [e for e in entries if (e["code"], e["reason"]) == (code, reason)]
        if not reasons:
            print(f"{code} {reason}: count={count} first_line={mine[0]['line']} first_time={mine[0]['time']} old={mine[0]['old']}")
        for e in mine if reason in reasons else []:
            print(f"{code} {reason} line={e['line']} time={e['time']} old={e['old']} new={e['new']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
'''

CHECKS = '''
"""Blank readings that cannot be right. Nothing here makes up a value."""


def spikes(rows, column, step):
    """Rows whose reading leaves both neighbours by more than `step`, in the same direction."""
    known = [r for r in rows if r.values[column] is not None]
    found = []
    for before, row, after in zip(known, known[1:], known[2:]):
        up, down = row.values[column] - before.values[column], row.values[column] - after.values[column]
        if min(abs(up), abs(down)) > step and up * down > 0:
            found.append(row)
    return found


def flat_runs(rows, column, samples):
    """Runs of at least `samples` identical readings, as lists of rows."""
    runs, run = [], []
    for row in [*rows, None]:
        if run and row is not None and row.values[column] is not None and row.values[column] == run[-1].values[column]:
            run.append(row)
            continue
        if len(run) >= samples:
            runs.append(run)
        run = [row] if row is not None and row.values[column] is not None else []
    return runs


def blank(rows, column, reason, ledger):
    for row in rows:
        ledger.note(row, reason, old=row.values[column], column=column)
        row.values[column] = None
        row.reasons.append(reason)
'''

TEST_CHECKS = """
from datetime import datetime, timedelta

from gauge.checks import blank, flat_runs, spikes
from gauge.ledger import Ledger
from gauge.reader import Row


def series(*values):
    start = datetime(2025, 7, 5)
    return [Row(n + 2, start + n * timedelta(minutes=30), {"stage": v}, "P") for n, v in enumerate(values)]


def test_single_jump_is_a_spike():
    assert [r.line for r in spikes(series(1.0, 1.0, 2.1, 1.0), "stage", 0.4)] == [4]


def test_a_lasting_rise_is_not_a_spike():
    assert spikes(series(1.0, 1.0, 1.9, 1.9, 1.8), "stage", 0.4) == []


def test_gap_beside_a_spike():
    assert [r.line for r in spikes(series(1.0, None, 2.1, None, 1.0), "stage", 0.4)] == [4]


def test_flat_run_needs_enough_samples():
    rows = series(*[0.52] * 5, 0.53, *[0.54] * 3)
    assert [len(run) for run in flat_runs(rows, "stage", 4)] == [5]


def test_blank_leaves_nothing_behind():
    rows, ledger = series(1.0, 2.5, 1.0), Ledger("RG-000")
    blank(rows[1:2], "stage", "spike", ledger)
    assert [r.values["stage"] for r in rows] == [1.0, None, 1.0]
    assert ledger.entries[0]["old"] == 2.5
"""

CLEAN = '''
"""From raw exports to one clean file per station, with a ledger."""

import argparse
import configparser
import csv
import io
import json
import zlib
from datetime import timedelta
from pathlib import Path

from gauge import checks, dedupe, units
from gauge.ledger import Ledger
from gauge.reader import Row, read_rows

STEP = timedelta(minutes=30)


def fill_grid(rows):
    """Put an empty row wherever the half-hour grid has none."""
    by_time, time, full = {r.time: r for r in rows}, rows[0].time, []
    while time <= rows[-1].time:
        row = by_time.get(time)
        if row is None:
            row = Row(0, time, dict.fromkeys(rows[0].values), "", ["gap"])
        full.append(row)
        time += STEP
    return full


def clean_station(code, paths, limits, corrections):
    ledger = Ledger(code)
    rows = [row for path in paths for row in read_rows(path)]
    received = len(rows)
    shift = units.shift_clock(rows, code, corrections)
    rows = dedupe.merge(rows, ledger)
    for row in rows:
        for column in row.blanks:
            ledger.note(row, "sentinel", column=column)
    converted = units.convert(rows, code, corrections, limits.getfloat("units", "tip_mm"))
    if code.startswith("RG"):
        checks.blank(checks.spikes(rows, "stage", limits.getfloat("checks", "spike_step_m")), "stage", "spike", ledger)
        for run in checks.flat_runs(rows, "stage", limits.getint("checks", "flat_samples")):
            checks.blank(run, "stage", "flat", ledger)
    return fill_grid(rows), ledger, {"rows_in": received, "shift_min": shift, "converted": sum(converted.values())}


def render(rows):
    out = io.StringIO()
    columns = list(rows[0].values)
    writer = csv.writer(out, lineterminator="\\n")
    writer.writerow(["timestamp", *columns, "flag", "quality"])
    for row in rows:
        cells = ["" if row.values[c] is None else f"{row.values[c]:.3f}" for c in columns]
        writer.writerow([row.time.isoformat(timespec="minutes"), *cells, row.flag, "+".join(row.reasons) or "ok"])
    return out.getvalue()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quarter", required=True)
    parser.add_argument("--only", nargs="*")
    options = parser.parse_args()
    limits = configparser.ConfigParser()
    limits.read("@LIMITS@")
    corrections = units.load()
    target = Path("clean") / options.quarter
    target.mkdir(parents=True, exist_ok=True)
    (target / "ledger.jsonl").write_text("")
    for station in json.loads(Path("catalog/stations.json").read_text()):
        code = station["code"]
        if options.only and code not in options.only:
            continue
        paths = sorted(Path("raw", options.quarter).glob(f"{code}_*.csv"))
        rows, ledger, facts = clean_station(code, paths, limits, corrections)
        text = render(rows)
        (target / f"{code}.csv").write_text(text)
        ledger.append_to(target / "ledger.jsonl")
        facts |= {reason: ledger.count(reason) for reason in ("duplicate", "conflict", "sentinel", "spike", "flat")}
        facts |= {"gap": sum("gap" in r.reasons for r in rows), "rows_out": len(rows), "crc32": f"{zlib.crc32(text.encode()):08x}"}
        print(code, *(f"{name}={value}" for name, value in facts.items()))


if __name__ == "__main__":
    main()
'''

HAMPEL = '''
"""Compare two spike detectors on the five river stations."""

import sys
from statistics import median

from gauge.checks import spikes
from gauge.reader import read_rows


def hampel(rows, column, half=3, factor=4.0):
    known = [r for r in rows if r.values[column] is not None]
    found = []
    for n in range(half, len(known) - half):
        window = [r.values[column] for r in known[n - half : n + half + 1]]
        middle = median(window)
        spread = 1.4826 * median(abs(v - middle) for v in window)
        if abs(known[n].values[column] - middle) > factor * max(spread, 0.001):
            found.append(known[n])
    return found


for path in sys.argv[1:]:
    rows = sorted(read_rows(path), key=lambda r: r.time)
    first, second = hampel(rows, "stage"), spikes(rows, "stage", 0.40)
    both = {r.line for r in first} & {r.line for r in second}
    print(f"{path.split('/')[-1]} hampel={len(first)} step={len(second)} both={len(both)}")
'''

REPORT = '''
"""One page per station and a table for all of them."""

import csv
import json
import sys
from collections import Counter
from pathlib import Path

TITLE = "Station {code}, {quarter}"


def page(code, quarter):
    with open(f"clean/{quarter}/{code}.csv", newline="") as handle:
        rows = list(csv.DictReader(handle))
    quality = Counter(reason for row in rows for reason in row["quality"].split("+"))
    lines = [f"# {TITLE.format(code=code, quarter=quarter)}", "", f"From {rows[0]['timestamp']} to {rows[-1]['timestamp']} UTC, {len(rows)} intervals.", ""]
    lines += ["| column | readings | empty | min | max | mean |", "|---|---|---|---|---|---|"]
    for column in [c for c in rows[0] if c not in ("timestamp", "flag", "quality")]:
        good = [float(r[column]) for r in rows if r[column]]
        lines.append(f"| {column} | {len(good)} | {len(rows) - len(good)} | {min(good):.3f} | {max(good):.3f} | {sum(good) / len(good):.4f} |")
    lines += ["", "Quality: " + ", ".join(f"{name} {count}" for name, count in sorted(quality.items())), ""]
    return "\\n".join(lines), {"code": code, "intervals": len(rows), "usable_pct": round(100 * quality["ok"] / len(rows), 2)}


def main(quarter):
    target = Path("reports") / quarter
    target.mkdir(parents=True, exist_ok=True)
    table = []
    for station in json.loads(Path("catalog/stations.json").read_text()):
        text, line = page(station["code"], quarter)
        (target / f"{station['code']}.md").write_text(text)
        table.append(line)
        print(json.dumps(line))
    with open(target / "summary.csv", "w", newline="") as handle:
        writer = csv.DictWriter(handle, list(table[0]), lineterminator="\\n")
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    main(sys.argv[1])
'''


def pick(text: str, pattern: str) -> str:
    """The first group of `pattern` in a recorded output, so that what is said about it is true."""
    found = re.search(pattern, text)
    if found is None:
        raise RuntimeError(f"data_cleaning: {pattern!r} not found in:\n{text}")
    return found[1]


def short(time: datetime) -> str:
    return time.isoformat(timespec="minutes")


# --- the readings ------------------------------------------------------------------------------------------------


def stage(rng: Any, base: float) -> list[float]:
    """A river level in metres: a daily wave, three rain events, a little noise."""
    events = [(rng.randrange(40, COUNT - 80), rng.uniform(0.22, 0.45)) for _ in range(3)]
    out = []
    for n in range(COUNT):
        level = base + 0.06 * math.sin(2 * math.pi * n / 48)
        for at, height in events:
            k = n - at
            level += height * (min(k / 12, 1.0) if k <= 12 else math.exp((12 - k) / 40)) if k > 0 else 0.0
        out.append(round(level + rng.gauss(0, 0.003), 3))
    return out


def river_lines(s: SimpleNamespace, values: list[Any], flags: list[str] | None = None) -> list[list[str]]:
    volts = s.rng.uniform(12.4, 13.1)
    return [
        [short(s.start + n * STEP), v if isinstance(v, str) else f"{v:.3f}", f"{volts - n * 0.0004 + s.rng.gauss(0, 0.02):.2f}",
         flags[n] if flags else "P"]
        for n, v in enumerate(values)
    ]  # fmt: skip


def weather_lines(s: SimpleNamespace, shift: int = 0) -> list[list[Any]]:
    """Time, temperature (degC), pressure (hPa), rain (tips), flag; one row a half hour."""
    rng, pressure, out = s.rng, s.rng.uniform(1006, 1016), []
    wet = [rng.randrange(30, COUNT - 40) for _ in range(6)]
    for n in range(COUNT):
        pressure += rng.gauss(0, 0.15) + (1011 - pressure) * 0.01
        day, part = divmod(n, 48)
        warmth = s.warm[day] + (s.warm[day + 1] - s.warm[day]) * part / 48
        warmth += 5.2 * math.sin(2 * math.pi * (n - 18) / 48) + rng.gauss(0, 0.25)
        tips = rng.randrange(0, 14) if any(0 <= n - at < 9 for at in wet) else 0
        out.append([s.start + n * STEP + timedelta(minutes=shift), warmth, pressure, tips, "P"])
    return out


def to_csv(header: str, lines: list[list[str]], delimiter: str = ",") -> str:
    return "\n".join([header.replace(",", delimiter), *(delimiter.join(line) for line in lines)]) + "\n"


def build(r: Any) -> SimpleNamespace:
    """Draw the facts of this recording and write its workspace."""
    rng = r.rng
    s = SimpleNamespace(rng=rng, start=datetime(2025, 7, rng.randrange(1, 12)))
    numbers = sorted(rng.sample(range(210, 890), 8))
    s.river = [f"RG-{n}" for n in numbers[:5]]
    s.met = [f"WX-{n}" for n in numbers[5:]]
    s.feet, s.resend, s.holes, s.euro, s.gates = s.river
    s.fahr, s.mercury, s.local = s.met
    sites = ["Corvane bridge", "Dunmell mill race", "Ilmsey ford", "Old Quarn ferry", "Vennach sluice"]
    posts = ["Brask hill", "Tolwick school roof", "Ostrel barn"]
    rng.shuffle(sites)
    s.names = dict(zip(s.river + s.met, sites + posts, strict=True))
    s.serial = {code: f"{rng.choice('KLMP')}{rng.randrange(10000, 99999)}" for code in s.names}
    s.firmware_old, s.firmware_new = (
        f"3.{rng.randrange(10, 20)}.{rng.randrange(1, 9)}",
        f"4.{rng.randrange(0, 5)}.{rng.randrange(10, 40)}",
    )
    s.case = f"FV-{rng.randrange(2000, 9000)}"
    s.tip = f"0.2{rng.randrange(31, 58)}"
    s.certificate = f"CAL-{rng.randrange(10000, 99999)}"

    files: dict[str, str] = {}
    header = "timestamp,stage,battery_v,flag"
    s.swap = rng.randrange(290, 360)
    level = stage(rng, rng.uniform(0.82, 0.98))
    s.staff = (level[s.swap + 3], round(level[s.swap + 3] * 3.28084, 3))
    feet = [v if n < s.swap else round(v * 3.28084, 3) for n, v in enumerate(level)]
    files[f"{s.feet}_stage.csv"] = to_csv(header, river_lines(s, feet))

    level = stage(rng, rng.uniform(1.3, 1.6))
    block, fixed = rng.randrange(180, 240), rng.randrange(12, 18)
    lines = river_lines(s, level)
    again = [list(line) for line in lines[block : block + 96]]
    for n in range(block + 40, block + 40 + fixed):
        lines[n][1], lines[n][3] = f"{level[n] - 0.118:.3f}", "A"
    s.fixed, s.resend_line = fixed, COUNT + 2
    files[f"{s.resend}_stage.csv"] = to_csv(header, lines + again)

    values: list[Any] = list(stage(rng, rng.uniform(0.55, 0.7)))
    taken = rng.sample(range(20, COUNT - 140, 4), 24)
    for n in taken[:11]:
        values[n] = "-9999"
    for n in taken[11:17]:
        values[n] = "NA"
    for n in taken[17:]:
        values[n] += rng.choice([-1, 1]) * rng.uniform(0.9, 1.6) if values[n] > 1.7 else rng.uniform(0.9, 1.6)
    lines = river_lines(s, values)
    s.hole = rng.randrange(COUNT - 110, COUNT - 80)
    s.missing = rng.randrange(52, 68)
    files[f"{s.holes}_stage.csv"] = to_csv(header, lines[: s.hole] + lines[s.hole + s.missing :])
    s.late = to_csv(header, lines[s.hole - 8 : s.hole + s.missing])

    values = list(stage(rng, rng.uniform(0.9, 1.1)))
    at, s.stuck = rng.randrange(400, 500), rng.randrange(37, 49)
    values[at : at + s.stuck] = [values[at]] * s.stuck
    for n in rng.sample(range(20, 380, 3), 5):
        values[n] = "---"
    lines = river_lines(s, values)
    for line in lines:
        line[0] = datetime.fromisoformat(line[0]).strftime("%d.%m.%Y %H:%M")
        line[1], line[2] = line[1].replace(".", ","), line[2].replace(".", ",")
    files[f"{s.euro}_stage.csv"] = "\ufeff" + to_csv(header, lines, ";")

    values = list(stage(rng, rng.uniform(1.0, 1.2)))
    for at, length in zip((90, 310, 610), (13, 14, 16), strict=True):
        at += rng.randrange(0, 30)
        values[at : at + length] = [values[at]] * length
    s.lifts = sorted(rng.sample(range(160, 290, 9), 3) + rng.sample(range(400, 590, 9), 2))
    for n in s.lifts:
        values[n] = round(values[n] + rng.uniform(0.44, 0.59), 3)
    files[f"{s.gates}_stage.csv"] = to_csv(header, river_lines(s, values))

    header = "timestamp,temp,pressure,rain,flag"
    s.warm = [round(17.5 + rng.uniform(-2.6, 2.6), 2) for _ in range(COUNT // 48 + 1)]
    s.mercury_from = rng.randrange(350, 420)
    for code in s.met:
        shift = 120 if code == s.local else 0
        lines = []
        for n, (time, warmth, pressure, tips, flag) in enumerate(weather_lines(s, shift)):
            warmth = warmth * 1.8 + 32 if code == s.fahr else warmth
            pressure = pressure / 1.333224 if code == s.mercury and n >= s.mercury_from else pressure
            rain = str(tips) if code == s.local else f"{tips * 0.2:.1f}"
            lines.append([short(time), f"{warmth:.1f}", f"{pressure:.1f}", rain, flag])
        files[f"{code}_met.csv"] = to_csv(header, lines)

    index = []
    s.delivery = {}
    for name, text in sorted(files.items()):
        code, rows = name[:6], text.count("\n") - 1
        s.delivery[code] = f"DLV-{rng.randrange(16**6):06x}"
        stated = rows + s.missing if code == s.holes else rows
        index.append(
            f"delivery={s.delivery[code]} file={name} rows={stated} crc32={zlib.crc32(text.encode()):08x} via={rng.choice(['modem', 'card'])}"
        )
        r.file(f"{BASE}/{name}", text)
    r.file(f"{BASE}/DELIVERY.txt", "\n".join(index) + "\n")

    catalog = []
    for code, name in s.names.items():
        ranges = {"stage": [0.05, 4.2]} if code in s.river else {"temp": [-25, 42], "pressure": [940, 1055], "rain": [0, 40]}
        firmware = s.firmware_old if code in s.river else f"2.{rng.randrange(1, 9)}.{rng.randrange(10, 99)}"
        catalog.append(
            {
                "code": code,
                "site": name,
                "logger": s.serial[code],
                "firmware": firmware,
                "elevation_m": rng.randrange(1120, 4890) / 10,
                "range": ranges,
            }
        )
    r.file("catalog/stations.json", "[\n" + ",\n".join("  " + json.dumps(c) for c in catalog) + "\n]\n")
    r.file("catalog/limits.ini", LIMITS.lstrip())
    r.file("gauge/__init__.py", "")
    r.file("gauge/reader.py", READER.lstrip())
    r.file("tests/test_reader.py", TEST_READER.lstrip())
    r.file("tools/fixup_2023.awk", AWK.lstrip())
    r.file("Makefile", MAKEFILE.lstrip())
    swap_time = s.start + s.swap * STEP
    s.swap_time = short(swap_time)
    r.file("docs/notes.md", "\n".join([
        "# What the technicians wrote down",
        "",
        f"- {short(s.start + timedelta(days=2))[:10]} {s.euro}: card pulled by hand, laptop of the northern crew, visit {s.case[:-2]}41.",
        f"- {s.swap_time[:10]} {s.feet}: logger {s.serial[s.feet]} swapped in place, visit {s.case}, firmware {s.firmware_old} -> {s.firmware_new}.",
        f"  Staff read {s.staff[0]:.3f} m by eye at {short(swap_time + 3 * STEP)[11:]}, display said {s.staff[1]:.3f}. Staff itself not touched.",
        f"- {s.resend}: modem session repeated on request of the desk, ticket {s.case[:-2]}77, after the verified block had been uploaded.",
        f"- {s.gates}: gate lifts for the fish pass, one interval each, foreman's log book sheet {rng.randrange(300, 900)}.",
        f"- {s.local}: rain gauge counts tips, calibration sheet not filed yet.",
        f"- {s.fahr}: export profile 'US' left over from the bench, asset tag AT-{rng.randrange(20000, 70000)}.",
        "",
    ]))  # fmt: skip
    r.run("git init -q && git add -A && git commit -qm 'Import the third quarter deliveries'")
    return s


# --- the session -------------------------------------------------------------------------------------------------


def play(r: Any) -> None:
    s = build(r)
    r.system(SYSTEM)
    r.instructions(AGENTS)
    survey(r, s)
    read_everything(r, s)
    units(r, s)
    duplicates(r, s)
    checks(r, s)
    pipeline(r, s)
    weather(r, s)
    late_file(r, s)
    reports(r, s)
    days(r, s)
    handover(r, s)


def survey(r: Any, s: SimpleNamespace) -> None:
    r.user(
        f"The third-quarter exports are in {BASE}. Please go through all eight files and tell me what is wrong with each, before any "
        "cleaning code is written. Treat everything under raw/ as evidence: look at it as much as you like, never change it."
    )
    r.truth.constraint("Treat everything under raw/ as evidence: look at it as much as you like, never change it.")
    r.agent(
        "I start with the layout and the index of what was delivered.",
        r.bash("git ls-files | sort && git log --format='%h %s'"),
        r.bash(f"cat {BASE}/DELIVERY.txt && wc -l {BASE}/*.csv"),
    )
    r.agent(
        "The index states a row count and a checksum per file, so I can compare both. Next the station catalog, and what the package can do so far.",
        r.read("catalog/stations.json"),
        r.read("gauge/reader.py"),
    )
    r.agent("", r.bash(f"make test && for f in {BASE}/*.csv; do echo \"$f\"; sed -n '1p;3p;500p' $f; done"))
    r.agent(
        f"One file is different at first sight: {s.euro} has semicolons, decimal commas, day-first dates and a byte order mark. The existing reader will "
        "not survive that, so for the survey I write a small profiler which trusts nothing and only counts.",
        r.write("scripts/profile_raw.py", PROFILE.lstrip()),
        r.bash(f"python scripts/profile_raw.py {BASE}/RG-*.csv"),
        r.bash(f"python scripts/profile_raw.py {BASE}/WX-*.csv"),
    )
    out = [r.messages[-2].text, r.messages[-1].text]
    rows = pick(out[0], rf"{s.holes}_stage.csv\n  rows=(\d+)")
    top = pick(out[0], rf"{s.feet}_stage.csv\n.*\n.*\n  stage: min=[\d.]+ max=([\d.]+)")
    hot = pick(out[1], rf"{s.fahr}_met.csv\n.*\n.*\n  temp: min=[\d.]+ max=([\d.]+)")
    s.feet_mean = pick(out[0], rf"{s.feet}_stage.csv\n.*\n.*\n  stage: .*mean=([\d.]+)")
    r.truth.fact(rows, top, hot, s.delivery[s.holes], s.serial[s.feet], s.feet_mean)
    r.agent(
        f"A lot to see here. {s.holes} has {rows} rows although the index promises {COUNT}. {s.resend} repeats 96 times. {s.fahr} reports a temperature of "
        f"{hot}, hardly Celsius. And {s.feet} reaches {top}, with a mean far above what its minimum suggests; I look at where that begins.",
        r.bash(
            f'awk -F, \'NR>2 && ($2-p>0.8 || p-$2>0.8) {{print NR": "$1" previous="p" now="$2" change="$2-p}} {{p=$2}}\' {BASE}/{s.feet}_stage.csv && sed -n \'{s.swap - 5},{s.swap + 8}p\' {BASE}/{s.feet}_stage.csv'
        ),
        r.bash(
            f'awk -F, \'NR>2 && ($3-p>50 || p-$3>50) {{print NR": "$1" previous="p" now="$3" change="$3-p}} {{p=$3}}\' {BASE}/{s.mercury}_met.csv && sed -n \'{s.mercury_from - 3},{s.mercury_from + 6}p\' {BASE}/{s.mercury}_met.csv'
        ),
    )
    jump = pick(r.messages[-2].text, r"change=([\d.]+)")
    drop = pick(r.messages[-1].text, r"now=([\d.]+)")
    r.truth.fact(jump, drop)
    r.agent(
        f"{s.feet} rises by {jump} between two readings at {s.swap_time} and stays up there to the end. A single lasting step like this is a datum "
        "shift, most likely the staff gauge was re-levelled, so one constant offset will put it right. "
        f"{s.mercury} falls from hPa to {drop} in one step, which is the same pressure in mmHg. Two more looks, at the missing rows with the placeholders, and at whether the re-sent rows agree with those they repeat.",
        r.bash(
            f'cut -d, -f1 {BASE}/{s.holes}_stage.csv | awk \'NR>1 {{split($1,a,"T"); n[a[1]]++}} END {{for (d in n) if (n[d]!=48) print d" rows="n[d]}}\' | sort'
        ),
        r.grep("NA|-9999", f"{BASE}/{s.holes}_stage.csv"),
        r.bash(
            f'awk -F, \'NR>1 {{if ($1 in v) {{if (v[$1]==$2) same++; else {{differ++; if (differ<4) print $1" first="v[$1]"/"f[$1]" again="$2"/"$4" line="NR}}}} '
            f'else {{v[$1]=$2; f[$1]=$4}}}} END {{print "same="same" differ="differ}}\' {BASE}/{s.resend}_stage.csv'
        ),
    )
    r.truth.belief(wrong="A single lasting step like this is a datum shift", corrected="So it was never a datum shift")
    r.agent(
        "Findings, file by file:\n\n"
        f"- {s.feet}: lasting step of {jump} at {s.swap_time}, I take it for an offset.\n"
        f"- {s.resend}: 96 rows sent again at the end, {96 - s.fixed} identical, {s.fixed} with another value and flag P where the first copy had A.\n"
        f"- {s.holes}: -9999 and NA as placeholders, single wild readings, {s.missing} rows of the index missing.\n"
        f"- {s.euro}: other delimiter, decimal comma, day-first dates, '---' as placeholder.\n"
        f"- {s.gates}: nothing obvious yet.\n"
        f"- {s.fahr}: Fahrenheit all through; {s.mercury}: mmHg from {drop} on; {s.local}: rain only in whole numbers, so probably tips."
    )


def read_everything(r: Any, s: SimpleNamespace) -> None:
    r.user(
        "Good overview. Now make the reader cope with every one of these exports. Placeholders have to become empty cells. Stay with the standard "
        "library, the field laptops have nothing else and nobody can install packages there."
    )
    r.truth.constraint("Stay with the standard library, the field laptops have nothing else")
    r.agent(
        "First a list of the steps, then the failing cases as tests so that I see the reader break in the ways the data breaks it.",
        r.todo(
            ("Reader: delimiter, BOM, dates, placeholders", "in_progress"), ("Units and offsets", "pending"), ("Duplicates", "pending"),
            ("Spikes and stuck floats", "pending"), ("Pipeline with ledger", "pending"), ("Reports", "pending"),
        ),
        r.bash(
            f"for f in {BASE}/*.csv; do echo \"$f $(python -c \"import sys; from gauge.reader import read_rows; "
            "print('rows', len(read_rows(sys.argv[1])))\" $f 2>&1 | tail -1)\"; done"
        ),
    )  # fmt: skip
    r.agent(
        "Two different failures: with semicolons the whole header is one column, so there is no flag to take, and a placeholder that is no float. Both go into the tests, together with the mark at the front of the file.",
        r.bash(
            "cat >> tests/test_reader.py <<'EOF'\n\n\ndef test_semicolons_commas_and_mark(tmp_path):\n"
            '    text = "timestamp;stage;battery_v;flag\\n03.07.2025 14:30;0,871;12,84;P\\n"\n'
            '    rows = read_rows(export(tmp_path, text, "utf-8-sig"))\n'
            "    assert rows[0].time == datetime(2025, 7, 3, 14, 30)\n"
            '    assert rows[0].values == {"stage": 0.871, "battery_v": 12.84}\n\n\n'
            "def test_placeholders_are_empty(tmp_path):\n"
            '    text = "timestamp,stage,flag\\n2025-07-03T00:00,-9999,P\\n2025-07-03T00:30,NA,P\\n2025-07-03T01:00,---,P\\n"\n'
            "    rows = read_rows(export(tmp_path, text))\n"
            '    assert [r.values["stage"] for r in rows] == [None, None, None]\n'
            '    assert rows[1].blanks == ["stage"]\nEOF\npython -m pytest -q --tb=line'
        ),
    )
    body = READER[READER.index("def read_rows") :].strip("\n")
    r.agent(
        "As expected, both new cases fail. Rewriting the reading loop: sniff the delimiter from the header, open with utf-8-sig, accept both date forms, and remember which cells were placeholders.",
        r.edit("gauge/reader.py", body, READ_LOOP.strip("\n")),
        r.edit(
            "gauge/reader.py",
            READER[READER.index("from dataclasses") : READER.index("\n\n\ndef read_rows")],
            "from dataclasses import dataclass, field\nfrom datetime import datetime\n\nPLACEHOLDERS = {-9999.0}\n\n\n@dataclass\nclass Row:\n    line: int\n    time: datetime\n"
            "    values: dict\n    flag: str\n    reasons: list = field(default_factory=list)\n    blanks: list = field(default_factory=list)",
        ),
    )  # fmt: skip
    r.agent("Tests again, a commit, and daily means of the first column of every station, read through the new code:", r.bash(
        "python -m pytest -q && git add -A && git commit -qm 'Read all export dialects, empty the placeholders' && git log -1 --format='commit=%h tree=%t' && python - <<'EOF'\nfrom collections import defaultdict\nfrom glob import glob\nfrom gauge.reader import read_rows\n"
        f"for path in sorted(glob('{BASE}/*.csv')):\n    rows = read_rows(path)\n"
        "    blanks = sum(len(r.blanks) for r in rows)\n"
        "    name = list(rows[0].values)[0]\n"
        "    total = sum(r.values[name] or 0 for r in rows)\n"
        "    print(f'{path[12:18]} read={len(rows)} blanks={blanks} sum_{name}={total:.3f}')\n"
        "    days = defaultdict(list)\n"
        "    for r in rows:\n        if r.values[name] is not None:\n            days[r.time.day].append(r.values[name])\n"
        "    print('   ', ' '.join(f'{d}:{sum(v) / len(v):.3f}' for d, v in sorted(days.items())))\nEOF"
    ))  # fmt: skip
    blanks = pick(r.messages[-1].text, rf"{s.holes} read=\d+ blanks=(\d+)")
    r.truth.update("tests passing", "2 passed", "4 passed")
    r.agent(
        f"All eight files are read now, and {s.holes} shows {blanks} placeholder cells, the number the search for NA and -9999 gave. The daily means already show the three odd "
        f"stations: {s.feet} is far too high from the {s.swap_time[8:10]}th on, {s.fahr} stands near 63, and {s.local} has readings on a seventeenth day, which I cannot explain yet."
    )


READ_LOOP = '''
def parse_time(text):
    if text[2] == ".":
        return datetime.strptime(text, "%d.%m.%Y %H:%M")
    return datetime.fromisoformat(text)


def parse_number(text):
    """None for a placeholder, whatever the logger uses for one."""
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        return None
    return None if value in PLACEHOLDERS else value


def read_rows(path):
    """All rows of one export; the first line of the file names the columns."""
    with open(path, newline="", encoding="utf-8-sig") as handle:
        lines = handle.read().splitlines()
    delimiter = ";" if ";" in lines[0] else ","
    rows = []
    for line, record in enumerate(csv.DictReader(lines, delimiter=delimiter), 2):
        flag = record.pop("flag")
        time = parse_time(record.pop("timestamp"))
        values = {name: parse_number(text) for name, text in record.items()}
        rows.append(Row(line, time, values, flag, blanks=[name for name, value in values.items() if value is None]))
    return rows
'''


def units(r: Any, s: SimpleNamespace) -> None:
    r.user(
        f"Before you write the offset for {s.feet} into anything: can you back the datum idea up? The forecast desk wants to know the exact offset "
        "and its uncertainty."
    )
    r.agent(
        "If it is an offset, the small movements before and after must have the same size: noise and daily wave do not grow when a zero point moves. That can be measured.",
        r.bash(
            "python - <<'EOF'\nfrom statistics import mean, pstdev\nfrom gauge.reader import read_rows\n"
            f"rows = read_rows('{BASE}/{s.feet}_stage.csv')\ncut = {s.swap}\n"
            "for name, part in (('before', rows[:cut]), ('after', rows[cut:])):\n"
            "    v = [r.values['stage'] for r in part]\n"
            "    steps = [b - a for a, b in zip(v, v[1:])]\n"
            "    print(f'{name}: n={len(v)} mean={mean(v):.4f} noise={pstdev(steps):.5f} low={min(v):.3f}')\n"
            "a, b = rows[cut - 1].values['stage'], rows[cut].values['stage']\n"
            "print(f'ratio_at_step: {b / a:.4f}')\nEOF"
        ),
        r.bash(f"grep -rn -A1 {s.feet} docs"),
    )
    text = r.messages[-2].text
    before, after = float(pick(text, r"before:.*noise=([\d.]+)")), float(pick(text, r"after:.*noise=([\d.]+)"))
    ratio = pick(text, r"ratio_at_step: ([\d.]+)")
    r.truth.fact(ratio, pick(text, r"after:.*noise=([\d.]+)"), f"{s.staff[1]:.3f}", s.case, s.firmware_new)
    r.agent(
        f"The noise grows by a factor of {after / before:.2f} and the step itself is a ratio of {ratio}, both near 3.281, feet in a metre. The notes settle it: at the swap "
        f"{s.case} the display said {s.staff[1]:.3f} where the eye read {s.staff[0]:.3f} m, and the staff was not touched. So it was never a datum shift: firmware {s.firmware_new} "
        f"came up with feet as its unit, and every reading from {s.swap_time} on has to be multiplied, not moved. I should have read these notes first; now the rest of them.",
        r.read("docs/notes.md"),
    )
    r.user(
        "Makes sense, and glad we asked. Go ahead with units then: a corrections file in catalog/ that says station, column, unit and from when, and the "
        f"code reading it. The {s.local} gauge has a 0.2 mm bucket."
    )
    fixes = {
        "units": [
            {"code": s.feet, "column": "stage", "from": s.swap_time, "unit": "ft"},
            {"code": s.fahr, "column": "temp", "from": short(s.start), "unit": "degF"},
            {"code": s.mercury, "column": "pressure", "from": short(s.start + s.mercury_from * STEP), "unit": "mmHg"},
            {"code": s.local, "column": "rain", "from": short(s.start), "unit": "tips"},
        ],
        "clock": [],
    }
    r.agent(
        "The old awk helper in tools/ also turns feet into metres; a look whether its factor can be taken over.",
        r.read("tools/fixup_2023.awk"),
        r.read("catalog/limits.ini"),
    )
    r.agent(
        "It rounds the factor to 0.305 and treats the whole file, which would leave an error of two thirds of a permille and spoil the readings before the swap. "
        "I write our own table of conversions, with periods.",
        r.write("catalog/corrections.json", json.dumps(fixes, indent=2) + "\n"),
        r.write("gauge/units.py", UNITS.lstrip()),
        r.write("tests/test_units.py", TEST_UNITS.lstrip()),
        r.bash("python -m pytest -q tests/test_units.py"),
    )
    r.agent(
        "Tests pass. On the real files, the seam is what counts: the values just before and after each change of unit should now follow each other smoothly.",
        r.bash(
            "python - <<'EOF'\nfrom gauge import units\nfrom gauge.reader import read_rows\nfixes = units.load()\n"
            f"for code, kind, column in (('{s.feet}', 'stage', 'stage'), ('{s.mercury}', 'met', 'pressure'), ('{s.fahr}', 'met', 'temp'), ('{s.local}', 'met', 'rain')):\n"
            f"    rows = read_rows(f'{BASE}/{{code}}_{{kind}}.csv')\n    done = units.convert(rows, code, fixes, 0.2)\n"
            "    v = [r.values[column] for r in rows]\n"
            "    worst = max(abs(b - a) for a, b in zip(v, v[1:]))\n"
            "    print(f'{code} {column}: converted={done} mean={sum(v) / len(v):.4f} max={max(v):.3f} worst_step={worst:.4f}')\nEOF"
        ),
        r.todo(
            ("Reader: delimiter, BOM, dates, placeholders", "completed"), ("Units and offsets", "completed"), ("Duplicates", "in_progress"),
            ("Spikes and stuck floats", "pending"), ("Pipeline with ledger", "pending"), ("Reports", "pending"),
        ),
    )  # fmt: skip
    out = r.messages[-2].text
    mean = pick(out, rf"{s.feet} stage: .*mean=([\d.]+)")
    r.truth.fact(mean, pick(out, rf"{s.mercury} pressure: .*mean=([\d.]+)"))
    r.truth.update("mean stage of the feet station", s.feet_mean, mean)
    r.agent(
        f"The seams are gone: the mean stage of {s.feet} goes from {s.feet_mean} to {mean}, and no step is left that the river could not make. I commit this state."
        " One more thing worth knowing: the battery of each station, since a tired one would explain faults of its own.",
        r.bash(
            "git add -A && git commit -qm 'Convert feet, Fahrenheit, mmHg and bucket tips' && git log -1 --format='commit=%h parent=%p' && "
            f"for f in {BASE}/RG-*_stage.csv; do tr ';' ',' < $f | sed 's/,\\([0-9][0-9]\\),P$/.\\1,P/' | awk -F, -v n=$(basename $f _stage.csv) "
            "'NR>1 {v=$(NF-1); s+=v; if (NR==2) a=v; b=v; if (v<m||!m) m=v} END {printf \"%s battery_first=%.2f battery_last=%.2f lowest=%.2f mean=%.4f\\n\", n, a, b, m, s/(NR-1)}'; done"
        ),
    )


def duplicates(r: Any, s: SimpleNamespace) -> None:
    r.user(
        f"Next the doubled rows of {s.resend}. When two rows have the same time and disagree, which one do you want to keep, and why? Tell me before coding it."
    )
    r.agent(
        "I look at the readings around the seam of the disputed stretch before I answer.",
        r.bash(
            f"grep -n ',A$' {BASE}/{s.resend}_stage.csv | sed -n '1p;$p' && sed -n '{s.resend_line - 2},{s.resend_line + 1}p' {BASE}/{s.resend}_stage.csv"
        ),
        r.bash(
            f'awk -F, \'NR>1 {{if ($1 in v && v[$1]!=$2) {{n++; d+=$2-v[$1]; print "line="NR" "$1" first="v[$1]" again="$2" battery="$3}} else v[$1]=$2}} END {{printf "disputed=%d mean_difference=%.4f\\n", n, d/n}}\' {BASE}/{s.resend}_stage.csv'
        ),
    )
    r.truth.fact(pick(r.messages[-1].text, r"mean_difference=([\d.]+)"))
    r.agent(
        "My proposal: keep the verified row, wherever in the file it stands. The alternative would be to let the last row in the file win, which is what most loaders do; I would not, "
        "because the modem session was repeated after the verified block had been uploaded, so the later copy is the older knowledge. "
        f"All {s.fixed} disputed rows differ by the same amount, which looks like a float correction by a technician and not like chance."
    )
    r.truth.decision(
        chosen="keep the verified row, wherever in the file it stands",
        rejected="let the last row in the file win",
        reason="the later copy is the older knowledge",
    )
    r.user(
        "Agreed. And I want a trace of each dropped or changed reading: file line, time, old value, reason. Either an extra remarks column in the clean files or something separate, you choose."
    )
    r.agent(
        "Then a separate ledger in JSON lines rather than a remarks column in the clean files: one reading can have several remarks, and a dropped row has no place in a clean "
        "file where its remark could stand. Ledger, merge and tests in one go.",
        r.write("gauge/ledger.py", LEDGER.lstrip()),
        r.write("gauge/dedupe.py", DEDUPE.lstrip()),
        r.write("tests/test_dedupe.py", TEST_DEDUPE.lstrip()),
        r.bash("python -m pytest -q --tb=short tests/test_dedupe.py"),
    )
    r.truth.decision(
        chosen="a separate ledger in JSON lines",
        rejected="a remarks column in the clean files",
        reason="a dropped row has no place in a clean",
    )
    r.agent(
        "My mistake: max() on the letters prefers P over A, so exactly the wrong row wins. A rank says what is meant.",
        r.edit("gauge/dedupe.py", "key=lambda r: r.flag)", "key=lambda r: RANK.get(r.flag, 0))"),
        r.edit("gauge/dedupe.py", 'corrected readings."""\n', 'corrected readings."""\n\nRANK = {"A": 2, "P": 1}\n'),
    )
    r.agent(
        "All tests again, and then the real file:",
        r.bash(
            "python -m pytest -q && git add -A && git commit -qm 'Merge repeated rows, keep a ledger' && python - <<'EOF'\nfrom gauge.dedupe import merge\nfrom gauge.ledger import Ledger\nfrom gauge.reader import read_rows\n"
            f"ledger = Ledger('{s.resend}')\nrows = merge(read_rows('{BASE}/{s.resend}_stage.csv'), ledger)\n"
            "print('rows:', len(rows), 'duplicate:', ledger.count('duplicate'), 'conflict:', ledger.count('conflict'))\n"
            "print('verified_kept:', sum(r.flag == 'A' for r in rows))\n"
            "print('stage_sum: %.3f' % sum(r.values['stage'] for r in rows))\n"
            "last = [e for e in ledger.entries if e['reason'] == 'conflict'][-1]\nprint(last)\nEOF"
        ),
    )
    r.truth.fact(pick(r.messages[-1].text, r"stage_sum: ([\d.]+)"))


def checks(r: Any, s: SimpleNamespace) -> None:
    r.user(
        "Now spikes and stuck floats. Our limits are in catalog/limits.ini. One thing matters to the desk: an unusable reading stays an empty cell, "
        "nobody fills it with an interpolated number, also not for short gaps."
    )
    r.truth.constraint("nobody fills it with an interpolated number, also not for short gaps")
    r.agent(
        "There are two usual detectors, a rolling median with a robust spread, and a plain step that goes away and comes back. I write the second as our check and compare both on the five rivers before choosing.",
        r.write("gauge/checks.py", CHECKS.lstrip()),
        r.write("scripts/try_hampel.py", HAMPEL.lstrip()),
        r.write("tests/test_checks.py", TEST_CHECKS.lstrip()),
        r.bash(f"python -m pytest -q tests/test_checks.py && PYTHONPATH=. python scripts/try_hampel.py {BASE}/RG-*.csv"),
    )
    out = r.messages[-1].text
    many, few = (sum(map(int, re.findall(rf" {name}=(\d+)", out))) for name in ("hampel", "step"))
    r.agent(
        f"I go with the plain step and drop the rolling median: it marks {many} readings against {few}, and what it marks beyond those is noise on quiet days or the foot of a rise, real water. "
        f"The step rule finds the wild readings of {s.holes}, but also five in {s.gates} that I do not trust yet. Those are next.",
        r.bash(
            "python - <<'EOF'\nfrom gauge.checks import flat_runs, spikes\nfrom gauge.reader import read_rows\n"
            f"for code in ('{s.holes}', '{s.gates}'):\n    rows = read_rows(f'{BASE}/{{code}}_stage.csv')\n"
            "    at = {r.line: n for n, r in enumerate(rows)}\n"
            "    for row in spikes(rows, 'stage', 0.40):\n        before = rows[at[row.line] - 1].values['stage']\n"
            "        print(f\"{code} line={row.line} time={row.time:%m-%dT%H:%M} stage={row.values['stage']:.3f} before={before}\")\n"
            f"for code in ('{s.euro}', '{s.gates}'):\n    rows = read_rows(f'{BASE}/{{code}}_stage.csv')\n"
            "    for run in flat_runs(rows, 'stage', 12):\n"
            "        print(f\"{code} flat from_line={run[0].line} length={len(run)} stage={run[0].values['stage']}\")\nEOF\nrm scripts/try_hampel.py"
        ),
    )
    r.truth.decision(
        chosen="the plain step", rejected="the rolling median", reason="noise on quiet days or the foot of a rise, real water"
    )
    out = r.messages[-1].text
    lifts = [float(a) - float(b) for a, b in re.findall(rf"{s.gates} line=\d+ \S+ stage=([\d.]+) before=([\d.]+)", out)]
    biggest = max(lifts)
    r.truth.fact(pick(out, rf"{s.gates} line=\d+ \S+ stage=([\d.]+)"), pick(out, rf"{s.euro} flat from_line=(\d+)"))
    r.agent(
        f"The five in {s.gates} jump by {min(lifts):.3f} to {biggest:.3f} m, much smaller than in {s.holes}, and all upwards for exactly one interval. The notes mention gate lifts there, one interval each. "
        f"If these are lifts, a limit of 0.40 m throws real water away. Likewise three flat runs of 13 to 16 readings in {s.gates}, next to one of {s.stuck} in {s.euro}. "
        "What do you know about that place?"
    )
    r.user(
        "Those are fish pass lifts, keep them. Set the spike limit to 0.65 m instead of 0.40. The calm stretches above the gate are real too, so a float counts as stuck only after 18 readings, not 12."
    )
    r.truth.update("spike_step_m", "spike_step_m = 0.40", "spike_step_m = 0.65")
    r.truth.update("flat_samples", "flat_samples = 12", "flat_samples = 18")
    r.agent(
        "Both numbers go into the limits file, and the file gets a name that fits since it holds more than ranges.",
        r.edit(
            "catalog/limits.ini",
            LIMITS[LIMITS.index("spike_") : LIMITS.index("\nsentinels")],
            "spike_step_m = 0.65\n# identical readings in a row before a float counts as stuck\nflat_samples = 18",
        ),
        r.bash(
            "git mv catalog/limits.ini catalog/thresholds.ini && git add -A && git commit -qm 'Check spikes and stuck floats, new limits' && python - <<'EOF'\nfrom glob import glob\nfrom gauge.checks import flat_runs, spikes\nfrom gauge.dedupe import merge\nfrom gauge.ledger import Ledger\nfrom gauge.reader import read_rows\n"
            f"for path in sorted(glob('{BASE}/RG-*.csv')):\n    rows = merge(read_rows(path), Ledger('x'))\n"
            "    found = spikes(rows, 'stage', 0.65)\n    runs = flat_runs(rows, 'stage', 18)\n"
            "    print(f\"{path[12:18]} spikes={len(found)} highest={max([r.values['stage'] for r in found], default='-')} stuck={[len(x) for x in runs]}\")\nEOF"
        ),
    )


def pipeline(r: Any, s: SimpleNamespace) -> None:
    r.user(
        "Looks right to me. Put the parts together now, so that `make clean-data` writes one file per station, the ledger and a line of counts that I can paste into the log."
    )
    r.agent(
        "The order matters: clock and merge first, then placeholders, units, and only then the checks, which are in metres. The grid is completed at the end with empty rows.",
        r.write("gauge/clean.py", CLEAN.lstrip().replace("@LIMITS@", "catalog/limits.ini")),
        r.todo(
            ("Reader: delimiter, BOM, dates, placeholders", "completed"), ("Units and offsets", "completed"), ("Duplicates", "completed"),
            ("Spikes and stuck floats", "completed"), ("Pipeline with ledger", "in_progress"), ("Reports", "pending"),
        ),
        r.bash("python -m gauge.clean --quarter 2025-q3 2>&1 | tail -1"),
    )  # fmt: skip
    r.agent(
        "It still asks for the file under its former name; ConfigParser skips a missing file in silence and then misses the section. Corrected, and it should say so itself the next time.",
        r.edit(
            "gauge/clean.py",
            '    limits.read("catalog/limits.ini")\n',
            '    with open("catalog/thresholds.ini", encoding="utf-8") as handle:\n        limits.read_file(handle)\n',
        ),
        r.bash("make clean-data"),
    )
    out = r.messages[-1].text
    s.first_crc = pick(out, rf"{s.holes} .*crc32=(\w+)")
    conv = pick(out, rf"{s.feet} .*converted=(\d+)")
    r.truth.fact(s.first_crc, conv)
    r.agent(
        f"That is the line of counts per station. {s.feet} has {conv} converted cells, {s.holes} {s.missing} gaps. A look into the result and into the ledger, whether they tell the same story.",
        r.bash(
            f"sed -n '1p;{s.swap}p;{s.swap + 1}p;{s.swap + 2}p' clean/2025-q3/{s.feet}.csv && grep -c spike clean/2025-q3/{s.holes}.csv && grep spike clean/2025-q3/{s.holes}.csv | head -3"
        ),
        r.bash(
            "python -m gauge.ledger clean/2025-q3/ledger.jsonl && printf 'clean/\\n' > .gitignore && git add -A && git commit -qm 'Join the steps into one pipeline' && wc -c clean/2025-q3/*"
        ),
    )
    r.agent(
        "They agree, and every blanked reading has its old value in the ledger. Generated files stay out of the history, the raw files and the code are enough to make them again."
    )


def weather(r: Any, s: SimpleNamespace) -> None:
    r.user(
        f"Two corrections for the weather side. The calibration sheet {s.certificate} came in: the bucket of {s.local} is {s.tip} mm a tip, not 0.2. "
        "And its logger runs on summer time, two hours ahead of UTC. Is that visible in the data?"
    )
    r.truth.update("tip_mm", "tip_mm = 0.2", f"tip_mm = {s.tip}")
    r.agent(
        "It should be: the warmest hour of the day must come two hours later than at the other posts.",
        r.bash(
            "python - <<'EOF'\nfrom collections import defaultdict\nfrom gauge.reader import read_rows\n"
            f"for code in {tuple(s.met)!r}:\n    hours = defaultdict(list)\n"
            f"    for row in read_rows(f'{BASE}/{{code}}_met.csv'):\n        hours[row.time.hour].append(row.values['temp'])\n"
            "    means = {h: sum(v) / len(v) for h, v in hours.items()}\n    top = max(means, key=means.get)\n    low = min(means, key=means.get)\n"
            "    print(f'{code} warmest_hour={top} at={means[top]:.3f} coldest_hour={low} at={means[low]:.3f}')\nEOF"
        ),
        r.read("catalog/climate.ini"),
    )
    out = r.messages[-2].text
    late, early = pick(out, rf"{s.local} warmest_hour=(\d+)"), pick(out, rf"{s.fahr} warmest_hour=(\d+)")
    r.agent(
        f"Visible indeed: {s.local} is warmest in hour {late}, {s.fahr} in hour {early}. (There is no climate.ini, I had the name wrong; the bucket size stands in the thresholds file.) I enter both.",
        r.edit("catalog/thresholds.ini", "tip_mm = 0.2", f"tip_mm = {s.tip}"),
        r.edit("catalog/corrections.json", '"clock": []', f'"clock": [{{"code": "{s.local}", "shift_minutes": -120}}]'),
        r.bash(f"python -m gauge.clean --quarter 2025-q3 --only {' '.join(s.met)}"),
    )
    r.agent(
        "The ledger was emptied by this partial run, since it starts afresh each time. I do the full run at the end anyway. Rain total and first rows of the shifted station, then the tests and a commit:",
        r.bash(
            f'awk -F, \'NR>1 {{d=substr($1,1,10); t[d]+=$4; s+=$4; if ($4>m) m=$4}} END {{for (d in t) if (t[d]>0) printf "%s rain=%.3f\\n", d, t[d]; '
            f"printf \"total: rain_total=%.3f rain_max=%.3f\\n\", s, m}}' clean/2025-q3/{s.local}.csv | sort && sed -n '2,3p' clean/2025-q3/{s.local}.csv && "
            "python -m pytest -q && git commit -qam 'Use calibrated bucket and UTC for the third post' && git log -1 --format='commit=%h' && git diff -U0 HEAD~1 | grep '^[-+]'"
        ),
    )
    s.rain = pick(r.messages[-1].text, r"rain_total=([\d.]+)")
    r.truth.fact(s.rain, s.certificate, s.tip)
    r.agent(
        f"Rain total of {s.local} is {s.rain} mm with the calibrated bucket. That also explains its seventeenth day: its file now starts at midnight like those of the other posts, where the raw export begins at 02:00."
    )


def late_file(r: Any, s: SimpleNamespace) -> None:
    s.late_id = f"DLV-{s.rng.randrange(16**6):06x}"
    name = f"{s.holes}_stage_late.csv"
    r.file(f"{BASE}/{name}", s.late)
    r.user(
        f"The crew found the missing rows of {s.holes} on a second card. I have put them beside the others as {name}, delivery {s.late_id}. "
        "Please take them in and tell me if the gap is closed."
    )
    r.truth.fact(s.late_id)
    r.agent(
        "First what is in it, and whether it overlaps.",
        r.bash(
            f"python scripts/profile_raw.py {BASE}/{name} && comm -12 <(sort {BASE}/{s.holes}_stage.csv) <(sort {BASE}/{name})"
        ),
    )
    r.agent(
        "Eight rows and the header are in both files, identical, the merge will drop them as duplicates. The pipeline takes every file of a station, so a plain run does it.",
        r.bash(f"python -m gauge.clean --quarter 2025-q3 --only {s.holes}"),
    )
    s.second_crc = pick(r.messages[-1].text, r"crc32=(\w+)")
    gap = pick(r.messages[-1].text, r"gap=(\d+)")
    r.truth.update("checksum of the clean file", s.first_crc, s.second_crc)
    r.truth.fact(s.second_crc)
    r.agent(
        f"Closed: gap={gap}, where the first run had {s.missing}. The checksum of the clean file changes from {s.first_crc} to {s.second_crc}. "
        f"The index still names only {s.delivery[s.holes]} for this station; since that folder is not mine to write in, I put the second delivery into docs, and the notes get a better name on this occasion.",
        r.bash(
            f"git mv docs/notes.md docs/visits.md && printf -- '- {s.holes}: second card {s.late_id} closes the gap left by {s.delivery[s.holes]}.\\n' > docs/late-cards.md"
        ),
        r.edit("docs/visits.md", "calibration sheet not filed yet", f"calibration sheet {s.certificate}"),
        r.bash("git add -A && git status --short && git commit -qm 'Take in the second card' && git log -1 --format='commit=%h'"),
    )


def reports(r: Any, s: SimpleNamespace) -> None:
    r.user(
        "Time for the reports: one page per station and a summary table with the share of usable intervals. These pages go to landowners, so only station codes in them, no place or river names."
    )
    r.truth.constraint("only station codes in them, no place or river names")
    r.agent(
        "One module for both. The share of usable intervals counts rows whose quality is ok.",
        r.write("gauge/report.py", REPORT.lstrip()),
        r.todo(
            ("Reader: delimiter, BOM, dates, placeholders", "completed"), ("Units and offsets", "completed"), ("Duplicates", "completed"),
            ("Spikes and stuck floats", "completed"), ("Pipeline with ledger", "completed"), ("Reports", "in_progress"),
        ),
        r.bash("make clean-data > /dev/null && python -m gauge.report 2025-q3"),
    )  # fmt: skip
    out = r.messages[-1].text
    share = pick(out, rf'"{s.holes}", "intervals": \d+, "usable_pct": ([\d.]+)')
    r.agent(
        f"{s.holes} comes out at {share} percent usable. That is too good, it has 17 placeholders which are empty cells and yet count as ok. Let me see the page.",
        r.read("gauge/clean.py", 32, 20),
        r.bash(
            f'cat reports/2025-q3/{s.holes}.md && awk -F, \'$2=="" {{print $1" quality="$5}}\' clean/2025-q3/{s.holes}.csv | sort -k2 | awk \'{{n[$2]++}} END {{for (q in n) print q" "n[q]}}\' | sort'
        ),
    )
    r.agent(
        "Confirmed: the pipeline notes placeholders in the ledger but forgets to put the reason on the row. A test for it first, then the line.",
        r.write("tests/test_clean.py", TEST_CLEAN.lstrip()),
        r.bash("python -m pytest -q --tb=line tests/test_clean.py"),
    )
    r.agent(
        "",
        r.edit(
            "gauge/clean.py",
            '            ledger.note(row, "sentinel", column=column)\n',
            '            ledger.note(row, "sentinel", column=column)\n            row.reasons.append("sentinel")\n',
        ),
        r.edit("gauge/clean.py", "    received = len(row)", "    received = len(rows)  # before merging"),
    )
    r.agent(
        "The second edit was superfluous, the name there was right already. Everything again from the start:",
        r.bash("python -m pytest -q && make clean-data > /dev/null && python -m gauge.report 2025-q3"),
    )
    out = r.messages[-1].text
    better = pick(out, rf'"{s.holes}", "intervals": \d+, "usable_pct": ([\d.]+)')
    r.truth.update("usable share", share, better)
    r.truth.fact(share, better)
    r.agent(
        f"Now {better} percent for {s.holes}, which fits its placeholders and spikes. I also check that none of the site names has got into the pages, and look at one weather page.",
        r.bash(
            "python -c \"import json; print('\\n'.join(s['site'] for s in json.load(open('catalog/stations.json'))))\" | grep -rnFf - reports | wc -l && "
            f"cat reports/2025-q3/{s.local}.md && cksum reports/2025-q3/summary.csv"
        ),
    )
    r.user(
        "Nice pages. The awk helper confuses new people, it can go. And write a test that keeps the fish pass lifts alive, with the smallest and the largest one as they are in the file."
    )
    r.agent(
        "Removing the helper, and fetching the two lifts from the raw file.",
        r.bash(
            f"git rm -q tools/fixup_2023.awk && sed -n '{s.lifts[0] + 1},{s.lifts[0] + 3}p;{s.lifts[3] + 1},{s.lifts[3] + 3}p' {BASE}/{s.gates}_stage.csv"
        ),
    )
    lines = [float(line.split(",")[1]) for line in r.messages[-1].text.splitlines()]
    wrong_test = f'\n\n\ndef test_fish_pass_lifts_survive():\n    assert spikes(series({", ".join(map(str, lines))}), "stage", 0.40) == []\n'
    r.agent(
        "",
        r.bash(f"cat >> tests/test_checks.py <<'EOF'{wrong_test}EOF\npython -m pytest -q --tb=line tests/test_checks.py"),
    )
    r.agent(
        "Habit: I wrote the superseded limit into the test. It has to be the one from the thresholds file, 0.65, and better read from there than copied.",
        r.bash(
            'sed -i \'s/"stage", 0.40) == \\[\\]$/"stage", LIMIT) == []/\' tests/test_checks.py && '
            "sed -i '1i import configparser' tests/test_checks.py && "
            'sed -i \'s/^def series/LIMITS = configparser.ConfigParser()\\nLIMITS.read("catalog\\/thresholds.ini")\\nLIMIT = LIMITS.getfloat("checks", "spike_step_m")\\n\\n\\ndef series/\' tests/test_checks.py && '
            "python -m pytest -q && git add -A && git commit -qm 'Report per station, guard the lifts, drop awk helper' && "
            "git show --stat --format='commit=%h parent=%p' HEAD"
        ),
    )


TEST_CLEAN = """
import configparser

from gauge.clean import clean_station

TEXT = "timestamp,stage,flag\\n2025-07-03T00:00,0.80,P\\n2025-07-03T00:30,NA,P\\n2025-07-03T01:30,0.81,P\\n"


def test_empty_cells_carry_a_reason(tmp_path):
    path = tmp_path / "RG-000_stage.csv"
    path.write_text(TEXT)
    limits = configparser.ConfigParser()
    limits.read("catalog/thresholds.ini")
    rows, _, facts = clean_station("RG-000", [path], limits, {"units": [], "clock": []})
    assert [row.reasons for row in rows] == [[], ["sentinel"], ["gap"], []]
    assert facts["rows_in"] == 3
"""


DAILY = '''
"""Daily mean, lowest and highest value of a column, from cleaned files only."""

import csv
import sys
from collections import defaultdict

ENOUGH = 40  # of 48 intervals; a day with fewer gets no mean


def daily(path, column):
    days = defaultdict(list)
    with open(path, newline="") as handle:
        for row in csv.DictReader(handle):
            days[row["timestamp"][:10]].append(row[column])
    for day, cells in sorted(days.items()):
        good = [float(cell) for cell in cells if cell]
        mean = sum(good) / len(good) if len(good) >= ENOUGH else None
        yield day, mean, min(good, default=None), max(good, default=None), len(good)


def main(quarter, column, *codes):
    for code in codes:
        for day, mean, low, high, used in daily(f"clean/{quarter}/{code}.csv", column):
            shown = "-" if mean is None else f"{mean:.4f}"
            print(f"{code} {day} mean={shown} low={low} high={high} used={used}")


if __name__ == "__main__":
    main(*sys.argv[1:])
'''

TEST_DAILY = """
from gauge.daily import daily


def test_a_thin_day_has_no_mean(tmp_path):
    path = tmp_path / "RG-000.csv"
    lines = [f"2025-07-03T{n // 2:02d}:{n % 2 * 30:02d},{'' if n < 9 else '0.5'},P,ok" for n in range(48)]
    path.write_text("timestamp,stage,flag,quality\\n" + "\\n".join(lines) + "\\n")
    assert list(daily(path, "stage")) == [("2025-07-03", None, 0.5, 0.5, 39)]
"""


def days(r: Any, s: SimpleNamespace) -> None:
    r.user(
        "For the flood bulletin we also need daily mean, low and high of the stage per river station. A day with fewer than 40 of its 48 readings must not get a mean."
    )
    r.agent(
        "A small module which reads cleaned files only, and a test for the thin day.",
        r.write("gauge/daily.py", DAILY.lstrip()),
        r.write("tests/test_daily.py", TEST_DAILY.lstrip()),
        r.bash(f"python -m pytest -q tests/test_daily.py && python -m gauge.daily 2025-q3 stage {' '.join(s.river)}"),
    )
    out = r.messages[-1].text
    found = re.findall(rf"{s.resend} (\S+) mean=([\d.]+) low=([\d.]+) high=([\d.]+)", out)
    top = max(found, key=lambda item: float(item[3]))
    thin = re.findall(rf"{s.euro} (\S+) mean=\S+ low=\S+ high=\S+ used=(\d+)", out)
    least = min(thin, key=lambda item: int(item[1]))
    r.truth.fact(top[1], top[3])
    r.agent(
        f"The highest water at {s.resend} was {top[3]} m on {top[0]}, with a daily mean of {top[1]}. The thinnest day is {least[0]} at {s.euro}, {least[1]} readings because of the stuck float. "
        "The same command works for the weather posts; temperature and pressure, since there the corrected posts can be compared with their neighbours day by day.",
        r.bash(
            f"for c in temp pressure; do echo \"$c\"; python -m gauge.daily 2025-q3 $c {' '.join(s.met)} | cut -d' ' -f1-5; done && git add -A && git commit -qm 'Add daily values' && git log -1 --format='commit=%h'"
        ),
    )


def handover(r: Any, s: SimpleNamespace) -> None:
    r.user(
        "Last thing for today: a handover in docs/ for the desk. What was wrong at each station, since when, what we did, the numbers they may be asked about, and what is still open."
    )
    r.agent(
        "I collect the final numbers from one run so that the text does not rely on memory for them.",
        r.bash(
            "python -m gauge.clean --quarter 2025-q3 | cut -d' ' -f1,2,4- && python -m gauge.ledger clean/2025-q3/ledger.jsonl spike conflict"
        ),
    )
    out = r.messages[-1].text
    final = {code: pick(out, rf"{code} .*crc32=(\w+)") for code in s.names}
    r.truth.fact(final[s.feet], final[s.gates])
    text = f"""
# Handover, third quarter 2025

| station | since | what was wrong | what was done |
|---|---|---|---|
| {s.feet} | {s.swap_time} | logger {s.serial[s.feet]} reports feet after firmware {s.firmware_new} (visit {s.case}) | multiplied by 0.3048 from that time on |
| {s.resend} | re-sent block | {s.fixed} verified rows overwritten by provisional ones further down | verified rows kept |
| {s.holes} | all | placeholders, wild readings, {s.missing} rows missing in {s.delivery[s.holes]} | emptied; gap closed by {s.late_id} |
| {s.euro} | all | other dialect, float stuck for {s.stuck} readings | read as it is, stuck run emptied |
| {s.gates} | - | gate lifts look like spikes | kept; limit 0.65 m, stuck after 18 |
| {s.fahr} | all | Fahrenheit | converted |
| {s.mercury} | {short(s.start + s.mercury_from * STEP)} | mmHg | converted |
| {s.local} | all | bucket tips, summer time | {s.tip} mm a tip ({s.certificate}), moved by -120 minutes |

Checksums of the clean files: {", ".join(f"{code} {crc}" for code, crc in final.items())}.

## Open

- {s.feet}: the logger should be set back to metres at the next visit; add an end to its period in `catalog/corrections.json` then.
- {s.resend}: ask the technician for the paper sheet of the {s.fixed} verified readings.
- A partial run (`--only`) starts the ledger afresh. Run everything before handing files out.
"""
    r.agent(
        f"Writing it with the swap time {s.swap_time}, the delivery ids and the limits as they now stand in the thresholds file.",
        r.write("docs/handover-2025-q3.md", text.lstrip()),
    )
    r.truth.later(s.swap_time)
    r.truth.later(s.firmware_new)
    r.truth.later(s.case)
    r.truth.later(s.delivery[s.holes])
    r.truth.later(s.serial[s.feet])
    r.user(
        f"Reads well. How sure are you about the -120 for {s.local}? Somebody at the desk thinks it was only one hour. One check on the cleaned file would be enough for me."
    )
    r.agent(
        "Cross-check on cleaned data: shift the temperature of this post against another and see where the two fit best.",
        r.bash(
            "python - <<'EOF'\nimport csv\n\n"
            "def temps(code):\n    with open(f'clean/2025-q3/{code}.csv', newline='') as f:\n        return {r['timestamp']: float(r['temp']) for r in csv.DictReader(f)}\n\n"
            f"from datetime import datetime, timedelta\na, b = temps('{s.local}'), temps('{s.mercury}')\n"
            "for minutes in (-120, -60, -30, 0, 30, 60, 120):\n"
            "    pairs = [(v, b.get((datetime.fromisoformat(t) + timedelta(minutes=minutes)).isoformat(timespec='minutes'))) for t, v in a.items()]\n"
            "    diffs = [(x - y) ** 2 for x, y in pairs if y is not None]\n"
            "    print(f'lag={minutes:+d} pairs={len(diffs)} rms={(sum(diffs) / len(diffs)) ** 0.5:.4f}')\nEOF"
        ),
    )
    rms = {int(a): float(b) for a, b in re.findall(r"lag=([+-]\d+) pairs=\d+ rms=([\d.]+)", r.messages[-1].text)}
    best = min(rms, key=lambda k: rms[k])
    if best != 0:
        raise RuntimeError("data_cleaning: the clock check does not come out as told")
    r.truth.fact(f"{rms[0]:.4f}", f"{rms[60]:.4f}")
    r.agent(
        f"The fit is best without any further shift, rms {rms[0]:.4f} degrees; one hour off it would be {rms[60]:.4f} in one direction and {rms[-60]:.4f} in the other. So two hours is right.",
        r.todo(
            ("Reader: delimiter, BOM, dates, placeholders", "completed"), ("Units and offsets", "completed"), ("Duplicates", "completed"),
            ("Spikes and stuck floats", "completed"), ("Pipeline with ledger", "completed"), ("Reports", "completed"), ("Handover", "completed"),
        ),
        r.bash("make test && git add -A && git commit -qm 'Write the handover for the desk' && git log -1 --format='commit=%h tree=%t' && git status --short | wc -l"),
    )  # fmt: skip
    r.agent(
        f"Done. The handover is in docs/handover-2025-q3.md. Two things need a person: setting logger {s.serial[s.feet]} of {s.feet} back to metres, after which its period in the corrections file needs "
        f"an end, and the paper sheet for the {s.fixed} verified readings of {s.resend}. Everything else can be made again with make clean-data."
    )
