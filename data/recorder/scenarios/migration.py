"""A museum's catalogue moves from a flat sqlite schema to a normalised one, rehearsed on copies of the database."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from textwrap import dedent

TITLE = "Schema and data migration of a museum collection catalogue"
PROJECT = "larkmere-catalogue"

README = """
# Larkmere catalogue

The collection database of the Larkmere Museum: one sqlite file, a migration runner and a few tools.

    python tools/profile.py data/legacy.sqlite       what a database holds
    python -m larkmere.migrate work/some.sqlite      apply the files of migrations/ that are missing
    python -m pytest -q                              tests

The legacy file has schema version 3. Version 4 and later are described in docs/schema.md.
"""

INI = """
[migrate]
busy_timeout_ms = @busy@
circa_years = 5
review_limit = @limit@

[registrar]
host = catdesk-@host@.example.com
lock_file = registrar-@lock@.lock
backup_slot = @slot@
"""

RUNNER = '''
"""Apply the numbered files of migrations/ to one database."""

import argparse
import configparser
import hashlib
import sqlite3
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent


def settings(path=HERE / "config" / "migrate.ini"):
    parser = configparser.ConfigParser()
    parser.read(path)
    return parser["migrate"]


def connect(path, config):
    conn = sqlite3.connect(path, timeout=config.getint("busy_timeout_ms") / 1000)
    conn.execute("PRAGMA foreign_keys = ON")
    return conn


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def apply(conn, path):
    with conn:
        conn.executescript(path.read_text(encoding="utf-8"))
        conn.execute("INSERT INTO schema_history VALUES (?, ?, ?)", (int(path.name[:3]), path.name, digest(path)))


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("database")
    parser.add_argument("--folder", type=Path, default=HERE / "migrations")
    options = parser.parse_args(arguments)
    conn = connect(options.database, settings())
    recorded = dict(conn.execute("SELECT version, digest FROM schema_history"))
    for path in sorted(options.folder.glob("[0-9][0-9][0-9]_*.*")):
        version = int(path.name[:3])
        if version in recorded:
            if recorded[version] != digest(path):
                print(f"error: {path.name} was changed after it was applied (recorded {recorded[version]})")
                return 3
            continue
        try:
            apply(conn, path)
        except sqlite3.Error as problem:
            print(f"error: {path.name}: {problem}")
            return 1
        print(f"applied {path.name} digest={digest(path)}")
    print("schema version:", conn.execute("SELECT max(version) FROM schema_history").fetchone()[0])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
'''

DATING = '''
"""Years from the free text of the dating field."""

import re

YEAR = re.compile(r"(\\d{4})$")
CIRCA = re.compile(r"(?:c\\.|ca) ?(\\d{4})$")
RANGE = re.compile(r"(\\d{4})-(\\d{4})$")


class Unreadable(ValueError):
    pass


def years(text, circa):
    """(first, last) year; (None, None) when nothing is said; Unreadable when it is not understood."""
    text = text.strip().lower()
    if text in ("", "undated", "n.d."):
        return None, None
    if found := YEAR.match(text):
        return int(found[1]), int(found[1])
    if found := CIRCA.match(text):
        return int(found[1]) - circa, int(found[1]) + circa
    if found := RANGE.match(text):
        return int(found[1]), int(found[2])
    raise Unreadable(text)
'''

TEST_DATING = """
import pytest

from larkmere.dating import Unreadable, years
from larkmere.migrate import settings

CIRCA = settings().getint("circa_years")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("1843", (1843, 1843)),
        (" 1843 ", (1843, 1843)),
        ("c. 1840", (1835, 1845)),
        ("ca 1840", (1835, 1845)),
        ("1760-1780", (1760, 1780)),
        ("", (None, None)),
        ("n.d.", (None, None)),
    ],
)
def test_years(text, expected):
    assert years(text, CIRCA) == expected


def test_nonsense_is_not_guessed():
    with pytest.raises(Unreadable):
        years("in the old harbourmaster's time", CIRCA)
"""

TEST_HISTORY = """
from larkmere.migrate import HERE, digest


def test_every_migration_has_its_own_number():
    numbers = [path.name[:3] for path in (HERE / "migrations").iterdir()]
    assert len(numbers) == len(set(numbers))


def test_digest_is_short_hex():
    assert len(digest(HERE / "migrations" / "001_objects.sql")) == 16
"""

PROFILE = '''
"""What a catalogue database holds: counts and the usual suspects."""

import sqlite3
import sys

conn = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)


def one(sql):
    return conn.execute(sql).fetchone()[0]


print(f"database: {sys.argv[1]}")
for (name,) in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall():
    print(f"rows.{name}: {one(f'SELECT count(*) FROM {name}')}")
print("integrity:", one("PRAGMA integrity_check"))
print("accessions.distinct:", one("SELECT count(DISTINCT accession) FROM objects"))
print("accessions.longest:", one("SELECT max(length(accession)) FROM objects"))
print("makers.as_written:", one("SELECT count(DISTINCT maker) FROM objects"))
print("made.as_written:", one("SELECT count(DISTINCT made) FROM objects"))
print("dims.empty:", one("SELECT count(*) FROM objects WHERE dims = ''"))
print("shelves.distinct:", one("SELECT count(DISTINCT shelf) FROM objects"))
print("insured_pence.total:", one("SELECT sum(insured_pence) FROM objects"))
print("insured_pence.highest:", one("SELECT max(insured_pence) FROM objects"))
print("loans.without_object:", one("SELECT count(*) FROM loans WHERE accession NOT IN (SELECT accession FROM objects)"))
print("loans.fee_pence.total:", one("SELECT sum(fee_pence) FROM loans"))
print("photos.bytes.total:", one("SELECT sum(bytes) FROM photos"))
'''

OLD_IMPORT = '''
"""One-off import of the card index, run in spring 2009. Kept for reference."""

import csv
import re
import sys

# the form of 2009 had no field for the part letter
PART = re.compile(r"(\\d)([a-f])$")


def row(card):
    number = card["number"].strip()
    note = card["remark"]
    if found := PART.search(number):
        number = PART.sub(r"\\1", number)
        note = f"part {found[2]} of {card['pieces']}"
    return number, card["title"].strip(), note


if __name__ == "__main__":
    for card in csv.DictReader(sys.stdin):
        print("\\t".join(row(card)))
'''

SQL = {
    "001_objects.sql": """
        -- 001: the flat table, as imported from the card index
        CREATE TABLE objects (
            id INTEGER PRIMARY KEY, accession TEXT NOT NULL, title TEXT NOT NULL, maker TEXT NOT NULL,
            made TEXT NOT NULL, dims TEXT NOT NULL, shelf TEXT NOT NULL, donor TEXT NOT NULL,
            insured_pence INTEGER NOT NULL, note TEXT NOT NULL
        );
        """,
    "002_loans.sql": """
        -- 002: loans, and what has left the colection
        CREATE TABLE loans (
            id INTEGER PRIMARY KEY, accession TEXT NOT NULL, borrower TEXT NOT NULL,
            out_on TEXT NOT NULL, fee_pence INTEGER NOT NULL
        );
        CREATE TABLE deaccessions (id INTEGER PRIMARY KEY, year INTEGER NOT NULL, reason TEXT NOT NULL);
        """,
    "003_photos.sql": """
        -- 003: photografs
        CREATE TABLE photos (
            id INTEGER PRIMARY KEY, object_id INTEGER NOT NULL REFERENCES objects(id),
            filename TEXT NOT NULL, bytes INTEGER NOT NULL
        );
        """,
}

DATING_MD = """
# Dating rules

- A single year is both first and last year.
- `c.` and `ca` mean five years either way.
- A decade (`1840s`) runs from its first to its last year.
- A century (`18th century`) runs from 1701 to 1800; `early` is its first third, `late` its last third (34 years).
- `before 1900` has no first year; its last year is 1899.
- A range may be shortened (`1760–80`), with a hyphen or an en dash.
- Whatever else is written goes to the review list of the curators, never a guess.
"""

STRUCTURES = """
-- 004: place, maker and artefact instead of the flat objects table
CREATE TABLE place (
    id INTEGER PRIMARY KEY, store TEXT NOT NULL, bay TEXT NOT NULL, shelf TEXT NOT NULL,
    UNIQUE (store, bay, shelf)
);
CREATE TABLE maker (id INTEGER PRIMARY KEY, name TEXT NOT NULL, match_key TEXT NOT NULL UNIQUE);
CREATE TABLE artefact (
    id INTEGER PRIMARY KEY,
    accession TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    maker_id INTEGER REFERENCES maker(id),
    place_id INTEGER NOT NULL REFERENCES place(id),
    donor TEXT NOT NULL, insured_pence INTEGER NOT NULL, note TEXT NOT NULL
);
INSERT INTO place (store, bay, shelf)
    SELECT DISTINCT substr(shelf, 1, 1), substr(shelf, 3, 2), substr(shelf, 6) FROM objects ORDER BY 1, 2, 3;
INSERT INTO maker (name, match_key)
    SELECT max(trim(maker)), fold(maker) FROM objects
    WHERE fold(maker) NOT IN ('', '?', 'unknown') GROUP BY fold(maker) ORDER BY 2;
INSERT INTO artefact
    SELECT o.id, o.accession, o.title, m.id, p.id, o.donor, o.insured_pence, o.note
    FROM objects o
    JOIN place p ON o.shelf = p.store || '-' || p.bay || '-' || p.shelf
    LEFT JOIN maker m ON m.match_key = fold(o.maker)
    ORDER BY o.id;
