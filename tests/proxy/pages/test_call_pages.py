"""Pages of calls and caches over a ledger: filters, a call's story, why a call missed."""

import re
from collections import deque
from datetime import datetime
from html import unescape
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import parse_qs, urlencode

import msgspec
import pytest

from dashboards.views.fast_path import WrongHit
from proxy.calls.answer_cache_port import AnswerCachePort
from proxy.fast_path.similarity.evidence import no_evidence
from proxy.records.feature_mode import LayoutScope
from proxy.records.mark_account import MarkAccountChange, StoredMarkAccount
from proxy.records.prompt_segments import CacheMark, PromptSegments
from proxy.records.receipt import Outcome, ServedBy
from proxy.services.fast_path.similar_answer_cache import SimilarAnswerCache
from proxy.store.sql.ids import id_floor
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.views.fast_path import FastPathRules
from proxy.store.store import Store
from slo.policies.answer_cache import AnswerCachePolicy
from slo.usage import Usage
from tests.fakes.admin_browser import Browser
from tests.fakes.board import NOW
from tests.fakes.receipts import a_receipt

EVIL = "<script>alert(1)</script>"

MISS: dict[str, Any] = {
    "conversation": "c" * 32,
    "miss": "expired",
    "miss_detail": "310 seconds after the last use",
    "miss_tokens": 900,
    "miss_nanos": 12_000_000,
    "expected_read": 1_000,
    "segments": PromptSegments(900, 0, 100, (CacheMark(900, "1h"),)),
}


class CallPagesBrowser:
    """A signed-in browser before three calls of one team, of which one missed."""

    def __init__(self, store: Store) -> None:
        self.store, self.team = store, store.teams.create("acme", now=NOW).id
        named: dict[str, Any] = {"team": self.team, "feature": "chat"}
        self.receipts = [
            a_receipt(0, started=NOW - 60, **named),
            a_receipt(
                1,
                started=NOW - 59,
                reroute_reason="chat-ttft: fallback level 1",
                **{**named, "feature": EVIL},
            ),
            a_receipt(2, started=NOW - 58, **named, **MISS),
        ]
        inserter(store._engine)(self.receipts)
        self.browser = Browser(store=store)
        self.browser.sign_in()

    def text(self, path: str, status: int = 200) -> str:
        answer = self.browser.get(path)
        assert answer.status == status
        return answer.body.decode()


@pytest.fixture
def pages(store: Store) -> CallPagesBrowser:
    return CallPagesBrowser(store)


def test_calls_are_listed_newest_first_with_their_notes(pages: CallPagesBrowser) -> None:
    html = pages.text("/calls?from=2026-09-20&to=2026-09-22")
    places = [html.index(f"/admin/calls/{receipt.call_id}") for receipt in reversed(pages.receipts)]

    assert places == sorted(places)
    assert "missed: expired" in html
    assert "chat-ttft: fallback level 1" in html
    assert EVIL not in html


def test_a_filter_narrows_the_list(pages: CallPagesBrowser) -> None:
    html = pages.text("/calls?from=2026-09-20&to=2026-09-22&miss=*")

    assert pages.receipts[2].call_id in html
    assert pages.receipts[0].call_id not in html


def test_calls_can_be_followed_on_the_first_page_of_a_period_that_goes_on(
    pages: CallPagesBrowser,
) -> None:
    assert 'id="live"' in pages.text("/calls?tz=Europe/Berlin")
    assert 'id="live"' not in pages.text("/calls?from=2026-08-01&to=2026-08-02")
    assert 'id="live"' not in pages.text(f"/calls?after={pages.receipts[2].call_id}")
    assert 'id="live"' not in pages.text("/calls?sort=cost")


def test_a_followed_page_gets_the_rows_that_are_newer_and_no_frame(pages: CallPagesBrowser) -> None:
    calls = [
        a_receipt(n, started=at, call_id=f"{id_floor(at)[:-1]}{n}", team=pages.team, feature="chat")
        for n, at in enumerate((NOW - 400, NOW - 299, NOW - 1))
    ]
    inserter(pages.store._engine)(calls)
    rows = pages.text(f"/calls?feature=chat&newer={id_floor(NOW)}")

    assert [call.call_id in rows for call in calls] == [False, True, True]
    assert rows.index(calls[2].call_id) < rows.index(calls[1].call_id)
    assert "<html" not in rows
    assert "<tbody" not in rows
    assert pages.text(f"/calls?feature=other&newer={id_floor(NOW)}").strip() == ""
    assert pages.browser.get("/calls?newer=nonsense").status == 422


