"""The five simple ways to bring a conversation to a number of tokens, as many products do it.

They are the yardstick of facts, which must keep no less at the same tokens. Each takes parsed
messages and returns the text that stands of each: "" where the message is gone.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import msgspec

from compaction.language.proper_names import proper_names
from compaction.reading.message import Count, ParsedMessage, Voice
from compaction.value_tokens import TokenIndex, Tokens, named_values, value_tokens

#: Tokens of a message's role and separators.
FRAME_TOKENS: Final = 4
#: Stands in place of an old tool result.
MASK: Final = "[old tool result removed]"
_ELLIPSIS: Final = "…"

#: The text that stands of each message, in order.
StandingTexts = tuple[str, ...]
SimpleWay = Callable[[Sequence[ParsedMessage], int, Count], StandingTexts]


def full_text(message: ParsedMessage) -> str:
    """The text of a message and of its tool calls."""
    calls = [f"{call.name} {call.arguments}" for call in message.calls]
    return "\n".join([message.text, *calls] if message.text else calls)


def standing_tokens(texts: Sequence[str], count: Count) -> int:
    """Tokens of the messages that stand."""
    return sum([count(text) + FRAME_TOKENS for text in texts if text])


def keep_last(messages: Sequence[ParsedMessage], max_tokens: int, count: Count) -> StandingTexts:
    """The newest messages that fit, each whole."""
    texts = [full_text(message) for message in messages]
    return _without_orphans(messages, _newest_that_fit(texts, max_tokens, count))


def head_and_tail(
    messages: Sequence[ParsedMessage], max_tokens: int, count: Count
) -> StandingTexts:
    """The first messages up to half of the tokens, and the newest in what is left."""
    texts = [full_text(message) for message in messages]
    head = _newest_that_fit(texts[::-1], max_tokens // 2, count)[::-1]
    room = max_tokens - standing_tokens(head, count)
    rest = ["" if head_text else text for head_text, text in zip(head, texts, strict=True)]
    tail = _newest_that_fit(rest, room, count)
    return _without_orphans(messages, tuple(map("".join, zip(head, tail, strict=True))))


def mask_old_results(
    messages: Sequence[ParsedMessage], max_tokens: int, count: Count
) -> StandingTexts:
    """Tool results masked, the oldest first, until it fits; then the oldest messages go."""
    texts = [full_text(message) for message in messages]
    total, mask_tokens = standing_tokens(texts, count), count(MASK)
    for index, message in enumerate(messages):
        if total <= max_tokens:
            break
        saved = count(texts[index]) - mask_tokens
        if message.voice is Voice.RESULT and saved > 0:
            texts[index] = MASK
            total -= saved
    return _without_orphans(messages, _newest_that_fit(texts, max_tokens, count))


def crop_equally(messages: Sequence[ParsedMessage], max_tokens: int, count: Count) -> StandingTexts:
    """Every message cropped to the same length, the longest at which all fit."""
    texts = [full_text(message) for message in messages]
    return _crop_to_fit(texts, frozenset(range(len(texts))), max_tokens, count)


def crop_all_but_users(
    messages: Sequence[ParsedMessage], max_tokens: int, count: Count
) -> StandingTexts:
    """Users' messages whole and the rest cropped equally; all cropped if users' alone do not fit.

    Users' words come first: the rest is cropped to nothing before they are.
    """
    texts = [full_text(message) for message in messages]
    is_user = [message.voice is Voice.USER for message in messages]
    users = [text if spoken else "" for text, spoken in zip(texts, is_user, strict=True)]
    if standing_tokens(users, count) > max_tokens:
        return _crop_to_fit(users, frozenset(range(len(users))), max_tokens, count)
    others = frozenset(index for index, spoken in enumerate(is_user) if not spoken)
    return _crop_to_fit(texts, others, max_tokens, count)


#: All of them, by name.
SIMPLE_WAYS: Final[Mapping[str, SimpleWay]] = {
    "keep last": keep_last,
    "head and tail": head_and_tail,
    "mask results": mask_old_results,
    "crop equally": crop_equally,
    "users whole": crop_all_but_users,
}


class KeptValues(msgspec.Struct, frozen=True):
    """Values and names of a conversation that its shorter form keeps, and the best simple way.

    Attributes:
        total: Distinct ids, amounts, dates, times, paths and names of the conversation.
        kept: Of those, still named in what is sent.
        way: The simple way that keeps most of them in as many tokens.
        way_kept: Of the total, kept by that way.
    """

    total: int
    kept: int
    way: str
    way_kept: int


def compare_with_simple_ways(
    messages: Sequence[ParsedMessage], sent: Sequence[ParsedMessage], count: Count
) -> KeptValues:
    """Count the values and names that what is sent keeps, and that the best simple way would.

    Args:
        messages: The conversation, the system text left out.
        sent: As it is sent, likewise.
    """
    texts = [full_text(message) for message in messages]
    values = {value for text in texts for value in named_values(text)}
    values |= {
        value_tokens(name)
        for message in messages
        if message.voice is not Voice.RESULT
        for name in proper_names(message.text)
    }
    sent_texts = [full_text(message) for message in sent]
    max_tokens = standing_tokens(sent_texts, count)
    by_way = {
        name: _named_among(values, way(messages, max_tokens, count))
        for name, way in SIMPLE_WAYS.items()
    }
    best = max(by_way, key=lambda name: by_way[name])
    return KeptValues(len(values), _named_among(values, sent_texts), best, by_way[best])


def _named_among(values: Collection[Tokens], texts: Sequence[str]) -> int:
    """The number of the values that the texts name."""
    index = TokenIndex(texts)
    return sum([value in index for value in values])


def _newest_that_fit(texts: Sequence[str], max_tokens: int, count: Count) -> StandingTexts:
    """The texts from the end that fit; "" for all before the first that does not."""
    room, start = max_tokens, len(texts)
    while start:
        text = texts[start - 1]
        room -= count(text) + FRAME_TOKENS if text else 0
        if room < 0:
            break
        start -= 1
    return ("",) * start + tuple(texts[start:])


def _without_orphans(messages: Sequence[ParsedMessage], texts: Sequence[str]) -> StandingTexts:
    """The texts without results whose call is gone."""
    standing_calls = {
        call.id
        for message, text in zip(messages, texts, strict=True)
        if text
        for call in message.calls
    }
    made_calls = {call.id for message in messages for call in message.calls}
    gone_calls = made_calls - standing_calls
    return tuple(
        "" if message.answers in gone_calls else text
        for message, text in zip(messages, texts, strict=True)
    )


def _crop_to_fit(
    texts: Sequence[str], croppable: frozenset[int], max_tokens: int, count: Count
) -> StandingTexts:
    """The texts with those that may be cropped at the greatest length at which all fit."""
    shortest, longest = 0, max((len(texts[index]) for index in croppable), default=0)
    while shortest < longest:
        length = (shortest + longest + 1) // 2
        if standing_tokens(_crop_at(texts, croppable, length), count) <= max_tokens:
            shortest = length
        else:
            longest = length - 1
    return _crop_at(texts, croppable, shortest)


def _crop_at(texts: Sequence[str], croppable: frozenset[int], length: int) -> StandingTexts:
    """The texts, those that may be cropped at a length; at 0 they are gone."""
    return tuple(
        text
        if index not in croppable or len(text) <= length
        else (text[:length] + _ELLIPSIS) * (length > 0)
        for index, text in enumerate(texts)
    )
