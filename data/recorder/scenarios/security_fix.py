"""A document sharing portal: path traversal and share passes compared by their beginning; audit, fixes, tests."""

from __future__ import annotations

import hashlib
import re

from recorder.recording import Recording

TITLE = "Audit a document portal, repair path handling and share passes"
PROJECT = "foliodesk"


def put(text: str, facts: dict[str, object]) -> str:
    """Replace each <<name>> by its fact."""
    return re.sub(r"<<(\w+)>>", lambda found: str(facts[found[1]]), text).lstrip("\n")


# --- the portal ----------------------------------------------------------------------------------------------

CONFIG = '''
"""Settings from conf/portal.ini; the environment may move the folders."""

import configparser
import os
from datetime import date
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]


def load():
    parser = configparser.ConfigParser()
    parser.read(HOME / "conf" / "portal.ini")
    return parser


def get(section, key):
    return load()[section][key]


def shelves():
    return os.environ.get("FOLIO_SHELVES") or str(HOME / get("storage", "shelves"))


def journal_file():
    return os.environ.get("FOLIO_JOURNAL") or str(HOME / get("storage", "journal"))


def today():
    return os.environ.get("FOLIO_TODAY") or date.today().isoformat()
'''

INI = """
[portal]
listen = 127.0.0.1:<<port>>
instance = <<instance>>
max_bundle_kb = <<bundle_kb>>

[storage]
shelves = var/shelves
journal = var/journal/current.log

[passes]
key_id = <<key_id>>
key = local-only-<<key>>
length = <<length>>
valid_days = <<valid_days>>
"""

MESSAGES = '''
"""Requests and responses, as the front server hands them over: the path is still as it came over the wire."""

from dataclasses import dataclass, field
from urllib.parse import parse_qs


@dataclass
class Request:
    method: str
    path: str
    query: dict = field(default_factory=dict)
    body: bytes = b""
    reader: str = "reader-none"

    @classmethod
    def of(cls, target, method="GET", body=b"", reader="reader-none"):
        path, _, tail = target.partition("?")
        query = {key: values[-1] for key, values in parse_qs(tail).items()}
        return cls(method, path, query, body, reader)


@dataclass
class Response:
    status: int
    reason: str
    body: bytes = b""
'''

ROUTER = '''
"""One entry point: `handle`. Rooms hold documents; a link is /r/ROOM/DOCUMENT?pass=PASS."""

from urllib.parse import unquote

from foliodesk import bundle, journal, passes, shelf
from foliodesk.messages import Response


def handle(request):
    response = answer(request)
    journal.note(request, response)
    return response


def answer(request):
    if ".." in request.path:
        return Response(400, "dots in path")
    parts = request.path.strip("/").split("/", 2)
    if len(parts) != 3 or parts[0] != "r":
        return Response(404, "no such page")
    room, name = unquote(parts[1]), unquote(parts[2])
    if not passes.valid(room, name, request.query.get("pass", "")):
        return Response(403, "pass refused")
    if request.method == "POST" and name == "_bundle":
        return Response(201, f"stored {bundle.unpack(room, request.body)}")
    try:
        return Response(200, "ok", shelf.read(room, unquote(name)))
    except OSError as error:
        return Response(404, f"not on the shelf: {error.filename}")
'''

SHELF = '''
"""Documents on disk: one folder per room."""

import os

from foliodesk import config


def path_of(room, name):
    return os.path.join(config.shelves(), room, name)


def read(room, name):
    with open(path_of(room, name), "rb") as file:
        return file.read()


def write(room, name, body):
    path = path_of(room, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(body)


def listing(room):
    return sorted(os.listdir(path_of(room, "")))
'''

BUNDLE = '''
"""Room owners upload many documents at once, as a zip file."""

import io
import zipfile

from foliodesk import shelf


def unpack(room, blob):
    stored = 0
    with zipfile.ZipFile(io.BytesIO(blob)) as archive:
        for entry in archive.infolist():
            if entry.filename.endswith("/"):
                continue
            shelf.write(room, entry.filename, archive.read(entry))
            stored += 1
    return stored
'''

PASSES = '''
"""Share passes: who has the link may read the document."""

import hashlib

from foliodesk import compat, config


def make(room, name):
    text = f"{config.get('passes', 'key')}:{room}:{name}"
    return hashlib.sha1(text.encode()).hexdigest()[: int(config.get("passes", "length"))]


def valid(room, name, given):
    return bool(given) and compat.same(make(room, name), given)


def link(room, name):
    return f"/r/{room}/{name}?pass={make(room, name)}"
'''

COMPAT = '''
"""Kindness to readers. Links wrapped in letters lose their end, so the beginning of a pass is enough."""


def same(wanted, given):
    for left, right in zip(wanted, given):
        if left != right:
            return False
    return True
'''

JOURNAL = '''
"""One line per request."""

import hashlib
import os

from foliodesk import config


def note(request, response):
    stamp = os.environ.get("FOLIO_STAMP", "-")
    query = "&".join(f"{key}={value}" for key, value in request.query.items())
    mark = hashlib.sha1(f"{stamp}{request.path}{query}".encode()).hexdigest()[:6]
    line = f"{stamp} req-{mark} {request.reader} {request.method} {request.path}?{query} "
    line += f"{response.status} bytes={len(response.body)}"
    os.makedirs(os.path.dirname(config.journal_file()), exist_ok=True)
    with open(config.journal_file(), "a") as file:
        file.write(line + "\\n")
'''

KNOCK = '''
"""Send requests to the portal inside this process and print what comes back. `+TARGET` adds the right pass."""

import hashlib
import os
import sys
from pathlib import Path
from urllib.parse import unquote

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("FOLIO_JOURNAL", "scratch/knock.log")
os.environ.setdefault("FOLIO_TODAY", "<<audit_day>>")

from foliodesk import passes, router  # noqa: E402
from foliodesk.messages import Request  # noqa: E402


def signed(target):
    _, _, room, name = target.split("/", 3)
    return f"{target}?pass={passes.make(unquote(room), unquote(name))}"


for target in sys.argv[1:]:
    request = Request.of(signed(target[1:]) if target.startswith("+") else target, reader="reader-local")
    response = router.handle(request)
    digest = hashlib.sha256(response.body).hexdigest()[:12] if response.body else "-"
    reason = response.reason.replace(os.getcwd() + "/", "")
    print(f"{request.method} {request.path}")
    print(f"  status: {response.status}  bytes: {len(response.body)}  sha256: {digest}  reason: {reason}")
'''

NOTES = """
Security notes (<<notes_year>>, by hand)

1. Paths: the router refuses every path with two dots in it. Reviewed <<notes_day>>, sheet <<notes_sheet>>.
2. Passes: <<length>> hex digits = <<bits>> bits. Guessing one takes 16^<<length>> tries, at <<rate>> requests a second
   some <<years>> years. Good enough.
3. Bundles: only owners have the pass of _bundle, and owners are trusted.
4. The journal is kept for <<keep_days>> days on the machine of the front desk, readable for the whole team.
"""

MAKEFILE = """
.PHONY: test links
test:
\t@FOLIO_TODAY=<<audit_day>> FOLIO_JOURNAL=scratch/tests.log python -m unittest discover -s tests -q

links:
\t@python tools/links.py
"""

TOOL_LINKS = '''
"""Print how many links each room has in the wild, from the letters in var/letters.csv."""

import csv
from pathlib import Path

counts = {}
with Path("var/letters.csv").open() as file:
    for row in csv.DictReader(file):
        counts.setdefault(row["room"], []).append(int(row["copies"]))
for room, copies in sorted(counts.items()):
    print(f"room={room} letters={len(copies)} printed-links={sum(copies)}")
print(f"printed-links-total: {sum(map(sum, counts.values()))}")
'''

STOCKTAKE = '''
"""One line per document: what the clerk compares with the paper folders."""

import hashlib
from pathlib import Path

total = 0
for path in sorted(Path("var/shelves").glob("*/*.txt")):
    head, *items = path.read_text().splitlines()
    cents = sum(round(float(item.split(": ")[1]) * 100) for item in items)
    total += cents
    mark = hashlib.sha256(path.read_bytes()).hexdigest()[:10]
    print(f"{path.parent.name}/{path.name} sheet={head.split()[-1]} items={len(items)} sum={cents / 100:.2f} mark={mark}")
print(f"grand-total: {total / 100:.2f}")
'''

