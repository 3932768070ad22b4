"""Drafts over HTTP: in all three APIs, with the official SDKs, ended by their caller."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from proxy.records.receipt import Outcome, ServedBy
from tests.fakes.drafted_gateway import DRAFT_TTFT_S, DraftedGateway, drafted_gateway
from tests.fakes.messages_sdk import SyncMessages
from tests.fakes.plain_http import PLAIN
from tests.fakes.sdk import Sync
from tests.fakes.unbroken_streams import account, booked_tokens

HEADERS = {"x-thriftgate-draft": "small"}
USER = [{"role": "user", "content": "Tell me about holidays."}]
BODIES: dict[str, dict[str, Any]] = {
    "chat/completions": {"model": "large", "messages": USER, "stream": True},
    "messages": {"model": "claude", "messages": USER, "stream": True, "max_tokens": 500},
    "responses": {"model": "large", "input": "Tell me about holidays.", "stream": True},
}
ENDPOINTS = list(BODIES)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DraftedGateway]:
    with drafted_gateway(tmp_path_factory.mktemp("drafts")) as running:
        yield running


def drafts_of(stream: str) -> list[dict[str, Any]]:
    """The data of the draft's events, in whatever API."""
    starts = (": thriftgate.draft ", "event: thriftgate.draft\ndata: ")
    blocks = [block for block in stream.split("\n\n") if block.startswith(starts)]
    return [json.loads(block[block.index("{") :]) for block in blocks]


def ask(gateway: DraftedGateway, endpoint: str, **headers: str) -> httpx.Response:
    return gateway.client.post(
        f"{gateway.url}/{endpoint}", json=BODIES[endpoint], headers=HEADERS | headers
    )


def without_ids(stream: str) -> str:
    """A stream without what differs from one answer to the next."""
    kept = [part for part in stream.split("\n\n") if "thriftgate" not in part]
    text = ""
    for part in kept:
        data = part.partition("data: ")[2]
        if data.startswith("{"):
            event = json.loads(data)
            text += json.dumps(event.get("choices") or event.get("delta") or event.get("type"))
    return text


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_draft_comes_before_the_answer_which_is_the_same_as_without(
    gateway: DraftedGateway, endpoint: str
):
    plain = ask(gateway, endpoint, **{"x-thriftgate-draft": "off"})
    answer = ask(gateway, endpoint)
    events = drafts_of(answer.text)

    assert "".join(event["draft"] for event in events)
    assert {event["model"] for event in events} == {"small"}
    assert answer.headers["x-thriftgate-draft"] == "small"
    assert "thriftgate.draft" not in plain.text
    assert without_ids(answer.text) == without_ids(plain.text)
    blocks = [block for block in answer.text.split("\n\n") if block]
    is_draft = ["thriftgate.draft" in block for block in blocks]
    assert is_draft == sorted(is_draft, reverse=True)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_an_overtaken_draft_costs_what_the_simulator_counts(gateway: DraftedGateway, endpoint: str):
    gateway.lab.inject_fault("quick-gpt", "stall=5")
    try:
        answer = ask(gateway, endpoint)
    finally:
        gateway.lab.inject_fault("quick-gpt", "ok")
    receipts = gateway.settled_receipts(answer.headers["x-request-id"], 2)
    asked, drafting = ("slow-claude" if endpoint == "messages" else "slow-gpt"), "quick-gpt"
    counted = [account(gateway.lab, gateway.exchange(model)) for model in (asked, drafting)]

    assert booked_tokens(receipts) == counted
    draft = receipts[-1]
    assert (draft.served_by, draft.final, draft.outcome) == (
        ServedBy.DRAFT,
        False,
        Outcome.HUNG_UP,
    )
    assert counted[1] is not None
    read, written = counted[1]
    assert draft.cost_nanos == read * 300 + written * 1200
    assert draft.fast_path_nanos == -draft.cost_nanos


def test_the_closing_account_has_the_cost_of_both(gateway: DraftedGateway):
    answer = ask(gateway, "chat/completions")
    receipts = gateway.settled_receipts(answer.headers["x-request-id"], 2)
    line = next(one for one in answer.text.splitlines() if one.startswith(": thriftgate {"))
    told = orjson.loads(line.removeprefix(": thriftgate "))

    total = sum(receipt.cost_nanos or 0 for receipt in receipts)
    assert round(float(told["x-thriftgate-cost-usd"]) * 1e9) == total


