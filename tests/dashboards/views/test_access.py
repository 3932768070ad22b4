"""Changes as the audit log shows them."""

from typing import Any

from dashboards.views.access import AuditEntryView, changed_values


def entry(before: dict[str, Any] | None, after: dict[str, Any] | None) -> AuditEntryView:
    return AuditEntryView(
        id="chg_1",
        at=0.0,
        who="ann",
        action="change",
        subject="it",
        team=None,
        before=before,
        after=after,
    )


def test_a_change_shows_only_values_that_differ() -> None:
    before = {"role": "viewer", "teams": ["a"], "disabled": False}
    after = {"role": "admin", "teams": ["a"], "disabled": True, "subject": "x"}

    assert changed_values(entry(before, after)) == [
        ("role", "viewer", "admin"),
        ("disabled", "no", "yes"),
        ("subject", "", "x"),
    ]


def test_a_thing_that_was_made_or_is_gone_shows_all_of_its_values() -> None:
    values = {"name": "ci", "models": ["big", "small"], "expires": None}

    assert changed_values(entry(None, values)) == [
        ("name", "", "ci"),
        ("models", "", "big, small"),
        ("expires", "", ""),
    ]
    assert changed_values(entry(values, None))[0] == ("name", "ci", "")
    assert changed_values(entry(None, None)) == []


def test_a_limit_is_shown_in_dollars_and_a_moment_as_a_time() -> None:
    budget = {"limit": 5_000_000_000, "unit": "usd"}
    requests = {"limit": 500, "unit": "requests"}

    assert changed_values(entry(budget, budget | {"limit": 20_000_000_000})) == [
        ("limit", "$5", "$20")
    ]
    assert changed_values(entry(None, requests))[0] == ("limit", "", "500")
    assert changed_values(entry(None, {"until": 1_796_116_596.666})) == [
        ("until", "", "2026-12-01 09:16:36 UTC")
    ]
