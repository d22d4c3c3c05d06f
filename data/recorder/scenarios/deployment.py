"""A release of a hotel booking back end: environment files, templates and a rollout manifest, checked by dry runs."""

from __future__ import annotations

import json
import re
from textwrap import dedent
from types import SimpleNamespace

TITLE = "Booking API release: environments, pool budget and waves"
PROJECT = "innkeeper-rollout"

# --- the workspace --------------------------------------------------------------------------------------------------

ENVFILE = dedent('''\
    """Environment files: base first, then the environment's own."""

    import re

    ENTRY = re.compile(r"^([A-Z0-9_]+)=(\\S.*)$")


    def load(name):
        values = {}
        for path in ("env/base.env", f"env/{name}.env"):
            with open(path) as lines:
                for line in lines:
                    found = ENTRY.match(line)
                    if found:
                        values[found[1]] = found[2].strip()
        return values
    ''')

RENDER = dedent('''\
    """python tools/render.py ENV: templates/*.tmpl -> build/ENV/*"""

    import hashlib
    import sys
    from pathlib import Path
    from string import Template

    from envfile import load

    env = sys.argv[1]
    for source in sorted(Path("templates").glob("*.tmpl")):
        text = Template(source.read_text()).safe_substitute(load(env))
        target = Path("build", env, source.stem)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        print(f"{target} bytes={len(text)} sha={hashlib.sha256(text.encode()).hexdigest()[:12]}")
    ''')

VALIDATE = dedent('''\
    """python tools/validate.py ENV: is what was rendered, and the manifest, fit to go out?"""

    import json
    import re
    import sys
    from pathlib import Path

    from envfile import load

    env, bad = sys.argv[1], 0
    values = load(env)


    def check(name, good, detail):
        global bad
        bad += not good
        print(f"{'ok  ' if good else 'FAIL'} {name}: {detail}")


    texts = {p.name: p.read_text() for p in sorted(Path("build", env).glob("*"))}
    left = [f"{n} {k}" for n, t in texts.items() for k in re.findall(r"\\$\\{([A-Z_]+)\\}", t)]
    check("placeholders", not left, ", ".join(left) or f"{len(texts)} files resolved")
    pool, hosts, limit, kept = (int(values[k]) for k in ("DB_POOL_MAX", "BOOKING_HOSTS", "DB_CONN_LIMIT", "DB_RESERVED"))
    check("pool", pool * hosts + kept <= limit, f"{hosts} hosts x {pool} + {kept} reserved = {pool * hosts + kept} of {limit}")
    plan = json.loads(Path(f"rollout/{env}.json").read_text())
    locked = dict(line.split() for line in Path("images.lock").read_text().splitlines())
    check("image", locked.get(values["BOOKING_IMAGE"]) == plan["digest"], f"{values['BOOKING_IMAGE']} locked as {locked.get(values['BOOKING_IMAGE'])}, "
          f"manifest says {plan['digest']}")
    shares = [step["percent"] for step in plan["steps"]]
    check("shares", shares == sorted(set(shares)) and shares[-1] == 100, " < ".join(map(str, shares)))
    sys.exit(bad > 0)
    ''')

DRYRUN = dedent('''\
    """python tools/dryrun.py ENV: what a rollout would do, nothing is touched."""

    import hashlib
    import json
    import sys
    from pathlib import Path

    env = sys.argv[1]
    plan = json.loads(Path(f"rollout/{env}.json").read_text())
    print(f"release={plan['release']} env={env} digest={plan['digest']}")
    waited = 0
    for number, step in enumerate(plan["steps"], 1):
        token = hashlib.sha256(json.dumps([plan["digest"], step]).encode()).hexdigest()[:8]
        waited += step["soak_s"]
        print(f"{number} {step['group']}: percent={step['percent']} hosts={','.join(step['hosts'])} soak_s={step['soak_s']} plan=pl-{token}")
    print(f"total_soak_s={waited}")
    ''')

TEST_ENV = dedent("""\
    import os
    import sys
    import tempfile
    import unittest

    sys.path.insert(0, os.path.abspath("tools"))
    import envfile


    class EnvTest(unittest.TestCase):
        def write(self, base, own):
            folder = tempfile.TemporaryDirectory()
            self.addCleanup(folder.cleanup)
            top = folder.name
            os.mkdir(f"{top}/env")
            for name, text in (("base", base), ("demo", own)):
                with open(f"{top}/env/{name}.env", "w") as file:
                    file.write(text)
            self.addCleanup(os.chdir, os.getcwd())
            os.chdir(top)

        def test_own_wins(self):
            self.write("ROOMS=4\\nTAX=7\\n", "ROOMS=9\\n")
            self.assertEqual(envfile.load("demo"), {"ROOMS": "9", "TAX": "7"})


    if __name__ == "__main__":
        unittest.main()
    """)

MAKEFILE = dedent("""\
    check:
    \t@python tools/render.py $(ENV)
    \t@python tools/validate.py $(ENV)

    test:
    \t@python -m unittest -q tests.test_envfile
    """)

