"""Files as a session knew them, against what stands in its messages and against the files that were really there."""

from __future__ import annotations

import hashlib

import pytest

from bench.workspace import KnownFiles
from making import assistant, call, result, session, user, value
from recorder import truth as truths
from recorder.__main__ import record


def known(*steps, cwd="/srv/app"):
    """The files after these (call, text of its result) or (call, text, is_error)."""
    messages = [user("Begin.")]
    for made, text, *error in steps:
        messages += [assistant("", made), result(made.id, text, is_error=bool(error))]
    return {file.path: file for file in KnownFiles(session(*messages).messages, cwd).files}


def read(text, path="/srv/app/a.py", name="Read", **more):
    return call(f"r-{value((text, path))}", name, file_path=path, **more), text


def edit(old, new, path="/srv/app/a.py", name="Edit", text="The file has been updated.", **more):
    return call(f"e-{value((old, new))}", name, file_path=path, old_string=old, new_string=new, **more), text


WRITTEN = (call("w", "Write", file_path="/srv/app/a.py", content="one\ntwo\ntwo\n"), "File created.")


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        ("     1→one\n     2→\n     3→three\n     4→", "one\n\nthree\n"),  # Claude Code until 2.1
        ("1\tone\n2\t\n3\tthree", "one\n\nthree"),  # Claude Code since
        ("     1\tone\n     2\ttwo\n", "one\ntwo"),  # cat -n
        ("Here's the result of running `cat -n` on /srv/app/a.py:\n     1\tone\n     2\ttwo\n", "one\ntwo"),
        ("     1→one\n     2→two\n\n<system-reminder>\nBe careful.\n</system-reminder>\n", "one\ntwo"),
        ("one\ntwo\n", "one\ntwo\n"),  # pi prints none
        ("1\tone\n3\tthree\n", "1\tone\n3\tthree\n"),  # a table, not lines with their numbers
        ("1\tone\nand two", "1\tone\nand two"),
    ],
)
def test_a_read_shows_a_whole_file_without_line_numbers_and_reminders(shown, text):
    file = known(read(shown))["a.py"]
    assert (file.text, file.whole, file.read_at, file.changed_at) == (text, True, 2, -1)


@pytest.mark.parametrize(
    ("shown", "arguments", "text", "whole"),
    [
        ("    40→forty\n    41→more", {"offset": 40, "limit": 2}, "forty\nmore", False),
        ("     1→one\n     2→two", {"limit": 2}, "one\ntwo", False),
        ("     1→one\n     2→two", {"limit": 50}, "one\ntwo", True),  # the file is shorter than what was asked for
        ("\n".join(f"{n}\tx" for n in range(1, 2001)), {}, "x\n" * 1999 + "x", False),  # as many as a read shows at most
        ("1\tone\n2\ttw<response clipped><NOTE>There is more.</NOTE>", {}, "one\ntw", False),
        ("one\ntwo\n\n[1549 more lines in file. Use offset=3 to continue]", {"limit": 2}, "one\ntwo", False),
        ("one\ntwo\n\n[Showing lines 1-2 of 90. Use offset=3 to continue]", {}, "one\ntwo", False),
        ("     7\tseven\n     8\teight\n", {"view_range": [7, 8]}, "seven\neight", False),
        ("     1\tone\n     2\ttwo\n", {"view_range": [1, -1]}, "one\ntwo", True),
    ],
)
def test_a_part_of_a_file_is_not_whole(shown, arguments, text, whole):
    file = known(read(shown, **arguments))["a.py"]
    assert (file.text, file.whole) == (text, whole)


def test_a_part_never_replaces_the_whole_but_the_newest_part_replaces_an_older_one():
    whole, part, other = read("1\tone\n2\ttwo"), read("2\ttwo", offset=2, limit=1), read("7\tseven", offset=7, limit=1)
    assert known(whole, part)["a.py"].text == "one\ntwo"
    assert known(whole, part)["a.py"].read_at == 4
    assert known(part, other)["a.py"].text == "seven"
    assert known(part, whole)["a.py"].whole


def test_where_lines_are_numbered_a_result_without_numbers_is_a_notice():
    files = known(read("1\tone\n2\ttwo"), read("File unchanged since last read."), read("1\tb", "/srv/app/b.py"))
    assert (files["a.py"].text, files["a.py"].read_at) == ("one\ntwo", 4)


@pytest.mark.parametrize(
    ("change", "text", "whole"),
    [
        (edit("one", "1"), "1\ntwo\ntwo\n", True),
        (edit("two", "2", replace_all=True), "one\n2\n2\n", True),
        (edit("two", "2"), "one\ntwo\ntwo\n", False),  # twice there: the tool would have refused
        (edit("three", "3"), "one\ntwo\ntwo\n", False),
        ((call("m", "MultiEdit", file_path="/srv/app/a.py", edits=[{"old_string": "one", "new_string": "1"}, {"old_string": "1\ntwo", "new_string": "1+2"}]), "ok"), "1+2\ntwo\n", True),
        ((call("s", "str_replace_editor", command="str_replace", path="/srv/app/a.py", old_str="one\n", new_str=""), "ok"), "two\ntwo\n", True),
        ((call("p", "edit", path="a.py", oldText="one", newText="1"), "ok"), "1\ntwo\ntwo\n", True),
        ((call("d", "apply_diff", path="a.py", diff="@@"), "ok"), "one\ntwo\ntwo\n", False),  # cannot be followed
        (edit("one", "1", text="Error: no"), "one\ntwo\ntwo\n", True),
        (edit("one", "1", text="ERROR:\nNo replacement was performed."), "one\ntwo\ntwo\n", True),
        ((*edit("one", "1", text="refused"), True), "one\ntwo\ntwo\n", True),
    ],
)  # fmt: skip
def test_edits_are_followed_where_their_old_text_is_found_once(change, text, whole):
    file = known(WRITTEN, change)["a.py"]
    assert (file.text, file.whole) == (text, whole)


