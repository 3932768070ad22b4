"""Budgets through a whole gateway, over HTTP."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import httpx
import pytest

from tests.fakes.budget_gateway import DIME, FIVE, BudgetGateway, bare_call_status, budget_gateway
from tests.fakes.plain_http import PLAIN

#: Cost of an answer of ten cents at most that is left half-way: of 512 tokens.
_LIKELY_NANOS = 51_200_000
SMALL = FIVE.replace('"5"', '"0.15"')
RATES = """
[[budgets]]
name = "calls"
scope = "key"
unit = "requests"
window = "minute"
limit = 3

[[budgets]]
name = "tokens"
scope = "team"
unit = "tokens"
window = "minute"
limit = 100000
hold = "worst"
"""


@pytest.fixture
def start_gateway(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[..., BudgetGateway]]:
    """Starts a gateway with these policies."""
    monkeypatch.setenv("SIMULATOR_KEY", "simulator-key")
    with ExitStack() as stack:
        yield lambda policies, **settings: stack.enter_context(
            budget_gateway(tmp_path, policies, **settings)
        )


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


class _Thread(threading.Thread):
    """A thread in a block, which waits for it."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(target=work)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.join()


def within_a_minute() -> None:
    """Begin early enough in a minute that its counters outlast the story."""
    left = 60 - time.time() % 60  # noqa: TID251 - the gateway's windows are the machine's
    if left < 15:
        time.sleep(left)


async def rush(fixture: BudgetGateway, calls: int) -> Counter[int]:
    """Number of calls at once by status; the simulator answers when all are decided."""
    statuses: Counter[int] = Counter()

    async def one() -> None:
        statuses[await bare_call_status(fixture.url, fixture.keys["acme"])] += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(calls):
            group.create_task(one())
        while sum(statuses.values()) + len(fixture.lab.exchanges) < calls:  # noqa: ASYNC110 - the simulator's is another thread
            await asyncio.sleep(0.02)
        fixture.gate.set()
    return statuses


def test_of_a_thousand_calls_at_once_of_ten_cents_five_dollars_admit_exactly_fifty(start_gateway):
    fixture = start_gateway(FIVE)
    fixture.gate.clear()

    assert asyncio.run(rush(fixture, 1000)) == {200: 50, 429: 950}
    assert len(fixture.lab.exchanges) == 50
    assert 0 < fixture.costs() <= 5_000_000_000


def test_a_refused_call_is_told_what_was_spent_and_when_to_come_back(start_gateway):
    fixture = start_gateway(SMALL)

    answer = fixture.call(max_completion_tokens=1600)

    assert answer.status_code == 429
    error = answer.json()["error"]
    assert error["type"] == "rate_limit_error"
    assert error["code"] == "budget_exceeded"
    assert {name: error[name] for name in ("scope", "of", "unit", "window")} == {
        "scope": "team",
        "of": "acme",
        "unit": "usd",
        "window": "day",
    }
    figures = {name: error[name] for name in ("limit", "spent", "held", "predicted")}
    assert figures == {"limit": "0.15", "spent": "0", "held": "0", "predicted": "0.16"}
    assert "retry-after" not in answer.headers
    assert answer.headers["x-should-retry"] == "false"
    assert not fixture.lab.exchanges


def test_a_call_waits_for_amounts_held_by_others_and_not_for_spent_ones(start_gateway):
    fixture = start_gateway(SMALL)
    fixture.gate.clear()
    ended: list[httpx.Response] = []
    messages = [{"role": "user", "content": "[[fault:words=400]] Go on."}]
    with _Thread(lambda: ended.append(fixture.call(stream=True, messages=messages))):
        until(lambda: len(fixture.lab.exchanges) == 1)
        open_call = fixture.call()
        fixture.gate.set()

    assert open_call.status_code == 429
    assert open_call.json()["error"]["held"] == "0.1"
    assert 0 < float(open_call.headers["retry-after"]) <= 61
    assert ended[0].text.endswith("data: [DONE]\n\n")

    until(lambda: fixture.call().status_code == 429)
    spent = fixture.call(max_completion_tokens=1400).json()["error"]
    assert spent["held"] == "0"
    assert float(spent["spent"]) > 0.01


def test_two_teams_have_a_budget_each(start_gateway):
    fixture = start_gateway(SMALL)
    while fixture.call().status_code == 200:
        pass

    assert fixture.call("other").status_code == 200


def test_a_caller_that_hangs_up_has_spent_the_worst_case_of_its_budget_and_holds_nothing(
    start_gateway,
):
    fixture = start_gateway(SMALL)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{fixture.url}/chat/completions",
            json=DIME | {"messages": [{"role": "user", "content": "[[fault:hang]] Well?"}]},
            headers=fixture.headers(),
            timeout=0.5,
            trust_env=False,
            verify=PLAIN,
        )

    until(lambda: fixture.costs() == _LIKELY_NANOS)
    until(lambda: fixture.call(max_completion_tokens=400).status_code == 200)
    refused = fixture.call(max_completion_tokens=500).json()["error"]
    assert refused["held"] == "0"
    assert float(refused["spent"]) > 0.1


