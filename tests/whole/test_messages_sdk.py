"""Anthropic's SDK against the gateway: nothing but base URL and key is changed."""

from typing import Any

import anthropic
import httpx
import orjson
import pytest

from proxy.records.receipt import Outcome
from tests.fakes.gateway_fixture import GatewayFixture
from tests.fakes.messages_sdk import WEATHER
from tests.fakes.plain_http import PLAIN
from tests.fakes.sdk import Dial, Sdk
from tests.fakes.sdk_calls import PDF, PIXEL, dollars, last, last_body, receipt_of, usage_of, user

MODEL = {"model": "claude-lab", "max_tokens": 200}


def test_a_message_is_answered_metered_and_kept(gateway: GatewayFixture, claude: Sdk) -> None:
    raw = claude.ask(
        lambda c: c.messages.with_raw_response.create(
            **MODEL, messages=user("Hello."), extra_headers={"x-thriftgate-feature": "greeter"}
        )
    )
    answer = claude.ask(lambda _: raw.parse())
    receipt = receipt_of(gateway, raw.headers["request-id"])

    assert answer.content[0].text
    assert (answer.stop_reason, answer.model) == ("end_turn", "claude-lab")
    assert answer._request_id == raw.headers["x-request-id"]
    assert receipt.usage == last(gateway).usage
    assert answer.usage.input_tokens == usage_of(receipt).prompt_tokens
    assert (receipt.endpoint, receipt.feature, receipt.outcome, receipt.status) == (
        "messages",
        "greeter",
        Outcome.ANSWERED,
        200,
    )
    assert float(raw.headers["x-thriftgate-cost-usd"]) == pytest.approx(dollars(receipt))
    assert raw.headers["x-thriftgate-model"] == "claude-lab"


def test_the_upstream_gets_the_callers_own_bytes_version_and_betas(
    gateway: GatewayFixture,
) -> None:
    exchange = (
        b'{ "model" : "claude-lab","max_tokens":20,\n "metadata":{"user_id":"u-1"},'
        b'"messages":[{"role":"user","content":[{"type":"text","text":"A \\u00e9 b"}]}] }'
    )
    answer = httpx.post(
        f"{gateway.url}/messages?beta=true",
        content=exchange,
        headers={
            "x-api-key": gateway.key,
            "anthropic-version": "2023-06-01",
            "anthropic-beta": "context-1m-2025-08-07, fine-grained-tool-streaming-2025-05-14",
            "content-type": "application/json",
        },
        verify=PLAIN,
    )

    assert answer.status_code == 200
    assert last(gateway).body == exchange
    assert last(gateway).path == "/v1/messages?beta=true"
    assert last(gateway).headers["anthropic-version"] == "2023-06-01"
    assert last(gateway).headers["anthropic-beta"] == (
        "context-1m-2025-08-07, fine-grained-tool-streaming-2025-05-14"
    )
    assert last(gateway).headers["x-api-key"] == "simulator-key"
    assert answer.content == bytes(last(gateway).sent)


@pytest.mark.parametrize("base", ["", "/v1"])
def test_both_forms_of_the_base_url_lead_to_the_same_call(
    gateway: GatewayFixture, make_claude: Dial, base: str
) -> None:
    client = make_claude(base_url=gateway.url.removesuffix("/v1") + base)
    answer = client.ask(lambda c: c.messages.create(**MODEL, messages=user("Hello.")))

    assert answer.content[0].text
    assert last(gateway).path == "/v1/messages"
    assert [model.id for model in client.all(lambda c: c.models.list())][:1] == ["gpt-lab"]


def test_a_key_may_come_as_a_bearer_token(gateway: GatewayFixture, make_claude: Dial) -> None:
    client = make_claude(None, auth_token=gateway.key)

    assert client.ask(lambda c: c.messages.create(**MODEL, messages=user("Hi."))).content


def test_a_stream_passes_on_unmodified_and_its_events_are_metered(
    gateway: GatewayFixture, claude: Sdk, feature: str
) -> None:
    events, final = claude.events(
        lambda c: c.messages.stream(
            **MODEL, messages=user("Tell me."), extra_headers={"x-thriftgate-feature": feature}
        )
    )
    (receipt,) = gateway.of_feature(feature)

    assert "".join(e.text for e in events if e.type == "text") == final.content[0].text != ""
    assert [e.type for e in events][:1] == ["message_start"]
    assert [e.type for e in events][-1] == "message_stop"
    assert (receipt.usage, receipt.estimated) == (last(gateway).usage, False)
    assert receipt.ttft is not None
    assert receipt.streamed


