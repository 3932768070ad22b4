"""Workloads that nobody tunes for: bursts, pauses, callers with marks or keys, changing tools."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tests.fakes import messages as made
from tests.fakes.agent_workloads import TAILS, Agent, sessions
from tests.fakes.handbook import dice, handbook, passages, question
from tests.fakes.messages import said
from tests.fakes.workloads import (
    Json,
    Pace,
    Session,
    Sessions,
    SessionTurn,
    Workload,
    change_sessions,
)

#: Seconds around which caches of one provider or another forget.
_PAUSES_S = (290.0, 310.0, 620.0, 1_790.0, 1_810.0, 3_700.0)
_MARKS: dict[str, Json] = {
    "anthropic-breakpoint": {"cache_control": {"type": "ephemeral"}},
    "openai-breakpoint": {"prompt_cache_breakpoint": {"mode": "explicit"}},
}


def paced_workloads(count: int = 60) -> Iterator[Workload]:
    """Calls that come together, and pauses around what caches live."""
    agents = sessions(Agent(), count, "paced")
    for burst in (4, 12):  # each of another session
        yield Workload(
            name=f"bursts of {burst}", sessions=agents, pace=Pace(at_once=48, burst=burst)
        )
    for pause in _PAUSES_S:
        pace = Pace(pause_s=pause, pause_every=18)
        yield Workload(name=f"pauses of {pause:.0f} s", sessions=agents, pace=pace)
    shots = Sessions(count * 4, lambda index: _parallel(f"p{index}"))
    yield Workload(name="parallel fan-out", sessions=shots, pace=Pace(at_once=8, burst=8))


def _parallel(name: str) -> Session:
    """One of several calls made at once about the same long text."""
    system = said("system", handbook(20, f"job {int(name[1:]) // 8}"))
    body = {"messages": [system, said("user", question(name))]}
    answer = said("assistant", "Nothing of note.")
    return Session(name=name, feature="fan-out", turns=(SessionTurn(body=body, reply=answer),))


def marked_by_caller(count: int = 60) -> Iterator[Workload]:
    """Callers who mark, or name a key, themselves."""
    agents = sessions(Agent(chats=True), count, "marked")
    for name, places in {"system": (0,), "last": (-1,), "system and last": (0, -1)}.items():
        yield Workload(name=f"own marks: {name}", sessions=agents, dressed=_marker(places))
    tailed = sessions(TAILS["user tail, chat"], count, "marked tail")
    yield Workload(name="own marks before a tail", sessions=tailed, dressed=_marker((0, -2)))
    yield Workload(name="own explicit mode", sessions=agents, dressed=_explicit)
    keyed = change_sessions(
        agents, lambda session: _with_fields(session, prompt_cache_key=session.name)
    )
    yield Workload(name="own key per session", sessions=keyed)
    one = change_sessions(agents, lambda session: _with_fields(session, prompt_cache_key="ours"))
    yield Workload(name="own key for all", sessions=one)
    users = Sessions(count, lambda index: _with_fields(agents[index], user=f"user-{index % 7}"))
    yield Workload(name="users named", sessions=users)


def _marker(places: tuple[int, ...]) -> Callable[[Json, str], Json]:
    """Marks the ends of those messages as the regime's callers do."""

    def add_cache_mark(body: Json, regime: str) -> Json:
        mark = _MARKS.get(regime)
        if mark is None:
            return body
        messages = list(body["messages"])
        for place in places:
            messages[place] = _with_mark(messages[place], mark)
        return {**body, "messages": messages}

    return add_cache_mark


def _with_mark(message: Json, mark: Json) -> Json:
    content = message["content"]
    if not isinstance(content, str) or message["role"] == "assistant":
        return message
    return {**message, "content": [{"type": "text", "text": content, **mark}]}


def _explicit(body: Json, regime: str) -> Json:
    """OpenAI's own choice switched off, the system text and the last message marked."""
    if regime != "openai-breakpoint":
        return body
    return {**_marker((0, -1))(body, regime), "prompt_cache_options": {"mode": "explicit"}}


def _with_fields(session: Session, **fields: object) -> Session:
    turns = tuple(replace(turn, body={**turn.body, **fields}) for turn in session.turns)
    return replace(session, turns=turns)


def small_workloads(count: int = 80) -> Iterator[Workload]:
    """Prompts around the least that caches keep."""
    for sections, least in ((4, "512"), (8, "1,024"), (17, "2,048"), (34, "4,096")):
        small = Agent(system=sections, tools=0, chats=True, steps=(2, 6))
        yield Workload(name=f"around {least} tokens", sessions=sessions(small, count, least))
    shots = Sessions(count * 3, lambda index: _single(f"u{index}", 3 + index % 7))
    yield Workload(name="one-shots around 1,024 tokens", sessions=shots)


def _single(name: str, sections: int) -> Session:
    system = said("system", handbook(sections, "small"))
    body = {"messages": [system, said("user", question(name))]}
    return Session(name=name, feature="small", turns=(SessionTurn(body=body),))


