"""The gold of file probes against what really happened to the workspace while a session was recorded."""

from __future__ import annotations

import pytest

from bench.probes.bank import build
from bench.replay import Cuts
from bench.tokens import counter
from recorder import truth as truths
from recorder.__main__ import record


def observed(family: str):
    """The session, and for every call the files that were new, changed and gone after it."""
    log = []

    class Watching(truths.Truth):
        def observe(self, call, failed, before, after):
            new, gone = after.keys() - before.keys(), before.keys() - after.keys()
            log.append((call.id, new, {p for p in before.keys() & after.keys() if before[p] != after[p]}, gone))
            super().observe(call, failed, before, after)

    session, _ = record(family, truth=Watching())
    return session, log


@pytest.mark.parametrize("family", ["deployment", "documentation", "dependency_upgrade"])
def test_what_is_claimed_of_a_file_really_happened(family):
    session, log = observed(family)
    cuts, _ = Cuts().of(session, counter())
    bank = build(cuts, [], counter(), ["artifacts", "file_state", "work_done"], seed=0)
    where = {call.id: index for index, message in enumerate(session.messages) for call in message.calls}
    checked = 0
    for cut in cuts:
        created, modified, gone = set(), set(), set()
        for call, new, changed, lost in log:
            if where[call] < cut.at:
                created |= new
                modified |= changed
                gone |= lost
        for probe in bank.probes[cut.id]:
            for claim, path in claims(probe):
                checked += 1
                match claim:
                    case "created" | "create yes":
                        assert path in created, (cut.id, claim, path)
                    case "modified":
                        assert path in modified - created, (cut.id, claim, path)
                    case "edit yes":
                        assert path in modified | created, (cut.id, claim, path)
                    case "read" | "untouched":
                        assert path not in created | modified | gone, (cut.id, claim, path)
                    case "edit no" | "modify no":
                        assert path not in modified, (cut.id, claim, path)
                    case "deleted" | "renamed" | "delete yes" | "rename yes":
                        assert path in gone, (cut.id, claim, path)
    assert checked >= 15


def claims(probe):
    """(claim, path) of everything a file probe's gold says."""
    if probe.category == "file_state":
        return [(probe.gold[0], probe.atoms[0])]
    if probe.category == "work_done":
        verb, path = probe.question.removeprefix("Did you ").split(" the file `")
        return [(f"{verb} {probe.gold[0]}", path.split("`")[0])]
    kinds = {
        "existed before": "modified",
        "that you read": "read",
        "that you created": "created",
        "deleted": "deleted",
        "renamed": "renamed",
    }
    kind = next(state for words, state in kinds.items() if words in probe.question)
    return [(kind, path) for path in probe.gold]
