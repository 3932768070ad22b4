"""Tests of what the official OpenAI SDK raises, and what the ledger then holds."""

import time
from collections.abc import Callable
from typing import Any

import httpx
import openai
import pytest

from proxy.records.receipt import Outcome
from tests.fakes.gateway_fixture import GatewayFixture
from tests.fakes.plain_http import PLAIN
from tests.fakes.sdk import Dial
from tests.fakes.sdk_calls import chat, user


@pytest.mark.parametrize(
    ("headers", "code"),
    [({}, "invalid_api_key"), ({"Authorization": openai.Omit()}, "missing_api_key")],
)
def test_a_key_that_opens_nothing_is_an_authentication_error(
    make_client: Dial, model: str, headers: dict[str, Any], code: str
) -> None:
    client = make_client("tg-wrong")
    with pytest.raises(openai.AuthenticationError) as caught:
        client.ask(chat(model, "Hello.", extra_headers=headers))

    assert caught.value.code == code
    assert "tg-" in str(caught.value)
    assert "tg-wrong" not in str(caught.value)


def test_a_revoked_key_is_an_authentication_error(
    gateway: GatewayFixture, make_client: Dial
) -> None:
    teams = gateway.gateway.store.teams
    key, secret = teams.create_key(teams.all()[0].id, "short-lived", now=1_790_000_000.0)
    client = make_client(secret)
    client.ask(chat("gpt-lab", "Hello."))
    teams.revoke(key.id, now=1_790_000_001.0)
    until = time.monotonic() + 10

    def ask_on() -> None:
        while time.monotonic() < until:
            client.ask(chat("gpt-lab", "Still here?"))
            time.sleep(0.05)

    with pytest.raises(openai.AuthenticationError):
        ask_on()


def test_an_unknown_model_is_not_found_and_the_nearest_is_named(make_client: Dial) -> None:
    with pytest.raises(openai.NotFoundError, match="Did you mean gpt-lab") as caught:
        make_client().ask(chat("gpt-lap", "Hello."))

    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


@pytest.mark.parametrize("name", ["stream", "user", "service_tier"])
def test_a_wrong_type_is_a_bad_request_that_names_the_parameter(
    make_client: Dial, model: str, name: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        make_client().ask(chat(model, "Hello.", extra_body={name: ["odd"]}))

    assert (caught.value.param, caught.value.code) == (name, "invalid_type")


def test_an_upstream_error_keeps_its_parameter(make_client: Dial, model: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        make_client().ask(lambda c: c.chat.completions.create(model=model, messages=5))

    assert caught.value.param == "messages"


def test_a_rate_limit_says_when_to_come_back(
    gateway: GatewayFixture, make_client: Dial, model: str
) -> None:
    with pytest.raises(openai.RateLimitError) as caught:
        make_client().ask(chat(model, "Hello. [[fault:429=7]]"))

    assert caught.value.response.headers["retry-after"] == "7"
    assert caught.value.request_id is not None
    (receipt,) = gateway.receipts(caught.value.request_id)
    assert (receipt.status, receipt.outcome) == (429, Outcome.FAILED)


def test_a_refusal_of_the_gateways_own_key_is_not_the_callers(
    gateway: GatewayFixture, make_client: Dial, model: str
) -> None:
    before = len(gateway.lab.exchanges)
    with pytest.raises(openai.InternalServerError) as caught:
        make_client(max_retries=2).ask(chat(model, "Hello. [[fault:401]]"))

    assert caught.value.status_code == 502
    assert caught.value.code == "upstream_unauthorized"
    assert "(upstream: lab" in str(caught.value)
    assert "simulated" not in str(caught.value).lower()  # the upstream's own words
    assert len(gateway.lab.exchanges) == before + 1


def test_a_caller_who_gives_up_hangs_up_on_the_upstream(
    gateway: GatewayFixture, make_client: Dial, model: str, feature: str
) -> None:
    client = make_client(timeout=0.25, default_headers={"x-thriftgate-feature": feature})
    with pytest.raises(openai.APITimeoutError):
        client.ask(chat(model, "Hello. [[fault:hang]]"))
    (receipt,) = gateway.of_feature(feature)

    assert (receipt.outcome, receipt.estimated) == (Outcome.HUNG_UP, True)
    assert receipt.cost_nanos
    assert gateway.lab.exchanges[-1].hung_up


def test_a_caller_who_leaves_a_stream_pays_for_what_came(
    gateway: GatewayFixture, make_client: Dial, model: str, feature: str
) -> None:
    client = make_client(timeout=0.5, default_headers={"x-thriftgate-feature": feature})
    with pytest.raises(openai.APITimeoutError):
        client.all(chat(model, "Hello. [[fault:stall=6]]", stream=True))
    (receipt,) = gateway.of_feature(feature)

    assert (receipt.outcome, receipt.estimated) == (Outcome.HUNG_UP, True)
    assert receipt.usage is not None
    assert receipt.usage.prompt_tokens > 0
    assert receipt.usage.generated_tokens >= gateway.lab.exchanges[-1].delivered > 0
    assert gateway.lab.exchanges[-1].hung_up


@pytest.mark.parametrize("fault", ["death", "short", "error-event"])
def test_a_chat_stream_that_breaks_raises(make_client: Dial, model: str, fault: str) -> None:
    with pytest.raises(openai.APIError):
        make_client().all(chat(model, f"Hello. [[fault:{fault}]]", stream=True))


@pytest.mark.parametrize("fault", ["death", "short"])
def test_a_response_stream_that_breaks_raises(make_client: Dial, model: str, fault: str) -> None:
    text = f"Hello. [[fault:{fault}]]"
    with pytest.raises(openai.APIError):
        make_client().all(lambda c: c.responses.create(model=model, input=text, stream=True))


def test_an_error_event_of_responses_is_the_one_the_upstream_sent(make_client: Dial) -> None:
    text = "Hello. [[fault:error-event]]"
    events = make_client().all(
        lambda c: c.responses.create(model="gpt-lab", input=text, stream=True)
    )

    assert [event.type for event in events].index("error") == len(events) - 1


def test_a_key_sees_its_own_calls_and_no_others(
    start_gateway: Callable[..., GatewayFixture],
) -> None:
    gateway = start_gateway()
    teams = gateway.gateway.store.teams
    _, sibling = teams.create_key(teams.all()[0].id, "second", now=1_790_000_000.0)
    rival = teams.create("rival", now=1_790_000_000.0)
    _, other = teams.create_key(rival.id, "theirs", now=1_790_000_000.0)
    with openai.OpenAI(base_url=gateway.url, api_key=gateway.key) as client:
        create = client.chat.completions.with_raw_response.create
        call_id = create(model="gpt-lab", messages=user("Hello.")).headers["x-request-id"]

    def explain_call(key: str) -> httpx.Response:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return httpx.get(f"{gateway.url}/thriftgate/calls/{call_id}", headers=headers, verify=PLAIN)

    (attempt,) = explain_call(gateway.key).json()["attempts"]
    (receipt,) = gateway.receipts(call_id)
    assert receipt.cost_nanos is not None
    assert float(attempt["cost_usd"]) == pytest.approx(receipt.cost_nanos / 1e9)
    assert attempt["outcome"] == "answered"
    assert [explain_call(key).status_code for key in (sibling, other, "", "tg-x")] == [
        404,
        404,
        401,
        401,
    ]
