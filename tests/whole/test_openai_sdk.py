"""The official OpenAI SDK against the gateway: nothing but base URL and key is changed."""

import base64
from collections.abc import Iterator
from typing import Any

import openai
import orjson
import pytest
from pydantic import BaseModel

from proxy.lab.lab import Exchange
from proxy.receipt import Outcome, Receipt
from slo.usage import Usage
from tests.fakes.sdk import KINDS, Sdk
from tests.fakes.town import Town

MODELS = ("gpt-lab", "claude-lab")
WEATHER = {
    "name": "weather",
    "description": "The weather of a place.",
    "parameters": {
        "type": "object",
        "properties": {"place": {"type": "string"}},
        "required": ["place"],
        "additionalProperties": False,
    },
}
CLOCK = {"name": "clock", "parameters": {"type": "object", "properties": {}}}
CHAT_TOOLS: list[Any] = [
    {"type": "function", "function": WEATHER},
    {"type": "function", "function": CLOCK},
]
TOOLS: list[Any] = [{"type": "function", **WEATHER}, {"type": "function", **CLOCK}]
PIXEL = base64.b64encode(
    base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
).decode()
PDF = base64.b64encode(b"%PDF-1.4\n1 0 obj<<>>endobj\ntrailer<<>>\n%%EOF").decode()


class City(BaseModel):
    name: str
    people: int
    is_capital: bool


def user(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def last(here: Town) -> Exchange:
    """What the upstream saw last."""
    return here.lab.exchanges[-1]


def received(here: Town) -> dict[str, Any]:
    body: dict[str, Any] = orjson.loads(last(here).body)
    return body


@pytest.fixture(params=KINDS, scope="module")
def sdk(request: pytest.FixtureRequest, here: Town) -> Iterator[Sdk]:
    client = KINDS[request.param](here.url, here.key)
    yield client
    client.close()


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def kept(here: Town, call_id: str) -> Receipt:
    (receipt,) = here.receipts(call_id)
    return receipt


def used(receipt: Receipt) -> Usage:
    assert receipt.usage is not None
    return receipt.usage


def dollars(receipt: Receipt) -> float:
    assert receipt.cost_nanos is not None
    return receipt.cost_nanos / 1e9


def test_a_chat_is_answered_metered_and_kept(here: Town, sdk: Sdk, model: str) -> None:
    raw = sdk.ask(
        lambda c: c.chat.completions.with_raw_response.create(
            model=model, messages=user("Hello."), extra_headers={"x-thriftgate-feature": "greeter"}
        )
    )
    answer = raw.parse()
    receipt = kept(here, raw.headers["x-request-id"])

    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model == model
    assert receipt.usage == last(here).usage
    assert answer.usage.prompt_tokens == used(receipt).prompt
    assert answer.usage.completion_tokens == used(receipt).generated
    assert (receipt.feature, receipt.model, receipt.outcome) == (
        "greeter",
        model,
        Outcome.ANSWERED,
    )
    assert raw.headers["x-thriftgate-model"] == model
    assert raw.headers["x-thriftgate-cached-tokens"] == "0"
    assert float(raw.headers["x-thriftgate-overhead-ms"]) >= 0
    assert receipt.cost_nanos == used(receipt).prompt * 1000 + used(receipt).generated * 4000
    assert float(raw.headers["x-thriftgate-cost-usd"]) == pytest.approx(dollars(receipt))


def test_a_stream_without_include_usage_has_no_chunk_without_choices(
    here: Town, sdk: Sdk, model: str
) -> None:
    chunks = sdk.all(
        lambda c: c.chat.completions.create(model=model, messages=user("Stream."), stream=True)
    )
    (receipt,) = [r for r in here.all_receipts() if r.upstream_id and r.upstream_id == chunks[0].id]

    assert all(len(chunk.choices) == 1 for chunk in chunks)
    assert all(chunk.usage is None for chunk in chunks)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks].count("stop") == 1
    assert (receipt.usage, receipt.estimated) == (last(here).usage, False)


