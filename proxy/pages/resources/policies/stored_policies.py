"""``/api/v1/policies/stored``: policies that people set on pages."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dashboards.access import Action, Viewer
from dashboards.views.access import AuditEntryView
from proxy.errors import CallerError
from proxy.pages.resources.api import Resource
from proxy.pages.resources.policies.catalog_entries import CatalogEntries, CatalogEntry, entry_name
from proxy.pages.resources.policies.policy_forms import (
    POLICY_FORMS,
    PolicyForm,
    form_texts,
    invalid_policy_error,
    policy_form,
)
from proxy.pages.resources.policies.policy_previews import (
    PolicyPreview,
    answer_or_none,
    report_schedule,
    sink_problems,
)
from proxy.pages.resources.policies.undo import adopt_change, change_to_undo, last_change_id
from proxy.pages.store_questions import StoreQuestions
from proxy.pages.viewing import Clock, SignedIn, check_allowed, route
from proxy.reloading import Reloader
from proxy.services.catalog_overlay import CATALOG_KINDS, entry_text
from proxy.services.policy_overlay import (
    STORED_KINDS,
    checked_policy,
    policy_names,
    settable_kinds,
)
from proxy.settings import Settings
from proxy.store.sql.access.audit_log import last_id
from proxy.store.sql.settings.stored_policies import NOUNS, StoredPolicy, policy_changes
from proxy.store.sql.views.setup.dry_runs import DryRunQuestion, dry_run
from proxy.store.sql.views.setup.price_trials import PriceQuestion, price_dry_run
from proxy.store.sql.views.setup.requested_models import requested_models
from proxy.store.store import Store
from slo.budgets.budget import EVERY
from slo.budgets.ceiling import Ceiling
from slo.objectives.objective import Objective
from slo.policies.reports import ScheduledReport
from slo.policies.sinks import Sink
from slo.policies.toml_text import table_text
from slo.price import Tariff
from slo.toml.problems import InvalidFile

_WEEK_S: Final = 604_800.0
_MAX_REMOVED: Final = 20
_REMOVALS: Final = {f"remove {noun}": kind for kind, noun in NOUNS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPolicyView:
    """A policy that people set.

    Attributes:
        texts: The texts of its form, by field.
        in_force: False where the file has one of this name, or it cannot hold.
        problem: Reason that it, or a part of it, is not in force; "" for none.
        changed_at: Seconds since the epoch.
        change: Id of its last change in the audit log.
    """

    kind: str
    name: str
    toml: str
    texts: Mapping[str, str]
    in_force: bool
    problem: str
    changed_by: str
    changed_at: float
    change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPoliciesView:
    """Policies that people set, by kind and name; null where they are not known just now."""

    policies: Sequence[StoredPolicyView] | None


@dataclass(eq=False)
class StoredPoliciesResource(Resource):
    """Policies set on pages; gateways take changes over by themselves."""

    tag = "policies"

    _store: Store
    _ask: StoreQuestions
    _reloader: Reloader
    _settings: Settings
    _now: Clock

    def __post_init__(self) -> None:
        self._catalog = CatalogEntries(self._reloader)

    def forms(self, viewer: Viewer) -> Sequence[PolicyForm]:
        """The forms of what the viewer may set."""
        kinds = self._settable_kinds()
        forms = POLICY_FORMS.values()
        return [form for form in forms if form.stored_as in kinds and viewer.may(form.action)]

    def _settable_kinds(self) -> Sequence[str]:
        return (*settable_kinds(self._settings), *CATALOG_KINDS)

    @route("GET", "/policies/stored", name="list_stored_policies")
    async def list(self, viewer: SignedIn) -> StoredPoliciesView:
        """Policies that people set beside those of the policies file; those one may change."""
        check_allowed(viewer, Action.SCHEDULE_REPORTS)
        read = await self._ask("stored policies", self._read)
        if read is None:
            return StoredPoliciesView(policies=None)
        stored, changes = read
        seen = [policy for policy in stored if viewer.may(policy_form(policy.kind).action)]
        return StoredPoliciesView(policies=[self._view(policy, changes) for policy in seen])

    async def removals(self, viewer: Viewer) -> Sequence[tuple[str, AuditEntryView]]:
        """Kind and removal of each policy that went in the last week and is still gone."""
        check_allowed(viewer, Action.SCHEDULE_REPORTS)
        return await self._ask("removed policies", self._read_removed) or ()

    async def preview(self, viewer: Viewer, kind: str, fields: Mapping[str, Any]) -> PolicyPreview:
        """A policy with its trial; raises as ``set``."""
        stored_as = policy_form(kind).stored_as
        seen = await self._last_change_id(stored_as, fields)
        policy, composed = await self._check_form(viewer, kind, fields)
        earlier = await self._find(stored_as, policy.name)
        before = None if earlier is None else earlier.fields
        if kind == "prices":
            base = await asyncio.to_thread(self._catalog.base_price, fields, before or {})
            if base:
                before = {"name": policy.name, **(before or {}), "price": base}
        return PolicyPreview(
            policy=policy,
            toml=_toml(stored_as, composed),
            toml_in_force="" if before is None else _toml(stored_as, before),
            seen=seen,
            **await self._trial(kind, policy, fields),
        )

    async def _check_form(
        self, viewer: Viewer, kind: str, fields: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """The policy that a form stands for, and the fields to keep."""
        composed = await self._compose(viewer, kind, fields)
        policy = await self._check_policy(viewer, policy_form(kind).stored_as, composed)
        if kind == "prices":
            self._catalog.check_rates(self._price_question(policy, fields))
        return policy, composed

    def _price_question(self, policy: CatalogEntry, fields: Mapping[str, Any]) -> PriceQuestion:
        return self._catalog.price_question(policy, fields.get("since", ""), self._now())

    def price_texts(self, viewer: Viewer, model: str) -> Mapping[str, str]:
        """The texts of the form of prices that stand for those of a model now."""
        check_allowed(viewer, policy_form("prices").action)
        return self._catalog.present_texts(model, self._now())

    async def _compose(
        self, viewer: Viewer, kind: str, fields: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """The fields to keep of those of a form."""
        form = policy_form(kind)
        check_allowed(viewer, form.action)
        if form.stored_as not in CATALOG_KINDS:
            return fields
        earlier = await self._find(form.stored_as, fields.get("name", ""))
        return await asyncio.to_thread(self._catalog.compose, kind, fields, earlier, self._now())

    async def _trial(self, kind: str, policy: Any, fields: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - by kind
        """The fields of a preview that say what the policy would do."""
        if isinstance(policy, CatalogEntry):
            return await self._catalog_trial(kind, policy, fields)
        if isinstance(policy, Sink):
            return {"problems": sink_problems(policy)}
        if isinstance(policy, ScheduledReport):
            ids = {team.name: team.id for team in await self._store.ask(self._store.teams.all)}
            schedule, problems = report_schedule(policy, self._settings, self._now(), ids)
            return {"schedule": schedule, "problems": problems}
        assert isinstance(policy, Ceiling | Objective)  # noqa: S101 - the other kinds
        question = DryRunQuestion(policy, self._now(), self._tariffs())
        return {"dry_run": await answer_or_none(self._ask, dry_run, question)}

    async def _catalog_trial(
        self, kind: str, entry: CatalogEntry, fields: Mapping[str, Any]
    ) -> dict[str, Any]:
        if kind == "models":
            return {}
        if kind == "prices":
            prices = self._price_question(entry, fields)
            return {
                "dry_run": await answer_or_none(self._ask, price_dry_run, prices),
                "problems": self._catalog.tier_problems(prices),
            }
        requested = await answer_or_none(self._ask, requested_models, self._now())
        return {"problems": self._catalog.alias_problems(entry, requested)}

    async def set(
        self, viewer: Viewer, kind: str, fields: Mapping[str, Any], seen: str | None = None
    ) -> None:
        """Sets a policy; gateways follow within seconds.

        Args:
            seen: Id of the last change of it that the viewer saw; None for the last until now.

        Raises:
            CallerError: It breaks a rule, its team does not exist, the policies file has one of
                this name, there are too many, another change came since, or it cannot take effect.
        """
        stored_as = policy_form(kind).stored_as
        if seen is None:
            seen = await self._last_change_id(stored_as, fields)
        _, composed = await self._check_form(viewer, kind, fields)
        await self._keep(viewer, stored_as, composed, seen)

    async def _keep(self, viewer: Viewer, kind: str, fields: Mapping[str, Any], seen: str) -> None:
        now = self._now()
        try:
            await self._store.ask(self._store.policies.set, kind, fields, viewer.name, now, seen)
        except ValueError as error:
            raise CallerError(f"This cannot be kept: {error}.", code="too_many_policies") from None
        await adopt_change(self._reloader)

    async def remove(self, viewer: Viewer, kind: str, name: str, seen: str | None = None) -> None:
        """Removes a policy that people set, unless a change came after the one that was seen."""
        check_allowed(viewer, policy_form(kind).action)
        remove, stored_as = self._store.policies.remove, policy_form(kind).stored_as
        if not await self._store.ask(remove, stored_as, name, viewer.name, self._now(), seen):
            raise CallerError(
                "No policy of this name was set here; change those of the policies file there.",
                code="unknown_policy",
                status=404,
            )
        await adopt_change(self._reloader)

    async def undo(self, viewer: Viewer, kind: str, name: str, seen: str | None = None) -> None:
        """Takes the last change of a policy back: it becomes what it was before, or goes.

        Args:
            seen: Id of that change, as the viewer saw it; None for whichever is the last.
        """
        form = policy_form(kind)
        check_allowed(viewer, form.action)
        actions = policy_changes(form.stored_as)
        last = await change_to_undo(self._store, name, actions, seen)
        if last.before is None:
            await self.remove(viewer, kind, name, last.id)
        else:
            await self._check_policy(viewer, form.stored_as, last.before)
            await self._keep(viewer, form.stored_as, last.before, last.id)

    async def _last_change_id(self, kind: str, fields: Mapping[str, Any]) -> str:
        """Id of the last change of the policy that fields stand for; "" for none."""
        return await last_change_id(self._store, entry_name(kind, fields), policy_changes(kind))

    async def _check_policy(self, viewer: Viewer, kind: str, fields: Mapping[str, Any]) -> Any:  # noqa: ANN401 - by kind
        """The policy of these fields, if the viewer may set it; else raises CallerError."""
        check_allowed(viewer, policy_form(kind).action)
        try:
            if kind in CATALOG_KINDS:
                stored = await self._store.ask(self._store.policies.all)
                policy: Any = await self._catalog.check(kind, fields, stored)
            else:
                catalog = self._reloader.snapshot.catalog
                policy = checked_policy(kind, fields, catalog, self._reloader.file_policies)
        except InvalidFile as invalid:
            raise invalid_policy_error(invalid) from None
        if kind not in self._settable_kinds():
            raise CallerError(
                f"No {kind} are kept without a policies file, which may be empty: set"
                " THRIFTGATE_POLICIES and restart.",
                code="no_policies_file",
                status=409,
            )
        if kind in STORED_KINDS and policy.name in policy_names(self._reloader.file_policies, kind):
            raise CallerError(
                f"The policies file has {policy.name} in its {kind}; change it there.",
                code="policy_in_file",
                status=409,
            )
        team = getattr(policy, "team", EVERY)
        teams = await self._store.ask(self._store.teams.all)
        if team != EVERY and all(known_team.name != team for known_team in teams):
            raise CallerError(f"There is no team {team}.", code="unknown_team")
        return policy

    async def _find(self, kind: str, name: str) -> StoredPolicy | None:
        stored = await self._store.ask(self._store.policies.all)
        return next((one for one in stored if (one.kind, one.name) == (kind, name)), None)

    def _tariffs(self) -> dict[str, Tariff]:
        """Prices of each model's first route that has any, by public name."""
        return {
            name: next(tariffs)
            for name, model in self._reloader.snapshot.catalog.models.items()
            if any(route.tariff for route in model.routes)
            for tariffs in [(route.tariff for route in model.routes if route.tariff)]
        }

    def _view(
        self, stored: StoredPolicy, changes: Mapping[tuple[str, str], str]
    ) -> StoredPolicyView:
        problem = self._reloader.snapshot.page_problems.get((stored.kind, stored.name))
        is_left_out = problem is not None and problem.is_left_out
        return StoredPolicyView(
            kind=stored.kind,
            name=stored.name,
            toml=_toml(stored.kind, stored.fields),
            texts=form_texts(stored.fields),
            in_force=not is_left_out and self._is_in_force(stored),
            problem="" if problem is None else problem.reason,
            changed_by=stored.changed_by,
            changed_at=stored.changed_at,
            change=last_id(changes, stored.name, policy_changes(stored.kind)),
        )

    def _is_in_force(self, stored: StoredPolicy) -> bool:
        if stored.kind in CATALOG_KINDS:
            return self._catalog.is_in_force(stored)
        in_file = policy_names(self._reloader.file_policies, stored.kind)
        return stored.name in policy_names(self._reloader.snapshot.policies, stored.kind) - in_file

    def _read(self) -> tuple[Sequence[StoredPolicy], Mapping[tuple[str, str], str]]:
        """The policies and their last changes; blocks."""
        actions = [action for kind in NOUNS for action in policy_changes(kind)]
        stored = [policy for policy in self._store.policies.all() if policy.kind in NOUNS]
        return stored, self._store.audit.last_changes(actions)

    def _read_removed(self) -> Sequence[tuple[str, AuditEntryView]]:
        """The newest removal of each policy that is gone; blocks."""
        now = self._now()
        stored = {(policy.kind, policy.name) for policy in self._store.policies.all()}
        entries = self._store.audit.changes_between(now - _WEEK_S, now + 1, _REMOVALS, _MAX_REMOVED)
        newest = {(_REMOVALS[entry.action], entry.subject): entry for entry in reversed(entries)}
        return [(place[0], entry) for place, entry in newest.items() if place not in stored]


def _toml(kind: str, fields: Mapping[str, Any]) -> str:
    """A policy or an entry of the catalog as its file would say it."""
    return entry_text(kind, fields) if kind in CATALOG_KINDS else table_text(kind, fields)
