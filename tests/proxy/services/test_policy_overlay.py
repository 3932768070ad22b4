"""Ceilings and objectives of pages over those of the policies file."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import text

from proxy.configuration import PageProblem, Snapshot
from proxy.services.policy_overlay import PolicyOverlay, stored_policy_overlay
from proxy.settings import Settings
from proxy.store.sql.database import write_transaction
from proxy.store.store import Store
from slo.budgets.ceiling import Ceiling
from slo.policies.file import Policies
from slo.policies.sinks import Sink, SinkKind
from tests.fakes.call_dependencies import catalog

CENT = Ceiling(name="cent", limit=10_000_000)
FILE = Snapshot(catalog(), Policies(ceilings=(CENT,)))
DIME = {"name": "dime", "limit": "0.1"}
SINK = {"name": "on-call", "kind": "slack", "url_env": "ALERTS_URL"}
ERRORS = {"name": "errors", "metric": "errors", "at_most": "1%"}


def names(snapshot: Snapshot) -> tuple[list[str], list[str]]:
    policies = snapshot.policies
    return [one.name for one in policies.ceilings], [one.name for one in policies.objectives]


def test_stored_policies_stand_after_those_of_the_file(store: Store) -> None:
    store.policies.set("ceilings", DIME, "ann", 0.0)
    store.policies.set("objectives", ERRORS, "ann", 0.0)

    assert names(PolicyOverlay(store.policies).add_to(FILE)) == (["cent", "dime"], ["errors"])


def test_a_policy_of_the_file_wins_over_one_of_its_name(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.policies.set("ceilings", {"name": "cent", "limit": "9"}, "ann", 0.0)

    assert PolicyOverlay(store.policies).add_to(FILE).policies.ceilings == (CENT,)
    assert "the policies file has one of this name" in caplog.text


def test_a_policy_whose_model_left_the_catalog_is_left_out_and_the_others_hold(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.policies.set("ceilings", {**DIME, "name": "a", "cheaper": ["gone"]}, "ann", 0.0)
    store.policies.set("ceilings", DIME, "ann", 0.0)

    assert names(PolicyOverlay(store.policies).add_to(FILE))[0] == ["cent", "dime"]
    assert "a of ceilings set on a page is left out" in caplog.text


@pytest.mark.parametrize("variable", ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "OWN_KEY"])
def test_a_stored_sink_that_names_another_variable_is_left_out(
    store: Store, caplog: pytest.LogCaptureFixture, variable: str
) -> None:
    upstream = replace(FILE.catalog.default.upstream, key_env="OWN_KEY")
    files = Snapshot(replace(FILE.catalog, upstreams={"own": upstream}), FILE.policies)
    store.policies.set("sinks", {**SINK, "url_env": variable}, "ann", 0.0)
    store.policies.set("sinks", {**SINK, "name": "other"}, "ann", 0.0)

    changed = PolicyOverlay(store.policies).add_to(files)
    assert [sink.name for sink in changed.policies.sinks] == ["other"]
    assert f"names {variable}" in caplog.text


def test_the_snapshot_says_which_policies_are_left_out_and_why(store: Store) -> None:
    store.policies.set("ceilings", {"name": "cent", "limit": "9"}, "ann", 0.0)
    store.policies.set("ceilings", {**DIME, "name": "a", "cheaper": ["gone"]}, "ann", 0.0)
    before = PageProblem("of a model")
    files = msgspec.structs.replace(FILE, page_problems={("models", "x"): before})
    problems = PolicyOverlay(store.policies).add_to(files).page_problems

    assert problems["models", "x"] is before
    assert problems["ceilings", "cent"].reason == "the policies file has one of this name"
    assert "names gone, which the catalog has not" in problems["ceilings", "a"].reason


def test_a_stored_sink_may_name_what_the_file_names(store: Store) -> None:
    in_file = Sink(name="pager", kind=SinkKind.SLACK, url_env="OPS_URL")
    store.policies.set("sinks", {**SINK, "url_env": "OPS_URL"}, "ann", 0.0)

    changed = PolicyOverlay(store.policies).add_to(
        Snapshot(FILE.catalog, Policies(sinks=(in_file,)))
    )
    assert [sink.name for sink in changed.policies.sinks] == ["pager", "on-call"]


def test_while_the_database_is_away_those_read_last_stay(store: Store) -> None:
    store.policies.set("ceilings", DIME, "ann", 0.0)
    overlay = PolicyOverlay(store.policies)
    overlay.add_to(FILE)
    before = overlay.revision()
    with write_transaction(store._engine) as connection:
        connection.execute(text("DROP TABLE stored_policies"))

    assert overlay.revision() == before
    assert names(overlay.add_to(FILE))[0] == ["cent", "dime"]


def test_without_a_policies_file_sinks_and_reports_hold_alone(store: Store, tmp_path: Path) -> None:
    store.policies.set("ceilings", DIME, "ann", 0.0)
    store.policies.set("sinks", SINK, "ann", 0.0)
    with_file = stored_policy_overlay(Settings(policies=tmp_path / "p.toml"), store)
    alone = stored_policy_overlay(Settings(), store).add_to(FILE).policies

    assert names(with_file.add_to(FILE))[0] == ["cent", "dime"]
    assert (alone.ceilings, [sink.name for sink in alone.sinks]) == ((CENT,), ["on-call"])
