import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from proxy.calls.metering.metering import Meter
from proxy.calls.metering.settlement import estimate_from_length
from proxy.calls.metering.usage_estimates import UsageEstimates
from proxy.catalog.entries import Route
from proxy.providers.answers.usage import openai_usage
from proxy.records.call import Call
from slo.usage import Usage
from tests.fakes.answers import chunk, event
from tests.fakes.call_dependencies import call, route

ASKED = call(b'{"model":"gpt-4o","messages":[{"role":"user","content":"Hello there"}]}')
THERE = route(model="gpt-4o")
PROMPT = 9  # two tokens of text, one of the role, three around it, three to open the answer


@contextmanager
def counting() -> Iterator[UsageEstimates]:
    estimates = UsageEstimates()
    try:
        yield estimates
    finally:
        estimates.close()


@asynccontextmanager
async def block_worker(estimates: UsageEstimates) -> AsyncIterator[None]:
    """The worker does nothing else meanwhile."""
    free = threading.Event()
    estimates._worker.submit(free.wait, 30)
    try:
        yield
    finally:
        free.set()


def heard(*pieces: bytes) -> Meter:
    meter = Meter(openai_usage, streamed=True)
    for piece in pieces:
        meter.feed(piece)
    return meter


def count_usage(meter: Meter | None, there: Route = THERE) -> Usage:
    with counting() as estimates:
        return asyncio.run(estimates.usage(ASKED, there, meter))


def test_a_prompt_that_was_not_answered_is_counted():
    assert count_usage(None) == Usage(input=PROMPT)


def test_the_estimate_counts_the_delivered_text_too():
    assert count_usage(heard(chunk("Hello"), chunk(" there"))) == Usage(input=PROMPT, output=2)


def test_the_upstreams_prompt_count_is_kept():
    usage_event = event(
        {"usage": {"prompt_tokens": 50, "prompt_tokens_details": {"cached_tokens": 40}}}
    )

    assert count_usage(heard(usage_event, chunk("Hello"))) == Usage(
        input=10, cache_read=40, output=1
    )


def test_an_upstreams_output_count_above_the_estimate_is_kept():
    usage = {
        "prompt_tokens": 50,
        "completion_tokens": 30,
        "completion_tokens_details": {"reasoning_tokens": 20},
    }

    assert count_usage(heard(chunk("Hello"), event({"usage": usage}))) == Usage(
        input=50, output=10, reasoning=20
    )


def test_reasoning_the_upstream_told_is_part_of_what_was_generated():
    usage = {
        "prompt_tokens": 50,
        "completion_tokens": 2,
        "completion_tokens_details": {"reasoning_tokens": 2},
    }

    assert count_usage(heard(chunk("one two three four"), event({"usage": usage}))) == Usage(
        input=50, output=2, reasoning=2
    )


def test_a_usage_of_zeros_says_nothing_of_the_prompt():
    usage_event = event({"usage": {"prompt_tokens": 0, "completion_tokens": 0}})

    assert count_usage(heard(usage_event)) == Usage(input=PROMPT)


OTHER = route(model="llama-3")  # of its own vocabulary


def estimate_after_learning(
    taught_by: Call, request: Call, there: Route, reported_tokens: int
) -> Usage:
    """Return what is estimated of a call after twenty others, of which so much was reported."""

    async def work(estimates: UsageEstimates) -> Usage:
        for _ in range(20):
            estimates.learn(taught_by, there, Usage(input=reported_tokens))
        return await estimates.usage(request, there, heard(chunk("Hello"), chunk(" there")))

    with counting() as estimates:
        return asyncio.run(work(estimates))


def test_a_provider_that_counts_more_is_learned_from():
    before, after = (
        count_usage(None, OTHER).input,
        estimate_after_learning(ASKED, ASKED, OTHER, PROMPT * 2),
    )

    assert before == PROMPT < after.input <= PROMPT * 2


def test_where_the_vocabulary_is_published_texts_are_what_is_counted():
    assert estimate_after_learning(ASKED, ASKED, THERE, PROMPT * 2) == Usage(input=PROMPT, output=2)


def test_where_the_vocabulary_is_published_tools_alone_are_learned_of():
    tools = (
        b'{"messages":[{"role":"user","content":"Hello there"}],'
        b'"tools":[{"function":{"name":"look_up"}}]}'
    )
    request = call(tools)
    before = estimate_after_learning(ASKED, request, THERE, PROMPT * 2)
    after = estimate_after_learning(request, request, THERE, before.input * 2)

    assert before.input < after.input <= before.input * 2
    assert estimate_after_learning(request, ASKED, THERE, before.input * 2) == Usage(
        input=PROMPT, output=2
    )
    assert after.output == 2


