"""The pages of a telescope control toolkit are made to agree with their links, their examples and the telescope."""

from __future__ import annotations

import re
from textwrap import dedent

TITLE = "Getting the observers' handbook right before it is printed"
PROJECT = "ocella-toolkit"

# --- the toolkit --------------------------------------------------------------------------------------------------------

OPTIONS = '''
"""Every option of the toolkit: key, value, unit, meaning. docs/reference/options.md is made from this table."""

TABLE = [
    ("dome.port", @PORT@, "", "TCP port of the dome controller"),
    ("dome.slit_s", @SLIT@, "s", "time to open the slit"),
    ("mount.slew_limit", @SLEW@, "deg/s", "fastest slew"),
    ("mount.horizon", @HORIZON@, "deg", "lowest altitude"),
    ("mount.park_alt", @PARKALT@, "deg", "altitude when parked"),
    ("mount.park_az", @PARKAZ@, "deg", "azimuth when parked"),
    ("weather.wind_close", @WIND@, "m/s", "mean wind that closes the dome"),
    ("weather.dew_margin", @DEW@, "K", "air above dew point, at least"),
    ("filters.settle_ms", @SETTLE@, "ms", "wait after a filter change"),
]


def get(key):
    return next(row[1] for row in TABLE if row[0] == key)
'''

ENCODER = '''
"""Encoder counts of the polar axis."""

LINES = 4096
GEAR_RATIO = @OLDGEAR@


def counts(degrees):
    """Counts for a turn by so many degrees; four edges a line."""
    return round(degrees * LINES * 4 * GEAR_RATIO / 360, 2)
'''

MOUNT = '''
from ocella.options import get


def reachable(altitude):
    return altitude >= get("mount.horizon")


def slew_seconds(start, end):
    """Shortest time from one azimuth to another, without ramps."""
    return round(abs(end - start) / get("mount.slew_limit"), 1)
'''

FILTERS = '''
"""Focus offsets of the wheel, in micrometres against the clear slot."""

OFFSETS = {"clear": 0, "B": @FB@, "V": @FV@, "R": @FR@, "Ha": @FHA@}


def focus(start, name):
    return start + OFFSETS[name]
'''

LINKS_TOOL = '''
"""Follow every link of the pages: python tools/check_links.py [PAGE ...]"""

import re
import sys
from pathlib import Path


def anchors(page):
    heads = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^a-z0-9_ -]", "", head.lower()).replace(" ", "-") for head in heads}


pages = [Path(p) for p in sys.argv[1:]] or sorted(Path("docs").rglob("*.md"))
checked = broken = 0
for page in pages:
    for number, line in enumerate(page.read_text().splitlines(), 1):
        for target in re.findall(r"\\]\\(([^)]+)\\)", line):
            if target.startswith("http"):
                continue
            checked += 1
            name, _, anchor = target.partition("#")
            file = (page.parent / name) if name else page
            why = "no such file" if not file.exists() else "no such heading" if anchor and anchor not in anchors(file) else ""
            if why:
                broken += 1
                print(f"{page}:{number}: {target}: {why}")
print(f"links: pages={len(pages)} checked={checked} broken={broken}")
sys.exit(broken > 0)
'''

EXAMPLES_TOOL = '''
"""Run the >>> examples of the pages: python tools/run_examples.py [PAGE ...]"""

import contextlib
import doctest
import io
import sys
from pathlib import Path

sys.path.insert(0, ".")
total = wrong = 0
for page in sys.argv[1:] or sorted(map(str, Path("docs").rglob("*.md"))):
    names, here = {}, 0
    examples = doctest.DocTestParser().get_examples(Path(page).read_text())
    for example in examples:
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out):
                exec(compile(example.source, page, "single"), names)
            got = out.getvalue()
        except Exception as problem:
            got = f"{type(problem).__name__}: {problem}"
        if got.strip() != example.want.strip():
            here += 1
            print(f"{page}:{example.lineno + 1}: {example.source.strip()} gives {got.strip()}, page says {example.want.strip()}")
    total, wrong = total + len(examples), wrong + here
print(f"examples: run={total} wrong={wrong}")
sys.exit(wrong > 0)
'''

REFERENCE_TOOL = '''
"""Make docs/reference/options.md from ocella/options.py."""

import sys
from pathlib import Path

sys.path.insert(0, ".")

from ocella.options import TABLE  # noqa: E402

lines = ["# Options", ""]
for key, value, unit, meaning in TABLE:
    lines += [f"## {key}", "", f"{meaning}: `{value}` {unit}".rstrip(), ""]
text = "\\n".join(lines)
Path("docs/reference/options.md").write_text(text)
print(f"reference: options={len(TABLE)} bytes={len(text)}")
'''

VALUES_TOOL = '''
"""Compare marked values with the option table: a page writes 12.5<!-- weather.wind_close -->."""

import re
import sys
from pathlib import Path

sys.path.insert(0, ".")

from ocella.options import TABLE  # noqa: E402

known = {key: str(value) for key, value, _, _ in TABLE}
marked = stale = 0
for page in sorted(Path("docs").rglob("*.md")):
    for number, line in enumerate(page.read_text().splitlines(), 1):
        for value, key in re.findall(r"([\\d.]+)<!-- ([a-z_.]+) -->", line):
            marked += 1
            if known.get(key) != value:
                stale += 1
                print(f"{page}:{number}: {key} is {known.get(key)}, page says {value}")
print(f"values: marked={marked} stale={stale}")
sys.exit(stale > 0)
'''

