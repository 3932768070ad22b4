"""Compaction around a real store: whatever happens, a call is sent, and says why as it is."""

import asyncio
import threading
from contextlib import suppress
from time import sleep
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from compaction.policy import CompactionMode
from compaction.reading.message import CannotCompactError
from proxy.records.compaction_result import NO_COMPACTION
from proxy.services.compaction import compactor as compactor_module
from tests.fakes.call_dependencies import route
from tests.fakes.clock import ManualClock, run_in_instant_time
from tests.proxy.services.compaction.compaction_fixtures import (
    NOW,
    ROUTE,
    Shorter,
    chat,
    room,
    talk,
)

LARGE = chat(*talk(80))
ASKS = {"role": "user", "content": "/compact"}


def compact(compactor, request=None):
    return asyncio.run(compactor.compact(request or chat(), ROUTE))


@pytest.mark.parametrize("incoming", [chat(), LARGE])
def test_a_call_is_compacted_here_or_in_the_thread(tmp_path, incoming):
    with room(tmp_path) as (compactor, _):
        result = compact(compactor, incoming)

    assert result.is_compacted
    assert result.sent is not None
    assert len(result.sent.body) < len(incoming.body)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (CannotCompactError("signed"), "signed"),
        (CannotCompactError("messages[1] answers no call"), "not_compactable"),
        (ZeroDivisionError(), "failed"),
        (RecursionError(), "failed"),
    ],
)
@pytest.mark.parametrize("incoming", [chat(), LARGE])
def test_failure_of_any_kind_sends_the_callers_bytes_with_a_reason(tmp_path, error, why, incoming):
    with room(tmp_path, Shorter(error)) as (compactor, _):
        result = compact(compactor, incoming)

    assert (result.mode, result.why, result.sent) == ("facts", why, None)
    assert result.call(incoming) is incoming


def test_a_body_that_cannot_be_read_is_left_alone(tmp_path):
    with room(tmp_path) as (compactor, _):
        assert compact(compactor, chat(body=b'{"model":"m"}')).why == "unreadable"


def test_a_call_of_4_kibibytes_is_compacted_in_another_thread(tmp_path):
    threads = []

    class Recording(Shorter):
        def __call__(self, *args, **kwargs):
            threads.append(threading.current_thread() is threading.main_thread())
            return super().__call__(*args, **kwargs)

    body = chat().body
    with room(tmp_path, Recording()) as (compactor, _):
        for size in (4_095, 4_096):
            assert compact(compactor, chat(body=body.ljust(size))).is_compacted
        assert compactor._workers._deadline_s == 0.5

    assert len(body) < 4_095
    assert threads == [True, False]


def test_balances_are_read_every_fifteen_seconds_once_any_are_used(tmp_path):
    reads = []

    async def share_for(compactor, duration_s: float) -> None:
        async def read_balances() -> None:
            reads.append(compactor)

        compactor.read_balances = read_balances
        compactor._stakes._stored = {("team_1", "chat"): 0}
        with suppress(TimeoutError):
            await asyncio.wait_for(compactor.share_balances(), duration_s)

    with room(tmp_path) as (compactor, _):
        run_in_instant_time(share_for(compactor, 50.0))

    assert len(reads) == 3


def test_8192_features_are_remembered_as_compacted(tmp_path):
    with room(tmp_path) as (compactor, _):
        for number in range(8_300):
            compactor._compacted_features.put(("team_1", str(number)), value=True)
        assert 8_100 < len(compactor._compacted_features) <= 8_192


def test_a_reason_that_is_no_code_is_a_note_of_200_characters():
    result = compactor_module._passthrough_with_note(CompactionMode.FACTS, "no " * 100)

    assert result.notes == ("the conversation was not compacted: " + ("no " * 100)[:200],)


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
    with room(tmp_path, slow) as (compactor, _):
        result = compact(compactor, LARGE)
        slow.free.set()

    assert (result.why, result.sent) == ("late", None)
    assert result.notes == ("compaction took too long, so the conversation was sent unmodified",)


