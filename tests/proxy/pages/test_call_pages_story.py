"""The page of one call: its upstream's words, phases and the bar of its prompt."""

import re
from html import unescape

import pytest

from proxy.records.receipt import Outcome
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.store import Store
from slo.usage import Usage
from tests.fakes.board import NOW
from tests.fakes.receipts import a_receipt, an_engine_receipt
from tests.proxy.pages.test_call_pages import EVIL, MISS, CallPagesBrowser


@pytest.fixture
def pages(store: Store) -> CallPagesBrowser:
    return CallPagesBrowser(store)


def test_a_failed_call_shows_the_words_of_its_upstream_and_reasons_as_sentences(
    pages: CallPagesBrowser,
) -> None:
    failed = a_receipt(
        3, started=NOW - 57, team=pages.team, usage=None, outcome=Outcome.FAILED, status=503,
        error="upstream_overloaded", upstream_error=f"it answered 503 {EVIL}",
        unplanned_why="under_2_kb", compaction="auto", compaction_why="too_few_calls",
    )  # fmt: skip
    inserter(pages.store._engine)([failed])
    html = pages.text(f"/calls/{failed.call_id}")

    assert EVIL not in html
    assert f'<q class="upstream-words">it answered 503 {EVIL}</q>' in unescape(html)
    assert 'failed, <span title="upstream_overloaded">upstream overloaded</span>' in html
    assert "its prompt is smaller than 2 KB" in html
    assert "nothing is known before" in html
    assert "under_2_kb" not in html
    assert "too_few_calls" not in html


def test_a_refused_call_names_its_budget_and_has_no_cost_sent_directly(
    pages: CallPagesBrowser,
) -> None:
    sentence = "The budget `day` of team `acme` has a limit of $2 a day."
    refused = a_receipt(
        3, started=NOW - 57, team=pages.team, usage=None, cost_nanos=None, outcome=Outcome.REFUSED,
        status=429, error="budget_exceeded", notes=(sentence,), ttft=None,
    )  # fmt: skip
    inserter(pages.store._engine)([refused])
    html = unescape(pages.text(f"/calls/{refused.call_id}"))

    assert f"<dd>Nothing was sent: {sentence}</dd>" in html
    assert '<p class="hint">nothing was sent</p>' in html
    assert "sent directly" not in html
    assert "It went to" not in html


def test_phases_of_an_engine_stand_below_their_attempt_in_their_order(
    pages: CallPagesBrowser,
) -> None:
    call = an_engine_receipt(3, started=NOW - 57, team=pages.team)
    inserter(pages.store._engine)([call, a_receipt(4, started=NOW - 56, team=pages.team)])
    phases = re.findall(
        r'<tr class="phase"><th scope="row">(\w+)', pages.text(f"/calls/{call.call_id}")
    )

    assert phases == ["Gateway", "Queue", "Prefill", "Decode", "Transfer"]
    plain = pages.text(f"/calls/{a_receipt(4, started=NOW - 56, team=pages.team).call_id}")
    assert 'class="phase"' not in plain


def test_bar_of_a_prompt_shows_what_was_read_written_and_new(pages: CallPagesBrowser) -> None:
    planned = a_receipt(
        3,
        started=NOW - 57,
        team=pages.team,
        **MISS,
        usage=Usage(input=60, cache_read=850, write_1h=90),
    )
    inserter(pages.store._engine)([planned])
    html = pages.text(f"/calls/{planned.call_id}")
    parts = re.findall(r'<rect class="(read|written|new)" x="([\d.]+)"', html)

    assert parts == [("read", "0.0"), ("written", "850.0"), ("new", "940.0")]
    assert '<td data-name="Written" class="number">50</td>' in html
    assert "as much as sent directly" in html


@pytest.mark.parametrize("path", ["/now?window=6h&by=route", "/latency?by=route&window=15m"])
def test_a_filter_of_a_team_shows_its_name_whichever_rows_there_are(
    pages: CallPagesBrowser, path: str
) -> None:
    assert "team: acme ×" in pages.text(f"{path}&team={pages.team}")  # noqa: RUF001


def test_a_row_of_latencies_narrows_to_its_value(pages: CallPagesBrowser) -> None:
    html = pages.text("/latency?by=feature&metric=duration&window=24h")

    links = re.findall(r'<th scope="row"><a href="\?([^"]+)"', html)
    assert links
    for part in ("feature=", "by=model", "metric=duration"):
        assert all(part in link for link in links)