def test_a_stream_with_include_usage_has_one_chunk_without_choices(
    here: Town, sdk: Sdk, model: str
) -> None:
    chunks = sdk.all(
        lambda c: c.chat.completions.create(
            model=model,
            messages=user("Stream and count."),
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    usage = last(here).usage

    assert [len(chunk.choices) for chunk in chunks].count(0) == 1
    assert not chunks[-1].choices
    assert usage is not None
    assert chunks[-1].usage.prompt_tokens == usage.prompt
    assert chunks[-1].usage.completion_tokens == usage.generated


def test_the_stream_helper_puts_a_chat_together(here: Town, sdk: Sdk, model: str) -> None:
    events, final = sdk.events(
        lambda c: c.chat.completions.stream(model=model, messages=user("Tell me."))
    )
    said = "".join(event.delta for event in events if event.type == "content.delta")

    assert final.choices[0].message.content == said != ""


def test_a_prompt_that_was_sent_before_is_read_from_the_cache(here: Town, sdk: Sdk) -> None:
    key = type(sdk).__name__
    long: list[Any] = [{"role": "system", "content": f"{key} " + "The rules say much. " * 800}]
    raws = [
        sdk.ask(
            lambda c: c.chat.completions.with_raw_response.create(
                model="gpt-lab", messages=long + user("So?"), prompt_cache_key=key
            )
        )
        for _ in range(2)
    ]
    read = used(kept(here, raws[1].headers["x-request-id"])).cache_read

    assert read > 1000
    assert raws[1].headers["x-thriftgate-cached-tokens"] == str(read)
    assert raws[1].parse().usage.prompt_tokens_details.cached_tokens == read


def test_a_marked_prompt_is_written_and_read_at_its_own_prices(here: Town, sdk: Sdk) -> None:
    text = f"{type(sdk).__name__} " + "The rules say much. " * 800
    marked = {"type": "text", "text": text, "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    messages: list[Any] = [{"role": "system", "content": [marked]}, *user("So?")]
    ids = [
        sdk.ask(
            lambda c: c.chat.completions.with_raw_response.create(
                model="claude-lab", messages=messages
            )
        ).headers["x-request-id"]
        for _ in range(2)
    ]
    first, second = (used(kept(here, call_id)) for call_id in ids)

    assert first.write_1h == second.cache_read > 2000
    assert first.cache_read == second.write_1h == first.write_5m == 0


def test_tools_are_called_and_their_results_taken(here: Town, sdk: Sdk, model: str) -> None:
    def ask(messages: list[Any]) -> Any:
        return sdk.ask(
            lambda c: c.chat.completions.create(model=model, messages=messages, tools=CHAT_TOOLS)
        )

    messages = user("How is it in Bonn? [[fault:call=weather,call=clock]]")
    called = ask(messages).choices[0]
    calls = called.message.tool_calls
    results: list[Any] = [
        {"role": "tool", "tool_call_id": call.id, "content": f"of {call.function.name}"}
        for call in calls
    ]
    answer = ask([*messages, called.message.model_dump(exclude_none=True), *results]).choices[0]

    assert called.finish_reason == "tool_calls"
    assert [call.function.name for call in calls] == ["weather", "clock"]
    assert set(orjson.loads(calls[0].function.arguments)) == {"place"}
    assert answer.finish_reason == "stop"
    assert answer.message.content
    sent = received(here)["messages"]
    if model == "claude-lab":
        assert [block["tool_use_id"] for block in sent[-1]["content"]] == [c.id for c in calls]
    else:
        assert [each["tool_call_id"] for each in sent[-2:]] == [call.id for call in calls]


def test_streamed_tool_calls_come_together(here: Town, sdk: Sdk, model: str) -> None:
    messages = user("How is it in Ulm? [[fault:call=weather,call=clock]]")
    whole = sdk.ask(
        lambda c: c.chat.completions.create(model=model, messages=messages, tools=CHAT_TOOLS)
    )
    _, final = sdk.events(
        lambda c: c.chat.completions.stream(model=model, messages=messages, tools=CHAT_TOOLS)
    )

    def told(answer: Any) -> list[tuple[str, Any]]:
        calls = answer.choices[0].message.tool_calls
        return [(call.function.name, orjson.loads(call.function.arguments)) for call in calls]

    assert told(final) == told(whole)
    assert len(told(final)) == 2
    assert final.choices[0].finish_reason == "tool_calls"


def test_structured_output_is_parsed(here: Town, sdk: Sdk, model: str) -> None:
    answer = sdk.ask(
        lambda c: c.chat.completions.parse(
            model=model, messages=user("Which city?"), response_format=City
        )
    )

    assert isinstance(answer.choices[0].message.parsed, City)


def test_images_and_files_arrive(here: Town, sdk: Sdk, model: str) -> None:
    parts: list[Any] = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        {
            "type": "file",
            "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
        },
    ]
    answer = sdk.ask(
        lambda c: c.chat.completions.create(
            model=model, messages=[{"role": "user", "content": parts}]
        )
    )
    (message,) = received(here)["messages"]

    assert answer.choices[0].message.content
    if model == "gpt-lab":
        assert message["content"] == parts
        return
    _, image, document = message["content"]
    assert image["source"] == {"type": "base64", "media_type": "image/png", "data": PIXEL}
    assert (document["type"], document["source"]["data"]) == ("document", PDF)


def test_thinking_comes_back_signed_in_a_chat(here: Town, sdk: Sdk) -> None:
    def ask(messages: list[Any]) -> Any:
        return sdk.ask(
            lambda c: c.chat.completions.create(
                model="claude-lab", messages=messages, tools=CHAT_TOOLS, reasoning_effort="low"
            )
        )

    messages = user("Think. [[fault:call=weather]]")
    message = ask(messages).choices[0].message.model_dump(exclude_none=True)
    call_id = message["tool_calls"][0]["id"]
    result: Any = {"role": "tool", "tool_call_id": call_id, "content": "Rain."}
    ask([*messages, message, result])
    blocks = received(here)["messages"][1]["content"]

    assert message["thinking_blocks"][0]["signature"]
    assert blocks[0] == message["thinking_blocks"][0]
    assert [block["type"] for block in blocks] == ["thinking", "tool_use"]


def test_a_response_is_created(here: Town, sdk: Sdk, model: str) -> None:
    raw = sdk.ask(lambda c: c.responses.with_raw_response.create(model=model, input="Hello."))
    answer = raw.parse()
    receipt = kept(here, raw.headers["x-request-id"])

    assert answer.status == "completed"
    assert answer.output_text
    assert receipt.usage == last(here).usage
    assert answer.usage.input_tokens == used(receipt).prompt
    assert answer.usage.output_tokens == used(receipt).generated
    assert receipt.endpoint == "responses"


def test_a_response_is_streamed(here: Town, sdk: Sdk, model: str) -> None:
    events, final = sdk.events(lambda c: c.responses.stream(model=model, input="Stream."))
    said = "".join(event.delta for event in events if event.type == "response.output_text.delta")

    assert events[0].type == "response.created"
    assert events[-1].type == "response.completed"
    assert final.output_text == said != ""
    assert final.usage.output_tokens > 0
    assert [event.sequence_number for event in events if hasattr(event, "sequence_number")]


def test_a_response_is_parsed(here: Town, sdk: Sdk, model: str) -> None:
    answer = sdk.ask(
        lambda c: c.responses.parse(model=model, input="Which city?", text_format=City)
    )

    assert isinstance(answer.output_parsed, City)


def test_a_response_calls_tools_and_takes_their_results(here: Town, sdk: Sdk, model: str) -> None:
    first: list[Any] = user("How is it in Bonn? [[fault:call=weather,call=clock]]")
    called = sdk.ask(
        lambda c: c.responses.create(model=model, input=first, tools=TOOLS, store=False)
    )
    calls = [item for item in called.output if item.type == "function_call"]
    results: list[Any] = [
        {"type": "function_call_output", "call_id": call.call_id, "output": "fine"}
        for call in calls
    ]
    answer = sdk.ask(
        lambda c: c.responses.create(
            model=model, input=[*first, *called.output, *results], tools=TOOLS, store=False
        )
    )

    assert [call.name for call in calls] == ["weather", "clock"]
    assert answer.output_text


@pytest.mark.parametrize("streamed", [False, True])
def test_reasoning_items_bring_the_signatures_back(
    here: Town,
    sdk: Sdk,
    streamed: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    first: list[Any] = user("Think. [[fault:call=weather]]")
    asked: dict[str, Any] = {
        "model": "claude-lab",
        "tools": TOOLS,
        "reasoning": {"effort": "low"},
        "include": ["reasoning.encrypted_content"],
        "store": False,
    }
    if streamed:
        _, called = sdk.events(lambda c: c.responses.stream(input=first, **asked))
    else:
        called = sdk.ask(lambda c: c.responses.create(input=first, **asked))
    said = bytes(last(here).sent)
    (call,) = [item for item in called.output if item.type == "function_call"]
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "Rain."}
    items = [item.model_dump(exclude_none=True) for item in called.output]
    answer = sdk.ask(lambda c: c.responses.create(input=[*first, *items, result], **asked))
    thinking, use = received(here)["messages"][1]["content"]

    assert answer.status == "completed"
    assert (thinking["type"], use["type"]) == ("thinking", "tool_use")
    assert thinking["signature"].encode() in said
    assert thinking["thinking"] != ""


def test_embeddings_are_given_and_counted(here: Town, sdk: Sdk) -> None:
    raw = sdk.ask(
        lambda c: c.embeddings.with_raw_response.create(model="embed-lab", input=["one", "two"])
    )
    answer = raw.parse()
    receipt = kept(here, raw.headers["x-request-id"])

    assert [len(each.embedding) for each in answer.data] == [8, 8]
    assert receipt.usage == Usage(input=answer.usage.prompt_tokens)
    assert receipt.endpoint == "embeddings"


def test_embeddings_of_a_model_that_gives_none_are_refused(here: Town, sdk: Sdk) -> None:
    before = len(here.lab.exchanges)
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.ask(lambda c: c.embeddings.create(model="claude-lab", input="one"))

    assert caught.value.code == "unsupported_endpoint"
    assert "embeddings" in str(caught.value)
    assert len(here.lab.exchanges) == before


def test_older_completions_work(here: Town, sdk: Sdk) -> None:
    whole = sdk.ask(lambda c: c.completions.create(model="gpt-lab", prompt="Once"))
    chunks = sdk.all(lambda c: c.completions.create(model="gpt-lab", prompt="Once", stream=True))

    assert whole.choices[0].text
    assert "".join(chunk.choices[0].text for chunk in chunks)
    assert all(chunk.choices for chunk in chunks)


def test_models_are_listed_and_found(here: Town, sdk: Sdk) -> None:
    names = {found.id for found in sdk.all(lambda c: c.models.list())}

    assert names >= {*MODELS, "embed-lab"}
    assert sdk.ask(lambda c: c.models.retrieve("claude-lab")).id == "claude-lab"
    with pytest.raises(openai.NotFoundError):
        sdk.ask(lambda c: c.models.retrieve("no-such-model"))


def test_what_the_gateway_does_not_know_is_passed_through(here: Town, sdk: Sdk) -> None:
    found = sdk.ask(lambda c: c.moderations.create(model="mod-lab", input="Kind words."))
    path = last(here).path
    files = sdk.all(lambda c: c.files.list())

    assert found.results[0].flagged is False
    assert path == "/v1/moderations"
    assert files == []
    assert last(here).path.startswith("/v1/files")


def test_unknown_fields_arrive_byte_for_byte(here: Town, sdk: Sdk) -> None:
    odd = {"x_new": {"b": 1, "a": [1.50, None, "é"]}, "thinking_budget": 10**15}
    raw = sdk.ask(
        lambda c: c.chat.completions.with_raw_response.create(
            model="gpt-lab", messages=user("Héllo."), extra_body=odd, temperature=0.30
        )
    )

    assert last(here).body == raw.http_request.content
    assert received(here)["x_new"] == odd["x_new"]


def test_a_stream_can_be_left_open_and_read_line_by_line(here: Town, model: str) -> None:
    with openai.OpenAI(base_url=here.url, api_key=here.key) as client:
        create = client.chat.completions.with_streaming_response.create
        with create(
            model=model,
            messages=user("Stream."),
            stream=True,
            extra_headers={"x-thriftgate-trailer": "1"},
        ) as answer:
            lines = list(answer.iter_lines())
            receipt = kept(here, answer.headers["x-request-id"])
    (trailer,) = [line for line in lines if line.startswith(": thriftgate ")]
    account = orjson.loads(trailer.removeprefix(": thriftgate "))

    assert lines.index(trailer) < lines.index("data: [DONE]")
    assert float(account["x-thriftgate-cost-usd"]) == pytest.approx(dollars(receipt))
