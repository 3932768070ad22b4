"""The configuration: shown without secrets, reloaded all or nothing."""

import asyncio
from pathlib import Path

import pytest

from dashboards.access import Role, Viewer
from proxy.configuration import read_snapshot
from proxy.errors import CallerError
from proxy.pages.resources.configuration import ConfigurationResource
from proxy.reloading import Reloader
from proxy.settings import Settings
from proxy.store.sql.access.audit_log import AuditedChange
from slo.policies.file import KINDS

ADMIN = Viewer(name="ann", role=Role.ADMIN)
BUDGET = '[[budgets]]\nname = "day"\nscope = "team"\nlimit = "5"\nunit = "usd"\nwindow = "day"\n'


class ConfigurationHarness:
    def __init__(self, folder: Path, **settings: str) -> None:
        self.file = folder / "policies.toml"
        self.file.write_text("")
        read = Settings.model_validate({"policies": self.file, "folder": folder, **settings})
        self.reloader = Reloader(read, read_snapshot(read), lambda: 0.0)
        readiness = (list, self.reloader.notes)
        self.audited: list[AuditedChange] = []
        self.resource = ConfigurationResource(read, self.reloader, readiness, self._record)

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
