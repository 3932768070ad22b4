"""People are added, listed and changed by commands, and links sign them in."""

import re
from functools import partial
from pathlib import Path

import pytest

from dashboards.access import Role
from proxy.cli.admin import admin
from proxy.settings import Settings
from tests.fakes.cli_runner import CommandRunner
from tests.fakes.receipts import START

commands = partial(admin, settings=lambda: Settings(public_url="https://gateway.example"))


@pytest.fixture
def runner(tmp_path: Path) -> CommandRunner:
    made = CommandRunner(tmp_path, START)
    made.open().teams.create("acme", now=START)
    return made


def code(said: str) -> str:
    link = r"^https://gateway\.example/admin/sign-in\?code=([\w-]{43})$"
    found = re.search(link, said, re.MULTILINE)
    assert found is not None
    return found[1]


def test_a_link_makes_the_first_administrator_and_signs_in_once(runner: CommandRunner) -> None:
    said = runner.said(commands, "link")
    assert "It signs admin in once, within 15 minutes." in said

    users = runner.open().users
    found = users.redeem_link(code(said), START + 1)
    assert found is not None
    assert (found.name, found.role) == ("admin", Role.ADMIN)
    assert users.redeem_link(code(said), START + 1) is None
    assert runner.said(commands, "link", "--quiet").count("\n") == 1


def test_a_person_is_added_with_teams_and_gets_a_link(runner: CommandRunner) -> None:
    said = runner.said(commands, "user", "add", "ann", "--role", "team-admin", "--team", "acme")
    assert runner.open().users.redeem_link(code(said), START + 1) is not None

    (row,) = [each for each in runner.said(commands, "user", "list").split("\n") if "ann" in each]
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