def test_a_stream_is_the_upstreams_bytes_in_the_upstreams_order(gateway: GatewayFixture) -> None:
    answer = httpx.post(
        f"{gateway.url}/messages",
        json={**MODEL, "stream": True, "messages": user("Stream.")},
        headers={"authorization": f"Bearer {gateway.key}", "anthropic-version": "2023-06-01"},
        verify=PLAIN,
    )

    assert answer.content == bytes(last(gateway).sent)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["request-id"].startswith("call_")


def test_tools_are_called_and_answered_over_two_turns(gateway: GatewayFixture, claude: Sdk) -> None:
    fields = {**MODEL, "tools": [WEATHER], "tool_choice": {"type": "any"}}
    first = claude.ask(lambda c: c.messages.create(**fields, messages=user("Weather in Oslo?")))
    (use,) = [block for block in first.content if block.type == "tool_use"]
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "8 degrees"}
    second = claude.ask(
        lambda c: c.messages.create(
            **{**fields, "tool_choice": {"type": "auto"}},
            messages=[
                *user("Weather in Oslo?"),
                {"role": "assistant", "content": first.content},
                {"role": "user", "content": [result]},
            ],
        )
    )

    assert (first.stop_reason, use.name) == ("tool_use", "weather")
    assert second.content
    assert last_body(gateway)["messages"][2]["content"] == [result]


def test_thinking_comes_signed_and_goes_back_byte_for_byte(
    gateway: GatewayFixture, claude: Sdk
) -> None:
    fields = {**MODEL, "max_tokens": 4000, "thinking": {"type": "adaptive"}}
    first = claude.ask(lambda c: c.messages.create(**fields, messages=user("Think.")))
    thought = first.content[0]
    turn = [*user("Think."), {"role": "assistant", "content": first.content}, *user("Go on.")]
    claude.ask(lambda c: c.messages.create(**fields, messages=turn))

    assert (thought.type, bool(thought.signature)) == ("thinking", True)
    assert last_body(gateway)["messages"][1]["content"][0] == thought.to_dict()


def test_images_and_documents_pass_through(gateway: GatewayFixture, claude: Sdk) -> None:
    picture = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    paper = {"type": "base64", "media_type": "application/pdf", "data": PDF}
    content: list[Any] = [
        {"type": "image", "source": picture},
        {"type": "document", "source": paper},
        {"type": "text", "text": "What is this?"},
    ]
    answer = claude.ask(
        lambda c: c.messages.create(**MODEL, messages=[{"role": "user", "content": content}])
    )

    assert answer.content
    assert last_body(gateway)["messages"][0]["content"] == content


def test_tokens_are_counted_by_the_upstream_and_cost_nothing(
    gateway: GatewayFixture, claude: Sdk, feature: str
) -> None:
    counted = claude.ask(
        lambda c: c.messages.count_tokens(
            model="claude-lab",
            messages=user("How long is this?"),
            extra_headers={"x-thriftgate-feature": feature},
        )
    )
    (receipt,) = gateway.of_feature(feature)

    assert counted.input_tokens > 0
    assert (receipt.endpoint, receipt.usage, receipt.cost_nanos) == (
        "messages/count_tokens",
        None,
        None,
    )


def test_models_are_listed_and_shown_as_anthropic_does(claude: Sdk) -> None:
    listed = claude.all(lambda c: c.models.list(limit=2))
    shown = claude.ask(lambda c: c.models.retrieve("claude-lab"))

    assert [model.id for model in listed] == ["gpt-lab", "claude-lab", "embed-lab"]
    assert {model.lifecycle for model in listed} == {"active"}
    assert (shown.type, shown.id, shown.display_name) == ("model", "claude-lab", "claude-lab")
    with pytest.raises(anthropic.NotFoundError):
        claude.ask(lambda c: c.models.retrieve("none-such"))