TEST_ROUTER = """
import os
import tempfile
import unittest

from foliodesk import passes, router, shelf
from foliodesk.messages import Request


class RouterTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        os.environ["FOLIO_SHELVES"] = self.folder.name
        self.addCleanup(os.environ.pop, "FOLIO_SHELVES", None)
        shelf.write("attic", "roof.txt", b"slate")

    def get(self, target):
        return router.handle(Request.of(target, reader="reader-test"))

    def test_link_opens_the_document(self):
        self.assertEqual(self.get(passes.link("attic", "roof.txt")).body, b"slate")

    def test_unknown_page(self):
        self.assertEqual(self.get("/about").status, 404)

    def test_plain_dots_are_refused(self):
        self.assertEqual(self.get("/r/attic/../cellar/x.txt?pass=00").status, 400)

    def test_no_pass(self):
        self.assertEqual(self.get("/r/attic/roof.txt").status, 403)

    def test_missing_document(self):
        self.assertEqual(self.get(passes.link("attic", "beam.txt")).status, 404)

    def test_space_in_a_name(self):
        shelf.write("attic", "old roof.txt", b"straw")
        target = "/r/attic/old%20roof.txt?pass=" + passes.make("attic", "old roof.txt")
        self.assertEqual(self.get(target).body, b"straw")
"""

TEST_ODDS = """
import io
import os
import tempfile
import unittest
import zipfile

from foliodesk import bundle, passes, shelf


def zipped(**documents):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in documents.items():
            archive.writestr(name + ".txt", text)
    return buffer.getvalue()


class OddsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        os.environ["FOLIO_SHELVES"] = self.folder.name
        self.addCleanup(os.environ.pop, "FOLIO_SHELVES", None)

    def test_bundle_stores_every_document(self):
        self.assertEqual(bundle.unpack("attic", zipped(beam="oak", tile="clay")), 2)
        self.assertEqual(shelf.listing("attic"), ["beam.txt", "tile.txt"])

    def test_passes_differ_by_room(self):
        self.assertNotEqual(passes.make("attic", "a.txt"), passes.make("cellar", "a.txt"))

    def test_pass_has_the_configured_length(self):
        self.assertEqual(len(passes.make("attic", "a.txt")), <<length>>)

    def test_own_pass_is_valid(self):
        self.assertTrue(passes.valid("attic", "a.txt", passes.make("attic", "a.txt")))
"""

# --- what the agent writes -----------------------------------------------------------------------------------

VARIANTS = '''
"""Many spellings of one step out of a room: which of them does the portal serve? Local, in process."""

import hashlib
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ["FOLIO_JOURNAL"] = "scratch/variants.log"
os.environ.setdefault("FOLIO_TODAY", "<<audit_day>>")

from urllib.parse import unquote  # noqa: E402

from foliodesk import passes, router  # noqa: E402
from foliodesk.messages import Request  # noqa: E402

ROOM, OTHER, NAME = "<<room0>>", "<<room1>>", "<<doc1>>"
SPELLINGS = {
    "plain": f"../{OTHER}/{NAME}",
    "dots-encoded": f"%2e%2e/{OTHER}/{NAME}",
    "upper-case": f"%2E%2E/{OTHER}/{NAME}",
    "one-dot-encoded": f".%2e/{OTHER}/{NAME}",
    "slash-encoded": f"%2e%2e%2f{OTHER}%2f{NAME}",
    "twice-encoded": f"%252e%252e/{OTHER}/{NAME}",
    "twice-all": f"%252e%252e%252f{OTHER}%252f{NAME}",
    "from-root": f"{Path('var/shelves').resolve()}/{OTHER}/{NAME}".replace("/", "%2f"),
    "room-empty": None,
    "room-dots": None,
    "null-byte": f"%2e%2e/{OTHER}/{NAME}%00.txt",
    "config-file": "%2e%2e/%2e%2e/%2e%2e/conf/portal.ini",
    "own-code": "%2e%2e/%2e%2e/%2e%2e/foliodesk/router.py",
    "journal-file": "%2e%2e/%2e%2e/journal/2026-04.log",
    "letters": "%2e%2e/%2e%2e/letters.csv",
    "mixed-slash": f"%2e%2e%2F{OTHER}%2F{NAME}",
    "dot-first": f"./%2e%2e/{OTHER}/{NAME}",
    "three-times": f"%25252e%25252e/{OTHER}/{NAME}",
    "overlong": f"%c0%ae%c0%ae/{OTHER}/{NAME}",
}
served = 0
for label, spelling in SPELLINGS.items():
    path = f"/r/{ROOM}/{spelling}"
    if label == "room-empty":
        path = f"/r/%2e/{OTHER}/{NAME}"
    if label == "room-dots":
        path = f"/r/%2e%2e/shelves/{OTHER}/{NAME}"
    room, name = path.split("/", 3)[2:]
    target = f"{path}?pass={passes.make(unquote(room), unquote(name))}"
    try:
        response = router.handle(Request.of(target, reader="reader-local"))
        status, body = response.status, response.body
    except Exception as error:
        status, body = type(error).__name__, b""
    served += status == 200
    digest = hashlib.sha256(body).hexdigest()[:9] if body else "-"
    print(f"{label:<16} status={status} bytes={len(body)} sha={digest}")
print(f"spellings: {len(SPELLINGS)}  served: {served}")
'''

STEPS = '''
"""How much does the comparison of passes tell? Counts characters compared, not time."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from foliodesk import compat, passes  # noqa: E402


class Counted(str):
    seen = 0

    def __ne__(self, other):
        Counted.seen += 1
        return str(self) != other

    __hash__ = str.__hash__


wanted = passes.make("<<room0>>", "<<doc0>>")
for right in (0, 1, 2, 4, len(wanted) - 1):
    guess = wanted[:right] + ("0" if wanted[right] != "0" else "1") + "z" * (len(wanted) - right - 1)
    Counted.seen = 0
    answer = compat.same([Counted(c) for c in wanted], guess)
    print(f"right-beginning={right} compared={Counted.seen} accepted={answer}")
tries = 0
for digit in "0123456789abcdef":
    tries += 1
    if passes.valid("<<room0>>", "<<doc0>>", digit):
        print(f"accepted-after: {tries} tries, with a pass of length 1")
        break
longer = wanted + "anything"
print(f"longer-than-the-pass: accepted={passes.valid('<<room0>>', '<<doc0>>', longer)}")
'''

TEST_ESCAPE = '''
"""No spelling of a path leaves its room."""

import io
import os
import tempfile
import unittest
import zipfile
from pathlib import Path
from urllib.parse import quote, unquote

from foliodesk import bundle, passes, router, shelf
from foliodesk.messages import Request

SPELLINGS = [
    "%2e%2e/cellar/wine.txt", "%2E%2E/cellar/wine.txt", ".%2e/cellar/wine.txt", "%2e%2e%2fcellar%2fwine.txt",
    "%252e%252e/cellar/wine.txt", "%252e%252e%252fcellar%252fwine.txt", "%2e%2e/cellar/wine.txt%00.txt",
    "%5c..%5ccellar%5cwine.txt", "", "%2e", "%2e/",
]


class Rooms(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.top = Path(self.folder.name) / "shelves"
        os.environ["FOLIO_SHELVES"] = str(self.top)
        self.addCleanup(os.environ.pop, "FOLIO_SHELVES", None)
        shelf.write("attic", "roof.txt", b"slate")
        shelf.write("cellar", "wine.txt", b"secret")

    def get(self, room, name):
        wanted = passes.make(unquote(room), unquote(name))
        return router.handle(Request.of(f"/r/{room}/{name}?pass={wanted}", reader="reader-test"))


class EscapeTest(Rooms):
    def test_no_spelling_gets_out(self):
        for spelling in SPELLINGS:
            with self.subTest(spelling=spelling):
                response = self.get("attic", spelling)
                self.assertIn(response.status, (400, 403, 404))
                self.assertNotIn(b"secret", response.body)

    def test_path_from_the_root(self):
        response = self.get("attic", quote(f"{self.top}/cellar/wine.txt", safe=""))
        self.assertNotEqual(response.status, 200)

    def test_room_may_not_be_a_step(self):
        for room in ("%2e", "%2e%2e", "%252e%252e", "cellar%2f%2e%2e%2fattic"):
            with self.subTest(room=room):
                self.assertNotEqual(self.get(room, "roof.txt").status, 200)

    def test_symbolic_link_out_of_the_room(self):
        (self.top / "attic" / "shortcut.txt").symlink_to(self.top / "cellar" / "wine.txt")
        self.assertEqual(self.get("attic", "shortcut.txt").status, 404)

    def test_reason_does_not_show_the_disk(self):
        self.assertNotIn(self.folder.name, self.get("attic", "gone.txt").reason)

    def test_subfolder_is_still_fine(self):
        shelf.write("attic", "plans/north.txt", b"window")
        self.assertEqual(self.get("attic", "plans/north.txt").body, b"window")


class BundleEscapeTest(Rooms):
    def zipped(self, *names):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name in names:
                archive.writestr(name, "planted")
        return buffer.getvalue()

    def test_entry_with_steps_stores_nothing_at_all(self):
        with self.assertRaises(shelf.OutsideRoom):
            bundle.unpack("attic", self.zipped("good.txt", "../cellar/wine.txt"))
        self.assertEqual(shelf.read("cellar", "wine.txt"), b"secret")
        self.assertEqual(shelf.listing("attic"), ["roof.txt"])

    def test_entry_from_the_root(self):
        with self.assertRaises(shelf.OutsideRoom):
            bundle.unpack("attic", self.zipped(f"{self.top}/cellar/wine.txt"))

    def test_too_large_a_bundle(self):
        with self.assertRaises(bundle.TooLarge):
            bundle.unpack("attic", self.zipped("a.txt"), limit_kb=0)
'''

