import asyncio
import json
import logging
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from proxy.call import Key
from proxy.receipt import Outcome, Receipt
from proxy.routes.front import Door, Front
from proxy.routes.room import Room
from tests.fakes.answers import ASKED, COMPLETION, DONE, SHOWN, STREAM, STREAMED, chunk, stream
from tests.fakes.asgi import Connection, asked, nothing, refusal, scope
from tests.fakes.clock import played
from tests.fakes.desk import KEY, FakeEstimator, desk
from tests.fakes.upstream import JSON, SILENCE, FakeTransport, Piece, Scripted

KEYS = {
    "tg-1": KEY,
    "tg-3": msgspec.structs.replace(KEY, id="key_3", team="team_3"),
    "tg-revoked": msgspec.structs.replace(KEY, revoked=True),
}
SECRETS = {"tg-2": msgspec.structs.replace(KEY, id="key_2", feature="")}


@dataclass
class FakeKeys:
    """Some keys are known at once, some only to the database."""

    teams: int = 1

    def find(self, token: str) -> Key | None:
        return KEYS.get(token)

    async def look(self, token: str) -> Key | None:
        await asyncio.sleep(0)
        return SECRETS.get(token)


@dataclass
class FakeCapacity:
    said: str = ""

    def trouble(self) -> str:
        return self.said


@dataclass
class House:
    """A front with fakes behind it."""

    scripts: tuple[Scripted | Piece, ...] = (Scripted([COMPLETION]),)
    teams: int = 1
    trouble: str = ""
    shared: bool = False
    max_calls: int = 2
    bodies: int = 2000
    receipts: list[Receipt] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.room = Room(each=1000, all_together=self.bodies)
        self.transport = FakeTransport(self.scripts)
        table, ledger = desk(self.transport)
        self.receipts = ledger.receipts
        door = Door(
            keys=FakeKeys(self.teams),
            capacity=FakeCapacity(self.trouble),
            now=lambda: 1_790_000_000.0,
            ticks=lambda: 0.0,
            call_id=lambda at: f"call_{at:.0f}",
            room=self.room,
            max_calls=self.max_calls,
            shared_state=self.shared,
        )
        self.front = Front(nothing, table, door)

    def ask(self, body: bytes | Connection = ASKED, *args: Any, **head: Any) -> Connection:
        connection = body if isinstance(body, Connection) else Connection([body])
        return played(asked(self.front, scope(*args, **head), connection))


def refused(body: bytes | Connection = ASKED, house: House | None = None, **head: Any) -> Any:
    """How the front refuses this, the status in front; nothing is sent upstream."""
    house = house or House()
    connection = house.ask(body, **head)
    error = refusal(connection)
    assert house.transport.sent == []
    return connection.status, error["code"], error["param"]


def test_a_call_is_answered_with_its_price():
    house = House()
    answered = house.ask()

    assert (answered.status, answered.body) == (200, COMPLETION)
    assert answered.headers["x-request-id"] == "call_1790000000"
    assert answered.headers["x-thriftgate-model"] == "m"
    assert answered.headers["x-thriftgate-cached-tokens"] == "64"
    assert answered.headers["x-thriftgate-cost-usd"] == "0.0000824"
    assert float(answered.headers["x-thriftgate-overhead-ms"]) == 0.0
    assert answered.headers["content-type"] == "application/json"
    (kept,) = house.receipts
    assert (kept.call_id, kept.started) == ("call_1790000000", 1_790_000_000.0)


def test_a_stream_is_answered_and_ends_with_its_account_if_asked():
    quiet = House((stream(STREAM),)).ask(STREAMED)
    loud = House((stream(STREAM),)).ask(STREAMED, headers={"x-thriftgate-trailer": "1"})

    assert quiet.body == SHOWN
    comments = [line for line in loud.body.split(b"\n") if line.startswith(b": thriftgate ")]
    assert (
        json.loads(comments[0].removeprefix(b": thriftgate "))["x-thriftgate-cost-usd"]
        == "0.0000824"
    )
    assert loud.body.replace(comments[0] + b"\n\n", b"") == SHOWN


@pytest.mark.parametrize("path", ["/", "/healthz", "/v1", "/v1/models", "/v1/thriftgate/calls/c"])
def test_what_is_no_call_goes_to_the_pages(path):
    answered = House().ask(path=path)

    assert answered.body == b"pages"


