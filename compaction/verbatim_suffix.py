"""The verbatim suffix: the newest messages, which are not compacted; long results are shortened.

A message that names a compacted value gets its source. Once sent, a message is sent the same way
until the next compaction.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from compaction.agents.file_operations import is_file_view
from compaction.agents.shown_results import shown_result
from compaction.conversation_view import ConversationView
from compaction.reading.message import Count, ParsedMessage, Voice
from compaction.reading.message_parser import count_tokens_of
from compaction.reading.text_analysis_cache import TextAnalyzer, analyze_uncached
from compaction.recall.named_values import (
    append_text,
    contains_name,
    quote_sources,
    recallable_names,
)
from compaction.results.duplicate_results import text_digest
from compaction.results.result_trimming import trim_result
from compaction.signed_content import ChangeableMessages

#: Maximum names of one message, and of all messages between two compactions, that are looked up in
#: compacted text: the time for each grows with the number of messages.
_MAX_NAMES_PER_MESSAGE: Final = 32
_MAX_NAMES_PER_SUFFIX: Final = 256


class ReplacedMessage(msgspec.Struct, frozen=True):
    """A message that is sent modified.

    Attributes:
        raw: Its JSON as it is sent.
    """

    raw: bytes
    tokens: int


class VerbatimSuffix(msgspec.Struct, frozen=True, kw_only=True):
    """The messages from the last cut to a point.

    Attributes:
        start: Its start: the first message that is not compacted.
        end: Position of the point.
        replaced: The messages that are sent otherwise than they came, in order.
        seen: The calls whose results stand in it, by the stamps of their texts.
        looked_up: Names in it that were looked up in what was compacted.
        tokens: Tokens of all of it as it is sent.
        spared: Tokens saved if each of its results were shortened.
        cut: Those replaced that were sent whole before: head and tail of long results.
        cut_texts: The stamps of their texts: one that comes again was asked for again, and stays.
    """

    start: int
    end: int
    replaced: dict[int, ReplacedMessage] = {}
    seen: dict[bytes, str] = {}
    looked_up: int = 0
    tokens: int = 0
    spared: int = 0
    cut: dict[int, ReplacedMessage] = {}
    cut_texts: dict[bytes, None] = {}

    def rebuilt_from(self, start: int) -> "VerbatimSuffix":
        """An empty suffix from there on, which knows the results that were cut."""
        cut = {index: message for index, message in self.cut.items() if index >= start}
        return VerbatimSuffix(start=start, end=start, cut=cut, cut_texts=self.cut_texts)

    def tokens_from(self, conversation: ConversationView, start: int) -> int:
        """Tokens from a message on, as they are sent."""
        less = 0
        for index in reversed(self.replaced):
            if index < start:
                break
            less += conversation.messages[index].tokens - self.replaced[index].tokens
        return conversation.tokens_between(start, self.end) - less

    def sent_messages(self, conversation: ConversationView) -> list[bytes]:
        """Each message as it is sent."""
        return [
            self.replaced[index].raw if index in self.replaced else conversation.messages[index].raw
            for index in range(self.start, self.end)
        ]


class SuffixContext(msgspec.Struct, frozen=True, kw_only=True):
    """The context of a suffix: the text and tokens before it.

    Attributes:
        text: All that is sent before it; asked for only where that matters.
        above: Tokens of the suffix up to which results are not shortened.
        least: Tokens that results so far would weigh less, below which they are not either.
        changeable: Messages that may change; None for all.
    """

    text: Callable[[], str] = str
    above: int = 0
    least: int = 0
    changeable: ChangeableMessages | None = None

    def may_change(self, index: int) -> bool:
        """True if a message may be sent otherwise than it came."""
        return self.changeable is None or index in self.changeable

    def stays_whole(self, message: ParsedMessage, weighs: int, *, tokens: int, spared: int) -> bool:
        """True if a result is sent whole, as its prefix alone decides.

        Args:
            weighs: Its tokens if shortened.
            tokens: Tokens of the suffix before it.
            spared: Tokens by which results would be shorter, this one included.
        """
        is_longer = weighs > message.tokens
        return is_longer or tokens + weighs < self.above or spared < self.least


_NOTHING_BEFORE: Final = SuffixContext()


def extend_suffix(
    conversation: ConversationView,
    tail: VerbatimSuffix,
    end: int,
    count: Count,
    before: SuffixContext = _NOTHING_BEFORE,
    *,
    find: TextAnalyzer = analyze_uncached,
) -> VerbatimSuffix:
    """The suffix with the messages up to a later point.

    Args:
        tail: As it was.
        end: The point.
        count: Returns the number of tokens in a text.
        find: Finds the facts in its texts.
    """
    replaced, calls = dict(tail.replaced), dict(tail.seen)
    looked_up, tokens, spared = tail.looked_up, tail.tokens, tail.spared
    for index in range(tail.end, end):
        raw = (message := conversation.messages[index]).raw
        settled = tail.cut.get(index)
        if settled is not None or not before.may_change(index):
            replaced |= {} if settled is None else {index: settled}
            tokens += message.tokens if settled is None else settled.tokens
            continue
        if message.voice is Voice.RESULT:
            raw = _trimmed_result(conversation, index, calls, find)
        elif message.voice is Voice.USER and tail.start > conversation.lead:
            names = _names_to_look_up(message, looked_up, find)
            looked_up += len(names)
            earlier = VerbatimSuffix(start=tail.start, end=index, replaced=replaced)
            raw = _message_with_sources(conversation, earlier, names, before)
        weighs = message.tokens if raw is message.raw else count_tokens_of(raw, count)
        if message.voice is Voice.RESULT:
            spared += max(message.tokens - weighs, 0)
            if before.stays_whole(message, weighs, tokens=tokens, spared=spared):
                raw, weighs = message.raw, message.tokens
        if raw is not message.raw:
            replaced[index] = ReplacedMessage(raw, weighs)
        tokens += weighs
    tail = msgspec.structs.replace(tail, end=end, replaced=replaced, seen=calls)
    return msgspec.structs.replace(tail, looked_up=looked_up, tokens=tokens, spared=spared)


def cut_shown_results(
    conversation: ConversationView, tail: VerbatimSuffix, shown: int, count: Count
) -> VerbatimSuffix:
    """The suffix with head and tail of the long results that the last call showed whole.

    Args:
        tail: As it was sent at the last call.
        shown: The first message that was new to it.
        count: Returns the number of tokens in a text.
    """
    cut: dict[int, ReplacedMessage] = {}
    texts: dict[bytes, None] = {}
    for index in range(max(shown, tail.start), tail.end):
        message = conversation.messages[index]
        if message.voice is not Voice.RESULT or index in tail.replaced:
            continue
        raw = shown_result(message, conversation.calls_by_result.get(index))
        stamp = text_digest(message.text) if raw is not None else b""
        if raw is not None and stamp not in tail.cut_texts:
            cut[index] = ReplacedMessage(raw, count_tokens_of(raw, count))
            texts[stamp] = None
    if not cut:
        return tail
    messages = conversation.messages
    return msgspec.structs.replace(
        tail,
        cut={**tail.cut, **cut},
        cut_texts={**tail.cut_texts, **texts},
        replaced=dict(sorted({**tail.replaced, **cut}.items())),
        seen={stamp: call for stamp, call in tail.seen.items() if stamp not in texts},
        tokens=tail.tokens + sum(one.tokens - messages[at].tokens for at, one in cut.items()),
    )


def _trimmed_result(
    conversation: ConversationView, index: int, calls: dict[bytes, str], find: TextAnalyzer
) -> bytes:
    """The result in a shorter form without loss; its call is noted, for a later one to point to."""
    message, called = conversation.messages[index], conversation.calls_by_result.get(index)
    is_exact = called is not None and find(is_file_view, called.name, called.arguments)
    raw = trim_result(message, calls, find, is_exact=is_exact)
    if message.whole:
        calls.setdefault(text_digest(message.text), conversation.short_call(index))
    return raw


def _names_to_look_up(
    message: ParsedMessage, looked_up: int, find: TextAnalyzer
) -> tuple[str, ...]:
    """The names of a message that are looked up, as many as may be."""
    max_names = min(_MAX_NAMES_PER_MESSAGE, _MAX_NAMES_PER_SUFFIX - looked_up)
    return recallable_names(message, max_names, find)


def _message_with_sources(
    conversation: ConversationView,
    tail: VerbatimSuffix,
    names: Sequence[str],
    before: SuffixContext,
) -> bytes:
    """The message behind a suffix, with the sources of what it names and nothing sent holds."""
    raw = conversation.messages[tail.end].raw
    if not names:
        return raw
    before_text = before.text()
    missing = [name for name in names if not contains_name(before_text, name)]
    since = conversation.words_between(tail.start, tail.end) if missing else ""
    replaced_texts = (
        [replacement.raw.decode() for replacement in tail.replaced.values()] if missing else []
    )
    missing = [
        name
        for name in missing
        if not any(contains_name(text, name) for text in (since, *replaced_texts))
    ]
    text = quote_sources(conversation, missing, tail.start) if missing else ""
    return append_text(raw, text) if text else raw
