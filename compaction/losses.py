"""Measures losses of compaction: values that later calls needed, or that are no longer sent."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from compaction.facts.fact import Fact, FactKind
from compaction.planner import CompactionPlanner, CompactionState
from compaction.quality_evidence import QualityEvidence
from compaction.reading.message import CalledTool, CannotCompactError, ParsedMessage
from compaction.reading.message_parser import parse_message
from compaction.reading.redaction import REDACTED, redact_secrets
from compaction.recall import contains_name, spaced_ids
from compaction.results.lossless_compression import parse_result
from compaction.results.value_leaves import leaf_strings
from compaction.value_tokens import TokenIndex, Tokens, named_values

#: Removes counts of omitted items, which are not values of the kept text.
_counts: Final = re.compile(r"\(\d+\)|and \d+ more").sub
#: Maximum names of one call that are looked up.
_MAX_NAMES_PER_CALL: Final = 64
#: Maximum lost values that are reported.
_MAX_LOST_VALUES: Final = 1_000


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
    """Values of the compacted part and of cut results that the sent messages do not name.

    Args:
        planner: The conversation.
    """
    messages = planner.conversation.messages
    kept_indexes = {index for part in state.parts for index in part.kept}
    facts_by_text = {part.segment.text: part.segment.facts for part in state.parts}
    sent_values = TokenIndex(
        stated_text
        for raw in sent_messages
        for text in _message_texts(parse_message(raw))
        for stated_text in _stated_texts(text, facts_by_text)
    )
    lost: dict[Tokens, str] = {}
    end = state.parts[-1].segment.end if state.parts else planner.conversation.lead
    for index in (*range(planner.conversation.lead, end), *sorted(state.suffix.cut)):
        for text in () if index in kept_indexes else _message_texts(messages[index]):
            named = named_values(text).items()
            lost |= {value: written for value, written in named if value not in sent_values}
        if len(lost) > _MAX_LOST_VALUES:
            break
    return tuple(lost.values())[:_MAX_LOST_VALUES]


def redact_values(values: Sequence[str], raws: Sequence[bytes]) -> tuple[str, ...]:
    """The values as they may be shown: those that only a key or a password holds are replaced.

    Args:
        raws: The messages that they come from.
    """
    messages = [parse_message(raw) for raw in raws] if values else []
    texts = [message.text for message in messages]
    texts += [call.arguments for message in messages for call in message.calls]
    shown = TokenIndex(map(redact_secrets, texts))
    return tuple([value if value in shown else REDACTED for value in values])


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
