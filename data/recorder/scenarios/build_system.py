"""Stale objects, unstable images and a full flash in the make-based build of a greenhouse controller's firmware."""

from __future__ import annotations

import re
from textwrap import dedent

from recorder.recording import Recording

TITLE = "Incremental build, reproducible images and size budgets of a greenhouse controller"
PROJECT = "fernhouse-fw"

SYSTEM = """
You are a build engineer working in the repository of the Fernhouse greenhouse controllers. The code there is not C: control
units are written in a small language (.crop), translated by scripts under tools/ and linked into flash images by make. You have
a shell, file tools and a todo list. Look before you change, keep changes small, run the build after each of them, and say what
you measured rather than what you expect. Report sizes in bytes and checksums in full or as their first eight digits.
"""

INSTRUCTIONS = """
## Fernhouse firmware

- `make` builds `build/gh2.img` and `build/gh4.img`; `make test` runs `tests/run.py`; `make clean` empties `build/`.
- Pipeline: `tools/depscan.py` writes `build/<unit>.d`, `tools/cropc.py` translates `src/<unit>.crop` into `build/<unit>.cob`,
  `tools/link.py` joins the objects a board lists in `boards/<board>.board`, and the last step puts the header in front.
- Shared constants live in `include/*.ci`. A header may include another one.
- Addresses and budgets belong into the board files, never into the Makefile.
- Tests are plain functions named `check_*` in `tests/checks_*.py`; `run.py` numbers them and exits 1 if one fails.
- Commit after each finished piece of work, subject in the imperative, ticket number at the end.
- User-visible changes get a line in `CHANGES.txt` under the version in work.
"""

MAKEFILE = """
    # Fernhouse greenhouse controllers: control units -> flash images
    BOARDS := gh2 gh4
    PYTHON ?= python3
    BUILD  := build

    .PHONY: all clean test
    all: $(BOARDS:%=$(BUILD)/%.img)

    include mk/rules.mk

    test:
    \t@$(PYTHON) tests/run.py

    clean:
    \trm -rf $(BUILD)
"""

RULES = """
    # How each kind of file is made. Boards list their own units; every object is translated once.
    UNITS := $(sort $(notdir $(basename $(wildcard src/*.crop))))
    OBJS  := $(UNITS:%=$(BUILD)/%.cob)
    DEPS  := $(UNITS:%=$(BUILD)/%.d)

    $(BUILD):
    \t@mkdir -p $@

    $(BUILD)/%.d: src/%.crop | $(BUILD)
    \t@$(PYTHON) tools/depscan.py --target $(BUILD)/$*.cob $< > $@

    $(BUILD)/%.cob: src/%.crop | $(BUILD)
    \t$(PYTHON) tools/cropc.py -o $@ $<

    $(BUILD)/%.bin: boards/%.board $(OBJS) tools/link.py
    \t$(PYTHON) tools/link.py --board $< -o $@

    $(BUILD)/%.img: $(BUILD)/%.bin VERSION tools/mkimage.sh
    \tsh tools/mkimage.sh $* $< $@

    .SECONDARY:
    -include $(DEPS)
"""

DEPSCAN = '''
    """depscan: print a make rule that names the headers a control unit depends on."""
    import argparse
    import re
    from pathlib import Path

    INCLUDE = re.compile(r'^\\s*include\\s+"([\\w.]+)"', re.M)


    def headers(source, folder="include"):
        """The headers of one unit, in the order of their include lines."""
        text = Path(source).read_text()
        return [f"{folder}/{name}" for name in INCLUDE.findall(text)]


    def main():
        parser = argparse.ArgumentParser(prog="depscan")
        parser.add_argument("--target", required=True)
        parser.add_argument("source")
        options = parser.parse_args()
        print(f"{options.target}: {' '.join([options.source, *headers(options.source)])}")


    if __name__ == "__main__":
        main()
'''

CROPC = '''
    """cropc: translate one control unit (.crop) into an object (.cob, JSON)."""
    import argparse
    import json
    import sys
    import zlib
    from pathlib import Path

    OPS = {"load": 16, "store": 17, "cmp": 32, "jge": 48, "jlt": 49, "jmp": 50, "call": 64, "emit": 80, "wait": 81, "ret": 96}


    def probes(path="vendor/probekit/probes.tsv"):
        rows = (line.split("\\t") for line in Path(path).read_text().splitlines() if not line.startswith("#"))
        return {row[0]: int(row[1], 16) for row in rows}


    def lines_of(path, include="include"):
        """The lines of a unit with its headers put in their place."""
        for number, line in enumerate(Path(path).read_text().splitlines(), 1):
            words = line.split("#")[0].split()
            if words[:1] == ["include"]:
                yield from lines_of(f"{include}/{words[1].strip(chr(34))}")
            elif words:
                yield path, number, line, words


    def translate(source):
        unit = {"unit": "", "code": [], "words": [], "strings": [], "tasks": []}
        known, logs = probes(), {}
        for path, number, line, words in lines_of(source):
            head, rest = words[0], words[1:]
            if head == "unit":
                unit["unit"] = rest[0]
            elif head == "const":
                known[rest[0]] = int(rest[1])
            elif head == "table":
                known[rest[0]] = len(unit["words"])
                unit["words"] += [int(word) for word in rest[1:]]
            elif head == "log":
                logs[rest[0]] = len(unit["strings"])
                unit["strings"].append(line.split(chr(34))[1])
            elif head == "task":
                unit["tasks"].append({"name": rest[0], "every": known.get(rest[2]) or int(rest[2]), "at": len(unit["code"])})
            elif head in OPS:
                argument = rest[0] if rest else "0"
                if head == "call":
                    kind, value = "symbol", argument
                elif head == "emit" and argument in logs:
                    kind, value = "string", logs[argument]
                elif argument.isdigit() or argument in known:
                    kind, value = "number", known.get(argument) if argument in known else int(argument)
                else:
                    sys.exit(f"{path}:{number}: error: unknown name '{argument}'")
                unit["code"].append([OPS[head], kind, value])
            else:
                sys.exit(f"{path}:{number}: error: unknown word '{head}'")
        return unit


    def main():
        parser = argparse.ArgumentParser(prog="cropc")
        parser.add_argument("-o", dest="output", required=True)
        parser.add_argument("source")
        options = parser.parse_args()
        text = json.dumps(translate(options.source), indent=0) + "\\n"
        Path(options.output).write_text(text)
        print(f"  cropc {options.source}: bytes={len(text)} crc={zlib.crc32(text.encode()):08x}")


    if __name__ == "__main__":
        main()
'''