def test_row_of_a_call_has_its_details_behind_each_value(pages: CallPagesBrowser) -> None:
    call = a_receipt(
        5, started=NOW - 57, team=pages.team, model="large", route="lab/small", attempt=1,
        served_by=ServedBy.SMALL, cost_nanos=12_300_000, duration=0.25, ttft=None,
        usage=Usage(input=1_500, cache_read=500),
    )  # fmt: skip
    inserter(pages.store._engine)([call])
    page = pages.text("/calls?from=2026-09-20&to=2026-09-22")
    row = page.partition(call.call_id)[2].partition("</tr>")[0]
    cells = re.findall(r'<td data-name="([^"]+)"[^>]*>(.*?)</td>', row)

    assert dict(cells) == {
        "Team, feature": f"acme<small>{call.feature or '(none)'}</small>",
        "Model": "small<small>asked for large</small><small>fast path: small model</small>",
        "Outcome": "answered<small>2 attempts</small>",
        "Cost": "$0.0123",
        "Prompt": "2.0 k<small>25.0 % cached</small>",
        "Answer": "0",
        "First token": "\u2013",
        "Total": "250 ms",
    }


def test_a_planned_calls_segments_are_drawn_with_their_marks(pages: CallPagesBrowser) -> None:
    html = pages.text(f"/calls/{pages.receipts[2].call_id}")

    assert '<rect class="stable" x="0.0" y="4" width="900.0"' in html
    assert "semi-stable" not in html
    assert "900 for 1h" in html
    assert html.index("Prompt as it was sent") < html.index('<svg class="segments"')
    assert '<rect class="mark" x="898.5"' in html
    assert "segments" not in pages.text(f"/calls/{pages.receipts[0].call_id}")


def test_a_call_tells_its_story_with_its_cost_lines(pages: CallPagesBrowser) -> None:
    html = pages.text(f"/calls/{pages.receipts[2].call_id}")

    assert "Attempt 1" in html
    assert "Prompt, read from the cache" in html
    assert f"/admin/cache/{pages.receipts[2].call_id}" in html


def test_a_call_shows_where_its_time_went_and_leads_to_calls_like_it(
    pages: CallPagesBrowser,
) -> None:
    html = pages.text(f"/calls/{pages.receipts[2].call_id}")

    assert "Where the time went" in html
    assert '<rect class="waiting" x="0.0"' in html
    (alike,) = re.findall(r'<a class="button" href="/admin/calls\?([^"]+)">Calls like this', html)
    assert parse_qs(unescape(alike))["team"] == [pages.team]
    assert pages.receipts[2].call_id in pages.text(
        f"/calls?from=2026-09-20&to=2026-09-22&{unescape(alike)}"
    )


def test_a_filter_by_one_reason_for_a_miss_stays_when_the_form_is_sent_again(
    pages: CallPagesBrowser,
) -> None:
    (choice,) = re.findall('<select name="miss">.*?</select>', pages.text("/calls?miss=changed"))

    assert "<option selected>changed</option>" in choice
    assert "<option selected" not in pages.text("/calls?miss=*").partition('name="miss"')[2]


def test_filters_that_are_left_empty_narrow_nothing(pages: CallPagesBrowser) -> None:
    empty = "&".join(
        f"{name}="
        for name in ("outcome", "error", "miss", "rerouted", "served_by", "unpriced", "min_ttft")
    )
    html = pages.text(f"/calls?from=2026-09-20&to=2026-09-22&{empty}")

    assert all(receipt.call_id in html for receipt in pages.receipts)
    assert '<details class="more">' in html


def test_the_page_of_a_miss_says_what_to_do_where_prompts_are_not_kept(
    pages: CallPagesBrowser,
) -> None:
    html = pages.text(f"/cache/{pages.receipts[2].call_id}")

    assert "310 seconds after the last use" in html
    assert "Teams and keys</a> stores them from then on" in html


def test_cache_health_leads_to_the_dearest_miss(pages: CallPagesBrowser) -> None:
    html = pages.text("/cache?from=2026-09-20&to=2026-09-22")

    assert "expired" in html
    assert pages.receipts[2].call_id in html


