"""Cache marks in what ``thriftgate savings`` prints."""

from pathlib import Path

import orjson
import pytest

from proxy.cli.reports.savings import savings
from proxy.records.feature_mode import LayoutScope
from proxy.records.mark_account import MarkAccountChange, StoredMarkAccount
from proxy.settings import read
from tests.fakes.chaos import two_model_catalog
from tests.fakes.cli_runner import CommandRunner, single_command
from tests.fakes.receipts import START

SAVINGS = single_command(lambda terminal: savings(terminal, two_model_catalog, lambda: read({})))


@pytest.fixture
def runner(tmp_path: Path) -> CommandRunner:
    return CommandRunner(tmp_path, START + 86_400)


def keep_marks(runner: CommandRunner, **balances: int) -> None:
    """Keep accounts of features whose marks cost or earned so much, after a cost of a cent."""
    store = runner.open()
    changes = [
        StoredMarkAccount(
            scope=LayoutScope("team_0", feature, "claude-sonnet"),
            balance=balance,
            staked=10_000_000,
            earned=10_000_000 + balance,
            calls=1_200,
        )
        for feature, balance in balances.items()
    ]
    store.mark_accounts.add([MarkAccountChange(account=change) for change in changes], START)
    store.close(5)


def test_without_cache_marks_nothing_is_told_of_them(runner: CommandRunner) -> None:
    assert "Cache marks" not in runner.said(SAVINGS)


def test_cache_marks_are_told_by_feature_and_in_sum_with_what_may_be_lost(
    runner: CommandRunner,
) -> None:
    keep_marks(runner, chat=1_224_500_000, search=-8_100_000)
    output = runner.said(SAVINGS)

    assert (
        "Cache marks: paid ahead $0.02, earned back $1.2364, net $1.2164. At most $0.01 a feature"
        " (the write surcharge of one prompt, where that is more) and $1 a team and day may be"
        " lost. Lost now: $0.0081. All since a feature's first call; a loss counts half after a"
        " day."
    ) in output
    assert "Paid ahead: the surcharge for storing prompts in the cache." in output
    assert "Calls of the control arm, which are sent without the gateway's marks, are not" in output
    rows = [" ".join(line.split()) for line in output.splitlines() if "claude-sonnet" in line]
    assert rows == [
        "team_0 chat claude-sonnet 1,200 $0.0100 $1.2345 $1.2245 $0.0000",
        "team_0 search claude-sonnet 1,200 $0.0100 $0.0019 -$0.0081 $0.0081",
    ]


def test_the_document_has_cache_marks_by_feature_and_in_sum(runner: CommandRunner) -> None:
    keep_marks(runner, search=-8_100_000)
    marks = orjson.loads(runner.said(SAVINGS, "--json"))["cache_marks"]

    assert marks.pop("features") == [
        {
            "team": "team_0",
            "team_id": "team_0",
            "feature": "search",
            "family": "claude-sonnet",
            "calls": 1_200,
            "staked_usd": "0.01",
            "earned_usd": "0.0019",
            "net_usd": "-0.0081",
            "lost_usd": "0.0081",
        }
    ]
    assert marks == {
        "staked_usd": "0.01",
        "earned_usd": "0.0019",
        "net_usd": "-0.0081",
        "lost_usd": "0.0081",
        "max_lost_usd": "0.01",
        "max_lost_usd_per_team_and_day": "1",
        "accounts": 1,
    }


def test_cache_marks_without_a_stake_are_said_to_be_paid_ahead_no_more(
    runner: CommandRunner,
) -> None:
    keep_marks(runner, chat=0)
    stakeless = read({"THRIFTGATE_LEARNING_STAKE": "0"})
    command = single_command(
        lambda terminal: savings(terminal, two_model_catalog, lambda: stakeless)
    )

    assert "Nothing is paid ahead any more: THRIFTGATE_LEARNING_STAKE is 0." in runner.said(command)


def test_features_beyond_the_fifty_that_staked_most_are_counted_alone(
    runner: CommandRunner,
) -> None:
    keep_marks(runner, **{f"f{number}": 0 for number in range(52)})
    output = runner.said(SAVINGS)

    assert output.count("claude-sonnet") == 50
    assert "paid ahead $0.52," in output
    assert output.rstrip().endswith("2 features more staked less.")
