"""A ticket auction service whose suite fails depending on seed and order: two leaks, a shared cache and a real bug."""

from __future__ import annotations

import json
import random
import re
import string

from recorder.recording import Recording

TITLE = "Make the auction suite independent of seed and order"
PROJECT = "lastrow"


def fill(text: str, **values: object) -> str:
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    return text.lstrip("\n")


def label(output: str, name: str) -> str:
    """The value that stands after `name:` or `name=` in an output."""
    found = re.search(rf"(?<![\w-]){re.escape(name)}[:=]\s*(\S+)", output)
    if not found:
        raise RuntimeError(f"no {name!r} in output:\n{output}")
    return found[1]


# --- the workspace -------------------------------------------------------------------------------------------

SETTINGS = '''
"""Tunable numbers of the auction house: one table for the whole process."""

DEFAULTS = {
    "min_increment_cents": @increment@,
    "antisnipe_seconds": @snipe@,
    "hold_seconds": @hold@,
    "fee_basis_points": @fee@,
    "max_seats_per_bid": 6,
}
CURRENT = dict(DEFAULTS)


def get(key):
    if key not in CURRENT:
        raise KeyError(f"no such setting: {key}")
    return CURRENT[key]


def override(**values):
    """Used by the box-office console: changes the running process until `reset`."""
    for key in values:
        get(key)
    CURRENT.update(values)


def reset():
    CURRENT.clear()
    CURRENT.update(DEFAULTS)
'''

CLOCK = '''
"""House time: whole seconds since the doors of the season opened. It moves by `tick`, never by itself."""

_now = 0
_frozen = None


def now():
    return _now if _frozen is None else _frozen


def tick(seconds):
    global _now
    _now += seconds


def freeze(at):
    global _frozen
    _frozen = at


def thaw():
    global _frozen
    _frozen = None
'''

AUCTION = '''
"""Open auctions: every bid is visible and must beat the last one by the full increment."""

from dataclasses import dataclass

from lastrow import settings


class BidRefused(Exception):
    pass


@dataclass(frozen=True)
class Bid:
    bidder: str
    cents: int
    at: int


class OpenAuction:
    def __init__(self, lot, reserve_cents, closes_at):
        self.lot, self.reserve_cents, self.closes_at = lot, reserve_cents, closes_at
        self.bids = []

    def floor(self):
        return self.bids[-1].cents + settings.get("min_increment_cents") if self.bids else self.reserve_cents

    def place(self, bidder, cents, at):
        if at >= self.closes_at:
            raise BidRefused(f"closed: lot={self.lot} at={at} closes_at={self.closes_at}")
        if cents < self.floor():
            raise BidRefused(f"too low: lot={self.lot} offered={cents} floor={self.floor()}")
        self.bids.append(Bid(bidder, cents, at))
        window = settings.get("antisnipe_seconds")
        if self.closes_at - at < window:
            self.closes_at = at + window
'''

SEALED = '''
"""Sealed rounds: nobody sees the others' bids; the best bid of each bidder counts (docs/rules.md)."""

from lastrow.auction import Bid


class SealedRound:
    def __init__(self, code, seats):
        self.code, self.seats, self.bids = code, seats, []

    def submit(self, bidder, cents, at):
        self.bids.append(Bid(bidder, cents, at))

    def best_bids(self):
        best = {}
        for bid in self.bids:
            if bid.bidder not in best or bid.cents > best[bid.bidder].cents:
                best[bid.bidder] = bid
        return best

    def winners(self):
        best = self.best_bids()
        names = set(best)
        ranked = sorted(names, key=lambda name: -best[name].cents)
        return ranked[: self.seats]
'''

VENUE = '''
"""Seat maps, read from data/venues and kept in memory."""

import json
from functools import lru_cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "data" / "venues"


@lru_cache(maxsize=None)
def load(name):
    return json.loads((FOLDER / f"{name}.json").read_text())


def rows(name, section):
    return load(name)["sections"][section]


def capacity(name, section):
    return len(rows(name, section)) * load(name)["seats_per_row"]
'''

SETTLE = '''
"""What the house keeps and what the seller gets."""

from lastrow import clock, settings

OUTBOX = []


def fee(cents):
    return cents * settings.get("fee_basis_points") // 10_000


def settle(lot, cents):
    return {"lot": lot, "hammer_cents": cents, "fee_cents": fee(cents), "payout_cents": cents - fee(cents)}


def hold_expired(since):
    return clock.now() - since > settings.get("hold_seconds")


def notify_outbid(bidder, lot):
    OUTBOX.append({"to": bidder, "lot": lot, "kind": "outbid"})
    return len(OUTBOX)
'''

CONSOLE = '''
"""What the box office types during a sale. `run("set hold_seconds 90")`, `run("show")`, `run("quiet LOT cents")`."""

from lastrow import settings, settle

LOG = []
QUIET = {"min_increment_cents": @quiet@, "antisnipe_seconds": 30}


def run(line):
    verb, *rest = line.split()
    LOG.append(verb)
    if verb == "set":
        key, value = rest
        settings.override(**{key: int(value)})
        return f"{key} is now {settings.get(key)}"
    if verb == "show":
        return "; ".join(f"{key}={value}" for key, value in sorted(settings.CURRENT.items()))
    if verb == "quiet":
        return quiet_sale(rest[0], int(rest[1]))
    raise ValueError(f"E@error@ unknown verb: {verb}")


def quiet_sale(lot, cents):
    """Settle one lot under the rules of the quiet hour."""
    settings.override(**QUIET)
    if cents < settings.get("min_increment_cents"):
        raise ValueError(f"E@error2@ below the quiet minimum: lot={lot} cents={cents}")
    money = settle.settle(lot, cents)
    settings.reset()
    return f"{lot} pays out {money['payout_cents']}"
'''

TEST_CONSOLE = '''
"""The quiet hour ends when the sale ends, also when it ends badly."""

import pytest

from lastrow import console, settings


@pytest.fixture(autouse=True)
def own_log(monkeypatch):
    monkeypatch.setattr(console, "LOG", [])


def test_quiet_sale_pays_out():
    assert console.run("quiet LOT-@lot@ 90000").startswith("LOT-@lot@ pays out ")


def test_refused_quiet_sale_leaves_the_rules_alone():
    with pytest.raises(ValueError, match="E@error2@"):
        console.run("quiet LOT-@lot@ 1")
    assert settings.get("min_increment_cents") == @increment@


def test_quiet_sale_keeps_what_the_clerk_had_set():
    with settings.scoped(hold_seconds=77):
        console.run("quiet LOT-@lot@ 90000")
        assert settings.get("hold_seconds") == 77
'''

REPLAY = '''
"""`python -m lastrow.replay FILE`: settle one recorded sealed round again and print what comes out."""

import hashlib
import json
import sys
from pathlib import Path

from lastrow.sealed import SealedRound
from lastrow.settle import settle

record = json.loads(Path(sys.argv[1]).read_text())
sealed = SealedRound(record["round"], record["seats"])
for bidder, cents, at in record["bids"]:
    sealed.submit(bidder, cents, at)
best = sealed.best_bids()
print(f"round: {sealed.code}")
for bid in sealed.bids:
    mark = hashlib.sha256(f"{sealed.code}/{bid.bidder}/{bid.at}".encode()).hexdigest()[:8]
    print(f"bid={mark} bidder={bid.bidder} cents={bid.cents} at={bid.at}")
print(f"bids: {len(sealed.bids)} bidders: {len(best)} seats: {sealed.seats}")
for place, name in enumerate(sealed.winners(), 1):
    money = settle(record["lot"], best[name].cents)
    print(f"place={place} bidder={name} cents={best[name].cents} at={best[name].at} fee={money['fee_cents']}")
digest = hashlib.sha256(",".join(sealed.winners()).encode()).hexdigest()
print(f"result-digest: {digest[:14]}")
'''

