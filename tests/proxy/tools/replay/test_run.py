"""Recorded calls of one model through every variant."""

from collections.abc import Sequence

import orjson
import pytest

from proxy.errors import OperatorError
from proxy.records.request_fields import replace_fields
from proxy.tools.replay.recorded_call import RecordedCall
from proxy.tools.replay.run import ModelReplay, UnmodifiedVariant, replay
from proxy.tools.replay.variant_totals import VariantTotals, sum_of
from slo.usage import Usage
from tests.proxy.tools.replay.scene import (
    RULES,
    assistant,
    body,
    call,
    dialogue,
    prompt_reader,
    system,
    user,
    with_times,
)


class MarkingVariant:
    """Puts a mark at the end of the system text, and remembers what it was told."""

    name = "marked"

    def __init__(self, mark: dict[str, object], *, place: int = 0) -> None:
        self._mark = mark
        self._place = place
        self.told: list[Usage] = []

    def body(self, line: RecordedCall, now: float) -> bytes:
        messages = orjson.loads(line.body)["messages"]
        text = messages[self._place]["content"]
        messages[self._place]["content"] = [{"type": "text", "text": text, **self._mark}]
        return replace_fields(line.body, {"messages": orjson.dumps(messages)})

    def record_answer(self, usage: Usage) -> None:
        self.told.append(usage)


def ways(
    vocabulary, name: str, calls: Sequence[RecordedCall], *variants
) -> Sequence[VariantTotals]:
    return sum_of(replay(with_times(calls), prompt_reader(name, vocabulary), variants).features())


def test_a_variant_that_marks_costs_less_and_learns_how_it_was_served(vocabulary):
    marking = MarkingVariant({"cache_control": {"type": "ephemeral"}})

    as_sent, marked = ways(vocabulary, "marks", dialogue(system(*RULES), 6), marking)

    assert as_sent.hit_rate == 0.0
    assert marked.hit_rate > 0.3
    assert (marked.nanos or 0) < (as_sent.nanos or 0)
    assert marking.told[0].write_5m == marking.told[1].cache_read > 64


def test_the_cost_of_recorded_calls_is_exact(vocabulary):
    one = call(system(*RULES), user("Hi"), reply=assistant("Yes"))

    (as_sent,) = ways(vocabulary, "marks", [one, one])

    assert as_sent.nanos == as_sent.input_tokens * 4_000 + as_sent.output_tokens * 20_000


def test_an_unknown_price_is_unknown_and_never_0(vocabulary):
    (as_sent,) = ways(vocabulary, "blocks", dialogue(system(*RULES), 3))

    assert as_sent.nanos is None
    assert as_sent.cache_write_tokens == 0


def test_a_call_that_cannot_be_sent_says_why_and_is_in_no_total(vocabulary):
    run = ModelReplay(prompt_reader("breakpoints", vocabulary))
    run.call(call(user("Hi")), 0.0)

    with pytest.raises(OperatorError, match="wrong at `wizard`"):
        run.call(call({"role": "wizard", "content": "Hi"}), 1.0)
    assert sum_of(run.features())[0].calls == 1


def test_a_call_without_a_recorded_answer_is_counted(vocabulary):
    recorded = RecordedCall(at=None, feature="f", body=body(user("Hi")), generated=9)

    run = replay(with_times([call(user("Hi")), recorded]), prompt_reader("breakpoints", vocabulary))
    (feature,) = run.features()

    assert feature.unanswered == 1
    assert feature.ways[0].output_tokens == 9


def test_calls_are_counted_under_their_features(vocabulary):
    calls = [RecordedCall(at=None, feature=name, body=body(user("Hi"))) for name in ("a", "b", "a")]

    run = replay(with_times(calls), prompt_reader("breakpoints", vocabulary))

    assert [(feature.feature, feature.calls) for feature in run.features()] == [("a", 2), ("b", 1)]


@pytest.mark.parametrize(
    "variant",
    [
        MarkingVariant({"cache_control": {"type": "ephemeral", "ttl": "12h"}}),
        MarkingVariant({"type": "hologram"}),
    ],
)
def test_a_call_that_the_provider_would_refuse_counts_as_uncached_and_is_reported(
    variant, vocabulary
):
    as_sent, marked = ways(vocabulary, "marks", dialogue(system(*RULES), 2), variant)

    assert marked.refused == 2
    assert marked.cache_read_tokens == 0
    assert marked.input_tokens == as_sent.input_tokens


def test_a_mark_that_the_cache_refuses_counts_as_uncached(vocabulary):
    messages = [user("Hi"), assistant("Yes"), user("So?")]
    variant = MarkingVariant({"prompt_cache_breakpoint": {"ttl": "30m"}}, place=1)

    _, marked = ways(vocabulary, "breakpoints", [call(*messages)], variant)

    assert marked.refused == 1


def test_the_hours_of_the_calls_and_the_day_given_decide_the_price(vocabulary):
    calls = [(86_400.0 * 3 + 5.0, call(user("Hi")))]

    run = replay(calls, prompt_reader("marks", vocabulary), day=1_790_000_000.0 // 86_400 * 86_400)

    assert sum_of(run.features())[0].nanos


def test_as_sent_sends_the_callers_bytes_and_learns_nothing():
    line, way = call(user("Hi")), UnmodifiedVariant()

    way.record_answer(Usage(input=1))

    assert way.body(line, 0.0) is line.body
    assert way.name == "as sent"
