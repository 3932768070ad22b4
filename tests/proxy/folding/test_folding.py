"""Folding around a real store: whatever happens, a call is sent, and says why as it is."""

import asyncio
import threading
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from compaction.policy import Mode
from compaction.reading.message import Unfoldable
from proxy.folding import folding as folding_
from proxy.folding.notebook import Notebook
from proxy.folds import NO_FOLD
from proxy.receipt import Receipt
from tests.fakes.desk import LoopTasks
from tests.fakes.receipts import a_receipt
from tests.proxy.folding.foldings import NOW, ROUTE, Clock, Shorter, chat, room, talk
from tests.proxy.folding.notings import Taker, visit

LARGE = chat(*talk(80))


def folded(made, given=None):
    return asyncio.run(made.folded(given or chat(), ROUTE))


def receipt(**fields: Any) -> Receipt:
    given: dict[str, Any] = {
        "team": "team_1",
        "feature": "chat",
        "started": NOW,
        "compaction": "facts",
    }
    return a_receipt(**given | {"folded": True, "tokens_before": 90, "tokens_after": 9} | fields)


@pytest.mark.parametrize("given", [chat(), LARGE])
def test_a_call_is_folded_here_or_in_the_thread(tmp_path, given):
    with room(tmp_path) as (made, _):
        found = folded(made, given)

    assert found.is_folded
    assert found.sent is not None
    assert len(found.sent.body) < len(given.body)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (Unfoldable("signed"), "signed"),
        (Unfoldable("messages[1] answers no call"), "unfoldable"),
        (ZeroDivisionError(), "failed"),
        (RecursionError(), "failed"),
    ],
)
@pytest.mark.parametrize("given", [chat(), LARGE])
def test_failure_of_any_kind_sends_the_callers_bytes_with_a_reason(tmp_path, error, why, given):
    with room(tmp_path, Shorter(error)) as (made, _):
        found = folded(made, given)

    assert (found.mode, found.why, found.sent) == ("facts", why, None)
    assert found.call(given) is given


def test_a_body_that_cannot_be_read_is_left_alone(tmp_path):
    with room(tmp_path) as (made, _):
        assert folded(made, chat(body=b'{"model":"m"}')).why == "unreadable"


def test_what_takes_too_long_goes_as_it_came(tmp_path, monkeypatch):
    monkeypatch.setattr(folding_, "_DEADLINE", 0.05)
    held = threading.Event()

    class Slow(Shorter):
        def __call__(self, *args, **kwargs):
            held.wait(5)
            return super().__call__(*args, **kwargs)

    with room(tmp_path, Slow()) as (made, _):
        found = folded(made, LARGE)
        held.set()

    assert (found.why, found.sent) == ("late", None)
    assert found.notes == ("compaction took too long, so the conversation went as it came",)


def test_where_too_many_wait_calls_go_as_they_came(tmp_path, monkeypatch):
    monkeypatch.setattr(folding_, "_WAITING", 0)
    with room(tmp_path) as (made, _):
        assert folded(made, LARGE).why == "busy"


def test_what_is_too_large_is_not_begun(tmp_path, monkeypatch):
    monkeypatch.setattr(folding_, "_HUGE", 10)
    with room(tmp_path) as (made, _):
        assert folded(made).why == "too_large"


@pytest.mark.parametrize(
    "given",
    [chat(endpoint="responses"), chat(method="GET"), chat(compaction="off")],
)
def test_other_calls_are_none_of_its_business(tmp_path, given):
    with room(tmp_path) as (made, _):
        assert folded(made, given) == NO_FOLD


def test_off_is_the_default_and_a_header_may_try_it(tmp_path):
    with room(tmp_path, default=Mode.OFF) as (made, _):
        assert folded(made) == NO_FOLD
        assert folded(made, chat(compaction="dry-run")).why == "dry_run: pays"
        assert folded(made, chat(compaction="force")).is_folded
        assert folded(made, chat(compaction="farce")).notes


def test_where_the_provider_compacts_nothing_is_folded_here(tmp_path):
    with room(tmp_path, default=Mode.NATIVE) as (made, _):
        assert folded(made).why == "native"


def test_a_features_own_setting_holds(tmp_path):
    shorter = Shorter()
    with room(tmp_path, shorter) as (made, _):
        made._store.compactions.choose(
            ("team_1", "chat"), Mode.TRIM, "ann", NOW, keep_turns=5, target=900
        )
        made._store.foldboard.refresh()
        folded(made)

    (asked,) = shorter.asked
    assert (asked.mode, asked.keep_turns, asked.target, asked.window) == (
        Mode.TRIM,
        5,
        900,
        128_000,
    )
    assert (asked.prices.read, asked.prices.write) == (0.1, 1.0)


def test_a_refused_feature_rests_for_a_while(tmp_path):
    clock = Clock()
    with room(tmp_path, now=clock) as (made, _):
        made.refused(chat())
        resting = folded(made)
        clock.now += 601
        after = folded(made)

    assert (resting.why, resting.sent) == ("refused", None)
    assert after.is_folded