SYSTEM = dedent("""\
    You are the release assistant of a team that runs the booking back end of a small hotel group. You prepare configuration,
    templates and rollout manifests in a repository and prove them with its local validator and dry runs; you have no access to
    any host and roll nothing out yourself. Tools: Bash, Read, Write, Edit, Grep, TodoWrite. Make small changes, check after
    each, and report the figures a reviewer needs. Say it when a request and the configuration disagree.
    """)

AGENTS = dedent("""\
    Configuration of Innkeeper, the booking back end of the hotels.

    - `env/base.env` holds for all, `env/staging.env` and `env/prod.env` override it.
    - `templates/NAME.tmpl` becomes `build/ENV/NAME`. `images.lock` lists the images that passed the scan, with digests.
    - `rollout/ENV.json` is the manifest: steps of property groups, each with the share of bookings it reaches and a soak time.
    - `make check ENV=staging` renders and validates, `make test` tests the loader, `python tools/dryrun.py ENV` prints the plan.
    - Commit messages begin with the release, `R-1234: ...`.
    """)


def draw(rng):
    """The facts of this release."""
    f = SimpleNamespace()
    digest = lambda: f"sha256:{rng.randrange(16**14):014x}"  # noqa: E731
    minor = rng.randrange(9, 31)
    f.release, f.last = f"R-{(n := rng.randrange(2100, 8700))}", f"R-{n - rng.randrange(3, 40)}"
    f.before, f.pulled, f.image = (
        f"booking-api:7.{minor - 1}.{rng.randrange(2, 9)}",
        f"booking-api:7.{minor}.3",
        f"booking-api:7.{minor}.4",
    )
    f.before_digest, f.pulled_digest, f.digest = digest(), digest(), digest()
    f.port, f.rates_port, f.cache_port = (rng.randrange(a, a + 900) for a in (8100, 9100, 6300))
    f.cache = f"redis://rates-{rng.randrange(16**4):04x}.example.internal:{f.cache_port}/{rng.randrange(1, 9)}"
    f.hook = f"https://channels.example.com/in/hk-{rng.randrange(16**6):06x}"
    f.hosts, f.pool = 7, rng.choice([26, 27, 28])
    f.reserved = rng.randrange(11, 17)
    fits = rng.choice([22, 23, 24, 25])
    f.limit = 7 * fits + f.reserved + rng.randrange(0, 4)
    f.low = fits - 4
    f.high = (f.limit - f.reserved) // 7 - 1
    f.ttl, f.ttl_prod = rng.choice([840, 960, 1020]), rng.choice([540, 620, 660])
    f.soak, f.soak_new = rng.choice([420, 480]), rng.choice([1500, 1620, 1740])
    f.refresh, f.sync = rng.randrange(61, 98), rng.randrange(301, 399)
    f.ticket = f"HB-{rng.randrange(13000, 89000)}"
    f.errors = f"{rng.randrange(12, 29) / 10:.1f}"
    f.latency = rng.randrange(640, 980)
    f.lake, f.harbour, f.old_town, f.airport = (f"inn-{rng.randrange(16**3):03x}" for _ in range(4))
    f.retries, f.timeout = rng.choice([3, 4, 6]), rng.randrange(1850, 3450, 50)
    f.week = {g: [rng.randrange(lo, hi) for _ in range(7)] for g, lo, hi in
              (("airport", 640, 890), ("harbour", 61, 93), ("lakeside", 88, 131), ("old-town", 410, 560))}  # fmt: skip
    f.burst, f.peak, rows, holds = f.ttl // 60 + 1, f.latency - rng.randrange(41, 99), [], 0
    for n in range(1, 41):
        holds = rng.randrange(29, 58) if n == f.burst else holds + rng.randrange(7, 19) - (holds > 190) * rng.randrange(9, 16)
        rows.append(f"t={n * 60} req={rng.randrange(1180, 2240)} err={rng.randrange(0, 6)} p95_ms={f.peak if n == f.burst else rng.randrange(288, 437)} "
                    f"pool_busy={rng.randrange(6, 19)} holds={holds} hook_ms={rng.randrange(81, 164)}")  # fmt: skip
    f.samples = "\n".join(rows) + "\n"
    f.peaks = "day,host,busy_p50,busy_p99,busy_max,waits,longest_wait_ms\n"
    for day in ("sat", "sun"):
        for host in range(1, 8):
            top = f.high - 1 if (day, host) == ("sun", 3) else rng.randrange(f.high - 5, f.high - 1)
            f.peaks += f"{day},{host},{rng.randrange(50, 98) / 10},{top - rng.randrange(1, 4)},{top},{rng.randrange(0, 61)},{rng.randrange(110, 2900) / 10}\n"
    f.log = "# Release log, newest first\n\n"
    for n in range(4):
        f.log += (f"## R-{int(f.last[2:]) - 11 * n} ({('booking', 'rates', 'booking', 'templates')[n]})\n\nstopped: {('no', 'no', 'once, p95', 'no')[n]}; "
                  f"soak_total_s: {rng.randrange(1500, 4200)}; error_share: {rng.randrange(2, 99) / 100} %; worst_p95_ms: {rng.randrange(380, 790)}; "
                  f"change: HB-{rng.randrange(11000, 13000)}\n\n")  # fmt: skip
    return f


