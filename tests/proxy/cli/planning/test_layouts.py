from pathlib import Path

import msgspec
import pytest
from sqlalchemy import event

from proxy.cli.columns import documents
from proxy.cli.planning.layouts import _VERSION_COLUMNS, _columns, layouts
from proxy.prefix.layouts.layout import Layout, LayoutMove
from proxy.prefix.prompts.prompt import PromptSlot
from proxy.records.feature_mode import FeatureState, LayoutScope, PlanningMode
from proxy.store.sql.settings.layout_rows import Proposal, ProposalState
from proxy.store.store import Store
from tests.fakes.cli_runner import CommandRunner
from tests.fakes.receipts import a_receipt

NOW = 1_790_000_000.0
MOVE = LayoutMove(
    before=None,
    after=None,
    slot=PromptSlot.VARIABLE,
    label="Current time",
    shows="line 3",
    calls=40,
    conversations=9,
    values=40,
    saving=1_250_000_000,
)
MOVES = msgspec.json.encode(Layout(moves=(MOVE,))).decode()


@pytest.fixture
def runner(tmp_path: Path) -> CommandRunner:
    return CommandRunner(tmp_path, NOW)


@pytest.fixture
def place(runner: CommandRunner) -> LayoutScope:
    """A feature of the team acme with one proposal."""
    store = runner.open()
    scope = LayoutScope(store.teams.create("acme", now=NOW).id, "support", "claude")
    store.layouts.propose(scope, "d1", MOVES, NOW - 60)
    store.close(5)
    return scope


def test_a_list_without_features_says_so(runner: CommandRunner) -> None:
    assert "or a mode of its own" in runner.said(layouts, "list")


def test_features_are_listed_with_mode_layout_proposals_and_state(
    runner: CommandRunner, place: LayoutScope
) -> None:
    assert runner.said(layouts, "list").splitlines()[1].split() == [
        "acme",
        "support",
        "claude",
        "observe",
        "none",
        "1",
        "planned",
    ]


def test_a_proposal_is_shown_with_its_moves_and_evidence(
    runner: CommandRunner, place: LayoutScope
) -> None:
    output = runner.said(layouts, "show", "acme", "support")

    assert "Mode observe; no layout.\n" in output
    assert "Version 1: proposed 2026-09-21 14:12 UTC\n" in output
    assert "  Current time: line 3 varies per call → variable slot" in output
    assert "saves $1.2500 per 1,000 calls" in output


def test_layout_show_says_whether_anybody_chose_the_mode(
    runner: CommandRunner, place: LayoutScope
) -> None:
    note = "Nobody chose it: it is THRIFTGATE_PLANNING of this command."
    before = runner.said(layouts, "show", "acme", "support")
    runner.said(layouts, "mode", "acme", "support", "auto")

    assert note in before
    assert note not in runner.said(layouts, "show", "acme", "support")


def test_a_layout_that_this_version_cannot_read_is_shown_as_it_is(
    runner: CommandRunner, place: LayoutScope
) -> None:
    store = runner.open()
    store.layouts.propose(place, "d2", "[1]", NOW)
    store.close(5)

    assert "  [1]" in runner.said(layouts, "show", "acme", "support")


def test_a_version_is_approved_and_rolled_back(runner: CommandRunner, place: LayoutScope) -> None:
    approved = runner.said(layouts, "approve", "acme", "support", "1")
    shown = runner.said(layouts, "show", "acme", "support")
    output = runner.said(layouts, "rollback", "acme", "support", "--by", "bob")

    assert "Layout 1 of feature support is approved, on claude" in approved
    assert "not applied" not in approved
    assert "Mode apply; layout 1" in shown
    assert "approved 2026-09-21 14:13 UTC by ann" in shown
    assert "has no layout from now on" in output
    assert "rolled back 2026-09-21 14:13 UTC by bob" in runner.said(
        layouts, "show", "acme", "support"
    )
    assert "none to roll back" in runner.error_of(layouts, "rollback", "acme", "support")


def test_a_rollback_names_the_layout_it_goes_back_to(
    runner: CommandRunner, place: LayoutScope
) -> None:
    store = runner.open()
    store.layouts.propose(place, "d2", MOVES, NOW)
    store.layouts.approve(place, 1, "", NOW - 100)
    store.layouts.approve(place, 2, "", NOW - 50)
    store.close(5)
    runner.now += 60

    assert "has layout 1 from now on" in runner.said(layouts, "rollback", "acme", "support")


