"""Hunting a counter drift in a stock reservation service: from a misleading log to two real causes and a repair."""

import json
import re
from textwrap import dedent

TITLE = "Stock counts that drift in a reservation service"
PROJECT = "holdfast"

STORE = dedent('''\
    """SQLite tables of the reservation service."""
    import sqlite3

    SCHEMA_VERSION = 7

    TABLES = """
    CREATE TABLE IF NOT EXISTS stock (
        sku TEXT, site TEXT,
        on_hand INTEGER NOT NULL DEFAULT 0,
        held INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (sku, site));
    CREATE TABLE IF NOT EXISTS holds (
        id TEXT PRIMARY KEY, sku TEXT, site TEXT, qty INTEGER,
        taken INTEGER NOT NULL DEFAULT 0,
        state TEXT NOT NULL DEFAULT 'open', expires INTEGER);
    CREATE TABLE IF NOT EXISTS movements (
        seq INTEGER PRIMARY KEY, t INTEGER, sku TEXT, site TEXT, kind TEXT, qty INTEGER, ref TEXT);
    CREATE TABLE IF NOT EXISTS dock_notes (doc TEXT PRIMARY KEY, t INTEGER);
    """


    def connect(path):
        conn = sqlite3.connect(path)
        conn.row_factory = sqlite3.Row
        conn.executescript(TABLES)
        conn.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        return conn


    def bump(conn, sku, site, on_hand=0, held=0):
        conn.execute("INSERT OR IGNORE INTO stock (sku, site) VALUES (?, ?)", (sku, site))
        conn.execute(
            "UPDATE stock SET on_hand = on_hand + ?, held = held + ? WHERE sku = ? AND site = ?",
            (on_hand, held, sku, site))


    def cell(conn, sku, site):
        row = conn.execute("SELECT on_hand, held FROM stock WHERE sku = ? AND site = ?", (sku, site)).fetchone()
        return (row["on_hand"], row["held"]) if row else (0, 0)


    def move(conn, now, sku, site, kind, qty, ref):
        conn.execute(
            "INSERT INTO movements (t, sku, site, kind, qty, ref) VALUES (?, ?, ?, ?, ?, ?)",
            (now, sku, site, kind, qty, ref))
    ''')

API = dedent('''\
    """What checkout, the packing bench and the handheld scanners call."""
    from . import oplog
    from .store import bump, cell, move


    class Refused(Exception):
        pass


    def place_hold(conn, hold_id, sku, site, qty, now, minutes):
        on_hand, held = cell(conn, sku, site)
        if on_hand - held < qty:
            oplog.say(now, "hold.refused", hold=hold_id, sku=sku, site=site, qty=qty, free=on_hand - held)
            raise Refused(f"{sku}@{site}: wanted {qty}, free {on_hand - held}")
        conn.execute(
            "INSERT INTO holds (id, sku, site, qty, expires) VALUES (?, ?, ?, ?, ?)",
            (hold_id, sku, site, qty, now + minutes))
        bump(conn, sku, site, held=qty)
        oplog.say(now, "hold.placed", hold=hold_id, sku=sku, site=site, qty=qty)


    def confirm(conn, hold_id, taken, now):
        """The bench has packed `taken` pieces; the rest of the hold goes back on sale at once."""
        hold = _hold(conn, hold_id, ("open",))
        state = "packed" if taken == hold["qty"] else "short"
        bump(conn, hold["sku"], hold["site"], on_hand=-taken, held=-hold["qty"])
        conn.execute("UPDATE holds SET state = ?, taken = ? WHERE id = ?", (state, taken, hold_id))
        move(conn, now, hold["sku"], hold["site"], "out", taken, hold_id)
        oplog.say(now, "hold." + state, hold=hold_id, sku=hold["sku"], site=hold["site"], qty=hold["qty"], taken=taken)


    def release(conn, hold_id, now):
        hold = _hold(conn, hold_id, ("open", "short"))
        bump(conn, hold["sku"], hold["site"], held=hold["taken"] - hold["qty"])
        conn.execute("UPDATE holds SET state = 'released' WHERE id = ?", (hold_id,))
        oplog.say(now, "hold.released", hold=hold_id, sku=hold["sku"], site=hold["site"], qty=hold["qty"])


    def count(conn, sku, site, delta, now, by="?"):
        """A shelf count: the scanner sends the difference between the shelf and the screen."""
        on_hand, _ = cell(conn, sku, site)
        bump(conn, sku, site, on_hand=max(0, on_hand + delta) - on_hand)
        move(conn, now, sku, site, "count", delta, by)
        oplog.say(now, "count.posted", sku=sku, site=site, delta=delta, by=by)


    def _hold(conn, hold_id, states):
        hold = conn.execute("SELECT * FROM holds WHERE id = ?", (hold_id,)).fetchone()
        if hold is None or hold["state"] not in states:
            raise Refused(f"hold {hold_id} is {hold['state'] if hold else 'unknown'}")
        return hold
    ''')

SWEEPER = dedent('''\
    """Gives back what nobody packed in time."""
    from . import oplog
    from .store import bump


    def sweep(conn, now):
        late = conn.execute(
            "SELECT * FROM holds WHERE state IN ('open', 'short') AND expires <= ? ORDER BY id", (now,)).fetchall()
        for hold in late:
            rest = hold["qty"] - hold["taken"]
            bump(conn, hold["sku"], hold["site"], held=-rest)
            conn.execute("UPDATE holds SET state = 'expired' WHERE id = ?", (hold["id"],))
            oplog.say(now, "hold.expired", hold=hold["id"], sku=hold["sku"], site=hold["site"], rest=rest)
        return len(late)
    ''')

INTAKE = dedent('''\
    """Goods that arrive at the dock; a delivery note may be sent more than once."""
    import sqlite3

    from . import oplog
    from .store import bump, move


    def receive(conn, doc, sku, site, qty, now):
        try:
            conn.execute("INSERT INTO dock_notes (doc, t) VALUES (?, ?)", (doc, now))
        except sqlite3.IntegrityError:
            oplog.say(now, "dock.duplicate", doc=doc, sku=sku, site=site, qty=qty)
            return False
        bump(conn, sku, site, on_hand=qty)
        move(conn, now, sku, site, "in", qty, doc)
        oplog.say(now, "dock.received", doc=doc, sku=sku, site=site, qty=qty)
        return True
    ''')

OPLOG = dedent('''\
    """Operations log: one line an event."""
    import sys

    stream = None


    def say(now, evt, **fields):
        pairs = " ".join(f"{name}={value}" for name, value in fields.items())
        print(f"t={now} evt={evt} {pairs}", file=stream or sys.stderr)
    ''')

SETTINGS = dedent('''\
    """Reads conf/holdfast.ini."""
    import configparser
    from pathlib import Path

    PATH = Path(__file__).resolve().parents[1] / "conf" / "holdfast.ini"


    def load():
        parser = configparser.ConfigParser()
        parser.read(PATH)
        return parser
    ''')

