"""Signed content, such as thinking: which messages may be sent otherwise than they came.

::

    drops_signed   closed turns go with what is signed in them; the turn under way stays whole
    otherwise      nothing changes before signed content; what follows it stays as it came
    thinks too     nothing changes either until some answers came back without signed content

A caller that sends no thinking back, as most chat clients do, has nothing that could become
invalid. Whether it does is seen from its first answers, so each replica finds the same.

Source: Anthropic, preserved thinking and tool use; Google, thought signatures (2026-11).
"""

from itertools import islice
from typing import Final

import msgspec

from compaction.conversation_view import ConversationView
from compaction.cost_model import CompactionDecision, CompactionReason
from compaction.policy import CompactionPolicy
from compaction.reading.message import Voice

#: Answers without signed content after which the caller is taken to send none back.
MIN_UNSIGNED_ANSWERS: Final = 4


class ChangeableMessages(msgspec.Struct, frozen=True):
    """The messages that may be sent otherwise than they came.

    Attributes:
        start: The first of them.
        end: The first that may not; everything before it is free of what would become invalid.
    """

    start: int
    end: int

    def __contains__(self, index: int) -> bool:
        return self.start <= index < self.end

    def allows_compaction(self, point: int) -> bool:
        """True if what stands before a point may be compacted there."""
        return self.start <= point <= self.end

    def refusal(self, point: int) -> CompactionDecision:
        """The decision at a point where nothing may be compacted."""
        reason = CompactionReason.SIGNED if self.end < point else CompactionReason.THINKS
        return CompactionDecision(is_due=False, reason=reason, break_even=None)


def changeable_messages(
    conversation: ConversationView, policy: CompactionPolicy
) -> ChangeableMessages:
    """The messages of a conversation that may change."""
    messages = conversation.messages
    if policy.drops_signed:
        return ChangeableMessages(0, len(messages))
    end = next(iter(conversation.signed_indexes), len(messages))
    if policy.once and end < len(messages):  # decided now, after what is signed has come
        return ChangeableMessages(0, 0)
    if not policy.thinks:
        return ChangeableMessages(0, end)
    answers = (i for i in range(end) if messages[i].voice is Voice.ASSISTANT)
    last = next(islice(answers, MIN_UNSIGNED_ANSWERS - 1, None), None)
    return ChangeableMessages(len(messages) + 1 if last is None else last + 1, end)


def closed_turns_end(conversation: ConversationView, start: int, end: int, point: int) -> int:
    """The end of the part to compact, moved back to where a turn begins if anything is signed.

    Args:
        start: Start of the part.
        end: End of it, as it would be without signed content.
        point: Point of the decision; the turn under way there is not part of it.
    """
    if not conversation.has_signed_between(start, point):
        return end
    messages = conversation.messages
    live = conversation.last_user_message(point)
    end = start if live is None else min(end, live)
    while end > start and not (end < point and messages[end].voice is Voice.USER):
        end -= 1
    return end
