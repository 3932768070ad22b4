"""Switches of the fast path over the policies of a file."""

from pathlib import Path

import pytest
from sqlalchemy import text

from proxy.configuration import Snapshot
from proxy.services.fast_path.setup import SwitchOverlay, switch_overlay
from proxy.settings import Settings
from proxy.store.sql.database import write_transaction
from proxy.store.store import Store
from slo.policies.drafts import DraftRule, drafting_model
from slo.policies.fast_path_switches import SwitchedPart
from slo.policies.file import Policies
from tests.fakes.call_dependencies import catalog

FILE = Snapshot(catalog(), Policies(drafts=(DraftRule(name="quick", model="gpt-mini"),)))


def switch_drafts_off(store: Store) -> None:
    team = store.teams.create("acme", now=0.0)
    store.fast_path_switches.turn_off((team.id, "chat"), SwitchedPart.DRAFTS, "ann", 0.0)


def drafts_in(snapshot: Snapshot, feature: str = "chat") -> str:
    return drafting_model(snapshot.policies.drafts, "acme", feature)


def test_a_stored_switch_stands_before_the_rules_of_the_file(store: Store) -> None:
    switch_drafts_off(store)

    snapshot = SwitchOverlay(store.fast_path_switches).add_to(FILE)

    assert (drafts_in(snapshot), drafts_in(snapshot, "other")) == ("", "gpt-mini")


def test_while_the_database_is_away_the_switches_read_last_stay(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    switch_drafts_off(store)
    overlay = SwitchOverlay(store.fast_path_switches)
    overlay.add_to(FILE)
    before = overlay.revision()
    with write_transaction(store._engine) as connection:
        connection.execute(text("DROP TABLE fast_path_switches"))

    assert overlay.revision() == before
    assert drafts_in(overlay.add_to(FILE)) == ""
    assert "Switches of the fast path stay as they were" in caplog.text


def test_until_the_switches_are_known_every_part_is_off(store: Store) -> None:
    overlay = SwitchOverlay(store.fast_path_switches)
    with write_transaction(store._engine) as connection:
        connection.execute(text("ALTER TABLE fast_path_switches RENAME TO away"))
    at_start, revision = overlay.add_to(FILE), overlay.revision()
    with write_transaction(store._engine) as connection:
        connection.execute(text("ALTER TABLE away RENAME TO fast_path_switches"))

    assert drafts_in(at_start) == drafts_in(at_start, "other") == ""
    assert at_start.policies.small_first[0].small == ""
    assert overlay.revision() != revision
    assert drafts_in(overlay.add_to(FILE)) == "gpt-mini"


def test_without_a_policies_file_there_are_no_switches(store: Store, tmp_path: Path) -> None:
    assert switch_overlay(Settings(), store) is None
    assert switch_overlay(Settings(policies=tmp_path / "p.toml"), store) is not None
