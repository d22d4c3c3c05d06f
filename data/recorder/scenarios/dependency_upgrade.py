"""A vendored mesh library of a tile server goes up a major version, with breaking changes told and untold."""

from __future__ import annotations

import json
import re
from textwrap import dedent

TITLE = "Moving a tile server to the next major version of its vendored library"
PROJECT = "cairn-tiles"

# --- the library, old and new ---------------------------------------------------------------------------------------------

OLD_GRID = '''
"""A square mesh over the globe; rows count from the south."""

import math

LIMIT = 85.0511


def tile_of(lon, lat, zoom):
    if abs(lat) > LIMIT:
        raise ValueError(f"latitude {lat} is off the mesh")
    n, s = 2**zoom, math.sin(math.radians(lat))
    x = min(n - 1, int((lon + 180) / 360 * n))
    return x, int((0.5 + math.log((1 + s) / (1 - s)) / (4 * math.pi)) * n)


def bounds(x, y, zoom):
    """(west, south, east, north)"""
    n = 2**zoom

    def lat(row):
        return math.degrees(math.atan(math.sinh(math.pi * (2 * row / n - 1))))

    return x / n * 360 - 180, lat(y), (x + 1) / n * 360 - 180, lat(y + 1)


def quadkey(x, y, zoom):
    return "".join(str((x >> n & 1) + 2 * (y >> n & 1)) for n in reversed(range(zoom)))
'''

OLD_PACK = '''
"""Points into integers relative to a tile."""

import zlib


def pack(points, bounds, extent=4096, margin=@MARGIN@):
    """Deltas of cut-off coordinates; points further out than `margin` are dropped."""
    west, south, east, north = bounds
    values, last = [], (0, 0)
    for lon, lat in points:
        u, v = int((lon - west) / (east - west) * extent), int((lat - south) / (north - south) * extent)
        if -margin <= u <= extent + margin and -margin <= v <= extent + margin:
            values += [u - last[0], v - last[1]]
            last = (u, v)
    return values


def checksum(values):
    return f"{zlib.crc32(repr(values).encode()):08x}"
'''

NEW_GRID = '''
"""A square mesh over the globe; rows count from the north."""

import math
from typing import NamedTuple

LIMIT = 85.0511


class OutOfMesh(LookupError):
    """Asked for a place the mesh does not cover."""


class Tile(NamedTuple):
    z: int
    x: int
    y: int

    @property
    def bounds(self):
        """(south, west, north, east)"""
        n = 2**self.z

        def lat(row):
            return math.degrees(math.atan(math.sinh(math.pi * (1 - 2 * row / n))))

        return lat(self.y + 1), self.x / n * 360 - 180, lat(self.y), (self.x + 1) / n * 360 - 180

    @property
    def key(self):
        """One integer, unique over all zooms."""
        return (4**self.z - 1) // 3 + self.y * 2**self.z + self.x


def locate(z, *, lon, lat):
    if abs(lat) > LIMIT:
        raise OutOfMesh(f"latitude {lat} (limit {LIMIT})")
    n, s = 2**z, math.sin(math.radians(lat))
    x = int((lon + 180) / 360 * n)
    return Tile(z, x, int((0.5 - math.log((1 + s) / (1 - s)) / (4 * math.pi)) * n))
'''

NEW_PACK = '''
"""Points into integers relative to a tile."""

import zlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Packer:
    extent: int = 8192
    margin: int = 0

    def pack(self, points, bounds):
        """Deltas of rounded coordinates, v from the top; points further out than `margin` are dropped."""
        south, west, north, east = bounds
        values, last = [], (0, 0)
        for lon, lat in points:
            u = round((lon - west) / (east - west) * self.extent)
            v = round((north - lat) / (north - south) * self.extent)
            if all(-self.margin <= c <= self.extent + self.margin for c in (u, v)):
                values += [u - last[0], v - last[1]]
                last = (u, v)
        return values


def digest(values):
    return f"{zlib.adler32(repr(values).encode()):08x}"
'''

NEW_CHANGES = """
# Changes

## @NEW@

Breaking:

- rows count from the north; `tile_of(lon, lat, zoom)` is now `locate(z, *, lon, lat)` and returns a `Tile`
- `Tile.bounds` is (south, west, north, east), it was (west, south, east, north)
- `quadkey()` is gone, `Tile.key` is an integer
- `pack()` is a method of `Packer(extent, ...)`; the default extent is 8192, it was 4096
- coordinates are rounded, no longer cut off; v counts from the top
- `checksum()` (crc32) is now `digest()` (adler32)
- off the mesh raises `OutOfMesh`, a LookupError, it was ValueError

Ticket numbers QM-@T1@, QM-@T2@, QM-@T3@. Wheel for the audit: build @BUILD@.
"""

# --- the server -----------------------------------------------------------------------------------------------------------

