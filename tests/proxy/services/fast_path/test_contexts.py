import asyncio
from collections.abc import Iterable
from typing import Any

import orjson
import pytest

from proxy.catalog.entries import Upstream
from proxy.errors import CallerError, Unready
from proxy.providers.port import PreparedRequest
from proxy.services.fast_path.contexts import ContextResolver
from proxy.store.errors import StoreError
from slo.policies.contexts import ContextPolicy, LateRule
from tests.fakes.call_dependencies import call as a_call
from tests.fakes.upstream import After, FakeExchange, FakeTransport, ScriptedAnswer, unreachable

PREFIX = "https://docs.example.com/guides/"
OPEN = ContextPolicy(name="open", fetch=(PREFIX,), deadline_ms=200)
TEXT = {"content-type": "text/markdown"}


class FakeRows:
    """Texts of teams; counts how often it was asked."""

    def __init__(self, texts: dict[tuple[str, str, int], str]) -> None:
        self.team_texts = texts
        self.asked = 0
        self.is_away = False

    def texts(self, team: str, names: Iterable[tuple[str, int]]) -> dict[tuple[str, int], str]:
        self.asked += 1
        if self.is_away:
            raise StoreError("away")
        known = self.team_texts
        return {name: known[(team, *name)] for name in names if (team, *name) in known}


class ContextHarness:
    """A resolver before rows and an upstream that are played."""

    def __init__(
        self, *scripts: Any, policy: ContextPolicy | None = OPEN, transport: Any = None
    ) -> None:
        self.rows = FakeRows({("team_1", "handbook", 1): "Be kind."})
        self.transport = FakeTransport(scripts)
        self.time = 0.0
        self.reserved: list[int] = []
        policies = [policy] if policy is not None else []
        self.resolver = ContextResolver(
            self.rows, self.ask, transport or self.transport, lambda: self.time, policies
        )

    async def ask(self, question: Any, *args: Any) -> Any:
        await asyncio.sleep(0)
        return question(*args)

    def resolve(self, *content: dict[str, Any]) -> Any:
        message = {"role": "user", "content": list(content)}
        call = a_call(orjson.dumps({"model": "m", "messages": [message]}))
        return asyncio.run(self.resolver.resolve(call, self.reserved.append))

    def texts(self, *content: dict[str, Any]) -> list[str]:
        body = orjson.loads(self.resolve(*content).body)
        return [block["text"] for block in body["messages"][0]["content"]]

    def refusal(self, *content: dict[str, Any]) -> tuple[str, int]:
        with pytest.raises((CallerError, Unready)) as refusal:
            self.resolve(*content)
        return refusal.value.code, refusal.value.status


def ref(name: str = "handbook", version: int = 1) -> dict[str, Any]:
    return {"type": "thriftgate.ref", "name": name, "version": version}


def page(path: str = "refunds", prefix: str = PREFIX) -> dict[str, Any]:
    return {"type": "thriftgate.fetch", "url": prefix + path}


def answer(text: str, **more: str) -> ScriptedAnswer:
    return ScriptedAnswer([text.encode()], headers={**TEXT, **more})


OWN = {"type": "text", "text": "own"}


def test_call_without_references_is_the_same_call():
    harness = ContextHarness(policy=None)
    call = a_call(b'{"messages": [{"content": "thriftgate.ref"}]}')

    assert asyncio.run(harness.resolver.resolve(call, harness.reserved.append)) is call


def test_stored_text_is_read_once_a_minute():
    harness = ContextHarness()

    assert harness.texts(ref(), OWN) == ["Be kind.", "own"]
    harness.time = 60.0
    harness.texts(ref())
    assert harness.rows.asked == 1
    harness.time = 60.1
    harness.texts(ref())
    assert harness.rows.asked == 2


def test_deleted_text_is_unknown_at_the_next_look():
    harness = ContextHarness()
    harness.texts(ref())
    harness.rows.team_texts.clear()
    harness.resolver.forget("team_1", "handbook")

    assert harness.refusal(ref()) == ("unknown_context", 404)