REPLAY = dedent('''\
    """python -m holdfast.replay JOURNAL DB [LOG]: run a night's journal through the service again."""
    import json
    import os
    import sys
    from collections import Counter

    from . import api, intake, oplog, settings, store, sweeper


    def replay(lines, conn, minutes):
        tally = Counter()
        for line in lines:
            event = json.loads(line)
            op, now = event["op"], event["t"]
            tally["events"] += 1
            try:
                if op == "receive":
                    fresh = intake.receive(conn, event["doc"], event["sku"], event["site"], event["qty"], now)
                    tally["received" if fresh else "duplicates"] += 1
                elif op == "hold":
                    api.place_hold(conn, event["id"], event["sku"], event["site"], event["qty"], now, minutes)
                    tally["holds"] += 1
                elif op == "confirm":
                    api.confirm(conn, event["id"], event["taken"], now)
                    tally["confirmed"] += 1
                elif op == "release":
                    api.release(conn, event["id"], now)
                    tally["released"] += 1
                elif op == "count":
                    api.count(conn, event["sku"], event["site"], event["delta"], now, event["by"])
                    tally["counts"] += 1
                elif op == "sweep":
                    tally["swept"] += sweeper.sweep(conn, now)
            except api.Refused:
                tally["refused"] += 1
        conn.commit()
        return tally


    def main(journal, db, log="var/replay.log"):
        os.makedirs("var", exist_ok=True)
        if os.path.exists(db):
            os.remove(db)
        minutes = settings.load().getint("holds", "minutes")
        with open(log, "w") as oplog.stream, open(journal) as lines:
            tally = replay(lines, store.connect(db), minutes)
        print(f"journal={journal} db={db} log={log}")
        print(" ".join(f"{name}={tally[name]}" for name in sorted(tally)))


    if __name__ == "__main__":
        main(*sys.argv[1:])
    ''')

AUDIT = dedent('''\
    """python -m holdfast.audit DB: compare the counters with what movements and open holds say."""
    import sys

    from . import settings, store


    def cells(conn):
        """(sku, site, on_hand, held, on_hand by movements, held by open holds) for every cell."""
        for row in conn.execute("SELECT * FROM stock ORDER BY sku, site").fetchall():
            where = (row["sku"], row["site"])
            moved = conn.execute(
                "SELECT COALESCE(SUM(CASE kind WHEN 'out' THEN -qty ELSE qty END), 0)"
                " FROM movements WHERE sku = ? AND site = ?", where).fetchone()[0]
            open_holds = conn.execute(
                "SELECT COALESCE(SUM(qty), 0) FROM holds WHERE state = 'open' AND sku = ? AND site = ?",
                where).fetchone()[0]
            yield *where, row["on_hand"], row["held"], moved, open_holds


    def main(db):
        tolerance = settings.load().getint("audit", "tolerance")
        total = drifting = units = 0
        for sku, site, on_hand, held, moved, open_holds in cells(store.connect(db)):
            free, expected = on_hand - held, moved - open_holds
            total += 1
            if free != expected:
                drifting += 1
                units += free - expected
                flag = "ALARM" if abs(free - expected) > tolerance else "note"
                print(f"{flag:5} {sku:14} {site:6} free={free} expected={expected} drift={free - expected:+d}")
        print(f"cells={total} drifting={drifting} units={units:+d} tolerance={tolerance}")
        return 1 if drifting else 0


    if __name__ == "__main__":
        sys.exit(main(*sys.argv[1:]))
    ''')

CONFTEST = dedent("""\
    import pytest

    from holdfast import store


    @pytest.fixture
    def conn():
        return store.connect(":memory:")
    """)

TEST_HOLDS = dedent("""\
    import pytest

    from holdfast import api, store, sweeper
    from holdfast.intake import receive


    def stocked(conn, qty=40):
        receive(conn, "DN-1", "cleat", "quay", qty, 0)


    def test_hold_takes_from_free(conn):
        stocked(conn)
        api.place_hold(conn, "H-1", "cleat", "quay", 12, 5, 30)
        assert store.cell(conn, "cleat", "quay") == (40, 12)


    def test_hold_refused_when_too_much(conn):
        stocked(conn, 3)
        with pytest.raises(api.Refused):
            api.place_hold(conn, "H-1", "cleat", "quay", 4, 5, 30)


    def test_packed(conn):
        stocked(conn)
        api.place_hold(conn, "H-1", "cleat", "quay", 12, 5, 30)
        api.confirm(conn, "H-1", 12, 9)
        assert store.cell(conn, "cleat", "quay") == (28, 0)


    def test_packed_short_gives_rest_back(conn):
        stocked(conn)
        api.place_hold(conn, "H-1", "cleat", "quay", 12, 5, 30)
        api.confirm(conn, "H-1", 7, 9)
        assert store.cell(conn, "cleat", "quay") == (33, 0)


    def test_release(conn):
        stocked(conn)
        api.place_hold(conn, "H-1", "cleat", "quay", 12, 5, 30)
        api.release(conn, "H-1", 9)
        assert store.cell(conn, "cleat", "quay") == (40, 0)


    def test_sweep_expires_late_holds(conn):
        stocked(conn)
        api.place_hold(conn, "H-1", "cleat", "quay", 12, 5, 30)
        assert sweeper.sweep(conn, 34) == 0
        assert sweeper.sweep(conn, 35) == 1
        assert store.cell(conn, "cleat", "quay") == (40, 0)


    def test_sweep_leaves_packed_holds(conn):
        stocked(conn)
        api.place_hold(conn, "H-1", "cleat", "quay", 12, 5, 30)
        api.confirm(conn, "H-1", 12, 9)
        assert sweeper.sweep(conn, 99) == 0
    """)

TEST_MISC = dedent("""\
    from holdfast import api, store
    from holdfast.intake import receive


    def test_receive(conn):
        assert receive(conn, "DN-7", "cleat", "quay", 18, 1)
        assert store.cell(conn, "cleat", "quay") == (18, 0)


    def test_count_up_and_down(conn):
        receive(conn, "DN-7", "cleat", "quay", 18, 1)
        api.count(conn, "cleat", "quay", 2, 3)
        api.count(conn, "cleat", "quay", -5, 4)
        assert store.cell(conn, "cleat", "quay") == (15, 0)


    def test_count_never_goes_below_zero(conn):
        receive(conn, "DN-7", "cleat", "quay", 18, 1)
        api.count(conn, "cleat", "quay", -20, 4)
        assert store.cell(conn, "cleat", "quay") == (0, 0)
    """)

OLD_RECOUNT = dedent("""\
    # one-off from the spring stocktake: sets every counter to what the shelf list says
    import csv, sqlite3, sys

    conn = sqlite3.connect(sys.argv[1])
    for row in csv.DictReader(open(sys.argv[2])):
        conn.execute("UPDATE stock SET on_hand = ? WHERE sku = ? AND site = ?", (row["shelf"], row["sku"], row["site"]))
    conn.commit()
    """)

TRACE = dedent('''\
    """python tools/trace_cell.py JOURNAL SKU SITE: the counters of one cell after every event that moves its drift."""
    import io
    import json
    import sys

    sys.path.insert(0, ".")
    from holdfast import audit, oplog, replay, settings, store

    if len(sys.argv) != 4:
        sys.exit("usage: " + __doc__.split(":")[0])
    journal, sku, site = sys.argv[1:]
    minutes = settings.load().getint("holds", "minutes")
    conn, last, steps = store.connect(":memory:"), (0, 0), 0
    for line in open(journal):
        oplog.stream = io.StringIO()
        replay.replay([line], conn, minutes)
        for s, w, on_hand, held, moved, holds in audit.cells(conn):
            if (s, w) == (sku, site) and (on_hand - moved, held - holds) != last:
                steps += 1
                last = (on_hand - moved, held - holds)
                event = json.loads(line)
                cause = [e for e in oplog.stream.getvalue().splitlines() if f"sku={sku} site={site}" in e]
                print(f"step={steps} t={event['t']} op={event['op']} on_hand_off={last[0]} held_off={last[1]}")
                for entry in cause[:3]:
                    print(f"    {entry}")
    print(f"cell={sku}@{site} steps={steps} final_on_hand_off={last[0]} final_held_off={last[1]}")
    ''')

