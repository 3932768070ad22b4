"""Schemas of pydantic models by both SDKs, for providers as strict as Anthropic and xAI are."""

from collections.abc import Callable
from contextlib import closing
from typing import Annotated, Any, Literal

import openai
import pytest
from pydantic import BaseModel, Field

from proxy.records.receipt import Outcome
from tests.fakes.gateway_fixture import GROK, GatewayFixture
from tests.fakes.messages_sdk import SyncMessages
from tests.fakes.sdk import Sdk, Sync
from tests.fakes.sdk_calls import last_body, receipt_of, user


class BillLine(BaseModel):
    """A line of a bill."""

    sku: Annotated[str, Field(min_length=3, max_length=9)]
    count: int = Field(ge=1, le=99)


class Bill(BaseModel):
    """A bill."""

    kind: Literal["paid", "open"]
    lines: list[BillLine] = Field(min_length=2)
    note: str | None = Field(default=None, max_length=80)


class Folder(BaseModel):
    """A folder of folders."""

    name: str = Field(min_length=1)
    folders: list["Folder"] = []


_FORM: dict[str, Any] = {
    "type": "json_schema",
    "json_schema": {"name": "bill", "schema": Bill.model_json_schema(), "strict": True},
}


def test_bounds_of_an_answers_schema_reach_claude_as_words(
    gateway: GatewayFixture, sdk_client: Sdk
) -> None:
    raw = sdk_client.ask(
        lambda c: c.chat.completions.with_raw_response.create(
            model="claude-lab", messages=user("Which bill?"), response_format=_FORM
        )
    )
    schema = last_body(gateway)["output_config"]["format"]["schema"]
    receipt = receipt_of(gateway, raw.headers["x-request-id"])

    assert schema["$defs"]["BillLine"]["properties"]["count"]["description"] == (
        "{maximum: 99, minimum: 1}"
    )
    assert receipt.outcome is Outcome.ANSWERED
    assert any("maximum, minimum" in note for note in receipt.notes)


def test_bounds_of_a_strict_tool_reach_claude_as_words(
    gateway: GatewayFixture, sdk_client: Sdk
) -> None:
    tool = openai.pydantic_function_tool(BillLine)
    answer = sdk_client.ask(
        lambda c: c.chat.completions.create(
            model="claude-lab", messages=user("Go. [[fault:call=BillLine]]"), tools=[tool]
        )
    )
    (tool_sent,) = last_body(gateway)["tools"]

    assert tool_sent["strict"] is True
    assert (
        tool_sent["input_schema"]["properties"]["sku"]["description"]
        == "{maxLength: 9, minLength: 3}"
    )
    assert answer.choices[0].message.tool_calls[0].function.name == "BillLine"


def test_model_that_refers_to_itself_reaches_grok_without_the_reference_that_xai_refuses(
    start_gateway: Callable[..., GatewayFixture],
) -> None:
    running = start_gateway(more_catalog=GROK)
    schema = Folder.model_json_schema()
    tool: Any = {"name": "Folder", "input_schema": schema}
    function: Any = {"type": "function", "function": {"name": "Folder", "parameters": schema}}
    with (
        closing(SyncMessages(running.url, running.key)) as claude,
        closing(Sync(running.url, running.key)) as chat,
    ):
        answer = claude.client.messages.create(
            model="grok-lab",
            max_tokens=500,
            messages=user("Go. [[fault:call=Folder]]"),
            tools=[tool],
        )
        sent_schema = last_body(running)["tools"][0]["function"]["parameters"]
        with pytest.raises(openai.BadRequestError, match=r"\$ref"):
            chat.client.chat.completions.create(
                model="grok-lab", messages=user("Go."), tools=[function]
            )

    assert [part.name for part in answer.content if part.type == "tool_use"] == ["Folder"]
    assert sent_schema["properties"]["name"] == schema["$defs"]["Folder"]["properties"]["name"]
    assert "$ref" in schema
    assert "$defs" not in sent_schema
