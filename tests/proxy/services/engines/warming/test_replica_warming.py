"""Warming of idle replicas, by a sender that a test plays."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

import orjson

from proxy.calls.deadlines import ClientDisconnected
from proxy.calls.metering.finished_turn import FinishedTurn
from proxy.engines.profiles import EngineProfile
from proxy.engines.warming.accounts import WarmingKind, WarmingResult
from proxy.errors import CallerError, UpstreamError
from proxy.records.call import Call, Key
from proxy.records.receipt import Outcome, Receipt
from proxy.services.engines.replica_monitor import ReplicaStatus
from proxy.services.engines.warming.replica_warming import SETTLE_S, ReplicaWarming
from proxy.services.engines.warming.warming_state import CallNames
from slo.usage import Usage
from tests.fakes.call_dependencies import LoopTasks, call
from tests.fakes.engine_profiles import a_profile
from tests.fakes.receipts import a_receipt
from tests.fakes.virtual_clock import run_in_virtual_time

T = TypeVar("T")
TABLE = 'warming = true\nserved_name = "m"'
NAME = "house:0"
ANSWER = {"role": "assistant", "content": "Good day"}
SYSTEM, NEXT = WarmingKind.SYSTEM_PROMPT, WarmingKind.NEXT_TURN


def chat(system: str = "Be kind.", question: str = "Hello", **fields: Any) -> Call:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    return call(json.dumps({"model": "m", "stream": True, "messages": messages}).encode(), **fields)


class Sender:
    """Takes warming calls: each takes a while, unless it fails or a call comes."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Call]] = []
        self.takes_s = 1.0
        self.error: Exception | None = None
        self.usage = Usage(input=30, cache_read=70, output=1)

    async def __call__(
        self, status: ReplicaStatus, call: Call, stop: asyncio.Event
    ) -> Receipt | None:
        self.sent.append((status.name, call))
        if self.error is not None:
            raise self.error
        try:
            await asyncio.wait_for(stop.wait(), self.takes_s)
        except TimeoutError:
            return a_receipt(outcome=Outcome.ANSWERED, usage=self.usage, cost_nanos=500)
        raise ClientDisconnected

    @property
    def messages(self) -> list[list[str]]:
        """The texts of each prompt that was sent."""
        return [
            [message["content"] for message in orjson.loads(sent.body)["messages"]]
            for _, sent in self.sent
        ]


class WarmStage:
    """One replica, and calls that come to it."""

    def __init__(self, profile: EngineProfile) -> None:
        loop = asyncio.get_running_loop()
        ids = (f"call_w{n}" for n in range(999))
        self.sender, self.is_idle = Sender(), True
        self.warmed: list[Call] = []
        self.warming = ReplicaWarming(LoopTasks(), loop.time, lambda: 5.0, lambda _: next(ids))
        self.warming.send = self.sender
        self.warming.is_idle = lambda _: self.is_idle
        self.warming.on_warmed = self.note_warmed
        self.warming.update({profile.name: profile})
        self.status = ReplicaStatus(
            name=NAME, profile=profile.name, model="m", base_url="http://a/v1"
        )
        self.warming.note_reading(self.status)

    async def note_warmed(self, _: ReplicaStatus, call: Call, *computed: object) -> None:
        self.warmed += [call] * (computed in {(NEXT, 30), (SYSTEM, 30), (NEXT, 1_000)})

    def restart(self) -> None:
        self.status = replace(self.status, starts=self.status.starts + 1)
        self.warming.note_reading(self.status)

    def begin(self, call: Call, conversation: str = "c") -> Any:
        return self.warming.note_sent(NAME, call, conversation)

    async def serve(self, call: Call, conversation: str = "c") -> None:
        """Serve a call to its end."""
        names = self.begin(call, conversation)
        assert names is not None
        await asyncio.sleep(0)
        self.end(call, names)

    def end(self, call: Call, names: CallNames, turn: FinishedTurn | None = None) -> None:
        """Have a call end well."""
        turn = turn or FinishedTurn(call, lambda: orjson.dumps(ANSWER))
        self.warming.note_turn(NAME, turn, call, names)

    @property
    def results(self) -> dict[tuple[WarmingKind, WarmingResult], int]:
        return {(kind, how): n for (_, kind, how), n in self.warming.accounts.results.items()}


def play(story: Callable[[WarmStage], Awaitable[T]], table: str = TABLE, engine: str = "vllm") -> T:
    async def whole() -> T:
        return await story(WarmStage(a_profile(table, engine=engine)))

    return run_in_virtual_time(whole)