CONFTEST = '''
"""Order and random data of the suite come from one number, so that a red build can be played again."""

import hashlib
import random

SEEN = {}


def pytest_addoption(parser):
    parser.addoption("--order-seed", type=int, default=0, help="0: as collected")


def pytest_configure(config):
    random.seed(config.getoption("--order-seed"))


def pytest_collection_modifyitems(config, items):
    seed = config.getoption("--order-seed")
    if seed:
        random.Random(seed).shuffle(items)
    names = "\\n".join(item.nodeid for item in items)
    SEEN["order"] = hashlib.sha1(names.encode()).hexdigest()[:10]
    SEEN["items"] = len(items)


def pytest_terminal_summary(terminalreporter, config):
    seed = config.getoption("--order-seed")
    state = hashlib.sha1(repr(random.getstate()).encode()).hexdigest()[:8]
    terminalreporter.write_line(
        f"order-seed={seed} order-id={SEEN.get('order')} items={SEEN.get('items')} rng-end={state}"
    )
'''

SWEEP = '''
"""Run the suite once per seed and print a table. Everything shown is a function of the seeds and the code."""

import argparse
import hashlib
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

DEFAULT_BASE = @base@
DEFAULT_COUNT = 12


def one(seed):
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "--order-seed", str(seed)]
    text = subprocess.run(command, env=environment, capture_output=True, text=True).stdout
    failed = sorted(set(re.findall(r"^(?:FAILED|ERROR) (\\S+)", text, re.M)))
    passed = re.search(r"(\\d+) passed", text)
    order = re.search(r"order-id=(\\w+)", text)
    end = re.search(r"rng-end=(\\w+)", text)
    return seed, order and order[1], end and end[1], int(passed[1]) if passed else 0, failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--base", type=int, default=DEFAULT_BASE)
    parser.add_argument("--count", type=int, default=DEFAULT_COUNT)
    options = parser.parse_args()
    seeds = range(options.base, options.base + options.count)
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(one, seeds))
    print(f"{'seed':>6}  {'order-id':<10}  {'rng-end':<8}  {'pass':>4}  {'fail':>4}  failing tests")
    tally = {}
    for seed, order, end, passed, failed in rows:
        short = [name.split("::")[1] for name in failed]
        print(f"{seed:>6}  {order:<10}  {end:<8}  {passed:>4}  {len(failed):>4}  {' '.join(short) or '-'}")
        for name in short:
            tally[name] = tally.get(name, 0) + 1
    red = sum(bool(row[4]) for row in rows)
    print(f"sweep-id={hashlib.sha1(repr(rows).encode()).hexdigest()[:9]} seeds={len(rows)} red={red}")
    for name, times in sorted(tally.items()):
        print(f"  {name}: {times}")
    return int(red > 0)


if __name__ == "__main__":
    sys.exit(main())
'''

LEGACY = '''
"""Old data makers, from before the seeds. Do not extend."""

import random
import string


def random_amounts(count):
    return [random.randrange(9, 14) * @step@ for _ in range(count)]


def random_lot():
    return "LOT-" + "".join(random.choice(string.digits) for _ in range(5))


def random_email():
    return f"{random_lot().lower()}@example.com"
'''

TEST_OPEN = """
import pytest

from lastrow import settings
from lastrow.auction import BidRefused, OpenAuction

RESERVE = @reserve@


def fresh():
    return OpenAuction("LOT-@lot@", RESERVE, closes_at=3600)


def test_first_bid_may_equal_the_reserve():
    auction = fresh()
    auction.place("@b0@", RESERVE, at=10)
    assert auction.bids[0].cents == RESERVE


def test_bid_below_reserve_is_refused():
    with pytest.raises(BidRefused, match="too low"):
        fresh().place("@b0@", RESERVE - 1, at=10)


def test_second_bid_needs_full_increment():
    auction = fresh()
    auction.place("@b0@", RESERVE, at=10)
    auction.place("@b1@", RESERVE + @increment@, at=11)
    assert len(auction.bids) == 2


def test_one_cent_less_is_refused():
    settings.reset()
    auction = fresh()
    auction.place("@b0@", RESERVE, at=10)
    with pytest.raises(BidRefused, match="floor="):
        auction.place("@b1@", RESERVE + @increment@ - 1, at=11)


def test_late_bid_extends_the_auction():
    settings.reset()
    auction = fresh()
    auction.place("@b0@", RESERVE, at=3590)
    assert auction.closes_at == 3590 + @snipe@


def test_bid_after_close_is_refused():
    with pytest.raises(BidRefused, match="closed"):
        fresh().place("@b0@", RESERVE, at=3600)
"""

TEST_SETTINGS = """
import pytest

from lastrow import settings


def test_override_changes_value():
    settings.override(min_increment_cents=@raised@)
    assert settings.get("min_increment_cents") == @raised@


def test_reset_restores_defaults():
    settings.override(hold_seconds=1)
    settings.reset()
    assert settings.CURRENT == settings.DEFAULTS


def test_unknown_key_is_an_error():
    settings.reset()
    with pytest.raises(KeyError, match="no such setting"):
        settings.override(colour="teal")
"""

TEST_VENUE = """
import pytest

from lastrow import venue

HALL = "@hall@"


def test_rows_come_in_order():
    venue.load.cache_clear()
    assert venue.rows(HALL, "stalls")[0] == "S01"


def test_blocked_row_is_not_sold():
    rows = venue.rows(HALL, "stalls")
    rows.remove("S04")
    assert "S04" not in rows


def test_section_capacity():
    assert venue.capacity(HALL, "stalls") == @stalls@


def test_balcony_capacity():
    assert venue.capacity(HALL, "balcony") == @balcony@


def test_unknown_section():
    venue.load.cache_clear()
    with pytest.raises(KeyError):
        venue.rows(HALL, "moon")


def test_map_is_read_once():
    venue.load.cache_clear()
    venue.rows(HALL, "stalls")
    venue.rows(HALL, "balcony")
    assert venue.load.cache_info().misses == 1
"""

TEST_SEALED = """
from tests import legacy_helpers

from lastrow.sealed import SealedRound

BIDDERS = ["@b0@", "@b1@", "@b2@", "@b3@"]


def test_highest_sealed_bid_wins():
    sealed = SealedRound("@round@", seats=1)
    amounts = legacy_helpers.random_amounts(len(BIDDERS))
    for at, (bidder, cents) in enumerate(zip(BIDDERS, amounts)):
        sealed.submit(bidder, cents, at)
    assert sealed.winners() == [BIDDERS[amounts.index(max(amounts))]], f"amounts={amounts}"


def test_only_the_best_bid_of_a_bidder_counts():
    sealed = SealedRound("@round@", seats=2)
    sealed.submit("@b0@", 4000, 1)
    sealed.submit("@b0@", 5200, 2)
    assert sealed.best_bids()["@b0@"].cents == 5200


def test_no_more_winners_than_seats():
    sealed = SealedRound("@round@", seats=2)
    for at, bidder in enumerate(BIDDERS):
        sealed.submit(bidder, 4000 + at, at)
    assert sealed.winners() == [BIDDERS[3], BIDDERS[2]]
"""

TEST_MISC = """
import json
from pathlib import Path

import pytest
from tests import legacy_helpers

from lastrow import clock, settle

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", ["spring", "gala"])
def test_settlement_matches_signed_copy(name):
    for wanted in json.loads((GOLDEN / f"{name}.json").read_text()):
        assert settle.settle(wanted["lot"], wanted["hammer_cents"]) == wanted


def test_fee_never_exceeds_the_price():
    for cents in legacy_helpers.random_amounts(20):
        assert 0 <= settle.fee(cents) < cents


def test_payout_and_fee_add_up():
    money = settle.settle(legacy_helpers.random_lot(), 88_888)
    assert money["fee_cents"] + money["payout_cents"] == 88_888


def test_hold_expires():
    clock.freeze(@frozen@)
    assert settle.hold_expired(since=@frozen@ - @hold@ - 1)
    assert not settle.hold_expired(since=@frozen@ - @hold@)


def test_outbid_notice_is_queued():
    before = len(settle.OUTBOX)
    assert settle.notify_outbid("@b2@", "LOT-@lot@") == before + 1
"""

RULES = """
# Rules of the house (edition @edition@)

1. Open auctions: a bid must beat the last one by the full increment.
2. A bid inside the last @snipe@ seconds moves the closing time, so that everybody can answer.
3. Sealed rounds: the best bid of each bidder counts. The seats go to the highest bids.
4. Equal sealed bids: the bid that arrived first comes first. The clerk's number of this rule is R-@rule@.
5. A seat is held for @hold@ seconds after the hammer; then it goes to the next bidder.
6. The house keeps @fee@ basis points, rounded down to the cent.
"""

