"""Recorded calls through every variant."""

from collections.abc import Sequence

import msgspec
import orjson
import pytest

from proxy.records.request_fields import replace_fields
from proxy.tools.replay.lines import RecordedCall
from proxy.tools.replay.run import ReplayOutcome, replay
from proxy.tools.replay.variant_totals import VariantRow
from slo.usage import Usage
from tests.proxy.tools.replay.scene import (
    RULES,
    assistant,
    body,
    call,
    dialogue,
    prompt_reader,
    system,
    tool,
    user,
    with_times,
)


class MarkingVariant:
    """Puts a mark at the end of the system text, and remembers what it was told."""

    name = "marked"
    shortens = False

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


def outcome(
    vocabulary, name: str, calls: Sequence[RecordedCall], *variants, gap: float = 10.0
) -> ReplayOutcome:
    return replay(with_times(calls, gap), prompt_reader(name, vocabulary), variants)


def cost(row: VariantRow) -> float:
    assert row.cost_usd_per_1k is not None
    return row.cost_usd_per_1k


def rows(found: ReplayOutcome) -> dict[str, VariantRow]:
    return {row.name: row for row in found.variants}


def test_a_conversation_without_marks_reads_nothing_and_could_read_most(vocabulary):
    found = outcome(vocabulary, "marks", dialogue(system(*RULES), 6))

    as_sent, ceiling = found.variants
    assert (as_sent.name, ceiling.name) == ("as sent", "ceiling")
    assert as_sent.hit_rate == 0.0
    assert ceiling.hit_rate > 0.7
    assert ceiling.input_tokens == as_sent.input_tokens
    assert ceiling.output_tokens == as_sent.output_tokens > 0
    assert cost(ceiling) < cost(as_sent)
    assert (as_sent.closed, ceiling.closed) == (0.0, 1.0)
    assert as_sent.misses[0].reason == "unmarked"


def test_a_variant_that_marks_gets_part_of_the_way_and_learns_how_it_was_served(vocabulary):
    marked = MarkingVariant({"cache_control": {"type": "ephemeral"}})

    found = rows(outcome(vocabulary, "marks", dialogue(system(*RULES), 6), marked))

    assert 0 < (found["marked"].closed or 0) < 1
    assert found["as sent"].hit_rate < found["marked"].hit_rate < found["ceiling"].hit_rate
    assert cost(found["marked"]) < cost(found["as sent"])
    assert marked.told[0].write_5m == marked.told[1].cache_read > 64


def test_costs_are_the_same_without_explanations(vocabulary):
    calls = dialogue(system(*RULES), 6)
    variants = [MarkingVariant({"cache_control": {"type": "ephemeral"}}) for _ in range(2)]
    route = prompt_reader("marks", vocabulary)

    told = replay(with_times(calls, 10.0), route, variants[:1])
    short = replay(with_times(calls, 10.0), route, variants[1:], explains=False)

    assert short.calls == told.calls
    for row in ("as sent", "marked"):
        full, brief = rows(told)[row], rows(short)[row]
        assert cost(brief) == cost(full)
        assert brief.cache_read_tokens == full.cache_read_tokens
        assert brief.misses == ()
    assert rows(short)["ceiling"].input_tokens == 0


def test_costs_are_exact(vocabulary):
    one = call(system(*RULES), user("Hi"), reply=assistant("Yes"))

    as_sent, ceiling = outcome(vocabulary, "marks", [one, one]).variants

    total, said = as_sent.input_tokens // 2, as_sent.output_tokens // 2
    assert as_sent.cost_usd_per_1k == pytest.approx((total * 4 + said * 20) / 1_000, abs=1e-6)
    paid = ceiling.cache_write_tokens * 5 + ceiling.cache_read_tokens * 0.4
    paid += ceiling.fresh_tokens * 4 + ceiling.output_tokens * 20
    assert ceiling.cost_usd_per_1k == pytest.approx(paid / 2_000, abs=1e-6)
    assert ceiling.cache_read_tokens == ceiling.cache_write_tokens == total - 1


def test_an_unknown_price_is_unknown_and_writes_may_be_free(vocabulary):
    found = outcome(vocabulary, "blocks", dialogue(system(*RULES), 3))

    assert [row.cost_usd_per_1k for row in found.variants] == [None, None]
    assert [row.cache_write_tokens for row in found.variants] == [0, 0]


def test_where_nothing_is_cached_the_ceiling_is_as_sent(vocabulary):
    route = prompt_reader("uncached", vocabulary)
    as_sent, ceiling = replay(with_times(dialogue(system(*RULES), 3)), route).variants

    assert as_sent.cost_usd_per_1k is not None
    assert ceiling == msgspec.structs.replace(as_sent, name="ceiling", misses=())


