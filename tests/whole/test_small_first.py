"""Calls go to a small model as far as comparisons prove it, over HTTP, with receipts of all."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from proxy.records.receipt import Receipt, ServedBy
from proxy.store.sql.access.users import FIRST_ADMIN
from tests.fakes.fallback_gateway import FallbackGateway, fallback_gateway
from tests.fakes.plain_http import PLAIN

RULE = """
[[small_first]]
name = "first"
feature = "easy"
small = "spare"
max_loss = "30%"
judged_share = "30%"
"""
EASY = {"x-thriftgate-feature": "easy"}


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[FallbackGateway]:
    with fallback_gateway(tmp_path, RULE) as running:
        yield running


def receipts(gateway: FallbackGateway, call_id: str) -> list[Receipt]:
    store = gateway.gateway.store
    assert store.drain.flush(20)
    return list(store.ledger.attempts(call_id))


def ask(gateway: FallbackGateway, number: int, **fields: Any) -> str:
    answer = gateway.ask("main", f"Say the number {number}.", extra_headers=EASY, **fields)
    return str(answer.headers["x-request-id"])


def first_small_call(gateway: FallbackGateway, **fields: Any) -> str:
    """The id of the first call that the small model answers."""
    for number in range(600):
        call_id = ask(gateway, number, **fields)
        (receipt,) = receipts(gateway, call_id)
        if receipt.served_by is ServedBy.SMALL:
            return call_id
        assert receipt.served_by is ServedBy.LARGE
        time.sleep(0.01)
    raise AssertionError("no call went to the small model")


def feedback(gateway: FallbackGateway, body: Any, key: str = "") -> httpx.Response:
    return httpx.post(
        f"{gateway.url}/thriftgate/feedback",
        json=body,
        headers={"authorization": f"Bearer {key or gateway.key}"},
        verify=PLAIN,
        trust_env=False,
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_calls_go_to_the_small_model_once_comparisons_allow_it(gateway):
    call_id = first_small_call(gateway)

    (receipt,) = receipts(gateway, call_id)
    assert receipt.route == "lab/spare"
    assert receipt.model == "main"
    assert receipt.reroute_reason == "first: small model first"
    assert receipt.fast_path_nanos is not None
    assert receipt.fast_path_nanos > 0
    compared = [
        receipt
        for receipt in gateway.gateway.store.ledger.receipts_since(0)
        if any("compares a small model" in note for note in receipt.notes)
    ]
    assert len(compared) >= 60
    assert all(receipt.feature == "easy" for receipt in compared)
    assert all(receipt.fast_path_nanos == -receipt.cost_nanos for receipt in compared)
    assert {receipt.route for receipt in compared} >= {"lab/main", "lab/spare"}
    assert feedback(gateway, {"call_id": call_id, "rating": "up"}).status_code == 200


def test_state_is_kept_when_the_gateway_stops(tmp_path):
    with fallback_gateway(tmp_path, RULE) as running:
        ask(running, 1)

    assert len(list((tmp_path / "gateway" / "small_first").glob("*.json"))) == 1


def test_the_dashboard_shows_the_rule_and_what_is_proved(gateway):
    ask(gateway, 1)
    store, url = gateway.gateway.store, gateway.url.removesuffix("/v1")
    assert store.drain.flush(20)
    now = time.time()  # noqa: TID251 - a person's own clock
    code = store.users.create_link(FIRST_ADMIN, now=now)
    with httpx.Client(base_url=url, verify=PLAIN, trust_env=False, follow_redirects=True) as person:
        person.post("/admin/sign-in", data={"code": code}, headers={"origin": url})
        view = person.get("/api/v1/fast-path").json()
        page = person.get("/admin/fast-path").text

    (feature,) = view["features"]
    (rule,) = feature["rules"]
    assert (rule["part"], rule["text"], rule["max_loss"]) == ("small_first", "first: spare", 0.3)
    assert feature["calls"] == 1
    assert feature["weighed_calls"] == 1
    assert [(bound["calls"], bound["max_loss"]) for bound in view["proved"]] == [(1, 0.3)]
    assert "first: spare" in page
    assert "30.00 %" in page


@pytest.mark.parametrize(
    ("check", "attempts"),
    [
        ('checks = ["finish"]', [(ServedBy.SMALL, "lab/spare", True)]),
        (
            'pattern = "words that no answer holds"',
            [(ServedBy.SMALL, "lab/spare", False), (ServedBy.LARGE, "lab/main", True)],
        ),
    ],
)
def test_a_cascade_gives_the_small_answer_that_passes_and_else_the_large_one(
    tmp_path, check, attempts
):
    with fallback_gateway(tmp_path, f'{RULE}mode = "cascade"\n{check}\n') as running:
        found = receipts(running, ask(running, 1))

    assert [(one.served_by, one.route, one.final) for one in found] == attempts
    assert all(one.cost_nanos for one in found)
    assert found[0].error == ("" if found[0].final else "small_answer_rejected")


class AnswerCheckServer(BaseHTTPRequestHandler):
    """A team's service that accepts answers to calls whose text it likes."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert asked["answer"].get("choices") or asked["answer"]["output"]
        verdict = {"accept": "number 1" in json.dumps(asked["request"])}
        reply = json.dumps(verdict).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        """Keep the log of tests empty."""


def test_a_teams_own_service_accepts_the_small_answer_or_has_the_large_one_given(tmp_path):
    with ThreadingHTTPServer(("127.0.0.1", 0), AnswerCheckServer) as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{service.server_port}/check"
        rule = f'{RULE}mode = "cascade"\ncheck_url = "{url}"\ncheck_ms = 5000\n'
        with fallback_gateway(tmp_path, rule) as running:
            accepted = receipts(running, ask(running, 1))
            refused = receipts(running, ask(running, 2))
            of_responses = receipts(running, respond(running, 2))
        service.shutdown()

    assert [one.served_by for one in accepted] == [ServedBy.SMALL]
    assert [one.served_by for one in refused] == [ServedBy.SMALL, ServedBy.LARGE]
    assert refused[0].error == "small_answer_rejected"
    assert [one.served_by for one in of_responses] == [ServedBy.SMALL, ServedBy.LARGE]


def respond(gateway: FallbackGateway, number: int) -> str:
    """The id of a call of the Responses API."""
    answer = httpx.post(
        f"{gateway.url}/responses",
        json={"model": "main", "input": f"Say the number {number}.", "store": False},
        headers={"authorization": f"Bearer {gateway.key}", **EASY},
        verify=PLAIN,
        trust_env=False,
    )
    assert answer.status_code == 200, answer.text
    return str(answer.headers["x-request-id"])


def test_calls_of_other_features_are_not_weighed(gateway):
    answer = gateway.ask("main")

    (receipt,) = receipts(gateway, answer.headers["x-request-id"])
    assert receipt.served_by is ServedBy.NOBODY
    assert receipt.route == "lab/main"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"call_id": "call_other", "rating": "up"}, 404),
        ({"call_id": "call_other", "rating": "fine"}, 400),
        ({}, 400),
    ],
)
def test_feedback_on_no_small_answer_is_refused(gateway, body, status):
    assert feedback(gateway, body).status_code == status


def test_feedback_needs_a_key(gateway):
    assert feedback(gateway, {"call_id": "call_x", "rating": "up"}, key="sk-no").status_code == 401
