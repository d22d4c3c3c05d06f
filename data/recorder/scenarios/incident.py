"""A night on call: a payments capture queue backs up, the obvious suspect is innocent, and the post-mortem follows."""

from __future__ import annotations

import json
import re
from textwrap import dedent

TITLE = "On-call incident in a payments capture queue"
PROJECT = "tallyport-oncall"

README = """
# tallyport on-call

What the person on call needs for the capture cells: runbooks, settings of the services, the tools in `bin/`.
In this checkout the cell is the local replay in `cell/`, as used on game days; its clock moves only with `bin/tick`.

    bin/qctl status              the cell at a glance
    bin/qctl partitions          one line for each partition
    bin/qctl dlq --limit N       dead letters, oldest first
    bin/qctl show MESSAGE        one dead letter in full
    bin/qctl pause|resume|restart PARTITION
    bin/qctl rollback SERVICE    back to the release before
    bin/qctl release SERVICE     ship what is in services/SERVICE
    bin/qctl redrive --limit N   dead letters back into the queue
    bin/tick N                   let N minutes pass, one line of metrics for each
    bin/trace TRACE              the spans of one trace
    make test                    tests of the services
"""

RUNBOOK = """
# Capture queue: oldest message too old

Page: `capture_oldest_s > @threshold@` for 5 minutes. Dashboard https://metrics.example.com/d/cap-@dash@

1. `bin/qctl status`, note ready, dead letters and gateway p95.
2. Look at deploys/history.jsonl for the last hour.
3. If the gateway is slow: roll it back, wait 4 minutes, look again.
4. Workers read their settings when they start. A partition must be paused before its workers are restarted.
5. Redrive dead letters only when redelivered has been 0 for 5 minutes.

Escalation: payments bridge, extension @bridge@; acquirer desk reference TP-@desk@.
"""

REDRIVE_OLD = """
# Redriving (before cells)

ssh to the broker host and move the messages by hand. Superseded by bin/qctl.
"""

TEMPLATE = """
# INC-0000: title

Severity / start / end / author

## What customers saw
## Timeline (UTC)
## Cause
## What went well, what did not
## Actions
"""

QCTL = '''
#!/usr/bin/env python3
"""Control of one capture cell."""
import argparse
import hashlib
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
STATE = HERE / "cell" / "state.json"
state = json.loads(STATE.read_text())


def fail(text):
    print(f"error: {text}")
    sys.exit(2)


def clock():
    return f"{state['minute'] // 60:02d}:{state['minute'] % 60:02d}"


def save():
    STATE.write_text(json.dumps(state, indent=1) + "\\n")


def settings():
    return json.loads((HERE / "services/capture-worker/settings.json").read_text())


parser = argparse.ArgumentParser()
parser.add_argument("command")
parser.add_argument("target", nargs="?")
parser.add_argument("--limit", type=int, default=10)
options = parser.parse_args()
name, parts, dead = options.target, state["partitions"], state["dead"]
if options.command in ("pause", "resume", "restart") and name not in parts:
    fail(f"no partition {name} in cell {state['cell']}")
if options.command == "status":
    print(f"cell: {state['cell']}\\nclock: {clock()} UTC")
    print("ready:", sum(p["ready"] for p in parts.values()))
    print("dead_letters:", len(dead))
    print("captured_total:", state["captured"])
    print("redelivered_total:", state["redelivered"])
    print("gateway_p95_ms:", state["p95"])
    print("gateway_release:", state["releases"]["acquirer-gateway"][-1])
    print("worker_release:", state["releases"]["capture-worker"][-1])
elif options.command == "partitions":
    for key, p in parts.items():
        print(f"{key} ready={p['ready']} oldest_s={p['oldest_s']} captured={p['captured']} {'PAUSED' if p['paused'] else 'running'}")
elif options.command == "dlq":
    for m in dead[: options.limit]:
        print(f"{m['message']} partition={m['partition']} attempts={m['attempts']} reason={m['reason']!r} trace={m['trace']}")
    print(f"shown {min(options.limit, len(dead))} of {len(dead)}")
elif options.command == "show":
    print(json.dumps(next((m for m in dead if m["message"] == name), None) or fail(f"no dead letter {name}"), indent=1))
elif options.command in ("pause", "resume"):
    parts[name]["paused"] = options.command == "pause"
    save()
    print(f"{clock()} {name} {options.command}d, ready={parts[name]['ready']}")
elif options.command == "restart":
    if not parts[name]["paused"]:
        fail(f"partition {name} is running; pause it before its workers are restarted")
    parts[name]["lease_s"], parts[name]["batch"] = settings()["visibility_timeout_s"], settings()["batch_size"]
    save()
    print(f"{clock()} workers of {name} restarted: visibility_timeout_s={parts[name]['lease_s']} batch_size={parts[name]['batch']}")
elif options.command == "rollback":
    gone = state["releases"][name].pop()
    save()
    print(f"{clock()} {name} rolled back: {gone} -> {state['releases'][name][-1]}")
elif options.command == "release":
    digest = hashlib.sha256(b"".join(f.read_bytes() for f in sorted((HERE / "services" / name).glob("*.*")))).hexdigest()
    state["releases"][name].append(f"rel-{int(digest[:4], 16) % 900 + 6100}")
    save()
    print(f"{clock()} {name} released: {state['releases'][name][-1]} digest={digest[:20]}")
elif options.command == "redrive":
    moved, state["dead"] = dead[: options.limit], dead[options.limit :]
    for m in moved:
        parts[m["partition"]]["ready"] += 1
    save()
    batch = hashlib.sha256("".join(m["message"] for m in moved).encode()).hexdigest()[:8]
    print(f"{clock()} redrive batch=rd-{batch} moved={len(moved)} remaining={len(state['dead'])} amount_minor={sum(m['amount_minor'] for m in moved)}")
else:
    fail(f"unknown command {options.command}")
'''

TICK = '''
#!/usr/bin/env python3
"""Let minutes pass in the cell; one line of metrics for each."""
import json
import random
import sys
from pathlib import Path

STATE = Path(__file__).resolve().parent.parent / "cell" / "state.json"
state = json.loads(STATE.read_text())
for _ in range(int(sys.argv[1])):
    rng = random.Random(f"{state['cell']}:{state['minute']}")
    parts = state["partitions"]
    base = 1050 + rng.randrange(80)
    shares, arrived, done, again = [], 0, 0, 0
    for key, p in parts.items():
        each = base * (1 + 0.35 * p["share"]) * rng.uniform(0.96, 1.04) / 1000
        span = p["batch"] * each
        p["share"] = 0 if p["paused"] else round(max(0, 1 - p["lease_s"] / span), 3)
        new = rng.randrange(145, 190) + (16 if key in state["hot"] else 0)
        room = 0 if p["paused"] else int(p["workers"] * 60 / each * (1 - p["share"]))
        took = min(p["ready"] + new, room)
        p["ready"] += new - took
        p["captured"] += took
        p["oldest_s"] = int(60 * p["ready"] / (room or 200))
        arrived, done, again = arrived + new, done + took, again + int(took * p["share"] * rng.uniform(0.8, 1.1))
        shares.append(p["share"])
        for _ in range(int(took * p["share"] ** 4 + rng.random())):
            state["serial"] += rng.randrange(3, 40)
            state["dead"].append({
                "message": f"msg-{state['serial']:06x}", "partition": key, "attempts": 5, "reason": "lease expired",
                "payment_id": f"pay_{rng.randrange(16**8):08x}", "card": f"tok_{rng.randrange(16**10):010x}",
                "merchant": f"m-{rng.randrange(3000, 3400)}", "amount_minor": rng.randrange(250, 48000),
                "trace": f"tr-{rng.randrange(16**6):06x}",
            })
    state["minute"] += 1
    state["captured"] += done
    state["redelivered"] += again
    state["p95"] = int(base * (1 + 0.35 * max(shares)) * 1.42)
    oldest = max(p["oldest_s"] for p in parts.values())
    print(
        f"{state['minute'] // 60:02d}:{state['minute'] % 60:02d} arrived={arrived} captured={done} redelivered={again}"
        f" ready={sum(p['ready'] for p in parts.values())} oldest_s={oldest} dead={len(state['dead'])} gw_p95_ms={state['p95']}"
    )
STATE.write_text(json.dumps(state, indent=1) + "\\n")
'''

