from proxy.store.sql.views.calls import call_row
from tests.fakes.receipts import a_receipt


def test_a_row_says_who_asked_for_what_and_who_answered() -> None:
    row = call_row(a_receipt(1, team="t", model="big", route="lab/small", attempt=2), {"t": "Team"})

    assert (row.team, row.team_name, row.attempts) == ("t", "Team", 3)
    assert (row.requested, row.model) == ("big", "small")
    nothing = call_row(a_receipt(1, usage=None, ttft=None, cost_nanos=None), {})
    assert (nothing.prompt_tokens, nothing.cost_nanos) == (None, 0)
