"""Every record that rooms hand to each other, and the Protocols they implement. Read this file first.

All records are frozen: a strategy, an agent or a measure gets them, none can change them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    import random

Role = Literal["system", "user", "assistant", "tool"]
OutcomeName = Literal["applied", "noop", "fallback", "invalid", "failed"]
ArmName = Literal["full", "floor", "strategy", "placebo"]
AnswerStatus = Literal["answered", "abstained", "error"]


class BenchError(Exception):
    """A set-up error: one clear sentence for the user, exit code 2, no traceback."""


# --- sessions -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model request as its provider counted them."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


@dataclass(frozen=True, slots=True)
class ToolCall:
    """`arguments` is a dict when the recorded JSON parsed, else the recorded text."""

    id: str
    name: str
    arguments: Mapping[str, Any] | str


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `call_id` is set on a tool result only; `id` is unique in its session; `at` is seconds since 1970."""

    role: Role
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    is_error: bool = False
    thinking: str = ""
    images: int = 0
    id: str = ""
    at: float | None = None
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """Where a session came from. `sha256` is of the file's bytes."""

    format: str
    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class RecordedCompaction:
    """A compaction the recorded product made itself, before message number `before`."""

    before: int
    trigger: str = ""
    tokens_before: int | None = None
    tokens_after: int | None = None
    summary: str = ""


@dataclass(frozen=True)
class Session:
    """One recorded run of an agent. Sessions of one `project` are one cluster in every statistic."""

    id: str
    messages: tuple[Message, ...]
    source: Source
    project: str = ""
    cwd: str = ""
    model: str = ""
    compactions: tuple[RecordedCompaction, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def cluster(self) -> str:
        return self.project or self.id


# --- replay ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """A place in a session where compaction happens.

    The context is `session.messages[:at]` = head + span + tail: `messages[:head_end]` is pinned, `[head_end:tail_start]`
    is what a strategy may rewrite, `[tail_start:at]` is kept verbatim by the experiment; `messages[at:]` is the future.
    """

    session: Session
    number: int
    at: int
    head_end: int
    tail_start: int

    @property
    def id(self) -> str:
        return f"{self.session.id}#{self.number}"

    @property
    def context(self) -> tuple[Message, ...]:
        return self.session.messages[: self.at]

    @property
    def head(self) -> tuple[Message, ...]:
        return self.session.messages[: self.head_end]

    @property
    def span(self) -> tuple[Message, ...]:
        return self.session.messages[self.head_end : self.tail_start]

    @property
    def tail(self) -> tuple[Message, ...]:
        return self.session.messages[self.tail_start : self.at]

    @property
    def future(self) -> tuple[Message, ...]:
        return self.session.messages[self.at :]


# --- strategies -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CompactionRequest:
    """What a strategy is told beside the context.

    `head` and `tail` are message counts at the two ends that the experiment pins. `target_tokens` is for the whole
    context. `count` gives the tokens of messages. `rng` is seeded by session, cut and strategy.
    """

    head: int
    tail: int
    target_tokens: int
    count: Callable[[Sequence[Message]], int]
    rng: random.Random


@dataclass(frozen=True)
class Compaction:
    """One application of a strategy at a cut. An unchanged context is `noop`, never `applied`."""

    messages: tuple[Message, ...]
    outcome: OutcomeName = "applied"
    note: str = ""
    seconds: float = 0.0
    error: str = ""


@runtime_checkable
class Strategy(Protocol):
    name: str
    version: str
    needs_model: bool

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction: ...


# --- probes and answers ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Question:
    """What an agent may see of a probe: no gold. `answer_type` says what kind of answer is asked for."""

    id: str
    text: str
    answer_type: str


@dataclass(frozen=True)
class Probe:
    """A question with its gold answer, made from the raw session before any strategy runs.

    `gold`: the accepted value, or the members of the set. `optional`: members that neither help nor hurt (they also
    stand outside the span). `evidence`: ids of the messages that hold it. `atoms`: what must survive, normalised by
    `answer_type`; empty when survival is not defined (a foil). `depth`: 0 at the cut end of the span, 1 at its start.
    """

    id: str
    category: str
    question: str
    answer_type: str
    gold: tuple[str, ...]
    evidence: tuple[str, ...] = ()
    atoms: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    depth: float | None = None
    overlap: float = 0.0

    def ask(self) -> Question:
        return Question(self.id, self.question, self.answer_type)


@dataclass(frozen=True, slots=True)
class Answer:
    """`values` is empty when the agent abstained. `evidence` is what the agent says it read."""

    values: tuple[str, ...] = ()
    status: AnswerStatus = "answered"
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """`value` is 1 right, 0 wrong, None unscored (never 0). `outcome` names the way it was right or wrong."""

    value: float | None
    outcome: str
    detail: float | None = None


class Agent(Protocol):
    name: str
    version: str
    label: str  # how tables call it

    def answer(self, context: Sequence[Message], question: Question) -> Answer: ...


class Grader(Protocol):
    version: str

    def grade(self, probe: Probe, answer: Answer) -> Score: ...


# --- statistics -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its cluster-robust standard error and 95 % interval; `ci` is None below 8 clusters."""

    value: float | None
    se: float | None
    ci: tuple[float, float] | None
    n: int
    clusters: int