TRACE = '''
#!/usr/bin/env python3
"""The spans of one trace."""
import json
import sys
from pathlib import Path

found = False
for line in (Path(__file__).resolve().parent.parent / "traces" / "spans.jsonl").read_text().splitlines():
    span = json.loads(line)
    if span.pop("trace") == sys.argv[1]:
        found = True
        print(" ".join(f"{key}={value}" for key, value in span.items()))
if not found:
    print(f"error: no spans for {sys.argv[1]} (kept for one trace in fifty)")
    sys.exit(1)
'''

WORKER = '''
"""Capture worker: takes a batch of payments under one lease and captures each at the acquirer."""


def idempotency_key(message):
    return f"{message['payment_id']}:{message['attempts']}"


def handle(batch, gateway, lease, now):
    """Capture every payment of the batch; those left when the lease ends go back to the queue.

    `lease` has .expires and .extend(seconds); `now` is a clock that returns seconds.
    """
    done = []
    for message in batch:
        gateway.capture(message["payment_id"], message["amount_minor"], idempotency_key(message))
        done.append(message["message"])
        if now() > lease.expires:
            break
    return done
'''

TEST_WORKER = '''
import worker


class Gateway:
    """Takes `cost` seconds for each call and, like the acquirer, ignores a key it has seen."""

    def __init__(self, cost=0):
        self.cost, self.time, self.booked = cost, 0, {}

    def capture(self, payment, amount, key):
        self.time += self.cost
        self.booked.setdefault(key, (payment, amount))


class Lease:
    def __init__(self, expires):
        self.expires, self.extensions = expires, 0

    def extend(self, seconds):
        self.expires += seconds
        self.extensions += 1


def batch(size, attempts=1):
    return [{"message": f"m{n}", "payment_id": f"p{n}", "amount_minor": 100 + n, "attempts": attempts} for n in range(size)]


def test_every_payment_of_a_batch_is_captured():
    gateway = Gateway(cost=1)
    assert len(worker.handle(batch(6), gateway, Lease(60), lambda: gateway.time)) == 6
    assert len(gateway.booked) == 6


def test_stops_when_the_lease_is_over():
    gateway = Gateway(cost=10)
    assert len(worker.handle(batch(6), gateway, Lease(25), lambda: gateway.time)) == 3
'''

TEST_TWICE = """

def test_second_delivery_books_nothing_new():
    gateway = Gateway()
    worker.handle(batch(4, attempts=1), gateway, Lease(60), lambda: 0)
    worker.handle(batch(4, attempts=2), gateway, Lease(60), lambda: 0)
    assert len(gateway.booked) == 4
"""

TEST_SETTINGS = '''
"""The lease must outlast a batch, whatever somebody tidies next."""
import json
from pathlib import Path

SETTINGS = json.loads((Path(__file__).resolve().parent.parent / "settings.json").read_text())
SLOWEST_CAPTURE_S = @slow@


def test_lease_outlasts_a_slow_batch():
    needed = SETTINGS["batch_size"] * SLOWEST_CAPTURE_S
    assert SETTINGS["visibility_timeout_s"] >= needed, f"lease {SETTINGS['visibility_timeout_s']} s, a slow batch needs {needed:.1f} s"
'''

FIND_DOUBLES = '''
"""Payments that were captured more than once; writes the list for finance."""
import csv
import sys
from collections import defaultdict

rows = defaultdict(list)
with open("ledger/captures.csv", newline="") as lines:
    for row in csv.DictReader(lines):
        rows[row["payment"]].append(row)
doubles = {key: found for key, found in rows.items() if len(found) > 1}
extra = [row for found in doubles.values() for row in found[1:]]
print("payments:", len(rows))
print("captured twice or more:", len(doubles))
print("extra captures:", len(extra))
print("amount_minor of the extra:", sum(int(row["amount_minor"]) for row in extra))
print("merchants concerned:", len({row["merchant"] for row in extra}))
print("first:", min(row["at"] for row in extra), "last:", max(row["at"] for row in extra))
if len(sys.argv) > 1:
    with open(sys.argv[1], "w", newline="") as target:
        writer = csv.writer(target, lineterminator="\\n")
        writer.writerow(["payment", "merchant", "amount_minor", "acquirer_ref"])
        writer.writerows([row["payment"], row["merchant"], row["amount_minor"], row["acquirer_ref"]] for row in extra)
    print(f"wrote {len(extra)} lines to {sys.argv[1]}")
'''

OLD_POSTMORTEM = """
# @old_incident@: dead letters after a merchant import

SEV3 / one cell / @old_minutes@ minutes

## What customers saw
Nothing; @old_letters@ captures were late by less than a minute.
## Timeline (UTC)
- 11:07 import of merchant file mf-@old_file@ with an empty currency
- 11:31 dead letters redriven in one go; the acquirer answered 429 to @old_429@ of them
## Cause
The import did not check the currency.
## What went well, what did not
The redrive had to be done twice because of the throttle.
## Actions
- check in the importer (done)
"""

NOTICE = """
Subject: Payments captured more than once, {date}

Dear merchant {merchant},

between {from} and {to} UTC {count} of your payments were captured more than once.
You need not do anything: the surplus is {amount} and is returned without a request.
Reference: {reference}
"""

REPLAY = '''
"""When would the alert rules have fired? Plays a metrics file through alerts/rules.json."""
import json
import re
import sys

rows = []
for line in open(sys.argv[1]):
    rows.append({"at": line[:5], **{key: int(value) for key, value in re.findall(r"(\\w+)=(\\d+)", line)}})
for rule in json.load(open("alerts/rules.json")):
    run, first, fired = 0, None, None
    for row in rows:
        run = run + 1 if row[rule["field"]] > rule["over"] else 0
        first = first or (row["at"] if run else None)
        if run == rule["for_minutes"] and not fired:
            fired = row
    over = sum(row[rule["field"]] > rule["over"] for row in rows)
    print(f"{rule['id']} {rule['field']} > {rule['over']} for {rule['for_minutes']} min: first_over={first} fires_at={fired and fired['at']}"
          f" ready_then={fired and fired['ready']} dead_then={fired and fired['dead']} minutes_over={over}")
'''

LIMITS = """
# Limits of the acquirer (contract @contract@)

- captures: @per_minute@ a minute for each connection pool, measured over 10 s
- repeated keys: answered with the first result, not counted as a capture, kept for @key_hours@ hours
- bursts: more than 170 repeated keys within a minute are answered 429 with code AQ-@code@
- the report of a burst is sent by the desk within the hour as desk/report-N.csv
"""


def fill(text: str, **values: object) -> str:
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    return text.lstrip("\n")


