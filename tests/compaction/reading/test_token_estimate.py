import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.reading.token_estimate import estimate_tokens
from proxy.tokens.vocabulary import Tokenizer

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


@pytest.mark.parametrize("text", [PROSE, JSON, CODE])
@pytest.mark.parametrize("times", [3, 300])
def test_an_estimate_is_within_a_tenth_of_the_count(text, times):
    exact = Tokenizer("o200k_base").count(text * times)

    assert estimate_tokens(text * times) == pytest.approx(exact, rel=0.1)


@pytest.mark.parametrize(
    "text",
    [
        "Ваш заказ был отправлен сегодня утром и прибудет в течение двух дней. " * 5,
        "请帮我查询一下我的订单状态。我们的系统显示该订单已经发货。" * 5,
        "أهلا بك، تم شحن طلبك هذا الصباح ومن المتوقع أن يصل خلال يومين. " * 5,
        "Done ✅ and tested 🧪. Next: ship it 🚢 thanks 🙏 " * 5,
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 " * 5,
    ],
)
def test_other_scripts_and_random_ids_are_near(text):
    assert estimate_tokens(text) == pytest.approx(Tokenizer("o200k_base").count(text), rel=0.3)


def test_an_empty_text_has_no_tokens_and_any_other_has_some():
    assert estimate_tokens("") == 0
    assert estimate_tokens("a") == estimate_tokens("\ud800") == 1


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