POLLUTER = '''
"""Which single earlier test makes VICTIM fail? Runs every predecessor of one order in front of it, in pairs."""

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor


def pytest(*arguments):
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("victim")
    parser.add_argument("--order-seed", type=int, required=True)
    options = parser.parse_args()
    listing = pytest("--collect-only", "--order-seed", str(options.order_seed)).stdout
    order = [line for line in listing.splitlines() if "::" in line]
    place = order.index(options.victim)
    before = order[:place]
    alone = pytest(options.victim).returncode
    with ThreadPoolExecutor(4) as pool:
        codes = list(pool.map(lambda name: pytest(name, options.victim).returncode, before))
    guilty = [name for name, code in zip(before, codes) if code]
    print(f"victim: {options.victim}")
    print(f"position: {place + 1}/{len(order)}")
    print(f"alone: {'failed' if alone else 'passed'}")
    print(f"pairs-run: {len(before)} guilty: {len(guilty)}")
    for name in guilty:
        print(f"polluter: {name} (at position {order.index(name) + 1})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
'''

FACTORIES = '''
"""Test data from a generator of their own: the same for a test wherever it stands in the order."""

import random


class Maker:
    """Numbers for one test, drawn from the name of that test and nothing else."""

    def __init__(self, name):
        self.random = random.Random(f"lastrow:{name}")

    def amounts(self, count):
        return [self.random.randrange(9, 14) * @step@ for _ in range(count)]

    def lot(self):
        return f"LOT-{self.random.randrange(10_000, 100_000)}"
'''

TEST_TIES = '''
"""Equal sealed bids: first come, first served, whatever the hash seed."""

import os
import subprocess
import sys
from itertools import permutations

import pytest

from lastrow.sealed import SealedRound

BIDDERS = ["@b0@", "@b1@", "@b2@", "@b3@"]
SCRIPT = """
from lastrow.sealed import SealedRound
sealed = SealedRound("tie", seats=3)
for at, name in enumerate(%r):
    sealed.submit(name, 5000, at)
print(",".join(sealed.winners()))
"""


@pytest.mark.parametrize("order", list(permutations(BIDDERS))[::5])
def test_equal_bids_rank_by_arrival(order):
    sealed = SealedRound("tie", seats=len(order))
    for at, name in enumerate(order):
        sealed.submit(name, 5000, at)
    assert sealed.winners() == list(order)


def test_a_raise_counts_from_its_own_arrival():
    sealed = SealedRound("tie", seats=1)
    sealed.submit(BIDDERS[0], 4000, at=1)
    sealed.submit(BIDDERS[1], 5000, at=2)
    sealed.submit(BIDDERS[0], 5000, at=3)
    assert sealed.winners() == [BIDDERS[1]]


def test_submission_order_does_not_replace_arrival_time():
    sealed = SealedRound("tie", seats=1)
    sealed.submit(BIDDERS[2], 5000, at=9)
    sealed.submit(BIDDERS[3], 5000, at=4)
    assert sealed.winners() == [BIDDERS[3]]


@pytest.mark.parametrize("hash_seed", ["1", "2", "3", "4"])
def test_other_hash_seeds_agree(hash_seed):
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", SCRIPT % (BIDDERS,)]
    text = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert text.strip() == ",".join(BIDDERS[:3])
'''

CHECK_CLOSED = '''
"""Compare the recorded winner of every closed sealed round with rule 4. Reads only; writes reports/closed.json."""

import json
from pathlib import Path

from lastrow.sealed import SealedRound

rounds = [json.loads(line) for line in Path("data/closed_rounds.jsonl").read_text().splitlines()]
ties, wrong, bids = 0, [], 0
for record in rounds:
    sealed = SealedRound(record["round"], 1)
    for bidder, cents, at in record["bids"]:
        sealed.submit(bidder, cents, at)
    bids += len(record["bids"])
    top = max(cents for _, cents, _ in record["bids"])
    tied = [bid for bid in record["bids"] if bid[1] == top]
    ties += len(tied) > 1
    right = sealed.winners()[0]
    if right != record["winner"]:
        late = {bidder: at for bidder, cents, at in tied}
        wrong.append({"round": record["round"], "cents": top, "recorded": record["winner"], "right": right,
                      "late_by": late[record["winner"]] - late[right]})
print(f"rounds={len(rounds)} bids={bids} ties={ties} wrong={len(wrong)}")
for item in wrong:
    print("  " + " ".join(f"{key}={value}" for key, value in item.items()))
print(f"hammer-total: {sum(item['cents'] for item in wrong)}")
Path("reports").mkdir(exist_ok=True)
Path("reports/closed.json").write_text(json.dumps(wrong, indent=1) + "\\n")
'''

GUARD = '''
@pytest.fixture(autouse=True)
def leak_guard():
    """A test that leaves process-wide state behind fails itself, instead of a later one."""
    before = _state()
    yield
    after = _state()
    changed = [f"{key} {value!r}->{after[key]!r}" for key, value in before.items() if after[key] != value]
    if changed:
        pytest.fail("leaked: " + ", ".join(changed), pytrace=False)


def _state():
    return {
        **settings.CURRENT,
        "clock.frozen": clock._frozen,
        "outbox": len(settle.OUTBOX),
    }
'''


def ci_log(r: Recording, build: int, seed: int, failing: str, lines: list[str], branch: str) -> str:
    """What the build server keeps of one red build."""
    rng = r.rng
    steps = [
        f"[lane] build={build} agent=lane-{rng.randrange(10, 99)} image=py-base:{rng.randrange(300, 990)}",
        f"[lane] branch={branch} commit={rng.randrange(16**9):09x} workspace-bytes={rng.randrange(200_000, 900_000)}",
        f"[lane] cache key=deps-{rng.randrange(16**7):07x} restored-files={rng.randrange(1000, 4000)}",
        f"[suite] python -m pytest -q --tb=short --order-seed {seed}",
        *(
            f"[probe] file=tests/{name} import-bytes={rng.randrange(1200, 9900)} crc={rng.randrange(16**8):08x}"
            for name in ("test_auction_open.py", "test_misc.py", "test_sealed.py", "test_settings.py", "test_venue.py")
        ),
        *(f"[suite] {line}" for line in lines),
        f"[suite] FAILED {failing}",
        f"[suite] order-seed={seed} hash-seed={seed} peak-kb={rng.randrange(30_000, 60_000)}",
        f"[meter] instructions={rng.randrange(10**9, 10**10)} page-faults={rng.randrange(4000, 40_000)} syscalls={rng.randrange(10_000, 99_999)}",
        f"[meter] disk-read-kb={rng.randrange(3000, 30_000)} disk-write-kb={rng.randrange(300, 3000)} forks={rng.randrange(10, 99)}",
        f"[lane] upload artifact=junit-{build}.xml bytes={rng.randrange(9_000, 30_000)} etag={rng.randrange(16**10):010x}",
        f"[lane] verdict=red reason=suite notify=#boxoffice-{rng.randrange(100, 999)}",
    ]
    return "\n".join(steps) + "\n"


def history(r: Recording, v: dict[str, object]) -> str:
    """The last builds as the server lists them; what failed is what these seeds really do."""
    rng, build, ci_base = r.rng, int(str(v["build1"])), int(str(v["ci_base"]))
    ids, names, step = [*map(str, v["ids"])], [str(v[f"b{n}"]) for n in range(4)], int(str(v["step"]))  # type: ignore[call-overload]
    seeds = rng.sample(range(ci_base + 12, ci_base + 70), 30)
    ranks, lines = set_orders(r, names, seeds), ["build\tseed\tverdict\tpeak_kb\tunits\tfailed"]
    for number, seed in zip(range(build - 30, build), seeds):
        branch_seed = int(str(v["sealed_seed"])) if number == v["build2"] else seed
        failed = {VICTIM_SEALED} if number == v["build2"] else failing(ids, names, step, seed, ranks[seed])
        short = ",".join(sorted(name.split("::")[1] for name in failed)) or "-"
        verdict = "red" if failed else "green"
        lines.append(f"{number}\t{branch_seed}\t{verdict}\t{rng.randrange(31_000, 60_000)}\t{rng.randrange(2100, 4800)}\t{short}")
    lines.append(
        f"{build}\t{v['open_seed']}\tred\t{rng.randrange(31_000, 60_000)}\t{rng.randrange(2100, 4800)}\t{VICTIM_OPEN.split('::')[1]}"
    )
    return "\n".join(lines) + "\n"