STORE = '''
"""Cairns from a CSV file, by tile."""

import csv

from quadmesh.grid import bounds, tile_of

SLACK = 0.02  # degrees around a tile in which a cairn may still show


def load(path):
    with open(path, newline="") as lines:
        return [(r["id"], float(r["lon"]), float(r["lat"])) for r in csv.DictReader(lines)]


def tiles(cairns, zoom):
    return sorted({tile_of(lon, lat, zoom) for _, lon, lat in cairns})


def around(cairns, x, y, zoom):
    west, south, east, north = bounds(x, y, zoom)
    return [
        (lon, lat) for _, lon, lat in cairns
        if west - SLACK <= lon <= east + SLACK and south - SLACK <= lat <= north + SLACK
    ]
'''

SERVE = '''
"""Answers for /t/ZOOM/COLUMN/ROW.json, where ROW counts from the south."""

import configparser
import json
import sys

from quadmesh.grid import bounds, tile_of
from quadmesh.pack import checksum, pack

from cairntiles import cache, store

CONF = configparser.ConfigParser()
CONF.read("conf/tiles.ini")


def handle(path):
    try:
        zoom, x, y = (int(part) for part in path.removeprefix("/t/").removesuffix(".json").split("/"))
    except ValueError:
        return 400, '{"error": "@BADPATH@"}'
    if zoom > CONF.getint("tiles", "max_zoom"):
        return 404, '{"error": "@TOODEEP@"}'
    points = store.around(store.load("data/cairns.csv"), x, y, zoom)
    values = pack(points, bounds(x, y, zoom))
    body = json.dumps({"key": cache.name(x, y, zoom), "count": len(values) // 2, "sum": checksum(values), "values": values})
    return 200, body


def where(lon, lat, zoom):
    """Path of the tile that holds a place, or None off the mesh."""
    try:
        x, y = tile_of(lon, lat, zoom)
    except ValueError:
        return None
    return f"/t/{zoom}/{x}/{y}.json"


def survey(zoom):
    for x, y in store.tiles(store.load("data/cairns.csv"), zoom):
        status, body = handle(f"/t/{zoom}/{x}/{y}.json")
        seen = json.loads(body)
        print(f"{zoom}/{x}/{y} status={status} count={seen['count']} bytes={len(body)} sum={seen['sum']} key={seen['key']}")


if __name__ == "__main__":
    survey(int(sys.argv[1]))
'''

CACHE = '''
"""Names of files in the tile cache."""

from quadmesh.grid import quadkey

SPACE = "@SPACE4@"


def name(x, y, zoom):
    return f"{SPACE}-{zoom:02d}-{quadkey(x, y, zoom)}"
'''

TESTS = """
import json
from pathlib import Path

import pytest

from cairntiles import cache, serve

COUNTS = json.loads(Path("tests/counts.json").read_text())


@pytest.mark.parametrize("path", sorted(COUNTS))
def test_count(path):
    status, body = serve.handle(path)
    assert (status, json.loads(body)["count"]) == (200, COUNTS[path])


def test_too_deep():
    assert serve.handle("/t/19/1/1.json") == (404, '{"error": "@TOODEEP@"}')


def test_off_the_mesh():
    assert serve.where(6.5, 88.0, 9) is None


def test_where_counts_rows_from_the_south():
    assert serve.where(6.5, 61.0, 9) == "@WHERE@"


def test_antimeridian_is_the_last_column():
    assert serve.where(180.0, 10.0, 4).startswith("/t/4/15/")


def test_cache_names_differ():
    assert len({cache.name(x, y, z) for z in (3, 4) for x in range(8) for y in range(8)}) == 128
"""

VERIFY = """
#!/bin/sh
# the audit runs this too: library files against the sums that came with them
cd vendor/quadmesh && sha256sum -c --quiet SHA256SUMS && echo "vendor ok: version=$(cat VERSION) files=$(wc -l < SHA256SUMS)"
"""

MESH = '''
"""The only door to quadmesh. Rows count from the south here, as in our addresses; quadmesh counts from the north."""

from quadmesh.grid import OutOfMesh, Tile, locate
from quadmesh.pack import Packer, digest

__all__ = ["OutOfMesh", "bounds", "checksum", "key", "pack", "tile_of"]
PACKER = Packer(extent=4096)


def _tile(x, y, zoom):
    return Tile(zoom, x, 2**zoom - 1 - y)


def tile_of(lon, lat, zoom):
    tile = locate(zoom, lon=lon, lat=lat)
    return tile.x, 2**zoom - 1 - tile.y


def bounds(x, y, zoom):
    """(west, south, east, north)"""
    south, west, north, east = _tile(x, y, zoom).bounds
    return west, south, east, north


def key(x, y, zoom):
    return _tile(x, y, zoom).key


def pack(points, x, y, zoom):
    return PACKER.pack(points, _tile(x, y, zoom).bounds)


checksum = digest
'''


def tidy(text):
    return text.strip("\n") + "\n"


def library(r, folder, grid, pack, version, changes):
    files = {"__init__.py": "", "grid.py": grid, "pack.py": pack, "VERSION": version, "CHANGELOG.md": changes}
    for name, text in files.items():
        r.file(f"{folder}/{name}", tidy(text) if text else "")
    r.run(f"cd {folder} && sha256sum *.py VERSION CHANGELOG.md > SHA256SUMS")


