"""The probe bank: sound probes of every cut, picked by seed, frozen and hashed before any strategy runs."""

from __future__ import annotations

import gzip
import hashlib
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import orjson

from bench.atoms import Haystack, extract
from bench.probes.soundness import MAX_FREQUENCY, PREDICATES, Background, first_failure
from bench.probes.view import Candidate, CutView, SessionView
from bench.registry import PROBES
from bench.tokens import TokenCounter
from bench.types import Cut, Probe, Session

FIFTHS = 5
FEW = 20  # probes of a cut, below which it is said
LEAST_PER_FIFTH = 2  # equal fifths of fewer would cost most of a cut's probes
PER_EVENT = 3  # P8: probes from one event
PER_TYPE = 0.4  # P8: share of one answer type among the facts of a cut
PLACEBOS = 10  # facts of another session asked at each cut
MAX_BACKGROUND = 48  # sessions of other projects that P4 looks into


@dataclass
class Bank:
    """Probes and placebo probes by cut id, the funnel by category, and cuts whose depth fifths differ."""

    probes: dict[str, tuple[Probe, ...]] = field(default_factory=dict)
    placebos: dict[str, tuple[Probe, ...]] = field(default_factory=dict)
    funnel: dict[str, Counter[str]] = field(default_factory=dict)
    unequal: dict[str, dict[str, list[int]]] = field(default_factory=dict)

    @cached_property
    def frozen(self) -> bytes:
        """The bank as bytes, a line for each probe in order; made once, when the bank is whole (P9)."""
        lines = [
            {"cut": cut, "placebo": placebo, **{f.name: getattr(probe, f.name) for f in fields(Probe)}}
            for placebo, table in ((False, self.probes), (True, self.placebos))
            for cut, probes in table.items()
            for probe in probes
        ]
        return b"".join(orjson.dumps(line) + b"\n" for line in lines)

    def shortages(self) -> list[str]:
        """What fell short, a sentence each: categories with unequal depth fifths, cuts with few probes."""
        cuts = len(self.probes)
        found = [
            f"{name}: depth fifths unequal in {len(table)} of {cuts} cuts, for example {next(iter(table))} {next(iter(table.values()))}"
            for name, table in self.unequal.items()
        ]
        few = [f"{cut} ({len(probes)})" for cut, probes in self.probes.items() if len(probes) < FEW]
        return found + (
            [f"fewer than {FEW} probes in {len(few)} of {cuts} cuts: {', '.join(few[:6])}{' ...' if len(few) > 6 else ''}"]
            if few
            else []
        )

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.frozen).hexdigest()


def read(data: bytes) -> Bank:
    """A bank from its frozen form, gzip-compressed; the funnel is not in it."""
    bank = Bank()
    for line in gzip.decompress(data).splitlines():
        record = orjson.loads(line)
        table = bank.placebos if record.pop("placebo") else bank.probes
        cut = record.pop("cut")
        probe = Probe(**{name: tuple(value) if isinstance(value, list) else value for name, value in record.items()})
        table[cut] = (*table.get(cut, ()), probe)
    return bank


def build(
    cuts: Sequence[Cut],
    others: Sequence[Session],
    counter: TokenCounter,
    categories: Sequence[str],
    seed: int,
    progress: Callable[[str], None] = lambda text: None,
) -> Bank:
    """Make the bank for `cuts`. `others` are sessions that serve as background and placebo beside those of the cuts."""
    builder = _Builder(cuts, others, counter, categories, seed)
    for cut in cuts:
        progress(cut.id)
        builder.add(cut)
    for cut in cuts:
        builder.add_placebo(cut)
    return builder.bank


