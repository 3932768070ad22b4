"""The configuration: shown without secrets, reloaded all or nothing."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from dashboards.access import Role, Viewer
from proxy.configuration import read_snapshot
from proxy.errors import CallerError
from proxy.pages.resources.configuration import ConfigurationResource
from proxy.pages.store_questions import StoreQuestions
from proxy.records.receipt import Outcome
from proxy.reloading import Reloader
from proxy.settings import Settings
from proxy.store.errors import StoreError
from proxy.store.sql.access.audit_log import AuditedChange
from proxy.store.sql.ids import call_ids
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.store import Store
from slo.policies.file import KINDS
from tests.fakes.board import NOW
from tests.fakes.receipts import a_receipt

ADMIN = Viewer(name="ann", role=Role.ADMIN)
BUDGET = '[[budgets]]\nname = "day"\nscope = "team"\nlimit = "5"\nunit = "usd"\nwindow = "day"\n'


class _SilentStore:
    """A store whose database is away."""

    dashboard = None

    async def ask(self, _question: Callable[[], object]) -> object:
        raise StoreError("away")


class ConfigurationHarness:
    """The configuration of a gateway; ``store`` is None where the ledger does not answer."""

    def __init__(self, folder: Path, store: Store | None = None, **settings: str) -> None:
        self.file = folder / "policies.toml"
        self.file.write_text("")
        read = Settings.model_validate({"policies": self.file, "folder": folder, **settings})
        self.reloader = Reloader(read, read_snapshot(read), lambda: 0.0)
        readiness = (list, self.reloader.notes)
        self.audited: list[AuditedChange] = []
        ask = StoreQuestions(cast("Store", store or _SilentStore()))
        self.resource = ConfigurationResource(
            read, self.reloader, readiness, self._record, ask, lambda: NOW
        )

    async def _record(self, change: AuditedChange) -> None:
        self.audited.append(change)


def test_settings_are_shown_without_secrets(tmp_path: Path) -> None:
    desk = ConfigurationHarness(
        tmp_path,
        admin_token="a-secret-of-24-characters",
        database_url="postgresql://u:hunter2@db/x",
        redis_url="redis://:hunter2@cache",
    )
    shown = asyncio.run(desk.resource.get(ADMIN))

    assert {setting.name for setting in shown.settings} >= {"THRIFTGATE_ADMIN_TOKEN"}
    assert "hunter2" not in str(shown)
    assert "a-secret" not in str(shown)


def test_every_field_of_every_kind_of_policy_is_described(tmp_path: Path) -> None:
    shown = asyncio.run(ConfigurationHarness(tmp_path).resource.get(ADMIN))

    for kind in KINDS:
        described = shown.policy_fields[kind.array]
        assert [field.key for field in described] == [field.key for field in kind.fields]
        assert all(field.meaning and "](" not in field.meaning for field in described)


def test_changed_files_are_read_at_once(tmp_path: Path) -> None:
    desk = ConfigurationHarness(tmp_path)
    desk.file.write_text(BUDGET)

    assert asyncio.run(desk.resource.reload(ADMIN)).policies["budgets"] == 1
    (change,) = desk.audited
    assert (change.who, change.action) == ("ann", "reload configuration")
    assert change.after == {"worked": True}


def test_a_file_with_a_mistake_changes_nothing_and_is_named(tmp_path: Path) -> None:
    desk = ConfigurationHarness(tmp_path)
    desk.file.write_text('[[budgets]]\nname = "day"\nlimt = 5\n')

    with pytest.raises(CallerError, match=r"policies\.toml"):
        asyncio.run(desk.resource.reload(ADMIN))
    assert asyncio.run(desk.resource.get(ADMIN)).policies["budgets"] == 0


@pytest.mark.parametrize("role", [Role.VIEWER, Role.TEAM_ADMIN, Role.FINANCE])
def test_only_admins_see_it(tmp_path: Path, role: Role) -> None:
    with pytest.raises(CallerError, match="may not reload"):
        asyncio.run(ConfigurationHarness(tmp_path).resource.get(Viewer(name="bob", role=role)))


def test_a_key_that_a_provider_refused_last_is_named_with_what_to_set(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-never-shown")
    desk = ConfigurationHarness(tmp_path, store)
    refused = a_receipt(
        1,
        started=NOW - 60,
        call_id=call_ids()(NOW - 60),
        upstream="openai",
        outcome=Outcome.FAILED,
        error="upstream_unauthorized",
    )
    assert inserter(store._engine)([refused]) is None

    shown = asyncio.run(desk.resource.get(ADMIN))
    key = shown.upstream_keys[0]

    assert (key.upstream, key.variable, key.state) == ("openai", "OPENAI_API_KEY", "refused")
    assert (key.refused, key.refusals, key.answered) == (NOW - 60, 1, None)
    assert key.fix.startswith("Set OPENAI_API_KEY to a valid key")
    assert "sk-never-shown" not in str(shown)


def test_keys_are_listed_while_the_ledger_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-never-shown")
    shown = asyncio.run(ConfigurationHarness(tmp_path).resource.get(ADMIN))

    states = {key.upstream: key.state for key in shown.upstream_keys}
    assert states["openai"] == "unknown"
    assert states["mistral"] == "missing"


def test_single_sign_on_names_settings_that_it_lacks(tmp_path: Path) -> None:
    desk = ConfigurationHarness(
        tmp_path,
        oidc_issuer="https://idp.example",
        oidc_client_id="thriftgate",
        oidc_client_secret="never-shown",
    )
    shown = asyncio.run(desk.resource.get(ADMIN))

    assert shown.single_sign_on.issuer == "https://idp.example"
    assert shown.single_sign_on.missing == ["THRIFTGATE_OIDC_ROLES", "THRIFTGATE_PUBLIC_URL"]
    assert "never-shown" not in str(shown)
