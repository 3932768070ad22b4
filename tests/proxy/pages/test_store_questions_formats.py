import pickle
from dataclasses import dataclass
from datetime import date

import pytest
from jinja2 import UndefinedError

from dashboards.access import Role, Viewer
from dashboards.views.calls import CallsView
from proxy.pages.store_questions import json_bytes, page_around, read_view, view_itself
from proxy.store.sql.views.readers import Readers
from proxy.store.store import Store

ADMIN = Viewer(name="root", role=Role.ADMIN)
NO_CALLS = CallsView(calls=(), next=None, searched_from=1.5e-07)


@dataclass(frozen=True)
class DayView:
    day: date
    shares: tuple[float | None, ...]


def test_a_view_is_built_of_the_readers_and_the_question_and_then_finished(store: Store) -> None:
    def build(readers: Readers, name: str) -> list[str]:
        return [name, *readers.team_names()]

    readers = Readers(store._engine)

    assert read_view(readers, build, "x", view_itself) == ["x"]
    assert read_view(readers, build, "x", len) == 1


def test_json_has_dates_as_text_and_null_for_what_is_unknown() -> None:
    view = DayView(day=date(2026, 11, 26), shares=(0.5, None))

    assert json_bytes(view) == b'{"day":"2026-11-26","shares":[0.5,null]}'
    assert json_bytes(NO_CALLS) == (
        b'{"calls":[],"next":null,"searched_from":1.5e-7,"is_cut":false,"searched_prompts":null}'
    )


def test_a_page_around_a_view_is_rendered_by_whoever_has_the_view() -> None:
    page = page_around(
        "calls.html",
        viewer=ADMIN,
        now=0.0,
        section="calls",
        params={"team": "<i>"},
        first=date(2026, 11, 1),
        last=date(2026, 11, 2),
        tz="UTC",
        outcomes=(),
        can_follow=True,
        windows=(),
        sort="time",
        file="/f",
    )
    sent = pickle.loads(pickle.dumps(page))  # noqa: S301 - our own bytes

    assert sent(NO_CALLS) == page(NO_CALLS)
    assert b"No calls" in page(NO_CALLS)
    assert b"&lt;i&gt;" in page(NO_CALLS)


def test_a_page_that_lacks_a_value_is_refused() -> None:
    with pytest.raises(UndefinedError):
        page_around("calls.html", viewer=ADMIN, now=0.0, section="calls")(NO_CALLS)
