"""Forms of the pages change what they say, and say why they cannot."""

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

from compaction.policy import CompactionMode
from proxy.engines.state.traffic_file import (
    EngineTraffic,
    SettingReport,
    SpeculationReport,
    TrafficFile,
    WarmingReport,
)
from proxy.prefix.layouts.layout import Layout
from proxy.records.feature_mode import LayoutScope, PlanningMode
from proxy.store.sql.ids import call_ids
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.settings.pins import PinRow
from proxy.store.store import Store
from tests.fakes.admin_browser import Browser
from tests.fakes.asgi import AsgiConnection
from tests.fakes.board import NOW
from tests.fakes.receipts import a_receipt

EVIL = "<script>alert(1)</script>"


class OperationPagesBrowser:
    """A signed-in browser before pages over a store with a team and a proposed layout."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.team = store.teams.create(EVIL, now=NOW).id
        self.scope = LayoutScope(self.team, EVIL, "gpt")
        moves = msgspec.json.encode(Layout(version=1, moves=())).decode()
        store.layouts.propose(self.scope, "d1", moves, NOW)
        self.browser = Browser(store=store)
        self.browser.sign_in()
        self.path = f"/layouts/{self.team}/{EVIL}"

    def submit(self, path: str, **fields: str) -> AsgiConnection:
        return self.browser.post(path, urlencode(fields).encode())


@pytest.fixture
def pages(store: Store) -> OperationPagesBrowser:
    return OperationPagesBrowser(store)


def test_a_layout_is_approved_by_its_form(pages: OperationPagesBrowser) -> None:
    assert "Approve version 1" in pages.browser.get(pages.path).body.decode()
    answer = pages.submit(pages.path, change="approve", version="1", family="gpt")

    assert answer.status == 303
    assert pages.store.layouts.states().of(pages.scope).version == 1
    assert "Roll back layout 1" in pages.browser.get(pages.path).body.decode()


def test_a_mode_is_set_by_its_form(pages: OperationPagesBrowser) -> None:
    assert pages.submit(pages.path, change="mode", mode="off", family="").status == 303
    assert pages.store.layouts.states().of(pages.scope).mode is PlanningMode.OFF


def test_compaction_that_lost_its_stake_says_how_much_and_how_to_go_on(
    pages: OperationPagesBrowser,
) -> None:
    pages.submit(pages.path, change="compaction", compaction="facts")
    losing: dict[str, Any] = {"team": pages.team, "feature": EVIL, "compaction_nanos": -21_300_000}
    at = NOW - 3_600
    call = a_receipt(call_id=call_ids()(at), started=at, compaction="facts", **losing)
    assert inserter(pages.store._engine)([call]) is None

    html = pages.browser.get(pages.path).body.decode()

    assert "compaction cost $0.0213 more than it saved" in html
    assert "THRIFTGATE_LEARNING_STAKE" in html
    assert "cost $0.0213 more" in pages.browser.get("/layouts").body.decode()


def test_compaction_is_set_with_how_far_it_goes_and_resumed(pages: OperationPagesBrowser) -> None:
    chosen = {"compaction": "facts", "keep_turns": "4", "target_tokens": "9000"}
    assert pages.submit(pages.path, change="compaction", **chosen).status == 303
    place = (pages.team, EVIL)
    setting = pages.store.compactions.all_settings().of(*place)
    assert (setting.mode, setting.keep_turns, setting.target) == (CompactionMode.FACTS, 4, 9_000)

    pages.store.compactions.step_back(place, CompactionMode.TRIM, "lost a fact", NOW)
    html = pages.browser.get(pages.path).body.decode()
    assert "the last 4 turns stay unmodified; prompts come down to 9,000 tokens" in html
    assert "Resume compaction" in html
    assert pages.submit(pages.path, change="resume compaction").status == 303
    assert "Resume compaction" not in pages.browser.get(pages.path).body.decode()


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"change": "mode", "mode": "fast"}, "mode: Input should be"),
        ({"change": "approve", "version": "9", "family": "gpt"}, "version 9"),
        ({"change": "resume"}, "the gateway has not stopped planning here"),
        ({"change": "resume compaction"}, "the gateway has not stopped compaction here"),
        ({"change": "compaction", "compaction": "facts", "keep_turns": "0"}, "keep_turns"),
        ({"change": "nothing"}, "no form of these pages"),
    ],
)
def test_a_change_that_cannot_be_made_is_a_page_with_the_reason(
    pages: OperationPagesBrowser, fields: dict[str, str], text: str
) -> None:
    answer = pages.submit(pages.path, **fields)

    assert answer.status in {400, 404}
    assert text in answer.body.decode()
    assert "This cannot be done" in answer.body.decode()


def test_a_pin_is_previewed_before_it_is_set(pages: OperationPagesBrowser) -> None:
    fields = {"name": "chat-ttft", "level": "2", "for": "2h", "why": "an incident"}
    html = pages.submit("/objectives/pin/preview", **fields).body.decode()

    assert "Pin chat-ttft to level 2: small" in html
    assert "New conversations go to <strong>small</strong>" in html
    assert "2026-09-21 16:13:20" in html
    assert 'name="why" value="an incident"' in html
    assert pages.store.pins.current_pins(NOW) == {}
    wrong = pages.submit("/objectives/pin/preview", **{**fields, "level": "9"})
    assert (wrong.status, "levels 0 to 2" in wrong.body.decode()) == (400, True)


def test_a_released_pin_is_set_again_by_undo(pages: OperationPagesBrowser) -> None:
    made = NOW - 60
    pin = PinRow(objective="chat-ttft", level=1, until=NOW + 600, why="", made=made, who="ann")
    pages.store.pins.set(pin)
    pages.submit("/objectives/release", name="chat-ttft")
    assert "Undo the release" in pages.browser.get("/objectives").body.decode()

    assert pages.submit("/objectives/undo", name="chat-ttft").status == 303
    assert pages.store.pins.current_pins(NOW)["chat-ttft"].level == 1


def test_an_objective_is_pinned_and_released(pages: OperationPagesBrowser) -> None:
    pinned = pages.submit("/objectives/pin", name="chat-ttft", level="1", **{"for": "2h"})
    assert pinned.status == 303
    (pin,) = pages.store.pins.current_pins(NOW).values()
    assert (pin.level, pin.until) == (1, NOW + 7200)

    assert pages.submit("/objectives/release", name="chat-ttft").status == 303
    assert pages.store.pins.current_pins(NOW) == {}


def test_a_pin_without_a_time_is_refused(pages: OperationPagesBrowser) -> None:
    answer = pages.submit("/objectives/pin", name="chat-ttft", level="1", **{"for": "soon"})
    assert (answer.status, "such as 30m" in answer.body.decode()) == (400, True)


def test_a_form_of_another_site_changes_no_operation(pages: OperationPagesBrowser) -> None:
    body = urlencode({"change": "mode", "mode": "off", "family": ""}).encode()
    answer = pages.browser.post(pages.path, body, sec_fetch_site="cross-site")

    assert answer.status == 403
    assert pages.store.layouts.states().of(pages.scope).mode is PlanningMode.OBSERVE


def test_a_feature_without_a_proposal_has_a_page_that_says_so(pages: OperationPagesBrowser) -> None:
    answer = pages.browser.get(f"/layouts/{pages.team}/quiet")

    assert answer.status == 200
    assert "Mode <strong>observe</strong>, no layout" in answer.body.decode()
    assert "There is no proposal of a layout yet" in answer.body.decode()
    assert "No planned conversations in the last 30 days" in answer.body.decode()
    assert "no proposal of a layout" not in pages.browser.get(pages.path).body.decode()


def test_the_page_of_engines_shows_speculation_and_what_was_read_ahead(tmp_path: Path) -> None:
    settings = (
        SettingReport(setting="draft_model:4", acceptance=0.8, tokens_per_step=3.4, measured=2.1),
        SettingReport(setting="ngram:4"),
    )
    TrafficFile(tmp_path, 7).write(
        EngineTraffic(
            pid=7,
            at=NOW,
            warming=(
                WarmingReport(profile=EVIL, kind="typed", used_calls=3, used_tokens=900, saved_s=2),
            ),
            speculation=(
                SpeculationReport(
                    profile=EVIL,
                    recommended="draft_model:4",
                    reason="it pays",
                    settings=settings,
                    kv_cache="The KV cache is too small",
                ),
            ),
        )
    )
    browser = Browser(folder=tmp_path)
    browser.sign_in()
    text = browser.get("/engines").body.decode()

    assert "draft_model:4 (recommended)" in text
    assert ">2.10 " in text
    assert "80" in text
    assert "The KV cache is too small" in text
    assert ">900<" in text
    assert "typed" in text
    assert "<script>alert" not in text


def a_pin(level: int, ago: float, until: float = 600) -> PinRow:
    """A pin of so many seconds ago."""
    return PinRow(
        objective="chat-ttft", level=level, until=NOW + until, why="", made=NOW - ago, who="ann"
    )


def change_in_form(pages: OperationPagesBrowser, action: str) -> str:
    html = pages.browser.get("/objectives").body.decode()
    form = html.partition(f'action="/admin/objectives/{action}"')[2].partition("</form>")[0]
    return form.partition('name="seen" value="')[2].partition('"')[0]


def test_undo_and_release_of_a_pin_leave_another_persons_newer_pin(
    pages: OperationPagesBrowser,
) -> None:
    pages.store.pins.set(a_pin(1, ago=60))
    seen = change_in_form(pages, "undo")
    pages.store.pins.set(a_pin(2, ago=30))

    for action in ("undo", "release"):
        answer = pages.submit(f"/objectives/{action}", name="chat-ttft", seen=seen)
        assert answer.status == 409
        assert "changed after the page was shown, by ann (pin" in answer.body.decode()
    assert pages.store.pins.current_pins(NOW)["chat-ttft"].level == 2

    seen = change_in_form(pages, "undo")
    assert pages.submit("/objectives/undo", name="chat-ttft", seen=seen).status == 303
    assert pages.store.pins.current_pins(NOW)["chat-ttft"].level == 1


def test_a_pin_from_before_another_is_not_set_from_its_preview(
    pages: OperationPagesBrowser,
) -> None:
    fields = {"name": "chat-ttft", "level": "2", "for": "2h", "why": ""}
    html = pages.submit("/objectives/pin/preview", **fields).body.decode()
    assert 'name="seen" value=""' in html
    pages.store.pins.set(a_pin(1, ago=30))

    assert pages.submit("/objectives/pin", **fields, seen="").status == 409
    assert pages.store.pins.current_pins(NOW)["chat-ttft"].level == 1


def test_undo_sets_no_pin_that_has_ended_nor_a_level_that_the_ladder_lacks(
    pages: OperationPagesBrowser,
) -> None:
    pages.store.pins.set(a_pin(9, ago=60))
    pages.store.pins.release("chat-ttft", NOW - 30)
    answer = pages.submit("/objectives/undo", name="chat-ttft")
    assert answer.status == 409
    assert "level 9, which its ladder no longer has" in answer.body.decode()

    pages.store.pins.set(a_pin(1, ago=20, until=-10))
    pages.store.pins.release("chat-ttft", NOW - 15)
    assert (
        "There is nothing to undo"
        in pages.submit("/objectives/undo", name="chat-ttft").body.decode()
    )
    assert pages.store.pins.current_pins(NOW) == {}
