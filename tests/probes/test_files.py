"""The fold of file operations: which file each call created, modified, read, deleted or renamed."""

from __future__ import annotations

import pytest

from bench.probes.files import file_events, states
from making import assistant, call, result, session

CWD = "/srv/app"


def played(*calls):
    """The states after calls, each (tool name, arguments, result text, and whether it failed when it did)."""
    messages = []
    for number, (name, arguments, text, *failed) in enumerate(calls):
        messages += [
            assistant("", call(f"c{number}", name, **arguments)),
            result(f"c{number}", text, is_error=bool(failed)),
        ]
    return states(file_events(session(*messages, cwd=CWD)))


def bash(command, text="(no output)", *failed):
    return ("Bash", {"command": command}, text, *failed)


def write(path, text="Created new file"):
    return ("Write", {"file_path": path, "content": "x"}, text)


def edit(path, text="Edited it", *failed):
    return ("Edit", {"file_path": path, "old_string": "a", "new_string": "b"}, text, *failed)


def read(path, text="     1\tx", *failed):
    return ("Read", {"file_path": path}, text, *failed)


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([write("a.py")], {"a.py": "created"}),
        ([write("a.py", "File created successfully at: a.py")], {"a.py": "created"}),
        ([write("a.py", "Overwrote a.py (3 lines)")], {"a.py": "modified"}),
        ([write("updated.py", "Created new file updated.py")], {"updated.py": "created"}),
        ([write("a.py"), write("a.py", "Overwrote a.py")], {"a.py": "created"}),
        ([edit("a.py")], {"a.py": "modified"}),
        ([edit("a.py", "Edit refused: old_string occurs 0 times")], {}),
        ([edit("a.py", "no such string", True)], {}),
        ([read("a.py")], {"a.py": "read"}),
        ([read("a.py", "File does not exist: a.py", True)], {}),
        ([read("a.py"), edit("a.py"), read("a.py")], {"a.py": "modified"}),
        ([write("a.py"), edit("a.py")], {"a.py": "created"}),
        ([write("/srv/app/src/a.py"), edit("src/a.py")], {"src/a.py": "created"}),
        ([bash("cat a.py", "", True), write("a.py")], {"a.py": "created"}),
        ([bash("cat a.py 2>/dev/null; true"), write("a.py")], {"a.py": "unclear"}),  # was there anything to read?
        ([bash("test -f a.py || touch a.py")], {}),
        ([bash("test -f b.py && touch a.py")], {"a.py": "created"}),
        ([read("a.py"), bash("if [ -f a.py ]; then rm a.py; fi")], {"a.py": "unclear"}),
        ([read("a.py"), bash("for f in a.py; do rm $f; done")], {"a.py": "unclear"}),
        ([bash("rm a.py b.py")], {"a.py": "deleted", "b.py": "deleted"}),
        ([bash("git rm -q a.py")], {"a.py": "deleted"}),
        ([write("a.py"), bash("rm a.py")], {"a.py": "deleted"}),
        ([write("a.py"), bash("rm a.py"), write("a.py")], {"a.py": "created"}),
        ([read("a.py"), bash("rm a.py"), write("a.py")], {"a.py": "unclear"}),  # there before the session, and new
        ([bash("mv a.py b.py")], {"a.py": "renamed", "b.py": "moved"}),
        ([bash("git mv a.py src/")], {"a.py": "renamed", "src/a.py": "moved"}),
        ([bash("mv a b && mv b c")], {"a": "renamed", "b": "unclear", "c": "moved"}),  # b was never a file of its own
        ([bash("mv a b; mv b a")], {"a": "moved", "b": "unclear"}),
        ([bash("mv a.py b.py"), edit("b.py")], {"a.py": "renamed", "b.py": "moved"}),
        ([bash("cp a.py b.py")], {"b.py": "created"}),
        ([bash("touch b.py")], {"b.py": "created"}),
        ([read("b.py"), bash("touch b.py")], {"b.py": "modified"}),
        ([bash("ls", "b.py"), bash("touch b.py")], {"b.py": "unclear"}),  # it was there, perhaps
        ([bash("cat a.py")], {"a.py": "read"}),
        ([bash("sed -i 's/a/b/' a.py")], {"a.py": "modified"}),
        ([bash("sed -n 3p a.py")], {}),
        ([bash("echo x > a.txt")], {"a.txt": "created"}),
        ([read("a.txt"), bash("echo x >> a.txt")], {"a.txt": "unclear"}),
        ([bash("cat > a.py <<'EOF'\nrm b.py\nEOF")], {"a.py": "created"}),
        ([bash("awk 'NR>1' data.tsv")], {}),
        ([bash("make > /dev/null 2>&1")], {}),
        ([bash("cd src && touch a.py")], {"src/a.py": "created"}),
        ([bash("cat /srv/app/src/a.py")], {"src/a.py": "read"}),
        ([read("a.py"), bash("rm a.py && false", "", True)], {"a.py": "unclear"}),
        ([write("build/a.o")], {"build/a.o": "unclear"}),
    ],
)
def test_the_net_effect(calls, expected):
    assert played(*calls) == expected


