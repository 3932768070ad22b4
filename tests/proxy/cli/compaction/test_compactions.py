import json
from functools import partial
from pathlib import Path

import pytest

from compaction.policy import CompactionMode
from proxy.cli.compaction import compactions as commands
from proxy.settings import Settings
from tests.fakes.cli_runner import CommandRunner
from tests.fakes.receipts import START, a_receipt

NOW = START + 600
compactions = partial(
    commands.compactions, settings=lambda: Settings(compaction=CompactionMode.TRIM)
)


@pytest.fixture
def runner(tmp_path: Path) -> CommandRunner:
    return CommandRunner(tmp_path, NOW)


@pytest.fixture
def team(runner: CommandRunner) -> str:
    """The team acme, whose feature support was called."""
    store = runner.open()
    team_id = store.teams.create("acme", now=NOW).id
    store.close(5)
    runner.keep(
        a_receipt(
            1,
            team=team_id,
            feature="support",
            compaction="facts",
            compacted=True,
            tokens_before=12_034,
            tokens_after=2_987,
            compaction_nanos=1_500_000,
            needed=40,
            lost=1,
        )
    )
    return team_id


def test_a_list_without_settings_names_the_default_mode(runner: CommandRunner) -> None:
    assert "every one has trim" in runner.said(compactions, "list")


def test_features_are_listed_with_what_came_of_them(runner: CommandRunner, team: str) -> None:
    runner.said(compactions, "mode", "acme", "support", "facts", "--keep-turns", "4")
    head, row = runner.said(compactions, "list").splitlines()

    assert head.split()[:3] == ["team", "feature", "mode"]
    assert row.split() == [
        "acme", "support", "facts", "1", "1", "0", "0", "9,047", "$0.0015", "2.5%", "none",
        "chosen",
    ]  # fmt: skip


def test_the_same_as_a_document(runner: CommandRunner, team: str) -> None:
    runner.said(compactions, "mode", team, "code", "off", "--target-tokens", "3000")
    document = json.loads(runner.said(compactions, "list", "--json"))
    code, support = document["compactions"]

    assert (document["default_mode"], document["days"]) == ("trim", 30)
    assert (code["mode"], code["target_tokens"], code["compacted"]) == ("off", 3_000, 0)
    assert (code["changed_by"], code["saved_usd"]) == ("ann", None)
    assert (support["mode"], support["chosen_mode"]) == ("trim", None)
    assert (support["tokens_saved"], support["saved_usd"]) == (9_047, "0.0015")
    assert support["lost_share"] == 0.025


def test_a_mode_is_chosen_and_a_feature_that_was_never_called_is_doubted(
    runner: CommandRunner, team: str
) -> None:
    assert runner.said(compactions, "mode", "acme", "support", "facts") == (
        "From now on feature support is compacted in mode facts.\n"
    )
    assert "no call of team acme with it yet" in runner.said(
        compactions, "mode", "acme", "suport", "facts"
    )


def test_a_feature_is_switched_off_in_words(runner: CommandRunner, team: str) -> None:
    assert runner.said(compactions, "mode", "acme", "support", "off") == (
        "From now on feature support is not compacted.\n"
    )


def test_a_feature_that_was_never_called_is_listed_with_what_was_chosen(
    runner: CommandRunner, team: str
) -> None:
    runner.said(compactions, "mode", "acme", "code", "off")
    row = runner.said(compactions, "list").splitlines()[1]

    assert row.split()[:7] == ["acme", "code", "off", "0", "0", "0", "0"]
    assert row.endswith("chosen")


def test_trimmed_calls_are_shown_apart_from_compactions(runner: CommandRunner, team: str) -> None:
    runner.keep(
        a_receipt(
            2,
            team=team,
            feature="support",
            compaction="trim",
            compacted=True,
            tokens_before=900,
            tokens_after=700,
        )
    )
    (support,) = json.loads(runner.said(compactions, "list", "--json"))["compactions"]

    assert (support["calls"], support["compacted"], support["trimmed"]) == (2, 1, 1)
    assert support["tokens_saved"] == 9_247


def test_a_feature_that_nobody_knows_cannot_be_resumed_and_is_not_listed(
    runner: CommandRunner, team: str
) -> None:
    runner.error_of(compactions, "resume", "acme", "nofeature")

    assert "nofeature" not in runner.said(compactions, "list")


def test_a_step_back_is_shown_and_ended(runner: CommandRunner, team: str) -> None:
    store = runner.open()
    store.compactions.step_back((team, "support"), CompactionMode.OFF, "9 of 100 lost", NOW)
    store.close(5)
    shown = runner.said(compactions, "list")

    assert "reduced from trim at 2026-09-21 14:23 UTC: 9 of 100 lost" in shown
    assert runner.said(compactions, "resume", "acme", "support") == (
        "Again feature support is compacted in mode trim.\n"
    )
    assert runner.error_of(compactions, "resume", "acme", "support") == (
        "Compaction of feature support was not reduced."
    )
