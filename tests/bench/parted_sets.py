"""Workloads whose texts begin alike and part midway: one line by session, one growing message."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tests.bench.no_harm_sets import recorded_workload
from tests.fakes.agent_workloads import Agent
from tests.fakes.workloads import ONE_BY_ONE, Session, Sessions, SessionTurn, Workload

Json = dict[str, Any]
#: Calls of each session of the agents.
_STEPS: Final = 12
_CLOSING: Final = "\n\nRemember the rules above.\nAnswer with one command."


def one_line_workloads(data: Path | None) -> Iterator[Workload]:
    """Agents whose instructions differ in one line by session, tagged or not, or in a text."""
    agent = Agent(system=96, steps=(_STEPS, _STEPS))
    named = Sessions(20, lambda number: agent.session(f"line/{number}"))
    yield from _with_and_without_tag("agent, one line by session", named)
    chat = Agent(system=96, steps=(2, 2))
    customers = Sessions(60, lambda number: chat.session(f"customer/{number}"))
    rows = [_change_session(customer, _with_customer(customer.name)) for customer in customers]
    yield Workload(name="a customer in a text of its own", sessions=rows, pace=ONE_BY_ONE)
    if data is not None:
        sessions = recorded_workload(data, "mini-swe-agent", 20).sessions
        short = [Session(name=s.name, feature=s.feature, turns=s.turns[:_STEPS]) for s in sessions]
        yield from _with_and_without_tag("mini-swe-agent, one line by session", short)


def growing_workloads(data: Path | None) -> Iterator[Workload]:
    """Transcripts that each call sends in one user message, without and with closing words."""
    agent = Agent(system=0, tools=0, steps=(30, 30))
    named = Sessions(4, lambda number: agent.session(f"growing/{number}"))
    made = [_change_session(each, _flat) for each in named]
    sets = [("growing message", made)]
    if data is not None:
        recorded = recorded_workload(data, "mini-swe-agent, flat", 8).sessions
        sets.append(("growing message, recorded", list(recorded)))
    for name, sessions in sets:
        yield Workload(name=name, sessions=sessions, pace=ONE_BY_ONE)
        closed = [_change_session(each, _with_closing) for each in sessions]
        yield Workload(name=f"{name}, closing words", sessions=closed, pace=ONE_BY_ONE)


def _with_and_without_tag(name: str, sessions: Sequence[Session]) -> Iterator[Workload]:
    for suffix, form in (("", "{}"), (", tagged", "<tg:semi>{}</tg:semi>")):
        rows = [
            _change_session(session, _with_line(f"/work/{index}/{session.name}", form))
            for index, session in enumerate(sessions)
        ]
        yield Workload(name=f"{name}{suffix}", sessions=rows, pace=ONE_BY_ONE)


def _change_session(session: Session, change: Callable[[Json], Json]) -> Session:
    turns = tuple(SessionTurn(body=change(turn.body), reply=turn.reply) for turn in session.turns)
    return Session(name=session.name, feature=session.feature, turns=turns)


def _with_line(folder: str, form: str) -> Callable[[Json], Json]:
    """Adds a line to the midst of the system text."""

    def change(body: Json) -> Json:
        system, *rest = body["messages"]
        lines = system["content"].splitlines(keepends=True)
        lines.insert(len(lines) * 2 // 3, form.format(f"Working directory: {folder}\n"))
        return {**body, "messages": [{**system, "content": "".join(lines)}, *rest]}

    return change


def _with_customer(name: str) -> Callable[[Json], Json]:
    """Adds a system message behind the first."""
    customer = {"role": "system", "content": f"You are talking to customer {name}."}

    def change(body: Json) -> Json:
        system, *rest = body["messages"]
        return {**body, "messages": [system, customer, *rest]}

    return change


def _flat(body: Json) -> Json:
    words = "".join(f"{message['role']}: {message['content']}\n" for message in body["messages"])
    return {**body, "messages": [{"role": "user", "content": words}]}


def _with_closing(body: Json) -> Json:
    (message,) = body["messages"]
    return {**body, "messages": [{**message, "content": message["content"] + _CLOSING}]}
