# ruff: noqa: T201 - a script prints its result
"""The cost of recorded and made-up sets on Claude: without marks, with fixed ones, as planned.

Each figure is the prompt's and the answer's dollars over those of the same calls without marks.
``fixed`` marks the end of the system text and the last two messages from the first call on;
``stop-loss`` does the same until that lost 1.2 times the dearest prompt's write fee; ``parted,
fixed`` does it on the parts that the gateway makes of long texts; ``planned`` is the gateway's
planning. Rows marked with * are not for tuning.

Usage: python -m tests.bench.marks [--only NAME] [--model claude-sonnet-5-5] [--calls 300]
"""

import argparse
import logging
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from proxy.catalog.entries import Model
from proxy.prefix.prompts.marks import add_marks
from proxy.prefix.prompts.prompt import PromptSlot
from proxy.tools.replay.planning import PlannedVariant
from proxy.tools.replay.prompts import PromptReader
from proxy.tools.replay.recorded_call import RecordedCall
from proxy.tools.replay.run import replay
from proxy.tools.replay.variant_totals import VariantTotals, sum_of
from proxy.tools.replay.vocabulary import LineVocabulary
from slo.usage import Usage
from tests.bench.no_harm_replay import START, recorded_calls
from tests.bench.no_harm_routes import catalog
from tests.bench.no_harm_sets import folder, recorded_workload, sets, shapes
from tests.bench.parted_sets import growing_workloads, one_line_workloads
from tests.fakes.handbook import handbook
from tests.fakes.messages import said
from tests.fakes.workloads import ONE_BY_ONE, Pace, Session, SessionTurn, Workload, timed_calls

Json = dict[str, Any]
_DAY_S: Final = 86_400.0
_MARK: Final = {"cache_control": {"type": "ephemeral"}}
#: Write fees of the dearest prompt that fixed marks may lose before they are given up.
_STOP_FEES: Final = 1.2
#: Surcharge of a written token and gain of a read one, in fresh tokens.
_WRITE_FEE: Final = 0.25
_READ_GAIN: Final = 0.9


def with_fixed_marks(body: bytes) -> bytes:
    """The body with marks at the end of the system text and of the last two messages."""
    call: Json = orjson.loads(body)
    messages = call["messages"]
    system = [at for at, one in enumerate(messages) if one["role"] == "system"]
    for at in {*system[-1:], *range(max(0, len(messages) - 2), len(messages))}:
        messages[at] = _with_mark(messages[at])
    return orjson.dumps(call)


def _with_mark(message: Json) -> Json:
    content = message.get("content")
    if not content:
        return message
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**message, "content": [*parts[:-1], {**parts[-1], **_MARK}]}


class FixedMarks:
    """Marks at fixed places in every call, or until they lost too much.

    Args:
        stops: True if they are given up after a loss.
    """

    shortens = False

    def __init__(self, *, stops: bool = False) -> None:
        self.name = "stop-loss" if stops else "fixed"
        self._stops = stops
        self._balance = self._largest = 0.0

    def body(self, line: RecordedCall, now: float) -> bytes:
        """The marked body; the line's own once marks are given up."""
        if self._stops and self._balance < -_STOP_FEES * _WRITE_FEE * self._largest:
            return line.body
        return with_fixed_marks(line.body)

    def record_answer(self, usage: Usage) -> None:
        """Count what the marks brought and cost, in fresh tokens."""
        self._largest = max(self._largest, usage.prompt_tokens)
        self._balance += _READ_GAIN * usage.cache_read - _WRITE_FEE * usage.cache_write_tokens


class PartedFixedMarks(PlannedVariant):
    """The planned prompt with marks at the end of the stable slot and of the last three blocks.

    From GPT-5.6 on the provider marks the last one by itself.
    """

    def __init__(self, reading: PromptReader, day: float) -> None:
        super().__init__(reading, day, arranges=False, names=False, stake=0.0)
        self.name = "parted, fixed"

    def body(self, line: RecordedCall, now: float) -> bytes:
        """The body with its marks; the line's own where it cannot be planned."""
        body, planned = super().body(line, now), self._planned
        if planned is None:
            return body
        sent = planned.evidence.sent
        stable = [at for at, one in enumerate(sent.blocks) if one.slot is PromptSlot.STABLE]
        end = len(sent.blocks) - (sent.regime.name == "openai-breakpoint")
        places = {*stable[-1:], *range(max(0, len(sent.blocks) - 3), end)}
        marks = [(sent.blocks[at], "") for at in sorted(places)]
        return add_marks(planned.prompt, marks, sent.regime).render()


@dataclass(frozen=True, kw_only=True)
class MarkedSet:
    """A row: a workload, its calls and pace; ``is_held_back`` if nothing is tuned on it."""

    name: str
    workload: Workload
    calls: int
    rate: float = 30.0
    is_held_back: bool = False


def _shape(name: str) -> Workload:
    return next(each for each in shapes() if each.name == name)


def _without_feature(session: Session) -> Session:
    return Session(name=session.name, turns=session.turns)


