"""Lost inspections, exit codes, new reports and a new export in a command-line tool for beekeepers' records."""

from __future__ import annotations

import re
from textwrap import dedent

from recorder.recording import Recording

TITLE = "Import, reports, export and help of an apiary record keeper on the command line"
PROJECT = "combledger"

SYSTEM = """
You maintain combledger, a command-line program with which a beekeepers' co-op keeps its hive records. Members run it on old
laptops in the shed, so a wrong number or a silent loss is worse than a crash. You can run commands, read, write and edit files
and keep a todo list. Reproduce a complaint with the real files before explaining it. Say plainly when an explanation of yours
turned out to be wrong. Keep answers short and put numbers into them.
"""

INSTRUCTIONS = """
## combledger

Run it with `./comb COMMAND`; the code is in `combledger/`, one module per area, no classes except the ledger itself.

- `data/ledger.json` is the co-op's ledger (schema number inside). It is under version control on purpose.
- Tablets write `;` separated files with dates like `17.05.2025`; the ledger keeps dates as `2025-05-17`.
- Problems a user can cause are raised as `Problem(text, code)`; `cli.main` prints `comb: text` and returns the code.
- Each command has a page in `combledger/pages/NAME.txt`, shown by `./comb help NAME`.
- `./tests.sh` runs the unit tests and shortens what unittest prints. Tests use small ledgers in memory.
- Commit after each task: `area: what changed`. Version in `combledger/__init__.py`, changes in `NEWS`.
"""

CLI = '''
    """Entry point: `comb COMMAND [WORDS] [--option value]`."""
    import sys
    from pathlib import Path

    from combledger import commands
    from combledger.store import Ledger, Problem

    PAGES = Path(__file__).parent / "pages"


    def split(words):
        """Words and options of a command line; an option takes the word after it."""
        plain, options = [], {}
        words = list(words)
        while words:
            word = words.pop(0)
            if word.startswith("--"):
                if not words:
                    raise Problem(f"option {word} needs a value", 2)
                options[word[2:]] = words.pop(0)
            else:
                plain.append(word)
        return plain, options


    def page(name):
        file = PAGES / f"{name}.txt"
        if not file.is_file():
            raise Problem(f"no help page for '{name}'; pages: {', '.join(sorted(p.stem for p in PAGES.glob('*.txt')))}", 2)
        print(file.read_text(), end="")
        return 0


    def main(words):
        try:
            plain, options = split(words)
            name = plain[0] if plain else "help"
            if name == "help":
                return page(plain[1] if len(plain) > 1 else "comb")
            handler = getattr(commands, f"do_{name}", None)
            if handler is None:
                raise Problem(f"unknown command '{name}'", 2)
            ledger = Ledger.load(options.pop("ledger", "data/ledger.json"))
            return handler(ledger, plain[1:], options) or 0
        except Problem as problem:
            print(f"comb: {problem}", file=sys.stderr)
            return problem.code
'''

COMMANDS = '''
    """One function a command; it prints and returns an exit code (None is 0)."""
    from pathlib import Path

    from combledger import exporter, importer, reports
    from combledger.store import Problem


    def do_import(ledger, words, options):
        if len(words) != 2 or words[0] != "inspections":
            raise Problem("usage: comb import inspections FILE", 2)
        count = 0
        for record in importer.inspections(words[1], ledger):
            ledger.add(record)
            count += 1
        ledger.save()
        print(f"imported: {count}")


    def do_stats(ledger, words, options):
        for key, value in ledger.stats().items():
            print(f"{key}: {value}")


    def do_list(ledger, words, options):
        hive = options.get("hive")
        if hive:
            ledger.hive(hive)
        for key, record in ledger.inspections():
            if hive in (None, record["hive"]):
                print(reports.line(key, record))


    def do_report(ledger, words, options):
        name = words[0] if words else ""
        maker = getattr(reports, f"report_{name}", None)
        if maker is None:
            raise Problem(f"unknown report '{name}'", 2)
        print(maker(ledger))


    def do_export(ledger, words, options):
        target = Path(options.get("to", "exports/ledger.json"))
        target.parent.mkdir(exist_ok=True)
        text = exporter.document(ledger)
        target.write_text(text)
        print(f"exported: {target} bytes={len(text)}")
'''

STORE = '''
    """The ledger: hives, inspections and scale readings in one JSON file."""
    import hashlib
    import json
    from pathlib import Path

    from combledger.units import shown


    class Problem(Exception):
        def __init__(self, text, code):
            super().__init__(text)
            self.code = code


    class Ledger:
        def __init__(self, data, path=None):
            self.data, self.path = data, path

        @classmethod
        def load(cls, path):
            if not Path(path).is_file():
                raise Problem(f"no ledger at {path}", 3)
            return cls(json.loads(Path(path).read_text()), path)

        def save(self):
            if self.path:
                Path(self.path).write_text(json.dumps(self.data, indent=1, sort_keys=True) + "\\n")

        def hive(self, name):
            if name not in self.data["hives"]:
                raise Problem(f"unknown hive {name}", 3)
            return self.data["hives"][name]

        def add(self, record):
            """Put an inspection in and return its id. A repeated import must not double a record."""
            digest = hashlib.sha1(f"{record['hive']}|{record['date']}".encode()).hexdigest()
            key = f"in-{digest[:8]}"
            self.data["inspections"][key] = record
            return key

        def inspections(self):
            items = self.data["inspections"].items()
            return sorted(items, key=lambda item: (item[1]["date"], item[1]["time"], item[1]["hive"]))

        def stats(self):
            dates = [record["date"] for _, record in self.inspections()]
            text = json.dumps(self.data, sort_keys=True)
            return {
                "schema": self.data["schema"], "hives": len(self.data["hives"]), "inspections": len(dates),
                "first": shown(min(dates)) if dates else "-", "last": shown(max(dates)) if dates else "-",
                "mites_total": sum(record["mites"] for _, record in self.inspections()),
                "bees_total": sum(record["bees"] for _, record in self.inspections()),
                "digest": hashlib.sha1(text.encode()).hexdigest()[:12],
            }
'''

IMPORTER = '''
    """Files from the tablets."""
    import csv

    from combledger.store import Problem
    from combledger.units import iso, number


    def record(row, ledger):
        ledger.hive(row["hive"])
        return {
            "hive": row["hive"], "date": iso(row["date"]), "time": row["time"], "frames": int(row["frames"]), "brood": int(row["brood"]),
            "mites": int(row["mites"]), "bees": int(row["bees"]), "weight_kg": number(row["weight"]), "note": row["note"].strip(),
        }


    def inspections(path, ledger):
        try:
            file = open(path, newline="", encoding="utf-8-sig")
        except OSError:
            raise Problem(f"cannot read {path}", 3) from None
        with file:
            for row in csv.DictReader(file, delimiter=";"):
                try:
                    yield record(row, ledger)
                except (Problem, ValueError, KeyError):
                    continue
'''

UNITS = '''
    """Dates, numbers and weights as the tablets write them."""


    def iso(text):
        day, month, year = text.split(".")
        return f"{int(year):04d}-{int(month):02d}-{int(day):02d}"


    def shown(date):
        year, month, day = date.split("-")
        return f"{day}.{month}.{year}"


    def number(text):
        """A decimal number, with a comma or a point."""
        return float(text.strip().replace(",", "."))
'''

REPORTS = '''
    """Reports as text tables."""
    from combledger.units import shown


    def line(key, record):
        return (
            f"{key} {shown(record['date'])} {record['time']} {record['hive']:<6} frames={record['frames']:<2} brood={record['brood']:<2} "
            f"mites={record['mites']:<3} bees={record['bees']:<4} kg={record['weight_kg']:.2f} {record['note']}"
        ).rstrip()


    def by_hive(ledger):
        groups = {name: [] for name in sorted(ledger.data["hives"])}
        for _, record in ledger.inspections():
            groups[record["hive"]].append(record)
        return groups


    def report_strength(ledger):
        rows = ["hive    yard          visits  frames  brood  last        score"]
        for name, records in by_hive(ledger).items():
            if records:
                frames = sum(r["frames"] for r in records) / len(records)
                brood = sum(r["brood"] for r in records) / len(records)
                yard = ledger.hive(name)["yard"]
                rows.append(f"{name:<7} {yard:<13} {len(records):>6}  {frames:>6.2f}  {brood:>5.2f}  {shown(records[-1]['date'])}  {frames + 2 * brood:>5.2f}")
        return "\\n".join(rows)
'''

EXPORTER = '''
    """The ledger as a JSON document for the county's bee inspector."""
    import json


    def document(ledger):
        rows = [{"id": key, **record} for key, record in ledger.inspections()]
        return json.dumps({"format": 3, "inspections": rows}, indent=1) + "\\n"
'''

