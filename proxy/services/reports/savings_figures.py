"""The savings of any period: one figure for every page, report, mail and command.

Comparing control arms reads receipts and may take long, so it is done seldom. The last comparison
is stored and shared by the pages, commands and planning guards of all processes.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from dashboards.cost_reports import Dimension, cost_report
from dashboards.report_summary.read_report import ReadReport
from dashboards.reports import ALL_CALLS, ReportPeriod, SpendFilter
from dashboards.savings_headline import SavingsHeadline
from proxy.catalog.catalog import Catalog
from proxy.store.sql.ledger.control_arms import ArmMeasurement
from proxy.store.sql.views.cost_reports import (
    ReportQuestion,
    chart_dimension,
    costs_over_time,
    row_forecasts,
)
from proxy.store.sql.views.counted_savings import (
    Measurement,
    RunningCost,
    SavingsScope,
    read_headline,
)
from proxy.store.sql.views.readers import DashboardReads, PickledOnce
from proxy.store.store import Store


class SavingsFigures:
    """Savings in one store; methods that read may block, for long on a large ledger.

    Args:
        reads: Reads the ledger; None for the way that pages read it.

    Attributes:
        measurement: The last comparison of arms; None while there is none.
    """

    def __init__(
        self,
        store: Store,
        catalog: Callable[[], Catalog],
        now: Callable[[], float],
        reads: DashboardReads | None = None,
    ) -> None:
        self._store = store
        self._own_reads = reads
        self._catalog = catalog
        self._now = now
        self._sent_catalog = PickledOnce(catalog())
        self.measurement: Measurement | None = None

    @property
    def providers(self) -> dict[str, str]:
        """The provider of each upstream."""
        return self._catalog().providers

    def measure(self) -> ArmMeasurement:
        """The last comparison of arms, made anew where the stored one is old; blocks."""
        current = None if self.measurement is None else self.measurement.value
        latest = self._store.arms.latest(0.0 if current is None else current.at) or current
        if latest is None or self._now() >= latest.stale_at:
            latest = self._store.arms.measure(self._now)
        if latest is not current:
            self.measurement = PickledOnce(latest)
        return latest

    def scope(self, period: ReportPeriod, only: SpendFilter = ALL_CALLS) -> SavingsScope:
        """The calls of a period, with the catalog and the measurement that now hold."""
        if self._sent_catalog.value is not (catalog := self._catalog()):
            self._sent_catalog = PickledOnce(catalog)
        own_cost = self._store.own_cost_usd_month if only == ALL_CALLS else None
        return SavingsScope(
            period=period,
            only=only,
            catalog=self._sent_catalog,
            measurement=self.measurement,
            running=None if own_cost is None else RunningCost(own_cost, self._now()),
        )

    def headline(self, period: ReportPeriod, only: SpendFilter = ALL_CALLS) -> SavingsHeadline:
        """The headline of a period, its arms compared first where that is due; blocks."""
        self.measure()
        return self._reads.read(read_headline, self.scope(period, only))

    def read_report(
        self, period: ReportPeriod, by: Sequence[Dimension], only: SpendFilter = ALL_CALLS
    ) -> ReadReport:
        """A cost report with the headline of its period, however long it takes; blocks."""
        report = cost_report(self._store.reports, period, by, self.providers, only)
        savings = self.headline(period, only)
        question = ReportQuestion(
            scope=self.scope(period, only),
            by=tuple(by),
            providers=self.providers,
            now=self._now(),
        )
        return ReadReport(
            report=replace(report, savings=savings),
            names={team.id: team.name for team in self._store.teams.all()},
            costs=self._reads.read(costs_over_time, question, chart_dimension(report)),
            forecasts=self._reads.read(row_forecasts, question, len(report.rows)),
            read_at=question.now,
        )

    @property
    def _reads(self) -> DashboardReads:
        return self._own_reads or self._store.dashboard
