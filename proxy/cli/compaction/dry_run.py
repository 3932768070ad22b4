"""Computes a dry run of compaction: a conversation from a file, compacted as the gateway would.

Decisions use the gateway's own quick estimates. The figures shown for the whole prompt are exact
where the model's vocabulary is published.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
import orjson

from compaction.client_compaction import client_compaction_kind
from compaction.compact import CompactedChat, ConversationContext, compact
from compaction.conversation_view import view_conversation
from compaction.facts.fact import Fact
from compaction.losses import redact_values
from compaction.memory import CompactionMemory
from compaction.policy import CompactionPolicy
from compaction.reading.chat_validation import chat_faults
from compaction.reading.message import CannotCompactError, Voice
from compaction.simple_ways import KeptValues, compare_with_simple_ways
from proxy.errors import OperatorError
from proxy.records.request_fields import replace_fields
from proxy.services.compaction.counting import token_counter, tool_tokens
from proxy.tokens.counter import TokenCounter
from proxy.tokens.ratios import TokenRatios

_CHAT: Final = "chat/completions"
_BOM: Final = b"\xef\xbb\xbf"
_EMPTY: Final = b"[]"
INVALID: Final = "invalid"
"""The code of a conversation that a provider would refuse, unmodified or compacted."""
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


class ChatConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A chat body.

    Attributes:
        messages: Each as JSON.
        fields: The names of the body's fields.
    """

    body: bytes
    messages: tuple[bytes, ...]
    tools: tuple[bytes, ...]
    fields: frozenset[str]


class DryRunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a dry run.

    Attributes:
        tokens_before: Tokens of the whole prompt unmodified, tools included.
        compacted: True if facts replace any of its messages.
        reason: Code of the reason to compact or not.
        compacted_messages: Number of messages that the facts replace.
        cut_results: Number of results sent as head and tail, after they were sent whole once.
        break_even: N*: calls that pay the compaction back, this one included; None if none do.
        segments: Messages that each part of the facts replaces, and its tokens, by the counts it
            was decided with.
        lost: Values of the compacted messages that would no longer be sent; secrets are redacted.
        target: Target tokens of the prompt; 0 to compact as far as facts allow.
        target_missed: Tokens over the target; None if it is met, or there is none.
        kept_tokens: Tokens sent beside the facts: system text, tools and the turns that stay; None
            if nothing is compacted.
        calls: Number of calls in the conversation, the present one included; 0 if unknown.
        since_call: Number of the call at which it was compacted last; None if nothing is compacted.
        faults: Faults of the unmodified conversation for which a provider would refuse it.
        kept_values: Values that compaction keeps, and that the best simple way would keep in as
            many tokens; None if nothing is compacted.
    """

    messages: tuple[msgspec.Raw, ...]
    facts: tuple[Fact, ...]
    tokens_before: int
    tokens_after: int
    compacted: bool
    reason: str
    changed: bool
    compacted_messages: int
    cut_results: int
    mode: str
    model: str
    break_even: float | None
    segments: tuple[dict[str, Any], ...]
    lost: tuple[str, ...]
    target: int
    target_missed: int | None
    kept_tokens: int | None
    calls: int
    since_call: int | None
    faults: tuple[str, ...]
    kept_values: KeptValues | None


class TokenEstimate:
    """Counts tokens as a model's provider does; estimates if its vocabulary is not published."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._counter = TokenCounter()
        self._ratios = TokenRatios()

    def prompt_tokens(self, body: bytes) -> int:
        """Tokens of a chat body's prompt."""
        counted = self._counter.prompt_tokens(body, _CHAT, self._model)
        return self._ratios.estimate(self._model, counted)


def conversation(raw: bytes) -> ChatConversation:
    """The conversation that a file holds.

    Raises:
        OperatorError: If it holds none; says why.
    """
    try:
        fields = _fields(raw.removeprefix(_BOM))
    except msgspec.ValidationError:
        raise OperatorError('is not a JSON object; expected {"messages": […]}') from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise OperatorError(f"is not valid JSON: {error}") from None
    if "messages" not in fields:
        raise OperatorError('has no "messages" field')
    messages = _parse_list(fields["messages"], "messages")
    if not messages:
        raise OperatorError('has an empty "messages" list')
    for index, message in enumerate(messages):
        if not bytes(message).lstrip().startswith(b"{"):
            raise OperatorError(f"is invalid: messages[{index}] is not an object")
    tools = fields.get("tools", msgspec.Raw(_EMPTY))
    tools = msgspec.Raw(_EMPTY) if bytes(tools) == b"null" else tools
    return ChatConversation(
        body=raw.removeprefix(_BOM),
        messages=tuple(map(bytes, messages)),
        tools=tuple(map(bytes, _parse_list(tools, "tools"))),
        fields=frozenset(fields),
    )