def test_the_first_call_by_another_policy_is_a_reset_too(tmp_path):
    with room(tmp_path, Shorter(reset=False)) as (made, _):
        first, second = folded(made), folded(made)
        forced = folded(made, chat(compaction="force"))
    assert forced.sent is not None
    assert forced.sent.origin is not None

    assert [first.reset, second.reset, forced.reset] == [False, False, True]
    assert forced.sent.origin.reset


def test_a_fold_of_a_conversation_that_was_idle_for_long_is_a_cold_one(tmp_path):
    clock = Clock()
    with room(tmp_path, now=clock) as (made, _):
        unknown = folded(made)
        clock.now += 10
        warm = folded(made)
        clock.now += 100_000
        cold = folded(made)

    assert [unknown.is_warm, warm.is_warm, cold.is_warm] == [True, True, False]


def settled(made, *receipts):
    async def work():
        for each in receipts:
            made.settled(each)
        await asyncio.gather(*[each for each in made._tasks._tasks if not each.done()])

    asyncio.run(work())


def test_a_feature_that_loses_what_is_needed_steps_back_everywhere_and_people_are_told(tmp_path):
    with room(tmp_path) as (made, alerts):
        settled(made, *[receipt(needed=10, lost=4) for _ in range(5)])
        held = made._store.foldboard.chosen.of("team_1", "chat")
        found = folded(made)

    assert (held.stepped, held.mode, held.stepped_at) == (Mode.TRIM, None, NOW)
    assert "values that tool calls needed were folded away" in held.why
    (told,) = alerts
    assert told.title.endswith("was stepped back from facts to trim")
    assert found.mode == "trim"


def test_it_steps_back_once_and_other_modes_receipts_do_not_count(tmp_path):
    with room(tmp_path) as (made, alerts):
        settled(
            made,
            *[receipt(needed=100, lost=90, compaction="trim") for _ in range(5)],
            *[receipt(needed=100, lost=90, final=False) for _ in range(5)],
            *[receipt(needed=0, folded=False) for _ in range(5)],
        )
        assert alerts == []
        settled(made, *[receipt(needed=100, lost=90) for _ in range(5)])
        settled(made, *[receipt(needed=100, lost=90) for _ in range(5)])

    assert len(alerts) == 1


def test_a_store_that_is_away_is_asked_again_later(tmp_path, monkeypatch):
    with room(tmp_path) as (made, alerts):

        async def away(*_args, **_kwargs):
            raise OperationalError("SELECT", {}, OSError("away"))

        monkeypatch.setattr(made._store, "ask", away)
        settled(made, *[receipt(needed=100, lost=90)])
        assert alerts == []
        monkeypatch.undo()
        settled(made, *[receipt(needed=100, lost=90)])

    assert len(alerts) == 1


def test_smaller_but_dearer_is_an_alert(tmp_path):
    with room(tmp_path) as (made, alerts):
        settled(made, *[receipt(compaction_nanos=-5) for _ in range(30)])

    assert {each.title for each in alerts} == {
        "Compaction of feature chat of team team_1 sends less and costs more"
    }


def test_notes_are_asked_for_where_a_part_was_folded_and_sent_and_the_mode_wants_them(tmp_path):
    taker = Taker()

    async def work():
        with room(tmp_path, default=Mode.FACTS_MODEL) as (made, _):
            book = Notebook(made._store, LoopTasks(), model="small", now=lambda: NOW)
            made.takes(book)
            book.serve = taker
            made._store.compactions.choose(("team_1", "plain"), Mode.FACTS, "ann", NOW)
            made._store.foldboard.refresh()
            force = {"compaction": "force"}
            found = [
                await made.folded(chat(*visit(20), compaction="dry-run"), ROUTE),
                await made.folded(chat(*visit(20), feature="plain", **force), ROUTE),
                await made.folded(chat(*visit(11), **force), ROUTE),
            ]
            await asyncio.wait(book._running)
            found.append(await made.folded(taker.asked[0], ROUTE))
            await book.stop()
            return found

    dry, plain, sent, question = asyncio.run(work())

    assert dry.sent is None
    assert (plain.is_folded, plain.reset) == (True, True)
    assert (sent.is_folded, sent.reset) == (True, True)
    assert [each.feature for each in taker.asked] == ["chat/compaction"]
    assert question == NO_FOLD


def test_calls_of_the_control_arm_are_not_asked_about(tmp_path):
    async def work():
        with room(tmp_path, default=Mode.FACTS_MODEL, share=1.0) as (made, _):
            book = Notebook(made._store, LoopTasks(), model="small", now=lambda: NOW)
            made.takes(book)
            book.serve = Taker()
            found = await made.folded(chat(*visit(11), compaction="force"), ROUTE)
            await book.stop()
            return found, book

    found, book = asyncio.run(work())

    assert found.why == "control"
    assert len(book._asked) == 0


def test_what_questions_cost_counts_against_their_feature(tmp_path):
    asked = receipt(feature="chat/compaction", compaction="", folded=False, cost_nanos=1_000)
    with room(tmp_path) as (made, alerts):
        settled(made, asked, *[receipt(compaction_nanos=5) for _ in range(30)])

    assert {each.title for each in alerts} == {
        "Compaction of feature chat of team team_1 sends less and costs more"
    }