@pytest.mark.parametrize("incoming", [chat(), LARGE])
@pytest.mark.parametrize(
    ("between", "why"),
    [
        (lambda request: replace(request, compaction="off"), ""),
        (lambda request: replace(request, compaction="dry-run"), "dry_run: pays"),
        (lambda request: chat(*orjson.loads(request.body)["messages"], ASKS), "client"),
    ],
)
def test_a_prefix_that_moves_there_and_back_is_a_reset_both_times(tmp_path, incoming, between, why):
    with room(tmp_path, Shorter(reset=False)) as (compactor, _):
        results = [
            compact(compactor, step) for step in (incoming, between(incoming), incoming, incoming)
        ]
    unmodified, returned = results[1], results[2]

    assert [result.reset for result in results] == [False, True, True, False]
    assert (unmodified.is_compacted, unmodified.why) == (False, why)
    for result in (unmodified, returned):
        assert result.sent is not None
        assert result.sent.origin is not None
        assert result.sent.origin.reset
        assert result.is_warm


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        (CannotCompactError("signed"), "signed"),
        (ZeroDivisionError(), "failed"),
    ],
)
def test_trouble_moves_the_prefix_there_and_back_too(tmp_path, trouble, why):
    with room(tmp_path, Shorter(reset=False)) as (compactor, _):
        first = compact(compactor)
        compactor.compact_chat, compaction = Shorter(trouble), compactor.compact_chat
        failed = compact(compactor)
        compactor.compact_chat = compaction
        after = compact(compactor)

    assert (first.reset, failed.reset, after.reset) == (False, True, True)
    assert failed.why == why


def test_a_late_busy_or_too_large_call_resets_the_prefix_too(tmp_path, monkeypatch):
    monkeypatch.setattr(compactor_module, "_DEADLINE_S", 1.0)
    slow = SlowShorter(reset=False)
    slow.free.set()
    with room(tmp_path, slow) as (compactor, _):
        first = compact(compactor, LARGE)
        slow.free.clear()
        late, busy = compact(compactor, LARGE), compact(compactor, LARGE)
        slow.free.set()
        while (after := compact(compactor, LARGE)).why == "busy":
            sleep(0.1)
        monkeypatch.setattr(compactor_module, "MAX_BODY_BYTES", 10)
        huge = compact(compactor, LARGE)

    assert [result.why for result in (first, late, busy, after, huge)] == [
        "pays", "late", "busy", "pays", "too_large",
    ]  # fmt: skip
    assert [result.reset for result in (first, late, busy, after, huge)] == [
        False, True, False, True, True,
    ]  # fmt: skip


def test_a_feature_that_is_switched_off_moves_what_was_compacted(tmp_path):
    with room(tmp_path) as (compactor, _):
        compact(compactor)
        compactor._store.compactions.choose(("team_1", "chat"), CompactionMode.OFF, "ann", NOW)
        compactor._store.compaction_settings.refresh()
        result, again = compact(compactor), compact(compactor)

    assert (result.mode, result.reset, again.reset) == ("", True, False)


def test_a_conversation_that_has_no_name_is_sent_unmodified(tmp_path, monkeypatch):
    def fail(*_args):
        raise ZeroDivisionError

    with room(tmp_path) as (compactor, _):
        compact(compactor)
        off = {"compaction": "off"}
        unnamed = compact(compactor, chat(body=b'{"model":"m"}', **off))
        silent = compact(compactor, chat({"role": "system", "content": "You help."}, **off))
        nothing = compact(compactor, chat({"role": "system", "content": "You help."}))
        monkeypatch.setattr(compactor_module, "identify_conversation", fail)
        failed = compact(compactor, chat(compaction="off"))

    assert unnamed == silent == failed == NO_COMPACTION
    assert nothing.why == "nothing_said"


def test_a_body_of_more_than_8_mebibytes_is_not_compacted(tmp_path):
    calls = [chat(body=b"{}".ljust(size)) for size in (8_388_608, 8_388_609)]
    with room(tmp_path) as (compactor, _):
        reasons = [compactor._skip_reason(call, CompactionMode.FACTS) for call in calls]

    assert reasons == ["", "too_large"]


@pytest.mark.parametrize(
    "incoming",
    [chat(endpoint="embeddings"), chat(method="GET"), chat(compaction="off")],
)
def test_calls_other_than_conversations_are_not_compacted(tmp_path, incoming):
    with room(tmp_path) as (compactor, _):
        assert compact(compactor, incoming) == NO_COMPACTION


def test_a_responses_call_that_its_provider_keeps_is_left_alone(tmp_path):
    body = orjson.dumps({"input": [], "previous_response_id": "resp_1"})
    with room(tmp_path) as (compactor, _):
        result = compact(compactor, chat(endpoint="responses", body=body))

    assert result.header == "unmodified; reason=api"