"""

TAKE_COPY = '''
"""Copy a catalogue database through sqlite's backup interface; the source is opened read-only."""

import hashlib
import sqlite3
import sys
from pathlib import Path

source, target = sys.argv[1:3]
Path(target).parent.mkdir(exist_ok=True)
Path(target).unlink(missing_ok=True)
old = sqlite3.connect(f"file:{source}?mode=ro", uri=True)
new = sqlite3.connect(target)
old.backup(new)
for table in ("objects", "loans", "photos"):
    mark = hashlib.sha256()
    for row in new.execute(f"SELECT * FROM {table} ORDER BY id"):
        mark.update(repr(row).encode())
    print(f"{table}.content: {mark.hexdigest()[:12]}")
print(f"copied {source} -> {target}")
'''

TEST_RUNNER = '''
import sqlite3

import pytest

from larkmere import migrate

GOOD = "CREATE TABLE lantern (id INTEGER PRIMARY KEY, wick TEXT);"
BAD = """
CREATE TABLE anchor (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
INSERT INTO anchor (name) VALUES ('bower');
-- the same name again; must be refused
INSERT INTO anchor (name) VALUES ('bower');
"""


@pytest.fixture
def empty(tmp_path):
    conn = migrate.connect(tmp_path / "x.sqlite", migrate.settings())
    conn.execute("CREATE TABLE schema_history (version INTEGER PRIMARY KEY, name TEXT, digest TEXT)")
    conn.commit()
    return conn


def tables(conn):
    return [name for (name,) in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]


def test_good_file_is_recorded(empty, tmp_path):
    path = tmp_path / "101_lantern.sql"
    path.write_text(GOOD)
    migrate.apply(empty, path)
    assert tables(empty) == ["lantern", "schema_history"]
    assert empty.execute("SELECT version FROM schema_history").fetchall() == [(101,)]


def test_failed_file_leaves_nothing(empty, tmp_path):
    path = tmp_path / "102_anchor.sql"
    path.write_text(BAD)
    with pytest.raises(sqlite3.IntegrityError):
        migrate.apply(empty, path)
    assert tables(empty) == ["schema_history"]
'''

APPLY_OLD = RUNNER[RUNNER.index("def apply") : RUNNER.index("def main")].strip()

APPLY_NEW = '''
def statements(sql):
    """The statements of a script one by one; `executescript` would commit before it starts."""
    pending = ""
    for line in sql.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending.strip()
            pending = ""


def apply(conn, path):
    conn.isolation_level = None  # BEGIN and COMMIT are ours
    conn.execute("BEGIN IMMEDIATE")
    try:
        for statement in statements(path.read_text(encoding="utf-8")):
            conn.execute(statement)
        conn.execute("INSERT INTO schema_history VALUES (?, ?, ?)", (int(path.name[:3]), path.name, digest(path)))
    except BaseException:
        conn.execute("ROLLBACK")
        raise
    conn.execute("COMMIT")
'''.strip()

ARTEFACT_INSERT_NEW = """
CREATE TABLE merged_entry (dropped_id INTEGER PRIMARY KEY, kept_id INTEGER NOT NULL REFERENCES artefact(id));
INSERT INTO artefact
    SELECT o.id, o.accession, CASE WHEN o.note LIKE 'part _ of _' THEN substr(o.note, 6, 1) ELSE '' END,
        o.title, m.id, p.id, o.donor, o.insured_pence, o.note
    FROM objects o
    JOIN place p ON o.shelf = p.store || '-' || p.bay || '-' || p.shelf
    LEFT JOIN maker m ON m.match_key = fold(o.maker)
    WHERE NOT EXISTS (SELECT 1 FROM objects e WHERE e.accession = o.accession AND e.title = o.title AND e.id < o.id)
    ORDER BY o.id;
INSERT INTO merged_entry
    SELECT o.id, min(e.id) FROM objects o JOIN objects e ON e.accession = o.accession AND e.title = o.title
    WHERE e.id < o.id GROUP BY o.id;
CREATE TABLE photo (
    id INTEGER PRIMARY KEY, artefact_id INTEGER NOT NULL REFERENCES artefact(id),
    filename TEXT NOT NULL, bytes INTEGER NOT NULL
);
INSERT INTO photo
    SELECT p.id, coalesce(g.kept_id, p.object_id), p.filename, p.bytes
    FROM photos p LEFT JOIN merged_entry g ON g.dropped_id = p.object_id ORDER BY p.id;
""".strip()

DATING_MORE = """
DECADE = re.compile(r"(\\d{3}0)s$")
SHORT_RANGE = re.compile(r"(\\d{2})(\\d{2})[-\\u2013](\\d{2})$")
CENTURY = re.compile(r"(?:(early|late) )?(\\d\\d)th century$")
BEFORE = re.compile(r"before (\\d{4})$")


class Unreadable""".lstrip()

DATING_MORE_RULES = """
        return int(found[1]), int(found[2])
    if found := DECADE.match(text):
        return int(found[1]), int(found[1]) + 9
    if found := SHORT_RANGE.match(text):
        return int(found[1] + found[2]), int(found[1] + found[3])
    if found := CENTURY.match(text):
        start = int(found[2]) * 100 - 99
        first = start + 66 if found[1] == "late" else start
        last = start + 33 if found[1] == "early" else start + 99
        return first, last
    if found := BEFORE.match(text):
        return None, int(found[1]) - 1
    raise Unreadable(text)""".lstrip("\n")

M005 = '''
"""005: first and last year of every artefact; what cannot be read goes to dating_review."""

from larkmere.dating import Unreadable, years


def run(conn, config):
    circa, limit = config.getint("circa_years"), config.getint("review_limit")
    conn.execute(
        "CREATE TABLE dating (artefact_id INTEGER PRIMARY KEY REFERENCES artefact(id),"
        " as_written TEXT NOT NULL, first_year INTEGER, last_year INTEGER)"
    )
    conn.execute("CREATE TABLE dating_review (artefact_id INTEGER PRIMARY KEY, as_written TEXT NOT NULL)")
    read = undated = review = 0
    rows = conn.execute("SELECT a.id, o.made FROM artefact a JOIN objects o ON o.id = a.id ORDER BY a.id").fetchall()
    for key, text in rows:
        try:
            first, last = years(text, circa)
        except Unreadable:
            conn.execute("INSERT INTO dating_review VALUES (?, ?)", (key, text))
            review += 1
            continue
        if first is last is None:
            undated += 1
            continue
        conn.execute("INSERT INTO dating VALUES (?, ?, ?, ?)", (key, text, first, last))
        read += 1
    if review > limit:
        raise RuntimeError(f"{review} datings for review, review_limit is {limit}")
    return {"read": read, "undated": undated, "review": review}
'''

DIMS = '''
"""Dimensions from free text, in tenths of a millimetre (whole numbers)."""

import re

TENTHS = {"mm": 10, "cm": 100, "in": 254}
FORM = re.compile(r"(diam\\. )?(.+?) ?(mm|cm|in)$")


def tenths(text):
    """[(axis, size)]; [] when nothing is said; ValueError when it is not understood."""
    text = text.strip().lower()
    if not text:
        return []
    found = FORM.match(text)
    if not found:
        raise ValueError(text)
    sizes = [round(float(size) * TENTHS[found[3]]) for size in found[2].split(" x ")]
    axes = ["diameter"] if found[1] else ["height", "width", "depth"]
    if len(sizes) > len(axes):
        raise ValueError(text)
    return list(zip(axes, sizes))
'''

TEST_DIMS = """
import pytest

from larkmere.dims import tenths


def test_three_axes_in_millimetres():
    assert tenths("120 x 45 x 30 mm") == [("height", 1200), ("width", 450), ("depth", 300)]


def test_centimetres_with_a_fraction():
    assert tenths("12 x 4.5 cm") == [("height", 1200), ("width", 450)]


def test_inches_of_the_old_cards():
    assert tenths("4 1/2 x 3 in") == [("height", 1143), ("width", 762)]


def test_diameter():
    assert tenths("diam. 88 mm") == [("diameter", 880)]


def test_unclear_text_is_refused():
    with pytest.raises(ValueError):
        tenths("as long as a forearm")
"""

M006 = '''
"""006: dimension rows; what cannot be read stays as text in dimension_review."""

from larkmere.dims import tenths


def run(conn, config):
    conn.execute(
        "CREATE TABLE dimension (artefact_id INTEGER NOT NULL REFERENCES artefact(id), axis TEXT NOT NULL,"
        " tenths_mm INTEGER NOT NULL CHECK (tenths_mm > 0), PRIMARY KEY (artefact_id, axis))"
    )
    conn.execute("CREATE TABLE dimension_review (artefact_id INTEGER PRIMARY KEY, as_written TEXT NOT NULL)")
    rows = conn.execute("SELECT a.id, o.dims FROM artefact a JOIN objects o ON o.id = a.id ORDER BY a.id").fetchall()
    counts = {"sizes": 0, "without": 0, "review": 0, "sum_tenths": 0}
    for key, text in rows:
        try:
            sizes = tenths(text)
        except ValueError:
            conn.execute("INSERT INTO dimension_review VALUES (?, ?)", (key, text))
            counts["review"] += 1
            continue
        counts["without"] += not sizes
        for axis, size in sizes:
            conn.execute("INSERT INTO dimension VALUES (?, ?, ?)", (key, axis, size))
            counts["sizes"] += 1
            counts["sum_tenths"] += size
    return counts
