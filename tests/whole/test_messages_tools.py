"""Conversations of Anthropic's API with tools over several turns, to each kind of upstream."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import anthropic
import orjson
import pytest

from proxy.records.receipt import Outcome
from tests.fakes.gateway_fixture import GatewayFixture
from tests.fakes.messages_sdk import MESSAGES_KINDS
from tests.fakes.plain_http import PLAIN
from tests.fakes.sdk import Sdk
from tests.fakes.sdk_calls import PIXEL, last_body, user

MODELS = ("claude-lab", "gpt-lab")
TOOLS: list[Any] = [
    {
        "name": name,
        "description": f"Looks up the {name} of a place.",
        "input_schema": {
            "type": "object",
            "properties": {"place": {"type": "string"}},
            "required": ["place"],
        },
    }
    for name in ("weather", "picture")
]
PICTURE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
}
#: What the model does, call by call.
SCRIPT = ("call=weather,call=picture", "call=weather", "call=picture", "ok")


@pytest.fixture(params=MESSAGES_KINDS, scope="module")
def claude(request: pytest.FixtureRequest, gateway: GatewayFixture) -> Iterator[Sdk]:
    """Anthropic's SDK, of each kind in turn; it does not retry."""
    client = MESSAGES_KINDS[request.param](gateway.url, gateway.key, max_retries=0)
    yield client
    client.close()


def result(use: Any, turn: int) -> dict[str, Any]:
    """The result of a call: an image for a picture, an error for the weather from turn 1 on."""
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": use.id}
    if use.name == "picture":
        return block | {"content": [{"type": "text", "text": f"View {turn}."}, PICTURE]}
    if turn:
        return block | {"content": "No such place.", "is_error": True}
    return block | {"content": "8 degrees"}


def next_answer(sdk: Sdk, fields: dict[str, Any], *, streams: bool) -> Any:
    """The answer to these messages, put together from a stream or whole."""
    if streams:
        return sdk.events(lambda c: c.messages.stream(**fields))[1]
    return sdk.ask(lambda c: c.messages.create(**fields))


def run_tools(
    sdk: Sdk, model: str, feature: str, *, streams: bool
) -> tuple[list[Any], list[dict[str, Any]]]:
    """Talk until the model calls no tool; return its answers and all messages."""
    messages: list[Any] = [
        {"role": "user", "content": [{"type": "text", "text": "How is Oslo?"}, PICTURE]}
    ]
    answers: list[Any] = []
    body = {
        "model": model,
        "max_tokens": 4000,
        "system": "Use the tools.",
        "tools": TOOLS,
        "thinking": {"type": "adaptive"},
        "extra_headers": {"x-thriftgate-feature": feature},
    }
    while True:
        answer = next_answer(sdk, body | {"messages": list(messages)}, streams=streams)
        answers.append(answer)
        messages.append(
            {"role": "assistant", "content": [block.to_dict() for block in answer.content]}
        )
        uses = [block for block in answer.content if block.type == "tool_use"]
        if not uses:
            return answers, messages
        results = [result(use, len(answers) - 1) for use in uses]
        messages.append({"role": "user", "content": results})


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", MODELS)
def test_tools_are_called_over_four_turns_and_each_call_is_booked(
    gateway: GatewayFixture, claude: Sdk, feature: str, model: str, *, streams: bool
) -> None:
    gateway.lab.queue_directives(SCRIPT)
    answers, _ = run_tools(claude, model, feature, streams=streams)
    receipts = gateway.of_feature(feature, len(SCRIPT))
    names = [[b.name for b in answer.content if b.type == "tool_use"] for answer in answers]

    assert names == [["weather", "picture"], ["weather"], ["picture"], []]
    assert [answer.stop_reason for answer in answers] == ["tool_use"] * 3 + ["end_turn"]
    assert answers[-1].content[-1].text
    assert all(
        isinstance(b.input, dict) for a in answers for b in a.content if b.type == "tool_use"
    )
    assert [receipt.outcome for receipt in receipts] == [Outcome.ANSWERED] * len(SCRIPT)
    assert all(not receipt.estimated and receipt.usage is not None for receipt in receipts)
    assert all(receipt.streamed is streams for receipt in receipts)


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
def test_claude_gets_every_block_of_all_turns_unmodified(
    gateway: GatewayFixture, claude: Sdk, feature: str, *, streams: bool
) -> None:
    gateway.lab.queue_directives(SCRIPT)
    answers, messages = run_tools(claude, "claude-lab", feature, streams=streams)
    received = [without_marks(message) for message in last_body(gateway)["messages"]]

    assert received == messages[:-1]
    assert all(answer.content[0].type == "thinking" for answer in answers)
    assert all(answer.content[0].signature for answer in answers)


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
def test_an_openai_model_gets_calls_results_errors_and_images_in_chats_form(
    gateway: GatewayFixture, claude: Sdk, feature: str, *, streams: bool
) -> None:
    gateway.lab.queue_directives(SCRIPT)
    answers, _ = run_tools(claude, "gpt-lab", feature, streams=streams)
    messages = last_body(gateway)["messages"]
    uses = [block for answer in answers for block in answer.content if block.type == "tool_use"]
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    results = [message for message in messages if message["role"] == "tool"]
    images = [
        part
        for message in messages
        if message["role"] == "user"
        for part in message["content"]
        if part["type"] == "image_url"
    ]

    ids = [call["id"] for call in calls]
    assert all(use.id.endswith(name) for use, name in zip(uses, ids, strict=True))
    assert [message["tool_call_id"] for message in results] == ids
    assert [call["function"]["name"] for call in calls] == [use.name for use in uses]
    assert results[0]["content"] == "8 degrees"
    assert "The tool failed." in results[2]["content"]
    assert "No such place." in results[2]["content"]
    assert len(images) == 3
    assert all(image["image_url"]["url"].endswith(PIXEL) for image in images)
    assert [message["role"] for message in messages] == [
        "system", "user",
        "assistant", "tool", "tool", "user",
        "assistant", "tool",
        "assistant", "tool", "user",
    ]  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
