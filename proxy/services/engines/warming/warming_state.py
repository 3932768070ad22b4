"""The warming state of replicas: prompts that wait, that were read, and that calls used."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from proxy.calls.metering.finished_turn import FinishedTurn
from proxy.engines.warming.accounts import WarmingKind
from proxy.records.call import Call

#: Jobs that wait at a replica; older ones are dropped.
MAX_JOBS: Final = 16


class WarmedPrompt(NamedTuple):
    """A system prompt: a call with it as it is sent, and as its caller wrote it."""

    sent: Call
    written: Call


class CallNames(NamedTuple):
    """Names of a call's conversation and of its system prompt; b"" for none."""

    conversation: bytes
    prompt: bytes


@dataclass(frozen=True, slots=True)
class WarmingJob:
    """A prompt that is to be warmed at a replica.

    Attributes:
        template: The call whose key and team it is; its body is the prompt's, as it is sent.
        written: The same as its caller wrote it, by which calls are routed; None where the answer
            of the turn before it is not known in that form.
        key: Names the system prompt, or the conversation.
        tokens: Tokens that it will compute, as a guess.
        until: When it is too late.
        turn: The turn that it follows; None for a system prompt.
    """

    kind: WarmingKind
    template: Call
    written: Call | None
    key: bytes
    tokens: int
    until: float
    turn: FinishedTurn | None = None


@dataclass(slots=True)
class WarmedReplica:
    """A replica that may be warmed.

    Attributes:
        starts: Starts of it that were noticed.
        jobs: They, the next one last.
        stop: Ends the warming under way; None where there is none.
    """

    starts: int = 0
    jobs: deque[WarmingJob] = field(default_factory=lambda: deque(maxlen=MAX_JOBS))
    is_working: bool = False
    stop: asyncio.Event | None = None


def owned_key(call: Call, digest: bytes) -> bytes:
    """Names a prompt of a call's team, whose cache is its own."""
    return call.key.team.encode() + b"\0" + call.salt.encode() + b"\0" + digest


def conversation_key(call: Call, conversation: str) -> bytes:
    """Names a conversation of a call's team; b"" where it has no name."""
    return owned_key(call, conversation.encode()) if conversation else b""
