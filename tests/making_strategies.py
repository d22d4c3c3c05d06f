"""Random sessions for property tests: every text, every call and every result in them is one that a file can hold."""

from __future__ import annotations

from hypothesis import strategies as st
from making import assistant, result, session, system, user

from bench.types import Session, ToolCall

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(str.strip)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(WORDS, VALUES, max_size=3) | WORDS.map(lambda text: f"no json: {text}")


@st.composite
def sessions(draw: st.DrawFn, most_turns: int = 12) -> Session:
    """Messages in any order; calls are answered by 0 to all of their results, in any order, some of them late."""
    made = [system(draw(WORDS))] if draw(st.booleans()) else []
    made.append(user(draw(WORDS)))
    number, late = 0, []
    for _ in range(draw(st.integers(0, most_turns))):
        kind = draw(st.sampled_from(["user", "text", "calls", "calls"]))
        if kind == "user":
            made.append(user(draw(WORDS)))
        elif kind == "text":
            made.append(assistant(draw(WORDS)))
        else:
            calls = tuple(ToolCall(f"c{number + n}", draw(WORDS), draw(ARGUMENTS)) for n in range(draw(st.integers(1, 3))))
            number += len(calls)
            made.append(assistant(draw(st.just("") | WORDS), *calls))
            results = [result(c.id, draw(st.just("") | WORDS), is_error=draw(st.booleans())) for c in draw(st.permutations(calls))]
            now = draw(st.integers(0, len(results)))
            made += results[:now]
            if draw(st.booleans()):
                late += results[now:]
        if late and draw(st.booleans()):
            made.append(late.pop())
    return session(*made)