def test_a_missing_layout_cannot_be_approved(runner: CommandRunner, place: LayoutScope) -> None:
    assert "version 7" in runner.error_of(layouts, "approve", "acme", "support", "7")
    assert "no team" in runner.error_of(layouts, "show", "nobody", "support")


def test_a_mode_is_set_for_a_feature_and_an_approval_in_off_is_not_applied(
    runner: CommandRunner, place: LayoutScope
) -> None:
    assert "on all families, has the mode off" in runner.said(
        layouts, "mode", "acme", "support", "off"
    )
    assert "not applied yet: off" in runner.said(layouts, "approve", "acme", "support", "1")


def test_where_there_are_several_families_one_has_to_be_named(
    runner: CommandRunner, place: LayoutScope
) -> None:
    store = runner.open()
    store.layouts.propose(LayoutScope(place.team, "support", "gpt"), "d1", MOVES, NOW)
    store.close(5)

    assert "claude, gpt" in runner.error_of(layouts, "approve", "acme", "support", "1")
    assert "on gpt" in runner.said(
        layouts, "approve", "acme", "support", "1", "--family", "gpt", "--by", "bob"
    )


def test_a_suspended_feature_says_why_and_is_resumed(
    runner: CommandRunner, place: LayoutScope
) -> None:
    store = runner.open()
    store.layouts.suspend(place.all_families, "it cost 12 % more", NOW - 60)
    store.layouts.switch(place, PlanningMode.AUTO, "", NOW)
    store.close(5)

    assert "suspended 2026-09-21 14:12 UTC: it cost 12 % more" in runner.said(layouts, "list")
    assert "planned again" in runner.said(layouts, "resume", "acme", "support")
    assert "not suspended" in runner.error_of(layouts, "resume", "acme", "support")


def test_a_mode_for_a_feature_nobody_called_is_set_and_a_typo_is_suspected(
    runner: CommandRunner, place: LayoutScope
) -> None:
    runner.keep(
        *(a_receipt(n, team=place.team, feature=f) for n, f in enumerate(("support", "chat", ""))),
        a_receipt(3, team="team_0", feature="suport"),
    )
    doubted = runner.said(layouts, "mode", "acme", "suport", "off")
    strange = runner.said(layouts, "mode", "acme", "translation", "apply")
    sure = runner.said(layouts, "mode", "acme", "support", "auto")
    nameless = runner.said(layouts, "mode", "acme", "", "auto")
    listed = runner.said(layouts, "list").splitlines()

    assert "Feature suport, on all families, has the mode off" in doubted
    assert "no call of team acme with feature suport yet. Near it: support." in doubted
    assert strange.endswith("no call of team acme with feature translation yet.\n")
    assert "no call" not in sure + nameless
    assert ["acme", "suport", "all", "off"] in [line.split()[:4] for line in listed]


def test_a_feature_without_a_name_that_nobody_called_is_doubted_too(
    runner: CommandRunner, place: LayoutScope
) -> None:
    output = runner.said(layouts, "mode", "acme", "", "off")

    assert "no call of team acme with feature (none) yet." in output


def test_an_approval_is_reported_with_the_mode_of_the_whole_feature(
    runner: CommandRunner, place: LayoutScope
) -> None:
    runner.said(layouts, "mode", "acme", "support", "auto")

    assert "the mode auto" in runner.said(layouts, "approve", "acme", "support", "1")


