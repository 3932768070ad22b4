# ruff: noqa: T201 - a script prints its result
"""True if every recorded conversation extends its own prefix on the wire, in each mode and regime.

Each row: steps judged, and at how many the prefix moved; built well, as recorded, and built badly.
*arranged* is the day after the gateway saw the set for the first time, for a conversation stays as
it was begun; *early* is the same before an upstream that takes system messages at the start alone.
Usage: python -m tests.bench.prefix_extends [--every 1] [--recorded KIND FOLDER]
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path

import orjson

from tests.bench import recorded
from tests.bench.prefix_planners import (
    DayPlanning,
    Plans,
    arranged_early,
    plans_that_arrange,
    plans_with_marks,
    sent_as_it_came,
)
from tests.fakes.badly_built import raw_bodies
from tests.fakes.recorded import KINDS, PATHS, RecordedDialogue
from tests.fakes.wire_prefix import ROUTES, PrefixMove, WireReader

#: Makes the plans of one regime; they are given every call of the conversations, in order.
MODES: Mapping[str, Callable[[str], Plans]] = {
    "as sent": sent_as_it_came,
    "marked": plans_with_marks,
}
#: The same for modes that learn on the day before.
LEARNING: Mapping[str, Callable[[str], DayPlanning]] = {
    "arranged": plans_that_arrange,
    "arranged early": arranged_early,
}
Built = Callable[[RecordedDialogue], Iterable[bytes]]
BUILT: Mapping[str, Built] = {"well": RecordedDialogue.bodies, "badly": raw_bodies}


def moves(
    them: Iterable[RecordedDialogue],
    plans: Plans,
    regime: str,
    onlooker: WireReader,
    built: Built = RecordedDialogue.bodies,
) -> Iterator[tuple[str, PrefixMove]]:
    """Every step of the conversations at which a prefix moved."""
    for one in them:
        for moved in onlooker.moves(built(one), partial(plans, one), ROUTES[regime]):
            yield one.name, moved


def learn(plans: DayPlanning, them: Iterable[RecordedDialogue], built: Built) -> DayPlanning:
    """The next day's plans, once these have seen the conversations."""
    for one in them:
        for body in built(one):
            plans(one, body)
    return plans.next_day()


def figures(
    them: list[RecordedDialogue], regime: str, onlooker: WireReader, built: Built
) -> Iterator[tuple[str, int]]:
    """At how many steps a prefix moved, by mode."""
    for mode, make in MODES.items():
        yield mode, sum(1 for _ in moves(them, make(regime), regime, onlooker, built))
    for mode, learns in LEARNING.items():
        plans = learn(learns(regime), them, built)
        yield mode, sum(1 for _ in moves(them, plans, regime, onlooker, built))


def whole(kind: str, folder: Path) -> tuple[list[RecordedDialogue], Built]:
    """A set whose calls were recorded with their whole bodies, as they were sent."""
    bodies: dict[str, list[bytes]] = {}
    features: dict[str, str] = {}
    for one in recorded.KINDS[kind](folder):
        bodies.setdefault(one.conversation, []).append(orjson.dumps(one.body))
        features[one.conversation] = one.feature
    them = [
        RecordedDialogue(
            name=name, feature=features[name], user="", place="", rules="", messages=()
        )
        for name in bodies
    ]
    return them, lambda one: bodies[one.name]


def main() -> None:
    """Print the table as markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="take every so manieth conversation")
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument(
        "--recorded", nargs=2, metavar=("KIND", "FOLDER"), help="as tests.bench.recorded"
    )
    options = parser.parse_args()
    onlooker = WireReader()
    print("| set | built | mode | regime | steps | moved |\n|---|---|---|---|--:|--:|")
    if options.recorded is not None:
        kind, folder = options.recorded
        them, as_sent = whole(kind, Path(folder))
        steps = sum(max(0, sum(1 for _ in as_sent(one)) - 1) for one in them)
        for regime in ROUTES:
            for mode, found in figures(them, regime, onlooker, as_sent):
                print(
                    f"| {kind} | as recorded | {mode} | {regime} | {steps} | {found} |", flush=True
                )
        return
    for kind in [options.kind] if options.kind else KINDS:
        them = list(islice(KINDS[kind](PATHS[kind]), 0, None, options.every))
        steps = sum(max(0, sum(1 for _ in one.calls()) - 1) for one in them)
        for how, built in BUILT.items():
            for regime in ROUTES:
                for mode, found in figures(them, regime, onlooker, built):
                    print(f"| {kind} | {how} | {mode} | {regime} | {steps} | {found} |", flush=True)


if __name__ == "__main__":
    main()