def test_the_openai_sdk_puts_the_same_answer_together(gateway: DraftedGateway):
    sdk = Sync(gateway.url, gateway.key)
    chat = {"model": "large", "messages": USER}
    plain = sdk.ask(lambda c: c.chat.completions.create(**chat, extra_headers=HEADERS))
    chunks = sdk.all(
        lambda c: c.chat.completions.create(**chat, stream=True, extra_headers=HEADERS)
    )
    _, final = sdk.events(lambda c: c.chat.completions.stream(**chat, extra_headers=HEADERS))
    raw = sdk.all(
        lambda c: c.responses.create(model="large", input=USER, stream=True, extra_headers=HEADERS)
    )
    _, response = sdk.events(
        lambda c: c.responses.stream(model="large", input=USER, extra_headers=HEADERS)
    )
    sdk.close()

    text = plain.choices[0].message.content
    drafts = [chunk for chunk in chunks if chunk.object == "thriftgate.draft"]
    assert drafts
    assert all(chunk.choices == [] for chunk in drafts)
    assert "".join(one.choices[0].delta.content or "" for one in chunks if one.choices) == text
    assert final.choices[0].message.content == text
    assert (final.model, final.id.startswith("call_")) == (chunks[-1].model, False)
    assert raw[0].type == "response.created"
    assert response.output_text == text


def test_anthropics_sdk_puts_the_same_answer_together(gateway: DraftedGateway):
    sdk = SyncMessages(gateway.url, gateway.key)
    asked = {"model": "claude", "messages": USER, "max_tokens": 500, "extra_headers": HEADERS}
    plain = sdk.ask(lambda c: c.messages.create(**asked))
    events = sdk.all(lambda c: c.messages.create(**asked, stream=True))
    seen, final = sdk.events(lambda c: c.messages.stream(**asked))
    sdk.close()

    assert events[0].type == seen[0].type == "thriftgate.draft"
    assert final.content[0].text == plain.content[0].text
    said = [event.delta.text for event in events if event.type == "content_block_delta"]
    assert "".join(said) == plain.content[0].text


def test_first_words_come_long_before_the_answer(gateway: DraftedGateway):
    def first_byte_s(draft: str) -> float:
        started = time.monotonic()
        with gateway.client.stream(
            "POST", f"{gateway.url}/chat/completions", json=BODIES["chat/completions"],
            headers={"x-thriftgate-draft": draft},
        ) as answer:  # fmt: skip
            next(answer.iter_raw())
            return time.monotonic() - started

    with_draft, without = min(first_byte_s("small") for _ in range(3)), first_byte_s("off")

    assert DRAFT_TTFT_S <= with_draft < without


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({"stream": False}, "asks for no stream"),
        ({"n": 2}, "several choices"),
        ({"response_format": {"type": "json_object"}}, "have a format"),
        (
            {
                "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
                "tool_choice": "required",
            },
            "to be a tool call",
        ),
    ],
)
def test_a_call_that_has_no_draft_says_why(gateway: DraftedGateway, fields: Any, note: str):
    answer = gateway.client.post(
        f"{gateway.url}/chat/completions",
        json=BODIES["chat/completions"] | fields,
        headers=HEADERS,
    )

    assert answer.status_code == 200, answer.text
    assert note in answer.headers["x-thriftgate-notes"]
    assert "thriftgate.draft" not in answer.text


def test_an_answer_that_fails_after_its_draft_began_ends_with_an_error_event(
    gateway: DraftedGateway,
):
    gateway.lab.inject_fault("slow-gpt", "death-before-content")
    try:
        answer = ask(gateway, "chat/completions")
    finally:
        gateway.lab.inject_fault("slow-gpt", "ok")

    assert (answer.status_code, bool(drafts_of(answer.text))) == (200, True)
    assert '"error"' in answer.text
    receipts = gateway.settled_receipts(answer.headers["x-request-id"], 2)
    assert [receipt.final for receipt in receipts].count(True) == 1


def test_a_key_ends_its_own_call_and_pays_for_what_ran(gateway: DraftedGateway):
    ended: list[httpx.Response] = []

    def end(call_id: str) -> None:
        url = f"{gateway.url}/thriftgate/calls/{call_id}"
        other = gateway.gateway.store.teams.create_key(gateway.team, "other", now=0.0)[1]
        keys = (other, gateway.key, gateway.key)
        ended.extend(httpx.delete(url, headers={"x-api-key": key}, verify=PLAIN) for key in keys)

    with gateway.client.stream(
        "POST", f"{gateway.url}/chat/completions", json=BODIES["chat/completions"],
        headers=HEADERS,
    ) as answer:  # fmt: skip
        call_id = answer.headers["x-request-id"]
        thread = threading.Thread(target=end, args=(call_id,))
        thread.start()
        text = answer.read().decode()
        thread.join()

    assert [one.status_code for one in ended] == [404, 200, 404]
    assert "call_ended" in text
    receipts = gateway.settled_receipts(call_id, 2)
    assert {receipt.outcome for receipt in receipts} == {Outcome.HUNG_UP}
    assert all(receipt.cost_nanos for receipt in receipts)


def test_a_policy_has_a_features_streams_drafted(tmp_path: Path):
    rule = '[[drafts]]\nname = "support"\nfeature = "support"\nmodel = "small"\n'
    with drafted_gateway(tmp_path, rule) as running:
        answers = [
            running.client.post(
                f"{running.url}/chat/completions",
                json=BODIES["chat/completions"],
                headers={"x-thriftgate-feature": feature},
            ).text
            for feature in ("support", "other")
        ]

    assert [bool(drafts_of(text)) for text in answers] == [True, False]
