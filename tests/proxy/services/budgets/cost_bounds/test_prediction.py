import asyncio
import gc
import weakref
from dataclasses import replace
from datetime import date
from typing import Any

import msgspec
import orjson
import pytest

from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.translation.translation import prepare
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model, Route
from proxy.prefix.planned import Passthrough, Planned
from proxy.records.receipt import Outcome
from proxy.services.budgets.cost_bounds.prediction import Predictor
from proxy.services.budgets.cost_bounds.pricing import Alternative, Prediction
from slo.price import PricePeriod, PriceSheet, Tariff, TokenRates
from slo.usage import Usage
from tests.fakes.admission_harness import BODY, NOW
from tests.fakes.call_dependencies import ESTIMATE, FakeEstimator, call, catalog, route
from tests.fakes.planned_calls import marked_call
from tests.fakes.receipts import a_receipt

ROUTE = route("one", max_output=4096)


def attempt(
    number: int = 1,
    body: bytes = BODY,
    over: Route = ROUTE,
    planned: Planned | Passthrough | None = None,
    **fields: Any,
) -> AttemptInfo:
    request = call(body, **{"id": f"call_{number}", "arrived": NOW, **fields})
    return AttemptInfo(call=request, route=over, planned=planned or Passthrough())


def predict(predictor: Predictor, info: AttemptInfo, *, exactly: bool = False) -> Prediction:
    assert info.route is not None
    prepared = prepare(info.call, info.route)
    return asyncio.run(predictor.predict(info, prepared, info.route, exactly=exactly))


def settle(predictor: Predictor, number: int, generated: int, **fields: Any) -> None:
    usage = Usage(input=1, output=generated)
    predictor.learn(
        a_receipt(**{"call_id": f"call_{number}", "attempt": 0, "usage": usage, **fields})
    )


def teach(predictor: Predictor, *lengths: int, **fields: Any) -> None:
    for number, length in enumerate(lengths, 1000):
        predict(predictor, attempt(number))
        settle(predictor, number, length, **fields)


def named_route(name: str, **fields: Any) -> Route:
    return replace(route(name.partition("/")[0], **fields), name=name)


def cheap(name: str, out: int, **fields: Any) -> Model:
    tariff = Tariff(
        periods=(PricePeriod(sheets={"": PriceSheet(rates=TokenRates(input=out, output=out))}),)
    )
    return Model(id=name, routes=(named_route(f"one/{name}", tariff=tariff, **fields),))


def catalog_with(*models: Model) -> Catalog:
    base = catalog(ROUTE)
    return Catalog(
        models={"m": Model(id="m", routes=(ROUTE,))} | {model.id: model for model in models},
        upstreams=base.upstreams,
        default=base.default,
    )


def test_a_small_prompt_is_guessed_by_its_length_and_counted_once_where_that_is_asked():
    estimator = FakeEstimator()
    predictor = Predictor(estimator)

    assert predict(predictor, attempt()).tokens == 14
    assert predict(predictor, attempt(), exactly=True).tokens == ESTIMATE.prompt_tokens
    assert predict(predictor, attempt()).tokens == ESTIMATE.prompt_tokens
    assert len(estimator.delivered) == 1


async def test_a_request_is_predicted_once_for_ceilings_and_budgets_and_anew_where_it_differs():
    predictor, info = Predictor(FakeEstimator()), attempt()
    prepared, clamped = (prepare(info.call, ROUTE) for _ in range(2))
    other = msgspec.structs.replace(info, number=1)

    first = await predictor.predict(info, prepared, ROUTE)
    assert await predictor.predict(info, prepared, ROUTE) is first
    assert await predictor.predict(info, clamped, ROUTE) is not first
    counted = await predictor.predict(info, prepared, ROUTE, exactly=True)
    assert counted.tokens == ESTIMATE.prompt_tokens
    assert await predictor.predict(info, prepared, ROUTE) is counted
    assert await predictor.predict(info, prepared, named_route("two/m")) is not counted
    last = await predictor.predict(info, prepared, ROUTE)
    assert await predictor.predict(other, prepared, ROUTE) is not last


def test_a_prediction_keeps_no_request_alive():
    predictor, info = Predictor(FakeEstimator()), attempt()
    prepared = prepare(info.call, ROUTE)
    asyncio.run(predictor.predict(info, prepared, ROUTE))
    request = weakref.ref(prepared)
    del prepared
    gc.collect()
    assert request() is None


