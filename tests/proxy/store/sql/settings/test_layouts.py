from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine

from proxy.records.feature_mode import FeatureStates, LayoutScope, PlanningMode
from proxy.store.sql.access.audit_log import AuditLog
from proxy.store.sql.database import open_database
from proxy.store.sql.settings.layout_rows import Proposal, ProposalState
from proxy.store.sql.settings.layouts import Layouts
from proxy.store.sql.settings.locks import APPROVAL_DELAY_S

NOW = 1_790_000_000.0
DAY = 86_400.0
APPLY = PlanningMode.APPLY
PLACE = LayoutScope("team_1", "support", "claude")


@pytest.fixture
def layouts(engine: Engine) -> Layouts:
    return Layouts(engine)


def propose(layouts: Layouts, digest: str = "d1", now: float = NOW, moves: str = "[]") -> Proposal:
    """A proposal at the place."""
    proposal = layouts.propose(PLACE, digest, moves, now)
    assert proposal is not None
    return proposal


def version(layouts: Layouts, now: float, place: LayoutScope = PLACE) -> int:
    """Return what a conversation that begins now is given."""
    return layouts.states().of(place).layout_version(now)


def test_where_nothing_was_decided_features_are_observed(layouts: Layouts) -> None:
    assert layouts.states() == FeatureStates(0)
    assert layouts.states().of(PLACE).mode is PlanningMode.OBSERVE
    assert layouts.proposals(PLACE) == []


def test_proposals_are_numbered_and_wait_for_a_decision(layouts: Layouts) -> None:
    first = propose(layouts, "d1", NOW, '["a"]')
    second = propose(layouts, "d2", NOW + 1, '["b"]')
    other = layouts.propose(PLACE.all_families, "d1", '["c"]', NOW + 1)

    assert other is not None
    assert (first.version, second.version, other.version) == (1, 2, 1)
    assert (first.state, first.made, first.decided_by) == (ProposalState.PROPOSED, NOW, "")
    assert layouts.proposals(PLACE) == [first, second]
    assert version(layouts, NOW + 99) == 0


def test_a_layout_proposed_again_keeps_its_version_and_renews_its_evidence(
    layouts: Layouts,
) -> None:
    layouts.propose(PLACE, "d1", '["20 calls"]', NOW)
    again = propose(layouts, "d1", NOW + 60, '["90 calls"]')

    assert (again.version, again.moves, again.made) == (1, '["90 calls"]', NOW + 60)
    assert len(layouts.proposals(PLACE)) == 1


def test_an_approved_layout_is_not_rewritten_by_a_later_proposal(layouts: Layouts) -> None:
    layouts.propose(PLACE, "d1", '["20 calls"]', NOW)
    layouts.approve(PLACE, 1, "ann", NOW)
    again = propose(layouts, "d1", NOW + 60, '["90 calls"]')

    assert again.state is ProposalState.APPROVED
    assert (again.decided_by, again.decided_at) == ("ann", NOW)
    assert again.moves == '["20 calls"]'


def test_an_approved_layout_takes_effect_some_seconds_later_and_is_in_the_snapshot(
    layouts: Layouts,
) -> None:
    layouts.propose(PLACE, "d1", '["a"]', NOW)
    before = layouts.changes()
    state = layouts.approve(PLACE, 1, "ann", NOW)
    snapshot = layouts.states()

    assert state.mode is PlanningMode.APPLY
    assert (state.changed_by, state.changed_at) == ("ann", NOW)
    assert state.active_from == state.measured_from == NOW + APPROVAL_DELAY_S
    assert snapshot.of(PLACE) == state
    assert snapshot.moves == {(PLACE, 1): '["a"]'}
    assert snapshot.changes == layouts.changes() > before
    assert (
        version(layouts, NOW + APPROVAL_DELAY_S - 0.1),
        version(layouts, NOW + APPROVAL_DELAY_S),
    ) == (0, 1)


def test_an_approval_leaves_other_modes_alone(layouts: Layouts) -> None:
    layouts.propose(PLACE, "d1", "[]", NOW)
    layouts.switch(PLACE, PlanningMode.OFF, "ann", NOW)

    assert layouts.approve(PLACE, 1, "ann", NOW).mode is PlanningMode.OFF
    assert version(layouts, NOW + 99) == 0


def test_a_version_that_is_not_there_cannot_be_approved(layouts: Layouts) -> None:
    with pytest.raises(ValueError, match="version 7"):
        layouts.approve(PLACE, 7, "ann", NOW)
    assert layouts.states().places == {}


def test_between_two_layouts_the_former_holds_until_the_moment_of_the_new(
    layouts: Layouts,
) -> None:
    layouts.propose(PLACE, "d1", '["a"]', NOW)
    layouts.propose(PLACE, "d2", '["b"]', NOW)
    layouts.approve(PLACE, 1, "ann", NOW)
    layouts.approve(PLACE, 2, "ann", NOW + 60)

    assert (version(layouts, NOW + 64), version(layouts, NOW + 65)) == (1, 2)
    assert set(layouts.states().moves) == {(PLACE, 1), (PLACE, 2)}