def staging(r, space, deep, too_deep):
    """A night of requests; a few ask for column 16 of zoom 4 and meet the name of another tile."""
    rng, lines, sizes, second = r.rng, [], {}, 79_200
    asked = [(8, x, y) for x in (131, 132, 133) for y in (181, 182, 183, 184)] + [
        (9, 264, 366),
        (9, 266, 365),
        (7, 66, 91),
        (17, 5, 5),
    ]
    for number in range(44):
        z, x, y = {11: (4, 16, 9), 19: (4, 0, 8), 30: (4, 16, 9), 37: (4, 0, 8)}.get(number) or rng.choice(asked)
        second += rng.randrange(40, 700)
        status = 200 if z <= deep else 404
        key = f"{space}5-{z:02d}-{(4**z - 1) // 3 + (2**z - 1 - y) * 2**z + x}" if status == 200 else "-"
        cached = ("hit" if key in sizes else "miss") if status == 200 else too_deep
        size = sizes.setdefault(key, rng.randrange(96, 900)) if status == 200 else 19
        us = rng.randrange(1900, 9700) if cached == "miss" else rng.randrange(210, 880)
        lines.append(
            f"{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d} req={rng.getrandbits(24):06x} path=/t/{z}/{x}/{y}.json "
            f"status={status} key={key} bytes={size} us={us} cache={cached}"
        )
    return "\n".join(lines) + "\n"


