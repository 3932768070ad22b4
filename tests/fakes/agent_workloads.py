"""Well-built agents, and agents whose last messages vary from call to call; made up."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.fakes import messages as made
from tests.fakes.handbook import dice, handbook, question
from tests.fakes.messages import said, tool_call, tool_result
from tests.fakes.workloads import (
    ONE_BY_ONE,
    OVERLAPPING,
    Json,
    Pace,
    Session,
    Sessions,
    SessionTurn,
    Workload,
    change_sessions,
)

_SYSTEM_SECTIONS = 24
#: What stands behind the conversation in one call alone: of a session and the call's number.
Tail = Callable[[str, int], Sequence[Json]]


@dataclass(frozen=True, kw_only=True)
class Agent:
    """Describes the sessions of an agent.

    Attributes:
        system: Sections of its system text, of some 115 tokens each.
        tools: Definitions of tools.
        steps: Calls of a session, from and to.
        chats: Whether the user speaks between its calls in place of a tool.
        asks_every: Calls after which the user asks something new; 0 for none but the first.
        shows: Whether what the user says holds an image now and then.
        tail: What varies at the end.
        holds: Whether that stands behind the user's latest question, until there is a newer one.
        opens: Messages that begin every session.
    """

    system: int = _SYSTEM_SECTIONS
    tools: int = 8
    steps: tuple[int, int] = (5, 12)
    chats: bool = False
    asks_every: int = 0
    shows: bool = False
    tail: Tail | None = None
    holds: bool = False
    opens: Sequence[Json] = ()

    def session(self, name: str, feature: str = "agent") -> Session:
        """One session, the same for the same name."""
        return Session(name=name, feature=feature, turns=tuple(self._turns(name)))

    def _turns(self, name: str) -> Iterator[SessionTurn]:
        head = [said("system", handbook(self.system, "agent"))] if self.system else []
        fields = {"tools": list(made.tools(self.tools))} if self.tools else {}
        before, since = [*self.opens, self._user_message(name, 0)], list[Json]()
        tail: Sequence[Json] = ()
        for step in range(dice("steps", name).randint(*self.steps)):
            if self.tail and not (self.holds and since):
                tail = self.tail(name, step)
            end = [*tail, *since] if self.holds else [*since, *tail]
            answer = self._answer(name, step)
            yield SessionTurn(body={"messages": [*head, *before, *end], **fields}, reply=answer)
            since = [*since, answer]
            if not self._asks(step + 1):
                since = [*since, tool_result(step, made.output(f"{name}/{step}", 2 + step % 4))]
                continue
            before, since = [*before, *since, self._user_message(name, step + 1)], []

    def _asks(self, step: int) -> bool:
        """True if the user says something before this call, where else a tool does."""
        if self.chats or not self.tools:
            return True
        return bool(self.asks_every) and step % self.asks_every == 0

    def _user_message(self, name: str, step: int) -> Json:
        words = question(f"{name}/{step}")
        shown = self.shows and step % 3 == 0
        return said("user", made.picture(words, f"{name}{step}") if shown else words)

    def _answer(self, name: str, step: int) -> Json:
        if self._asks(step + 1):
            return said("assistant", f"Step {step}: {question(f'answer {name}/{step}')}")
        return tool_call(step, f"tools_{step % self.tools}", path=f"{name}/{step}")


def sessions(agent: Agent, count: int, seed: str = "") -> Sessions:
    """So many sessions of one agent."""
    return Sessions(count, lambda number: agent.session(f"{seed}{number}"))


def one_tail(role: str, text: Callable[[object, int], str] = made.environment) -> Tail:
    """One message of that role, other words with each call."""
    return lambda name, step: [said(role, text(name, step))]


def two_tails(name: str, step: int) -> Sequence[Json]:
    """A user's and a developer's message."""
    return [said("user", made.environment(name, step)), said("developer", made.clock(step))]


def three_tails(name: str, step: int) -> Sequence[Json]:
    """Three messages of a user."""
    words = (made.environment(name, step), made.reminder(name, step), made.clock(step))
    return [said("user", text) for text in words]


def some_tails(name: str, step: int) -> Sequence[Json]:
    """No message in every other call, else one to three."""
    return [] if step % 2 else three_tails(name, step)[: 1 + step // 2 % 3]


def some_developer_tails(name: str, step: int) -> Sequence[Json]:
    """A developer's message in two of three calls."""
    return [said("developer", made.environment(name, step))] if step % 3 else []


def same_tail(name: str, step: int) -> Sequence[Json]:
    """A reminder that always says the same, and moves along with the end."""
    return [said("user", made.reminder("always", 0))]


def _shown_tail(name: str, step: int) -> Sequence[Json]:
    return [said("user", made.picture(made.clock(step), f"screen {name}{step}"))]


def coding_agents(count: int = 60) -> Iterator[Workload]:
    """Long stable rules and tools, a history that only grows."""
    long_ = Agent(steps=(10, 24))
    yield Workload(name="agent, one by one", sessions=sessions(long_, count, "a"), pace=ONE_BY_ONE)
    yield Workload(name="agent, overlapping", sessions=sessions(long_, count, "b"))
    heavy = Agent(system=100, tools=16, steps=(2, 8))
    yield Workload(
        name="long rules, one by one", sessions=sessions(heavy, count, "e"), pace=ONE_BY_ONE
    )
    yield Workload(name="long rules, overlapping", sessions=sessions(heavy, count, "f"))
    many = Pace(at_once=50)
    yield Workload(name="agent, 50 at once", sessions=sessions(Agent(), 60, "c"), pace=many)
    words = Agent(tools=0, chats=True)
    yield Workload(name="chat, overlapping", sessions=sessions(words, count, "d"))


