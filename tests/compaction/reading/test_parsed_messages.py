import time

import pytest
from hypothesis import given

from compaction.reading.harness_results import assign_voices
from compaction.reading.message import CannotCompactError, Voice
from compaction.reading.parsed_messages import ParsedMessageCache
from tests.compaction.reading.conversations import (
    assistant,
    conversations,
    messages,
    raws,
    result,
    user,
)

BASH = assistant("```\nls\n```")
TOLD = user("OBSERVATION:\na.py")


@pytest.mark.slow
@given(conversations())
def test_messages_are_read_as_they_are_without_a_memory(chat):
    readings = ParsedMessageCache(max_entries=6)
    once, again = readings.messages(raws(chat)), readings.messages(raws(chat))

    assert once == again == assign_voices(messages(chat))


def test_a_cached_message_is_not_parsed_again():
    readings = ParsedMessageCache()
    assert (readings._known._most, readings._known._heaviest) == (25_000, 16_777_216)
    first = readings.messages(raws([user(), assistant()]))
    second = readings.messages(raws([user(), assistant(), user("more")]))

    assert second[:2] == first
    assert [id(one) for one in second[:2]] == [id(one) for one in first]


def test_the_voice_of_a_message_is_the_one_it_has_in_its_conversation():
    readings = ParsedMessageCache()
    for _ in range(2):
        harness = readings.messages(raws([user(), BASH, TOLD]))
        person = readings.messages(raws([user(), assistant("Hm"), TOLD]))

        assert (harness[2].voice, person[2].voice) == (Voice.RESULT, Voice.USER)
        assert harness[1].calls
        assert not readings.messages(raws([user(), BASH]))[1].calls


def test_a_conversation_is_read_anew_by_another_token_count():
    readings = ParsedMessageCache()
    encoded = raws([user("hello")])

    assert readings.messages(encoded, len)[0].tokens == 4 + 5
    assert readings.messages(encoded, lambda text: 0)[0].tokens == 4
    assert readings.messages(raws([BASH, TOLD]), len)[1].tokens > 9


def test_one_unreadable_message_fails_the_whole_conversation():
    with pytest.raises(CannotCompactError):
        ParsedMessageCache().messages([*raws([user()]), b"{}"])


def test_the_parsed_message_cache_is_bounded():
    few, light = ParsedMessageCache(max_entries=10), ParsedMessageCache(max_bytes=10_000)
    for number in range(100):
        few.messages(raws([user(str(number))]))
        light.messages(raws([user("x" * 500 + str(number))]))

    assert len(few) <= 10
    assert len(light) <= 6


def test_a_long_conversation_that_is_known_takes_a_millisecond_or_so():
    text = "x" * 480
    turns = [one for number in range(300) for one in (BASH, user(f"OBSERVATION:\n{number} {text}"))]
    readings = ParsedMessageCache()
    readings.messages(raws([user(), *turns]))
    took = []
    for _ in range(9):
        fresh = raws([user(), *turns])
        begun = time.process_time()
        readings.messages(fresh)
        took.append(time.process_time() - begun)

    assert min(took) < 0.02  # half a millisecond where nothing else runs


def test_a_result_is_known_in_any_conversation():
    readings = ParsedMessageCache()

    assert readings.messages(raws([result("a")]))[0].answers == "a"


def test_a_message_of_half_a_caches_bytes_is_cached_at_twice_its_own_and_800():
    (raw,) = raws([user("a few words")])
    for max_bytes, cached in ((2 * (2 * len(raw) + 800), 1), (2 * (2 * len(raw) + 799), 0)):
        readings = ParsedMessageCache(max_bytes=max_bytes)
        readings.messages([raw])
        assert len(readings) == cached


def test_a_pair_of_an_eighth_of_a_caches_bytes_is_cached_at_twice_its_own_and_1200():
    both = raws([BASH, TOLD])
    pair_bytes = 2 * sum(map(len, both)) + 1_200

    def is_pair_cached(max_bytes: int) -> bool:
        readings = ParsedMessageCache(max_bytes=max_bytes)
        return readings.messages(both)[1] is readings.messages(both)[1]

    assert is_pair_cached(8 * pair_bytes)
    assert not is_pair_cached(8 * pair_bytes - 1)