def manifest(f, digest, *steps):
    rows = ",\n    ".join(json.dumps({"group": g, "hosts": h, "percent": p, "soak_s": s}) for g, h, p, s in steps)
    return f'{{\n  "release": "{f.release}",\n  "digest": "{digest}",\n  "steps": [\n    {rows}\n  ]\n}}\n'


def build(r, f):
    r.file("tools/envfile.py", ENVFILE)
    r.file("tools/render.py", RENDER)
    r.file("tools/validate.py", VALIDATE)
    r.file("tools/dryrun.py", DRYRUN)
    r.file("tests/test_envfile.py", TEST_ENV)
    r.file("tests/__init__.py", "")
    r.file("Makefile", MAKEFILE)
    r.file(".gitignore", "build/\n")
    r.file(
        "env/base.env",
        dedent(f"""\
        BOOKING_IMAGE={f.before}
        BOOKING_PORT={f.port}
        CHANNEL_HOOK={f.hook}
        DB_POOL_MAX={f.pool}
        DB_RESERVED=4
        HOLD_TTL_S={f.ttl}
        RATE_CACHE = {f.cache}
        RATE_PORT={f.rates_port}
        RATE_REFRESH_S={f.refresh}
        SYNC_EVERY_S={f.sync}
        """),
    )
    r.file("env/staging.env", "BOOKING_HOSTS=1\nDB_CONN_LIMIT=60\nLOG_LEVEL=debug\n")
    r.file(
        "env/prod.env",
        dedent(f"""\
        BOOKING_HOSTS={f.hosts}
        DB_CONN_LIMIT=240
        DB_PASSWORD={{vault:innkeeper/prod/db}}
        LOG_LEVEL=info
        """),
    )
    r.file(
        "templates/booking.conf.tmpl",
        dedent("""\
        listen = 0.0.0.0:${BOOKING_PORT}
        image = ${BOOKING_IMAGE}
        pool_max = ${DB_POOL_MAX}
        hold_ttl_s = ${HOLD_TTL_S}
        channel_hook = ${CHANNEL_HOOK}
        rate_cache = ${RATE_CACHE}
        log = ${LOG_LEVEL}
        """),
    )
    r.file("templates/rates.conf.tmpl", "listen = 0.0.0.0:${RATE_PORT}\nrefresh_s = ${RATE_REFRESH_S}\ncache = ${RATE_CACHE}\n")
    r.file("templates/nightsync.conf.tmpl", "every_s = ${SYNC_EVERY_S}\ntarget = ${CHANNEL_HOOK}\n")
    r.file("images.lock", f"{f.before} {f.before_digest}\n{f.pulled} {f.pulled_digest}\n{f.image} {f.digest}\n")

    r.file("data/pool-peaks.csv", f.peaks)
    r.file("docs/release-log.md", f.log)
    for name, text in (("booking.conf", f"listen = 0.0.0.0:{f.port}\nimage = {f.before}\npool_max = {f.pool}\nhold_ttl_s = {f.ttl}\nchannel_hook = {f.hook}\n"
                                        f"rate_cache = {f.cache}\nlog = info\n"),
                       ("nightsync.conf", f"every_s = {f.sync}\ntarget = {f.hook}\n"),
                       ("rates.conf", f"listen = 0.0.0.0:{f.rates_port}\nrefresh_s = {f.refresh + 30}\ncache = {f.cache}\n")):  # fmt: skip
        r.file(f"released/{f.last}/prod/{name}", text)
    r.file(
        "data/bookings-last-week.csv",
        "group,mon,tue,wed,thu,fri,sat,sun\n" + "".join(f"{g},{','.join(map(str, n))}\n" for g, n in f.week.items()),
    )
    r.file("rollout/staging.json", manifest(f, f.pulled_digest, ("testhouse", ["inn-s1"], 100, 60)))
    r.file("rollout/production.json", manifest(
        f, f.pulled_digest, ("lakeside+harbour", [f.lake, f.harbour], 9, f.soak), ("old-town", [f.old_town], 46, 2 * f.soak), ("airport", [f.airport], 100, f.soak),
    ))  # fmt: skip


def grab(pattern, text):
    return re.search(pattern, text, re.M)[1]


# --- the session ----------------------------------------------------------------------------------------------------


def play(r):
    f = draw(r.rng)
    build(r, f)
    r.system(SYSTEM)
    r.instructions(AGENTS)
    r.run(f"git init -q && git add -A && git commit -qm '{f.last}: state in production'")
    staging(r, f)
    production(r, f)
    waves(r, f)
    closing(r, f)