LINK = '''
    """link: join the objects a board lists into one payload, and write a map beside it."""
    import argparse
    import json
    import struct
    import sys
    import zlib
    from pathlib import Path


    def board_of(path):
        pairs = (line.split("=", 1) for line in Path(path).read_text().splitlines() if "=" in line and line[0] != "#")
        return {key.strip(): value.strip() for key, value in pairs}


    def lay_strings(objects):
        """Offset of each (unit, number) in the string area, and the area itself."""
        area, offsets = b"", {}
        for unit in objects:
            for number, text in enumerate(unit["strings"]):
                offsets[unit["unit"], number] = len(area)
                area += text.encode() + bytes(1)
        return offsets, area


    def link(board, objects):
        base = int(board["load_addr"], 16)
        symbols, sections, at = {}, [], 0
        for unit in objects:
            for task in unit["tasks"]:
                symbols[task["name"]] = base + 4 * (at + task["at"])
            sections.append((unit["unit"], base + 4 * at, 4 * len(unit["code"]), 2 * len(unit["words"])))
            at += len(unit["code"])
        offsets, area = lay_strings(objects)
        text = b""
        for unit in objects:
            for op, kind, value in unit["code"]:
                if kind == "symbol":
                    if value not in symbols:
                        sys.exit(f"link: error: {board['name']}: undefined reference to '{value}' in {unit['unit']}.cob")
                    value = symbols[value] & 0xFFFF
                elif kind == "string":
                    value = offsets[unit["unit"], value]
                text += struct.pack("<BBH", op, len(kind), value & 0xFFFF)
        words = b"".join(struct.pack("<H", word & 0xFFFF) for unit in objects for word in unit["words"])
        return text, words, area, symbols, sections


    def main():
        parser = argparse.ArgumentParser(prog="link")
        parser.add_argument("--board", required=True)
        parser.add_argument("-o", dest="output", required=True)
        options = parser.parse_args()
        board, output = board_of(options.board), Path(options.output)
        objects = [json.loads((output.parent / f"{unit}.cob").read_text()) for unit in board["units"].split()]
        text, words, area, symbols, sections = link(board, objects)
        payload = text + words + area
        output.write_bytes(payload)
        rows = [f"{name:<8} addr=0x{addr:07x} text={size:<5} words={more}" for name, addr, size, more in sections]
        rows += [f"symbol 0x{symbols[name]:07x} {name}" for name in sorted(symbols, key=symbols.get)]
        output.with_suffix(".map").write_text("\\n".join(rows) + "\\n")
        print(f"  link {board['name']}: text={len(text)} words={len(words)} strings={len(area)} total={len(payload)}"
              f" crc32={zlib.crc32(payload):08x}")


    if __name__ == "__main__":
        main()
'''

MKIMAGE = """
    #!/bin/sh
    # mkimage BOARD PAYLOAD IMAGE: put the text header (64 bytes) in front of a payload
    set -eu
    board=$1 payload=$2 image=$3
    size=$(wc -c < "$payload" | tr -d ' ')
    sum=$(cksum < "$payload" | cut -d' ' -f1)
    addr=$(sed -n 's/^load_addr *= *0x//p' "boards/$board.board")
    stamp=${SOURCE_DATE_EPOCH:-$(date +%s)}
    printf 'FERN %-4s %-7s %8s %08x %08x %-18s\\n' \\
      "$board" "$(cat VERSION)" "$addr" "$size" "$sum" "t$stamp" | cut -c1-63 > "$image"
    cat "$payload" >> "$image"
    echo "  image $board: bytes=$(wc -c < "$image" | tr -d ' ') cksum=$sum stamp=$stamp"
"""

RUN_TESTS = '''
    """Run every check_* function of tests/checks_*.py and number the results."""
    import importlib.util
    import sys
    from pathlib import Path

    here = Path(__file__).parent
    sys.path[:0] = [str(here.parent / "tools"), str(here)]
    number = failed = 0
    for file in sorted(here.glob("checks_*.py")):
        spec = importlib.util.spec_from_file_location(file.stem, file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name in sorted(n for n in dir(module) if n.startswith("check_")):
            number += 1
            try:
                note = getattr(module, name)() or ""
                print(f"ok {number} {file.stem}.{name[6:]} {note}".rstrip())
            except AssertionError as error:
                failed += 1
                print(f"FAILED {number} {file.stem}.{name[6:]}: {error}")
    print(f"checks: {number} failed: {failed}")
    sys.exit(bool(failed))
'''

CHECKS_LINK = '''
    """Checks of the linker on small objects made by hand."""
    import link

    ONE = {"unit": "one", "code": [[80, "string", 0], [96, "number", 0]], "words": [7], "strings": ["door open"], "tasks": []}
    TWO = {**ONE, "unit": "two", "code": [[80, "string", 1]], "strings": ["fan stuck", "door open"]}


    def check_text_is_four_bytes_a_line():
        text, *_ = link.link({"name": "t", "load_addr": "0x1000"}, [ONE])
        assert len(text) == 8, len(text)


    def check_words_follow():
        _, words, *_ = link.link({"name": "t", "load_addr": "0x1000"}, [ONE])
        assert words == bytes([7, 0]), words
'''

COMMON_LOGS = (
    "sensor silent, holding last value",
    "value outside calibrated range",
    "operator override is active",
    "relay did not confirm in time",
    "configuration block replaced by defaults",
)

CHECKS_DEPSCAN = '''
    """Checks of depscan on a small tree written into a temporary folder."""
    import os
    import tempfile
    from pathlib import Path

    import depscan

    TREE = {
        "include/inner.ci": "const DEPTH 3\\n",
        "include/outer.ci": 'include "inner.ci"\\n',
        "src/flat.crop": 'include "inner.ci"\\n',
        "src/nested.crop": 'include "outer.ci"\\n',
        "src/both.crop": 'include "inner.ci"\\ninclude "outer.ci"\\n',
    }


    def scan(name):
        before = Path.cwd()
        with tempfile.TemporaryDirectory() as folder:
            for path, text in TREE.items():
                file = Path(folder, path)
                file.parent.mkdir(exist_ok=True)
                file.write_text(text)
            os.chdir(folder)
            try:
                return depscan.headers(f"src/{name}.crop")
            finally:
                os.chdir(before)


    def check_flat():
        assert scan("flat") == ["include/inner.ci"], scan("flat")


    def check_nested():
        assert scan("nested") == ["include/outer.ci", "include/inner.ci"], scan("nested")


    def check_both_ways_once():
        assert scan("both") == ["include/inner.ci", "include/outer.ci"], scan("both")
'''

PACK_IMAGE = '''
    """pack_image: put the text header in front of a payload and name the image by its content."""
    import argparse
    import hashlib
    import sys
    from pathlib import Path

    from link import board_of

    HEADER = 64


    def header(board, version, payload, checksum):
        """One line of text, filled up with blanks; the last field is the build id."""
        build_id = hashlib.sha256(version.encode() + payload).hexdigest()[:12]
        fields = f"FERN {board['name']:<4} {version:<7} {board['load_addr'][2:]:>8} {len(payload):08x} {checksum:08x} b{build_id}"
        line = f"{fields:<{HEADER - 1}}\\n".encode()
        if len(line) != HEADER:
            sys.exit(f"pack_image: error: header of {len(line)} bytes")
        return line, build_id


    def cksum(data):
        """The CRC that the cksum command prints, which bootloaders compare."""
        crc = 0
        size = len(data)
        tail = bytearray()
        while size:
            tail.append(size & 255)
            size >>= 8
        for byte in bytes(data) + bytes(tail):
            crc ^= byte << 24
            for _ in range(8):
                crc = (crc << 1 ^ 0x04C11DB7 if crc & 1 << 31 else crc << 1) & 0xFFFFFFFF
        return crc ^ 0xFFFFFFFF


    def main():
        parser = argparse.ArgumentParser(prog="pack_image")
        parser.add_argument("--board", required=True)
        parser.add_argument("payload")
        parser.add_argument("image")
        options = parser.parse_args()
        board, payload = board_of(options.board), Path(options.payload).read_bytes()
        line, build_id = header(board, Path("VERSION").read_text().strip(), payload, cksum(payload))
        Path(options.image).write_bytes(line + payload)
        print(f"  image {board['name']}: bytes={HEADER + len(payload)} cksum={cksum(payload)} id=b{build_id}")


    if __name__ == "__main__":
        main()
'''

