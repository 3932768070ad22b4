import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pytest
import redis

from proxy.cli.policies.budgets import budgets
from proxy.cli.terminal import Terminal
from proxy.services.budgets.counters import open_budget_store
from proxy.settings import Settings
from proxy.store.store import Store
from slo.budgets.budget import Budget, BudgetUnit, counter_key
from slo.budgets.counter import CounterClaim
from slo.policies.file import Policies
from slo.window import Window
from tests.fakes.admission_harness import NOW, budget
from tests.fakes.cli_runner import CommandRunner, single_command
from tests.fakes.receipts import a_receipt
from tests.fakes.redis_keys import SERVER

LIMIT = 5_000_000_000


def budgets_command(
    *promised: Budget, settings: Settings | None = None
) -> Callable[[Terminal], Callable[..., None]]:
    return lambda terminal: budgets(
        terminal,
        lambda: settings or Settings(),
        lambda _: Policies(budgets=promised),
    )


@pytest.fixture
def runner(tmp_path):
    command_runner = CommandRunner(tmp_path, NOW)
    store = command_runner.open()
    team = store.teams.create("acme", now=NOW)
    store.close(5)
    command_runner.keep(a_receipt(0, team=team.id, cost_nanos=1_500_000_000, feature="chat"))
    return command_runner


def rows(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines()]


def test_without_budgets_it_says_how_to_have_some(runner):
    assert "THRIFTGATE_POLICIES" in runner.said(single_command(budgets_command()))


def test_spending_comes_from_the_ledger_where_each_process_counts_for_itself(runner):
    output = runner.said(single_command(budgets_command(budget(limit=LIMIT))))

    assert rows(output)[1] == ["b", "team", "acme", "2026-09-21", "yes", "$5.0000", "$1.5000", "?"]


def test_unknown_spending_is_a_question_mark(runner):
    labelled = budget(scope="label:project", limit=LIMIT)
    output = runner.said(
        single_command(budgets_command(labelled, budget(scope="user", name="u", limit=LIMIT)))
    )

    assert rows(output)[1] == ["b", "label:project", "*", "2026-09-21", "yes", "$5.0000", "?", "?"]
    assert rows(output)[2][:3] == ["u", "user", "5f" * 16]


def test_requests_of_a_minute_are_known_to_the_ledger(runner):
    minute = budget(unit=BudgetUnit.REQUESTS, window=Window.MINUTE, limit=1000)
    output = runner.said(single_command(budgets_command(minute)))

    assert rows(output)[1] == ["b", "team", "acme", "2026-09-21T14:13", "yes", "1,000", "1", "?"]


def test_of_many_the_twenty_with_most_spent_are_shown_and_how_many_more_there_are(runner):
    runner.keep(*(a_receipt(n, cost_nanos=n * 10**9, user=f"u{n}") for n in range(1, 30)))
    promised = budget(scope="user", limit=100 * 10**9)
    output = runner.said(single_command(budgets_command(promised)))

    assert [row[2] for row in rows(output)[1:21]] == [f"u{n}" for n in range(29, 9, -1)]
    assert rows(output)[21] == ["b", "user", "and", "10", "more"]
    (used,) = budgets_as_json(runner, promised)
    assert used["counters"][0] == {"of": "u29", "spent": "29", "held": None}
    assert len(used["counters"]) == 20
    assert used["more"] == 10


def test_a_name_that_is_no_line_is_reported_in_one(runner):
    store = runner.open()
    (team,) = store.teams.all()
    store.close(5)
    runner.keep(a_receipt(1, team=team.id, feature="two\nlines"))
    output = runner.said(single_command(budgets_command(budget(scope="feature"))))

    assert [row[2] for row in rows(output)[1:]] == ["chat", r"'two\nlines'"]


def budgets_as_json(
    runner: CommandRunner, *promised: Budget, settings: Settings | None = None
) -> list[Any]:
    """Return what scripts are told."""
    output = runner.said(single_command(budgets_command(*promised, settings=settings)), "--json")
    assert output.count("\n") == 1
    return list(orjson.loads(output)["budgets"])


