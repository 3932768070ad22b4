import re
from datetime import timedelta
from decimal import Decimal
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from compaction.policy import CompactionMode as Compaction
from proxy.errors import OperatorError
from proxy.records.feature_mode import PlanningMode
from proxy.settings import PREFIX, Settings, descriptions, engine_environment, read, upstream_keys

#: Every setting with a value that is not its default, as text and as read.
VALUES: dict[str, tuple[str, Any]] = {
    "host": ("0.0.0.0", "0.0.0.0"),  # noqa: S104 - a value, nobody listens
    "port": ("0", 0),
    "folder": ("/srv/x", Path("/srv/x")),
    "database_url": ("postgres://db/x", "postgres://db/x"),
    "catalog": ("mine.toml", Path("mine.toml")),
    "policies": ("policies.toml", Path("policies.toml")),
    "engines": ("engines.toml", Path("engines.toml")),
    "region": ("eu", "eu"),
    "otlp_endpoint": ("http://collector:4318", "http://collector:4318"),
    "redis_url": ("redis://cache:6379/0", "redis://cache:6379/0"),
    "pass_unlisted_models": ("false", False),
    "private_budgets": ("1", True),
    "serve_known_keys": ("24h", timedelta(hours=24)),
    "body_limit": ("1000", 1000),
    "bodies_limit": ("2048", 2048),
    "max_calls": ("7", 7),
    "connections": ("8", 8),
    "connections_per_address": ("9", 9),
    "header_timeout": ("2.5", 2.5),
    "body_min_rate": ("100", 100.0),
    "body_rate_window": ("3", 3.0),
    "keep_alive_timeout": ("620", 620),
    "connect_timeout": ("0.5", 0.5),
    "first_byte_timeout": ("9", 9.0),
    "stall_timeout": ("10", 10.0),
    "retries": ("0", 0),
    "retry_wait": ("0", 0.0),
    "shared_provider_state": ("true", True),
    "planning": ("observe", PlanningMode.OBSERVE),
    "compaction": ("facts", Compaction.FACTS),
    "control_share": ("0.2", 0.2),
    "planning_memory_mb": ("64", 64),
    "answer_cache_mb": ("16", 16),
    "answer_cache_redis_mb": ("64", 64),
    "learning_stake": ("0.5", 0.5),
    "own_cost_usd_month": ("120.50", Decimal("120.50")),
    "retention_days": ("30", 30),
    "drain_grace": ("1.5", 1.5),
    "oidc_issuer": ("https://idp.example/x", "https://idp.example/x"),
    "oidc_client_id": ("gateway", "gateway"),
    "oidc_client_secret": (" secret\n", SecretStr("secret")),
    "oidc_name": ("Acme", "Acme"),
    "oidc_groups_claim": ("roles", "roles"),
    "oidc_roles": ("ops=admin", "ops=admin"),
    "oidc_create_people": ("true", True),
    "public_url": ("https://gateway.example/", "https://gateway.example/"),
    "admin_token": (" an-admin-token-of-24-chars\n", SecretStr("an-admin-token-of-24-chars")),
    "smtp_url": ("smtp://u:p@mail.example\n", SecretStr("smtp://u:p@mail.example")),
    "mail_from": ("reports@example.com", "reports@example.com"),
    "trusted_proxies": ("10.0.0.0/8", (ip_network("10.0.0.0/8"),)),
    "cors_origins": (
        " https://App.example.com/,http://localhost:3000,",
        ("https://app.example.com", "http://localhost:3000"),
    ),
    "log_calls": ("1", True),
}
WRONG = {
    "port": "80000",
    "pass_unlisted_models": "perhaps",
    "private_budgets": "perhaps",
    "serve_known_keys": "24",
    "body_limit": "0",
    "bodies_limit": "0",
    "max_calls": "many",
    "connections": "-1",
    "connections_per_address": "0",
    "header_timeout": "0",
    "body_min_rate": "inf",
    "body_rate_window": "-1",
    "keep_alive_timeout": "1.5",
    "connect_timeout": "nan",
    "first_byte_timeout": "inf",
    "stall_timeout": "0",
    "retries": "11",
    "retry_wait": "-1",
    "shared_provider_state": "perhaps",
    "cors_origins": "app.example.com",
    "trusted_proxies": "app.example.com",
    "planning": "always",
    "answer_cache_mb": "0",
    "answer_cache_redis_mb": "0",
    "compaction": "model",
    "control_share": "5",
    "learning_stake": "-1",
    "own_cost_usd_month": "-1",
    "retention_days": "1.5",
    "drain_grace": "",
    "log_calls": "2",
}


def variable(name: str) -> str:
    return PREFIX + name.upper()


def test_every_setting_is_tried_here():
    assert set(VALUES) == set(Settings.model_fields)


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_read_from_the_variable_of_its_name(name):
    text, value = VALUES[name]
    settings = read({variable(name): text, "PATH": "/bin"})

    assert getattr(settings, name) == value
    assert getattr(settings, name) != getattr(Settings(), name)
    others = set(Settings.model_fields) - {name}
    assert all(getattr(settings, other) == getattr(Settings(), other) for other in others)


