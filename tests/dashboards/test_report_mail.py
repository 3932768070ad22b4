import csv
import io
import re
from datetime import date
from decimal import Decimal
from email import message_from_bytes, policy
from html.parser import HTMLParser

from dashboards.cost_reports import CostSums
from dashboards.formatting import exact_usd
from dashboards.report_mail import MAX_CSV_BYTES, MAX_ROWS, ReportMail, report_mail
from dashboards.reports import ReportPeriod
from tests.fakes.read_reports import a_read_report, costs_of, sums_of

PERIOD = ReportPeriod(first=date(2026, 11, 16), end=date(2026, 11, 23), zone="Europe/Berlin")
EVIL = '<script>alert(1)</script><img src="https://evil.example/x">\r\nBcc: x@evil.example'


def mail(*rows: tuple[str, CostSums], team: str = "", name: str = "weekly") -> ReportMail:
    named = [(("t1", feature), row) for feature, row in rows]
    costs = costs_of(PERIOD, *((feature, row.priced_nanos, 1) for feature, row in rows))
    read = a_read_report(
        PERIOD, ("team", "feature"), named, names={"t1": "assistants"}, costs=costs
    )
    return report_mail(name, read, team)


class Elements(HTMLParser):
    """The elements of a mail's HTML, with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_and_text_show_the_same_exact_figures_as_the_csv() -> None:
    made = mail(("chat", sums_of(1_234_567_891)), ("search", sums_of(2)))
    (_, *rows) = csv.reader(io.StringIO(made.csv, newline=""))

    assert sum(Decimal(row[10]) for row in rows) == Decimal("1.234567893")
    for shown in (made.text, Elements(made.html).text):
        assert "$1.234567893" in shown
        assert "$1.234567891" in shown
        assert "assistants" in shown
        assert "2026-11-16 to 2026-11-22, days in Europe/Berlin" in shown


def test_html_shows_amounts_to_read_at_a_glance_and_shares_beside_the_exact_ones() -> None:
    shown = Elements(
        mail(("chat", sums_of(30 * 10**9, errors=3)), ("search", sums_of(10**10))).html
    )

    for text in ("$40.00", "$30.00", "75.0 % of cost", "25.0 % of cost", "3 failed"):
        assert text in shown.text
    assert [
        attributes["style"]
        for _, attributes in shown.found
        if "width:75.0%" in (attributes.get("style") or "")
    ]


def test_the_mail_compares_with_the_days_before_and_draws_each_day() -> None:
    made = mail(("chat", sums_of(3 * 10**9)), ("search", sums_of(10**9)))
    cells = [attributes for tag, attributes in Elements(made.html).found if tag == "td"]

    assert "vs previous 7 days" in made.text
    assert "Spend rose" in made.text
    assert made.html.count('title="2026-11-16: $4.00"') == 1
    assert sum("title" in attributes for attributes in cells) == 7


def test_the_mail_has_colours_for_dark_and_light() -> None:
    html = mail(("chat", sums_of(1))).html

    assert '<meta name="color-scheme" content="light dark">' in html
    assert "prefers-color-scheme: dark" in html


def test_the_dearest_row_comes_first() -> None:
    made = mail(("cheap", sums_of(2)), ("dear", sums_of(9)))

    assert made.text.index("dear") < made.text.index("cheap")


def test_callers_text_is_escaped_and_nothing_is_loaded() -> None:
    made = mail((EVIL, sums_of(1)), team=EVIL)
    page = Elements(made.html)
    tags = {tag for tag, _ in page.found}

    assert not tags & {"script", "img", "link", "iframe", "a", "form", "svg"}
    assert [tag for tag, _ in page.found].count("style") == 1
    assert not any(
        {"src", "href", "background", "onerror"} & set(attributes) for _, attributes in page.found
    )
    assert not any("url(" in (attributes.get("style") or "") for _, attributes in page.found)
    assert "<script>alert(1)</script>" in page.text
    assert len(made.subject.splitlines()) == 1
    assert all("Bcc" not in line[:3] for line in made.text.splitlines())


def test_a_formula_in_a_name_is_inert_in_the_csv() -> None:
    (_, row) = csv.reader(io.StringIO(mail(("=HYPERLINK(1)", sums_of(1))).csv, newline=""))

    assert row[1] == "'=HYPERLINK(1)"


def test_attempts_at_no_known_price_are_named() -> None:
    made = mail(("chat", sums_of(1, unpriced=3)))

    assert "3 attempts have no known price and are in no cost." in made.text
    assert "3 attempts have no known price and are in no cost." in made.html


def test_a_period_without_calls_is_said() -> None:
    made = mail()

    assert "No calls in this period." in made.text
    assert "<tbody>" not in made.html


def test_of_many_rows_the_dearest_are_shown_and_all_are_attached() -> None:
    made = mail(*((f"f{n:04}", sums_of(n + 1)) for n in range(MAX_ROWS + 50)))

    rest = f"and 50 more: {exact_usd(sum(range(1, 51)))}"

    assert rest in made.text
    assert "and 50 more: " in made.html
    assert f"The attached CSV has all {MAX_ROWS + 50} rows." in made.text
    assert len(re.findall(" of cost</span>", made.html)) == MAX_ROWS
    assert len(made.csv.splitlines()) == MAX_ROWS + 51


def test_a_csv_that_servers_would_refuse_is_left_out_and_named() -> None:
    rows = 1 + MAX_CSV_BYTES // 1_000
    made = mail(*((f"{n}" + "x" * 1_000, sums_of(1)) for n in range(rows)))

    assert made.csv == ""
    assert "`thriftgate report cost` has all" in made.text
    names = [part.get_filename() for part in made.message("a@b.c", "d@e.f", 0.0).iter_attachments()]
    assert names == []


def test_a_message_has_text_then_html_and_the_csv() -> None:
    made = mail(("chät", sums_of(1)))
    sent = made.message("reports@example.com", "ann@example.com", 1_790_000_000.0)
    read = message_from_bytes(sent.as_bytes(policy=policy.SMTP), policy=policy.default)
    kinds = [part.get_content_type() for part in read.walk() if not part.is_multipart()]
    (attached,) = read.iter_attachments()

    assert kinds == ["text/plain", "text/html", "text/csv"]
    assert (read["From"], read["To"]) == ("reports@example.com", "ann@example.com")
    assert read["Subject"] == "Costs of all teams, 2026-W47"
    assert read["Auto-Submitted"] == "auto-generated"
    assert attached.get_filename() == "thriftgate-weekly-2026-W47.csv"
    assert attached.get_payload(decode=True) == made.csv.encode()
    assert attached.get_content() == made.csv
    shown = read.get_body(("plain",))
    assert shown is not None
    assert "chät" in shown.get_content()


def test_a_message_that_is_sent_again_has_the_same_id_and_others_another() -> None:
    made = mail(("chat", sums_of(1)))
    ids = {made.message("r@x.y", "ann@x.y", moment)["Message-ID"] for moment in (0.0, 99.0)}

    assert len(ids) == 1
    assert made.message("r@x.y", "bob@x.y", 0.0)["Message-ID"] not in ids
    assert mail(name="other").message("r@x.y", "ann@x.y", 0.0)["Message-ID"] not in ids
