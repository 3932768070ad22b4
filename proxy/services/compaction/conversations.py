"""Tracks conversations: whether each call extends the last, and cool-downs after a refusal; pure.

A call whose prompt does not begin with the last one's, compacted or not, is a reset and is reported
as such. One conversation that an upstream refuses may be a special case; several mean that the
feature is at fault.
"""

from typing import Final

import msgspec

from compaction.policy import CompactionPolicy
from proxy.records.call import Call, UncompactedConversation
from proxy.records.compaction_result import CompactionResult
from proxy.records.lru_cache import LruCache
from proxy.services.compaction.chat_body import ConversationIdentity
from proxy.services.compaction.live_quality import Place

#: Conversations remembered.
_MAX_CONVERSATIONS: Final = 50_000


class SentConversation(msgspec.Struct, frozen=True, kw_only=True):
    """The conversation as it is sent at a call.

    Attributes:
        result: Compaction as sent, as far as the call itself tells.
        policy: By which policy; None for unmodified, whatever was decided.
        at: Time of the call, in seconds since the epoch.
        cache_lifetime_s: Seconds that a cache keeps what was sent.
    """

    result: CompactionResult
    conversation: ConversationIdentity
    policy: CompactionPolicy | None
    at: float
    cache_lifetime_s: float


class _Sent(msgspec.Struct, frozen=True):
    """The way a conversation was sent last.

    Attributes:
        policy: Hash of its policy, of which equal ones compact alike; None for unmodified.
    """

    policy: int | None
    is_compacted: bool
    at: float


class ConversationTracker:
    """Tracks how the conversations of one process were sent last.

    50,000 of them take 11 MB at most: their names are digests.
    """

    def __init__(self) -> None:
        self._sent: LruCache[bytes, _Sent] = LruCache(_MAX_CONVERSATIONS)

    def track(self, came: Call, now: SentConversation) -> CompactionResult:
        """Adds to a result whether the conversation's prefix changed since its last call.

        What its newest tool calls needed tells nothing where they were written with the
        conversation sent otherwise than now: it counts for neither.
        """
        result, before = now.result, self._sent.peek(now.conversation.name)
        policy = None if now.policy is None else hash(now.policy)
        result = msgspec.structs.replace(result, conversation=now.conversation.name)
        self._sent.put(now.conversation.name, _Sent(policy, result.is_compacted, now.at))
        if before is None:
            return result
        result = msgspec.structs.replace(result, is_warm=now.at - before.at <= now.cache_lifetime_s)
        if before.is_compacted is not result.is_compacted:
            result = msgspec.structs.replace(result, needed=0, lost=0)
        moved = before.policy != policy and (before.is_compacted or result.is_compacted)
        return (
            _changed_prefix_result(result, came, now.conversation)
            if moved and not result.reset
            else result
        )


def _changed_prefix_result(
    result: CompactionResult, came: Call, conversation: ConversationIdentity
) -> CompactionResult:
    """The result for a prompt whose prefix changed for another reason than a compaction."""
    sent_call = result.call(came)
    origin = UncompactedConversation(
        messages=conversation.messages, turns=conversation.turns, reset=True
    )
    sent_call = msgspec.structs.replace(sent_call, origin=origin)
    return msgspec.structs.replace(result, reset=True, sent=sent_call)


#: Seconds that it is left alone, and within which conversations are counted.
COOL_DOWN_S: Final = 600.0
#: Conversations of a feature after which it is left alone altogether.
REFUSALS_TO_COOL_FEATURE: Final = 3
_MAX_FEATURES: Final = 1_024
_MAX_COOLING_CONVERSATIONS: Final = 8_192


class CoolDowns:
    """The times until which conversations and features cool down, in seconds since the epoch.

    They take 2 MB at most: a feature's name has 128 characters, and it keeps two conversations.
    """

    def __init__(self) -> None:
        self._cooling_down: LruCache[bytes, float] = LruCache(_MAX_COOLING_CONVERSATIONS)
        self._features: LruCache[Place, float] = LruCache(_MAX_FEATURES)
        self._refused: LruCache[Place, dict[bytes, float]] = LruCache(_MAX_FEATURES)

    def record_refusal(self, place: Place, conversation: bytes, now: float) -> bool:
        """Cools a conversation down; returns whether its whole feature cools down from now on.

        Args:
            conversation: Its name; b"" where unknown, and the feature stands for it.
        """
        self._cooling_down.put(conversation, now + COOL_DOWN_S)
        before = self._refused.get(place) or {}
        lately = {name: time for name, time in before.items() if now - time < COOL_DOWN_S}
        lately[conversation] = now
        is_all = not conversation or len(lately) >= REFUSALS_TO_COOL_FEATURE
        if is_all:
            self._features.put(place, now + COOL_DOWN_S)
            lately = {}
        self._refused.put(place, lately)
        return is_all

    def is_feature_cooling(self, place: Place, now: float) -> bool:
        """True if a feature is left alone."""
        return (self._features.peek(place) or 0.0) > now

    def is_conversation_cooling(self, name: bytes, now: float) -> bool:
        """True if a conversation is left alone."""
        return (self._cooling_down.peek(name) or 0.0) > now