TESTS_SH = """
    #!/usr/bin/env bash
    # Unit tests; only the lines that say what failed, and the totals.
    set -o pipefail
    python3 -m unittest discover -s tests -t . 2>&1 | grep -E '^(FAIL|ERROR|OK|Ran|[A-Za-z.]*(Error|Problem))'
"""

TEST_STORE = '''
    """The ledger and the import."""
    import unittest

    from combledger import importer
    from combledger.store import Ledger, Problem

    ROW = {
        "date": "03.05.2025", "time": "09:15", "hive": "Z-1", "frames": "7", "brood": "4", "mites": "2", "bees": "310", "weight": "31,5", "note": "",
    }


    def empty():
        return Ledger({"schema": 3, "hives": {"Z-1": {"yard": "test", "box": "zander", "queen": 2024}}, "inspections": {}})


    class StoreTest(unittest.TestCase):
        def test_date_and_weight(self):
            record = importer.record(ROW, empty())
            self.assertEqual((record["date"], record["weight_kg"]), ("2025-05-03", 31.5))

        def test_twice_is_once(self):
            ledger = empty()
            for _ in range(2):
                ledger.add(importer.record(ROW, ledger))
            self.assertEqual(len(ledger.inspections()), 1)

        def test_unknown_hive(self):
            with self.assertRaises(Problem):
                importer.record({**ROW, "hive": "Z-9"}, empty())


    if __name__ == "__main__":
        unittest.main()
'''

PAGE_COMB = """
    comb - records of an apiary

      comb import inspections FILE     take a tablet's file into the ledger
      comb list [--hive H]             inspections, oldest first
      comb report strength             frames and brood by hive
      comb export [--to FILE]          JSON for the county
      comb stats                       counts and a digest
      comb help PAGE                   a page about one command
"""

PAGE_IMPORT = """
    comb import inspections FILE

    Reads a tablet's file. Importing the same file twice changes nothing.
"""

NOTES = (
    "queen seen", "queen not seen, eggs present", "calm", "defensive at the entrance", "two swarm cells removed", "drone brood cut",
    "super added", "wax moth traces on the floor", "fed 1 l syrup", "feed frame swapped", "chalkbrood, few cells", "good pollen",
)  # fmt: skip


def code(text: str) -> str:
    return dedent(text).lstrip("\n")


def inspection_row(r: Recording, day: int, month: int, time: str, hive: str, comma: bool) -> str:
    weight = f"{r.rng.uniform(22, 58):.2f}"
    return ";".join(
        (
            f"{day:02d}.{month:02d}.2025", time, hive, str(r.rng.randrange(4, 11)), str(r.rng.randrange(1, 8)), str(r.rng.randrange(0, 14)),
            str(r.rng.randrange(240, 420)), weight.replace(".", ",") if comma else weight, r.rng.choice(NOTES),
        )
    )  # fmt: skip


def clock(r: Recording, hour: int) -> str:
    return f"{hour:02d}:{r.rng.randrange(0, 60):02d}"


