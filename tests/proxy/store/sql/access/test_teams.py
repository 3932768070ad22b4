import pytest
from sqlalchemy import Engine

from proxy.store.sql import schema
from proxy.store.sql.access.teams import KEY_LENGTH, Teams, token_hash
from proxy.store.sql.database import read_transaction

NOW = 1_790_000_000.25


@pytest.fixture
def teams(engine: Engine) -> Teams:
    return Teams(engine)


def test_teams_are_listed_by_name(teams: Teams) -> None:
    support = teams.create("support", now=NOW, keeps_prompts=True)
    coding = teams.create("coding", now=NOW)

    assert teams.all() == [coding, support]


def test_a_name_is_given_once(teams: Teams) -> None:
    teams.create("support", now=NOW)

    with pytest.raises(ValueError, match="a team named 'support' already"):
        teams.create("support", now=NOW)


def test_a_keys_secret_is_reported_once_and_stored_nowhere(engine: Engine, teams: Teams) -> None:
    team = teams.create("support", now=NOW)
    key, secret = teams.create_key(team.id, "ann's laptop", now=NOW, feature="chat")

    assert secret.startswith("tg-")
    assert len(secret) == KEY_LENGTH == 43
    assert key.hint == secret[-4:]
    assert teams.keys(team.id) == [key]
    with read_transaction(engine) as connection:
        row = connection.execute(schema.keys.select()).one()
    assert bytes(row.hash) == token_hash(secret)
    assert secret[3:-4] not in str(row)


def test_a_key_needs_a_team(teams: Teams) -> None:
    with pytest.raises(ValueError, match="no team with the id 'team_x'"):
        teams.create_key("team_x", "", now=NOW)


def test_a_key_is_revoked_once(teams: Teams) -> None:
    team = teams.create("support", now=NOW)
    key, _ = teams.create_key(team.id, "", now=NOW)

    assert teams.revoke(key.id, now=NOW + 1) is True
    assert teams.revoke(key.id, now=NOW + 2) is False
    assert teams.keys(team.id)[0].revoked_at == NOW + 1


def test_a_team_opts_in_to_keeping_prompts_and_out_again(teams: Teams) -> None:
    team = teams.create("support", now=NOW)
    teams.keep_prompts(team.id, keeps=True, now=NOW)
    opted_in = teams.all()[0].keeps_prompts
    teams.keep_prompts(team.id, keeps=False, now=NOW)

    assert opted_in
    assert not teams.all()[0].keeps_prompts
    assert teams.keep_prompts("team_x", keeps=True, now=NOW) is False