'''

M007 = '''
"""007: loans point at artefacts; old numbers go through the concordance of 1998."""

import csv

from larkmere.migrate import HERE


def run(conn, config):
    with open(HERE / "data" / "concordance_1998.csv", encoding="utf-8", newline="") as lines:
        renumbered = {row["old"]: row["accession"] for row in csv.DictReader(lines)}
    conn.execute(
        "CREATE TABLE loan (id INTEGER PRIMARY KEY, artefact_id INTEGER NOT NULL REFERENCES artefact(id),"
        " number_on_form TEXT NOT NULL, borrower TEXT NOT NULL, out_on TEXT NOT NULL, fee_pence INTEGER NOT NULL)"
    )
    conn.execute("CREATE TABLE loan_review (id INTEGER PRIMARY KEY, number_on_form TEXT NOT NULL, fee_pence INTEGER)")
    # a loan of an object in parts hangs on its first part
    first_part = dict(conn.execute("SELECT accession, min(id) FROM artefact GROUP BY accession"))
    counts = {"direct": 0, "by_concordance": 0, "review": 0}
    for key, number, borrower, out_on, fee in conn.execute("SELECT * FROM loans ORDER BY id").fetchall():
        target = first_part.get(number) or first_part.get(renumbered.get(number))
        if target is None:
            conn.execute("INSERT INTO loan_review VALUES (?, ?, ?)", (key, number, fee))
            counts["review"] += 1
            continue
        conn.execute("INSERT INTO loan VALUES (?, ?, ?, ?, ?, ?)", (key, target, number, borrower, out_on, fee))
        counts["direct" if number in first_part else "by_concordance"] += 1
    return counts
'''

PUBLISH = '''
"""Write the website's copy of the collection: public/collection.jsonl and public/manifest.json."""

import hashlib
import json
import sqlite3
import sys

from larkmere.migrate import HERE

QUERY = """
SELECT a.accession, a.part, a.title, m.name AS maker, d.as_written AS dated, d.first_year, d.last_year, a.note
FROM artefact a LEFT JOIN maker m ON m.id = a.maker_id LEFT JOIN dating d ON d.artefact_id = a.id
ORDER BY a.id
"""


