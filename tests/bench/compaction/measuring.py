"""Measures a case: what facts keep of what is needed, and each simple way at the same tokens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import Final

import orjson

from compaction.compact import ConversationContext, compact
from compaction.memory import CompactionMemory
from compaction.policy import CompactionPolicy
from compaction.reading.message import CannotCompactError, ParsedMessage, Voice
from compaction.reading.parsed_messages import ParsedMessageCache
from compaction.reading.vocabulary import Tokenizer
from compaction.simple_ways import FRAME_TOKENS, SIMPLE_WAYS, full_text, standing_tokens
from tests.bench.compaction.cases import KEEP_TURNS, ChatCase, Need, plain, stands
from tests.fakes.dialogue import Message, words

FACTS: Final = "facts"
WAYS: Final = (FACTS, *SIMPLE_WAYS)
_AUTHORITY: Final = frozenset({"system", "developer"})


@dataclass(frozen=True, kw_only=True)
class CaseMeasure:
    """The needs of a case that each way keeps.

    Attributes:
        name: Of its dialogue.
        before: Tokens of the conversation, the system text left out.
        after: The same as facts send it.
        needed: All that is needed.
        kept: Needs that each way keeps.
        suffix: Messages at the end that facts send as messages.
        suffix_tokens: Tokens of those as they are sent.
        is_missed: True if facts are over the target.
        is_too_small: True if the target is less than the system text and what users said in the
            last turns.
    """

    name: str
    before: int
    after: int
    needed: Sequence[Need]
    kept: dict[str, frozenset[Need]]
    suffix: int
    suffix_tokens: int
    is_missed: bool
    is_too_small: bool


@dataclass(frozen=True)
class CompactedCase:
    """A case as facts send it.

    Attributes:
        parsed: Its messages as they came.
        messages: Its messages as they are sent.
        tokens: Of the whole prompt, as compaction counts them.
        target: Tokens that it was to come down to; 0 for no target.
        segments: The texts that are facts.
    """

    parsed: Sequence[ParsedMessage]
    messages: Sequence[Message]
    tokens: int
    target: int
    segments: frozenset[str]


@lru_cache(maxsize=1)
def tokenizer() -> Callable[[str], int]:
    """Counts o200k tokens, each text once."""
    return lru_cache(maxsize=65_536)(Tokenizer("o200k_base").count)


def measure(case: ChatCase, share: float = 0.0, target: int = 0) -> CaseMeasure:
    """The needs that each way keeps.

    Args:
        share: The part of the conversation's tokens to come down to; 0 for no target.
        target: Tokens of the whole prompt to come down to, instead; 0 for no target.
    """
    count = tokenizer()
    chat = compact_case(case, share, target)
    lead = sum(message["role"] in _AUTHORITY for message in case.messages)
    conversation = chat.parsed[lead:]
    head = sum(message.tokens for message in chat.parsed[:lead])
    lines = [
        line
        for message in chat.messages
        for text in [words(message)]
        for line in (text.split("\n") if text in chat.segments else [text])
    ]
    after = standing_tokens([words(message) for message in chat.messages[lead:]], count)
    suffix = _suffix_length(case.messages[lead:], chat.messages[lead:])
    last = chat.messages[len(chat.messages) - suffix :]
    kept = {FACTS: _needs_among(case.needed, lines)}
    for name, way in SIMPLE_WAYS.items():
        kept[name] = _needs_among(case.needed, way(conversation, after, count))
    return CaseMeasure(
        name=case.name,
        before=_tokens(conversation),
        after=after,
        needed=case.needed,
        kept=kept,
        suffix=suffix,
        suffix_tokens=standing_tokens([words(message) for message in last], count),
        is_missed=0 < chat.target < chat.tokens,
        is_too_small=chat.target < head + _last_users_tokens(conversation),
    )


def compact_case(case: ChatCase, share: float = 0.0, target: int = 0) -> CompactedCase:
    """The conversation of a case as facts send it; arguments as of ``measure``."""
    count = tokenizer()
    raws = [orjson.dumps(message) for message in case.messages]
    parsed = ParsedMessageCache().messages(raws, count)
    if share:
        head = sum(m.tokens for m in parsed if m.voice is Voice.AUTHORITY)
        target = head + round(share * (sum(m.tokens for m in parsed) - head))
    policy = CompactionPolicy(force=True, once=True, target=target)
    try:
        made = compact(
            raws, policy, memory=CompactionMemory(), context=ConversationContext(count=count)
        )
    except CannotCompactError:
        return CompactedCase(parsed, case.messages, 0, target, frozenset())
    sent = [orjson.loads(raw) for raw in made.messages]
    texts = frozenset(segment.text for segment in made.segments)
    return CompactedCase(parsed, sent, made.tokens_after, target, texts)


def _suffix_length(came: Sequence[Message], sent: Sequence[Message]) -> int:
    """The number of messages with which both lists end; results in them may be shorter."""
    pairs = zip(reversed(came), reversed(sent), strict=False)
    same = takewhile(lambda pair: pair[0] == pair[1] or pair[0]["role"] == "tool", pairs)
    return sum(1 for _ in same)


def _last_users_tokens(messages: Sequence[ParsedMessage]) -> int:
    """Tokens of what users said in the last turns."""
    return sum([m.tokens for m in messages if m.voice is Voice.USER][-KEEP_TURNS:])


def _tokens(messages: Sequence[ParsedMessage]) -> int:
    count = tokenizer()
    return sum(count(full_text(message)) + FRAME_TOKENS for message in messages)


def _needs_among(needed: Sequence[Need], lines: Sequence[str]) -> frozenset[Need]:
    """The values that stand anywhere, and the pairs of which one line holds both."""
    texts = [plain(line) for line in lines if line]
    text = "\n".join(texts)
    return frozenset(
        need
        for need in needed
        if all(stands(text, value) for value in need)
        and (len(need) == 1 or any(all(stands(line, value) for value in need) for line in texts))
    )
