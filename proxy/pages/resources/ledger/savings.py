"""Savings of a period as a waterfall, and steps not taken yet: ``/api/v1/savings``."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, TypeVar

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from compaction.policy import CompactionMode
from dashboards.access import Action, Viewer
from dashboards.board import BudgetCounter
from dashboards.views.savings import MeasuredSaving, SavingsView
from proxy.pages.resources.api import Resource
from proxy.pages.resources.ledger.queries import PlaceQuery, json_response
from proxy.pages.store_questions import StoreQuestions, json_bytes
from proxy.pages.viewing import Clock, SignedIn, check_allowed, route
from proxy.services.reports.savings_figures import SavingsFigures
from proxy.store.sql.ledger.control_arms import Comparison
from proxy.store.sql.views.counted_savings import Measurement
from proxy.store.sql.views.fast_path import FastPathRules
from proxy.store.sql.views.savings import SavingsQuestion, measured_saving, savings_view

T = TypeVar("T")

#: Part of a page's patience that waits for such a measurement.
_MEASUREMENT_SHARE: Final = 0.1
MAX_NEXT: Final = 20
#: Steps not taken yet that pages list.
NEXT_SHOWN: Final = 5


class SavingsQuery(PlaceQuery):
    """A question for savings."""

    next: int = Field(
        NEXT_SHOWN, ge=0, le=MAX_NEXT, description="Steps not taken yet, the largest."
    )


async def _no_budgets(_viewer: Viewer) -> Sequence[BudgetCounter]:
    """The budgets where none are set."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSources:
    """Settings in force that steps not taken yet are told by.

    Attributes:
        rules: Returns the fast path's rules.
        compaction: Compaction mode of features without a mode of their own.
        budgets: Returns the counters of budgets that a viewer may see.
    """

    rules: Callable[[], FastPathRules] = FastPathRules
    compaction: CompactionMode = CompactionMode.OFF
    budgets: Callable[[Viewer], Awaitable[Sequence[BudgetCounter]]] = _no_budgets


@dataclass(eq=False)
class SavingsResource(Resource):
    """Savings, as pages and the API read them.

    Attributes:
        sources: Settings that steps not taken yet are told by.
    """

    tag = "savings"

    _ask: StoreQuestions
    _figures: SavingsFigures
    _now: Clock
    sources: StepSources = field(default_factory=StepSources)

    def question(
        self, viewer: Viewer, query: SavingsQuery, budgets: Sequence[BudgetCounter]
    ) -> SavingsQuestion:
        """The question for savings of the teams that a viewer may see, beside their budgets."""
        check_allowed(viewer, Action.SEE_COSTS)
        now, figures = self._now(), self._figures
        only = query.spend_filter(viewer, figures.providers)
        return SavingsQuestion(
            viewer=viewer,
            scope=figures.scope(query.period(now), only),
            next=query.next,
            now=now,
            rules=self.sources.rules(),
            compaction=self.sources.compaction,
            budgets=budgets,
        )

    async def read_measured(
        self, question: SavingsQuestion, read: Callable[[SavingsQuestion], Awaitable[T]]
    ) -> T:
        """Reads savings, and once more if planning was measured anew meanwhile."""
        answer = await read(question)
        await self._refresh_measurement()
        latest = self._figures.measurement
        if _comparisons(latest) == _comparisons(question.scope.measurement):
            return answer
        return await read(replace(question, scope=replace(question.scope, measurement=latest)))

    @route("GET", "/savings", name="savings", response_model=SavingsView)
    async def json(self, viewer: SignedIn, query: Annotated[SavingsQuery, Query()]) -> Response:
        """Savings of a period as a signed waterfall, and the largest steps not taken yet."""
        return json_response(await self.savings(viewer, query, json_bytes))

    async def savings(
        self, viewer: Viewer, query: SavingsQuery, finish: Callable[[SavingsView], T]
    ) -> T:
        """Savings of a period in the form that is asked for."""
        check_allowed(viewer, Action.SEE_COSTS)
        budgets = await self.sources.budgets(viewer) if query.next else ()

        async def read(question: SavingsQuestion) -> T:
            return await self._ask.view("savings", savings_view, question, finish)

        return await self.read_measured(self.question(viewer, query, budgets), read)

    async def measurement_of(
        self, viewer: Viewer, team: str, team_name: str, feature: str
    ) -> Sequence[MeasuredSaving] | None:
        """The control arm's word on one feature: one saving, or none; None while it is measured."""
        check_allowed(viewer, Action.SEE_COSTS, team)
        await self._refresh_measurement()
        if self._figures.measurement is None:
            return None
        return [
            measured_saving(comparison, team_name)
            for comparison in self._figures.measurement.value.comparisons
            if (comparison.team, comparison.feature) == (team, feature)
        ]

    async def _refresh_measurement(self) -> None:
        """Takes the newest result, or measures again where that is old, and waits for a moment.

        Pages show the last result meanwhile.
        """
        await self._ask("measured savings", self._figures.measure, _MEASUREMENT_SHARE)


def _comparisons(measurement: Measurement | None) -> Sequence[Comparison] | None:
    return None if measurement is None else measurement.value.comparisons
