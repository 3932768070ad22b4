import asyncio
from collections.abc import Callable

import pytest
import redis

from proxy.commands.budgets import budgets
from proxy.commands.terminal import Terminal
from proxy.limits.standing import counters
from proxy.settings import Settings
from slo.budget import Budget, Unit, counter
from slo.promises.file import Promises
from slo.reservations import Claim
from slo.window import Window
from tests.fakes.limited import NOW, budget
from tests.fakes.receipts import a_receipt
from tests.fakes.redis_keys import SERVER
from tests.fakes.typed import Typed, alone

LIMIT = 5_000_000_000


def showing(
    *promised: Budget, settings: Settings | None = None
) -> Callable[[Terminal], Callable[..., None]]:
    return lambda terminal: budgets(
        terminal,
        lambda: settings or Settings(),
        lambda _: Promises(budgets=promised),
    )


@pytest.fixture
def typed(tmp_path):
    made = Typed(tmp_path, NOW)
    store = made.open()
    team = store.teams.create("acme", now=NOW)
    store.close(5)
    made.keep(a_receipt(0, team=team.id, cost_nanos=1_500_000_000, feature="chat"))
    return made


def rows(said: str) -> list[list[str]]:
    return [line.split() for line in said.splitlines()]


def test_without_budgets_it_says_how_to_have_some(typed):
    assert "THRIFTGATE_PROMISES" in typed.said(alone(showing()))


def test_what_is_spent_is_the_ledgers_word_where_each_counts_for_itself(typed):
    said = typed.said(alone(showing(budget(limit=LIMIT))))

    assert rows(said)[1] == ["b", "team", "acme", "2026-09-21", "yes", "$5", "$1.5", "?"]


def test_what_nobody_knows_is_a_question_mark(typed):
    minute = budget(unit=Unit.REQUESTS, window=Window.MINUTE, limit=1000)
    said = typed.said(alone(showing(minute, budget(scope="user", name="u", limit=LIMIT))))

    assert rows(said)[1] == ["b", "team", "acme", "2026-09-21T14:13", "yes", "1,000", "?", "?"]
    assert rows(said)[2][:3] == ["u", "user", "*"]


def test_a_budget_that_nobody_used_is_at_nothing(typed):
    said = typed.said(alone(showing(budget(of="other", limit=LIMIT))))

    assert rows(said)[1][-3:] == ["$5", "$0", "?"]


def test_shared_counters_are_asked(typed):
    try:
        redis.Redis.from_url(SERVER, socket_connect_timeout=3, socket_timeout=3).ping()
    except redis.RedisError as error:
        pytest.skip(f"no Redis at THRIFTGATE_TEST_REDIS ({SERVER}): {error}")
    settings, one = Settings(redis_url=SERVER), budget(limit=LIMIT)
    store = typed.open()

    async def hold() -> None:
        shared = counters(settings, store)
        name = counter(one, "acme", NOW)
        claim = Claim(name, 2_000_000_000, LIMIT, True, NOW + 60)  # noqa: FBT003 - as it is
        await shared.reserve("r", [claim], NOW, NOW + 60)
        await shared.aclose()

    asyncio.run(hold())
    store.close(5)

    said = typed.said(alone(showing(one, settings=settings)))

    assert rows(said)[1][-3:] == ["$5", "$0", "$2"]


def test_counters_that_are_away_are_told(typed):
    settings = Settings(redis_url="redis://127.0.0.1:1/0")

    assert "away" in typed.refused(alone(showing(budget(), settings=settings)))