def staging(r, f):
    by_hand = "never correct anything inside build/ by hand"
    r.truth.constraint(by_hand)
    r.user(f"Please prepare release {f.release}: {f.pulled} goes to staging today and to production tomorrow. Set the image, get the "
           f"staging check green and show me the dry run. Everything is rendered, so {by_hand}.")  # fmt: skip
    r.truth.fact(f"BOOKING_PORT={f.port}", f.hook, f.pulled_digest)
    r.agent("First the files and the current values.", r.bash("git ls-files | grep -v tests/; git log --format='%h %s'"),
            r.bash("cat env/base.env images.lock"), r.read("tools/validate.py"))  # fmt: skip
    r.agent("", r.edit("env/base.env", f.before, f.pulled),
            r.todo(("Image and staging check", "in_progress"), ("Production check", "pending"), ("Dry runs", "pending")))  # fmt: skip
    r.agent(
        "The image is set; now render staging and see what the validator thinks of it.",
        r.bash("make check ENV=staging"),
        r.bash("cat env/staging.env rollout/staging.json"),
    )
    wrong = "my guess is that the merge lets env/staging.env replace the base instead of extending it"
    r.truth.belief(wrong, "The merge is innocent")
    r.agent(f"The image is fine, but RATE_CACHE stays unresolved although env/base.env has a value for it. Only staging's own keys seem to be "
            f"safe; {wrong}. I look at the loader.", r.read("tools/envfile.py"), r.bash("make test"))  # fmt: skip
    out = r.agent("Nothing in `load` replaces the whole base. I ask it what it really gets from the two files, and count their lines.", r.bash("PYTHONPATH=tools python -c \"import envfile; v = envfile.load('staging'); print('loaded:', len(v)); "
                         "print('rates_port:', v['RATE_PORT']); print('cache:', v.get('RATE_CACHE'))\"; "
                         "grep -hc = env/base.env env/staging.env | paste -sd' '"))[0]  # fmt: skip
    r.agent(f"The merge is innocent: base keys arrive, {grab(r'loaded: (.*)', out)} of 13 lines load. The one line with blanks around its equals sign does not match "
            "the pattern and is dropped without a word. I would rather refuse malformed lines than accept blanks around the sign: with blanks "
            "allowed, the shell scripts that source these files would still break.")  # fmt: skip
    r.truth.decision(chosen="refuse malformed lines", rejected="accept blanks around the sign",
                     reason="the shell scripts that source these files would still break")  # fmt: skip
    order = "keys in the env files are in alphabetical order and have to stay so, the audit diff relies on it"
    r.truth.constraint(order)
    r.user(
        f"Agreed, refuse them, with file and line number in the message, and repair that line. When you add something: {order}."
    )
    r.agent("A test first.", r.edit("tests/test_envfile.py", "\n\n\nif __name__", REFUSED),
            r.bash("make test 2>&1 | grep -E '^(FAIL|Ran|[A-Za-z]+Error)'; exit ${PIPESTATUS[0]}"))  # fmt: skip
    r.agent(
        "As expected it fails. The loader now counts lines and raises; empty lines and comments stay allowed. The base file loses its two blanks.",
        r.write("tools/envfile.py", STRICT),
        r.edit("env/base.env", "RATE_CACHE = ", "RATE_CACHE="),
        r.bash("make test && make check ENV=staging"),
    )
    r.truth.fact(f.cache)
    out = r.agent(
        "Green. I check that the dry run really touches nothing, and run it for staging.",
        r.read("tools/dryrun.py"),
        r.bash("python tools/dryrun.py staging"),
    )[1]
    r.truth.fact(grab(r"(plan=\S+)", out))
    r.user(f"Looks right. I forgot something: from this version on the channel hook lives in a file of its own, channel.conf, with hook, retry_max and timeout_ms, and no "
           f"longer in booking.conf. Use {f.retries} retries and {f.timeout} ms.")  # fmt: skip
    r.truth.fact(f"{f.timeout} ms")
    r.agent("Who uses the hook so far?", r.bash("cat templates/booking.conf.tmpl; grep -rn CHANNEL_HOOK templates tools"))
    r.agent("A new template takes the hook over. Two new keys come right after CHANNEL_HOOK in the base file. The nightly sync reads the same key and is not affected.",
            r.write("templates/channel.conf.tmpl", "hook = ${CHANNEL_HOOK}\nretry_max = ${CHANNEL_RETRY_MAX}\ntimeout_ms = ${CHANNEL_TIMEOUT_MS}\n"),
            r.edit("templates/booking.conf.tmpl", "channel_hook = ${CHANNEL_HOOK}\n", ""),
            r.edit("env/base.env", f"{f.hook}\n", f"{f.hook}\nCHANNEL_RETRY_MAX={f.retries}\nCHANNEL_TIMEOUT_MS={f.timeout}\n"))  # fmt: skip
    r.agent(
        "",
        r.bash(
            "python tools/render.py staging && cat build/staging/channel.conf && sort -c env/base.env && echo base.env: sorted"
        ),
        r.read("tools/render.py"),
    )
    r.agent(f"Rendered: {f.retries} retries of {f.timeout} ms each, so a booking can hang at most {f.retries * f.timeout} ms on a dead channel before it fails. render.py deletes "
            "nothing, so a file whose template is removed would stay in build/ until somebody clears it; I keep that in mind.")  # fmt: skip