def test_each_turn_with_tools_extends_the_prompt_that_was_sent_before(
    gateway: GatewayFixture, claude: Sdk, feature: str, model: str
) -> None:
    gateway.lab.queue_directives(SCRIPT)
    before = len(gateway.lab.exchanges)
    run_tools(claude, model, feature, streams=True)
    bodies = [exchange.body for exchange in list(gateway.lab.exchanges)[before:]]
    prompts = [[without_marks(m) for m in body_messages(body)] for body in bodies]

    assert len(prompts) == len(SCRIPT)
    for earlier, later in pairwise(prompts):
        assert later[: len(earlier)] == earlier


@pytest.mark.parametrize("model", MODELS)
def test_a_call_without_its_result_is_refused_in_anthropics_form(claude: Sdk, model: str) -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"place": "Oslo"}}
    messages = [*user("Oslo?"), {"role": "assistant", "content": [use]}, *user("Well?")]
    with pytest.raises(anthropic.BadRequestError) as raised:
        claude.ask(
            lambda c: c.messages.create(model=model, max_tokens=50, tools=TOOLS, messages=messages)
        )

    assert raised.value.body["error"]["type"] == "invalid_request_error"  # type: ignore[index]
    assert "toolu_1" in str(raised.value)


def body_messages(body: bytes) -> list[Any]:
    """The messages of a request's body."""
    messages: list[Any] = orjson.loads(body)["messages"]
    return messages


def without_marks(content: Any) -> Any:
    """The value without cache marks, which planning sets anew on each call."""
    if isinstance(content, dict):
        return {k: without_marks(v) for k, v in content.items() if k != "cache_control"}
    return [without_marks(part) for part in content] if isinstance(content, list) else content


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
def test_the_sdks_tool_runner_goes_on_with_all_messages_where_no_thread_is_kept(
    gateway: GatewayFixture, model: str, *, streams: bool
) -> None:
    places: list[str] = []

    @anthropic.beta_tool
    def weather(place: str) -> str:
        """The weather of a place."""
        places.append(place)
        return "8 degrees"

    refused = ["ok"] if model == "claude-lab" else []  # the simulator keeps none, as it says
    gateway.lab.queue_directives([*refused, "call=weather", "ok"])
    with anthropic.Anthropic(
        base_url=gateway.url.removesuffix("/v1"),
        api_key=gateway.key,
        max_retries=0,
        http_client=anthropic.DefaultHttpxClient(verify=PLAIN),
    ) as client:
        runner = client.beta.messages.tool_runner(
            model=model, max_tokens=500, tools=[weather], messages=user("Oslo?"), stream=streams
        )
        final = runner.until_done()

    assert len(places) == 1
    assert final.stop_reason == "end_turn"
    assert "thread" not in last_body(gateway)
    assert len(last_body(gateway)["messages"]) == 3
