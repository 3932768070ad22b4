"""Compaction around a real store: whatever happens, a call is sent, and says why as it is."""

import asyncio
import threading
from time import sleep
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from compaction.policy import CompactionMode
from compaction.reading.message import CannotCompactError
from proxy.records.compaction_result import NO_COMPACTION
from proxy.services.compaction import compactor as compactor_module
from proxy.services.compaction.summariser import Summariser
from tests.fakes.call_dependencies import LoopTasks, route
from tests.fakes.clock import ManualClock
from tests.proxy.services.compaction.compaction_fixtures import (
    NOW,
    ROUTE,
    Shorter,
    chat,
    room,
    talk,
)
from tests.proxy.services.compaction.summariser_fixtures import FakeNotesGateway, visit

LARGE = chat(*talk(80))
ASKS = {"role": "user", "content": "/compact"}


def compact(made, given=None):
    return asyncio.run(made.compact(given or chat(), ROUTE))


@pytest.mark.parametrize("given", [chat(), LARGE])
def test_a_call_is_compacted_here_or_in_the_thread(tmp_path, given):
    with room(tmp_path) as (made, _):
        found = compact(made, given)

    assert found.is_compacted
    assert found.sent is not None
    assert len(found.sent.body) < len(given.body)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (CannotCompactError("signed"), "signed"),
        (CannotCompactError("messages[1] answers no call"), "not_compactable"),
        (ZeroDivisionError(), "failed"),
        (RecursionError(), "failed"),
    ],
)
@pytest.mark.parametrize("given", [chat(), LARGE])
def test_failure_of_any_kind_sends_the_callers_bytes_with_a_reason(tmp_path, error, why, given):
    with room(tmp_path, Shorter(error)) as (made, _):
        found = compact(made, given)

    assert (found.mode, found.why, found.sent) == ("facts", why, None)
    assert found.call(given) is given


def test_a_body_that_cannot_be_read_is_left_alone(tmp_path):
    with room(tmp_path) as (made, _):
        assert compact(made, chat(body=b'{"model":"m"}')).why == "unreadable"