TEST_MANIFEST = dedent("""\
    import shutil
    import subprocess
    import sys
    import tempfile
    import unittest
    from pathlib import Path


    class ManifestTest(unittest.TestCase):
        def test_joint_first_step_is_refused(self):
            folder = tempfile.TemporaryDirectory()
            self.addCleanup(folder.cleanup)
            top = Path(folder.name, "copy")
            shutil.copytree(".", top, ignore=shutil.ignore_patterns(".git"))
            plan = top / "rollout/prod.json"
            plan.write_text(plan.read_text().replace(\'"harbour"\', \'"harbour+airport"\', 1))
            done = subprocess.run([sys.executable, "tools/validate.py", "prod"], cwd=top, capture_output=True, text=True)
            self.assertIn("FAIL first step: harbour+airport", done.stdout)
    """)

REACH = dedent('''\
    """python tools/reach.py ENV: which share of last week's bookings each step reaches, summed up."""

    import csv
    import json
    import sys
    from pathlib import Path

    week = {row.pop("group"): sum(map(int, row.values())) for row in csv.DictReader(Path("data/bookings-last-week.csv").open())}
    total, reached = sum(week.values()), 0
    print(f"bookings_total: {total}")
    for step in json.loads(Path(f"rollout/{sys.argv[1]}.json").read_text())["steps"]:
        reached += week[step["group"]]
        print(f"{step['group']}: bookings={week[step['group']]} reached={reached} share={100 * reached / total:.2f} manifest={step['percent']}")
    ''')

REFUSED = """

    def test_malformed_line_is_refused(self):
        self.write("ROOMS=4\\nTAX = 7\\n", "")
        with self.assertRaisesRegex(ValueError, "env/base.env:2: not KEY=value"):
            envfile.load("demo")


if __name__"""

STRICT = dedent('''\
    """Environment files: base first, then the environment's own. A line is KEY=value, empty, or a # comment."""

    import re

    ENTRY = re.compile(r"^([A-Z0-9_]+)=(\\S.*)$")


    def load(name):
        values = {}
        for path in ("env/base.env", f"env/{name}.env"):
            with open(path) as lines:
                for number, line in enumerate(lines, 1):
                    if not line.strip() or line.startswith("#"):
                        continue
                    found = ENTRY.match(line)
                    if not found:
                        raise ValueError(f"{path}:{number}: not KEY=value")
                    values[found[1]] = found[2].strip()
        return values
    ''')


