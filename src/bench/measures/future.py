"""What the recorded future really used from the span of a cut: the units of future-reference coverage.

Measurement specification, section 5.2. Made from the recordings alone, before any strategy runs.
"""

from __future__ import annotations

import random
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.atoms import Haystack, extract, found, normal, variants
from bench.content import joined, message_text
from bench.measures.rerun import Reruns
from bench.probes.soundness import MAX_FREQUENCY
from bench.turns import turns
from bench.types import Cut, Session

DRAWS = 64  # random orders of a span's lines
LINE = 200  # characters; a longer line (data in JSON) counts as several

# A code as people read it out: capitals and digits mixed (a booking, a flight). `bench.atoms` knows none.
_CODE = re.compile(r"(?<![\w./:@-])(?=[A-Z0-9]*[A-Z])(?=[A-Z0-9]*\d)[A-Z0-9]{5,16}(?![\w-])")
_PIECE = re.compile(rf".{{1,{LINE}}}(?:(?<=[\s,;])|$)|.{{1,{LINE}}}", re.MULTILINE)

Key = tuple[str, str]  # type and normal form of an atom


@dataclass(frozen=True, slots=True)
class Unit:
    """An atom of the span that the future used.

    `text` is its spelling where it stood first, in the message `source`; `after` is how many turns after the cut the
    agent wrote it. `random` are the characters that `DRAWS` random orders of the span's lines take until it is among
    them, ascending.
    """

    type: str
    value: str
    text: str
    source: str
    after: int
    recoverable: bool
    random: tuple[int, ...]

    def spellings(self) -> tuple[str, ...]:
        return spellings((self.type, self.value), self.text)


@dataclass(frozen=True, slots=True)
class Rate:
    """Of one type at one cut: how many atoms could have been used, and how many unrelated futures used.

    The latter two are means over the futures of sessions of other projects; both 0 when there is no such session.
    """

    type: str
    candidates: int
    unrelated_used: float
    unrelated_candidates: float


@dataclass(frozen=True)
class Units:
    """The units of one cut, shared by all strategies. `lines`: (characters, numbers of its units) of lines that hold any."""

    cut: str
    session: str
    cluster: str
    units: tuple[Unit, ...]
    lines: tuple[tuple[int, tuple[int, ...]], ...]
    rates: tuple[Rate, ...]


def units_of(
    cuts: Sequence[Cut], others: Sequence[Session] = (), seed: int = 0, progress: Callable[[str], None] = lambda text: None
) -> list[Units]:
    """The units of every cut, in order. `others` are sessions of other projects that serve as background only."""
    return list(_Maker(cuts, others, seed).made(progress))


def restored(record: Mapping[str, Any]) -> Units:
    """Units from the JSON object that they were stored as (orjson writes a dataclass as it is)."""
    units = tuple(Unit(**unit | {"random": tuple(unit["random"])}) for unit in record["units"])
    lines = tuple((characters, tuple(held)) for characters, held in record["lines"])
    rates = tuple(Rate(**rate) for rate in record["rates"])
    return Units(record["cut"], record["session"], record["cluster"], units, lines, rates)


