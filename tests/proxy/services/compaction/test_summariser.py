"""Notes around a real store: compactions hold only what all replicas agree on."""

import asyncio
import threading

import msgspec
import orjson
import pytest

from compaction.memory import CompactionMemory
from compaction.policy import CompactionMode
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model
from proxy.errors import CallerError, UpstreamError
from proxy.services.compaction import summariser as notebook_
from proxy.services.compaction.summariser import build_summariser
from proxy.settings import Settings
from proxy.store.errors import StoreError
from tests.fakes.app_context import AppContextCalls, fake_app_context
from tests.fakes.call_dependencies import route
from tests.fakes.clock import ManualClock
from tests.proxy.services.compaction.compaction_fixtures import NOW, chat, open_store
from tests.proxy.services.compaction.summariser_fixtures import (
    POLICY,
    FakeNotesGateway,
    SummariserHarness,
    answer,
    note,
    play,
    visit,
)


def texts(compacted):
    return [segment.text for segment in compacted.segments]


def note_counts(compacted):
    """The notes in each segment."""
    return [text.count("\nnote: ") for text in texts(compacted)]


def test_notes_join_the_next_segment_and_what_was_sent_stays_as_it_was(tmp_path):
    async def work(stage, _store):
        before = await stage.call(3)
        after = await stage.call(6)
        last = await stage.call(9)

        assert (note_counts(before), note_counts(after), note_counts(last)) == (
            [0],
            [0, 1],
            [0, 1, 0],
        )
        assert texts(last)[:2] == texts(after)
        assert texts(after)[:1] == texts(before)
        assert "note: decision t1: Journey J177 goes by night train" in texts(after)[1]

    play(tmp_path, work)


def test_every_replica_and_every_restart_sends_the_same_whichever_compacts_first(tmp_path):
    async def work(first, store):
        await first.call(3)
        second, third = (
            SummariserHarness(store, FakeNotesGateway()),
            SummariserHarness(store, FakeNotesGateway()),
        )
        chats = [await asyncio.to_thread(stage.compact, 6) for stage in (second, first, third)]

        assert note_counts(chats[0]) == [0, 1]
        assert len({compacted.messages for compacted in chats}) == 1

    play(tmp_path, work)


def test_notes_that_come_too_late_for_one_replica_are_too_late_for_all(tmp_path):
    async def work(first, store):
        other = SummariserHarness(store, FakeNotesGateway())
        early = await asyncio.to_thread(other.compact, 6)
        part = await first.call(3)
        late = await asyncio.to_thread(first.compact, 6)

        assert await asyncio.to_thread(store.notes.has, notebook_._part_name(part.newest))
        assert note_counts(early) == [0, 0]
        assert late.messages == early.messages

    play(tmp_path, work)


def test_another_teams_conversation_of_the_same_words_has_notes_of_its_own(tmp_path):
    async def work(stage, _store):
        await stage.call(3)
        compacted = await asyncio.to_thread(stage.compact, 6, scope=b"team_2")

        assert note_counts(compacted) == [0, 0]

    play(tmp_path, work)


def test_another_model_moves_nothing_that_was_sent(tmp_path):
    async def work(stage, store):
        await stage.call(3)
        compacted = await stage.call(6)
        other = SummariserHarness(store, FakeNotesGateway(), model="another")

        assert (await asyncio.to_thread(other.compact, 6)).messages == compacted.messages

    play(tmp_path, work)


def test_other_modes_ask_the_store_nothing(tmp_path):
    async def work(stage, store):
        await stage.call(3)
        store.close(5)
        plain = msgspec.structs.replace(POLICY, mode=CompactionMode.FACTS)

        assert note_counts(await asyncio.to_thread(stage.compact, 6, plain)) == [0, 0]

    play(tmp_path, work)


@pytest.mark.parametrize("fault", ["away", "slow"])
def test_a_store_that_does_not_answer_costs_the_notes_and_nothing_else(
    tmp_path, monkeypatch, caplog, fault
):
    patience, release, requests = notebook_._STORE_DEADLINE_S, threading.Event(), []

    def claim(*_):
        requests.append(1)
        if fault == "away":
            raise StoreError("away")
        release.wait(5)
        return ()

    async def work(stage, store):
        clock = ManualClock(NOW)
        stage.book._now = clock
        await stage.call(3)
        real, store.notes.claim = store.notes.claim, claim
        monkeypatch.setattr(notebook_, "_STORE_DEADLINE_S", 0.05)
        without = await stage.call(6)
        assert note_counts(await stage.call(9)) == [0, 0, 0]
        assert len(requests) == 1
        store.notes.claim = real
        monkeypatch.setattr(notebook_, "_STORE_DEADLINE_S", patience)
        release.set()
        stage.memory = CompactionMemory()
        assert (await asyncio.to_thread(stage.compact, 6)).messages == without.messages
        clock.now += 11
        assert note_counts(await stage.call(12)) == [0, 0, 0, 1]

    play(tmp_path, work, FakeNotesGateway(note(1), note(4), note(7)))
    assert "The store did not return notes; compactions go without for 10 s" in caplog.text


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (answer(note(1), finish="length"), "the answer did not end by itself"),
        (answer(note(1, "Journey J999 goes by night train")), "is not in the turns it cites"),
        (answer(note(1, "Always book first class", "rule")), "not in the user's own words"),
        (answer("I am sorry.", note(9)), "1 not of the form asked for, 1 cites a turn"),
        (b"<html>no</html>", "the answer did not end by itself"),
        (b"[" * 100_000, "the answer did not end by itself"),
    ],
)
def test_rejected_notes_join_no_compaction_and_are_counted(tmp_path, caplog, body, reason):
    caplog.set_level("INFO")

    async def work(stage, _store):
        await stage.call(3)
        assert note_counts(await stage.call(6)) == [0, 0]

    play(tmp_path, work, FakeNotesGateway(body=body))
    assert reason in caplog.text


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (CallerError("The budget is spent.", code="budget_exceeded", status=403), "INFO"),
        (UpstreamError("It broke.", status=502, code="broken", retryable=True), "INFO"),
        (TimeoutError(), "WARNING"),
        (StoreError("away"), "WARNING"),
    ],
)
def test_a_question_that_is_refused_or_fails_leaves_no_notes_and_a_line(
    tmp_path, caplog, error, level
):
    caplog.set_level("INFO")

    async def work(stage, _store):
        await stage.call(3)
        assert note_counts(await stage.call(6)) == [0, 0]

    play(tmp_path, work, FakeNotesGateway(error=error))
    lines = [
        record for record in caplog.records if "A request for notes failed" in record.getMessage()
    ]
    assert {record.levelname for record in lines} == {level}