BUDGET = '''
    """budget: compare images with what their boards allow; exit 1 if one is too large."""
    import sys
    from pathlib import Path

    from link import board_of

    over = 0
    print("board  image  budget  free  used")
    for path in sys.argv[1:]:
        board = board_of(f"boards/{Path(path).stem}.board")
        size, allowed = Path(path).stat().st_size, int(board["image_budget"])
        print(f"{board['name']:<5} {size:>6} {allowed:>7} {allowed - size:>5}  {100 * size / allowed:.1f}%")
        if size > allowed:
            over += 1
            print(f"budget: error: {board['name']}.img is {size - allowed} bytes over image_budget={allowed}")
    sys.exit(bool(over))
'''

COST = '''
    """cost: modelled cycles per hour of every task on a board."""
    import json
    import sys
    from pathlib import Path

    from link import board_of

    CYCLES = {80: <EMIT>, 64: <CALL>, 81: 12}  # emit, call, wait
    LIMIT = <LIMIT>


    def cost(unit, task):
        """Cycles of one run: all lines from the task's start to its return."""
        lines = unit["code"][task["at"]:]
        end = next(n for n, line in enumerate(lines) if line[0] == 96) + 1
        return sum(CYCLES.get(op, 8) for op, kind, value in lines[:end])


    for name in sys.argv[1:]:
        total = 0
        names = board_of(f"boards/{name}.board")["units"].split()
        for unit in [json.loads(Path(f"build/{n}.cob").read_text()) for n in names]:
            for task in unit["tasks"]:
                if task["every"]:
                    run = cost(unit, task)
                    hourly = run * 3_600_000 // task["every"]
                    total += hourly
                    print(f"{name} {task['name']:<12} every_ms={task['every']:<5} run={run:<5} hourly={hourly}")
        print(f"{name} total={total} limit={LIMIT} {'TOO MUCH' if total > LIMIT else 'fine'}")
'''

COST_WITH_CALLS = '''
    """cost: modelled cycles per hour of every task on a board."""
    import json
    import sys
    from pathlib import Path

    from link import board_of

    CYCLES = {80: <EMIT>, 64: <CALL>, 81: 12}  # emit, call, wait
    LIMIT = <LIMIT>


    def cost(units, name):
        """Cycles of one run of a task up to its return, called tasks included."""
        unit, task = next((u, t) for u in units for t in u["tasks"] if t["name"] == name)
        lines = unit["code"][task["at"]:]
        end = next(n for n, line in enumerate(lines) if line[0] == 96) + 1
        called = [cost(units, value) for op, kind, value in lines[:end] if kind == "symbol"]
        return sum(called) + sum(CYCLES.get(op, 8) for op, kind, value in lines[:end])


    for name in sys.argv[1:]:
        total = 0
        names = board_of(f"boards/{name}.board")["units"].split()
        units = [json.loads(Path(f"build/{n}.cob").read_text()) for n in names]
        for task in [task for unit in units for task in unit["tasks"] if task["every"]]:
            run = cost(units, task["name"])
            hourly = run * 3_600_000 // task["every"]
            total += hourly
            print(f"{name} {task['name']:<12} every_ms={task['every']:<5} run={run:<5} hourly={hourly}")
        print(f"{name} total={total} limit={LIMIT} {'TOO MUCH' if total > LIMIT else 'fine'}")
'''

MANIFEST = '''
    """manifest: describe the images of a release in dist/manifest.json."""
    import hashlib
    import json
    import sys
    from pathlib import Path

    from link import board_of

    entries = []
    for path in sys.argv[2:]:
        image = Path(path)
        board, data = board_of(f"boards/{image.stem}.board"), image.read_bytes()
        head = data[:64].decode().split()
        entries.append({
            "board": board["name"], "load_addr": board["load_addr"], "bytes": len(data), "free": int(board["image_budget"]) - len(data),
            "build_id": head[-1], "sha256": hashlib.sha256(data).hexdigest(),
        })
    document = {"product": "fernhouse", "version": Path("VERSION").read_text().strip(), "images": entries}
    Path(sys.argv[1]).write_text(json.dumps(document, indent=2) + "\\n")
    print(f"  manifest {sys.argv[1]}: images={len(entries)} bytes={sum(e['bytes'] for e in entries)}")
'''


def code(text: str) -> str:
    return dedent(text).lstrip("\n")


def unit(r: Recording, name: str, include: str, table: int, every: str, body: str, own_logs: tuple[str, ...] = ()) -> str:
    """The text of one control unit; its calibration table and the log texts come from the seed."""
    curve = " ".join(str(r.rng.randrange(1100, 4090)) for _ in range(table))
    texts = own_logs + COMMON_LOGS
    logs = "\n".join(f'log m{number} "{text}"' for number, text in enumerate(texts))
    return (
        f'unit {name}\ninclude "{include}"\ntable {name}_curve {curve}\n{logs}\n\n'
        f"task {name}_check every {every}\n{dedent(body).strip()}\n"
    )