def closed_rounds(r: Recording, names: list[str], step: int) -> str:
    rng, lines = r.rng, []
    for number in range(140):
        bids, at = [], rng.randrange(1000, 90_000)
        for name in rng.sample(names, 5):
            at += rng.randrange(1, 400)
            bids.append([name, rng.randrange(30, 90) * step, at])
        bids.sort(key=lambda bid: bid[2])
        top = max(bid[1] for bid in bids)
        winner = next(bid[0] for bid in bids if bid[1] == top)
        if number % 9 == 4:  # an equal bid that came later, and sometimes won
            other = rng.choice([bid for bid in bids if bid[0] != winner])
            other[1] = top
            first = next(bid[0] for bid in bids if bid[1] == top)
            tied = [bid[0] for bid in bids if bid[1] == top]
            winner = rng.choice(tied) if number > 40 else next(name for name in tied if name != first)
        code = f"SR-{7000 + number * 7 + rng.randrange(7)}"
        lines.append(json.dumps({"round": code, "bids": bids, "winner": winner}))
    return "\n".join(lines) + "\n"


VICTIM_OPEN = "tests/test_auction_open.py::test_second_bid_needs_full_increment"
VICTIM_VENUE = "tests/test_venue.py::test_section_capacity"
VICTIM_SEALED = "tests/test_sealed.py::test_highest_sealed_bid_wins"
POLLUTER_OPEN = "tests/test_settings.py::test_override_changes_value"
POLLUTER_VENUE = "tests/test_venue.py::test_blocked_row_is_not_sold"
RESETS = (
    "test_one_cent_less_is_refused",
    "test_late_bid_extends_the_auction",
    "test_reset_restores_defaults",
    "test_unknown_key_is_an_error",
)
CLEARS = ("test_rows_come_in_order", "test_unknown_section", "test_map_is_read_once")


def count_red(table: str) -> int:
    return int(label(table, "red"))


def set_up(r: Recording) -> dict[str, object]:
    """Write the project; draw names and seeds until every cause shows itself in the sweeps."""
    rng = r.rng
    hall = f"{rng.choice(['kestrel', 'lantern', 'harbour', 'juniper'])}-{rng.choice(['hall', 'dome', 'stage'])}"
    stalls, balcony, per_row = rng.randrange(14, 24), rng.randrange(6, 12), rng.randrange(17, 33)
    v: dict[str, object] = {
        "increment": rng.randrange(21, 38) * 10 + 5, "snipe": rng.choice([75, 85, 95, 105]),
        "hold": rng.randrange(380, 620), "fee": rng.randrange(710, 990), "raised": rng.randrange(41, 79) * 100 + 25,
        "reserve": rng.randrange(41, 97) * 100 + 75, "lot": rng.randrange(20_000, 90_000), "hall": hall,
        "round": f"SR-{rng.randrange(4000, 5000)}", "frozen": rng.randrange(7_000, 9_900),
        "step": rng.choice([450, 550, 650, 750]), "stalls": stalls * per_row, "balcony": balcony * per_row,
        "quiet": rng.randrange(51, 99) * 10 + 5,
        "error": rng.randrange(410, 480), "error2": rng.randrange(510, 580), "edition": f"{rng.randrange(3, 9)}.{rng.randrange(11, 40)}", "rule": rng.randrange(310, 990),
    }  # fmt: skip
    r.file("lastrow/__init__.py", f'__version__ = "0.{rng.randrange(11, 30)}.{rng.randrange(2, 8)}"\n')
    for path, text in {
        "lastrow/settings.py": SETTINGS, "lastrow/clock.py": CLOCK, "lastrow/auction.py": AUCTION,
        "lastrow/sealed.py": SEALED, "lastrow/venue.py": VENUE, "lastrow/settle.py": SETTLE,
        "lastrow/replay.py": REPLAY, "lastrow/console.py": CONSOLE, "tests/conftest.py": CONFTEST, "docs/rules.md": RULES,
        "tests/test_settings.py": TEST_SETTINGS, "tests/test_venue.py": TEST_VENUE,
        "tests/legacy_helpers.py": LEGACY,
    }.items():  # fmt: skip
        r.file(path, fill(text, **v))
    r.file("tests/__init__.py", "")
    sections = {"stalls": [f"S{n:02d}" for n in range(1, stalls + 1)], "balcony": [f"B{n:02d}" for n in range(1, balcony + 1)]}
    r.file(f"data/venues/{hall}.json", json.dumps({"name": hall, "seats_per_row": per_row, "sections": sections}) + "\n")
    for name in ("spring", "gala"):
        signed = []
        for _ in range(4):
            cents = rng.randrange(12_000, 240_000)
            kept = cents * int(v["fee"]) // 10_000
            signed.append(
                {
                    "lot": f"LOT-{rng.randrange(10_000, 99_000)}",
                    "hammer_cents": cents,
                    "fee_cents": kept,
                    "payout_cents": cents - kept,
                }
            )
        r.file(f"tests/golden/{name}.json", json.dumps(signed, indent=1) + "\n")
    r.file(
        "ci/pipeline.ini",
        f"[suite]\nseeds_per_build = 1\nseed_base = from-build-number\ntimeout_units = {rng.randrange(800, 990)}\n",
    )
    for _ in range(2000):
        names = [f"bdr-{rng.randrange(16**4):04x}" for _ in range(12)]
        v |= {f"b{n}": name for n, name in enumerate(names[:4])}
        v["base"] = rng.randrange(110, 480)
        ci_base = rng.randrange(610, 890) * 100
        for path, text in {
            "tests/test_auction_open.py": TEST_OPEN, "tests/test_sealed.py": TEST_SEALED,
            "tests/test_misc.py": TEST_MISC, "tools/seedsweep.py": SWEEP,
        }.items():  # fmt: skip
            r.file(path, fill(text, **v))
        v["ci_base"] = ci_base
        if plays(r, v):
            break
    else:
        raise RuntimeError("flaky_test: no draw shows every cause")
    v["names"] = names
    return v


def plays(r: Recording, v: dict[str, object]) -> bool:
    """Does this draw give both sweeps something to find? Worked out here, without running the suite."""
    if "ids" not in v:
        listing = r.run("python -m pytest --collect-only -q")
        v["ids"] = [line for line in listing.splitlines() if "::" in line]
    ids, names, step = [*map(str, v["ids"])], [str(v[f"b{n}"]) for n in range(4)], int(str(v["step"]))  # type: ignore[call-overload]
    base, ci_base = int(str(v["base"])), int(str(v["ci_base"]))
    sweeps = range(base, base + 12), range(ci_base, ci_base + 12)
    for victim in (VICTIM_OPEN, VICTIM_VENUE):  # these depend on the order alone, so they are cheap to rule out
        if not all(2 <= sum(victim in failing(ids, names, step, s) for s in sweep) <= 4 for sweep in sweeps):
            return False
    ranks = set_orders(r, names, [0, *sweeps[0], *sweeps[1]])
    red = {seed: failing(ids, names, step, seed, rank) for seed, rank in ranks.items()}
    if not all(2 <= sum(VICTIM_SEALED in red[s] for s in sweep) <= 4 for sweep in sweeps):
        return False
    misc = [i for i in ids if "test_fee_never" in i or "test_payout" in i]
    if any(failing([*before, VICTIM_SEALED], names, step, 0, ranks[0], shuffle=False) for before in ([], [misc[0]], [misc[1]])):
        return False
    only = {victim: [s for s in sweeps[1] if red[s] == {victim}] for victim in (VICTIM_OPEN, VICTIM_VENUE, VICTIM_SEALED)}
    only[VICTIM_SEALED] = [s for s in only[VICTIM_SEALED] if not failing([VICTIM_SEALED], names, step, s, ranks[s])]
    if not all(only.values()):
        return False
    for key, victim in (("open_seed", VICTIM_OPEN), ("venue_seed", VICTIM_VENUE), ("sealed_seed", VICTIM_SEALED)):
        v[key] = min(only[victim], key=lambda seed: place(ids, seed, victim))
    return True


def place(ids: list[str], seed: int, victim: str) -> int:
    order = list(ids)
    random.Random(seed).shuffle(order)
    return order.index(victim)