TEST_SH = """
#!/bin/sh
# All checks of the pages; the exit status counts those that failed.
failed=0
python tools/check_links.py || failed=$((failed + 1))
python tools/run_examples.py || failed=$((failed + 1))
echo "checks failed: $failed"
exit $failed
"""

# --- the pages ----------------------------------------------------------------------------------------------------------

INDEX = """
# Observer's handbook

Release @RELEASE@. Before the first night: [install](install.md). Start with [pointing](pointing.md), then [the dome](dome.md) and [changing filters](howto-filters.md#change-a-filter).
When the sky turns: [weather](weather.md). All settings: [options](reference/options.md).
Trouble at night: ring extension @EXT@ or read [troubleshooting](troubleshooting.md).
"""

POINTING = """
# Pointing

## Encoder counts

The polar axis has a @LINES@-line encoder behind the worm gear. One degree is

    >>> from ocella.encoder import counts
    >>> counts(1)
    @COUNTS@

## Slewing

The mount is never faster than [the limit](reference/options.md#mountslew). From azimuth 12 to 96 it needs

    >>> from ocella.mount import slew_seconds
    >>> slew_seconds(12, 96)
    @OLDTIME@

## Lowest altitude

Below @HORIZON@ degrees the pier is in the way. The pole star stands at @DEG@°@MIN@'@SEC@".
"""

DOME = """
# Dome

## Connect

The controller @DOMEID@ listens on port @OLDPORT@ of host `dome.tarnhill.example`. Older consoles need
[the serial cable](old/serial-cable.md#pins).

## Open the slit

Opening takes @SLIT@ seconds. Watch `SLIT OPEN` on panel @PANEL@.
"""

HOWTO_FILTERS = """
# Filters

## Change a filter by hand

Wait @SETTLE@ ms after a change. The wheel has serial number @WHEEL@.

## Focus

| filter | offset in µm |
|---|---|
| B | @FB@ |
| V | @FV@ |
| R | @OLDFR@ |
| Ha | @FHA@ |

    >>> from ocella.filters import focus
    >>> focus(@START@, "R")
    @OLDFOCUS@
"""

WEATHER = """
# Weather

![the mast](img/mast.svg)

## Wind

The dome closes by itself at a mean wind of @OLDWIND@ m/s, see [the option](reference/options.md#weatherwind_close).

## Dew

Stop when the air is less than @DEW@ K above the dew point. Sensor @SENSOR@ hangs at 3.2 m.
"""

TROUBLE = """
# Troubleshooting

The first wait is what the console allows before it tries again by itself.

| code | meaning | first wait in s | what to do |
|---|---|---|---|
| @ERR1@ | dome does not answer | @WAIT1@ | [connect again](dome.md#connecting) |
| @ERR2@ | axis below the pier limit | @WAIT2@ | [altitude](pointing.md#lowest-altitude) |
| @ERR3@ | slit stuck half open | @OLDWAIT3@ | call the ring extension |
| @ERR4@ | mast is silent | @WAIT4@ | close by hand, see [wind](weather.md#wind) |
| @ERR5@ | encoder lost counts | @OLDWAIT5@ | park and home the axis |
| @ERR7@ | wheel lost its index | @WAIT7@ | [by hand](howto-filters.md#change-a-filter-by-hand) |
"""

CODES = '''
"""What a console shows when something is wrong: code, meaning, first wait in s, tries, log level."""

CODES = [
    ("@ERR1@", "dome does not answer", @WAIT1@, 5, "warn"),
    ("@ERR2@", "axis below the pier limit", @WAIT2@, 1, "stop"),
    ("@ERR3@", "slit stuck half open", @WAIT3@, 2, "stop"),
    ("@ERR4@", "mast is silent", @WAIT4@, 3, "close"),
    ("@ERR5@", "encoder lost counts", @WAIT5@, 1, "stop"),
    ("@ERR6@", "air too near the dew point", @WAIT6@, 4, "close"),
    ("@ERR7@", "wheel lost its index", @WAIT7@, 3, "warn"),
]
'''

INSTALL = """
# Install

## Firmware

Compare with the start screen of each console before the first night.

| part | firmware | build |
|---|---|---|
| dome | @FW1@ | @BUILD1@ |
| mount | @OLDFW2@ | @OLDBUILD2@ |
| wheel | @FW3@ | @BUILD3@ |
| mast | @FW4@ | @BUILD4@ |

## Times

All consoles run on UTC from `ntp.tarnhill.example`, never on local time.
"""

CONSOLES = """
console report of @DATE@ noon, collected by the day crew
dome  id=@DOMEID@ firmware=@FW1@ build=@BUILD1@ boots=@BOOTS1@ crc=@CRC1@
mount id=@MOUNTID@ firmware=@FW2@ build=@BUILD2@ boots=@BOOTS2@ crc=@CRC2@
wheel id=@WHEEL@ firmware=@FW3@ build=@BUILD3@ boots=@BOOTS3@ crc=@CRC3@
mast  id=@SENSOR@ firmware=@NEWFW4@ build=@NEWBUILD4@ boots=@BOOTS4@ crc=@CRC4@
"""

