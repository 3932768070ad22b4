"""The official SDKs against a gateway whose upstream writes tool calls in its own way."""

from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import orjson
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from proxy.records.receipt import Outcome
from tests.fakes.background_loop import running_in_thread
from tests.fakes.gateway_fixture import ServedGateway, gateway_before
from tests.fakes.messages_calls import Json, chunk
from tests.fakes.plain_http import PLAIN

_CATALOG = """
default = "odd"

[upstreams.odd]
base_url = "{url}"
key_env = "ODD_KEY"
serves_responses = false

[[models]]
id = "odd-model"
upstream = "odd"
price = {price}
"""
_USAGE = {"prompt_tokens": 30, "completion_tokens": 9, "total_tokens": 39}
_CALLS = [("get_weather", {"city": "Bern"}), ("get_weather", {"city": "Oslo"})]
_TEXTS = ['{"city":"Bern"}', '{"city":"Oslo"}']
_TOOL_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def _split(index: Json, number: int, *, repeats_id: bool = False) -> list[Json]:
    """One call in three parts."""
    text, named = _TEXTS[number], {"id": f"call_{number}"}
    return [
        index | named | {"function": {"name": "get_weather", "arguments": ""}},
        index | (named if repeats_id else {}) | {"function": {"arguments": text[:7]}},
        index | (named if repeats_id else {}) | {"function": {"arguments": text[7:]}},
    ]


def _whole(number: int, **fields: Any) -> Json:
    return {"function": {"name": "get_weather", "arguments": _TEXTS[number]}, **fields}


def _split_name(number: int, **mark: int) -> list[Json]:
    """One call, its name in two parts."""
    first, *rest = _split(mark, number)
    first["function"]["name"] = "get_"
    return [first, mark | {"function": {"name": "weather", "arguments": ""}}, *rest]


