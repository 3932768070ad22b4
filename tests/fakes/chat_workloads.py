"""Sessions that begin alike, few-shot prompts, retries, titles, one-shots, retrieval; made up."""

from collections.abc import Callable, Iterator
from functools import partial

from tests.fakes import messages as made
from tests.fakes.agent_workloads import Agent, one_tail, sessions
from tests.fakes.handbook import handbook, passages, question
from tests.fakes.messages import said
from tests.fakes.workloads import (
    ONE_BY_ONE,
    Json,
    Pace,
    Session,
    Sessions,
    SessionTurn,
    Workload,
    change_sessions,
)

_FIFTY = Pace(at_once=50)
_REMINDER = said("user", "<reminder>Answer in English. Cite the section.</reminder>")
_ACKNOWLEDGED = said("assistant", "Understood.")
_RULES = said("user", handbook(4, "standing orders"))
_SHOTS = 4


def alike_sessions(count: int = 60) -> Iterator[Workload]:
    """Sessions that begin with the same messages, 50 of them at once."""
    one = (_REMINDER,)
    three = (_RULES, _ACKNOWLEDGED, _REMINDER)
    two = (_REMINDER, _RULES)
    tail = one_tail("user", made.reminder)
    agents = {
        "one constant message": Agent(opens=one),
        "two constant messages": Agent(opens=two, chats=True, tools=0),
        "three constant messages": Agent(opens=three),
        "constant messages, chat": Agent(opens=three, chats=True),
        "constant message and tail": Agent(opens=one, tail=tail),
        "constant messages, no system": Agent(opens=three, system=0, tools=0, chats=True),
    }
    for name, agent in agents.items():
        yield Workload(name=name, sessions=sessions(agent, count, name), pace=_FIFTY)
    again = sessions(agents["one constant message"], count, "again")
    yield Workload(name="one constant message, one by one", sessions=again, pace=ONE_BY_ONE)


def few_shot(count: int = 100) -> Iterator[Workload]:
    """Examples as leading pairs of user and assistant, then what is asked."""
    yield Workload(
        name="few-shot, one call each",
        sessions=Sessions(count * 2, lambda index: _few_shot(f"f{index}", 1)),
    )
    yield Workload(
        name="few-shot, chats",
        sessions=Sessions(count, lambda index: _few_shot(f"g{index}", 5)),
    )


def _examples() -> list[Json]:
    return [
        example
        for index in range(_SHOTS)
        for example in (
            said("user", f"{question(f'shot {index}')}\n{passages(f'shot {index}', 2)}"),
            said("assistant", f"Decision {index}: {question(f'decided {index}')}"),
        )
    ]


def _few_shot(name: str, calls: int) -> Session:
    system = said("system", handbook(8, "few-shot"))
    history = [system, *_examples()]
    turns = []
    for step in range(calls):
        history = [*history, said("user", question(f"{name}/{step}"))]
        answer = said("assistant", f"Decision: {question(f'answer {name}/{step}')}")
        turns.append(SessionTurn(body={"messages": history}, reply=answer))
        history = [*history, answer]
    return Session(name=name, feature="few-shot", turns=tuple(turns))


def repeated_calls(count: int = 60) -> Iterator[Workload]:
    """First calls that are equal, edits, regenerations, retries."""
    chats = sessions(Agent(chats=True), count, "again")
    agents = sessions(Agent(), count, "again")
    kinds = {
        "same first call": (chats, _same_start),
        "edited questions": (chats, _with_edited_questions),
        "retried calls": (agents, _with_retries),
        "titles beside chats": (chats, _with_title_call),
    }
    for name, (them, changed) in kinds.items():
        yield Workload(name=name, sessions=change_sessions(them, changed))


def _same_start(session: Session) -> Session:
    """The session with a first question that every session asks."""
    first = session.turns[0].body["messages"][1]
    turns = [
        SessionTurn(body={**turn.body, "messages": _put(turn, first)}, reply=turn.reply)
        for turn in session.turns
    ]
    return Session(name=session.name, feature=session.feature, turns=tuple(turns))


def _put(turn: SessionTurn, first: Json) -> list[Json]:
    request = said("user", "Go on with the next open case, please.")
    return [request if message is first else message for message in turn.body["messages"]]