@pytest.mark.parametrize("name", ["breakpoints", "marks", "blocks", "units", "uncached"])
def test_as_sent_reads_no_more_than_the_ceiling_and_costs_no_less(name, vocabulary):
    calls: list[RecordedCall] = []
    for number in range(12):
        turn = number * 5 % 7
        lines = [f"User {number % 4}", *RULES[turn:], f"It is {number * 37}.", *RULES[:turn]]
        tools = [tool("abc"[(number + place) % 3]) for place in range(3)]
        for each in dialogue(system(*lines), 3, f"c{number % 5}"):
            fields = orjson.loads(each.body) | {"tools": tools}
            calls.append(call(*fields["messages"], tools=tools, conversation=each.conversation))

    as_sent, ceiling = outcome(vocabulary, name, calls, gap=3.0).variants

    assert as_sent.cache_read_tokens <= ceiling.cache_read_tokens
    if as_sent.cost_usd_per_1k is not None:
        assert cost(ceiling) <= cost(as_sent)


class TimeLast:
    """Sends the first line of the system text, the time, as the last message."""

    name = "time last"
    shortens = False

    def body(self, line: RecordedCall, now: float) -> bytes:
        first, *rest = orjson.loads(line.body)["messages"]
        time, _, rules = first["content"].partition("\n")
        messages = [system(rules), *rest, system(time)]
        return replace_fields(line.body, {"messages": orjson.dumps(messages)})

    def record_answer(self, usage: Usage) -> None:
        return


def test_where_whole_units_are_kept_no_order_reads_more_than_the_ceiling(vocabulary):
    calls = []
    for number, each in enumerate(dialogue(system(*RULES), 8)):
        first, *rest = orjson.loads(each.body)["messages"]
        timed_first = system(f"It is {number * 37} o'clock.", first["content"])
        calls.append(call(timed_first, *rest, reply=orjson.loads(each.reply)))

    found = outcome(vocabulary, "units", calls, TimeLast())

    by_name = rows(found)
    assert by_name["time last"].cache_read_tokens == by_name["ceiling"].cache_read_tokens > 0
    assert by_name["time last"].closed == 1.0
    assert found.sent_before > by_name["ceiling"].cache_read_tokens


def test_where_whole_units_are_kept_what_is_built_well_reads_what_was_sent_before(vocabulary):
    found = outcome(vocabulary, "units", dialogue(system(*RULES), 8))

    assert found.sent_before == found.variants[-1].cache_read_tokens > 0


def test_elsewhere_the_ceiling_is_what_was_sent_before(vocabulary):
    found = outcome(vocabulary, "blocks", dialogue(system("It is noon.", *RULES), 4))

    assert found.sent_before == found.variants[-1].cache_read_tokens > 0


def test_calls_that_cannot_be_sent_are_left_out_of_every_row(vocabulary):
    bad = call({"role": "wizard", "content": "Hi"})

    found = outcome(vocabulary, "breakpoints", [bad, call(user("Hi")), bad])

    assert found.calls == 1
    assert found.left_out == {"a message, a part of one or a tool is wrong at `wizard`": 2}
    assert found.left_out_first.keys() == found.left_out.keys()


def test_reasons_for_leaving_out_are_bounded(vocabulary):
    bad = [call({"role": f"wizard {number}", "content": "Hi"}) for number in range(100)]

    found = outcome(vocabulary, "breakpoints", [*bad, *bad])

    assert len(found.left_out) == 21
    assert sum(found.left_out.values()) == 200


def test_a_call_without_a_recorded_answer_is_counted(vocabulary):
    known = RecordedCall(at=None, body=body(user("Hi")), generated=9)

    found = outcome(vocabulary, "breakpoints", [call(user("Hi")), known])

    assert found.unanswered == 1
    assert found.variants[0].output_tokens == 9


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
    found = rows(outcome(vocabulary, "marks", dialogue(system(*RULES), 2), variant))

    assert found["marked"].refused == 2
    assert found["marked"].cache_read_tokens == 0
    assert found["marked"].input_tokens == found["as sent"].input_tokens


def test_a_mark_that_the_cache_refuses_counts_as_uncached(vocabulary):
    said = [user("Hi"), assistant("Yes"), user("So?")]
    variant = MarkingVariant({"prompt_cache_breakpoint": {"ttl": "30m"}}, place=1)

    found = rows(outcome(vocabulary, "breakpoints", [call(*said)], variant))

    assert found["marked"].refused == 1


def test_the_hours_of_the_calls_and_the_day_given_decide_the_price(vocabulary):
    calls = [(86_400.0 * 3 + 5.0, call(user("Hi")))]

    found = replay(
        calls, prompt_reader("marks", vocabulary), day=1_790_000_000.0 // 86_400 * 86_400
    )

    assert found.variants[0].cost_usd_per_1k is not None
