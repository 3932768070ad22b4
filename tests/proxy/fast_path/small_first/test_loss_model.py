"""Losses are predicted by traits, by the feature's record and by the nearest graded calls."""

from random import Random

import pytest

from proxy.fast_path.small_first.call_traits import TRAIT_NAMES, CallTraits, read_traits
from proxy.fast_path.small_first.loss_model import MIN_GRADED, LossModel


def traits(**given):
    values = tuple(given.get(name.replace(" ", "_"), 0.0) for name in TRAIT_NAMES)
    return CallTraits(values)


def trained_model(calls):
    model = LossModel()
    for feature, call, loss in calls:
        model.learn(feature, call, loss)
    model.fit()
    return model


def test_nothing_is_predicted_before_enough_is_graded():
    model = trained_model([("chat", traits(), 0.0)] * (MIN_GRADED - 1))

    assert not model.is_ready
    model.learn("chat", traits(), 0.0)
    assert model.is_ready


def test_trait_that_goes_with_losses_raises_the_prediction():
    rng = Random(1)  # noqa: S311 - seeded
    calls = []
    for _ in range(600):
        is_code = rng.random() < 0.5
        loss = float(rng.random() < (0.4 if is_code else 0.02))
        calls.append(("chat", traits(code=float(is_code)), loss))
    model = trained_model(calls)

    assert model.predict("chat", traits(code=1.0)) == pytest.approx(0.4, abs=0.1)
    assert model.predict("chat", traits()) == pytest.approx(0.02, abs=0.06)


def test_record_of_a_feature_is_shrunk_towards_all_by_its_size():
    rng = Random(2)  # noqa: S311 - seeded
    calls = [("good", traits(), 0.0)] * 300
    calls += [("bad", traits(), float(rng.random() < 0.5)) for _ in range(300)]
    calls += [("new", traits(), 1.0)]
    model = trained_model(calls)

    assert model.predict("good", traits()) < 0.05
    assert model.predict("bad", traits()) > 0.4
    assert 0.2 < model.predict("new", traits()) < 0.8
    assert model.predict("unseen", traits()) == pytest.approx(0.25, abs=0.15)


def test_nearest_graded_calls_of_the_feature_move_the_prediction():
    hard = read_traits("prove the theorem of Fermat", has_schema=False, tools=0, turns=1)
    easy = read_traits("greet my neighbour kindly please", has_schema=False, tools=0, turns=1)
    calls = [("chat", CallTraits(hard.values, hard.signature), 1.0)] * 20
    calls += [("chat", CallTraits(hard.values, easy.signature), 0.0)] * 80
    model = trained_model(calls)

    near = model.predict("chat", CallTraits(hard.values, hard.signature))
    far = model.predict("chat", CallTraits(hard.values, easy.signature))

    assert near > far + 0.3


def test_old_graded_calls_are_forgotten():
    model = trained_model([("chat", traits(), 1.0)] * 4_000 + [("chat", traits(), 0.0)] * 9_000)

    assert model.count <= 4_000
    assert model.predict("chat", traits()) < 0.3


def test_features_are_bounded_and_the_least_graded_goes_first():
    model = LossModel()
    for number in range(1_001):
        for _ in range(1 + (number == 0)):
            model.learn(f"feature {number}", traits(), 0.0)

    assert len(model.features) == 128
    assert "feature 0" in model.features
    assert "feature 1" not in model.features
