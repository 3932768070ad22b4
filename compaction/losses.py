"""Measures losses of compaction: values that later calls needed, and what is no longer sent."""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final

from compaction.compacted_part import CompactedPart
from compaction.facts.actions import is_action
from compaction.facts.call_outcomes import UNKNOWN, action_outcome
from compaction.facts.fact import OK, Fact, FactKind, Region
from compaction.facts.region_contents import read_region
from compaction.facts.rendering import flatten_text, text_head
from compaction.language.proper_names import proper_names
from compaction.memory import CompactionState
from compaction.planner import CompactionPlanner
from compaction.quality_evidence import QualityEvidence
from compaction.reading.message import CalledTool, CannotCompactError, ParsedMessage, Voice
from compaction.reading.message_parser import parse_message
from compaction.reading.redaction import REDACTED, redact_secrets
from compaction.recall.named_values import contains_name, spaced_ids
from compaction.results.lossless_compression import parse_result
from compaction.results.value_leaves import leaf_strings
from compaction.value_tokens import (
    SPACELESS_SCRIPTS,
    TokenIndex,
    Tokens,
    named_values,
    value_tokens,
)

#: Removes counts of omitted items, which are not values of the kept text.
_counts: Final = re.compile(r"\(\d+ times\)|and \d+ more").sub
#: Maximum names of one call that are looked up.
_MAX_NAMES_PER_CALL: Final = 64
#: Maximum losses that are reported, and maximum characters of an answer.
_MAX_LOST_VALUES: Final = 1_000
_MAX_ANSWER_CHARS: Final = 60
#: Minimum words of an answer: a courtesy has fewer.
_MIN_ANSWER_WORDS: Final = 4
_long_words: Final = re.compile(rf"[^\W\d_{SPACELESS_SCRIPTS}]{{4,}}").findall
_signs: Final = re.compile(rf"[{SPACELESS_SCRIPTS}]{{2,}}").findall


def needed_values_evidence(
    planner: CompactionPlanner, state: CompactionState
) -> QualityEvidence | None:
    """Counts the values that the newest tool calls needed of text compacted before them.

    A name counts that stood in the compacted part and not in what was sent unmodified; it is lost
    where the segments do not hold it either. None where no call was made since the last point.

    Args:
        planner: The conversation.
    """
    here = state.suffix.end
    parts = [part for part in state.parts if part.at < here]
    before = _previous_request_point(planner, here)
    calls = list(_calls_between(planner, before, here))
    cut_results = _cut_results(planner, state, before)
    if not (parts or cut_results) or not calls:
        return None
    names = dict.fromkeys(
        name for call in calls for name in spaced_ids(call.arguments)[:_MAX_NAMES_PER_CALL]
    )
    if not names:
        return QualityEvidence()
    cut = parts[-1].segment.end if parts else planner.conversation.lead
    words = planner.conversation.words_between
    kept_texts = [
        planner.conversation.messages[index].text for part in parts for index in part.kept
    ]
    unmodified_text = "\n".join(
        [
            words(0, planner.conversation.lead),
            *(words(i, i + 1) for i in range(cut, before) if i not in cut_results),
            *kept_texts,
        ]
    )
    compacted_text = "\n".join(
        [words(planner.conversation.lead, cut), *(words(i, i + 1) for i in cut_results)]
    )
    needed = [
        name
        for name in names
        if not contains_name(unmodified_text, name) and contains_name(compacted_text, name)
    ]
    sent_texts = [part.segment.text for part in parts]
    sent_texts += [replacement.raw.decode() for replacement in state.suffix.replaced.values()]
    lost = sum(not any(contains_name(text, name) for text in sent_texts) for name in needed)
    return QualityEvidence(needed=len(needed), lost=lost)


def _cut_results(planner: CompactionPlanner, state: CompactionState, before: int) -> frozenset[int]:
    """The results that were cut when the newest answer was asked for: not those new to it."""
    shown = _previous_request_point(planner, before)
    return frozenset(index for index in state.suffix.cut if index < shown)


def lost_values(
    planner: CompactionPlanner, state: CompactionState, sent_messages: Sequence[bytes]
) -> tuple[str, ...]:
    """The compacted part's values and names, failed actions and answers that are no longer sent.

    A value or a name is lost where it stands in none of the sent texts. An action that failed, or
    whose outcome is unknown, is lost where no line is of it. An answer, the assistant's text behind
    a user's message, is lost where no line is of it and most of its words stand nowhere either.
    Values and names come first, then failures, then answers, each in its order.

    Args:
        planner: The conversation.
    """
    facts_by_text = {part.segment.text: part.segment.facts for part in state.parts}
    sent_texts = [
        stated_text
        for raw in sent_messages
        for text in _message_texts(parse_message(raw))
        for stated_text in _stated_texts(text, facts_by_text)
    ]
    lost = dict.fromkeys(
        [
            *_lost_values(planner, state, TokenIndex(sent_texts)),
            *_lost_failures(planner, state),
            *_lost_answers(planner, state, content_words("\n".join(sent_texts))),
        ]
    )
    return tuple(lost)[:_MAX_LOST_VALUES]


