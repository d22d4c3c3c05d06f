from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from bench.efficiency import seed_efficiency
from bench.strategies.middle import Middle
from bench.strategies.oldest import Oldest
from bench.turns import count_turns, turns
from bench.types import Compaction, CompactionRequest, Message

Choice = Literal["middle", "oldest", "hybrid"]

LIGHT, MODERATE = 0.8, 0.6  # severity by target / current: light above the one, moderate above the other, else heavy
SHORT, LONG = 20, 30  # turns of a short and of a long conversation
NEWEST, RECENT = 5, 0.4  # turns that are recent, and the share of all tokens from which on they are many
LONG_MESSAGE = 300  # tokens
CONFIDENT = 0.6  # from here on the second layer decides alone


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the first layer. `warn_at` and `compact_at` are shares of the window: here the cut is the trigger."""

    choice: Choice
    preserve_start: int
    preserve_end: int
    warn_at: float
    compact_at: float
    min_turns: int


_GPT4 = Row("hybrid", 6, 6, 0.85, 0.90, 4)
_O1 = Row("middle", 8, 8, 0.90, 0.95, 4)
_ANTHROPIC = Row("oldest", 5, 7, 0.85, 0.92, 4)
_LOCAL = Row("hybrid", 3, 4, 0.70, 0.80, 3)
_GEMINI_15 = Row("middle", 10, 10, 0.90, 0.95, 4)
_ANY = Row("hybrid", 4, 5, 0.80, 0.90, 4)


def first_layer(provider: str, model_name: str) -> Row:
    """What the table says of a provider and a model; whatever it does not know is its last row."""
    model_name = model_name.lower()
    match provider.lower():
        case "openai" if model_name.startswith("gpt-4"):
            return _GPT4
        case "openai" if model_name.startswith("o1-"):
            return _O1
        case "anthropic":
            return _ANTHROPIC
        case "ollama" | "lmstudio":
            return _LOCAL
        case "google" if "1.5" in model_name:
            return _GEMINI_15
    return _ANY


@dataclass(frozen=True, slots=True)
class Characteristics:
    """What the second layer looks at. `ratio` is target / current, `recent` the share of tokens in the newest turns."""

    turns: int
    ratio: float
    recent: float
    long_message: bool
    system: bool
    tool: bool

    @property
    def severity(self) -> str:
        return "light" if self.ratio > LIGHT else "moderate" if self.ratio > MODERATE else "heavy"


def characteristics(context: Sequence[Message], request: CompactionRequest) -> Characteristics:
    """Of a context that is over its target, so not empty."""
    tokens = request.count(context)
    newest = turns(context)[-NEWEST:]
    return Characteristics(
        turns=count_turns(context),
        ratio=request.target_tokens / tokens,
        recent=request.count(context[newest[0].start :]) / tokens,
        long_message=any(request.count((message,)) > LONG_MESSAGE for message in context),
        system=any(message.role == "system" for message in context),
        tool=any(message.role == "tool" for message in context),
    )


@dataclass(frozen=True, slots=True)
class Decision:
    """`rule` is None with confidence 0 when no rule matched, and with confidence 1 when the table decided."""

    rule: int | None
    choice: Choice | None
    confidence: float


def second_layer(known: Characteristics) -> Decision:
    """The first rule that matches."""
    if known.severity == "light" and known.turns < SHORT:
        return Decision(1, "middle", 0.8)
    if known.severity == "heavy" and known.turns > LONG:
        return Decision(2, "oldest", 0.9)
    if known.recent > RECENT:
        return Decision(3, "middle", 0.7)
    if known.long_message and known.severity != "light":
        return Decision(4, "oldest", 0.6)
    if known.tool or known.system:
        return Decision(5, "middle", 0.7)
    return Decision(None, None, 0.0)


def efficiency(before: int, after: int, kept: int, removed: int) -> float:
    """What the third layer compares: .6 x (1 - after/before, of tokens, that ratio at most 1) + .4 x kept/(kept + removed)."""
    return seed_efficiency(before, min(after, before), kept + removed, kept)


@dataclass(frozen=True)
class Hybrid:
    """Chooses between middle and oldest removal in three layers (seed 000 section 4; Cipher's hybrid, commit 095337e).

    From its facts only. First layer: a table by `provider` and `model_name`, which also sets the protected ends and the
    fewest turns of the removals; an unknown provider is hybrid. Second layer, only when the first says hybrid: five
    rules about the conversation, each with a confidence; messages are counted in turns. Third layer, below a confidence
    of 0.6: both removals run, and the one of the higher efficiency wins, middle on a tie.

    Every rule gives 0.6 or more, so the third layer is reached only when no rule matches. `target_ratio` is the published
    form of the target, a share of the window (0.8 there); 0 is the experiment's own target, because with 0.8 and a trigger
    of 0.95 or less the severity is always light, and rules 2 and 4 never fire. `faithful=True` passes on to both removals,
    and keeps the published count of what middle removal dropped: nothing when its two ends alone are within the target,
    which inflates its efficiency. The table's thresholds are kept, but the cut is the trigger; the usage-adaptive change of
    those thresholds is left out, and so are the priorities, which never influence a removal.
    """

    provider: str = ""
    model_name: str = ""
    target_ratio: float = 0.0
    faithful: bool = False
    name: ClassVar[str] = "hybrid"
    version: ClassVar[str] = "1"
    source: ClassVar[str] = "seed 000 section 4; Cipher 095337e"
    needs_model: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 <= self.target_ratio <= 1:
            raise ValueError("target_ratio is between 0 and 1")

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        if self.target_ratio:
            request = replace(request, target_tokens=int(self.target_ratio * request.window))
        tokens = request.count(context)
        if tokens <= request.target_tokens:
            return Compaction(tuple(context), "noop", f"{tokens} tokens are within the target of {request.target_tokens}")
        row, known = first_layer(self.provider, self.model_name), characteristics(context, request)
        removals = {
            "middle": Middle(row.preserve_start, row.preserve_end, row.min_turns, self.faithful),
            "oldest": Oldest(row.min_turns, self.faithful),
        }
        layer, decision, scores = 1, Decision(None, row.choice, 1.0), None
        if row.choice == "hybrid":
            layer, decision = 2, second_layer(known)
        if decision.confidence >= CONFIDENT:
            choice = decision.choice
            made = removals[choice].compact(context, request)
        else:
            layer, both = 3, {name: removal.compact(context, request) for name, removal in removals.items()}
            scores = {name: self._efficiency(name, context, both[name], request) for name in both}
            choice = "oldest" if scores["oldest"] > scores["middle"] else "middle"
            made = both[choice]
        details = {
            "layer": layer,
            "rule": decision.rule,
            "choice": choice,
            "confidence": decision.confidence,
            "severity": known.severity,
            "ratio": known.ratio,
        }
        return replace(made, note=f"{choice}: {made.note}", details=details | ({"efficiency": scores} if scores else {}))

    def _efficiency(self, name: str, context: Sequence[Message], made: Compaction, request: CompactionRequest) -> float:
        after, kept = request.count(made.messages), count_turns(made.messages)
        removed = count_turns(context) - kept
        if self.faithful and name == "middle" and after <= request.target_tokens:
            removed = 0
        return efficiency(request.count(context), after, kept, removed)