def _with_edited_questions(session: Session) -> Session:
    """Each third question was asked in other words before, and each fourth one twice."""
    turns: list[SessionTurn] = []
    for number, turn in enumerate(session.turns):
        *before, last = turn.body["messages"]
        if number % 3 == 1:
            other = said("user", f"{question(f'draft {session.name}/{number}')} {last['content']}")
            turns.append(
                SessionTurn(body={**turn.body, "messages": [*before, other]}, reply=turn.reply)
            )
        turns += [turn] * (2 if number % 4 == 3 else 1)
    return Session(name=session.name, feature=session.feature, turns=tuple(turns))


def _with_retries(session: Session) -> Session:
    """Each call is made once, twice or three times."""
    turns = [turn for index, turn in enumerate(session.turns) for _ in range(1 + index % 3)]
    return Session(name=session.name, feature=session.feature, turns=tuple(turns))


def _with_title_call(session: Session) -> Session:
    """After its first call, the session asks for a title of it, with another system text."""
    first, *rest = session.turns
    title_messages = [
        said("system", "Write a title of at most six words."),
        *first.body["messages"][1:],
    ]
    title = SessionTurn(
        body={"messages": title_messages}, reply=said("assistant", "A case of some parcels")
    )
    return Session(name=session.name, feature=session.feature, turns=(first, title, *rest))


def one_shots(count: int = 240) -> Iterator[Workload]:
    """Calls that stand alone: short ones, and long ones that share their rules or nothing."""
    rules = [said("system", handbook(18, "one-shot"))]
    kinds: dict[str, Callable[[int], list[Json]]] = {
        "shared rules": lambda index: [
            *rules,
            said("user", _question_with_passages(f"shared {index}", 8)),
        ],
        "nothing shared": lambda index: [said("user", _question_with_passages(f"own {index}", 16))],
        "short": lambda index: [said("user", question(f"short {index}"))],
    }
    for name, messages in kinds.items():
        yield Workload(name=f"one-shots, {name}", sessions=_alone(count, messages))
    twice = _alone(
        count,
        lambda index: [*rules, said("user", _question_with_passages(f"twice {index // 2}", 8))],
    )
    yield Workload(name="one-shots, asked twice", sessions=twice, pace=ONE_BY_ONE)


def _question_with_passages(seed: str, size: int) -> str:
    return f"{question(seed)}\n\n{passages(seed, size)}"


def _alone(count: int, messages: Callable[[int], list[Json]]) -> Sessions:
    answer = said("assistant", "The billing desk decides.")

    def session(index: int) -> Session:
        turn = SessionTurn(body={"messages": messages(index)}, reply=answer)
        return Session(name=f"{index}", feature="one-shot", turns=(turn,))

    return Sessions(count, session)


def retrieval(count: int = 60) -> Iterator[Workload]:
    """Chats whose passages differ with each call, and stand before the conversation or within."""
    chats = sessions(Agent(chats=True, tools=0), count, "rag")
    yield Workload(
        name="time first in system", sessions=change_sessions(chats, _with_clock_in_system_text)
    )
    for place, name in ((1, "before the chat"), (-1, "before the question")):
        changed = change_sessions(chats, partial(_with_passages, place=place))
        yield Workload(name=f"passages {name}", sessions=changed)
    within = change_sessions(chats, partial(_with_passages, place=0))
    yield Workload(name="passages in system", sessions=within)


def _with_clock_in_system_text(session: Session) -> Session:
    return _with_system_texts(session, lambda number, text: f"{made.clock(number)}\n\n{text}")


def _with_system_texts(session: Session, words: object) -> Session:
    """The session with another system text in each call."""
    assert callable(words)
    turns = []
    for number, turn in enumerate(session.turns):
        first, *rest = turn.body["messages"]
        system = {**first, "content": words(number, first["content"])}
        turns.append(SessionTurn(body={**turn.body, "messages": [system, *rest]}, reply=turn.reply))
    return Session(name=session.name, feature=session.feature, turns=tuple(turns))


def _with_passages(session: Session, place: int) -> Session:
    """The session with passages of each call's own at a place; 0 for the end of the system text."""
    texts = [passages(f"{session.name}/{number}", 4) for number in range(len(session.turns))]
    if not place:
        return _with_system_texts(session, lambda number, text: f"{text}\n\n{texts[number]}")
    turns = []
    for text, turn in zip(texts, session.turns, strict=True):
        messages = list(turn.body["messages"])
        messages.insert(place if place > 0 else len(messages) - 1, said("user", text))
        turns.append(SessionTurn(body={**turn.body, "messages": messages}, reply=turn.reply))
    return Session(name=session.name, feature=session.feature, turns=tuple(turns))