NEW_SHELF = '''
"""Documents on disk: one folder per room, and no way out of it."""

import os
from pathlib import Path

from foliodesk import config


class OutsideRoom(Exception):
    """The name points out of its room, or the room is none."""


def path_of(room, name=""):
    """The real path of a document. Everything is resolved first, then compared: spellings do not matter."""
    top = Path(config.shelves()).resolve()
    if not room or "\\0" in room + name:
        raise OutsideRoom("bad name")
    folder = (top / room).resolve()
    if folder.parent != top or folder.name != room:
        raise OutsideRoom("bad room")
    path = (folder / name).resolve()
    if not path.is_relative_to(folder):
        raise OutsideRoom("outside of the room")
    return path


def read(room, name):
    return path_of(room, name).read_bytes()


def write(room, name, body):
    path = path_of(room, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)


def listing(room):
    return sorted(os.listdir(path_of(room)))
'''

NEW_BUNDLE = '''
"""Room owners upload many documents at once, as a zip file: all of them or none."""

import io
import zipfile

from foliodesk import config, shelf


class TooLarge(Exception):
    pass


def unpack(room, blob, limit_kb=None):
    limit = 1024 * (int(config.get("portal", "max_bundle_kb")) if limit_kb is None else limit_kb)
    with zipfile.ZipFile(io.BytesIO(blob)) as archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        if sum(entry.file_size for entry in entries) > limit:
            raise TooLarge(f"more than {limit} bytes")
        for entry in entries:
            shelf.path_of(room, entry.filename)
        for entry in entries:
            shelf.write(room, entry.filename, archive.read(entry))
    return len(entries)
'''

NEW_PASSES = '''
"""Share passes: who has the link may read the document."""

import csv
import hashlib
import hmac

from foliodesk import config

V2_DIGITS = <<v2_digits>>


def make(room, name):
    """A pass of the second kind. The lengths keep ("a", "b/c") and ("a/b", "c") apart."""
    text = f"{len(room)}:{room}{len(name)}:{name}"
    key = (config.HOME / config.get("passes", "key_file")).read_bytes().strip()
    return "k" + hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:V2_DIGITS]


def make_v1(room, name):
    """As printed in letters before <<audit_day>>; accepted until `v1_until`, never handed out."""
    text = f"{config.get('passes', 'v1_key')}:{room}:{name}"
    return hashlib.sha1(text.encode()).hexdigest()[: int(config.get("passes", "length"))]


def printed(room, name):
    """Was a link to this document ever sent out in a letter? The old key is known outside, so others count for nothing."""
    with (config.HOME / "var" / "letters.csv").open() as file:
        return any((row["room"], row["document"]) == (room, name) for row in csv.DictReader(file))


def valid(room, name, given):
    if not given.isascii():
        return False
    fresh = hmac.compare_digest(make(room, name), given)
    old = hmac.compare_digest(make_v1(room, name), given)
    return fresh or (old and config.today() <= config.get("passes", "v1_until") and printed(room, name))


def link(room, name):
    return f"/r/{room}/{name}?pass={make(room, name)}"
'''

REPLAY = '''
"""Play the journals again, against the portal as it is now. Prints counts and names, never a pass."""

import os
import re
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ["FOLIO_JOURNAL"] = "scratch/replay.log"

from foliodesk import router  # noqa: E402
from foliodesk.messages import Request  # noqa: E402

changes, lost, users = Counter(), Counter(), {}
for log in sorted(Path("var/journal").glob("2026-*.log")):
    for line in log.read_text().splitlines():
        stamp, _, reader, method, target, was, _ = line.split(" ")
        os.environ["FOLIO_TODAY"] = stamp[:10]
        now = router.handle(Request.of(target, method, reader=reader)).status
        changes[int(was), now] += 1
        if was == "200" and now != 200 and len(target.split("pass=")[1]) > 1:
            name = re.sub(r"^/r/|[?].*", "", target)
            lost[name] += 1
            users.setdefault(name, set()).add(reader)
for (was, now), count in sorted(changes.items()):
    print(f"was={was} now={now} requests={count}")
for name, count in sorted(lost.items()):
    print(f"  lost: {name} requests={count} readers={len(users[name])}")
print(f"replayed: {sum(changes.values())}  lost-requests: {sum(lost.values())}  lost-documents: {len(lost)}")
'''

GATE = '''
"""Readers who keep guessing are sent away until the next day."""

from collections import Counter

from foliodesk import config

_refused = Counter()


def closed(reader):
    return _refused[reader, config.today()] >= int(config.get("passes", "refusals_per_day"))


def count(reader):
    _refused[reader, config.today()] += 1


def reset():
    _refused.clear()
'''

TEST_GATE = """
import os
import unittest
from unittest import mock

from foliodesk import config, gate, router
from foliodesk.messages import Request

LIMIT = int(config.get("passes", "refusals_per_day"))


class GateTest(unittest.TestCase):
    def setUp(self):
        gate.reset()
        self.addCleanup(gate.reset)

    def guess(self, reader="reader-guess", day="2026-05-01"):
        with mock.patch.dict(os.environ, {"FOLIO_TODAY": day}):
            return router.handle(Request.of("/r/attic/roof.txt?pass=k0", reader=reader)).status

    def test_guessing_ends_at_the_limit(self):
        answers = [self.guess() for _ in range(LIMIT + 2)]
        self.assertEqual(answers, [403] * LIMIT + [429] * 2)

    def test_others_are_not_hurt(self):
        for _ in range(LIMIT + 1):
            self.guess()
        self.assertEqual(self.guess(), 429)
        self.assertEqual(self.guess(reader="reader-other"), 403)

    def test_open_again_on_the_next_day(self):
        for _ in range(LIMIT + 1):
            self.guess()
        self.assertEqual(self.guess(day="2026-05-02"), 403)
"""

TEST_COMPARE = '''
"""A pass is valid as a whole or not at all."""

import os
import unittest
from unittest import mock

from foliodesk import config, journal, passes
from foliodesk.messages import Request, Response

ROOM, NAME = "attic", "roof.txt"
PRINTED = "<<room2>>", "<<doc2>>"


class CompareTest(unittest.TestCase):
    def on(self, day):
        patch = mock.patch.dict(os.environ, {"FOLIO_TODAY": day})
        patch.start()
        self.addCleanup(patch.stop)

    def test_no_beginning_is_enough(self):
        wanted = passes.make(ROOM, NAME)
        for length in range(len(wanted)):
            self.assertFalse(passes.valid(ROOM, NAME, wanted[:length]), length)

    def test_nothing_may_follow(self):
        self.assertFalse(passes.valid(ROOM, NAME, passes.make(ROOM, NAME) + "0"))

    def test_compared_in_constant_time(self):
        with mock.patch("hmac.compare_digest", return_value=True) as compare:
            self.assertTrue(passes.valid(ROOM, NAME, "k00"))
        self.assertEqual(compare.call_count, 2)

    def test_not_ascii(self):
        self.assertFalse(passes.valid(ROOM, NAME, "\\u00e9\\u00e9"))

    def test_room_and_name_do_not_run_together(self):
        self.assertNotEqual(passes.make("a", "b:c"), passes.make("a:b", "c"))

    def test_old_pass_until_its_last_day(self):
        self.on(config.get("passes", "v1_until"))
        self.assertTrue(passes.valid(*PRINTED, passes.make_v1(*PRINTED)))
        self.assertFalse(passes.valid(*PRINTED, passes.make_v1(*PRINTED)[:-1]))

    def test_old_pass_of_something_never_printed(self):
        self.on(config.get("passes", "v1_until"))
        self.assertFalse(passes.valid(ROOM, NAME, passes.make_v1(ROOM, NAME)))

    def test_old_pass_after_its_last_day(self):
        self.on("2031-01-01")
        self.assertFalse(passes.valid(*PRINTED, passes.make_v1(*PRINTED)))
        self.assertTrue(passes.valid(*PRINTED, passes.make(*PRINTED)))

    def test_links_keep_their_shape(self):
        self.assertRegex(passes.link(ROOM, NAME), r"^/r/attic/roof\\.txt\\?pass=k[0-9a-f]{<<v2_digits>>}$")


class JournalTest(unittest.TestCase):
    def test_pass_is_shortened(self):
        request = Request.of("/r/attic/roof.txt?pass=0123456789abcdef", reader="reader-test")
        line = journal.line_of(request, Response(200, "ok", b"slate"))
        self.assertIn("pass=0123*", line)
        self.assertNotIn("01234", line)
'''