def test_what_is_not_http_goes_to_the_pages():
    async def work() -> None:
        told: list[str] = []

        async def pages(head: Any, _receive: Any, _send: Any) -> None:
            told.append(head["type"])

        front = Front(pages, House().front._desk, House().front._door)
        connection = Connection()
        await front({"type": "lifespan"}, connection.receive, connection.send)
        assert told == ["lifespan"]

    played(work())


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({}, "key_1"),
        ({"authorization": "", "api-key": "tg-1"}, "key_1"),
        ({"authorization": "", "x-api-key": "tg-1"}, "key_1"),
        ({"authorization": "Bearer tg-2"}, "key_2"),
    ],
)
def test_a_good_key_opens(headers, key):
    house = House()

    assert house.ask(headers=headers).status == 200
    assert house.receipts[0].key_id == key


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("", "missing_api_key"),
        ("Bearer tg-no", "invalid_api_key"),
        ("Bearer tg-revoked", "invalid_api_key"),
        ("Basic dGc6MQ==", "invalid_api_key"),
    ],
)
def test_a_bad_key_is_refused_before_its_body_is_read(given, code):
    silent = Connection([None])

    assert refused(silent, headers={"authorization": given}) == (401, code, None)


def test_a_key_is_never_in_what_is_told():
    connection = House().ask(headers={"authorization": "Bearer tg-supersecret"})

    assert b"supersecret" not in connection.body


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        (b"x" * 1001, {}, (413, "body_too_large", None)),
        (b"", {"content-length": "1001"}, (413, "body_too_large", None)),
        (b"{", {}, (400, "invalid_json", None)),
        (b"[]", {}, (400, "invalid_type", None)),
        (b'{"model":1}', {}, (400, "invalid_type", "model")),
        (b'{"model":"m","stream":"yes"}', {}, (400, "invalid_type", "stream")),
        (b"{}", {}, (400, "missing_model", "model")),
        (b'{"model":""}', {}, (400, "missing_model", "model")),
        (b'{"model":"n"}', {}, (404, "model_not_found", "model")),
        (ASKED, {"content-type": "text/plain"}, (415, "unsupported_content_type", None)),
        (ASKED, {"content-encoding": "gzip"}, (415, "unsupported_content_encoding", None)),
    ],
)
def test_what_the_caller_must_mend_is_told_with_the_place(body, headers, expected):
    assert refused(body, headers=headers) == expected


def test_a_body_that_does_not_come_is_refused():
    assert refused(Connection([b"{", None])) == (400, "body_timeout", None)


def test_a_caller_that_leaves_while_sending_is_told_nothing():
    house = House()
    left = house.ask(Connection([], leaves_after=1.0))

    assert left.sent == []
    assert house.receipts == []


@pytest.mark.parametrize("path", ["/v1/chat/../files", "/v1/chat/%2e%2e/files"])
def test_a_path_that_leaves_is_refused(path):
    assert refused(path=path) == (404, "not_found", None)


def test_a_refused_call_leaves_a_receipt_with_what_was_known():
    house = House()
    house.ask(b'{"model":3}', headers={"x-thriftgate-feature": "search"})

    (kept,) = house.receipts
    assert (kept.outcome, kept.status, kept.error) == (Outcome.REFUSED, 400, "invalid_type")
    assert (kept.team, kept.key_id, kept.feature) == ("team_1", "key_1", "search")


@pytest.mark.parametrize("media", ["application/json", "application/json; charset=utf-8", ""])
def test_json_may_be_announced_in_any_way_or_none(media):
    assert House().ask(headers={"content-type": media}).status == 200


@pytest.mark.parametrize(
    ("header", "metadata", "token", "feature"),
    [
        ("header", "body", "tg-1", "header"),
        ("", "body", "tg-1", "body"),
        ("", "", "tg-1", "chat"),
        ("", "", "tg-2", ""),
        ("a\x00b\tc", "", "tg-1", "abc"),
        (" \x01 ", "body", "tg-1", ""),
        ("x" * 300, "", "tg-1", "x" * 128),
        ("", "n\\nl", "tg-1", "nl"),
    ],
)
def test_a_feature_is_named_by_header_body_or_key_in_this_order(header, metadata, token, feature):
    house = House()
    body = ASKED[:-1] + b',"metadata":{"feature":"' + metadata.encode() + b'"}}'
    headers = {"x-thriftgate-feature": header, "authorization": f"Bearer {token}"}

    assert house.ask(body, headers=headers).status == 200
    assert house.receipts[0].feature == feature


