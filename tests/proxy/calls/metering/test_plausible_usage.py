"""Usage that upstreams report, and what of it is believed."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.calls.metering.plausible_usage import is_possible, usage_reader
from proxy.providers.kinds import WIRES
from slo.usage import Usage
from tests.fakes.answers import DONE, chunk, event, stream
from tests.fakes.call_dependencies import ESTIMATE, call, route
from tests.fakes.upstream import ScriptedAnswer
from tests.proxy.api.served_calls import serve_one_call

MODEL = route(window=100_000, max_output=4_000)
UNKNOWN = route()
MANY_PASSES = Usage(input=3_000_000, output=100_000)
FUNCTION = {"type": "function", "name": "f"}


def a_call(endpoint: str = "chat/completions", **fields: Any) -> Any:
    return call(orjson.dumps({"model": "m", "messages": [], **fields}), endpoint)


@pytest.mark.parametrize(
    ("usage", "endpoint", "fields", "possible"),
    [
        (Usage(input=100_000, output=4_000), "chat/completions", {}, True),
        (Usage(input=400_000, output=30_000), "chat/completions", {}, True),
        (Usage(input=100, output=99_999_000), "chat/completions", {}, False),
        (Usage(input=100, reasoning=99_999_000), "chat/completions", {}, False),
        (Usage(cache_read=10**12), "chat/completions", {}, False),
        (Usage(input=100, output=100_000), "chat/completions", {"n": 8}, True),
        (Usage(input=100, output=10**9), "chat/completions", {"n": 10**9}, False),
        (MANY_PASSES, "responses", {"tools": [{"type": "web_search"}]}, True),
        (MANY_PASSES, "responses", {"tools": [FUNCTION, {"type": "mcp"}]}, True),
        (MANY_PASSES, "responses", {"tools": [FUNCTION, {"type": "local_shell"}]}, False),
        (MANY_PASSES, "responses", {"prompt": {"id": "pmpt_1"}}, True),
        (MANY_PASSES, "chat/completions", {"tools": [FUNCTION]}, False),
        (MANY_PASSES, "chat/completions", {"web_search_options": {}}, True),
        (MANY_PASSES, "chat/completions", {"metadata": {"tools": "web_search"}}, False),
        (MANY_PASSES, "chat/completions", {"tools": "web_search"}, False),
        (MANY_PASSES, "completions", {"prompt": "a", "tools": [{"type": "mcp"}]}, False),
        (MANY_PASSES, "messages", {"tools": [{"type": "code_execution_20250825"}]}, True),
        (MANY_PASSES, "messages", {"mcp_servers": [{"type": "url"}]}, True),
        (MANY_PASSES, "messages", {"tools": [{"name": "f"}, {"type": "bash_20250124"}]}, False),
        (MANY_PASSES, "messages", {"tools": [{"name": "f", "type": None}, {"type": []}]}, False),
        (Usage(input=3_000_000), "responses", {}, False),
        (Usage(input=900_000), "embeddings", {"input": ["x" * 1_000_000]}, True),
    ],
)
def test_as_much_is_believed_as_the_model_can_give_several_times(usage, endpoint, fields, possible):
    assert is_possible(usage, a_call(endpoint, **fields), MODEL) is possible


def test_of_a_model_without_limits_what_any_model_gives_is_believed():
    assert is_possible(Usage(input=1_000_000, output=1_000_000), a_call(), UNKNOWN)
    assert not is_possible(Usage(input=10**8), a_call(), UNKNOWN)
    assert not is_possible(Usage(output=10**8), a_call(), UNKNOWN)


COUNTS = st.integers() | st.floats() | st.integers(1, 4_000).map(lambda digits: 10**digits)


@given(
    st.dictionaries(
        st.sampled_from(["prompt_tokens", "completion_tokens", "input_tokens", "total_tokens"]),
        COUNTS,
    ),
    st.sampled_from(["openai", "anthropic", "gemini"]),
    st.sampled_from(["", "xai", "google", "openai"]),
)
def test_no_reported_count_becomes_more_than_a_model_can_give(reported, kind, provider):
    there = route(provider or "lab", window=100_000, max_output=4_000)

    usage = usage_reader(WIRES[kind], a_call(), there)(reported)

    if usage is not None:
        assert 0 <= usage.prompt_tokens <= 800_000
        assert 0 <= usage.generated_tokens <= 32_000


@pytest.mark.parametrize("provider", ["", "xai"])
@pytest.mark.parametrize("streamed", [True, False])
def test_an_answer_with_an_impossible_usage_is_counted_by_the_gateway(streamed, provider):
    there = route(provider or "lab", window=100_000, max_output=4_000)
    usage = {"prompt_tokens": 10, "completion_tokens": 99_999_000, "total_tokens": 99_999_010}
    body = {"id": "c", "choices": [{"message": {"content": "a"}}], "usage": usage}
    script = stream(chunk("a"), event({"id": "c", "choices": [], "usage": usage}), DONE)

    done = serve_one_call(
        script if streamed else ScriptedAnswer([orjson.dumps(body)]),
        sent_call=a_call(stream=streamed),
        routes=(there,),
    )

    assert (done.last.usage, done.last.estimated) == (ESTIMATE, True)
    assert done.last.notes == ("the upstream reported an impossible usage: it was counted here",)


@pytest.mark.parametrize("digits", [20, 309, 4_299, 4_301])
@pytest.mark.parametrize("streamed", [True, False])
def test_an_answer_with_a_usage_of_very_many_digits_has_a_receipt_and_an_estimate(streamed, digits):
    there = route("lab", window=100_000, max_output=4_000)
    choice = {"message": {"content": "a"}, "delta": {"content": "a"}}
    body = b'{"choices":[%b],"usage":{"completion_tokens":%b}}' % (
        orjson.dumps(choice),
        b"9" * digits,
    )
    script = stream(event(body.decode()), DONE) if streamed else ScriptedAnswer([body])

    done = serve_one_call(script, sent_call=a_call(stream=streamed), routes=(there,))

    assert (done.last.usage, done.last.estimated) == (ESTIMATE, True)


def test_a_total_above_the_sum_costs_nothing_but_at_providers_that_count_reasoning_so():
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 1_015}
    body = {"id": "c", "choices": [{"message": {"content": "a"}}], "usage": usage}
    costs = {}
    for provider in ("openai", "mistral", "", "xai", "google"):
        script, served = ScriptedAnswer([orjson.dumps(body)]), route(provider or "lab")
        done = serve_one_call(script, sent_call=a_call(), routes=(served,))
        assert done.last.usage is not None
        costs[provider] = done.last.usage.generated_tokens

    assert costs == {"openai": 5, "mistral": 5, "": 5, "xai": 1_005, "google": 1_005}