class SlowShorter(Shorter):
    """Takes its time while it is held."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.free = threading.Event()

    def __call__(self, *args, **kwargs):
        self.free.wait(5)
        return super().__call__(*args, **kwargs)


def test_a_call_past_the_deadline_is_sent_unmodified(tmp_path, monkeypatch):
    monkeypatch.setattr(compactor_module, "_DEADLINE_S", 0.05)
    slow = SlowShorter()
    with room(tmp_path, slow) as (made, _):
        found = compact(made, LARGE)
        slow.free.set()

    assert (found.why, found.sent) == ("late", None)
    assert found.notes == ("compaction took too long, so the conversation was sent unmodified",)


@pytest.mark.parametrize("given", [chat(), LARGE])
@pytest.mark.parametrize(
    ("between", "why"),
    [
        (lambda given: replace(given, compaction="off"), ""),
        (lambda given: replace(given, compaction="dry-run"), "dry_run: pays"),
        (lambda given: chat(*orjson.loads(given.body)["messages"], ASKS), "client"),
    ],
)
def test_a_prefix_that_moves_there_and_back_is_a_reset_both_times(tmp_path, given, between, why):
    with room(tmp_path, Shorter(reset=False)) as (made, _):
        found = [compact(made, each) for each in (given, between(given), given, given)]
    unmodified, back = found[1], found[2]

    assert [each.reset for each in found] == [False, True, True, False]
    assert (unmodified.is_compacted, unmodified.why) == (False, why)
    for each in (unmodified, back):
        assert each.sent is not None
        assert each.sent.origin is not None
        assert each.sent.origin.reset
        assert each.is_warm


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        (CannotCompactError("signed"), "signed"),
        (ZeroDivisionError(), "failed"),
    ],
)
def test_trouble_moves_the_prefix_there_and_back_too(tmp_path, trouble, why):
    with room(tmp_path, Shorter(reset=False)) as (made, _):
        first = compact(made)
        made.compact_chat, compaction = Shorter(trouble), made.compact_chat
        failed = compact(made)
        made.compact_chat = compaction
        after = compact(made)

    assert (first.reset, failed.reset, after.reset) == (False, True, True)
    assert failed.why == why


def test_a_late_busy_or_too_large_call_resets_the_prefix_too(tmp_path, monkeypatch):
    monkeypatch.setattr(compactor_module, "_DEADLINE_S", 1.0)
    slow = SlowShorter(reset=False)
    slow.free.set()
    with room(tmp_path, slow) as (made, _):
        first = compact(made, LARGE)
        slow.free.clear()
        late, busy = compact(made, LARGE), compact(made, LARGE)
        slow.free.set()
        while (after := compact(made, LARGE)).why == "busy":
            sleep(0.1)
        monkeypatch.setattr(compactor_module, "_MAX_BODY_BYTES", 10)
        huge = compact(made, LARGE)

    assert [each.why for each in (first, late, busy, after, huge)] == [
        "pays", "late", "busy", "pays", "too_large",
    ]  # fmt: skip
    assert [each.reset for each in (first, late, busy, after, huge)] == [
        False, True, False, True, True,
    ]  # fmt: skip


def test_a_feature_that_is_switched_off_moves_what_was_compacted(tmp_path):
    with room(tmp_path) as (made, _):
        compact(made)
        made._store.compactions.choose(("team_1", "chat"), CompactionMode.OFF, "ann", NOW)
        made._store.compaction_settings.refresh()
        found, again = compact(made), compact(made)

    assert (found.mode, found.reset, again.reset) == ("", True, False)


def test_a_conversation_that_has_no_name_is_sent_unmodified(tmp_path, monkeypatch):
    def fail(*_args):
        raise ZeroDivisionError

    with room(tmp_path) as (made, _):
        compact(made)
        off = {"compaction": "off"}
        unnamed = compact(made, chat(body=b'{"model":"m"}', **off))
        silent = compact(made, chat({"role": "system", "content": "You help."}, **off))
        nothing = compact(made, chat({"role": "system", "content": "You help."}))
        monkeypatch.setattr(compactor_module, "identify_conversation", fail)
        failed = compact(made, chat(compaction="off"))

    assert unnamed == silent == failed == NO_COMPACTION
    assert nothing.why == "nothing_said"


def test_a_body_that_is_too_large_is_not_compacted(tmp_path, monkeypatch):
    monkeypatch.setattr(compactor_module, "_MAX_BODY_BYTES", 10)
    with room(tmp_path) as (made, _):
        assert compact(made).why == "too_large"


@pytest.mark.parametrize(
    "given",
    [chat(endpoint="embeddings"), chat(method="GET"), chat(compaction="off")],
)
def test_calls_other_than_conversations_are_not_compacted(tmp_path, given):
    with room(tmp_path) as (made, _):
        assert compact(made, given) == NO_COMPACTION


@pytest.mark.parametrize("endpoint", ["responses", "messages"])
def test_a_call_of_another_api_says_that_it_is_left_alone(tmp_path, endpoint):
    with room(tmp_path) as (made, _):
        assert compact(made, chat(endpoint=endpoint)).header == "unmodified; reason=api"


def test_off_is_the_default_and_a_header_may_try_it(tmp_path):
    with room(tmp_path, mode=CompactionMode.OFF) as (made, _):
        assert compact(made) == NO_COMPACTION
        assert compact(made, chat(compaction="dry-run")).why == "dry_run: pays"
        assert compact(made, chat(compaction="force")).is_compacted
        assert compact(made, chat(compaction="farce")).notes


def test_compaction_has_no_part_in_calls_of_features_without_a_mode(tmp_path):
    with room(tmp_path, mode=CompactionMode.OFF) as (made, _):
        assert not made.has_part(chat())
        assert made.has_part(chat(compaction="force"))
        made._store.compactions.choose(("team_1", "chat"), CompactionMode.FACTS, "ann", NOW)
        made._store.compaction_settings.refresh()
        assert made.has_part(chat())
        assert compact(made).is_compacted
        made._store.compactions.choose(("team_1", "chat"), CompactionMode.OFF, "ann", NOW)
        made._store.compaction_settings.refresh()
        assert made.has_part(chat())  # its prefix moves once more


def test_where_the_provider_compacts_nothing_is_compacted_here(tmp_path):
    with room(tmp_path, mode=CompactionMode.NATIVE) as (made, _):
        assert compact(made).why == "native"


def test_a_features_own_setting_holds(tmp_path):
    shorter = Shorter()
    with room(tmp_path, shorter) as (made, _):
        made._store.compactions.choose(
            ("team_1", "chat"), CompactionMode.TRIM, "ann", NOW, keep_turns=5, target=900
        )
        made._store.compaction_settings.refresh()
        compact(made)

    (asked,) = shorter.asked
    assert (asked.mode, asked.keep_turns, asked.target, asked.window) == (
        CompactionMode.TRIM,
        5,
        900,
        128_000,
    )
    assert (asked.prices.read, asked.prices.write) == (0.1, 1.0)


def test_a_refused_conversation_cools_down_for_a_while(tmp_path):
    clock = ManualClock(NOW)
    with room(tmp_path, now=clock) as (made, _):
        made.record_refusal(chat(), compact(made))
        resting, other = compact(made), compact(made, chat(conversation="another"))
        clock.now += 601
        after = compact(made)

    assert (resting.why, resting.is_compacted, resting.reset) == ("refused", False, True)
    assert other.is_compacted
    assert (after.is_compacted, after.reset) == (True, True)


def test_a_feature_cools_down_after_three_refused_conversations(tmp_path):
    with room(tmp_path) as (made, _):
        for name in "abc":
            given = chat(conversation=name)
            made.record_refusal(given, compact(made, given))
        found = compact(made, chat(conversation="d"))

    assert (found.why, found.sent) == ("refused", None)


def test_the_first_call_by_another_policy_is_a_reset_too(tmp_path):
    with room(tmp_path, Shorter(reset=False)) as (made, _):
        first, second = compact(made), compact(made)
        forced = compact(made, chat(compaction="force"))
    assert forced.sent is not None
    assert forced.sent.origin is not None

    assert [first.reset, second.reset, forced.reset] == [False, False, True]
    assert forced.sent.origin.reset


def test_a_compaction_of_a_conversation_that_was_idle_for_long_is_a_cold_one(tmp_path):
    clock = ManualClock(NOW)
    with room(tmp_path, now=clock) as (made, _):
        unknown = compact(made)
        clock.now += 10
        warm = compact(made)
        clock.now += 100_000
        cold = compact(made)

    assert [unknown.is_warm, warm.is_warm, cold.is_warm] == [True, True, False]


def test_notes_are_asked_for_where_a_part_was_compacted_and_sent_and_the_mode_wants_them(tmp_path):
    taker = FakeNotesGateway()

    async def work():
        with room(tmp_path, mode=CompactionMode.FACTS_MODEL) as (made, _):
            book = Summariser(made._store, LoopTasks(), model="small", now=lambda: NOW)
            made.use_summariser(book)
            book.serve = taker
            made._store.compactions.choose(("team_1", "plain"), CompactionMode.FACTS, "ann", NOW)
            made._store.compaction_settings.refresh()
            force = {"compaction": "force"}
            found = [
                await made.compact(chat(*visit(20), compaction="dry-run"), ROUTE),
                await made.compact(chat(*visit(20), feature="plain", **force), ROUTE),
                await made.compact(chat(*visit(11), **force), ROUTE),
            ]
            await asyncio.wait(book._running)
            found.append(await made.compact(taker.asked[0], ROUTE))
            await book.stop()
            return found

    dry, plain, sent, question = asyncio.run(work())

    assert dry.sent is None
    assert (plain.is_compacted, plain.reset) == (True, True)
    assert (sent.is_compacted, sent.reset) == (True, True)
    assert [each.feature for each in taker.asked] == ["chat/compaction"]
    assert question == NO_COMPACTION


def test_calls_of_the_control_arm_are_not_asked_about(tmp_path):
    async def work():
        with room(tmp_path, mode=CompactionMode.FACTS_MODEL, share=1.0) as (made, _):
            book = Summariser(made._store, LoopTasks(), model="small", now=lambda: NOW)
            made.use_summariser(book)
            book.serve = FakeNotesGateway()
            found = await made.compact(chat(*visit(11), compaction="force"), ROUTE)
            await book.stop()
            return found, book

    found, book = asyncio.run(work())

    assert found.why == "control"
    assert len(book._asked) == 0


def test_a_call_that_asks_for_signed_thinking_is_left_alone(tmp_path):
    body = orjson.dumps({"model": "m", "messages": talk(), "thinking": {"type": "adaptive"}})
    there = route(kind="anthropic")
    with room(tmp_path) as (made, _):
        found = [
            asyncio.run(made.compact(given, there)).why
            for given in (chat(), chat(body=body), replace(chat(body=body), fields=None))
        ]

    assert found == ["pays", "thinks", "thinks"]


def test_the_configured_safety_factor_is_in_every_policy(tmp_path):
    shorter = Shorter()
    with room(tmp_path, shorter, safety=10.0) as (made, _):
        compact(made)

    assert [each.safety for each in shorter.asked] == [10.0]