def test_scripts_are_told_exact_amounts_and_null_for_what_is_unknown(runner):
    tokens = budget(name="t", unit=BudgetUnit.TOKENS, limit=5000, hard=False)
    assert budgets_as_json(runner, budget(limit=LIMIT), tokens, budget(scope="label:project")) == [
        {
            "name": "b",
            "scope": "team",
            "unit": "usd",
            "window": "2026-09-21",
            "hard": True,
            "limit": "5",
            "counters": [{"of": "acme", "spent": "1.5", "held": None}],
            "more": 0,
        },
        {
            "name": "t",
            "scope": "team",
            "unit": "tokens",
            "window": "2026-09-21",
            "hard": False,
            "limit": 5000,
            "counters": [{"of": "acme", "spent": 1154, "held": None}],
            "more": 0,
        },
        {
            "name": "b",
            "scope": "label:project",
            "unit": "usd",
            "window": "2026-09-21",
            "hard": True,
            "limit": "0.04312",
            "counters": [{"of": "*", "spent": None, "held": None}],
            "more": 0,
        },
    ]
    assert budgets_as_json(runner) == []


def test_spending_of_too_many_receipts_is_not_shown_in_part(runner, monkeypatch):
    monkeypatch.setattr("proxy.store.sql.ledger.spendings.Spendings.__init__.__defaults__", (1,))

    assert rows(runner.said(single_command(budgets_command(budget(scope="user")))))[1][-2:] == [
        "?",
        "?",
    ]


def test_a_budget_that_nobody_used_is_at_nothing(runner):
    output = runner.said(single_command(budgets_command(budget(of="other", limit=LIMIT))))

    assert rows(output)[1][-3:] == ["$5.0000", "$0.0000", "?"]


@pytest.fixture
def hold(runner):
    """Holds two dollars of each counter in Redis."""
    try:
        redis.Redis.from_url(SERVER, socket_connect_timeout=3, socket_timeout=3).ping()
    except redis.RedisError as error:
        pytest.skip(f"no Redis at THRIFTGATE_TEST_REDIS ({SERVER}): {error}")

    async def reserve(store: Store, names: Sequence[str]) -> None:
        shared = open_budget_store(Settings(redis_url=SERVER), store)
        for name in names:
            claim = CounterClaim(name, 2_000_000_000, LIMIT, True, NOW + 60)  # noqa: FBT003 - as it is
            await shared.reserve(f"r {name}", [claim], NOW, NOW + 60)
        await shared.aclose()

    def hold_all(*names: str) -> None:
        store = runner.open()
        asyncio.run(reserve(store, names))
        store.close(5)

    return hold_all


def test_shared_counters_are_asked(runner, hold):
    settings, one = Settings(redis_url=SERVER), budget(limit=LIMIT)
    hold(counter_key(one, "acme", NOW))

    output = runner.said(single_command(budgets_command(one, settings=settings)))

    assert rows(output)[1][-3:] == ["$5.0000", "$0.0000", "$2.0000"]


def test_shared_counters_of_labels_users_and_features_are_found_without_the_ledger(runner, hold):
    settings = Settings(redis_url=SERVER)
    labels = budget(scope="label:project", limit=LIMIT)
    features = budget(name="f", scope="feature", limit=LIMIT)
    hold(
        counter_key(labels, "a/b", NOW),
        counter_key(labels, "c d", NOW),
        counter_key(labels, "gone", NOW - 86_400),
        counter_key(features, "search", NOW),
    )

    of_labels, of_features = budgets_as_json(runner, labels, features, settings=settings)

    figures = {"spent": "0", "held": "2"}
    assert of_labels["counters"] == [{"of": "a/b"} | figures, {"of": "c d"} | figures]
    chat = {"of": "chat", "spent": "0", "held": "0"}
    assert of_features["counters"] == [{"of": "search"} | figures, chat]


def test_of_one_name_its_shared_counter_alone_is_asked(runner, hold):
    one = budget(scope="feature", of="search", limit=LIMIT)
    hold(counter_key(one, "search", NOW), counter_key(one, "other", NOW))
    (used,) = budgets_as_json(runner, one, settings=Settings(redis_url=SERVER))

    assert used["counters"] == [{"of": "search", "spent": "0", "held": "2"}]


def test_shared_counters_that_nobody_used_are_nobody_s(runner, hold):
    hold()
    (used,) = budgets_as_json(
        runner, budget(scope="label:none"), settings=Settings(redis_url=SERVER)
    )

    assert used["counters"] == [{"of": "*", "spent": None, "held": None}]


def test_counters_that_are_away_are_reported(runner):
    settings = Settings(redis_url="redis://127.0.0.1:1/0")

    assert "cannot be reached: Redis" in runner.error_of(
        single_command(budgets_command(budget(), settings=settings))
    )