def test_cache_marks_stand_with_the_misses_where_any_were_sent(pages: CallPagesBrowser) -> None:
    path = "/cache?from=2026-09-20&to=2026-09-22"
    bare = pages.text(path)
    scope = LayoutScope(pages.team, EVIL, "claude-sonnet")
    account = StoredMarkAccount(
        scope=scope, balance=-8_100_000, staked=12_300_000, earned=4_200_000, calls=1_200
    )
    pages.store.mark_accounts.add([MarkAccountChange(account=account)], NOW)
    html = pages.text(path)

    assert "marks-title" not in bare
    net = "net \N{MINUS SIGN}$0.00810."
    assert f"Cache marks: paid ahead $0.0123, earned back $0.00420, {net}" in html
    assert "Paid ahead: the surcharge for storing prompts in the cache." in html
    assert "without calls of the control arm" in html
    assert "Lost now: $0.00810." in html
    assert "claude-sonnet" in html
    assert EVIL not in html


@pytest.mark.parametrize("path", ["/calls/none", f"/cache/call_{32 * '0'}", "/calls/%3Cx%3E"])
def test_a_call_that_is_not_there_is_told_as_a_page(pages: CallPagesBrowser, path: str) -> None:
    assert "This cannot be done" in pages.text(path, 404)


def test_the_fast_path_page_shows_calls_by_what_served_them_and_escapes_features(
    pages: CallPagesBrowser,
) -> None:
    named: dict[str, Any] = {"team": pages.team, "feature": EVIL, "started": NOW - 50}
    hit = a_receipt(7, **named, served_by=ServedBy.CACHE, fast_path_nanos=10**9)
    inserter(pages.store._engine)([hit])
    html = unescape(page := pages.text("/fast-path"))

    assert EVIL not in page
    assert f'<th scope="row">{EVIL}<small>' in html
    assert '<td data-name="From cache" class="number">1</td>' in html
    assert '<h2>Answers given before</h2><p class="value">$1.00</p>' in html
    assert "weighed no call for a small model yet" in html


def test_the_fast_path_page_shows_wrong_hits_side_by_side_and_escapes_them(
    pages: CallPagesBrowser,
) -> None:
    cache = SimilarAnswerCache(
        cast("AnswerCachePort", SimpleNamespace(flights=None)),
        evidence={(pages.team, "faq"): no_evidence(0.01)},
    )
    hit = WrongHit(checked_at=NOW, asked=EVIL, answer="block", similar="lock it")
    cache._wrong[pages.team, "faq"] = deque([hit])
    rule = AnswerCachePolicy(name="faq", similar=True, show_wrong=True)
    shown = pages.browser.ledger.fast_path
    shown.similar, shown.rules = lambda: cache, lambda: FastPathRules(answer_cache=(rule,))

    html = unescape(page := pages.text("/fast-path"))

    assert EVIL not in page
    assert f'<td data-name="Question">{EVIL}</td>' in html
    assert '<td data-name="Similar question">lock it</td>' in html
    assert '<td data-name="Its answer">no longer kept</td>' in html
    assert '<td data-name="Served">not proved yet</td>' in html
    shown.rules = lambda: FastPathRules(
        answer_cache=(msgspec.structs.replace(rule, show_wrong=False),)
    )
    assert "texts are not kept" in pages.text("/fast-path")


@pytest.mark.parametrize("path", ["/savings", "/latency?metric=duration&by=model"])
def test_pages_of_figures_are_drawn(pages: CallPagesBrowser, path: str) -> None:
    separator = "&" if "?" in path else "?"
    html = pages.text(f"{path}{separator}from=2026-09-20&to=2026-09-22")

    assert "data-chart=" in html
    assert EVIL not in html


def test_page_of_the_last_minutes_loads_itself_again_until_it_is_paused(
    pages: CallPagesBrowser,
) -> None:
    running = pages.browser.get("/now?by=team")
    long = pages.browser.get("/now?window=6h")
    paused = pages.browser.get("/now?live=off&window=6h&feature=other")

    assert running.status == 200
    assert 'data-reload-s="15"' in running.body.decode()
    assert 'http-equiv="refresh" content="60"' in long.body.decode()
    assert "loads itself every 60 s" in long.body.decode()
    assert "reload" not in paused.body.decode()
    assert "No calls in this window" in paused.body.decode()
    assert "6 hours" in paused.body.decode()
    assert EVIL not in running.body.decode()