def _lost_values(
    planner: CompactionPlanner, state: CompactionState, sent_values: TokenIndex
) -> Iterator[str]:
    """The values and names of the compacted part, and of cut results, that are not sent."""
    seen: set[Tokens] = set()
    for index in (*_compacted_indexes(planner, state), *sorted(state.suffix.cut)):
        message = planner.conversation.messages[index]
        for text in _message_texts(message):
            named = dict(named_values(text))
            if message.voice is not Voice.RESULT or text is not message.text:
                named |= {value_tokens(name): name for name in proper_names(text)}
            for value, written in named.items():
                if value not in seen and value not in sent_values:
                    yield written
                seen.add(value)
        if len(seen) > _MAX_LOST_VALUES:
            return


def _compacted_indexes(planner: CompactionPlanner, state: CompactionState) -> Iterator[int]:
    """The messages that segments stand for."""
    kept_indexes = {index for part in state.parts for index in part.kept}
    end = state.parts[-1].segment.end if state.parts else planner.conversation.lead
    for index in range(planner.conversation.lead, end):
        if index not in kept_indexes:
            yield index


def _lost_failures(planner: CompactionPlanner, state: CompactionState) -> Iterator[str]:
    """Actions that failed, or whose outcome is unknown, and of which no line is."""
    for part in state.parts:
        standing = _messages_with_lines(part)
        region = Region(
            messages=planner.conversation.messages,
            units=planner.conversation.units,
            start=part.segment.start,
            end=part.segment.end,
            kept=frozenset(part.kept),
        )
        for exchange in read_region(region).exchanges:
            ended = action_outcome(exchange)
            if is_action(exchange) and ended != OK and standing.isdisjoint(exchange.messages):
                state_word = "unknown" if ended == UNKNOWN else "failed"
                yield f"{exchange.called.name} ({state_word}) in turn {exchange.turn}"


def _lost_answers(
    planner: CompactionPlanner, state: CompactionState, sent_words: Container[str]
) -> Iterator[str]:
    """Answers of which no line is, and most of whose words stand nowhere."""
    standing = {index for part in state.parts for index in _messages_with_lines(part)}
    messages = planner.conversation.messages
    for index in _compacted_indexes(planner, state):
        message = messages[index]
        is_answer = message.voice is Voice.ASSISTANT and messages[index - 1].voice is Voice.USER
        if is_answer and not message.calls and index not in standing:
            words = content_words(message.text)
            gone = [word for word in words if word not in sent_words]
            if len(words) >= _MIN_ANSWER_WORDS and 2 * len(gone) > len(words):
                text = text_head(flatten_text(redact_secrets(message.text)), _MAX_ANSWER_CHARS)
                yield f"answer: {text}"


def _messages_with_lines(part: CompactedPart) -> frozenset[int]:
    """The messages of a part of which a line is, other than that they are gone."""
    return frozenset(
        index
        for fact in part.segment.facts
        if fact.kind is not FactKind.GONE
        for index in fact.messages
    )


def content_words(text: str) -> frozenset[str]:
    """The words of four letters and more in small letters; pairs of signs where none part words."""
    small = text.lower()
    pairs = [run[start : start + 2] for run in _signs(small) for start in range(len(run) - 1)]
    return frozenset([*_long_words(small), *pairs])


def redact_values(values: Sequence[str], raws: Sequence[bytes]) -> tuple[str, ...]:
    """The values as they may be shown: those that only a key or a password holds are replaced.

    Args:
        raws: The messages that they come from.
    """
    messages = [parse_message(raw) for raw in raws] if values else []
    texts = [message.text for message in messages]
    texts += [call.arguments for message in messages for call in message.calls]
    whole, shown = TokenIndex(texts), TokenIndex(map(redact_secrets, texts))
    return tuple([REDACTED if value in whole and value not in shown else value for value in values])


def _stated_texts(text: str, facts_by_text: Mapping[str, Sequence[Fact]]) -> Iterator[str]:
    """The statements of a text; of a segment neither turn numbers nor counts of what is gone."""
    if text not in facts_by_text:
        yield text
    else:
        for fact in facts_by_text[text]:
            yield _counts("", fact.text) if fact.kind is FactKind.GONE else fact.text


def _message_texts(message: ParsedMessage) -> Iterator[str]:
    """The texts of a message and its tool calls; of JSON each value by itself."""
    yield from _json_leaves(message.text)
    for call in message.calls:
        yield call.name
        yield from _json_leaves(call.arguments)


def _json_leaves(text: str) -> Sequence[str]:
    """The strings and numbers of a text that is JSON; any other by itself."""
    try:
        return leaf_strings(parse_result(text))
    except CannotCompactError:
        return (text,)


def _calls_between(planner: CompactionPlanner, start: int, end: int) -> Iterator[CalledTool]:
    """The tool calls that the assistant made between two places."""
    for message in planner.conversation.messages[start:end]:
        yield from message.calls


def _previous_request_point(planner: CompactionPlanner, here: int) -> int:
    """The last point before one: where the assistant was asked for what it said since."""
    points = [point for point in planner.conversation.points_after(0) if point < here]
    return points[-1] if points else planner.conversation.lead
