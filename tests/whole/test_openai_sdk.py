"""The official OpenAI SDK against the gateway: nothing but base URL and key is changed."""

from typing import Any

import openai
import orjson
import pytest

from proxy.records.receipt import Outcome
from tests.fakes.gateway_fixture import GatewayFixture
from tests.fakes.sdk import Sdk
from tests.fakes.sdk_calls import (
    CHAT_TOOLS,
    PDF,
    PIXEL,
    City,
    dollars,
    last,
    last_body,
    receipt_of,
    usage_of,
    user,
)


def test_a_chat_is_answered_metered_and_kept(
    gateway: GatewayFixture, sdk_client: Sdk, model: str
) -> None:
    raw = sdk_client.ask(
        lambda c: c.chat.completions.with_raw_response.create(
            model=model, messages=user("Hello."), extra_headers={"x-thriftgate-feature": "greeter"}
        )
    )
    answer = raw.parse()
    receipt = receipt_of(gateway, raw.headers["x-request-id"])

    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model == model
    assert receipt.usage == last(gateway).usage
    assert answer.usage.prompt_tokens == usage_of(receipt).prompt_tokens
    assert answer.usage.completion_tokens == usage_of(receipt).generated_tokens
    assert (receipt.feature, receipt.model, receipt.outcome) == (
        "greeter",
        model,
        Outcome.ANSWERED,
    )
    assert raw.headers["x-thriftgate-model"] == model
    assert raw.headers["x-thriftgate-cached-tokens"] == "0"
    assert float(raw.headers["x-thriftgate-overhead-ms"]) >= 0
    assert (
        receipt.cost_nanos
        == usage_of(receipt).prompt_tokens * 1000 + usage_of(receipt).generated_tokens * 4000
    )
    assert float(raw.headers["x-thriftgate-cost-usd"]) == pytest.approx(dollars(receipt))


def test_a_stream_without_include_usage_has_no_chunk_without_choices(
    gateway: GatewayFixture, sdk_client: Sdk, model: str
) -> None:
    chunks = sdk_client.all(
        lambda c: c.chat.completions.create(model=model, messages=user("Stream."), stream=True)
    )
    (receipt,) = [
        r for r in gateway.all_receipts() if r.upstream_id and r.upstream_id == chunks[0].id
    ]

    assert all(len(chunk.choices) == 1 for chunk in chunks)
    assert all(chunk.usage is None for chunk in chunks)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks].count("stop") == 1
    assert (receipt.usage, receipt.estimated) == (last(gateway).usage, False)


