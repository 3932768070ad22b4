"""The entry point of the package: turns a chat's messages into the shorter list that is sent.

The result depends on the messages and the policy alone, so every process computes the same, also
after a restart. As a conversation grows, each result begins with the one before, until the next
compaction; so the provider's prompt cache keeps hitting.
"""

from bisect import bisect
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import msgspec
import orjson

from compaction.conversation_view import view_conversation
from compaction.facts.fact import Fact, Segment
from compaction.losses import lost_values, needed_values_evidence
from compaction.memory import CompactionMemory, CompactionState
from compaction.planner import CompactionPlanner
from compaction.policy import CompactionMode, CompactionPolicy
from compaction.quality_evidence import QualityEvidence
from compaction.reading.message import Count
from compaction.reading.prefix_digests import prefix_digests
from compaction.reading.token_estimate import estimate_tokens
from compaction.recall.removed_messages import RemovedMessages

#: Version of the algorithm: changes whenever the same conversation is compacted to other bytes.
ALGORITHM_VERSION: Final = 19
_UNTOUCHED: Final = frozenset({CompactionMode.OFF, CompactionMode.NATIVE})


class CompactedChat(msgspec.Struct, frozen=True, kw_only=True):
    """The chat that is sent, with the reason.

    Attributes:
        messages: In place of the caller's; its own objects where they are unmodified.
        changed: True if anything is sent otherwise than it came.
        origins: The place of each message in the caller's list; -1 for a segment.
        reason: Code of the reason for compacting at this call or not.
        last_compacted_why: Reason for compacting its newest part, now or earlier; "" for none.
        tokens_before: Tokens of the caller's prompt.
        tokens_after: Tokens of what is sent.
        compacted_messages: Messages that segments stand for.
        segments: Segments that replace them.
        cut_results: Results of which head and tail are sent, once they were shown whole.
        reset: True if this is the first call after a compaction, or after results were cut: its
            prefix moves, once.
        break_even: Calls that pay a compaction back, at this call; None where none do or none was
            due.
        evidence: Evidence of what the newest tool calls needed of the compacted part.
        removed: Messages that segments stand for, where the model may recall them; else None.
        lost: Names in the compacted part that are missing from what is sent; only where that was
            asked.
    """

    messages: tuple[bytes, ...]
    changed: bool
    reason: str
    tokens_before: int
    tokens_after: int
    compacted_messages: int = 0
    segments: tuple[Segment, ...] = ()
    origins: tuple[int, ...] = ()
    cut_results: int = 0
    reset: bool = False
    break_even: float | None = None
    evidence: QualityEvidence | None = None
    lost: tuple[str, ...] = ()
    last_compacted_why: str = ""
    removed: RemovedMessages | None = None

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All that the segments say."""
        return tuple(fact for segment in self.segments for fact in segment.facts)


class ConversationContext(msgspec.Struct, frozen=True, kw_only=True):
    """The scope, fixed tokens and token counter of a conversation.

    Attributes:
        scope: Whose it is; nothing that is known of others' is looked at.
        fixed: Tokens of what stands before the messages: the tools.
        count: Returns the number of tokens in a text.
    """

    scope: bytes = b""
    fixed: int = 0
    count: Count = estimate_tokens


_NO_CONTEXT: Final = ConversationContext()


def compact(
    raws: Sequence[bytes],
    policy: CompactionPolicy,
    *,
    memory: CompactionMemory,
    context: ConversationContext = _NO_CONTEXT,
    names_lost: bool = False,
) -> CompactedChat:
    """Compacts the messages.

    Args:
        raws: Each message of a chat as JSON.
        memory: Memory of earlier calls; conversations share nothing but time in it.
        names_lost: True to say what is lost, which takes long.

    Raises:
        CannotCompactError: If it has to be sent unmodified; says why.
    """
    messages = memory.parsed_messages.messages(raws, context.count, context.scope)
    if policy.mode in _UNTOUCHED:
        tokens = context.fixed + sum(message.tokens for message in messages)
        return CompactedChat(
            messages=tuple(raws),
            changed=False,
            reason=policy.mode.value,
            tokens_before=tokens,
            tokens_after=tokens,
        )
    conversation = view_conversation(messages)
    keys = prefix_digests(
        [message.digest for message in messages], _conversation_root(policy, context)
    )
    planner = CompactionPlanner(
        conversation=conversation,
        policy=policy,
        fixed=context.fixed,
        count=context.count,
        keys=keys,
        segments=memory.segments,
        find=memory.text_analyses.analyzer_for(context.scope),
        scope=context.scope,
    )
    before = _longest_known_state(memory, planner)
    states = list(planner.states(before or planner.initial_state()))
    for state in states:  # one that is edited later goes on from its last compaction
        memory.keep(planner.prefix_key(state.suffix.end), state)
    return _compacted_chat(planner, states[-1], names_lost=names_lost)


def _conversation_root(policy: CompactionPolicy, context: ConversationContext) -> bytes:
    """The digest root: equal messages under another policy or context are another conversation."""
    encoded_context = msgspec.msgpack.encode(
        (ALGORITHM_VERSION, policy, context.scope, context.fixed)
    )
    return blake2b(encoded_context, digest_size=16).digest()


def _longest_known_state(
    memory: CompactionMemory, planner: CompactionPlanner
) -> CompactionState | None:
    """The state of the longest known prefix.

    A call that its client broke off to say more, and made again, is none by now: what was decided
    at it does not hold, or another process, which never saw it, would decide otherwise.
    """
    points = list(planner.conversation.points_after(0))
    for size in range(len(planner.keys), planner.conversation.lead, -1):
        state = memory.find(planner.prefix_key(size))
        if state is not None and (size == len(planner.keys) or state.calls == bisect(points, size)):
            return state
        if planner.policy.once:
            return None
    return None


def _compacted_chat(
    planner: CompactionPlanner, state: CompactionState, *, names_lost: bool
) -> CompactedChat:
    conversation = planner.conversation
    parts = state.parts
    sent_messages, origins = _sent_messages(planner, state)
    came = [message.raw for message in conversation.messages]
    changed = len(sent_messages) != len(came) or any(
        a is not b for a, b in zip(sent_messages, came, strict=True)
    )
    last = parts[-1] if parts else None
    head = planner.fixed + conversation.cumulative_tokens[conversation.lead]
    reset = state.suffix.end in (last.at if last is not None else 0, state.cut_at)
    is_less = bool(parts or state.suffix.cut)
    return CompactedChat(
        messages=tuple(sent_messages),
        origins=tuple(origins),
        changed=changed,
        reason=state.decision.reason.value,
        tokens_before=planner.fixed + conversation.cumulative_tokens[-1],
        tokens_after=head + sum(part.tokens for part in parts) + state.suffix.tokens,
        compacted_messages=sum(
            part.segment.end - part.segment.start - len(part.kept) for part in parts
        ),
        segments=tuple(part.segment for part in parts),
        reset=reset,
        break_even=state.decision.break_even,
        evidence=needed_values_evidence(planner, state) if is_less else None,
        lost=lost_values(planner, state, sent_messages) if names_lost and is_less else (),
        cut_results=len(state.suffix.cut),
        removed=_removed_messages(planner, state),
        last_compacted_why=last.reason.value
        if last is not None and last.reason is not None
        else "",
    )


def _removed_messages(planner: CompactionPlanner, state: CompactionState) -> RemovedMessages | None:
    """The messages that the model may recall: compacted ones, and results that were cut."""
    if not planner.policy.is_recalled or not state.parts:
        return None
    spans = (part.segment for part in state.parts)
    standing = {index for part in state.parts for index in part.kept}
    places = {n for span in spans for n in range(span.start, span.end)} - standing
    return RemovedMessages(
        planner.conversation, sorted(places | state.suffix.cut.keys()), planner.count
    )


def _sent_messages(
    planner: CompactionPlanner, state: CompactionState
) -> tuple[list[bytes], list[int]]:
    """Each message that is sent, and its place in the caller's list."""
    messages, suffix = planner.conversation.messages, state.suffix
    raws = [message.raw for message in messages[: planner.conversation.lead]]
    origins = [*range(planner.conversation.lead)]
    for part in state.parts:
        raws.append(_user_message(part.segment.text + part.index))
        raws += [messages[index].raw for index in part.kept]
        origins += [-1, *part.kept]
    raws += suffix.sent_messages(planner.conversation)
    return raws, [*origins, *range(suffix.start, suffix.end)]


def _user_message(text: str) -> bytes:
    return b'{"role":"user","content":' + orjson.dumps(text) + b"}"