def test_letters_beyond_ascii_are_more_tokens():
    body = orjson.dumps({"model": "m", "messages": [{"role": "user", "content": "你好"}]})

    assert predict(Predictor(FakeEstimator()), attempt(body=body)).tokens == -(-len(body) // 2)


def test_a_large_prompt_is_counted_once_for_each_model():
    estimator = FakeEstimator()
    predictor = Predictor(estimator)
    body = BODY.replace(b"[]", b'["' + b"x" * 20_000 + b'"]')
    for over in (ROUTE, ROUTE, route("two", model="other")):
        predict(predictor, attempt(body=body, over=over))

    assert len(estimator.delivered) == 2


def test_of_a_planned_prompt_a_part_is_taken_to_be_cached():
    body = BODY.replace(b"[]", b'["' + b"x" * 20_000 + b'"]')
    predictor = Predictor(FakeEstimator())

    assert predict(predictor, attempt(1, body)).cached == 0
    prediction = predict(predictor, attempt(2, body, planned=marked_call("hi", there=9_000)))
    assert 0 < prediction.cached <= prediction.tokens


def test_until_lengths_are_learned_the_limit_is_predicted():
    predictor = Predictor(FakeEstimator())
    teach(predictor, *[10] * 19)

    prediction = predict(predictor, attempt(), exactly=True)

    assert prediction.output.likely == prediction.output.worst == 1000
    assert prediction.usual is None


def test_lengths_are_learned_of_a_features_calls_to_a_model():
    predictor = Predictor(FakeEstimator())
    teach(predictor, *[10] * 20)

    prediction = predict(predictor, attempt(), exactly=True)
    assert (prediction.output.likely, prediction.usual) == (10, 10)
    other = msgspec.structs.replace(attempt(over=named_route("two/other")), number=9)
    assert predict(predictor, other).output.likely == 1000


def test_of_a_feature_of_which_nothing_is_learned_others_calls_to_its_model_are_a_guess():
    predictor = Predictor(FakeEstimator())
    teach(predictor, *[10] * 20)

    assert not predict(predictor, attempt()).output.is_guessed
    output = predict(predictor, attempt(2, feature="x")).output
    assert (output.likely, output.worst, output.is_guessed) == (10, 1000, True)


def test_where_nothing_at_all_is_learned_the_limit_is_likely():
    body = b'{"model":"m","messages":[]}'
    output = predict(Predictor(FakeEstimator()), attempt(body=body)).output

    assert (output.likely, output.worst, output.is_guessed) == (4096, 4096, False)


def test_nine_of_ten_calls_stay_within_the_usual_output():
    predictor = Predictor(FakeEstimator())
    teach(predictor, *range(1, 101))

    usual = predict(predictor, attempt(1_000), exactly=True).usual

    assert usual is not None
    assert 88 <= usual <= 92


def test_the_usual_output_is_that_of_all_calls_to_a_model_until_it_is_learned():
    predictor = Predictor(FakeEstimator())
    teach(predictor, *[10] * 20)
    other = attempt(feature="x")

    assert predict(predictor, other, exactly=True).usual == 10
    assert predict(predictor, attempt(2, over=named_route("two/other")), exactly=True).usual is None
    for number in range(100, 120):
        predict(predictor, attempt(number, feature="x"))
        settle(predictor, number, 70)
    usual = predict(predictor, attempt(3, feature="x"), exactly=True).usual
    assert usual is not None
    assert 68 <= usual <= 72


@pytest.mark.parametrize(
    "fields", [{"outcome": Outcome.BROKEN}, {"estimated": True}, {"usage": None}]
)
def test_answers_that_are_not_whole_teach_no_length(fields):
    predictor = Predictor(FakeEstimator())
    teach(predictor, *[10] * 20, **fields)

    assert predict(predictor, attempt()).output.likely == 1000


def test_a_receipt_teaches_once():
    predictor = Predictor(FakeEstimator())
    for number in range(10):
        predict(predictor, attempt(number))
        settle(predictor, number, 10, final=False)
        settle(predictor, number, 10)
        settle(predictor, number, 10)

    assert predict(predictor, attempt()).output.likely == 1000


def test_an_answer_that_was_cut_off_counts_as_long_as_it_was_asked():
    predictor = Predictor(FakeEstimator())
    for number in range(20):
        predict(predictor, attempt(number))
        predictor.record_clamp(attempt(number), 100)
        settle(predictor, number, 100 if number < 10 else 50)

    prediction = predict(predictor, attempt(), exactly=True)
    assert prediction.usual is not None
    assert prediction.usual > 950


def test_a_clamped_request_is_of_the_kind_of_what_was_asked():
    predictor = Predictor(FakeEstimator())
    short = BODY.replace(b"1000", b"100")
    for number in range(20):
        predict(predictor, attempt(number))
        predict(predictor, attempt(number, short))
        settle(predictor, number, 100)

    prediction = predict(predictor, attempt(), exactly=True)
    assert prediction.usual is not None
    assert prediction.usual > 950


def test_a_call_that_was_never_predicted_is_not_limited():
    predictor = Predictor(FakeEstimator())
    predictor.record_clamp(attempt(5), 100)
    settle(predictor, 1, 5)

    assert predict(predictor, attempt()).output.likely == 1000


def test_an_attempt_that_goes_elsewhere_teaches_of_where_it_went():
    predictor = Predictor(FakeEstimator())
    other = named_route("two/other")
    for number in range(20):
        predict(predictor, attempt(number))
        predict(predictor, attempt(number, over=other))
        settle(predictor, number, 10)

    assert predict(predictor, attempt(50, over=other)).output.likely == 10
    assert predict(predictor, attempt(51)).output.likely == 1000


async def test_calls_that_never_settle_are_forgotten_after_many():
    predictor = Predictor(FakeEstimator())

    for number in range(20_010):
        info = attempt(number)
        await predictor.predict(info, prepare(info.call, ROUTE), ROUTE)
    assert len(predictor._calls) == 20_000


def test_a_prediction_on_another_model_keeps_to_its_limits():
    predictor = Predictor(FakeEstimator())
    prediction = predictor.predict_on_model(attempt(), 100, cheap("small", 7, max_output=50))

    assert prediction is not None
    assert (
        prediction.tokens,
        prediction.cached,
        prediction.allowance.per_choice,
        prediction.output.worst,
    ) == (
        100,
        0,
        50,
        50,
    )


def test_a_prompt_too_long_for_another_model_has_no_prediction_there():
    predictor = Predictor(FakeEstimator())

    assert predictor.predict_on_model(attempt(), 100, cheap("small", 7, window=99)) is None


def cheapest(*models: Model, info: AttemptInfo | None = None, **fields: Any) -> Alternative | None:
    predictor = Predictor(FakeEstimator(), catalog_with(*models))
    alternatives: list[Alternative | None] = [
        predictor.cheapest_alternative(info or attempt(), 0, lambda need: need.worst, **fields)
        for _ in range(2)
    ]
    assert alternatives[0] == alternatives[1]
    return alternatives[0]


def test_the_cheapest_model_of_the_same_provider_is_told():
    a, b = cheap("a", 2_000_000), cheap("b", 1_000_000)
    other = Model(id="far", routes=(named_route("two/far"),))

    assert cheapest(a, b, other) == Alternative("b", 1000)
    assert cheapest(a, b, fits=lambda name: name != "b") == Alternative("a", 2000)
    assert cheapest(a, other_names=["far", "none"]) == Alternative("a", 2000)
    assert cheapest(other, other_names=["far"]) == Alternative("far", 4_000_000)


def test_a_model_that_cannot_take_the_call_is_no_alternative():
    retired = Model(id="a", routes=cheap("a", 1).routes, retires=date(2026, 9, 1))
    unpriced = Model(id="b", routes=(named_route("one/b", tariff=None),))

    assert cheapest(retired, unpriced) is None


@pytest.mark.parametrize("rates", [TokenRates(input=1), TokenRates(input=1, output=0)])
def test_an_embedding_model_is_no_alternative(rates):
    embeds = Tariff(periods=(PricePeriod(sheets={"": PriceSheet(rates=rates)}),))

    assert cheapest(Model(id="c", routes=(named_route("one/c", tariff=embeds),))) is None


def test_other_embeddings_are_no_alternative():
    info = AttemptInfo(call=call(b'{"model":"m","input":"x"}', "embeddings"), route=ROUTE)

    assert cheapest(cheap("a", 1), info=info) is None


def test_without_a_catalog_no_other_model_is_known():
    predictor = Predictor(FakeEstimator())

    assert predictor.cheapest_alternative(attempt(), 0, lambda need: need.worst) is None
    assert predictor.model("m") is None


@pytest.mark.parametrize(("dearer", "is_found"), [(62, True), (63, False)])
def test_64_models_of_a_provider_are_looked_at_for_a_cheaper_one(dearer: int, is_found: bool):  # noqa: FBT001
    others = [cheap(f"m{number}", 2_000) for number in range(dearer)]
    predictor = Predictor(FakeEstimator(), catalog_with(*others, cheap("last", 1_000)))
    best = predictor.cheapest_alternative(attempt(), 10, lambda need: need.likely)

    assert best is not None
    assert (best.model == "last") is is_found
