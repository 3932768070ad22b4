"""Calls of yesterday by team and requested model."""

from proxy.store.sql.views.readers import Readers
from proxy.store.sql.views.setup.requested_models import RequestedModel, requested_models
from proxy.store.store import Store
from tests.fakes.board import NOW
from tests.fakes.ledger_day import book_calls_of_yesterday


def test_calls_of_yesterday_are_counted_by_team_and_model(store: Store) -> None:
    team = store.teams.create("acme", now=0.0)
    for model, count in (("claude-a", 1), ("gpt-5.4", 3)):
        book_calls_of_yesterday(store._engine, NOW, count, team=team.id, model=model)
    book_calls_of_yesterday(store._engine, NOW - 86_400.0, 2, team=team.id, model="gpt-5.4")

    assert requested_models(Readers(store._engine), NOW) == [
        RequestedModel(team="acme", model="gpt-5.4", calls=3),
        RequestedModel(team="acme", model="claude-a", calls=1),
    ]