class CountingRunner(CommandRunner):
    """Counts how often a command asks what holds."""

    looks = 0

    def open(self) -> Store:
        store = super().open()
        event.listen(store._engine, "before_cursor_execute", self._count)
        return store

    def _count(self, _connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        self.looks += statement.startswith("SELECT features")


def test_showing_layouts_asks_the_store_once(tmp_path: Path, place: LayoutScope) -> None:
    typed = CountingRunner(tmp_path, NOW)
    typed.said(layouts, "show", "acme", "support")

    assert typed.looks == 1


def test_a_mode_for_all_families_reaches_those_with_a_mode_of_their_own(
    runner: CommandRunner, place: LayoutScope
) -> None:
    runner.said(layouts, "approve", "acme", "support", "1")
    output = runner.said(layouts, "mode", "acme", "support", "off")
    listed = runner.said(layouts, "list").splitlines()

    assert "on all families, has the mode off" in output
    assert "On claude it had the mode apply" in output
    assert "`thriftgate layout mode acme support apply --family claude`" in output
    assert [line.split()[2:4] for line in listed[1:]] == [["all", "off"], ["claude", "off"]]
    assert "had the mode" not in runner.said(layouts, "mode", "acme", "support", "auto")


def test_a_mode_for_one_family_leaves_the_others(runner: CommandRunner, place: LayoutScope) -> None:
    runner.said(layouts, "approve", "acme", "support", "1")
    output = runner.said(layouts, "mode", "acme", "support", "off", "--family", "gpt")

    assert "had the mode" not in output
    assert "Mode apply" in runner.said(layouts, "show", "acme", "support", "--family", "claude")


def test_a_rollback_says_which_mode_holds_afterwards(
    runner: CommandRunner, place: LayoutScope
) -> None:
    runner.said(layouts, "approve", "acme", "support", "1")
    undone = runner.said(layouts, "rollback", "acme", "support")
    runner.said(layouts, "mode", "acme", "support", "apply")
    runner.said(layouts, "approve", "acme", "support", "1")

    assert "has no layout from now on, on claude; its mode is observe." in undone
    assert "on claude; its mode is apply." in runner.said(layouts, "rollback", "acme", "support")


def test_a_feature_nobody_called_is_not_shown(runner: CommandRunner, place: LayoutScope) -> None:
    runner.keep(a_receipt(1, team=place.team, feature="chat"))

    assert "no call of team acme with feature chatt yet. Near it: chat." in runner.error_of(
        layouts, "show", "acme", "chatt"
    )
    assert "Mode observe" in runner.said(layouts, "show", "acme", "chat")


def test_a_proposal_that_waits_comes_with_the_command_that_applies_it(
    runner: CommandRunner, place: LayoutScope
) -> None:
    waiting = runner.said(layouts, "show", "acme", "support")
    runner.said(layouts, "approve", "acme", "support", "1")
    decided = runner.said(layouts, "show", "acme", "support")

    assert "`thriftgate layout approve acme support 1 --family claude`" in waiting
    assert "layout approve" not in decided


def test_an_impossible_layout_change_is_reported_in_a_sentence(
    runner: CommandRunner, place: LayoutScope
) -> None:
    assert runner.error_of(layouts, "approve", "acme", "support", "7").startswith("No layout of")
    assert runner.error_of(layouts, "rollback", "acme", "support").startswith("No layout is")


def test_as_json_a_list_and_a_feature_are_one_document_each(
    runner: CommandRunner, place: LayoutScope
) -> None:
    (listed,) = msgspec.json.decode(runner.said(layouts, "list", "--json"))["features"]
    shown = msgspec.json.decode(runner.said(layouts, "show", "acme", "support", "--json"))

    assert (listed["team"], listed["feature"], listed["proposals"]) == ("acme", "support", 1)
    assert shown["family"] == place.family
    assert shown["versions"][0]["moves"][0]["saves_usd_per_1k_calls"] == "1.25"


NAMES = {"team_1": "acme"}
PROPOSAL = Proposal(
    version=1,
    digest="d",
    moves=MOVES,
    state=ProposalState.PROPOSED,
    made=NOW,
    decided_by="",
    decided_at=0.0,
)


def test_a_feature_says_what_holds_and_what_waits():
    place = LayoutScope("team_1", "chat", "gpt")
    state = FeatureState(mode=PlanningMode.AUTO, version=2, active_from=NOW)
    (entry,) = documents(_columns(NAMES), [(place, state, [PROPOSAL])])

    assert entry == {
        "team": "acme",
        "team_id": "team_1",
        "feature": "chat",
        "family": "gpt",
        "mode": "auto",
        "is_off": False,
        "suspended": "",
        "suspended_at": None,
        "layout": 2,
        "active_from": "2026-09-21T14:13:20+00:00",
        "proposals": 1,
    }


def test_a_feature_has_the_moves_of_each_version_null_where_they_cannot_be_read():
    broken = Proposal(
        version=2,
        digest="e",
        moves="{",
        state=ProposalState.APPROVED,
        made=NOW,
        decided_by="ann",
        decided_at=NOW,
    )
    first, second = documents(_VERSION_COLUMNS, [PROPOSAL, broken])

    assert first["moves"] == [
        {
            "label": "Current time",
            "shows": "line 3",
            "slot": "variable",
            "values": 40,
            "calls": 40,
            "conversations": 9,
            "saves_usd_per_1k_calls": "1.25",
        }
    ]
    assert (first["decided_at"], first["state"]) == (None, "proposed")
    assert (second["moves"], second["decided_by"], second["state"]) == (None, "ann", "approved")