def pick(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found, f"{pattern!r} not in {text[:400]!r}"
    return found[1]


def clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"


def build_cell(r) -> dict[str, str]:
    """Tools, settings, an hour and a half of metrics, logs, traces and ledger of a cell that is in trouble."""
    rng = r.rng
    cell = f"cap-{rng.choice(['north', 'fjord', 'delta'])}-{rng.randrange(2, 9)}"
    begin = 60 + rng.randrange(5, 50)
    names = {
        "cell": cell, "incident": f"INC-{rng.randrange(3100, 9800)}", "threshold": str(rng.randrange(41, 58) * 10), "bridge": str(rng.randrange(7100, 7990)),
        "desk": str(rng.randrange(20000, 99000)), "dash": f"{rng.randrange(16**5):05x}", "slow": f"{rng.randrange(331, 369) / 100}",
        "gw_old": f"rel-{rng.randrange(4100, 4900)}", "gw_new": f"rel-{rng.randrange(5100, 5900)}", "worker": f"rel-{rng.randrange(2100, 2900)}",
    }  # fmt: skip
    hot = [f"p{n}" for n in sorted(rng.sample(range(6), 2))]
    names["hot0"], names["hot1"] = hot
    parts = {
        f"p{n}": {
            "ready": rng.randrange(4, 30),
            "oldest_s": 0,
            "captured": rng.randrange(30_000, 60_000),
            "workers": 4,
            "share": 0,
            "lease_s": 120,
            "batch": 25,
            "paused": False,
        }
        for n in range(6)
    }
    state = {
        "cell": cell, "minute": begin, "hot": hot, "partitions": parts, "dead": [], "serial": rng.randrange(3_000_000, 9_000_000),
        "captured": sum(p["captured"] for p in parts.values()), "redelivered": rng.randrange(60, 200), "p95": 0,
        "releases": {"acquirer-gateway": [names["gw_old"], names["gw_new"]], "capture-worker": [names["worker"]]},
    }  # fmt: skip
    names.update(
        old_incident=f"INC-{rng.randrange(2100, 2990)}", old_minutes=str(rng.randrange(21, 39)), old_letters=str(rng.randrange(310, 890)),
        old_file=f"{rng.randrange(16**5):05x}", old_429=str(rng.randrange(110, 290)), rule=f"cq-{rng.randrange(410, 480)}",
        contract=f"AC-{rng.randrange(16**4):04x}", per_minute=str(rng.randrange(1850, 2400)), key_hours=str(rng.randrange(50, 95)), code=str(rng.randrange(4200, 4900)),
    )  # fmt: skip
    for name, text in (("qctl", QCTL), ("tick", TICK), ("trace", TRACE)):
        r.file(f"bin/{name}", text.lstrip())
    r.file("cell/state.json", json.dumps(state, indent=1) + "\n")
    r.run("chmod +x bin/*")
    r.file("README.md", README.lstrip())
    r.file("Makefile", "test:\n\t@cd services/capture-worker && python -m pytest -q --tb=line tests\n")
    r.file("runbooks/capture-queue.md", fill(RUNBOOK, **names))
    r.file("runbooks/redrive-by-hand.md", REDRIVE_OLD.lstrip())
    r.file("postmortems/TEMPLATE.md", TEMPLATE.lstrip())
    r.file(f"postmortems/{names['old_incident']}.md", fill(OLD_POSTMORTEM, **names))
    r.file("comms/notice.txt", NOTICE.lstrip())
    rules = [
        {"id": names["rule"], "field": "oldest_s", "over": int(names["threshold"]), "for_minutes": 5, "severity": "page"},
        {
            "id": f"cq-{rng.randrange(481, 560)}",
            "field": "dead",
            "over": rng.randrange(290, 330),
            "for_minutes": 10,
            "severity": "ticket",
        },
        {
            "id": f"cq-{rng.randrange(561, 640)}",
            "field": "gw_p95_ms",
            "over": rng.randrange(2310, 2790),
            "for_minutes": 5,
            "severity": "page",
        },
    ]
    r.file("services/acquirer-gateway/LIMITS.md", fill(LIMITS, **names))
    r.file("alerts/rules.json", "[\n" + ",\n".join(json.dumps(rule) for rule in rules) + "\n]\n")
    r.file(".gitignore", "cell/\ntraces/\nledger/\nmetrics/\nlogs/\ndesk/\ncells/\n__pycache__/\n")
    base = "services/capture-worker"
    r.file(f"{base}/worker.py", WORKER.lstrip())
    r.file(
        f"{base}/tests/test_worker.py",
        "import sys\nfrom pathlib import Path\n\nsys.path.insert(0, str(Path(__file__).resolve().parent.parent))\n\n"
        + TEST_WORKER.lstrip().replace("import worker\n", "import worker  # noqa: E402\n", 1),
    )
    settings = {
        "queue": cell,
        "prefetch": rng.randrange(51, 99),
        "visibility_timeout_s": 120,
        "batch_size": 25,
        "max_attempts": 5,
    }
    r.file(f"{base}/settings.json", json.dumps(settings, indent=2) + "\n")
    r.file(
        "services/acquirer-gateway/settings.json",
        json.dumps(
            {
                "listen": rng.randrange(18000, 18999),
                "acquirer_timeout_ms": rng.randrange(4200, 4900),
                "pool": rng.randrange(61, 97),
            },
            indent=2,
        )
        + "\n",
    )
    r.file(
        "services/ledger-writer/settings.json",
        json.dumps({"listen": rng.randrange(19000, 19999), "flush_ms": rng.randrange(210, 290)}, indent=2) + "\n",
    )
    r.run("git init -q && git add -A && git commit -qm 'Runbooks, tools and settings'")
    r.file(f"{base}/settings.json", json.dumps({**settings, "visibility_timeout_s": 20}, indent=2) + "\n")
    r.run("git commit -qam 'capture-worker: tidy settings, use house defaults'")

    # 38 quiet minutes, then the workers restart with the tidied settings
    quiet, bad = 38, rng.randrange(33, 39)
    r.run(f"mkdir -p metrics && bin/tick {quiet} > metrics/capture.txt")
    state = json.loads((r.root / "cell/state.json").read_text())
    for part in state["partitions"].values():
        part["lease_s"] = 20
    r.file("cell/state.json", json.dumps(state, indent=1) + "\n")
    r.run(f"bin/tick {bad} >> metrics/capture.txt")
    restart = begin + quiet
    names.update(begin=clock(begin), restart=clock(restart), now=clock(restart + bad), gw_at=clock(restart - 4))
    deploys = [
        {
            "at": clock(begin - 41),
            "service": "ledger-writer",
            "release": f"rel-{rng.randrange(3100, 3900)}",
            "by": "release train",
            "note": "audit columns",
        },
        {
            "at": clock(restart - 31),
            "service": "capture-worker",
            "release": names["worker"],
            "by": "release train",
            "note": "settings only, takes effect at next restart",
        },
        {
            "at": clock(restart - 4),
            "service": "acquirer-gateway",
            "release": names["gw_new"],
            "by": "release train",
            "note": f"connection pool, build {rng.randrange(16**7):07x}",
        },
        {
            "at": clock(restart),
            "service": "capture-worker",
            "release": names["worker"],
            "by": "node patching",
            "note": "rolling restart of hosts, kernel update",
        },
    ]
    r.file("deploys/history.jsonl", "".join(json.dumps(item) + "\n" for item in deploys))

    state = json.loads((r.root / "cell/state.json").read_text())
    spans, traced = [], []
    for part in hot:
        letter = [m for m in state["dead"] if m["partition"] == part][3]
        traced.append(letter)
        at = (restart + 9) * 60 + rng.randrange(40)
        for attempt in range(1, 6):
            lease, second = f"ls-{rng.randrange(16**6):06x}", f"{clock(at // 60)}:{at % 60:02d}"
            trace = {"trace": letter["trace"]}
            spans.append(
                {
                    **trace,
                    "span": "take",
                    "at": second,
                    "worker": f"w{rng.randrange(10, 34)}",
                    "lease": lease,
                    "attempt": attempt,
                    "lease_s": 20,
                }
            )
            spans.append(
                {**trace, "span": "wait_in_batch", "ms": rng.randrange(19_400, 23_900), "position": rng.randrange(16, 25)}
            )
            spans.append({
                **trace, "span": "gateway.capture", "ms": rng.randrange(1010, 1390), "key": f"{letter['payment_id']}:{attempt}",
                "acquirer_ref": f"aq{rng.randrange(10**8):08d}", "status": "booked",
            })  # fmt: skip
            spans.append({**trace, "span": "ack", "ms": rng.randrange(3, 9), "error": f"lease_{lease[3:]}_expired"})
            at += rng.randrange(31, 58)
    first = traced[0]
    names.update(message=first["message"], trace=first["trace"], message2=traced[1]["message"], trace2=traced[1]["trace"])
    names.update(payment=first["payment_id"], merchant=first["merchant"], amount=str(first["amount_minor"]))
    r.file("traces/spans.jsonl", "".join(json.dumps(span) + "\n" for span in spans))

    early = [f"m-{n}" for n in rng.sample(range(3000, 3400), 61)]
    build_logs(r, names, settings, restart, bad)
    lines = ["at,payment,merchant,amount_minor,acquirer_ref"]
    for _ in range(1500):
        minute = rng.randrange(begin, restart + bad)
        row = (f"pay_{rng.randrange(16**8):08x}", rng.choice(early), rng.randrange(250, 48_000))
        for n in range(2 if minute > restart and rng.random() < 0.19 else 1):
            lines.append(
                f"{clock(min(minute + n, restart + bad))}:{rng.randrange(60):02d},{row[0]},{row[1]},{row[2]},aq{rng.randrange(10**8):08d}"
            )
    for span in spans:  # the traced payments are among them, five times each
        if span["span"] == "gateway.capture":
            payment, attempt = span["key"].split(":")
            letter = next(item for item in traced if item["payment_id"] == payment)
            lines.append(
                f"{clock(restart + 9 + int(attempt))}:07,{payment},{letter['merchant']},{letter['amount_minor']},{span['acquirer_ref']}"
            )
    r.file("ledger/captures.csv", "\n".join([lines[0], *sorted(lines[1:])]) + "\n")

    late = []
    for _ in range(2200):
        minute = rng.randrange(begin, restart + bad + 12)
        row = (f"pay_{rng.randrange(16**8):08x}", f"m-{rng.randrange(4000, 4160)}", rng.randrange(250, 48_000))
        for n in range(2 if restart < minute < restart + bad + 5 and rng.random() < 0.15 else 1):
            late.append(f"{clock(minute + n)}:{rng.randrange(60):02d},{row[0]},{row[1]},{row[2]},aq{rng.randrange(10**8):08d}")
    names["noon"] = "\n".join([lines[0], *sorted(late)]) + "\n"
    return names


def build_logs(r, names: dict[str, str], settings: dict, restart: int, bad: int) -> None:
    """Worker log and host table: the start lines hold the cause, the loud lines point at the gateway."""
    rng, lines = r.rng, []
    marks = {value: f"{rng.randrange(16**8):08x}" for value in (120, 20)}
    for minute, lease in ((restart - 38, 120), (restart, 20)):
        for worker in range(10, 34):
            second = minute * 60 + worker * 2 - 19
            lines.append(
                (
                    second,
                    f"w{worker} INFO started prefetch={settings['prefetch']} visibility_timeout_s={lease} batch_size=25 settings={marks[lease]}",
                )
            )
    for minute in range(restart - 30, restart + bad):
        for _ in range(rng.randrange(1, 4) if minute < restart else rng.randrange(7, 12)):
            second, worker, roll = minute * 60 + rng.randrange(60), f"w{rng.randrange(10, 34)}", rng.random()
            if minute < restart or roll < 0.3:
                text = f"INFO batch done size=25 ms={rng.randrange(26_400, 29_900)} in_flight={rng.randrange(31, 96)}"
            elif roll < 0.72:
                text = f"WARN gateway slow ms={rng.randrange(1610, 1990)} limit_ms=1600 conn=c{rng.randrange(1000, 9999)}"
            else:
                text = f"INFO ack refused lease=ls-{rng.randrange(16**6):06x} age_ms={rng.randrange(20_010, 34_000)}"
            lines.append((second, f"{worker} {text}"))
    text = "".join(f"{clock(second // 60)}:{second % 60:02d} {line}\n" for second, line in sorted(lines))
    r.file("logs/capture-worker.log", text)
    kernel = f"6.1.{rng.randrange(71, 120)}-tp{rng.randrange(2, 9)}"
    rows = ["host\tworkers\tcpu_pct\tmem_mb\tnet_retrans\tkernel"]
    for number in range(8):
        rows.append(
            f"{names['cell']}-h{number + 1}\tw{10 + 3 * number}-w{12 + 3 * number}\t{rng.randrange(310, 480) / 10}\t{rng.randrange(2100, 3900)}\t{rng.randrange(2, 40)}\t{kernel}"
        )
    r.file("metrics/hosts.tsv", "\n".join(rows) + "\n")

    table, risky = ["cell\tregion\tworker\tlast_restart\tlease_file_s\tlease_effect_s\tper_minute\tpatching"], 0
    for number, name in enumerate(
        rng.sample([f"cap-{kind}-{n}" for kind in ("ridge", "lagoon", "mesa", "heath") for n in range(1, 6)], 13)
    ):
        tidied = rng.random() < 0.5 or number < 2
        effect = 120 if number != 5 else 90
        risky += tidied
        table.append(
            f"{name}\t{rng.choice(['r-aster', 'r-brine', 'r-cedar'])}\trel-{int(names['worker'][4:]) - (0 if tidied else rng.randrange(3, 90))}\t-{rng.randrange(2, 40)}d"
            f"\t{20 if tidied else effect}\t{effect}\t{rng.randrange(310, 2900)}\tpt-{rng.randrange(16**4):04x}"
        )
    names["risky"] = str(risky)
    r.file("cells/inventory.tsv", "\n".join(table) + "\n")


def play(r):
    rng, truth = r.rng, r.truth
    n = build_cell(r)
    hot0, hot1, incident, cell = n["hot0"], n["hot1"], n["incident"], n["cell"]
    redrive, final_lease = rng.choice([120, 140, 160]), rng.choice([170, 190, 210])
    channel, ticket = f"#inc-{n['dash'][:3]}-capture", f"FIN-{rng.randrange(20100, 29900)}"
    merchants, merchants_right = rng.randrange(1400, 1900), rng.randrange(2100, 2900)

    r.system(
        "You assist the engineer on call for the tallyport payment cells. You have a checkout with runbooks, settings and control tools, and the "
        "tools Bash, Read, Write, Edit, Grep and TodoWrite; every command runs in the root of the checkout. During an incident: read before you "
        "act, one mitigation at a time, say what you expect of it and check whether it happened. Never act on production money, and ask before "
        "anything that cannot be undone. Short messages; the engineer is talking on the bridge at the same time."
    )
    r.instructions(
        dedent(f"""
        ## What is where
        `services/NAME/` holds settings and code of a service, `runbooks/` what to do, `bin/` the controls (see README.md), `metrics/`, `traces/`,
        `ledger/` and `deploys/` what the cell tells us. `postmortems/` has one file for each incident, from TEMPLATE.md.

        ## Rules
        - Services read their settings at start only; a change in a file does nothing before restart or release.
        - Mitigate first, explain later. Write down when you did what.
        - Amounts are minor units (cents). Identifiers are written in full.
        - `make test` before any release.
        - On-call phone of the acquirer: reference TP-{n["desk"]}.
        - Commit with the incident number in front.
        """)
    )
    r.user(
        f"We have a page: {incident}, oldest message in {cell} is far over {n['threshold']} seconds, SEV2 for now. Please look what is going on. "
        "Whatever you write down, use UTC and only UTC, people from three zones are on the bridge."
    )
    truth.constraint("use UTC and only UTC")
    first = r.agent(
        "Runbook, tools and the state of the cell first.",
        r.read("README.md"),
        r.read("runbooks/capture-queue.md"),
        r.bash("bin/qctl status && bin/qctl partitions"),
        r.bash("cat deploys/history.jsonl"),
    )[1:]
    metrics = r.agent(
        "All six partitions are behind, so it is not one sick worker. When did it begin?",
        r.bash("tail -n 24 metrics/capture.txt && grep -c . metrics/capture.txt"),
        r.bash("grep -n -m 3 -B 2 'ready=[1-9]' metrics/capture.txt"),
    )
    loud = r.agent(
        f"Quiet until {n['restart']}, broken in the minute after it. Hosts or the acquirer? The log of the workers, by what they complain of, and the host table.",
        r.bash("cat metrics/hosts.tsv"),
        r.bash(
            f"grep -n -m 1 ' {n['restart']}\\|^{n['restart']}' logs/capture-worker.log | cut -d: -f1 && grep -vE ' started ' logs/capture-worker.log | grep -A 9 -B 7 -m 1 '^{n['restart']}'"
        ),
        r.bash(
            "grep -oE '(WARN|ERROR) [a-z ]+' logs/capture-worker.log | sort | uniq -c; grep WARN logs/capture-worker.log | sed -n '1,5p'; grep WARN logs/capture-worker.log | tail -n 4"
        ),
    )
    slow = pick(r"(\d+) WARN gateway slow", loud[2])
    truth.fact(pick(r"(conn=c\d+)", loud[2]), pick(r"(6\.1\.\S+)", loud[0]))
    p95 = pick(r"gateway_p95_ms: (\d+)", first[1])
    truth.fact(
        pick(r"(ready: \d+)", first[1]), pick(r"(dead_letters: \d+)", first[1]), f"gateway_p95_ms: {p95}", n["gw_new"],
        pick(r"captured_total: (\d+)", first[1]), pick(r"redelivered_total: (\d+)", first[1]), pick(r"build (\w{7})", first[2]),
        pick(r"(arrived=\d+ captured=\d+ redelivered=\d+ ready=\d+)", metrics[0]), f"TP-{n['desk']}", n["bridge"],
    )  # fmt: skip
    r.agent(
        f"It begins after {n['restart']}. The gateway got {n['gw_new']} at {n['gw_at']}, a change of its connection pool, and its p95 stands at {p95} ms; {slow} warnings "
        f"'gateway slow' in the log, none before {n['restart']}, and the hosts are bored. I am fairly sure that the gateway release is what broke us. Step 3 of the runbook is to roll it back and to wait 4 minutes. Do you agree?",
        r.read("services/acquirer-gateway/settings.json"),
        r.todo(
            ("Find when it began", "completed"), ("Roll back the gateway", "pending"), ("Watch 4 minutes", "pending"),
            ("Drain the backlog", "pending"), ("Dead letters", "pending"), ("Post-mortem", "pending"),
        ),
    )  # fmt: skip
    truth.belief("I am fairly sure that the gateway release is what broke us", "The gateway was innocent")
    r.agent(
        f"The pool settings look ordinary, but the release itself I can't read from here. Waiting for your word before I roll anything back in {cell}."
    )
    r.user(
        "Agreed, roll it back. But keep your hands off services/ledger-writer, including its settings: it is under the auditors' freeze until the end "
        "of the month. I'll tell the bridge."
    )
    truth.constraint("keep your hands off services/ledger-writer")
    after = r.agent(
        "Rolling back; I expect p95 to fall under 1600 ms and captures to pass arrivals within four minutes.",
        r.bash("bin/qctl rollback acquirer-gateway && bin/tick 4"),
        r.todo(
            ("Find when it began", "completed"), ("Roll back the gateway", "completed"), ("Watch 4 minutes", "in_progress"),
            ("Drain the backlog", "pending"), ("Dead letters", "pending"), ("Post-mortem", "pending"),
        ),
    )[0]  # fmt: skip
    dead_now = pick(r"dead=(\d+) gw_p95_ms=\d+$", after)
    dead = r.agent(
        f"No effect: still more arrivals than captures, redelivered stays high and the dead letters are at {dead_now}. Slow alone does not redeliver. What do the dead letters say?",
        r.bash("bin/qctl dlq --limit 21 | sort -k2,2"),
        r.bash(f"bin/qctl show {n['message']}"),
        r.bash(f"bin/trace tr-{rng.randrange(16**6):06x}"),
        r.bash(
            "python - <<'EOF'\nimport collections, re, statistics\nby = collections.defaultdict(list)\n"
            "for line in open('logs/capture-worker.log'):\n    if found := re.match(r'(\\d\\d):(\\d\\d).* batch done size=25 ms=(\\d+)', line):\n"
            "        by[f'{found[1]}:{int(found[2]) // 10}0'].append(int(found[3]))\n"
            "for slot, times in sorted(by.items()):\n    print(f'{slot} batches={len(times)} fastest_ms={min(times)} median_ms={int(statistics.median(times))} slowest_ms={max(times)}')\nEOF"
        ),
    )
    truth.fact(n["message"], n["merchant"], pick(r"shown \d+ of (\d+)", dead[0]))
    traced = r.agent(
        f"Every one is 'lease expired' after five attempts, while a batch takes as long as it did before the trouble. That trace id was a slip of mine; the one of {n['message']} is {n['trace']}, and "
        f"{n['message2']} from the other busy partition has {n['trace2']}.",
        r.bash(f"bin/trace {n['trace']} && echo && bin/trace {n['trace2']}"),
        r.bash("cat services/capture-worker/settings.json && git log --format='%h %s' -- services/capture-worker/settings.json"),
        r.bash("git show --format=%s --unified=1 HEAD -- services/capture-worker/settings.json"),
        r.bash(
            "grep ' started ' logs/capture-worker.log | awk 'NR % 7 == 1'; grep 'ack refused' logs/capture-worker.log | awk 'NR % 14 == 3'; grep -c 'ack refused' logs/capture-worker.log"
        ),
    )
    waits = [int(value) for value in re.findall(r"span=wait_in_batch ms=(\d+)", traced[0])]
    truth.fact(
        pick(r"(lease=ls-\w+)", traced[0]),
        pick(r"(acquirer_ref=aq\d+)", traced[0]),
        pick(r"(error=lease_\w+_expired)", traced[0]),
    )
    truth.fact(pick(r"visibility_timeout_s=20 batch_size=25 (settings=\w+)", traced[3]))
    r.agent(
        f"The gateway was innocent. The workers hold a lease of 20 s and these messages waited {min(waits)} to {max(waits)} ms for their place in the batch, five times over, so each time the lease "
        f"was gone before the ack. The commit 'tidy settings' cut visibility_timeout_s from 120 to 20; it took effect only with the rolling restart at {n['restart']}. The gateway's p95 "
        "rose because we send it everything more than once. And worse: all ten captures in these traces have the status booked.",
        r.bash(f"grep {n['payment']} ledger/captures.csv"),
        r.read("services/capture-worker/worker.py"),
    )
    r.agent(
        f"{n['payment']} of {n['merchant']} was booked five times over {n['amount']} minor units each: the idempotency key has the attempt in it, so for the acquirer every delivery is a new payment. "
        "Two things then. Now: visibility_timeout_s back to 120 and the workers restarted partition by partition. Purging what is in flight would be quicker, but it drops payments "
        "that were never captured. Then: the key.",
        r.todo(
            ("Roll back the gateway", "completed"), ("Lease back to 120 s, restart the partitions", "in_progress"), ("Idempotency key", "pending"),
            ("Drain the backlog", "pending"), ("Dead letters", "pending"), ("Double captures: list for finance", "pending"), ("Post-mortem", "pending"),
        ),
    )  # fmt: skip
    truth.decision(
        "the workers restarted partition by partition", "Purging what is in flight", "it drops payments that were never captured"
    )
    r.user(
        f"Double captures make it a SEV1, I am raising it now; channel is {channel}. Go ahead with the lease. Start with {hot0} and {hot1}, they carry the "
        "wallet payments, and leave the others running meanwhile."
    )
    truth.update("severity", "SEV2", "SEV1")
    truth.update("visibility_timeout_s", '"visibility_timeout_s": 20', '"visibility_timeout_s": 120')
    refused = r.agent(
        "",
        r.edit("services/capture-worker/settings.json", '"visibility_timeout_s": 20', '"visibility_timeout_s": 120'),
        r.bash(f"bin/qctl restart {hot0}"),
        r.bash('sed -n \'/command == "restart"/,/command == "rollback"/p\' bin/qctl'),
    )[1]
    assert "pause it" in refused
    proof = r.agent(
        "Right, the runbook says so too: pause, restart, resume. The two hot ones now, and three minutes to see the difference against the four others.",
        r.bash(
            f"for p in {hot0} {hot1}; do bin/qctl pause $p && bin/qctl restart $p && bin/qctl resume $p; done && bin/tick 3 && bin/qctl partitions"
        ),
    )[0]
    healed = r.agent(
        f"{hot0} and {hot1} fall while the rest still grows, so the cause is confirmed. The other four the same way.",
        r.bash(
            f"for p in p0 p1 p2 p3 p4 p5; do case $p in {hot0}|{hot1}) continue;; esac; bin/qctl pause $p && bin/qctl restart $p && bin/qctl resume $p; done | grep restarted"
        ),
        r.bash("bin/tick 6 && bin/qctl partitions"),
        r.bash("git commit -qam '" + incident + ": lease back to 120 s' && git log --format='%h %s' | head -n 1"),
    )
    healed_at = pick(r"^(\d\d:\d\d) arrived=\d+ captured=\d+ redelivered=0", healed[1])
    peak = max(int(value) for value in re.findall(r"ready=(\d+)", "\n".join([*metrics, after, proof, *healed])))
    totals = [int(value) for value in re.findall(r"redelivered=\d+ ready=(\d+)", healed[1])]
    truth.fact(healed_at, pick(r"(captured=\d+ redelivered=0 ready=\d+)", healed[1]))
    r.agent(
        f"redelivered is 0 since {healed_at} and the backlog shrinks by some {(totals[0] - totals[-1]) // 5} a minute. New double captures should have stopped with it. Next I count them."
    )

    r.user(
        f"Very good. Finance asks how many customers were charged twice. ledger/captures.csv is the export of the merchants that settle at 04:00, those come first; ticket {ticket}. "
        f"And for your notes, {merchants} merchants are on this cell."
    )
    counted = r.agent(
        "A small script, because finance will want the list later from the same code.",
        r.bash("head -n 3 ledger/captures.csv && wc -l ledger/captures.csv && sha256sum ledger/captures.csv | cut -c 1-32"),
        r.write("tools/find_doubles.py", FIND_DOUBLES.lstrip().replace('row["amount_minor"])', 'row["amount"])', 1)),
        r.bash("python tools/find_doubles.py 2>&1 | tail -n 1"),
    )
    numbers = r.agent(
        "The column is called amount_minor in the export.",
        r.edit("tools/find_doubles.py", 'int(row["amount"])', 'int(row["amount_minor"])'),
        r.bash("python tools/find_doubles.py"),
    )[1]
    extra, amount = pick(r"extra captures: (\d+)", numbers), pick(r"amount_minor of the extra: (\d+)", numbers)
    truth.fact(
        pick(r"\n([0-9a-f]{32})$", counted[0]), f"extra captures: {extra}", amount, pick(r"last: (\S+)", numbers), ticket, channel
    )
    worst = r.agent(
        "Where it is concentrated, so that finance knows whom to call first:",
        r.bash(
            "python - <<'EOF'\nimport collections, csv\nseen, by = set(), collections.defaultdict(list)\n"
            "for row in csv.DictReader(open('ledger/captures.csv')):\n    if row['payment'] in seen:\n        by[row['merchant']].append(row)\n    seen.add(row['payment'])\n"
            "ranked = sorted(by.items(), key=lambda item: -sum(int(row['amount_minor']) for row in item[1]))\n"
            "for merchant, rows in ranked[:16]:\n    print(f\"{merchant}: extra={len(rows)} amount_minor={sum(int(row['amount_minor']) for row in rows)} last_ref={rows[-1]['acquirer_ref']}\")\nEOF"
        ),
    )[0]
    top = worst.split(":")[0]
    top_count, top_amount = pick(r"extra=(\d+)", worst), pick(r"amount_minor=(\d+)", worst)
    truth.fact(top, top_amount, pick(r"(last_ref=aq\d+)", worst))
    r.agent(
        f"Among the early merchants: {pick(r'captured twice or more: ([0-9]+)', numbers)} payments with {extra} extra captures, together {amount} minor units, at {pick(r'concerned: ([0-9]+)', numbers)} merchants. "
        f"The first at {pick('first: ([0-9:]+)', numbers)}, the last at {pick('last: ([0-9:]+)', numbers)}. The export ends before the repair, so a later one must be counted again."
    )

    r.user(
        f"Thanks. Correction from the merchant desk: it is {merchants_right} merchants on the cell, they moved some over on Monday. Now fix the key, with a test, and release the worker. "
        f"When you get to the dead letters: never more than {redrive} in one redrive, the acquirer throttles us above that."
    )
    truth.update("merchants", f"{merchants} merchants", f"{merchants_right} merchants")
    truth.constraint(f"never more than {redrive} in one redrive")
    r.agent(
        "The test first: a second delivery must book nothing new. I read the fakes of the existing tests before I add to them.",
        r.read("services/capture-worker/tests/test_worker.py"),
        r.bash(f"cat >> services/capture-worker/tests/test_worker.py <<'EOF'\n{TEST_TWICE}EOF"),
        r.bash("make test"),
    )
    r.agent(
        "It books all four again, as in the ledger. For the fix I keep the suffix and freeze it at ':1'. A bare payment id would be nicer to read, but for the acquirer it is a key it has "
        "never seen, and every dead letter of tonight would be booked once more when we redrive it.",
        r.edit(
            "services/capture-worker/worker.py", "    return f\"{message['payment_id']}:{message['attempts']}\"",
            "    # always ':1', the key of a first attempt: the acquirer must know every later delivery again\n    return f\"{message['payment_id']}:1\"",
        ),
        r.bash("make test"),
    )  # fmt: skip
    truth.decision(
        "I keep the suffix and freeze it at ':1'", "A bare payment id", "every dead letter of tonight would be booked once more"
    )
    r.agent(
        "Green. One more weakness in worker.py: it looks at the lease only after a capture and never extends it, so any slow minute of the acquirer brings the "
        "problem back in small. It should extend while it works.",
        r.edit(
            "services/capture-worker/worker.py", "    for message in batch:\n",
            "    for message in batch:\n        if lease.expires - now() < EXTEND_BELOW_S:\n            lease.extend(EXTEND_BY_S)\n",
        ),
        r.bash("make test"),
    )  # fmt: skip
    r.agent(
        "Of course, the constants are missing. With them the old test 'stops when the lease is over' has to change its meaning: the worker now keeps a lease alive, at most "
        "twice, so that a hanging acquirer still gives the batch back.",
        r.bash(
            "python - <<'EOF'\nfrom pathlib import Path\npath = Path('services/capture-worker/worker.py')\ntext = path.read_text()\n"
            "text = text.replace('\\n\\ndef idempotency_key', '\\nEXTEND_BELOW_S = 12\\nEXTEND_BY_S = 45\\nMOST_EXTENSIONS = 2\\n\\n\\ndef idempotency_key', 1)\n"
            "text = text.replace('< EXTEND_BELOW_S:', '< EXTEND_BELOW_S and lease.extensions < MOST_EXTENSIONS:')\npath.write_text(text)\nEOF\n"
            "sed -n '1,14p' services/capture-worker/worker.py"
        ),
        r.edit(
            "services/capture-worker/tests/test_worker.py",
            "def test_stops_when_the_lease_is_over():\n    gateway = Gateway(cost=10)\n    assert len(worker.handle(batch(6), gateway, Lease(25), lambda: gateway.time)) == 3\n",
            "def test_extends_twice_and_then_gives_back():\n    gateway, lease = Gateway(cost=15), Lease(25)\n    assert len(worker.handle(batch(12), gateway, lease, lambda: gateway.time)) == 8\n    assert lease.extensions == 2\n",
        ),
        r.bash("make test"),
    )
    shipped = r.agent(
        "Three tests pass, one of them with a lease that is kept alive and then given back. Releasing, restarting, and five minutes under observation.",
        r.bash(f"git add -A && git commit -qm '{incident}: one key for all deliveries, lease is extended' && bin/qctl release capture-worker"),
        r.bash("for p in p0 p1 p2 p3 p4 p5; do bin/qctl pause $p; bin/qctl restart $p; bin/qctl resume $p; done | grep -c restarted; bin/tick 5"),
        r.todo(
            ("Lease back to 120 s, restart the partitions", "completed"), ("Idempotency key", "completed"), ("Drain the backlog", "in_progress"),
            ("Dead letters", "in_progress"), ("Double captures: list for finance", "pending"), ("Post-mortem", "pending"),
        ),
    )  # fmt: skip
    release = pick(r"released: (rel-\d+)", shipped[0])
    truth.fact(release, pick(r"digest=(\w+)", shipped[0]))
    status = r.agent(
        "redelivered was 0 for more than five minutes, so the runbook allows the redrive. How many are there, by partition and amount?",
        r.bash("bin/qctl dlq --limit 9999 | tail -n 1"),
        r.read("services/acquirer-gateway/LIMITS.md"),
        r.bash(
            "python - <<'EOF'\nimport collections, json\ndead = json.load(open('cell/state.json'))['dead']\nby = collections.defaultdict(list)\n"
            "for m in dead:\n    by[m['partition']].append(m)\nfor key in sorted(by):\n"
            '    print(f\'{key}: letters={len(by[key])} amount_minor={sum(m["amount_minor"] for m in by[key])} oldest={by[key][0]["message"]} newest={by[key][-1]["message"]} merchants={len({m["merchant"] for m in by[key]})}\')\nEOF'
        ),
    )
    left = int(pick(r"of (\d+)", status[0]))
    letters = json.loads((r.root / "cell/state.json").read_text())["dead"]
    truth.fact(pick(r"(p0: letters=\d+ amount_minor=\d+)", status[2]), n["contract"], f"AQ-{n['code']}", n["per_minute"])
    drives, rounds = [], -(-left // redrive)
    for number in range(rounds):
        text = (
            f"{left} letters, so {rounds} redrives with two minutes between them; the keys are kept {n['key_hours']} hours, so tonight's are all still known.",
            "",
            "Nothing came back dead. Next.",
            "",
        )[min(number, 3)]
        drives.append(
            r.agent(
                text,
                r.bash(f"bin/qctl redrive --limit {redrive} && bin/tick 2 && bin/qctl {('status', 'partitions')[number % 2]}"),
            )[0]
        )
    batches = re.findall(r"batch=(rd-\w+)", "\n".join(drives))
    truth.fact(batches[0], batches[-1])
    r.agent(
        f"The dead letters are empty: {left} messages in {rounds} batches, {batches[0]} to {batches[-1]}, and none of them has died again."
    )

    fresh = rng.sample(range(len(letters)), rng.randrange(5, 12))
    report = ["message,amount_minor,answer,first_ref"]
    for number, letter in enumerate(letters):
        answer = "booked," if number in fresh else f"known_key,aq{rng.randrange(10**8):08d}"
        report.append(f"{letter['message']},{letter['amount_minor']},{answer}")
    r.file(f"desk/report-{n['desk']}.csv", "\n".join(report) + "\n")
    r.user(
        f"The acquirer desk has sent its report of the redrive already, desk/report-{n['desk']}.csv. Did the keys do their work, or did we charge anybody once more?"
    )
    desk = r.agent(
        "Answers by kind, and those that were really booked one by one.",
        r.bash(f"head -n 3 desk/report-{n['desk']}.csv && wc -l desk/report-{n['desk']}.csv"),
        r.bash(
            f"python - <<'EOF'\nimport collections, csv\nrows = list(csv.DictReader(open('desk/report-{n['desk']}.csv')))\n"
            "for answer, number in sorted(collections.Counter(row['answer'] for row in rows).items()):\n"
            "    print(f\"answer {answer}: messages={number} amount_minor={sum(int(row['amount_minor']) for row in rows if row['answer'] == answer)}\")\n"
            "for row in rows:\n    if row['answer'] == 'booked':\n        print(f\"booked now: {row['message']} amount_minor={row['amount_minor']}\")\nEOF"
        ),
    )[1]
    truth.fact(pick(r"known_key: messages=\d+ amount_minor=(\d+)", desk), pick(r"booked now: (msg-\w+ amount_minor=\d+)", desk))
    r.agent(
        f"They did: {pick('known_key: messages=([0-9]+)', desk)} of {left} were answered from a key the acquirer knew. {len(fresh)} were booked now, so their first attempt never reached it. Whether a later attempt "
        f"did, under another key, the report can't say; I keep them for the handover. With a bare payment id all {left} would have been charged again."
    )

    r.user(
        "That is a relief. Could the other cells fall into the same hole? cells/inventory.tsv has what each of them runs; the infrastructure people continue with node patching at 05:00 "
        "and would restart everything."
    )
    cells = r.agent(
        "The danger is a file with 20 and workers that still run on something else, for they change over at the next restart.",
        r.bash("cat cells/inventory.tsv"),
        r.bash(
            'awk -F\'\\t\' \'NR > 1 && $5 < $6 {n++; load += $7; print $1, "file=" $5, "effect=" $6, "ticket=" $8} END {print "at_risk:", n, "captures_per_minute:", load}\' cells/inventory.tsv'
        ),
    )
    risk_load, first_risk = pick(r"captures_per_minute: (\d+)", cells[1]), pick(r"^(cap-\S+)", cells[1])
    truth.fact(f"captures_per_minute: {risk_load}", pick(r"ticket=(pt-\w+)", cells[1]))
    r.agent(
        f"{n['risky']} of 13 cells have the tidied file and would drop to 20 s with the patching, {risk_load} captures a minute in all; {first_risk} is the first of them. Please have their patching tickets held. "
        "I write them down for the infrastructure people, and change nothing in cells that are not mine.",
        r.bash(
            "mkdir -p notes && { echo 'Hold these until the lease is corrected:'; awk -F'\\t' 'NR > 1 && $5 < $6 {print \"- \" $1 \" \" $8}' cells/inventory.tsv; } > notes/hold-patching.md && wc -l notes/hold-patching.md"
        ),
    )

    r.user(
        "I have passed it on, they wait. One more change to the lease: the month-end files make single captures slower than anything tonight, 120 is too tight for me. "
        f"Take {final_lease} seconds, and add a check so that nobody can tidy it away again. Count a capture with {n['slow']} s at the worst."
    )
    truth.update("visibility_timeout_s at the end", '"visibility_timeout_s": 120', f'"visibility_timeout_s": {final_lease}')
    guarded = r.agent(
        "As a test next to the others, so that the release train trips over it. First against the house default of 20 s, to see it fail.",
        r.write("services/capture-worker/tests/test_settings.py", fill(TEST_SETTINGS, slow=n["slow"])),
        r.bash(
            'cd services/capture-worker && sed -i.bak \'s/"visibility_timeout_s": 120/"visibility_timeout_s": 20/\' settings.json && python -m pytest -q --tb=no tests/test_settings.py; code=$?; mv settings.json.bak settings.json; exit $code'
        ),
        r.edit("services/capture-worker/settings.json", '"visibility_timeout_s": 120', f'"visibility_timeout_s": {final_lease}'),
    )[1]
    truth.fact(pick(r"(a slow batch needs [\d.]+ s)", guarded))
    calm = r.agent(
        "It fails with the default, with the message I want to read at night. Now the new value, out to the cell.",
        r.bash(
            "make test && for p in p0 p1 p2 p3 p4 p5; do bin/qctl pause $p; bin/qctl restart $p; bin/qctl resume $p; done | grep restarted | sed -n '1p;6p'"
        ),
        r.bash("bin/tick 12"),
        r.bash(
            f"git add -A && git commit -qm '{incident}: lease of {final_lease} s and a test for it' && git show --stat --format=%h HEAD"
        ),
    )
    backlog = pick(r"ready=(\d+) oldest_s=\d+ dead=\d+ gw_p95_ms=\d+$", calm[1])
    truth.fact(backlog)
    r.agent(
        f"The cell is catching up: {backlog} messages left, nothing redelivered, no new dead letters. The gateway could have its release back, but that is for its own team and for daylight."
    )

    r.user(
        f"Yes, leave it. Prepare the list for {ticket} now: payments of the early merchants with what has to go back. Only the file, no refunds, finance sends those. "
        "After that the post-mortem. Card tokens must not show up in it, nor in any file that leaves this checkout."
    )
    truth.constraint("Card tokens must not show up in it")
    listed = r.agent(
        "The script writes the list without the first capture of each payment, which is the rightful one.",
        r.bash(f"mkdir -p finance && python tools/find_doubles.py finance/{ticket}.csv && head -n 4 finance/{ticket}.csv"),
        r.bash(
            f"grep -c tok_ finance/{ticket}.csv; sha256sum finance/{ticket}.csv | cut -c 1-20; cut -d, -f2 finance/{ticket}.csv | sort | uniq -c | sort -k1,1nr -k2,2 | head -n 5"
        ),
    )
    truth.fact(pick(r"0\n([0-9a-f]{20})\n", listed[1]))
    sheet = pick(r"0\n([0-9a-f]{20})\n", listed[1])
    r.agent(
        f"{extra} lines, checksum begins {sheet}. The list stays here until finance fetches it. I turn to the post-mortem next."
    )

    r.user(
        "Before you write it: would an alert on redelivered have woken us earlier? The rules are in alerts/rules.json, try one for anything above 30 in three "
        "minutes on tonight's numbers, and keep it if it stays silent in the quiet part."
    )
    r.agent(
        "I need something that plays the metrics through the rules; first with the rules as they are.",
        r.bash("cat alerts/rules.json"),
        r.write("tools/replay_alerts.py", REPLAY.lstrip()),
        r.bash("python tools/replay_alerts.py metrics/capture.txt"),
    )
    new_rule = f"cq-{int(n['rule'][3:]) + 300}"
    replayed = r.agent(
        "The rule for the page fired when the damage was done, and the p95 rule would have slept through the night. Now with the new one.",
        r.bash(
            f'sed -i \'s/^\\[$/[\\n{{"id": "{new_rule}", "field": "redelivered", "over": 30, "for_minutes": 3, "severity": "page"}},/\' alerts/rules.json && python -m json.tool alerts/rules.json | head -n 8'
        ),
        r.bash(
            "python tools/replay_alerts.py metrics/capture.txt | cut -d' ' -f 1-4,8-; head -n 38 metrics/capture.txt > metrics/quiet.txt && python tools/replay_alerts.py metrics/quiet.txt | grep -c fires_at=None"
        ),
    )
    paged = pick(rf"{n['rule']} .*fires_at=(\S+)", replayed[1])
    sooner = pick(rf"{new_rule} .*fires_at=(\S+)", replayed[1])
    ready_sooner = pick(rf"{new_rule} .*ready_then=(\d+)", replayed[1])
    truth.fact(new_rule, f"fires_at={sooner}", f"ready_then={ready_sooner}")
    r.agent(
        f"{new_rule} would have paged at {sooner} with {ready_sooner} messages waiting, instead of {n['rule']} at {paged}. In the quiet part all four rules are silent, so it stays. For the timeline I need exact minutes, so I take them from the metrics and not from memory.",
        r.bash(
            "grep -m 1 'oldest_s=[3-9][0-9][0-9]' metrics/capture.txt; grep -m 1 'dead=[1-9]' metrics/capture.txt; awk -F'redelivered=' '{split($2, a, \" \"); sum += a[1]} END {print \"redelivered before the page:\", sum}' metrics/capture.txt"
        ),
        r.bash(f"cat postmortems/TEMPLATE.md; cat postmortems/{n['old_incident']}.md; rm metrics/quiet.txt"),
        r.read("runbooks/postmortem-checklist.md"),
    )
    r.agent(
        "There is no checklist; the template and the last post-mortem are enough. Writing it.",
        r.write(
            f"postmortems/{incident}.md",
            dedent(f"""\
            # {incident}: capture queue of {cell} backs up, payments captured twice

            SEV1 (raised from SEV2) / {n['restart']} to {healed_at} UTC / on call

            ## What customers saw
            Captures up to a quarter of an hour late on a cell with {merchants_right} merchants. Among the merchants that settle at 04:00: {extra} extra captures,
            {amount} minor units (list: finance/{ticket}.csv). Example: {n['payment']} of {n['merchant']}, booked five times (trace {n['trace']}).

            ## Timeline (UTC)
            - {n['gw_at']} acquirer-gateway {n['gw_new']}; had nothing to do with it; rolled back at {n['now']} to {n['gw_old']} without effect
            - {n['restart']} node patching restarts the workers; the settings of 31 minutes before take effect
            - {paged} page by {n['rule']}; {n['now']} on call looks at the cell; later a peak of {peak} waiting messages
            - {healed_at} all partitions run with a lease of 120 s again; redelivered is 0
            - later: {release} with one key for all deliveries; {left} dead letters redriven in {rounds} batches

            ## Cause
            A commit that tidied settings cut visibility_timeout_s from 120 to 20. A batch of 25 takes longer than that, so leases ended before the ack and messages were delivered
            again. The idempotency key held the attempt, so the acquirer booked every delivery.

            ## What went well, what did not
            Restarting {hot0} and {hot1} first proved the cause on two partitions. The gateway was suspected because it was the nearest deploy.

            ## Actions
            - test for lease against batch (done, {final_lease} s); worker extends its lease (done)
            - alert {new_rule} on redelivered (done; would have paged at {sooner})
            - runbook: look for redelivered before rolling anything back
            """),
        ),
        r.bash(f"grep -n 'tok_' postmortems/{incident}.md finance/{ticket}.csv; wc -w postmortems/{incident}.md"),
        r.todo(
            ("Drain the backlog", "completed"), ("Dead letters", "completed"), ("Double captures: list for finance", "completed"),
            ("Post-mortem", "completed"), ("Runbooks", "in_progress"), ("Handover", "pending"),
        ),
    )  # fmt: skip

    r.user(
        "Reads well. Put that lesson into the runbook as well, and look through the runbooks for dead wood: the redrive by hand misleads people. I would also like the capture runbook to "
        "have the cell in its name, capture-cell.md, since the pages link to that."
    )
    r.agent(
        "",
        r.bash(
            f"git mv runbooks/capture-queue.md runbooks/capture-cell.md && mv notes/hold-patching.md notes/{incident}-hold.md && git rm -q runbooks/redrive-by-hand.md && ls runbooks && grep -rn 'capture-queue\\|redrive-by-hand' --include=*.md . | sort"
        ),
        r.edit(
            "runbooks/capture-cell.md",
            "3. If the gateway is slow: roll it back",
            "3. Is redelivered over 0? Then compare lease and batch time first (bin/trace of a dead letter). A slow gateway is often the result.\n   If only the gateway is slow: roll it back",
        ),
        r.edit(
            "runbooks/capture-cell.md",
            "has been 0 for 5 minutes.",
            "has been 0 for 5 minutes; see services/acquirer-gateway/LIMITS.md.",
        ),
    )
    closing = r.agent(
        "No links to the old names. One last look at the cell and the commit.",
        r.bash("bin/tick 9 | tail -n 5 && bin/qctl status | tail -n 7"),
        r.bash(
            f"make test && git add -A && git commit -qm '{incident}: post-mortem, list for finance, runbooks' && git show --stat --format='%h %s' HEAD && git diff --stat HEAD~4 -- services/ledger-writer"
        ),
    )
    truth.fact(pick(r"captured_total: (\d+)", closing[0]))

    r.file("ledger/captures_noon.csv", n["noon"])
    r.user(
        f"The export for the merchants that settle at noon has just come, ledger/captures_noon.csv; count that one too. And support wants a notice for {top} from the template in "
        "comms/, with their numbers, in plain words and without our internals."
    )
    noon = r.agent(
        "The script has the path built in; it gets an argument for it.",
        r.bash(
            "sed -i -e 's|open(\"ledger/captures.csv\", newline|open(sys.argv[1], newline|' -e 's/len(sys.argv) > 1/len(sys.argv) > 2/' -e 's/open(sys.argv\\[1\\], \"w\"/open(sys.argv[2], \"w\"/' -e 's/lines to {sys.argv\\[1\\]}/lines to {sys.argv[2]}/' tools/find_doubles.py && git diff --stat"
        ),
        r.bash("python tools/find_doubles.py ledger/captures_noon.csv && cksum ledger/captures_noon.csv"),
        r.read("comms/notice.txt"),
    )[1]
    noon_extra, noon_amount = pick(r"extra captures: (\d+)", noon), pick(r"amount_minor of the extra: (\d+)", noon)
    truth.fact(f"extra captures: {noon_extra}", noon_amount, pick(r"(\d+) ledger/captures_noon.csv", noon))
    r.agent(
        f"{noon_extra} more extra captures, {noon_amount} minor units, the last at {pick('last: ([0-9:]+)', noon)}: it ends with the repair, as it should. The notice for {top}:",
        r.write(
            f"comms/{incident}-{top}.txt",
            f"Subject: Payments captured more than once tonight\n\nDear merchant {top},\n\nbetween {n['restart']} and {healed_at} UTC {top_count} of your payments were captured more than once.\n"
            f"You need not do anything: the surplus is {int(top_amount) // 100}.{int(top_amount) % 100:02d} and is returned without a request.\nReference: {ticket}\n",
        ),
        r.bash(
            f"grep '{top}' finance/{ticket}.csv | awk -F, '{{n++; s += $3}} END {{print \"lines=\" n, \"sum=\" s}}'; git add -A; git commit -qm '{incident}: noon export counted, notice'; git log --format='%h %s' | head -n 3"
        ),
    )

    r.user(
        f"Write me a handover for the day shift, please, handover.md, a dozen lines at most. Whom to call, what runs where, what is still open. I close {incident} for the night."
    )
    r.agent(
        "Everything below is from tonight's outputs.",
        r.write(
            "handover.md",
            dedent(f"""\
            # Handover {incident} (SEV1, mitigated)

            - {cell}: worker {release}, lease {final_lease} s, batch 25; gateway rolled back to {n["gw_old"]}. {n["gw_new"]} may return, it was not the cause.
            - Cause: lease of 20 s from the tidied settings, in effect since the restart at {n["restart"]}.
            - Open: {ticket}. finance/{ticket}.csv has {extra} extra captures, {amount} minor units, sha256 {sheet}; finance refunds, we do not.
            - Open: the noon merchants have {noon_extra} extra captures, {noon_amount} minor units; no list for finance yet. The early export ends at {n["now"]}, count again up to {healed_at}.
            - Patching of {n["risky"]} other cells is held (notes/{incident}-hold.md, {first_risk} first); their lease files still say 20.
            - Alert {new_rule} on redelivered is committed, not yet loaded.
            - Dead letters: 0 after {rounds} redrives. Open: {len(fresh)} of them were booked by the redrive itself, finance should check them in desk/report-{n["desk"]}.csv.
            - Calls: bridge extension {n["bridge"]}, acquirer reference TP-{n["desk"]}, channel {channel}.
            - Dashboard: https://metrics.example.com/d/cap-{n["dash"]}
            """),
        ),
        r.bash("wc -l handover.md && python tools/find_doubles.py ledger/captures.csv | sed -n '3,4p' && git status --short"),
        r.todo(
            ("Post-mortem", "completed"),
            ("Runbooks", "completed"),
            ("Handover", "completed"),
            ("Count doubles again with a later export", "pending"),
        ),
    )
    r.agent(
        "The handover is in handover.md, not committed, since it goes out of date by noon. The replay tools and the count script are in tools/ for whoever needs them. Sleep well."
    )
    for value in (
        n["gw_old"],
        n["gw_new"],
        n["bridge"],
        f"TP-{n['desk']}",
        n["restart"],
        amount,
        ticket,
        channel,
        f"cap-{n['dash']}",
    ):
        truth.later(value)
