"""A team's own webhook says whether an answer may be given."""

import asyncio

import orjson
import pytest

from proxy.calls.attempts.answer_webhook import refusal_of_webhook
from proxy.fast_path.small_first.answer_checks import AnswerWebhook
from tests.fakes.upstream import (
    EVENTS,
    FakeTransport,
    Piece,
    ScriptedAnswer,
    Silence,
    broken_connection,
)

WEBHOOK = AnswerWebhook("https://checks.test:8443/v1/check?team=a", 0.05)


def ask(*scripts: ScriptedAnswer | Piece, webhook: AnswerWebhook = WEBHOOK) -> str:
    return asyncio.run(refusal_of_webhook(FakeTransport(scripts), webhook, b'{"a":1}', b'{"b":2}'))


def reply(content: object, **fields: object) -> ScriptedAnswer:
    return ScriptedAnswer([orjson.dumps(content)], **fields)  # type: ignore[arg-type]


def test_it_gets_both_bodies_and_accepts():
    transport = FakeTransport([reply({"accept": True})])

    refusal = asyncio.run(refusal_of_webhook(transport, WEBHOOK, b'{"a":1}', b'{"b":2}'))

    assert refusal == ""
    ((name, sent),) = transport.sent
    assert name == "check:https://checks.test:8443"
    assert (sent.method, sent.path) == ("POST", "/v1/check?team=a")
    assert orjson.loads(sent.body) == {"request": {"a": 1}, "answer": {"b": 2}}
    assert transport.exchanges[0].closed


@pytest.mark.parametrize(
    ("script", "refusal"),
    [
        (reply({"accept": False, "reason": "no order\x1b number"}), "webhook: no order number"),
        (reply({"accept": False}), "webhook: refused"),
        (reply({"accept": "yes"}), "webhook: its reply has no accept"),
        (reply({}), "webhook: its reply has no accept"),
        (ScriptedAnswer([b"<html>"]), "webhook: its reply has no accept"),
        (reply({"accept": True}, status=302), "webhook: status 302"),
        (reply({"accept": True}, status=500), "webhook: status 500"),
        (ScriptedAnswer([b"x" * 70_000]), "webhook: too_much"),
        (Silence(), "webhook: no reply within 50 ms"),
        (ScriptedAnswer([Silence()], headers=EVENTS), "webhook: no reply within 50 ms"),
        (broken_connection(), f"webhook: {broken_connection().code}"),
    ],
)
def test_all_but_a_clear_yes_in_time_accepts_nothing(script: ScriptedAnswer | Piece, refusal: str):
    assert ask(script) == refusal


def test_an_address_without_a_path_is_asked_at_its_root():
    transport = FakeTransport([reply({"accept": True})])
    webhook = AnswerWebhook("http://checks.test", 1.0)

    assert asyncio.run(refusal_of_webhook(transport, webhook, b"{}", b"{}")) == ""
    assert transport.sent[0][1].path == "/"
