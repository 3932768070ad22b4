"""A cost report as a mail: HTML without anything to load, plain text, and all rows as CSV.

Names of features, models and teams are callers' text: they are escaped in HTML, stand on one line
in plain text and in the subject, and begin no formula in the CSV.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from hashlib import sha256
from typing import Final

from dashboards import pages
from dashboards.cost_reports import CostReport, CostSums
from dashboards.formatting import bucket_name, daily_costs, exact_usd
from dashboards.report_periods import period_name
from dashboards.report_summary.files import cost_csv
from dashboards.report_summary.read_report import ReadReport
from dashboards.report_summary.savings_sentences import fallback_sentence, uncounted_sentence
from dashboards.report_summary.summary import ReportSummary, SummaryFigure, report_summary
from dashboards.views.costs import CostsView
from slo.alert import single_line

#: Rows that the mail shows, the dearest; the CSV has all.
MAX_ROWS: Final = 25
#: Bytes of a CSV that is attached; servers refuse mails that are much larger.
MAX_CSV_BYTES: Final = 2 * 1024 * 1024
_MAX_NAME_CHARS: Final = 80
_FIGURES: Final = ("Calls", "Errors", "Tokens", "List cost", "Cost", "Unpriced")
#: Height of the highest bar.
_BAR_PIXELS: Final = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class MailBar:
    """The cost of a bucket, and its height in pixels."""

    name: str
    nanos: int
    height: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MailContents:
    """The contents that HTML and plain text show alike.

    Attributes:
        notes: Sentences on what the figures leave out.
        bars: The cost of each bucket, for a chart of bars; empty where nobody read it.
        origin: The sentence that says where the mail comes from.
    """

    subject: str
    whose: str
    summary: ReportSummary
    notes: Sequence[str]
    bars: Sequence[MailBar]
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportMail:
    """The contents of a mail, the same for everybody who gets it.

    Attributes:
        id: The same where the same is sent again.
        csv: All rows; "" where they are too many to be attached.
        file: Name of the CSV's file.
    """

    id: str
    subject: str
    text: str
    html: str
    csv: str
    file: str

    def message(self, sender: str, recipient: str, moment: float) -> EmailMessage:
        """The mail to one recipient.

        Its id follows from report, period and recipient: a mail that is sent twice is one mail to
        programs that look at it.
        """
        message = EmailMessage()
        message["Subject"] = self.subject
        message["From"] = sender
        message["To"] = recipient
        message["Date"] = format_datetime(datetime.fromtimestamp(moment, UTC))
        named = sha256(f"{self.id}\n{recipient}".encode()).hexdigest()[:32]
        message["Message-ID"] = f"<{named}@{sender.rpartition('@')[2]}>"
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(self.text)
        message.add_alternative(self.html, subtype="html")
        if self.csv:
            message.add_attachment(
                self.csv.encode(),
                maintype="text",
                subtype="csv",
                filename=self.file,
                params={"charset": "utf-8"},
            )
        return message


def report_mail(name: str, read: ReadReport, team: str) -> ReportMail:
    """The mail of the scheduled report of this name, about one team or, for "", all teams."""
    period = period_name(read.report.period)
    whose = f"Costs of {single_line(team, _MAX_NAME_CHARS)}" if team else "Costs of all teams"
    csv = cost_csv(read)
    is_attached = len(csv.encode()) <= MAX_CSV_BYTES
    shown = MailContents(
        subject=f"{whose}, {period}",
        whose=whose,
        summary=report_summary(read, MAX_ROWS),
        notes=_notes(read.report, is_attached=is_attached),
        bars=_bars(read.costs),
        origin=f"Sent by Thriftgate as the scheduled report {name}.",
    )
    return ReportMail(
        id=f"{name}/{period}",
        subject=shown.subject,
        text=_plain_text(shown),
        html=pages.report_mail({"mail": shown}),
        csv=csv if is_attached else "",
        file=f"thriftgate-{name}-{period}.csv",
    )


def _notes(report: CostReport, *, is_attached: bool) -> list[str]:
    """Notes on what savings do not count, and on where all rows are."""
    notes = []
    if report.savings is not None:
        fallback_nanos = report.savings.fallback_nanos
        notes = [fallback_sentence(fallback_nanos)] if fallback_nanos else []
        notes += map(uncounted_sentence, report.savings.uncounted)
    if len(report.rows) > MAX_ROWS:
        where = "The attached CSV" if is_attached else "`thriftgate report cost`"
        notes.append(f"{where} has all {len(report.rows):,} rows.")
    return notes


def _bars(costs: CostsView | None) -> list[MailBar]:
    """The bars of a chart, each with its part of the highest."""
    nanos = [] if costs is None else daily_costs(costs)
    highest = max(nanos, default=0)
    if costs is None or highest <= 0:
        return []
    return [
        MailBar(
            name=bucket_name(start, costs.tz, costs.unit),
            nanos=amount,
            height=max(_BAR_PIXELS * amount // highest, 1),
        )
        for start, amount in zip(costs.starts, nanos, strict=True)
    ]


def _figures(sums: CostSums) -> tuple[str, ...]:
    return (
        f"{sums.calls:,}",
        f"{sums.errors:,}",
        f"{sums.tokens:,}",
        exact_usd(sums.list_nanos),
        exact_usd(sums.cost_nanos),
        f"{sums.unpriced:,}",
    )


def _plain_text(shown: MailContents) -> str:
    """The mail for readers without HTML: exact figures, a table in columns."""
    summary = shown.summary
    lines = [shown.whose, summary.days, ""]
    lines += [_figure_line(figure) for figure in summary.figures]
    lines += ["", *summary.sentences]
    if summary.rows:
        titles = [*summary.dimensions, *_FIGURES]
        rows = [[*row.names, *_figures(row.sums)] for row in summary.rows]
        lines += ["", *_columns([titles, *rows], len(summary.dimensions))]
    if summary.rest_count:
        lines.append(f"and {summary.rest_count:,} more: {exact_usd(summary.rest.cost_nanos)}")
    lines += ["", *shown.notes] if shown.notes else []
    return "\n".join([*lines, "", shown.origin, ""])


def _figure_line(figure: SummaryFigure) -> str:
    note = f" ({figure.note})" if figure.note else ""
    return f"{figure.title}: {figure.exact or figure.value}{note}"


def _columns(rows: Sequence[Sequence[str]], dimensions: int) -> list[str]:
    """Rows as lines: names to the left, figures to the right."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    return [
        "  ".join(
            text.ljust(width) if n < dimensions else text.rjust(width)
            for n, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