TEST_SHORT = dedent('''\
    """A hold gives back its rest once, whoever comes second."""
    import pytest

    from holdfast import api, store, sweeper
    from holdfast.intake import receive


    @pytest.fixture
    def short(conn):
        receive(conn, "DN-1", "cleat", "quay", 40, 0)
        api.place_hold(conn, "H-1", "cleat", "quay", 12, 5, 30)
        api.confirm(conn, "H-1", 7, 9)
        return conn


    def test_sweep_after_short(short):
        sweeper.sweep(short, 60)
        assert store.cell(short, "cleat", "quay") == (33, 0)


    def test_release_after_short(short):
        try:
            api.release(short, "H-1", 12)
        except api.Refused:
            pass
        assert store.cell(short, "cleat", "quay") == (33, 0)


    def test_sweep_twice(short):
        api.place_hold(short, "H-2", "cleat", "quay", 3, 10, 30)
        sweeper.sweep(short, 60)
        sweeper.sweep(short, 90)
        assert store.cell(short, "cleat", "quay") == (33, 0)
    ''')

TEST_SHELF = dedent('''\
    """After any shelf count the movements still add up to the counter."""
    import pytest

    from holdfast import api, audit
    from holdfast.intake import receive


    @pytest.mark.parametrize("delta", [3, -4, -18, -19, -50])
    def test_count_keeps_ledger_equal(conn, delta):
        receive(conn, "DN-7", "cleat", "quay", 18, 1)
        api.count(conn, "cleat", "quay", delta, 4, "scanner-01")
        [(_, _, on_hand, _, moved, _)] = audit.cells(conn)
        assert on_hand == moved
    ''')

REPAIR = dedent('''\
    """python -m holdfast.repair DB REF [--apply]: bring counters and movements together again.

    Movements are only ever added: a cell whose on_hand differs gets one movement of kind 'fix' with REF.
    `held` has no history, so it is set to the sum of the open holds. Without --apply nothing is written.
    """
    import sys

    from . import audit, oplog, store


    def plan(conn):
        for sku, site, on_hand, held, moved, open_holds in audit.cells(conn):
            if on_hand != moved or held != open_holds:
                yield sku, site, on_hand - moved, open_holds - held


    def main(db, ref, *flags):
        conn = store.connect(db)
        now = conn.execute("SELECT COALESCE(MAX(t), 0) FROM movements").fetchone()[0]
        apply, fixes, held_units = "--apply" in flags, 0, 0
        oplog.stream = sys.stdout
        for sku, site, ledger, held in list(plan(conn)):
            fixes += 1 if ledger else 0
            held_units += held
            oplog.say(now, "repair.cell", sku=sku, site=site, ledger=ledger, held=held, ref=ref)
            if apply:
                store.bump(conn, sku, site, held=held)
                if ledger:
                    store.move(conn, now, sku, site, "fix", ledger, ref)
        conn.commit()
        print(f"mode={'apply' if apply else 'dry-run'} fix_movements={fixes} held_units={held_units} ref={ref}")


    if __name__ == "__main__":
        main(*sys.argv[1:])
    ''')

TEST_REPAIR = dedent("""\
    from holdfast import audit, repair, store


    def broken(path):
        conn = store.connect(path)
        store.bump(conn, "cleat", "quay", on_hand=9, held=-4)
        store.move(conn, 7, "cleat", "quay", "in", 6, "DN-7")
        conn.commit()
        return conn


    def test_dry_run_writes_nothing(tmp_path, capsys):
        conn = broken(tmp_path / "a.db")
        repair.main(tmp_path / "a.db", "INC-1")
        assert "mode=dry-run fix_movements=1 held_units=4" in capsys.readouterr().out
        assert store.cell(conn, "cleat", "quay") == (9, -4)


    def test_apply(tmp_path):
        conn = broken(tmp_path / "a.db")
        repair.main(tmp_path / "a.db", "INC-1", "--apply")
        [(_, _, on_hand, held, moved, open_holds)] = audit.cells(conn)
        assert (on_hand, held) == (moved, open_holds) == (9, 0)


    def test_second_run_finds_nothing(tmp_path, capsys):
        broken(tmp_path / "a.db")
        repair.main(tmp_path / "a.db", "INC-1", "--apply")
        capsys.readouterr()
        repair.main(tmp_path / "a.db", "INC-1", "--apply")
        assert "fix_movements=0 held_units=0" in capsys.readouterr().out
    """)

AGENTS = dedent("""\
    Holdfast keeps two counters per cell (one SKU at one site): `on_hand`, what lies on the shelf, and `held`, what carts have
    reserved. Free stock is the difference.

    - `holdfast/` is the service: `api.py` for checkout, bench and scanners, `intake.py` for the dock, `sweeper.py` for late holds.
    - `python -m holdfast.replay JOURNAL DB` runs a recorded night again; `python -m holdfast.audit DB` compares counters with history.
    - Times are minutes since the depot opened its books, not clock times.
    - Tests: `python -m pytest -q`. Scratch databases belong in `var/`, which git ignores.
    - Settings live in `conf/holdfast.ini`; a deploy picks them up on restart.
    - A commit has a subject under 60 characters and says in its body why the change was needed.
    - Incident write-ups go to `docs/incidents/`, one file an incident, named by its number.
    """)

SITES_QUERY = dedent("""\
    python - <<'PY'
    import sqlite3
    for db in ("var/n0.db", "var/n1.db"):
        conn = sqlite3.connect(db)
        print(f"[{db}] last_seq={conn.execute('SELECT MAX(seq) FROM movements').fetchone()[0]}")
        for site, on_hand, held in conn.execute("SELECT site, SUM(on_hand), SUM(held) FROM stock GROUP BY site ORDER BY site").fetchall():
            holds, pieces, packed = conn.execute(
                "SELECT COUNT(*), SUM(qty), SUM(taken) FROM holds WHERE site = ?", (site,)).fetchone()
            below = conn.execute("SELECT COUNT(*), SUM(-on_hand) FROM stock WHERE site = ? AND on_hand < 0", (site,)).fetchone()
            print(f"  site={site} on_hand={on_hand} held={held} holds={holds} reserved={pieces} packed={packed} below_zero={below[0]} missing={below[1] or 0}")
    PY""")

ORDERS = dedent("""\
    \"\"\"python tools/oversold.py JOURNAL BROKEN_LOG FIXED_LOG OUT: orders that got a hold only because of phantom stock.\"\"\"
    import csv
    import json
    import sys

    journal, broken, fixed, out = sys.argv[1:]


    def holds(path, evt):
        fields = (dict(pair.split("=", 1) for pair in line.split()) for line in open(path))
        return {f["hold"] for f in fields if f["evt"] == evt}


    wrong = holds(broken, "hold.placed") & holds(fixed, "hold.refused")
    rows = [e for e in map(json.loads, open(journal)) if e["op"] == "hold" and e["id"] in wrong]
    with open(out, "w", newline="") as target:
        writer = csv.writer(target, lineterminator="\\n")
        writer.writerow(["order", "hold", "sku", "site", "qty", "t"])
        for e in rows:
            writer.writerow([e["order"], e["id"], e["sku"], e["site"], e["qty"], e["t"]])
    lucky = holds(broken, "hold.refused") & holds(fixed, "hold.placed")
    print(f"oversold_orders={len(rows)} pieces={sum(e['qty'] for e in rows)} first_t={rows[0]['t']} last_t={rows[-1]['t']} only_in_fixed={len(lucky)}")
    """)