MANIFEST = """
{"delivered": "@DELIVERY@",
 "dome": {"firmware": "@FW1@", "build": @BUILD1@, "bytes": @BYTES1@},
 "mount": {"firmware": "@FW2@", "build": @BUILD2@, "bytes": @BYTES2@},
 "wheel": {"firmware": "@MANFW3@", "build": @MANBUILD3@, "bytes": @BYTES3@},
 "mast": {"firmware": "@NEWFW4@", "build": @NEWBUILD4@, "bytes": @BYTES4@}}
"""

SERIAL = """
# Serial cable

## Pinout

Pins 2, 3 and 5, at @BAUD@ baud. Adapter @ADAPTER@.
"""

STICKERS = [
    ("dome.md#connect", "dome console"), ("dome.md#open-the-slit", "slit motor"), ("pointing.md#encoder-counts", "polar axis"),
    ("pointing.md#lowest-altitude", "pier, north side"), ("howto-filters.md#change-a-filter-by-hand", "wheel cover"),
    ("howto-filters.md#focus", "focuser"), ("weather.md#wind", "mast cabinet"), ("weather.md#dew", "mast cabinet, inside"),
    ("troubleshooting.md", "control desk"), ("old/serial-cable.md#pinout", "cable drawer"), ("install.md#firmware", "control desk, left"),
    ("index.md", "entrance"),
]  # fmt: skip

STICKER_CHECK = '''
"""Where the QR stickers lead: python tools/check_stickers.py. docs/redirects.txt says what has moved."""

import csv
import sys
from pathlib import Path

redirects = Path("docs/redirects.txt")
moved = dict(line.split() for line in redirects.read_text().splitlines()) if redirects.exists() else {}
lost = 0
for row in csv.DictReader(open("stickers.csv")):
    name, _, anchor = row["target"].partition("#")
    name = moved.get(name, name)
    page = Path("docs", name)
    heads = [line.lstrip("# ").lower().replace(" ", "-") for line in page.read_text().splitlines() if line[:1] == "#"] if page.exists() else []
    state = "ok" if heads and anchor in ["", *heads] else "LOST"
    lost += state == "LOST"
    print(f"{row['sticker']} {state:<4} {row['target']} scans={row['scans']} place={row['place']!r}")
print(f"stickers: lost={lost} moved={len(moved)}")
sys.exit(lost > 0)
'''

SHUTDOWN = """
# Shutdown

## Park the telescope

Park at altitude @PARKALT@<!-- mount.park_alt --> and azimuth @PARKAZ@<!-- mount.park_az --> degrees, then close the
slit ([dome](dome.md#open-the-slit)). From the meridian the way takes, in seconds,

    >>> from ocella.mount import slew_seconds
    >>> slew_seconds(180, @PARKAZ@)
    @PARKTIME@

## Leave

Note the dome controller's id @DOMEID@ in the night log and hang the key of panel @PANEL@ back.
"""


def fill(text: str, facts: dict[str, object]) -> str:
    return re.sub(r"@([A-Z0-9]+)@", lambda match: str(facts[match[1]]), dedent(text).lstrip("\n"))


def draw(r) -> dict[str, object]:
    rng = r.rng
    old_gear, new_gear = rng.choice([(248.4, 257.6), (243.2, 252.8), (251.6, 259.2)])
    slew, old_slew = rng.choice([(2.35, 1.85), (2.15, 1.75), (2.45, 1.95)])
    park, wind = rng.randrange(2710, 2890) / 10, rng.randrange(131, 139) / 10
    fr, old_fr, start = rng.randrange(-190, -120), rng.randrange(-118, -80), rng.randrange(14_200, 18_900)
    minutes, seconds, degrees = rng.randrange(10, 50), rng.choice([12, 36, 48]), rng.randrange(46, 52)
    ports = rng.sample(range(7610, 7990), 3)
    return {
        "RELEASE": "4.2", "NEWRELEASE": "4.2.1", "LINES": 4096, "OLDGEAR": old_gear, "GEAR": new_gear,
        "OLDCOUNTS": round(16384 * old_gear / 360, 2), "COUNTS": round(16384 * new_gear / 360, 2),
        "SLEW": slew, "OLDTIME": round(84 / old_slew, 1), "TIME": round(84 / slew, 1),
        "PARKALT": rng.randrange(310, 420) / 10, "PARKAZ": park, "PARKTIME": round((park - 180) / slew, 1),
        "HORIZON": rng.randrange(161, 189) / 10, "DEG": degrees, "MIN": minutes, "SEC": seconds,
        "DECIMAL": f"{degrees + minutes / 60 + seconds / 3600:.3f}",
        "PORT": ports[0], "OLDPORT": ports[1], "NEWPORT": ports[2], "SLIT": rng.randrange(381, 479) / 10,
        "WIND": wind, "OLDWIND": round(wind + 2.4, 1), "NEWWIND": round(wind - 1.6, 1), "DEW": rng.randrange(21, 39) / 10,
        "SETTLE": rng.randrange(610, 890), "FB": rng.randrange(41, 78), "FV": rng.randrange(12, 39), "FR": fr, "OLDFR": old_fr,
        "FHA": rng.randrange(-260, -200), "START": start, "OLDFOCUS": start + old_fr, "FOCUS": start + fr,
        "DOMEID": f"DC-{rng.randrange(1100, 9900)}", "PANEL": f"P{rng.randrange(11, 98)}-{rng.choice('EW')}",
        "WHEEL": f"FW{rng.randrange(20_000, 99_000)}", "SENSOR": f"TH-{rng.randrange(300, 990)}", "EXT": rng.randrange(2200, 9700),
        **{f"ERR{n}": f"E-{n}{rng.randrange(100, 999)}" for n in range(1, 8)},
        **{f"WAIT{n}": rng.randrange(12, 95) for n in range(1, 8)}, "OLDWAIT3": rng.randrange(101, 140), "OLDWAIT5": rng.randrange(141, 190),
        **{f"FW{n}": f"{rng.randrange(2, 6)}.{rng.randrange(10, 30)}.{rng.randrange(1, 9)}" for n in range(1, 5)},
        **{f"BUILD{n}": rng.randrange(4000, 6000) for n in range(1, 5)}, "OLDFW2": f"1.{rng.randrange(30, 60)}.{rng.randrange(1, 9)}",
        "OLDBUILD2": rng.randrange(2100, 3900), "NEWFW4": f"6.{rng.randrange(1, 9)}.{rng.randrange(10, 40)}",
        "NEWBUILD4": rng.randrange(6000, 7900), "MANFW3": f"6.{rng.randrange(41, 60)}.0", "MANBUILD3": rng.randrange(8000, 9900),
        **{f"BOOTS{n}": rng.randrange(100, 990) for n in range(1, 5)}, **{f"CRC{n}": f"{rng.randrange(16**8):08x}" for n in range(1, 5)},
        **{f"BYTES{n}": rng.randrange(70_000, 400_000) for n in range(1, 5)}, "MOUNTID": f"MC-{rng.randrange(1100, 9900)}",
        "DELIVERY": f"LS-{rng.randrange(10_000, 90_000)}",
        "BAUD": rng.choice([2400, 4800, 19_200]), "ADAPTER": f"USA-{rng.randrange(16**4):04x}",
        "ORDER": f"WO-{rng.randrange(5100, 9900)}", "DATE": f"2025-{rng.randrange(8, 12):02d}-{rng.randrange(10, 29)}",
        "PRINTER": f"J{rng.randrange(100_000, 999_000)}",
    }  # fmt: skip