def unstable_workloads(count: int = 60) -> Iterator[Workload]:
    """Workloads whose usually constant parts change: tools, history, features, systems."""
    agents = sessions(Agent(), count, "changing")
    yield Workload(name="tools shuffled", sessions=change_sessions(agents, _with_shuffled_tools))
    yield Workload(name="tools grow", sessions=change_sessions(agents, _with_growing_tools))
    yield Workload(name="tools per session", sessions=change_sessions(agents, _with_own_tools))
    yield Workload(name="history cut", sessions=change_sessions(agents, _with_middle_left_out))
    yield Workload(name="features mixed", sessions=Sessions(2 * count, _mixed_session))
    yield Workload(name="helpers between", sessions=change_sessions(agents, _with_helper_calls))
    long_ = sessions(Agent(steps=(60, 60)), 8, "long")
    yield Workload(name="long sessions", sessions=long_, pace=Pace(at_once=2))


def changing_workloads(count: int = 60) -> Iterator[Workload]:
    """Conversations met midway, branches of one, and system texts that change now and then."""
    long_ = sessions(Agent(steps=(8, 14)), count, "grown")
    yield Workload(
        name="met midway",
        sessions=change_sessions(long_, lambda session: replace(session, turns=session.turns[4:])),
    )
    yield Workload(
        name="branches", sessions=Sessions(3 * count, lambda index: _branch(long_, index))
    )
    deployed = Sessions(count, lambda index: _with_rules(long_[index], f"version {index // 12}"))
    yield Workload(name="system text deployed anew", sessions=deployed)
    by_day = Sessions(count, lambda index: _with_rules(long_[index], made.clock(index // 5)))
    yield Workload(name="clock that moves slowly", sessions=by_day)
    each_own = Sessions(count, lambda index: _with_rules(long_[index], f"user {index % 9}"))
    yield Workload(name="user's facts in system", sessions=each_own)


def _branch(them: Sequence[Session], index: int) -> Session:
    """One of three continuations of a session's first four calls; the first holds those too."""
    one, other = them[index // 3], index % 3
    if not other:
        return one
    body = one.turns[4].body
    words = said("user", f"Now try it another way: {question(f'{one.name} branch {other}')}")
    turns = []
    for turn in one.turns[4:]:
        messages = turn.body["messages"]
        length = len(body["messages"])
        turns.append(
            replace(
                turn, body={**body, "messages": [*messages[:length], words, *messages[length:]]}
            )
        )
    return replace(one, name=f"{one.name} branch {other}", turns=tuple(turns))


def _with_rules(session: Session, words: str) -> Session:
    """The session with a line behind its system text, the same in all its calls."""
    turns = []
    for turn in session.turns:
        first, *rest = turn.body["messages"]
        system = {**first, "content": f"{first['content']}\n\n{words}"}
        turns.append(replace(turn, body={**turn.body, "messages": [system, *rest]}))
    return replace(session, turns=tuple(turns))


def _with_shuffled_tools(session: Session) -> Session:
    roll = dice("shuffled", session.name)
    turns = []
    for turn in session.turns:
        tools = list(turn.body["tools"])
        roll.shuffle(tools)
        turns.append(replace(turn, body={**turn.body, "tools": tools}))
    return replace(session, turns=tuple(turns))


def _with_growing_tools(session: Session) -> Session:
    """A tool more from every third call on."""
    every = made.tools(16)
    turns = [
        replace(turn, body={**turn.body, "tools": list(every[: 8 + index // 3])})
        for index, turn in enumerate(session.turns)
    ]
    return replace(session, turns=tuple(turns))


def _with_own_tools(session: Session) -> Session:
    """Each session has two tools of its own choice behind those of all."""
    own = dice("chosen", session.name).sample(made.tools(16)[8:], 2)
    tools = [*made.tools(8), *own]
    turns = [replace(turn, body={**turn.body, "tools": tools}) for turn in session.turns]
    return replace(session, turns=tuple(turns))


def _with_middle_left_out(session: Session) -> Session:
    """From the sixth call on, all but the first and the latest messages are left out."""
    turns = []
    for index, turn in enumerate(session.turns):
        messages = turn.body["messages"]
        if index >= 5:
            note = said(
                "user", f"Earlier steps, in short: {question(f'{session.name}{index // 4}')}"
            )
            messages = [*messages[:2], note, *messages[2 + 2 * (index // 4 * 4) :]]
        turns.append(replace(turn, body={**turn.body, "messages": messages}))
    return replace(session, turns=tuple(turns))


def _mixed_session(index: int) -> Session:
    """An agent, a chat with a tail, a small chat or a one-shot by turns; none names a feature."""
    kinds = (Agent(), TAILS["user tail, chat"], Agent(system=10, tools=0, chats=True))
    one = _single(f"m{index}", 12) if index % 2 else kinds[index // 2 % 3].session(f"mixed{index}")
    return replace(one, feature="")


def _with_helper_calls(session: Session) -> Session:
    """After every second call, a helper of the same feature is asked something of its own."""
    turns: list[SessionTurn] = []
    for index, turn in enumerate(session.turns):
        turns.append(turn)
        if index % 2:
            context = passages(f"{session.name}{index}", 6)
            text = f"{question(f'helper {session.name}/{index}')}\n\n{context}"
            system = said("system", handbook(10, "helper"))
            turns.append(SessionTurn(body={"messages": [system, said("user", text)]}))
    return replace(session, turns=tuple(turns))
