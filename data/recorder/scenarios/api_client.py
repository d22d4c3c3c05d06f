"""A client for a regional timetable gateway learns to page, wait, sign and pace itself, against replayed tapes."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from email.utils import formatdate
from textwrap import dedent
from urllib.parse import quote

TITLE = "Paging, waiting, signing and pacing in a timetable API client"
PROJECT = "halmtrafik"

# --- the workspace ------------------------------------------------------------------------------------------------------

CLIENT = '''
"""Client for the Halmvik regional timetable gateway (v3)."""

import json
from urllib.parse import urlencode

from halmtrafik import retry, signing
from halmtrafik.errors import ApiError
from halmtrafik.paging import walk


class Client:
    def __init__(self, transport, settings, clock):
        self.transport, self.settings, self.clock = transport, settings, clock
        self.calls = 0

    def stops(self):
        return walk(self, "/v3/stops", {"limit": self.settings["page_size"]})

    def lines(self):
        return walk(self, "/v3/lines", {"limit": self.settings["page_size"]})

    def departures(self, stop, day):
        return self.send("GET", "/v3/departures", {"stop": stop, "day": day})["items"]

    def acknowledge(self, alert, note):
        return self.send("POST", "/v3/alerts/ack", body={"alert": alert, "note": note})

    def send(self, method, path, query=None, body=None):
        query = {name: value for name, value in (query or {}).items() if value is not None}
        payload = json.dumps(body).encode() if body is not None else b""
        url = path + ("?" + urlencode(query) if query else "")
        headers = signing.headers(self.settings, method, path, query, payload)

        def once():
            self.calls += 1
            return self.transport(method, url, headers, payload)

        answer = retry.run(once, self.clock, self.settings["tries"])
        if answer.status >= 400:
            problem = json.loads(answer.body)
            raise ApiError(answer.status, problem["error"], problem["trace"])
        return json.loads(answer.body)
'''

PAGING = '''
"""Walking a paged endpoint."""


def walk(client, path, query):
    """All items of a paged endpoint, in the gateway's order."""
    items, cursor = [], None
    while True:
        page = client.send("GET", path, {**query, "cursor": cursor})
        items += page["items"]
        cursor = page["meta"].get("next")
        if len(page["items"]) < query["limit"]:
            return items
'''

RETRY = '''
"""Trying again after a passing failure."""

PASSING = {429, 502, 503, 504}
PAUSE = 2.0


def run(once, clock, tries):
    answer = once()
    for _ in range(tries - 1):
        if answer.status not in PASSING:
            break
        clock.sleep(PAUSE)
        answer = once()
    return answer
'''

SIGNING = '''
"""Headers that say who we are. Scheme v1: a static digest of the path."""

import hashlib


def headers(settings, method, path, query, payload):
    text = f"{settings['client_id']}:{path}:{settings['secret']}"
    return {"X-Hvk-Key": settings["client_id"], "X-Hvk-Sig": hashlib.sha1(text.encode()).hexdigest()}
'''

ERRORS = """
class ApiError(Exception):
    def __init__(self, status, code, trace):
        super().__init__(f"{status} {code} trace={trace}")
        self.status, self.code, self.trace = status, code, trace
"""

SETTINGS_PY = """
import tomllib
from pathlib import Path


def load(path="settings.toml"):
    tables = tomllib.loads(Path(path).read_text())
    return {**tables["gateway"], **tables["limits"]}
"""

UTIL = '''
"""Odds and ends."""

from datetime import datetime


def to_minutes(text):
    """Minutes since midnight of a departure time such as 07:45."""
    parsed = datetime.strptime(text, "%H:%M")
    return parsed.hour * 60 + parsed.minute
'''

SOAP = '''
"""The old SOAP feed (gateway v1, switched off by the operator)."""

from xml.etree import ElementTree

ENDPOINT = "https://feed.halmvik.example:@SOAPPORT@/HvkFeed.asmx"
NAMESPACE = "urn:hvk:feed:@SOAPNS@"


def envelope(action, **fields):
    inner = "".join(f"<{name}>{value}</{name}>" for name, value in sorted(fields.items()))
    return f'<e:Envelope xmlns:e="{NAMESPACE}"><e:Body><{action}>{inner}</{action}></e:Body></e:Envelope>'


def stop_names(text):
    return [node.text for node in ElementTree.fromstring(text).iter("StopName")]
'''

GATEWAY = '''
"""An in-process stand-in for the gateway: it replays tapes/ on a clock of its own. No sockets."""

import hashlib
import json
import math
from collections import Counter
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit


class Clock:
    def __init__(self, start):
        self.start = self.time = start

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds


@dataclass
class Answer:
    status: int
    headers: dict
    body: bytes


class Gateway:
    def __init__(self, root="tapes", quota=None, faults=True, verify=None):
        self.root = Path(root)
        self.index = json.loads((self.root / "index.json").read_text())
        self.faults = json.loads((self.root / "faults.json").read_text()) if faults else {}
        self.clock = Clock(self.index["clock"])
        self.quota, self.verify = quota, verify
        self.log, self.acks, self.arrivals, self.held = [], [], [], {}
        self.statuses, self.early = Counter(), 0

    def __call__(self, method, url, headers, body=b""):
        self.clock.sleep(self.index["latency_s"])
        parts = urlsplit(url)
        query = sorted((k, v) for k, v in parse_qsl(parts.query) if k != "limit")
        key = f"{method} {parts.path}" + ("?" + "&".join(f"{k}={v}" for k, v in query) if query else "")
        code = self.verify(method, url, headers, body, self.clock.now()) if self.verify else None
        answer = self._problem(401, code) if code else self._over_quota() or self._hold(key) or self._fault(key, body)
        answer = answer or self._replay(key, body)
        self.statuses[answer.status] += 1
        said = json.loads(answer.body)
        who = said["meta"]["request_id"] if answer.status == 200 else said["trace"]
        what = f"items={len(said.get('items', []))}" if answer.status == 200 else f"error={said['error']}"
        wait = f" retry_after={answer.headers['Retry-After']!r}" if "Retry-After" in answer.headers else ""
        passed = self.clock.now() - self.clock.start
        self.log.append(f"{len(self.log) + 1:03d} t=+{passed:.3f} {key} -> {answer.status} {who} bytes={len(answer.body)} {what}{wait}")
        return answer

    def _problem(self, status, code, **headers):
        trace = "flt-" + hashlib.sha256(f"{code}{len(self.log)}{self.index['salt']}".encode()).hexdigest()[:6]
        return Answer(status, headers, json.dumps({"error": code, "trace": trace}).encode())

    def _over_quota(self):
        now = self.clock.now()
        self.arrivals = [t for t in self.arrivals if t > now - 60]
        if self.quota and len(self.arrivals) >= self.quota:
            return self._problem(429, "quota_exceeded", **{"Retry-After": str(math.ceil(self.arrivals[0] + 60 - now))})
        self.arrivals.append(now)
        return None

    def _hold(self, key):
        until, value = self.held.get(key, (0, ""))
        if self.clock.now() < until:
            self.early += 1
            return self._problem(429, "slow_down", **{"Retry-After": value})
        return None

    def _fault(self, key, body):
        waiting = self.faults.get(key)
        if not waiting:
            return None
        fault = waiting.pop(0)
        if fault.get("applied"):
            self.acks.append(json.loads(body)["alert"])
        value = fault.get("retry_after")
        if value is None:
            return self._problem(fault["status"], fault["code"])
        until = self.clock.now() + int(value) if value.isdigit() else parsedate_to_datetime(value).timestamp()
        self.held[key] = (until, value)
        return self._problem(fault["status"], fault["code"], **{"Retry-After": value})

    def _replay(self, key, body):
        if key not in self.index["answers"]:
            return self._problem(404, "no_tape")
        if key.startswith("POST"):
            self.acks.append(json.loads(body)["alert"])
        return Answer(200, {}, (self.root / self.index["answers"][key]).read_bytes())
'''

PROBE = '''
"""Try the client on the tapes: python tools/probe.py stops|lines|board|sweep|ack [ID] [--no-faults] [--quota] [--log N]"""

import argparse
import hashlib
import sys

sys.path.insert(0, ".")

from halmtrafik.client import Client  # noqa: E402
from halmtrafik.errors import ApiError  # noqa: E402
from halmtrafik.settings import load  # noqa: E402
from stubgate.gateway import Gateway  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("what", choices=["stops", "lines", "board", "sweep", "ack"])
parser.add_argument("id", nargs="?")
parser.add_argument("--no-faults", action="store_true")
parser.add_argument("--quota", action="store_true")
parser.add_argument("--log", type=int, default=0)
options = parser.parse_args()