def test_off_is_the_default_and_a_header_may_try_it(tmp_path):
    with room(tmp_path, mode=CompactionMode.OFF) as (compactor, _):
        assert compact(compactor) == NO_COMPACTION
        assert compact(compactor, chat(compaction="dry-run")).why == "dry_run: pays"
        assert compact(compactor, chat(compaction="force")).is_compacted
        assert compact(compactor, chat(compaction="farce")).notes


def test_compaction_has_no_part_in_calls_of_features_without_a_mode(tmp_path):
    with room(tmp_path, mode=CompactionMode.OFF) as (compactor, _):
        assert not compactor.has_part(chat())
        assert compactor.has_part(chat(compaction="force"))
        compactor._store.compactions.choose(("team_1", "chat"), CompactionMode.FACTS, "ann", NOW)
        compactor._store.compaction_settings.refresh()
        assert compactor.has_part(chat())
        assert compact(compactor).is_compacted
        compactor._store.compactions.choose(("team_1", "chat"), CompactionMode.OFF, "ann", NOW)
        compactor._store.compaction_settings.refresh()
        assert compactor.has_part(chat())  # its prefix moves once more


def test_where_the_provider_compacts_nothing_is_compacted_here(tmp_path):
    with room(tmp_path, mode=CompactionMode.NATIVE) as (compactor, _):
        assert compact(compactor).why == "native"


def test_a_features_own_setting_holds(tmp_path):
    shorter = Shorter()
    with room(tmp_path, shorter) as (compactor, _):
        compactor._store.compactions.choose(
            ("team_1", "chat"), CompactionMode.TRIM, "ann", NOW, keep_turns=5, target=900
        )
        compactor._store.compaction_settings.refresh()
        compact(compactor)

    (policy,) = shorter.asked
    assert (policy.mode, policy.keep_turns, policy.target, policy.window) == (
        CompactionMode.TRIM,
        5,
        900,
        128_000,
    )
    assert (policy.prices.read, policy.prices.write) == (0.1, 1.0)


def test_a_refused_conversation_cools_down_for_a_while(tmp_path):
    clock = ManualClock(NOW)
    with room(tmp_path, now=clock) as (compactor, _):
        compactor.record_refusal(chat(), compact(compactor))
        resting, other = compact(compactor), compact(compactor, chat(conversation="another"))
        clock.now += 601
        after = compact(compactor)

    assert (resting.why, resting.is_compacted, resting.reset) == ("refused", False, True)
    assert other.is_compacted
    assert (after.is_compacted, after.reset) == (True, True)


def test_a_feature_cools_down_after_three_refused_conversations(tmp_path):
    with room(tmp_path) as (compactor, _):
        for name in "abc":
            request = chat(conversation=name)
            compactor.record_refusal(request, compact(compactor, request))
        result = compact(compactor, chat(conversation="d"))

    assert (result.why, result.sent) == ("refused", None)


def test_the_first_call_by_another_policy_is_a_reset_too(tmp_path):
    with room(tmp_path, Shorter(reset=False)) as (compactor, _):
        first, second = compact(compactor), compact(compactor)
        forced = compact(compactor, chat(compaction="force"))
    assert forced.sent is not None
    assert forced.sent.origin is not None

    assert [first.reset, second.reset, forced.reset] == [False, False, True]
    assert forced.sent.origin.reset


def test_a_compaction_of_a_conversation_that_was_idle_for_long_is_a_cold_one(tmp_path):
    clock = ManualClock(NOW)
    with room(tmp_path, now=clock) as (compactor, _):
        unknown = compact(compactor)
        clock.now += 10
        warm = compact(compactor)
        clock.now += 100_000
        cold = compact(compactor)

    assert [unknown.is_warm, warm.is_warm, cold.is_warm] == [True, True, False]


def test_the_policy_of_a_call_says_what_its_provider_does_with_signed_thinking(tmp_path):
    bound = route(kind="anthropic", traits=frozenset({"bound_thinking"}))
    off = chat(body=orjson.dumps({"messages": talk(), "reasoning_effort": "none"}))
    shorter = Shorter()
    with room(tmp_path, shorter) as (compactor, _):
        for request, there in ((chat(), route(kind="anthropic")), (chat(), bound), (off, bound)):
            asyncio.run(compactor.compact(request, there))

    rules = [(policy.drops_signed, policy.thinks) for policy in shorter.asked]
    assert rules == [(True, False), (False, True), (False, False)]