def test_a_rollback_brings_back_the_layout_before_and_then_none(layouts: Layouts) -> None:
    for n in (1, 2):
        layouts.propose(PLACE, f"d{n}", "[]", NOW)
        layouts.approve(PLACE, n, "ann", NOW + 60 * n)
    layouts.rollback(PLACE, "bob", NOW + 180)
    after_one = (version(layouts, NOW + 184), version(layouts, NOW + 185))
    layouts.rollback(PLACE, "bob", NOW + 240)

    assert after_one == (2, 1)
    assert (version(layouts, NOW + 244), version(layouts, NOW + 245)) == (0, 0)  # it observes again
    states = [(proposal.state, proposal.decided_by) for proposal in layouts.proposals(PLACE)]
    assert states == [(ProposalState.ROLLED_BACK, "bob")] * 2
    with pytest.raises(ValueError, match="none to roll back"):
        layouts.rollback(PLACE, "bob", NOW + 300)


@pytest.mark.parametrize("own", [None, PlanningMode.OBSERVE, PlanningMode.AUTO])
def test_rolling_back_undoes_an_approval_with_its_mode(
    layouts: Layouts, own: PlanningMode | None
) -> None:
    if own is not None:
        layouts.switch(PLACE, own, "ann", NOW)
    before = layouts.states().of(PLACE)
    for n in (1, 2):
        layouts.propose(PLACE, f"d{n}", "[]", NOW - 1)
        layouts.approve(PLACE, n, "ann", NOW + 60 * n)
    assert layouts.states().of(PLACE).mode is (own if own is PlanningMode.AUTO else APPLY)
    layouts.rollback(PLACE, "ann", NOW + 180)
    after_one = layouts.states().of(PLACE).mode
    layouts.rollback(PLACE, "ann", NOW + 240)
    own_mode = layouts.states().places[PLACE].mode

    assert after_one is (own if own is PlanningMode.AUTO else APPLY)
    assert layouts.states().of(PLACE).mode is before.mode
    assert own_mode is own


@pytest.mark.parametrize("chosen", [APPLY, PlanningMode.OFF, PlanningMode.AUTO])
def test_rolling_back_leaves_a_mode_that_a_person_chose_since(
    layouts: Layouts, chosen: PlanningMode
) -> None:
    layouts.propose(PLACE, "d1", "[]", NOW)
    layouts.approve(PLACE, 1, "ann", NOW + 60)
    layouts.switch(PLACE, chosen, "bob", NOW + 120)
    layouts.rollback(PLACE, "ann", NOW + 180)

    assert layouts.states().of(PLACE).mode is chosen


def test_in_auto_mode_a_proposal_approves_itself(layouts: Layouts) -> None:
    layouts.switch(PLACE.all_families, PlanningMode.AUTO, "ann", NOW)
    proposal = propose(layouts, "d1", NOW + 60)

    assert (proposal.state, proposal.decided_by) == (ProposalState.APPROVED, "auto")
    assert version(layouts, NOW + 65) == 1


def test_a_proposal_that_approves_itself_stands_once_in_the_audit_log(
    layouts: Layouts, engine: Engine
) -> None:
    layouts.switch(PLACE.all_families, PlanningMode.AUTO, "ann", NOW)
    for later in (60, 70):
        layouts.propose(PLACE, "d1", "[]", NOW + later)
    layouts.propose(PLACE, "d2", "[]", NOW + 80)
    entry, of_ann = AuditLog(engine).entries(10)

    assert (entry.at, entry.who, entry.action) == (NOW + 60, "auto", "approve layout")
    assert (entry.team, entry.subject) == ("team_1", "support on claude")
    assert (entry.before or {})["layout"] == 0
    assert (entry.after or {})["layout"] == 1
    assert of_ann.who == "ann"


def test_features_without_a_mode_have_the_one_that_was_set(engine: Engine) -> None:
    layouts = Layouts(engine, mode=PlanningMode.AUTO)
    proposal = propose(layouts)

    assert (proposal.state, proposal.decided_by) == (ProposalState.APPROVED, "auto")
    assert layouts.states().of(PLACE).mode is PlanningMode.AUTO
    assert version(layouts, NOW + APPROVAL_DELAY_S) == 1


def test_a_mode_that_was_chosen_goes_before_the_one_that_was_set(engine: Engine) -> None:
    layouts = Layouts(engine, mode=PlanningMode.AUTO)
    layouts.switch(PLACE.all_families, PlanningMode.OBSERVE, "ann", NOW)
    proposal = propose(layouts)

    assert proposal.state is ProposalState.PROPOSED
    assert layouts.states().of(PLACE).mode is PlanningMode.OBSERVE


def test_an_approval_turns_observing_into_applying_and_leaves_auto(engine: Engine) -> None:
    for mode, after in ((PlanningMode.OBSERVE, APPLY), (PlanningMode.AUTO, PlanningMode.AUTO)):
        layouts = Layouts(engine, mode=mode)
        place = LayoutScope("team_1", mode.value)
        layouts.propose(place, "d1", "[]", NOW)
        layouts.approve(place, 1, "ann", NOW)

        assert layouts.states().of(place).mode is after