GONE = Scripted([b"{}"], headers=JSON)


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/v1/files", "GET"),
        ("/v1/responses/resp_1", "GET"),
        ("/v1/responses", "GET"),
        ("/v1/chat/completions", "GET"),
        ("/v1/chat/completions/c", "POST"),
        ("/v1/batches/b/cancel", "POST"),
        ("/v1/skills", "POST"),
        ("/v1/moderations", "GET"),
    ],
)
def test_what_a_provider_keeps_is_one_teams_or_allowed_or_forbidden(path, method):
    def status(**house: Any) -> int:
        front = House((GONE,), **house)
        return front.ask(b"", path=path, method=method, headers={"content-type": ""}).status

    assert status(teams=1) == 200
    assert status(teams=2, shared=True) == 200
    assert status(teams=2) == 403


def test_teams_that_share_a_gateway_may_still_generate():
    assert House(teams=2).ask().status == 200
    assert House((GONE,), teams=2).ask(path="/v1/moderations").status == 200


def test_a_forbidden_call_says_who_can_allow_it():
    house = House(teams=2)
    connection = house.ask(path="/v1/files")

    assert refusal(connection)["code"] == "provider_state_is_shared"
    assert "THRIFTGATE_SHARED_PROVIDER_STATE=true" in refusal(connection)["message"]
    assert house.receipts[0].outcome is Outcome.REFUSED


@pytest.mark.parametrize("field", ['"previous_response_id":"resp_1"', '"background":true'])
def test_a_response_that_needs_what_another_team_may_have_left_is_forbidden(field):
    house = House(teams=2)
    body = b'{"model":"m","input":"hi",' + field.encode() + b"}"

    assert refused(body, house, path="/v1/responses") == (403, "provider_state_is_shared", None)
    assert house.receipts[0].model == "m"


def test_tokens_of_the_provider_are_given_out_only_where_that_is_allowed():
    path = "/v1/realtime/client_secrets"

    assert refused(b"{}", path=path) == (403, "provider_state_is_shared", None)
    assert House((GONE,), shared=True).ask(b"{}", path=path).status == 200


def forwarded(token: str, given: str) -> dict[str, str]:
    house = House()
    headers = {"authorization": f"Bearer {token}", "idempotency-key": given}
    assert house.ask(headers=headers).status == 200
    return dict(house.transport.sent[0][1].headers)


def test_an_idempotency_key_is_one_within_its_team_and_another_elsewhere():
    one, same, other = (forwarded(t, "k")["idempotency-key"] for t in ("tg-1", "tg-2", "tg-3"))

    assert one == same
    assert len({one, other, forwarded("tg-1", "j")["idempotency-key"], "k"}) == 4


def test_another_endpoint_is_passed_through_with_what_its_body_tells():
    house = House((Scripted([b"\x01"], headers={"content-type": "audio/mpeg"}),))
    body = b'{"model":"m","voice":"v"}'

    assert house.ask(body, path="/v1/audio/speech", query="x=1").body == b"\x01"
    _, prepared = house.transport.sent[0]
    assert (prepared.path, prepared.body) == ("/audio/speech?x=1", body)
    assert house.receipts[0].model == "m"


@pytest.mark.parametrize(
    ("body", "media"),
    [
        (b"\xff\x00", "multipart/form-data; boundary=x"),
        (b"[1]", "application/json"),
        (b"", "application/json"),
    ],
)
def test_a_body_that_is_none_of_our_business_is_passed_through(body, media):
    house = House((GONE,))

    assert house.ask(body, path="/v1/uploads", headers={"content-type": media}).status == 200
    assert house.transport.sent[0][1].body == body


def test_a_gateway_that_is_full_says_when_to_come_back():
    house = House((SILENCE,), max_calls=1)

    async def work() -> Connection:
        first = asyncio.ensure_future(asked(house.front, scope(), Connection([ASKED])))
        await asyncio.sleep(1)
        second = await asked(house.front, scope(), Connection([ASKED]))
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        third = await asked(house.front, scope(headers={"authorization": ""}))
        assert refusal(third)["code"] == "missing_api_key"
        return second

    full = played(work())
    assert (full.status, refusal(full)["code"]) == (503, "too_many_calls")
    assert full.headers["retry-after"] == "1"


