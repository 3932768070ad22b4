"""Schemas of pydantic models with bounds, by OpenAI's SDK, for Claude as strict as Anthropic is."""

from typing import Annotated, Any, Literal

import openai
from pydantic import BaseModel, Field

from proxy.records.receipt import Outcome
from tests.fakes.gateway_fixture import GatewayFixture
from tests.fakes.sdk import Sdk
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
    (sent,) = last_body(gateway)["tools"]

    assert sent["strict"] is True
    assert (
        sent["input_schema"]["properties"]["sku"]["description"] == "{maxLength: 9, minLength: 3}"
    )
    assert answer.choices[0].message.tool_calls[0].function.name == "BillLine"
