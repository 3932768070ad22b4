from pathlib import Path

import msgspec
import pytest
from sqlalchemy import event

from proxy.cli.layouts import layouts
from proxy.prefix.layouts.layout import Layout, LayoutMove
from proxy.prefix.prompts.prompt import PromptSlot
from proxy.records.feature_mode import LayoutScope, PlanningMode
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
def typed(tmp_path: Path) -> CommandRunner:
    return CommandRunner(tmp_path, NOW)


@pytest.fixture
def place(typed: CommandRunner) -> LayoutScope:
    """A feature of the team acme with one proposal."""
    store = typed.open()
    found = LayoutScope(store.teams.create("acme", now=NOW).id, "support", "claude")
    store.layouts.propose(found, "d1", MOVES, NOW - 60)
    store.close(5)
    return found


def test_nothing_decided_is_reported(typed: CommandRunner) -> None:
    assert "every one is observed" in typed.said(layouts, "list")


def test_features_are_listed_with_mode_layout_proposals_and_state(
    typed: CommandRunner, place: LayoutScope
) -> None:
    assert typed.said(layouts, "list").splitlines()[1].split() == [
        "acme",
        "support",
        "claude",
        "observe",
        "none",
        "1",
        "planned",
    ]


def test_a_proposal_is_shown_with_its_moves_and_evidence(
    typed: CommandRunner, place: LayoutScope
) -> None:
    said = typed.said(layouts, "show", "acme", "support")

    assert "Mode observe; no layout.\n" in said
    assert "Version 1: proposed 2026-09-21 14:12 UTC\n" in said
    assert "  Current time: line 3 varies per call → variable slot" in said
    assert "saves $1.2500 per 1,000 calls" in said


def test_a_layout_that_this_version_cannot_read_is_shown_as_it_is(
    typed: CommandRunner, place: LayoutScope
) -> None:
    store = typed.open()
    store.layouts.propose(place, "d2", "[1]", NOW)
    store.close(5)

    assert "  [1]" in typed.said(layouts, "show", "acme", "support")


def test_a_version_is_approved_and_rolled_back(typed: CommandRunner, place: LayoutScope) -> None:
    approved = typed.said(layouts, "approve", "acme", "support", "1")
    shown = typed.said(layouts, "show", "acme", "support")
    back = typed.said(layouts, "rollback", "acme", "support", "--by", "bob")

    assert "Layout 1 of feature support is approved, on claude" in approved
    assert "not applied" not in approved
    assert "Mode apply; layout 1" in shown
    assert "approved 2026-09-21 14:13 UTC by ann" in shown
    assert "has no layout from now on" in back
    assert "rolled back 2026-09-21 14:13 UTC by bob" in typed.said(
        layouts, "show", "acme", "support"
    )
    assert "none to roll back" in typed.error_of(layouts, "rollback", "acme", "support")


def test_a_rollback_names_the_layout_it_goes_back_to(
    typed: CommandRunner, place: LayoutScope
) -> None:
    store = typed.open()
    store.layouts.propose(place, "d2", MOVES, NOW)
    store.layouts.approve(place, 1, "", NOW - 100)
    store.layouts.approve(place, 2, "", NOW - 50)
    store.close(5)
    typed.now += 60

    assert "has layout 1 from now on" in typed.said(layouts, "rollback", "acme", "support")


def test_a_missing_layout_cannot_be_approved(typed: CommandRunner, place: LayoutScope) -> None:
    assert "version 7" in typed.error_of(layouts, "approve", "acme", "support", "7")
    assert "no team" in typed.error_of(layouts, "show", "nobody", "support")


def test_a_mode_is_set_for_a_feature_and_an_approval_in_off_is_not_applied(
    typed: CommandRunner, place: LayoutScope
) -> None:
    assert "on all families, has the mode off" in typed.said(
        layouts, "mode", "acme", "support", "off"
    )
    assert "not applied yet: off" in typed.said(layouts, "approve", "acme", "support", "1")


def test_where_there_are_several_families_one_has_to_be_named(
    typed: CommandRunner, place: LayoutScope
) -> None:
    store = typed.open()
    store.layouts.propose(LayoutScope(place.team, "support", "gpt"), "d1", MOVES, NOW)
    store.close(5)

    assert "claude, gpt" in typed.error_of(layouts, "approve", "acme", "support", "1")
    assert "on gpt" in typed.said(
        layouts, "approve", "acme", "support", "1", "--family", "gpt", "--by", "bob"
    )


def test_a_suspended_feature_says_why_and_is_resumed(
    typed: CommandRunner, place: LayoutScope
) -> None:
    store = typed.open()
    store.layouts.suspend(place.all_families, "it cost 12 % more", NOW - 60)
    store.layouts.switch(place, PlanningMode.AUTO, "", NOW)
    store.close(5)

    assert "suspended 2026-09-21 14:12 UTC: it cost 12 % more" in typed.said(layouts, "list")
    assert "planned again" in typed.said(layouts, "resume", "acme", "support")
    assert "not suspended" in typed.error_of(layouts, "resume", "acme", "support")


