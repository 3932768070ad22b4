"""Reads and sums cost reports; a long one is kept as bytes until it is fetched."""

import pickle
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dashboards.cost_reports import CostReport, Dimension, cost_report
from dashboards.reports import ReportPeriod, reads_receipts
from proxy.store.sql.views.counted_savings import SavingsScope, read_headline
from proxy.store.sql.views.readers import Readers


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportQuestion:
    """A question for a cost report."""

    scope: SavingsScope
    by: tuple[Dimension, ...]
    providers: Mapping[str, str]
    now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReport:
    """A report as it was read.

    Attributes:
        read_at: Time at which reading began, in seconds since the epoch.
    """

    report: CostReport
    names: Mapping[str, str]
    read_at: float


def read_cost_report(readers: Readers, question: ReportQuestion) -> ReadReport:
    """A report; blocks, for minutes where it reads millions of receipts.

    It has no headline until arms were compared: another figure than that of other pages would not
    be better than none. Of one end user or tag it has none either: sums of savings tell none apart.
    """
    scope = question.scope
    report = cost_report(readers.reports, scope.period, question.by, question.providers, scope.only)
    if scope.measurement is not None and not reads_receipts(scope.only.values):
        report = replace(report, savings=read_headline(readers, scope))
    return ReadReport(report=report, names=readers.team_names(), read_at=question.now)


def pack_cost_report(readers: Readers, question: ReportQuestion) -> bytes:
    """A report as bytes; blocks as ``read_cost_report`` does."""
    return zlib.compress(pickle.dumps(read_cost_report(readers, question)))


def unpack_cost_report(packed: bytes) -> ReadReport:
    """The report of ``pack_cost_report``."""
    report: ReadReport = pickle.loads(zlib.decompress(packed))  # noqa: S301 - of a process of ours
    return report


def has_more_receipts(readers: Readers, period: ReportPeriod, count: int) -> bool:
    """True if a period has more receipts than so many, which are found in a moment."""
    return readers.reports.has_more_receipts(period, count)