class _Recording:
    """One session with the atoms of each message, made once for all its cuts."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.texts = [message_text(message) for message in session.messages]
        self.atoms = [atoms_of(text, session.cwd) for text in self.texts]
        self.places: dict[Key, list[int]] = defaultdict(list)
        for index, atoms in enumerate(self.atoms):
            for key in atoms:
                self.places[key].append(index)
        self.turns = [number for number, turn in enumerate(turns(session.messages)) for _ in turn]
        self.reruns = Reruns(session)
        self._uses: dict[tuple[Key, int], int | None] = {}

    def use(self, key: Key, at: int) -> int | None:
        """The message from `at` on in which the agent writes the atom before anybody else does; None when there is none."""
        if (key, at) not in self._uses:
            self._uses[key, at] = self._use(key, at)
        return self._uses[key, at]

    def _use(self, key: Key, at: int) -> int | None:
        places = self.places.get(key, ())
        first = bisect_left(places, at)
        if first == len(places) or self.session.messages[places[first]].role != "assistant":
            return None
        # Somebody may have given it as a part of something longer, which is an atom of its own.
        ways = spellings(key, self.atoms[places[first]][key])
        for index in range(at, places[first]):
            if self.session.messages[index].role != "assistant" and any(found(way, self.texts[index]) for way in ways):
                return None
        return places[first]


class _Background:
    """In how many sessions of each project an atom stands."""

    def __init__(self, recordings: Sequence[_Recording]) -> None:
        self.sessions = Counter(recording.session.cluster for recording in recordings)
        self.holders: dict[Key, Counter[str]] = defaultdict(Counter)
        for recording in recordings:
            for key in recording.places:
                self.holders[key][recording.session.cluster] += 1

    def rare(self, key: Key, without: set[str]) -> bool:
        """Whether at most 2 % of the sessions of all projects but `without` hold the atom."""
        number = self.sessions.total() - sum(self.sessions[project] for project in without)
        holding = sum(n for project, n in self.holders[key].items() if project not in without)
        return holding <= MAX_FREQUENCY * number


class _Maker:
    def __init__(self, cuts: Sequence[Cut], others: Sequence[Session], seed: int) -> None:
        self.cuts = cuts
        self.seed = seed
        sessions = {cut.session.id: cut.session for cut in cuts}
        self.recordings = {id: _Recording(session) for id, session in sessions.items()}
        rest = [_Recording(session) for session in others if session.id not in sessions]
        self.background = _Background([*self.recordings.values(), *rest])

    def made(self, progress: Callable[[str], None]) -> Iterator[Units]:
        for cut in self.cuts:
            progress(cut.id)
            yield self._units(cut)

    def _units(self, cut: Cut) -> Units:
        recording, project = self.recordings[cut.session.id], cut.session.cluster
        pool = self._pool(cut, recording)
        candidates = [key for key in pool if self.background.rare(key, {project})]
        used = [(key, use) for key in candidates if (use := recording.use(key, cut.at)) is not None]
        lines = [piece for text in recording.texts[cut.head_end : cut.tail_start] for piece in pieces(text)]
        held = [_holding(lines, spellings(key, pool[key][1])) for key, _ in used]
        needs = self._needs(cut, lines, held)
        units = []
        for (key, use), need in zip(used, needs):
            source = cut.session.messages[pool[key][0]]
            recoverable = source.role == "tool" and recording.reruns.possible(source.call_id, use)
            after = recording.turns[use] - recording.turns[cut.at] + 1
            units.append(Unit(*key, pool[key][1], source.id, after, recoverable, need))
        by_line: dict[int, list[int]] = defaultdict(list)
        for number, places in enumerate(held):
            for place in places:
                by_line[place].append(number)
        holding = tuple((len(lines[place]) + 1, tuple(numbers)) for place, numbers in sorted(by_line.items()))
        rates = self._rates(cut, pool, Counter(type for type, _ in candidates))
        return Units(cut.id, cut.session.id, project, tuple(units), holding, rates)

    @staticmethod
    def _pool(cut: Cut, recording: _Recording) -> dict[Key, tuple[int, str]]:
        """(first message, spelling) of the atoms of the span that stand in neither head nor tail."""
        first: dict[Key, tuple[int, str]] = {}
        for index in range(cut.head_end, cut.tail_start):
            for key, text in recording.atoms[index].items():
                first.setdefault(key, (index, text))
        pinned = {key for index in (*range(cut.head_end), *range(cut.tail_start, cut.at)) for key in recording.atoms[index]}
        span, kept = Haystack(joined(cut.span)), Haystack(joined((*cut.head, *cut.tail)))
        pool = {}
        for key, place in first.items():
            if key not in pinned:
                ways = spellings(key, place[1])
                # Only what a search finds in the whole span: so a strategy that keeps everything covers everything.
                if not any(map(kept.found, ways)) and any(map(span.found, ways)):
                    pool[key] = place
        return pool

    def _needs(self, cut: Cut, lines: Sequence[str], held: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
        """For every unit the characters taken in each random order of the lines until one of its own is among them."""
        if not held:
            return []
        draw = np.random.default_rng(random.Random(f"{self.seed} {cut.id}").getrandbits(64))
        sizes = np.array([len(line) + 1 for line in lines])
        orders = draw.permuted(np.tile(np.arange(len(lines)), (DRAWS, 1)), axis=1)
        taken = np.empty_like(orders)
        np.put_along_axis(taken, orders, sizes[orders].cumsum(axis=1), axis=1)
        whole = np.full(DRAWS, sizes.sum())  # of a unit that no single line holds
        return [tuple(np.sort(taken[:, places].min(axis=1) if places else whole).tolist()) for places in held]

    def _rates(self, cut: Cut, pool: dict[Key, tuple[int, str]], candidates: Counter[str]) -> tuple[Rate, ...]:
        """The same rate with unrelated futures: what is used there is used without having been read here.

        Unrelated are the sessions of other projects, or, where there is only one project, its other sessions: there
        use of the project's own vocabulary shows. The project of an unrelated future is left out of the background, as
        the cut's own is, for else nothing that stands in it could be a candidate.
        """
        project = cut.session.cluster
        futures = [c for c in self.cuts if c.session.cluster != project]
        futures = futures or [c for c in self.cuts if c.session.id != cut.session.id]
        by_project: dict[str, list[Cut]] = defaultdict(list)
        for other in futures:
            by_project[other.session.cluster].append(other)
        known = [key for key in pool if self.background.holders[key].total() > 1]
        unknown = Counter(type for type, value in pool if self.background.holders[type, value].total() == 1)
        used: Counter[str] = Counter()
        usable: Counter[str] = Counter()
        for other_project, its_cuts in by_project.items():
            keys = [key for key in known if self.background.rare(key, {project, other_project})]
            for type, number in (Counter(type for type, _ in keys) + unknown).items():
                usable[type] += number * len(its_cuts)
            for other in its_cuts:
                recording = self.recordings[other.session.id]
                used.update(key[0] for key in keys if recording.use(key, other.at) is not None)
        number = len(futures) or 1
        types = sorted({*candidates, *usable})
        return tuple(Rate(type, candidates[type], used[type] / number, usable[type] / number) for type in types)


def atoms_of(text: str, cwd: str = "") -> dict[Key, str]:
    """The typed atoms of a text, A(x): normal form to first spelling."""
    atoms: dict[Key, str] = {}
    codes = [(match.start(), match.end(), match[0]) for match in _CODE.finditer(text)]
    taken: set[int] = set()
    starts = [start for start, _, _ in codes]
    for atom in extract(text):
        near = bisect_left(starts, atom.end) - 1
        if near >= 0 and codes[near][1] > atom.start:
            if atom.type == "number":
                continue  # the digits of a code
            taken.add(near)
        if value := normal(atom.text, atom.type, cwd):
            atoms.setdefault((atom.type, value), atom.text)
    for number, (_, _, code) in enumerate(codes):
        if number not in taken:
            atoms.setdefault(("code", code), code)
    return atoms


def spellings(key: Key, text: str) -> tuple[str, ...]:
    """Every way in which an atom may stand in a text: those of its spelling and those of its normal form."""
    type, value = key
    return tuple(dict.fromkeys((*variants(text, type), *variants(value, type))))


def pieces(text: str) -> list[str]:
    """The lines of a text that are not blank, the long ones in pieces that end behind a blank, a comma or a semicolon."""
    return [piece for piece in _PIECE.findall(text) if not piece.isspace()]


def _holding(lines: Sequence[str], ways: Sequence[str]) -> list[int]:
    return [number for number, line in enumerate(lines) if any(way in line and found(way, line) for way in ways)]