def prepare(r) -> dict[str, object]:
    f = draw(r)
    pages = {
        "docs/index.md": INDEX, "docs/pointing.md": POINTING, "docs/dome.md": DOME, "docs/howto-filters.md": HOWTO_FILTERS,
        "docs/weather.md": WEATHER, "docs/troubleshooting.md": TROUBLE, "docs/old/serial-cable.md": SERIAL,
        "docs/img/weather-mast.svg": "<svg/>\n", "docs/reference/options.md": "",
        "docs/install.md": INSTALL, "ocella/codes.py": CODES, "firmware/manifest.json": MANIFEST,
        "ocella/__init__.py": "", "ocella/options.py": OPTIONS, "ocella/encoder.py": ENCODER, "ocella/mount.py": MOUNT,
        "ocella/filters.py": FILTERS, "tools/check_links.py": LINKS_TOOL, "tools/run_examples.py": EXAMPLES_TOOL,
        "tools/make_reference.py": REFERENCE_TOOL, "tools/test.sh": TEST_SH,
    }  # fmt: skip
    for path, text in pages.items():
        r.file(path, fill(text, f))
    r.file(f"logs/consoles-{f['DATE']}.txt", fill(CONSOLES, f))
    rows = ["run,turn_deg,counts,seeing_arcsec"]
    for run in range(1, 31):
        turn = r.rng.randrange(40, 600) / 10
        rows.append(f"{run},{turn},{round(turn * f['COUNTS'] + r.rng.randrange(-40, 41))},{r.rng.randrange(90, 270) / 100}")
    r.file(f"logs/axis-{f['DATE']}.csv", "\n".join(rows) + "\n")
    stickers = ["sticker,target,place,scans"]
    for target, place in STICKERS:
        stickers.append(f'ST-{r.rng.randrange(16**4):04x},{target},"{place}",{r.rng.randrange(40, 2900)}')
    r.file("stickers.csv", "\n".join(stickers) + "\n")
    f["LOSTSTICKER"] = stickers[10].split(",")[0]
    gusts = []
    for night in range(1, 13):
        mean, closed = r.rng.randrange(88, 160) / 10, r.rng.randrange(16**5)
        state = "closed" if mean > f["NEWWIND"] else "open"
        gusts.append(
            f"night={f['DATE'][:8]}{night * 2:02d} mean={mean} gust={round(mean * 1.37, 1)} event=ev-{closed:05x} dome={state}"
        )
    r.file(f"logs/wind-{f['DATE'][:7]}.log", "\n".join(gusts) + "\n")
    return f


# --- the session --------------------------------------------------------------------------------------------------------


def play(r):
    f = prepare(r)
    r.system(
        "You keep the documentation of ocella, the control toolkit of a small observatory. You work in its checkout with Bash, Read, Write, "
        "Edit, Grep and TodoWrite; each Bash command starts at the root of the checkout. Observers read these pages at night with gloves on, so a "
        "wrong number can bend metal: check a value at its source before you write it. Explain in a few sentences what you found, and "
        "keep a todo list for longer work."
    )
    r.instructions(
        "The handbook is `docs/`, plain Markdown. `sh tools/test.sh` follows all links and runs all `>>>` examples. Values come from "
        "`ocella/options.py` and the modules beside it; measurements are in `logs/`. `python tools/make_reference.py` makes the option reference anew.\n\n"
        "Pages address the observer, use the present tense and short sentences. One idea a paragraph. Do not add badges, screenshots or "
        "emoji. Code samples are indented by four spaces and must run as they stand. Numbers carry a unit. Commits are small and their "
        "subject names the page."
    )
    r.run("git init -q && python tools/make_reference.py && git add -A && git commit -qm 'Handbook as of the autumn'")
    links(r, f)
    examples(r, f)
    values(r, f)
    pages(r, f)
    stickers(r, f)
    release(r, f)
    declare(r, f)