def publish(database, folder):
    conn = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    conn.row_factory = sqlite3.Row
    lines = [json.dumps(dict(row), ensure_ascii=False) for row in conn.execute(QUERY)]
    folder.mkdir(exist_ok=True)
    text = "\\n".join(lines) + "\\n"
    (folder / "collection.jsonl").write_text(text, encoding="utf-8")
    manifest = {"records": len(lines), "bytes": len(text.encode()), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\\n", encoding="utf-8")
    return manifest


if __name__ == "__main__":
    for name, value in publish(sys.argv[1], HERE / "public").items():
        print(f"public.{name}: {value}")
'''

TEST_PUBLISH = """
import json
import sqlite3

import pytest

from larkmere.migrate import HERE
from larkmere.publish import publish

DATABASE = HERE / "work" / "rehearsal.sqlite"


@pytest.fixture
def folder(tmp_path):
    publish(DATABASE, tmp_path)
    return tmp_path


def test_one_record_for_each_artefact(folder):
    wanted = sqlite3.connect(DATABASE).execute("SELECT count(*) FROM artefact").fetchone()[0]
    assert json.loads((folder / "manifest.json").read_text())["records"] == wanted


def test_no_private_names(folder):
    names = {name for (name,) in sqlite3.connect(DATABASE).execute("SELECT DISTINCT donor FROM artefact") if name}
    lines = (folder / "collection.jsonl").read_text(encoding="utf-8").splitlines()
    leaks = [line for line in lines if any(name in line for name in names)]
    assert not leaks, f"{len(leaks)} lines name a donor"
"""

COMPARE = '''
"""Compare a migrated database with the one it came from; exit 1 on any difference."""

import sqlite3
import sys

old = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
new = sqlite3.connect(f"file:{sys.argv[2]}?mode=ro", uri=True)
PAIRS = {
    "photographs": ("SELECT count(*) FROM photos", "SELECT count(*) FROM photo"),
    "photo bytes": ("SELECT sum(bytes) FROM photos", "SELECT sum(bytes) FROM photo"),
    "accessions": ("SELECT count(DISTINCT accession) FROM objects", "SELECT count(DISTINCT accession) FROM artefact"),
    "insured pence": ("SELECT sum(insured_pence) FROM objects", "SELECT sum(insured_pence) FROM artefact"),
    "loan fees": (
        "SELECT sum(fee_pence) FROM loans",
        "SELECT (SELECT sum(fee_pence) FROM loan) + (SELECT sum(fee_pence) FROM loan_review)",
    ),
}
bad = 0
for name, (before, after) in PAIRS.items():
    left, right = old.execute(before).fetchone()[0], new.execute(after).fetchone()[0]
    bad += left != right
    print(f"{name:14} old={left} new={right} {'same' if left == right else f'DIFFERENT by {left - right}'}")
print("foreign_key_check:", len(new.execute("PRAGMA foreign_key_check").fetchall()), "violations")
print("differences:", bad)
sys.exit(1 if bad else 0)
'''

TITLES = (
    "Sextant", "Tide table", "Harbour lamp", "Ship's bell", "Snuff box", "Net needle", "Chart case", "Pilot's coat",
    "Figurehead", "Tea caddy", "Signal flag", "Caulking mallet", "Oil portrait", "Boat model", "Sounding lead", "Ledger",
)  # fmt: skip
FIRST = ("Ada", "Bram", "Corin", "Dagny", "Edwin", "Fenna", "Gil", "Hester", "Ivo", "Joris", "Kezia", "Lennard")
LAST = ("Quillmark", "Osterby", "Tanvale", "Brask", "Hollin", "Merriwen", "Strand", "Pelgrim", "Varr", "Wickstone")
BORROWERS = ("Tarn Hall", "Quay House", "Ferry Museum", "Lower Lock Gallery", "Guildroom")
ODD_DATES = ("MDCCLXX", "time of the long frost", "second voyage", "18??", "see card", "war years")
ODD_DIMS = ("as a fist", "see card", "long", "various")


def fill(text: str, **values: object) -> str:
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    return text.lstrip("\n")


def pick(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found, f"{pattern!r} not in {text[:400]!r}"
    return found[1]


def dating(rng) -> str:
    year = rng.randrange(1690, 1950)
    forms = [str(year)] * 6 + [f"c. {year // 10 * 10}"] * 4 + [f"ca {year}", f"{year}-{year + 12}", f"{year}-{year + 12}"]
    forms += [f"{year // 10 * 10}s"] * 2 + [f"{rng.choice(['', 'early ', 'late '])}{year // 100 + 1}th century", "n.d.", ""]
    forms += [f"{year // 100 * 100 + 20}–{rng.randrange(30, 90)}", f"before {year}"]
    return rng.choice(forms)


def dimensions(rng) -> str:
    a, b, c = (rng.randrange(21, 640) for _ in range(3))
    return rng.choice([
        f"{a} x {b} x {c} mm", f"{a} x {b} mm", f"{a / 10} x {b / 10} cm", f"diam. {a} mm", "",
        f"{a // 20 + 2} {rng.choice(['1/2', '1/4', '3/8'])} x {b // 25 + 1} in",
    ])  # fmt: skip


def build_legacy(r) -> dict[str, object]:
    """data/legacy.sqlite with schema version 3, and the concordance that turns up later in the session."""
    rng = r.rng
    makers = [f"{a} {b}" for a in FIRST for b in rng.sample(LAST, 4)] + ["Jon Veldt", "Jan Veldt"]
    donors = [
        f"{rng.choice('ABCEFHKLMRSTW')}. {b}{s}"
        for b in ("Ankersmit", "Dovedale", "Loxbury", "Tremlock")
        for s in ("", "e", "er")
    ]
    numbers = []
    while len(numbers) < rng.randrange(1800, 2300):
        number = rng.choice(["{y}.{n}", "{y}.{n:03d}", "H.{y}-{n}"]).format(y=rng.randrange(1889, 1998), n=rng.randrange(1, 600))
        if number not in numbers:
            numbers.append(number)
    rows = []
    for number in numbers:
        maker = rng.choice(makers) if rng.random() < 0.8 else rng.choice(["", "?", "unknown", "Unknown"])
        maker = rng.choice([maker, maker, maker, maker.upper(), f"{maker} ", maker.replace(" ", "  ")])
        donor = rng.choice(donors) if rng.random() < 0.5 else ""
        note = f"Gift of {donor}" if donor and rng.random() < 0.08 else rng.choice(["", "", "", "label faded", "case 2"])
        shelf = f"{rng.choice('NSQ')}-{rng.randrange(1, 13):02d}-{rng.randrange(100, 140)}"
        rows.append(
            [number, rng.choice(TITLES), maker, dating(rng), dimensions(rng), shelf, donor, rng.randrange(900, 1_900_000), note]
        )
    for row in rng.sample(rows, rng.randrange(17, 29)):
        row[3] = rng.choice(ODD_DATES)
    for row in rng.sample(rows, rng.randrange(31, 47)):
        row[4] = rng.choice(ODD_DIMS)
    veldts = rng.sample(rows, 2)
    veldts[0][2], veldts[0][8] = "Jon Veldt", "son of Jan Veldt, took over the yard in 1871"
    chosen = [row for row in rng.sample(rows, 40) if row not in veldts]
    n_parts, n_doubles = rng.randrange(15, 23), rng.randrange(3, 7)
    for row in chosen[:n_parts]:
        row[8] = "part a of 2"
        rows.append([row[0], row[1] + " (lid)", *row[2:7], rng.randrange(900, 90_000), "part b of 2"])
    for row in chosen[n_parts : n_parts + n_doubles]:
        rows.append([*row[:7], row[7], "entered again"])
    loans, concordance = [], []
    for key in range(1, rng.randrange(310, 390)):
        number = rng.choice(numbers)
        if rng.random() < 0.13:
            old = f"LM/{rng.randrange(100, 9900):04d}"
            concordance.append((old, number))
            number = old
        loans.append(
            (
                key,
                number,
                rng.choice(BORROWERS),
                f"{rng.randrange(1972, 2025)}-{rng.randrange(1, 13):02d}-17",
                rng.randrange(0, 45_000),
            )
        )
    lost = {old for old, _ in concordance[3::11]}
    path = r.root / "data" / "legacy.sqlite"
    path.parent.mkdir(parents=True, exist_ok=True)
    conn = sqlite3.connect(path)
    conn.execute("CREATE TABLE schema_history (version INTEGER PRIMARY KEY, name TEXT NOT NULL, digest TEXT NOT NULL)")
    for name, sql in SQL.items():
        text = dedent(sql).lstrip("\n")
        r.file(f"migrations/{name}", text)
        conn.executescript(text)
        conn.execute(
            "INSERT INTO schema_history VALUES (?, ?, ?)", (int(name[:3]), name, hashlib.sha256(text.encode()).hexdigest()[:16])
        )
    conn.executemany("INSERT INTO objects VALUES (?,?,?,?,?,?,?,?,?,?)", [(k, *row) for k, row in enumerate(rows, 1001)])
    conn.executemany("INSERT INTO loans VALUES (?,?,?,?,?)", loans)
    gone = [
        (k, rng.randrange(1955, 2020), rng.choice(["transferred", "beyond repair", "exchanged"]))
        for k in range(1, len(concordance) + rng.randrange(2, 9))
    ]
    conn.executemany("INSERT INTO deaccessions VALUES (?,?,?)", gone)
    last = 1000 + len(rows)  # the double entries stand at the end
    photos = [
        (k, rng.randrange(1001, 1001 + len(rows)), f"neg-{rng.randrange(16**6):06x}.tif", rng.randrange(90_000, 9_900_000))
        for k in range(1, 640)
    ]
    photos += [
        (k, last - k % n_doubles, f"neg-{rng.randrange(16**6):06x}.tif", rng.randrange(90_000, 9_900_000))
        for k in range(640, 649)
    ]
    conn.executemany("INSERT INTO photos VALUES (?,?,?,?)", photos)
    conn.commit()
    conn.close()
    rest = [(f"LM/{rng.randrange(100, 9900):04d}x", rng.choice(numbers)) for _ in range(40)]
    kept = sorted([pair for pair in dict(concordance).items() if pair[0] not in lost] + rest)
    negatives = []
    for number, (_, _, name, size) in enumerate(rng.sample(photos, len(photos) - 7)):
        negatives.append(
            (name, size + (rng.randrange(11, 90_000) if number < 12 else 0), f"{rng.choice('KLM')}{rng.randrange(100, 999)}")
        )
    negatives += [
        (f"neg-{rng.randrange(16**6):06x}.tif", rng.randrange(90_000, 9_900_000), f"P{rng.randrange(100, 999)}") for _ in range(5)
    ]
    listing = "file,bytes,drawer\n" + "".join(f"{a},{b},{c}\n" for a, b, c in sorted(negatives))
    return {
        "negatives": listing,
        "concordance": "old,accession\n" + "".join(f"{a},{b}\n" for a, b in kept),
        "doubles": n_doubles,
        "parts": n_parts,
    }


def play(r):
    rng, truth = r.rng, r.truth
    busy, new_busy = rng.randrange(6100, 7900), rng.randrange(21, 29) * 1000 + rng.randrange(100, 900)
    host, lock, slot = rng.randrange(20, 99), f"{rng.randrange(16**4):04x}", f"shelfbox-{rng.randrange(100, 999)}"
    limit, extension = rng.randrange(36, 44), rng.randrange(2100, 2990)
    start, new_start = f"19:{rng.randrange(31, 49)}", f"20:{rng.randrange(11, 29)}"
    info = build_legacy(r)
    ini = fill(INI, busy=busy, limit=limit, host=host, lock=lock, slot=slot)
    r.file("README.md", README.lstrip())
    r.file("config/migrate.ini", ini)
    r.file("larkmere/__init__.py", "")
    r.file("larkmere/migrate.py", RUNNER.lstrip())
    r.file("larkmere/dating.py", DATING.lstrip())
    r.file("tests/test_dating.py", TEST_DATING.lstrip())
    r.file("tests/test_history.py", TEST_HISTORY.lstrip())
    r.file("tools/profile.py", PROFILE.lstrip())
    r.file("tools/old_import.py", OLD_IMPORT.lstrip())
    r.file("docs/dating.md", DATING_MD.lstrip())
    r.file(".gitignore", "work/\n__pycache__/\n")
    r.run("git init -q && git add -A && git commit -qm 'Catalogue with schema version 3'")

    r.system(
        "You are a coding assistant in the terminal of the Larkmere Museum's collection team. You work in one repository through the tools "
        "Bash, Read, Write, Edit, Grep and TodoWrite. Commands run in the repository root with bash; there is no network. Keep a todo list "
        "for work of several steps. Say briefly what you saw and what you do next, give numbers from the tools rather than estimates, and "
        "ask the team when a question is about the objects and not about the program. Do not push anything."
    )
    r.instructions(
        dedent(f"""
        This repository holds the catalogue database of the museum and the code that migrates it.

        ## Layout
        - `data/legacy.sqlite`: the catalogue as it is, schema version 3
        - `migrations/NNN_name.sql`: applied in order by `python -m larkmere.migrate DATABASE`
        - `larkmere/`: the runner and the parsers; `tools/`: small scripts; `tests/`: pytest

        ## Conventions
        - Python's standard library only; tests with `python -m pytest -q`.
        - The runner notes a digest of every applied file in `schema_history`.
        - Text that a parser does not understand goes to a review table for the curators; nothing is guessed.
        - Money is whole pence. Table names are singular from version 4 on.
        - Trial databases live in `work/`, which git ignores.
        - The catalogue desk answers on extension {extension}.
        """)
    )

    r.user(
        "The curators want the catalogue on the new schema before the winter hanging. Please survey the old database first: what is in it, "
        "and what will hurt when we split the flat objects table? One thing: never write to data/legacy.sqlite, the registrar still books "
        "loans in it every day."
    )
    truth.constraint("never write to data/legacy.sqlite")
    r.agent(
        "I'll look at the layout, the settings and what the runner does before I touch any data.",
        r.bash("git log --oneline && git ls-files | sort && cat config/migrate.ini"),
        r.read("larkmere/migrate.py"),
        r.read("README.md"),
        r.read("docs/schema.md"),
    )
    survey = r.agent(
        "The README promises docs/schema.md, but that file does not exist; I'll note it for later. Now the survey, with the tool that is here.",
        r.bash("python tools/profile.py data/legacy.sqlite"),
    )[0]
    objects, orphans = pick(r"rows.objects: (\d+)", survey), pick(r"without_object: (\d+)", survey)
    shapes = r.agent(
        f"{objects} objects but fewer distinct accession numbers, and {orphans} loans whose number is not in the catalogue. "
        "I want to see both, and the shapes of the dating text, from a read-only connection.",
        r.bash(
            "python - <<'EOF'\nimport collections, re, sqlite3\nconn = sqlite3.connect('file:data/legacy.sqlite?mode=ro', uri=True)\n"
            "shapes = collections.defaultdict(list)\nfor key, made in conn.execute('SELECT id, made FROM objects ORDER BY id'):\n    shapes[re.sub(r'\\d', '9', made)].append((key, made))\n"
            "for shape, found in sorted(shapes.items(), key=lambda item: (-len(item[1]), item[0])):\n"
            "    print(f'{len(found):5} {shape!r} for example id={found[-1][0]} {found[-1][1]!r}')\nEOF"
        ),
        r.bash(
            "python - <<'EOF'\nimport sqlite3\nconn = sqlite3.connect('file:data/legacy.sqlite?mode=ro', uri=True)\n"
            "print('loans whose number is unknown, the first eight:')\n"
            "for row in conn.execute('SELECT * FROM loans WHERE accession NOT IN (SELECT accession FROM objects) ORDER BY id LIMIT 8'):\n"
            "    print('loan id=%d number=%s borrower=%r out=%s fee_pence=%d' % row)\n"
            "for row in conn.execute('SELECT reason, count(*), min(year), max(year) FROM deaccessions GROUP BY 1 ORDER BY 1'):\n"
            "    print('deaccessions reason=%r count=%d first=%d last=%d' % row)\nEOF"
        ),
    )
    deaccessions = pick(r"rows.deaccessions: (\d+)", survey)
    r.agent(
        f"There are {orphans} of these loans and {deaccessions} deaccessions, nearly the same number, so the picture is clear: "
        "the orphan loans belong to objects that have left the collection. They could be archived as they are. "
        "First the state of the tests, and a plan.",
        r.bash("python -m pytest -q"),
        r.todo(
            ("Survey the legacy database", "completed"),
            ("004: places, makers, artefacts", "pending"),
            ("005: datings", "pending"),
            ("006: dimensions", "pending"),
            ("007: loans; archive the orphans", "pending"),
            ("Compare old and new", "pending"),
        ),  # fmt: skip
    )
    truth.belief("the orphan loans belong to objects that have left the collection", "I was wrong about the orphan loans")
    truth.fact(
        objects, f"busy_timeout_ms = {busy}", f"registrar-{lock}.lock", slot, f"catdesk-{host}.example.com",
        pick(r"insured_pence.total: (\d+)", survey), pick(r"photos.bytes.total: (\d+)", survey), pick(r"fee_pence.total: (\d+)", survey),
        pick(r"(loan id=\d+ number=\S+)", shapes[1]),
    )  # fmt: skip
    r.agent(
        f"The survey in short: {objects} objects, {pick(r'accessions.distinct: (.+)', survey)} distinct accession numbers, "
        f"{pick(r'makers.as_written: (.+)', survey)} spellings of makers and {pick(r'made.as_written: (.+)', survey)} of datings. "
        "What hurts: the repeated numbers, makers written in several ways, datings in about twenty shapes of which the parser knows half, "
        "sizes in three units, and loans tied to objects by text only. I propose four migrations, 004 to 007, each tried on a copy in work/."
    )

    r.user(
        "Good, go ahead in that order. Accession numbers have to stay exactly as they are printed on the labels, no padding and no other "
        "punctuation, even where they look untidy to you. Begin with places and makers. Careful with the Veldts, they were two people."
    )
    truth.constraint("Accession numbers have to stay exactly as they are printed on the labels")
    r.agent(
        "The spellings of makers first: how many are left when case and blanks are ignored, and what do the notes say of the Veldts?",
        r.bash(
            "python - <<'EOF'\nimport sqlite3\nconn = sqlite3.connect('file:data/legacy.sqlite?mode=ro', uri=True)\n"
            "names = [name for (name,) in conn.execute('SELECT maker FROM objects')]\nfolded = {' '.join(name.casefold().split()) for name in names}\n"
            "print('written:', len(set(names)), 'folded:', len(folded))\n"
            "print('no maker given:', sum(' '.join(n.casefold().split()) in ('', '?', 'unknown') for n in names))\n"
            "for row in conn.execute(\"SELECT id, accession, maker, note FROM objects WHERE maker LIKE '%veldt%' ORDER BY note DESC, id LIMIT 6\"):\n    print(row)\nEOF"
        ),
        r.bash(
            "python -c \"import sqlite3; c = sqlite3.connect('file:data/legacy.sqlite?mode=ro', uri=True); print(*c.execute('SELECT shelf, count(*) FROM objects GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 7'), sep='\\n')\""
        ),
    )
    r.agent(
        "I match makers on the casefolded name with blanks squeezed. I looked at matching by edit distance as well and leave it out: it would "
        "join Jon Veldt and Jan Veldt, who are father and son. Shelves are fixed-width, so plain substr() is enough for the places. "
        "The runner gets one SQL function, fold().",
        r.edit(
            "larkmere/migrate.py", '    conn.execute("PRAGMA foreign_keys = ON")\n',
            '    conn.execute("PRAGMA foreign_keys = ON")\n    conn.create_function("fold", 1, lambda text: " ".join(text.casefold().split()))\n',
        ),
        r.write("migrations/004_structures.sql", STRUCTURES.lstrip()),
        r.write("tools/take_copy.py", TAKE_COPY.lstrip()),
    )  # fmt: skip
    truth.decision(
        "I match makers on the casefolded name with blanks squeezed",
        "matching by edit distance",
        "it would join Jon Veldt and Jan Veldt",
    )
    copy = r.agent(
        "Copy through sqlite's backup interface with the source opened read-only, then the first try.",
        r.bash("python tools/take_copy.py data/legacy.sqlite work/first.sqlite && python -m larkmere.migrate work/first.sqlite"),
        r.todo(
            ("Survey the legacy database", "completed"), ("004: places, makers, artefacts", "in_progress"), ("005: datings", "pending"),
            ("006: dimensions", "pending"), ("007: loans; archive the orphans", "pending"), ("Compare old and new", "pending"),
        ),
    )[0]  # fmt: skip
    truth.fact(pick(r"objects.content: (\w+)", copy), "UNIQUE constraint failed: artefact.accession")
    r.agent(
        "Expected in kind: the repeated numbers collide. The runner puts every file into one transaction with its history row, so the failed "
        "run has left the copy as it was and I can go on with it. What are the repeats?",
        r.bash(
            "python - <<'EOF'\nimport sqlite3\nconn = sqlite3.connect('file:data/legacy.sqlite?mode=ro', uri=True)\n"
            "sql = '''SELECT a.accession, a.id, a.title, a.note, b.id, b.title, b.note, a.insured_pence, b.insured_pence\n"
            "FROM objects a JOIN objects b ON a.accession = b.accession AND a.id < b.id ORDER BY a.id'''\nrows = conn.execute(sql).fetchall()\n"
            "print('repeated numbers:', len(rows))\nfor n, i, t, x, j, u, y, p, q in rows:\n    print(f'{n} | {i} {t} [{x}] {p} | {j} {u} [{y}] {q}')\nEOF"
        ),
        r.read("tools/old_import.py"),
    )
    truth.belief("so the failed run has left the copy as it was", "I was wrong about the rollback")
    r.agent(
        f"Two kinds. {info['parts']} pairs are 'part a of 2' and 'part b of 2': tools/old_import.py cut the part letter off the number "
        f"because the form had no field for it. The other {info['doubles']} have the same title, maker and value, and the later one says "
        "'entered again'. Should the second kind be kept apart or merged? That is for you to say."
    )

    r.user(
        "The ones with part a and b are real parts, keep both. The others are plain double entries: keep the lower id and move the photographs "
        "to it, but keep a record of which id was dropped."
    )
    r.agent(
        "Then an artefact is identified by (accession, part). I keep the letter in a column of its own; writing it back into the number was the "
        "other way, but we cannot know whether the label says '.a', 'a' or '/a', and a wrong guess would be printed. "
        "The dropped ids go to merged_entry.",
        r.edit(
            "migrations/004_structures.sql",
            "    accession TEXT NOT NULL UNIQUE,\n",
            "    accession TEXT NOT NULL,\n    part TEXT NOT NULL DEFAULT '',\n",
        ),
        r.edit(
            "migrations/004_structures.sql",
            "insured_pence INTEGER NOT NULL, note TEXT NOT NULL\n",
            "insured_pence INTEGER NOT NULL, note TEXT NOT NULL,\n    UNIQUE (accession, part)\n",
        ),
        r.edit(
            "migrations/004_structures.sql", STRUCTURES[STRUCTURES.index("INSERT INTO artefact") :].strip(), ARTEFACT_INSERT_NEW
        ),
    )
    truth.decision(
        "I keep the letter in a column of its own", "writing it back into the number", "we cannot know whether the label says"
    )
    again = r.agent("", r.bash("python -m larkmere.migrate work/first.sqlite"))[0]
    assert "already exists" in again
    truth.fact("table place already exists")
    r.agent(
        "That should not be possible if the first try had been rolled back. What is in the file, and what does the history say?",
        r.bash(
            "python - <<'EOF'\nimport sqlite3\nconn = sqlite3.connect('file:work/first.sqlite?mode=ro', uri=True)\n"
            "print('history:', conn.execute('SELECT version, digest FROM schema_history').fetchall())\n"
            "for table in ('place', 'maker', 'artefact'):\n    print(f'left over in {table}:', conn.execute(f'SELECT count(*) FROM {table}').fetchone()[0])\nEOF"
        ),
        r.grep("executescript|with conn", "larkmere"),
    )
    r.agent(
        "I was wrong about the rollback. executescript() commits whatever is open before it starts and then runs without a transaction, so "
        "`with conn:` protects nothing: place and maker were filled and stayed. On the night of the real migration this would have been a "
        "half-migrated catalogue. I'll write the test first.",
        r.write("tests/test_runner.py", TEST_RUNNER.lstrip()),
        r.bash("python -m pytest -q tests/test_runner.py --tb=line"),
    )
    r.agent(
        "It fails as it should: table anchor survives. Now the runner executes statement by statement inside its own BEGIN IMMEDIATE.",
        r.edit("larkmere/migrate.py", APPLY_OLD, APPLY_NEW),
        r.bash("python -m pytest -q"),
    )
    fresh = r.agent(
        "All green. A fresh copy, and the old one goes away so that nobody takes it for a good one.",
        r.bash(
            "rm work/first.sqlite && python tools/take_copy.py data/legacy.sqlite work/second.sqlite | tail -n 1 && python -m larkmere.migrate work/second.sqlite"
        ),
        r.bash(
            "python - <<'EOF'\nimport sqlite3\nconn = sqlite3.connect('file:work/second.sqlite?mode=ro', uri=True)\n"
            "for table in ('place', 'maker', 'artefact', 'merged_entry', 'photo'):\n    print(f'{table}.rows:', conn.execute(f'SELECT count(*) FROM {table}').fetchone()[0])\n"
            "print('artefact.with_part:', conn.execute(\"SELECT count(*) FROM artefact WHERE part <> ''\").fetchone()[0])\n"
            "print('artefact.insured_pence:', conn.execute('SELECT sum(insured_pence) FROM artefact').fetchone()[0])\n"
            "print('merged:', conn.execute('SELECT * FROM merged_entry ORDER BY 1').fetchall())\n"
            "print('violations:', conn.execute('PRAGMA foreign_key_check').fetchall())\nEOF"
        ),
    )
    artefacts, places = pick(r"artefact.rows: (\d+)", fresh[1]), pick(r"place.rows: (\d+)", fresh[1])
    digest_004 = pick(r"structures.sql digest=(\w+)", fresh[0])
    truth.fact(
        f"artefact.rows: {artefacts}", f"place.rows: {places}", digest_004, pick(r"(artefact.insured_pence: \d+)", fresh[1])
    )
    r.agent("", r.bash("git add -A && git commit -qm 'Migration 004, and a runner that rolls back' && git show --stat --oneline HEAD"), r.todo(
        ("Survey the legacy database", "completed"), ("004: places, makers, artefacts", "completed"), ("Runner rolls back", "completed"),
        ("005: datings", "in_progress"), ("006: dimensions", "pending"), ("007: loans; archive the orphans", "pending"), ("Compare old and new", "pending"),
    ))  # fmt: skip

    r.user(
        "Well caught, that would have been an ugly night. Now the datings. The rules are in docs/dating.md, with one error: for circa the "
        "registrar allows 10 years either way, not 5. Please correct that everywhere, and tell me how many end up on the review list."
    )
    r.agent(
        "Rules and parser side by side.",
        r.read("docs/dating.md"),
        r.read("larkmere/dating.py"),
        r.read("tests/test_dating.py", 1, 24),
    )
    truth.update("circa_years", "circa_years = 5", "circa_years = 10")
    r.agent(
        "The width of circa comes from the settings, so the parser itself only needs the missing shapes: decades, short ranges, centuries, 'before'.",
        r.edit("config/migrate.ini", "circa_years = 5", "circa_years = 10"),
        r.edit("docs/dating.md", "mean five years either way", "mean ten years either way"),
        r.bash("python -m pytest -q tests/test_dating.py --tb=line"),
    )
    r.agent(
        "The two circa tests fail because they spell out the old width. I correct them, and add cases for the new shapes before the parser knows them.",
        r.bash("sed -i 's/(1835, 1845)/(1830, 1850)/' tests/test_dating.py && grep -n 1830 tests/test_dating.py"),
        r.edit(
            "tests/test_dating.py", '        ("n.d.", (None, None)),\n',
            '        ("n.d.", (None, None)),\n        ("1840s", (1840, 1849)),\n        ("1760\\u201380", (1760, 1780)),\n        ("18th century", (1701, 1800)),\n'
            '        ("early 18th century", (1701, 1734)),\n        ("late 18th century", (1767, 1800)),\n        ("before 1900", (None, 1899)),\n',
        ),
        r.edit("larkmere/dating.py", "class Unreadable", DATING_MORE),
        r.edit("larkmere/dating.py", "        return int(found[1]), int(found[2])\n    raise Unreadable(text)", DATING_MORE_RULES),
        r.bash("python -m pytest -q tests/test_dating.py"),
    )  # fmt: skip
    dated = r.agent(
        "005 has to be Python, because the parser is. The runner learns to run a numbered .py file inside the same transaction and to print what it counted.",
        r.write("migrations/005_dating.py", M005.lstrip()),
        r.edit(
            "larkmere/migrate.py", '        for statement in statements(path.read_text(encoding="utf-8")):\n            conn.execute(statement)\n',
            '        counts = {}\n        if path.suffix == ".py":\n            counts = runpy.run_path(str(path))["run"](conn, settings())\n        else:\n'
            '            for statement in statements(path.read_text(encoding="utf-8")):\n                conn.execute(statement)\n',
        ),
        r.bash(
            "sed -i -e 's/^import hashlib$/import hashlib\\nimport runpy/' -e 's/    conn.execute(\"COMMIT\")/    conn.execute(\"COMMIT\")\\n    return counts/' "
            "-e 's/            apply(conn, path)/            counts = apply(conn, path)/' -e 's/except sqlite3.Error as problem/except (sqlite3.Error, RuntimeError) as problem/' "
            "-e 's/digest={digest(path)}\")/digest={digest(path)}\", *(f\"{name}={value}\" for name, value in counts.items()))/' larkmere/migrate.py && git diff --stat"
        ),
        r.bash("python -m larkmere.migrate work/second.sqlite && python -m pytest -q tests/test_runner.py tests/test_history.py"),
    )[-1]  # fmt: skip
    review = pick(r"review=(\d+)", dated)
    odd = r.agent(
        f"{review} datings are left for the curators, under the limit of {limit}. What do they look like, and do the years make sense at the edges? I also read the "
        "runner once more after so many sed lines.",
        r.bash(
            "python - <<'EOF'\nimport sqlite3\nconn = sqlite3.connect('file:work/second.sqlite?mode=ro', uri=True)\n"
            "for row in conn.execute('SELECT as_written, count(*), min(artefact_id), max(artefact_id) FROM dating_review GROUP BY 1 ORDER BY 2 DESC, 1'):\n"
            "    print('review %r count=%d first_id=%d last_id=%d' % row)\n"
            "print('first_year.min: %d  last_year.max: %d  backwards: %d' % conn.execute('SELECT min(first_year), max(last_year), sum(first_year > last_year) FROM dating').fetchone())\n"
            "print('span.sum: %d' % conn.execute('SELECT sum(last_year - first_year) FROM dating').fetchone())\nEOF"
        ),
        r.read("larkmere/migrate.py", 39, 45),
    )[0]
    truth.fact(f"review={review}", pick(r"(span.sum: \d+)", odd), pick(r"dating.py digest=(\w+)", dated))
    backwards = pick(r"backwards: (\d+)", odd)
    r.agent(
        f"Done: review list {review}, no dating guessed; {backwards} ranges run backwards. The span of the readable ones is plausible. I commit this.",
        r.bash("git add -A && git commit -qm 'Migration 005: datings' && git diff --stat HEAD~1 | tail -n 8"),
    )

    r.user(
        "Fine. While you are at it: leave 001 to 003 as they are, spelling mistakes included, since the branch museums have their digests in "
        "their own history tables. And raise the busy timeout: the registrar's client can sit on its write lock for twenty seconds or so, "
        f"I would take {new_busy} ms."
    )
    truth.constraint("leave 001 to 003 as they are, spelling mistakes included")
    truth.update("busy_timeout_ms", f"busy_timeout_ms = {busy}", f"busy_timeout_ms = {new_busy}")
    r.agent(
        "The timeout is one line in the settings. I also check that the connection really gets it.",
        r.edit("config/migrate.ini", f"busy_timeout_ms = {busy}", f"busy_timeout_ms = {new_busy}"),
        r.bash(
            "python -c \"from larkmere import migrate; c = migrate.connect('work/second.sqlite', migrate.settings()); print('busy_timeout:', c.execute('PRAGMA busy_timeout').fetchone()[0])\""
        ),
    )
    r.agent(
        "Next 006, the dimensions. I store whole tenths of a millimetre. REAL millimetres were the alternative, but "
        "4.5 cm and 3/8 in would come back as values that differ in the last digit, and the compare step could not test for equality. "
        "What units and forms are there?",
        r.bash(
            "python - <<'EOF'\nimport collections, re, sqlite3\nconn = sqlite3.connect('file:data/legacy.sqlite?mode=ro', uri=True)\n"
            "forms = collections.defaultdict(list)\nfor key, size in conn.execute('SELECT id, dims FROM objects ORDER BY id'):\n    forms[re.sub(r'\\d+', '#', size)].append(key)\n"
            "for form, keys in sorted(forms.items(), key=lambda item: (-len(item[1]), item[0])):\n"
            "    print(f'{form!r}: rows={len(keys)} first_id={keys[0]} last_id={keys[-1]} middle_id={keys[len(keys) // 2]}')\n"
            "print('longest:', max((d for (d,) in conn.execute('SELECT dims FROM objects')), key=lambda d: (len(d), d)))\nEOF"
        ),
        r.todo(
            ("Runner rolls back", "completed"), ("005: datings", "completed"), ("006: dimensions", "in_progress"),
            ("007: loans; archive the orphans", "pending"), ("Compare old and new", "pending"), ("Write docs/schema.md, which the README promises", "pending"),
        ),
    )  # fmt: skip
    truth.decision(
        "I store whole tenths of a millimetre", "REAL millimetres", "would come back as values that differ in the last digit"
    )
    r.agent(
        "Five readable forms and a handful of free remarks, which go to a review table as the datings did. Parser and tests for the five:",
        r.write("larkmere/dims.py", DIMS.lstrip()),
        r.write("tests/test_dims.py", TEST_DIMS.lstrip()),
        r.bash("python -m pytest -q tests/test_dims.py --tb=line"),
    )
    r.agent(
        "The inches of the old cards have fractions and float() does not read '4 1/2'. Summing Fractions over the words does.",
        r.edit(
            "larkmere/dims.py",
            "round(float(size) * TENTHS[found[3]])",
            "round(sum(map(Fraction, size.split())) * TENTHS[found[3]])",
        ),
        r.edit("larkmere/dims.py", "import re\n", "import re\nfrom fractions import Fraction\n"),
        r.bash("python -m pytest -q tests/test_dims.py"),
    )
    sized = r.agent(
        "",
        r.write("migrations/006_dimensions.py", M006.lstrip()),
        r.bash("python -m larkmere.migrate work/second.sqlite"),
    )[1]
    sum_tenths = pick(r"sum_tenths=(\d+)", sized)
    truth.fact(f"sum_tenths={sum_tenths}", pick(r"(sizes=\d+)", sized))
    listed = r.agent(
        "The review list of the sizes in full, since the curators will want to look for the cards:",
        r.bash(
            "python - <<'EOF'\nimport sqlite3\nconn = sqlite3.connect('file:work/second.sqlite?mode=ro', uri=True)\n"
            "sql = '''SELECT r.artefact_id, a.accession, p.store || p.bay || '/' || p.shelf, r.as_written FROM dimension_review r\n"
            "JOIN artefact a ON a.id = r.artefact_id JOIN place p ON p.id = a.place_id ORDER BY r.artefact_id'''\n"
            "for row in conn.execute(sql):\n    print('id=%d accession=%s place=%s size=%r' % row)\n"
            "for row in conn.execute('SELECT axis, count(*), min(tenths_mm), max(tenths_mm), sum(tenths_mm) FROM dimension GROUP BY 1 ORDER BY 1'):\n"
            "    print('axis %s: rows=%d smallest=%d largest=%d sum=%d' % row)\nEOF"
        ),
    )[0]
    truth.fact(pick(r"(axis height: rows=\d+)", listed), pick(r"\n(id=\d+ accession=\S+ place=\S+)", listed))
    r.agent(
        f"006 is in: {pick(r'sizes=([0-9]+)', sized)} sizes, {pick(r'without=([0-9]+)', sized)} objects without any, "
        f"{pick(r'review=([0-9]+)', sized)} for review. With your word I go on to the loans and archive the {orphans} orphans untouched."
    )

    r.file("data/concordance_1998.csv", info["concordance"])
    r.user(
        "Wait with the orphans! Our archivist found a concordance from the renumbering of 1998 in a drawer and typed it in: "
        "data/concordance_1998.csv. See whether the loose loan numbers are old numbers before you archive anything."
    )
    found = r.agent(
        "I'll check the loose numbers against it, and how many lines it has in all.",
        r.bash(
            "wc -l data/concordance_1998.csv && head -n 6 data/concordance_1998.csv && sha256sum data/concordance_1998.csv | cut -c 1-24"
        ),
        r.bash(
            "python - <<'EOF'\nimport csv, sqlite3\nconn = sqlite3.connect('file:data/legacy.sqlite?mode=ro', uri=True)\n"
            "table = {row['old']: row['accession'] for row in csv.DictReader(open('data/concordance_1998.csv', encoding='utf-8'))}\n"
            "loose = [row for row in conn.execute('SELECT id, accession, fee_pence FROM loans WHERE accession NOT IN (SELECT accession FROM objects) ORDER BY id')]\n"
            "known = [row for row in loose if row[1] in table]\n"
            "print(f'loose: {len(loose)}\\nin the concordance: {len(known)}\\nfees of those: {sum(row[2] for row in known)}')\n"
            "for row in loose:\n    if row[1] not in table:\n        print('not found: loan id=%d number=%s fee_pence=%d' % row)\n"
            "title = dict(conn.execute('SELECT accession, title FROM objects ORDER BY id DESC'))\n"
            "for key, number, fee in known[:12]:\n    print(f'resolved: loan id={key} {number} -> {table[number]} {title[table[number]]!r} fee_pence={fee}')\nEOF"
        ),
    )
    known = pick(r"in the concordance: (\d+)", found[1])
    truth.fact(
        pick(r"fees of those: (\d+)", found[1]),
        pick(r"\n([0-9a-f]{24})$", found[0]),
        pick(r"not found: (loan id=\d+ number=LM/\d+)", found[1]),
    )
    r.agent(
        f"I was wrong about the orphan loans: {known} of {orphans} carry a number from before the renumbering of 1998, and their objects are "
        "still here. That the count was close to the deaccessions was chance. Archiving them would have cut living objects off their loan history. "
        "007 tries the number as it stands, then the concordance; the rest goes to loan_review.",
        r.write("migrations/007_loans.py", M007.lstrip()),
        r.bash("python -m larkmere.migrate work/second.sqlite"),
        r.bash(
            "python - <<'EOF'\nimport sqlite3\nconn = sqlite3.connect('file:work/second.sqlite?mode=ro', uri=True)\n"
            "sql = 'SELECT borrower, count(*), count(DISTINCT artefact_id), sum(fee_pence), max(fee_pence) FROM loan GROUP BY 1 ORDER BY 1'\n"
            "for row in conn.execute(sql):\n    print('borrower %r: loans=%d artefacts=%d fees=%d highest_fee=%d' % row)\nEOF"
        ),
        r.todo(
            ("005: datings", "completed"), ("006: dimensions", "completed"), ("007: loans through the concordance of 1998", "completed"),
            ("Compare old and new", "in_progress"), ("Write docs/schema.md, which the README promises", "pending"),
        ),
    )  # fmt: skip
    compared = r.agent(
        "Now old against new, as exact sums.",
        r.write("tools/compare.py", COMPARE.lstrip()),
        r.bash("python tools/compare.py data/legacy.sqlite work/second.sqlite"),
    )[1]
    gap = pick(r"DIFFERENT by (\d+)", compared)
    explained = r.agent(
        f"Everything agrees but the insured sum, which is {gap} pence lower. My guess is the merged double entries; the sum of exactly those rows will tell.",
        r.bash(
            "python - <<'EOF'\nimport sqlite3\nconn = sqlite3.connect('file:work/second.sqlite?mode=ro', uri=True)\n"
            "for row in conn.execute('SELECT g.dropped_id, g.kept_id, o.accession, o.insured_pence FROM merged_entry g JOIN objects o ON o.id = g.dropped_id ORDER BY 1'):\n"
            "    print('dropped=%d kept=%d accession=%s insured_pence=%d' % row)\n"
            "print('sum of the dropped: %d' % conn.execute('SELECT sum(insured_pence) FROM objects WHERE id IN (SELECT dropped_id FROM merged_entry)').fetchone())\nEOF"
        ),
    )[0]
    assert pick(r"sum of the dropped: (\d+)", explained) == gap
    truth.fact(gap, pick(r"(dropped=\d+ kept=\d+)", explained))
    r.agent(
        f"It is exact: the {info['doubles']} dropped rows add up to {gap} pence. The policy sum would fall by that amount. "
        "Is that right for the insurer, or should the value be kept on the entry that stays?"
    )

    r.user(
        "That is right, those things were insured twice by mistake. Let the comparison allow for exactly the dropped rows, nothing looser. "
        "After that the website needs its copy: one JSON line for each artefact with number, part, title, maker and dating. "
        "Donors were promised privacy, so no donor's name may appear in anything under public/."
    )
    truth.constraint("no donor's name may appear in anything under public/")
    r.agent(
        "The allowance is the insured sum of the ids in merged_entry and nothing else.",
        r.edit(
            "tools/compare.py", 'SELECT sum(insured_pence) FROM artefact")',
            'SELECT (SELECT sum(insured_pence) FROM artefact)"\n        " + (SELECT total(insured_pence) FROM objects WHERE id IN (SELECT dropped_id FROM merged_entry))")',
        ),
        r.bash("python tools/compare.py data/legacy.sqlite work/second.sqlite | grep -E 'insured|differences'"),
    )  # fmt: skip
    r.agent(
        "total() gives a float, which is why it prints with .0; sum() keeps whole pence. Corrected, then the exporter.",
        r.bash(
            "sed -i 's/total(insured_pence)/sum(insured_pence)/' tools/compare.py && python tools/compare.py data/legacy.sqlite work/second.sqlite | tail -n 4"
        ),
        r.write("larkmere/publish.py", PUBLISH.lstrip()),
        r.write("tests/test_publish.py", TEST_PUBLISH.lstrip()),
    )
    leaked = r.agent(
        "",
        r.bash("mv work/second.sqlite work/rehearsal.sqlite && python -m pytest -q tests/test_publish.py --tb=no"),
    )[0]
    leaks = pick(r"(\d+) lines name", leaked)
    truth.fact(f"{leaks} lines name a donor")
    exported = r.agent(
        f"Good that there is a test: {leaks} records would have named somebody, although the donor column is not exported. It is the free-text "
        "note ('Gift of ...'). You did not ask for the note, so it leaves the query; filtering names out of free text would never be safe.",
        r.edit("larkmere/publish.py", "d.last_year, a.note\n", "d.last_year\n"),
        r.bash("python -m pytest -q && python -m larkmere.publish work/rehearsal.sqlite && head -n 3 public/collection.jsonl"),
        r.bash(
            "printf 'public/\\n' >> .gitignore && git add -A && git commit -qm 'Migrations 006 and 007, comparison, website copy' && git show --stat --oneline HEAD | tail -n 14"
        ),
    )[1]
    sha = pick(r"public.sha256: (\w{16})", exported)
    truth.fact(pick(r"public.bytes: (\d+)", exported), sha)
    r.file("data/negatives.csv", info["negatives"])
    r.user(
        "Before I forget: the photographer sent me the listing of the negative store, it is in data/negatives.csv. Do our photo rows agree with it? "
        "Correct nothing, I only want the differences, as a short file under docs/ that I can hand to her."
    )
    checked = r.agent(
        "Names and sizes of the listing against the photo table, both directions.",
        r.bash("wc -lc data/negatives.csv && sed -n '1,5p' data/negatives.csv && cksum data/negatives.csv"),
        r.bash(
            "python - <<'EOF'\nimport csv, sqlite3\nconn = sqlite3.connect('file:work/rehearsal.sqlite?mode=ro', uri=True)\n"
            "store = {row['file']: row for row in csv.DictReader(open('data/negatives.csv', encoding='utf-8'))}\n"
            "ours = {name: (key, size, number) for key, name, size, number in conn.execute('SELECT p.id, p.filename, p.bytes, a.accession FROM photo p JOIN artefact a ON a.id = p.artefact_id')}\n"
            "for name in sorted(ours):\n    key, size, number = ours[name]\n    if name not in store:\n        print(f'missing: {name} photo_id={key} accession={number}')\n"
            "    elif int(store[name]['bytes']) != size:\n        print(f'size: {name} photo_id={key} accession={number} ours={size} store={store[name][\"bytes\"]} drawer={store[name][\"drawer\"]}')\n"
            "for name in sorted(set(store) - set(ours)):\n    print(f'unknown: {name} drawer={store[name][\"drawer\"]}')\n"
            "print('compared:', len(set(ours) & set(store)))\nEOF"
        ),
    )
    differing = [line for line in checked[1].splitlines() if not line.startswith("compared")]
    kinds = {kind: sum(line.startswith(kind) for line in differing) for kind in ("size", "missing", "unknown")}
    truth.fact(differing[0], differing[-1], pick(r"compared: (\d+)", checked[1]))
    r.agent(
        f"{kinds['size']} sizes differ, {kinds['missing']} of our negatives are not in her store and {kinds['unknown']} of hers are not in the catalogue. "
        "No photo row is touched. The file for her:",
        r.write(
            "docs/negatives_check.md",
            "# Negatives that differ\n\nCatalogue against the listing of the store; nothing has been corrected.\n\n"
            + "".join(f"- {line.split(' accession')[0]}\n" for line in differing),
        ),
        r.bash("git add docs data && git commit -qm 'Check of the negatives' && git show --stat --oneline HEAD"),
    )

    r.user(
        "Now some tidying before I show this to the board. The photographer has her list, so docs/negatives_check.md can go. profile.py shadows a module of the standard library, call it survey.py. "
        "The import script of 2009 can go, git remembers it. And please write the missing docs/schema.md, short."
    )
    r.agent(
        "",
        r.bash("git mv tools/profile.py tools/survey.py && git rm -q tools/old_import.py docs/negatives_check.md && grep -rn 'profile.py\\|old_import' --include=*.md --include=*.py . | sort"),
        r.todo(
            ("007: loans through the concordance of 1998", "completed"), ("Compare old and new", "completed"), ("Website copy", "completed"),
            ("Tidy tools/", "in_progress"), ("Write docs/schema.md, which the README promises", "in_progress"), ("Plan for the night", "pending"),
        ),
    )  # fmt: skip
    r.agent(
        "README has the one reference.",
        r.edit("README.md", "tools/profile.py data/legacy.sqlite ", "tools/survey.py data/legacy.sqlite "),
        r.write(
            "docs/schema.md",
            "# Schema from version 4\n\n- `place(store, bay, shelf)`: one row for each shelf.\n- `maker(name, match_key)`: the key is the name casefolded, blanks squeezed.\n"
            "- `artefact(accession, part, ...)`: unique together; `part` is empty for objects in one piece.\n- `merged_entry(dropped_id, kept_id)`: double entries of the old catalogue.\n"
            "- `photo`, `loan`: rows of artefacts; a loan of an object in parts hangs on the first part.\n- `dating(first_year, last_year)`: see dating.md.\n"
            "- `dimension(axis, tenths_mm)`: whole tenths of a millimetre.\n- `dating_review`, `dimension_review`, `loan_review`: what nobody could read, for the curators.\n",
        ),
        r.bash("python tools/survey.py work/rehearsal.sqlite | grep '^rows'"),
    )  # fmt: skip

    r.user(
        f"Thank you. The night itself: we freeze the catalogue on Thursday at {start}, the registrar goes home then. Should we write down "
        "migrations for going back? And please make one script that does the whole rehearsal from a fresh copy, so that I can run it myself."
    )
    r.agent(
        "For going back I would keep the frozen copy and put it in place again. Down migrations are the alternative, but they can't restore what "
        "004 merges, and they would be code that runs for the first time on the worst night. The rehearsal script stops at the first error.",
        r.write(
            "rehearse.sh",
            "#!/bin/bash\n# One full rehearsal from a fresh copy: copy, migrate, compare, publish.\nset -euo pipefail\n"
            "python tools/take_copy.py data/legacy.sqlite work/rehearsal.sqlite\npython -m larkmere.migrate work/rehearsal.sqlite\n"
            "python tools/compare.py data/legacy.sqlite work/rehearsal.sqlite\npython -m larkmere.publish work/rehearsal.sqlite\n",
        ),
        r.bash("bash rehearse.sh | tee work/rehearsal.log"),
    )  # fmt: skip
    truth.decision("keep the frozen copy and put it in place again", "Down migrations", "they can't restore what 004 merges")
    checks = r.agent(
        f"The same digest for 004 as in the first good run ({digest_004}) and the same sha256 of the website copy ({sha}), so the run repeats. "
        "One more look at both ends before I call it done.",
        r.bash(
            "git status --short data && git diff --stat HEAD -- data migrations && python tools/survey.py data/legacy.sqlite | grep -E 'objects|insured|integrity'"
        ),
        r.bash(
            "python - <<'EOF'\nimport sqlite3\nold = sqlite3.connect('file:data/legacy.sqlite?mode=ro', uri=True)\nnew = sqlite3.connect('file:work/rehearsal.sqlite?mode=ro', uri=True)\n"
            "mine = {a for (a,) in new.execute('SELECT accession FROM artefact')}\ntheirs = {a for (a,) in old.execute('SELECT accession FROM objects')}\n"
            "print('numbers only in the old:', len(theirs - mine), ' only in the new:', len(mine - theirs))\n"
            "print('characters in all numbers:', sum(map(len, mine)), sum(map(len, theirs)))\nEOF"
        ),
    )
    truth.fact(pick(r"characters in all numbers: (\d+)", checks[1]))

    r.user(
        f"Small change: the board meets late, so the freeze is at {new_start} and not {start}. Put a plan for the night into docs/cutover.md: "
        "host, lock, timeout, where the backup goes, the numbers we expect to see, whom to ring, and how we go back."
    )
    truth.update("freeze", start, new_start)
    r.agent(
        "I have all of these from the settings and the rehearsals; the numbers in the plan are from the run of this morning.",
        r.write(
            "docs/cutover.md",
            dedent(f"""\
            # Plan for the night of the migration

            1. Thursday {new_start}: the registrar closes the client on catdesk-{host}.example.com. Check that `registrar-{lock}.lock` is gone.
            2. `python tools/take_copy.py data/legacy.sqlite work/frozen.sqlite`; put the file into backup slot {slot} as well.
            3. `bash rehearse.sh`; if it ends without an error, hand work/rehearsal.sqlite to the registrar. The runner waits up to {new_busy} ms for a lock. Expect:
               - {artefacts} artefacts on {places} shelves; 004 has digest {digest_004}
               - {review} datings for review (the limit is {limit}); circa is ten years either way
               - dimensions add up to {sum_tenths} tenths of a millimetre
               - {known} loans by concordance, none archived
               - the insured sum falls by {gap} pence (double entries) and by nothing else
            4. `python -m pytest -q`, then the website may fetch public/.

            Going back: put work/frozen.sqlite in place again. Questions: extension {extension}.
            """),
        ),
        r.bash("grep -c . docs/cutover.md && python -m pytest -q && git add -A && git commit -qm 'Plan for the night, rehearsal script, schema notes' && git log --oneline | head -n 5"),
        r.todo(
            ("Website copy", "completed"), ("Tidy tools/", "completed"), ("Write docs/schema.md, which the README promises", "completed"),
            ("Plan for the night", "completed"), ("Rehearse once more after the freeze", "pending"),
        ),
    )  # fmt: skip
    for value in (f"registrar-{lock}.lock", slot, f"catdesk-{host}.example.com", digest_004, artefacts, review, str(extension)):
        truth.later(value)
    truth.fact(new_start, str(new_busy))

    r.user("One question from the board: can they see which loans stay unclear, and what they cost? A short list is enough.")
    r.agent(
        "From loan_review of the rehearsal copy:",
        r.bash(
            "python - <<'EOF'\nimport sqlite3\nconn = sqlite3.connect('file:work/rehearsal.sqlite?mode=ro', uri=True)\n"
            "for row in conn.execute('SELECT r.id, r.number_on_form, l.borrower, l.out_on, r.fee_pence FROM loan_review r JOIN loans l ON l.id = r.id ORDER BY r.id'):\n"
            "    print('loan=%d form=%s borrower=%s out=%s fee=%d' % row)\nprint('together: %d pence' % conn.execute('SELECT sum(fee_pence) FROM loan_review').fetchone())\nEOF"
        ),
    )
    r.agent(
        f"That is the whole list; the other {known} of the {orphans} loose loans found their object through the concordance. None is lost: they keep the "
        "number on the form and can be attached by hand once somebody finds the card. Everything is committed, nothing is pushed."
    )
