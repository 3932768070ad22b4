"""The demo's calls and their order: conversations of three applications, interleaved."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count as numbers
from itertools import cycle
from typing import Any

from proxy.tools.demo.coding import agents
from proxy.tools.demo.conversation import DemoConversation, Script, seeded_random
from proxy.tools.demo.report import reports
from proxy.tools.demo.support import chats

#: This many calls in a row belong to different conversations, so they may run at the same time.
APART = 4

_OPEN = 10
_SUPPORT_MODELS = ("gpt-5.4-mini", "gpt-5.6-terra")
_CODING_MODELS = ("claude-sonnet-5-5", "gpt-5.5")
_REPORT_MODELS = ("gpt-5.6-terra", "gpt-5.5")
#: Weight of each application among new conversations; a coding agent's are the longest.
_MIX = ("support", "coding", "support", "report", "support", "coding", "report", "support")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCall:
    """One call of the plan.

    Its body is made when it is asked for, from the answers that have come by then: wait for the
    answer to the conversation's turn before. Where none came, the script goes on without it.

    Attributes:
        number: Its place in the plan, from 0.
        conversation: Conversation that it is a part of.
        turn: Number of the call in the conversation, from 0.
        at: Time on the application's clock.
        streamed: True if its answer is wanted as a stream.
    """

    number: int
    conversation: DemoConversation
    turn: int
    at: datetime
    streamed: bool

    @property
    def team(self) -> str:
        """The team that pays."""
        return self.conversation.script.team

    @property
    def feature(self) -> str:
        """The feature that calls."""
        return self.conversation.script.feature

    @property
    def model(self) -> str:
        """The public model name."""
        return self.conversation.script.model

    def body(self) -> dict[str, Any]:
        """Keyword arguments for ``client.chat.completions.create``."""
        asked = self.conversation.body(self.turn, self.at)
        how: dict[str, Any] = {"model": self.model, "stream": self.streamed}
        if self.streamed:
            how["stream_options"] = {"include_usage": True}
        if asked.get("tools") and self.model.startswith("gpt-"):
            how["reasoning_effort"] = "none"  # beside tools, GPT-5.4 and later take no other
        return {**how, **asked}

    def record_answer(self, message: Mapping[str, Any]) -> None:
        """Give the assistant's message back to the conversation, for its next turn."""
        self.conversation.record_answer(self.turn, message)


def calls(*, start: datetime, seed: int = 2, count: int = 200) -> Iterator[PlannedCall]:
    """The calls of the plan in the order they are made; half are streamed.

    The same arguments give the same plan. Conversations still open at the end are cut off, as they
    are whenever one looks at a piece of traffic.

    Args:
        start: Time on the applications' clocks at the first call, in UTC.
        seed: Another seed gives other conversations in another order.
        count: Number of calls.
    """
    roll = seeded_random(seed, "order")
    coming = _conversations(seed)
    waiting = deque((next(coming), 0) for _ in range(_OPEN))
    busy: deque[tuple[DemoConversation, int] | None] = deque([None] * (APART - 1))
    at = start
    for number in range(count):
        place = roll.randrange(len(waiting))
        conversation, turn = waiting[place]
        del waiting[place]
        yield PlannedCall(
            number=number, conversation=conversation, turn=turn, at=at, streamed=number % 2 == 0
        )
        done = turn + 1 == conversation.script.length
        busy.append((next(coming), 0) if done else (conversation, turn + 1))
        if free := busy.popleft():
            waiting.append(free)
        at += timedelta(seconds=roll.randrange(3, 30))


def _conversations(seed: int) -> Iterator[DemoConversation]:
    """Conversations of all three applications, without end."""
    sources = {
        "support": _endless(chats, f"{seed}/support", _SUPPORT_MODELS),
        "coding": _endless(agents, f"{seed}/coding", _CODING_MODELS),
        "report": _endless(reports, f"{seed}/report", _REPORT_MODELS),
    }
    for number, kind in enumerate(cycle(_MIX)):
        yield DemoConversation(f"{kind}-{number}", next(sources[kind]))


def _endless(
    made: Callable[[str, Sequence[str]], Sequence[Script]], seed: str, models: Sequence[str]
) -> Iterator[Script]:
    """All scripts of one application, again and again with other customers, users and orders."""
    for lap in numbers():
        yield from made(f"{seed}/{lap}", models)