def links(r, f):
    r.user(
        f"The handbook {f['RELEASE']} goes to the printer on Friday, job {f['PRINTER']}. Please get tools/test.sh green. What is in docs/reference comes out of "
        "the option table, so never edit in there by hand."
    )
    r.agent(
        "I start with what is there and what the script says.",
        r.bash("git log --oneline && git ls-files | xargs wc -c"),
        r.bash("sh tools/test.sh"),
    )
    r.agent(
        "Five broken links and three examples that give something else than the page. Links first; how the tool makes an anchor of a heading "
        "matters here, so I read that too.",
        r.todo(("Mend the links", "in_progress"), ("Examples", "pending"), ("Full check", "pending")),
        r.read("tools/check_links.py"),
        r.bash("grep -n '^#' docs/*.md docs/old/*.md; grep -n '^## [mw]' docs/reference/options.md; ls docs/img"),
    )
    r.user(
        "While you are at it: QR stickers in the dome lead to the headings of these pages, so the wording of a heading stays as it is."
    )
    r.agent(
        "Then the links adapt to the headings. Four are plain slips.",
        r.bash(
            "sed -i 's/#change-a-filter)/#change-a-filter-by-hand)/' docs/index.md\nsed -i 's/#mountslew)/#mountslew_limit)/' docs/pointing.md\n"
            "sed -i 's/dome.md#connecting/dome.md#connect/' docs/troubleshooting.md\nsed -i 's/serial-cable.md#pins/serial-cable.md#pinout/' docs/dome.md\n"
            "git diff --stat"
        ),
        r.edit("docs/weather.md", "![the mast](mast.svg)", "![the mast](img/weather-mast.svg)"),
    )
    r.agent(
        "The page already had the folder in the link, I misremembered.",
        r.edit("docs/weather.md", "(img/mast.svg)", "(img/weather-mast.svg)"),
        r.bash("python tools/check_links.py"),
    )


def examples(r, f):
    r.agent(
        "Links are whole. Now the examples, with their sources.",
        r.read("docs/pointing.md", 3, 19),
        r.read("ocella/encoder.py"),
        r.read("ocella/options.py", 3, 14),
    )
    r.agent(
        f"counts(1) is {f['OLDCOUNTS']} by the code. I think the pointing page is simply out of date there, as it is with the slew time. Before I "
        "write a number into it I look for a measurement.",
        r.bash(f"head -4 logs/axis-{f['DATE']}.csv; awk -F, 'NR>1 {{t+=$2; c+=$3}} END {{printf \"runs=%d turned_deg=%.1f counts=%d per_degree=%.2f\\n\", NR-1, t, c, c/t}}' logs/axis-*.csv"),
    )  # fmt: skip
    r.agent(
        "The mean is far from the code's value. A mean can hide a slip of the clutch, so every run on its own, counts per degree and the residual "
        "against the page's number.",
        r.bash(
            f'awk -F, \'NR>1 {{printf "run=%02d per_degree=%.2f residual=%+.1f seeing=%s%s", $1, $3/$2, $3-$2*{f["COUNTS"]}, $4, NR%2 ? "\\n" : "   "}}\' '
            f"logs/axis-{f['DATE']}.csv"
        ),
    )
    r.agent(
        f"The telescope disagrees with the code: 30 measured runs agree with the page's {f['COUNTS']} and not with {f['OLDCOUNTS']}. So it is the code "
        f"that is out of date, not the page. A gear ratio of {f['GEAR']} would explain it exactly. Was the worm exchanged? I don't touch the "
        "encoder module without your word."
    )
    r.user(f"Yes! New worm, work order {f['ORDER']}, ratio {f['GEAR']}. Nobody told the software. Please correct the module.")
    r.agent(
        "With the work order beside it, so that the next one need not measure.",
        r.edit("ocella/encoder.py", f"GEAR_RATIO = {f['OLDGEAR']}", f"GEAR_RATIO = {f['GEAR']}  # {f['ORDER']}"),
        r.bash("python tools/run_examples.py"),
    )
    r.agent(
        f"Two left. The slew time follows from the limit of {f['SLEW']} deg/s in the option table, so here the page is old. For the filter I look at "
        "the offsets and who set them, and at how the runner compares, should it be a matter of rounding.",
        r.read("docs/howto-filters.md"),
        r.bash("cat ocella/filters.py tools/run_examples.py; git log --format='%H %s' -- ocella/filters.py"),
    )
    r.user(
        "R was refocused in spring, the module has it right. By the way, angles are always decimal degrees in our texts, no minutes and seconds."
    )
    r.agent(
        f"Thanks. That concerns the pole star on the pointing page, too: {f['DECIMAL']} degrees.",
        r.bash(
            f"sed -i 's/^    {f['OLDTIME']}$/    {f['TIME']}/; s/{f['DEG']}°.*\"/{f['DECIMAL']} degrees/' docs/pointing.md\n"
            f"sed -i 's/^| R | {f['OLDFR']} /| R | {f['FR']} /; s/^    {f['OLDFOCUS']}$/    {f['FOCUS']}/' docs/howto-filters.md\n"
            "git diff -U0 docs/pointing.md docs/howto-filters.md | grep '^[+-]'\nsh tools/test.sh"
        ),
        r.todo(("Mend the links", "completed"), ("Examples", "completed"), ("Full check", "completed")),
    )
    r.agent(
        "Green. One commit for the links, one for the numbers.",
        r.bash("git add docs/index.md docs/weather.md docs/troubleshooting.md docs/dome.md && git commit -qm 'Several pages: links' && git add -A && "
               "git commit -m 'pointing, filters: values as measured'"),
    )  # fmt: skip


