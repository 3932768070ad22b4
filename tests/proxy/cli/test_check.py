"""``thriftgate check`` names the line and the fix of all that is wrong, and notes what may be."""

import json
import re
import sys
from pathlib import Path

import pytest

from proxy.cli import session
from proxy.cli.testing.simulated_upstream import simulated_upstream
from proxy.settings import Settings
from tests.proxy.cli.typed_commands import command_error, command_output

pytestmark = pytest.mark.usefixtures("folder")


def test_check_says_that_the_catalog_is_sound():
    assert re.search(r"sound: \d+ models, \d+ upstreams", command_output("check"))


def test_check_prints_one_document_of_what_is_sound(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    document = json.loads(command_output("check", "--json"))

    assert (document["sound"], document["policies"]["budget"]) == (True, 0)
    assert document["models"] > 50
    assert any(
        "no key is set for anthropic (ANTHROPIC_API_KEY)" in note for note in document["notes"]
    )


def test_a_mistake_is_a_text_with_json_too(tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text("[[models]]\n")

    assert "mine.toml" in command_error("check", "--json", catalog=str(mine))


def test_check_shows_the_limit_of_open_files_and_notes_one_that_is_too_low():
    assert re.search(
        r"Open files: at most [\d,]+; clients may hold [\d,]+ conn", command_output("check")
    )
    assert "too few for THRIFTGATE_MAX_CALLS=900000000" in command_output(
        "check", max_calls="900000000"
    )


def test_check_notes_which_upstreams_have_no_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    output = command_output("check")

    assert "Note: no key is set for anthropic (ANTHROPIC_API_KEY)" in output
    assert "OPENAI_API_KEY" not in output


def test_check_notes_models_whose_price_leaves_out_cache_writes(tmp_path: Path):
    mine = tmp_path / "mine.toml"
    model = '[[models]]\nid = "{}"\nupstream = "anthropic"\n'
    model += 'price = {{ input = "3", output = "15"{} }}\n'
    mine.write_text(
        model.format("claude-sonnet-mine", "")
        + model.format("claude-sonnet-ours", ', cache_read = "0.3", write_5m = "3.75"')
    )
    output = command_output("check", catalog=str(mine))

    assert "prices of claude-sonnet-mine leave out cache writes" in output
    assert "leave out cache writes" not in command_output("check")


def test_check_asks_for_no_keys_where_calls_are_simulated(folder: Path):
    with simulated_upstream(Settings(folder=folder), session.shipped_catalog(), lambda: 0.0) as it:
        output = command_output("check", folder=str(it.folder))

    assert "Note: a simulator answers the calls of this folder" in output
    assert "no key is set" not in output


def test_check_notes_which_upstreams_have_no_credentials_and_where_they_are_looked_for(
    tmp_path, monkeypatch
):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none"))
    mine = tmp_path / "mine.toml"
    mine.write_text(
        '[upstreams.aws]\nkind = "anthropic-bedrock"\n'
        'base_url = "https://bedrock-runtime.us-east-1.amazonaws.com"\n'
        '[upstreams.gcp]\nkind = "anthropic-vertex"\n'
        'base_url = "https://aiplatform.googleapis.com/v1/projects/p/locations/global"\n'
    )
    output = command_output("check", catalog=str(mine))

    assert "Note: upstreams.aws has no credentials, so its calls would fail: set AWS_ACC" in output
    assert "Note: upstreams.gcp has no credentials, so its calls would fail: set GOOGLE_" in output
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    assert "'thriftgate[bedrock]'" in command_output("check", catalog=str(mine))


def test_check_notes_what_may_not_do_what_was_meant(tmp_path):
    policies = tmp_path / "policies.toml"
    policies.write_text(
        "[[budgets]]\n"
        'name = "b"\nscope = "team"\nof = "acmee"\nunit = "usd"\nwindow = "day"\nlimit = "1"\n'
    )
    command_output("team", "create", "acme")
    output = command_output("check", policies=str(policies))

    assert "Note: budgets.b.of: there is no team acmee; did you mean acme?" in output


def test_check_fails_where_postgresql_or_redis_does_not_answer_unless_it_is_offline():
    away = {
        "database_url": "postgresql://me:secret@127.0.0.1:1/ledger",
        "redis_url": "redis://:secret@127.0.0.1:1/0",
    }
    error = command_error("check", **away)

    assert "THRIFTGATE_DATABASE_URL: the database cannot be reached: " in error
    assert "THRIFTGATE_REDIS_URL: Redis cannot be reached" in error
    assert "secret" not in error
    assert "are sound" in command_output("check", "--offline", **away)


def test_check_names_a_team_that_is_not_there_before_the_first_start(tmp_path):
    policies = tmp_path / "policies.toml"
    policies.write_text(
        "[[budgets]]\n"
        'name = "b"\nscope = "team"\nof = "nobody"\nunit = "usd"\nwindow = "day"\nlimit = "1"\n'
    )

    assert "Note: budgets.b.of: there is no team nobody" in command_output(
        "check", policies=str(policies)
    )


def test_check_makes_no_database(folder):
    command_output("check")

    assert not folder.exists()


def test_check_names_line_and_fix_of_a_bad_catalog(tmp_path):
    bad = tmp_path / "mine.toml"
    bad.write_text('[upstreams.mine]\nkind = "openai"\nbase_url = "up"\n')

    error = command_error("check", catalog=str(bad))

    assert "mine.toml:3" in error
    assert "https://" in error


@pytest.mark.parametrize("command", [("check",), ("serve",)])
def test_a_catalog_that_is_not_there_is_reported(command, tmp_path):
    error = command_error(*command, catalog=str(tmp_path / "none.toml"))

    assert "none.toml" in error
    assert "THRIFTGATE_CATALOG" in error


@pytest.mark.parametrize("command", ["check", "serve"])
@pytest.mark.parametrize("name", ["catalog", "policies"])
def test_a_file_that_is_no_text_is_reported_with_its_line(command, name, tmp_path):
    strange = tmp_path / "strange.toml"
    strange.write_bytes("# ü\n# é\n".encode("latin-1"))
    error = command_error(command, **{name: str(strange)})

    assert "strange.toml:1: " in error
    assert "is not UTF-8: byte 0xfc stands here; save the file as UTF-8" in error


def test_a_database_of_no_known_kind_is_found_by_check():
    assert "THRIFTGATE_DATABASE_URL" in command_error("check", database_url="mysql://x/y")


def policies_with_objective(folder: Path, ladder: str) -> str:
    """A policies file with one objective."""
    table = '[[objectives]]\nname = "o"\nmetric = "errors"\nat_most = "1%"\nenforce = "degrade"\n'
    (folder / "policies.toml").write_text(f"{table}ladder = {ladder}\n")
    return str(folder / "policies.toml")


def test_objectives_are_checked_shown_and_exported(tmp_path):
    policies = policies_with_objective(tmp_path, '["elsewhere", "gpt-5.6-terra"]')

    assert "upstreams, 1 objective." in command_output("check", policies=policies)
    assert "at most 1%" in command_output("objectives", policies=policies)
    assert "openslo/v1" in command_output("objectives", "export", policies=policies)


@pytest.mark.parametrize("command", ["check", "serve"])
def test_a_ladder_to_nowhere_is_reported(command, tmp_path):
    error = command_error(command, policies=policies_with_objective(tmp_path, '["gpt-5.6-tera"]'))

    assert "policies.toml:6: objectives.o.ladder[0]: names gpt-5.6-tera" in error
    assert "did you mean gpt-5.6-terra?" in error


def test_check_notes_where_known_keys_are_to_be_served_and_never_are():
    output = command_output("check", serve_known_keys="24h")

    assert "THRIFTGATE_SERVE_KNOWN_KEYS does nothing: the ledger is a SQLite file" in output
    assert "THRIFTGATE_SERVE_KNOWN_KEYS" not in command_output("check")