@pytest.mark.parametrize(
    ("fault", "error", "kind"),
    [
        ("400", anthropic.BadRequestError, "invalid_request_error"),
        ("429", anthropic.RateLimitError, "rate_limit_error"),
        ("500", anthropic.InternalServerError, "api_error"),
        ("529", anthropic.APIStatusError, "overloaded_error"),
        ("401", anthropic.InternalServerError, "api_error"),
    ],
)
def test_an_upstreams_errors_come_in_anthropics_envelope(
    gateway: GatewayFixture,
    make_claude: Dial,
    fault: str,
    error: type[anthropic.APIStatusError],
    kind: str,
) -> None:
    with pytest.raises(error) as raised:
        make_claude(max_retries=0).ask(
            lambda c: c.messages.create(**MODEL, messages=user(f"Fail. [[fault:{fault}]]"))
        )
    document = raised.value.body

    assert isinstance(document, dict)
    assert (document["type"], document["error"]["type"]) == ("error", kind)
    assert (
        document["request_id"]
        == raised.value.request_id
        == raised.value.response.headers["x-request-id"]
    )
    assert document["error"]["message"]


def test_an_unknown_key_is_an_authentication_error(make_claude: Dial) -> None:
    with pytest.raises(anthropic.AuthenticationError) as raised:
        make_claude("tg-none").ask(lambda c: c.messages.create(**MODEL, messages=user("Hi.")))

    assert raised.value.body["error"]["type"] == "authentication_error"  # type: ignore[index]


def test_an_unknown_model_is_a_not_found_error(claude: Sdk) -> None:
    with pytest.raises(anthropic.NotFoundError) as raised:
        claude.ask(
            lambda c: c.messages.create(model="claude-x-lab", max_tokens=9, messages=user("Hi."))
        )

    assert "catalog" in str(raised.value)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "valid JSON"),
        (b"[1]", "array"),
        (b'{"model": 7}', "model"),
        (b'{"max_tokens": 3}', "names no model"),
        (b'{"model":"claude-lab","stream":"yes"}', "stream"),
        (b'{"model":"claude-lab","messages":', "valid JSON"),
        (b'{"model":"claude-lab","max_tokens":5,"messages":[]}', "messages"),
        (b'{"model":"claude-lab","messages":[{"role":"user","content":"x"}]}', "max_tokens"),
    ],
)
def test_a_malformed_body_gets_anthropics_error_form_with_the_fix(
    gateway: GatewayFixture, body: bytes, says: str
) -> None:
    answer = httpx.post(
        f"{gateway.url}/messages",
        content=body,
        headers={"x-api-key": gateway.key, "content-type": "application/json"},
        verify=PLAIN,
    )
    document = orjson.loads(answer.content)

    assert answer.status_code == 400
    assert (document["type"], document["error"]["type"]) == ("error", "invalid_request_error")
    assert says in document["error"]["message"]
    assert document["request_id"] == answer.headers["request-id"]
    assert gateway.receipts(document["request_id"])[0].status == 400


def test_a_stream_that_breaks_midway_ends_with_anthropics_error_event(
    gateway: GatewayFixture, claude: Sdk, feature: str
) -> None:
    with pytest.raises(anthropic.APIError) as raised:
        claude.events(
            lambda c: c.messages.stream(
                **MODEL,
                messages=user("Break. [[fault:death=3]]"),
                extra_headers={"x-thriftgate-feature": feature},
            )
        )
    (receipt,) = gateway.of_feature(feature)

    assert raised.value.body["type"] == "error"  # type: ignore[index]
    assert receipt.outcome is Outcome.BROKEN


def test_the_sdk_tries_an_overloaded_upstream_again(
    gateway: GatewayFixture, make_claude: Dial, feature: str
) -> None:
    with pytest.raises(anthropic.APIStatusError):
        make_claude(max_retries=1).ask(
            lambda c: c.messages.create(
                **MODEL,
                messages=user("Fail. [[fault:529]]"),
                extra_headers={"x-thriftgate-feature": feature},
            )
        )

    assert len({receipt.call_id for receipt in gateway.of_feature(feature, 2)}) == 2


def test_something_answers_at_the_root(gateway: GatewayFixture) -> None:
    assert httpx.head(gateway.url.removesuffix("/v1") + "/", verify=PLAIN).status_code == 200


def test_files_and_batches_go_to_the_upstream_that_speaks_anthropics_api(
    gateway: GatewayFixture, claude: Sdk
) -> None:
    claude.ask(lambda c: c.messages.batches.list())

    assert last(gateway).path.startswith("/v1/messages/batches")
    assert last(gateway).headers["anthropic-version"]