def test_a_mode_for_a_feature_nobody_called_is_set_and_a_typo_is_suspected(
    typed: CommandRunner, place: LayoutScope
) -> None:
    typed.keep(
        *(a_receipt(n, team=place.team, feature=f) for n, f in enumerate(("support", "chat", ""))),
        a_receipt(3, team="team_0", feature="suport"),
    )
    doubted = typed.said(layouts, "mode", "acme", "suport", "off")
    strange = typed.said(layouts, "mode", "acme", "translation", "apply")
    sure = typed.said(layouts, "mode", "acme", "support", "auto")
    nameless = typed.said(layouts, "mode", "acme", "", "auto")
    listed = typed.said(layouts, "list").splitlines()

    assert "Feature suport, on all families, has the mode off" in doubted
    assert "no call of team acme with feature suport yet. Near it: support." in doubted
    assert strange.endswith("no call of team acme with feature translation yet.\n")
    assert "no call" not in sure + nameless
    assert ["acme", "suport", "all", "off"] in [line.split()[:4] for line in listed]


def test_a_feature_without_a_name_that_nobody_called_is_doubted_too(
    typed: CommandRunner, place: LayoutScope
) -> None:
    said = typed.said(layouts, "mode", "acme", "", "off")

    assert "no call of team acme with feature (none) yet." in said


def test_an_approval_is_reported_with_the_mode_of_the_whole_feature(
    typed: CommandRunner, place: LayoutScope
) -> None:
    typed.said(layouts, "mode", "acme", "support", "auto")

    assert "the mode auto" in typed.said(layouts, "approve", "acme", "support", "1")


class Counting(CommandRunner):
    """Counts how often a command asks what holds."""

    looks = 0

    def open(self) -> Store:
        store = super().open()
        event.listen(store._engine, "before_cursor_execute", self._count)
        return store

    def _count(self, _connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        self.looks += statement.startswith("SELECT features")


def test_showing_layouts_asks_the_store_once(tmp_path: Path, place: LayoutScope) -> None:
    typed = Counting(tmp_path, NOW)
    typed.said(layouts, "show", "acme", "support")

    assert typed.looks == 1


def test_a_mode_for_all_families_reaches_those_with_a_mode_of_their_own(
    typed: CommandRunner, place: LayoutScope
) -> None:
    typed.said(layouts, "approve", "acme", "support", "1")
    said = typed.said(layouts, "mode", "acme", "support", "off")
    listed = typed.said(layouts, "list").splitlines()

    assert "on all families, has the mode off" in said
    assert "On claude it had the mode apply" in said
    assert "`thriftgate layout mode acme support apply --family claude`" in said
    assert [line.split()[2:4] for line in listed[1:]] == [["all", "off"], ["claude", "off"]]
    assert "had the mode" not in typed.said(layouts, "mode", "acme", "support", "auto")


def test_a_mode_for_one_family_leaves_the_others(typed: CommandRunner, place: LayoutScope) -> None:
    typed.said(layouts, "approve", "acme", "support", "1")
    said = typed.said(layouts, "mode", "acme", "support", "off", "--family", "gpt")

    assert "had the mode" not in said
    assert "Mode apply" in typed.said(layouts, "show", "acme", "support", "--family", "claude")


def test_a_rollback_says_which_mode_remains(typed: CommandRunner, place: LayoutScope) -> None:
    typed.said(layouts, "approve", "acme", "support", "1")

    assert "on claude, where the mode apply remains." in typed.said(
        layouts, "rollback", "acme", "support"
    )


def test_a_feature_nobody_called_is_not_shown(typed: CommandRunner, place: LayoutScope) -> None:
    typed.keep(a_receipt(1, team=place.team, feature="chat"))

    assert "no call of team acme with feature chatt yet. Near it: chat." in typed.error_of(
        layouts, "show", "acme", "chatt"
    )
    assert "Mode observe" in typed.said(layouts, "show", "acme", "chat")


def test_a_proposal_that_waits_comes_with_the_command_that_applies_it(
    typed: CommandRunner, place: LayoutScope
) -> None:
    waiting = typed.said(layouts, "show", "acme", "support")
    typed.said(layouts, "approve", "acme", "support", "1")
    decided = typed.said(layouts, "show", "acme", "support")

    assert "`thriftgate layout approve acme support 1 --family claude`" in waiting
    assert "layout approve" not in decided


def test_an_impossible_layout_change_is_reported_in_a_sentence(
    typed: CommandRunner, place: LayoutScope
) -> None:
    assert typed.error_of(layouts, "approve", "acme", "support", "7").startswith("No layout of")
    assert typed.error_of(layouts, "rollback", "acme", "support").startswith("No layout is")


def test_as_json_a_list_and_a_feature_are_one_document_each(
    typed: CommandRunner, place: LayoutScope
) -> None:
    (listed,) = msgspec.json.decode(typed.said(layouts, "list", "--json"))["features"]
    shown = msgspec.json.decode(typed.said(layouts, "show", "acme", "support", "--json"))

    assert (listed["team"], listed["feature"], listed["proposals"]) == ("acme", "support", 1)
    assert shown["family"] == place.family
    assert shown["versions"][0]["moves"][0]["saves_usd_per_1k_calls"] == "1.25"