def dry_run(
    chat: ChatConversation,
    policy: CompactionPolicy,
    *,
    model: str,
    upstream_model: str,
    compact_chat: Callable[..., CompactedChat] = compact,
) -> DryRunResult:
    """Compact a conversation as the gateway would, and return the result."""
    estimate = TokenEstimate(upstream_model)
    recompactor = _Recompactor(chat, policy, upstream_model, compact_chat)
    faults = chat_faults(chat.messages, chat.messages)
    result = _unmodified_chat(chat, INVALID) if faults else _compact(chat, recompactor)
    before = estimate.prompt_tokens(chat.body)
    after = estimate.prompt_tokens(_body_with(chat, result.messages)) if result.changed else before
    call_ends = () if faults else tuple(recompactor.call_ends())
    return DryRunResult(
        messages=tuple(
            msgspec.Raw(msgspec.json.format(message, indent=-1)) for message in result.messages
        ),
        facts=result.facts,
        tokens_before=before,
        tokens_after=after,
        compacted=bool(result.segments),
        reason=result.reason,
        changed=result.changed,
        compacted_messages=result.compacted_messages,
        cut_results=result.cut_results,
        mode=policy.mode.value,
        model=model,
        break_even=result.break_even,
        segments=_fact_parts(result),
        lost=redact_values(result.lost, chat.messages),
        target=policy.target,
        target_missed=after - policy.target if 0 < policy.target < after else None,
        kept_tokens=estimate.prompt_tokens(_without_facts(chat, result))
        if result.segments
        else None,
        calls=len(call_ends),
        since_call=recompactor.last_compaction(result, call_ends),
        faults=faults,
        kept_values=recompactor.kept_values(result) if result.segments else None,
    )


class _Recompactor:
    """Compacts a conversation, or its first messages, any number of times."""

    def __init__(
        self,
        chat: ChatConversation,
        policy: CompactionPolicy,
        model: str,
        compact_chat: Callable[..., CompactedChat],
    ) -> None:
        self._chat = chat
        self._policy = policy
        self._compact_chat = compact_chat
        self._memory = CompactionMemory()
        count = token_counter(model)
        self._context = ConversationContext(fixed=tool_tokens(chat.tools, count), count=count)

    def compact(self, end: int, *, names_lost: bool = False) -> CompactedChat:
        """Compact the first messages.

        Raises:
            CannotCompactError: If they are sent unmodified.
        """
        return self._compact_chat(
            self._chat.messages[:end],
            self._policy,
            memory=self._memory,
            context=self._context,
            names_lost=names_lost,
        )

    def kept_values(self, compacted: CompactedChat) -> KeptValues:
        """The values kept by compacting the whole conversation, and by the best simple way."""
        read = self._memory.parsed_messages.messages
        count, scope = self._context.count, self._context.scope
        original, sent = (
            [m for m in read(raws, count, scope) if m.voice is not Voice.AUTHORITY]
            for raws in (self._chat.messages, compacted.messages)
        )
        return compare_with_simple_ways(original, sent, count)

    def call_ends(self) -> Iterator[int]:
        """The number of messages at each call; nothing if unknown."""
        read = self._memory.parsed_messages.messages
        try:
            view = view_conversation(
                read(self._chat.messages, self._context.count, self._context.scope)
            )
        except CannotCompactError:
            return
        yield from view.points_after(0)

    def last_compaction(self, compacted: CompactedChat, call_ends: Sequence[int]) -> int | None:
        """The number of the call at which it was compacted last; None if it was not."""
        if not compacted.segments:
            return None
        if compacted.reset or self._policy.once:
            return len(call_ends)
        count = len(compacted.segments)
        return 1 + bisect_left(
            call_ends, count, key=lambda index: len(self.compact(index).segments)
        )


def _fact_parts(compacted: CompactedChat) -> tuple[dict[str, Any], ...]:
    return tuple(
        {
            "start": segment.start,
            "end": segment.end,
            "simple_way": segment.simple_way,
            "tokens_before": segment.before,
            "tokens_after": segment.tokens,
        }
        for segment in compacted.segments
    )


def _without_facts(chat: ChatConversation, compacted: CompactedChat) -> bytes:
    texts = [orjson.dumps(segment.text) for segment in compacted.segments]
    messages = [raw for raw in compacted.messages if not any(text in raw for text in texts)]
    return _body_with(chat, messages)


def _body_with(chat: ChatConversation, messages: Sequence[bytes]) -> bytes:
    return replace_fields(chat.body, {"messages": b"[" + b",".join(messages) + b"]"})


def _compact(chat: ChatConversation, recompactor: _Recompactor) -> CompactedChat:
    """Compact the conversation; unmodified if the gateway would leave it unmodified."""
    if why := client_compaction_kind(chat.fields, chat.messages):
        return _unmodified_chat(chat, why)
    try:
        compacted = recompactor.compact(len(chat.messages), names_lost=True)
    except CannotCompactError as why:
        return _unmodified_chat(chat, str(why) or "not_compactable")
    if compacted.changed and compacted.tokens_after > compacted.tokens_before:
        return _unmodified_chat(chat, "grew")
    if compacted.changed and chat_faults(compacted.messages, chat.messages):
        return _unmodified_chat(chat, INVALID)
    return compacted


def _unmodified_chat(chat: ChatConversation, why: str) -> CompactedChat:
    return CompactedChat(
        messages=chat.messages, changed=False, reason=why, tokens_before=0, tokens_after=0
    )


def _parse_list(raw: msgspec.Raw, name: str) -> list[msgspec.Raw]:
    try:
        return _list(raw)
    except (msgspec.DecodeError, RecursionError):
        raise OperatorError(f'is invalid: "{name}" is not a list') from None