def test_a_gateway_that_cannot_keep_receipts_takes_no_calls():
    house = House(trouble="The disk is full.")
    connection = house.ask()

    assert (connection.status, refusal(connection)["code"]) == (503, "ledger_unavailable")
    assert house.transport.sent == []


class Clumsy(FakeEstimator):
    """Makes a mistake of ours once an answer is complete or begun."""

    def learn(self, *_: Any) -> None:
        raise RuntimeError("at /etc/secret")


def clumsy(*scripts: Scripted) -> House:
    house = House(scripts)
    table, ledger = desk(house.transport, estimator=Clumsy())
    house.front = Front(nothing, table, house.front._door)
    house.receipts = ledger.receipts
    return house


def test_our_own_mistake_is_a_bare_500_and_stands_in_the_log(caplog):
    house = clumsy(Scripted([COMPLETION]))
    with caplog.at_level(logging.ERROR, "thriftgate.front"):
        connection = house.ask()

    assert (connection.status, refusal(connection)["code"]) == (500, "internal_error")
    assert b"secret" not in connection.body
    assert "call_1790000000" in connection.body.decode()
    (record,) = caplog.records
    assert record.exc_info is not None
    assert len(house.receipts) == 1


def test_our_own_mistake_in_the_middle_of_an_answer_breaks_it_off(caplog):
    house = clumsy(stream(chunk("a"), STREAM))
    connection = Connection([STREAMED])
    with caplog.at_level(logging.ERROR, "thriftgate.front"), pytest.raises(RuntimeError):
        house.ask(connection)

    assert connection.status == 200
    assert not connection.is_ended
    assert DONE not in connection.body
    (kept,) = house.receipts
    assert (kept.outcome, kept.error) == (Outcome.BROKEN, "gateway_interrupted")


def test_a_caller_that_leaves_is_told_nothing_more():
    house = House((stream(chunk("a"), SILENCE),))
    left = house.ask(Connection([STREAMED], leaves_after=3.0))

    assert left.body == chunk("a")
    assert not left.is_ended
    assert house.receipts[0].outcome is Outcome.HUNG_UP


def test_calls_in_flight_are_counted_down_however_they_end():
    house = House((Scripted([COMPLETION]), stream(SILENCE), Scripted([COMPLETION])), max_calls=1)
    house.ask()
    house.ask(Connection([STREAMED], leaves_after=1.0))

    assert house.ask().status == 200


def test_bodies_in_flight_are_bounded_and_their_room_is_given_back():
    house = House((SILENCE, Scripted([COMPLETION])), bodies=len(ASKED) + 10)

    async def work() -> Connection:
        first = asyncio.ensure_future(asked(house.front, scope(), Connection([ASKED])))
        await asyncio.sleep(1)
        assert house.room.taken == len(ASKED)
        second = await asked(house.front, scope(), Connection([ASKED]))
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        return second

    full = played(work())
    assert (full.status, refusal(full)["code"]) == (503, "too_many_bytes")
    assert full.headers["retry-after"] == "1"
    assert house.ask().status == 200
    assert house.room.taken == 0


@pytest.mark.parametrize(
    "connection",
    [Connection([b"{"]), Connection([b"{", None]), Connection([], leaves_after=1.0)],
    ids=["refused", "silent", "left"],
)
def test_room_for_a_body_is_given_back_however_its_call_ends(connection):
    house = House()
    house.ask(connection, headers={"content-length": "900"})

    assert house.room.taken == 0


def test_a_stream_says_in_its_head_what_the_gateway_took_so_far():
    answered = House((stream(STREAM),)).ask(STREAMED)

    assert answered.headers["x-thriftgate-overhead-ms"] == "0.00"


def test_a_call_that_is_cut_off_before_its_answer_began_is_told_that_we_stop():
    house = House(scripts=(SILENCE,))
    connection = Connection([ASKED])

    async def work() -> None:
        call = asyncio.ensure_future(asked(house.front, scope(), connection))
        await asyncio.sleep(0.5)
        call.cancel()
        await call

    played(work())

    assert connection.status == 503
    assert refusal(connection)["code"] == "gateway_stopping"
    assert [kept.error for kept in house.receipts] == ["gateway_interrupted"]
