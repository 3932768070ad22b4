"""A hard budget under calls of all lengths at once, over HTTP.

With ``hold = "worst"`` spent and held amounts never pass the limit together. With ``p95`` a call
may cost more than it holds, so that they may for a moment; what is spent stays within the limit.
Nothing settles late here, as it does where a gateway dies (``test_local_budget_store.py``).
"""

import asyncio
import collections
import math
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal

from tests.fakes.budget_gateway import DIME, FIVE, BudgetGateway, budget_gateway
from tests.fakes.http_caller import HttpAnswer, HttpCaller

TEAM = FIVE.replace('"worst"', '"p95"')
WORST_USERS = FIVE.replace('"team"', '"user"')
USERS = WORST_USERS.replace('"worst"', '"p95"')
LIMIT = 5_000_000_000
#: At once: their worst cases together are more than the whole limit.
_CALLERS = 64
_LEARNERS = 16
#: Refusals after which a caller goes home.
_ENOUGH = 4


@dataclass
class UserCallers:
    """A user's callers, each calling again at once until refused for good.

    Attributes:
        refusals: What was told, in order.
        answered: How many calls were.
    """

    fixture: BudgetGateway
    user: str
    seed: int
    refusals: list[dict[str, str]] = field(default_factory=list)
    answered: int = 0

    async def calls(
        self, client: HttpCaller, callers: int = _CALLERS, calls_each: int | None = None
    ) -> None:
        """So many callers at once; each calls so often, or until it was refused often."""
        dice = random.Random(self.seed)  # noqa: S311 - repeatable, not secret
        async with asyncio.TaskGroup() as group:
            for _ in range(callers):
                group.create_task(self._call_on(client, dice, calls_each))

    async def _call_on(
        self, client: HttpCaller, dice: random.Random, calls_each: int | None
    ) -> None:
        refused = calls = 0
        while refused < _ENOUGH and calls != calls_each:
            calls += 1
            answer = await self._call(client, words(dice))
            if answer.status == 429:
                refused += 1
                self.refusals.append(answer.error)
                await asyncio.sleep(0.1)
            else:
                assert answer.status == 200, answer.body
                self.answered += 1

    async def _call(self, client: HttpCaller, words: int) -> HttpAnswer:
        messages = [{"role": "user", "content": f"[[fault:words={words}]] Tell me."}]
        return await client.ask(DIME | {"messages": messages, "user": self.user})


@asynccontextmanager
async def http_caller(fixture: BudgetGateway) -> AsyncIterator[HttpCaller]:
    """Calls of the first team; a caller whose lines stay open between them."""
    client = HttpCaller(fixture.url, fixture.keys["acme"])
    try:
        yield client
    finally:
        await client.close()


def words(dice: random.Random) -> int:
    """Of an answer: half have up to 50, one in twenty more than 180, one in a thousand 500."""
    return min(max(1, round(dice.lognormvariate(math.log(50), 0.78))), 500)


async def simulate_callers(fixture: BudgetGateway, seed: int) -> UserCallers:
    """Results of one user's calls, once another's taught how long such calls are."""
    async with http_caller(fixture) as client:
        learned = UserCallers(fixture, f"first-{seed}", seed + 100)
        await learned.calls(client, _LEARNERS, calls_each=12)
        assert not learned.refusals
        second = UserCallers(fixture, f"second-{seed}", seed)
        await second.calls(client)
    return second