def test_forgetting_leaves_other_teams_and_other_texts():
    harness = ContextHarness()
    harness.rows.team_texts["team_1", "other", 1] = "Other."
    harness.texts(ref(), ref("other"))
    harness.resolver.forget("team_2", "handbook")
    harness.resolver.forget("team_1", "handboo")
    harness.rows.is_away = True

    assert harness.texts(ref(), ref("other")) == ["Be kind.", "Other."]


def test_other_teams_text_and_other_version_are_unknown():
    harness = ContextHarness()
    harness.rows.team_texts["team_2", "secret", 1] = "theirs"

    assert harness.refusal(ref("secret")) == ("unknown_context", 404)
    assert harness.refusal(ref(version=2)) == ("unknown_context", 404)


def test_known_text_is_used_while_the_database_is_away_and_an_unknown_one_refused():
    harness = ContextHarness()
    harness.texts(ref())
    harness.rows.is_away, harness.time = True, 1_000.0

    assert harness.texts(ref()) == ["Be kind."]
    assert harness.refusal(ref("other")) == ("contexts_unavailable", 503)


def test_team_without_policy_may_name_nothing():
    policy = ContextPolicy(name="theirs", team="others")

    assert ContextHarness(policy=None).refusal(ref()) == ("contexts_disabled", 403)
    assert ContextHarness(policy=policy).refusal(ref()) == ("contexts_disabled", 403)


def test_policies_that_were_read_again_hold():
    harness = ContextHarness(policy=None)
    harness.resolver.update([OPEN])

    assert harness.texts(ref()) == ["Be kind."]


def test_pages_are_fetched_without_the_gateways_credentials_and_all_at_once():
    scripts = [
        ScriptedAnswer([After(0.05, text)], headers=TEXT) for text in (b"one", b"two", b"three")
    ]
    harness = ContextHarness(*scripts)

    assert harness.texts(page("a"), page("b?x=1"), page("c"), ref()) == [
        "one",
        "two",
        "three",
        "Be kind.",
    ]
    assert [request.path for _, request in harness.transport.sent] == ["/a", "/b?x=1", "/c"]
    assert [request.method for _, request in harness.transport.sent] == ["GET"] * 3
    assert all(exchange.closed for exchange in harness.transport.exchanges)


def test_page_is_asked_for_again_by_its_etag_and_not_sent_twice():
    unchanged = ScriptedAnswer([], status=304, headers={})
    harness = ContextHarness(answer("v1", etag='"1"'), unchanged, answer("v2", etag='"2"'))

    assert [harness.texts(page()) for _ in range(3)] == [["v1"], ["v1"], ["v2"]]
    tags = [request.headers.get("if-none-match") for _, request in harness.transport.sent]
    assert tags == [None, '"1"', '"1"']


@pytest.mark.parametrize(
    "script",
    [
        unreachable(),
        ScriptedAnswer([b"gone"], status=404, headers=TEXT),
        ScriptedAnswer([b""], status=302, headers={"location": "http://169.254.169.254/"}),
        ScriptedAnswer([], status=304, headers={}),
        ScriptedAnswer([b"\x89PNG"], headers={"content-type": "image/png"}),
        ScriptedAnswer([b"\xff\xfe"], headers=TEXT),
        ScriptedAnswer([b"x" * (1024 * 1024 + 1)], headers=TEXT),
        ScriptedAnswer([After(5.0, b"late")], headers=TEXT),
    ],
    ids=["down", "404", "redirect", "304", "image", "no UTF-8", "too long", "late"],
)
def test_page_that_fails_or_is_late_is_left_out_and_named(script):
    call = ContextHarness(script).resolve(page(), OWN)

    assert orjson.loads(call.body)["messages"][0]["content"] == [OWN]
    assert call.notes == (f"left out {PREFIX}refunds: late or failed",)


def test_late_page_is_taken_as_it_was_last_where_the_policy_says_so():
    policy = ContextPolicy(name="last", fetch=(PREFIX,), late=LateRule.LAST)
    harness = ContextHarness(answer("v1"), unreachable(), unreachable(), policy=policy)

    assert harness.texts(page()) == ["v1"]
    assert harness.texts(page()) == ["v1"]
    assert harness.resolve(page("other"), OWN).notes


def test_late_page_refuses_the_call_where_the_policy_says_so():
    policy = ContextPolicy(name="strict", fetch=(PREFIX,), late=LateRule.REFUSE)

    assert ContextHarness(unreachable(), policy=policy).refusal(page(), OWN) == (
        "context_unavailable",
        424,
    )


