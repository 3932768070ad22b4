"""Models, prices and aliases of pages between the shipped catalog and the operator's file."""

from pathlib import Path

import pytest
from sqlalchemy import text

from proxy.configuration import PageProblem, Snapshot, read_snapshot
from proxy.services.catalog_overlay import CatalogOverlay, DisabledRoutesOverlay, entry_text
from proxy.settings import Settings
from proxy.store.sql.database import write_transaction
from proxy.store.sql.settings.stored_policies import DISABLED_ROUTES
from proxy.store.store import Store
from slo.policies.file import Policies
from tests.fakes.call_dependencies import catalog

PRICE = {"name": "gpt-5.4", "price": {"input": "7", "output": "9"}}
GONE = {"name": "house", "routes": [{"upstream": "gone"}]}
ALIAS = {"name": "fast of acme", "team": "acme", "alias": "fast", "model": "gpt-5.4"}
BROKEN = {"name": "slow of acme", "team": "acme", "alias": "slow", "model": "nothing"}


@pytest.fixture
def snapshot() -> Snapshot:
    return read_snapshot(Settings())


def input_price(snapshot: Snapshot) -> int | None:
    tariff = snapshot.catalog.models["gpt-5.4"].routes[0].tariff
    return None if tariff is None else tariff.periods[0].sheets[""].rates.input


def test_prices_of_pages_go_over_the_shipped_ones(store: Store, snapshot: Snapshot) -> None:
    store.policies.set("models", PRICE, "ann", 0.0)

    assert input_price(CatalogOverlay(store.policies).add_to(snapshot)) == 7_000_000_000
    assert input_price(snapshot) == 2_500_000_000


