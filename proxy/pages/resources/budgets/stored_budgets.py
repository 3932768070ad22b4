"""``/api/v1/budgets/NAME``: budgets that people set, beside those of the policies file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fastapi import APIRouter

from dashboards.access import Action, Viewer
from proxy.errors import CallerError
from proxy.pages.resources.budgets.budget_owners import BudgetOwners
from proxy.pages.resources.budgets.budget_requests import BudgetRequest, requested_budget
from proxy.pages.store_questions import StoreQuestions
from proxy.pages.viewing import SignedIn, check_allowed
from proxy.reloading import Reloader
from proxy.settings import Settings
from proxy.store.sql.settings.stored_budgets import StoredBudget
from proxy.store.store import Store
from slo.budgets.budget import Budget, BudgetUnit
from slo.objectives.toml_writer import dollars_text


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBudgetView:
    """A budget that people set.

    Attributes:
        scope: Its scope, as in the policies file.
        of: Whose.
        unit: Unit that is counted.
        limit: Dollars as a decimal text, or a whole number.
        hard: True if calls that do not fit are refused.
        hold: Amount held for a call that runs: ``p95`` or ``worst``.
        on_loss: Calls while the counters are unreachable: ``open``, ``local_quota``, ``closed``.
        unpriced: Calls of unknown price: ``refuse``, ``allow`` or ``own``.
        alerts: Percents of the limit at which people are notified.
        in_force: False where the policies file has a budget of this name, or this gateway has not
            taken it over yet.
        changed_by: Who set it last.
        changed_at: When, in seconds since the epoch.
        may_change: True if the viewer may.
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
    may_change: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBudgetsView:
    """Budgets that people set, by name; null where they are not known just now."""

    budgets: Sequence[StoredBudgetView] | None


class StoredBudgetsResource:
    """Budgets set on pages, as viewers see and change them.

    Args:
        store: Holds them.
        ask: Asks the store, within the time of a page.
        reloader: Has the budgets in force, and takes changes over.
        settings: They say whether there is a policies file, without which none are kept.
        now: Seconds since the epoch.
    """

    def __init__(
        self,
        store: Store,
        ask: StoreQuestions,
        reloader: Reloader,
        settings: Settings,
        now: Callable[[], float],
    ) -> None:
        self._store = store
        self._ask = ask
        self._reloader = reloader
        self._now = now
        self.are_kept = settings.policies is not None

    async def list(self, viewer: Viewer) -> StoredBudgetsView:
        """Budgets that the viewer may see: of their own teams, of every team, and of everybody.

        Raises:
            CallerError: They may see none.
        """
        check_allowed(viewer, Action.SEE_COSTS)
        read = await self._ask("stored budgets", self._read)
        if read is None:
            return StoredBudgetsView(budgets=None)
        all_stored, owners = read
        seen = [stored for stored in all_stored if owners.may_see(viewer, stored.budget)]
        return StoredBudgetsView(budgets=[self._view(stored, viewer, owners) for stored in seen])

    async def set(self, viewer: Viewer, name: str, request: BudgetRequest) -> None:
        """Sets a budget, in place of the one that people set by this name.

        Raises:
            CallerError: They may not, it breaks a rule, is of nobody, the policies file has one of
                this name, there are too many, or it cannot take effect.
        """
        budget = requested_budget(name, request)
        earlier = await self._find(name)
        budgets_before = [budget] if earlier is None else [budget, earlier.budget]
        owners = await self._owners(budgets_before)
        team = owners.check_change(viewer, budget)
        if earlier is not None:
            owners.check_change(viewer, earlier.budget)
        owners.check_known(budget)
        self.check_settable(name)
        who, now, has_share = viewer.name, self._now(), viewer.teams is not None
        budgets = self._store.budgets
        try:
            await self._store.ask(budgets.set, budget, who, now, team, has_share=has_share)
        except ValueError as error:
            raise CallerError(f"This cannot be kept: {error}.", code="too_many_budgets") from None
        await self._apply()

    async def remove(self, viewer: Viewer, name: str) -> None:
        """Removes a budget that people set; what it has counted is forgotten.

        Raises:
            CallerError: They may not, or there is none of this name.
        """
        check_allowed(viewer, Action.CHANGE_BUDGETS)
        stored = await self._find(name)
        if stored is None:
            raise CallerError(
                "No budget of this name was set here; change those of the policies file there.",
                code="unknown_budget",
                status=404,
            )
        team = (await self._owners([stored.budget])).check_change(viewer, stored.budget)
        await self._store.ask(self._store.budgets.remove, name, viewer.name, self._now(), team)
        await self._apply()

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
        """Check that a budget of this name would take effect.

        Raises:
            CallerError: It would not: says why.
        """
        if not self.are_kept:
            raise CallerError(
                "No budgets are kept without a policies file, which may be empty: set"
                " THRIFTGATE_POLICIES and restart.",
                code="no_policies_file",
                status=409,
            )
        if name in self._reloader.file_budgets:
            raise CallerError(
                f"The policies file has a budget {name}; change it there.",
                code="budget_in_file",
                status=409,
                param="name",
            )

    def router(self) -> APIRouter:
        """Routes of the API."""
        routes = APIRouter(tags=["budgets"])

        @routes.get("/budgets/stored")
        async def list_stored_budgets(viewer: SignedIn) -> StoredBudgetsView:
            """Budgets that people set, beside those of the policies file."""
            return await self.list(viewer)

        @routes.put("/budgets/{name}", status_code=204)
        async def set_budget(viewer: SignedIn, name: str, request: BudgetRequest) -> None:
            """Sets a budget; gateways follow within seconds."""
            await self.set(viewer, name, request)

        @routes.delete("/budgets/{name}", status_code=204)
        async def remove_budget(viewer: SignedIn, name: str) -> None:
            """Removes a budget that people set."""
            await self.remove(viewer, name)

        return routes

    def _view(self, stored: StoredBudget, viewer: Viewer, owners: BudgetOwners) -> StoredBudgetView:
        budget = stored.budget
        is_usd = budget.unit is BudgetUnit.USD
        return StoredBudgetView(
            name=budget.name,
            scope=budget.scope,
            of=budget.of,
            unit=budget.unit,
            window=budget.window,
            limit=dollars_text(budget.limit) if is_usd else str(budget.limit),
            hard=budget.hard,
            hold=budget.hold,
            on_loss=budget.on_loss,
            unpriced=budget.unpriced,
            alerts=budget.alerts,
            in_force=budget in self._reloader.snapshot.policies.budgets,
            changed_by=stored.changed_by,
            changed_at=stored.changed_at,
            may_change=owners.may_change(viewer, budget),
        )

    async def _apply(self) -> None:
        """Let this gateway take the change over; others do within seconds."""
        if self.are_kept and not await self._reloader.reload():
            why = "; ".join(self._reloader.notes())
            raise CallerError(
                f"The change is kept, and does not hold yet. {why}", code="not_in_force", status=409
            )

    def _read(self) -> tuple[Sequence[StoredBudget], BudgetOwners]:
        """The budgets and their owners; blocks."""
        stored = self._store.budgets.all()
        return stored, BudgetOwners.read(self._store.teams, [budget.budget for budget in stored])

    async def _find(self, name: str) -> StoredBudget | None:
        all_stored = await self._store.ask(self._store.budgets.all)
        return next((stored for stored in all_stored if stored.budget.name == name), None)

    async def _owners(self, budgets: Sequence[Budget]) -> BudgetOwners:
        return await self._store.ask(BudgetOwners.read, self._store.teams, budgets)
