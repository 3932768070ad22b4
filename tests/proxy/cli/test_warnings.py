from dataclasses import replace

import pytest

from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model, Route
from proxy.catalog.families import Family, UnlistedModels
from proxy.cli.warnings import (
    assumptions,
    known_keys_obstacle,
    read_accounts,
)
from proxy.pages.policy_warnings import Accounts
from proxy.settings import Settings
from proxy.store.store import Store
from slo.policies.file import Policies
from tests.fakes.admission_harness import budget
from tests.fakes.call_dependencies import route

KNOWN = replace(
    route("one"), window=1000, max_output=100, can=frozenset({"tools", "schema", "vision"})
)


def catalog(**models: tuple[Route, ...]) -> Catalog:
    known_models = {name: Model(id=name, routes=routes) for name, routes in models.items()}
    return Catalog(models=known_models, upstreams={}, default=KNOWN)


def test_accounts_are_read_where_there_is_a_database_and_none_is_made(tmp_path):
    url = f"sqlite:///{tmp_path}/made/thriftgate.db"

    assert read_accounts(url) == Accounts()
    assert not (tmp_path / "made").exists()
    store = Store.open(url, tmp_path / "journal")
    acme = store.teams.create("acme", now=0.0)
    key, _ = store.teams.create_key(acme.id, "ci", now=0.0)
    store.close(5)
    assert read_accounts(url) == Accounts({"acme"}, {key.id})


@pytest.mark.parametrize("text", [b"", b"no database at all, but a text of some length"])
def test_accounts_of_a_file_that_is_no_ledger_are_unknown(tmp_path, text):
    (tmp_path / "other.db").write_bytes(text)

    assert read_accounts(f"sqlite:///{tmp_path}/other.db") is None


def test_a_database_that_is_away_is_passed_over():
    assert read_accounts("postgresql://me:secret@127.0.0.1:1/ledger") is None


def test_assumptions_about_models_are_reported_with_the_upstreams_of_unlisted_ones():
    upstream = KNOWN.upstream
    passing = UnlistedModels(
        families=(Family(names="new-*", upstream=upstream),), upstreams={upstream.name: upstream}
    )
    changed = replace(catalog(m=(KNOWN,)), assumed=("new-1",), passing=passing)

    assumed, passed = assumptions(changed)
    assert "traits of new-1 are assumed" in assumed
    assert "pass to one, at no known price" in passed
    assert list(assumptions(catalog(m=(KNOWN,)))) == []
    newest = replace(KNOWN, assumed_price_of="m-1")
    (priced,) = assumptions(replace(catalog(m=(newest,))))
    assert "prices of m (as m-1) are assumed" in priced


POSTGRES = "postgresql://db/ledger"


@pytest.mark.parametrize(
    ("fields", "has_budgets", "why"),
    [
        ({}, False, ""),
        ({"serve_known_keys": "off", "database_url": POSTGRES}, True, ""),
        ({"serve_known_keys": "24h"}, False, "the ledger is a SQLite file, which is never away"),
        ({"serve_known_keys": "24h", "database_url": POSTGRES}, False, ""),
        ({"serve_known_keys": "24h", "database_url": POSTGRES}, True, "THRIFTGATE_REDIS_URL"),
        (
            {"serve_known_keys": "24h", "database_url": POSTGRES, "redis_url": "redis://there"},
            True,
            "",
        ),
    ],
)
def test_known_keys_are_not_served_where_that_is_not_needed_or_budgets_are_at_risk(
    fields, has_budgets, why
):
    policies = Policies(budgets=(budget(),) if has_budgets else ())
    obstacle = known_keys_obstacle(Settings(**fields), policies)

    assert why in obstacle if why else obstacle == ""
