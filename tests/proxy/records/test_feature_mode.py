import pytest

from proxy.records.feature_mode import FeatureState, FeatureStates, LayoutScope, PlanningMode

PLACE = LayoutScope("team_1", "support", "claude")
NEW = FeatureState(
    mode=PlanningMode.APPLY, version=3, former=2, active_from=100.0, measured_from=100.0
)


@pytest.mark.parametrize(("now", "version"), [(99.9, 2), (100.0, 3), (500.0, 3)])
def test_a_layout_holds_from_its_moment_on_and_the_former_one_until_then(now, version):
    assert NEW.layout_version(now) == version


@pytest.mark.parametrize("mode", [None, PlanningMode.OFF, PlanningMode.OBSERVE])
def test_only_features_that_apply_layouts_have_one(mode):
    assert FeatureState(mode=mode, version=3).layout_version(500.0) == 0
    assert FeatureState(mode=PlanningMode.AUTO, version=3).layout_version(500.0) == 3


def test_a_suspended_feature_is_sent_unmodified():
    suspended = FeatureState(mode=PlanningMode.AUTO, version=3, suspended="it cost more")

    assert suspended.is_off
    assert suspended.layout_version(500.0) == 0
    assert FeatureState(mode=PlanningMode.OFF).is_off
    assert not NEW.is_off


def test_a_feature_nobody_decided_about_is_observed():
    assert FeatureStates().of(PLACE) == FeatureState(mode=PlanningMode.OBSERVE)


@pytest.mark.parametrize("mode", list(PlanningMode))
def test_a_feature_nobody_decided_about_goes_by_the_default(mode: PlanningMode) -> None:
    chosen = {
        PLACE: FeatureState(version=3),
        PLACE.all_families: FeatureState(mode=PlanningMode.APPLY),
    }

    assert FeatureStates(mode=mode).of(PLACE).mode is mode
    assert FeatureStates(1, {PLACE: FeatureState(version=3)}, mode=mode).of(PLACE).mode is mode
    assert FeatureStates(1, chosen, mode=mode).of(PLACE).mode is PlanningMode.APPLY


def test_a_family_goes_by_its_feature_unless_it_has_a_mode_of_its_own():
    whole = FeatureState(mode=PlanningMode.AUTO, measured_from=50.0)
    inherits = FeatureStates(1, {PLACE.all_families: whole, PLACE: FeatureState(version=3)})
    differs = FeatureStates(1, {PLACE.all_families: whole, PLACE: NEW})

    assert inherits.of(PLACE).mode is PlanningMode.AUTO
    assert inherits.of(PLACE).layout_version(500.0) == 3
    assert inherits.of(PLACE).measured_from == 50.0
    assert differs.of(PLACE) == NEW


def test_a_feature_that_is_suspended_takes_its_families_with_it():
    whole = FeatureState(mode=PlanningMode.AUTO, suspended="it cost more", suspended_at=70.0)
    own = FeatureState(mode=PlanningMode.AUTO, suspended="it missed more", suspended_at=80.0)

    assert (
        FeatureStates(1, {PLACE.all_families: whole, PLACE: NEW}).of(PLACE).suspended
        == "it cost more"
    )
    assert FeatureStates(1, {PLACE.all_families: whole, PLACE: own}).of(PLACE).suspended_at == 80.0
    assert (
        FeatureStates(1, {PLACE.all_families: NEW, PLACE: own}).of(PLACE).suspended
        == "it missed more"
    )
