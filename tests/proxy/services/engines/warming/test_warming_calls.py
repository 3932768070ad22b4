"""Calls that warm one replica, through the pipeline."""

import asyncio
from dataclasses import replace

import msgspec
import orjson
import pytest

from proxy.calls.deadlines import ClientDisconnected
from proxy.catalog.entries import Model, Upstream
from proxy.catalog.model_aliases import ModelAliases
from proxy.errors import CallerError, UpstreamError
from proxy.records.receipt import Outcome, Receipt
from proxy.services.engines.replica_monitor import ReplicaStatus
from proxy.services.engines.warming.warming_calls import DEADLINE_S, call_of_its_own, warming_sender
from tests.fakes.answers import COMPLETION, failed_answer
from tests.fakes.call_dependencies import call, catalog, fake_dependencies, route
from tests.fakes.upstream import FakeTransport, Piece, ScriptedAnswer, Silence
from tests.fakes.virtual_clock import run_in_virtual_time

BODY = orjson.dumps({"model": "m", "messages": [{"role": "user", "content": "Hello"}]})
STATUS = ReplicaStatus(name="house:1", profile="house", model="m", base_url="http://moved/v1")
Sent = tuple[Receipt | None, FakeTransport, list[Receipt]]


def send(
    script: ScriptedAnswer | Piece,
    *,
    name: str = "house:1",
    stop_after: float | None = None,
    body: bytes = BODY,
    endpoint: str = "chat/completions",
) -> Sent:
    """Send a warming call to a replica that answers so."""

    async def story() -> Sent:
        transport = FakeTransport([script])
        deps, ledger = fake_dependencies(transport)
        routes = tuple(
            replace(route(replica, upstream=upstream(replica)), name=f"{replica}/m")
            for replica in ("house:0", name)
        )
        names = replace(
            catalog(*routes),
            models={"m": Model(id="m", routes=routes)},
            team_aliases={"acme": ModelAliases({"claude-*": "m"})},
        )
        sender = warming_sender(replace(deps, catalog=names), asyncio.get_running_loop().time)
        stop = asyncio.Event()
        if stop_after is not None:
            asyncio.get_running_loop().call_later(stop_after, stop.set)
        template = call(body, endpoint=endpoint, headers={"x": "y"}, conversation="c")
        own = call_of_its_own(template, "call_own", body, 7.0)
        try:
            return await sender(STATUS, own, stop), transport, ledger.receipts
        except BaseException as error:
            error.receipts = ledger.receipts  # type: ignore[attr-defined]
            raise

    def upstream(replica: str) -> Upstream:
        return Upstream(
            name=replica, kind="openai", base_url=f"http://{replica}/v1", engine="house"
        )

    return run_in_virtual_time(story)


def test_a_warming_call_asks_one_replica_for_one_token_under_a_feature_of_its_own():
    receipt, transport, receipts = send(ScriptedAnswer([COMPLETION]))

    ((name, sent),) = transport.sent
    assert name == "house:1"
    assert orjson.loads(sent.body) == {
        **orjson.loads(BODY),
        "max_tokens": 1,
        "stream": False,
    }
    assert receipt is not None
    (kept,) = receipts
    assert kept.cost_nanos is not None
    assert kept.fast_path_nanos == -kept.cost_nanos
    assert "reads a prompt ahead for a replica" in kept.notes
    assert (receipt.feature, receipt.upstream) == ("warming:chat", "house:1")
    assert (receipt.call_id, receipt.started, receipt.outcome) == (
        "call_own",
        7.0,
        Outcome.ANSWERED,
    )


def test_a_responses_prompt_is_sent_as_such_and_nothing_of_it_is_to_be_stored():
    body = {"model": "m", "input": "Hello", "instructions": "Be kind."}
    answer = {"id": "resp_1", "status": "incomplete", "output": [], "usage": {}}
    _, transport, _ = send(
        ScriptedAnswer([orjson.dumps(answer)]), body=orjson.dumps(body), endpoint="responses"
    )

    ((_, sent),) = transport.sent
    assert sent.path == "/responses"
    assert orjson.loads(sent.body) == {
        **body,
        "max_output_tokens": 1,
        "store": False,
        "stream": False,
    }


def test_a_replica_is_warmed_for_a_call_that_names_its_model_by_an_alias():
    body = orjson.dumps({**orjson.loads(BODY), "model": "claude-opus-4-8"})
    receipt, transport, _ = send(ScriptedAnswer([COMPLETION]), body=body)

    ((name, sent),) = transport.sent
    assert (name, orjson.loads(sent.body)["model"]) == ("house:1", "m")
    assert receipt is not None
    assert receipt.model == "claude-opus-4-8"


def test_the_headers_of_the_call_that_it_is_about_are_not_sent():
    _, transport, _ = send(ScriptedAnswer([COMPLETION]))

    assert dict(transport.sent[0][1].headers) == {"content-type": "application/json"}


def test_a_warming_call_ends_at_once_when_stopped_and_leaves_a_receipt():
    with pytest.raises(ClientDisconnected) as caught:
        send(Silence(), stop_after=0.5)

    (receipt,) = caught.value.receipts  # type: ignore[attr-defined]
    assert receipt.outcome is Outcome.HUNG_UP
    assert receipt.duration == pytest.approx(0.5)


def test_a_replica_that_does_not_answer_is_left_at_the_deadline():
    with pytest.raises((TimeoutError, UpstreamError)) as caught:
        send(Silence())

    (receipt,) = caught.value.receipts  # type: ignore[attr-defined]
    assert receipt.duration == pytest.approx(DEADLINE_S, abs=1.5)


def test_a_warming_call_that_fails_tries_no_other_route():
    with pytest.raises(UpstreamError) as caught:
        send(failed_answer(503))

    assert len(caught.value.receipts) == 1  # type: ignore[attr-defined]


def test_a_replica_that_the_catalog_has_no_more_is_not_asked():
    with pytest.raises(CallerError, match="no more"):
        send(ScriptedAnswer([COMPLETION]), name="other:1")


def test_a_call_of_its_own_keeps_whose_it_is_and_nothing_of_what_it_said_besides():
    template = msgspec.structs.replace(
        call(BODY, headers={"x": "y"}, salt="s", notes=("n",)), query="a=b"
    )
    own = call_of_its_own(template, "call_own", b"{}", 7.0)

    assert (own.key, own.salt, own.feature) == (template.key, "s", "chat")
    assert (own.query, own.notes, own.body, own.id) == ("", (), b"{}", "call_own")