def test_a_layout_is_measured_for_a_day_before_the_next_approves_itself(layouts: Layouts) -> None:
    layouts.switch(PLACE, PlanningMode.AUTO, "ann", NOW)
    layouts.propose(PLACE, "d1", "[]", NOW)
    early = propose(layouts, "d2", NOW + 3600)
    late = propose(layouts, "d2", NOW + APPROVAL_DELAY_S + DAY)

    assert (early.state, late.state) == (ProposalState.PROPOSED, ProposalState.APPROVED)


def test_a_rolled_back_layout_does_not_return_by_itself(layouts: Layouts) -> None:
    layouts.switch(PLACE, PlanningMode.AUTO, "ann", NOW)
    layouts.propose(PLACE, "d1", "[]", NOW)
    layouts.rollback(PLACE, "ann", NOW + 60)
    again = propose(layouts, "d1", NOW + 9 * DAY)

    assert again.state is ProposalState.ROLLED_BACK
    assert version(layouts, NOW + 10 * DAY) == 0
    layouts.approve(PLACE, 1, "ann", NOW + 10 * DAY)
    assert version(layouts, NOW + 11 * DAY) == 1


def test_a_suspension_holds_at_once_and_until_somebody_resumes(layouts: Layouts) -> None:
    layouts.propose(PLACE, "d1", "[]", NOW)
    layouts.approve(PLACE, 1, "ann", NOW)
    assert layouts.suspend(PLACE, "it cost 12 % more", NOW + 60)
    again = layouts.suspend(PLACE, "it cost 15 % more", NOW + 70)
    held = layouts.states().of(PLACE)

    assert not again
    assert (held.suspended, held.suspended_at) == ("it cost 12 % more", NOW + 60)
    assert held.is_off
    assert held.layout_version(NOW + 99) == 0
    assert layouts.resume(PLACE, "ann", NOW + 100)
    assert not layouts.resume(PLACE, "ann", NOW + 100)
    assert (version(layouts, NOW + 104), version(layouts, NOW + 105)) == (0, 1)
    assert layouts.states().of(PLACE).measured_from == NOW + 105


def test_a_suspended_feature_approves_nothing_by_itself(layouts: Layouts) -> None:
    layouts.switch(PLACE, PlanningMode.AUTO, "ann", NOW)
    layouts.suspend(PLACE.all_families, "", NOW)
    proposal = propose(layouts)

    assert proposal.state is ProposalState.PROPOSED


def test_undecided_proposals_take_bounded_room_and_decided_ones_stay(layouts: Layouts) -> None:
    layouts.propose(PLACE, "d0", "[]", NOW)
    layouts.approve(PLACE, 1, "ann", NOW)
    for n in range(1, 31):
        layouts.propose(PLACE, f"d{n}", "[]", NOW + n)

    assert [proposal.version for proposal in layouts.proposals(PLACE)] == [1, *range(12, 32)]


def test_a_team_may_name_so_many_features_and_no_more(engine: Engine) -> None:
    layouts = Layouts(engine, features=3)
    proposals = [layouts.propose(LayoutScope("team_1", f"f{n}"), "d1", "[]", NOW) for n in range(5)]

    assert [proposal is not None for proposal in proposals] == [True, True, True, False, False]
    assert layouts.propose(LayoutScope("team_1", "f0"), "d2", "[]", NOW) is not None
    assert layouts.propose(LayoutScope("team_2", "f4"), "d1", "[]", NOW) is not None


def test_processes_that_propose_the_same_at_once_make_one_version(url: str, engine: Engine) -> None:
    def propose_at_once(n: int) -> int:
        own = open_database(url)
        proposal = propose(Layouts(own), f"d{n % 2}")
        own.dispose()
        return proposal.version

    with ThreadPoolExecutor(6) as threads:
        versions = list(threads.map(propose_at_once, range(6)))

    assert sorted(set(versions)) == [1, 2]
    assert len(Layouts(engine).proposals(PLACE)) == 2


def test_a_mode_for_all_families_is_the_mode_of_each(layouts: Layouts) -> None:
    other = LayoutScope(PLACE.team, "chat", PLACE.family)
    layouts.propose(PLACE, "d1", "[]", NOW)
    layouts.approve(PLACE, 1, "ann", NOW)
    for place in (LayoutScope(PLACE.team, PLACE.feature, "gpt"), other):
        layouts.switch(place, PlanningMode.AUTO, "ann", NOW)
    layouts.switch(PLACE.all_families, PlanningMode.OFF, "bob", NOW + DAY)
    off = version(layouts, NOW + 2 * DAY)
    layouts.switch(PLACE.all_families, PlanningMode.APPLY, "bob", NOW + 3 * DAY)
    states = layouts.states()

    assert off == 0
    assert version(layouts, NOW + 4 * DAY) == 1
    assert states.of(LayoutScope(PLACE.team, PLACE.feature, "gpt")).mode is PlanningMode.APPLY
    assert states.of(other).mode is PlanningMode.AUTO