@pytest.mark.parametrize("there", [THERE, OTHER])
@pytest.mark.parametrize(
    ("body", "endpoint"),
    [
        (b'{"messages":[{"type":"image_url"}]}', "chat/completions"),
        (b'{"input":"And then?","previous_response_id":"resp_1"}', "responses"),
        (b'{"input":"And then?","conversation":"conv_1"}', "responses"),
        (b'{"input":[{"type":"item_reference","id":"msg_1"}]}', "responses"),
        (b'{"prompt":{"id":"pmpt_1"}}', "responses"),
    ],
)
def test_prompts_that_are_not_all_text_teach_no_token_ratio(
    body: bytes, endpoint: str, there: Route
) -> None:
    tools = call(ASKED.body[:-1] + b',"tools":[]}')
    teacher = call(body, endpoint)

    for request in (ASKED, tools):
        assert estimate_after_learning(teacher, request, there, 50_000) == Usage(
            input=PROMPT, output=2
        )


def test_only_a_sample_of_calls_is_compared():
    compared = []

    class RecordingEstimates(UsageEstimates):
        def _compare(self, *arguments: object) -> None:
            compared.append(arguments)

    estimates = RecordingEstimates()
    for _ in range(300):
        estimates.learn(ASKED, THERE, Usage(input=1))
        estimates._worker.submit(int).result()  # so that none waits
    estimates._worker.shutdown(wait=True)

    assert len(compared) == 20 + 3


def test_models_without_end_are_not_remembered_without_end():
    with counting() as estimates:
        for number in range(3000):
            estimates.learn(ASKED, route(model=f"m{number}"), Usage(input=1))
        assert len(estimates._seen) <= 1025


def test_when_too_many_wait_lengths_have_to_do():
    async def work(estimates: UsageEstimates) -> tuple[Usage, Usage]:
        async with block_worker(estimates):
            waiting = [
                asyncio.ensure_future(estimates.usage(ASKED, THERE, None)) for _ in range(256)
            ]
            await asyncio.sleep(0)
            usage_event = event({"usage": {"prompt_tokens": 50}})
            alone = await estimates.usage(ASKED, THERE, None)
            reported = await estimates.usage(ASKED, THERE, heard(chunk("x" * 40), usage_event))
        await asyncio.gather(*waiting)
        return alone, reported

    with counting() as estimates:
        alone, reported = asyncio.run(work(estimates))
    assert alone == estimate_from_length(ASKED, "")
    assert reported == Usage(input=50, output=10)


def test_an_estimate_that_is_not_ready_in_time_is_made_from_lengths():
    async def work() -> Usage:
        estimates = UsageEstimates(deadline=0.0)
        try:
            async with block_worker(estimates):
                return await estimates.usage(ASKED, THERE, None)
        finally:
            estimates.close()

    assert asyncio.run(work()) == estimate_from_length(ASKED, "")


def test_counting_can_be_warmed_up_and_closed():
    with counting() as estimates:
        estimates.load_vocabularies()
        assert asyncio.run(estimates.usage(ASKED, THERE, None)) == Usage(input=PROMPT)

    with pytest.raises(RuntimeError):
        asyncio.run(estimates.usage(ASKED, THERE, None))


def test_the_delivered_text_is_counted_when_an_estimate_is_late():
    async def work() -> Usage:
        estimates = UsageEstimates(deadline=0.0)
        try:
            async with block_worker(estimates):
                return await estimates.usage(ASKED, THERE, heard(chunk("x" * 40)))
        finally:
            estimates.close()

    assert asyncio.run(work()) == estimate_from_length(ASKED, "x" * 40)


def test_bodies_without_end_do_not_wait_to_be_compared():
    compared = []

    class RecordingEstimates(UsageEstimates):
        def _compare(self, *arguments: object) -> None:
            compared.append(arguments)

    async def work(estimates: UsageEstimates) -> None:
        async with block_worker(estimates):
            for number in range(100):
                estimates.learn(ASKED, route(model=f"m{number}"), Usage(input=1))

    estimates = RecordingEstimates()
    asyncio.run(work(estimates))
    estimates._worker.shutdown(wait=True)

    assert len(compared) == 32


def test_the_usual_length_of_a_features_answers_is_learned_from_some_twenty():
    with counting() as estimates:
        for number in range(20):
            assert estimates.usual_output(ASKED, THERE) is None
            estimates.learn(ASKED, THERE, Usage(input=PROMPT, output=100 + number))
        usual = estimates.usual_output(ASKED, THERE)
        average = estimates.average_output(ASKED, THERE)
        other = call(ASKED.body, feature="another")

    assert usual == pytest.approx(119, rel=0.05)
    assert average == pytest.approx(110, rel=0.05)
    assert estimates.average_output(other, THERE) is None
    assert estimates.usual_output(other, THERE) is None


def test_a_model_that_answered_little_is_taken_to_answer_as_the_features_other_models_do():
    with counting() as estimates:
        for _ in range(20):
            estimates.learn(ASKED, THERE, Usage(input=PROMPT, output=100))
        usual = estimates.usual_output(ASKED, route(model="another"))

    assert usual == pytest.approx(100, rel=0.05)


def test_a_busy_model_goes_on_teaching_what_the_features_other_models_may_answer():
    with counting() as estimates:
        for length in [100] * 64 + [1000] * 16 * 64:
            estimates.learn(ASKED, THERE, Usage(input=PROMPT, output=length))
        usual = estimates.usual_output(ASKED, route(model="another"))

    assert usual == pytest.approx(1000, rel=0.05)
