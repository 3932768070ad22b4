"""The official OpenAI SDK against the gateway, beyond chats: responses, embeddings and the rest."""

from typing import Any

import openai
import pytest

from slo.usage import Usage
from tests.fakes.gateway_fixture import GatewayFixture
from tests.fakes.sdk import Sdk
from tests.fakes.sdk_calls import MODELS, TOOLS, City, last, last_body, receipt_of, usage_of, user


def test_a_response_is_created(gateway: GatewayFixture, sdk_client: Sdk, model: str) -> None:
    raw = sdk_client.ask(
        lambda c: c.responses.with_raw_response.create(model=model, input="Hello.")
    )
    answer = raw.parse()
    receipt = receipt_of(gateway, raw.headers["x-request-id"])

    assert answer.status == "completed"
    assert answer.output_text
    assert receipt.usage == last(gateway).usage
    assert answer.usage.input_tokens == usage_of(receipt).prompt_tokens
    assert answer.usage.output_tokens == usage_of(receipt).generated_tokens
    assert receipt.endpoint == "responses"


def test_a_response_is_streamed(gateway: GatewayFixture, sdk_client: Sdk, model: str) -> None:
    events, final = sdk_client.events(lambda c: c.responses.stream(model=model, input="Stream."))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")

    assert events[0].type == "response.created"
    assert events[-1].type == "response.completed"
    assert final.output_text == text != ""
    assert final.usage.output_tokens > 0
    assert [event.sequence_number for event in events if hasattr(event, "sequence_number")]


def test_a_response_is_parsed(gateway: GatewayFixture, sdk_client: Sdk, model: str) -> None:
    answer = sdk_client.ask(
        lambda c: c.responses.parse(model=model, input="Which city?", text_format=City)
    )

    assert isinstance(answer.output_parsed, City)


def test_a_response_calls_tools_and_takes_their_results(
    gateway: GatewayFixture, sdk_client: Sdk, model: str
) -> None:
    first: list[Any] = user("How is it in Bonn? [[fault:call=weather,call=clock]]")
    called = sdk_client.ask(
        lambda c: c.responses.create(model=model, input=first, tools=TOOLS, store=False)
    )
    calls = [item for item in called.output if item.type == "function_call"]
    results: list[Any] = [
        {"type": "function_call_output", "call_id": call.call_id, "output": "fine"}
        for call in calls
    ]
    answer = sdk_client.ask(
        lambda c: c.responses.create(
            model=model, input=[*first, *called.output, *results], tools=TOOLS, store=False
        )
    )

    assert [call.name for call in calls] == ["weather", "clock"]
    assert answer.output_text


@pytest.mark.parametrize("streamed", [False, True])
def test_reasoning_items_bring_the_signatures_back(
    gateway: GatewayFixture,
    sdk_client: Sdk,
    streamed: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    first: list[Any] = user("Think. [[fault:call=weather]]")
    body: dict[str, Any] = {
        "model": "claude-lab",
        "tools": TOOLS,
        "reasoning": {"effort": "low"},
        "include": ["reasoning.encrypted_content"],
        "store": False,
    }
    if streamed:
        _, called = sdk_client.events(lambda c: c.responses.stream(input=first, **body))
    else:
        called = sdk_client.ask(lambda c: c.responses.create(input=first, **body))
    raw = bytes(last(gateway).sent)
    (call,) = [item for item in called.output if item.type == "function_call"]
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "Rain."}
    items = [item.model_dump(exclude_none=True) for item in called.output]
    answer = sdk_client.ask(lambda c: c.responses.create(input=[*first, *items, result], **body))
    thinking, use = last_body(gateway)["messages"][1]["content"]

    assert answer.status == "completed"
    assert (thinking["type"], use["type"]) == ("thinking", "tool_use")
    assert thinking["signature"].encode() in raw
    assert thinking["thinking"] != ""


def test_embeddings_are_given_and_counted(gateway: GatewayFixture, sdk_client: Sdk) -> None:
    raw = sdk_client.ask(
        lambda c: c.embeddings.with_raw_response.create(model="embed-lab", input=["one", "two"])
    )
    answer = raw.parse()
    receipt = receipt_of(gateway, raw.headers["x-request-id"])

    assert [len(entry.embedding) for entry in answer.data] == [8, 8]
    assert receipt.usage == Usage(input=answer.usage.prompt_tokens)
    assert receipt.endpoint == "embeddings"


def test_embeddings_of_a_model_that_gives_none_are_refused(
    gateway: GatewayFixture, sdk_client: Sdk
) -> None:
    before = len(gateway.lab.exchanges)
    with pytest.raises(openai.BadRequestError) as caught:
        sdk_client.ask(lambda c: c.embeddings.create(model="claude-lab", input="one"))

    assert caught.value.code == "unsupported_endpoint"
    assert "embeddings" in str(caught.value)
    assert len(gateway.lab.exchanges) == before


def test_older_completions_work(gateway: GatewayFixture, sdk_client: Sdk) -> None:
    whole = sdk_client.ask(lambda c: c.completions.create(model="gpt-lab", prompt="Once"))
    chunks = sdk_client.all(
        lambda c: c.completions.create(model="gpt-lab", prompt="Once", stream=True)
    )

    assert whole.choices[0].text
    assert "".join(chunk.choices[0].text for chunk in chunks)
    assert all(chunk.choices for chunk in chunks)


def test_models_are_listed_and_found(gateway: GatewayFixture, sdk_client: Sdk) -> None:
    names = {model.id for model in sdk_client.all(lambda c: c.models.list())}

    assert names >= {*MODELS, "embed-lab"}
    assert sdk_client.ask(lambda c: c.models.retrieve("claude-lab")).id == "claude-lab"
    with pytest.raises(openai.NotFoundError):
        sdk_client.ask(lambda c: c.models.retrieve("no-such-model"))


def test_an_endpoint_that_the_gateway_does_not_know_is_passed_through(
    gateway: GatewayFixture, sdk_client: Sdk
) -> None:
    moderation = sdk_client.ask(
        lambda c: c.moderations.create(model="mod-lab", input="Kind words.")
    )
    path = last(gateway).path
    files = sdk_client.all(lambda c: c.files.list())

    assert moderation.results[0].flagged is False
    assert path == "/v1/moderations"
    assert files == []
    assert last(gateway).path.startswith("/v1/files")


@pytest.mark.parametrize("name", ["lab/gpt-lab", "lab-anthropic/claude-lab"])
def test_a_model_that_the_catalog_does_not_list_is_shown_by_its_upstream(
    gateway: GatewayFixture, sdk_client: Sdk, name: str
) -> None:
    shown = sdk_client.ask(lambda c: c.models.retrieve(name))

    assert (shown.id, shown.object) == (name.partition("/")[2], "model")
    assert last(gateway).path.endswith(f"/models/{shown.id}")


@pytest.mark.parametrize("name", ["lab/none", "lab-anthropic/none"])
def test_a_model_that_its_upstream_does_not_know_is_not_found(
    gateway: GatewayFixture, sdk_client: Sdk, name: str
) -> None:
    with pytest.raises(openai.NotFoundError, match="does not exist in this simulator"):
        sdk_client.ask(lambda c: c.models.retrieve(name))
