"""Every record that rooms hand to each other, and the Protocols they implement. Read this file first.

All records are frozen: a strategy, an agent or a measure gets them, none can change them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    import random
    from pathlib import Path

Role = Literal["system", "user", "assistant", "tool"]
OutcomeName = Literal["applied", "noop", "fallback", "invalid", "failed"]
ArmName = Literal["full", "floor", "strategy", "placebo"]
AnswerStatus = Literal["answered", "abstained", "error"]
FinishReason = Literal["stop", "length", "refusal", "tool_calls", "other"]
ModelErrorKind = Literal["key", "rate_limit", "unavailable", "timeout", "connection", "window", "request", "answer"]


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
    """A compaction the recorded product made itself, before message number `before`.

    `left` is the whole context that it left, in order: messages of the session keep their ids, what the product wrote
    (its summary) has an id of its own; None when the recording does not tell.
    """

    before: int
    trigger: str = ""
    tokens_before: int | None = None
    tokens_after: int | None = None
    summary: str = ""
    left: tuple[Message, ...] | None = None


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
    recorded: RecordedCompaction | None = None  # what the recorded product itself left here

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


# --- models ---------------------------------------------------------------------------------------------------


class ModelError(Exception):
    """A call of a model that gave nothing usable: no answer, or one that its caller has to refuse (`kind="answer"`).

    The message is one sentence. `status` is the HTTP status where there was one; `gap` is how many tokens a request was
    over the window, where that is known.
    """

    def __init__(self, kind: ModelErrorKind, message: str, *, status: int | None = None, gap: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.gap = gap

    @property
    def down(self) -> bool:
        """Whether the next call would fail the same way, so that asking again is no use."""
        return self.kind in ("key", "rate_limit", "unavailable", "timeout", "connection")


class OverBudget(Exception):
    """The next call could pass the run's `max_usd`: the run stops before it. Nobody but the runner catches this."""


@dataclass(frozen=True, slots=True)
class Retry:
    """When a failed call is tried again: on which kinds of error, after which waits in seconds.

    `statuses` narrows the kinds to errors of these HTTP statuses; None does not narrow them. A wait is not begun
    when it would end `within` seconds after the first attempt or later. `len(waits) + 1` attempts at most.
    """

    kinds: frozenset[ModelErrorKind]
    waits: tuple[float, ...]
    within: float = math.inf
    statuses: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """A model's answer. `usd` is None when no price is known; `cached` says that it came from the response cache."""

    text: str
    finish: FinishReason = "stop"
    usage: Usage = Usage()
    usd: float | None = None
    seconds: float = 0.0
    cached: bool = False


@dataclass(frozen=True)
class ModelCall:
    """One call as a compaction made it: what the model was shown, and what came back (`output` or `error`)."""

    purpose: str
    request: tuple[Message, ...]
    output: Output | None = None
    error: str = ""


class Model(Protocol):
    """`identity` is everything that can change an answer; `window` and `max_output` are tokens, None when unknown.

    `endpoint` is where requests go, empty when nothing leaves this process; `warning` is a sentence for the user before
    the first call, or empty.
    """

    name: str
    window: int | None
    max_output: int | None
    identity: Mapping[str, Any]
    endpoint: str
    warning: str

    def price(self, usage: Usage) -> float | None:
        """USD of a call with these tokens; None when no price is known."""
        ...

    def limit(self, folder: Path, max_usd: float) -> None:
        """From now on raise OverBudget before a call that could bring what the run in `folder` spent over `max_usd`."""
        ...

    def generate(
        self,
        messages: Sequence[Message],
        *,
        purpose: str,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        retry: Retry | None = None,
    ) -> Output:
        """Answer `messages`, as JSON of `schema` when one is given. Raises ModelError; `retry` replaces the model's own rule."""
        ...


# --- strategies -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file as the session knew it. `read_at` and `changed_at` are message numbers, -1 for never.

    `text` is what the calls before the cut showed of it; `whole` says whether that is all of it, unchanged as far as
    they tell.
    """

    path: str
    text: str
    read_at: int = -1
    changed_at: int = -1
    whole: bool = True


class Workspace(Protocol):
    """Files as the session knew them, most recently read or written first. Nothing is read from a disk."""

    @property
    def files(self) -> tuple[KnownFile, ...]: ...


@dataclass(frozen=True)
class CompactionRequest:
    """What a strategy is told beside the context.

    `head` and `tail` are message counts at the two ends that the experiment pins. `target_tokens` is for the whole
    context, `window` is the window in tokens of the continued agent's model. `count` gives the tokens of messages. `rng`
    is seeded by session, cut and strategy. `instructions` is what a user said with the compaction. `earlier` are the
    outcomes of the compactions that this session went through before, oldest first. `recorded` is what the recorded
    product left here; only the strategy of that name may look at it.
    """

    head: int
    tail: int
    target_tokens: int
    count: Callable[[Sequence[Message]], int]
    rng: random.Random
    window: int = 200_000
    session: str = ""
    instructions: str = ""
    model: Model | None = None
    workspace: Workspace | None = None
    earlier: tuple[OutcomeName, ...] = ()
    recorded: RecordedCompaction | None = None


@dataclass(frozen=True)
class Compaction:
    """One application of a strategy at a cut. An unchanged context is `noop`, never `applied`.

    `note` is one line for people, `details` are facts for machines (which rule decided, what a fallback said), `calls`
    is filled in by the experiment.
    """

    messages: tuple[Message, ...]
    outcome: OutcomeName = "applied"
    note: str = ""
    seconds: float = 0.0
    error: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    calls: tuple[ModelCall, ...] = ()


@runtime_checkable
class Strategy(Protocol):
    """`source` says where the behaviour is described: seed or specification section, product and version."""

    name: str
    version: str
    source: str
    needs_model: bool

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction: ...


class Wrapper(Protocol):
    """Adds to what any strategy made. `privileged` says that it uses what no product would know at that moment."""

    name: str
    version: str
    privileged: bool

    def wrap(self, context: Sequence[Message], made: Compaction, request: CompactionRequest) -> Compaction: ...


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