def values(r, f):
    r.user("Green only means what the tools can see. Go through the plain numbers in the text too, dome and weather above all.")
    r.agent(
        "Page by page against the table.",
        r.read("docs/dome.md"),
        r.read("docs/weather.md"),
        r.bash("grep . docs/reference/options.md"),
    )
    r.agent(
        f"Two stale numbers in plain text. Dome: port {f['OLDPORT']} on the page, {f['PORT']} in the table. Weather: {f['OLDWIND']} m/s on the page, "
        f"{f['WIND']} in the table, which is the dangerous one. Slit, dew and settling agree. To keep it so I'll mark values with a comment and "
        "check the marks. Generating whole pages from templates would be stricter, but the observers edit these pages by hand at night.",
        r.todo(
            ("Correct port and wind", "in_progress"),
            ("tools/check_values.py", "pending"),
            ("Mark the values in the pages", "pending"),
        ),
        r.write("tools/check_values.py", VALUES_TOOL.lstrip("\n")),
    )
    r.user(
        f"Marks are fine. But wind: since lightning hit the mast we close at {f['NEWWIND']}, option and page. The wind log of {f['DATE'][:7]} shows it, I forgot to tell you."
    )
    r.agent(
        "The log to be sure, then the option, and the marks with the old numbers still in place, to see the tool fail once.",
        r.bash(f"cat logs/wind-{f['DATE'][:7]}.log"),
        r.edit("ocella/options.py", f'"weather.wind_close", {f["WIND"]}', f'"weather.wind_close", {f["NEWWIND"]}'),
        r.bash(
            f"sed -i 's/wind of {f['OLDWIND']} /wind of {f['OLDWIND']}<!-- weather.wind_close --> /; s/than {f['DEW']} /than {f['DEW']}<!-- weather.dew_margin --> /' docs/weather.md\n"
            f"sed -i 's/port {f['OLDPORT']} /port {f['OLDPORT']}<!-- dome.port --> /; s/takes {f['SLIT']} /takes {f['SLIT']}<!-- dome.slit_s --> /' docs/dome.md\n"
            f"sed -i 's/Wait {f['SETTLE']} /Wait {f['SETTLE']}<!-- filters.settle_ms --> /' docs/howto-filters.md\n"
            f"sed -i 's/Below {f['HORIZON']} /Below {f['HORIZON']}<!-- mount.horizon --> /' docs/pointing.md\npython tools/check_values.py"
        ),
    )  # fmt: skip
    r.agent(
        f"Every night above {f['NEWWIND']} was a closed one, and the new check finds exactly the two numbers. Correcting them, hanging the check into the test script, and making the reference anew.",
        r.bash(f"sed -i 's/{f['OLDWIND']}<!/{f['NEWWIND']}<!/' docs/weather.md; sed -i 's/{f['OLDPORT']}<!/{f['PORT']}<!/' docs/dome.md; python tools/make_reference.py"),
        r.edit("tools/test.sh", "python tools/run_examples.py ||", "python tools/check_values.py || failed=$((failed + 1))\npython tools/run_examples.py ||"),
        r.bash("sh tools/test.sh && git add -A && git commit -m 'dome, weather: values marked and checked' | head -2"),
        r.todo(("Correct port and wind", "completed"), ("tools/check_values.py", "completed"), ("Mark the values in the pages", "completed")),
    )  # fmt: skip
    tables(r, f)