def test_a_stream_with_include_usage_has_one_chunk_without_choices(
    gateway: GatewayFixture, sdk_client: Sdk, model: str
) -> None:
    chunks = sdk_client.all(
        lambda c: c.chat.completions.create(
            model=model,
            messages=user("Stream and count."),
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    usage = last(gateway).usage

    assert [len(chunk.choices) for chunk in chunks].count(0) == 1
    assert not chunks[-1].choices
    assert usage is not None
    assert chunks[-1].usage.prompt_tokens == usage.prompt_tokens
    assert chunks[-1].usage.completion_tokens == usage.generated_tokens


def test_the_stream_helper_puts_a_chat_together(
    gateway: GatewayFixture, sdk_client: Sdk, model: str
) -> None:
    events, final = sdk_client.events(
        lambda c: c.chat.completions.stream(model=model, messages=user("Tell me."))
    )
    text = "".join(event.delta for event in events if event.type == "content.delta")

    assert final.choices[0].message.content == text != ""


def test_a_prompt_that_was_sent_before_is_read_from_the_cache(
    gateway: GatewayFixture, sdk_client: Sdk
) -> None:
    key = type(sdk_client).__name__
    long: list[Any] = [{"role": "system", "content": f"{key} " + "The rules say much. " * 800}]
    raws = [
        sdk_client.ask(
            lambda c: c.chat.completions.with_raw_response.create(
                model="gpt-lab", messages=long + user("So?"), prompt_cache_key=key
            )
        )
        for _ in range(2)
    ]
    read = usage_of(receipt_of(gateway, raws[1].headers["x-request-id"])).cache_read

    assert read > 1000
    assert raws[1].headers["x-thriftgate-cached-tokens"] == str(read)
    assert raws[1].parse().usage.prompt_tokens_details.cached_tokens == read


def test_a_marked_prompt_is_written_and_read_at_its_own_prices(
    gateway: GatewayFixture, sdk_client: Sdk
) -> None:
    text = f"{type(sdk_client).__name__} " + "The rules say much. " * 800
    marked = {"type": "text", "text": text, "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    messages: list[Any] = [{"role": "system", "content": [marked]}, *user("So?")]
    ids = [
        sdk_client.ask(
            lambda c: c.chat.completions.with_raw_response.create(
                model="claude-lab", messages=messages
            )
        ).headers["x-request-id"]
        for _ in range(2)
    ]
    first, second = (usage_of(receipt_of(gateway, call_id)) for call_id in ids)

    assert first.write_1h > 2000
    assert first.write_1h + first.write_5m == second.cache_read
    assert first.cache_read == second.write_1h == second.write_5m == 0


def test_tools_are_called_and_their_results_taken(
    gateway: GatewayFixture, sdk_client: Sdk, model: str
) -> None:
    def ask(messages: list[Any]) -> Any:
        return sdk_client.ask(
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
    messages_sent = last_body(gateway)["messages"]
    if model == "claude-lab":
        assert [block["tool_use_id"] for block in messages_sent[-1]["content"]] == [
            c.id for c in calls
        ]
    else:
        assert [message["tool_call_id"] for message in messages_sent[-2:]] == [
            call.id for call in calls
        ]


def test_streamed_tool_calls_come_together(
    gateway: GatewayFixture, sdk_client: Sdk, model: str
) -> None:
    messages = user("How is it in Ulm? [[fault:call=weather,call=clock]]")
    whole = sdk_client.ask(
        lambda c: c.chat.completions.create(model=model, messages=messages, tools=CHAT_TOOLS)
    )
    _, final = sdk_client.events(
        lambda c: c.chat.completions.stream(model=model, messages=messages, tools=CHAT_TOOLS)
    )

    def names_and_arguments(answer: Any) -> list[tuple[str, Any]]:
        calls = answer.choices[0].message.tool_calls
        return [(call.function.name, orjson.loads(call.function.arguments)) for call in calls]

    assert names_and_arguments(final) == names_and_arguments(whole)
    assert len(names_and_arguments(final)) == 2
    assert final.choices[0].finish_reason == "tool_calls"


def test_functions_from_before_tools_are_called_and_their_results_taken_by_claude(
    gateway: GatewayFixture, sdk_client: Sdk
) -> None:
    functions = [tool["function"] for tool in CHAT_TOOLS]
    messages = user("How is it in Bonn? [[fault:call=weather]]")

    def ask(messages: list[Any]) -> Any:
        return sdk_client.ask(
            lambda c: c.chat.completions.create(
                model="claude-lab",
                messages=messages,
                functions=functions,
                function_call={"name": "weather"} if len(messages) == 1 else "auto",
            )
        ).choices[0]

    called = ask(messages)
    events, final = sdk_client.events(
        lambda c: c.chat.completions.stream(
            model="claude-lab", messages=messages, functions=functions
        )
    )
    result: Any = {"role": "function", "name": "weather", "content": "Rain."}
    answer = ask([*messages, called.message.model_dump(exclude_none=True), result])
    use, tool_result = last_body(gateway)["messages"][-2:]
    names = [
        part.name
        for event in events
        if event.type == "chunk"
        for choice in event.chunk.choices
        if (part := choice.delta.function_call) is not None and part.name
    ]

    assert (called.finish_reason, called.message.tool_calls) == ("function_call", None)
    assert called.message.function_call.name == "weather"
    assert set(orjson.loads(called.message.function_call.arguments)) == {"place"}
    assert names == ["weather"]
    assert final.choices[0].finish_reason == "function_call"
    assert use["content"][-1]["id"] == tool_result["content"][0]["tool_use_id"]
    assert answer.message.content


def test_structured_output_is_parsed(gateway: GatewayFixture, sdk_client: Sdk, model: str) -> None:
    answer = sdk_client.ask(
        lambda c: c.chat.completions.parse(
            model=model, messages=user("Which city?"), response_format=City
        )
    )

    assert isinstance(answer.choices[0].message.parsed, City)


def test_images_and_files_arrive(gateway: GatewayFixture, sdk_client: Sdk, model: str) -> None:
    parts: list[Any] = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        {
            "type": "file",
            "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
        },
    ]
    answer = sdk_client.ask(
        lambda c: c.chat.completions.create(
            model=model, messages=[{"role": "user", "content": parts}]
        )
    )
    (message,) = last_body(gateway)["messages"]

    assert answer.choices[0].message.content
    if model == "gpt-lab":
        assert message["content"] == parts
        return
    _, image, document = message["content"]
    assert image["source"] == {"type": "base64", "media_type": "image/png", "data": PIXEL}
    assert (document["type"], document["source"]["data"]) == ("document", PDF)


def test_thinking_comes_back_signed_in_a_chat(gateway: GatewayFixture, sdk_client: Sdk) -> None:
    def ask(messages: list[Any]) -> Any:
        return sdk_client.ask(
            lambda c: c.chat.completions.create(
                model="claude-lab", messages=messages, tools=CHAT_TOOLS, reasoning_effort="low"
            )
        )

    messages = user("Think. [[fault:call=weather]]")
    message = ask(messages).choices[0].message.model_dump(exclude_none=True)
    call_id = message["tool_calls"][0]["id"]
    result: Any = {"role": "tool", "tool_call_id": call_id, "content": "Rain."}
    ask([*messages, message, result])
    blocks = last_body(gateway)["messages"][1]["content"]

    assert message["thinking_blocks"][0]["signature"]
    assert blocks[0] == message["thinking_blocks"][0]
    assert [block["type"] for block in blocks] == ["thinking", "tool_use"]


def test_unknown_fields_arrive_byte_for_byte(gateway: GatewayFixture, sdk_client: Sdk) -> None:
    odd = {"x_new": {"b": 1, "a": [1.50, None, "é"]}, "thinking_budget": 10**15}
    raw = sdk_client.ask(
        lambda c: c.chat.completions.with_raw_response.create(
            model="gpt-lab", messages=user("Héllo."), extra_body=odd, temperature=0.30
        )
    )

    assert last(gateway).body == raw.http_request.content
    assert last_body(gateway)["x_new"] == odd["x_new"]


def test_a_stream_can_be_left_open_and_read_line_by_line(
    gateway: GatewayFixture, model: str
) -> None:
    with openai.OpenAI(base_url=gateway.url, api_key=gateway.key) as client:
        create = client.chat.completions.with_streaming_response.create
        with create(
            model=model,
            messages=user("Stream."),
            stream=True,
            extra_headers={"x-thriftgate-trailer": "1"},
        ) as answer:
            lines = list(answer.iter_lines())
            receipt = receipt_of(gateway, answer.headers["x-request-id"])
    (trailer,) = [line for line in lines if line.startswith(": thriftgate ")]
    account = orjson.loads(trailer.removeprefix(": thriftgate "))

    assert lines.index(trailer) < lines.index("data: [DONE]")
    assert float(account["x-thriftgate-cost-usd"]) == pytest.approx(dollars(receipt))
