"""Recorded calls that kept answers would have served."""

from typing import Any

import orjson
import pytest

from proxy.tools.replay.fast_path.reused_answers import AnswerReuse, EqualCalls, ReusedAnswers
from proxy.tools.replay.recorded_call import RecordedCall
from proxy.tools.replay.variant_totals import MAX_FEATURES, OTHER_FEATURES
from tests.proxy.tools.replay.scene import CATALOG, assistant, body, user

ROUTES = CATALOG.models["breakpoints"].routes
HELLO = assistant("Hello")


def question(
    text: str = "Hi", *, feature: str = "f", reply: Any = HELLO, ending: str = "", **fields: Any
) -> RecordedCall:
    return RecordedCall(
        at=None,
        feature=feature,
        body=body(user(text), **fields),
        reply=orjson.dumps(reply),
        ending=ending,
    )


def reuse(
    *lines: RecordedCall, gap: float = 10.0, nanos: int | None = 100, **options: Any
) -> tuple[ReusedAnswers, ...]:
    finder = AnswerReuse(**options)
    for number, line in enumerate(lines):
        finder.add(line, ROUTES, number * gap, nanos)
    return finder.features({})


def test_equal_calls_that_ask_for_repeatable_answers_are_hits_after_the_first():
    (feature,) = reuse(*[question(temperature=0)] * 3, question("Bye", temperature=0))

    assert (feature.calls, feature.repeating) == (4, 4)
    assert (feature.hits.calls, feature.hits.nanos) == (2, 200)
    assert feature.equal.calls == 2


def test_the_order_of_fields_makes_no_other_call_and_a_seed_does():
    first = RecordedCall(at=None, body=b'{"model":"any","seed":1,"messages":[]}')
    turned = RecordedCall(at=None, body=b'{"messages": [], "seed": 1, "model": "any"}')
    other = RecordedCall(at=None, body=b'{"messages": [], "seed": 2, "model": "any"}')

    (feature,) = reuse(first, turned, other)

    assert feature.hits.calls == 1


def test_calls_without_temperature_0_are_hits_of_a_declared_feature_alone():
    (feature,) = reuse(question(), question())
    (declared,) = reuse(question(), question(), reusable=["f"])

    assert (feature.repeating, feature.hits.calls, feature.equal.calls) == (0, 0, 1)
    assert (declared.hits.calls, declared.is_declared) == (1, True)


def test_an_answer_is_given_until_its_ttl_and_the_next_one_is_kept():
    calls = [question(temperature=0)] * 4

    (feature,) = reuse(*calls, gap=40.0, ttl=60.0)

    assert feature.hits.calls == 2  # at 40 s and 120 s; at 80 s the answer is asked for again
    assert feature.equal.calls == 3


def test_features_share_no_answer():
    first, second = reuse(question(temperature=0), question(temperature=0, feature="g"))

    assert (first.hits.calls, second.hits.calls) == (0, 0)


CALLING = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "pay"}}]}


@pytest.mark.parametrize(
    ("reply", "ending", "hits"),
    [
        (HELLO, "length", 0),
        (HELLO, "stop", 1),
        (HELLO, "end_turn", 1),
        (CALLING, "", 0),
        (None, "", 1),
    ],
)
def test_an_answer_is_kept_by_the_rules_of_live_calls(reply: object, ending: str, hits: int):
    line = question(temperature=0, reply=reply, ending=ending)

    (feature,) = reuse(line, line)

    assert feature.hits.calls == hits
    assert feature.equal.calls == 1


def test_calls_that_go_on_from_kept_state_are_never_hits():
    line = question(temperature=0, store=True, previous_response_id="r")

    (feature,) = reuse(line, line, reusable=["f"])

    assert (feature.calls, feature.equal.calls) == (2, 0)


def test_an_unknown_price_makes_the_saved_amount_unknown():
    (feature,) = reuse(*[question(temperature=0)] * 2, nanos=None)

    assert (feature.hits.calls, feature.hits.nanos) == (1, None)


def test_hits_without_a_recorded_answer_are_charged_for_the_mean_one():
    finder = AnswerReuse()
    for number in range(2):
        finder.add(question(temperature=0, reply=None), ROUTES, float(number), 100)

    (feature,) = finder.features({"f": 40})

    assert feature.hits == EqualCalls(1, 140, 1)


def test_features_beyond_the_bound_share_their_totals():
    lines = [question(feature=str(number)) for number in range(MAX_FEATURES + 2)]

    features = {feature.feature: feature.calls for feature in reuse(*lines)}

    assert len(features) == MAX_FEATURES + 1
    assert features[OTHER_FEATURES] == 2
