"""A cost report as a mail: HTML without anything to load, plain text, and all rows as CSV.

Names of features, models and teams are callers' text: they are escaped in HTML, stand on one line
in plain text and in the subject, and begin no formula in the CSV.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from hashlib import sha256
from typing import Final

from dashboards import pages
from dashboards.cost_formats import cost_csv, shown_values
from dashboards.cost_reports import CostReport, CostSums
from dashboards.formatting import exact_usd
from dashboards.report_periods import period_name
from dashboards.savings_headline import SavingsHeadline, headline_sentences
from slo.alert import single_line

#: Rows that the mail shows, the dearest; the CSV has all.
MAX_ROWS: Final = 100
#: Bytes of a CSV that is attached; servers refuse mails that are much larger.
MAX_CSV_BYTES: Final = 2 * 1024 * 1024
_MAX_NAME_CHARS: Final = 80
_FIGURES: Final = ("Calls", "Errors", "Tokens", "List cost", "Cost", "Unpriced")
_NONE: Final = "(none)"


@dataclass(frozen=True, slots=True, kw_only=True)
class MailRow:
    """A row of a report: its dimensions as texts of one line, its figures, its part of the cost."""

    names: Sequence[str]
    sums: CostSums
    percent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MailContents:
    """The contents that HTML and plain text show alike.

    Attributes:
        savings: Headline of what was saved; None where it is not known.
        notes: Sentences on what was saved, and on what the figures leave out.
        dimensions: Titles of the columns that are no figures.
        rows: The dearest rows, the dearest first.
        origin: The sentence that says where the mail comes from.
    """

    subject: str
    whose: str
    days: str
    total: CostSums
    savings: SavingsHeadline | None
    notes: Sequence[str]
    dimensions: Sequence[str]
    rows: Sequence[MailRow]
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


def report_mail(name: str, report: CostReport, teams: Mapping[str, str], team: str) -> ReportMail:
    """The mail of the scheduled report of this name, about one team or, for "", all teams."""
    period = period_name(report.period)
    whose = f"Costs of {single_line(team, _MAX_NAME_CHARS)}" if team else "Costs of all teams"
    csv = cost_csv(report, teams)
    is_attached = len(csv.encode()) <= MAX_CSV_BYTES
    shown = MailContents(
        subject=f"{whose}, {period}",
        whose=whose,
        days=_days(report),
        total=report.total,
        savings=report.savings,
        notes=_notes(report, is_attached=is_attached),
        dimensions=[dimension.capitalize() for dimension in report.by],
        rows=_rows(report, teams),
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


def _days(report: CostReport) -> str:
    last = report.period.end - timedelta(days=1)
    return f"{report.period.first} to {last}, days in {report.period.zone}"


def _notes(report: CostReport, *, is_attached: bool) -> list[str]:
    """Notes on what was saved, and on what the figures leave out, in sentences."""
    notes = [] if report.savings is None else headline_sentences(report.savings)
    if not report.rows:
        notes.append("No calls in this period.")
    if report.total.unpriced:
        notes.append(f"{report.total.unpriced:,} attempts have no known price and are in no cost.")
    if len(report.rows) > MAX_ROWS:
        where = "the attached CSV has all" if is_attached else "`thriftgate report cost` has all"
        notes.append(f"The {MAX_ROWS} dearest of {len(report.rows):,} rows; {where}.")
    return notes


def _rows(report: CostReport, teams: Mapping[str, str]) -> list[MailRow]:
    """The dearest rows, their names each on one line."""
    dearest = sorted(report.rows, key=lambda row: -row.sums.priced_nanos)[:MAX_ROWS]
    whole = report.total.priced_nanos
    return [
        MailRow(
            names=[
                single_line(value, _MAX_NAME_CHARS) or _NONE
                for value in shown_values(report.by, row, teams)
            ],
            sums=row.sums,
            percent=100 * row.sums.priced_nanos / whole if whole > 0 else 0.0,
        )
        for row in dearest
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
    total = shown.total
    lines = [
        shown.whose,
        shown.days,
        "",
        f"Cost: {exact_usd(total.cost_nanos)}",
        f"List cost: {exact_usd(total.list_nanos)}",
        f"Calls: {total.calls:,}",
        f"Tokens: {total.tokens:,}",
    ]
    lines += ["", *shown.notes] if shown.notes else []
    if shown.rows:
        titles = [*shown.dimensions, *_FIGURES]
        rows = [[*row.names, *_figures(row.sums)] for row in shown.rows]
        lines += ["", *_columns([titles, *rows], len(shown.dimensions))]
    return "\n".join([*lines, "", shown.origin, ""])


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