INSTRUCTIONS = """
# foliodesk

A portal where house communities put documents (minutes, leases, surveys) into rooms and send links to their members.

* `foliodesk/router.py` is the only entry point; the front server hands the path over as it came in.
* `make test` runs the suite (unittest). `tools/knock.py TARGET...` sends requests in this process, no port is opened;
  a `+` before the target adds the right pass.
* Python's standard library only. Experiments go to `scratch/`, which git ignores.
* One commit per repaired finding. Findings are numbered F-1, F-2 and so on, highest severity first.
* Every repair comes with a test that fails without it.
"""

DRAFT = """
# Findings, first draft (instance <<instance>>)

| id | severity | where | what |
|---|---|---|---|
| F-1 | high | foliodesk/router.py, shelf.py | <<served>> of <<spellings>> spellings of a path leave the room; conf/portal.ini is readable |
| F-2 | high | foliodesk/compat.py | one right hex digit is accepted as a pass, at most 16 tries |
| F-3 | medium | foliodesk/bundle.py | an entry of a zip file may overwrite documents of other rooms |
| F-4 | medium | foliodesk/journal.py | whole passes stand in the journal |

Used: yes, by <<bad_reader>>, <<bad_hits>> answers with 200, first on <<bad_first>>.
"""

REPORT = """
# Audit of instance <<instance>>, <<audit_day>>

The notes on sheet <<notes_sheet>> called paths and passes safe. Both were not.

## Findings and repairs

| id | severity | ticket | state | proof |
|---|---|---|---|---|
| F-1 | high | <<t1>> | repaired | <<served>> of <<spellings>> spellings served before, 0 after; tests/test_escape.py |
| F-2 | high | <<t2>> | repaired | passes of <<length>> digits compared by their beginning; now <<v2_digits>> digits, compared whole; tests/test_compare.py |
| F-3 | high | <<t3>> | repaired | bundles are checked as a whole before anything is stored; limit <<bundle_kb>> kB |
| F-4 | medium | <<t4>> | repaired | the journal shows four characters of a pass |
| F-5 | medium | <<t5>> | repaired | <<limit>> refused passes a day, then 429; tests/test_gate.py |

## What happened

<<bad_reader>> guessed first digits on <<bad_first>> and got <<bad_hits>> answers with 200. <<leak_req>> returned
conf/portal.ini (<<leak_bytes>> bytes), and with it the key <<key_id>>. The key was replaced by <<new_key_id>>.

## What remains

Passes of the first kind are accepted until <<v1_until>>, and only for documents that were printed in letters:
<<printed>> links. After that day `make_v1`, `printed` and `v1_key` can go.
"""

TAIL = r"set -o pipefail; make test 2>&1 | grep -E '^(FAIL|ERROR|Ran|FAILED|OK|make)' | sed 's/(test_[a-z]*\.[A-Za-z]*Test\.[a-z_0-9]*)//'"


def draw(r: Recording) -> dict[str, object]:
    rng = r.rng
    rooms = rng.sample(["boilerhouse", "courtyard", "gatehouse", "orchard", "sluice", "tannery", "signalbox"], 4)
    kinds = rng.sample(["minutes", "lease", "survey", "tender", "ledger", "permit", "insurance", "chimney", "heating"], 8)
    day = rng.randrange(11, 29)
    length, rate = rng.choice([9, 10, 11]), rng.randrange(31, 79)
    f: dict[str, object] = {
        "port": rng.randrange(8300, 8990), "instance": f"folio-{rng.randrange(16**4):04x}", "bundle_kb": rng.randrange(1200, 4900),
        "key_id": f"key-{rng.randrange(16**3):03x}", "new_key_id": f"key-{rng.randrange(16**5):05x}", "key": f"{rng.randrange(16**12):012x}",
        "new_key": f"{rng.randrange(16**16):016x}", "length": length, "bits": 4 * length, "rate": rate,
        "years": 16**length // rate // 31_536_000, "valid_days": rng.randrange(70, 140), "keep_days": rng.randrange(190, 390),
        "audit_day": f"2026-05-{day}", "notes_year": 2024, "notes_day": f"2024-{rng.randrange(2, 10):02d}-{rng.randrange(10, 28)}",
        "notes_sheet": f"QS-{rng.randrange(1100, 9900)}", "v2_digits": rng.choice([28, 32, 36]),
        "bad_reader": f"reader-{rng.randrange(16**5):05x}", "until30": f"2026-06-{day - 1:02d}", "v1_until": f"2026-06-{day - 10:02d}",
        "rooms": rooms, "kinds": kinds,
    }  # fmt: skip
    tickets = rng.sample(range(2000, 9000), 5)
    f |= {f"t{n}": f"FD-{number}" for n, number in enumerate(sorted(tickets), 1)}
    documents = {room: [f"{kind}-{rng.randrange(1000, 9999)}.txt" for kind in rng.sample(kinds, 6)] for room in rooms}
    f["documents"] = documents
    f |= {f"room{n}": room for n, room in enumerate(rooms)} | {f"doc{n}": documents[room][0] for n, room in enumerate(rooms)}
    return f


def v1_pass(f: dict[str, object], room: str, name: str) -> str:
    return hashlib.sha1(f"local-only-{f['key']}:{room}:{name}".encode()).hexdigest()[: int(str(f["length"]))]


def journals(r: Recording, f: dict[str, object], sizes: dict[tuple[str, str], int]) -> None:
    """Two months of requests; one reader guesses first digits and walks out of a room."""
    rng = r.rng
    readers = [f"reader-{rng.randrange(16**5):05x}" for _ in range(9)]
    documents = list(sizes)
    attack: list[tuple[str, str, str, int, int]] = []
    ini = (r.root / "conf/portal.ini").stat().st_size
    room0, room1 = str(f["room0"]), str(f["room1"])
    out = [n for (room, n) in documents if room == room1]
    targets = [(f"{room0}/{f['doc0']}", str(f["doc0"]), sizes[room0, str(f["doc0"])]),
               *((f"{room0}/%2e%2e/{room1}/{n}", f"../{room1}/{n}", sizes[room1, n]) for n in out[:3]),
               (f"{room0}/%2e%2e/%2e%2e/%2e%2e/conf/portal.ini", "../../../conf/portal.ini", ini)]  # fmt: skip
    for path, name, size in targets:
        wanted = v1_pass(f, room0, name)[0]
        for digit in "0123456789abcdef":
            good = digit == wanted
            attack.append((str(f["bad_reader"]), f"/r/{path}", digit, 200 if good else 403, size if good else 0))
            if good:
                break
    for month, count in (("2026-03", 150), ("2026-04", 170)):
        rows = []
        for n in range(count):
            room, name = rng.choice(documents)
            stamp = (
                f"{month}-{1 + n * 28 // count:02d}T{rng.randrange(6, 22):02d}:{rng.randrange(60):02d}:{rng.randrange(60):02d}"
            )
            given, status = v1_pass(f, room, name), 200
            if rng.random() < 0.06:
                given, status = given[::-1], 403
            elif rng.random() < 0.05:
                name, status = name.replace(".txt", ".pdf"), 404
                given = v1_pass(f, room, name)
            rows.append(
                (stamp, rng.choice(readers), f"/r/{room}/{name}", given, status, sizes[room, name] if status == 200 else 0)
            )
        if month == "2026-04":
            start = rng.randrange(9, 24)
            for n, row in enumerate(attack):
                rows.append((f"{month}-{start:02d}T23:{n // 3 + 10:02d}:{rng.randrange(n % 3 * 20, n % 3 * 20 + 20):02d}", *row))
            f["bad_first"] = f"{month}-{start:02d}"
        lines = []
        for stamp, reader, path, given, status, size in sorted(rows):
            mark = hashlib.sha1(f"{stamp}{path}{given}{f['instance']}".encode()).hexdigest()[:6]
            lines.append(f"{stamp} req-{mark} {reader} GET {path}?pass={given} {status} bytes={size}")
            if path.endswith("portal.ini") and status == 200:
                f |= {"leak_req": f"req-{mark}", "leak_bytes": size}
        r.file(f"var/journal/{month}.log", "\n".join(lines) + "\n")