settings = load()
gateway = Gateway(faults=not options.no_faults, quota=settings["per_minute"] if options.quota else None)
client = Client(gateway, settings, gateway.clock)
code = 0
try:
    if options.what in ("stops", "lines"):
        items = getattr(client, options.what)()
        ids = [item["id"] for item in items]
        print(f"items: {len(ids)}\\nunique_ids: {len(set(ids))}\\nlast_id: {ids[-1]}")
        print(f"ids_sha256: {hashlib.sha256(' '.join(ids).encode()).hexdigest()[:20]}")
    elif options.what == "board":
        for row in client.departures(options.id, gateway.index["day"]):
            print(f"line={row['line']:<4} trip={row['trip']} departs={row['departs']} to={row['to']}")
    elif options.what == "sweep":
        rows = [row for stop in gateway.index["boards"] for row in client.departures(stop, gateway.index["day"])]
        print(f"boards: {len(gateway.index['boards'])}\\ndepartures: {len(rows)}\\nlast_trip: {rows[-1]['trip']}")
    else:
        print("receipt:", client.acknowledge(options.id, "seen by dispatch")["meta"]["receipt"])
except ApiError as problem:
    code = 4
    print(f"{type(problem).__name__}: {problem}")
print(f"calls: {client.calls}\\nmodelled_s: {gateway.clock.now() - gateway.clock.start:.3f}\\nearly_calls: {gateway.early}")
if options.what == "ack":
    print(f"gateway_acks: {len(gateway.acks)}")
print("statuses:", " ".join(f"{status}={count}" for status, count in sorted(gateway.statuses.items())))
if options.log:
    print("\\n".join(gateway.log[-options.log:]))
sys.exit(code)
'''

CONFTEST = """
import pytest

from halmtrafik.client import Client
from halmtrafik.settings import load
from stubgate.gateway import Gateway


@pytest.fixture
def gateway():
    return Gateway()


@pytest.fixture
def client(gateway):
    return Client(gateway, load(), gateway.clock)
"""

TEST_PAGING = '''
from halmtrafik.paging import walk


class Pages:
    """Stands in for a client: hands out the pages it was given."""

    def __init__(self, *pages):
        self.pages, self.asked = dict(zip([None, "a", "b"], pages)), []

    def send(self, method, path, query):
        assert query["cursor"] not in self.asked, "asked twice for the same page"
        self.asked.append(query["cursor"])
        names = [None, "a", "b"]
        after = names[names.index(query["cursor"]) + 1] if len(self.asked) < len(self.pages) else None
        return {"items": [{"id": i} for i in self.pages[query["cursor"]]], "meta": {"next": after}}


def test_two_pages():
    assert len(walk(Pages([1, 2], [3]), "/x", {"limit": 2})) == 3


def test_single_page():
    assert [item["id"] for item in walk(Pages([7]), "/x", {"limit": 2})] == [7]
'''

TEST_RETRY = """
from halmtrafik import retry
from stubgate.gateway import Answer, Clock


def run(*answers, tries=3, **more):
    left, clock = list(answers), Clock(1000)
    last = retry.run(lambda: left.pop(0), clock, tries, **more)
    return last.status, len(left), clock.now() - 1000


def test_success_is_not_repeated():
    assert run(Answer(200, {}, b""), Answer(200, {}, b"")) == (200, 1, 0)


def test_passing_failure_is_tried_again():
    assert run(Answer(503, {}, b""), Answer(200, {}, b""))[:2] == (200, 0)


def test_gives_up_after_the_last_try():
    assert run(*[Answer(502, {}, b"")] * 5)[:2] == (502, 2)
"""

TEST_SIGNING = """
from halmtrafik import signing


def test_key_is_sent():
    assert signing.headers({"client_id": "k", "secret": "s"}, "GET", "/p", {}, b"")["X-Hvk-Key"] == "k"
"""

TEST_UTIL = """
from halmtrafik.util import to_minutes


def test_morning():
    assert to_minutes("07:45") == 465
"""

TEST_SOAP = """
from halmtrafik.soap_feed import envelope, stop_names


def test_envelope_holds_fields():
    assert "<Zone>3</Zone>" in envelope("GetStops", Zone=3)


def test_names():
    assert stop_names("<r><StopName>Kvarn</StopName></r>") == ["Kvarn"]
"""

SIGNING_PAPER = """
# Request signing, scheme v2

Paper @PAPER@, revision @REVISION@. Scheme v1 is refused from @V1_OFF@ on.

The string to sign is six lines joined by one line feed (0x0A), without one at the end:

1. the method, upper case
2. the path, as sent
3. the query: all pairs, sorted by name and then by value, each percent-encoded by RFC 3986
   (all but `A-Z a-z 0-9 - . _ ~`), joined by `&`; an empty line if there is none
4. SHA-256 of the body, hex
5. the value of `X-Hvk-Time`: unix seconds, whole
6. the value of `X-Hvk-Nonce`: 8 to 40 characters, good for one request within @NONCE_MIN@ minutes

`X-Hvk-Signature: v2=` then HMAC-SHA256 of that string under the client's secret, hex.

| status | error            | when                                        |
|--------|------------------|---------------------------------------------|
| 401    | `sig_mismatch`   | the signature is another one than ours      |
| 401    | `clock_skew`     | `X-Hvk-Time` is more than @SKEW@ s off         |
| 401    | `nonce_replayed` | the nonce was used before                   |

Questions: desk +00 555 @DESK@, mention form @FORM@.
"""

NOTES = """
gateway notes, kept by hand

host        gw.halmvik.example
our key     @CLIENT_ID@ (read + alerts)
tapes       recorded @RECORDED@ by recorder build @BUILD@
contract    @CONTRACT@, @QUOTA@ calls in any 60 seconds, counted per key
stops       the register counts @TOTAL@ (letter @LETTER@)
"""

# --- what the agent writes ----------------------------------------------------------------------------------------------

NEW_PAGING = '''
"""Walking a paged endpoint."""

from halmtrafik.errors import PagingError


def walk(client, path, query):
    """All items of a paged endpoint, in the gateway's order, each id once.

    Only a missing `next` ends the walk: a page may be short, since the gateway takes withdrawn items out after it has
    cut the pages, and neighbouring pages may overlap.
    """
    items, cursor, walked = {}, None, set()
    while True:
        page = client.send("GET", path, {**query, "cursor": cursor})
        for item in page["items"]:
            items.setdefault(item["id"], item)
        cursor = page["meta"].get("next")
        if not cursor:
            return list(items.values())
        if cursor in walked:
            raise PagingError(f"cursor {cursor} came back on {path} after {len(items)} items")
        walked.add(cursor)
'''

NEW_PAGING_TESTS = """

def test_short_page_in_the_middle_does_not_end_the_walk():
    assert len(walk(Pages([1, 2], [3], [4, 5]), "/x", {"limit": 2})) == 5


def test_overlapping_pages_give_each_id_once():
    assert [item["id"] for item in walk(Pages([1, 2], [2, 3]), "/x", {"limit": 2})] == [1, 2, 3]


def test_full_last_page_ends_the_walk():
    assert len(walk(Pages([1, 2], [3, 4]), "/x", {"limit": 2})) == 4


def test_register_is_complete(client):
    assert len(client.stops()) == @TOTAL@
"""

RETRY_FIRST = '''
"""Trying again after a passing failure, when the gateway says so."""

PASSING = {429, 502, 503, 504}
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 20.0


def pause(answer, attempt):
    """Seconds to wait: what Retry-After says, else 1, 2, 4, ... up to the longest pause."""
    said = answer.headers.get("Retry-After")
    wanted = float(said) if said is not None else FIRST_PAUSE * 2**attempt
    return min(wanted, LONGEST_PAUSE)


def run(once, clock, tries):
    answer = once()
    for attempt in range(tries - 1):
        if answer.status not in PASSING:
            break
        clock.sleep(pause(answer, attempt))
        answer = once()
    return answer
'''

RETRY_SECOND = '''
"""Trying again after a passing failure, when the gateway says so."""

from email.utils import parsedate_to_datetime

PASSING = {429, 502, 503, 504}
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 20.0


def pause(answer, attempt, now):
    """Seconds to wait: what Retry-After says (seconds or a date), else 1, 2, 4, ..."""
    said = answer.headers.get("Retry-After")
    if said is None:
        wanted = FIRST_PAUSE * 2**attempt
    elif said.isdigit():
        wanted = int(said)
    else:
        wanted = parsedate_to_datetime(said).timestamp() - now
    return min(max(wanted, 0), LONGEST_PAUSE)


def run(once, clock, tries):
    answer = once()
    for attempt in range(tries - 1):
        if answer.status not in PASSING:
            break
        clock.sleep(pause(answer, attempt, clock.now()))
        answer = once()
    return answer
'''

RETRY_TESTS = """

def test_waits_as_long_as_told():
    assert run(Answer(429, {"Retry-After": "17"}, b""), Answer(200, {}, b"")) == (200, 0, 17)


def test_a_date_is_understood():
    later = formatdate(1012, usegmt=True)
    assert run(Answer(429, {"Retry-After": later}, b""), Answer(200, {}, b"")) == (200, 0, 12)


def test_pauses_grow_without_the_header():
    assert run(*[Answer(503, {}, b"")] * 4, tries=4)[2] == 7
"""

SIGNING_FIRST = '''
"""Headers that say who we are, scheme v2 (docs/signing-v2.md)."""