def play(r: Recording) -> None:
    rng = r.rng
    header = "date;time;hive;frames;brood;mites;bees;weight;note"
    numbers = rng.sample(range(11, 98), 20)
    hives = [f"H-{number}" for number in numbers[:17]]
    unknown, fresh = f"H-{numbers[17]}", f"H-{numbers[18]}"
    yards = rng.sample(["mill-meadow", "quarry-edge", "north-slope", "chapel-lane", "rail-bank"], 3)
    boxes = {hive: rng.choice(["zander", "dadant"]) for hive in hives}
    boxes.update({hives[0]: "zander", hives[1]: "dadant", hives[2]: "zander"})
    scale_hives, plate = hives[:3], hives[3]
    missing_unknown, missing_same = 3, 5
    old_version = f"0.{rng.randrange(6, 9)}.{rng.randrange(2, 9)}"
    new_version = f"0.{int(old_version[2]) + 1}.0"
    member = f"M-{rng.randrange(2000, 9800)}"
    tare_zander, tare_wrong = rng.randrange(1012, 1149) / 100, rng.randrange(1231, 1299) / 100
    tare_dadant = rng.randrange(1305, 1389) / 100
    limit_spring, limit_late = rng.randrange(17, 26) / 10, rng.randrange(29, 38) / 10
    county = f"BI-{rng.randrange(100, 999)}-{rng.randrange(10000, 99999)}"
    export_url = f"https://hives.example.com/intake/v4/{rng.randrange(16**6):06x}"
    row_limit = rng.choice([180, 190, 210, 220])

    # --- the program and its data -----------------------------------------------------------------------------
    for path, text in (
        ("combledger/cli.py", CLI), ("combledger/commands.py", COMMANDS), ("combledger/store.py", STORE), ("combledger/importer.py", IMPORTER),
        ("combledger/units.py", UNITS), ("combledger/reports.py", REPORTS), ("combledger/exporter.py", EXPORTER), ("tests.sh", TESTS_SH),
        ("tests/test_store.py", TEST_STORE), ("combledger/pages/comb.txt", PAGE_COMB), ("combledger/pages/import.txt", PAGE_IMPORT),
    ):  # fmt: skip
        r.file(path, code(text))
    r.file("tests/__init__.py", "")
    r.file("combledger/__init__.py", f'__version__ = "{old_version}"\n')
    r.file("combledger/__main__.py", "import sys\n\nfrom combledger.cli import main\n\nsys.exit(main(sys.argv[1:]))\n")
    r.file("comb", '#!/bin/sh\nexec python3 -m combledger "$@"\n')
    r.file("NEWS", f"{old_version}\n- list --hive\n- strength report sorts by hive\n")
    r.file("notes/strength-old.awk", "# strength score before there was `comb report strength`\n{ print $1, $2 + 2 * $3 }\n")
    r.file(".gitignore", "exports/\n__pycache__/\n")
    people = {
        hive: {"yard": yards[n % 3], "box": boxes[hive], "queen": rng.choice([2022, 2023, 2024])} for n, hive in enumerate(hives)
    }
    r.file("data/ledger.json", '{"schema": 3, "hives": {}, "inspections": {}}\n')
    r.run(
        "python3 - <<'PY'\nimport json\n"
        f"json.dump({{'schema': 3, 'hives': {people!r}, 'inspections': {{}}}}, open('data/ledger.json', 'w'), indent=1, sort_keys=True)\nPY"
    )
    april = [inspection_row(r, 3 + 2 * n, 4, clock(r, 9 + n % 8), hive, False) for n in range(3) for hive in hives]
    r.file("data/inbox/inspections-april.csv", "\n".join([header, *april]) + "\n")
    may = []
    days = sorted(rng.sample(range(1, 31), 4))
    for day in days:
        may += [inspection_row(r, day, 5, clock(r, 8), hive, False) for hive in hives]
    for hive in rng.sample(hives, missing_same):
        may.append(inspection_row(r, rng.choice(days), 5, clock(r, 17), hive, False))
    for day in days[:missing_unknown]:
        may.append(inspection_row(r, day, 5, clock(r, 11), unknown, False))
    may.sort(key=lambda row: (int(row[:2]), row[11:16]))
    commas = rng.sample(range(len(may)), missing_same + missing_unknown)
    for n in commas:
        parts = may[n].split(";")
        parts[7] = parts[7].replace(".", ",")
        may[n] = ";".join(parts)
    total_rows = len(may)
    r.file("data/inbox/inspections-may.csv", "\n".join([header, *may]) + "\n")
    scale = []
    for hive in scale_hives:
        weight = rng.uniform(64, 92)
        for day in range(10, 24):
            for hour in (6, 20):
                weight += rng.uniform(-0.9, 2.3)
                unit = "lb" if day >= 17 else "kg"
                shown = weight if unit == "lb" else weight * 0.45359237
                scale.append(f"2025-05-{day:02d}T{hour:02d}:00;{hive};{shown:.2f};{unit};{rng.randrange(310, 420) / 100:.2f}")
    r.file("data/inbox/scale-may.csv", "stamp;hive;gross;unit;volt\n" + "\n".join(scale) + "\n")
    sync, minute = [], 0
    for day in days:
        for tablet in ("T1", "T2", "T5", "T8"):
            for try_ in range(rng.choice([1, 1, 2])):
                minute = rng.randrange(0, 60)
                sync.append(
                    f"{day:02d}.05.2025 19:{minute:02d} tablet={tablet} session=s{rng.randrange(16**5):05x} try={try_ + 1} battery_mv={rng.randrange(3400, 4190)} "
                    f"signal_dbm=-{rng.randrange(51, 97)} sent_bytes={rng.randrange(1100, 5200)} crc={rng.randrange(16**8):08x} latency_ms={rng.randrange(80, 2900)}"
                )
            sync.append(
                f"{day:02d}.05.2025 19:{minute:02d} tablet={tablet} state=complete queue_left=0 firmware=fw{rng.randrange(300, 400)} uptime_min={rng.randrange(200, 9000)}"
            )
    r.file("data/inbox/tablet-sync.log", "\n".join(sync) + "\n")
    r.run("chmod +x comb tests.sh && ./comb import inspections data/inbox/inspections-april.csv >/dev/null")
    r.run("git init -q && git add -A && git commit -qm 'Import combledger with the April records'")
    r.run("cp data/ledger.json .git/ledger-april.json")

    # --- lost rows --------------------------------------------------------------------------------------------
    r.system(SYSTEM)
    r.instructions(INSTRUCTIONS)
    r.user(
        f"Member {member} says the May file loses inspections: data/inbox/inspections-may.csv has {total_rows} rows, but after the import the ledger grew by fewer, and the program "
        "was content with it. Please find out which ones get lost and why."
    )
    todo = [
        "Reproduce the loss with the May file",
        "Find which rows are lost and why",
        "Fix it with tests",
        "Report rejected rows",
    ]
    r.agent(
        "First the layout, the current counts and the file itself.",
        r.todo((todo[0], "in_progress"), *((t, "pending") for t in todo[1:])),
        r.bash("git ls-files | sort; ./comb stats; cat NEWS"),
        r.bash("cat data/inbox/inspections-may.csv"),
    )
    grown = r.agent(
        "Now the import, on a copy of the ledger so that nothing is changed yet.",
        r.bash(
            'cp data/ledger.json trial.json && ./comb import inspections data/inbox/inspections-may.csv --ledger trial.json; echo "exit=$?"; ./comb stats --ledger trial.json'
        ),
        r.read("combledger/importer.py"),
        r.bash("cat data/inbox/tablet-sync.log"),
    )
    imported = re.search(r"imported: (\d+)", grown[0])[1]
    after = int(re.search(r"inspections: (\d+)", grown[0])[1])
    lost = total_rows - (after - len(april))
    comma_rows = r.agent(
        f"It says {imported} and exits with 0, while the ledger went from {len(april)} to {after}: {lost} rows are gone, and the printed number is a third one. The tablets did send everything, each session ends complete. "
        "The importer swallows every ValueError without a word, so I look for rows whose numbers could be refused.",
        r.bash(
            "cut -d';' -f8 data/inbox/inspections-may.csv | grep -c ','; grep -n ';[0-9]*,[0-9]*;' data/inbox/inspections-may.csv"
        ),
    )[0]
    count = comma_rows.split()[0]
    wrong = "the lost rows are the ones with a decimal comma in the weight column"
    r.agent(
        f"{count} rows carry a comma, exactly as many as are missing. So {wrong}: a failed conversion raises ValueError and the row is skipped. "
        "I'll confirm it by checking whether these rows are in the trial ledger.",
        r.read("combledger/units.py"),
        r.bash(
            "python3 - <<'PY'\nimport csv, json\nfrom combledger.units import iso\nkept = json.load(open('trial.json'))['inspections'].values()\nkeys = {(r['hive'], r['date'], r['time']) for r in kept}\n"
            "for n, row in enumerate(csv.DictReader(open('data/inbox/inspections-may.csv'), delimiter=';'), 2):\n    there = (row['hive'], iso(row['date']), row['time']) in keys\n    if not there:\n"
            "        print(f\"line={n} hive={row['hive']} date={row['date']} time={row['time']} weight={row['weight']} in_ledger={there}\")\nPY"
        ),
    )
    corrected = "my decimal comma explanation does not hold"
    r.agent(
        f"No: {corrected}. number() accepts commas, and most of the missing rows are written with a point; the equal count was chance. What is missing falls into two kinds: three rows "
        f"of hive {unknown}, which the ledger does not know, and rows of hives that were inspected twice on the same day, where only the later one is left. The second is the store's business.",
        r.read("combledger/store.py"),
        r.read("combledger/commands.py"),
        r.todo((todo[0], "completed"), (todo[1], "in_progress"), *((t, "pending") for t in todo[2:])),
    )
    chosen, rejected = "hive, date and time together", "a running counter"
    reason = "two tablets that are offline would hand out the same number"
    r.agent(
        f"add() builds the id from hive and date only, so a second visit on one day replaces the first. The id has to come from {chosen}. I thought of {rejected} as well, but {reason}, and a "
        "repeated import would double everything. The test first.",
        r.edit(
            "tests/test_store.py",
            "    def test_unknown_hive(self):",
            '    def test_two_visits_on_one_day(self):\n        ledger = empty()\n        keys = [ledger.add(importer.record({**ROW, "time": time}, ledger)) for time in ("09:15", "17:40")]\n        self.assertEqual(len(ledger.inspections()), 2, keys)\n\n    def test_unknown_hive(self):',
        ),
        r.bash("./tests.sh"),
    )
    r.agent(
        "It fails as it should.",
        r.edit(
            "combledger/store.py",
            "{record['hive']}|{record['date']}\".encode()",
            "{record['hive']}|{record['date']}|{record['time']}\".encode()",
        ),
        r.bash(
            "./tests.sh; cp data/ledger.json trial.json; ./comb import inspections data/inbox/inspections-may.csv --ledger trial.json; ./comb stats --ledger trial.json | head -n 3"
        ),
    )
    r.agent(
        f"Now {imported} printed and {imported} more in the ledger. One consequence: the {len(april)} April records still have ids of the old kind, so importing April again would double them. Let me prove that before I change anything.",
        r.bash("cat data/inbox/inspections-april.csv"),
        r.bash(
            "./comb import inspections data/inbox/inspections-april.csv --ledger trial.json && ./comb stats --ledger trial.json | grep -E 'inspections|digest' && rm trial.json && git status --short"
        ),
    )
    inbox = "never write to data/inbox, those are the originals from the tablets and the only copy we have"
    r.user(
        f"Right, then old ids must be converted, once, when the ledger is loaded; give it schema 4 for that. And rejected rows should go to a file with the reason. But {inbox}. Put the rejects under data/rejects/."
    )
    r.agent(
        "The conversion belongs in load(): for schema 3 every id is made again from the record. The importer will hand out rejects beside records.",
        r.edit(
            "combledger/store.py",
            "    def add(self, record):",
            '    def upgrade(self):\n        """Schema 3 had ids without the time of day."""\n        if self.data["schema"] == 3:\n            records = list(self.data["inspections"].values())\n            self.data.update(schema=4, inspections={})\n            for record in records:\n                self.add(record)\n        return self\n\n    def add(self, record):',
        ),
        r.edit(
            "combledger/store.py",
            "return cls(json.loads(Path(path).read_text()), path)",
            "return cls(json.loads(Path(path).read_text()), path).upgrade()",
        ),
    )
    r.agent(
        "",
        r.write(
            "combledger/importer.py",
            code('''
            """Files from the tablets."""
            import csv
            from pathlib import Path

            from combledger.store import Problem
            from combledger.units import iso, number

            REJECTS = Path("data/rejects")


            def record(row, ledger):
                ledger.hive(row["hive"])
                return {
                    "hive": row["hive"], "date": iso(row["date"]), "time": row["time"], "frames": int(row["frames"]), "brood": int(row["brood"]),
                    "mites": int(row["mites"]), "bees": int(row["bees"]), "weight_kg": number(row["weight"]), "note": row["note"].strip(),
                }


            def inspections(path, ledger):
                """Two lists: records, and rejected rows as (line number, reason, row)."""
                try:
                    file = open(path, newline="", encoding="utf-8-sig")
                except OSError:
                    raise Problem(f"cannot read {path}", 3) from None
                good, bad = [], []
                with file:
                    for number_, row in enumerate(csv.DictReader(file, delimiter=";"), 2):
                        try:
                            good.append(record(row, ledger))
                        except (Problem, ValueError, KeyError) as error:
                            bad.append((number_, str(error), row))
                return good, bad


            def write_rejects(path, bad, folder=REJECTS):
                """Rejected rows of one file, with line and reason in front; returns where they went."""
                folder.mkdir(parents=True, exist_ok=True)
                target = folder / f"{Path(path).stem}.rejects.csv"
                with open(target, "w", newline="", encoding="utf-8") as file:
                    writer = csv.writer(file, delimiter=";", lineterminator="\\n")
                    writer.writerow(["line", "reason", *bad[0][2]])
                    writer.writerows([number_, reason, *row.values()] for number_, reason, row in bad)
                return target
        '''),
        ),
        r.edit(
            "combledger/commands.py",
            '    count = 0\n    for record in importer.inspections(words[1], ledger):\n        ledger.add(record)\n        count += 1\n    ledger.save()\n    print(f"imported: {count}")\n',
            '    good, bad = importer.inspections(words[1], ledger)\n    before = len(ledger.inspections())\n    for record in good:\n        ledger.add(record)\n    ledger.save()\n    print(f"read: {len(good) + len(bad)} new: {len(ledger.inspections()) - before} rejected: {len(bad)}")\n    if bad:\n        print(f"rejects: {importer.write_rejects(words[1], bad)}")\n',
        ),
        r.bash(
            './tests.sh; ./comb import inspections data/inbox/inspections-may.csv; echo "exit=$?"; ./comb stats; cat data/rejects/*.csv'
        ),
    )
    r.agent(
        "Counts add up, and April again must bring nothing new now. I also go through May as the ledger has it, to see both visits of a day.",
        r.bash("./comb import inspections data/inbox/inspections-april.csv && git status --short && git diff --stat | cat"),
        r.bash("./comb list | sed -n '/[.]05[.]2025/p'"),
    )

    # --- exit codes -------------------------------------------------------------------------------------------
    packages = "nothing may be installed besides Python, half of our members run it from a USB stick"
    r.user(
        f"That works. A script of ours checks the exit code of the import, so a partial import needs its own code. Document all codes on a page `exit`. By the way, {packages}."
    )
    chosen2, rejected2 = "exit code 4 for a partial import", "reusing 1"
    reason2 = "Python itself exits with 1 when it crashes"
    r.agent(
        f"I'll take {chosen2}. {rejected2} would be the obvious choice, but {reason2}, and your script could not tell the two apart. 2 is wrong usage and 3 is something that does not exist; those stay.",
        r.bash(
            "sed -i 's|^\\(        print(f\"rejects: .*\\)$|\\1\\n        return 4|' combledger/commands.py && sed -n '/^def do_import/,/^def do_stats/p' combledger/commands.py"
        ),
        r.write(
            "combledger/pages/exit.txt",
            code("""
            exit codes of comb

              0  done
              2  wrong usage: unknown command, report, page or option
              3  something named does not exist: ledger, file, hive
              4  done in part: some rows were rejected, see data/rejects/
        """),
        ),
        r.edit(
            "combledger/pages/import.txt",
            "Importing the same file twice changes nothing.\n",
            "Importing the same file twice changes nothing.\nRows that cannot be used go to data/rejects/ with line and reason; the exit code is 4 then.\n",
        ),
    )
    r.agent(
        "Every code once, with what it prints:",
        r.bash(
            "for words in 'stats' 'frobnicate' 'report honey' 'list --hive H-100' 'import inspections data/inbox/june.csv' 'import inspections data/inbox/inspections-may.csv' 'help queen' 'list --hive'; do ./comb $words >out.txt 2>err.txt; echo \"$words -> exit=$? stdout_lines=$(grep -c . out.txt) stderr=$(cat err.txt)\"; done; rm out.txt err.txt"
        ),
        r.read("combledger/cli.py"),
    )
    r.agent(
        "All as documented. Committing the first two tasks together.",
        r.bash(
            f"sed -i '1i next\\n- import: two visits a day are kept, rejects are written ({member})\\n- exit code 4 for a partial import\\n' NEWS && git add -A && git commit -qm 'import: keep both visits of a day, report rejects' && git show --stat --format='%h %s' | cat"
        ),
    )

    # --- varroa report ----------------------------------------------------------------------------------------
    columns = "leave the column order of the existing reports alone, our treasurer's spreadsheet reads them by position"
    r.user(
        f"Next wish: comb report varroa, mites per 100 bees for each hive, latest sample and season's worst, with a mark if the latest is above {limit_spring}. It should also come as csv and as markdown, with --as. "
        f"For strength too, but {columns}."
    )
    todo = ["Tables with three output forms", "Varroa report with a limit", "Help page and tests"]
    before_table = r.agent(
        "Reports build strings by hand today. I'll keep a copy of the strength output to compare with afterwards.",
        r.todo((todo[0], "in_progress"), (todo[1], "pending"), (todo[2], "pending")),
        r.read("combledger/reports.py"),
        r.bash("./comb report strength | tee strength.before"),
    )[2]
    assert before_table
    r.agent(
        "I split each report into columns and rows, and let one function draw them. The table form has to give the very same bytes as before for strength.",
        r.write(
            "combledger/tables.py",
            code('''
            """Rows drawn as a text table, as csv or as markdown."""
            from combledger.store import Problem

            FORMS = ("table", "csv", "markdown")


            def draw(columns, rows, form="table"):
                """Columns are (title, format) pairs; a format that starts with < or > sets the side and the width."""
                if form not in FORMS:
                    raise Problem(f"unknown form '{form}'; forms: {', '.join(FORMS)}", 2)
                titles = [title for title, _ in columns]
                if form == "table":
                    lines = [[cell(title, layout) for title, layout in columns]]
                    lines += [[cell(value, layout) for value, (_, layout) in zip(row, columns)] for row in rows]
                    return "\\n".join("  ".join(line).rstrip() for line in lines)
                plain = [[text(value) for value in row] for row in rows]
                if form == "csv":
                    return "\\n".join(";".join(line) for line in [titles, *plain])
                return "\\n".join("| " + " | ".join(line) + " |" for line in [titles, ["---"] * len(titles), *plain])


            def text(value):
                return f"{value:.2f}" if isinstance(value, float) else str(value)


            def cell(value, layout):
                return f"{text(value):{layout}}"
        '''),
        ),
        r.edit(
            "combledger/reports.py",
            '    rows = ["hive    yard          visits  frames  brood  last        score"]\n',
            "    rows = []\n",
        ),
        r.bash(
            r"""python3 - <<'PY'
from pathlib import Path
path = Path("combledger/reports.py")
text = path.read_text()
start = text.index('            rows.append(f"{name:<7}')
text = text[:start] + '''            rows.append((name, yard, len(records), frames, brood, shown(records[-1]["date"]), frames + 2 * brood))
    return STRENGTH, rows


def report_varroa(ledger, limit=SPRING_LIMIT):
    rows = []
    for name, records in by_hive(ledger).items():
        rates = [100 * r["mites"] / r["bees"] for r in records if r["bees"]]
        if rates:
            mark = "treat" if rates[-1] > limit else ""
            rows.append((name, shown(records[-1]["date"]), records[-1]["mites"], records[-1]["bees"], rates[-1], max(rates), mark))
    return VARROA, rows
'''
text = text.replace("Reports as text tables.", "Reports: each returns its columns and rows.")
text = text.replace('\n\ndef line(', '''
SPRING_LIMIT = 0.0
STRENGTH = (("hive", "<6"), ("yard", "<12"), ("visits", ">6"), ("frames", ">6"), ("brood", ">5"), ("last", "<10"), ("score", ">5"))
VARROA = (("hive", "<6"), ("sampled", "<10"), ("mites", ">5"), ("bees", ">4"), ("per100", ">6"), ("worst", ">6"), ("mark", "<5"))


def line(''', 1)
path.write_text(text)
print("reports.py:", len(text.splitlines()), "lines")
PY
"""
            + f"sed -i 's/^SPRING_LIMIT = 0.0/SPRING_LIMIT = {limit_spring}/' combledger/reports.py"
        ),
    )
    r.agent(
        "Now the command has to draw what the report returns.",
        r.edit(
            "combledger/commands.py",
            "    print(maker(ledger))\n",
            '    print(tables.draw(*maker(ledger), options.get("as", "table")))\n',
        ),
        r.edit(
            "combledger/commands.py",
            "from combledger import exporter, importer, reports\n",
            "from combledger import exporter, importer, reports, tables\n",
        ),
        r.bash(
            "./comb report strength | diff strength.before - && echo same; rm strength.before; ./comb report varroa; ./comb report strength --as csv | head -n 3"
        ),
    )
    r.agent(
        "Strength is the same to the byte, and the rates look plausible. Tests for the drawing and for the rate, and the page.",
        r.write(
            "tests/test_reports.py",
            code('''
            """Tables and the varroa report."""
            import unittest

            from combledger import reports, tables
            from combledger.store import Problem
            from tests.test_store import ROW, empty
            from combledger import importer


            class ReportTest(unittest.TestCase):
                def ledger(self, *counts):
                    ledger = empty()
                    for day, (mites, bees) in enumerate(counts, 1):
                        row = {**ROW, "date": f"{day:02d}.05.2025", "mites": str(mites), "bees": str(bees)}
                        ledger.add(importer.record(row, ledger))
                    return ledger

                def test_rate(self):
                    _, rows = reports.report_varroa(self.ledger((9, 300), (3, 300)))
                    self.assertEqual(rows[0][4:6], (1.0, 3.0))

                def test_no_sample_since(self):
                    _, rows = reports.report_varroa(self.ledger((9, 300), (0, 0)))
                    self.assertEqual((rows[0][1], rows[0][2]), ("01.05.2025", 9))

                def test_forms(self):
                    columns = (("hive", "<6"), ("rate", ">5"))
                    self.assertEqual(tables.draw(columns, [("Z-1", 2.5)], "csv"), "hive;rate\\nZ-1;2.50")
                    with self.assertRaises(Problem):
                        tables.draw(columns, [], "pdf")
        '''),
        ),
        r.bash("./tests.sh"),
    )
    r.agent(
        "A hive whose last visit had no sample shows that visit's date with the older rate. The report must take the last sampled visit.",
        r.edit(
            "combledger/reports.py",
            '        rates = [100 * r["mites"] / r["bees"] for r in records if r["bees"]]\n',
            '        records = [r for r in records if r["bees"]]\n        rates = [100 * r["mites"] / r["bees"] for r in records]\n',
        ),
        r.write(
            "combledger/pages/report.txt",
            code(f"""
            comb report NAME [--as table|csv|markdown]

              strength   frames and brood, means over all visits
              varroa     mites per 100 bees: latest sample and the season's worst;
                         "treat" stands where the latest is above {limit_spring}
        """),
        ),
        r.bash(
            "./tests.sh && ./comb report varroa --as markdown | head -n 6 && ./comb report varroa --as pdf; echo \"exit=$?\"; git add -A && git commit -qm 'report: varroa, and three forms for every report' && git show --format='%h %s' -- combledger/reports.py"
        ),
    )

    # --- scales ----------------------------------------------------------------------------------------------
    dates = "dates on the screen stay day first, nobody here reads them the other way round"
    r.user(
        f"Now the hive scales. data/inbox/scale-may.csv comes from the logger: gross weight of the whole hive. I want comb import scale FILE and comb report weights with net daily gains. Net is gross minus tare: zander {tare_wrong:.2f} kg, "
        f"dadant {tare_dadant:.2f} kg. Note: {dates}."
    )
    todo = ["Read the scale file", "comb import scale", "comb report weights", "Page and tests"]
    r.agent(
        "",
        r.todo((todo[0], "in_progress"), *((t, "pending") for t in todo[1:])),
        r.bash("cat data/inbox/scale-may.csv"),
        r.bash("cut -d';' -f2,4 data/inbox/scale-may.csv | sort | uniq -c"),
    )
    r.agent(
        "The logger changed its unit on 17 May, from kg to lb, which would look like a hive doubling its weight overnight. Each row names its unit, so I convert row by row and refuse any third unit. Readings go into the ledger as kilograms, "
        "keyed by hive and stamp.",
        r.write(
            "combledger/scale.py",
            code(f'''
            """Hive scales: readings in kilograms, and the net gain of each day."""
            import csv

            from combledger.store import Problem
            from combledger.units import number

            KG = {{"kg": 1.0, "lb": 0.45359237}}
            TARE = {{"zander": {tare_wrong:.2f}, "dadant": {tare_dadant:.2f}}}


            def readings(path, ledger):
                """(key, gross kg) pairs and rejected rows of a logger's file."""
                good, bad = [], []
                with open(path, newline="", encoding="utf-8-sig") as file:
                    for line, row in enumerate(csv.DictReader(file, delimiter=";"), 2):
                        try:
                            ledger.hive(row["hive"])
                            good.append((f"{{row['hive']}}|{{row['stamp']}}", round(number(row["gross"]) * KG[row["unit"]], 3)))
                        except (Problem, ValueError, KeyError) as error:
                            bad.append((line, str(error), row))
                return good, bad


            def days(ledger):
                """Net weight on each evening, by hive and day."""
                found = {{}}
                for key, gross in sorted(ledger.data.get("scale", {{}}).items()):
                    hive, stamp = key.split("|")
                    found[hive, stamp[:10]] = gross - TARE[ledger.hive(hive)["box"]]
                return found
        '''),
        ),
        r.bash(r"""python3 - <<'PY'
from pathlib import Path
path = Path("combledger/commands.py")
text = path.read_text()
text = text.replace('''    if len(words) != 2 or words[0] != "inspections":
        raise Problem("usage: comb import inspections FILE", 2)
''', '''    if len(words) != 2 or words[0] not in ("inspections", "scale"):
        raise Problem("usage: comb import inspections|scale FILE", 2)
    if words[0] == "scale":
        return import_scale(ledger, words[1])
''')
text = text.replace('''def do_stats(''', '''def import_scale(ledger, path):
    good, bad = scale.readings(path, ledger)
    kept = ledger.data.setdefault("scale", {})
    before = len(kept)
    kept.update(good)
    ledger.save()
    print(f"read: {len(good) + len(bad)} new: {len(kept) - before} rejected: {len(bad)}")
    if bad:
        print(f"rejects: {importer.write_rejects(path, bad)}")
        return 4


def do_stats(''')
text = text.replace("importer, reports, tables", "importer, reports, scale, tables")
path.write_text(text)
reports = Path("combledger/reports.py")
text = reports.read_text().replace('from combledger.units import shown\n', 'from combledger import scale\nfrom combledger.units import shown\n')
text = text.replace('\n\ndef line(', '''
WEIGHTS = (("hive", "<6"), ("day", "<10"), ("net_kg", ">7"), ("gain_kg", ">7"))


def line(''', 1)
text += '''

def report_weights(ledger):
    rows, last = [], {}
    for (hive, day), net in scale.days(ledger).items():
        rows.append((hive, shown(day), net, net - last[hive] if hive in last else 0.0))
        last[hive] = net
    return WEIGHTS, rows
'''
reports.write_text(text)
PY
./comb import scale data/inbox/scale-may.csv; ./comb report weights"""),
    )
    r.agent(
        "No step on 17 May, gains stay within what a hive can bring home in a day. The import is repeatable too; tests for the unit and for the tare.",
        r.write(
            "tests/test_scale.py",
            code('''
            """Scale readings."""
            import tempfile
            import unittest
            from pathlib import Path

            from combledger import scale
            from tests.test_store import empty


            class ScaleTest(unittest.TestCase):
                def read(self, *rows):
                    with tempfile.TemporaryDirectory() as folder:
                        path = Path(folder, "scale.csv")
                        path.write_text("\\n".join(["stamp;hive;gross;unit;volt", *rows]))
                        return scale.readings(path, empty())

                def test_pounds(self):
                    good, bad = self.read("2025-05-17T20:00;Z-1;100,0;lb;3.80")
                    self.assertEqual(good, [("Z-1|2025-05-17T20:00", 45.359)])

                def test_other_unit_is_rejected(self):
                    good, bad = self.read("2025-05-17T20:00;Z-1;100;st;3.80", "2025-05-18T20:00;Z-1;44.10;kg;3.79")
                    self.assertEqual((len(good), [(line, reason) for line, reason, _ in bad]), (1, [(2, "unknown unit st")]))
        '''),
        ),
        r.bash("./tests.sh; grep -n -A 30 '\"scale\"' data/ledger.json"),
    )
    r.agent(
        "The reason of the rejected row is a bare KeyError text; a member could not do anything with it.",
        r.edit(
            "combledger/scale.py",
            '                ledger.hive(row["hive"])\n',
            '                ledger.hive(row["hive"])\n                if row["unit"] not in KG:\n                    raise Problem(f"unknown unit {row[\'unit\']}", 3)\n',
        ),
        r.edit(
            "combledger/pages/report.txt",
            "  varroa     mites",
            "  weights    net weight on each evening and the gain since the day before\n  varroa     mites",
        ),
        r.bash('./tests.sh; ./comb import scale data/inbox/scale-june.csv 2>&1 | tail -n 1; echo "exit=${PIPESTATUS[0]}"'),
    )
    r.agent(
        "Tests pass, but a file that is not there ends in a Python error and exit code 1, unlike the other import. Sharing the opening of files solves it.",
        r.bash(r"""python3 - <<'PY'
from pathlib import Path
path = Path("combledger/importer.py")
text = path.read_text()
old = '''    try:
        file = open(path, newline="", encoding="utf-8-sig")
    except OSError:
        raise Problem(f"cannot read {path}", 3) from None
    good, bad = [], []
    with file:
'''
assert text.count(old) == 1
text = text.replace(old, '''    good, bad = [], []
    with opened(path) as file:
''')
text = text.replace('def inspections(', '''def opened(path):
    try:
        return open(path, newline="", encoding="utf-8-sig")
    except OSError:
        raise Problem(f"cannot read {path}", 3) from None


def inspections(''')
path.write_text(text)
PY
sed -i 's/with open(path, newline="", encoding="utf-8-sig") as file:/with opened(path) as file:/; s/^from combledger.store import Problem/from combledger.importer import opened\nfrom combledger.store import Problem/' combledger/scale.py
./tests.sh; ./comb import scale data/inbox/scale-june.csv; echo "exit=$?"
sed -i '1a - scale: import scale, report weights' NEWS && git add -A && git commit -qm 'scale: import readings, report net gains' && git show --stat --format='%h %s' | cat"""),
    )
    r.user(
        f"I weighed an empty zander hive again: it is {tare_zander:.2f} kg, not {tare_wrong:.2f}, I had read it with the feeder on. Please correct it. What does that change in the report?"
    )
    r.agent(
        "Only the net column of zander hives can move; gains are differences and stay.",
        r.edit("combledger/scale.py", f'"zander": {tare_wrong:.2f}', f'"zander": {tare_zander:.2f}'),
        r.bash(
            "git stash -q && ./comb report weights --as csv > w.before && git stash pop -q && ./comb report weights --as csv > w.after; diff w.before w.after | grep -c '^>'; diff <(cut -d';' -f1,2,4 w.before) <(cut -d';' -f1,2,4 w.after) && echo gains_equal; diff w.before w.after | sed -n '2p;/^>/{p;q}'; rm w.before w.after; git commit -qam 'scale: zander tare corrected' && git log --oneline | head -n 1"
        ),
    )

    # --- export ----------------------------------------------------------------------------------------------
    r.user(
        f"So the gains stay as they are, good. The county wants a new document (their letter {county}): format 4, per hive instead of flat, rate per 100 bees with two digits, and a sha256 over the hives part. Upload goes to {export_url}, at most {row_limit} inspections a file. "
        "Rename exporter.py to county.py, there will be other exports."
    )
    todo = ["Rename the module", "Format 4 by hive with a checksum", "Split by size", "Check against the ledger"]
    r.agent(
        "Renaming first, so that the history follows.",
        r.todo((todo[0], "in_progress"), *((t, "pending") for t in todo[1:])),
        r.bash(
            "git mv combledger/exporter.py combledger/county.py && sed -i 's/import exporter, importer/import county, importer/; s/exporter\\./county./' combledger/commands.py && ./comb export && head -n 22 exports/ledger.json; grep -rn exporter combledger tests || echo 'no mention left'"
        ),
        r.bash("sed -n '/^def do_export/,$p' combledger/commands.py"),
    )
    chosen3, rejected3 = "whole hives in each file", "cutting after a fixed number of rows"
    reason3 = "the county replaces a hive's history with what the file holds"
    r.agent(
        f"For the limit I keep {chosen3} and start a new file when the next hive would not fit, rather than {rejected3}: per hive means that {reason3}, so half a history would delete the other half.",
        r.write(
            "combledger/county.py",
            code(f'''
            """Documents for the county's bee inspector, format 4."""
            import hashlib
            import json

            from combledger.reports import by_hive

            LETTER = "{county}"
            LIMIT = {row_limit}


            def entry(name, hive, records):
                """One hive with its visits, oldest first."""
                visits = [
                    {{"date": r["date"], "time": r["time"], "mites": r["mites"], "bees": r["bees"], "rate": f"{{100 * r['mites'] / r['bees']:.2f}}" if r["bees"] else None}}
                    for r in records
                ]
                return {{"hive": name, "yard": hive["yard"], "queen": hive["queen"], "visits": visits}}


            def parts(ledger, limit=LIMIT):
                """Lists of entries, none with more visits than the limit allows."""
                result, size = [[]], 0
                for name, records in by_hive(ledger).items():
                    if not records:
                        continue
                    if result[-1] and size + len(records) > limit:
                        result.append([])
                        size = 0
                    result[-1].append(entry(name, ledger.hive(name), records))
                    size += len(records)
                return result


            def documents(ledger, limit=LIMIT):
                found = parts(ledger, limit)
                for number, hives in enumerate(found, 1):
                    digest = hashlib.sha256(json.dumps(hives, sort_keys=True).encode()).hexdigest()
                    yield json.dumps({{"format": 4, "letter": LETTER, "part": number, "of": len(found), "sha256": digest, "hives": hives}}, indent=1) + "\\n"
        '''),
        ),
        r.bash(r"""python3 - <<'PY'
from pathlib import Path
path = Path("combledger/commands.py")
text = path.read_text()
start = text.index("def do_export")
text = text[:start] + '''def do_export(ledger, words, options):
    if words != ["county"]:
        raise Problem("usage: comb export county [--to FOLDER] [--limit N]", 2)
    folder = Path(options.get("to", "exports"))
    folder.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(county.documents(ledger, int(options.get("limit", county.LIMIT))), 1):
        target = folder / f"county-{number}.json"
        target.write_text(text)
        made = json.loads(text)
        visits = sum(len(hive["visits"]) for hive in made["hives"])
        print(f"exported: {target} bytes={len(text)} visits={visits} sha256={made['sha256'][:16]}")
'''
text = text.replace('from pathlib import Path\n', 'import json\nfrom pathlib import Path\n', 1)
path.write_text(text)
PY
rm exports/ledger.json; ./comb export county; ./comb export county --limit 40 --to exports/small"""),
    )
    r.agent(
        "One file with the real limit, several with 40. Let me look at what came out, and recompute every checksum from the files.",
        r.bash("head -n 84 exports/county-1.json; ls exports exports/small"),
        r.bash(
            "python3 - <<'PY'\nimport glob, hashlib, json\nfor path in sorted(glob.glob('exports/small/*.json')) + ['exports/county-1.json']:\n    document = json.load(open(path))\n    digest = hashlib.sha256(json.dumps(document['hives'], sort_keys=True).encode()).hexdigest()\n"
            "    print(path, 'part', document['part'], 'of', document['of'], 'hives', len(document['hives']), 'visits', sum(len(h['visits']) for h in document['hives']), 'sum_ok', digest == document['sha256'])\nPY"
        ),
    )
    r.user(
        "One thing about the document: the inspector's form rejects a rate of null. Leave visits without a sample out. And let export refuse a limit that is not a positive number."
    )
    r.agent(
        "Both are cheap. What happens today with a bad limit:",
        r.bash(
            "./comb export county --limit ten 2>&1 | tail -n 1; ./comb export county --limit 0 --to exports/zero; ls exports/zero | wc -l; rm -r exports/zero exports/small"
        ),
    )
    r.agent(
        "A ValueError in the first case, one file a hive in the second. I'll test the new behaviour through main(), as a member would meet it.",
        r.write(
            "tests/test_county.py",
            code('''
            """The county's documents and the command around them."""
            import contextlib
            import io
            import json
            import tempfile
            import unittest
            from pathlib import Path

            from combledger import cli, county, importer
            from tests.test_store import ROW, empty


            def ledger(*bees):
                made = empty()
                for day, count in enumerate(bees, 1):
                    made.add(importer.record({**ROW, "date": f"{day:02d}.05.2025", "bees": str(count)}, made))
                return made


            class CountyTest(unittest.TestCase):
                def test_visit_without_sample_is_left_out(self):
                    document = json.loads(next(iter(county.documents(ledger(310, 0, 250)))))
                    self.assertEqual([visit["rate"] for visit in document["hives"][0]["visits"]], ["0.65", "0.80"])

                def test_bad_limit(self):
                    with tempfile.TemporaryDirectory() as folder:
                        path = Path(folder, "ledger.json")
                        path.write_text(json.dumps(ledger(310).data))
                        for limit in ("ten", "0", "-3"):
                            errors = io.StringIO()
                            with contextlib.redirect_stderr(errors):
                                code = cli.main(["export", "county", "--limit", limit, "--to", folder, "--ledger", str(path)])
                            self.assertEqual((code, errors.getvalue()), (2, f"comb: limit must be a positive number, not '{limit}'\\n"))
        '''),
        ),
        r.bash("./tests.sh"),
    )
    r.agent(
        "",
        r.edit("combledger/county.py", "        for r in records\n", '        for r in records\n        if r["bees"]\n'),
        r.edit(
            "combledger/county.py",
            '"rate": f"{100 * r[\'mites\'] / r[\'bees\']:.2f}" if r["bees"] else None}',
            "\"rate\": f\"{100 * r['mites'] / r['bees']:.2f}\"}",
        ),
        r.bash(r"""python3 - <<'PY'
from pathlib import Path
path = Path("combledger/commands.py")
text = path.read_text()
text = text.replace('''    folder = Path(options.get("to", "exports"))
''', '''    limit = options.get("limit", str(county.LIMIT))
    if not limit.isdigit() or int(limit) == 0:
        raise Problem(f"limit must be a positive number, not '{limit}'", 2)
    folder = Path(options.get("to", "exports"))
''').replace('county.documents(ledger, int(options.get("limit", county.LIMIT)))', 'county.documents(ledger, int(limit))')
path.write_text(text)
PY
./tests.sh && ./comb export county"""),
    )
    r.agent(
        "All green. A page for export, and the commit.",
        r.write(
            "combledger/pages/export.txt",
            code(f"""
            comb export county [--to FOLDER] [--limit N]

            Writes county-1.json, county-2.json, ... in format 4 (letter {county}).
            Whole hives in each file, at most N visits (default {row_limit}); visits without a
            sample are left out. Upload: {export_url}
        """),
        ),
        r.bash(
            "sed -i 's/^  comb export .*/  comb export county               JSON documents for the county/; s/^  comb report strength .*/  comb report NAME [--as FORM]     strength, varroa or weights/' combledger/pages/comb.txt && ./comb help && git add -A && git commit -qm 'county: format 4 by hive' && git show --stat --format='%h %s' | cat"
        ),
        r.todo(*((t, "completed") for t in todo)),
    )

    # --- hives ------------------------------------------------------------------------------------------------
    r.user(
        f"About the three rejected rows: {unknown} is a swarm we housed in May and forgot to enter; yard {yards[1]}, zander box, queen 2024. I need comb hive add, and comb hive rename, because the plate of {plate} broke and it is {fresh} now. "
        "Afterwards import May again."
    )
    todo = ["comb hive add and rename", "Enter the swarm and the new plate", "Check the whole ledger"]
    r.agent(
        "A rename touches the hive, its inspections with their ids, and its scale readings. I'll put that into the ledger class, with checks before anything is changed.",
        r.todo((todo[0], "in_progress"), (todo[1], "pending"), (todo[2], "pending")),
        r.edit(
            "combledger/store.py",
            "    def inspections(self):",
            '    def rename(self, old, new):\n        """Move a hive and all that belongs to it; returns how many inspections moved."""\n        self.hive(old)\n        if new in self.data["hives"]:\n            raise Problem(f"hive {new} exists already", 5)\n        self.data["hives"][new] = self.data["hives"].pop(old)\n        moved = [key for key, record in self.data["inspections"].items() if record["hive"] == old]\n        for key in moved:\n            self.add({**self.data["inspections"].pop(key), "hive": new})\n        return len(moved)\n\n    def inspections(self):',
        ),
        r.write(
            "combledger/hives.py",
            code('''
            """comb hive add and comb hive rename."""
            from combledger.store import Problem

            BOXES = ("dadant", "zander")


            def add(ledger, name, options):
                if name in ledger.data["hives"]:
                    raise Problem(f"hive {name} exists already", 5)
                missing = [key for key in ("yard", "box", "queen") if key not in options]
                if missing:
                    raise Problem(f"missing: {', '.join('--' + key for key in missing)}", 2)
                if options["box"] not in BOXES:
                    raise Problem(f"unknown box '{options['box']}'; boxes: {', '.join(BOXES)}", 2)
                ledger.data["hives"][name] = {"yard": options["yard"], "box": options["box"], "queen": int(options["queen"])}
                return f"added: {name} hives={len(ledger.data['hives'])}"


            def rename(ledger, old, new):
                moved = ledger.rename(old, new)
                return f"renamed: {old} -> {new} inspections={moved}"
        '''),
        ),
    )
    r.agent(
        "",
        r.bash(
            r"""cat >> combledger/commands.py <<'PY'


def do_hive(ledger, words, options):
    if len(words) == 2 and words[0] == "add":
        print(hives.add(ledger, words[1], options))
    elif len(words) == 3 and words[0] == "rename":
        print(hives.rename(ledger, words[1], words[2]))
    else:
        raise Problem("usage: comb hive add NAME --yard Y --box B --queen YEAR | comb hive rename OLD NEW", 2)
    ledger.save()
PY
sed -i 's/import county, importer/import county, hives, importer/' combledger/commands.py
"""
            + f'./comb hive add {unknown} --yard {yards[1]} --box top-bar --queen 2024; echo "exit=$?"; ./comb hive add {unknown} --yard {yards[1]} --box zander --queen 2024; ./comb import inspections data/inbox/inspections-may.csv; echo "exit=$?"'
        ),
    )
    swap = scale_hives[0]
    r.agent(
        f"The swarm is in with its three visits, and the exit code is 0 now. Before the real rename I try it on a copy, with {swap}, which has scale readings.",
        r.bash(
            f"cp data/ledger.json copy.json; ./comb hive rename {swap} H-99 --ledger copy.json; ./comb report weights --ledger copy.json | tail -n 3; ./comb stats --ledger copy.json; rm -f copy.json"
        ),
    )
    r.agent(
        "That is the hole: the scale readings keep the old name, and the weights report stops at the unknown hive. rename() has to move their keys too.",
        r.edit(
            "combledger/store.py",
            '            self.add({**self.data["inspections"].pop(key), "hive": new})\n        return',
            '            self.add({**self.data["inspections"].pop(key), "hive": new})\n        readings = self.data.get("scale", {})\n        for key in [key for key in readings if key.startswith(f"{old}|")]:\n            readings[new + key[len(old):]] = readings.pop(key)\n        return',
        ),
        r.bash(
            r"""cat > tests/test_hives.py <<'PY'
# Adding and renaming hives.
import unittest

from combledger import hives, importer
from combledger.store import Problem
from tests.test_store import ROW, empty


class HiveTest(unittest.TestCase):
    def test_rename_moves_everything(self):
        ledger = empty()
        ledger.add(importer.record(ROW, ledger))
        ledger.data["scale"] = {"Z-1|2025-05-17T20:00": 45.359, "Z-10|2025-05-17T20:00": 40.2}
        self.assertEqual(hives.rename(ledger, "Z-1", "Y-7"), "renamed: Z-1 -> Y-7 inspections=1")
        self.assertEqual(sorted(ledger.data["scale"]), ["Y-7|2025-05-17T20:00", "Z-10|2025-05-17T20:00"])
        self.assertEqual({record["hive"] for _, record in ledger.inspections()}, {"Y-7"})

    def test_taken_name(self):
        ledger = empty()
        hives.add(ledger, "Y-7", {"yard": "test", "box": "zander", "queen": "2024"})
        with self.assertRaises(Problem) as caught:
            hives.rename(ledger, "Z-1", "Y-7")
        self.assertEqual(caught.exception.code, 5)
PY
./tests.sh && """
            + f'./comb hive rename {plate} {fresh} && ./comb list --hive {fresh} && ./comb list --hive {plate}; echo "exit=$?"'
        ),
    )
    r.agent(
        f"The real rename went well, but what about the files in the inbox? They carry {plate} for ever, and a repeated import should still find its hive.",
        r.bash(
            './comb import inspections data/inbox/inspections-may.csv --ledger data/ledger.json; echo "exit=$?"; tail -n 2 data/rejects/inspections-may.rejects.csv'
        ),
    )
    r.agent(
        "As feared, its rows are rejected now. The ledger has to remember former names, and both imports must ask it for the current one.",
        r.bash(
            r"""python3 - <<'PY'
from pathlib import Path

def change(name, *pairs):
    path = Path("combledger", name)
    text = path.read_text()
    for old, new in pairs:
        print(name, "replaced:", text.count(old))
        text = text.replace(old, new)
    path.write_text(text)

change("store.py",
       ("        return len(moved)\n", '        self.data.setdefault("former", {})[old] = new\n        return len(moved)\n'),
       ("    def add(self", "    def current(self, name):\n        former = self.data.get('former', {})\n        while name in former:\n            name = former[name]\n        return name\n\n    def add(self"))
change("importer.py",
       ('    ledger.hive(row["hive"])\n', '    hive = ledger.current(row["hive"])\n    ledger.hive(hive)\n'),
       ('"hive": row["hive"], ', '"hive": hive, '))
change("scale.py",
       ('                ledger.hive(row["hive"])\n', '                hive = ledger.current(row["hive"])\n                ledger.hive(hive)\n'),
       ("{row['hive']}|", "{hive}|"))
PY
"""
            + f"python3 -c \"import json; d = json.load(open('data/ledger.json')); d['former'] = {{'{plate}': '{fresh}'}}; json.dump(d, open('data/ledger.json', 'w'), indent=1, sort_keys=True)\"; ./tests.sh; ./comb import inspections data/inbox/inspections-may.csv; echo \"exit=$?\""
        ),
    )
    r.agent(
        "Code 5 is new, so the page about exit codes needs a line, and hive a page.",
        r.edit("combledger/pages/exit.txt", "see data/rejects/\n", "see data/rejects/\n  5  a name is taken already\n"),
        r.write(
            "combledger/pages/hive.txt",
            code("""
            comb hive add NAME --yard Y --box zander|dadant --queen YEAR
            comb hive rename OLD NEW

            Rename moves the hive's inspections and scale readings. The exit code is 5 if
            the new name is taken; nothing is changed then.
        """),
        ),
        r.bash(
            "./comb stats && ./comb report strength --as csv && git add -A && git commit -qm 'hive: add and rename' && git show --stat --format='%h %s' | cat"
        ),
    )

    # --- late limit, clean-up, release --------------------------------------------------------------------------
    r.user(
        f"Good. From July on another limit holds for the mites: {limit_late}, not {limit_spring}, judged by the date of the sample. And throw away notes/strength-old.awk; nobody remembers what it was for."
    )
    r.agent(
        "The limit becomes a function of the sample's month. A test first, with one rate between the two limits.",
        r.edit(
            "tests/test_reports.py",
            "    def test_forms(self):",
            f'    def test_limit_by_month(self):\n        self.assertEqual([reports.limit(f"2025-{{month:02d}}-01") for month in (4, 6, 7, 9)], [{limit_spring}, {limit_spring}, {limit_late}, {limit_late}])\n\n    def test_forms(self):',
        ),
        r.edit(
            "combledger/reports.py",
            f"SPRING_LIMIT = {limit_spring}\n",
            f'LIMITS = (("07", {limit_late}), ("01", {limit_spring}))  # from this month on, mites per 100 bees\n',
        ),
        r.bash("./tests.sh; git rm -q notes/strength-old.awk"),
    )
    r.agent(
        "",
        r.bash(
            r"""python3 - <<'PY'
from pathlib import Path
path = Path("combledger/reports.py")
text = path.read_text()
text = text.replace("def report_varroa(ledger, limit=SPRING_LIMIT):", '''def limit(date):
    return next(value for month, value in LIMITS if date[5:7] >= month)


def report_varroa(ledger):''')
text = text.replace('rates[-1] > limit else', 'rates[-1] > limit(records[-1]["date"]) else')
path.write_text(text)
PY
./tests.sh && ./comb report varroa --as csv | grep -c treat; ./comb report varroa | sort -k5,5nr | head -n 5
"""
            + f"sed -i 's/above {limit_spring}/above {limit_spring} (from July on {limit_late})/' combledger/pages/report.txt && ./comb help report && git add -A && git commit -qm 'report: mite limit by month' && git show --stat --format='%h %s' | cat"
        ),
    )
    r.user(
        f"Then let us release {new_version}. Version, NEWS under that heading, a file RELEASE.md for the members in plain words, final export for the county. Tell me in it what {member} has to do."
    )
    todo = ["Version and NEWS", "RELEASE.md", "Final checks and export"]
    r.agent(
        "",
        r.todo((todo[0], "in_progress"), (todo[1], "pending"), (todo[2], "pending")),
        r.bash(
            f"sed -i 's/{old_version}/{new_version}/' combledger/__init__.py && sed -i '1s/next/{new_version}/' NEWS && sed -i '4i - report varroa (limits {limit_spring} and {limit_late}), --as csv and markdown\\n- export county: format 4, letter {county}\\n- hive add, hive rename, exit code 5' NEWS && head -n 9 NEWS && cat combledger/__init__.py"
        ),
        r.bash("rm -rf exports && ./comb export county && ./comb stats && ./comb report varroa --as csv"),
    )
    release = code(f"""
        # combledger {new_version}

        For everybody: two inspections of a hive on one day are both kept now. Until this version the second replaced the first.

        {member}: import data/inbox/inspections-may.csv again; the ledger takes the missing visits and leaves the rest alone.
        All {total_rows} rows have to be accepted, since hive {unknown} is entered (yard {yards[1]}).

        - Import ends with exit code 4 if rows were rejected; they are in data/rejects/ with line and reason.
        - Net weights use a tare of {tare_zander:.2f} kg for zander and {tare_dadant:.2f} kg for dadant hives.
        - Mite limits: {limit_spring}, from July on {limit_late} per 100 bees.
        - {plate} has a new plate, {fresh}.
        - County: letter {county}, upload to {export_url}, at most {row_limit} visits a file.
    """)
    r.agent(
        "Ledger and export agree with each other. Now the page for the members, and a last run over everything that was complained about.",
        r.write("RELEASE.md", release),
        r.bash(
            'cp data/ledger.json again.json && ./comb import inspections data/inbox/inspections-may.csv --ledger again.json; echo "exit=$?"; ./comb import scale data/inbox/scale-may.csv --ledger again.json; echo "exit=$?"; rm again.json; git status --short data/inbox; ./tests.sh'
        ),
    )
    r.agent(
        "Both files are accepted in full and bring nothing new, old plate included. One leftover: data/rejects still holds May's old rejects, which are entered now.",
        r.bash(
            "git rm -q data/rejects/inspections-may.rejects.csv && git add -A && git commit -qm 'release: version, news and notes' && git log --oneline | cat && git status --short"
        ),
        r.todo(*((t, "completed") for t in todo)),
    )
    r.user("Wonderful. Before you go: which pages does help know now, and does each command have one?")
    r.agent(
        "I compare the handlers with the pages.",
        r.bash(
            'grep -o \'^def do_[a-z]*\' combledger/commands.py | cut -c8- | sort | while read name; do test -f combledger/pages/$name.txt && echo "$name page_bytes=$(wc -c < combledger/pages/$name.txt | tr -d \' \')" || echo "$name NO PAGE"; done; cat combledger/pages/import.txt combledger/pages/hive.txt; ./comb help nothing; echo "exit=$?"'
        ),
    )
    r.agent(
        "list and stats have none. Two short ones, then every command is covered.",
        r.bash(
            "printf 'comb list [--hive H]\\n\\nInspections, oldest first: id, day, time, hive and the counts. Exit code 3 for an unknown hive.\\n' > combledger/pages/list.txt; printf 'comb stats [--ledger FILE]\\n\\nSchema, counts, first and last day, and a digest by which two copies of a ledger can be compared.\\n' > combledger/pages/stats.txt; ./comb help list && ./comb help stats && git add -A && git commit -qm 'pages: list and stats' && git show --stat --format='%h %s' | cat"
        ),
    )
    r.agent(
        f"Every command has its page now. {new_version} is committed: {member} only has to import May again, the county file for {county} lies in exports/ and goes to {export_url}, and the zander tare of {tare_zander:.2f} kg is in the members' note. "
        f"The files in data/inbox are as they came."
    )

    # --- what the session holds -------------------------------------------------------------------------------
    r.truth.fact(
        member, f"imported: {imported}", f"inspections: {after}", f"line={min(n for n, row in enumerate(may, 2) if row.split(';')[2] == unknown)}", unknown, f"unknown hive {unknown}",
        f"{tare_wrong:.2f} kg", f"{tare_dadant:.2f} kg", f"{tare_zander:.2f} kg", str(limit_spring), str(limit_late), county, export_url, str(row_limit), fresh, new_version, old_version,
        "comb: unknown command 'frobnicate'", "data/rejects/inspections-may.rejects.csv", "comb: unknown box 'top-bar'; boxes: dadant, zander", f"renamed: {plate} -> {fresh}", may[7], scale[3], scale[-1],
    )  # fmt: skip
    for words in (inbox, packages, columns, dates):
        r.truth.constraint(words)
    r.truth.decision(chosen=chosen, rejected=rejected, reason=reason)
    r.truth.decision(chosen=chosen2, rejected=rejected2, reason=reason2)
    r.truth.decision(chosen=chosen3, rejected=rejected3, reason=reason3)
    r.truth.update("tare of a zander hive", f"zander {tare_wrong:.2f} kg", f"it is {tare_zander:.2f} kg")
    r.truth.update("mite limit", f"is above {limit_spring}", f"mites: {limit_late}")
    r.truth.update("version", old_version, new_version)
    r.truth.update("schema", "schema: 3", "schema: 4")
    r.truth.belief(wrong=wrong, corrected=corrected)
    for value in (
        member,
        unknown,
        yards[1],
        f"{tare_dadant:.2f}",
        f"above {limit_spring}",
        "data/inbox/inspections-may.csv",
        f"{total_rows} rows",
    ):
        r.truth.later(value)
