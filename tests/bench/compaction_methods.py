"""Ways to replace a compacted part: by detail level, and by ``compact`` as a whole."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import orjson

from compaction.compact import CompactedChat, ConversationContext, compact
from compaction.facts.detail_levels import segment_at
from compaction.facts.fact import DetailLevel, Region
from compaction.memory import CompactionMemory
from compaction.policy import CompactionMode, CompactionPolicy
from compaction.reading.message import CannotCompactError
from compaction.reading.message import ParsedMessage as Read
from compaction.reading.parsed_messages import ParsedMessageCache
from compaction.reading.turns import MessageUnit, split_units
from tests.bench.compaction_metrics import CompactedRange, Method
from tests.fakes.dialogue import Message, words

Count = Callable[[str], int]


def raws(messages: Sequence[Message]) -> list[bytes]:
    """The messages' JSON."""
    return [orjson.dumps(message) for message in messages]


def region(
    cut: CompactedRange,
    read: Callable[[CompactedRange], tuple[Sequence[Read], Sequence[MessageUnit]]],
) -> Region:
    """The cut's part, as the ladder takes it."""
    messages, parts = read(cut)
    return Region(messages=tuple(messages), units=tuple(parts), start=cut.start, end=cut.end)


def at_detail_level(level: DetailLevel, count: Count) -> Method:
    """The part on one level of the ladder."""

    @lru_cache(maxsize=4)
    def whole(name: str, them: tuple[bytes, ...]) -> tuple[Sequence[Read], Sequence[MessageUnit]]:
        messages = ParsedMessageCache().messages(them, count)
        return messages, split_units(messages)

    def read(cut: CompactedRange) -> tuple[Sequence[Read], Sequence[MessageUnit]]:
        return whole(cut.dialogue.name, tuple(raws(cut.dialogue.messages[: cut.calls[0]])))

    def lines(cut: CompactedRange) -> Sequence[str]:
        return segment_at(region(cut, read), level, count).text.split("\n")

    return lines


def compacted_part(policy: CompactionPolicy, count: Count) -> Method:
    """The text that ``compact`` sends where the part stood, with a tail that is said shorter."""
    memory = CompactionMemory()

    def lines(cut: CompactedRange) -> Sequence[str]:
        now = cut.calls[0]
        them = raws(cut.dialogue.messages[:now])
        try:
            made = compact(them, policy, memory=memory, context=ConversationContext(count=count))
        except CannotCompactError:
            return [words(message) for message in cut.part]
        end = max(cut.end, ends(made))
        before = set(them[: cut.start])
        sent = made.messages[: len(made.messages) - (now - end)]
        stands = [words(orjson.loads(raw)) for raw in sent if raw not in before]
        texts = {segment.text for segment in made.segments}
        return [line for text in stands for line in (text.split("\n") if text in texts else [text])]

    return lines


def ends(made: CompactedChat) -> int:
    """Return where the last segment ends; 0 for none."""
    return made.segments[-1].end if made.segments else 0


def our_methods(count: Count, keep: int) -> Mapping[str, Method]:
    """All of them, by name."""
    return {
        "facts": at_detail_level(DetailLevel.FACTS, count),
        "pruned": at_detail_level(DetailLevel.PRUNED, count),
        "values": at_detail_level(DetailLevel.VALUES, count),
        "trim": compacted_part(CompactionPolicy(mode=CompactionMode.TRIM), count),
        "compacted": compacted_part(
            CompactionPolicy(force=True, once=True, keep_turns=keep), count
        ),
        "compacted as it grows": compacted_part(
            CompactionPolicy(force=True, keep_turns=keep), count
        ),
    }