def build(r: Recording, f: dict[str, object]) -> None:
    rng = r.rng
    for path, text in {
        "conf/portal.ini": INI, "foliodesk/config.py": CONFIG, "foliodesk/messages.py": MESSAGES, "foliodesk/router.py": ROUTER,
        "foliodesk/shelf.py": SHELF, "foliodesk/bundle.py": BUNDLE, "foliodesk/passes.py": PASSES, "foliodesk/compat.py": COMPAT,
        "foliodesk/journal.py": JOURNAL, "tools/knock.py": KNOCK, "tools/links.py": TOOL_LINKS, "tools/stocktake.py": STOCKTAKE, "docs/security-notes.txt": NOTES,
        "Makefile": MAKEFILE, "tests/test_router.py": TEST_ROUTER, "tests/test_odds.py": TEST_ODDS, "AGENTS.md": INSTRUCTIONS,
        ".gitignore": "__pycache__/\nscratch/\n",
    }.items():  # fmt: skip
        r.file(path, put(text, f))
    version = f"2.{rng.randrange(14, 60)}.{rng.randrange(1, 9)}"
    major, minor, _ = version.split(".")
    f |= {"version": version, "next_version": f"{major}.{int(minor) + 1}.0"}
    r.file("foliodesk/__init__.py", f'VERSION = "{version}"\n')
    sizes = {}
    documents: dict[str, list[str]] = f["documents"]  # type: ignore[assignment]
    for room, names in documents.items():
        for name in names:
            lines = [f"{name.split('-')[0]} {room}, sheet {rng.randrange(10**5, 10**6)}"]
            lines += [
                f"item {rng.randrange(1000, 9999)}: {rng.randrange(10_000, 99_999) / 100:.2f}"
                for _ in range(rng.randrange(20, 90))
            ]
            r.file(f"var/shelves/{room}/{name}", "\n".join(lines) + "\n")
            sizes[room, name] = len("\n".join(lines)) + 1
    rows = ["letter,room,document,copies"]
    for room, names in documents.items():
        rows += [f"L-{rng.randrange(10_000, 99_999)},{room},{name},{rng.randrange(11, 140)}" for name in sorted(names[:3] * 2)]
    r.file("var/letters.csv", "\n".join(rows) + "\n")
    journals(r, f, sizes)
    r.run("git init -q && git add -A && git commit -qm 'Portal as deployed'")


def value(output: str, name: str) -> str:
    found = re.search(rf"(?<![\w-]){re.escape(name)}[:=] ?(\S+)", output)
    if not found:
        raise RuntimeError(f"security_fix: no {name!r} in\n{output}")
    return found[1]


