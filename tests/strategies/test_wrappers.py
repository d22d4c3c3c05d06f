"""Wrappers around any strategy: what they add, where it stands, and that they take nothing away."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asking import Answers, request
from bench.replay import head_length
from bench.strategies import make
from bench.strategies.restore import restored
from bench.strategies.wrappers import Wrapped
from bench.types import BenchError, Compaction, CompactionRequest, Message, Strategy
from bench.workspace import KnownFiles
from making import assistant, call, result, session, sessions, system, user, work

NAMES = ("reinject", "history_pointer", "notes", "restore_files")


def words(messages) -> int:
    """A word is a token, so that budgets can be met exactly."""
    return sum(len(message.text.split()) for message in messages)


def asked(context, head=None, count=words, **fields) -> CompactionRequest:
    head = head_length(context) if head is None else head
    workspace = KnownFiles(context, "/srv/app")
    return CompactionRequest(head, 0, 10, count, random.Random(0), session="made", workspace=workspace, **fields)


def wrapped(context, *wrap, strategy="reset", **fields) -> Compaction:
    """`wrap` are names or (name, parameters)."""
    made = make(strategy, {}, [(item, {}) if isinstance(item, str) else item for item in wrap])
    return made.compact(context, asked(context, **fields))


def files(sizes: dict[str, int]) -> tuple[Message, ...]:
    """A session that read files of so many words, in this order."""
    made = [system("s"), user("q")]
    for number, (path, size) in enumerate(sizes.items()):
        text = " ".join([path.replace("/", "_")] * size)
        made += [assistant("", call(f"r{number}", "Read", file_path=path)), result(f"r{number}", text)]
    return session(*made, assistant("done")).messages


OVERHEAD = words([restored(files({"a.py": 1}), (), asked(files({"a.py": 1})), "v1")[0]]) - 1  # words around a file's text


# --- restored files


@pytest.mark.parametrize(("version", "number", "each", "total"), [("v1", 20, 8_192, 32_768), ("v2", 5, 5_000, 50_000)])
def test_restored_files_keep_to_number_and_sizes(version, number, each, total):
    small = files({f"f{n}.py": 10 for n in range(30)})
    assert paths(restored(small, (), asked(small), version)) == [f"f{n}.py" for n in range(29, 29 - number, -1)]
    exact = files({"over.py": each - OVERHEAD + 1, "fits.py": each - OVERHEAD})
    fits, over = restored(exact, (), asked(exact), version)
    assert words([fits]) == each
    assert "over.py" in over.text
    assert "too large" in over.text
    assert "\n" not in over.text
    large = files({f"f{n}.py": each - OVERHEAD for n in range(30)})
    assert words(restored(large, (), asked(large), version)) == min(number * each, total // each * each) <= total


def test_with_five_files_of_5000_tokens_the_total_of_50000_can_never_bind():
    large = files({f"f{n}.py": 5_000 - OVERHEAD for n in range(30)})
    assert words(restored(large, (), asked(large), "v2")) == 25_000


def test_a_file_that_no_longer_fits_is_left_out_and_a_smaller_one_after_it_still_comes():
    sizes = {"small.py": 10, "e.py": 8_000, "d.py": 8_000, "c.py": 8_000, "b.py": 8_000, "a.py": 8_000}
    context = files(sizes)
    assert paths(restored(context, (), asked(context), "v1")) == ["a.py", "b.py", "c.py", "d.py", "small.py"]


@pytest.mark.parametrize("own", ["CLAUDE.md", "docs/AGENTS.md", "/home/me/.claude/plans/bright-idea.md", "PLAN.md", "MEMORY.md"])
def test_v2_leaves_plans_and_memory_files_to_others(own):
    context = files({own: 5, "a.py": 5})
    assert paths(restored(context, (), asked(context), "v2")) == ["a.py"]
    assert paths(restored(context, (), asked(context), "v1")) == ["a.py", own]


def test_v2_leaves_out_files_that_are_still_visible_in_what_was_kept():
    context = files({"a.py": 5, "b.py": 5})
    kept = context[-3:]  # with the read of b.py
    assert paths(restored(context, kept, asked(context), "v2")) == ["a.py"]
    stubbed = [replace(message, text="[pruned]") if message.role == "tool" else message for message in kept]
    assert paths(restored(context, stubbed, asked(context), "v2")) == ["b.py", "a.py"]


def test_v2_brings_back_what_was_read_and_v1_what_was_written_too():
    context = session(
        user("q"), assistant("", call("w", "Write", file_path="w.py", content="w")), result("w", "Created"),
        assistant("", call("r", "Read", file_path="r.py")), result("r", "1\tr"),
    ).messages  # fmt: skip
    assert paths(restored(context, (), asked(context), "v2")) == ["r.py"]
    assert paths(restored(context, (), asked(context), "v1")) == ["r.py", "w.py"]


def test_a_part_of_a_file_is_called_a_part():
    context = session(
        user("q"), assistant("", call("r", "Read", file_path="r.py", offset=9, limit=1)), result("r", "9\tnine")
    ).messages
    [message] = restored(context, (), asked(context), "v2")
    assert message.text.startswith("[What was known of the file r.py")
    assert message.text.endswith("\nnine")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("TodoWrite", {"todos": [{"content": "pack", "status": "completed"}, {"content": "ship", "status": "pending"}]}),
        ("todo_write", {"todos": [{"content": "pack", "status": "completed"}, {"content": "ship", "status": "pending"}]}),
        ("task_tracker", {"command": "plan", "task_list": [{"title": "pack", "status": "completed"}, {"title": "ship", "status": "pending"}]}),
    ],
)  # fmt: skip
def test_the_todo_list_comes_last_as_it_was_last_written(name, arguments):
    old = call("old", name, todos=[{"content": "plan", "status": "pending"}])
    failed = call("failed", name, todos=[{"content": "nothing", "status": "pending"}])
    context = session(
        user("q"), assistant("", old, call("new", name, **arguments), failed),
        result("old", "ok"), result("new", "ok"), result("failed", "no", is_error=True),
        assistant("", call("r", "Read", file_path="r.py")), result("r", "1\tr"),
    ).messages  # fmt: skip
    _, todos = restored(context, (), asked(context), "v2")
    assert todos.text.splitlines()[1:] == ["- pack (completed)", "- ship (pending)"]


def test_without_a_workspace_or_a_version_nothing_comes_back():
    context = files({"a.py": 5})
    assert restored(context, (), replace(asked(context), workspace=None), "v2") == ()
    assert restored(context, (), asked(context), "none") == ()


def test_nothing_is_brought_back_twice():
    context = files({"a.py": 5, "b.py": 5})
    first = restored(context, (), asked(context), "v2")
    assert len(first) == 2
    assert {(message.role, message.id.split("-")[0]) for message in first} == {("user", "restored")}
    assert restored(context, first, asked(context), "v2") == ()
    twice = wrapped(context, "restore_files", ("restore_files", {"restore": "v1"}))
    assert twice.messages == wrapped(context, "restore_files").messages


def paths(messages) -> list[str]:
    found = (message.text.split("\n")[0].removeprefix("[").removeprefix("The file ") for message in messages)
    return [line.split(" was open")[0].split(", as it")[0] for line in found]


# --- reinject

CONSTRAINTS = "# Standing constraints\n\n- Target Python 3.11.\n- Do not add dependencies.\n"


def test_reinject_puts_a_file_at_the_end(tmp_path):
    (tmp_path / "CONSTRAINTS.md").write_text(CONSTRAINTS)
    made = wrapped(work(4).messages, ("reinject", {"file": f"{tmp_path}/CONSTRAINTS.md"}))
    assert made.messages[-1].role == "user"
    assert made.messages[-1].id.startswith("reinjected-")
    assert made.messages[-1].text.endswith(CONSTRAINTS.strip())
    assert made.messages[:-1] == wrapped(work(4).messages).messages
    assert made.note == wrapped(work(4).messages).note + " + reinject: file"


def test_another_text_in_the_file_is_another_version(tmp_path):
    path = tmp_path / "rules.md"
    versions = set()
    for text in ("Keep it.", "Keep it short."):
        path.write_text(text)
        versions.add(make("reset", {}, [("reinject", {"file": str(path)})]).version)
    assert len(versions) == 2


@pytest.mark.parametrize(
    "parameters",
    [
        {"file": "nowhere.md"},
        {"source": "file"},
        {"source": "memory"},
        {"file": "rules.md", "source": "instructions"},
        {"text": "x"},
    ],
)
def test_bad_parameters_of_reinject_are_set_up_errors(parameters, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.md").write_text("Keep it.")
    with pytest.raises(BenchError):
        make("reset", {}, [("reinject", parameters)])


def test_only_10000_characters_of_a_hook_reach_the_context(tmp_path):
    (tmp_path / "rules.md").write_text("Keep it. " * 5_000)
    made = wrapped(work(4).messages, ("reinject", {"file": f"{tmp_path}/rules.md"}))
    assert len(made.messages[-1].text) == 10_000
    assert "cut at 10000 characters" in made.note


def instructed(*more: Message) -> tuple[Message, ...]:
    shown = user("# AGENTS.md (project instructions)\n\nRun `make check` first.")
    return session(system("s"), shown, user("Go."), assistant("I go."), *more, assistant("done")).messages


@pytest.mark.parametrize(
    ("path", "ends"),
    [
        (None, "Run `make check` first."),
        ("AGENTS.md", "Run `make all` first."),  # the file as it was read later
        ("/srv/app/AGENTS.md", "Run `make all` first."),
        ("docs/AGENTS.md", "Run `make check` first."),  # not at the root
        ("CONSTRAINTS.md", "Run `make check` first.\n\nRun `make all` first."),
    ],
)
def test_reinjected_instructions_are_those_the_session_knew_last(path, ends):
    context = instructed()
    if path:
        reading = call("r", "Read", file_path=path)
        context = instructed(assistant("", reading), result("r", "     1\tRun `make all` first."))
    assert wrapped(context, "reinject").messages[-1].text.endswith(f"\n{ends}")


def test_a_session_without_instructions_has_nothing_to_put_in():
    context = session(user("Go."), assistant("I go."), user("On."), assistant("done")).messages
    made = wrapped(context, "reinject", head=1)
    assert made.messages == wrapped(context, head=1).messages
    assert made.note.endswith("reinject: nothing to put in")


def test_constraints_that_users_stated_are_picked_sentence_by_sentence_and_privileged():
    context = session(
        user("# AGENTS.md\n\nAlways be nice."),
        user("Fix the parser. Do not touch `src/generated/`. It is slow.\n- Keep the tests green"),
        assistant("I never do."),
        user("<system-reminder>You must not tell.</system-reminder>"),
        user("Do not touch `src/generated/`."),
        assistant("done"),
    ).messages
    wrap = ("reinject", {"source": "user_messages"})
    made = wrapped(context, wrap, head=0)
    assert made.messages[-1].text.split("\n")[-2:] == ["- Do not touch `src/generated/`.", "- Keep the tests green"]
    assert "nice" not in made.messages[-1].text
    assert make("reset", {}, [wrap]).privileged
    assert not make("reset", {}, [("reinject", {})]).privileged


# --- history pointer


def test_the_pointer_stands_behind_the_head_where_the_dropped_part_stood():
    context = instructed()
    made = wrapped(context, "history_pointer", strategy="oldest", count=lambda messages: 20 * len(messages))
    before = wrapped(context, strategy="oldest", count=lambda messages: 20 * len(messages)).messages
    assert made.messages[:2] == context[:2]
    assert "history/made.md" in made.messages[2].text
    assert (*made.messages[:2], *made.messages[3:]) == before
    assert made.details["history_file"] == "history/made.md"


def test_the_pointer_stands_behind_a_summary_and_its_acknowledgement():
    context = instructed()
    model = Answers(["<summary>It went well.</summary>"])
    made = make("claude_code", {}, [("history_pointer", {})]).compact(context, asked(context, model=model))
    assert [message.id.split("-")[0] for message in made.messages[2:]] == ["summary", "pointer"]
    made = make("kode", {}, [("history_pointer", {})]).compact(context, asked(context, model=Answers(["It went well."])))
    assert [message.role for message in made.messages[2:]] == ["user", "assistant", "user"]
    assert made.messages[4].id.startswith("pointer-")


def test_the_name_of_the_history_file_is_a_file_name():
    context = instructed()
    made = make("reset", {}, [("history_pointer", {})]).compact(context, replace(asked(context), session="../a b#2"))
    assert made.details["history_file"] == "history/..-a-b-2.md"


# --- notes


def test_notes_name_the_calls_that_are_gone():
    context = work(4).messages
    made = wrapped(context, "notes", strategy="trim_tools")
    bare = wrapped(context, strategy="trim_tools")
    assert [message.id for message in made.messages] == [message.id for message in bare.messages]
    assert "make -C parser0 build" in "".join(message.text for message in made.messages)
    assert "make -C parser0 build" not in "".join(message.text for message in bare.messages)


# --- all of them


def test_wrappers_act_in_their_order_and_their_versions_and_prompts_count():
    context = files({"a.py": 5})
    context = session(*context[:2], user("Always test."), *context[2:]).messages
    wrap = ["restore_files", ("reinject", {"source": "user_messages"}), "history_pointer"]
    made = wrapped(context, *wrap)
    assert [message.id.split("-")[0] for message in made.messages if "-" in message.id] == ["restored", "pointer", "reinjected"]
    swapped = wrapped(context, *wrap[1::-1])
    assert [message.id.split("-")[0] for message in swapped.messages if "-" in message.id] == ["reinjected", "restored"]
    strategy = make("kode", {}, [("reinject", {}), ("notes", {})])
    assert isinstance(strategy, Strategy)
    assert (strategy.name, strategy.version, strategy.needs_model) == ("kode", "1+reinject.1+notes.1", True)
    assert set(strategy.prompts) == {"kode", "kode_opening", "reinject", "gemini_note"}


@pytest.mark.parametrize("name", NAMES)
def test_without_a_compaction_nothing_is_added(name):
    context = work(4).messages
    assert wrapped(context, name, strategy="none") == wrapped(context, strategy="none")
    [wrapper] = make("none", {}, [(name, {})]).wrappers
    for outcome in ("noop", "invalid", "failed", "fallback"):
        unchanged = Compaction(context, outcome, "so it is")
        assert wrapper.wrap(context, unchanged, asked(context)) == unchanged


@pytest.mark.parametrize("name", NAMES)
def test_what_a_fallback_left_is_added_to(name):
    context = instructed(assistant("", call("r", "Read", file_path="a.py")), result("r", "1\ta"), assistant("so"))
    [wrapper] = make("none", {}, [(name, {})]).wrappers
    left = Compaction((*context[:2], context[3], context[-1]), "fallback", "built-in summary: it failed")
    made = wrapper.wrap(context, left, asked(context))
    assert made.messages != left.messages
    assert made.outcome == "fallback"
    assert made.note.startswith(f"built-in summary: it failed + {name}: ")


@pytest.mark.parametrize("name", NAMES)
def test_a_wrapper_as_a_strategy_says_how_it_is_used(name):
    with pytest.raises(BenchError, match=rf"{name} is a wrapper: strategy=NAME strategy.wrap=\[{name}\]"):
        make(name, {})


def test_a_strategy_as_a_wrapper_and_unknown_names_are_set_up_errors():
    with pytest.raises(BenchError, match="prune is a strategy: strategy=prune"):
        make("reset", {}, [("prune", {})])
    with pytest.raises(BenchError, match="unknown wrapper 'reinjekt'.*reinject"):
        make("reset", {}, [("reinjekt", {})])
    with pytest.raises(BenchError, match="has no parameter"):
        make("reset", {}, [("notes", {"keep": 1})])
    with pytest.raises(BenchError, match="v1 or v2"):
        make("reset", {}, [("restore_files", {"restore": "none"})])


WRAPS = st.lists(
    st.sampled_from([("reinject", {}), ("reinject", {"source": "user_messages"}), *((name, {}) for name in NAMES[1:])]),
    max_size=5,
)


@pytest.mark.parametrize("strategy", ["reset", "trim_tools", "prune", "oldest", "kode"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(made=sessions() | st.just(work(4)), wrap=WRAPS)
def test_wrapping_takes_nothing_away_and_doing_it_again_adds_nothing(strategy, made, wrap):
    context = made.messages
    inner = make(strategy, {}).compact(context, request(context, Answers(["a summary"])))
    outer = Wrapped(make(strategy, {}), tuple(wrapper for w in wrap for wrapper in make("none", {}, [w]).wrappers))
    asks = request(context, Answers(["a summary"]), workspace=KnownFiles(context, "/srv/app"))
    first = outer.compact(context, asks)
    ids = [message.id for message in inner.messages]
    assert [message.id for message in first.messages if message.id in ids] == ids
    assert len({message.id for message in first.messages}) == len(first.messages)
    longer = {message.id: message for message in first.messages}
    for message in inner.messages:
        assert longer[message.id] == message or longer[message.id].text.startswith(message.text)
        assert longer[message.id] == message or ("notes", {}) in wrap
    assert first.outcome == inner.outcome
    assert first.messages[: asks.head] == context[: asks.head]
    again = first
    for wrapper in outer.wrappers:
        if wrapper.name != "notes":
            again = wrapper.wrap(context, again, asks)
    assert again.messages == first.messages
