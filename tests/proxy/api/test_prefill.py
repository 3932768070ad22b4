"""Warming a prompt before it is sent: by a whole gateway, before replicas of an engine."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import msgspec
import pytest
from starlette.types import Receive, Scope, Send

from proxy.api.prefill import (
    MAX_AT_ONCE,
    MAX_AT_ONCE_OF_TEAM,
    MAX_BYTES_PER_MINUTE,
    PREFILL,
    PrefillRequests,
    call_of_prompt,
    until_gone_or_superseded,
)
from proxy.errors import CallerError
from proxy.records.call import Call, Key
from proxy.tools.simulator.app import app
from proxy.tools.simulator.models import SimulatedModel, SimulatorSettings
from proxy.tools.simulator.server import serving
from proxy.tools.simulator.upstream import Simulator
from tests.fakes.engine_fleet import LONG, EngineFleet, engine_fleet

_PATIENCE_S = 60.0
KEY = Key(id="key_1", team="team_1", team_name="acme")
BODY = {
    "model": "house-llm",
    "messages": [{"role": "user", "content": "Tell me"}],
    "max_completion_tokens": 900,
    "stream": True,
    "stream_options": {"include_usage": True},
}


def a_call(body=None, conversation="", key=KEY, method="POST"):
    return Call(
        id="call_1",
        key=key,
        method=method,
        endpoint="thriftgate/prefill",
        headers={},
        body=json.dumps(body or BODY).encode(),
        fields=None,
        feature="chat",
        conversation=conversation,
        arrived=0.0,
    )


def test_a_messages_body_is_known_by_its_system_field_or_by_the_header():
    system = a_call({**BODY, "system": "Be brief."})
    named = msgspec.structs.replace(a_call(), headers={"anthropic-version": "2023-06-01"})

    assert [call_of_prompt(prompt).endpoint for prompt in (system, named, a_call())] == [
        "messages",
        "messages",
        "chat/completions",
    ]


def test_a_body_that_is_no_json_or_another_method_is_refused():
    with pytest.raises(CallerError):
        call_of_prompt(a_call([1]))
    with pytest.raises(CallerError, match="POST"):
        call_of_prompt(a_call(method="GET"))


def test_a_newer_prompt_supersedes_the_earlier_one_of_its_conversation_only():
    requests = PrefillRequests(lambda: 0.0)
    with (
        requests.admit(a_call(conversation="a")) as first,
        requests.admit(a_call(conversation="b")) as other,
    ):
        with requests.admit(a_call(conversation="a")) as second:
            assert (first.is_set(), other.is_set(), second.is_set()) == (True, False, False)
        with requests.admit(a_call(conversation="a")):
            assert not second.is_set()


def test_the_prompts_that_a_team_warms_in_a_minute_are_bounded():
    now = [0.0]
    requests = PrefillRequests(lambda: now[0])
    big = a_call(BODY | {"user": "x" * (MAX_BYTES_PER_MINUTE // 2)})
    with requests.admit(big):
        pass
    with pytest.raises(CallerError, match="4 MiB") as refused, requests.admit(big):
        pass
    assert refused.value.retry_after == 60.0
    with requests.admit(a_call(key=Key(id="key_2", team="team_2", team_name="b"))):
        pass
    now[0] = 61.0
    with requests.admit(big):
        pass


def test_prompts_that_are_warmed_at_once_are_bounded():
    requests = PrefillRequests(lambda: 0.0)
    keys = [Key(id=f"key_{n}", team=f"team_{n}", team_name="t") for n in range(MAX_AT_ONCE)]
    open_ones = [requests.admit(a_call(key=key)) for key in keys]
    for block in open_ones:
        block.__enter__()
    with pytest.raises(CallerError, match="at once"), requests.admit(a_call(conversation="more")):
        pass
    for block in open_ones:
        block.__exit__(None, None, None)
    with requests.admit(a_call(conversation="more")):
        pass


def test_the_prompts_that_one_team_has_warmed_at_once_are_bounded():
    requests = PrefillRequests(lambda: 0.0)
    open_ones = [requests.admit(a_call(conversation=str(n))) for n in range(MAX_AT_ONCE_OF_TEAM)]
    for block in open_ones:
        block.__enter__()

    with pytest.raises(CallerError, match="Your team"), requests.admit(a_call(conversation="m")):
        pass
    with requests.admit(a_call(conversation="0")):
        pass
    with requests.admit(a_call(key=Key(id="key_2", team="team_2", team_name="b"))):
        pass


def test_the_wait_ends_with_the_caller_or_with_a_newer_prompt():
    async def story():
        superseded = asyncio.Event()
        forever = asyncio.Event()
        waiting = asyncio.ensure_future(until_gone_or_superseded(forever.wait, superseded)())
        await asyncio.sleep(0)
        assert not waiting.done()
        superseded.set()
        await waiting
        await until_gone_or_superseded(superseded.wait, asyncio.Event())()

    asyncio.run(story())


@pytest.mark.slow
def test_a_warmed_prompt_is_read_from_the_cache_of_the_replica_that_gets_the_call(tmp_path):
    messages = [{"role": "system", "content": LONG}, {"role": "user", "content": "Question"}]
    body = {"model": "house-llm", "messages": messages, "max_tokens": 8}

    async def story():
        async with engine_fleet(tmp_path) as fleet:
            who = {"authorization": f"Bearer {fleet.keys[fleet.url]}"}

            async def post(path, **changes):
                return await fleet.client.post(
                    f"{fleet.url}/{path}", json=body | changes, headers=who
                )

            warmed = await post("thriftgate/prefill")
            sent = await post("chat/completions")
            refused = await post("thriftgate/prefill", model="other")
            unknown = await fleet.client.post(f"{fleet.url}/thriftgate/prefill", json=body)
            receipts = await fleet.client.get(
                f"{fleet.url}/thriftgate/calls/{warmed.headers['x-request-id']}", headers=who
            )
            return warmed, sent, refused, unknown, receipts

    warmed, sent, refused, unknown, receipts = asyncio.run(story())

    assert warmed.status_code == 200, warmed.text
    assert warmed.json()["usage"]["completion_tokens"] == 1
    replica = warmed.headers["x-thriftgate-replica"].partition(";")[0]
    assert sent.headers["x-thriftgate-replica"].startswith(f"{replica}; warm: ")
    assert int(sent.headers["x-thriftgate-cached-tokens"]) > 500
    assert refused.json()["error"]["code"] == "not_an_engine"
    assert unknown.status_code == 401
    assert '"warming:' in receipts.text


FORMS = {
    "responses": {"instructions": LONG, "input": "Question", "max_output_tokens": 8},
    "messages": {
        "system": LONG,
        "messages": [{"role": "user", "content": "Question"}],
        "max_tokens": 8,
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("endpoint", FORMS)
def test_prompts_of_other_apis_are_warmed_at_the_replica_that_gets_the_call(tmp_path, endpoint):
    body = {"model": "house-llm", "metadata": {"feature": "desk"}, **FORMS[endpoint]}

    async def story():
        async with engine_fleet(tmp_path) as fleet:
            who = {"authorization": f"Bearer {fleet.keys[fleet.url]}"}

            async def post(path):
                return await fleet.client.post(f"{fleet.url}/{path}", json=body, headers=who)

            warmed = await post("thriftgate/prefill")
            sent = await post(endpoint)
            named = f"thriftgate/calls/{warmed.headers['x-request-id']}"
            receipts = await fleet.client.get(f"{fleet.url}/{named}", headers=who)
            return warmed, sent, receipts.json()

    warmed, sent, receipts = asyncio.run(story())

    assert warmed.status_code == 200, warmed.text
    replica = warmed.headers["x-thriftgate-replica"].partition(";")[0]
    assert sent.headers["x-thriftgate-replica"].startswith(f"{replica}; warm: ")
    assert int(sent.headers["x-thriftgate-cached-tokens"]) > 500
    assert '"warming:desk"' in json.dumps(receipts)


class HeldReplica:
    """A replica that answers nothing until it is released.

    Attributes:
        is_released: Set once it may answer.
    """

    def __init__(self) -> None:
        self._calls = asyncio.Queue[None]()
        self.is_released = asyncio.Event()

    @asynccontextmanager
    async def start(self) -> AsyncIterator[str]:
        model = SimulatedModel(regime="block-chain", ttft=1.0, per_1k=0.0, itl=0.0)
        simulator = Simulator(
            SimulatorSettings(models={"house-llm": model}, time_scale=1.0),
            clock=time.monotonic,
            sleep=self._wait,
        )
        answer = app(simulator)

        async def count_and_answer(scope: Scope, receive: Receive, send: Send) -> None:
            if scope.get("path", "").endswith("/chat/completions"):
                self._calls.put_nowait(None)
            await answer(scope, receive, send)

        async with serving(count_and_answer) as url:
            yield url

    async def _wait(self, _: float) -> None:
        await self.is_released.wait()

    async def wait_for_call(self) -> None:
        """Return once the next call has come."""
        await asyncio.wait_for(self._calls.get(), _PATIENCE_S)


async def post_text(
    fleet: EngineFleet, path: str, text: str, conversation: str = ""
) -> httpx2.Response:
    """The answer to a prompt of one message."""
    return await fleet.client.post(
        f"{fleet.url}/{path}",
        json={"model": "house-llm", "messages": [{"role": "user", "content": text}]},
        headers={
            "authorization": f"Bearer {fleet.keys[fleet.url]}",
            "x-thriftgate-conversation": conversation,
        },
    )


async def post_until_warmed(fleet: EngineFleet, text: str) -> httpx2.Response:
    """The answer to a prompt that waits for a replica to be free."""
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            answer = await post_text(fleet, PREFILL, text)
            if answer.status_code != 429:
                return answer
            await asyncio.sleep(float(answer.headers["retry-after"]))


def test_a_prompt_that_a_newer_one_supersedes_is_cancelled_and_says_so(tmp_path):
    async def story():
        replica = HeldReplica()
        async with (
            engine_fleet(tmp_path, replicas=1, start=replica.start) as fleet,
            asyncio.TaskGroup() as tasks,
        ):
            first = tasks.create_task(post_text(fleet, PREFILL, "Tell", "typing"))
            await replica.wait_for_call()
            second = tasks.create_task(post_text(fleet, PREFILL, "Tell me", "typing"))
            superseded = await first
            replica.is_released.set()
            return superseded, await second

    first, second = asyncio.run(story())

    assert (first.status_code, first.json()["error"]["code"]) == (409, "superseded")
    assert second.status_code == 200


def test_a_live_call_ends_the_warming_at_its_replica_and_none_begins_beside_it(tmp_path):
    async def story():
        replica = HeldReplica()
        async with (
            engine_fleet(tmp_path, replicas=1, start=replica.start) as fleet,
            asyncio.TaskGroup() as tasks,
        ):
            typed = tasks.create_task(post_text(fleet, PREFILL, "Tell"))
            await replica.wait_for_call()
            live = tasks.create_task(post_text(fleet, "chat/completions", "Now"))
            superseded = await typed
            await replica.wait_for_call()
            beside = await post_text(fleet, PREFILL, "Tell me")
            replica.is_released.set()
            answered = await live
            return superseded, beside, answered, await post_until_warmed(fleet, "Tell me")

    typed, beside, live, after = asyncio.run(story())

    assert (typed.status_code, typed.json()["error"]["code"]) == (409, "superseded")
    assert (beside.status_code, beside.json()["error"]["code"]) == (429, "replica_busy")
    assert (live.status_code, after.status_code) == (200, 200)


def test_a_prompt_is_warmed_beside_a_live_call_at_a_replica_of_many_slots(tmp_path):
    async def story():
        replica, slots = HeldReplica(), "max_sequences = 8"
        async with (
            engine_fleet(tmp_path, replicas=1, start=replica.start, table=slots) as fleet,
            asyncio.TaskGroup() as tasks,
        ):
            live = tasks.create_task(post_text(fleet, "chat/completions", "Now"))
            await replica.wait_for_call()
            typed = tasks.create_task(post_text(fleet, PREFILL, "Tell"))
            await replica.wait_for_call()
            replica.is_released.set()
            return await live, await typed

    live, typed = asyncio.run(story())

    assert (live.status_code, typed.status_code) == (200, 200), typed.text
