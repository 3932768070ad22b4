"""Anthropic's SDK against models of OpenAI's API, which the gateway translates for."""

import anthropic
import pytest

from proxy.records.receipt import Outcome
from tests.fakes.gateway_fixture import GatewayFixture
from tests.fakes.sdk import Sdk
from tests.fakes.sdk_calls import last, last_body, receipt_of, usage_of, user


def test_an_openai_model_answers_a_message_through_chat(
    gateway: GatewayFixture, claude: Sdk
) -> None:
    raw = claude.ask(
        lambda c: c.messages.with_raw_response.create(
            model="gpt-lab", max_tokens=500, system="Be brief.", messages=user("Hello.")
        )
    )
    answer = claude.ask(lambda _: raw.parse())
    receipt = receipt_of(gateway, raw.headers["request-id"])

    assert (answer.type, answer.model, answer.stop_reason) == ("message", "gpt-lab", "end_turn")
    assert answer.content[0].text
    assert last(gateway).path == "/v1/chat/completions"
    assert last_body(gateway)["messages"][0]["content"] == "Be brief."
    assert (receipt.endpoint, receipt.usage) == ("messages", last(gateway).usage)
    assert answer.usage.input_tokens == usage_of(receipt).input
    assert "translated to chat completions" in raw.headers["x-thriftgate-notes"]


def test_tokens_of_an_openai_models_prompt_are_counted_here(
    gateway: GatewayFixture, claude: Sdk, feature: str
) -> None:
    before = len(gateway.lab.exchanges)
    counted = claude.ask(
        lambda c: c.messages.count_tokens(
            model="gpt-lab",
            messages=user("How long is this?"),
            extra_headers={"x-thriftgate-feature": feature},
        )
    )
    (receipt,) = gateway.of_feature(feature)

    assert counted.input_tokens == 12
    assert len(gateway.lab.exchanges) == before
    assert (receipt.endpoint, receipt.cost_nanos, receipt.outcome) == (
        "messages/count_tokens",
        None,
        Outcome.ANSWERED,
    )


def test_a_broken_stream_of_an_openai_model_ends_with_anthropics_error_event(
    claude: Sdk,
) -> None:
    with pytest.raises(anthropic.APIError) as raised:
        claude.events(
            lambda c: c.messages.stream(
                model="gpt-lab", max_tokens=50, messages=user("Break. [[fault:death=3]]")
            )
        )

    assert raised.value.body["type"] == "error"  # type: ignore[index]