def test_the_limit_is_never_passed_and_nothing_refused_while_half_of_it_is_unspent(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("SIMULATOR_KEY", "simulator-key")
    with budget_gateway(tmp_path, USERS) as fixture:

        async def slow(seconds: float) -> None:
            await asyncio.sleep(0.12)

        fixture.lab.sleep = slow
        result = asyncio.run(simulate_callers(fixture, seed=1))
        fixture.costs()
        spent = fixture.gateway.store.spendings.from_receipts("user", 0, 2e10).by

    most_spent = max(account.nanos for account in spent.values())
    assert 0.95 * LIMIT < most_spent <= LIMIT
    assert result.answered > 5 * _CALLERS
    spent_then = [Decimal(refusal["spent"]) for refusal in result.refusals]
    assert min(spent_then) >= Decimal("2.5")
    assert max(spent_then) <= 5


def test_spent_and_held_amounts_with_worst_holds_stay_within_the_limit(monkeypatch, tmp_path):
    monkeypatch.setenv("SIMULATOR_KEY", "simulator-key")
    with budget_gateway(tmp_path, WORST_USERS) as fixture:
        second = UserCallers(fixture, "first", seed=1)

        async def call_until_refused() -> None:
            async with http_caller(fixture) as client:
                await second.calls(client)

        async def slow(seconds: float) -> None:
            await asyncio.sleep(0.12)

        fixture.lab.sleep = slow
        asyncio.run(call_until_refused())
        spent = fixture.costs()

    assert 0.95 * LIMIT < spent <= LIMIT
    # 64 worst cases of ten cents are more than five dollars: calls are refused from the start.
    assert min(Decimal(refusal["spent"]) for refusal in second.refusals) < 2
    assert (
        max(Decimal(refusal["spent"]) + Decimal(refusal["held"]) for refusal in second.refusals)
        <= 5
    )


async def crowd_of_digits(fixture: BudgetGateway, callers: int) -> collections.Counter[int]:
    """Return what became of calls of nearly 16 KiB of digits, all of them sent at once."""
    dice = random.Random(7)  # noqa: S311 - repeatable, not secret
    digits = ",".join(str(dice.randint(0, 9)) for _ in range(7_800))
    async with http_caller(fixture) as client:

        async def send(number: int) -> int:
            messages = [{"role": "user", "content": f"{number} {digits}"}]
            asks = {"model": "heavy-lab", "max_completion_tokens": 1, "messages": messages}
            return (await client.ask(asks)).status

        async def open_the_gate() -> None:
            await asyncio.sleep(3)  # all that may pass stand before it
            fixture.gate.set()

        fixture.gate.clear()
        calls = (send(number) for number in range(callers))
        statuses, _ = await asyncio.gather(asyncio.gather(*calls), open_the_gate())
        return collections.Counter(statuses)


def test_a_limit_with_worst_holds_is_never_passed_by_prompts_of_digits(monkeypatch, tmp_path):
    monkeypatch.setenv("SIMULATOR_KEY", "simulator-key")
    with budget_gateway(tmp_path, FIVE) as fixture:
        statuses = asyncio.run(crowd_of_digits(fixture, 40))
        spent = fixture.costs()

    assert set(statuses) == {200, 429}
    assert LIMIT / 2 < spent <= LIMIT


async def count_answers(fixture: BudgetGateway, calls_each: int, callers: int = _CALLERS) -> int:
    """Number of short answers the callers got that name no limit, so often each."""
    messages = [{"role": "user", "content": "[[fault:words=50]] Tell me."}]
    asks = {"model": "long-lab", "messages": messages}
    async with http_caller(fixture) as client:

        async def call_on() -> int:
            answered = 0
            for _ in range(calls_each):
                answered += (await client.ask(asks)).status == 200
            return answered

        return sum(await asyncio.gather(*(call_on() for _ in range(callers))))


def test_calls_that_name_no_limit_all_pass_while_half_of_it_is_unspent(monkeypatch, tmp_path):
    monkeypatch.setenv("SIMULATOR_KEY", "simulator-key")
    with budget_gateway(tmp_path, TEAM) as fixture:

        async def slow(seconds: float) -> None:
            await asyncio.sleep(0.12)

        fixture.lab.sleep = slow
        assert (
            asyncio.run(count_answers(fixture, 21, callers=1)) == 21
        )  # of which lengths are learned
        assert asyncio.run(count_answers(fixture, 6)) == 6 * _CALLERS
        of_short = fixture.costs()
        dear = [{"role": "user", "content": "[[fault:words=600]] Tell me."}]
        while (spent := fixture.costs()) < 0.45 * LIMIT:
            assert fixture.call(messages=dear).status_code == 200
        assert asyncio.run(count_answers(fixture, 3)) == 3 * _CALLERS
        assert spent < fixture.costs() < LIMIT / 2

    worst = 128_000 * 4_500
    assert worst > 1000 * of_short / (6 * _CALLERS)
    assert _CALLERS * worst > 7 * LIMIT
