"""Purges of kept answers by the command line."""

from pathlib import Path

import pytest

from proxy.cli.keys import teams
from proxy.cli.policies.answers import answers
from proxy.fast_path.answer_cache.answer_purges import AnswerPurge, PurgeScope
from tests.fakes.cli_runner import CommandRunner
from tests.fakes.receipts import START


@pytest.fixture
def runner(tmp_path: Path) -> CommandRunner:
    command_runner = CommandRunner(tmp_path, START)
    command_runner.said(teams, "create", "acme")
    return command_runner


def stored_purges(runner: CommandRunner) -> list[AnswerPurge]:
    store = runner.open()
    try:
        return store.answer_purges.since(0.0)
    finally:
        store.close(5)


@pytest.mark.parametrize(
    ("options", "scope", "name", "which"),
    [
        ((), PurgeScope.TEAM, "", "all answers"),
        (("--feature", "faq"), PurgeScope.FEATURE, "faq", 'the answers of feature "faq"'),
        (("--feature", ""), PurgeScope.FEATURE, "", 'the answers of feature ""'),
        (("--tag", "kb/7"), PurgeScope.TAG, "kb/7", 'the answers of tag "kb/7"'),
        (("--key", "ab12"), PurgeScope.KEY, "ab12", 'the answers of key "ab12"'),
    ],
)
def test_a_purge_is_stored_for_all_gateways_to_follow(
    runner: CommandRunner, options: tuple[str, ...], scope: PurgeScope, name: str, which: str
) -> None:
    output = runner.said(answers, "purge", "acme", *options)
    (purge,) = stored_purges(runner)

    assert (purge.scope, purge.name, purge.purged_at) == (scope, name, START)
    assert output == f"Team acme: {which} are purged; running gateways follow within seconds.\n"


def test_a_purge_of_two_things_at_once_or_of_an_unknown_team_is_refused(
    runner: CommandRunner,
) -> None:
    two = runner.error_of(answers, "purge", "acme", "--feature", "a", "--tag", "b")
    unknown = runner.error_of(answers, "purge", "other")

    assert two == "Name one of --feature, --tag and --key; without any, all are purged."
    assert unknown.startswith("There is no team named other.")
    assert stored_purges(runner) == []