SKUS = ("brass-cleat", "bilge-hose", "deck-scupper", "fender-eye", "halyard-12", "oar-collar", "shackle-d8", "tiller-ext")
SITES = ("quay", "loft", "annex")
TIGHT = (("oar-collar", "annex"), ("tiller-ext", "loft"))  # cells where a shelf count goes below zero


def night(rng):
    """A night's journal: dock notes, holds with their fates, counts and sweeps; duplicates hit the cells that run short."""
    events, serial, docs = [], 0, rng.sample(range(20_000, 99_999), 120)
    ids = rng.sample(range(0x10000, 0xFFFFF), 400)
    crates = [c for c in ((sku, site) for sku in SKUS for site in SITES) if c not in TIGHT]
    short_cells = rng.sample(crates, 9)

    def add(t, **event):
        nonlocal serial
        serial += 1
        events.append((t, serial, {"t": t, **event}))

    for sku, site in crates:
        doc, qty = f"DN-{docs.pop()}", rng.randrange(48, 113)
        t = rng.randrange(10_000, 10_030)
        add(t, op="receive", doc=doc, sku=sku, site=site, qty=qty)
        if (sku, site) in short_cells[:7]:
            add(t + rng.randrange(40, 300), op="receive", doc=doc, sku=sku, site=site, qty=qty)
    for sku, site in TIGHT:
        add(rng.randrange(10_000, 10_030), op="receive", doc=f"DN-{docs.pop()}", sku=sku, site=site, qty=rng.randrange(11, 19))
        add(
            rng.randrange(10_300, 10_340),
            op="count",
            sku=sku,
            site=site,
            delta=-rng.randrange(23, 37),
            by=f"scanner-{rng.randrange(11, 30)}",
        )
        add(rng.randrange(10_400, 10_440), op="receive", doc=f"DN-{docs.pop()}", sku=sku, site=site, qty=rng.randrange(60, 90))
    for hold in (f"H-{n:05x}" for n in ids[:330]):
        (sku, site), t, qty = rng.choice(crates), rng.randrange(10_032, 10_700), rng.randrange(3, 15)
        add(t, op="hold", id=hold, sku=sku, site=site, qty=qty, order=f"O-{rng.randrange(400_000, 900_000)}")
        fate, soon = rng.random(), t + rng.randrange(2, 20)
        if (sku, site) in short_cells and fate < 0.34:
            add(soon, op="confirm", id=hold, taken=rng.randrange(1, qty))
        elif fate < 0.7:
            add(soon, op="confirm", id=hold, taken=qty)
        elif fate < 0.85:
            add(soon, op="release", id=hold)
    for sku, site in rng.sample(crates, 6):
        add(
            rng.randrange(10_200, 10_600),
            op="count",
            sku=sku,
            site=site,
            delta=rng.choice((-3, -2, -1, 1, 2, 4)),
            by=f"scanner-{rng.randrange(11, 30)}",
        )
    for t in range(10_045, 10_720, 15):
        add(t, op="sweep")
    return "".join(json.dumps(event) + "\n" for _, _, event in sorted(events))


def find(pattern, text):
    """The first group of a pattern that has to be in an output."""
    return re.search(pattern, text)[1]


def flat(text):
    return " ".join(text.split())


