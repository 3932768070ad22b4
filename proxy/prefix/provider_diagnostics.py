"""Asks providers why their cache missed, by the id of a conversation's latest answer.

Kept for one process: a conversation that meets another one asks nothing there the first time.
"""

from typing import Final

import msgspec

from proxy.prefix.breakpoints.plan import ExperimentArm
from proxy.prefix.explain.diagnostics import diagnostics_question
from proxy.prefix.planned import Planned
from proxy.prefix.prompts.recent import LruCache

#: Seconds an upstream is asked nothing once it refused a call that asked.
RETRY_AFTER_S: Final = 3_600.0
#: OpenAI refuses it beside the options that carry the question.
_RETENTION: Final = "prompt_cache_retention"
_RESPONSES: Final = "responses"
_STORE: Final = "store"
#: Upstreams whose refusals are remembered.
_UPSTREAMS: Final = 256


class _Answer(msgspec.Struct, frozen=True, gc=False):
    """The latest answer of a conversation: its id, and how many the call held that got it."""

    id: str
    turns: int


class ProviderDiagnostics:
    """Asks providers why their caches missed; some 300 bytes a conversation.

    Conversations are told apart by keyed hashes of their team's, so that nobody's call can name
    the answer of another team.

    Args:
        most: Conversations remembered.
    """

    def __init__(self, most: int = 20_000) -> None:
        self._latest: LruCache[tuple[bytes, str], _Answer] = LruCache(most)
        self._resting: LruCache[str, float] = LruCache(_UPSTREAMS)

    def __len__(self) -> int:
        return len(self._latest)

    def add_question(self, planned: Planned, now: float) -> Planned:
        """The call with a question about the answer before it; as it is where there is none.

        The control arm, which goes unmodified, asks nothing; nor does a call whose caller asks.
        """
        way, said = planned.way, planned.prompt.fields
        rests = (self._resting.peek(way.upstream) or 0.0) > now
        if rests or planned.plan.arm is ExperimentArm.CONTROL or not _can_ask(planned):
            return planned
        if said.get(_RETENTION, b"null") != b"null":
            return planned
        found = diagnostics_question(way.asks, self._previous(planned))
        if found is None or found.merged_value(said.get(found.field, b"null")) is None:
            return planned
        return msgspec.structs.replace(planned, question=found)

    def record_answer(self, planned: Planned, answer: str) -> None:
        """Remember what the provider calls the answer to a call.

        Not where the call ended in what no later call repeats: the provider would call that the
        difference. Nor where it is not stored, for then it cannot be compared with.
        """
        if planned.way.asks and answer:
            named = "" if planned.prompt.tail or not _can_ask(planned) else answer
            self._latest.put(_key(planned), _Answer(named, planned.draft.turns))

    def record_refusal(self, planned: Planned, now: float) -> bool:
        """True if a refused call asked; then its upstream is asked nothing for a while."""
        if planned.question is None:
            return False
        self._resting.put(planned.way.upstream, now + RETRY_AFTER_S)
        return True

    def _previous(self, planned: Planned) -> str:
        """The answer that the call goes on from; "" where it is not known."""
        latest = self._latest.get(_key(planned))
        goes_on = latest is not None and latest.turns < planned.draft.turns
        return latest.id if latest is not None and goes_on else ""


def _can_ask(planned: Planned) -> bool:
    """True if the call's route can be asked; OpenAI compares stored responses alone."""
    is_kept = planned.prompt.fields.get(_STORE, b"null").strip() != b"false"
    return is_kept if planned.way.asks == _RESPONSES else bool(planned.way.asks)


def _key(planned: Planned) -> tuple[bytes, str]:
    return planned.draft.conversation, planned.way.upstream