def test_an_error_of_the_last_minutes_leads_to_its_calls_by_the_same_filters(
    pages: CallPagesBrowser,
) -> None:
    failed = a_receipt(
        3,
        call_id=id_floor(NOW - 57),
        started=NOW - 57,
        team=pages.team,
        feature="chat",
        outcome=Outcome.FAILED,
        error="boom",
    )
    inserter(pages.store._engine)([failed])

    (query,) = re.findall(
        r'/calls\?([^"]+)">boom', pages.text("/now?feature=chat&window=6h&by=team")
    )

    parameters = parse_qs(unescape(query))
    since, until = (datetime.fromisoformat(parameters.pop(name)[0]) for name in ("since", "until"))
    assert parameters == {"feature": ["chat"], "outcome": ["error"], "ended_with": ["boom"]}
    assert 0 < until.timestamp() - NOW <= 1
    assert 21_300 < NOW - since.timestamp() <= 21_600
    html = pages.text(f"/calls?{unescape(query)}")
    assert failed.call_id in html
    assert html.count("<tr>") == 2


def test_calls_of_a_window_light_its_preset_and_no_days(pages: CallPagesBrowser) -> None:
    html = pages.text("/calls?window=15m")
    days = pages.text("/calls?window=15m&from=2026-09-01")

    assert 'aria-current="true">15 minutes</a>' in html
    assert html.count('aria-current="true"') == 1
    assert 'name="from" value=""' in html
    assert "last 15 minutes ×" in html  # noqa: RUF001
    assert 'name="from" value="2026-09-01"' in days
    assert "last 15 minutes" not in days


def test_a_failing_route_stands_first_with_the_upstreams_words_and_leads_to_its_calls(
    pages: CallPagesBrowser,
) -> None:
    failed = a_receipt(
        3,
        started=NOW - 57,
        team=pages.team,
        route="lab/big",
        outcome=Outcome.FAILED,
        error="upstream_rate_limited",
        upstream_error="429 rate_limit_exceeded: slow down",
    )
    inserter(pages.store._engine)([failed])
    html = pages.text("/now?window=6h&by=model")

    assert "1 of 1 attempts failed" in html
    assert "429 rate_limit_exceeded: slow down" in html
    assert "no answer in this time (UTC)" in html
    assert 'href="/admin/models?q=lab%2Fbig">Disable it' in html
    assert html.count(f'href="/admin/calls/{failed.call_id}"') == 2
    for error in ("", "&amp;error=upstream_rate_limited"):
        assert re.search(rf'/admin/calls\?since=[^"]+&amp;failed_route=lab%2Fbig{error}"', html)
    assert html.index("Routes that fail") < html.index("Calls and errors")


def test_tags_are_escaped_and_lead_to_the_calls_of_their_value(pages: CallPagesBrowser) -> None:
    tagged = a_receipt(
        3, started=NOW - 57, team=pages.team, cost_nanos=5, tags=(("customer", EVIL),)
    )
    inserter(pages.store._engine)([tagged])
    period = "from=2026-09-20&to=2026-09-22"
    call = pages.text(f"/calls/{tagged.call_id}")
    (link,) = re.findall(r'href="/admin(/calls\?tag=[^"]+)"', call)
    calls = pages.text(f"{unescape(link)}&{period}")

    assert tagged.call_id in calls
    assert pages.receipts[0].call_id not in calls
    assert EVIL not in call + calls
    assert pages.browser.get("/now?by=tag:customer&tag=customer:x&window=6h").status == 200
    assert pages.browser.get("/now?by=tag:").status == 422


def test_each_filter_of_calls_is_a_chip_that_takes_it_away(pages: CallPagesBrowser) -> None:
    filters = {
        "q": "req_1", "outcome": "hung_up", "status": "429", "error": "upstream_timeout",
        "miss": "diverged", "rerouted": "true", "served_by": "small", "min_cost_usd": "0.05",
        "min_ttft": "2",
    }  # fmt: skip
    html = pages.text(f"/calls?{urlencode(filters)}")
    chips = html.partition('<p class="chips">')[2].partition("</p>")[0]
    links = re.findall(r'href="\?([^"]*)"[^>]*>([^<]+) ×</a>', chips)  # noqa: RUF001

    assert {text for _, text in links} == {
        "search req_1", "outcome caller left", "any attempt: status 429",
        "any attempt: upstream timeout",
        "cache missed diverged", "rerouted", "fast path small model", "cost from $ 0.05",
        "first token from seconds 2",
    }  # fmt: skip
    assert all(len(parse_qs(unescape(query))) == len(filters) - 1 for query, _ in links)
