"""Other prices over the ledger's attempts of yesterday."""

from sqlalchemy import Engine

from proxy.store.sql.views.readers import Readers
from proxy.store.sql.views.setup.price_trials import PriceQuestion, price_dry_run
from slo.price import PricePeriod, PriceSheet, Tariff, TokenRates
from slo.trials.price_trial import PriceTrial, RoutePrices
from slo.usage import Usage
from tests.fakes.ledger_day import book_calls_of_yesterday
from tests.fakes.receipts import START

#: In the middle of a month.
NOW = START + 200_000.0
DOLLAR = 1_000_000_000


def tariff(dollars: int) -> Tariff:
    sheet = PriceSheet(rates=TokenRates(input=dollars * DOLLAR, output=0))
    return Tariff(periods=(PricePeriod(sheets={"": sheet}),))


def test_attempts_of_the_models_routes_are_priced_anew(engine: Engine) -> None:
    usage = Usage(input=1_000, output=10)
    for route in ("openai/a", "openai/b"):
        book_calls_of_yesterday(engine, NOW, 3, route=route, usage=usage, cost_nanos=1_000_000)
    book_calls_of_yesterday(engine, NOW - 86_400, 1, route="openai/a", usage=usage, cost_nanos=9)
    prices = {"openai/a": RoutePrices(before=tariff(1), after=tariff(4))}
    run = price_dry_run(Readers(engine), PriceQuestion(NOW, prices))

    assert run.trial == PriceTrial(attempts=3, before_nanos=3_000_000, after_nanos=12_000_000)
    assert run.read_until is None