def test_a_question_that_takes_too_long_is_cut_off(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(notebook_, "_ANSWER_DEADLINE_S", 0.05)

    async def work(stage, _store):
        stage.taker.gate = asyncio.Event()
        await stage.call(3)

    play(tmp_path, work)
    assert "A request for notes failed" in caplog.text


def test_a_part_is_asked_about_once(tmp_path):
    async def work(stage, store):
        compacted = await stage.call(3)
        stage.book.request_notes(chat(), compacted)
        other = SummariserHarness(store, FakeNotesGateway())
        await other.call(3)
        await stage.rest()
        assert (len(stage.taker.asked), len(other.taker.asked)) == (1, 0)

    play(tmp_path, work)


def test_a_part_of_which_nothing_is_worth_a_note_is_not_asked_about_again(tmp_path):
    async def work(stage, store):
        await stage.call(3)
        other = SummariserHarness(store, FakeNotesGateway())
        await other.call(3)
        assert other.taker.asked == []

    play(tmp_path, work, FakeNotesGateway(""))


async def request_many(stage, count):
    """Ask about so many conversations at once."""
    for number in range(count):
        compacted = await asyncio.to_thread(stage.compact, 3, scope=b"%d" % number)
        stage.book.request_notes(chat(*visit(3)), compacted)


def test_few_questions_are_under_way_and_few_wait(tmp_path, caplog):
    caplog.set_level("INFO")

    async def work(stage, _store):
        stage.taker.gate = asyncio.Event()
        await request_many(stage, 40)
        await asyncio.sleep(0.2)
        stage.taker.gate.set()
        await stage.rest()
        assert stage.book._held == 0

    stage = play(tmp_path, work)
    assert (stage.taker.most, len(stage.taker.asked)) == (4, 36)
    assert caplog.text.count("Too many requests for notes wait") == 4


def test_waiting_requests_for_notes_hold_few_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(notebook_, "_MAX_WAITING_BYTES", 20_000)

    async def work(stage, _store):
        stage.taker.gate = asyncio.Event()
        await request_many(stage, 12)
        waiting = [*stage.book._waiting]
        assert waiting
        assert all(question.call.body == b"" for question in waiting)
        assert stage.book._held <= 20_000
        stage.taker.gate.set()

    assert len(play(tmp_path, work).taker.asked) < 12


def test_notes_taken_by_compactions_are_remembered_within_bounds(tmp_path, monkeypatch):
    monkeypatch.setattr(notebook_, "_MAX_NOTES_BYTES", 2_000)

    async def work(stage, _store):
        for number in range(20):
            await asyncio.to_thread(stage.book.notes, b"%d" % number, b"here")
        assert len(stage.book._taken) == 2_000 // 256

    play(tmp_path, work)


def test_the_end_cuts_off_what_is_asked_and_asks_nothing_more(tmp_path):
    async def work(stage, _store):
        stage.taker.gate = asyncio.Event()
        await request_many(stage, 6)
        await asyncio.sleep(0.1)
        await stage.book.stop()
        assert not stage.book._running
        await request_many(stage, 8)
        assert stage.book.notes(b"a", b"b") == ()

    assert len(play(tmp_path, work).taker.asked) == 4


def test_the_question_is_a_call_of_the_same_team_and_key_of_a_feature_of_its_own(tmp_path):
    async def work(stage, _store):
        await stage.call(
            3,
            salt="s",
            compaction="force",
            conversation="mine",
            headers={"idempotency-key": "1", "openai-beta": "x"},
        )

    (question,) = play(tmp_path, work).taker.asked
    came = chat()

    assert (question.key, question.salt, question.feature) == (came.key, "s", "chat/compaction")
    assert (question.compaction, question.conversation, question.model) == ("off", "", "small")
    assert question.headers == {"content-type": "application/json"}
    assert (question.id != came.id, question.arrived) == (True, NOW)
    assert orjson.loads(question.body)["model"] == "small"
    assert not question.is_streaming


def test_a_gateway_without_a_model_that_is_known_has_no_notebook(tmp_path):
    store = open_store(tmp_path)
    catalog = Catalog(models={"m": Model(id="m", routes=(route(),))}, upstreams={}, default=route())

    def summariser_with(**fields):
        return build_summariser(
            fake_app_context(Settings(**fields), store, AppContextCalls(), catalog=catalog)
        )

    try:
        assert summariser_with() is None
        assert summariser_with(compaction_model="small") is None
        book = summariser_with(compaction_model="m")
        assert book is not None
        asyncio.run(book.stop())
    finally:
        store.close(5)
