"""``/api/v1/configuration``: the files in force, the gateway's readiness, and reloading them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter

from dashboards.access import Action, Viewer
from proxy.errors import CallerError
from proxy.pages.viewing import RecordChange, SignedIn, check_allowed
from proxy.reloading import Reloader
from proxy.settings import PREFIX, Settings
from proxy.store.sql.access.audit_log import AuditedChange
from slo.policies.file import policies_by_kind

#: Settings that are secrets, or may hold one.
_SECRETS: Final = frozenset({"admin_token", "database_url", "redis_url"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingView:
    """A setting of the gateway: its variable and its value; secrets say only that they are set."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationView:
    """Configuration of the gateway.

    Attributes:
        settings: Settings that differ from their defaults.
        models: Models in the catalog.
        policies: Number of policies in force, by kind.
        troubles: Reasons why no calls can be taken.
        notes: Notes for operators, such as why the last reload failed.
    """

    settings: Sequence[SettingView]
    models: int
    policies: Mapping[str, int]
    troubles: Sequence[str]
    notes: Sequence[str]


class ConfigurationResource:
    """The configuration as admins see and reload it.

    Args:
        settings: Settings of the gateway.
        reloader: Has catalog and policies in force.
        readiness: Returns reasons why no calls can be taken, and notes.
        record: Writes the audit log.
    """

    def __init__(
        self,
        settings: Settings,
        reloader: Reloader,
        readiness: tuple[Callable[[], Sequence[str]], Callable[[], Sequence[str]]],
        record: RecordChange,
    ) -> None:
        self._settings = settings
        self._reloader = reloader
        self._troubles, self._notes = readiness
        self._record = record

    async def get(self, viewer: Viewer) -> ConfigurationView:
        """The configuration in force.

        Raises:
            CallerError: The viewer may not see it.
        """
        check_allowed(viewer, Action.CHANGE_CONFIGURATION)
        snapshot = self._reloader.snapshot
        return ConfigurationView(
            settings=_changed_settings(self._settings),
            models=len(snapshot.catalog.models),
            policies={
                kind.array: len(policies)
                for kind, policies in policies_by_kind(snapshot.policies).items()
            },
            troubles=self._troubles(),
            notes=self._notes(),
        )

    async def reload(self, viewer: Viewer) -> ConfigurationView:
        """Reads catalog, policies and engines files again, all or none.

        Raises:
            CallerError: The viewer may not, or a file has a mistake; the files before stay.
        """
        check_allowed(viewer, Action.CHANGE_CONFIGURATION)
        worked = await self._reloader.reload()
        await self._record(
            AuditedChange(
                who=viewer.name,
                action="reload configuration",
                subject="catalog, policies and engines",
                after={"worked": worked},
            )
        )
        if not worked:
            raise CallerError("; ".join(self._reloader.notes()), code="invalid_configuration")
        return await self.get(viewer)

    def router(self) -> APIRouter:
        """Routes of the API."""
        routes = APIRouter(tags=["configuration"])

        @routes.get("/configuration")
        async def get_configuration(viewer: SignedIn) -> ConfigurationView:
            """Settings, what the files hold, and what is wrong."""
            return await self.get(viewer)

        @routes.post("/configuration/reload")
        async def reload_configuration(viewer: SignedIn) -> ConfigurationView:
            """Reads the files again."""
            return await self.reload(viewer)

        return routes


def _changed_settings(settings: Settings) -> list[SettingView]:
    """Settings that differ from their defaults; URLs may hold passwords, and are only named."""
    changed = []
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if value != field.get_default(call_default_factory=True):
            shown = "(set)" if name in _SECRETS else str(value)
            changed.append(SettingView(name=f"{PREFIX}{name.upper()}", value=shown))
    return changed
