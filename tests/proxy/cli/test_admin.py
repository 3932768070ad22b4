"""People are added, listed and changed by commands, and links sign them in."""

import re
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import typer

from dashboards.access import Role
from proxy.cli.admin import admin, deploy_command
from proxy.cli.terminal import Terminal
from proxy.settings import Settings
from tests.fakes.cli_runner import CommandRunner
from tests.fakes.receipts import START

commands = partial(admin, settings=lambda: Settings(public_url="https://gateway.example"))


@pytest.fixture
def runner(tmp_path: Path) -> CommandRunner:
    command_runner = CommandRunner(tmp_path, START)
    command_runner.open().teams.create("acme", now=START)
    return command_runner


def code(output: str) -> str:
    link = r"^https://gateway\.example/admin/sign-in\?code=([\w-]{43})$"
    match = re.search(link, output, re.MULTILINE)
    assert match is not None
    return match[1]


def test_a_link_makes_the_first_administrator_and_signs_in_once(runner: CommandRunner) -> None:
    output = runner.said(commands, "link")
    assert "It signs admin in once, within 15 minutes." in output

    users = runner.open().users
    user = users.redeem_link(code(output), START + 1)
    assert user is not None
    assert (user.name, user.role) == ("admin", Role.ADMIN)
    assert users.redeem_link(code(output), START + 1) is None
    assert runner.said(commands, "link", "--quiet").count("\n") == 1


def test_a_person_is_added_with_teams_and_gets_a_link(runner: CommandRunner) -> None:
    output = runner.said(commands, "user", "add", "ann", "--role", "team-admin", "--team", "acme")
    assert runner.open().users.redeem_link(code(output), START + 1) is not None

    (row,) = [line for line in runner.said(commands, "user", "list").split("\n") if "ann" in line]
    assert re.match(r"ann +team-admin +acme +link .* active", row)


def test_a_role_changes_and_a_person_is_disabled_and_enabled(runner: CommandRunner) -> None:
    runner.said(commands, "user", "add", "root", "--role", "admin")
    runner.said(commands, "user", "add", "ann", "--team", "acme")
    assert runner.said(commands, "user", "role", "ann", "finance") == "ann is finance now.\n"
    runner.said(commands, "user", "disable", "ann")
    assert "disabled" in runner.said(commands, "user", "list")
    assert "is disabled" in runner.error_of(commands, "link", "--user", "ann")
    runner.said(commands, "user", "disable", "ann", "--undo")

    ann = runner.open().users.find("ann")
    assert ann is not None
    assert (ann.role, ann.is_disabled) == (Role.FINANCE, False)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("link", "--user", "bob"), "There is no person named 'bob'"),
        (("user", "role", "bob", "admin"), "There is no person named bob."),
        (("user", "disable", "root"), "'root' is the last administrator"),
        (("user", "add", "root", "--role", "admin"), "There is a person named 'root' already"),
        (("user", "add", "ann"), "A viewer sees own teams alone: name one or more by --team."),
        (("user", "add", "ann", "--team", "none"), "There is no team named none."),
    ],
)
def test_mistakes_say_what_to_do(runner: CommandRunner, words: tuple[str, ...], why: str) -> None:
    runner.said(commands, "user", "add", "root", "--role", "admin")

    assert why in runner.error_of(commands, *words)


def deploy(terminal: Terminal) -> typer.Typer:
    commands = typer.Typer()
    commands.command()(deploy_command(terminal))
    return commands


def test_a_deploy_is_marked_at_its_time(runner: CommandRunner) -> None:
    at = datetime.fromtimestamp(START, UTC).replace(second=0) - timedelta(days=1)
    said = runner.said(deploy, "shop 4.2", "--at", f"{at:%Y-%m-%dT%H:%M}")

    assert said == f"shop 4.2 is marked at {at:%Y-%m-%d %H:%M} UTC.\n"
    (entry,) = runner.open().audit.entries(2, actions=["deploy"])
    assert (entry.subject, entry.at) == ("shop 4.2", START)
    assert entry.after == {"at": at.timestamp()}


def test_a_deploy_of_long_ago_is_not_marked(runner: CommandRunner) -> None:
    why = runner.error_of(deploy, "shop 4.2", "--at", "2020-10-01T03:00")
    assert why == "A deploy is marked within 30 days after it."