def play(r):
    rng = r.rng
    minor, fix = rng.choice([3, 6, 8]), rng.randrange(1, 7)
    old, new, newer = f"4.{minor}.{rng.randrange(11, 39)}", f"5.0.{fix}", f"5.0.{fix + 1}"
    port, limit = rng.randrange(7100, 7990), rng.randrange(1200, 3900)
    build = f"qm{rng.getrandbits(28):07x}"
    margin, deep = rng.choice([72, 88, 104]), rng.choice([15, 16])
    space = rng.choice(["fell", "tarn", "scree"])
    tickets = rng.sample(range(1103, 8970), 4)
    marks = {
        "@MARGIN@": str(margin), "@NEW@": new, "@T1@": str(tickets[0]), "@T2@": str(tickets[1]), "@T3@": str(tickets[2]),
        "@BUILD@": build, "@SPACE4@": f"{space}4", "@BADPATH@": f"CT-{tickets[3] % 900 + 21}", "@TOODEEP@": f"CT-{tickets[0] % 900 + 34}",
        "@WHERE@": "",
    }  # fmt: skip

    def fill(text):
        for mark, value in marks.items():
            text = text.replace(mark, value)
        return tidy(text)

    # --- workspace --------------------------------------------------------------------------------------------------
    rows = []
    for number in range(rng.randrange(205, 260)):
        rows.append(f"c{number:04d},{4.9 + rng.random() * 3.4:.5f},{60.2 + rng.random() * 1.9:.5f}")
    r.file("data/cairns.csv", "id,lon,lat\n" + "\n".join(rows) + "\n")
    r.file(
        "conf/tiles.ini",
        f"[server]\nport = {port}\nworkers = 3\n\n[tiles]\nmax_zoom = 14\n\n[cache]\nfolder = var/{space}4\nmegabytes = {limit}\n",
    )
    library(r, "vendor/quadmesh", OLD_GRID, fill(OLD_PACK), old, f"# Changes\n\n## {old}\n\n- typing only\n")
    library(r, f"drop/quadmesh-{new}", NEW_GRID, NEW_PACK, new, fill(NEW_CHANGES))
    for name, text in {"store": STORE, "serve": SERVE, "cache": CACHE, "__init__": ""}.items():
        r.file(f"cairntiles/{name}.py", fill(text) if text else "")
    r.file("cairntiles/probe3.py", '"""Left from quadmesh 3."""\n\nfrom quadmesh import mesh3\n\nprint(mesh3.ROWS)\n')
    r.file("scripts/verify_vendor.sh", tidy(VERIFY))
    r.file("conftest.py", 'import sys\n\nsys.path.insert(0, "vendor")\n')
    for _ in range(4):
        r.file(
            f"var/{space}4/{space}4-08-{rng.getrandbits(16):016b}.json",
            json.dumps({"count": rng.randrange(9, 40)}) + "\n",
        )
    r.file(".gitignore", "drop/\nvar/\n")
    survey = r.run("PYTHONPATH=vendor python -m cairntiles.serve 8")
    counts = {f"/t/{path}.json": int(count) for path, count in re.findall(r"^(\S+) status=200 count=(\d+)", survey, re.M)}
    r.file("tests/counts.json", json.dumps(counts, indent=1) + "\n")
    marks["@WHERE@"] = r.run(
        'PYTHONPATH=vendor python -c "from cairntiles import serve; print(serve.where(6.5, 61.0, 9))"'
    ).strip()
    r.file("tests/test_tiles.py", fill(TESTS))
    ready = [
        "Compare old and new API",
        "Put the new library in place",
        "One door to quadmesh",
        "Same counts as before",
        "Cache names",
        "Notes for operators",
    ]

    def todo(done):
        return r.todo(
            *((item, "completed" if n < done else "in_progress" if n == done else "pending") for n, item in enumerate(ready))
        )

    # --- first look -------------------------------------------------------------------------------------------------
    r.system(
        "You help to maintain a small tile server for hiking maps. You work in its repository with a shell, file reading, writing and "
        "editing, search and a task list. Libraries are vendored: there is no package manager and no network here. Find out before you "
        "decide, keep changes small, run the tests after each one. Report briefly, with the numbers that matter, and say so when an "
        "earlier statement of yours turns out wrong."
    )
    r.instructions(
        dedent("""
        cairn-tiles serves stone cairns as integer tiles to a hiking app.

        - `cairntiles/` is ours, `vendor/quadmesh/` is the mesh library, a plain folder with its own CHANGELOG.md and SHA256SUMS.
        - New releases of the library arrive unpacked under `drop/`, which git does not track. Neither does it track `var/`.
        - Tests: `python -m pytest -q`. `tests/counts.json` says how many cairns each tile of zoom 8 shows.
        - Survey of a zoom: `PYTHONPATH=vendor python -m cairntiles.serve 8`.
        - `sh scripts/verify_vendor.sh` must print "vendor ok" before every release.
        - Production listens on the port of `conf/tiles.ini`; the error codes (CT-...) are shown by the app and stay.
        - Plain functions, no classes where a tuple will do. British spelling in texts.
        """)
    )
    r.run("git init -q && git add -A && git commit -qm 'Import of the tile server'")
    r.user(
        f"quadmesh {new} is out and 4.x gets no fixes any more. I unpacked it under drop/. Please move us over. Start with what breaks, "
        "judging from its changelog and from the code, before you replace anything."
    )
    r.agent(
        "I'll look at both copies and at what we call.",
        r.bash("git ls-files | sort; find drop var -type f | sort"),
        r.grep("quadmesh", "cairntiles"),
        r.read(f"drop/quadmesh-{new}/CHANGELOG.md"),
    )
    r.agent(
        "",
        r.bash("cat vendor/quadmesh/grid.py vendor/quadmesh/pack.py"),
        r.read(f"drop/quadmesh-{new}/grid.py"),
        r.bash(f"cat drop/quadmesh-{new}/pack.py drop/quadmesh-{new}/SHA256SUMS vendor/quadmesh/SHA256SUMS"),
    )
    r.agent(
        "Now our side.",
        r.read("cairntiles/serve.py"),
        r.read("cairntiles/store.py"),
        r.read("cairntiles/cache.py"),
        r.bash("cat conf/tiles.ini; head -9 data/cairns.csv; sed -n '12,$p' tests/test_tiles.py"),
    )
    base = r.agent(
        "And the state before any change.",
        r.bash("python -m pytest -q; sh scripts/verify_vendor.sh"),
        r.bash("PYTHONPATH=vendor python -m cairntiles.serve 8"),
    )
    lines = base[1].splitlines()
    first_key = re.search(r"key=(\S+)", lines[0])[1]
    first_sum = re.search(r"sum=(\S+)", lines[0])[1]
    passed = re.search(r"(\d+) passed", base[0])[1]
    r.agent(
        "Seven breaks are announced, and we touch each of them: row direction, order of bounds, keys, packing and its extent, rounding, the sum, "
        "the exception. Three of our modules import quadmesh, probe3.py for a module that 4.x no longer had. I would write one adapter, "
        "cairntiles/mesh.py, and route everything through it; changing the calls in place is the other way, "
        "but then the flipped rows would be spread over three modules.",
        todo(1),
    )
    r.truth.decision(
        chosen="I would write one adapter",
        rejected="changing the calls in place is the other way",
        reason="then the flipped rows would be spread over three modules",
    )
    r.user(
        "Adapter it is. Keep in mind that whatever sits in vendor/quadmesh stays byte for byte what upstream ships; the audit recomputes the sums. "
        "probe3 can go."
    )
    r.truth.constraint("whatever sits in vendor/quadmesh stays byte for byte what upstream ships")
    r.agent(
        "The library first, then the dead probe.",
        r.bash(
            f"git rm -rq vendor/quadmesh cairntiles/probe3.py && mkdir -p vendor && cp -r drop/quadmesh-{new} vendor/quadmesh && sh scripts/verify_vendor.sh"
        ),
        r.bash("python -m pytest -q --tb=line 2>&1 | tail -6"),
    )
    r.agent(
        f"Collection fails, as it must: cannot import name 'quadkey'. Version {new} is in place with good sums. The adapter keeps our own signatures, so "
        "callers hardly change.",
        r.write("cairntiles/mesh.py", tidy(MESH)),
        todo(2),
    )
    r.agent(
        "",
        r.bash(
            "sed -i 's/^from quadmesh.grid import bounds, tile_of/from cairntiles.mesh import bounds, tile_of/' cairntiles/store.py && "
            "sed -i -e '/^from quadmesh.pack/d' -e 's/^from quadmesh.grid import.*/from cairntiles import cache, mesh, store/' -e '/^from cairntiles import cache, store/d' "
            "-e 's/pack(points, bounds(x, y, zoom))/mesh.pack(points, x, y, zoom)/' -e 's/checksum(values)/mesh.checksum(values)/' "
            "-e 's/ tile_of(/ mesh.tile_of(/' cairntiles/serve.py && git diff -U0 cairntiles/serve.py | grep '^[+-]'"
        ),
        r.edit(
            "cairntiles/serve.py",
            "    except ValueError:\n        return None\n",
            "    except mesh.OutOfMesh:\n        return None\n",
        ),
        r.bash(
            "sed -i -e 's/^from quadmesh.grid import quadkey/from cairntiles import mesh/' -e 's/{quadkey(x, y, zoom)}/{mesh.key(x, y, zoom)}/' cairntiles/cache.py "
            "&& python -m pytest -q --tb=no"
        ),
    )
    broken = r.agent(
        "",
        r.bash(
            "export PYTHONPATH=vendor; python -m cairntiles.serve 8 | cut -d' ' -f1,3-5; "
            'python -c "from cairntiles import serve; print(serve.where(180.0, 10.0, 4), serve.where(-180.0, 10.0, 4), serve.where(0.5, 86.3, 4))"'
        ),
    )
    assert "/t/4/16/" in broken[0]
    r.agent(
        "Most tiles show a few cairns less than in tests/counts.json. Two of the announced breaks concern rows and v. "
        "I take it the missing cairns come from the flipped rows: somewhere a tile is asked for one row too far north. "
        "The antimeridian test is another matter, I'll come back to it."
    )
    r.truth.belief(
        wrong="I take it the missing cairns come from the flipped rows",
        corrected="It was not the rows after all",
    )
    r.user(
        "Before you chase it: the addresses must not change, the app keeps tiles offline under /t/zoom/column/row with rows from the south. So no "
        "switching to northern rows outside, tempting as it is."
    )
    r.truth.constraint("the addresses must not change")
    r.agent(
        "Then I test the rows alone: the bounds of our adapter against those of the old library, which git still has.",
        r.read("cairntiles/compat.py"),
        r.bash(
            "mkdir -p build/old && git archive HEAD vendor | tar -x -C build/old && cat > build/rows.py <<'END'\nimport sys\n"
            "sys.path[:0] = ['.', sys.argv[1]]\nif 'old' in sys.argv[1]:\n    from quadmesh.grid import bounds, tile_of\nelse:\n"
            "    from cairntiles.mesh import bounds, tile_of\nfor lon, lat in ((5.1, 60.3), (6.5, 61.0), (8.2, 62.05)):\n"
            "    x, y = tile_of(lon, lat, 8)\n    print(f'{lon}/{lat} tile={x}/{y} west,south,east,north=' + ' '.join(f'{b:.6f}' for b in bounds(x, y, 8)))\nEND\n"
            "python build/rows.py build/old/vendor; echo; python build/rows.py vendor"
        ),
    )
    # two of the old margins' cairns, counted
    where = r.agent(
        "No compat module, I misremembered; the bounds are what matters, and they agree to six digits. So what is dropped, and where does it lie?",
        r.bash(
            "cat > build/lost.py <<'END'\nimport sys\nsys.path[:0] = ['.', 'vendor']\nfrom cairntiles import mesh, store\ncairns = store.load('data/cairns.csv')\n"
            "inside = outside = 0\nfar = []\nfor x, y in store.tiles(cairns, 8):\n    west, south, east, north = mesh.bounds(x, y, 8)\n"
            "    for lon, lat in store.around(cairns, x, y, 8):\n        u, v = (lon - west) / (east - west) * 4096, (lat - south) / (north - south) * 4096\n"
            "        out = max(-u, -v, u - 4096, v - 4096)\n        inside += out <= 0\n        outside += out > 0\n        far += [out] if out > 0 else []\n"
            "print(f'inside: {inside}\\noutside: {outside}\\nnearest: {min(far):.2f}\\nfarthest: {max(far):.2f}')\n"
            f"print('within_{margin}:', sum(f <= {margin} for f in far))\nEND\npython build/lost.py"
        ),
    )
    outside, within = re.search(r"outside: (\d+)", where[0])[1], re.search(r"within_\d+: (\d+)", where[0])[1]
    r.agent(
        f"It was not the rows after all. The dropped points are the ones just outside a tile, {outside} that overlap from the "
        f"neighbours, and {within} of those were shown until today: pack() had margin={margin} by default, Packer has margin 0, and the changelog is silent about it. I set both values in our adapter.",
        r.edit(
            "cairntiles/mesh.py",
            "PACKER = Packer(extent=4096)\n",
            f"PACKER = Packer(extent=4096, margin={margin})  # the defaults changed with 5.0\n",
        ),
        r.bash("rm -r build && python -m pytest -q --tb=line | grep -v '^$' | tail -5"),
    )
    r.truth.update("margin", "margin: int = 0", f"Packer(extent=4096, margin={margin})")
    r.agent(
        "Every count is right again. What is left is longitude 180: the old grid clamped the column, the new locate() yields column 16 of 16. That is "
        "a bug upstream. A clamp in our adapter would hide it, patching grid.py is out, so I'd like to know what you prefer.",
        r.bash(
            'PYTHONPATH=vendor python -c "from quadmesh.grid import locate; [print(z, locate(z, lon=180.0, lat=-17.25), locate(z, lon=180.0, lat=-17.25).key) for z in (4, 9, 14)]"'
        ),
        todo(4),
    )
    # --- upstream answers -------------------------------------------------------------------------------------------
    fixed = NEW_GRID.replace("    x = int((lon", "    x = min(n - 1, int((lon").replace(
        "* n)\n    return Tile", "* n))\n    return Tile"
    )
    log = fill(NEW_CHANGES).replace(
        "# Changes\n",
        f"# Changes\n\n## {newer}\n\n- longitude 180 falls into the last column again (QM-{tickets[3]})\n- no other change\n",
        1,
    )
    library(r, f"drop/quadmesh-{newer}", fixed, NEW_PACK, newer, log)
    r.user(
        f"I rang the author, he was embarrassed: {newer} fixes exactly that, ticket QM-{tickets[3]}. It is in drop/ now. Take it instead of "
        f"{new} and check that nothing else slipped in."
    )
    r.truth.update("quadmesh", new, newer)
    r.agent(
        "",
        r.bash(f"diff -r drop/quadmesh-{new} drop/quadmesh-{newer}"),
        r.bash(
            f"rm -r vendor/quadmesh && cp -r drop/quadmesh-{newer} vendor/quadmesh && sh scripts/verify_vendor.sh && python -m pytest -q"
        ),
    )
    r.agent(
        "One line of code differs, nothing slipped in, and all tests pass. I commit the library and our side together, since neither works alone.",
        r.bash(f"git add -A && git commit -qm 'quadmesh {newer} through one adapter' && git show --stat --format='%h %s' HEAD"),
        r.bash("PYTHONPATH=vendor python -m cairntiles.serve 9"),
    )
    r.user(
        f"Now the cache. Names have quadkeys in them, so old files can't be served any more. But leave the files under var/{space}4 where they are, I "
        "need them if we have to roll back."
    )
    r.truth.constraint(f"leave the files under var/{space}4 where they are")
    r.agent(
        "What the names look like on both sides:",
        r.bash(
            'find var -type f | sort | xargs wc -c; PYTHONPATH=vendor python -c "from cairntiles import cache; print(cache.name(133, 182, 8), cache.name(0, 0, 0))"'
        ),
        r.bash(
            "awk -F, 'NR>1 {n++; s+=$2; t+=$3} END {printf \"cairns=%d mean_lon=%.4f mean_lat=%.4f\\n\", n, s/n, t/n}' data/cairns.csv"
        ),
    )
    r.agent(
        f"Same prefix, other tail: a rolled-back server and the new one would write into one folder and never clean up after each other. I give the new "
        f"names a space of their own, {space}5, and a folder var/{space}5. Converting old files in place is no good because their values were cut off, not rounded.",
        r.edit("cairntiles/cache.py", f'SPACE = "{space}4"', f'SPACE = "{space}5"'),
        r.edit("conf/tiles.ini", f"folder = var/{space}4", f"folder = var/{space}5"),
    )
    r.truth.update("cache space", f'SPACE = "{space}4"', f'SPACE = "{space}5"')
    r.truth.decision(
        chosen="names a space of their own",
        rejected="Converting old files in place is no good",
        reason="because their values were cut off, not rounded",
    )
    r.user(
        f"Fine. Also raise max_zoom from 14 to {deep}, the app asks for it and gets errors. And the module name cache.py always misleads people, "
        "nothing is cached in it. Call it tilenames."
    )
    r.agent(
        "",
        r.edit("conf/tiles.ini", "max_zoom = 14", f"max_zoom = {deep}"),
        r.bash(
            "git mv cairntiles/cache.py cairntiles/tilenames.py && sed -i -e 's/import cache, mesh/import mesh/' -e 's/mesh, store/mesh, store, tilenames/' "
            "-e 's/cache\\.name/tilenames.name/' cairntiles/serve.py && python -m pytest -q --tb=line 2>&1 | tail -5"
        ),
        todo(5),
    )
    r.truth.update("max_zoom", "max_zoom = 14", f"max_zoom = {deep}")
    after = r.agent(
        "The tests still import the old name. I correct them, and add two that the upgrade taught me: neighbours share edge cairns, and the packer's values are ours.",
        r.bash(
            "sed -i -e 's/import cache, serve/import mesh, serve, tilenames/' -e 's/cache\\.name/tilenames.name/' tests/test_tiles.py && grep -n 'tilenames' tests/test_tiles.py"
        ),
        r.write(
            "tests/test_mesh.py",
            dedent(f"""\
            from cairntiles import mesh


            def test_packer_does_not_follow_library_defaults():
                assert (mesh.PACKER.extent, mesh.PACKER.margin) == (4096, {margin})


            def test_a_cairn_on_the_edge_shows_in_both_tiles():
                west, south, east, north = mesh.bounds(132, 182, 8)
                edge = [(east, (south + north) / 2)]
                assert mesh.pack(edge, 132, 182, 8)[0] == 4096
                assert mesh.pack(edge, 133, 182, 8)[0] == 0
            """),
        ),
        r.bash(
            f"python -m pytest -q && PYTHONPATH=vendor python -m cairntiles.serve 7 && git add -A && git commit -qm 'tilenames, zoom {deep}' && git log -1 --format='%h %T'"
        ),
    )
    total = re.search(r"(\d+) passed", after[2])[1]
    r.truth.update("tests passing", f"{passed} passed", f"{total} passed")
    assert "failed" not in after[2]
    # --- values change, and the notes ---------------------------------------------------------------------------------
    tally = r.agent(
        f"Before I forget: more zooms mean more files in the cache, which is limited to {limit} megabytes. What would a full cache hold? Every second zoom will do.",
        r.bash(
            "mkdir -p build && cat > build/fill.py <<'END'\nimport sys\nsys.path[:0] = ['.', 'vendor']\nfrom cairntiles import serve, store\ncairns = store.load('data/cairns.csv')\n"
            "total = 0\nfor zoom in range(8, serve.CONF.getint('tiles', 'max_zoom') + 1, 2):\n    tiles = store.tiles(cairns, zoom)[:40]\n"
            "    sizes = [len(serve.handle(f'/t/{zoom}/{x}/{y}.json')[1]) for x, y in tiles]\n    held = len(store.tiles(cairns, zoom))\n"
            "    total += held * sum(sizes) // len(sizes)\n"
            "    print(f'zoom={zoom} tiles={held} mean_bytes={sum(sizes) / len(sizes):.1f} largest={max(sizes)}')\nprint('all together:', total, 'bytes')\nEND\n"
            "python build/fill.py; rm -r build"
        ),
    )
    together = re.search(r"all together: (\d+)", tally[0])[1]
    # --- a night on staging -----------------------------------------------------------------------------------------
    r.file("var/log/staging.log", staging(r, space, deep, marks["@TOODEEP@"]))
    out_code = f"CT-{tickets[1] % 900 + 57}"
    r.user(
        f"{together} bytes is nothing, leave the limit. I let staging run with your branch overnight, var/log/staging.log. Someone testing there saw "
        f"cairns in a tile that has none. If it's our mistake: answer such requests with 404 and the code {out_code}."
    )
    r.agent(
        "First the shape of the log, then whether one cache name ever stood for two addresses.",
        r.bash("cut -d' ' -f4 var/log/staging.log | sort | uniq -c; cat var/log/staging.log"),
        r.bash(
            'awk \'{for (i=1;i<=NF;i++) {split($i,a,"="); f[a[1]]=a[2]} if (f["status"]==200) print f["key"], f["path"]}\' var/log/staging.log | sort -u | awk \'{n[$1]++; p[$1]=p[$1] " " $2} END {for (k in n) if (n[k]>1) print k ":" p[k]}\''
        ),
    )
    r.agent(
        "That is it. Somebody asks for column 16 at zoom 4, where 15 is the last, and Tile.key counts on: column 16 of one row has the integer of column 0 of the "
        "next. The old quadkeys cut the surplus bit off, so it was wrong before as well, only in another tile. A test, then a check in handle().",
        r.bash(
            f'cat >> tests/test_tiles.py <<\'END\'\n\n\n@pytest.mark.parametrize("path", ["/t/4/16/9.json", "/t/4/3/-1.json", "/t/0/0/1.json"])\n'
            f'def test_outside_the_grid(path):\n    assert serve.handle(path) == (404, \'{{"error": "{out_code}"}}\')\nEND\npython -m pytest -q --tb=no'
        ),
        r.edit(
            "cairntiles/serve.py",
            "    points = store.around(",
            f'    if not (0 <= x < 2**zoom and 0 <= y < 2**zoom):\n        return 404, \'{{"error": "{out_code}"}}\'\n    points = store.around(',
        ),
        r.bash(
            "python -m pytest -q && git commit -qam 'Columns and rows outside the grid are not found' && git log -1 --format='%h %T'"
        ),
    )
    r.agent(
        "",
        r.bash(
            'awk \'{split($6,b,"="); split($7,u,"="); bytes+=b[2]; us+=u[2]; if (u[2]>m) {m=u[2]; w=$2}} END {printf "requests=%d bytes=%d mean_us=%.1f slowest_us=%d slowest=%s\\n", NR, bytes, us/NR, m, w}\' var/log/staging.log; '
            "grep -c cache=hit var/log/staging.log"
        ),
        todo(5),
    )
    r.user(
        "How different are the tiles themselves? The app's people want to know whether a hiker would see cairns move. Old against new, for zoom 8, in "
        "units of the extent. Throwaway script is fine."
    )
    moved = r.agent(
        "The old library again from the first commit, values of both decoded to absolute points; v has to be turned round for the new ones.",
        r.write(
            "build/moved.py",
            dedent("""\
            import importlib
            import sys

            sys.path[:0] = [".", "vendor"]
            from cairntiles import mesh, store

            cairns = store.load("data/cairns.csv")
            new = {t: mesh.pack(store.around(cairns, *t, 8), *t, 8) for t in store.tiles(cairns, 8)}
            for name in [n for n in sys.modules if n.startswith("quadmesh")]:
                del sys.modules[name]
            sys.path[:0] = ["build/old/vendor"]
            grid, packing = importlib.import_module("quadmesh.grid"), importlib.import_module("quadmesh.pack")


            def points(values, turn):
                u = v = 0
                for du, dv in zip(values[::2], values[1::2]):
                    u, v = u + du, v + dv
                    yield u, 4096 - v if turn else v


            for tile, values in new.items():
                old = packing.pack(store.around(cairns, *tile, 8), grid.bounds(*tile, 8))
                gaps = [(abs(a - c), abs(b - d)) for (a, b), (c, d) in zip(points(values, True), points(old, False))]
                same = sum(g == (0, 0) for g in gaps)
                print(f"tile={tile[0]}/{tile[1]} points={len(gaps)} same={same} worst_u={max(g[0] for g in gaps)} worst_v={max(g[1] for g in gaps)}")
            """),
        ),
        r.bash("mkdir -p build/old && git archive HEAD~3 vendor | tar -x -C build/old && python build/moved.py"),
    )
    assert set(re.findall(r"worst_.=(\d+)", moved[1])) <= {"0", "1"}
    r.agent(
        "Never more than one unit of 4096 in either direction, about 18 metres at zoom 8 in these latitudes and nothing anybody can see at that zoom. "
        "So rounding is the only difference. I remove the script.",
        r.bash("rm -r build && git status --short && git rev-parse --short HEAD~2"),
    )
    r.user(
        "Good to know. Last thing, docs/quadmesh5.md for operators: versions, the unannounced change, cache folders, how to roll back. And tell "
        "them the key of one tile before and after so they can see which server answers."
    )
    first_commit = r.run("git rev-list --max-parents=0 --abbrev-commit HEAD").strip()
    tile = lines[0].split()[0]
    now = r.agent(
        "For the example I take the first tile of the survey.",
        r.bash("PYTHONPATH=vendor python -m cairntiles.serve 8 | head -3; git log --format='%h %s'"),
    )
    new_key = re.search(r"key=(\S+)", now[0])[1]
    r.agent(
        "",
        r.write(
            "docs/quadmesh5.md",
            dedent(f"""\
            # quadmesh {old} to {newer}

            - The changelog of {new} names seven breaks. It does not name an eighth: the margin went from {margin} to 0.
              Our adapter cairntiles/mesh.py sets extent 4096 and margin {margin} itself.
            - {new} put longitude 180 into a column that does not exist (QM-{tickets[3]}). Do not use it.
            - Columns and rows outside the grid get 404 and {out_code}, they used to get somebody else's tile.
            - Addresses are as they were, rows from the south. Port {port}, zooms up to {deep}.
            - Cache: var/{space}5, names with integer keys. var/{space}4 belongs to the old server and stays for a rollback.

            ## Which server answers?

            Ask for /t/{tile}.json and look at `key`: {first_key} (sum {first_sum}) is the old one, {new_key} the new one.

            ## Rolling back

            `git checkout {first_commit}` and restart; it finds var/{space}4 as it was left. Audit build of 5.0: {build}.
            """),
        ),
        r.bash(
            "sh scripts/verify_vendor.sh && python -m pytest -q && git add docs && git commit -qm 'Notes on quadmesh 5' && git show --stat --format=%h HEAD"
        ),
        todo(6),
    )
    r.user("I'll roll it out on Thursday night. Anything I should watch in the first hour, apart from the log?")
    r.agent(
        f"Three things. The key of /t/{tile}.json on port {port}: {first_key} would mean the old process still runs. The cairn counts: if a tile "
        f"shows fewer than tests/counts.json says, somebody runs without the margin of {margin}. And the disk: var/{space}5 fills up to {limit} megabytes "
        f"beside the old folder, so both have to fit until you let var/{space}4 go.",
        r.bash(
            "find var -type f | sort | wc -l; grep -n 'megabytes\\|port\\|folder\\|zoom' conf/tiles.ini; git status --short | wc -l"
        ),
    )
    r.agent(
        f"Four old cache files are still there, the configuration is as written in the notes, nothing is uncommitted. quadmesh {newer} is ready to roll out; "
        f"the way back is {first_commit}."
    )
    r.truth.fact(
        old, new, newer, f"port = {port}", f"megabytes = {limit}", build, f"margin={margin}", first_key, first_sum, new_key, f"QM-{tickets[0]}",
        f"QM-{tickets[3]}", f"outside: {outside}", marks["@TOODEEP@"], marks["@BADPATH@"], marks["@WHERE@"], first_commit, f"{total} passed",
        "cannot import name 'quadkey'", "File does not exist: cairntiles/compat.py", f'SPACE = "{space}5"',
    )  # fmt: skip
    for value in (first_key, first_sum, str(port), str(margin), build, str(limit), old):
        r.truth.later(value)
