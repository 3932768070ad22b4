"""A question on its way through the whole pipeline, and what is heard of the answer."""

import asyncio
from dataclasses import replace

import msgspec
import orjson
import pytest

from proxy.calls.ports import Head
from proxy.errors import ProxyError
from proxy.records.receipt import Outcome
from proxy.services.compaction.summary_request import (
    SummaryReply,
    answer_text,
    call_server,
    request_template,
    summary_call,
)
from tests.fakes.admission_harness import AdmissionHarness, budget
from tests.fakes.answers import USAGE
from tests.fakes.call_dependencies import KEY, fake_dependencies
from tests.fakes.clock import run_in_instant_time, ticks
from tests.fakes.receipts import a_receipt
from tests.fakes.upstream import SILENCE, FakeTransport, ScriptedAnswer, broken_connection
from tests.proxy.services.compaction.compaction_fixtures import NOW, chat
from tests.proxy.services.compaction.summariser_fixtures import answer, note

pytestmark = pytest.mark.instant_time


HEAD = Head(200, {}, "small", ())
BODY = b'{"model":"m","messages":[{"role":"user","content":"Notes?"}],"max_completion_tokens":99}'
ANSWER = answer(note(1), usage=USAGE)


def call_for_summary(**fields):
    return summary_call(request_template(chat(**fields)), BODY, "call_2", NOW)


class BudgetLimits:
    """Lets through what its budgets let through."""

    def __init__(self, office):
        self._office = office

    async def admit(self, attempt, prepared, _fits):
        return await self._office.admission.admit(attempt, prepared)


def serve(*scripts, budgets=()):
    """The caller, the receipts, and the transport, after a call was served."""

    async def work():
        transport = FakeTransport(scripts)
        table, ledger = fake_dependencies(transport)
        if budgets:
            table = replace(table, limits=BudgetLimits(AdmissionHarness(*budgets)))
        reply = SummaryReply()
        try:
            await call_server(table, ticks)(call_for_summary(), reply)
        except ProxyError as error:
            return error, ledger.receipts, transport.sent
        return answer_text(reply), ledger.receipts, transport.sent

    return run_in_instant_time(work())


def test_a_request_for_notes_is_metered_and_priced_as_a_call_of_its_own_feature():
    reply, (receipt,), exchanges = serve(ScriptedAnswer([ANSWER]))

    assert reply == (note(1), "stop")
    assert [exchange.body for _, exchange in exchanges] == [BODY]
    assert (receipt.team, receipt.key_id) == (KEY.team, KEY.id)
    assert (receipt.feature, receipt.call_id) == ("chat/compaction", "call_2")
    assert receipt.usage is not None
    assert receipt.cost_nanos
    assert (receipt.compaction, receipt.compaction_why, receipt.compacted) == ("", "notes", False)


def test_a_budget_that_is_spent_refuses_it():
    spent = budget(scope="feature", of="chat/compaction", limit=1)
    error, (receipt,), exchanges = serve(ScriptedAnswer([ANSWER]), budgets=[spent])

    assert isinstance(error, ProxyError)
    assert error.status == 429
    assert exchanges == []
    assert (receipt.outcome, receipt.feature) == (Outcome.REFUSED, "chat/compaction")


@pytest.mark.parametrize("script", [broken_connection(), ScriptedAnswer([b"no"], status=500)])
def test_an_upstream_that_fails_is_an_error_with_a_receipt(script):
    error, receipts, _ = serve(script)

    assert isinstance(error, ProxyError)
    assert [receipt.outcome for receipt in receipts] == [Outcome.FAILED]


async def test_a_question_that_is_cut_off_leaves_its_receipt():
    table, ledger = fake_dependencies(FakeTransport([SILENCE]))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3):
            await call_server(table, ticks)(call_for_summary(), SummaryReply())
    (receipt,) = ledger.receipts
    assert (receipt.final, receipt.error) == (True, "gateway_interrupted")


def test_a_question_takes_nothing_from_the_call_but_whose_it_is():
    request = call_for_summary(
        query="a=b",
        conversation="mine",
        slots="stable",
        compaction="force",
        notes=("cut",),
        salt="s",
        headers={"idempotency-key": "1"},
    )

    assert (request.query, request.conversation, request.slots, request.notes) == ("", "", "", ())
    assert (request.compaction, request.salt, request.key) == ("off", "s", KEY)
    assert request.headers == {"content-type": "application/json"}
    assert (request.id, request.arrived, request.model) == ("call_2", NOW, "m")


def reply_of(*pieces, status=200, max_chars=1_000):
    async def work():
        reply = SummaryReply(max_chars)
        await reply.begin(msgspec.structs.replace(HEAD, status=status))
        for piece in pieces[:-1]:
            await reply.send(piece)
        await reply.end(pieces[-1])
        assert reply.closing_event(a_receipt()) == b""
        reply.note_attempt(a_receipt())
        return reply

    return asyncio.run(work())


def test_an_answer_in_pieces_is_heard_whole():
    assert answer_text(reply_of(ANSWER[:9], ANSWER[9:], b"")) == (note(1), "stop")


@pytest.mark.parametrize(
    "reply",
    [
        reply_of(ANSWER, status=404),
        reply_of(b""),
        reply_of(b"[" * 900),
        reply_of(b'{"choices":[]}'),
        reply_of(b'{"choices":[{"message":{"content":[1]}}]}'),
        reply_of(b"\xff{}"),
        reply_of(ANSWER, max_chars=20),
        reply_of(ANSWER, b" ", max_chars=len(ANSWER)),
    ],
)
def test_an_unreadable_answer_has_no_text(reply):
    assert answer_text(reply) == ("", "")


def test_a_model_that_declines_says_nothing_and_stops():
    body = orjson.dumps({"choices": [{"message": {"content": None}, "finish_reason": "stop"}]})

    assert answer_text(reply_of(body)) == ("", "stop")
    assert answer_text(reply_of(b'{"choices":[{}]}')) == ("", "")


def test_waiting_until_the_caller_of_a_request_for_notes_is_gone_returns_at_once():
    assert asyncio.run(SummaryReply().wait_until_gone()) is None