import hashlib
import hmac
from urllib.parse import urlencode


def canonical(method, path, pairs, payload, time, nonce):
    """The string to sign."""
    body = hashlib.sha256(payload).hexdigest()
    return "\\n".join([method.upper(), path, urlencode(sorted(pairs)), body, str(time), nonce])


def signature(secret, text):
    return "v2=" + hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def headers(settings, method, path, query, payload, time, nonce):
    pairs = [(name, str(value)) for name, value in query.items()]
    text = canonical(method, path, pairs, payload, int(time), nonce)
    return {
        "X-Hvk-Key": settings["client_id"],
        "X-Hvk-Time": str(int(time)),
        "X-Hvk-Nonce": nonce,
        "X-Hvk-Signature": signature(settings["secret"], text),
    }
'''

NEW_SIGNING_TESTS = """
import json
from pathlib import Path

import pytest

from halmtrafik import signing

VECTORS = json.loads(Path("tests/vectors/signing_v2.json").read_text())


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda v: v["name"])
def test_operator_vector(vector):
    text = signing.canonical(
        vector["method"], vector["path"], [tuple(p) for p in vector["query"]], vector["body"].encode(),
        vector["time"], vector["nonce"],
    )
    assert signing.signature(VECTORS["secret"], text) == vector["signature"]


def test_key_is_sent():
    made = signing.headers({"client_id": "k", "secret": "s"}, "GET", "/p", {}, b"", 12.7, "nonce-0001")
    assert (made["X-Hvk-Key"], made["X-Hvk-Time"]) == ("k", "12")
"""

VERIFY = '''
"""What the gateway checks of a v2 signature. Written from docs/signing-v2.md, apart from halmtrafik.signing on purpose."""

import hashlib
import hmac
import re

SKEW_S = @SKEW@
UNESCAPED = re.compile(rb"[A-Za-z0-9\\-._~]")


def escape(raw):
    return "".join(chr(b) if UNESCAPED.match(bytes([b])) else f"%{b:02X}" for b in raw)


def unescape(text):
    text = text.replace("+", " ").encode()
    return re.sub(rb"%([0-9A-Fa-f]{2})", lambda m: bytes([int(m[1], 16)]), text)


class Verifier:
    def __init__(self, secrets):
        self.secrets, self.used = secrets, set()

    def __call__(self, method, url, headers, body, now):
        """An error code of the paper, or None."""
        path, _, query = url.partition("?")
        pairs = sorted(tuple(unescape(half) for half in pair.partition("=")[::2]) for pair in query.split("&") if pair)
        line = "&".join(f"{escape(name)}={escape(value)}" for name, value in pairs)
        time, nonce = headers.get("X-Hvk-Time", "0"), headers.get("X-Hvk-Nonce", "")
        text = "\\n".join([method, path, line, hashlib.sha256(body).hexdigest(), time, nonce])
        secret = self.secrets.get(headers.get("X-Hvk-Key"), "")
        wanted = "v2=" + hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()
        if not secret or not hmac.compare_digest(wanted, headers.get("X-Hvk-Signature", "")):
            return "sig_mismatch"
        if abs(now - int(time)) > SKEW_S:
            return "clock_skew"
        if nonce in self.used:
            return "nonce_replayed"
        self.used.add(nonce)
        return None
'''

THROTTLE = '''
"""Keeping below the contract's quota on our own account."""

from collections import deque


class Throttle:
    """At most `calls` in any `window` seconds: remembers when the last calls went out and waits for the oldest to age."""

    def __init__(self, calls, clock, window=60.0):
        self.calls, self.clock, self.window = calls, clock, window
        self.sent = deque(maxlen=calls)
        self.waited = 0.0

    def wait(self):
        if len(self.sent) == self.calls:
            pause = self.sent[0] + self.window - self.clock.now()
            if pause > 0:
                self.waited += pause
                self.clock.sleep(pause)
        self.sent.append(self.clock.now())
'''

THROTTLE_TEST = """
from halmtrafik.client import Client
from halmtrafik.settings import load
from halmtrafik.throttle import Throttle
from stubgate.gateway import Clock, Gateway


def test_window_slides():
    clock = Clock(0)
    throttle = Throttle(3, clock)
    starts = []
    for _ in range(7):
        throttle.wait()
        starts.append(clock.now())
        clock.sleep(1)
    assert starts == [0, 1, 2, 60, 61, 62, 120]


def test_sweep_stays_below_the_contract():
    settings = load()
    gateway = Gateway(quota=settings["per_minute"], faults=False)
    client = Client(gateway, settings, gateway.clock)
    for stop in gateway.index["boards"]:
        client.departures(stop, gateway.index["day"])
    assert gateway.statuses[429] == 0
    assert client.throttle.waited > 0
"""

SIMULATION = """python - <<'EOF'
quota, latency = @QUOTA@, @LATENCY@
for name in ("bucket", "sliding"):
    t, tokens, sent = 0.0, float(quota), []
    while t < 60:
        if name == "bucket" and tokens < 1:
            t += (1 - tokens) * 60 / quota
            tokens = 1
        if name == "sliding" and len(sent) >= quota:
            t = max(t, sent[-quota] + 60)
            if t >= 60:
                break
        sent.append(t)
        t, tokens = t + latency, min(quota, tokens - 1 + latency * quota / 60)
    print(f"{name}: calls_in_first_60_s={len(sent)} over_quota={max(0, len(sent) - quota)} last_call_at_s={sent[-1]:.3f}")
EOF"""

SERVICE_TIME = '''
"""Times of a service day, which runs past midnight: 25:10 is ten past one in the morning after."""

from datetime import date, timedelta


def to_minutes(text):
    """Minutes since the start of the service day of a departure time such as 07:45 or 25:10."""
    hours, _, minutes = text.partition(":")
    if not (hours.isdigit() and minutes.isdigit() and int(minutes) < 60 and int(hours) < 36):
        raise ValueError(f"not a service-day time: {text!r}")
    return int(hours) * 60 + int(minutes)


def on_the_clock(day, text):
    """(calendar date, wall time) of a service-day time, both as text."""
    days, minutes = divmod(to_minutes(text), 1440)
    return (date.fromisoformat(day) + timedelta(days=days)).isoformat(), f"{minutes // 60:02d}:{minutes % 60:02d}"
'''

SERVICE_TIME_TEST = """
import pytest

from halmtrafik.service_time import on_the_clock, to_minutes


def test_morning():
    assert to_minutes("07:45") == 465


def test_after_midnight():
    assert to_minutes("25:10") == 1510
    assert on_the_clock("@DAY@", "25:10") == ("@NEXTDAY@", "01:10")


@pytest.mark.parametrize("text", ["7", "12:75", "40:00", "noon"])
def test_nonsense_is_refused(text):
    with pytest.raises(ValueError, match="service-day"):
        to_minutes(text)
"""

EXPORT = '''
"""The night board: departures after midnight, by wall clock. python tools/night_board.py [STOP ...]"""

import hashlib
import sys

sys.path.insert(0, ".")

from halmtrafik.client import Client  # noqa: E402
from halmtrafik.service_time import on_the_clock, to_minutes  # noqa: E402
from halmtrafik.settings import load  # noqa: E402
from stubgate.gateway import Gateway  # noqa: E402

gateway = Gateway()
client = Client(gateway, load(), gateway.clock)
day, lines = gateway.index["day"], []
for stop in sys.argv[1:] or gateway.index["boards"]:
    for row in client.departures(stop, day):
        if to_minutes(row["departs"]) >= 1440:
            date, clock = on_the_clock(day, row["departs"])
            lines.append(f"{date} {clock} stop={stop} line={row['line']} trip={row['trip']}")
