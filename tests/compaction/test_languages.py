from collections import Counter

import orjson
import pytest

from compaction.compact import ConversationContext, compact
from compaction.language.sentences import sentences
from compaction.memory import CompactionMemory
from compaction.policy import CompactionPolicy
from compaction.reading.message_parser import count_tokens_of
from compaction.reading.vocabulary import Tokenizer
from tests.fakes.marked_conversations import twins

#: Characters of a sentence that nobody says twice.
LONG = 12


def compacted_chat(language, *, end=None, target=0):
    raws = [orjson.dumps(message) for message in twins()[language].messages[:end]]
    policy = CompactionPolicy(force=True, once=True, target=target)
    return compact(raws, policy, memory=CompactionMemory(), context=ConversationContext())


def slightly_shorter_chat(language):
    whole = compacted_chat(language).tokens_before
    return compacted_chat(language, target=whole * 9 // 10)


@pytest.mark.parametrize("language", twins())
def test_a_short_conversation_shrinks_to_a_target_alone(language):
    assert not compacted_chat(language).changed
    assert slightly_shorter_chat(language).tokens_after < compacted_chat(language).tokens_after


@pytest.mark.parametrize("target", [0, 1, 300])
@pytest.mark.parametrize("language", twins())
def test_no_beginning_of_a_conversation_grows(language, target):
    messages = twins()[language].messages

    for end in range(1, len(messages) + 1, 2):
        chat = compacted_chat(language, end=end, target=target)
        exact = sum(count_tokens_of(raw, Tokenizer("o200k_base").count) for raw in chat.messages)

        assert chat.tokens_after == pytest.approx(exact, abs=1)
        assert chat.tokens_after <= chat.tokens_before


@pytest.mark.parametrize("language", twins())
def test_a_record_says_no_sentence_twice(language):
    (segment,) = slightly_shorter_chat(language).segments
    spoken = Counter(
        sentence
        for fact in segment.facts
        for sentence in sentences(fact.text)
        if len(sentence) >= LONG and fact.kind not in {"goal", "rule"}
    )

    assert [sentence for sentence, times in spoken.items() if times > 1] == []
