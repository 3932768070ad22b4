"""The demo's calls in order of time, from the conversations of three applications."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from heapq import heappop, heappush, merge
from itertools import count as numbers
from itertools import islice
from typing import Any

from proxy.tools.demo.coding import agents
from proxy.tools.demo.conversation import DemoConversation, Script, seeded_random
from proxy.tools.demo.support import PromptOrder, chats


@dataclass(frozen=True, slots=True, kw_only=True)
class _Application:
    """Conversations of one kind, one after the other and beside each other.

    Attributes:
        scripts: All of its scripts, in an order that a seed decides.
        every_s: Seconds from the start of one conversation to that of the next.
        pause_s: Fewest and most seconds from one call to the next of a conversation.
    """

    kind: str
    scripts: Callable[[str], Sequence[Script]]
    every_s: int
    pause_s: tuple[int, int]


#: The model of both chats, so that what differs between them is how their prompts are built.
_CHAT_MODEL = "gpt-5.6-terra"
#: People read and write between calls; an agent's tools take seconds.
_APPLICATIONS = (
    _Application(
        kind="support",
        scripts=partial(chats, model=_CHAT_MODEL),
        every_s=60,
        pause_s=(15, 90),
    ),
    _Application(
        kind="docs",
        scripts=partial(
            chats,
            model=_CHAT_MODEL,
            order=PromptOrder.SHARED_PREFIX,
            place=("acme-docs", "docs-chat"),
        ),
        every_s=120,
        pause_s=(15, 90),
    ),
    _Application(
        kind="coding",
        scripts=partial(agents, model="claude-sonnet-5-5"),
        every_s=360,
        pause_s=(4, 40),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCall:
    """One call of the plan.

    Its body is made when it is asked for, from the answers that have come by then: wait for the
    answer to the conversation's turn before. Where none came, the script goes on without it.

    Attributes:
        turn: Number of the call in the conversation, from 0.
    """

    number: int
    conversation: DemoConversation
    turn: int
    time: datetime
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
        body = self.conversation.body(self.turn, self.time)
        how: dict[str, Any] = {"model": self.model, "stream": self.streamed}
        if self.streamed:
            how["stream_options"] = {"include_usage": True}
        if body.get("tools") and self.model.startswith("gpt-"):
            how["reasoning_effort"] = "none"  # beside tools, GPT-5.4 and later take no other
        return {**how, **body}

    def record_answer(self, message: Mapping[str, Any]) -> None:
        """Give the assistant's message back to the conversation, for its next turn."""
        self.conversation.record_answer(self.turn, message)


def calls(*, start: datetime, seed: int = 2, count: int = 200) -> Iterator[PlannedCall]:
    """The calls of the plan in the order they are made; half are streamed.

    The same arguments give the same plan. Conversations still open at the end are cut off, as they
    are whenever one looks at a piece of traffic.
    """
    turns = merge(
        *(_turns(application, f"{seed}/{application.kind}") for application in _APPLICATIONS),
        key=lambda turn: turn[0],
    )
    for number, (seconds, _, conversation, turn) in enumerate(islice(turns, count)):
        yield PlannedCall(
            number=number,
            conversation=conversation,
            turn=turn,
            time=start + timedelta(seconds=seconds),
            streamed=number % 2 == 0,
        )


#: Seconds from the start, number of the conversation, the conversation, number of the call in it.
_Turn = tuple[float, int, DemoConversation, int]


def _turns(application: _Application, seed: str) -> Iterator[_Turn]:
    """The calls of an application by their time, without end."""
    open_turns: list[_Turn] = []
    for number, script in enumerate(_endless(application.scripts, seed)):
        began = number * application.every_s
        while open_turns and open_turns[0][0] <= began:
            yield heappop(open_turns)
        conversation = DemoConversation(f"{application.kind}-{number}", script)
        pauses, second = seeded_random(seed, "pauses", number), float(began)
        for turn in range(script.length):
            heappush(open_turns, (second, number, conversation, turn))
            second += pauses.uniform(*application.pause_s)


def _endless(scripts: Callable[[str], Sequence[Script]], seed: str) -> Iterator[Script]:
    """All scripts of one application, again and again with other customers, users and orders."""
    for lap in numbers():
        yield from scripts(f"{seed}/{lap}")
