"""The sets of the marks table: agents, mixed features and one-shots, made up; recorded sets."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final

from tests.bench.no_harm_sets import folder, recorded_workload, sets, shapes
from tests.bench.parted_sets import growing_workloads, one_line_workloads
from tests.fakes.agent_workloads import Agent
from tests.fakes.chat_workloads import one_shots
from tests.fakes.handbook import handbook, passages, question
from tests.fakes.messages import clock, said
from tests.fakes.workloads import ONE_BY_ONE, Pace, Session, SessionTurn, Workload


@dataclass(frozen=True, kw_only=True)
class MarkedSet:
    """A row: a workload, its calls and pace.

    Attributes:
        is_held_back: True if nothing is tuned on it.
        is_live: True if it is sent over HTTP, too.
    """

    name: str
    workload: Workload
    calls: int
    rate: float = 30.0
    is_held_back: bool = False
    is_live: bool = False


def _shape(name: str) -> Workload:
    return next(shape for shape in shapes() if shape.name == name)


def _without_feature(session: Session) -> Session:
    return Session(name=session.name, turns=session.turns)


def _handbooks() -> Workload:
    """Two handbooks by turns in one feature, a question each."""

    def session(number: int) -> Session:
        text = handbook(100, f"marks/{number % 2}")
        messages = [said("system", text), said("user", f"Question {number}: who may change it?")]
        turn = SessionTurn(body={"messages": messages}, reply=said("assistant", "The desk."))
        return Session(name=f"{number}", feature="handbooks", turns=(turn,))

    rows = tuple(session(number) for number in range(200))
    return Workload(name="two handbooks by turns", sessions=rows, pace=ONE_BY_ONE)


def _coding_feature() -> Workload:
    """Work, its title and two sub-agents by turns in one feature, as a coding agent calls."""
    work = Agent(system=96, tools=16, steps=(24, 24))
    explorer = Agent(system=48, tools=6, steps=(6, 10))

    def sessions(task: int) -> Iterator[Session]:
        messages = [said("system", _TITLE_RULES), said("user", question(f"title/{task}"))]
        title = SessionTurn(body={"messages": messages}, reply=said("assistant", "Late parcel"))
        yield Session(name=f"title {task}", feature="coding", turns=(title,))
        yield work.session(f"work {task}", "coding")
        for number in range(2):
            session = explorer.session(f"explore {task}.{number}", "coding")
            yield _with_system(session, handbook(48, "explorer"))

    rows = tuple(session for task in range(12) for session in sessions(task))
    return Workload(name="titles, work and sub-agents", sessions=rows, pace=Pace(at_once=3))


_TITLE_RULES: Final = "Answer with a title of three words for what the user asks. No full stop."


def _with_system(session: Session, text: str) -> Session:
    """The session with another system text."""
    turns = []
    for turn in session.turns:
        _, *messages = turn.body["messages"]
        body = {**turn.body, "messages": [said("system", text), *messages]}
        turns.append(SessionTurn(body=body, reply=turn.reply))
    return Session(name=session.name, feature=session.feature, turns=tuple(turns))


def _clock_on_top(calls: int) -> Workload:
    """An agent without tools whose system text begins with the time of each call."""
    rules = handbook(48, "clock on top")
    agent = Agent(system=1, tools=0, steps=(8, 16))
    number = count()

    def session(name: str) -> Session:
        turns = []
        for turn in agent.session(name, "clocked").turns:
            _, *messages = turn.body["messages"]
            system = said("system", f"{clock(next(number))}\n\n{rules}")
            body = {"messages": [system, *messages]}
            turns.append(SessionTurn(body=body, reply=turn.reply))
        return Session(name=name, feature="clocked", turns=tuple(turns))

    rows = tuple(session(f"clocked {task}") for task in range(calls // 8))
    return Workload(name="a clock on top", sessions=rows)


def _coder_template(calls: int, *, guide_first: bool = False) -> Workload:
    """A template in one user message: the task and the file, and the guide; no system text."""
    guide = handbook(20, "coder's guide")

    def session(task: int) -> Session:
        own = (
            f"Task {task}: {question(f'coder/{task}')}\n\nFile src/module_{task}.py:\n"
            f"{passages(f'coder/{task}', 8)}"
        )
        shared = f"Write the whole file. Follow this guide.\n{guide}"
        parts = (shared, own) if guide_first else (own, shared)
        body = {"messages": [said("user", "\n\n".join(parts))]}
        turn = SessionTurn(body=body, reply=said("assistant", "Done."))
        return Session(name=f"{task}", feature="coder", turns=(turn,))

    rows = tuple(session(task) for task in range(calls))
    name = f"coder template{', guide first' * guide_first}"
    return Workload(name=name, sessions=rows)


def _made_up_sets() -> Iterator[MarkedSet]:
    agent = _shape("agent, one by one")
    loop = Agent(system=96, tools=16, steps=(40, 40)).session("loop")
    one = Workload(name="agent loop", sessions=(loop,), pace=ONE_BY_ONE)
    yield MarkedSet(name="agent loop", workload=one, calls=30, is_live=True)
    other = _shape("long rules, one by one")
    pairs = zip(agent.sessions[1:11], other.sessions[:10], strict=True)
    by_turns = tuple(_without_feature(session) for pair in pairs for session in pair)
    two = Workload(name="two agents by turns", sessions=by_turns, pace=Pace(at_once=2))
    yield MarkedSet(name="two agents by turns", workload=two, calls=180, is_live=True)
    coding = _coding_feature()
    yield MarkedSet(name=coding.name, workload=coding, calls=300, is_live=True)
    for every, pause_s in ((1, 1_200.0), (5, 900.0)):
        name = f"{every} calls, then {pause_s / 60:.0f} minutes"
        pauses = Pace(at_once=1, pause_every=every, pause_s=pause_s)
        slow = Workload(name=name, sessions=_shape("long sessions").sessions, pace=pauses)
        yield MarkedSet(name=name, workload=slow, calls=120)
    yield MarkedSet(name="two handbooks by turns", workload=_handbooks(), calls=200)
    for kind, calls in (("nothing shared", 150), ("nothing shared", 1_000), ("short", 150)):
        name = f"one-shots, {kind}"
        yield MarkedSet(name=f"{name}, {calls}", workload=_one_shots(kind, calls), calls=calls)
    templates = (_coder_template(248, guide_first=is_first) for is_first in (False, True))
    for workload, calls in (
        *((template, 248) for template in templates),
        (_clock_on_top(506), 506),
    ):
        yield MarkedSet(name=workload.name, workload=workload, calls=calls, is_held_back=True)


def _one_shots(kind: str, calls: int) -> Workload:
    return next(row for row in one_shots(calls) if row.name == f"one-shots, {kind}")


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