async def leave(fixture: BudgetGateway, client: httpx.AsyncClient, number: int) -> int:
    """The status of a call whose caller hangs up unless it is refused at once."""
    fields = {"stream": True} if number % 2 else {}
    messages = [{"role": "user", "content": f"[[fault:hang]] Well, {number}?"}]
    try:
        answer = await client.post(
            f"{fixture.url}/chat/completions",
            json=DIME | {"messages": messages} | fields,
            headers=fixture.headers(),
            timeout=1.0,
        )
    except httpx.ReadTimeout:
        return 0
    return answer.status_code


async def leave_in_turn(fixture: BudgetGateway, callers: int, calls: int) -> Counter[int]:
    """Return what became of so many calls whose callers hang up, some at a time."""
    async with httpx.AsyncClient(trust_env=False, verify=PLAIN) as client:

        async def one(first: int) -> list[int]:
            return [await leave(fixture, client, number) for number in range(first, calls, callers)]

        start_gateway = await asyncio.gather(*map(one, range(callers)))
    return Counter(status for statuses in start_gateway for status in statuses)


def test_callers_that_hang_up_book_likely_lengths_and_spend_worst_cases_of_a_budget(start_gateway):
    """Of $5 that hold the worst case, fifty calls of ten cents are taken, and no more."""
    fixture = start_gateway(FIVE)

    statuses = asyncio.run(leave_in_turn(fixture, 25, 100))

    until(lambda: fixture.costs() == 50 * _LIKELY_NANOS)
    assert statuses == {0: 50, 429: 50}
    assert len(fixture.lab.exchanges) == 50
    assert fixture.call().json()["error"]["spent"] == "5"


#: A prompt of millions of dollars.
NEVER_FITS = {"model": "golden-lab", "messages": [{"role": "user", "content": "word " * 20_000}]}
#: Output limits, and numbers of choices, as callers may write them.
FIGURES = [
    "128000",
    "1e11",
    "1e14",
    "1" + "0" * 14,
    "9" * 4_299,
    "9" * 9_000,
    "-7",
    '"1e30"',
    "0.5",
]


@pytest.mark.parametrize("hold", ["p95", "worst"])
def test_figures_of_callers_become_no_amounts_of_the_ledger(start_gateway, hold):
    fixture = start_gateway(FIVE.replace('"5"', '"9000000"').replace('"worst"', f'"{hold}"'))

    statuses = asyncio.run(leave_stories(fixture))

    assert set(statuses) <= {0, 200, 400}
    assert statuses.count(0) >= 4
    until(lambda: fixture.call(**NEVER_FITS).json()["error"]["held"] == "0")
    assert fixture.costs() <= 128 * len(FIGURES) * 512 * 10_000
    assert not list(fixture.gateway.store.journal.folder.glob("**/rejected.jsonl"))


async def leave_stories(fixture: BudgetGateway) -> list[int]:
    """The statuses of long streams that their callers leave at once, for each figure twice."""
    async with httpx.AsyncClient(trust_env=False, verify=PLAIN) as client:

        async def leave_story(limit: str, choices: str) -> int:
            body = (
                '{"model":"unlimited-lab","stream":true,"messages":[{"role":"user","content":'
                f'"[[fault:hang]] Tell."}}],"max_completion_tokens":{limit},"n":{choices}}}'
            )
            headers = fixture.headers() | {"content-type": "application/json"}
            try:
                answer = await client.post(
                    f"{fixture.url}/chat/completions", content=body, headers=headers, timeout=1.0
                )
            except httpx.ReadTimeout:
                return 0
            return answer.status_code

        pairs = [(figure, "1") for figure in FIGURES] + [("128000", figure) for figure in FIGURES]
        return await asyncio.gather(*(leave_story(*pair) for pair in pairs))


def test_minutes_are_told_in_the_headers_that_clients_know(start_gateway):
    within_a_minute()
    fixture = start_gateway(RATES)
    first, *_, last = [fixture.call() for _ in range(4)]

    assert first.status_code == 200
    assert first.headers["x-ratelimit-limit-requests"] == "3"
    assert first.headers["x-ratelimit-remaining-requests"] == "2"
    assert first.headers["x-ratelimit-limit-tokens"] == "100000"
    assert 0 < int(first.headers["x-ratelimit-remaining-tokens"]) < 100_000
    assert first.headers["x-ratelimit-reset-tokens"].endswith("s")
    assert last.status_code == 429
    assert last.json()["error"]["code"] == "rate_limit_exceeded"
    assert last.headers["x-ratelimit-remaining-requests"] == "0"
    assert 0 < float(last.headers["retry-after"]) <= 60
    assert "x-should-retry" not in last.headers


def test_a_gateway_that_starts_again_knows_what_was_spent(start_gateway, tmp_path):
    with budget_gateway(tmp_path, SMALL) as before:
        while before.call().status_code == 200:
            pass
        key = before.keys["acme"]
        before.costs()
        folder = before.gateway.store.journal.folder
    assert folder.exists()

    answer = again(tmp_path, key)

    assert answer.status_code == 429
    assert float(answer.json()["error"]["spent"]) > 0.01


def again(folder: Path, key: str) -> httpx.Response:
    """Return what a call is told by another gateway in the same folder."""
    with budget_gateway(folder, SMALL) as after:
        return httpx.post(
            f"{after.url}/chat/completions",
            json=DIME,
            headers={"authorization": f"Bearer {key}"},
            trust_env=False,
            timeout=60,
            verify=PLAIN,
        )
