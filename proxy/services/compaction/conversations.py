"""How conversations were sent last, so that each move of a prefix is known as one of ours; pure.

Folded or as it came, by one policy or another, for whatever reason: what begins otherwise than the
call before it is a reset, and says so.
"""

from typing import Final

import msgspec

from compaction.policy import CompactionPolicy
from proxy.prefix.prompts.recent import LruCache
from proxy.records.call import Call
from proxy.records.compaction_result import CompactionResult
from proxy.records.origin import Origin
from proxy.services.compaction.body import Talk

#: Conversations remembered.
_TALKS: Final = 50_000


class Now(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent at a call.

    Attributes:
        fold: What is sent, as far as the call itself tells.
        talk: The conversation.
        policy: By which policy; None for as it came, whatever was decided.
        at: When, in seconds since the epoch.
        lives: Seconds that a cache keeps what was sent.
    """

    fold: CompactionResult
    talk: Talk
    policy: CompactionPolicy | None
    at: float
    lives: float


class _Sent(msgspec.Struct, frozen=True):
    """How a conversation was sent last."""

    policy: CompactionPolicy | None
    is_folded: bool
    at: float


class Talks:
    """How the conversations of one process were sent last."""

    def __init__(self) -> None:
        self._sent: LruCache[bytes, _Sent] = LruCache(_TALKS)

    def noted(self, came: Call, now: Now) -> CompactionResult:
        """What is sent, with what is known of how its conversation was sent before.

        What its newest tool calls needed tells nothing where they were written with the
        conversation sent otherwise than now: it counts for neither.

        Args:
            came: The call as it came.
            now: What is sent of it.
        """
        fold, before = now.fold, self._sent.peek(now.talk.name)
        fold = msgspec.structs.replace(fold, conversation=now.talk.name)
        self._sent.put(now.talk.name, _Sent(now.policy, fold.is_folded, now.at))
        if before is None:
            return fold
        fold = msgspec.structs.replace(fold, is_warm=now.at - before.at <= now.lives)
        if before.is_folded is not fold.is_folded:
            fold = msgspec.structs.replace(fold, needed=0, lost=0)
        moved = before.policy != now.policy and (before.is_folded or fold.is_folded)
        return _moved(fold, came, now.talk) if moved and not fold.reset else fold


def _moved(fold: CompactionResult, came: Call, talk: Talk) -> CompactionResult:
    """A prompt that begins otherwise than it did before, for another reason than a fold."""
    sent = fold.call(came)
    origin = Origin(messages=talk.messages, turns=talk.turns, reset=True)
    sent = msgspec.structs.replace(sent, origin=origin)
    return msgspec.structs.replace(fold, reset=True, sent=sent)