def set_orders(r: Recording, names: list[str], seeds: list[int]) -> dict[int, list[str]]:
    """How a set lists these names in processes of different hash seeds."""
    loop = f'for s in {" ".join(map(str, seeds))}; do PYTHONHASHSEED=$s python -S -c "print(*set(dict.fromkeys({names})))"; done'
    return dict(zip(seeds, (line.split() for line in r.run(loop).splitlines())))


def failing(
    ids: list[str], names: list[str], step: int, seed: int, rank: list[str] | None = None, shuffle: bool = True
) -> set[str]:
    """The victims that fail when the tests run in the order of this seed (of the sealed one only with a rank)."""
    order, draw, failed = list(ids), random.Random(seed), set()
    if shuffle:
        random.Random(seed).shuffle(order)
    raised = cut = False
    for name in order:
        raised = (raised or name == POLLUTER_OPEN) and not name.endswith(RESETS)
        cut = (cut or name == POLLUTER_VENUE) and not name.endswith(CLEARS)
        if (name == VICTIM_OPEN and raised) or (name == VICTIM_VENUE and cut):
            failed.add(name)
        if name.endswith("test_fee_never_exceeds_the_price"):
            [draw.randrange(9, 14) for _ in range(20)]
        if name.endswith("test_payout_and_fee_add_up"):
            [draw.choice(string.digits) for _ in range(5)]
        if name == VICTIM_SEALED and rank:
            amounts = [draw.randrange(9, 14) * step for _ in range(4)]
            best = dict(zip(names, amounts))
            if sorted(rank, key=lambda bidder: -best[bidder])[0] != names[amounts.index(max(amounts))]:
                failed.add(name)
    return failed


REFUNDS = """
python - <<'END'
import json
from pathlib import Path
table = {}
for item in json.loads(Path("reports/closed.json").read_text()):
    got = table.setdefault(item["recorded"], [0, 0, 0, 0])
    missed = table.setdefault(item["right"], [0, 0, 0, 0])
    got[0] += 1
    got[1] += item["cents"]
    missed[2] += 1
    missed[3] += item["cents"]
lines = ["bidder,seats_got,cents_got,seats_missed,cents_missed"]
lines += [",".join(map(str, [name, *table[name]])) for name in sorted(table)]
Path("reports/refunds.csv").write_text("\\n".join(lines) + "\\n")
print("\\n".join(lines))
END
""".strip()

INSTRUCTIONS = """
## lastrow

Ticket auctions: open ones (`lastrow/auction.py`) and sealed rounds (`lastrow/sealed.py`). Rules: `docs/rules.md`.

- Suite: `python -m pytest -q`. Its order and its random data come from `--order-seed N` (0 = as collected), see
  `tests/conftest.py`. A red build can be played again with the seed in the last line of its log under `ci/logs/`.
- `tools/seedsweep.py [--base N] [--count N]` runs the suite once per seed and prints a table. The hash seed of each run
  is the order seed.
- Standard library and pytest only. Money is whole cents, time is whole seconds.
- Generated files go to `reports/`, which git ignores.
- Commit each finished step on the current branch, with a subject of at most 72 characters.
"""

REPORT = """
# Why the suite depended on its seed

First red build looked at: @build1@ (order seed @open_seed@). Second: @build2@ (order seed @sealed_seed@).

| cause | where it was | what failed | kind |
|---|---|---|---|
| increment raised to @raised@ and never put back | tests/test_settings.py | test_second_bid_needs_full_increment | leak |
| the cached seat map was handed out itself | lastrow/venue.py | test_section_capacity | shared cache |
| equal bids ranked by set order | lastrow/sealed.py | test_highest_sealed_bid_wins | **product bug**, rule R-@rule@ |
| quiet sale kept its rules after a refusal (E@error2@) | lastrow/console.py | nothing yet | leak |
| clock left frozen at @frozen@, outbox left full | tests/test_settlement.py | nothing yet | leak |

Sweep @ci_base@ to @ci_last@: @red_before@ of 12 red after the first repair, @red_after@ of @seeds_after@ red after.
Closed rounds with the wrong winner on record: @wrong@ of @rounds@, hammer total @hammer@ cents.

To play a red build again: `PYTHONHASHSEED=N python -m pytest -q --order-seed N` with N from the last line of its log.
To find a polluter: `python tools/polluter.py VICTIM --order-seed N`.
"""