def production(r, f):
    r.user(f"Change of plan: QA found a rounding error in the city tax of {f.pulled}, ticket {f.ticket}. The fixed build is {f.image.split(':')[1]}, "
           "already scanned and locked. Use that one everywhere.")  # fmt: skip
    r.truth.update("image", f.pulled, f.image)
    r.truth.fact(f.ticket, f.digest)
    r.agent("The tag is in one place only.", r.edit("env/base.env", f.pulled, f.image), r.bash("make check ENV=staging"))
    r.agent("The validator catches what I had left: the manifests still name the digest of the pulled build. Both get the one from images.lock.",
            r.bash(f"sed -i 's/{f.pulled_digest}/{f.digest}/' rollout/*.json && grep -n digest rollout/*.json"))  # fmt: skip
    r.agent(
        "",
        r.bash(
            "make check ENV=staging && git add -A && git commit -qm '"
            + f"{f.release}: {f.image}, strict env files"
            + "' && git log --oneline -1"
        ),
    )
    r.user("It has been running on the test house for forty minutes now. I put the samples into soak/staging.log; look whether anything moves that should not "
           "before we touch production.")  # fmt: skip
    r.file("soak/staging.log", f.samples)
    r.agent("Forty samples can be read by eye, and I add up the columns beside it.", r.bash("cat soak/staging.log"), r.bash(
        "awk '{ for (i = 1; i <= NF; i++) { split($i, a, \"=\"); v[a[1]] = a[2] } n += v[\"req\"]; e += v[\"err\"];\n"
        "       if (v[\"p95_ms\"] > top) { top = v[\"p95_ms\"]; at = v[\"t\"] } if (v[\"pool_busy\"] > busy) busy = v[\"pool_busy\"] }\n"
        "     END { printf \"requests: %d\\nerrors: %d\\nerror_share: %.4f %%\\nworst_p95_ms: %d\\nworst_at_s: %d\\nbusy_max: %d\\n\", n, e, 100 * e / n, top, at, busy }' "
        "soak/staging.log"))  # fmt: skip
    r.truth.fact(f"worst_p95_ms: {f.peak}")
    r.agent(f"Errors are where they should be. There is a single bump: p95 reaches {f.peak} ms about {f.ttl} seconds after the start, and in the same sample the number of holds collapses. "
            f"That is HOLD_TTL_S={f.ttl}: everything held since the start expires at once. In production with a steady flow it would be smaller, but the longer holds live, the "
            "bigger that wave can get.")  # fmt: skip
    vault = "leave the vault references in env/prod.env exactly as they are"
    r.truth.constraint(vault)
    r.user(f"Understood, we come back to the holds later. Now production. The database team lowered the limit to {f.limit} connections and wants {f.reserved} of them reserved for "
           f"reports, please enter both. Security asks that you {vault}, no resolving.")  # fmt: skip
    r.truth.fact(f"lowered the limit to {f.limit} connections")
    r.agent("", r.read("env/prod.env"),
            r.todo(("Image and staging check", "completed"), ("Production check", "in_progress"), ("Dry runs", "pending")))  # fmt: skip
    r.agent("The reserve gets a line of its own for production, below the password reference, which I leave alone; staging keeps the 4 of the base file.", r.edit("env/prod.env", "DB_CONN_LIMIT=240\n", f"DB_CONN_LIMIT={f.limit}\n"),
            r.edit("env/prod.env", "LOG_LEVEL", f"DB_RESERVED={f.reserved}\nLOG_LEVEL"), r.bash("make check ENV=prod 2>&1 | grep -E '^(build|ok|FAIL|[A-Za-z]+Error)'; exit ${PIPESTATUS[0]}"))  # fmt: skip
    r.agent("The validator finds no manifest for prod; the file in rollout/ is called production.json while the tools expect the name of the environment. "
            "I rename the file and leave the tools alone.",
            r.bash("git mv rollout/production.json rollout/prod.json && python tools/validate.py prod"))  # fmt: skip
    r.agent(f"With the new limit, {f.hosts} hosts with {f.pool} connections each do not fit. Either a connection proxy in front of the database or smaller pools. I propose "
            f"DB_POOL_MAX={f.low} for production: no connection proxy, because it would be one more hop to operate on a release day.",
            r.edit("env/prod.env", "DB_RESERVED", f"DB_POOL_MAX={f.low}\nDB_RESERVED"), r.bash("make check ENV=prod"))  # fmt: skip
    r.truth.decision(
        chosen=f"DB_POOL_MAX={f.low} for production",
        rejected="no connection proxy",
        reason="one more hop to operate on a release day",
    )
    r.user(f"No proxy, right. But {f.low} is too tight for the check-in peak at three; we measured {f.high - 1} busy connections on one host last weekend, it is "
           f"in data/pool-peaks.csv. Take {f.high} and tell me what is left.")  # fmt: skip
    r.truth.update("pool in production", f"DB_POOL_MAX={f.low}", f"DB_POOL_MAX={f.high}")
    r.agent(
        "I take the number and look at the measurement, to see how far the busiest host is from the new size.",
        r.edit("env/prod.env", f"DB_POOL_MAX={f.low}", f"DB_POOL_MAX={f.high}"),
        r.bash("cat data/pool-peaks.csv"),
        r.bash("make check ENV=prod | sed -n '5,$p'"),
    )
    r.agent(f"{f.hosts} x {f.high} + {f.reserved} = {f.hosts * f.high + f.reserved} of {f.limit}, so {f.limit - f.hosts * f.high - f.reserved} connections are left, enough for the "
            "migration job and one psql session; the busiest host of the weekend stays one below the pool. The production plan as it stands:", r.bash("python tools/dryrun.py prod"))  # fmt: skip