def test_a_file_that_was_only_edited_is_known_by_name():
    file = known(edit("one", "1"))["a.py"]
    assert (file.text, file.whole, file.changed_at) == ("", False, 2)
    assert known(edit("", "all of it", path="new.py"))["new.py"].text == "all of it"


def test_the_most_recently_read_or_written_file_comes_first():
    steps = [read("a", "a.py"), read("b", "b.py"), read("c", "c.py"), edit("a", "A", "a.py"), read("c", "c.py")]
    assert list(known(*steps)) == ["c.py", "a.py", "b.py"]


def test_a_context_without_file_tools_knows_no_file():
    assert known((call("b", "Bash", command="cat a.py"), "one"), (call("g", "Grep", pattern="one", path="a.py"), "1:one")) == {}
    assert KnownFiles(()).files == ()


def bash(command, text="", error=False):
    return call(f"b-{value((command, text))}", "Bash", command=command), text, *([True] if error else [])


@pytest.mark.parametrize(
    ("command", "path", "text", "whole"),
    [
        ("ls -l && grep one a.py", "a.py", "one\ntwo\ntwo\n", True),
        ("cat a.py > b.py", "a.py", "one\ntwo\ntwo\n", True),
        ("mv a.py b.py", "b.py", "one\ntwo\ntwo\n", True),
        ("cd src && mv ../a.py b.py", "src/b.py", "one\ntwo\ntwo\n", True),
        ("mv /srv/app/a.py src/", "src/a.py", "one\ntwo\ntwo\n", True),
        ("mv a.py b.py; sed -i s/one/1/ b.py", "b.py", "one\ntwo\ntwo\n", False),
        ("sed -i s/one/1/ a.py", "a.py", "one\ntwo\ntwo\n", False),
        ("echo three >> a.py", "a.py", "one\ntwo\ntwo\n", False),
        ("sort b.py > c.py && mv c.py a.py", "a.py", "one\ntwo\ntwo\n", False),
        ("black a.py", "a.py", "one\ntwo\ntwo\n", False),
        ("git stash", "a.py", "one\ntwo\ntwo\n", False),
        ("test -f a.py || rm a.py", "a.py", "one\ntwo\ntwo\n", False),  # perhaps it was not run
    ],
)
def test_a_shell_command_renames_a_file_or_leaves_its_last_known_text(command, path, text, whole):
    files = known(WRITTEN, bash(command))
    assert [(file.path, file.text, file.whole) for file in files.values()] == [(path, text, whole)]


@pytest.mark.parametrize("command", ["rm a.py", "git rm -q a.py", "cd src; rm -f ../a.py", "mv a.py b.py && rm b.py"])
def test_a_file_that_a_shell_command_deleted_is_gone_until_it_is_written_again(command):
    assert known(WRITTEN, bash(command)) == {}
    assert known(WRITTEN, bash(command), (call("v", "Write", file_path="a.py", content="new"), "ok"))["a.py"].whole


def test_a_failed_shell_command_may_have_got_some_way():
    assert not known(WRITTEN, bash("rm a.py b.py", "rm: b.py: No such file", error=True))["a.py"].whole


def test_a_file_goes_with_its_folder_and_into_a_folder():
    folder = read("1\tone", "src/a.py"), read("1\ttwo", "lib/b.py"), read("1\tthree", "c.py")
    assert set(known(*folder, bash("mv src code"))) == {"code/a.py", "lib/b.py", "c.py"}
    assert set(known(*folder, bash("mv src lib"))) == {"lib/src/a.py", "lib/b.py", "c.py"}
    assert set(known(*folder, bash("mv c.py lib"))) == {"src/a.py", "lib/b.py", "lib/c.py"}
    assert set(known(*folder, bash("mv src/a.py ."))) == {"a.py", "lib/b.py", "c.py"}


def test_a_read_shows_anew_what_a_shell_command_changed():
    file = known(WRITTEN, bash("sed -i s/two/2/ a.py"), read("1\tone\n2\t2\n3\t2"))["a.py"]
    assert (file.text, file.whole) == ("one\n2\n2", True)


@pytest.mark.parametrize("family", ["deployment", "documentation", "dependency_upgrade"])
def test_a_whole_text_is_that_of_the_real_file(family):
    there = {}

    class Watching(truths.Truth):
        def observe(self, call, failed, before, after):
            there.clear()
            there.update(after)
            super().observe(call, failed, before, after)

    made, _ = record(family, truth=Watching())
    whole = [file for file in KnownFiles(made.messages, made.cwd).files if file.whole]
    equal = [file for file in whole if there.get(file.path) in (digest(file.text), digest(file.text + "\n"))]
    assert len(whole) >= 3
    assert len(equal) > 0.95 * len(whole)


def digest(text: str) -> str:
    """A recorded read leaves it open whether the last line of a file has an end."""
    return hashlib.sha256(text.encode()).hexdigest()