lines.sort()
print("\\n".join(lines[:16] + [f"... {len(lines) - 17} more"] + lines[-1:]) if len(lines) > 18 else "\\n".join(lines))
print(f"night_departures: {len(lines)}\\nboard_sha256: {hashlib.sha256(chr(10).join(lines).encode()).hexdigest()[:16]}")
'''


def fill(text: str, facts: dict[str, object]) -> str:
    return re.sub(r"@([A-Z0-9_]+)@", lambda match: str(facts[match[1]]), dedent(text).lstrip("\n"))


def draw(r) -> dict[str, object]:
    """The facts of this session."""
    rng = r.rng
    sizes = [100] * rng.randrange(12, 15)
    short = rng.randrange(3, 5)
    sizes[short], sizes[-3], sizes[-1] = rng.randrange(58, 90), rng.randrange(88, 98), rng.randrange(11, 60)
    day = rng.randrange(3, 27)
    clock = 1_762_128_000 + (day - 3) * 86_400 + rng.randrange(18_000, 30_000)
    first = rng.randrange(402, 440)
    return {
        "SIZES": sizes,
        "SHORT": short,
        "OVERLAP": rng.randrange(2, 5),
        "CLOCK": clock,
        "DAY": f"2025-11-{day:02d}",
        "NEXTDAY": f"2025-11-{day + 1:02d}",
        "RECORDED": f"2025-11-{day:02d}T05:{rng.randrange(10, 59)}:{rng.randrange(10, 59)}Z",
        "LATENCY": rng.choice([0.125, 0.25, 0.375]),
        "SALT": f"{rng.randrange(16**6):06x}",
        "CLIENT_ID": f"hvk-import-{rng.randrange(2100, 9800)}",
        "SECRET": f"not-a-secret-{rng.randrange(1000, 9999)}",
        "BUILD": f"r{rng.randrange(3100, 8900)}",
        "CONTRACT": f"HT-{rng.randrange(20, 24)}/{rng.randrange(110, 980)}",
        "LETTER": f"D-{rng.randrange(4000, 9900)}",
        "QUOTA": rng.choice([36, 40, 42, 45]),
        "NEWQUOTA": rng.choice([22, 24, 25, 28]),
        "CAP": rng.choice([45, 48, 50]),
        "HOLD": rng.randrange(13, 20),
        "HOLD_DATE": rng.randrange(27, 40),
        "T1": f"TT-{first}",
        "T2": f"TT-{first + rng.randrange(3, 9)}",
        "T3": f"TT-{first + rng.randrange(11, 19)}",
        "T4": f"TT-{first + rng.randrange(22, 38)}",
        "T5": f"TT-{first + rng.randrange(41, 60)}",
        "CASE": f"OPS-{rng.randrange(70_000, 99_000)}",
        "ALERT": f"AL-{rng.randrange(30_000, 90_000)}",
        "RECEIPT": f"rcp-{rng.randrange(16**8):08x}",
        "PAPER": f"HVK-S-{rng.randrange(12, 60)}",
        "REVISION": rng.choice("CDEF"),
        "V1_OFF": f"2026-03-{rng.randrange(10, 30)}",
        "NONCE_MIN": rng.choice([12, 15, 20]),
        "SKEW": rng.choice([75, 90, 110]),
        "DESK": rng.randrange(2000, 9000),
        "FORM": f"F{rng.randrange(110, 890)}b",
        "SOAPPORT": rng.randrange(8100, 8990),
        "SOAPNS": f"{rng.randrange(2011, 2015)}-{rng.randrange(10, 13)}",
        "OLD": f"0.{rng.randrange(7, 10)}.{rng.randrange(2, 7)}",
        "NEW": "0.11.0",
    }  # fmt: skip


def make_tapes(r, facts) -> None:
    """tapes/: the stops in pages, the lines, a day's boards, and what goes wrong."""
    rng, sizes = r.rng, facts["SIZES"]
    heads = [
        "Kvarn",
        "Lind",
        "Hamn",
        "Berg",
        "Sjö",
        "Ek",
        "Skans",
        "Ask",
        "Gran",
        "Fyr",
        "Ström",
        "Äng",
        "Torp",
        "Holm",
    ]
    tails = ["gatan", "torget", "bron", "vägen", "backen", "parken", "kajen", "höjden", "skolan", "plan"]
    numbers = sorted(rng.sample(range(10_000, 99_999), sum(sizes)))
    cursors = [f"cur_{rng.randrange(16**8):08x}" for _ in sizes]
    answers: dict[str, str] = {}
    place, previous = 0, []
    for page, size in enumerate(sizes):
        overlap = facts["OVERLAP"] if page == len(sizes) - 2 else 0
        rows = list(previous[-overlap:]) if overlap else []
        while len(rows) < size:
            name = rng.choice(heads) + rng.choice(tails)
            where = f'"lat": {57 + rng.random():.5f}, "lon": {12 + rng.random():.5f}'
            rows.append(f'{{"id": "hv:{numbers[place]}", "name": "{name}", "zone": {rng.randrange(1, 7)}, {where}}}')
            place += 1
        previous = rows
        following = cursors[page + 1] if page + 1 < len(sizes) else None
        write_tape(r, f"stops-{page:02d}", rows, facts, following)
        answers["GET /v3/stops" + (f"?cursor={cursors[page]}" if page else "")] = f"stops-{page:02d}.json"
    facts["TOTAL"], facts["GOT"] = place, sum(sizes[: facts["SHORT"] + 1])
    facts["CURSOR"], facts["CURSOR2"] = cursors[facts["SHORT"]], cursors[-3]
    facts["LAST_ID"] = f"hv:{numbers[place - 1]}"
    lines = [str(n) for n in sorted(rng.sample(range(1, 90), 46))]
    ends = [rng.choice(heads) + rng.choice(tails) for _ in lines]
    write_tape(r, "lines-00", [f'{{"id": "{n}", "to": "{end}"}}' for n, end in zip(lines, ends)], facts, None)
    answers["GET /v3/lines"] = "lines-00.json"
    boards = [f"hv:{number}" for number in sorted(rng.sample(numbers[:place], 66))]
    for stop in boards:
        rows = []
        for n in range(rng.randrange(4, 8)):
            at = rng.randrange(1450, 1560) if n == 3 else rng.randrange(300, 1430)
            which = rng.randrange(len(lines))
            rows.append((at, f'{{"line": "{lines[which]}", "trip": "t{rng.randrange(10**6, 10**7)}", "departs": '
                             f'"{at // 60:02d}:{at % 60:02d}", "to": "{ends[which]}"}}'))  # fmt: skip
        write_tape(r, f"board-{stop[3:]}", [row for _, row in sorted(rows)], facts, None)
        answers[f"GET /v3/departures?day={facts['DAY']}&stop={stop}"] = f"board-{stop[3:]}.json"
    r.file(
        "tapes/ack.json",
        json.dumps({"meta": {"request_id": f"req-{rng.randrange(16**6):06x}", "receipt": facts["RECEIPT"]}}),
    )
    answers["POST /v3/alerts/ack"] = "ack.json"
    facts["BOARD1"], facts["BOARD2"], facts["BOARD3"] = boards[7], boards[23], boards[41]
    index = {"clock": facts["CLOCK"], "latency_s": facts["LATENCY"], "salt": facts["SALT"], "day": facts["DAY"]}
    r.file("tapes/index.json", json.dumps({**index, "boards": boards, "answers": answers}, indent=0) + "\n")
    until = formatdate(facts["CLOCK"] + facts["HOLD_DATE"], usegmt=True)
    facts["UNTIL"] = until
    board = f"GET /v3/departures?day={facts['DAY']}&stop="
    faults = {
        f"GET /v3/stops?cursor={facts['CURSOR']}": [{"status": 503, "code": "upstream_busy"}],
        f"{board}{boards[7]}": [{"status": 429, "code": "slow_down", "retry_after": str(facts["HOLD"])}],
        f"{board}{boards[23]}": [{"status": 429, "code": "slow_down", "retry_after": until}],
        "POST /v3/alerts/ack": [{"status": 504, "code": "gateway_timeout", "applied": True}],
    }
    r.file("tapes/faults.json", json.dumps(faults, indent=1) + "\n")


def write_tape(r, name, rows, facts, following) -> None:
    meta = {"request_id": f"req-{r.rng.randrange(16**6):06x}", "recorded": facts["RECORDED"], "next": following}
    body = ",\n  ".join(rows)
    r.file(f"tapes/{name}.json", f'{{"meta": {json.dumps(meta)},\n "items": [\n  {body}\n]}}\n')


def make_vectors(r, facts) -> None:
    secret, made = f"not-a-secret-vector-{r.rng.randrange(100, 999)}", []
    cases = [
        ("plain", "GET", "/v3/lines", [("limit", "100")], ""),
        ("no-query", "POST", "/v3/alerts/ack", [], '{"alert": "AL-00001"}'),
        ("space", "GET", "/v3/stops", [("name", "Östra torget"), ("limit", "20")], ""),
        ("reserved", "GET", "/v3/stops", [("near", "57.1/12.4"), ("mark", "a~b+c")], ""),
        ("repeated", "GET", "/v3/lines", [("line", "7"), ("line", "12"), ("area", "södra hamnen")], ""),
    ]
    for name, method, path, query, body in cases:
        time, nonce = facts["CLOCK"] + r.rng.randrange(900), f"vec-{r.rng.randrange(16**8):08x}"
        line = "&".join(f"{quote(k, safe='~')}={quote(v, safe='~')}" for k, v in sorted(query))
        text = "\n".join([method, path, line, hashlib.sha256(body.encode()).hexdigest(), str(time), nonce])
        signature = "v2=" + hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()
        made.append({"name": name, "method": method, "path": path, "query": query, "body": body, "time": time,
                     "nonce": nonce, "signature": signature})  # fmt: skip
    rows = ",\n  ".join(json.dumps(vector, ensure_ascii=False) for vector in made)
    r.file(
        "tests/vectors/signing_v2.json",
        f'{{"paper": "{facts["PAPER"]}", "secret": "{secret}", "vectors": [\n  {rows}\n]}}\n',
    )


def prepare(r) -> dict[str, object]:
    facts = draw(r)
    make_tapes(r, facts)
    make_vectors(r, facts)
    sources = {
        "halmtrafik/__init__.py": '__version__ = "@OLD@"\n',
        "halmtrafik/client.py": CLIENT,
        "halmtrafik/paging.py": PAGING,
        "halmtrafik/retry.py": RETRY,
        "halmtrafik/signing.py": SIGNING,
        "halmtrafik/errors.py": ERRORS,
        "halmtrafik/settings.py": SETTINGS_PY,
        "halmtrafik/util.py": UTIL,
        "halmtrafik/soap_feed.py": SOAP,
        "stubgate/__init__.py": "",
        "stubgate/gateway.py": GATEWAY,
        "tools/probe.py": PROBE,
        "tests/conftest.py": CONFTEST,
        "tests/test_paging.py": TEST_PAGING,
        "tests/test_retry.py": TEST_RETRY,
        "tests/test_signing.py": TEST_SIGNING,
        "tests/test_util.py": TEST_UTIL,
        "tests/test_soap_feed.py": TEST_SOAP,
        "docs/signing-v2.md": SIGNING_PAPER,
        "docs/notes.txt": NOTES,
        "CHANGES.md": "# Changes\n\n## @OLD@\n\n- departures by stop and day\n",
        "settings.toml": """
            [gateway]
            base = "https://gw.halmvik.example"
            client_id = "@CLIENT_ID@"
            secret = "@SECRET@"
            page_size = 100
            tries = 3

            [limits]
            per_minute = @QUOTA@
            """,
    }
    for path, text in sources.items():
        r.file(path, fill(text, facts))
    return facts


# --- the session --------------------------------------------------------------------------------------------------------


def play(r):
    f = prepare(r)
    r.system(
        "You are a coding agent working in a checkout of halmtrafik, a small Python client that an importer uses to fetch stops, "
        "lines and departures from a regional timetable gateway. You have Bash, Read, Write, Edit, Grep and TodoWrite; every Bash "
        "call is a fresh shell at the root of the checkout. There is no way to the real gateway from here: the stub in stubgate/ "
        "replays what was recorded. Look before you change, say what you found in a few sentences, run the tests after every "
        "change, and keep a todo list when a task has several parts."
    )
    r.instructions(
        fill(
            """
            ## What is where

            - `halmtrafik/` is the client. `client.Client.send` is the only place that talks to a transport.
            - `stubgate/` plays the gateway inside the process, on its own clock: waiting costs nothing, and `modelled_s` is what a
              run would have taken.
            - `tapes/` holds recorded answers, `tapes/faults.json` what goes wrong on first contact with some of them.
            - `tools/probe.py` runs one piece of the client against the stub and prints what happened.
            - `tests/` runs with `python -m pytest -q`.

            ## Habits

            - Python 3.11 or newer, lines up to 120 characters, no abbreviations in names that other modules import.
            - A mended bug gets a test that failed before.
            - Client code never prints and never sleeps by itself: it asks the clock it was given.
            - User-visible changes get a line in `CHANGES.md` when a version is cut, not earlier.
            """,
            f,
        )
    )
    r.run("git init -q && git add -A && git commit -qm 'State of the importer client'")
    first_request(r, f)
    waiting(r, f)
    alerts(r, f)
    signing(r, f)
    quota(r, f)
    night(r, f)
    handover(r, f)
    declare(r, f)


def first_request(r, f):
    r.user(
        f"Ticket {f['T1']}: since the gateway's last release our import of Halmvik stops has shrunk. Their register has {f['TOTAL']} stops, "
        f"we bring home {f['GOT']}. Find out why and mend it. The tapes show it too. Leave everything under tapes/ byte for byte as it was "
        "recorded, the auditors compare it."
    )
    r.agent(
        "I'll look at the layout and the history first, and see whether the tests know about this.",
        r.bash(
            "git log --oneline && cat halmtrafik/__init__.py && find . -path ./.git -prune -o -path ./tapes -prune -o -type f -print | sort | xargs wc -l\n"
            "ls tapes | sed 's/-.*//; s/.json//' | sort | uniq -c && du -b --apparent-size -c tapes/stops-*.json | tail -4"
        ),
        r.bash("python -m pytest -q"),
    )
    r.agent(
        "All green, so no test walks the recorded stops. Reading the client, the paging and the retry code, they are short.",
        r.read("halmtrafik/client.py"),
        r.read("halmtrafik/paging.py"),
        r.read("halmtrafik/retry.py"),
    )
    r.agent("Now the same walk against the tapes, with the gateway's log.", r.bash("python tools/probe.py stops --log 8"))
    r.agent(
        f"The shrunken count reproduces: {f['GOT']} items. The log ends right behind a failed call: cursor {f['CURSOR']} gets a 503, is asked "
        "again, and after that nothing more is fetched. I think the 503 is what cuts the import short: the retry seems to eat the page that "
        "carries the next cursor. I'll check the fault list and take the faults away.",
        r.read("tapes/faults.json"),
        r.bash("python tools/probe.py stops --no-faults --log 2"),
    )
    page = f"stops-{f['SHORT']:02d}"
    r.agent(
        f"Without any fault the count is still {f['GOT']}, so the 503 is innocent. The last page it read has fewer items than the limit of "
        "100, and `walk` takes a short page for the last one. Let me see what every page says about its size and its successor.",
        r.bash(
            "python - <<'EOF'\nimport glob, hashlib, json\nfor name in sorted(glob.glob('tapes/stops-*.json')):\n"
            "    raw = open(name, 'rb').read()\n    page = json.loads(raw)\n    meta, items = page['meta'], page['items']\n"
            "    print(name[6:14], f\"items={len(items):<3} first={items[0]['id']} last={items[-1]['id']} {meta['request_id']}\",\n"
            "          f\"next={meta['next']} md5={hashlib.md5(raw).hexdigest()[:10]}\")\nEOF"
        ),
    )
    r.agent(
        f"That settles it. {page} is short and still has a successor, and so is the page before the last but one. The gateway cuts pages "
        "first and takes withdrawn stops out afterwards. Besides, one page begins with ids that the page before it ends with, so a complete "
        f"walk would give {f['TOTAL'] + f['OVERLAP']} items for {f['TOTAL']} stops. The end of the walk must be a missing `next`, nothing else.",
        r.todo(
            ("Walk ends only when `next` is missing", "in_progress"),
            ("Do something about overlapping pages", "pending"),
            ("Test against the recorded register", "pending"),
            ("Commit", "pending"),
        ),
    )
    r.user(
        "Good catch with the overlap. Drop the duplicates as well, wherever you think it belongs. Something to know before you add anything: "
        "the importer runs on a locked-down box, so it has to stay on the plain standard library."
    )
    r.agent(
        "I'll drop duplicates by id inside `walk`. The other way, cleaning up in the importer, I leave aside because lines are paged by the "
        "same code and every caller would have to remember it. A repeated cursor becomes an error instead of an endless walk. Tests first.",
        r.bash(
            "cat >> tests/test_paging.py <<'EOF'\n\n\n" + fill(NEW_PAGING_TESTS, f) + "EOF\n"
            "python -m pytest -q --tb=line tests/test_paging.py"
        ),
    )
    r.agent(
        "Four fail, as they should. Now the code.",
        r.write("halmtrafik/paging.py", NEW_PAGING.lstrip("\n")),
        r.edit(
            "halmtrafik/errors.py",
            "        self.status, self.code, self.trace = status, code, trace\n",
            "        self.status, self.code, self.trace = status, code, trace\n\n\n"
            'class PagingError(Exception):\n    """The gateway sends us in circles."""\n',
        ),
        r.bash("python -m pytest -q && python tools/probe.py stops --log 9"),
    )
    r.agent(
        f"{f['TOTAL']} items, all unique, {f['LAST_ID']} the last; the walk survives the 503 too. Lines are paged by the same function, so one "
        "look at them.",
        r.bash("python tools/probe.py lines --log 1; git status --short; sed -n '1,6p' tapes/lines-00.json"),
        r.todo(
            ("Walk ends only when `next` is missing", "completed"),
            ("Do something about overlapping pages", "completed"),
            ("Test against the recorded register", "completed"),
            ("Commit", "pending"),
        ),
    )
    r.user(
        "Lovely, commit it. Subject lines in this repository begin with the ticket in square brackets, and a commit is about one ticket only."
    )
    r.agent(
        "",
        r.bash(
            f"git add -A && git commit -m '[{f['T1']}] Walk pages to the missing next, drop overlaps' && git show --stat --format=%H HEAD"
        ),
    )


def waiting(r, f):
    r.user(
        f"Next one is {f['T2']}. The operator's desk opened case {f['CASE']}: after a 429 we come back far too soon. Their gateway sends "
        f"Retry-After and we seem to ignore it. Boards of {f['BOARD1']} and {f['BOARD2']} are two that show it."
    )
    r.agent(
        "Both boards with the log, before anything is changed.",
        r.bash(f"python tools/probe.py board {f['BOARD1']} --log 4"),
        r.bash(f"python tools/probe.py board {f['BOARD2']} --log 4"),
    )
    r.agent(
        "Confirmed: we come back after a flat 2 seconds, use up three tries while the gateway is still holding us off, and give up. Note the "
        f"two spellings of the header: {f['HOLD']} as seconds on the first board, an HTTP date on the second. Looking at the retry tests.",
        r.read("tests/test_retry.py"),
        r.bash(
            f"cat tapes/board-{f['BOARD2'][3:]}.json && md5sum tapes/faults.json tapes/board-{f['BOARD1'][3:]}.json tapes/index.json"
        ),
    )
    r.agent(
        "Plan: obey Retry-After; without it wait 1, 2, 4 seconds and so on, up to a longest pause. I considered random jitter on top and "
        "decided against it, because the replays compare modelled times exactly; one importer on one key gains nothing from spreading.",
        r.todo(
            ("Tests for Retry-After in seconds and as a date", "in_progress"),
            ("retry.py obeys the header", "pending"),
            ("Both boards come through without an early call", "pending"),
        ),
        r.bash(
            "sed -i '1i from email.utils import formatdate\\n' tests/test_retry.py && cat >> tests/test_retry.py <<'EOF'\n\n\n"
            + RETRY_TESTS.lstrip("\n") + "EOF\nhead -5 tests/test_retry.py"
        ),
        r.write("halmtrafik/retry.py", RETRY_FIRST.lstrip("\n")),
        r.bash("python -m pytest -q --tb=line tests/test_retry.py"),
    )  # fmt: skip
    r.agent(
        "Seconds work, the date does not: `float()` cannot read it, which the board would have shown as well. The pause needs the clock to turn "
        "a date into a distance, so I pass `now` along.",
        r.write("halmtrafik/retry.py", RETRY_SECOND.lstrip("\n")),
        r.bash(
            f"python -m pytest -q && for stop in {f['BOARD2']} {f['BOARD1']}; do python tools/probe.py board $stop --log 3 | grep -v ^line; done"
        ),
    )
    r.agent(
        f"{f['BOARD1']} is clean. {f['BOARD2']} comes through, but with `early_calls: 1`: my longest pause of 20 seconds is shorter than what the "
        f"gateway asks for ({f['UNTIL']}). So the pause must be longer for a header than I assumed. How long may the importer stand still?"
    )
    r.user(
        f"Twenty is too short then, make the longest pause {f['CAP']} seconds. Their maintenance windows never ask for more, it's in contract "
        f"{f['CONTRACT']}. Anything longer should simply fail and be imported the next night."
    )
    r.agent(
        "One constant, then the slower of the two boards again.",
        r.edit("halmtrafik/retry.py", "LONGEST_PAUSE = 20.0", f"LONGEST_PAUSE = {f['CAP']}.0"),
        r.bash(f"python tools/probe.py board {f['BOARD2']} --log 2"),
    )
    r.agent(
        f'No early call any more. "Anything longer should fail": cut down to the longest pause we would still knock early on a wait above '
        f"{f['CAP']}. I let `run` stop there instead of sleeping, with a test.",
        r.edit(
            "halmtrafik/retry.py",
            "        clock.sleep(pause(answer, attempt, clock.now()))\n",
            "        wanted = pause(answer, attempt, clock.now())\n        if wanted > LONGEST_PAUSE:\n            break\n"
            "        clock.sleep(wanted)\n",
        ),
        r.edit("halmtrafik/retry.py", "    return min(max(wanted, 0), LONGEST_PAUSE)\n", "    return max(wanted, 0)\n"),
        r.bash(
            "cat >> tests/test_retry.py <<'EOF'\n\n\ndef test_a_wait_beyond_the_longest_pause_is_not_begun():\n"
            f'    assert run(Answer(429, {{"Retry-After": "{f["CAP"] + 1}"}}, b""), Answer(200, {{}}, b"")) == (429, 1, 0)\nEOF\n'
            "python -m pytest -q && python tools/probe.py sweep --log 12"
        ),
    )
    r.agent(
        f"The whole sweep of 66 boards comes through with `early_calls: 0`. Committing under {f['T2']}.",
        r.bash(f"git add -A && git commit -m '[{f['T2']}] Obey Retry-After in both spellings' && git log --format='%h %s' -2"),
        r.todo(
            ("Tests for Retry-After in seconds and as a date", "completed"),
            ("retry.py obeys the header", "completed"),
            ("Both boards come through without an early call", "completed"),
        ),
    )


def alerts(r, f):
    r.user(
        f"Now something nasty, {f['T3']}. Dispatch acknowledged {f['ALERT']} once and the duty officer was paged twice. An acknowledgement must "
        "never go out a second time by itself, whatever the gateway answers; a person decides about that."
    )
    r.agent("Let me replay exactly that.", r.bash(f"python tools/probe.py ack {f['ALERT']} --log 3"))
    r.agent(
        "There it is: `gateway_acks: 2`. The first POST was carried out, the answer got lost in a 504, and our retry carried it out again. "
        "`retry.run` does not know what it repeats. I'll give it a `safe` argument that only GET sets, and raise a separate error that says "
        "the outcome is unknown, so that dispatch can tell it from a refusal.",
        r.todo(
            ("Replay of the double page as a test", "in_progress"),
            ("retry.run repeats safe calls only", "pending"),
            ("Own error for an unknown outcome", "pending"),
            (f"Commit {f['T3']}", "pending"),
        ),
        r.write(
            "tests/test_alerts.py",
            fill(
                """
                import pytest

                from halmtrafik.errors import ApiError, UnconfirmedError


                def test_a_lost_answer_is_reported(client, gateway):
                    with pytest.raises(UnconfirmedError, match="gateway_timeout"):
                        client.acknowledge("@ALERT@", "seen")
                    assert gateway.acks == ["@ALERT@"]
                    assert client.calls == 1


                def test_a_refusal_is_an_ordinary_error(client, gateway):
                    gateway.faults["POST /v3/alerts/ack"] = [{"status": 403, "code": "not_yours"}]
                    with pytest.raises(ApiError) as caught:
                        client.acknowledge("@ALERT@", "seen")
                    assert not isinstance(caught.value, UnconfirmedError)
                """,
                f,
            ),
        ),
    )
    r.agent(
        "Three small edits: the argument, the error class, and the one place in `send` that knows the method. A refusal such as 403 stays an "
        "ordinary ApiError, only the passing statuses leave the outcome open.",
        r.edit(
            "halmtrafik/retry.py",
            "def run(once, clock, tries):\n    answer = once()\n",
            'def run(once, clock, tries, safe=True):\n    """Call `once`, and again after a passing failure if it is `safe` to do so."""\n'
            "    answer = once()\n    if not safe:\n        return answer\n",
        ),
        r.edit(
            "halmtrafik/errors.py",
            "class PagingError(",
            'class UnconfirmedError(ApiError):\n    """It may have been carried out; nobody here can know."""\n\n\nclass PagingError(',
        ),
        r.edit(
            "halmtrafik/client.py",
            'self.settings["tries"])\n        if answer.status >= 400:\n            problem = json.loads(answer.body)\n            raise ApiError(',
            'self.settings["tries"], safe=method == "GET")\n        if answer.status >= 400:\n            problem = json.loads(answer.body)\n'
            '            unknown = method != "GET" and answer.status in retry.PASSING\n'
            "            raise (UnconfirmedError if unknown else ApiError)(",
        ),
        r.bash("python -m pytest -q --tb=line"),
    )
    r.agent(
        "I used the new class in client.py without importing it, hence the NameError.",
        r.edit("halmtrafik/client.py", "import ApiError\n", "import ApiError, UnconfirmedError\n"),
        r.bash(f"python -m pytest -q; python tools/probe.py ack {f['ALERT']} --log 2"),
    )
    r.agent(
        "`gateway_acks: 1` after one call, and dispatch sees UnconfirmedError with the trace id to ask the operator about.",
        r.bash(
            f"git add -A && git commit -m '[{f['T3']}] Lost answers to acknowledgements raise UnconfirmedError' && git diff --stat HEAD~1 | tail -5"
        ),
    )


def signing(r, f):
    r.user(
        f"Good. {f['T4']} is the big one: the operator drops the old signature. Their paper is docs/signing_v2.md and they sent vectors, "
        "tests/vectors/signing_v2.json. Move the client over completely, no switch back to v1. And have the stub check it."
    )
    r.agent(
        "Reading the paper, the vectors and what we do today.",
        r.read("docs/signing_v2.md"),
        r.bash("cut -c1-330 tests/vectors/signing_v2.json"),
        r.read("halmtrafik/signing.py"),
    )
    r.agent(
        "Your message has an underscore in the name, the file surely a hyphen. And the stub and the probe, which have to learn it too.",
        r.read("docs/signing-v2.md"),
        r.read("stubgate/gateway.py", 33, 75),
        r.read("tools/probe.py", 11, 40),
    )
    r.agent(
        f"Clear enough: paper {f['PAPER']} revision {f['REVISION']}, v1 ends {f['V1_OFF']}. I start with the vectors as tests and a first "
        "signing module. For the stub I'll write the check from the paper on its own instead of importing halmtrafik.signing there: "
        "if both sides shared the code, a shared mistake would sign and verify happily.",
        r.write("tests/test_signing.py", NEW_SIGNING_TESTS.lstrip("\n")),
        r.write("halmtrafik/signing.py", SIGNING_FIRST.lstrip("\n")),
        r.bash("python -m pytest -q --tb=short tests/test_signing.py"),
    )
    r.agent(
        "Three of five vectors agree. The two that fail are those with a blank in a value: `urlencode` writes `+`, the paper wants "
        "`%20`. With `quote_via=quote` and an empty `safe` it should follow the paper; `~` is left alone by `quote` anyway.",
        r.bash(
            "sed -i 's/import urlencode/import quote, urlencode/; s/urlencode(sorted(pairs))/urlencode(sorted(pairs), quote_via=quote, safe=\"\")/' "
            "halmtrafik/signing.py && git diff -U0 halmtrafik/signing.py | grep quote && python -m pytest -q tests/test_signing.py"
        ),
    )
    r.agent(
        "All vectors pass. Now the client (time and nonce per request; the nonce counts calls) and the stub's checker, wired into probe "
        "and fixtures.",
        r.edit(
            "halmtrafik/client.py",
            "        headers = signing.headers(self.settings, method, path, query, payload)\n",
            "        nonce = f\"{self.settings['client_id']}-{self.calls:06d}\"\n"
            "        headers = signing.headers(self.settings, method, path, query, payload, self.clock.now(), nonce)\n",
        ),
        r.write("stubgate/verify.py", fill(VERIFY, f)),
        r.bash(
            "sed -i 's/^from stubgate.gateway import Gateway.*/&\\nfrom stubgate.verify import Verifier  # noqa: E402/' tools/probe.py\n"
            "sed -i 's/^from stubgate.gateway import Gateway/&\\nfrom stubgate.verify import Verifier/; "
            's/return Gateway()/settings = load()\\n    return Gateway(verify=Verifier({settings["client_id"]: settings["secret"]}))/\' tests/conftest.py\n'
            'sed -i \'s/^gateway = Gateway(faults/verifier = Verifier({settings["client_id"]: settings["secret"]})\\n'
            "gateway = Gateway(verify=verifier, faults/' tools/probe.py\ngit diff --stat && tail -14 tests/conftest.py"
        ),
        r.bash("python -m pytest -q --tb=line; python tools/probe.py stops --log 3"),
    )
    r.agent(
        "Worth having a strict stub: `nonce_replayed`, right behind the 503. The headers are made once per request and a second try sends the "
        "same nonce. v1 was static, so nobody could notice. They have to be made per attempt, inside `once`.",
        r.bash(
            "python - <<'EOF'\nfrom pathlib import Path\np = Path('halmtrafik/client.py')\nt = p.read_text()\n"
            "start = t.index('        nonce = f'); end = t.index('        def once')\nblock = t[start:end].rstrip() + '\\n'\n"
            "t = t[:start].rstrip() + '\\n\\n' + t[end:]\n"
            "indented = ''.join('    ' + line + '\\n' for line in block.splitlines())\n"
            "t = t.replace('            self.calls += 1\\n', '            self.calls += 1\\n' + indented)\np.write_text(t)\nEOF\nsed -n '28,52p' halmtrafik/client.py\npython -m pytest -q"
        ),
    )
    r.agent("", r.bash(f"python tools/probe.py stops --log 2; python tools/probe.py board {f['BOARD3']} --log 1"))
    r.agent(
        f"Everything signs with v2 now and the stub refuses the rest. A direct look that it really refuses: a wrong secret, a clock {f['SKEW'] + 5} "
        "seconds off, and a nonce used twice.",
        r.bash(
            "python - <<'EOF'\nfrom halmtrafik import signing\nfrom halmtrafik.settings import load\nfrom stubgate.verify import Verifier\n"
            "s = load()\ncheck = Verifier({s['client_id']: s['secret']})\n"
            "def sent(time, nonce, **more):\n    return signing.headers({**s, **more}, 'GET', '/v3/lines', {'limit': 9}, b'', time, nonce)\n"
            "url, now = '/v3/lines?limit=9', " + str(f["CLOCK"]) + "\n"
            "good = sent(now, 'nonce-a1')\nprint('signature:', good['X-Hvk-Signature'][:27])\nprint('good:', check('GET', url, good, b'', now))\n"
            "print('again:', check('GET', url, good, b'', now))\nprint('late:', check('GET', url, sent(now, 'nonce-a2'), b'', now + "
            + str(f["SKEW"] + 5) + "))\nprint('secret:', check('GET', url, sent(now, 'nonce-a3', secret='x'), b'', now))\nEOF"
        ),
        r.bash(f"git add -A && git commit -m '[{f['T4']}] Sign with scheme v2, verify in the stub'"),
    )  # fmt: skip


def quota(r, f):
    r.user(
        f"Before {f['V1_OFF']} then, fine. Now {f['T5']}: we should keep below the contract's quota on our own rather than be told off. It's "
        "per_minute in settings.toml, nothing uses it yet. Try the sweep with the quota switched on."
    )
    r.agent(
        "The sweep asks for all 66 boards of the recorded day, so it must run into the limit. I also want the contract's own wording.",
        r.bash("python tools/probe.py sweep --quota --log 38"),
        r.bash("python tools/probe.py sweep --quota --log 71 | grep -c quota_exceeded"),
        r.bash("cat settings.toml docs/notes.txt"),
    )
    simulation = fill(SIMULATION, f)
    r.agent(
        "The sweep only comes through because the retries absorb the refusals. Two designs come to mind, a token bucket and a sliding list of "
        "send times. The gateway counts calls in any 60 seconds, so I'll calculate what each would send in the first minute.",
        r.bash(simulation),
    )
    r.agent(
        "Clear result. I take the sliding window of send times. A token bucket is out: a full bucket plus its refill sends more than the quota "
        "within the first minute, exactly what we want to avoid. The memory is a deque as long as the quota.",
        r.todo(
            ("Client signs with v2, stub verifies", "completed"),
            ("throttle.py with tests", "in_progress"),
            ("Client asks it before every attempt", "pending"),
            (f"Commit {f['T5']}", "pending"),
        ),
        r.write("halmtrafik/throttle.py", THROTTLE.lstrip("\n")),
        r.write("tests/test_throttle.py", THROTTLE_TEST.lstrip("\n")),
        r.bash("python -m pytest -q --tb=line tests/test_throttle.py"),
    )
    r.agent(
        "The window itself is right; the sweep fails because the client has no throttle yet. Retries count as calls too, so it goes into `once`.",
        r.edit(
            "halmtrafik/client.py",
            "            self.calls += 1\n",
            "            self.throttle.wait()\n            self.calls += 1\n",
        ),
        r.bash(
            'sed -i \'s/^        self.calls = 0$/&\\n        self.throttle = Throttle(settings["per_minute"], clock)/; '
            "s/^from halmtrafik.paging import walk$/&\\nfrom halmtrafik.throttle import Throttle/' halmtrafik/client.py\n"
            'sed -i \'s/^print("statuses:"/print(f"throttled_s: {client.throttle.waited:.3f}")\\n&/\' tools/probe.py\ngit diff -U1 halmtrafik tools\n'
            "python -m pytest -q && python tools/probe.py sweep --quota --no-faults --log 2"
        ),
    )
    r.user(
        f"Stop, letter {f['LETTER']}-2 came in this morning: from now on it is {f['NEWQUOTA']} a minute, not {f['QUOTA']}. Change the setting and "
        "give me the sweep with faults under the new number."
    )
    r.agent(
        "",
        r.edit("settings.toml", f"per_minute = {f['QUOTA']}", f"per_minute = {f['NEWQUOTA']}"),
        r.bash(
            f"sed -i '/^contract/s/{f['QUOTA']} calls/{f['NEWQUOTA']} calls/' docs/notes.txt && grep ^contract docs/notes.txt\n"
            "python tools/probe.py sweep --quota --log 7"
        ),
    )
    r.agent(
        f"With {f['NEWQUOTA']} a minute the sweep pauses twice or more and gets no quota refusal; the only 429s left are those on the two boards. "
        "Tests and commit.",
        r.bash(f"python -m pytest -q && git add -A && git commit -m '[{f['T5']}] Throttle to the contract on our side'"),
    )


def night(r, f):
    r.user(
        f"Also for {f['T5']}, a follow-up: the depot wants a list of departures after midnight by wall clock. Our times go through "
        "util.to_minutes, I'm not sure it can do 25:10. Call the new module service_time rather than util."
    )
    r.agent(
        "First whether it can, then who uses it and how late the recorded departures get.",
        r.bash("python -c \"from halmtrafik.util import to_minutes; to_minutes('23:59'); to_minutes('24:35')\" 2>&1 | tail -1"),
        r.grep("to_minutes|halmtrafik.util", "."),
        r.bash('grep -ho \'"departs": "2[4-9]:[0-9]*"\' tapes/board-*.json | sort | uniq -c | sort -k1,1nr -k2 | head -7'),
    )
    r.agent(
        "As you suspected: `strptime` refuses hour 24. The gateway writes times of the service day, which goes on past midnight. I rename the "
        "module and its test with git, then rewrite the parsing.",
        r.bash(
            "git mv halmtrafik/util.py halmtrafik/service_time.py && git mv tests/test_util.py tests/test_service_time.py && git status --short"
        ),
        r.write("halmtrafik/service_time.py", SERVICE_TIME.lstrip("\n")),
        r.write("tests/test_service_time.py", fill(SERVICE_TIME_TEST, f)),
    )
    r.agent(
        "Now the list itself, as a tool next to the probe. It sorts by date and wall clock and prints a digest, so that the depot can tell "
        "whether two nights are the same.",
        r.write("tools/night_board.py", EXPORT.lstrip("\n")),
        r.bash("python -m pytest -q && python tools/night_board.py"),
    )
    r.agent(
        f"One departure after midnight per board, the dates of {f['NEXTDAY']} are right. Commit.",
        r.bash(f"git add -A && git commit -m '[{f['T5']}] Service-day times past midnight, night board' | tail -7"),
    )
    r.user(
        "That SOAP leftover can go at last, module and test. I have seen nobody import it in a year. Look whether anything else mentions it."
    )
    r.agent("", r.grep("soap|HvkFeed|xml|NAMESPACE =", "."))
    r.agent(
        f"Only the module and its own test. It points at port {f['SOAPPORT']} of a host that is gone. Removing both; I keep this out of the "
        "other commits and leave it staged, as it has no ticket yet.",
        r.bash("git rm -q halmtrafik/soap_feed.py tests/test_soap_feed.py && python -m pytest -q && git status --short"),
    )


def handover(r, f):
    r.user(
        f"File it under {f['T5']} as well, that's the clean-up ticket anyway. Then cut {f['NEW']}: version, CHANGES.md with a line per ticket, and "
        "turn docs/notes.txt into docs/gateway-notes.md."
    )
    r.agent(
        "",
        r.todo(("Commit the SOAP removal", "in_progress"), (f"Version {f['NEW']} and CHANGES.md", "pending"), ("gateway-notes.md", "pending"),
               ("Handover", "pending")),
        r.bash(f"git commit -m '[{f['T5']}] Remove the SOAP feed' && git mv docs/notes.txt docs/gateway-notes.md && cat CHANGES.md halmtrafik/__init__.py"),
    )  # fmt: skip
    r.agent(
        "A line per ticket, and the notes rewritten with what we learned today, so that nobody has to measure it again.",
        r.edit(
            "CHANGES.md",
            f"## {f['OLD']}",
            f"## {f['NEW']}\n\n- {f['T1']}: stops are complete again ({f['TOTAL']} instead of {f['GOT']}); overlapping pages give each id once\n"
            f"- {f['T2']}: Retry-After is obeyed, as seconds and as a date, up to {f['CAP']} s (case {f['CASE']})\n"
            f"- {f['T3']}: a lost answer to an acknowledgement raises UnconfirmedError\n"
            f"- {f['T4']}: signature scheme v2 ({f['PAPER']} {f['REVISION']}); v1 is gone\n"
            f"- {f['T5']}: own throttle, {f['NEWQUOTA']} calls a minute; times past midnight; SOAP feed removed\n\n## {f['OLD']}",
        ),
        r.write(
            "docs/gateway-notes.md",
            fill(
                """
                # Gateway notes

                - host `gw.halmvik.example`, our key `@CLIENT_ID@` (read + alerts)
                - contract @CONTRACT@: @NEWQUOTA@ calls in any 60 seconds per key, since letter @LETTER@-2 (before: @QUOTA@)
                - a wait of more than @CAP@ s is not begun, see `halmtrafik/retry.py`
                - tapes recorded @RECORDED@ by recorder build @BUILD@; the register counts @TOTAL@ stops (letter @LETTER@)
                - pages may be short in the middle: the ones after cursor `@CURSOR@` and `@CURSOR2@` are
                - boards `@BOARD1@` (seconds) and `@BOARD2@` (HTTP date) replay a Retry-After
                - signatures: `docs/signing-v2.md`; clocks may be @SKEW@ s apart, a nonce is good for one attempt
                """,
                f,
            ),
        ),
        r.bash(
            f"sed -i 's/{f['OLD']}/{f['NEW']}/' halmtrafik/__init__.py && cat halmtrafik/__init__.py && python -m pytest -q && git diff HEAD --stat && "
            "git diff --stat $(git rev-list --max-parents=0 HEAD) -- tapes | wc -l"
        ),
    )
    r.agent(
        "Green. One commit for the release, under the clean-up ticket.",
        r.bash(
            f"git add -A && git commit -m '[{f['T5']}] Release {f['NEW']}' && git tag v{f['NEW']} && git log --format='%h %s'"
        ),
        r.bash(
            "cat halmtrafik/client.py; wc -c halmtrafik/*.py stubgate/*.py; cat halmtrafik/*.py stubgate/*.py | sha256sum | cut -c1-24"
        ),
    )
    r.user(
        f"Last thing: a short answer I can paste into case {f['CASE']} for the operator's desk. What was wrong with the pages, what they will see "
        "from us after a 429, and how many calls."
    )
    r.agent(
        "I'll take the final numbers from one more run of each instead of from memory.",
        r.bash(f"python tools/probe.py stops --quota --log 2; python tools/probe.py ack {f['ALERT']} | head -5"),
    )
    r.agent(
        f"Here is the text for {f['CASE']}:\n\n"
        f"> Our client took a short page for the last one and stopped after the page at cursor {f['CURSOR']}, with {f['GOT']} of {f['TOTAL']} stops. "
        f"Since halmtrafik {f['NEW']} it walks until `next` is missing and reads all {f['TOTAL']}, the last being {f['LAST_ID']}.\n"
        f"> After a 429 it now waits as long as Retry-After says, in seconds or as a date; if that is more than {f['CAP']} s it gives up for the night. "
        f"Key {f['CLIENT_ID']} keeps itself to {f['NEWQUOTA']} calls in any 60 seconds as per {f['CONTRACT']}.\n"
        f"> All requests carry signature v2 ({f['PAPER']}).\n\n"
        f"Not for the operator: the replay of {f['ALERT']} now ends in an UnconfirmedError with a trace id, which dispatch can quote to them.",
        r.todo(("Commit the SOAP removal", "completed"), (f"Version {f['NEW']} and CHANGES.md", "completed"), ("gateway-notes.md", "completed"),
               ("Handover", "completed")),
    )  # fmt: skip


def declare(r, f):
    t = r.truth
    t.fact(
        str(f["TOTAL"]), str(f["GOT"]), f["T1"], f["CURSOR"], f["CURSOR2"], f["LAST_ID"], "upstream_busy", f["CASE"], f["BOARD1"], f["BOARD2"],
        f["UNTIL"], f["CONTRACT"], f["ALERT"], "gateway_timeout", f["PAPER"], f["V1_OFF"], "nonce_replayed", "docs/signing-v2.md",
        f["CLIENT_ID"], f["BUILD"], f["LETTER"], f"{f['NEWQUOTA']} a minute", str(f["SOAPPORT"]), str(f["DESK"]), f["FORM"], f["SECRET"],
    )  # fmt: skip
    t.constraint("Leave everything under tapes/ byte for byte as it was recorded")
    t.constraint("it has to stay on the plain standard library")
    t.constraint("Subject lines in this repository begin with the ticket in square brackets")
    t.constraint("An acknowledgement must never go out a second time by itself")
    t.decision(
        chosen="I'll drop duplicates by id inside `walk`",
        rejected="cleaning up in the importer",
        reason="lines are paged by the same code and every caller would have to remember it",
    )
    t.decision(
        chosen="obey Retry-After; without it wait 1, 2, 4 seconds",
        rejected="random jitter on top",
        reason="because the replays compare modelled times exactly",
    )
    t.decision(
        chosen="I take the sliding window of send times",
        rejected="A token bucket is out",
        reason="a full bucket plus its refill sends more than the quota within the first minute",
    )
    t.decision(
        chosen="write the check from the paper on its own",
        rejected="importing halmtrafik.signing there",
        reason="a shared mistake would sign and verify happily",
    )
    t.update("longest pause", "LONGEST_PAUSE = 20.0", f"LONGEST_PAUSE = {f['CAP']}.0")
    t.update("quota", f"per_minute = {f['QUOTA']}", f"per_minute = {f['NEWQUOTA']}")
    t.update("version", f'__version__ = "{f["OLD"]}"', f["NEW"])
    t.belief(wrong="I think the 503 is what cuts the import short", corrected="the 503 is innocent")
    for name in ("TOTAL", "GOT", "CURSOR", "LAST_ID", "CASE", "ALERT", "CAP", "T2"):
        t.later(str(f[name]))