def tables(r, f):
    r.user(
        "Two tables are left that nobody has read for a year: error codes in troubleshooting and firmware in install. The codes are in "
        "ocella/codes.py; for firmware the day crew collected the start screens, look in logs/."
    )
    r.agent(
        "The codes first.",
        r.read("ocella/codes.py"),
        r.bash(
            "python - <<'EOF'\nimport re\nfrom ocella.codes import CODES\npage = open('docs/troubleshooting.md').read()\n"
            "rows = dict(re.findall(r'^\\| (E-\\d+) \\| [^|]+ \\| (\\d+) \\|', page, re.M))\n"
            "for code, meaning, wait, tries, level in CODES:\n    page_wait = rows.get(code, 'missing')\n"
            "    print(f'{code}: wait={wait} page={page_wait}' + ('' if page_wait == str(wait) else '  <-- ' + meaning))\nEOF"
        ),
    )
    r.agent(
        f"Two waits are old ({f['OLDWAIT3']} and {f['OLDWAIT5']} on the page) and {f['ERR6']}, the dew alarm, is missing altogether. For it the page "
        "gets a row with a link to the dew section. Then the firmware.",
        r.bash(
            f"sed -i '/{f['ERR3']}/s/| {f['OLDWAIT3']} |/| {f['WAIT3']} |/; /{f['ERR5']}/s/| {f['OLDWAIT5']} |/| {f['WAIT5']} |/; "
            f"/{f['ERR7']}/i | {f['ERR6']} | air too near the dew point | {f['WAIT6']} | stop, see [dew](weather.md#dew) |' docs/troubleshooting.md\n"
            "git diff -U0 docs/troubleshooting.md | grep '^[+-]|'"
        ),
        r.bash(f"cat docs/install.md logs/console-{f['DATE']}.txt"),
    )
    r.agent(
        "Wrong file name, there is an s in it.",
        r.bash(f"cat logs/consoles-{f['DATE']}.txt firmware/manifest.json && sed -n '/^| part/,/^$/p' docs/install.md"),
    )
    r.agent(
        "Page, consoles and manifest give three different pictures. Mount and mast: console and manifest agree, the page is old. Wheel: page and console "
        f"agree on {f['FW3']}, the manifest has {f['MANFW3']}. The page shall show what the consoles report. I don't follow the manifest, since it "
        f"lists what was delivered with {f['DELIVERY']} and not what is installed.",
        r.bash(
            f"sed -i 's/| {f['OLDFW2']} | {f['OLDBUILD2']} |/| {f['FW2']} | {f['BUILD2']} |/; s/| {f['FW4']} | {f['BUILD4']} |/| {f['NEWFW4']} | {f['NEWBUILD4']} |/' "
            "docs/install.md && git diff --stat && sh tools/test.sh"
        ),
    )
    r.user(
        f"Right decision. The wheel update failed twice and is postponed, delivery {f['DELIVERY']} lies in a drawer. Commit these two."
    )
    r.agent(
        "",
        r.bash(
            "git commit -qam 'troubleshooting, install: tables as in code and on the consoles' && git show --stat --format='%h %s'"
        ),
    )


def pages(r, f):
    r.user(
        "Next, old things. The serial cable page can go, nobody has such a console now. And howto-filters.md should be called filters.md like its neighbours."
    )
    r.agent(
        "Who links to them?",
        r.bash("grep -rn 'serial\\|howto-filters' docs tools ocella"),
        r.bash("cat docs/old/serial-cable.md"),
        r.todo(
            ("Remove the serial cable page", "in_progress"),
            ("Rename the filter page", "pending"),
            ("Links to both", "pending"),
        ),
    )
    r.agent(
        "I remove the page together with the sentence on the dome page. A stub that says it moved makes no sense, because there is nothing to move "
        "to: the adapter is gone as well.",
        r.bash("git rm -q docs/old/serial-cable.md && git mv docs/howto-filters.md docs/filters.md && sh tools/test.sh"),
    )
    r.agent(
        "As expected, the links to both hang in the air now.",
        r.edit("docs/dome.md", " Older consoles need\n[the serial cable](old/serial-cable.md#pinout).", ""),
        r.bash(
            "sed -i 's/howto-filters.md/filters.md/' docs/index.md docs/troubleshooting.md && sh tools/test.sh && git add -A && "
            "git commit -m 'filters: renamed; serial cable: removed' | tail -4"
        ),
    )
    r.user(
        "Something is missing for beginners: a page shutdown.md on parking and leaving, a dozen lines, linked from the index. With an example that runs."
    )
    r.agent("The park position is in the table; I take the panel and the controller id from the dome page.",
            r.write("docs/shutdown.md", fill(SHUTDOWN, f).replace(f"    {f['PARKTIME']}\n", "    0\n")),
            r.bash("python tools/run_examples.py docs/shutdown.md"))  # fmt: skip
    r.agent(
        "The zero was a placeholder, the runner gives the true time.",
        r.edit("docs/shutdown.md", "\n    0\n", f"\n    {f['PARKTIME']}\n"),
        r.edit("docs/index.md", "When the sky turns:", "At dawn: [shutdown](shutdown.md). When the sky turns:"),
        r.bash("sh tools/test.sh"),
    )
    r.agent(
        "All three checks pass; a look at the index as a whole.",
        r.bash("git add -A && git commit -m 'shutdown: new page' && cat docs/index.md && wc -w docs/*.md"),
    )


def stickers(r, f):
    r.user(
        "Wait, the rename! stickers.csv lists what the QR codes point to. The one on the wheel cover is under varnish, we can't print that again."
    )
    r.agent(
        "Right, a link checker does not know about those. A small tool for it, which looks up every sticker among the pages and headings. It also reads "
        "docs/redirects.txt, in case there is one.",
        r.write("tools/check_stickers.py", STICKER_CHECK.lstrip("\n")),
        r.bash("python tools/check_stickers.py"),
    )
    r.agent(
        "Three are lost: two by my rename and one by the removed page. The web server at the observatory reads a redirect file, so one line brings both "
        f"filter stickers back. {f['LOSTSTICKER']} in the cable drawer leads to a page that is gone for good; it could lead to the index instead, "
        "if you like.",
        r.bash("printf 'howto-filters.md filters.md\\n' > docs/redirects.txt && python tools/check_stickers.py | grep -v ' ok '"),
    )
    r.user(
        f"Leave {f['LOSTSTICKER']} lost, somebody will peel it off when the drawer is emptied. Just the filters then, and let test.sh be as it is."
    )
    r.agent(
        "Only the one line then. Commit.",
        r.bash(
            "sh tools/test.sh && git add -A && git commit -m 'filters: redirect for the stickers' | tail -3 && md5sum docs/redirects.txt stickers.csv"
        ),
    )


