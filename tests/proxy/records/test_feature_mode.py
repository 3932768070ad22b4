import pytest

from proxy.records.feature_mode import Mode, Place, Standing, Standings

PLACE = Place("team_1", "support", "claude")
NEW = Standing(mode=Mode.APPLY, version=3, former=2, active_from=100.0, measured_from=100.0)


@pytest.mark.parametrize(("now", "version"), [(99.9, 2), (100.0, 3), (500.0, 3)])
def test_a_layout_holds_from_its_moment_on_and_the_former_one_until_then(now, version):
    assert NEW.layout(now) == version


@pytest.mark.parametrize("mode", [None, Mode.OFF, Mode.OBSERVE])
def test_only_features_that_apply_layouts_have_one(mode):
    assert Standing(mode=mode, version=3).layout(500.0) == 0
    assert Standing(mode=Mode.AUTO, version=3).layout(500.0) == 3


def test_a_suspended_feature_is_sent_as_it_came():
    suspended = Standing(mode=Mode.AUTO, version=3, suspended="it cost more")

    assert suspended.is_off
    assert suspended.layout(500.0) == 0
    assert Standing(mode=Mode.OFF).is_off
    assert not NEW.is_off


def test_a_feature_nobody_decided_about_is_observed():
    assert Standings().of(PLACE) == Standing(mode=Mode.OBSERVE)


@pytest.mark.parametrize("mode", list(Mode))
def test_a_feature_nobody_decided_about_goes_by_the_default(mode: Mode) -> None:
    chosen = {PLACE: Standing(version=3), PLACE.whole: Standing(mode=Mode.APPLY)}

    assert Standings(mode=mode).of(PLACE).mode is mode
    assert Standings(1, {PLACE: Standing(version=3)}, mode=mode).of(PLACE).mode is mode
    assert Standings(1, chosen, mode=mode).of(PLACE).mode is Mode.APPLY


def test_a_family_goes_by_its_feature_unless_it_has_a_mode_of_its_own():
    whole = Standing(mode=Mode.AUTO, measured_from=50.0)
    inherits = Standings(1, {PLACE.whole: whole, PLACE: Standing(version=3)})
    differs = Standings(1, {PLACE.whole: whole, PLACE: NEW})

    assert inherits.of(PLACE).mode is Mode.AUTO
    assert inherits.of(PLACE).layout(500.0) == 3
    assert inherits.of(PLACE).measured_from == 50.0
    assert differs.of(PLACE) == NEW


def test_a_feature_that_is_suspended_takes_its_families_with_it():
    whole = Standing(mode=Mode.AUTO, suspended="it cost more", suspended_at=70.0)
    own = Standing(mode=Mode.AUTO, suspended="it missed more", suspended_at=80.0)

    assert Standings(1, {PLACE.whole: whole, PLACE: NEW}).of(PLACE).suspended == "it cost more"
    assert Standings(1, {PLACE.whole: whole, PLACE: own}).of(PLACE).suspended_at == 80.0
    assert Standings(1, {PLACE.whole: NEW, PLACE: own}).of(PLACE).suspended == "it missed more"