def test_page_outside_the_policys_addresses_is_never_fetched():
    harness = ContextHarness()

    refusal = harness.refusal(page("", prefix="http://169.254.169.254/latest/"))

    assert refusal == ("context_not_allowed", 403)
    assert harness.transport.sent == []


def test_large_body_is_read_off_the_event_loop_to_the_same_result():
    words = {"type": "text", "text": 300_000 * "x"}

    assert ContextHarness().texts(words, ref()) == [300_000 * "x", "Be kind."]


def test_room_for_each_text_is_reserved_before_the_body_is_made():
    harness = ContextHarness()
    harness.rows.team_texts["team_1", "handbook", 1] = 1_000 * "\x01"

    body = harness.resolve(ref(), ref(), OWN).body

    first, size = harness.reserved
    assert first < size
    assert len(body) <= size <= len(body) + 300
    assert size > 2 * 6_000  # as strings in JSON


def test_call_without_room_for_its_texts_is_refused_before_they_are_put_in():
    def refuse(size: int) -> None:
        raise CallerError("too large", code="body_too_large", status=413)

    harness = ContextHarness()
    call = a_call(orjson.dumps({"messages": [{"role": "user", "content": [ref()]}]}))

    with pytest.raises(CallerError, match="too large"):
        asyncio.run(harness.resolver.resolve(call, refuse))


def test_room_for_a_page_is_reserved_when_it_comes_and_not_after_the_last():
    late = ScriptedAnswer([After(1.0, b"late")], headers=TEXT)
    harness = ContextHarness(answer(5_000 * "x"), late)

    def refuse_large(size: int) -> None:
        if size > 5_000:
            raise Unready("full", code="too_many_bytes", retry_after=1.0)

    async def resolve() -> None:
        content = [page("a"), page("b")]
        call = a_call(orjson.dumps({"messages": [{"role": "user", "content": content}]}))
        async with asyncio.timeout(0.1):
            await harness.resolver.resolve(call, refuse_large)

    with pytest.raises(Unready, match="full"):
        asyncio.run(resolve())
    assert all(exchange.closed for exchange in harness.transport.exchanges)


def test_calls_at_once_read_a_stored_text_once():
    harness = ContextHarness()
    call = a_call(orjson.dumps({"messages": [{"role": "user", "content": [ref()]}]}))

    async def resolve_all() -> list[bytes]:
        calls = (harness.resolver.resolve(call, harness.reserved.append) for _ in range(20))
        return [done.body for done in await asyncio.gather(*calls)]

    bodies = asyncio.run(resolve_all())

    assert b"Be kind." in bodies[0]
    assert (len(set(bodies)), harness.rows.asked) == (1, 1)


class CountedExchange(FakeExchange):
    """Counts how many of its kind are read at once."""

    reading = most = 0

    async def read_all(self, limit: int) -> bytes:
        CountedExchange.reading += 1
        CountedExchange.most = max(CountedExchange.most, CountedExchange.reading)
        try:
            return await super().read_all(limit)
        finally:
            CountedExchange.reading -= 1


class SlowPages:
    """A transport whose pages take a while to be read."""

    async def open(self, _upstream: Upstream, _request: PreparedRequest) -> CountedExchange:
        return CountedExchange(ScriptedAnswer([After(0.02, b"x")], headers=TEXT))


def test_only_so_many_pages_are_read_at_once_and_the_others_wait_their_turn():
    harness = ContextHarness(
        policy=ContextPolicy(name="patient", fetch=(PREFIX,), deadline_ms=5_000),
        transport=SlowPages(),
    )

    assert harness.texts(*(page(str(number)) for number in range(50))) == ["x"] * 50
    assert 1 < CountedExchange.most <= 32


def test_nothing_is_enabled_without_a_policy():
    assert ContextHarness().resolver.is_enabled
    assert not ContextHarness(policy=None).resolver.is_enabled


def test_note_about_a_missing_page_leaves_out_its_query():
    (note,) = ContextHarness(unreachable()).resolve(page("refunds?sig=secret"), OWN).notes

    assert note == f"left out {PREFIX}refunds: late or failed"
