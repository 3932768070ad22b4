"""Prompts whose order costs money, each beside the same words in a good order; made up."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

import orjson

from tests.fakes import messages as made
from tests.fakes.handbook import dice, handbook, passages, question
from tests.fakes.messages import said
from tests.fakes.workloads import ONE_BY_ONE, Json, Pace, Session, Sessions, SessionTurn, Workload

_RULES = 30
_NAMES = ("Ines Carvalho", "Tom Okafor", "Lea Brandt", "Marek Nowak", "Aya Sato", "Rosa Lind")
#: Documents of which a few are listed by id, and how many of these a turn replaces.
_LISTED, _REPLACED = 6, 2


class LayoutWorkload(NamedTuple):
    """A workload as it is sent, and the same words in a good order."""

    sent: Workload
    good: Workload


class _Step(NamedTuple):
    """One call of a session: what is asked, and what was said before."""

    session: int
    number: int
    history: Sequence[Json]

    @property
    def question(self) -> str:
        return question(f"{self.session}/{self.number}")

    @property
    def ask(self) -> Json:
        return said("user", self.question)


Build = Callable[[_Step], Sequence[Json]]
#: Calls of a session, by its number.
Lengths = Callable[[int], int]


def _usual_length(session: int) -> int:
    return dice("turns", session).randint(6, 14)


def documents(count: int = 60) -> Iterator[LayoutWorkload]:
    """Documents that change from turn to turn: in the system text, in messages, listed by id."""
    in_system = _before_question(_found)
    yield _shape("document in system text", count, _in_system(_found), in_system)
    stays = _in_system(_found_each_third)
    yield _shape("document in system text, every third call", count, stays, stays)
    above = _question_with(_found, after=False)
    yield _shape("document before the question", count, above, above)
    below = _question_with(_found, after=True)
    yield _shape("document after the question", count, below, below)
    yield _shape(
        "documents listed by id",
        count,
        _in_system(_documents),
        _before_question(_documents),
    )


def badly_built(count: int = 60) -> Iterator[LayoutWorkload]:
    """Text that varies stands first, in lines, JSON or XML; or tools come shuffled."""
    tops: dict[str, Callable[[_Step], str]] = {
        "clock": lambda step: made.clock(step.session * 40 + step.number),
        "UUID": lambda step: f"Request: {UUID(int=dice(*step[:2]).getrandbits(128))}",
        "name and date": lambda step: f"{_facts(step)}\nDate: 2026-11-{1 + step.session % 28:02}",
    }
    for name, top in tops.items():
        ends = _rules_then if name == "name and date" else _rules_and_last
        yield _shape(f"{name} on top", count, _top_then_rules(top), ends(top))
    context = _rules_and_last(_found, _facts)
    yield _shape("variable first", count, _variable_first, context)
    for name, write in (("pretty", orjson.OPT_INDENT_2), ("one line", 0)):
        yield _shape(f"JSON, {name}", count, _json(write), _rules_and_last(tops["clock"], _facts))
    yield _shape("XML", count, _xml, _rules_and_last(tops["clock"], _facts))
    plain, tools = _rules_and_last(), list(made.tools(24))
    yield LayoutWorkload(
        _workload("tools shuffled", count, plain, tools=tools, shuffles=True),
        _workload("tools shuffled, good", count, plain, tools=tools),
    )


def long_session(calls: int = 60) -> LayoutWorkload:
    """One session with a clock on top."""
    bad = _top_then_rules(lambda step: made.clock(step.number))
    good = _rules_and_last(lambda step: made.clock(step.number))
    return _shape("one long session", 1, bad, good, lengths=lambda _: calls, pace=ONE_BY_ONE)


def odd_lengths() -> Iterator[Workload]:
    """Text that varies on top of conversations whose lengths are unlike those of the others."""
    clock = _top_then_rules(lambda step: made.clock(step.session * 100 + step.number))
    facts = _top_then_rules(_facts)
    own = _top_then_rules(lambda step: passages(f"own {step.session}", 8))
    falling = _falling_length
    yield _workload("customer, lengths fall", 120, facts, lengths=falling, pace=Pace(at_once=25))
    yield _workload("customer, one-shots", 300, facts, lengths=lambda _: 1)
    yield _workload(
        "clock, most are one-shots", 90, clock, lengths=lambda index: 1 if index % 4 else 22
    )
    long = lambda index: 20 + 2 * falling(index)  # noqa: E731 - as the others
    yield _workload("clock, long agents", 16, clock, lengths=long, pace=Pace(at_once=4))
    yield _workload("own document, long", 24, own, lengths=long, pace=Pace(at_once=6))


def _falling_length(session: int) -> int:
    """A quarter of the sessions ends with each call."""
    return min(24, 1 + int(dice("falling", session).expovariate(0.2877)))


def _shape(
    name: str,
    count: int,
    unmodified: Build,
    good: Build,
    lengths: Lengths = _usual_length,
    pace: Pace = Pace(),  # noqa: B008 - frozen
) -> LayoutWorkload:
    return LayoutWorkload(
        _workload(name, count, unmodified, lengths=lengths, pace=pace),
        _workload(f"{name}, good", count, good, lengths=lengths, pace=pace),
    )


def _workload(
    name: str,
    count: int,
    build: Build,
    *,
    lengths: Lengths = _usual_length,
    pace: Pace = Pace(),  # noqa: B008 - frozen
    tools: Sequence[Json] = (),
    shuffles: bool = False,
) -> Workload:
    def session(index: int) -> Session:
        made_turns: list[SessionTurn] = []
        history: list[Json] = []
        for number in range(lengths(index)):
            step = _Step(index, number, tuple(history))
            order = list(tools)
            if shuffles:
                dice("tools", index, number).shuffle(order)
            answer = said("assistant", handbook(2, f"answer {index}/{number}"))
            fields = {"tools": order} if order else {}
            made_turns.append(
                SessionTurn(body={"messages": list(build(step)), **fields}, reply=answer)
            )
            history += [step.ask, answer]
        return Session(name=f"{index}", feature="layout", turns=tuple(made_turns))

    # Named alike, so that the calls of both orders are made at the same times.
    return Workload(name=name.removesuffix(", good"), sessions=Sessions(count, session), pace=pace)


def _rules() -> str:
    return handbook(_RULES, "layout")


def _facts(step: _Step) -> str:
    name = _NAMES[step.session % len(_NAMES)]
    return f"Customer: {name} (number {400_000 + step.session * 37})"


def _found(step: _Step) -> str:
    return passages(f"{step.session}/{step.number}", 8)


def _found_each_third(step: _Step) -> str:
    return passages(f"{step.session}/{step.number // 3}", 8)


def _documents(step: _Step) -> str:
    first = step.session * 50 + step.number * _REPLACED
    ids = sorted(first + index for index in range(_LISTED))
    return "\n".join(f"[doc-{index:05}] {passages(f'doc {index}', 2)}" for index in ids)


def _in_system(text: Callable[[_Step], str]) -> Build:
    closing = handbook(2, "closing")
    return lambda step: [
        said("system", f"{_rules()}\n\n{text(step)}\n\n{closing}"),
        *step.history,
        step.ask,
    ]


def _before_question(text: Callable[[_Step], str]) -> Build:
    closing = handbook(2, "closing")
    return lambda step: [
        said("system", f"{_rules()}\n\n{closing}"),
        *step.history,
        said("user", text(step)),
        step.ask,
    ]


def _question_with(text: Callable[[_Step], str], *, after: bool) -> Build:
    def build(step: _Step) -> Sequence[Json]:
        both = (step.question, text(step)) if after else (text(step), step.question)
        return [said("system", _rules()), *step.history, said("user", "\n\n".join(both))]

    return build


def _top_then_rules(top: Callable[[_Step], str]) -> Build:
    return lambda step: [
        said("system", f"{top(step)}\n\n{_rules()}"),
        *step.history,
        step.ask,
    ]


def _rules_then(text: Callable[[_Step], str]) -> Build:
    return lambda step: [
        said("system", f"{_rules()}\n\n{text(step)}"),
        *step.history,
        step.ask,
    ]


def _rules_and_last(
    last: Callable[[_Step], str] | None = None, own: Callable[[_Step], str] | None = None
) -> Build:
    def build(step: _Step) -> Sequence[Json]:
        system = f"{_rules()}\n\n{own(step)}" if own else _rules()
        end = [said("user", last(step))] if last else []
        return [said("system", system), *step.history, step.ask, *end]

    return build


def _variable_first(step: _Step) -> Sequence[Json]:
    system = f"{_found(step)}\n\n{_facts(step)}\n\n{_rules()}"
    return [said("system", system), *step.history, step.ask]


def _json(option: int) -> Build:
    def build(step: _Step) -> Sequence[Json]:
        text = {
            "current_time": made.clock(step.session * 40 + step.number),
            "customer": _facts(step),
            "role": "You answer for the returns desk. Keep to the rules below in every answer.",
            "rules": _rules().split("\n\n"),
        }
        system = orjson.dumps(text, option=option).decode()
        return [said("system", system), *step.history, step.ask]

    return build


def _xml(step: _Step) -> Sequence[Json]:
    system = (
        f"<prompt>\n<context>\n<time>{made.clock(step.session * 40 + step.number)}</time>\n"
        f"<customer>{_facts(step)}</customer>\n</context>\n<rules>\n{_rules()}\n</rules>\n</prompt>"
    )
    return [said("system", system), *step.history, step.ask]
