"""``/api/v1/configuration``: the files in force, the gateway's readiness, and reloading them."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dashboards.access import Action
from dashboards.pages import HOME
from proxy.configuration import Snapshot
from proxy.errors import CallerError, Unready
from proxy.pages.resources.api import Resource
from proxy.pages.resources.upstream_keys import UpstreamKeyView, upstream_keys_view
from proxy.pages.store_questions import StoreQuestions, view_itself
from proxy.pages.viewing import Clock, RecordChange, SignedIn, check_allowed, route
from proxy.reloading import Reloader
from proxy.settings import PREFIX, Settings
from proxy.store.sql.access.audit_log import AuditedChange
from proxy.store.sql.settings.stored_policies import NOUNS
from proxy.store.sql.views.setup.upstream_uses import UpstreamUse, upstream_uses
from slo.policies.file import KINDS, policies_by_kind
from slo.toml.fields import Field

#: Settings that are secrets, or may hold one.
_SECRETS: Final = frozenset({"admin_token", "database_url", "redis_url", "oidc_client_secret"})
#: Entries set on pages of which a note says that they are not in force; others are counted.
_MAX_PAGE_NOTES: Final = 10
#: A link in Markdown; the place that it names is in the documentation, not on the page.
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingView:
    """A setting of the gateway: its variable and its value; secrets say only that they are set."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFieldView:
    """A field of a policy in the file: its key, its default and its meaning in Markdown."""

    key: str
    default: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleSignOnView:
    """Sign-in at an identity provider, as the settings have it; no secrets.

    Attributes:
        issuer: "" where people sign in by passwords and links alone.
        callback: Address to register at the provider.
        roles: Groups that have a role.
        missing: Settings without which nobody can sign in there.
    """

    issuer: str
    callback: str
    roles: int
    creates_people: bool
    missing: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationView:
    """Configuration of the gateway.

    Attributes:
        settings: Settings that differ from their defaults.
        policies: Number of policies in force, by kind.
        policy_fields: The fields that a policy of each kind can have.
        troubles: Reasons why no calls can be taken.
        notes: Notes for operators, such as why the last reload failed.
        upstream_keys: Keys of upstreams, those with something to do first.
    """

    settings: Sequence[SettingView]
    models: int
    policies: Mapping[str, int]
    policy_fields: Mapping[str, Sequence[PolicyFieldView]]
    troubles: Sequence[str]
    notes: Sequence[str]
    upstream_keys: Sequence[UpstreamKeyView]
    single_sign_on: SingleSignOnView


@dataclass(eq=False)
class ConfigurationResource(Resource):
    """The configuration as admins see and reload it.

    Args:
        readiness: Returns reasons why no calls can be taken, and notes.
    """

    tag = "configuration"

    _settings: Settings
    _reloader: Reloader
    _readiness: tuple[Callable[[], Sequence[str]], Callable[[], Sequence[str]]]
    _record: RecordChange
    _ask: StoreQuestions
    _now: Clock

    @route("GET", "/configuration", name="get_configuration")
    async def get(self, viewer: SignedIn) -> ConfigurationView:
        """Settings, what the files hold, and what is wrong."""
        check_allowed(viewer, Action.CHANGE_CONFIGURATION)
        snapshot, (troubles, notes) = self._reloader.snapshot, self._readiness
        return ConfigurationView(
            settings=_changed_settings(self._settings),
            models=len(snapshot.catalog.models),
            policies={
                kind.array: len(policies)
                for kind, policies in policies_by_kind(snapshot.policies).items()
            },
            policy_fields={kind.array: [*map(_field_view, kind.fields)] for kind in KINDS},
            troubles=troubles(),
            notes=[*notes(), *_page_notes(snapshot)],
            upstream_keys=upstream_keys_view(
                snapshot.catalog.upstreams.values(),
                snapshot.upstreams_with_keys,
                await self._upstream_uses(),
            ),
            single_sign_on=_single_sign_on(self._settings),
        )

    @route("POST", "/configuration/reload", name="reload_configuration")
    async def reload(self, viewer: SignedIn) -> ConfigurationView:
        """Reads the files again.

        Raises:
            CallerError: A file has a mistake; all files stay as they were.
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

    async def _upstream_uses(self) -> Mapping[str, UpstreamUse] | None:
        """Uses by upstream; None while the ledger does not answer in time."""
        try:
            return await self._ask.view("upstreams", upstream_uses, self._now(), view_itself)
        except Unready:
            return None


def _single_sign_on(settings: Settings) -> SingleSignOnView:
    needed = ("oidc_issuer", "oidc_client_id", "oidc_roles", "public_url")
    callback = f"{settings.browser_url(settings.port)}{HOME}/sso/callback"
    return SingleSignOnView(
        issuer=settings.oidc_issuer,
        callback=callback,
        roles=len([*filter(None, map(str.strip, settings.oidc_roles.split(",")))]),
        creates_people=settings.oidc_create_people,
        missing=[f"{PREFIX}{name.upper()}" for name in needed if not getattr(settings, name)],
    )


def _field_view(field: Field) -> PolicyFieldView:
    meaning = _LINK.sub(r"\1", field.meaning)
    return PolicyFieldView(key=field.key, default=field.default_text, meaning=meaning)


def _changed_settings(settings: Settings) -> list[SettingView]:
    """Settings that differ from their defaults; URLs may hold passwords, and are only named."""
    changed = []
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if value != field.get_default(call_default_factory=True):
            shown = "(set)" if name in _SECRETS else str(value)
            changed.append(SettingView(name=f"{PREFIX}{name.upper()}", value=shown))
    return changed


def _page_notes(snapshot: Snapshot) -> Sequence[str]:
    """A note on each entry set on pages that is left out."""
    problems = snapshot.page_problems.items()
    notes = [
        f"The {NOUNS[kind]} {name}, set on a page, is not in force: {problem.reason}."
        for (kind, name), problem in problems
        if problem.is_left_out
    ]
    hidden = len(notes) - _MAX_PAGE_NOTES
    more = [f"{hidden} more entries set on pages are not in force."] if hidden > 0 else []
    return [*notes[:_MAX_PAGE_NOTES], *more]