class _Builder:
    def __init__(
        self, cuts: Sequence[Cut], others: Sequence[Session], counter: TokenCounter, categories: Sequence[str], seed: int
    ) -> None:
        self.bank = Bank()
        self.seed = seed
        self.categories = [PROBES.get(name)() for name in categories]
        own = {cut.session.id: cut.session for cut in cuts}
        sessions = {**own, **{s.id: s for s in others if s.id not in own}}
        self.views = {name: SessionView(session, counter) for name, session in sessions.items()}
        self.background = Background(
            {name: (view.session.cluster, view.text) for name, view in list(self.views.items())[:MAX_BACKGROUND]}
        )
        self.cuts: dict[str, list[Cut]] = defaultdict(list)
        for cut in cuts:
            self.cuts[cut.session.id].append(cut)
        self._alternatives: dict[str, Counter[str]] = {}

    def add(self, cut: Cut) -> None:
        view = CutView(self.views[cut.session.id], cut)
        kept: list[Probe] = []
        for category in self.categories:
            funnel = self.bank.funnel.setdefault(
                category.name, Counter(dict.fromkeys(("candidates", *PREDICATES, "sound", "kept"), 0))
            )
            sound = self._sound(category, view, funnel)
            picked = self._pick(category, cut, sound)
            funnel["kept"] += len(picked)
            kept += picked
        self.bank.probes[cut.id] = tuple(replace(probe, id=f"{cut.id}/{probe.category}/{n}") for n, probe in enumerate(kept))

    def _sound(self, category, view: CutView, funnel: Counter[str]) -> list[Candidate]:
        found, cluster = [], view.cut.session.cluster
        for candidate in category.propose(view):
            funnel["candidates"] += 1
            failed = first_failure(candidate, view, category.exempt, self._types(view.of))
            if failed is None and hasattr(category, "without_background"):  # its gold is what P4 leaves of it
                probe = category.without_background(candidate.probe, self.background, cluster)
                failed = "P4" if probe is None else None
                candidate = replace(candidate, probe=probe or candidate.probe)
            elif failed is None and "P4" not in category.exempt and self._common(candidate, cluster):
                failed = "P4"
            funnel[failed or "sound"] += 1
            if failed is None:
                found.append(candidate)
        return found

    def _common(self, candidate: Candidate, cluster: str, without: tuple[str, ...] = ()) -> bool:
        return any(self.background.frequency(value, type, cluster, without) > MAX_FREQUENCY for value, type in candidate.secrets)

    def _types(self, of: SessionView) -> Counter[str]:
        name = of.session.id
        if name not in self._alternatives:
            atoms = {(a.type, a.text) for line in of.text.text.split("\n") if len(line) <= 400 for a in extract(line)}
            self._alternatives[name] = Counter(type for type, _ in atoms)
        return self._alternatives[name]

    def _pick(self, category, cut: Cut, sound: list[Candidate]) -> list[Probe]:
        """At most `per_cut` probes; where the category is stratified, the same number from each depth fifth."""
        rng = random.Random(f"{self.seed}:{cut.id}:{category.name}")
        rng.shuffle(sound)
        probes = [candidate.probe for candidate in sound]
        if not category.stratified:
            return probes[: category.per_cut]
        waiting: list[list[Probe]] = [[] for _ in range(FIFTHS)]
        for probe in probes:
            waiting[min(FIFTHS - 1, int((probe.depth or 0.0) * FIFTHS))].append(probe)
        fifths: list[list[Probe]] = [[] for _ in range(FIFTHS)]
        events: Counter[str] = Counter()
        types: Counter[str] = Counter()
        most = round(PER_TYPE * category.per_cut) if len({probe.answer_type for probe in probes}) > 1 else category.per_cut
        for number in range(category.per_cut):  # one from each fifth in turn, of the type that was picked least
            fifth = number % FIFTHS
            free = [p for p in waiting[fifth] if events[p.evidence[-1]] < PER_EVENT and types[p.answer_type] < most]
            if free:
                probe = min(free, key=lambda p: (types[p.answer_type], events[p.evidence[-1]]))
                waiting[fifth].remove(probe)
                fifths[fifth].append(probe)
                events[probe.evidence[-1]] += 1
                types[probe.answer_type] += 1
        fewest = min(map(len, fifths))
        if fewest < LEAST_PER_FIFTH <= category.per_cut // FIFTHS or fewest == 0:
            # an empty fifth would leave nothing of the others: better unequal, and said
            self.bank.unequal.setdefault(category.name, {})[cut.id] = [len(fifth) for fifth in fifths]
            return [probe for fifth in fifths for probe in fifth]
        return [probe for fifth in fifths for probe in fifth[:fewest]]

    def add_placebo(self, cut: Cut) -> None:
        """Facts of a session of another project, chosen without looking at the session under test, so they can fail."""
        donors = [
            name for name in sorted(self.views) if self.views[name].session.cluster != cut.session.cluster and name in self.cuts
        ]
        donors = donors or [name for name in sorted(self.views) if self.views[name].session.cluster != cut.session.cluster]
        if not donors:
            self.bank.placebos[cut.id] = ()
            return
        rng = random.Random(f"{self.seed}:{cut.id}:placebo")
        name = donors[rng.randrange(len(donors))]
        candidates = self._donated(name)
        rng.shuffle(candidates)
        picked: list[Probe] = []
        for candidate in candidates:
            if len(picked) == PLACEBOS:
                break
            if not self._common(candidate, self.views[name].session.cluster, (cut.session.id,)):
                picked.append(replace(candidate.probe, id=f"{cut.id}/placebo/{len(picked)}"))
        self.bank.placebos[cut.id] = tuple(picked)

    def _donated(self, name: str) -> list[Candidate]:
        """Sound fact candidates of a donor session at its middle, before P4's search in other projects."""
        view = self.views[name]
        return list(view.once("donated", lambda: self._donate(view)))

    def _donate(self, of: SessionView) -> list[Candidate]:
        cuts = self.cuts.get(of.session.id)
        cut = cuts[len(cuts) // 2] if cuts else Cut(of.session, 0, len(of.session.messages), 0, len(of.session.messages))
        view = CutView(of, cut) if cuts else _WholeView(of, cut)
        facts = PROBES.get("facts")()
        return [c for c in facts.propose(view) if first_failure(c, view, facts.exempt, self._types(of)) is None]


class _WholeView(CutView):
    """A whole session as one span: nothing of it is kept."""

    @property
    def kept(self) -> Haystack:
        return Haystack("")


def count(table: Iterable[tuple[Probe, ...]]) -> int:
    return sum(map(len, table))
