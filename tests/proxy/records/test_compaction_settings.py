from compaction.policy import Mode
from proxy.records.compaction_settings import Chosen, Setting


def test_nobodys_choice_is_the_default():
    assert Chosen().of("team_1", "chat").in_force(Mode.TRIM) is Mode.TRIM


def test_a_persons_choice_goes_before_it_and_a_step_back_before_that():
    chosen = Setting(mode=Mode.FACTS)
    stepped = Setting(mode=Mode.FACTS, stepped=Mode.TRIM)
    held = Chosen(1, {("team_1", "chat"): chosen, ("team_1", "code"): stepped})

    assert held.of("team_1", "chat").in_force(Mode.OFF) is Mode.FACTS
    assert held.of("team_1", "code").in_force(Mode.OFF) is Mode.TRIM


def test_a_feature_that_is_not_listed_goes_by_what_holds_for_all_others():
    held = Chosen(1, {("team_1", "chat"): Setting(mode=Mode.FACTS)}, Setting(mode=Mode.OFF))

    assert held.of("team_1", "chat").in_force(Mode.TRIM) is Mode.FACTS
    assert held.of("team_1", "code").in_force(Mode.TRIM) is Mode.OFF