def waves(r, f):
    one = "the first step of a production rollout touches one property group only"
    r.truth.constraint(one)
    r.user(f"I see two groups in step one. House rule: {one}. Lakeside has a wedding weekend, so begin with harbour, at 4 percent, soak {f.soak_new} "
           "seconds; lakeside comes after old-town.")  # fmt: skip
    r.agent("", r.edit("rollout/prod.json", '"group": "lakeside + harbour"', '"group": "harbour"'), r.read("rollout/prod.json"))
    step = lambda g, h, p, s: json.dumps({"group": g, "hosts": h, "percent": p, "soak_s": s})  # noqa: E731
    r.agent("I had written the name with blanks. Properly now: step one is split, the soak of the others is kept.",
            r.edit("rollout/prod.json", step("lakeside+harbour", [f.lake, f.harbour], 9, f.soak), step("harbour", [f.harbour], 4, f.soak_new)),
            r.edit("rollout/prod.json", step("airport", [f.airport], 100, f.soak),
                   step("lakeside", [f.lake], 51, f.soak) + ",\n    " + step("airport", [f.airport], 100, f.soak)))  # fmt: skip
    r.truth.update("soak of the first step", f'"soak_s": {f.soak}}}', f'"soak_s": {f.soak_new}}}')
    out = r.agent(
        "Shares must still rise from step to step, and the plan tokens of the changed steps must differ from before.",
        r.bash("python tools/validate.py prod | tail -2; python tools/dryrun.py prod"),
    )[0]
    f.total = grab(r"total_soak_s=(\d+)", out)
    r.truth.fact(f"total_soak_s={f.total}", grab(r"^1 harbour: .*(plan=\S+)", out), f.harbour)
    r.agent(f"One group, one host first. All soaks together take {f.total} seconds; lakeside now comes third with its host {f.lake}. The validator does not know the "
            "house rule yet, though. A joint first group would pass again next time; shall I add a check?")  # fmt: skip
    r.user("Yes, add it. Then two more things: the nightly sync is dead since the channel manager pulls by itself, drop its template and key. And holds "
           f"in production should expire after {f.ttl_prod} seconds instead of {f.ttl}, staging keeps its value.")  # fmt: skip
    r.agent("The rule gets a test that runs the validator on a copy with a joint first step.", r.write("tests/test_manifest.py", TEST_MANIFEST),
            r.edit("Makefile", "tests.test_envfile", "tests.test_envfile tests.test_manifest"),
            r.bash("make test 2>&1 | grep -E '^(FAIL|ERROR|Ran|[A-Za-z]+Error)'; exit ${PIPESTATUS[0]}"))  # fmt: skip
    r.agent("Red for the right reason. Now the check itself, and the nightly sync goes. Because render.py never deletes, I clear build/ as a whole and let it be rendered again.", r.edit("tools/validate.py", "sys.exit(bad", 'check("first step", "+" not in plan["steps"][0]["group"], plan["steps"][0]["group"])\nsys.exit(bad'),
            r.bash("git rm -q templates/nightsync.conf.tmpl && sed -i '/^SYNC_EVERY_S=/d' env/base.env && rm -r build && wc -l env/*.env"),
            r.todo(("Image and staging check", "completed"), ("Production check", "completed"), ("House rule, nightly sync, holds", "in_progress"),
                   ("Rollback sheet", "pending")))  # fmt: skip
    r.truth.update("expiry of holds in production", f"HOLD_TTL_S={f.ttl}", f"HOLD_TTL_S={f.ttl_prod}")
    r.agent("The key for the holds belongs between DB_RESERVED and LOG_LEVEL.", r.edit("env/prod.env", "LOG_LEVEL", f"HOLD_TTL_S={f.ttl_prod}\nLOG_LEVEL"),
            r.bash("make check ENV=prod && make check ENV=staging && diff build/staging/booking.conf build/prod/booking.conf; "
                   "for e in base prod staging; do sort -c env/$e.env && echo \"sorted: $e\"; done"))  # fmt: skip
    r.user("While you have the manifest open: its percentages are from spring. data/bookings-last-week.csv has the real numbers, compute what each step reaches and correct "
           "them, rounded to whole percent. Keep the little program, we'll need it again.")  # fmt: skip
    out = r.agent(
        "One row a group, one column a day. The program sums the week and walks through the steps in manifest order.",
        r.bash("cat data/bookings-last-week.csv"),
        r.write("tools/reach.py", REACH),
        r.bash("python tools/reach.py prod"),
    )[2]
    shares = [round(float(x)) for x in re.findall(r" share=(\S+)", out)]
    r.truth.fact(grab(r"(bookings_total: \d+)", out), grab(r"^lakeside: .*(reached=\d+)", out))
    r.truth.update("share of the first step", '"percent": 4', f'"percent": {shares[0]}')
    r.agent(f"The spring figures are well off: harbour alone is {shares[0]} percent, and with old-town {shares[1]}. I write the manifest anew with the measured shares; hosts and soaks "
            "stay.", r.write("rollout/prod.json", manifest(f, f.digest, ("harbour", [f.harbour], shares[0], f.soak_new), ("old-town", [f.old_town], shares[1], 2 * f.soak),
                             ("lakeside", [f.lake], shares[2], f.soak), ("airport", [f.airport], shares[3], f.soak))),
            r.bash("python tools/validate.py prod && python tools/dryrun.py prod"))  # fmt: skip
    f.share = shares[0]
    r.agent(
        "",
        r.bash(
            f"make test && git add -A && git commit -qm '{f.release}: production waves, holds, no nightly sync' && git show --stat --format=%h HEAD"
        ),
    )