def test_once_a_turn_has_ended_the_next_one_is_read_as_far_as_it_is_known():
    async def story(stage: WarmStage) -> WarmStage:
        await stage.serve(chat())
        await asyncio.sleep(SETTLE_S + 2.0)
        return stage

    def check(stage: WarmStage) -> None:
        ((name, sent),) = stage.sender.sent
        assert name == NAME
        assert stage.sender.messages == [["Be kind.", "Hello", "Good day", "."]]
        assert (sent.id, sent.key.team, sent.arrived) == ("call_w0", "team_1", 5.0)
        assert stage.results == {(NEXT, WarmingResult.WARMED): 1}
        assert stage.warming.accounts.tokens == {("house", NEXT): 30}
        assert stage.warming.accounts.nanos == {("house", NEXT): 500}
        assert stage.warmed == [sent]

    check(play(story))


def test_a_responses_conversation_is_read_ahead_as_the_responses_call_that_will_come():
    item = {"type": "message", "role": "assistant", "content": "Good day"}
    body = {"model": "m", "instructions": "Be kind.", "input": "Hello"}
    request = call(json.dumps(body).encode(), endpoint="responses")

    async def story(stage: WarmStage) -> WarmStage:
        for _ in range(2):
            turn = FinishedTurn(request, lambda: orjson.dumps([item]))
            stage.end(request, stage.begin(request), turn)
            await asyncio.sleep(SETTLE_S + 2.0)
        stage.restart()
        await asyncio.sleep(SETTLE_S + 2.0)
        return stage

    stage = play(story)
    unknown = {"role": "user", "content": "."}
    hello = {"role": "user", "content": "Hello"}
    inputs = [orjson.loads(sent.body)["input"] for _, sent in stage.sender.sent]
    assert inputs == [[hello, item, unknown], [hello, item, unknown], [unknown]]
    assert {sent.endpoint for _, sent in stage.sender.sent} == {"responses"}
    assert [sent.body for sent in stage.warmed] == [sent.body for _, sent in stage.sender.sent]


def test_a_messages_call_is_read_ahead_in_chat_and_routed_by_what_its_caller_writes():
    body = {"model": "m", "system": "Be kind.", "messages": [{"role": "user", "content": "Hello"}]}
    request = call(json.dumps(body).encode(), endpoint="messages")

    async def story(stage: WarmStage) -> WarmStage:
        for _ in range(2):
            turn = FinishedTurn(chat(), lambda: orjson.dumps(ANSWER))
            stage.end(request, stage.begin(request), turn)
            await asyncio.sleep(SETTLE_S + 2.0)
        assert not stage.warmed
        stage.restart()
        await asyncio.sleep(SETTLE_S + 2.0)
        return stage

    stage = play(story)
    turn = ["Be kind.", "Hello", "Good day", "."]
    assert stage.sender.messages == [turn, turn, ["Be kind.", "."]]
    (routed,) = stage.warmed
    assert routed.endpoint == "messages"
    assert orjson.loads(routed.body)["system"] == "Be kind."


def test_a_call_that_comes_ends_the_warming_at_once_and_is_not_waited_for():
    async def story(stage: WarmStage) -> tuple[float, Any]:
        await stage.serve(chat())
        await asyncio.sleep(SETTLE_S + 0.5)
        assert stage.warming.is_warming(NAME)
        began = asyncio.get_running_loop().time()
        stage.begin(chat(question="Other"), "another")
        for _ in range(9):
            await asyncio.sleep(0)
        assert not stage.warming.is_warming(NAME)
        return asyncio.get_running_loop().time() - began, stage.results

    assert play(story) == (0.0, {(NEXT, WarmingResult.CANCELLED): 1})


def test_a_turn_whose_conversation_went_on_meanwhile_is_not_warmed_any_more():
    async def story(stage: WarmStage) -> Any:
        await stage.serve(chat())
        stage.begin(chat(), "c")
        await asyncio.sleep(60.0)
        return stage.sender.sent, stage.results

    assert play(story) == ([], {})


def test_a_busy_replica_is_not_warmed_until_it_is_idle_and_not_for_ever():
    async def story(stage: WarmStage) -> Any:
        stage.is_idle = False
        await stage.serve(chat())
        await asyncio.sleep(10.0)
        early = list(stage.sender.sent)
        stage.is_idle = True
        await asyncio.sleep(2.0)
        stage.is_idle = False
        await stage.serve(chat(), "d")
        await asyncio.sleep(60.0)
        return early, len(stage.sender.sent), stage.results

    assert play(story) == (
        [],
        1,
        {(NEXT, WarmingResult.WARMED): 1, (NEXT, WarmingResult.BUSY): 1},
    )


def test_after_a_start_the_system_prompts_that_are_used_most_are_read_those_first():
    async def story(stage: WarmStage) -> list[list[str]]:
        for count, system in ((2, "Second."), (4, "First."), (1, "Once.")):
            for number in range(count):
                await stage.serve(chat(system), f"{system}{number}")
        stage.restart()
        await asyncio.sleep(30.0)
        return stage.sender.messages

    table = 'warming = { next_turn = false }\nserved_name = "m"'
    assert play(story, table) == [["First.", "."], ["Second.", "."]]