def test_prices_of_the_operators_file_go_over_those_of_pages(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "catalog.toml"
    file.write_text('[[models]]\nid = "gpt-5.4"\nprice = { input = "8", output = "9" }\n')
    store.policies.set("models", PRICE, "ann", 0.0)
    snapshot = read_snapshot(Settings(catalog=file))

    assert input_price(CatalogOverlay(store.policies).add_to(snapshot)) == 8_000_000_000


def test_an_entry_that_cannot_hold_is_left_out_and_the_others_hold(
    store: Store, snapshot: Snapshot, caplog: pytest.LogCaptureFixture
) -> None:
    store.policies.set("models", PRICE, "ann", 0.0)
    store.policies.set("models", GONE, "ann", 0.0)
    store.policies.set("model_aliases", ALIAS, "ann", 0.0)
    store.policies.set("model_aliases", BROKEN, "ann", 0.0)
    changed = CatalogOverlay(store.policies).add_to(snapshot)

    assert input_price(changed) == 7_000_000_000
    assert "house" not in changed.catalog.models
    assert changed.catalog.team_aliases["acme"].targets == {"fast": "gpt-5.4"}
    assert "gone" in caplog.text


def test_the_snapshot_says_which_entries_are_left_out_and_why(
    store: Store, snapshot: Snapshot
) -> None:
    for fields in (PRICE, GONE):
        store.policies.set("models", fields, "ann", 0.0)
    store.policies.set("model_aliases", BROKEN, "ann", 0.0)
    problems = CatalogOverlay(store.policies).add_to(snapshot).page_problems

    assert problems.keys() == {("models", "house"), ("model_aliases", "slow of acme")}
    assert 'upstream names "gone", which is not known' in problems["models", "house"].reason
    assert 'it names "nothing"' in problems["model_aliases", "slow of acme"].reason


def test_a_faulty_entry_takes_none_with_it_whose_name_is_part_of_its_own(
    store: Store, snapshot: Snapshot
) -> None:
    for alias, model in (("gpt-4o", "nothing"), ("gpt", "gpt-5.4"), ("o", "gpt-5.4")):
        fields = {"name": f"{alias} of acme", "team": "acme", "alias": alias, "model": model}
        store.policies.set("model_aliases", fields, "ann", 0.0)
    like = {"like": "gpt-5.4"}
    store.policies.set("models", {"name": "house", **like}, "ann", 0.0)
    store.policies.set("models", {"name": "house.old", **like, "window": "much"}, "ann", 0.0)
    changed = CatalogOverlay(store.policies).add_to(snapshot)

    assert changed.catalog.team_aliases["acme"].targets == {"gpt": "gpt-5.4", "o": "gpt-5.4"}
    assert ("house" in changed.catalog.models, "house.old" in changed.catalog.models) == (
        True, False,
    )  # fmt: skip


def test_the_snapshot_says_what_the_operators_file_says_otherwise(
    store: Store, tmp_path: Path
) -> None:
    file = tmp_path / "catalog.toml"
    file.write_text(
        '[[models]]\nid = "gpt-5.4"\nprice = { input = "8", output = "9" }\n'
        '[teams.acme.model_aliases]\nfast = "gpt-5.4-mini"\n'
    )
    store.policies.set("models", {**PRICE, "fallbacks": ["gpt-5.4-mini"]}, "ann", 0.0)
    store.policies.set("model_aliases", ALIAS, "ann", 0.0)
    changed = CatalogOverlay(store.policies).add_to(read_snapshot(Settings(catalog=file)))

    assert changed.page_problems == {
        ("models", "gpt-5.4"): PageProblem("the catalog file says price", is_left_out=False),
        ("model_aliases", "fast of acme"): PageProblem("the catalog file says the alias"),
    }


def test_without_entries_the_snapshot_stays_the_same(store: Store, snapshot: Snapshot) -> None:
    overlay = CatalogOverlay(store.policies)
    store.policies.set("ceilings", {"name": "cent", "limit": "1"}, "ann", 0.0)

    assert overlay.add_to(snapshot) is snapshot
    made = Snapshot(catalog(), Policies())
    store.policies.set("models", PRICE, "ann", 0.0)
    assert overlay.add_to(made) is made


def test_an_entry_is_written_by_its_kind() -> None:
    assert entry_text("model_aliases", ALIAS).startswith("[teams.acme.model_aliases]")
    assert entry_text("models", PRICE).startswith('[[models]]\nid = "gpt-5.4"\n\n[models.price]\n')


def disabled_route_names(snapshot: Snapshot) -> list[str]:
    models = snapshot.catalog.models.values()
    return [route.name for model in models for route in model.routes if route.is_disabled]


def disable(store: Store, name: str, until: float | None = None) -> None:
    fields = {"name": name, "until": until, "why": "slow"}
    store.policies.set(DISABLED_ROUTES, fields, "ann", 5.0)


def test_a_route_or_a_model_is_disabled_until_it_is_enabled(
    store: Store, snapshot: Snapshot
) -> None:
    route = snapshot.catalog.models["gpt-5.4"].routes[0].name
    for name in (f"route {route}", "model gpt-5.4"):
        disable(store, name)
        overlay = DisabledRoutesOverlay(store.policies, lambda: 10.0)  # as after a restart
        changed = overlay.add_to(snapshot)

        assert disabled_route_names(changed) == [route]
        (one,) = changed.disabled_routes
        assert (one.key, one.who, one.why, one.since) == (name, "ann", "slow", 5.0)
        store.policies.remove(DISABLED_ROUTES, name, "ann", 10.0)
        assert disabled_route_names(overlay.add_to(snapshot)) == []


def test_a_route_disabled_for_a_time_is_enabled_by_another_revision(
    store: Store, snapshot: Snapshot
) -> None:
    disable(store, "model gpt-5.4", until=20.0)
    now = 10.0
    overlay = DisabledRoutesOverlay(store.policies, lambda: now)
    assert disabled_route_names(overlay.add_to(snapshot)) != []
    before, now = overlay.revision(), 20.0

    assert overlay.revision() != before
    assert disabled_route_names(overlay.add_to(snapshot)) == []


def test_a_disabled_route_stays_disabled_while_the_database_is_away(
    store: Store, snapshot: Snapshot
) -> None:
    disable(store, "model gpt-5.4")
    overlay = DisabledRoutesOverlay(store.policies, lambda: 10.0)
    overlay.add_to(snapshot)
    with write_transaction(store._engine) as connection:
        connection.execute(text("DROP TABLE stored_policies"))

    assert disabled_route_names(overlay.add_to(snapshot)) != []
