"""Answers with very many keys: nothing is built of them, wherever the keys stand."""

import tracemalloc
from collections.abc import Callable, Iterator

import orjson
import pytest

from proxy.calls.metering.metering import Meter
from proxy.providers.answers.usage import openai_usage
from slo.usage import Usage

#: Fewer than would not be parsed at all, and all distinct: the dearest there are.
KEYS = b",".join(b'"%x":1' % number for number in range(300_000))
ZERO = b'"usage":{"prompt_tokens":9,"completion_tokens":0}'
USED = b'"usage":{"prompt_tokens":9,"completion_tokens":2}'
HELLO = b'"choices":[{"message":{"content":"Hello"}}]'
#: As objects the keys take 30 MB; half of that is more than any copy of the text.
MANY_BYTES = 15_000_000


@pytest.fixture
def peak_memory() -> Iterator[Callable[[Callable[[], object]], int]]:
    """Bytes that a piece of work takes at most while it runs."""

    def peak(work: Callable[[], object]) -> int:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        work()
        return tracemalloc.get_traced_memory()[1] - before

    tracemalloc.start()
    yield peak
    tracemalloc.stop()


@pytest.mark.slow
def test_parsing_the_keys_would_build_many_objects(peak_memory):
    assert peak_memory(lambda: orjson.loads(b"{%b}" % KEYS)) > 2 * MANY_BYTES


BODIES = {
    "beside the text": b"{%b,%b,%b}" % (HELLO, KEYS, ZERO),
    "in the error": b'{"id":"a","error":{%b}}' % KEYS,
    "in the usage": b'{"id":"a",%b,"usage":{%b}}' % (HELLO, KEYS),
    "in the id": b'{"id":{%b},%b}' % (KEYS, HELLO),
    "in the type": b'{"type":{%b},%b}' % (KEYS, HELLO),
    "in the tier": b'{"service_tier":{%b},%b}' % (KEYS, HELLO),
    "in a message": b'{"message":{%b},%b}' % (KEYS, HELLO),
    "in diagnostics": b'{"diagnostics":{"cache_miss_reason":{"type":{%b}}}}' % KEYS,
}


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "event"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_no_objects_are_built_of_an_answer_with_very_many_keys(peak_memory, body, is_streamed):
    meter = Meter(openai_usage, streamed=is_streamed)
    run = b"data: %b\n\n" % body if is_streamed else body

    assert peak_memory(lambda: meter.feed(run)) < MANY_BYTES
    assert peak_memory(lambda: meter.has_implausible_usage) < MANY_BYTES
    assert peak_memory(meter.delivered_text) < MANY_BYTES


def test_the_text_of_an_answer_of_many_keys_is_read():
    meter = Meter(openai_usage, streamed=False)
    meter.feed(b"{%b,%b,%b}" % (KEYS, HELLO, USED))

    assert meter.usage == Usage(input=9, output=2)
    assert not meter.has_implausible_usage
    assert meter.delivered_text() == "Hello"


def test_an_answer_of_many_keys_is_taken_to_have_text_without_a_look():
    meter = Meter(openai_usage, streamed=False)
    meter.feed(b'{"choices":[{"message":{"content":""}}],%b,%b}' % (KEYS, ZERO))

    assert meter.has_implausible_usage


def test_an_event_with_very_many_keys_begins_the_answer():
    meter = Meter(openai_usage, streamed=True)
    role = b'"choices":[{"index":0,"delta":{"role":"assistant"}}]'
    meter.feed(b"data: {%b}\n\n" % role)
    assert not meter.has_begun
    meter.feed(b"data: {%b,%b}\n\n" % (role, KEYS))

    assert meter.has_begun


def test_embeddings_have_no_text_to_look_for():
    body = b"{%b,%b}" % (HELLO, ZERO)
    text, embeddings = (Meter(openai_usage, streamed=False, has_text=has) for has in (True, False))
    for meter in (text, embeddings):
        meter.feed(body)

    assert text.has_implausible_usage
    assert not embeddings.has_implausible_usage


def test_a_part_of_an_event_begins_the_answer_and_is_not_parsed(peak_memory):
    meter = Meter(openai_usage, streamed=True, bound=1000)
    part = b"data: {%b," % KEYS

    assert peak_memory(lambda: meter.feed_part(part)) < len(part) // 2
    assert (meter.has_begun, meter.is_unreadable, meter.is_finished) == (True, True, False)
    assert meter.delivered_text() == ""