def closing(r, f):
    r.user(f"Before the paperwork: show me in full how production's rendered files differ from what {f.last} left in released/. I don't want a surprise in there that nobody "
           "asked for.")  # fmt: skip
    r.agent("The last release left its rendered files in the repository, so a plain diff answers that.", r.bash(f"diff -ru released/{f.last}/prod build/prod | grep -v '^diff\\|^---\\|^+++'"),
            r.bash(f"git log --format='%h %s' -- released | head -3; sha256sum build/prod/*.conf released/{f.last}/prod/*.conf | cut -c1-16,65-"))  # fmt: skip
    r.agent(f"Everything is accounted for except one line: rates.conf had refresh_s = {f.refresh + 30} in {f.last} and renders {f.refresh} now. I have not touched RATE_REFRESH_S, so somebody "
            "changed production or the base file outside this repository's history. Which one is right?")  # fmt: skip
    r.user(
        f"The {f.refresh + 30} is right, the rates team raised it on the hosts in November and forgot the base file. Put it in for production only and render again."
    )
    r.truth.update("refresh of rates in production", f"RATE_REFRESH_S={f.refresh}", f"RATE_REFRESH_S={f.refresh + 30}")
    r.agent("It goes to the end of the file, after LOG_LEVEL.", r.edit("env/prod.env", "LOG_LEVEL=info\n", f"LOG_LEVEL=info\nRATE_REFRESH_S={f.refresh + 30}\n"),
            r.bash(f"make check ENV=prod >/dev/null && diff released/{f.last}/prod/rates.conf build/prod/rates.conf && echo rates.conf: as released && sort -c env/prod.env"))  # fmt: skip
    r.user(f"For the night shift I need a rollback sheet in docs/: when to stop (error share over {f.errors} %, p95 over {f.latency} ms), what to go back to, in which order. "
           "Last good release, image and digest must be in there. A small script should print the image lines, so nobody types them.")  # fmt: skip
    r.truth.fact(f"p95 over {f.latency} ms")
    r.agent(
        "First what to go back to: the image before this release, and whether it is still among the locked ones.",
        r.grep("^booking-api", "images.lock"),
        r.bash("git log --format='%h %s' | tail -1; git show $(git rev-list --max-parents=0 HEAD):env/base.env | head -2"),
    )
    r.agent("The initial commit names the last good release and its image, which is still locked. The order of going back is the plan reversed.",
            r.write("tools/rollback.py", dedent('''\
                """python tools/rollback.py IMAGE: the steps back, last wave first."""

                import json
                import sys
                from pathlib import Path

                locked = dict(line.split() for line in Path("images.lock").read_text().splitlines())
                if sys.argv[1] not in locked:
                    sys.exit(f"not locked: {sys.argv[1]}")
                steps = json.loads(Path("rollout/prod.json").read_text())["steps"]
                for number, step in enumerate(reversed(steps), 1):
                    print(f"back {number}: {step['group']} hosts={','.join(step['hosts'])} image={sys.argv[1]} digest={locked[sys.argv[1]]}")
                ''')),
            r.bash(f"python tools/rollback.py {f.before[:-1]}0; python tools/rollback.py {f.before}"))  # fmt: skip
    r.agent("An unknown image is refused, the right one gives four lines. The sheet:", r.write("docs/rollback-" + f.release + ".md", dedent(f"""\
        # Rolling {f.release} back

        Stop when the error share is over {f.errors} % or p95 over {f.latency} ms during a soak. The first soak (harbour, {f.harbour}) lasts {f.soak_new} s.

        1. Freeze the rollout; do not start the next step.
        2. `python tools/rollback.py {f.before}` prints the way back to {f.last}, digest {f.before_digest}.
        3. Pools stay at {f.high}: the limit of {f.limit} connections holds for the old image as well.
        4. New holds keep {f.ttl_prod} s; that needs no action. Note the time in {f.ticket}.
        """)),
        r.todo(("Image and staging check", "completed"), ("Production check", "completed"), ("House rule, nightly sync, holds", "completed"),
               ("Rollback sheet", "completed"), ("Hand-over", "in_progress")))  # fmt: skip
    r.user(f"Nice. One correction: {f.ticket} is closed, the night shift writes into the release log, so name docs/release-log.md there and start the entry. Then commit, "
           "and give me the summary for the hand-over: image, digest, pool, order of groups, total soak.")  # fmt: skip
    r.agent(
        "",
        r.edit(f"docs/rollback-{f.release}.md", f"Note the time in {f.ticket}.", "Note the time in docs/release-log.md."),
        r.read("docs/release-log.md"),
    )
    r.agent("The entry follows the form of the others, with the values left open that only the rollout can give.",
            r.edit("docs/release-log.md", f"## {f.last} ", f"## {f.release} (booking)\n\nstopped: ; soak_total_s: {f.total}; error_share: ; worst_p95_ms: ; way back: {f.before}\n\n## {f.last} "),
            r.bash(f"make test && make check ENV=prod && git add -A && git commit -qm '{f.release}: rollback sheet' && git status --short | wc -l"))  # fmt: skip
    r.agent(f"Hand-over for {f.release}: image {f.image}, digest {f.digest}. Pool {f.high} on {f.hosts} hosts plus {f.reserved} reserved, limit {f.limit}. Order: harbour ({f.harbour}, "
            f"{f.share} %), old-town, lakeside, airport; soaks {f.total} s in all. Holds expire after {f.ttl_prod} s in production, rate cache {f.cache}. Way back: {f.before} of {f.last}. "
            "All is committed, nothing was rolled out from here.")  # fmt: skip
    for value in (f.digest, f.cache, f.before, f.last, str(f.limit)):
        r.truth.later(value)