@pytest.mark.parametrize(("name", "text"), WRONG.items())
def test_a_wrong_value_is_reported_with_its_variable(name, text):
    with pytest.raises(OperatorError, match=rf"{variable(name)}: .*\(got '{text}'\)"):
        read({variable(name): text})


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("port", "a whole number from 0 to 65535"),
        ("body_limit", "a whole number above 0"),
        ("control_share", "a number from 0 to 1"),
        ("retry_wait", "a number from 0"),
        ("log_calls", "true or false"),
        ("own_cost_usd_month", "an amount from 0 to 1000000"),
        ("serve_known_keys", "a duration such as 24h, or off"),
        (
            "cors_origins",
            "origins such as https://app.example.com with commas between them, or *",
        ),
        ("planning", "one of off, observe, apply, auto"),
        ("compaction", "one of off, trim, facts, facts+recall, native"),
    ],
)
def test_a_wrong_value_is_reported_in_words_with_what_it_is_for(name, needed):
    with pytest.raises(OperatorError) as caught:
        read({variable(name): "x"})

    text = descriptions()[name]
    assert str(caught.value) == f"{variable(name)}: it must be {needed} (got 'x'). {text}"


def test_all_wrong_values_are_reported_at_once():
    with pytest.raises(OperatorError) as caught:
        read({variable("port"): "x", variable("retries"): "y"})

    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize("name", ["THRIFTGATE_PROT", "thriftgate_port", "Thriftgate_Port"])
def test_an_unknown_name_is_reported_with_the_known_ones(name):
    with pytest.raises(
        OperatorError, match=f"Unknown setting {name}. Did you mean THRIFTGATE_PORT"
    ):
        read({name: "1"})


def test_a_setting_that_was_removed_is_refused_with_what_takes_its_place():
    message = (
        "Unknown setting THRIFTGATE_CACHE_MARKS_ON_CREDIT. It was removed: set"
        " THRIFTGATE_LEARNING_STAKE (US dollars; 0 for false) instead. Known: "
    )
    with pytest.raises(OperatorError, match=re.escape(message)):
        read({"THRIFTGATE_CACHE_MARKS_ON_CREDIT": "false"})


def test_settings_that_only_the_tests_read_are_known():
    tests = {"THRIFTGATE_TEST_POSTGRES": "postgres://x", "THRIFTGATE_TEST_REDIS": "redis://x"}

    assert read(tests) == Settings()


def test_the_environment_is_read_where_none_is_given(monkeypatch):
    monkeypatch.setenv("THRIFTGATE_PORT", "99")

    assert read().port == 99
    assert read({}).port == 8080
    assert Settings().port == 8080


def test_settings_are_frozen():
    with pytest.raises(ValidationError):
        Settings().port = 1


def test_every_setting_says_what_it_is_for():
    assert {name for name, text in descriptions().items() if text} == set(Settings.model_fields)


def test_upstreams_keys_are_read_where_they_are_set(monkeypatch):
    monkeypatch.setenv("A_KEY", "sk-1\n")
    monkeypatch.setenv("EMPTY_KEY", " ")
    monkeypatch.delenv("NO_KEY", raising=False)

    assert upstream_keys(["A_KEY", "EMPTY_KEY", "NO_KEY", ""]) == {"A_KEY": "sk-1"}


@pytest.mark.parametrize("token", ["hunter2", "a-secret-of-23-letters."])
def test_a_secret_that_is_too_short_is_refused_without_being_shown(token):
    with pytest.raises(OperatorError) as refused:
        read({"THRIFTGATE_ADMIN_TOKEN": token})

    assert "must be a secret text of 24 characters or more" in str(refused.value)
    assert token not in str(refused.value)


@pytest.mark.parametrize("token", ["", " \n"])
def test_a_secret_that_is_set_to_nothing_is_not_set(token):
    assert read({"THRIFTGATE_ADMIN_TOKEN": token}) == Settings()


def test_settings_that_are_printed_tell_no_secret():
    settings = read({"THRIFTGATE_ADMIN_TOKEN": "an-admin-token-of-24-chars"})

    assert "an-admin-token" not in f"{settings!r} {settings}"


def test_an_engine_gets_our_environment_without_settings_and_secrets(monkeypatch):
    monkeypatch.setenv("THRIFTGATE_DATABASE_URL", "postgresql://secret@db/ledger")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    environment = engine_environment(["OPENAI_API_KEY"])

    assert environment["HF_HUB_OFFLINE"] == "1"
    assert not {"THRIFTGATE_DATABASE_URL", "OPENAI_API_KEY"} & set(environment)


def test_trusted_proxies_are_addresses_and_networks():
    settings = read({"THRIFTGATE_TRUSTED_PROXIES": "10.0.0.0/8, 192.0.2.7,2001:db8::/32,"})

    assert list(map(str, settings.trusted_proxies)) == [
        "10.0.0.0/8", "192.0.2.7/32", "2001:db8::/32",
    ]  # fmt: skip
    assert read({"THRIFTGATE_TRUSTED_PROXIES": ""}).trusted_proxies == ()


@pytest.mark.parametrize(
    "networks",
    ["proxy.example", "10.0.0.5/8", "10.0.0.0/33", "*", "0.0.0.0/0", "::/0", "10.0.0.0 x"],
)
def test_trusted_proxies_that_are_no_addresses_or_all_are_refused(networks):
    with pytest.raises(OperatorError, match="THRIFTGATE_TRUSTED_PROXIES: it must be addresses"):
        read({"THRIFTGATE_TRUSTED_PROXIES": networks})
