"""The engine demo's measurements: rates by round, and prompts that share a prefix or do not."""

import pytest

from proxy.errors import OperatorError
from proxy.tools.engine_demo.calls import EngineAnswer
from proxy.tools.engine_demo.measure import DecodeRate, decode_rate, long_system, topics


def test_tokens_per_second_leave_out_the_first_token_and_the_wait_for_it():
    one = EngineAnswer(ttft=1.0, seconds=1.5, output_tokens=51)
    other = EngineAnswer(ttft=2.0, seconds=2.5, output_tokens=151)

    assert decode_rate([one, other]) == 200.0


def test_answers_without_tokens_cannot_be_measured():
    with pytest.raises(OperatorError, match="too short"):
        decode_rate([EngineAnswer(ttft=1.0, seconds=1.0, output_tokens=1)])


def test_a_rate_is_the_median_of_its_rounds_and_is_compared_round_by_round():
    quick = DecodeRate(rounds=(30.0, 10.0, 20.0), draft_tokens=8, accepted_tokens=6)
    slow = DecodeRate(rounds=(10.0, 10.0, 5.0))

    assert quick.tokens_per_s == 20.0
    assert quick.ratios(slow) == [3.0, 1.0, 4.0]
    assert quick.acceptance_rate == 0.75
    assert slow.acceptance_rate == 0.0


def test_long_system_messages_of_two_shops_differ_from_their_first_words_on():
    one, other = long_system("number 1"), long_system("number 2")

    assert one[:20] != other[:20]
    assert one.count("\n## ") == 3
    assert len(one) > 4_000


def test_every_topic_of_the_tiny_model_has_questions():
    assert len(topics()) > 50
    assert all(topics())
