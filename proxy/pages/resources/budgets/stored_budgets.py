"""``/api/v1/budgets/NAME``: budgets that people set, beside those of the policies file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from dashboards.access import Action, Viewer
from dashboards.views.access import AuditEntryView
from proxy.errors import CallerError
from proxy.pages.resources.api import Resource
from proxy.pages.resources.budgets.budget_owners import BudgetOwners
from proxy.pages.resources.budgets.budget_requests import BudgetRequest, requested_budget
from proxy.pages.resources.policies.policy_previews import PolicyPreview, answer_or_none
from proxy.pages.resources.policies.undo import adopt_change, change_to_undo, last_change_id
from proxy.pages.store_questions import StoreQuestions
from proxy.pages.viewing import Clock, SignedIn, check_allowed, route, view_of
from proxy.reloading import Reloader
from proxy.settings import Settings
from proxy.store.sql.access.audit_log import last_id
from proxy.store.sql.settings.stored_budgets import BUDGET_CHANGES, StoredBudget, budget_before
from proxy.store.sql.views.setup.dry_runs import DryRunQuestion, dry_run
from proxy.store.store import Store
from slo.budgets.budget import Budget, BudgetUnit
from slo.objectives.toml_writer import dollars_text
from slo.policies.toml_text import budget_toml

_WEEK_S: Final = 604_800.0
_MAX_REMOVED: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBudgetView:
    """A budget that people set.

    The fields up to ``alerts`` are those of ``[[budgets]]`` in the policies file.

    Attributes:
        limit: Dollars as a decimal text, or a whole number.
        in_force: False where the policies file has a budget of this name, or this gateway has not
            taken it over yet.
        changed_at: In seconds since the epoch.
        change: Id of its last change in the audit log.
    """

    name: str
    scope: str
    of: str
    unit: str
    window: str
    limit: str
    hard: bool
    hold: str
    on_loss: str
    unpriced: str
    alerts: Sequence[int]
    in_force: bool
    changed_by: str
    changed_at: float
    change: str
    may_change: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBudgetsView:
    """Budgets that people set, by name; null where they are not known just now."""

    budgets: Sequence[StoredBudgetView] | None


@dataclass(eq=False)
class StoredBudgetsResource(Resource):
    """Budgets set on pages, as viewers see and change them; a gateway takes changes over itself."""

    tag = "budgets"

    _store: Store
    _ask: StoreQuestions
    _reloader: Reloader
    _settings: Settings
    _now: Clock

    @property
    def are_kept(self) -> bool:
        """False where there is no policies file, without which no budgets are kept."""
        return self._settings.policies is not None

    @property
    def file_budgets(self) -> frozenset[str]:
        """Names of the budgets in the policies file, which win."""
        return self._reloader.file_budgets

    @route("GET", "/budgets/stored", name="list_stored_budgets")
    async def list(self, viewer: SignedIn) -> StoredBudgetsView:
        """Budgets that people set, beside those of the policies file."""
        check_allowed(viewer, Action.SEE_COSTS)
        read = await self._ask("stored budgets", self._read)
        if read is None:
            return StoredBudgetsView(budgets=None)
        all_stored, owners, changes = read
        views = [
            self._view(stored, viewer, owners, changes)
            for stored in all_stored
            if owners.may_see(viewer, stored.budget)
        ]
        return StoredBudgetsView(budgets=views)

    @route("PUT", "/budgets/{name}", name="set_budget", status_code=204)
    async def set(
        self, viewer: SignedIn, name: str, request: BudgetRequest, seen: str | None = None
    ) -> None:
        """Sets a budget; gateways follow within seconds.

        With ``seen``, the id in the audit log of its last change, nothing newer is lost.

        Raises:
            CallerError: It breaks a rule, its team or key does not exist, the policies file has one
                of this name, there are too many, or it cannot take effect.
        """
        budget = requested_budget(name, request)
        team = await self._check_change(viewer, budget)
        await self._set(viewer, budget, team, seen)

    async def preview(self, viewer: Viewer, name: str, request: BudgetRequest) -> PolicyPreview:
        """A budget with its trial on the calls of yesterday; raises as ``set``."""
        budget = requested_budget(name, request)
        await self._check_change(viewer, budget)
        question = DryRunQuestion(budget, self._now())
        in_force = (known for known in self.in_force() if known.name == name)
        return PolicyPreview(
            policy=budget,
            toml=budget_toml(budget),
            toml_in_force="".join(map(budget_toml, in_force)),
            dry_run=await answer_or_none(self._ask, dry_run, question),
            seen=await last_change_id(self._store, name, BUDGET_CHANGES),
        )

    async def undo(self, viewer: Viewer, name: str, seen: str | None = None) -> None:
        """Takes the last change of a budget back: it becomes what it was before, or goes.

        Args:
            seen: Id of that change, as the viewer saw it; None for whichever is the last.

        Raises:
            CallerError: There is nothing to take back, another change came since, or as ``set``.
        """
        check_allowed(viewer, Action.CHANGE_BUDGETS)
        last = await change_to_undo(self._store, name, BUDGET_CHANGES, seen)
        try:
            before = budget_before(last)
        except ValueError as error:
            raise CallerError(f"This cannot be undone: {error}.", code="unknown_budget") from None
        if before is None:
            await self.remove(viewer, name, last.id)
        else:
            await self._set(viewer, before, await self._check_change(viewer, before), last.id)

    async def removals(self, viewer: Viewer) -> Sequence[AuditEntryView]:
        """Removals of the last week of budgets that are still gone, for whoever sees all teams."""
        if viewer.teams is not None or not viewer.may(Action.CHANGE_BUDGETS):
            return ()
        return await self._ask("removed budgets", self._read_removed) or ()

    async def _check_change(self, viewer: Viewer, budget: Budget) -> str | None:
        """The team that a budget is of, if the viewer may set it; else raises CallerError."""
        earlier = await self._find(budget.name)
        owners = await self._owners([budget] if earlier is None else [budget, earlier.budget])
        team = owners.check_change(viewer, budget)
        if earlier is not None:
            owners.check_change(viewer, earlier.budget)
        owners.check_known(budget)
        self.check_settable(budget.name)
        return team

    async def _set(
        self, viewer: Viewer, budget: Budget, team: str | None, seen: str | None
    ) -> None:
        who, now, has_share = viewer.name, self._now(), viewer.teams is not None
        change = partial(self._store.budgets.set, has_share=has_share, seen=seen)
        try:
            await self._store.ask(change, budget, who, now, team)
        except ValueError as error:
            raise CallerError(f"This cannot be kept: {error}.", code="too_many_budgets") from None
        await adopt_change(self._reloader)

    @route("DELETE", "/budgets/{name}", name="remove_budget", status_code=204)
    async def remove(self, viewer: SignedIn, name: str, seen: str | None = None) -> None:
        """Removes a budget that people set; with ``seen``, only if that is its last change."""
        check_allowed(viewer, Action.CHANGE_BUDGETS)
        stored = await self._find(name)
        if stored is None:
            raise CallerError(
                "No budget of this name was set here; change those of the policies file there.",
                code="unknown_budget",
                status=404,
            )
        team = (await self._owners([stored.budget])).check_change(viewer, stored.budget)
        remove = partial(self._store.budgets.remove, seen=seen)
        await self._store.ask(remove, name, viewer.name, self._now(), team)
        await adopt_change(self._reloader)

    async def forget(self, viewer: Viewer, key: str) -> None:
        """Removes the budget of a key that was revoked, if it has one; gateways follow."""
        stored = await self._find(key)
        if stored is not None and stored.budget.of == key:
            team = (await self._owners([stored.budget])).team(stored.budget)
            await self._store.ask(self._store.budgets.remove, key, viewer.name, self._now(), team)

    def in_force(self) -> Sequence[Budget]:
        """All budgets that hold in this gateway now, those of the policies file among them."""
        return self._reloader.snapshot.policies.budgets

    def check_settable(self, name: str) -> None:
        """Checks that a budget of this name would take effect; else raises CallerError."""
        if not self.are_kept:
            raise CallerError(
                "No budgets are kept without a policies file, which may be empty: set"
                " THRIFTGATE_POLICIES and restart.",
                code="no_policies_file",
                status=409,
            )
        if name in self.file_budgets:
            raise CallerError(
                f"The policies file has a budget {name}; change it there, then Reload.",
                code="budget_in_file",
                status=409,
                param="name",
            )

    def _view(
        self,
        stored: StoredBudget,
        viewer: Viewer,
        owners: BudgetOwners,
        changes: Mapping[tuple[str, str], str],
    ) -> StoredBudgetView:
        budget = stored.budget
        return view_of(
            StoredBudgetView,
            budget,
            stored,
            limit=limit_text(budget),
            in_force=budget in self._reloader.snapshot.policies.budgets,
            may_change=owners.may_change(viewer, budget),
            change=last_id(changes, budget.name, BUDGET_CHANGES),
        )

    def _read(
        self,
    ) -> tuple[Sequence[StoredBudget], BudgetOwners, Mapping[tuple[str, str], str]]:
        """The budgets, their owners, and their last changes; blocks."""
        stored = self._store.budgets.all()
        owners = BudgetOwners.read(self._store.teams, [budget.budget for budget in stored])
        return stored, owners, self._store.audit.last_changes(BUDGET_CHANGES)

    def _read_removed(self) -> Sequence[AuditEntryView]:
        """The newest removal of each budget that is gone; blocks."""
        now, stored = self._now(), {entry.budget.name for entry in self._store.budgets.all()}
        removals = self._store.audit.changes_between(
            now - _WEEK_S, now + 1, BUDGET_CHANGES[-1:], _MAX_REMOVED
        )
        newest = {entry.subject: entry for entry in reversed(removals)}
        return [entry for name, entry in newest.items() if name not in stored]

    async def _find(self, name: str) -> StoredBudget | None:
        all_stored = await self._store.ask(self._store.budgets.all)
        return next((stored for stored in all_stored if stored.budget.name == name), None)

    async def _owners(self, budgets: Sequence[Budget]) -> BudgetOwners:
        return await self._store.ask(BudgetOwners.read, self._store.teams, budgets)


def limit_text(budget: Budget) -> str:
    """The limit of a budget as people write it: dollars, or a whole number."""
    is_usd = budget.unit is BudgetUnit.USD
    return dollars_text(budget.limit) if is_usd else str(budget.limit)