def play(r: Recording) -> None:
    rng = r.rng
    v = set_up(r)
    ticket = f"TKT-{rng.randrange(4100, 9800)}"
    build1 = rng.randrange(41_000, 58_000)
    build2 = build1 - rng.randrange(4, 13)
    v |= {"ticket": ticket, "build1": build1, "build2": build2, "ci_last": int(str(v["ci_base"])) + 11}
    low, full = int(str(v["reserve"])) + int(str(v["increment"])), int(str(v["reserve"])) + int(str(v["raised"]))
    r.file(f"ci/logs/build-{build1}.log", ci_log(r, build1, int(str(v["open_seed"])), VICTIM_OPEN, [
        f"lastrow.auction.BidRefused: too low: lot=LOT-{v['lot']} offered={low} floor={full}"], "main"))  # fmt: skip
    r.file(f"ci/logs/build-{build2}.log", ci_log(r, build2, int(str(v["sealed_seed"])), VICTIM_SEALED, [
        "AssertionError: winners differ, see --tb=long"], f"feature/refund-{rng.randrange(100, 999)}"))  # fmt: skip
    r.file("ci/history.tsv", history(r, v))
    step, names = int(str(v["step"])), list(v["names"])  # type: ignore[call-overload]
    r.file("data/closed_rounds.jsonl", closed_rounds(r, names, 50))
    top, at = 12 * step, rng.randrange(2000, 9000)
    bids = [[n, top if i in (0, 2, 4) else (7 + i) * step, at + 37 * i + rng.randrange(30)] for i, n in enumerate(names[:6])]
    r.file(
        f"data/rounds/{v['round']}.json",
        json.dumps({"round": v["round"], "lot": f"LOT-{v['lot']}", "seats": 2, "bids": bids}) + "\n",
    )
    r.file("AGENTS.md", INSTRUCTIONS.strip() + "\n")
    r.file(".gitignore", "__pycache__/\nreports/\n")
    r.run("git init -q && git add -A && git commit -qm 'Import of the auction service'")

    r.system(
        "You are a software engineer who works in a terminal on the lastrow repository, a ticket auction service written "
        "in plain Python. You can run shell commands, read, write, edit and search files, and keep a todo list. Look at "
        "the evidence before you change code, make small changes, run the suite after each of them, and tell the user "
        "briefly what you found and what it means. Ask only when a decision is really theirs."
    )
    r.instructions(INSTRUCTIONS)

    # --- the first cause ------------------------------------------------------------------------------------
    r.user(
        f"Build {build1} went red last night, and more than every third build before it, although nobody changed the bidding "
        f"code. The suite is green on my laptop. Logs are in ci/logs. Please find out what makes it depend on the seed and "
        f"repair the causes; the ticket is {ticket}."
    )
    plan = ["Read the red build's log and play its seed again", "Sweep seeds and list which tests fail",
            "Repair test_second_bid_needs_full_increment", "Repair the remaining causes", "Final sweep and report"]  # fmt: skip

    def todo(*done: int, now: int | None = None, items: list[str] = plan):
        states = ["completed" if n in done else "in_progress" if n == now else "pending" for n in range(len(items))]
        return r.todo(*zip(items, states))

    r.agent("I start with the log of that build and the shape of the repository, then I play the same seed here.",
            todo(now=0), r.bash("git ls-files && wc -l lastrow/*.py tests/*.py"))  # fmt: skip
    r.agent(
        "",
        r.read(f"ci/logs/build-{build1}.log"),
        r.bash("git log --format='%h %ad %s' --date=short && cat ci/pipeline.ini && cat ci/history.tsv"),
    )
    r.agent(
        f"The build failed in one test with `too low`: a bid of {low} cents was refused because the floor was {full}. So the "
        f"increment in force was {v['raised']} cents, not the {v['increment']} that I would expect. I read the test and the "
        "order machinery.",
        r.read("tests/test_bidding.py"), r.read("tests/conftest.py"),
    )  # fmt: skip
    r.agent("There is no tests/test_bidding.py; the log's node id says tests/test_auction_open.py.",
            r.read("tests/test_auction_open.py"), r.read("lastrow/settings.py"), r.read("docs/rules.md"))  # fmt: skip
    r.agent(
        "The settings are one table for the whole process, and `override` changes it in place. Now the failing seed, and the "
        "same test by itself.",
        r.bash(f"python -m pytest -q --tb=line --order-seed {v['open_seed']}"),
        r.bash(f"python -m pytest -q --order-seed {v['open_seed']} {VICTIM_OPEN}"),
    )
    wrong = "I take it that every red build has this one cause: the settings table that some test leaves changed"
    r.agent(
        f"It reproduces with seed {v['open_seed']}, and alone the test passes. An earlier test must have raised the increment. "
        f"{wrong}. A sweep over many seeds will show how often.",
        todo(0, now=1), r.read("tools/seedsweep.py"),
    )  # fmt: skip
    sweep1 = r.agent("", r.bash("python tools/seedsweep.py"),
                     r.bash("awk -F'\\t' 'NR>1 {units[$3]+=$5; n[$3]++; if ($3==\"red\") f[$6]++} END {for (k in n) print \"verdict=\" k, \"builds=\" n[k], "
                            "\"units=\" units[k]; for (k in f) print \"  \" k \": \" f[k]}' ci/history.tsv | sort"))[0]  # fmt: skip
    r.agent(
        f"{count_red(sweep1)} of 12 seeds are red, and three different tests appear; the server's own list shows the same three. That does not contradict the idea yet: all "
        "three could suffer from what an earlier test left behind. To find polluters without guessing I write a small tool which runs "
        "each predecessor of a victim in front of it, in pairs.",
        r.write("tools/polluter.py", fill(POLLUTER)),
    )
    r.user(
        "Good. One thing before you go on: please don't add reruns or a retry marker to get it green, we had those two years "
        "ago and they hid a real refund error. I also noticed a second red log in ci/logs, on a feature branch."
    )
    r.agent("I look for the polluter of the first victim, and at the second log.",
            r.bash(f"python tools/polluter.py {VICTIM_OPEN} --order-seed {v['open_seed']}"),
            r.bash(f"cat ci/logs/build-{build2}.log"))  # fmt: skip
    r.agent(
        "One guilty test of all predecessors. Let me see it, and everything else that touches the table.",
        r.read("tests/test_settings.py"), r.grep(r"settings\.(override|reset)"), r.read("lastrow/console.py"),
    )  # fmt: skip
    scoped, blanket = (
        "a context manager `scoped` in lastrow/settings.py",
        "an autouse fixture that resets the table around every test",
    )
    hides = "it would hide the same mistake in lastrow/console.py"
    r.agent(
        "`test_override_changes_value` raises the increment and walks away; whether a later test is hurt depends on whether one "
        f"of the tests that call `settings.reset()` runs in between. I will add {scoped} which puts back what it changed. The "
        f"other way, {blanket}, I reject because {hides}: a refused quiet sale leaves its rules in force there, too.",
        r.edit("lastrow/settings.py", "\nDEFAULTS = {", "\nfrom contextlib import contextmanager\n\nDEFAULTS = {"),
        r.edit("lastrow/settings.py", "def reset():\n", fill('''
@contextmanager
def scoped(**values):
    """`override` for the length of a with block."""
    before = dict(CURRENT)
    override(**values)
    try:
        yield
    finally:
        CURRENT.clear()
        CURRENT.update(before)


def reset():
''')),
    )  # fmt: skip
    r.truth.decision(chosen=scoped, rejected=blanket, reason=hides)
    r.agent("Now the test itself, and the two resets in the open-auction tests, which only worked around the leak.",
            r.edit("tests/test_settings.py",
                   f"    settings.override(min_increment_cents={v['raised']})\n    assert settings.get(\"min_increment_cents\") == {v['raised']}\n",
                   f"    with settings.scoped(min_increment_cents={v['raised']}):\n"
                   f"        assert settings.get(\"min_increment_cents\") == {v['raised']}\n"
                   "    assert settings.CURRENT == settings.DEFAULTS\n"),
            r.edit("tests/test_auction_open.py", "    settings.reset()\n", ""))  # fmt: skip
    r.agent("The line occurs twice, so the edit was refused; sed takes both, together with the import that nobody needs then.",
            r.bash("sed -i '/settings.reset()/d; /^from lastrow import settings$/d' tests/test_auction_open.py "
                   "&& git diff --stat && head -8 tests/test_auction_open.py"))  # fmt: skip
    r.agent("", r.bash(f"python -m pytest -q --order-seed {v['open_seed']}"))

    # --- the second cause -----------------------------------------------------------------------------------
    r.user(
        f"One correction about the seeds: the build server never uses {v['base']}, its lanes count from {v['ci_base']} since "
        f"the move in spring. Make that the tool's default base, otherwise we compare different things."
    )
    r.truth.update("base of the sweep", f"DEFAULT_BASE = {v['base']}", f"DEFAULT_BASE = {v['ci_base']}")
    r.agent("That agrees with the seeds in the two logs. I change the default and sweep those twelve.",
            r.edit("tools/seedsweep.py", f"DEFAULT_BASE = {v['base']}", f"DEFAULT_BASE = {v['ci_base']}"),
            todo(0, 1, 2, now=3))  # fmt: skip
    sweep2 = r.agent("", r.bash("python tools/seedsweep.py --count 12"))[0]
    v["red_before"] = count_red(sweep2)
    r.agent(
        f"`test_second_bid_needs_full_increment` is gone from the table, but {v['red_before']} of 12 are still red with the other "
        f"two tests. I commit the first repair and take `test_section_capacity` next, in the order of seed {v['venue_seed']}.",
        r.bash(
            "git add -A && git commit -qm 'Put settings back after a test changed them' && git show --stat --format='commit %H' HEAD"
        ),
        r.bash(f"python tools/polluter.py {VICTIM_VENUE} --order-seed {v['venue_seed']}"),
    )
    r.agent("", r.read("lastrow/venue.py"), r.bash("sed -n 1,24p tests/test_venue.py"),
            r.bash(f"python - <<'END'\nfrom lastrow import venue\nname = '{v['hall']}'\nfor section in ('stalls', 'balcony'):\n"
                   "    rows = venue.rows(name, section)\n    rows.pop()\n"
                   "    print(f'section={section} capacity-after-pop={venue.capacity(name, section)} cached={venue.rows(name, section) is rows}')\n"
                   "END"))  # fmt: skip
    r.agent(
        "So this one is not the settings table: `rows` hands out the cached list itself, and `test_blocked_row_is_not_sold` "
        "removes a row from it for the rest of the process. That is a fault of the product as much as of the test, any caller "
        "could do it. `rows` will return a copy; the test may stay as it is.",
        r.edit(
            "lastrow/venue.py", '    return load(name)["sections"][section]', '    return list(load(name)["sections"][section])'
        ),
        r.bash(
            f"python -m pytest -q --tb=short --order-seed {v['venue_seed']} && git commit -qam 'Hand out copies of the seat map'"
        ),
    )
    r.user(
        "Nice find. While you are in tests/: everything below tests/golden is signed off by the finance people, so leave every "
        "byte there alone. And what about the sealed test, is that a leak too?"
    )
    r.agent(
        "I note the sums of those files now. Then the sealed test: the failing order, the test alone under the same seed, and "
        "the polluter tool.",
        r.bash("sha256sum tests/golden/*.json | cut -c1-24,65-"),
        r.bash(f"PYTHONHASHSEED={v['sealed_seed']} python -m pytest -q --tb=short --order-seed {v['sealed_seed']}"),
        r.bash(f"PYTHONHASHSEED={v['sealed_seed']} python -m pytest -q --order-seed {v['sealed_seed']} {VICTIM_SEALED}"),
    )
    r.agent("Alone it passes again, which looks exactly like the other two.",
            r.bash(f"python tools/polluter.py {VICTIM_SEALED} --order-seed {v['sealed_seed']}"))  # fmt: skip
    r.agent(
        "But there is no polluter: not one of the pairs fails. So something else differs between the full run and the single "
        "one. I look at the test's data and at the code under test.",
        r.read("tests/test_sealed.py"), r.read("tests/legacy_helpers.py"), r.read("lastrow/sealed.py"),
    )  # fmt: skip
    hash_list = " ".join(str(rng.randrange(100, 990)) for _ in range(7))
    hashes = r.agent(
        "Two things. The amounts come from the one global generator, so every test that draws before it changes them; and "
        "`winners` sorts a set of names, whose order depends on the hash seed. I keep the order fixed and vary only the hash seed.",
        r.bash(f"for h in {hash_list}; do printf 'hashseed=%s ' $h; PYTHONHASHSEED=$h python -m pytest -q --tb=no "
               f"--order-seed {v['sealed_seed']} | grep -E 'passed|failed' | grep -v FAILED | sed 's/ in .*//'; done"),
    )[0]  # fmt: skip
    split = f"{hashes.count('1 failed')} of 7 hash seeds fail"
    if not 0 < hashes.count("1 failed") < 7:
        raise RuntimeError("flaky_test: the hash seeds agree")
    firsts: dict[str, int] = {}
    for seed, rank in set_orders(r, names[:6], list(range(21, 60))).items():
        firsts.setdefault(next(name for name in rank if name in (names[0], names[2], names[4])), seed)
    shown = " ".join(map(str, sorted(firsts.values())))
    r.agent(
        f"With the very same order and the very same amounts, {split} and the others pass. The round recorded under data/rounds "
        "has equal bids, too; I replay it outside of the suite.",
        r.bash(f"cat data/rounds/{v['round']}.json; for h in {shown}; do PYTHONHASHSEED=$h python -m lastrow.replay data/rounds/{v['round']}.json; done"),
    )  # fmt: skip
    corrected = "The settings table was only one of three causes, and this one is not a matter of the tests at all"
    r.agent(
        f"{corrected}. Rule 4 (R-{v['rule']}) of the house rules says that of equal sealed bids the earlier one comes first; `winners` "
        "gives the seat to whichever name the set happens to list first. The suite was right to fail. Customers are affected: the "
        "same round, settled in two processes, can go to different bidders. Before I change it: do you want only the repair, or "
        "also a check of what has been settled already?"
    )
    r.truth.belief(wrong=wrong, corrected=corrected)

    # --- the product bug ------------------------------------------------------------------------------------
    r.user(
        f"Ouch. Both please: repair it, and tell me which of the closed rounds in data/closed_rounds.jsonl have the wrong "
        f"winner. Every commit from here on needs the subject to begin with {ticket} and a colon, the auditors will read them."
    )
    plan2 = [
        *plan[:3],
        "Rank equal sealed bids by arrival",
        "Check the closed rounds",
        "Guard against new leaks",
        "Final sweep and report",
    ]
    chosen, dropped = "sort by amount and then by arrival time", "replace the set with the dict, which keeps insertion order"
    reason = "a bidder who raises late would keep the place of an earlier, lower bid"
    r.agent(
        f"I will {chosen}. It would be a smaller change to {dropped}, but then {reason}; that is wrong by the same rule.",
        todo(0, 1, 2, now=3, items=plan2),
        r.edit("lastrow/sealed.py",
               "        best = self.best_bids()\n        names = set(best)\n        ranked = sorted(names, key=lambda name: -best[name].cents)\n"
               "        return ranked[: self.seats]",
               '        """Highest first; equal bids by arrival (rule 4)."""\n'
               "        ranked = sorted(self.best_bids().values(), key=lambda bid: (-bid.cents, bid.at))\n"
               "        return [bid.bidder for bid in ranked[: self.seats]]"),
        r.write("tests/test_sealed_ties.py", fill(TEST_TIES, **v)),
    )  # fmt: skip
    r.truth.decision(chosen=chosen, rejected=dropped, reason=reason)
    r.agent("", r.bash("python -m pytest -q --tb=short tests/test_sealed.py tests/test_sealed_ties.py"),
            r.bash(f"for h in 31 32 33; do PYTHONHASHSEED=$h python -m lastrow.replay data/rounds/{v['round']}.json | tail -3 | tr '\\n' ' '; echo; done"))  # fmt: skip
    r.agent(
        "All three processes now agree. Next the closed rounds: I settle each again with the repaired code and compare with the "
        "winner on record. The script only reads, and puts its list into reports/.",
        r.bash("wc -lc data/closed_rounds.jsonl && sed -n '3p;77p' data/closed_rounds.jsonl"),
        r.write("tools/check_closed.py", fill(CHECK_CLOSED)),
    )
    closed = r.agent("", r.bash("python tools/check_closed.py"))
    if "ModuleNotFoundError" not in closed[0]:
        raise RuntimeError("flaky_test: the check was expected to miss the package")
    closed = r.agent("A script below tools/ does not see the package by itself; the repository root has to be on the path.",
                     r.bash("PYTHONPATH=. python tools/check_closed.py"))[0]  # fmt: skip
    v |= {key: label(closed, key) for key in ("wrong", "rounds", "ties")} | {"hammer": label(closed, "hammer-total")}
    first_wrong = re.findall(r"round=(SR-\d+)", closed)
    r.agent(
        f"{v['wrong']} of {v['rounds']} closed rounds have a winner who bid later than somebody with the same amount; "
        f"{v['ties']} rounds had a tie at the top at all. The first on the list is {first_wrong[0]}. The hammer prices are not "
        "wrong, only the person is. I commit the repair with its tests and the check.",
        r.bash(
            f"git add -A && git commit -qm '{ticket}: Rank equal sealed bids by arrival' && git log --format='%h %s' -3 && git show --shortstat --format= HEAD"
        ),
        r.bash("wc -c reports/closed.json && sha1sum reports/closed.json | cut -c1-16"),
        todo(0, 1, 2, 3, 4, now=5, items=plan2),
    )
    r.truth.fact(first_wrong[0], f"hammer-total: {v['hammer']}")

    r.user(
        "However many there are, finance will want one line per bidder: how many seats they got that were not theirs, how many "
        "they missed, and the cents of each. As reports/refunds.csv, please, and show me the table."
    )
    r.agent("The list in reports/closed.json has all that is needed; I turn it around by bidder.",
            r.bash(REFUNDS), r.bash("awk -F, 'NR>1 {got+=$3; missed+=$5} END {print \"got-cents=\" got, \"missed-cents=\" missed}' reports/refunds.csv; "
                                    "cksum reports/refunds.csv"))  # fmt: skip
    r.agent(
        "Both columns add up to the same sum, as they must: every seat that one bidder got by mistake, another missed. The file is "
        "in reports/, so it stays out of git."
    )

    # --- a guard, and the rest ------------------------------------------------------------------------------
    window = rng.choice([115, 125, 135, 145])
    edition = f"{v['edition']}".split(".")[0] + f".{rng.randrange(50, 90)}"
    r.user(
        f"They will contact those bidders. A small thing in between: with edition {edition} of the rules the "
        f"anti-snipe window becomes {window} seconds instead of {v['snipe']}. Change it in the settings and in docs/rules.md."
    )
    r.truth.update("anti-snipe window", f'"antisnipe_seconds": {v["snipe"]}', f'"antisnipe_seconds": {window}')
    r.truth.update("edition of the rules", f"(edition {v['edition']})", f"(edition {edition})")
    r.agent("", r.edit("lastrow/settings.py", f'"antisnipe_seconds": {v["snipe"]}', f'"antisnipe_seconds": {window}'),
            r.bash(f"sed -i 's/(edition {v['edition']})/(edition {edition})/; s/last {v['snipe']} seconds/last {window} seconds/' docs/rules.md && git diff -U0 docs lastrow | grep '^[+-]'"))  # fmt: skip
    r.agent("", r.bash("python -m pytest -q --tb=line"))
    r.agent(f"One test spells the old number out. It should say {window}, since the test is there to hold the rule.",
            r.edit("tests/test_auction_open.py", f"3590 + {v['snipe']}", f"3590 + {window}"),
            r.bash(f"python -m pytest -q tests/test_auction_open.py && git commit -qam '{ticket}: Anti-snipe window of {window} seconds' && git rev-parse --short=12 HEAD"))  # fmt: skip
    r.user(
        "Now I would like something that stops the next leak at its source: the test which leaves state behind should fail, "
        "not some innocent one later. If that turns up more offenders, repair them, and the console too; skip and xfail are not an option for me."
    )
    r.agent(
        "A fixture in conftest can compare the process-wide state before and after each test: the settings, the frozen clock "
        "and the outbox. I look at what else keeps state first.",
        r.bash("grep -nE '^(_?[A-Za-z_]+) = (\\[|\\{|dict|None|0)|^ *global|lru_cache' lastrow/*.py"),
        r.read("lastrow/clock.py"), r.read("lastrow/settle.py"),
    )  # fmt: skip
    r.agent("",
            r.edit("tests/conftest.py", "import random\n", "import random\n\nimport pytest\n\nfrom lastrow import clock, settings, settle\n"),
            r.bash(f"cat >> tests/conftest.py <<'END'\n\n{GUARD}END\ntail -5 tests/conftest.py"))  # fmt: skip
    r.agent("", r.bash("python -m pytest -q --tb=line --order-seed 5"))
    r.agent(
        "The guard finds two offenders that no test has suffered from yet: one leaves the clock frozen, the other leaves a "
        "notice in the outbox. Both are in tests/test_misc.py.",
        r.read("tests/test_misc.py"),
    )
    r.agent(
        "`monkeypatch` puts things back for a single test, also when the test fails, so I use it in both.",
        r.edit("tests/test_misc.py", f"def test_hold_expires():\n    clock.freeze({v['frozen']})",
               f'def test_hold_expires(monkeypatch):\n    monkeypatch.setattr(clock, "_frozen", {v["frozen"]})'),
        r.edit("tests/test_misc.py", "def test_outbid_notice_is_queued():\n    before = len(settle.OUTBOX)\n",
               'def test_outbid_notice_is_queued(monkeypatch):\n    monkeypatch.setattr(settle, "OUTBOX", [])\n'),
        r.edit("tests/test_misc.py", "== before + 1", "== 1"),
    )  # fmt: skip
    r.agent(
        "Now the console. `quiet_sale` overrides, and when it refuses the lot it never comes to its `reset`; when all goes well, "
        "that `reset` also wipes out what the clerk had set by hand. `scoped` cures both. Tests first, to see them fail.",
        r.write("tests/test_console.py", fill(TEST_CONSOLE, **v)), r.bash("python -m pytest -q --tb=line tests/test_console.py"),
    )  # fmt: skip
    r.agent(
        "Both faults show, and the guard reports the leak by itself.",
        r.edit("lastrow/console.py", fill('''
    settings.override(**QUIET)
    if cents < settings.get("min_increment_cents"):
        raise ValueError(f"E@error2@ below the quiet minimum: lot={lot} cents={cents}")
    money = settle.settle(lot, cents)
    settings.reset()
''', **v), fill('''
    with settings.scoped(**QUIET):
        if cents < settings.get("min_increment_cents"):
            raise ValueError(f"E@error2@ below the quiet minimum: lot={lot} cents={cents}")
        money = settle.settle(lot, cents)
''', **v)),
    )  # fmt: skip
    r.agent("", r.bash("python -m pytest -q --tb=short --order-seed 5 && git diff --stat"))
    r.user(
        "Works for me. test_misc.py is a silly name though, it is all about settlement. And legacy_helpers should go, with "
        "its global generator; give the tests their own data. No test may sleep or look at the machine's clock for it, please."
    )
    r.agent(
        "I move the file, then add a small maker whose numbers depend on nothing but the name of the test that asks.",
        r.bash("git mv tests/test_misc.py tests/test_settlement.py && git status --short"),
        r.write("tests/factories.py", fill(FACTORIES, **v)),
    )
    r.agent(
        "",
        r.bash("sed -i 's/^from tests import legacy_helpers$/from tests.factories import Maker/; "
               "s/legacy_helpers.random_amounts(20)/Maker(\"fees\").amounts(20)/; "
               "s/legacy_helpers.random_lot()/Maker(\"payout\").lot()/; "
               "s/legacy_helpers.random_amounts(len(BIDDERS))/Maker(\"sealed\").amounts(len(BIDDERS))/' tests/test_settlement.py tests/test_sealed.py "
               "&& git rm -q tests/legacy_helpers.py && grep -rn 'Maker\\|legacy' tests/*.py"),
        r.bash("python - <<'END'\nfrom tests.factories import Maker\nfor name in ('fees', 'payout', 'sealed'):\n"
               "    print(f'maker={name} amounts={Maker(name).amounts(4)} lot={Maker(name).lot()}')\nEND"),
    )  # fmt: skip
    suite = r.agent(
        "", r.bash(f"python -m pytest -q --order-seed {v['sealed_seed']}"), todo(0, 1, 2, 3, 4, 5, now=6, items=plan2)
    )[0]
    r.agent(
        f"Green with {label(suite, 'items')} tests, on the seed that was red on the feature branch. I commit this step by step, "
        "the guard first and the new data makers second.",
        r.bash(f"git add tests/conftest.py && git commit -qm '{ticket}: Fail the test that leaks state' && git add -A "
               f"&& git commit -qm '{ticket}: Give each test its own data' && git log --format='%h %s' -2"),
    )  # fmt: skip
    r.user(
        "Then the final sweep over the server's range, with more seeds than before, and a short docs/flaky-report.md for the "
        "team: causes, how many seeds were red before and after, and the closed rounds. Let the server run 4 seeds per build."
    )
    more = rng.choice([16, 18, 20])
    final = r.agent("", r.bash(f"python tools/seedsweep.py --count {more}"),
                    r.bash("git diff --stat $(git rev-list --max-parents=0 HEAD) HEAD -- tests/golden lastrow tools"))[0]  # fmt: skip
    v |= {"red_after": count_red(final), "seeds_after": more}
    if v["red_after"]:
        raise RuntimeError("flaky_test: the final sweep is not green")
    r.agent(
        f"No red seed among {more}. The server gets its setting, and I write the report.",
        r.edit("ci/pipeline.ini", "seeds_per_build = 1", "seeds_per_build = 4"),
        r.write("docs/flaky-report.md", fill(REPORT, **v)),
    )
    r.truth.update("seeds per build", "seeds_per_build = 1", "seeds_per_build = 4")
    r.agent("I check the report's recipe with the two seeds of the red builds, then commit.",
            r.bash(f"for n in {v['open_seed']} {v['sealed_seed']}; do PYTHONHASHSEED=$n python -m pytest -q --tb=short --order-seed $n | tail -2; done"),
            r.bash(f"git add -A && git commit -qm '{ticket}: Report on the seeds, 4 per build' && git status --short | wc -l && git log --format='%h %T' -1"),
            todo(0, 1, 2, 3, 4, 5, 6, items=plan2))  # fmt: skip
    r.agent(
        f"Done. Build {build1} failed because a test left the increment at {v['raised']}; build {build2} failed because equal sealed "
        f"bids were ranked by chance, which broke R-{v['rule']} for real customers in {v['wrong']} closed rounds "
        f"(reports/closed.json, hammer total {v['hammer']} cents). From {v['red_before']} red seeds of 12 after the first repair, the range from {v['ci_base']} is "
        f"down to none of {more}. `tools/polluter.py` stays for the next time. One thing I left alone: `set` in the console "
        "still changes the process until somebody types the old value, which is what the box office wants, I think."
    )

    # --- what was said --------------------------------------------------------------------------------------
    r.truth.constraint("please don't add reruns or a retry marker to get it green")
    r.truth.constraint("everything below tests/golden is signed off by the finance people, so leave every byte there alone")
    r.truth.constraint(f"Every commit from here on needs the subject to begin with {ticket} and a colon")
    r.truth.constraint("skip and xfail are not an option for me")
    r.truth.constraint("No test may sleep or look at the machine's clock for it")
    r.truth.fact(str(build1), str(build2), ticket, f"offered={low}", f"floor={full}", f"order-seed={v['open_seed']}",
                 "DEFAULT_COUNT = 12", f"LOT-{v['lot']}", str(v["round"]), f"R-{v['rule']}", f"data/venues/{v['hall']}.json",
                 f"Rules of the house (edition {v['edition']})", label(sweep1, "sweep-id"), label(sweep2, "sweep-id"),
                 label(final, "sweep-id"), f"order-seed={v['sealed_seed']}", f"monkeypatch.setattr(clock, \"_frozen\", {v['frozen']})",
                 POLLUTER_OPEN, POLLUTER_VENUE, str(v["b0"]), f"edition {edition}", f"wrong={v['wrong']}")  # fmt: skip
    for value in (str(build1), str(build2), f"R-{v['rule']}", str(v["raised"]), str(v["sealed_seed"]), str(v["ci_base"])):
        r.truth.later(value)
