"""Alerts about budgets of the policies file, which has no form."""

import pytest

from dashboards.access import Role
from slo.alert import budget_alert
from slo.window import window_end
from tests.fakes.board import NOW
from tests.fakes.dashboard import Dashboard
from tests.proxy.pages.test_budget_pages import alert_page


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_budget_of_the_file_has_no_form_but_says_where_it_is_changed(
    dashboard: Dashboard, *, is_stored: bool
) -> None:
    (budget,) = dashboard.reloader.snapshot.policies.budgets
    if is_stored:
        dashboard.store.budgets.set(budget, "ada", NOW, None, has_share=False)
    alert = budget_alert(budget, "", 80, 41 * 10**10, NOW, window_end(budget.window, NOW))
    dashboard.store.outbox.add([alert], {}, NOW)
    html = alert_page(dashboard, alert)
    budgets = dashboard.ask_as(Role.ADMIN, "GET", "/admin/budgets").body.decode()

    place = "table <code>[[budgets]]</code> <code>in-the-file</code>: change its limit there"
    assert place in html
    assert '<a href="/admin/settings">Reload</a>' in html
    assert "/admin/budgets/preview" not in html
    assert (place in budgets, 'name="name" value="in-the-file">\n<label>' in budgets) == (
        is_stored,
        False,
    )
    assert "have an administrator reload" in alert_page(dashboard, alert, Role.FINANCE)