def test_no_more_system_prompts_are_read_than_the_profile_says_or_slots_there_are():
    async def story(stage: WarmStage) -> int:
        for system in "abcdefgh":
            for _ in range(2):
                await stage.serve(chat(system))
        stage.restart()
        await asyncio.sleep(60.0)
        return len(stage.sender.sent)

    table = 'warming = {{ next_turn = false, system_prompts = {} }}\nserved_name = "m"'
    assert play(story, table.format(3)) == 3
    assert play(story, table.format(0)) == 0
    assert play(story, table.format(64)) == 8
    assert play(story, table.format(64), engine="llamacpp") == 4
    assert play(story, table.format(64) + "\nmax_sequences = 2", engine="llamacpp") == 2


def test_a_replica_that_goes_on_as_before_is_not_warmed_anew():
    async def story(stage: WarmStage) -> list[Any]:
        for _ in range(3):
            await stage.serve(chat())
        stage.warming.note_reading(replace(stage.status, read_at=9.0))
        await asyncio.sleep(30.0)
        return stage.sender.sent

    assert play(story, 'warming = { next_turn = false }\nserved_name = "m"') == []


def test_prompts_of_different_teams_are_warmed_apart():
    async def story(stage: WarmStage) -> list[str]:
        other = Key(id="key_2", team="team_2", team_name="other")
        for key in (chat().key, other):
            for _ in range(2):
                await stage.serve(chat(key=key))
        stage.restart()
        await asyncio.sleep(30.0)
        return sorted(sent.key.team for _, sent in stage.sender.sent)

    assert play(story, 'warming = { next_turn = false }\nserved_name = "m"') == [
        "team_1",
        "team_2",
    ]


def test_a_prompt_over_the_budget_of_a_minute_is_left_out():
    async def story(stage: WarmStage) -> Any:
        stage.sender.usage = Usage(input=1_000, output=1)
        for number in range(3):
            await stage.serve(chat(), f"c{number}")
            await asyncio.sleep(2.0)
        await asyncio.sleep(120.0)
        await stage.serve(chat(), "later")
        await asyncio.sleep(2.0)
        return stage.results

    table = 'warming = { tokens_per_minute = 600 }\nserved_name = "m"'
    assert play(story, table) == {
        (NEXT, WarmingResult.WARMED): 2,
        (NEXT, WarmingResult.OVER_BUDGET): 2,
    }


def failing_story(error: Exception) -> Callable[[WarmStage], Awaitable[Any]]:
    async def story(stage: WarmStage) -> Any:
        stage.sender.error = error
        for number in range(3):
            await stage.serve(chat(), f"c{number}")
        await asyncio.sleep(60.0)
        return stage.results

    return story


def test_a_team_without_a_budget_left_is_refused_and_an_engine_that_fails_is_left_alone():
    refused = CallerError("No.", code="budget_exceeded", status=402)
    wrong = UpstreamError("No.", status=400, code="bad", retryable=False)
    away = UpstreamError("No.", status=502, code="away", retryable=True)

    assert play(failing_story(refused)) == {(NEXT, WarmingResult.REFUSED): 3}
    assert play(failing_story(wrong)) == {(NEXT, WarmingResult.FAILED): 3}
    assert play(failing_story(away)) == {(NEXT, WarmingResult.FAILED): 1}
    assert play(failing_story(TimeoutError())) == {(NEXT, WarmingResult.FAILED): 1}


def test_an_answer_that_cannot_be_put_together_is_not_warmed():
    async def story(stage: WarmStage) -> Any:
        stage.end(chat(), stage.begin(chat()), FinishedTurn(chat(), lambda: None))
        await asyncio.sleep(2.0)
        return stage.sender.sent, stage.results

    assert play(story) == ([], {(NEXT, WarmingResult.FAILED): 1})


def test_calls_that_failed_or_warm_themselves_are_not_learned_from():
    async def story(stage: WarmStage) -> Any:
        stage.begin(chat())
        await asyncio.sleep(2.0)
        return stage.begin(chat(feature="warming:chat")), stage.sender.sent

    assert play(story) == (None, [])


def test_a_profile_that_does_not_ask_for_it_is_not_warmed_and_one_that_stops_asking_neither():
    async def story(stage: WarmStage) -> Any:
        names = stage.begin(chat())
        stage.warming.update({})
        if names is not None:
            stage.end(chat(), names)
        stage.restart()
        await asyncio.sleep(5.0)
        return names is None, stage.begin(chat()), stage.sender.sent

    assert play(story, 'served_name = "m"') == (True, None, [])
    assert play(story) == (False, None, [])


def test_few_turns_wait_at_a_busy_replica_the_newest_first():
    async def story(stage: WarmStage) -> tuple[int, str]:
        stage.is_idle = False
        for number in range(40):
            await stage.serve(chat(question=f"Q{number}"), f"c{number}")
        stage.is_idle = True
        await asyncio.sleep(60.0)
        return len(stage.sender.sent), stage.sender.messages[0][1]

    count, first = play(story)

    assert count <= 17
    assert first == "Q39"