def play(r: Recording) -> None:
    rng = r.rng
    ticket = f"GHB-{rng.randrange(2100, 9800)}"
    release = f"rel-{rng.randrange(16**6):06x}"
    old_soil, new_soil = rng.randrange(27, 33), rng.randrange(34, 41)
    address2, address4 = f"0x801{rng.choice('89ac')}{rng.choice('048c')}00", f"0x804{rng.choice('12357')}{rng.choice('048c')}00"
    watchdog = rng.choice([1250, 1350, 1450, 1550])
    new_watchdog = watchdog + rng.choice([275, 325, 425])
    old_version, new_version = (f"3.{minor}.{rng.randrange(1, 9)}" for minor in (8, 9))
    revision = f"PK-{rng.randrange(30, 99)}{rng.choice('ABCDEF')}-{rng.randrange(1000, 9999)}"
    pulse, gap = rng.randrange(610, 990), rng.randrange(4100, 8900)
    emit, call, ceiling = (
        rng.randrange(380, 690),
        rng.randrange(23, 47),
        rng.randrange(21, 29) * 1_000_000 + rng.randrange(1000, 9999),
    )
    flash_part = f"NV{rng.randrange(20, 90)}Q{rng.randrange(100, 999)}"

    # --- the repository ---------------------------------------------------------------------------------------
    for path, text in (
        ("Makefile", MAKEFILE), ("mk/rules.mk", RULES), ("tools/depscan.py", DEPSCAN), ("tools/cropc.py", CROPC),
        ("tools/link.py", LINK), ("tools/mkimage.sh", MKIMAGE), ("tests/run.py", RUN_TESTS), ("tests/checks_link.py", CHECKS_LINK),
    ):  # fmt: skip
        r.file(path, code(text))
    r.file(
        "tools/crc16.awk",
        '# CRC-16 of a hex dump, for the bootloader of the first series (gh1)\n{ for (i = 1; i <= NF; i++) sum = (sum * 17 + index("0123456789abcdef", $i)) % 65536 }\nEND { printf "%04x\\n", sum }\n',
    )
    r.file("VERSION", f"{old_version}\n")
    r.file(".gitignore", "build/\n__pycache__/\n")
    r.file("CHANGES.txt", f"{old_version}\n  - light: dimming follows the outdoor sensor\n  - vent: slower closing in wind\n")
    r.file(
        "docs/flashing.md",
        f"# Flashing\n\ngh2 images go to {address2}, gh4 images to {address4}. The bootloader listens on the service port at 38400 baud\nand answers `FERN?` with its serial number.\n\nFirst series (gh1): see `tools/crc16.awk`.\n",
    )
    r.file(
        "include/limits.ci",
        f"# Operating limits, agreed with the growers\nconst SOIL_MIN_PCT {old_soil}\nconst SOIL_MAX_PCT {old_soil + 41}\nconst AIR_HOT_DC {rng.randrange(286, 329)}\nconst LUX_DUSK {rng.randrange(1300, 2900)}\n",
    )
    r.file(
        "include/climate.ci",
        f'# Climate model of one bay\ninclude "limits.ci"\nconst BAY_VOLUME_L {rng.randrange(41000, 68000)}\nconst DRIP_FLOW_MLM {rng.randrange(2100, 3900)}\nconst FAN_STEP {rng.randrange(7, 19)}\n',
    )
    r.file("include/fog.ci", f'# Fogging nozzles\ninclude "climate.ci"\nconst FOG_PULSE_MS {pulse}\nconst FOG_GAP_MS {gap}\n')
    names = ["air_temp", "air_hum", "soil_moist", "lux_in", "lux_out", "tank_level", "pump_cur", "door"]
    probe_rows = "\n".join(f"{n}\t{0x4000 + rng.randrange(16, 4000):04x}\t{rng.randrange(10**6):06d}" for n in names)
    r.file("vendor/probekit/probes.tsv", f"# probekit sheet {revision}, generated: name, channel, serial\n{probe_rows}\n")
    r.file("vendor/probekit/NOTICE", "Generated by the supplier's export; see the sheet number in probes.tsv.\n")
    r.file(
        "src/main.crop",
        unit(
            r,
            "main",
            "limits.ci",
            18,
            "1000",
            """
        load door
        cmp 1
        jlt 2
        emit m0
        wait WATCHDOG_MS
        call vent_check
        call soil_check
        call light_check
        ret
    """,
            ("door left open",),
        ).replace("table main", f"const WATCHDOG_MS {watchdog}\ntable main"),
    )
    r.file(
        "src/vent.crop",
        unit(
            r,
            "vent",
            "limits.ci",
            40,
            "500",
            """
        load air_temp
        cmp AIR_HOT_DC
        jlt 3
        emit m0
        store vent_curve
        ret
    """,
            ("opening roof vents",),
        ),
    )
    r.file(
        "src/soil.crop",
        unit(
            r,
            "soil",
            "climate.ci",
            64,
            "2000",
            """
        load soil_moist
        cmp SOIL_MIN_PCT
        jge 4
        emit m0
        wait DRIP_FLOW_MLM
        store soil_curve
        cmp SOIL_MAX_PCT
        ret
    """,
            ("soil below minimum, drip on",),
        ),
    )
    r.file(
        "src/light.crop",
        unit(
            r,
            "light",
            "limits.ci",
            32,
            "5000",
            """
        load lux_out
        cmp LUX_DUSK
        jge 2
        emit m0
        store light_curve
        ret
    """,
            ("lamps follow dusk curve",),
        ),
    )
    r.file(
        "src/dose.crop",
        unit(
            r,
            "dose",
            "climate.ci",
            56,
            "8000",
            """
        load pump_cur
        cmp BAY_VOLUME_L
        jge 3
        emit m0
        call valve_pulse
        store dose_curve
        ret

        task valve_pulse every 0
        store tank_level
        wait 250
        emit m1
        ret
    """,
            ("dosing nutrient stock", "valve pulsed"),
        ),
    )
    for board, address, units in (("gh2", address2, "main vent soil light"), ("gh4", address4, "main vent soil light dose")):
        r.file(
            f"boards/{board}.board",
            f"# {board} controller\nname = {board}\nload_addr = {address}\nimage_budget = 0\nunits = {units}\n",
        )
    r.run("make -s")
    sizes = {b: int(r.run(f"wc -c < build/{b}.img")) for b in ("gh2", "gh4")}
    budget2, budget4 = sizes["gh2"] + rng.randrange(212, 260), sizes["gh4"] + rng.randrange(96, 160)
    new_budget4 = budget4 + rng.choice([1024, 1536, 2048])
    for board, allowed in (("gh2", budget2), ("gh4", budget4)):
        r.run(f"sed -i 's/image_budget = 0/image_budget = {allowed}/' boards/{board}.board")
    nightly = f"ci/nightly-{rng.randrange(310, 990)}.log"
    rows, minute = [], rng.randrange(60, 200)
    for board in ("gh2", "gh4"):
        for step in ("scan", "compile", "link", "image"):
            crc = f"{rng.randrange(16**8):08x}"
            for node in ("oak", "elm", "fir"):
                minute += rng.randrange(1, 4)
                extra = f" sha256={rng.randrange(16**64):064x}" if step == "image" else ""
                rows.append(
                    f"{minute // 60:02d}:{minute % 60:02d} node={node} job={rng.randrange(40000, 99999)} board={board} step={step} "
                    f"cpu_ms={rng.randrange(900, 9000)} rss_kb={rng.randrange(9000, 31000)} crc32={crc}{extra}"
                )
        rows.append(
            f"{minute // 60:02d}:{minute % 60:02d} compare board={board} tag=v{old_version} result=DIFFERENT payload=equal"
        )
    r.file(nightly, "\n".join(rows) + "\n")
    r.run("git init -q && git add -A && git commit -qm 'Import the firmware tree' && rm -rf build && make -s all")

    # --- stale objects ----------------------------------------------------------------------------------------
    r.system(SYSTEM)
    r.instructions(INSTRUCTIONS)
    r.user(
        f"Ticket {ticket}: a grower asked for another soil minimum, our technician set SOIL_MIN_PCT to {new_soil} in include/limits.ci, "
        "ran make and flashed an image that still had the old value. It only works after make clean. Find the cause and fix it; the new value stays."
    )
    todo = ["Reproduce the stale image", "Find the missing dependency", "Fix it and add a check"]
    r.agent(
        "I'll look at the tree and the make rules first, then try the technician's steps.",
        r.todo((todo[0], "in_progress"), (todo[1], "pending"), (todo[2], "pending")),
        r.bash("git ls-files | sort && git log --oneline && cat Makefile"),
        r.read("mk/rules.mk"),
    )
    r.agent(
        "Objects depend on their .crop file, and headers should come in through the generated .d files at the end. Now the "
        "values in play and the state of the build folder.",
        r.bash("cat include/limits.ci include/climate.ci boards/gh2.board boards/gh4.board"),
        r.bash("cd build && sha256sum *.img | cut -c1-16,65- && wc -c *.cob *.img && head -c 64 gh2.img"),
    )
    before = r.agent(
        f"The images are there and current. Changing the limit from {old_soil} to {new_soil} and building again, as the technician did.",
        r.bash(f"sed -i 's/SOIL_MIN_PCT {old_soil}/SOIL_MIN_PCT {new_soil}/' include/limits.ci && make && sha256sum build/*.bin"),
    )[0]
    stale = re.search(r"link gh2: .*crc32=(\w+)", before)[1]
    r.agent(
        f"Reproduced, and more subtle than 'nothing happens': main, vent and light were translated again, soil was not, although soil is the "
        f"one unit that uses the limit. The gh2 payload now has crc32 {stale}. So some headers do arrive; let me see the dependency files.",
        r.bash("head -n 3 build/*.d"),
        r.read("src/soil.crop"),
        r.read("src/main.crop"),
    )
    wrong = "soil.d is out of date: it was written before limits.ci became part of the climate header"
    r.agent(
        f"soil.d names only climate.ci. The rule for .d files depends on the .crop file alone, so I believe {wrong}, and nothing has "
        "rewritten it since. If that is right, deleting the .d files must be enough to cure it.",
        r.bash("rm build/*.d && make 2>&1 | grep -v '^python3' ; cat build/soil.d"),
    )
    corrected = "I was wrong about the age of soil.d"
    r.agent(
        f"{corrected}: a fresh one has the same single header, and soil.cob was again left alone. The scan itself must be incomplete.",
        r.read("tools/depscan.py"),
        r.read("tools/cropc.py"),
    )
    r.agent(
        "There it is: headers() looks at the unit's own text and never opens the headers it finds, while cropc includes them recursively. "
        "soil and dose reach limits.ci only through climate.ci. I'll write the check first.",
        r.write("tests/checks_depscan.py", code(CHECKS_DEPSCAN)),
        r.bash("make test"),
    )
    r.agent(
        "The nested case fails as it should. Now make the scan follow what it finds.",
        r.edit(
            "tools/depscan.py",
            '    text = Path(source).read_text()\n    return [f"{folder}/{name}" for name in INCLUDE.findall(text)]',
            '    found = []\n    for name in INCLUDE.findall(Path(source).read_text()):\n        found += [f"{folder}/{name}", *headers(f"{folder}/{name}", folder)]\n    return found',
        ),
        r.bash("make test 2>&1 | grep -v '^ok'; exit ${PIPESTATUS[0]}"),
    )
    r.agent(
        "Nested headers are found, but a header reached in two ways is listed twice, and two headers that include each other would never end. "
        "A list of what was seen settles both.",
        r.edit(
            "tools/depscan.py",
            '    found = []\n    for name in INCLUDE.findall(Path(source).read_text()):\n        found += [f"{folder}/{name}", *headers(f"{folder}/{name}", folder)]\n    return found',
            '    found = [] if found is None else found\n    for name in INCLUDE.findall(Path(source).read_text()):\n        if f"{folder}/{name}" not in found:\n            found.append(f"{folder}/{name}")\n            headers(f"{folder}/{name}", folder, found)\n    return found',
        ),
        r.edit(
            "tools/depscan.py", 'def headers(source, folder="include"):', 'def headers(source, folder="include", found=None):'
        ),
        r.bash("make test"),
    )
    fresh = r.agent(
        "All checks pass. One more hole: a .d file is not remade when depscan or a header changes. GCC-style, the .d file should be a target of "
        "its own rule too, so I add it beside the object, and let it depend on the scanner.",
        r.edit("tools/depscan.py", 'print(f"{options.target}: {', 'print(f"{options.target} {options.target[:-4]}.d: {'),
        r.edit("mk/rules.mk", "$(BUILD)/%.d: src/%.crop | $(BUILD)", "$(BUILD)/%.d: src/%.crop tools/depscan.py | $(BUILD)"),
        r.bash("make 2>&1 | grep -v '^python3' && cat build/soil.d build/dose.d"),
    )[2]
    fixed = re.search(r"link gh2: .*crc32=(\w+)", fresh)[1]
    r.agent(
        f"soil and dose were translated now, and the gh2 payload went from {stale} to {fixed} without make clean. Committing with a note in CHANGES.txt.",
        r.bash(
            f"sed -i '1i next\\n  - build: headers of headers count as dependencies ({ticket})\\n' CHANGES.txt && git add -A && "
            f"git commit -qm 'Follow nested headers in depscan ({ticket})' && git show --stat --format=%h%n%s | cat"
        ),
        r.todo(*((t, "completed") for t in todo)),
    )

    # --- vendor file -----------------------------------------------------------------------------------------
    leave_vendor = "please leave everything below vendor/probekit/ as it is, the supplier's export overwrites it"
    r.user(
        f"Works here, thanks. Similar complaint from the lab: a new channel in probes.tsv does not rebuild anything either. Fix the rule, but {leave_vendor}."
    )
    r.agent(
        "I can ask make what it would do if the sheet were newer, without touching it.",
        r.bash("make -n -W vendor/probekit/probes.tsv"),
        r.bash("head -n 4 vendor/probekit/probes.tsv; grep -n probes.tsv tools/*.py"),
    )
    r.agent(
        "Nothing would be built. cropc reads the sheet for every unit, so every object has to depend on it, and on cropc itself, which is missing as well.",
        r.edit(
            "mk/rules.mk",
            "$(BUILD)/%.cob: src/%.crop | $(BUILD)",
            "PROBES := vendor/probekit/probes.tsv\n\n$(BUILD)/%.cob: src/%.crop $(PROBES) tools/cropc.py | $(BUILD)",
        ),
        r.bash("make -n -W vendor/probekit/probes.tsv 2>&1 | cut -c1-60 && git status --short"),
    )
    r.agent(
        "With a newer sheet all five units, both payloads and both images would be rebuilt, and the sheet has not changed. Committed.",
        r.bash(f"git commit -qam 'Rebuild objects when the probe sheet changes ({ticket})' && git log --oneline | cat"),
    )

    # --- images that differ -----------------------------------------------------------------------------------
    keep_header = "the header must stay at 64 bytes, bootloaders in the field read exactly that"
    r.user(
        f"Next: the release desk builds each tag on three machines and compares sha256. They never match for us, see {nightly}. Please make the images reproducible. "
        f"You may change the header's contents, but {keep_header}."
    )
    todo = [
        "Compare two clean builds",
        "Replace the time stamp in the header",
        "Check the header and reproducibility",
        "Report sizes against budgets",
    ]
    two = r.agent(
        "Two clean builds into separate copies, compared byte by byte.",
        r.todo((todo[0], "in_progress"), *((t, "pending") for t in todo[1:3])),
        r.bash("make -s clean && make -s 2>&1 | grep image; cp build/gh4.img build/gh4.first"),
        r.bash(
            "SOURCE_DATE_EPOCH=$((SOURCE_DATE_EPOCH + 86400)) make -s BUILD=build2 2>&1 | grep image; cmp -l build/gh4.first build2/gh4.img | head -n 1 | sed 's/^ */differs at /'; head -c 64 build/gh4.first; head -c 64 build2/gh4.img; rm -r build2"
        ),
    )
    offset = re.search(r"differs at (\d+)", two[2])[1]
    r.agent(
        f"Payloads agree; the first difference is at byte {offset}, inside the header, in the field that starts with t. Only the stamp differs. The desk's log may confirm it.",
        r.read("tools/mkimage.sh"),
        r.read("docs/flashing.md"),
        r.bash(f"cat {nightly}"),
    )
    chosen, rejected = (
        "a build id taken from the content: the first 12 digits of the sha256 of version and payload",
        "the git commit as id",
    )
    reason = "a dirty tree carries the same commit as a clean one"
    r.agent(
        f"In the log too, the nodes have equal crc32 values up to the link step. Nobody needs a time in the header, only something that tells two images apart. I'll put {chosen}. I considered {rejected} and decided "
        f"against it, because {reason}, and source archives have none. A 64-byte line is also tight for printf and cut, which would cut silently, so the step "
        "becomes a Python script that refuses a wrong length.",
        r.bash("git mv tools/mkimage.sh tools/pack_image.py"),
        r.write("tools/pack_image.py", code(PACK_IMAGE)),
        r.edit(
            "mk/rules.mk",
            "$(BUILD)/%.img: $(BUILD)/%.bin VERSION tools/mkimage.sh\n\tsh tools/mkimage.sh $* $< $@",
            "$(BUILD)/%.img: $(BUILD)/%.bin VERSION tools/pack_image.py\n\t$(PYTHON) tools/pack_image.py --board boards/$*.board $< $@",
        ),
    )
    r.agent("", r.bash("make; cksum < build/gh2.bin; cksum < build/gh4.bin"))
    r.agent(
        "My CRC agrees with the cksum command for both payloads. Now checks for the length and for the id.",
        r.write(
            "tests/checks_image.py",
            code('''
            """Checks of the image header."""
            import pack_image

            BOARD = {"name": "t9", "load_addr": "0x8012000"}


            def check_length():
                line, _ = pack_image.header(BOARD, "10.11.12", b"abc", 1)
                assert len(line) == pack_image.HEADER and line.endswith(b"\\n"), line


            def check_id_follows_content():
                ids = {pack_image.header(BOARD, "1.0.0", data, 1)[1] for data in (b"abc", b"abd", b"abc")}
                assert len(ids) == 2, ids
                return f"ids={','.join(sorted(ids))}"


            def check_cksum_command():
                value = pack_image.cksum(b"fernhouse")
                assert f"{value:08x}" == "00000000", f"cksum={value:08x}"
        '''),
        ),
        r.bash("printf fernhouse | cksum; make test"),
    )
    crc = int(r.run("printf fernhouse | cksum | cut -d' ' -f1"))
    image_sums = r.agent(
        "The third one had a placeholder for the expected value; the command's own answer goes in. Then two builds again, a day apart.",
        r.edit("tests/checks_image.py", '"00000000"', f'"{crc:08x}"'),
        r.bash(
            "make test 2>&1 | tail -n 4 && make -s clean && make -s >/dev/null && sha256sum build/*.img && SOURCE_DATE_EPOCH=86400 make -s BUILD=build2 >/dev/null && sha256sum build2/*.img && rm -r build2"
        ),
    )[1]
    gh4_sum = re.search(r"(\w{64})  build/gh4", image_sums)[1][:8]
    r.agent(
        f"Identical on both: the gh4 image begins with {gh4_sum} each time. I'll commit this.",
        r.bash("git add -A && git commit -qm 'Name images by content instead of time' && git show --stat --format='%h %s' | cat"),
    )

    # --- budgets ---------------------------------------------------------------------------------------------
    stdlib = "only what ships with Python and coreutils, because the build box has no package index"
    r.user(
        f"The desk confirms equal sums. Now a size check: make budget should list each image against image_budget of its board and fail if one is too big. Use {stdlib}. "
        f"Also, gh4 has a new flash part ({flash_part}): its image_budget goes from {budget4} to {new_budget4}."
    )
    r.agent(
        "I'll add tools/budget.py, a target for it, and the new number in the board file.",
        r.write("tools/budget.py", code(BUDGET)),
        r.edit("Makefile", ".PHONY: all clean test\n", ".PHONY: all budget clean test\n"),
        r.edit("Makefile", "test:\n", "budget: all\n\t@$(PYTHON) tools/budget.py $(BOARDS:%=$(BUILD)/%.img)\n\ntest:\n"),
        r.bash(
            f"sed -i 's/image_budget = {budget4}/image_budget = {new_budget4}/; s/^# gh4 controller/# gh4 controller, flash {flash_part}/' boards/gh4.board && make budget"
        ),
    )
    r.agent(
        "gh2 is the tight one. The edit of gh4.board also relinked gh4, since the payload depends on its board file; the checksum is the same as before.",
        r.bash("git add -A && git commit -qm 'Check image sizes against budgets' && git diff HEAD~1 --stat | cat"),
    )
    r.user(
        "Product wants fogging on both boards. Add src/mist.crop: every FOG_GAP_MS read air_hum, and if it is below 62 pulse the valve for FOG_PULSE_MS. "
        "include/fog.ci exists already. Put it into both unit lists."
    )
    mist_curve = " ".join(str(rng.randrange(1100, 4090)) for _ in range(28))
    mist = (
        f'unit mist\ninclude "fog.ci"\ntable mist_curve {mist_curve}\n'
        + "".join(f'log m{n} "{t}"\n' for n, t in enumerate(("fogging, air too dry", *COMMON_LOGS)))
        + "\ntask mist_check every FOG_GAP_MS\nload air_hum\ncmp 62\njge 4\nemit m0\nwait FOG_PULSE_MS\ncall valve_pulse\nstore mist_curve\nret\n"
    )
    todo = ["Write src/mist.crop", "Link it on gh2 and gh4", "Keep gh2 inside its budget"]
    r.agent(
        "The header first, then the new unit in the manner of the others.",
        r.read("include/fog.ci"),
        r.read("src/dose.crop"),
    )
    r.agent(
        "",
        r.write("src/mist.crop", mist),
        r.bash("sed -i '/^units/s/$/ mist/' boards/*.board && make"),
    )
    r.agent(
        "gh4 was not even reached: gh2 stops with an undefined reference. valve_pulse lives in dose.crop, and gh2 has no dosing unit.",
        r.bash(
            "grep -n 'valve_pulse' src/*.crop; wc -c < build/dose.cob; grep -c . build/gh4.map; sed -n '/symbol/p' build/gh4.map"
        ),
    )
    chosen2, rejected2 = "valve_pulse into a unit of its own, src/valve.crop", "linking dose into gh2"
    reason2 = "gh2 has no pump, and its current probe would read noise"
    r.agent(
        f"Two ways out: {rejected2}, or moving {chosen2}. I take the second: {reason2}, and the dosing table alone costs 112 bytes of a flash that has little left.",
        r.write(
            "src/valve.crop",
            'unit valve\ninclude "limits.ci"\nlog m0 "valve pulsed"\n\ntask valve_pulse every 0\nstore tank_level\nwait 250\nemit m0\nret\n',
        ),
        r.bash(r"""python3 - <<'PY'
from pathlib import Path
path = Path("src/dose.crop")
text = path.read_text()
head, tail = text.split("\ntask valve_pulse")
path.write_text(head.replace('log m1 "valve pulsed"\n', "") + "\n")
print("dose.crop:", len(text), "->", path.stat().st_size, "bytes; moved lines:", len(tail.splitlines()))
PY
sed -i '/^units/s/$/ valve/' boards/*.board && make budget 2>&1 | grep -v '^python3'"""),
    )
    over = int(r.run("wc -c < build/gh2.img")) - budget2
    r.agent(
        f"It links on both boards now, and gh2 is {over} bytes too large. Before cutting anything I want to see where the bytes are.",
        r.bash("cat build/gh2.map"),
        r.read("tools/link.py"),
        r.bash("tail -c +65 build/gh2.img | tr '\\0' '\\n' | grep -a -E '^[a-z, ]{12,}$' | sort | uniq -c | sort -k1,1nr -k2"),
    )
    no_raise = "raising the number for gh2 is not an option, that chip is soldered on four thousand boards"
    r.user(
        f"Saw the failing check in the log. Just so we are clear, {no_raise}. And I do want to keep the log texts, support reads them out on the phone."
    )
    chosen3, rejected3 = "sharing equal strings in the linker", "numbered messages with a table on the service laptop"
    reason3 = "older laptops would show the wrong text"
    r.agent(
        f"Then I go for {chosen3}. Five texts are stored once for every unit. The other idea I had was {rejected3}; it would save more, but {reason3}. "
        "The string area is laid out in one function, so the change is small. A check first.",
        r.bash(r"""cat >> tests/checks_link.py <<'PY'


def check_equal_strings_are_stored_once():
    offsets, area = link.lay_strings([ONE, TWO])
    assert area.count(b"door open") == 1, f"strings={len(area)} bytes, door open {area.count(b'door open')} times"
    assert offsets["one", 0] == offsets["two", 1], offsets
PY
make test 2>&1 | grep -v '^ok'; exit ${PIPESTATUS[0]}"""),
    )
    r.agent(
        "",
        r.edit(
            "tools/link.py",
            '                offsets[unit["unit"], number] = len(area)\n                area += text.encode() + bytes(1)\n    return offsets, area',
            '                if text not in places:\n                    places[text] = len(area)\n                    area += text.encode() + bytes(1)\n                offsets[unit["unit"], number] = places[text]\n    return offsets, area',
        ),
    )
    r.agent(
        "That edit was refused, my copy of the indentation is off by one level. Reading the function before trying again.",
        r.bash("grep -n -A 8 'def lay_strings' tools/link.py"),
    )
    r.agent(
        "",
        r.edit(
            "tools/link.py",
            '            offsets[unit["unit"], number] = len(area)\n            area += text.encode() + bytes(1)',
            '            if text not in places:\n                places[text] = len(area)\n                area += text.encode() + bytes(1)\n            offsets[unit["unit"], number] = places[text]',
        ),
        r.edit("tools/link.py", '    area, offsets = b"", {}', '    area, offsets, places = b"", {}, {}'),
        r.bash("make test && make budget 2>&1 | grep -v '^python3'"),
    )
    free2 = budget2 - int(r.run("wc -c < build/gh2.img"))
    r.agent(
        f"gh2 fits again with {free2} bytes free, no text was lost, and gh4 gained as well. Committing.",
        r.todo(*((t, "completed") for t in todo)),
        r.bash(
            f"sed -i '2a \\  - mist: fogging on both boards\\n  - link: equal log texts are stored once' CHANGES.txt && cat CHANGES.txt && git add -A && git commit -qm 'Add fogging and share log texts ({ticket})'"
        ),
    )

    # --- watchdog, renamed header ----------------------------------------------------------------------------
    r.user(
        f"Correction from the hardware people: the watchdog in main.crop is not {watchdog} but {new_watchdog} ms. Change it, and rename include/fog.ci to include/mist.ci, "
        "the old name confuses everyone."
    )
    r.agent(
        "Both are small; the rename is a good test for the dependency files, so I keep the build folder.",
        r.edit("src/main.crop", f"const WATCHDOG_MS {watchdog}", f"const WATCHDOG_MS {new_watchdog}"),
        r.bash("git mv include/fog.ci include/mist.ci && sed -i 's/fog.ci/mist.ci/' src/mist.crop && make"),
    )
    r.agent(
        "As feared: build/mist.d still names the old header, make has no rule for it and stops before it could rewrite the file. The usual remedy is an empty "
        "rule for every header in the .d file; then a vanished header just counts as changed.",
        r.edit(
            "tools/depscan.py",
            '*headers(options.source)])}")\n',
            '*headers(options.source)])}")\n    print(*(f"{header}:" for header in headers(options.source)), sep="\\n")\n',
        ),
        r.bash("make clean && make 2>&1 | grep -v '^python3' && cat build/mist.d"),
    )
    r.agent(
        "To be sure that it helps next time, I'll rename the header back and forth without cleaning.",
        r.bash(
            "mv include/mist.ci include/tmp.ci && sed -i 's/mist.ci/tmp.ci/' src/mist.crop && make 2>&1 | grep -E 'mist|image' ; mv include/tmp.ci include/mist.ci && sed -i 's/tmp.ci/mist.ci/' src/mist.crop && make 2>&1 | grep -E 'image|Error'; git status --short"
        ),
    )
    r.agent(
        "Both builds went through and the tree holds only the intended changes.",
        r.bash(
            "git add -A && git commit -qm 'Rename the fogging header, survive vanished headers' && git show --format='%h %s' HEAD | cat"
        ),
    )
    no_parallel = "don't run or document make with -j, the log collector cannot untangle it"
    r.user(
        f"Good. I read your rules once more: {no_parallel}. Then clean up: crc16.awk belongs to gh1, which we no longer build. Remove it and its mention, "
        "and write a page docs/building.md about the pipeline as it is now."
    )
    r.agent(
        "Looking for every mention of the awk script and of the old image step.",
        r.bash("cat docs/building.md; grep -rn 'crc16\\|mkimage\\|gh1' --include=* . | grep -v '^./.git/' | sort"),
    )
    building = code(f"""
        # Building

        `make` translates every unit once and links one image per board. A build from scratch runs the steps one after the other.

        | step    | script              | reads                          | writes          |
        |---------|---------------------|--------------------------------|-----------------|
        | scan    | tools/depscan.py    | unit and all headers it reaches | build/*.d      |
        | compile | tools/cropc.py      | unit, headers, probe sheet     | build/*.cob     |
        | link    | tools/link.py       | objects, board file            | build/*.bin     |
        | image   | tools/pack_image.py | payload, VERSION, board file   | build/*.img     |

        `make budget` compares images with the boards' budgets. Limits: gh2 {budget2} bytes, gh4 {new_budget4} bytes.
    """)
    r.agent(
        "There is no such page yet. Writing it, and removing what belongs to the first series.",
        r.write("docs/building.md", building),
        r.edit("docs/flashing.md", "\nFirst series (gh1): see `tools/crc16.awk`.\n", ""),
        r.bash(
            "git rm -q tools/crc16.awk && make test 2>&1 | tail -n 1 && git add -A && git commit -qm 'Drop the first series, describe the build' && git show --stat --format=%h | cat"
        ),
    )

    # --- cost ------------------------------------------------------------------------------------------------
    r.user(
        f"Hardware wants to know how busy the controllers are. Print the modelled cycles per hour of each task, from the objects: an emit costs {emit}, a call {call}, "
        f"a wait 12, everything else 8. More than {ceiling} per hour on one board is too much. A script under tools/ will do, no make target."
    )
    values = (("EMIT", emit), ("CALL", call), ("LIMIT", ceiling))
    first, second = code(COST), code(COST_WITH_CALLS)
    for word, number in values:
        first, second = first.replace(f"<{word}>", str(number)), second.replace(f"<{word}>", str(number))
    r.agent(
        "The objects hold each task's start and period, so this needs no change of the compiler. Tasks with period 0 run only when called.",
        r.write("tools/cost.py", first),
        r.bash("python3 tools/cost.py gh2 gh4"),
    )
    r.agent(
        "One thing is missing: a call also runs the called task. main calls three tasks, mist and dose pulse the valve, so those rows are too low. The called "
        "task may live in another unit, so the lookup goes over all units of the board.",
        r.write("tools/cost.py", second),
        r.bash("python3 tools/cost.py gh2 gh4 && git add -A && git commit -qm 'Model the cycles of each task'"),
    )

    # --- release ---------------------------------------------------------------------------------------------
    r.user(
        f"Both stay below, good. Now the release: version {new_version}, branch name {release}. I need make release to build from scratch, run the checks and the budget, and write dist/manifest.json "
        "with board, load address, size, free bytes, build id and sha256 of each image."
    )
    todo = ["Write tools/manifest.py and make release", "Raise VERSION and close the change list", "Verify the images once more"]
    r.agent(
        "",
        r.todo((todo[0], "in_progress"), (todo[1], "pending"), (todo[2], "pending")),
        r.write("tools/manifest.py", code(MANIFEST)),
        r.edit(
            "Makefile",
            "clean:\n",
            "release: clean test budget\n\t@mkdir -p dist\n\t@$(PYTHON) tools/manifest.py dist/manifest.json $(BOARDS:%=$(BUILD)/%.img)\n\nclean:\n",
        ),
        r.bash(
            f"git checkout -qb {release} && echo {new_version} > VERSION && sed -i '1s/next/{new_version}/' CHANGES.txt; make release 2>&1 | grep -v '^ok' | tail -n 2; exit ${{PIPESTATUS[0]}}"
        ),
    )
    r.agent(
        "Clean and build in one run of make do not go together: the scan at the start has made the folder, make remembers that it exists, and then clean removes it. "
        "The release has to call make twice.",
        r.edit(
            "Makefile",
            "release: clean test budget\n",
            "release:\n\t@$(MAKE) --no-print-directory clean\n\t@$(MAKE) --no-print-directory test budget\n",
        ),
        r.bash("make release"),
    )
    released = r.agent(
        "The release target runs through. The manifest and the headers as a bootloader would read them:",
        r.bash("cat dist/manifest.json"),
        r.bash("for b in gh2 gh4; do head -c 64 build/$b.img; sha256sum < build/$b.img | cut -c1-64; done"),
    )[0]
    build_id = re.search(r'"build_id": "(\w+)"', released)[1]
    r.agent(
        f"The addresses match the flashing page ({address2} and {address4}), and both sums in the manifest are those of the files. Before I commit, .PHONY needs the "
        "new target, and dist/ must not be tracked.",
        r.edit("Makefile", ".PHONY: all budget clean test\n", ".PHONY: all budget clean release test\n"),
        r.bash(
            "echo 'dist/' >> .gitignore && git add -A && git status --short && git commit -qm 'Add make release' && git log --oneline | head -n 3"
        ),
        r.todo((todo[0], "completed"), (todo[1], "completed"), (todo[2], "in_progress")),
    )
    r.user(
        "One last check before I hand it over: does the soil minimum from the ticket really reach both images, and do two builds still agree? Write me the release note as docs/notes.md."
    )
    r.agent(
        f"I'll look for the compare with {new_soil} in the soil object and in both payloads, flip the limit to see the image react, and put it back.",
        r.bash(
            f"grep -c . build/soil.cob; python3 - <<'PY'\nimport json, struct\ncode = json.load(open('build/soil.cob'))['code']\nprint('compares:', [line[2] for line in code if line[0] == 32])\n"
            f"want = struct.pack('<BBH', 32, 6, {new_soil})\nfor board in ('gh2', 'gh4'):\n    data = open(f'build/{{board}}.bin', 'rb').read()\n    print(board, 'offset of the compare:', hex(data.find(want)))\nPY"
        ),
        r.bash(
            f"sed -i 's/SOIL_MIN_PCT {new_soil}/SOIL_MIN_PCT {old_soil}/' include/limits.ci && make -s 2>&1 | grep -E 'soil|image' ; git checkout -q include/limits.ci && make -s 2>&1 | grep image"
        ),
    )
    notes = code(f"""
        # Fernhouse {new_version} ({release})

        - {ticket}: a change in a header of a header rebuilds the units. SOIL_MIN_PCT is {new_soil} now (was {old_soil}).
        - Watchdog {new_watchdog} ms. Fogging: {pulse} ms pulses every {gap} ms, on both boards.
        - Probe sheet {revision} as delivered; a new sheet rebuilds everything.
        - Images carry a build id from their content instead of a time; gh2 is {build_id}, loaded at {address2}.
        - gh2 has {{free}} bytes left of {budget2}; gh4 is allowed {new_budget4} bytes ({flash_part}).
    """)
    final2 = budget2 - int(r.run("wc -c < build/gh2.img"))
    r.agent(
        f"The limit reaches both images, the image follows the header there and back, and after the restore the build id is {build_id} again, the one in the manifest.",
        r.write("docs/notes.md", notes.replace("{free}", str(final2))),
        r.bash(
            "make release 2>&1 | tail -n 5 && git add -A && git commit -qm 'Write the release note' && git status --short && git log --oneline | cat"
        ),
    )
    r.agent(
        f"Done, on branch {release}. {ticket} is fixed by the recursive scan; the soil minimum {new_soil} is in gh2 (load address {address2}) and gh4. gh2 keeps {final2} of {budget2} bytes free. "
        f"The vendor sheet {revision} is untouched, and the release note is in docs/notes.md.",
        r.todo(*((t, "completed") for t in todo)),
    )
    r.user("Looks complete. Nothing else for today.")
    r.agent(
        "Thanks. The branch is committed and the tree is clean; building the same commit elsewhere must give the sums of dist/manifest.json."
    )

    # --- what the session holds -------------------------------------------------------------------------------
    r.truth.fact(
        ticket, release, address2, address4, f"SOIL_MIN_PCT {old_soil}", f"image_budget = {budget2}", f"crc32={stale}", f"crc32={fixed}",
        f"differs at {offset}", gh4_sum, flash_part, str(new_budget4), f"const FOG_PULSE_MS {pulse}", f"const FOG_GAP_MS {gap}", revision,
        "undefined reference to 'valve_pulse'", f"{over} bytes over", "38400 baud", f"{new_watchdog} ms", build_id, str(watchdog), new_version,
        "No rule to make target 'include/fog.ci'", f"{crc}",
    )  # fmt: skip
    for words in (leave_vendor, keep_header, stdlib, no_raise, no_parallel):
        r.truth.constraint(words)
    r.truth.decision(chosen=chosen, rejected=rejected, reason=reason)
    r.truth.decision(chosen=chosen2, rejected=rejected2, reason=reason2)
    r.truth.decision(chosen=chosen3, rejected=rejected3, reason=reason3)
    r.truth.update("image_budget of gh4", str(budget4), str(new_budget4))
    r.truth.update("WATCHDOG_MS", f"WATCHDOG_MS {watchdog}", f"WATCHDOG_MS {new_watchdog}")
    r.truth.update("SOIL_MIN_PCT", f"SOIL_MIN_PCT {old_soil}", f"SOIL_MIN_PCT {new_soil}")
    r.truth.update("VERSION", old_version, new_version)
    r.truth.belief(wrong=wrong, corrected=corrected)
    for value in (ticket, address2, str(budget2), revision, f"SOIL_MIN_PCT {new_soil}", str(new_budget4)):
        r.truth.later(value)