def play(r: Recording) -> None:
    f = draw(r)
    build(r, f)
    r.system(
        "You work as a security-minded engineer on a checkout of foliodesk, in a terminal without network. Your tools run shell "
        "commands and read, write, edit and search files; a todo list is there for longer work. Everything you try is done "
        "against this local copy only, in process, with made-up documents. Separate what you have seen from what you suspect, "
        "say how sure you are, and give the numbers. Be brief towards the user."
    )
    r.instructions(INSTRUCTIONS)

    work = ["Read everything between a request and the disk", "Try path spellings", "Try the comparison of passes", "Try bundles",
            "Look for traces in the journals", "Write the findings down"]  # fmt: skip

    def todo(items: list[str], done: int):
        return r.todo(
            *((item, "completed" if n < done else "in_progress" if n == done else "pending") for n, item in enumerate(items))
        )

    # --- the audit ------------------------------------------------------------------------------------------
    r.user(
        f"A member of one of our house communities says he could read a document of another room on {f['instance']}. Audit how the "
        "portal turns a link into a file, and how it checks passes. Look only, for now: no change of code before I have seen the findings."
    )
    r.agent("I begin with the layout and then follow a request from the entry point to the disk.",
            todo(work, 0), r.bash("git ls-files | grep -v '^var/' && find var -type f | sort | xargs wc -c && python -c 'import foliodesk; print(\"version:\", foliodesk.VERSION)'"))  # fmt: skip
    r.agent("", r.read("foliodesk/messages.py"), r.read("foliodesk/router.py"), r.read("foliodesk/shelf.py"))
    wrong = "a path with two dots never reaches the shelf, so I expect the weakness in the passes and not in the paths"
    r.agent(
        "`shelf.path_of` joins whatever it is given, without any check of its own. But `router.answer` refuses every path that contains "
        f"`..` in its first line. On this reading {wrong}. Now the passes.",
        r.read("foliodesk/passes.py"), r.read("foliodesk/compat.py"), r.read("foliodesk/config.py"),
    )  # fmt: skip
    r.agent(
        "`compat.same` walks over the two strings with `zip`, which ends with the shorter one: the comment says that this is on purpose, so "
        "that a link cut off by a line break still works. It also leaves the loop at the first difference. I read what else writes to the disk.",
        r.read("foliodesk/bundle.py"), r.read("foliodesk/journal.py"), r.read("conf/portal.ini"),
    )  # fmt: skip
    r.agent("", r.bash("make test"), r.read("tests/test_router.py"))
    r.agent("The suite passes and tests plain dots only. There should be something written about the threats.",
            r.read("docs/threat-model.md"), r.bash("ls docs tools tests && wc -w docs/*"))  # fmt: skip
    r.agent("No such file; the notes are called differently.", r.read("docs/security-notes.txt"), r.read("tools/knock.py"))
    doc0, doc1, room0, room1 = (str(f[key]) for key in ("doc0", "doc1", "room0", "room1"))
    r.agent(
        "The notes trust the dots check and the length of the passes. I test the first of the two: a normal link, plain dots, and dots "
        "in percent form, each with the right pass for what it asks.",
        r.bash(f"python tools/knock.py +/r/{room0}/{doc0} '+/r/{room0}/../{room1}/{doc1}' '+/r/{room0}/%2e%2e/{room1}/{doc1}' "
               f"'+/r/{room0}/%2e%2e/{room1}/none.txt' /r/{room0}/{doc0}"),
        todo(work, 2),
    )  # fmt: skip
    corrected = "My reading of the router was wrong: the check sees the raw path, and the handler decodes it afterwards"
    variants = r.agent(
        f"The third request is served, with a document of another room. {corrected}, and even a second time before the shelf. The answer "
        "for a missing file also names the full path on the disk. I try more spellings systematically.",
        r.write("scratch/variants.py", put(VARIANTS, f)), r.bash("python scratch/variants.py"),
    )[1]  # fmt: skip
    r.truth.belief(wrong=wrong, corrected=corrected)
    f |= {"served": value(variants, "served"), "spellings": value(variants, "spellings")}
    r.agent(
        f"{f['served']} of {f['spellings']} spellings are served, among them the configuration with the key, and one ends in an exception "
        "that nobody catches. An attacker needs a valid pass for the odd name, though, so the passes decide how bad this is. I count "
        "compared characters instead of measuring time, that is exact and the same on every machine.",
        r.write("scratch/compare_steps.py", put(STEPS, f)), r.bash("python scratch/compare_steps.py"),
    )  # fmt: skip
    r.agent(
        "That is the worse half: one right digit is a pass. At most 16 tries open any document, the notes' estimate of "
        f"{f['years']} years is void, and the two weaknesses combine. Last the bundles, on a copy of the shelves below scratch/.",
        r.bash(f"mkdir -p scratch && cp -r var/shelves scratch/shelves && FOLIO_SHELVES=scratch/shelves python - <<'END'\n"
               "import hashlib, io, zipfile\nfrom foliodesk import bundle, shelf\n"
               f"def digest():\n    return hashlib.md5(shelf.read('{room1}', '{doc1}')).hexdigest()[:10]\n"
               "print('before:', digest())\nbuffer = io.BytesIO()\nwith zipfile.ZipFile(buffer, 'w') as archive:\n"
               f"    archive.writestr('../{room1}/{doc1}', 'planted')\n"
               f"print('stored:', bundle.unpack('{room0}', buffer.getvalue()), 'bundle-bytes:', len(buffer.getvalue()))\n"
               "print('after:', digest())\nEND"),
        r.bash("grep -n 'max_bundle_kb' -r foliodesk conf | sort; diff -rq var/shelves scratch/shelves"),
    )  # fmt: skip
    r.agent(
        f"Three ways, all seen working on the local copy. (1) Paths leave their room in {f['served']} of {f['spellings']} spellings. (2) Passes "
        "are compared by their beginning, one digit is enough. (3) A bundle from one room overwrites a document of another; the limit "
        "max_bundle_kb is not used anywhere. Also, the journal writes whole passes. I have changed nothing below foliodesk/. Shall I look "
        "whether somebody used this?"
    )
    r.user(
        "Yes, please do; the journals of March and April are in var/journal. Mind that your report goes to the house communities: never "
        "put a whole pass into anything you write, the first four characters are enough."
    )
    r.agent(
        "First the size of it and the distribution of statuses, then short passes and encoded dots.",
        r.bash("wc -lc var/journal/*.log && for m in var/journal/*.log; do awk -v m=$m '{n[$6]++; split($7, b, \"=\"); s+=b[2]} END "
               "{for (k in n) print m, \"status=\" k, \"requests=\" n[k]; print m, \"bytes-sent=\" s}' $m | sort; done"),
        r.bash("head -12 var/journal/2026-03.log | cut -d' ' -f1-4,6-; awk '{split($5, p, \"[/?]\"); k=p[3]; n[k]++; split($7, b, \"=\"); "
               "s[k]+=b[2]; if ($6!=200) bad[k]++} END {for (k in n) print \"room=\" k, \"requests=\" n[k], \"not-200=\" bad[k]+0, "
               "\"bytes=\" s[k]}' var/journal/*.log | sort"),
        r.bash("awk '{p=$5; sub(/.*pass=/, \"\", p); if (length(p) < " + str(f["length"]) + " || $5 ~ /%2e/) {n[$3]++; if ($6==200) ok[$3]++}} END "
               "{for (k in n) print k, \"odd-requests=\" n[k], \"served=\" ok[k]+0}' var/journal/*.log | sort"),
    )  # fmt: skip
    traces = r.agent(
        "All odd requests come from one reader. What was served to him, and the whole of his guessing:",
        r.bash(f"grep -h {f['bad_reader']} var/journal/*.log | grep ' 200 '"),
        r.bash(f"grep -h {f['bad_reader']} var/journal/2026-04.log | grep ' 403 ' | cut -d' ' -f1,2,5,6"),
    )  # fmt: skip
    f["bad_hits"] = traces[0].count(" 200 ")
    exposed = [n for n in f["documents"][room1][:3]]  # type: ignore[index]
    r.agent(
        f"He guessed first digits, {f['bad_hits']} times with success, and the fifth answer is what matters most: {f['leak_req']} sent "
        f"conf/portal.ini, {f['leak_bytes']} bytes, so the key {f['key_id']} is known outside. With it any pass can be computed, "
        "whatever we do about the comparison. For the communities I take the sums of the exposed documents.",
        r.bash(f"cd var/shelves/{room1} && sha256sum {' '.join(exposed)} | cut -c1-20,65- && head -19 {exposed[1]} && tail -5 {exposed[2]}"),
        todo(work, 5),
    )  # fmt: skip
    r.agent(
        "", r.write("docs/findings-draft.md", put(DRAFT, f)), r.bash("cat docs/findings-draft.md | wc -c; git status --short")
    )
    r.agent(
        "The draft is in docs/findings-draft.md, four findings. F-1 and F-2 are high because they combine and have been used. I would "
        "repair in that order and replace the key together with F-2."
    )

    # --- paths ----------------------------------------------------------------------------------------------
    r.user(
        f"Clear enough, go ahead. F-3 is high too in my eyes, an owner can plant things. Tickets are {f['t1']}, {f['t2']}, {f['t3']} and {f['t4']} in "
        "that order. What lies in var/shelves belongs to the members, so nothing you do may change a file there."
    )
    r.truth.update("severity of F-3", "| F-3 | medium |", "| F-3 | high |")
    repair = [
        "Tests that show the escapes",
        "F-1 paths",
        "F-3 bundles",
        "F-2 passes and key",
        "F-4 journal",
        "Notes, version, report",
    ]
    r.agent(
        "I correct F-3 in the draft, take stock of the shelves, and write the tests of F-1 and F-3 before the repair.",
        r.bash("sed -i 's/^| F-3 | medium |/| F-3 | high |/' docs/findings-draft.md && grep -n 'F-3' docs/findings-draft.md && python tools/stocktake.py && find var/shelves -type f | sort | xargs cat | sha256sum | cut -c1-32"),
        r.write("tests/test_escape.py", put(TEST_ESCAPE, f)),
        todo(repair, 0),
    )  # fmt: skip
    r.agent("", r.bash(TAIL))
    chosen, refused = (
        "resolve the path and ask whether it lies inside of the resolved room",
        "a longer list of forbidden spellings in the router",
    )
    because = "every decoder and every link on the disk adds spellings that nobody thought of"
    r.agent(
        f"The escapes are now red tests. For F-1 I {chosen}. I decided against {refused}: {because}. The room has to be one folder directly "
        "below the shelves.",
        r.write("foliodesk/shelf.py", put(NEW_SHELF, f)),
        r.edit("foliodesk/router.py", "    except OSError as error:\n        return Response(404, f\"not on the shelf: {error}\")\n", "    except (OSError, shelf.OutsideRoom):\n        return Response(404, \"not on the shelf\")\n"),
        r.edit("foliodesk/router.py", "shelf.read(room, unquote(name))", "shelf.read(room, name)"),
    )  # fmt: skip
    r.truth.decision(chosen=chosen, rejected=refused, reason=because)
    r.agent("I quoted the line from memory; the f-string says `error.filename`.",
            r.edit("foliodesk/router.py", "    except OSError as error:\n        return Response(404, f\"not on the shelf: {error.filename}\")\n",
                   "    except (OSError, shelf.OutsideRoom):\n        return Response(404, \"not on the shelf\")\n"),
            r.bash(TAIL + " | head -20"))  # fmt: skip
    after = r.agent("What is left belongs to the bundles. The spellings once more; their script has earned a place in tools/ by now.",
                    r.bash("mv scratch/variants.py tools/ && python tools/variants.py"),
                    r.bash(f"python tools/knock.py '+/r/{room0}/%2e%2e/{room1}/{doc1}' '+/r/{f['room2']}/{f['doc2']}' '+/r/{f['room3']}/gone.txt'"))[0]  # fmt: skip
    if value(after, "served") != "0":
        raise RuntimeError("security_fix: a spelling is still served")
    r.agent(
        "None is served any more, ordinary links are, and a missing document does not tell the path. Now F-3: all entries are checked before "
        "the first one is stored, otherwise half of a bad bundle stays behind, and the limit in the configuration gets used.",
        r.write("foliodesk/bundle.py", put(NEW_BUNDLE, f)), r.bash("make test"),
    )  # fmt: skip
    r.agent("The router has to answer for a refused bundle, too. An uncaught exception would be an error 500 at the front server.",
            r.edit("foliodesk/router.py", '        return Response(201, f"stored {bundle.unpack(room, request.body)}")\n',
                   '        try:\n            return Response(201, f"stored {bundle.unpack(room, request.body)}")\n'
                   '        except (bundle.TooLarge, bundle.zipfile.BadZipFile, shelf.OutsideRoom) as error:\n'
                   '            return Response(422, f"bundle refused: {error}")\n'),
            r.bash(f"cat > scratch/post.py <<'END'\nimport os\nos.environ.update(FOLIO_JOURNAL='scratch/post.log', FOLIO_SHELVES='scratch/shelves')\n"
                   "from foliodesk import passes, router\nfrom foliodesk.messages import Request\n"
                   f"target = '/r/{room0}/_bundle?pass=' + passes.make('{room0}', '_bundle')\n"
                   "answer = router.handle(Request.of(target, 'POST', b'no zip at all'))\nprint('status:', answer.status, 'reason:', answer.reason)\nEND\n"
                   "PYTHONPATH=. python scratch/post.py"))  # fmt: skip
    r.agent("", r.bash("make test && git add -A && git reset -q docs/findings-draft.md foliodesk/bundle.py && "
                       f"git commit -qm 'F-1: Resolve paths before they are opened ({f['t1']})' && git add foliodesk/bundle.py && "
                       f"git commit -qm 'F-3: Check a bundle before storing it ({f['t3']})' && git log --format='%h %s' -2 && "
                       "git show HEAD~1 --format= -- foliodesk/router.py foliodesk/shelf.py | grep -v '^index'"), todo(repair, 3))  # fmt: skip

    # --- passes ---------------------------------------------------------------------------------------------
    r.user(
        "Before you touch the passes: a lot of paper letters carry links of the form /r/ROOM/DOCUMENT?pass=PASS. The shape of "
        "a link must stay exactly as it is. How many are out there, and what do you propose for them?"
    )
    links = r.agent("", r.bash("make links"), r.bash("cat var/letters.csv"))[0]
    f["printed"] = value(links, "printed-links-total")
    keep, revoke = (
        "honour whole passes of the first kind for a while, only for documents that were printed",
        "void all old passes at once",
    )
    why = f"it would break {f['printed']} printed links on one day"
    r.agent(
        f"{f['printed']} links in print. I propose passes of a second kind: HMAC-SHA256, {f['v2_digits']} hex digits after a `k`, compared as a whole in "
        f"constant time. For the letters: {keep}. The alternative, to {revoke}, is safer, but {why}. Since {f['key_id']} is known "
        "outside, old passes of documents that were never printed must not count. For how many days?"
    )
    r.truth.decision(chosen=keep, rejected=revoke, reason=why)
    r.user(
        f"I follow you. Take 30 days from the audit, so until {f['until30']}. I have laid the new key, {f['new_key_id']}, into conf/pass.key on "
        "this machine. It must not be printed and not get into git, not even into a test."
    )
    r.file("conf/pass.key", f"local-only-{f['new_key']}\n")
    r.agent(
        "Then the file goes into .gitignore first. After that the tests of F-2.",
        r.bash("echo conf/pass.key >> .gitignore && git check-ignore -v conf/pass.key && wc -c < conf/pass.key"),
        r.write("tests/test_compare.py", put(TEST_COMPARE, f)),
        r.bash(TAIL),
    )  # fmt: skip
    r.agent(
        "Red, as it should be. Now the module, the configuration and the end of compat.py, which has no other user.",
        r.grep("compat", "foliodesk"),
        r.write("foliodesk/passes.py", put(NEW_PASSES, f)),
        r.bash(f"sed -i 's/^key_id = .*/key_id = {f['new_key_id']}/; s/^key = /v1_key = /; /^v1_key/a key_file = conf/pass.key\\nv1_until = {f['until30']}' conf/portal.ini && "
               "git rm -q foliodesk/compat.py && git diff --stat HEAD && sed -n '/passes/,$p' conf/portal.ini | grep -v v1_key"),
    )  # fmt: skip
    r.agent("", r.bash(TAIL))
    r.agent(
        "The journal's test waits for F-4. The other failure is the old expectation of the length; it should speak of the second kind now. "
        "tests/test_odds.py is about bundles and passes, I leave its name for later.",
        r.read("tests/test_odds.py", 36, 10),
        r.edit("tests/test_odds.py", f'self.assertEqual(len(passes.make("attic", "a.txt")), {f["length"]})',
               f'self.assertEqual(len(passes.make("attic", "a.txt")), 1 + {f["v2_digits"]})'),
    )  # fmt: skip
    r.user(
        f"Correction from the board: 30 days is too long now that the key is out. Make it ten days less, {f['v1_until']} is the last day. The "
        "letters of spring were meant for the meeting on the ninth anyway."
    )
    r.truth.update("last day of old passes", f"v1_until = {f['until30']}", f"v1_until = {f['v1_until']}")
    room2, doc2 = str(f["room2"]), str(f["doc2"])
    old2 = v1_pass(f, room2, doc2)
    r.agent(
        "A single line in the configuration, the tests read it from there. I check three days with a printed link of the first kind; the pass is "
        "computed inside, so that it does not show.",
        r.edit("conf/portal.ini", f"v1_until = {f['until30']}", f"v1_until = {f['v1_until']}"),
        r.bash(f"for day in {f['audit_day']} {f['v1_until']} {f['until30']}; do FOLIO_TODAY=$day FOLIO_JOURNAL=scratch/days.log python - <<'END'\n"
               "from foliodesk import config, passes, router\nfrom foliodesk.messages import Request\n"
               f"for room, name in (('{room2}', '{doc2}'), ('{room1}', '{f['documents'][room1][3]}')):\n"  # type: ignore[index]
               "    old = router.handle(Request.of(f'/r/{room}/{name}?pass={passes.make_v1(room, name)}'))\n"
               "    new = router.handle(Request.of(passes.link(room, name)))\n"
               "    print(f'day={config.today()} document={name} printed={passes.printed(room, name)} v1={old.status} v2={new.status}')\nEND\ndone"),
    )  # fmt: skip
    if old2 in "".join(m.text for m in r.messages if m.role == "assistant"):
        raise RuntimeError("security_fix: the agent wrote a whole pass")
    r.agent("As intended: until the last day only for printed documents, afterwards never. Is the measuring tool still of use?",
            r.bash("set -o pipefail; python scratch/compare_steps.py 2>&1 | tail -1"), r.bash("python tools/knock.py +/r/" + f"{room0}/{doc0} '/r/{room0}/{doc0}?pass=k' '/r/{room0}/{doc0}?pass=%C3%A9'"))  # fmt: skip
    r.agent(
        "No: it measured compat.py, which is gone, and what it showed is a test now. I delete it and commit F-2.",
        r.bash("rm scratch/compare_steps.py && git add -A && git reset -q docs/findings-draft.md && "
               f"git commit -qm 'F-2: Compare passes as a whole, second kind with a new key ({f['t2']})' && git show --stat --format='%h %s' HEAD && git ls-files conf && "
               "git show HEAD --format= -- foliodesk/passes.py | grep '^[-+]'"),
        todo(repair, 4),
    )  # fmt: skip

    replay = r.agent(
        "Before I go on I want to know whom the change hurts. The journals can be played again: each request with the date of its day, "
        "against the portal as it is now.",
        r.write("tools/replay.py", put(REPLAY, f)), r.bash("python tools/replay.py"),
    )[1]  # fmt: skip
    lost, lost_documents = value(replay, "lost-requests"), value(replay, "lost-documents")
    r.agent(
        f"{lost} requests of two months would now be refused, to {lost_documents} documents whose links were handed out on screen and never "
        "printed. Their readers need a fresh link from the room's owner. Everything that carried a printed link is served as before, and the "
        "guesses are refused throughout. I think that price is right, but the communities should be told."
    )

    # --- journal, notes, report -----------------------------------------------------------------------------
    r.user(
        "Next F-4. The portal should write shortened passes from now on. The journals of March and April stay as they are, the insurer "
        "wants to see them unaltered. And could you tell me which other readers used a pass that did not fit?"
    )
    r.agent(
        "I split the formatting from the writing, so that it can be tested without a file.",
        r.edit("foliodesk/journal.py", "def note(request, response):\n    stamp", "def line_of(request, response):\n    stamp"),
        r.edit("foliodesk/journal.py", '    query = "&".join(f"{key}={value}" for key, value in request.query.items())\n',
               '    query = "&".join(f"{key}={shown(key, value)}" for key, value in request.query.items())\n'),
        r.edit("foliodesk/journal.py", '    line += f"{response.status} bytes={len(response.body)}"\n',
               '    return line + f"{response.status} bytes={len(response.body)}"\n\n\n'
               'def shown(key, value):\n    """A pass may not be read off the journal."""\n    return value[:4] + "*" if key == "pass" else value\n\n\n'
               'def note(request, response):\n'),
        r.edit("foliodesk/journal.py", 'file.write(line + "\\n")', 'file.write(line_of(request, response) + "\\n")'),
    )  # fmt: skip
    r.agent("", r.bash("make test"),
            r.bash("grep -h ' 403 ' var/journal/*.log | grep -v " + str(f["bad_reader"]) + " | awk '{p=$5; sub(/.*pass=/, \"\", p); sub(/[?].*/, \"\", $5); "
                   "print $1, $2, $3, $5, \"pass=\" substr(p, 1, 4) \"*\"}'"))  # fmt: skip
    r.agent(
        "The suite is green. The refused passes of the others are whole passes that do not fit, one at a time and on different days, which "
        "looks like mistyped letters; I see no second attacker, though two months of journals cannot prove it. One line of the new "
        "journal, and the commit:",
        r.bash("tail -2 scratch/knock.log | cut -c1-70; rm scratch/knock.log; python tools/knock.py +/r/" + f"{f['room3']}/{f['doc3']} && cat scratch/knock.log"),
        r.bash(f"git add -A && git reset -q docs/findings-draft.md && git commit -qm 'F-4: Shorten passes in the journal ({f['t4']})' && git log --format='%h %t %s'"),
        todo(repair, 5),
    )  # fmt: skip
    r.user(
        "Agreed, I will write to the owners. One more finding, F-5: nobody stopped him while he was guessing. Put a limit on refused "
        "passes, but choose it so that nobody who mistypes a letter is locked out."
    )
    refusals = r.agent(
        "What honest readers need can be read off the journals: refusals per reader and day, highest first.",
        r.bash("grep -h ' 403 ' var/journal/*.log | awk '{n[$3 \" day=\" substr($1, 1, 10)]++} END {for (k in n) print \"refused=\" n[k], "
               "\"reader=\" k}' | sort -t= -k2,2nr -k3 | head -9"),
        r.bash("grep -h ' 403 ' var/journal/*.log | cut -d' ' -f3 | sort | uniq -c | sort -k1,1nr -k2 | awk '{print \"reader=\" $2, "
               "\"refused-in-two-months=\" $1}'"),
    )[0]  # fmt: skip
    most = max(int(found[1]) for found in re.finditer(r"refused=(\d+) reader=(\S+)", refusals) if found[2] != f["bad_reader"])
    per_day, per_document = "count per reader and day", "counting per document"
    moves = "he went from one document to the next and started afresh each time"
    r.agent(
        f"Honest readers are refused a few times in two months and never more than {most} on one day, so a limit of 5 a day leaves room. I will {per_day}; "
        f"{per_document} was the other idea, but {moves}. The answer beyond the limit is 429, before the pass is looked at.",
        r.write("foliodesk/gate.py", put(GATE, f)), r.write("tests/test_gate.py", put(TEST_GATE, f)),
        r.bash("sed -i '/^valid_days/a refusals_per_day = 5' conf/portal.ini && tail -3 conf/portal.ini && " + TAIL),
    )  # fmt: skip
    r.truth.decision(chosen=per_day, rejected=per_document, reason=moves)
    r.agent("Two of the three fail as long as the router does not use it.",
            r.edit("foliodesk/router.py", "from foliodesk import bundle, journal,", "from foliodesk import bundle, gate, journal,"),
            r.edit("foliodesk/router.py", '    if not passes.valid(room, name, request.query.get("pass", "")):\n',
                   '    if gate.closed(request.reader):\n        return Response(429, "too many refused passes")\n'
                   '    if not passes.valid(room, name, request.query.get("pass", "")):\n        gate.count(request.reader)\n'),
            r.bash("make test"),
            r.bash(f"rm -f scratch/replay.log; python tools/replay.py | grep -v lost: && grep {f['bad_reader']} scratch/replay.log | cut -d' ' -f6 | sort | uniq -c"))  # fmt: skip
    limit = f["limit"] = r.rng.choice([7, 8, 9])
    r.user(
        f"The front desk has a shared terminal where several members type their letters in. Five is too tight for that, make it {limit}. "
        f"The ticket for F-5 is {f['t5']}."
    )
    r.truth.update("refused passes per day", "refusals_per_day = 5", f"refusals_per_day = {limit}")
    r.agent("",
            r.edit("conf/portal.ini", "refusals_per_day = 5", f"refusals_per_day = {limit}"),
            r.bash("make test && python tools/replay.py | grep 'now=429' && git add -A && git reset -q docs/findings-draft.md && "
                   f"git commit -qm 'F-5: Limit refused passes per reader and day ({f['t5']})' && git show --stat --format='%h %s' HEAD"))  # fmt: skip
    r.user(
        f"Some housekeeping before the report: turn the old notes into docs/security.md and correct what they claim, give test_odds a proper "
        f"name, and set the version to {f['next_version']}."
    )
    r.truth.update("version", str(f["version"]), str(f["next_version"]))
    r.agent("", r.bash("git mv docs/security-notes.txt docs/security.md && git mv tests/test_odds.py tests/test_bundle_and_pass.py && ls docs tests"),
            r.edit("foliodesk/__init__.py", f"\"{f['version']}\"", f"\"{f['next_version']}\""))  # fmt: skip
    r.agent(
        "Then the text of the notes: points 1 to 3 claim what the audit disproved.",
        r.write("docs/security.md", put("""
# Security notes

1. Paths: `shelf.path_of` resolves every name and refuses what lies outside of its room. The check for dots in the router is a courtesy.
2. Passes: `k` and <<v2_digits>> hex digits of an HMAC-SHA256, compared as a whole. The key lies in conf/pass.key, outside of git.
3. Bundles: all entries are checked before one is stored; at most <<bundle_kb>> kB unpacked.
4. The journal shows four characters of a pass and is kept for <<keep_days>> days.
5. Passes of the first kind end on <<v1_until>>.
6. After <<limit>> refused passes a reader gets 429 until the next day.
""", f)),
        r.bash("make test && sed -n 's/class \\(.*\\):/\\1/p' tests/*.py | sort && git diff --stat HEAD"),
    )  # fmt: skip
    r.user(
        "Good. Last thing: the final docs/audit-report.md for the communities, from your draft, and remove the draft. Say what was read, "
        "by whom as far as we know it, and what is left. Run your spellings once more against the state you commit."
    )
    r.agent(
        "I take the numbers from the audit as they were measured before the repair.",
        r.write("docs/audit-report.md", put(REPORT, f)),
        r.bash("rm docs/findings-draft.md && python tools/variants.py | awk '{print $2}' | sort | uniq -c"),
        r.bash("find var/shelves -type f | sort | xargs cat | sha256sum | cut -c1-32; git status --short var conf; grep -cE 'pass=[0-9a-f]{5}' docs/audit-report.md || true"),
    )  # fmt: skip
    r.agent("The shelves have the same sum as before, no pass stands in the report, and no spelling is served.",
            r.bash(f"set -o pipefail; make test 2>&1 | tail -3 && git add -A && git commit -qm 'Audit report, notes and version {f['next_version']}' && git show --stat --format='%h %s' HEAD && git ls-files | grep -c pass.key || true"),
            todo(repair, 6))  # fmt: skip
    r.agent(
        f"Done. F-1 to F-4 ({f['t1']}, {f['t2']}, {f['t3']}, {f['t4']}) are repaired, each with a test. {f['bad_reader']} read {f['bad_hits']} files on {f['bad_first']}, "
        f"three of them from the room {room1}, and with {f['leak_req']} the old key {f['key_id']}; it opens only printed documents now, and nothing after {f['v1_until']}. "
        f"What I would do next: tell the members of {room1}, restart the portal on port {f['port']} so that it reads the new key, and look at the "
        f"journals again in a week; after {limit} wrong passes a reader gets 429 (F-5, {f['t5']}), which is easy to search for."
    )

    r.truth.constraint("no change of code before I have seen the findings")
    r.truth.constraint("never put a whole pass into anything you write, the first four characters are enough")
    r.truth.constraint("What lies in var/shelves belongs to the members, so nothing you do may change a file there")
    r.truth.constraint("The shape of a link must stay exactly as it is")
    r.truth.constraint("It must not be printed and not get into git, not even into a test")
    r.truth.constraint("The journals of March and April stay as they are")
    names = ("instance", "port", "key_id", "new_key_id", "notes_sheet", "bad_reader", "leak_req", "printed", "bundle_kb", "version",
             "next_version", "t1", "t2", "t3", "t4", "t5", "doc0", "doc1", "doc2", "doc3", "until30", "v1_until", "years", "keep_days")  # fmt: skip
    r.truth.fact(*(str(f[name]) for name in names))
    for name in ("notes_sheet", "leak_req", "bad_reader", "key_id", "port", "bundle_kb", "keep_days"):
        r.truth.later(str(f[name]))