@pytest.mark.parametrize(
    ("command", "state"),
    [
        ("python tools/fix.py a.py", "unclear"),
        ("for f in a b; do python fix.py $f; done", "unclear"),  # the loop puts names together that no word spells
        ("for f in b c; do python fix.py $f; done", "read"),
        ("for f in *.py; do sed -i s/x/y/ $f; done", "unclear"),
        ("for f in a.py; do echo x > $f; done", "unclear"),
        ("python fix.py $(git ls-files)", "unclear"),
        ("grep -l x -r . | xargs sed -i s/x/y/", "unclear"),
        ("grep -l x -r . | xargs -n 1 wc -l", "read"),
        ("find . -delete", "unclear"),
        ("while read f; do rm $f; done", "unclear"),
        ("find . -name '*.md' -delete", "read"),
        ("find . -name '*.py' -exec sed -i s/x/y/ {} +", "unclear"),
        ("make test; exit ${PIPESTATUS[0]}", "read"),
        ("git stash", "unclear"),
        ("for n in 1 2; do cat a.py; done", "read"),
        ("if grep -q x a.py; then echo yes; fi", "read"),
        ("grep -n x a.py", "read"),
    ],
)
def test_a_file_that_may_have_changed_out_of_sight_is_unclear(command, state):
    assert played(read("a.py"), bash(command))["a.py"] == state


def test_the_operations_stand_where_they_happened():
    made = session(
        assistant("", call("1", "Write", file_path="a.py", content=""), call("2", "Read", file_path="b.py")),
        result("1", "Created new file a.py"),
        result("2", "x"),
        assistant("", call("3", "Bash", command="rm a.py")),
        result("3", ""),
        assistant("", call("4", "Bash", command="rm b.py")),  # no result: it may never have run
    )
    events = [(event.index, event.operation, event.path) for event in file_events(made)]
    assert events == [(0, "create", "a.py"), (0, "read", "b.py"), (3, "delete", "a.py")]


@pytest.mark.parametrize(
    ("name", "arguments", "text", "state"),
    [
        ("str_replace_editor", {"command": "create", "path": "a.py"}, "File created successfully", "created"),
        ("str_replace_editor", {"command": "view", "path": "a.py"}, "x", "read"),
        ("str_replace_editor", {"command": "str_replace", "path": "a.py"}, "done", "modified"),
        ("mcp__files__read_file", {"path": "a.py"}, "x", "read"),
        ("write_file", {"path": "a.py", "content": ""}, "ok", "created"),
        ("NotebookEdit", {"notebook_path": "a.py"}, "ok", "modified"),
        ("run_shell_command", {"command": "rm a.py"}, "", "deleted"),
    ],
)
def test_tools_of_other_products(name, arguments, text, state):
    assert played((name, arguments, text)) == {"a.py": state}
