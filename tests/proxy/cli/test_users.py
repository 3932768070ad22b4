import re
from pathlib import Path

import pytest

from proxy.calls.settlement import Pseudonymizer
from proxy.cli.report import report
from proxy.cli.users import users
from tests.fakes.cli_runner import CommandRunner, single_command
from tests.fakes.receipts import START, a_receipt


@pytest.fixture
def typed(tmp_path: Path) -> CommandRunner:
    return CommandRunner(tmp_path, START)


def team(typed: CommandRunner, name: str) -> str:
    """The id of a new team."""
    store = typed.open()
    made = store.teams.create(name, now=START)
    store.close(5)
    return made.id


def test_a_users_hash_is_the_one_that_the_report_by_user_shows(typed: CommandRunner):
    store = typed.open()
    made = store.teams.create("acme", now=START)
    sealed = Pseudonymizer(store.secret).pseudonym(made.id, b"ann@example.test")
    store.close(5)
    typed.keep(a_receipt(team=made.id, user=sealed))

    said = typed.said(users, "hash", "ann@example.test").strip()

    assert said == sealed
    assert said in typed.said(single_command(report), "--by", "user")


def test_each_team_has_a_hash_of_its_own(typed: CommandRunner):
    for name in ("acme", "other"):
        team(typed, name)

    said = typed.said(users, "hash", "ann")
    found = dict(re.findall(r"^(\w+) +([0-9a-f]{32})$", said, re.MULTILINE))

    assert set(found) == {"acme", "other"}
    assert found["acme"] != found["other"]
    assert typed.said(users, "hash", "ann", "--team", "other").strip() == found["other"]


def test_before_there_is_a_team_it_says_what_makes_one(typed: CommandRunner):
    said = typed.refused(users, "hash", "ann")

    assert said.startswith("There is no team yet")
    assert "`thriftgate key create --team NAME`" in said


@pytest.mark.parametrize(
    ("words", "why"),
    [(("ann", "--team", "nobody"), "There is no team named nobody"), (("",), "The name is empty")],
)
def test_a_name_or_team_that_is_none_is_refused(
    typed: CommandRunner, words: tuple[str, ...], why: str
):
    team(typed, "acme")

    assert why in typed.refused(users, "hash", *words)