def keyed_agents(count: int = 60) -> Iterator[Workload]:
    """Sessions of Codex's shape, each with a cache key and a folder of its own."""
    short, long_ = Agent(system=64, steps=(1, 3)), Agent(system=64, steps=(10, 24))
    bursts = Pace(burst=12, pause_s=90.0, pause_every=12)
    kinds = {
        "one by one": (long_, ONE_BY_ONE),
        "overlapping": (long_, OVERLAPPING),
        "in bursts": (long_, bursts),
        "short": (short, OVERLAPPING),
        "short, in bursts": (short, bursts),
    }
    for name, (agent, pace) in kinds.items():
        with_keys = change_sessions(sessions(agent, count, f"codex {name}"), with_session_key)
        yield Workload(name=f"Codex's keys, {name}", sessions=with_keys, pace=pace)


def with_session_key(session: Session) -> Session:
    """The session as Codex sends it: its instructions, its folder, and a key of its own."""
    turns = []
    for turn in session.turns:
        system, *rest = turn.body["messages"]
        rules = f"You are Codex, an agent based on GPT-5.\n{system['content']}"
        folder = said("user", f"<environment_context>/home/{session.name}</environment_context>")
        messages = [said("developer", rules), folder, *rest]
        key = f"session {session.name}"
        body = {**turn.body, "messages": messages, "prompt_cache_key": key}
        turns.append(SessionTurn(body=body, reply=turn.reply))
    return Session(name=session.name, feature="codex", turns=tuple(turns))


#: Little stands before the conversation, so that is what is read or not.
_SMALL: dict[str, Any] = {"system": 2, "tools": 2, "steps": (10, 24)}
_SMALL_TAILS = {
    "user tail": Agent(tail=one_tail("user")),
    "developer tail": Agent(tail=one_tail("developer")),
    "system tail, images": Agent(asks_every=3, shows=True, tail=one_tail("system")),
    "developer tail, chat": Agent(chats=True, tail=one_tail("developer")),
    "two tails held": Agent(asks_every=3, holds=True, tail=two_tails),
    "developer tail held": Agent(asks_every=3, holds=True, tail=one_tail("developer")),
    "tails now and then": Agent(tail=some_tails),
    "developer tails now and then": Agent(tail=some_developer_tails, asks_every=4),
}
#: What varies at the end, by name.
TAILS: dict[str, Agent] = {
    "user tail, chat": Agent(chats=True, tail=one_tail("user")),
    "user tail, tools": Agent(tail=one_tail("user")),
    "developer tail, tools": Agent(tail=one_tail("developer")),
    "system tail, chat": Agent(chats=True, tail=one_tail("system", made.reminder)),
    "system tail, tools": Agent(tail=one_tail("system")),
    "two tails, tools": Agent(tail=two_tails),
    "three tails, chat": Agent(chats=True, tail=three_tails),
    "tails now and then": Agent(tail=some_tails),
    "same tail": Agent(tail=same_tail),
    "image tail": Agent(tail=_shown_tail, chats=True, shows=True),
    "user tail held, tools": Agent(asks_every=3, holds=True, tail=one_tail("user")),
    "developer tail held, tools": Agent(asks_every=3, holds=True, tail=one_tail("developer")),
    "three tails held, tools": Agent(asks_every=4, holds=True, shows=True, tail=three_tails),
    "user tail, tools, images": Agent(asks_every=3, shows=True, tail=one_tail("user")),
    "tails now and then, held": Agent(asks_every=2, holds=True, tail=some_tails),
    "developer tail, long": Agent(steps=(40, 60), tail=one_tail("developer")),
    **{f"{name}, small system": replace(agent, **_SMALL) for name, agent in _SMALL_TAILS.items()},
    "short chat, user tail": Agent(chats=True, tools=0, system=12, tail=one_tail("user")),
}


def tailed_agents(count: int = 60) -> Iterator[Workload]:
    """Agents whose last messages vary, and are gone or replaced in the next call."""
    for name, agent in TAILS.items():
        yield Workload(name=name, sessions=sessions(agent, count, name), pace=OVERLAPPING)
    within = Agent(chats=True)
    yield Workload(
        name="tail within the message",
        sessions=change_sessions(sessions(within, count, "w"), with_note),
    )
    one = sessions(TAILS["user tail, tools"], count, "o")
    yield Workload(name="user tail, one by one", sessions=one, pace=ONE_BY_ONE)


def with_note(session: Session) -> Session:
    """The session with the time added to the last message of each call, there alone."""
    turns = []
    for number, turn in enumerate(session.turns):
        *before, last = turn.body["messages"]
        noted = {**last, "content": f"{last['content']}\n\n{made.clock(number)}"}
        turns.append(
            SessionTurn(body={**turn.body, "messages": [*before, noted]}, reply=turn.reply)
        )
    return Session(name=session.name, feature=session.feature, turns=tuple(turns))