def play(r):
    rng = r.rng
    port, incident = rng.randrange(7100, 7990), f"INC-{rng.randrange(2100, 9800)}"
    day, release = f"{rng.randrange(2, 12):02d}{rng.randrange(10, 28)}", f"3.{rng.randrange(11, 40)}.{rng.randrange(1, 9)}"
    minutes, batch, busy = rng.choice((35, 40, 50)), rng.randrange(210, 890), rng.randrange(2300, 8700)
    tolerance = rng.randrange(5, 9)
    journal, snapshot = f"journals/night-{day}.jsonl", f"snapshots/counts-{day}.csv"
    digits = f"{rng.randrange(16**8):08x}"

    for name, text in (
        ("__init__.py", f'__version__ = "{release}"\n'), ("store.py", STORE), ("api.py", API), ("sweeper.py", SWEEPER), ("intake.py", INTAKE),
        ("oplog.py", OPLOG), ("settings.py", SETTINGS), ("replay.py", REPLAY), ("audit.py", AUDIT),
    ):  # fmt: skip
        r.file(f"holdfast/{name}", text)
    r.file(
        "conf/holdfast.ini",
        dedent(f"""\
        [service]
        listen = 127.0.0.1:{port}
        busy_timeout_ms = {busy}
        build = hf-{digits}

        [holds]
        minutes = {minutes}
        sweep_every = 15
        sweep_batch = {batch}

        [audit]
        tolerance = {tolerance}
        mail_to = stock-night@example.com
        """),
    )
    r.file("tests/conftest.py", CONFTEST)
    r.file("tests/test_holds.py", TEST_HOLDS)
    r.file("tests/test_misc.py", TEST_MISC)
    r.file("tools/recount_spring.py", OLD_RECOUNT)
    r.file(
        "docs/drift-notes.md",
        dedent(f"""\
        # Notes on the drifting counters

        - first alarm: night {day}, release {release}, host depot-{rng.randrange(31, 90)}
        - shop sold {rng.randrange(21, 49)} pieces that were not on the shelf, refund batch RB-{rng.randrange(50_000, 99_000)}
        - restarting the service at 05:{rng.randrange(10, 59)} did not change anything
        - the dock interface was rebuilt in 3.{rng.randrange(5, 10)} and sends notes again when it gets no answer in {rng.randrange(1100, 2900)} ms
        """),
    )
    r.file(".gitignore", "var/\n__pycache__/\n")
    r.file(journal, night(rng))
    r.run(f"python -m holdfast.replay {journal} var/setup.db && mkdir -p snapshots")
    r.run(
        "python - > " + snapshot + " <<'X'\nfrom holdfast import store\nprint('sku,site,on_hand,held')\n"
        "for row in store.connect('var/setup.db').execute('SELECT * FROM stock ORDER BY sku, site'):\n    print(*row, sep=',')\nX"
    )
    r.file("AGENTS.md", AGENTS)
    r.run("rm -r var && git init -q && git add -A && git commit -qm 'Import of the reservation service'")

    r.system(
        flat("""
        You are the engineer on call for a small warehouse team. You work in a terminal on a checkout of their stock reservation
        service, with tools to run shell commands, read, write and edit files, search, and keep a todo list. Establish the cause of a
        fault by experiment before changing code; say plainly what an output shows and what it does not show. Prefer the smallest
        change that removes the cause. Report numbers exactly as printed. Ask when a choice belongs to the business.
        """)
    )
    r.instructions(AGENTS)

    # --- what is wrong, and a first explanation ---
    r.user(
        flat(f"""Our free stock is drifting upwards and on night {day} the shop sold pieces that don't exist. It's {incident}. The journal of
        that night is {journal}, the counters as they stood in the morning are in {snapshot}. Please find out why, I need a cause and not a workaround.""")
    )
    r.agent(
        "I'll get an overview first: the layout, what somebody already wrote down about the fault, and the settings the service ran with.",
        r.bash("git ls-files | sort && wc -l journals/*.jsonl snapshots/*.csv"), r.read("docs/drift-notes.md"), r.read("conf/holdfast.ini"),
    )  # fmt: skip
    r.agent(
        f"Plan: reproduce the drift from {journal} first, because without that any explanation is a guess. Then narrow it to one cell and one event.",
        r.todo(("Reproduce the drift by replaying the night", "in_progress"), ("Find the event that makes a cell drift", "pending"),
               ("Fix the cause with a test", "pending"), ("Write up the incident", "pending")),
    )  # fmt: skip
    tally, audit = r.agent(
        "", r.bash(f"python -m holdfast.replay {journal} var/n0.db"), r.bash("python -m holdfast.audit var/n0.db")
    )
    drifting, units = find(r"drifting=(\d+)", audit), find(r"units=(\S+)", audit)
    duplicates, swept, refused = find(r"duplicates=(\d+)", tally), find(r"swept=(\d+)", tally), find(r"refused=(\d+)", tally)
    rows = re.findall(r"(\S+) +(\S+) +free=(-?\d+) expected=(-?\d+) drift=\+(\d+)", audit)
    worst = max((row for row in rows if row[:2] not in TIGHT), key=lambda row: int(row[4]))
    r.agent(
        f"Reproduced: {drifting} cells are off by {units} units together, every one of them upwards; {worst[0]} at {worst[1]} is the worst with +{worst[4]}. "
        f"The replay also reports {duplicates} duplicates. Before going on I want to know that the replay gives the counters production had.",
        r.bash(dedent(f"""\
            python - <<'PY'
            import csv, sqlite3
            rows = {{(r["sku"], r["site"]): (int(r["on_hand"]), int(r["held"])) for r in csv.DictReader(open("{snapshot}"))}}
            mine = {{(a, b): (c, d) for a, b, c, d in sqlite3.connect("var/n0.db").execute("SELECT sku, site, on_hand, held FROM stock")}}
            print("cells_in_snapshot:", len(rows), "cells_in_replay:", len(mine))
            print("different:", sum(rows[k] != mine.get(k) for k in rows))
            print("sum_free:", sum(v[0] - v[1] for v in rows.values()))
            PY""")), r.bash("sha256sum journals/*.jsonl snapshots/*.csv"),
    )  # fmt: skip
    r.user(
        flat(
            "Good that it reproduces. One thing before you dig: the files in snapshots/ are evidence for the auditors, never write there; take a copy if you need to play with one."
        )
    )
    r.agent(
        "Understood. The replay matches the morning counters in every cell, so what I see here is what happened. Before reading events I need to know what the audit compares and what one line of the journal looks like.",
        r.read("holdfast/audit.py", 7, 14), r.read("holdfast/store.py"),
        r.bash(f"sed -n '1p;60p;61p;148p;300p;301p;520p' {journal}; for op in receive hold confirm release count sweep; do echo \"op_$op: $(grep -c '\"op\": \"'$op'\"' {journal})\"; done"),
    )  # fmt: skip
    [dups] = r.agent(
        "The counters are kept beside the history, so any path that changes one without the other makes drift. Next the log of the replay: what kinds of events are there, and which look unusual?",
        r.bash("sed -E 's/.*evt=([a-z.]+).*/\\1/' var/replay.log | sort | uniq -c | sort -k1,1nr -k2"), r.bash("grep dock.duplicate var/replay.log"),
    )[1:]  # fmt: skip
    dup_doc = find(r"doc=(DN-\d+)", dups)
    hit = sum(
        f"{a} " in audit and re.search(rf"{a} +{b} ", audit) is not None for a, b in re.findall(r"sku=(\S+) site=(\S+)", dups)
    )
    wrong = "My working theory is that a delivery note that is sent twice is counted twice"
    r.agent(
        f"This fits well: of the {duplicates} cells with a repeated delivery note, {hit} are in the list of drifting cells, and the notes say the dock sends again when it "
        f"gets no answer. {wrong}, which would push free stock up exactly as seen. I'll read the intake code with that in mind.",
        r.read("holdfast/intake.py"), r.bash(f"grep -n '{dup_doc}' {journal} var/replay.log"),
    )  # fmt: skip
    r.user(
        flat(f"""Hm, the dock foreman counted {worst[0]} at {worst[1]} by hand this morning and on_hand was right to the piece. So please
        check whether it is on_hand or held that is off before you touch intake.""")
    )
    r.agent(
        "Good point, and the audit hides exactly that: it only prints the difference of the two counters. I'll let it show both, behind a flag so the nightly output stays as it is.",
        r.edit("holdfast/audit.py", 'def main(db):\n    tolerance', 'def main(db, *flags):\n    tolerance'),
        r.edit("holdfast/audit.py", "drift={free - expected:+d}\")\n    print", "drift={free - expected:+d}\")\n            if \"--split\" in flags:\n"
               "                print(f\"      on_hand={on_hand} moved={moved} off={on_hand - moved:+d} | held={held} open={open_holds} off={held - open_holds:+d}\")\n    print"),
    )  # fmt: skip
    [split] = r.agent("", r.bash("python -m holdfast.audit var/n0.db --split | grep 'off='"))
    clean = len(re.findall(r"moved=\S+ off=\+0 ", split))
    r.agent(
        f"That changes the picture. In {clean} of {drifting} cells on_hand agrees with the movements to the piece, and held is too low. The other cells are off in on_hand while held is fine, "
        "so there may be two faults. Let me see what intake really does with a repeated note.",
        r.bash("python - <<'PY'\nfrom holdfast import intake, store\nconn = store.connect(':memory:')\n"
               f"for t in (41, 77, 2093):\n    print('accepted:', intake.receive(conn, '{dup_doc}', 'probe-sku', 'quay', 265, t), 'cell:', store.cell(conn, 'probe-sku', 'quay'))\nPY"),
    )  # fmt: skip
    corrected = "So the repeated delivery notes are innocent"
    r.agent(
        f"{corrected}: the second and third call return False and the cell stays at 265. They hit the same cells only because these are the busy ones. "
        "I drop that theory and go after `held`. To find the events that move it I need a trace of one cell; I'll write a small tool for it.",
        r.write("tools/trace_cell.py", TRACE),
        r.todo(("Reproduce the drift by replaying the night", "completed"), ("Check intake for double counting: not the cause", "completed"),
               ("Trace which events make `held` drift", "in_progress"), ("Explain the cells that are off in on_hand", "pending"),
               ("Fix the causes with tests", "pending"), ("Write up the incident", "pending")),
    )  # fmt: skip
    r.agent("", r.bash(f"python tools/trace_cell.py {journal} {worst[0]} --site {worst[1]}"))
    [trace] = r.agent(
        "The site is a plain argument in my own tool, not an option.",
        r.bash(f"python tools/trace_cell.py {journal} {worst[0]} {worst[1]}"),
    )
    hold = find(r"evt=hold.expired hold=(\S+)", trace)
    steps = find(r"cell=\S+ steps=(\d+)", trace)
    r.agent(
        f"Every one of the {steps} steps happens in a sweep, never at the dock. The first culprit is {hold}. What is the life of that hold, and what do the sweeper and the API do with it?",
        r.bash(f"grep '{hold}' var/replay.log"), r.read("holdfast/sweeper.py"), r.read("holdfast/api.py", 27, 26),
    )  # fmt: skip
    r.agent(
        "Here it is. `confirm` with fewer pieces than held takes the whole quantity out of `held`, so the rest is free at once, and marks the hold `short`. The sweeper still "
        "selects `short` holds when they expire and subtracts the rest a second time. `release` accepts `short` too, so the service desk can do the same by hand. "
        "I want to see whether this accounts for all of it, cell by cell.",
        r.bash(dedent("""\
            python - <<'PY'
            import re
            from collections import Counter
            rest, shorts = Counter(), {}
            for line in open("var/replay.log"):
                f = dict(p.split("=", 1) for p in line.split())
                if f["evt"] == "hold.short":
                    shorts[f["hold"]] = int(f["qty"]) - int(f["taken"])
                if f["evt"] in ("hold.expired", "hold.released") and f["hold"] in shorts:
                    rest[f["sku"], f["site"]] += shorts[f["hold"]]
            for (sku, site), n in sorted(rest.items()):
                print(f"given_back_twice {sku}@{site}={n}")
            print(f"short_holds={len(shorts)} units_given_back_twice={sum(rest.values())}")
            PY""")), r.bash("git log --format='%h %s' && git grep -n \"'short'\""),
    )  # fmt: skip
    r.user(
        flat(
            """Convincing. Before you fix it: checkout pins holdfast.api, so keep the signatures of the public functions in api.py exactly as they are. How would you repair this, in the sweeper only?"""
        )
    )
    r.agent(
        "Two ways. The short one is to drop 'short' from the sweeper's query. It stops this drift, but the manual release has the same hole and the next caller will make it again. "
        "The other is a `released` column on holds and one function that gives back only what was not given back yet, used by all three paths. "
        "It costs a schema step from 7 to 8. I prefer the second; the signatures stay. A failing test comes first in either case.",
        r.write("tests/test_short_holds.py", TEST_SHORT), r.bash("python -m pytest -q --tb=line tests/test_short_holds.py"),
    )  # fmt: skip
    r.user(
        flat(
            """Take the column. And mind the log: our dashboards parse it, so every log entry has to stay a single line that starts with t= and carries an evt= key. You may add new evt names, not rename old ones."""
        )
    )
    r.agent(
        "Then I put the guard next to the tables, where both modules can reach it, and leave the existing event names alone.",
        r.edit("holdfast/store.py", "SCHEMA_VERSION = 7", "SCHEMA_VERSION = 8"),
        r.edit("holdfast/store.py", "    taken INTEGER NOT NULL DEFAULT 0,\n", "    taken INTEGER NOT NULL DEFAULT 0,\n    released INTEGER NOT NULL DEFAULT 0,\n"),
        r.edit("holdfast/store.py", "\n\ndef move(conn", '\n\ndef give_back(conn, hold_id):\n    """Put what a hold still keeps back on sale, once; returns how many pieces that were."""\n'
               '    hold = conn.execute("SELECT * FROM holds WHERE id = ?", (hold_id,)).fetchone()\n    rest = hold["qty"] - hold["taken"] - hold["released"]\n'
               '    bump(conn, hold["sku"], hold["site"], held=-rest)\n    conn.execute("UPDATE holds SET released = released + ? WHERE id = ?", (rest, hold_id))\n    return rest\n\n\ndef move(conn'),
    )  # fmt: skip
    r.agent(
        "", r.edit("holdfast/sweeper.py", 'rest = hold["qty"] - hold["taken"]\n        bump(conn, hold["sku"], hold["site"], held=-rest)\n', 'rest = give_back(conn, hold["id"])\n'),
        r.edit("holdfast/sweeper.py", "import bump", "import give_back"),
        r.edit("holdfast/api.py", 'bump(conn, hold["sku"], hold["site"], held=-hold["qty"])', "give_back(conn, hold_id)"),
    )  # fmt: skip
    r.agent(
        "The last edit did not apply: the line in `confirm` changes both counters in one call. I'll replace the right text there, and `release` with it.",
        r.edit("holdfast/api.py", 'on_hand=-taken, held=-hold["qty"])\n    conn.execute("UPDATE holds SET state = ?, taken = ? WHERE id = ?", (state, taken, hold_id))\n',
               'on_hand=-taken, held=-taken)\n    conn.execute("UPDATE holds SET state = ?, taken = ? WHERE id = ?", (state, taken, hold_id))\n    give_back(conn, hold_id)\n'),
        r.edit("holdfast/api.py", 'bump(conn, hold["sku"], hold["site"], held=hold["taken"] - hold["qty"])', "give_back(conn, hold_id)"),
        r.edit("holdfast/api.py", "import bump, cell, move", "import bump, cell, give_back, move"),
    )  # fmt: skip
    r.agent(
        "",
        r.bash("python -m pytest -q 2>&1 | tail -n 4"),
        r.bash("git diff --stat"),
        r.bash(
            "python - <<'PY'\nimport inspect, zlib\nfrom holdfast import api\nfor name in ('place_hold', 'confirm', 'release', 'count'):\n"
            "    text = name + str(inspect.signature(getattr(api, name)))\n    print(f'{text}  crc={zlib.crc32(text.encode()):08x}')\nPY\n"
            "git diff -U0 holdfast/api.py | grep -c '^[-+]def' | sed 's/^/changed_def_lines: /'"
        ),
    )
    [after] = r.agent(
        "All green, and no `def` line of api.py moved. The real proof is the night itself, with the fixed code and a fresh database.",
        r.bash(f"python -m holdfast.replay {journal} var/n1.db var/n1.log && python -m holdfast.audit var/n1.db --split"),
    )  # fmt: skip
    r.agent("Two cells remain. How do the sites compare between the broken and the fixed run?", r.bash(SITES_QUERY))
    left, left_units = find(r"drifting=(\d+)", after), find(r"units=(\S+)", after)
    odd = re.search(r"(oar-collar|tiller-ext) +(\S+) +free=\d+ expected=-?\d+ drift=(\S+)", after)
    refused_after = find(r"refused=(\d+)", after)
    r.agent(
        f"From {drifting} drifting cells ({units}) down to {left} ({left_units}). Refusals moved from {refused} to {refused_after}, so the phantom stock is no longer being sold. "
        f"What is left is off in on_hand, for example {odd[1]} at {odd[2]} with {odd[3]}. Tracing that one as well.",
        r.todo(("Reproduce the drift by replaying the night", "completed"), ("Make a hold give back its rest only once", "completed"),
               ("Explain the cells that are off in on_hand", "in_progress"), ("Repair tool for the live counters", "pending"), ("Write up the incident", "pending")),
        r.bash(f"python tools/trace_cell.py {journal} {odd[1]} {odd[2]} && grep 'sku={odd[1]} site={odd[2]}' var/n1.log"),
    )  # fmt: skip
    [counts] = r.agent(
        "One shelf count does it: the delta is larger than the stock. `count` clamps the counter at zero but writes the full delta into the movements, so the ledger ends below the counter. "
        "Is it always counts of that kind?",
        r.bash("grep count.posted var/n1.log"), r.bash("grep -n 'never_goes_below_zero' -A 4 tests/test_misc.py"),
    )[:1]  # fmt: skip
    scanner = find(rf"sku={odd[1]} site={odd[2]} delta=-\d+ by=(scanner-\d+)", counts)
    r.agent(
        f"Only these two go below zero; the other counts leave no drift. {scanner} sent the one at {odd[1]}. The clamp itself is on purpose, a test asks for it. "
        "Two ways out: refuse such a count, or write the movement with the delta that was really applied and log the part that was cut off. Which one fits the floor?",
    )  # fmt: skip
    r.user(
        flat("""The handheld scanners cannot show an error to the person, a refused count would just vanish. So write what was really applied, and log
        the part that was cut off as its own event.""")
    )
    r.agent(
        "Test first: the ledger has to equal the counter after any count.",
        r.write("tests/test_shelf_counts.py", TEST_SHELF), r.bash("python -m pytest -q --tb=line tests/test_shelf_counts.py"),
    )  # fmt: skip
    r.agent(
        "Two of five fail, the ones that go past zero. Now the change.",
        r.edit("holdfast/api.py", "    bump(conn, sku, site, on_hand=max(0, on_hand + delta) - on_hand)\n    move(conn, now, sku, site, \"count\", delta, by)\n",
               "    applied = max(-on_hand, delta)\n    bump(conn, sku, site, on_hand=applied)\n    move(conn, now, sku, site, \"count\", applied, by)\n"),
        r.edit("holdfast/api.py", '    oplog.say(now, "count.posted", sku=sku, site=site, delta=delta, by=by)\n',
               '    oplog.say(now, "count.posted", sku=sku, site=site, delta=delta, by=by)\n    if applied != delta:\n'
               '        oplog.say(now, "count.clipped", sku=sku, site=site, cut=delta - applied, by=by)\n'),
    )  # fmt: skip
    r.agent(
        "", r.bash("python -m pytest -q | tail -n 1"),
        r.bash(f"python -m holdfast.replay {journal} var/n2.db var/n2.log; python -m holdfast.audit var/n2.db; grep -c evt= var/n2.log | sed 's/^/log_entries: /'; grep clipped var/n2.log"),
    )  # fmt: skip
    passed = 18
    r.agent(
        f"The whole night now ends with no drifting cell, and the two clipped counts are visible in the log. {passed} tests pass. I commit this as the fix before starting anything else.",
        r.bash("git add -A holdfast tests tools && git commit -qm 'Give a hold back once; post counts as applied' -m 'A short hold was given back at packing and again by the sweep; "
               f"clipped counts left the ledger too low. {incident}' && git show --stat --format='%h %s' HEAD"),
    )  # fmt: skip
    r.user(
        flat("""Nice. Customer support is on my neck: which orders of that night got a promise they should not have got? They need it as a CSV, with order and hold.
        Put it where the incident file will live.""")
    )
    [_, listing] = r.agent(
        "That can be derived: a hold that the broken run placed and the fixed run refuses was promised from phantom stock. The order number is only in the journal, so I join on the hold id.",
        r.write("tools/oversold.py", ORDERS),
        r.bash(f"mkdir -p docs/incidents && python tools/oversold.py {journal} var/replay.log var/n2.log docs/incidents/oversold-{day}.csv && cat docs/incidents/oversold-{day}.csv"),
    )  # fmt: skip
    oversold, pieces, first_t = (
        find(r"oversold_orders=(\d+)", listing),
        find(r"pieces=(\d+)", listing),
        find(r"first_t=(\d+)", listing),
    )
    order = find(r"(O-\d+)", listing)
    r.agent(
        f"{oversold} orders with {pieces} pieces, the first at t={first_t} ({order}). A fixed night would have gone a little differently, so a few of these might have been "
        "refused or accepted by chance; support should treat the list as candidates. What became of the first ones, and how do they spread over the cells?",
        r.bash(f"sed -n 2,4p docs/incidents/oversold-{day}.csv | cut -d, -f2 | while read h; do grep -h \"hold=$h \" var/replay.log var/n2.log; done"),
        r.bash(f"awk -F, 'NR>1{{n[$3\"@\"$4]++; q[$3\"@\"$4]+=$5}} END{{for(c in n) print \"cell=\" c \" orders=\" n[c] \" pieces=\" q[c]}}' docs/incidents/oversold-{day}.csv | sort"),
    )  # fmt: skip
    r.user(
        flat(f"""Support is happy with that. I was wrong about the audit by the way: a tolerance of {tolerance} only hid this for weeks. Set it to 0, and let holds live 5 minutes
        longer while you're in that file, the bench is slow at night.""")
    )
    r.agent(
        f"Both are in conf/holdfast.ini: tolerance {tolerance} to 0 and minutes {minutes} to {minutes + 5}.",
        r.bash(f"sed -i -e 's/^tolerance = {tolerance}$/tolerance = 0/' -e 's/^minutes = {minutes}$/minutes = {minutes + 5}/' conf/holdfast.ini && git diff -U0 conf"),
        r.bash(f"python -m holdfast.replay {journal} var/n3.db var/n3.log; python -m holdfast.audit var/n3.db"),
    )  # fmt: skip
    r.user(
        flat(
            """Now the live database: it still carries the wrong counters. I want a repair command that I can run at night. It must never change anything unless --apply is given, I'd like to read the list first."""
        )
    )
    r.agent(
        "For `held` there is no history, so it can only be set to the sum of the open holds. For on_hand the shelf is right and the ledger is wrong. "
        "I could correct the old count rows, but the auditors compare movements by seq and an edited row would look like tampering; "
        "so I add one compensating movement of kind 'fix' per cell, with the incident as its reference.",
        r.write("holdfast/repair.py", REPAIR), r.write("tests/test_repair.py", TEST_REPAIR),
        r.todo(("Make a hold give back its rest only once", "completed"), ("Post shelf counts as applied", "completed"),
               ("Repair tool for the live counters", "in_progress"), ("Clean up tools and tests", "pending"), ("Write up the incident", "pending")),
    )  # fmt: skip
    r.agent(
        "Now against the damaged database of the first replay, dry first. It was written with schema 7, which makes it a fair stand-in for the live file.",
        r.bash("python -m pytest -q tests/test_repair.py"), r.bash(f"cp var/n0.db var/live-copy.db && python -m holdfast.repair var/live-copy.db {incident}"),
    )  # fmt: skip
    r.agent(
        "The dry run works, since neither audit nor repair read the new column. But the live service will: a database from before the change has no `released`. Let me prove that rather than assume it.",
        r.bash("python - <<'PY'\nfrom holdfast import store, sweeper\nconn = store.connect('var/live-copy.db')\n"
               "try:\n    print('swept:', sweeper.sweep(conn, 99_999))\nexcept Exception as error:\n    print('error:', type(error).__name__, error)\n"
               "print('columns:', [c[1] for c in conn.execute('PRAGMA table_info(holds)')])\nPY"),
    )  # fmt: skip
    r.agent(
        "As feared: the deploy would have stopped at the first sweep. `connect` has to add the column to an older file, and the holds that are already `short` have given their rest back, so their `released` must say so.",
        r.edit("holdfast/store.py", "    conn.execute(f\"PRAGMA user_version", '    upgrade(conn)\n    conn.execute(f"PRAGMA user_version'),
        r.edit("holdfast/store.py", "\n\ndef bump(conn", '\n\ndef upgrade(conn):\n    """Version 7 had no `released`; its short, packed and closed holds have given everything back already."""\n'
               '    if "released" not in [column[1] for column in conn.execute("PRAGMA table_info(holds)")]:\n'
               '        conn.execute("ALTER TABLE holds ADD COLUMN released INTEGER NOT NULL DEFAULT 0")\n'
               "        conn.execute(\"UPDATE holds SET released = qty - taken WHERE state <> 'open'\")\n        conn.commit()\n\n\ndef bump(conn"),
        r.write("tests/test_upgrade.py", dedent('''\
            import sqlite3

            from holdfast import store, sweeper


            def test_version_7_file(tmp_path):
                old = sqlite3.connect(tmp_path / "old.db")
                old.executescript(store.TABLES.replace("    released INTEGER NOT NULL DEFAULT 0,\\n", ""))
                old.execute("INSERT INTO stock VALUES ('cleat', 'quay', 33, 4)")
                old.execute("INSERT INTO holds VALUES ('H-1', 'cleat', 'quay', 12, 7, 'short', 20)")
                old.execute("INSERT INTO holds VALUES ('H-2', 'cleat', 'quay', 4, 0, 'open', 20)")
                old.commit()
                conn = store.connect(tmp_path / "old.db")
                assert sweeper.sweep(conn, 50) == 2
                assert store.cell(conn, "cleat", "quay") == (33, 0)
                assert conn.execute("PRAGMA user_version").fetchone()[0] == 8
            ''')),
    )  # fmt: skip
    r.agent("", r.bash("python -m pytest -q --tb=line tests"))
    [_, _, applied] = r.agent(
        "Nine errors of one kind, 'I/O operation on closed file', and only in modules that run after test_repair: my repair command leaves the log stream pointing at the "
        "captured stdout. That would also bite anybody who imports it. It has to put the stream back.",
        r.edit("holdfast/repair.py", "    conn.commit()\n    print", "    oplog.stream = None\n    conn.commit()\n    print"),
        r.bash("python -m pytest -q tests"),
        r.bash(f"cp var/n0.db var/live-copy.db; python -m holdfast.repair var/live-copy.db {incident} --apply | tail -n 1; python -m holdfast.audit var/live-copy.db"),
    )  # fmt: skip
    fixes, held_units = find(r"fix_movements=(\d+)", applied), find(r"held_units=(\d+)", applied)
    r.agent(
        f"After the repair of a copy: {fixes} fix movements, {held_units} held units put back, audit clean at tolerance 0. Next the clean-up I noted on the way. The spring recount script overwrites "
        "on_hand without a movement, which is a third way to make the ledger drift. Is it still called from anywhere?",
        r.bash("git grep -n -i 'recount' -- . ':!tools/recount_spring.py' || echo 'references: none'"), r.read("tools/recount_spring.py"),
    )  # fmt: skip
    r.user(
        flat(
            "Nobody has run that script since spring, delete it. And test_misc.py is a silly name, call it after what it tests. The trace tool can stay, it's useful."
        )
    )
    r.agent(
        "`test_misc.py` holds dock and count tests; I name it after the dock and move its clamp test next to the other counts later if you want that. The old script goes.",
        r.bash("git rm -q tools/recount_spring.py && git mv tests/test_misc.py tests/test_dock.py && git status --short"),
        r.bash("python -m pytest -q --co tests/test_dock.py tests/test_upgrade.py | grep ::"),
    )  # fmt: skip
    r.agent("", r.edit("tests/test_dock.py", "def test_count_up_and_down", dedent('''\
        def test_repeated_note_counts_once(conn):
            assert receive(conn, "DN-7", "cleat", "quay", 18, 1)
            assert not receive(conn, "DN-7", "cleat", "quay", 18, 44)
            assert store.cell(conn, "cleat", "quay") == (18, 0)


        def test_count_up_and_down''')),
        r.bash("python -m pytest -q | tail -n 1; git add -A && git commit -qm 'Repair command and schema 8 upgrade' -m 'The live counters need the same history as the code.' && git log --oneline | head -n 3"),
    )  # fmt: skip
    r.user(
        flat(f"""Last thing, the write-up for {incident}. Turn the loose notes into the incident file and bring the release number up to the next patch
        level, the deploy tool refuses a build with an old one. Also tell me how many holds of that night were affected and how you know.""")
    )
    [affected] = r.agent(
        "The notes become the incident file, so their history is kept. I take the number of affected holds from the first replay's log, which is from before the fix.",
        r.bash(f"mkdir -p docs/incidents && git mv docs/drift-notes.md docs/incidents/{incident}.md && cat holdfast/__init__.py"),
        r.bash("awk '/evt=hold.short/{for(i=1;i<=NF;i++)if($i~/^hold=/)s[$i]=1} /evt=hold.expired/{for(i=1;i<=NF;i++)if(s[$i])n++} END{print \"short_then_expired: \" n}' var/replay.log; "
               "grep -c hold.short var/replay.log | sed 's/^/short_in_log: /'; grep hold.placed var/replay.log | wc -l | sed 's/^ */placed_in_log: /'"),
    )[1:]  # fmt: skip
    hurt = find(r"short_then_expired: (\d+)", affected)
    major, minor, patch = release.split(".")
    bumped = f"{major}.{minor}.{int(patch) + 1}"
    r.agent(
        f"{hurt} holds were short first and expired later, each of them gave its rest back twice. Writing that down, and the release number from {release} to {bumped}.",
        r.edit("holdfast/__init__.py", release, bumped),
        r.bash(f"cat >> docs/incidents/{incident}.md <<'MD'\n\n## What happened\n\nNight {day}, journal `{journal}`: {drifting} cells drifted by {units} units. {hurt} short holds were given back at\n"
               f"packing and again by the sweep ({hold} was the first one found, at {worst[0]}@{worst[1]}). Two shelf counts, one of them from {scanner}, went\nbelow zero and left the ledger lower than the shelf.\n\n"
               f"## What it was not\n\nRepeated delivery notes such as {dup_doc} are refused by `dock_notes`.\n\n## What was done\n\nSchema 8 with `holds.released`; counts are posted as applied; audit tolerance 0; hold time {minutes + 5} minutes;\n"
               f"{oversold} orders were promised phantom stock, list in `oversold-{day}.csv`.\n"
               f"`python -m holdfast.repair DB {incident} --apply` for the live file. Expect `fix_movements={fixes}`.\nMD\nwc -w docs/incidents/{incident}.md"),
    )  # fmt: skip
    r.agent(
        "A last look at the whole: full tests, and the evidence untouched since the import.",
        r.bash("python -m pytest -q 2>&1 | tail -n 3"), r.bash(f"git diff --stat HEAD~2 -- snapshots journals && sha256sum {snapshot} | cut -c1-16 && git status --short"),
        r.todo(("Make a hold give back its rest only once", "completed"), ("Post shelf counts as applied", "completed"), ("Repair tool for the live counters", "completed"),
               ("Clean up tools and tests", "completed"), ("Write up the incident", "completed")),
    )  # fmt: skip
    r.agent(
        "",
        r.bash(
            f"git add -A && git commit -qm 'Incident report {incident}, release {bumped}' -m 'Closes the drift of night {day}.' && git log --oneline | cat"
        ),
    )
    r.agent(
        f"Done. Cause: a hold packed short ({hold} at {worst[0]}@{worst[1]} is the example in the report) was given back twice, {hurt} times that night; two clipped shelf counts did the rest. "
        f"The service listens on {port} as before; deploy {bumped}, run the repair for {incident} without the flag first, and expect {fixes} fix movements if the live file is in the state of that morning.",
    )  # fmt: skip

    t = r.truth
    t.fact(journal, snapshot, incident, str(port), f"hf-{digits}", str(busy), f"sweep_batch = {batch}", f"duplicates={duplicates}", f"swept={swept}", f"drifting={drifting}",
           f"units={units}", dup_doc, hold, f"steps={steps}", scanner, f"refused={refused_after}", "SCHEMA_VERSION = 8", f"minutes = {minutes + 5}", f"fix_movements={fixes}",
           f"held_units={held_units}", f"short_then_expired: {hurt}", "error: IndexError", f"expected={worst[3]}")  # fmt: skip
    t.constraint("the files in snapshots/ are evidence for the auditors, never write there")
    t.constraint("keep the signatures of the public functions in api.py exactly as they are")
    t.constraint("every log entry has to stay a single line that starts with t= and carries an evt= key")
    t.constraint("It must never change anything unless --apply is given")
    t.decision(
        "one function that gives back only what was not given back yet, used by all three paths",
        "drop 'short' from the sweeper's query",
        "the manual release has the same hole",
    )
    t.decision("write what was really applied", "refuse such a count", "a refused count would just vanish")
    t.decision(
        "I add one compensating movement of kind 'fix' per cell",
        "I could correct the old count rows",
        "an edited row would look like tampering",
    )
    t.update("audit tolerance", f"tolerance = {tolerance}", "tolerance = 0")
    t.update("hold minutes", f"minutes = {minutes}", f"minutes = {minutes + 5}")
    t.update("schema version", "SCHEMA_VERSION = 7", "SCHEMA_VERSION = 8")
    t.update("release", release, bumped)
    t.belief(wrong, corrected)
    for value in (journal, incident, hold, str(port), dup_doc, snapshot, f"{worst[0]}@{worst[1]}"):
        t.later(value)
