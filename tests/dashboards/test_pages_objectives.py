"""Time lines and burn rates on the page of objectives."""

from dashboards.board import BurnStatus, StateSpan, StateTimeline
from tests.dashboards.test_pages import EVIL, page_outline, policies_page
from tests.fakes.board import NOW, an_objective, overview


def test_states_of_the_last_day_are_drawn_in_their_shares():
    span = StateSpan(state="degraded", level=EVIL, began=NOW - 50, ended=NOW - 25)
    timeline = StateTimeline(objective=EVIL, began=NOW - 100, ended=NOW, spans=[span])
    html = policies_page(overview(timelines=[timeline], objectives=[an_objective(name=EVIL)]))

    assert '<rect class="degraded" x="500.0" y="0" width="250.0" height="16">' in html
    assert EVIL not in html


def test_burns_over_the_windows_of_alerts_have_a_table():
    burns = (
        BurnStatus(over=1800.0, limit=6.0, rate=7.25, counted=90, known=1800.0, missed=40),
        BurnStatus(over=21_600.0, limit=3.0, rate=1.0, counted=90, known=7_200.0),
    )
    outline = page_outline(objectives=[an_objective(burns=burns)])

    assert "chat-ttft 30 min 7.2 6 40 90 all of it" in outline.text
    assert "chat-ttft 6 h 1.0 3 0 90 2 h" in outline.text
    assert "Error budget of 6 h: 0.0 % left, counted for 2 h" in outline.text
    assert "Burn rates over" not in page_outline().text
