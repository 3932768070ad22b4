"""Recorded agents: τ-bench's desk, by what its later calls name."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from tests.bench.compaction.cases import ChatCase, Need, at_risk, call_places, old_part, pairs
from tests.fakes.dialogue import argument_values
from tests.fakes.recorded import KINDS, PATHS

TAU: Final = PATHS["tau"]


@cache
def _tau(path: Path) -> list[tuple[ChatCase, list[Need]]]:
    """Cases of needed values, each beside the pairs of one call's values."""
    cases = []
    for one in KINDS["tau"](path):
        messages = [{"role": "system", "content": one.rules}, *one.messages]
        needs = argument_values(messages)
        for now in call_places(messages):
            values: list[Need] = []
            bound: list[Need] = []
            for calls in (needs[place] for place in needs if place >= now):
                for call in calls:
                    risky = at_risk(messages, now, [value for _, value in call])
                    values += [(value,) for value in risky]
                    bound += pairs(messages[slice(*old_part(messages, now))], risky)
            if values:
                case = ChatCase(name=one.name, messages=messages[:now], needed=values)
                cases.append((case, bound))
    return cases


def tau_values() -> Iterator[ChatCase]:
    """Values that τ-bench's later calls name."""
    return (case for case, _ in _tau(TAU))


def tau_pairs() -> Iterator[ChatCase]:
    """Pairs of values that one later call names and one message held."""
    for case, bound in _tau(TAU):
        if bound:
            yield ChatCase(name=case.name, messages=case.messages, needed=bound)