def _handbooks(count: int = 200) -> Workload:
    """Two handbooks by turns in one feature, a question each."""

    def session(at: int) -> Session:
        text = handbook(100, f"marks/{at % 2}")
        messages = [said("system", text), said("user", f"Question {at}: who may change it?")]
        turn = SessionTurn(body={"messages": messages}, reply=said("assistant", "The desk."))
        return Session(name=f"{at}", feature="handbooks", turns=(turn,))

    rows = tuple(session(at) for at in range(count))
    return Workload(name="two handbooks by turns", sessions=rows, pace=ONE_BY_ONE)


def _made_up_sets() -> Iterator[MarkedSet]:
    agent = _shape("agent, one by one")
    one = Workload(name="agent loop", sessions=agent.sessions[:1], pace=ONE_BY_ONE)
    yield MarkedSet(name="agent loop", workload=one, calls=30)
    other = _shape("long rules, one by one")
    pairs = zip(agent.sessions[1:11], other.sessions[:10], strict=True)
    by_turns = tuple(_without_feature(each) for pair in pairs for each in pair)
    two = Workload(name="two agents by turns", sessions=by_turns, pace=Pace(at_once=2))
    yield MarkedSet(name="two agents by turns", workload=two, calls=180)
    yield MarkedSet(name="two handbooks by turns", workload=_handbooks(), calls=200)
    for kind, calls in (("nothing shared", 150), ("nothing shared", 1_000), ("short", 150)):
        name = f"one-shots, {kind}"
        yield MarkedSet(name=f"{name}, {calls}", workload=_one_shots(kind, calls), calls=calls)


def _one_shots(kind: str, calls: int) -> Workload:
    from tests.fakes.chat_workloads import one_shots  # noqa: PLC0415

    return next(each for each in one_shots(calls) if each.name == f"one-shots, {kind}")


#: Recorded sets, by the calls that are replayed.
_RECORDED: Final = {
    "OpenHands SDK": 53,
    "pi": 150,
    "BFCL multi-turn": 500,
    "mini-swe-agent, flat": 746,
    "tau-bench, badly built": 506,
    "tau-bench": 300,
    "AgentDojo": 300,
}
_HELD_BACK: Final = {
    "SWE-agent": 200,
    "OpenHands": 200,
    "crewAI": 200,
    "mini-swe-agent": 200,
    "tau-bench, flat": 300,
    "AgentDojo, badly built": 300,
}


def marked_sets() -> Iterator[MarkedSet]:
    """Every row whose data is there."""
    yield from _made_up_sets()
    data = folder()
    for workload in one_line_workloads(data):
        yield MarkedSet(name=workload.name, workload=workload, calls=96)
    for workload in growing_workloads(data):
        yield MarkedSet(name=workload.name, workload=workload, calls=120)
    if data is None:
        return
    there = {name for name, is_there in sets(data) if is_there}
    for name, calls in (_RECORDED | _HELD_BACK).items():
        if name in there:
            workload = recorded_workload(data, name, 200)
            yield MarkedSet(
                name=name, workload=workload, calls=calls, is_held_back=name in _HELD_BACK
            )


def _variants(reading: PromptReader) -> Sequence[Any]:
    day = START // _DAY_S * _DAY_S
    fixed = FixedMarks(), FixedMarks(stops=True), PartedFixedMarks(reading, day)
    return *fixed, PlannedVariant(reading, day, arranges=False, names=False)


def row(one: MarkedSet, model: Model) -> Sequence[VariantTotals]:
    """Cost of each way: direct, fixed, stop-loss, fixed on parts, planned."""
    reading = PromptReader(model, model.routes[0], LineVocabulary())
    calls = timed_calls(one.workload, one.rate, one.calls)
    lines = recorded_calls(one.workload, calls, reading, is_native=False)
    day = START // _DAY_S * _DAY_S
    return sum_of(replay(lines, reading, _variants(reading), day=day).features())


def _table_row(one: MarkedSet, rows: Sequence[VariantTotals]) -> str:
    direct = rows[0].nanos or 1
    ratios = " | ".join(f"{(each.nanos or 0) / direct:.4f}" for each in rows[1:])
    extra = ((rows[-1].nanos or 0) - direct) / 1e9
    return f"| {one.name}{' *' * one.is_held_back} | {rows[0].calls} | {ratios} | {extra:+.4f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of a row's name")
    parser.add_argument("--model", default="claude-sonnet-5-5")
    parser.add_argument("--calls", type=int, default=10_000, help="calls of each row, at most")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as there:
        model = catalog(Path(there))[0].models[options.model]
    columns = ("fixed", "stop-loss", "parted, fixed", "planned", "planned, $ more")
    print(f"| set | calls | {' | '.join(columns)} |\n|---|{'--:|' * (len(columns) + 1)}")
    for one in marked_sets():
        if options.only in one.name:
            short = MarkedSet(**{**vars(one), "calls": min(one.calls, options.calls)})
            print(_table_row(short, row(short, model)), flush=True)


if __name__ == "__main__":
    main()
