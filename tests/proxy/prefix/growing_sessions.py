"""Sessions that begin alike and grow, planned in turn."""

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest

from proxy.prefix.planned import Planned, PlanningRequest
from tests.proxy.prefix.planning_requests import (
    RULES,
    TARGETS,
    Json,
    PlanningProcess,
    body,
    chat_message,
    planning_request,
)

MANY = 50
WAY = TARGETS["openai-interval"]
SYSTEM = chat_message("system", RULES)

#: What an agent says at the beginning of each of its sessions.
REMINDERS = [
    chat_message("user", f"<reminder>Rule {number} of this house.</reminder>")
    for number in (1, 2, 3)
]
Session = list[PlanningRequest]


def session_messages(first: Sequence[Json], name: str, calls: int = 6) -> list[list[Json]]:
    """The messages of a session's calls, each with one more answer of its own."""
    talk = [SYSTEM, *first]
    calls_messages = []
    for turn in range(calls):
        calls_messages.append(list(talk))
        talk += [
            chat_message("assistant", f"{name}: step {turn}."),
            chat_message("user", f"{name}: on to {turn}."),
        ]
    return calls_messages


def sessions(first: Callable[[str], Sequence[Json]], many: int = MANY) -> list[Session]:
    """Sessions that say nothing of themselves but with their messages."""
    names = [f"Session {number}" for number in range(many)]
    return [
        [planning_request(body(*message)) for message in session_messages(first(name), name)]
        for name in names
    ]


def interleave(every: Sequence[Session]) -> Iterable[tuple[int, int, PlanningRequest]]:
    """The calls of sessions in turns, as session, number and call."""
    for turn, calls in enumerate(zip_longest(*every)):
        for session, call in enumerate(calls):
            if call is not None:
                yield session, turn, call


def plan_sessions(
    every: Sequence[Session],
    *processes: PlanningProcess,
    sooner: Iterable[tuple[int, int, PlanningRequest]] = (),
) -> list[list[Planned]]:
    """Return how the calls of each session were planned; processes take turns within a session."""
    planned_sessions: list[list[Planned]] = [[] for _ in every]
    for session, turn, call in sooner or interleave(every):
        planned_sessions[session].append(
            processes[(turn + session) % len(processes)].plan_and_settle(call)
        )
    return planned_sessions


def names(planned_calls: Sequence[Planned], since: int = 0) -> set[bytes]:
    return {planned.draft.conversation for planned in planned_calls[since:]}


def are_apart(sessions: Sequence[Sequence[Planned]], since: int = 0) -> bool:
    """True if each is one conversation from a call on, and no two are the same."""
    every = [names(session, since) for session in sessions]
    return all(len(session_names) == 1 for session_names in every) and len(
        set[bytes]().union(*every)
    ) == len(every)


def process(share: float = 0.0) -> PlanningProcess:
    return PlanningProcess(WAY, share=share)


def both() -> tuple[PlanningProcess, PlanningProcess]:
    """Two replicas that share a store."""
    plans: dict[str, bytes] = {}
    return PlanningProcess(WAY, plans=plans), PlanningProcess(WAY, plans=plans)