#: Parts of two calls, one chunk each, as several servers write them.
_FORMS: dict[str, list[Json]] = {
    "without index": [*_split({}, 0), *_split({}, 1)],
    "index 0": [*_split({"index": 0}, 0), *_split({"index": 0}, 1)],
    "index 0 and repeated ids": [
        *_split({"index": 0}, 0, repeats_id=True),
        *_split({"index": 0}, 1, repeats_id=True),
    ],
    "text as index, in turns": [
        part
        for turn in zip(_split({"index": "0"}, 0), _split({"index": "1"}, 1), strict=True)
        for part in turn
    ],
    "name in pieces": [*_split_name(0, index=0), *_split_name(1, index=1)],
    "name in pieces without index": [*_split_name(0), *_split_name(1)],
    "fresh ids": [
        part | {"id": f"call_{number}" if place == 0 else f"fresh_{number}_{place}"}
        for number in range(2)
        for place, part in enumerate(_split({"index": 0}, number))
    ],
    "Google": [_whole(0, id="", type="function"), _whole(1, id="", type="function")],
    "Ollama": [_whole(0, id="call_0", index=0), _whole(1, id="call_1", index=0)],
    "objects": [
        {"index": n, "id": f"call_{n}", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(_CALLS)
    ],
}
_BROKEN = "broken"
_LEGACY = "function_call"
_NAMELESS = "nameless"


class OddUpstream:
    """Answers with the calls of the form that the last message names; one breaks its stream."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        form = orjson.loads(await Request(scope, receive).body())["messages"][-1]["content"]
        events = [orjson.dumps(one) for one in self._chunks(form)]
        body = b"".join(b"data: " + event + b"\n\n" for event in [*events, b"[DONE]"])
        await Response(body, media_type="text/event-stream")(scope, receive, send)

    def _chunks(self, form: str) -> Iterator[Json | list[int]]:
        if form == _BROKEN:
            yield chunk(content="I look.")
            yield [1, 2]  # no chunk
        elif form == _LEGACY:
            yield chunk(function_call={"name": "get_weather", "arguments": ""})
            yield chunk(function_call={"arguments": _TEXTS[0]})
        elif form == _NAMELESS:
            yield chunk(tool_calls=[{"index": 0, "id": "call_0", "function": {"arguments": "{}"}}])
        else:
            yield from (chunk(tool_calls=[part]) for part in _FORMS[form])
        yield chunk("tool_calls")
        yield {"id": "chatcmpl-7f", "choices": [], "usage": _USAGE}


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedGateway]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ODD_KEY", "odd-secret")
        folder = tmp_path_factory.mktemp("odd")
        with running_in_thread(lambda: gateway_before(OddUpstream(), folder, _CATALOG)) as running:
            yield running


@pytest.fixture(scope="module")
def anthropic_client(odd: ServedGateway) -> Iterator[Any]:
    http = anthropic.DefaultHttpxClient(verify=PLAIN)
    with anthropic.Anthropic(
        base_url=odd.url.removesuffix("/v1"), api_key=odd.key, http_client=http, max_retries=0
    ) as client:
        yield client


@pytest.fixture(scope="module")
def openai_client(odd: ServedGateway) -> Iterator[Any]:
    http = openai.DefaultHttpxClient(verify=PLAIN)
    with openai.OpenAI(
        base_url=odd.url, api_key=odd.key, http_client=http, max_retries=0
    ) as client:
        yield client


def message_stream(client: Any, form: str) -> Any:
    return client.messages.stream(
        model="odd-model",
        max_tokens=99,
        messages=[{"role": "user", "content": form}],
        tools=[{"name": "get_weather", "input_schema": _TOOL_SCHEMA}],
    )


def response_stream(client: Any, form: str) -> Any:
    tool = {"type": "function", "name": "get_weather", "parameters": _TOOL_SCHEMA, "strict": False}
    return client.responses.stream(
        model="odd-model", input=[{"role": "user", "content": form}], tools=[tool], store=False
    )


@pytest.mark.parametrize("form", _FORMS)
def test_anthropics_sdk_gets_both_calls_of_each_form(anthropic_client: Any, form: str) -> None:
    with message_stream(anthropic_client, form) as stream:
        message = stream.get_final_message()

    assert [(block.name, block.input) for block in message.content] == _CALLS
    assert len({block.id for block in message.content}) == len(_CALLS)
    assert message.stop_reason == "tool_use"


@pytest.mark.parametrize("form", _FORMS)
def test_openais_sdk_gets_both_calls_of_each_form(openai_client: Any, form: str) -> None:
    with response_stream(openai_client, form) as stream:
        response = stream.get_final_response()

    calls = [(item.name, orjson.loads(item.arguments)) for item in response.output]
    assert calls == _CALLS
    assert len({item.call_id for item in response.output}) == len(_CALLS)
    assert response.status == "completed"


def test_sdks_get_the_forerunner_of_tool_calls_as_a_call(
    anthropic_client: Any, openai_client: Any
) -> None:
    with message_stream(anthropic_client, _LEGACY) as stream:
        message = stream.get_final_message()
    with response_stream(openai_client, _LEGACY) as responses:
        response = responses.get_final_response()

    assert [(block.name, block.input) for block in message.content] == _CALLS[:1]
    assert message.stop_reason == "tool_use"
    calls = [(item.name, orjson.loads(item.arguments)) for item in response.output]
    assert calls == _CALLS[:1]


@pytest.mark.parametrize("form", [_BROKEN, _NAMELESS])
def test_sdks_raise_where_the_translation_of_a_finished_stream_fails(
    odd: ServedGateway, anthropic_client: Any, openai_client: Any, form: str
) -> None:
    with message_stream(anthropic_client, form) as stream:
        message_call = stream.response.headers["x-request-id"]
        with pytest.raises(anthropic.APIStatusError, match="could not be read"):
            stream.get_final_message()
    with response_stream(openai_client, form) as responses:
        response_call = responses._response.headers["x-request-id"]
        with pytest.raises(openai.APIError, match="could not be read"):
            responses.get_final_response()

    for call_id in (message_call, response_call):
        (receipt,) = odd.receipts(call_id)
        assert (receipt.outcome, receipt.error) == (Outcome.BROKEN, "upstream_malformed")
        assert receipt.usage is not None
        assert (receipt.usage.input, receipt.usage.output) == (30, 9)
        assert not receipt.estimated
