import re
from pathlib import Path

import pytest

from proxy.cli.keys import keys, teams
from tests.fakes.cli_runner import CommandRunner
from tests.fakes.receipts import START


@pytest.fixture
def typed(tmp_path: Path) -> CommandRunner:
    made = CommandRunner(tmp_path, START)
    made.said(teams, "create", "acme-support")
    return made


def test_a_key_of_a_team_there_is_makes_no_team(typed: CommandRunner) -> None:
    said = typed.said(keys, "create", "--team", "acme-support", "--existing")

    assert "New team" not in said
    assert re.search(r"^Key key_\w+ of team acme-support: tg-", said)
    assert typed.said(teams, "list").count("acme-support") == 1


def test_a_team_is_named_by_its_id_too(typed: CommandRunner) -> None:
    (team,) = typed.open().teams.all()

    assert "of team acme-support" in typed.said(keys, "create", "--team", team.id)


def test_a_name_that_is_new_makes_a_team_and_says_so_with_what_may_have_been_meant(
    typed: CommandRunner,
) -> None:
    said = typed.said(keys, "create", "--team", "acme-suport")

    assert said.startswith("New team acme-suport: there was none of that name. Near it: acme-supp")
    assert "New team else: there was none of that name.\n" in typed.said(
        keys, "create", "--team", "else"
    )


def test_quietly_it_prints_the_secret_alone(typed: CommandRunner) -> None:
    assert re.fullmatch(r"tg-[\w-]{40}\n", typed.said(keys, "create", "--team", "new", "--quiet"))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--team", "acme-suport", "--existing"), "no team named acme-suport. Near it: acme-sup"),
        (("--team", " "), "--team is empty"),
    ],
)
def test_a_key_for_nobody_is_refused(
    typed: CommandRunner, words: tuple[str, ...], why: str
) -> None:
    assert why in typed.refused(keys, "create", *words)
    assert len(typed.open().teams.all()) == 1


def test_a_key_is_listed_and_revoked_once(typed: CommandRunner) -> None:
    typed.said(keys, "create", "--team", "acme-support", "--name", "first", "--feature", "chat")
    listed = typed.said(keys, "list")
    (key,) = re.findall(r"key_\w+", listed)

    assert "first" in listed
    assert f"Key {key} is revoked." in typed.said(keys, "revoke", key)
    assert "no open key" in typed.refused(keys, "revoke", key)
    assert "revoked" in typed.said(keys, "list")


def test_a_team_is_made_once(typed: CommandRunner) -> None:
    assert "already" in typed.refused(teams, "create", "acme-support")
    assert "has the id team_" in typed.said(teams, "create", "other", "--keep-prompts")
    assert "yes" in typed.said(teams, "list")


def test_a_teams_prompts_are_kept_from_now_on_or_no_more(typed: CommandRunner) -> None:
    typed.said(teams, "create", "zebra")
    assert "prompts are kept" in typed.said(teams, "prompts", "zebra", "keep")
    assert typed.said(teams, "list").splitlines()[-1].endswith("yes")
    assert "prompts are not kept" in typed.said(teams, "prompts", "zebra", "drop")
    assert typed.said(teams, "list").splitlines()[-1].endswith("no")
    assert "no team named nobody" in typed.refused(teams, "prompts", "nobody", "keep")
