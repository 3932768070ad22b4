from proxy.services.objectives.switch_cost import is_worth_switching
from slo.price import PricePeriod, PriceSheet, Tariff, TokenRates
from tests.fakes.desk import call, route

LONG = b'{"model":"m","messages":[{"role":"user","content":"' + b"word " * 10_000 + b'"}]}'


def priced(name, prompt, read, output):
    rates = TokenRates(input=prompt, cache_read=read, output=output)
    return route(name, tariff=Tariff(periods=(PricePeriod(sheets={"": PriceSheet(rates=rates)}),)))


HERE = priced("here", 1_000_000_000, 100_000_000, 4_000_000_000)


def test_a_price_below_what_the_cache_saves_pays():
    there = priced("there", 50_000_000, 5_000_000, 200_000_000)

    assert is_worth_switching(call(LONG), HERE, there)


def test_half_the_price_does_not_pay_where_the_cache_reads_at_a_tenth():
    there = priced("there", 500_000_000, 50_000_000, 2_000_000_000)

    assert not is_worth_switching(call(LONG), HERE, there)


def test_a_short_prompt_goes_by_its_answer():
    there = priced("there", 500_000_000, 50_000_000, 2_000_000_000)

    assert is_worth_switching(call(b'{"model":"m","messages":[]}'), HERE, there)


def test_an_unknown_price_never_pays():
    assert not is_worth_switching(call(LONG), HERE, route("there", tariff=None))
    assert not is_worth_switching(call(LONG), route("here", tariff=None), HERE)
