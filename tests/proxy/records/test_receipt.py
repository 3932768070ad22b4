import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.records.receipt import Outcome, Receipt, answering_model, words_without_message
from slo.usage import Usage
from tests.fakes.receipts import a_receipt

counts = st.integers(0, 10**12)
usages = st.none() | st.builds(Usage, input=counts, cache_read=counts, output=counts)


@given(
    usages,
    st.sampled_from(Outcome),
    st.none() | counts,
    st.lists(st.text(max_size=20), max_size=3).map(tuple),
    st.none() | st.text(max_size=50),
)
def test_a_receipt_survives_the_journal(usage, outcome, nanos, notes, prompt):
    receipt = a_receipt(usage=usage, outcome=outcome, cost_nanos=nanos, notes=notes, prompt=prompt)

    assert msgspec.json.decode(msgspec.json.encode(receipt), type=Receipt) == receipt


def test_a_receipt_of_an_unplanned_call_says_nothing_of_planning():
    written = msgspec.json.encode(a_receipt())

    assert not any(name in written for name in (b"conversation", b"arm", b"layout", b"miss"))


def test_an_unknown_price_is_not_nothing():
    unknown, free = a_receipt(cost_nanos=None), a_receipt(cost_nanos=0)

    assert msgspec.json.decode(msgspec.json.encode(unknown), type=Receipt).cost_nanos is None
    assert msgspec.json.decode(msgspec.json.encode(free), type=Receipt).cost_nanos == 0


def test_a_call_ends_in_one_of_five_ways():
    assert [outcome.value for outcome in Outcome] == [
        "answered",
        "refused",
        "failed",
        "broken",
        "hung_up",
    ]


@pytest.mark.parametrize(
    ("route", "model"),
    [
        ("openai/small", "small"),
        ("azure/small#deployment", "small"),
        ("groq/openai/gpt-oss-20b", "openai/gpt-oss-20b"),
        ("openai/gpt-*", "asked"),
        ("openai/ft:{base}:*", "asked"),
        ("openai", "asked"),
        ("", "asked"),
    ],
)
def test_the_model_that_answered_is_the_one_that_the_route_serves(route, model):
    assert answering_model(route, "asked") == model


@pytest.mark.parametrize(
    ("words", "brief"),
    [
        ("it answered 429 rate_limit insufficient_quota 'No credit.'",
         "it answered 429 rate_limit insufficient_quota"),
        ('it answered 503 "It\'s down."', "it answered 503"),
        ("it answered 400 bad_input", "it answered 400 bad_input"),
        ("ConnectionRefusedError: connect to 10.0.0.7", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_words_without_their_message_are_status_type_and_code(words, brief):
    assert words_without_message(words) == brief
