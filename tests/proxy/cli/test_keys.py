import re
from pathlib import Path

import pytest
import typer

from proxy.cli import keys as key_commands
from proxy.cli.keys import teams, users
from proxy.cli.reports.report import report
from proxy.cli.terminal import Terminal
from proxy.configuration import read_catalog
from proxy.prefix.prompts.fingerprints import Pseudonymizer
from proxy.settings import read
from tests.fakes.chaos import two_model_catalog
from tests.fakes.cli_runner import CommandRunner, single_command
from tests.fakes.receipts import START, a_receipt


def keys(terminal: Terminal) -> typer.Typer:
    """The commands about keys, with the shipped catalog."""
    return key_commands.keys(terminal, lambda: read_catalog(read({})))


@pytest.fixture
def runner(tmp_path: Path) -> CommandRunner:
    command_runner = CommandRunner(tmp_path, START)
    command_runner.said(teams, "create", "acme-support")
    return command_runner


def test_a_key_of_a_team_there_is_makes_no_team(runner: CommandRunner) -> None:
    output = runner.said(keys, "create", "--team", "acme-support", "--existing")

    assert "New team" not in output
    assert re.search(r"^Key key_\w+ of team acme-support: tg-", output)
    assert runner.said(teams, "list").count("acme-support") == 1


def test_a_team_is_named_by_its_id_too(runner: CommandRunner) -> None:
    (team,) = runner.open().teams.all()

    assert "of team acme-support" in runner.said(keys, "create", "--team", team.id)


def test_a_name_that_is_new_makes_a_team_and_says_so_with_what_may_have_been_meant(
    runner: CommandRunner,
) -> None:
    output = runner.said(keys, "create", "--team", "acme-suport")

    assert output.startswith(
        "New team acme-suport: there was none of that name. Near it: acme-supp"
    )
    assert "New team else: there was none of that name.\n" in runner.said(
        keys, "create", "--team", "else"
    )


def test_quietly_it_prints_the_secret_alone(runner: CommandRunner) -> None:
    assert re.fullmatch(r"tg-[\w-]{40}\n", runner.said(keys, "create", "--team", "new", "--quiet"))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--team", "acme-suport", "--existing"), "no team named acme-suport. Near it: acme-sup"),
        (("--team", " "), "--team is empty"),
    ],
)
def test_a_key_for_nobody_is_refused(
    runner: CommandRunner, words: tuple[str, ...], why: str
) -> None:
    assert why in runner.error_of(keys, "create", *words)
    assert len(runner.open().teams.all()) == 1


def test_a_key_is_listed_and_revoked_once(runner: CommandRunner) -> None:
    runner.said(keys, "create", "--team", "acme-support", "--name", "first", "--feature", "chat")
    listed = runner.said(keys, "list")
    (key,) = re.findall(r"key_\w+", listed)

    assert "first" in listed
    assert f"Key {key} is revoked." in runner.said(keys, "revoke", key)
    assert "no open key" in runner.error_of(keys, "revoke", key)
    assert "revoked" in runner.said(keys, "list")


def test_a_team_is_made_once(runner: CommandRunner) -> None:
    assert "already" in runner.error_of(teams, "create", "acme-support")
    assert "has the id team_" in runner.said(teams, "create", "other", "--keep-prompts")
    assert "yes" in runner.said(teams, "list")


def test_a_teams_prompts_are_kept_from_now_on_or_no_more(runner: CommandRunner) -> None:
    runner.said(teams, "create", "zebra")
    assert "prompts are kept" in runner.said(teams, "prompts", "zebra", "keep")
    assert runner.said(teams, "list").splitlines()[-1].endswith("yes")
    assert "prompts are not kept" in runner.said(teams, "prompts", "zebra", "drop")
    assert runner.said(teams, "list").splitlines()[-1].endswith("no")
    assert "no team named nobody" in runner.error_of(teams, "prompts", "nobody", "keep")


@pytest.fixture
def fresh(tmp_path: Path) -> CommandRunner:
    """A command line before there is a team."""
    return CommandRunner(tmp_path, START)


def new_team(fresh: CommandRunner, name: str) -> str:
    """The id of a new team."""
    store = fresh.open()
    created = store.teams.create(name, now=START)
    store.close(5)
    return created.id


def test_a_users_hash_is_the_one_that_the_report_by_user_shows(fresh: CommandRunner):
    store = fresh.open()
    created = store.teams.create("acme", now=START)
    sealed = Pseudonymizer(store.secret).pseudonym(created.id, b"ann@example.test")
    store.close(5)
    fresh.keep(a_receipt(team=created.id, user=sealed))

    printed = fresh.said(users, "hash", "ann@example.test").strip()

    assert printed == sealed
    assert printed in fresh.said(
        single_command(lambda terminal: report(terminal, two_model_catalog)), "--by", "user"
    )


def test_each_team_has_a_hash_of_its_own_for_a_user(fresh: CommandRunner):
    for name in ("acme", "other"):
        new_team(fresh, name)

    output = fresh.said(users, "hash", "ann")
    hashes = dict(re.findall(r"^(\w+) +([0-9a-f]{32})$", output, re.MULTILINE))

    assert set(hashes) == {"acme", "other"}
    assert hashes["acme"] != hashes["other"]
    assert fresh.said(users, "hash", "ann", "--team", "other").strip() == hashes["other"]


def test_the_hash_of_a_user_before_there_is_a_team_says_what_makes_one(fresh: CommandRunner):
    error = fresh.error_of(users, "hash", "ann")

    assert error.startswith("There is no team yet")
    assert "`thriftgate key create --team NAME`" in error


@pytest.mark.parametrize(
    ("words", "why"),
    [(("ann", "--team", "nobody"), "There is no team named nobody"), (("",), "The name is empty")],
)
def test_a_user_or_team_that_is_none_is_refused(
    fresh: CommandRunner, words: tuple[str, ...], why: str
):
    new_team(fresh, "acme")

    assert why in fresh.error_of(users, "hash", *words)


def test_a_key_is_made_with_an_end_and_models_of_its_own(runner: CommandRunner) -> None:
    limits = ("--expires", "90d", "--model", "small", "--model", "big")
    runner.said(keys, "create", "--team", "acme-support", *limits)

    assert "open until " in (shown := runner.said(keys, "list"))
    assert "big, small" in shown
    why = runner.error_of(keys, "create", "--team", "acme-support", "--expires", "soon")
    assert "--expires soon: write a time span, such as 12h or 90d." in why


def test_a_model_that_the_catalog_does_not_have_is_noted(runner: CommandRunner) -> None:
    options = ("create", "--team", "acme-support", "--model")
    output = runner.said(keys, *options, "gpt-5.6-tera", "--model", "gpt-5.6-luna")

    assert "Note: the catalog has no model gpt-5.6-tera; check its name." in " ".join(
        output.split()
    )
    assert "gpt-5.6-terra" in output
    assert "no model gpt-5.6-luna" not in output
    assert "Note" not in runner.said(keys, *options, "gpt-5.6-terra")
    assert "Note" not in runner.said(keys, *options, "gpt-nope", "--quiet")


def test_commands_are_written_down_with_the_account_that_ran_them(
    runner: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "mei")
    runner.said(keys, "create", "--team", "else")

    changes = list(runner.open().audit.entries(10))
    assert {(change.who, change.action) for change in changes if change.who == "mei"} == {
        ("mei", "create key"),
        ("mei", "create team"),
    }
