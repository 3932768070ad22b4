"""What a conversation's latest answer was called, so that the next call can ask about it.

Kept for one process: a conversation that meets another one asks nothing there the first time.
"""

from typing import Final

import msgspec

from proxy.prefix.diagnostics import question
from proxy.prefix.plan import Arm
from proxy.prefix.planned import Planned
from proxy.prefix.recent import Recent

#: Seconds an upstream is asked nothing once it refused a call that asked.
REST: Final = 3_600.0
#: OpenAI refuses it beside the options that carry the question.
_RETENTION: Final = "prompt_cache_retention"
#: Upstreams whose refusals are remembered.
_UPSTREAMS: Final = 256


class _Answer(msgspec.Struct, frozen=True, gc=False):
    """The latest answer of a conversation: its id, and how many the call held that got it."""

    id: str
    turns: int


class Questions:
    """Asks providers why their caches missed; some 300 bytes a conversation.

    Conversations are told apart by keyed hashes of their team's, so that nobody's call can name
    the answer of another team.

    Args:
        most: Conversations remembered.
    """

    def __init__(self, most: int = 20_000) -> None:
        self._latest: Recent[tuple[bytes, str], _Answer] = Recent(most)
        self._resting: Recent[str, float] = Recent(_UPSTREAMS)

    def __len__(self) -> int:
        return len(self._latest)

    def asked(self, planned: Planned, now: float) -> Planned:
        """The call with a question about the answer before it; as it is where there is none.

        The control arm, which goes as it came, asks nothing.
        """
        way = planned.way
        rests = (self._resting.peek(way.upstream) or 0.0) > now
        if not way.asks or rests or planned.plan.arm is Arm.CONTROL:
            return planned
        if planned.prompt.fields.get(_RETENTION, b"null") != b"null":
            return planned
        found = question(way.asks, self._previous(planned))
        return msgspec.structs.replace(planned, question=found) if found is not None else planned

    def answered(self, planned: Planned, answer: str) -> None:
        """Remember what the provider calls the answer to a call.

        Not where the call ended in what no later call repeats: the provider would call that the
        difference.
        """
        if planned.way.asks and answer:
            named = "" if planned.prompt.tail else answer
            self._latest.put(_key(planned), _Answer(named, planned.draft.turns))

    def refused(self, planned: Planned, now: float) -> bool:
        """Whether a refused call asked; then its upstream is asked nothing for a while."""
        if planned.question is None:
            return False
        self._resting.put(planned.way.upstream, now + REST)
        return True

    def _previous(self, planned: Planned) -> str:
        """The answer that the call goes on from; "" where it is not known."""
        latest = self._latest.get(_key(planned))
        goes_on = latest is not None and latest.turns < planned.draft.turns
        return latest.id if latest is not None and goes_on else ""


def _key(planned: Planned) -> tuple[bytes, str]:
    return planned.draft.conversation, planned.way.upstream