def release(r, f):
    r.user(
        f"Sorry, one more: the network people moved the dome controller this morning, port {f['NEWPORT']}. And since that means a new print, call it {f['NEWRELEASE']}."
    )
    r.agent(
        "The table is the source, the marks will show me the pages.",
        r.todo(("Dome port", "in_progress"), (f"Release {f['NEWRELEASE']}", "pending"), ("Note for the printer", "pending")),
        r.edit("ocella/options.py", f'"dome.port", {f["PORT"]}', f'"dome.port", {f["NEWPORT"]}'),
        r.bash("python tools/make_reference.py; sh tools/test.sh"),
    )
    r.agent(
        "One page only, the dome page.",
        r.edit("docs/dome.md", f"{f['PORT']}<!--", f"{f['NEWPORT']}<!--"),
        r.edit("docs/index.md", f"Release {f['RELEASE']}.", f"Release {f['NEWRELEASE']}."),
        r.bash("sh tools/test.sh && git diff -U0 | grep '^[+-] *[^+-]'"),
    )
    r.user(
        "Write docs/changes.md for the printer's cover sheet: what differs from the autumn print, in numbers. Then commit and tag."
    )
    r.agent(
        "I write old and new side by side, all numbers as we found them today.",
        r.write(
            "docs/changes.md",
            fill(
                """
                # Changes in @NEWRELEASE@

                For print job @PRINTER@.

                - Dome controller @DOMEID@: port @NEWPORT@, not @OLDPORT@
                - Wind that closes the dome: @NEWWIND@ m/s, not @OLDWIND@
                - Slew from azimuth 12 to 96: @TIME@ s, not @OLDTIME@
                - Filter R: offset @FR@ µm, not @OLDFR@
                - Gear ratio @GEAR@ (work order @ORDER@) in the software; the page had @COUNTS@ counts a degree already
                - Mount firmware @FW2@ build @BUILD2@, not @OLDFW2@; mast @NEWFW4@
                - Error @ERR6@ added; first waits of @ERR3@ and @ERR5@ are @WAIT3@ s and @WAIT5@ s
                - New: [shutdown](shutdown.md). Renamed: [filters](filters.md). Gone: the serial cable
                """,
                f,
            ),
        ),
        r.bash("sh tools/test.sh"),
    )
    r.agent(
        "The page links to two others and both are whole.",
        r.bash(
            f"git add -A && git commit -qm 'index, dome, changes: {f['NEWRELEASE']}' && git tag v{f['NEWRELEASE']} && git log --oneline"
        ),
        r.bash("cat docs/*.md | sha256sum | cut -c1-20; git diff --numstat HEAD~8 -- docs ocella"),
        r.todo(
            ("Dome port", "completed"),
            (f"Release {f['NEWRELEASE']}", "completed"),
            ("Note for the printer", "completed"),
        ),
    )
    r.agent(
        f"Done: {f['NEWRELEASE']} is tagged, three checks run and all pass, {f['LOSTSTICKER']} stays lost as you wished. For the cover sheet of {f['PRINTER']} use docs/changes.md. Please have somebody "
        f"restart the consoles before tonight: they read the gear ratio {f['GEAR']} and port {f['NEWPORT']} only at start."
    )


def declare(r, f):
    t = r.truth
    t.fact(
        f["PRINTER"], "docs/weather.md:3: img/mast.svg: no such file", str(f["OLDCOUNTS"]), str(f["COUNTS"]), f["ORDER"], str(f["GEAR"]),
        f["DATE"], str(f["SLEW"]), str(f["FR"]), str(f["OLDFR"]), f["WHEEL"], f["DOMEID"], f["PANEL"], f["SENSOR"], str(f["OLDPORT"]),
        str(f["PORT"]), str(f["NEWPORT"]), str(f["NEWWIND"]), str(f["SETTLE"]), f["ADAPTER"], str(f["BAUD"]), str(f["PARKTIME"]),
        f["ERR6"], f["FW2"], str(f["BUILD2"]), f["OLDFW2"], f["MOUNTID"], f["CRC2"], f["NEWFW4"], f["DELIVERY"], str(f["OLDWAIT5"]),
    )  # fmt: skip
    t.constraint("never edit in there by hand")
    t.constraint("the wording of a heading stays as it is")
    t.constraint("angles are always decimal degrees in our texts")
    t.decision(
        chosen="I'll mark values with a comment and check the marks",
        rejected="Generating whole pages from templates",
        reason="the observers edit these pages by hand at night",
    )
    t.decision(
        chosen="The page shall show what the consoles report",
        rejected="I don't follow the manifest",
        reason="and not what is installed",
    )
    t.decision(
        chosen="I remove the page together with the sentence on the dome page",
        rejected="A stub that says it moved",
        reason="there is nothing to move to",
    )
    t.update("gear ratio", f"GEAR_RATIO = {f['OLDGEAR']}", f"GEAR_RATIO = {f['GEAR']}")
    t.update("wind", f'"weather.wind_close", {f["WIND"]}', f'"weather.wind_close", {f["NEWWIND"]}')
    t.update("port", f'"dome.port", {f["PORT"]}', f'"dome.port", {f["NEWPORT"]}')
    t.belief(
        wrong="I think the pointing page is simply out of date there",
        corrected="it is the code that is out of date, not the page",
    )
    for name in ("PRINTER", "ORDER", "GEAR", "OLDTIME", "OLDFR", "COUNTS", "OLDWIND"):
        t.later(str(f[name]))
