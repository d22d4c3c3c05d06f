from __future__ import annotations

import pytest

from bench.shell import parse


@pytest.mark.parametrize(
    ("command", "operations"),
    [
        ("rm a.py b.py", [("delete", "a.py", ""), ("delete", "b.py", "")]),
        ("git rm -q a.py && git mv b.py src/", [("delete", "a.py", ""), ("rename", "b.py", "src/b.py")]),
        ("mv old.txt new.txt; touch x", [("rename", "old.txt", "new.txt"), ("overwrite", "x", "")]),
        ("echo hi > out.txt 2>&1", [("overwrite", "out.txt", "")]),
        ("cat a.txt | sort > b.txt", [("overwrite", "b.txt", ""), ("read", "a.txt", "")]),
        ("awk 'NR>1 {print $1}' data.tsv", []),
        ("sed -i 's/a/b/' x.cfg", [("modify", "x.cfg", "")]),
        ("sed -i -e '1d' -e 's/;/|/' x.cfg y.cfg", [("modify", "x.cfg", ""), ("modify", "y.cfg", "")]),
        ("cat > new.py <<'EOF'\nrm other.py\nEOF\necho done", [("overwrite", "new.py", "")]),
        ("cd src && rm a.py", [("delete", "src/a.py", "")]),
        ("cp a.txt backup/", [("overwrite", "backup/a.txt", "")]),
        ("python -m pytest -q tests/test_a.py", []),
        ("make > /dev/null", []),
    ],
)  # fmt: skip
def test_operations(command, operations):
    assert sorted(parse(command, "", failed=False).operations) == sorted(operations)


@pytest.mark.parametrize(
    ("command", "output", "path", "touched"),
    [
        ("python tools/fix.py src/a.py", "", "src/a.py", True),
        ("python tools/fix.py src", "", "src/a.py", True),
        ("python tools/fix.py", "", "tools/fix.py", False),
        ("python tools/fix.py", "wrote src/a.py", "src/a.py", True),
        ("python tools/show.py", "src/a.py has 12 lines", "src/a.py", False),
        ("rm -r src", "", "src/a.py", True),
        ("rm src/*.py", "", "src/a.py", True),
        ("grep -rn x src", "src/a.py:1: wrote", "src/a.py", False),
        ("python - <<'EOF'\nopen('src/a.py', 'w')\nEOF", "", "src/a.py", True),
        ("python - <<'EOF'\nprint(open('src/a.py').read())\nEOF", "", "src/a.py", False),
        ("git checkout main", "", "src/a.py", True),
        ("git checkout -b fix", "", "src/a.py", False),
        ("git checkout -q src/b.py", "", "src/a.py", False),
        ("git stash", "", "anything.txt", True),
        ("echo x >> notes.md", "", "notes.md", True),
        ("echo 'open quote > a.py", "", "a.py", True),
    ],
)
def test_what_may_have_changed_out_of_sight(command, output, path, touched):
    assert parse(command, output, failed=False).touches(path) is touched


def test_a_failed_command_leaves_what_it_would_have_done_unclear():
    shell = parse("rm a.py && false", "", failed=True)
    assert shell.operations == []
    assert shell.touches("a.py")
