import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.reading.token_estimate import estimate_tokens
from compaction.reading.vocabulary import Tokenizer
from tests.fakes.marked_conversations import twins, work

PROSE = (
    "I'm sorry to hear that your flight was cancelled. I can rebook you on the next one, which"
    " leaves Boston on May 12 at 6:30 PM, or refund the ticket to the card ending in 4242.\n"
)
JSON = (
    '{"reservation_id": "ZFA04Y", "user_id": "sara_doe_496", "cabin": "economy", "flights":'
    ' [{"flight_number": "HAT170", "price": 179, "date": "2024-05-15", "origin": "PHL"}]}, '
)
CODE = (
    "    def matching(self, names: list[str]) -> dict[str, int]:\n"
    "        found = {name: self._counts[name] for name in names if name in self._counts}\n"
    "        return found or {}\n\n"
)
RANDOM_IDS = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 "
EMOJI = "Done ✅ and tested 🧪. Next: ship it 🚢 thanks 🙏 "


def texts_of(conversation):
    return [message["content"] or "" for message in conversation.messages]


@pytest.mark.parametrize("name", [*twins(), *work()])
def test_messages_of_any_language_and_kind_are_counted_exactly(name):
    texts = texts_of({**twins(), **work()}[name])
    count = Tokenizer("o200k_base").count

    assert [estimate_tokens(text) for text in texts] == [count(text) for text in texts]


@pytest.mark.parametrize("language", twins())
def test_a_long_text_of_any_language_is_counted_within_five_percent(language):
    text = "\n".join(texts_of(twins()[language])) * 30

    assert estimate_tokens(text) == pytest.approx(Tokenizer("o200k_base").count(text), rel=0.05)


@pytest.mark.parametrize("text", [PROSE, JSON, CODE, RANDOM_IDS, EMOJI])
def test_long_code_json_and_ids_are_counted_within_five_percent(text):
    text *= 300

    assert estimate_tokens(text) == pytest.approx(Tokenizer("o200k_base").count(text), rel=0.05)


def test_older_models_are_counted_by_their_own_vocabulary():
    text = "\n".join(texts_of(twins()["zh"]))

    assert estimate_tokens(text, "cl100k_base") == Tokenizer("cl100k_base").count(text)


def test_an_empty_text_has_no_tokens_and_any_other_has_some():
    assert estimate_tokens("") == 0
    assert estimate_tokens("a") == 1
    assert estimate_tokens("\ud800") > 0


@given(st.text(max_size=400))
def test_any_text_has_a_size_that_is_the_same_each_time(text):
    assert estimate_tokens(text) == estimate_tokens(text) >= min(1, len(text))


def test_a_long_text_takes_no_longer_than_a_few_milliseconds():
    text = (PROSE + JSON + CODE) * 600
    took = []
    for _ in range(5):
        begun = time.process_time()
        estimate_tokens(text[:300_000])
        took.append(time.process_time() - begun)

    assert min(took) < 0.05  # some 2 ms where nothing else runs


def test_a_text_of_4096_characters_is_counted_whole_and_a_longer_one_in_slices():
    count = Tokenizer("o200k_base").count
    text = RANDOM_IDS * 64

    assert len(text[:4_096]) == 4_096
    assert estimate_tokens(text[:4_096]) == count(text[:4_096])
    assert estimate_tokens(text[:4_097]) != count(text[:4_097])


def test_of_each_1024_characters_of_a_long_text_256_are_counted():
    words, figures = (" word" * 52)[:256], "1" * 768

    assert estimate_tokens((words + figures) * 32) == 128 * estimate_tokens(words)


def test_a_long_text_is_read_in_slices_of_256_characters_at_least_every_1024():
    mixed = PROSE * 40 + JSON * 40 + CODE * 40

    assert [estimate_tokens(mixed * times) for times in (1, 2)] == [6_399, 12_730]
