"""``thriftgate layout``: shows how each feature is planned, and sets what a person decides."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import msgspec
import typer

from proxy.cli.columns import (
    FEATURE,
    MONEY,
    TEXT,
    TIME,
    Document,
    TableColumn,
    documents,
    each_by,
    text_table,
    with_team,
)
from proxy.cli.terminal import (
    AsJson,
    By,
    FeatureName,
    TeamName,
    Terminal,
    feature_name,
    format_time,
    sentence,
)
from proxy.records.feature_mode import FeatureState, FeatureStates, LayoutScope, PlanningMode

if TYPE_CHECKING:
    from proxy.prefix.layouts.layout import LayoutMove
    from proxy.store.sql.settings.layout_rows import Proposal
    from proxy.store.store import Store

_UNCHOSEN_MODE: Final = (
    "Nobody chose it: it is THRIFTGATE_PLANNING of this command. A gateway that was started with"
    " another value uses that one."
)
_Family = Annotated[str, typer.Option(help="The family of models; needed where there are several.")]


def layouts(terminal: Terminal) -> typer.Typer:
    """The group of commands."""
    commands = typer.Typer(
        no_args_is_help=True, help="See, approve and roll back how features' prompts are arranged."
    )
    desk = _Commands(terminal)
    for name, command in (
        ("list", desk.list_features),
        ("show", desk.show),
        ("mode", desk.mode),
        ("approve", desk.approve),
        ("rollback", desk.rollback),
        ("resume", desk.resume),
    ):
        commands.command(name)(command)
    return commands


class _Commands:
    """The commands."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def list_features(self, *, as_json: AsJson = False) -> None:
        """All features that have a mode, a layout or a proposal.

        A model family is the first word of models' names, such as gpt or claude: their caches
        work alike, so a feature has a layout for each family that it asks. `all` holds for every
        family without a row of its own.
        """
        with self._terminal.store() as store:
            states = store.layouts.states()
            names = self._terminal.names(store)
            rows = [
                (place, states.of(place), store.layouts.proposals(place))
                for place in sorted(states.places)
            ]
        columns = _columns(names)
        if as_json:
            self._terminal.print_json({"features": documents(columns, rows)})
        elif rows:
            self._terminal.show(text_table(columns, rows))
        else:
            self._terminal.say("No feature has a layout or a mode of its own yet.")

    def show(
        self, team: TeamName, feature: FeatureName, *, family: _Family = "", as_json: AsJson = False
    ) -> None:
        """Show a feature's settings, and each version of its layout with its moves."""
        with self._terminal.store() as store:
            states = store.layouts.states()
            whole = self._all_families(store, team, feature)
            called = store.reports.features(whole.team)
            if feature not in called and all(
                whole != scope.all_families for scope in states.places
            ):
                self._terminal.fail(_feature_warning(team, feature, called))
            place = self._place(states, whole, family)
            state = states.of(place)
            places = (place, place.all_families)
            proposals = store.layouts.proposals(place)
            names = self._terminal.names(store)
        from proxy.store.sql.settings.layouts import waiting_proposals

        if as_json:
            (document,) = documents(_columns(names), [(place, state, proposals)])
            versions = {"versions": documents(_VERSION_COLUMNS, proposals)}
            self._terminal.print_json(document | versions)
            return
        self._terminal.say(
            f"Feature {feature_name(feature)} of team {team}, {_families_text(place)}:"
            f" {_state(state)}.",
            f"Mode {state.mode}; {_active_layout(state)}.",
        )
        if not any(states.places[one].mode for one in places if one in states.places):
            self._terminal.say(_UNCHOSEN_MODE)
        for proposal in proposals:
            self._terminal.say(*_proposal_lines(proposal))
        if waiting := waiting_proposals(proposals):
            newest = max(waiting, key=lambda proposal: proposal.made)
            approve = layout_command("approve", team, place, str(newest.version))
            self._terminal.say(f"To apply what is proposed: {approve}.")

    def mode(
        self,
        team: TeamName,
        feature: FeatureName,
        mode: PlanningMode,
        *,
        family: _Family = "",
        by: By = "",
    ) -> None:
        """Set what planning may do to a feature: off, observe, apply or auto.

        Without a family it is set for all, and none keeps a mode of its own.
        """
        with self._terminal.store() as store:
            whole = self._all_families(store, team, feature)
            place = LayoutScope(whole.team, feature, family)
            before = store.layouts.states()
            store.layouts.switch(place, mode, by, self._terminal.now())
            called = store.reports.features(whole.team)
        self._terminal.say(
            f"Feature {feature_name(feature)}, {_families_text(place)}, has the mode {mode};"
            " it holds for conversations that begin from now on."
        )
        self._terminal.say(*_replaced_modes(before, place, mode, team))
        if feature not in called:
            self._terminal.say(_feature_warning(team, feature, called))

    def approve(
        self,
        team: TeamName,
        feature: FeatureName,
        version: int,
        *,
        family: _Family = "",
        by: By = "",
    ) -> None:
        """Apply a version of a feature's layout to conversations that begin from now on."""
        with self._terminal.store() as store:
            whole = self._all_families(store, team, feature)
            place = self._place(store.layouts.states(), whole, family)
            try:
                state = store.layouts.approve(place, version, by, self._terminal.now())
            except ValueError as error:
                self._terminal.fail(f"{sentence(error)}; `thriftgate layout show` lists them.")
        self._terminal.say(
            f"Layout {version} of feature {feature_name(feature)} is approved,"
            f" {_families_text(place)},"
            f" which has the mode {state.mode};"
            f" it holds from {format_time(state.active_from)}."
        )
        if state.is_off:
            self._terminal.say(f"It is not applied yet: {_state(state)}.")

    def rollback(
        self, team: TeamName, feature: FeatureName, *, family: _Family = "", by: By = ""
    ) -> None:
        """Go back to the layout that held before, or to none."""
        with self._terminal.store() as store:
            whole = self._all_families(store, team, feature)
            place = self._place(store.layouts.states(), whole, family)
            try:
                state = store.layouts.rollback(place, by, self._terminal.now())
            except ValueError as error:
                self._terminal.fail(f"{sentence(error)}.")
        left = f"layout {state.version}" if state.version else "no layout"
        self._terminal.say(
            f"Rolled back: feature {feature_name(feature)} has {left} from now on,"
            f" {_families_text(place)}; its mode is {state.mode}."
        )
        if state.mode is PlanningMode.AUTO:
            stay = layout_command("mode", team, whole, PlanningMode.OBSERVE.value)
            self._terminal.say(f"Another may approve itself after a day; to have none: {stay}.")

    def resume(self, team: TeamName, feature: FeatureName, *, by: By = "") -> None:
        """Plan a suspended feature again, and measure it afresh."""
        with self._terminal.store() as store:
            whole = self._all_families(store, team, feature)
            resumed = [
                store.layouts.resume(place, by, self._terminal.now())
                for place in store.layouts.states().places
                if place.all_families == whole
            ]
        if not any(resumed):
            self._terminal.fail(f"Feature {feature_name(feature)} is not suspended.")
        self._terminal.say(f"Feature {feature_name(feature)} is planned again.")

    def _all_families(self, store: Store, team: str, feature: str) -> LayoutScope:
        """All families of the feature; ends the command where there is no such team."""
        return LayoutScope(self._terminal.team(store, team), feature)

    def _place(self, states: FeatureStates, whole: LayoutScope, family: str) -> LayoutScope:
        """The place that is meant; ends the command where it could be one of several."""
        families = [family] if family else _families(states, whole)
        if len(families) > 1:
            self._terminal.fail(f"Say which --family: {', '.join(families)}.")
        return LayoutScope(whole.team, whole.feature, *families)


_Row: TypeAlias = "tuple[LayoutScope, FeatureState, Sequence[Proposal]]"


def _columns(names: Mapping[str, str]) -> tuple[TableColumn[_Row], ...]:
    return with_team(
        names,
        TableColumn("feature", "feature", FEATURE, lambda row: row[0].feature),
        TableColumn("family", of=lambda row: row[0].family),
        TableColumn("", "model family", of=lambda row: row[0].family or "all"),
        TableColumn("mode", "mode", of=lambda row: row[1].mode),
        TableColumn("is_off", of=lambda row: row[1].is_off),
        TableColumn("suspended", of=lambda row: row[1].suspended),
        TableColumn("suspended_at", form=TIME, of=lambda row: row[1].suspended_at),
        TableColumn("layout", "layout", _VERSION, lambda row: row[1].version or None),
        TableColumn("active_from", form=TIME, of=lambda row: row[1].active_from),
        TableColumn("proposals", "proposals", TEXT, lambda row: _waiting_count(row[2])),
        TableColumn("", "state", of=lambda row: _state(row[1])),
        team=lambda row: row[0].team,
    )


def _waiting_count(proposals: Sequence[Proposal]) -> int:
    from proxy.store.sql.settings.layout_rows import ProposalState

    return sum(proposal.state is ProposalState.PROPOSED for proposal in proposals)


def _moves(proposal: Proposal) -> list[Document] | None:
    """The moves of a version; None where this version of the gateway cannot read them."""
    from proxy.prefix.layouts.layout import Layout

    try:
        moves = msgspec.json.decode(proposal.moves, type=Layout).moves
    except msgspec.DecodeError:
        return None
    return documents(_MOVE_COLUMNS, moves)


_VERSION: Final = each_by(lambda version: str(version or "none"), is_right=False)
_VERSION_COLUMNS: Final[tuple[TableColumn[Proposal], ...]] = (
    TableColumn("version"),
    TableColumn("state"),
    TableColumn("proposed_at", form=TIME, of=lambda proposal: proposal.made),
    TableColumn("decided_at", form=TIME),
    TableColumn("decided_by"),
    TableColumn("moves", of=_moves),
)
_MOVE_COLUMNS: Final[tuple[TableColumn[LayoutMove], ...]] = (
    TableColumn("label"),
    TableColumn("shows"),
    TableColumn("slot"),
    TableColumn("values"),
    TableColumn("calls"),
    TableColumn("conversations"),
    TableColumn("saves_usd_per_1k_calls", form=MONEY, of=lambda move: move.saving),
)


def _families(states: FeatureStates, whole: LayoutScope) -> list[str]:
    return sorted(
        place.family for place in states.places if place.all_families == whole and place.family
    )


def _replaced_modes(
    before: FeatureStates, place: LayoutScope, mode: PlanningMode, team: str
) -> Iterator[str]:
    """Sentences on families that had a mode of their own, with the command that restores it."""
    for family in [] if place.family else _families(before, place):
        scope = LayoutScope(place.team, place.feature, family)
        had = before.places[scope].mode
        if had is not None and had is not mode:
            again = layout_command("mode", team, scope, had.value)
            yield f"On {family} it had the mode {had}; to give it back: {again}."


def layout_command(verb: str, team: str, place: LayoutScope, *values: str) -> str:
    """A command about the place, to be copied."""
    family = ("--family", place.family) if place.family else ()
    words = ("thriftgate", "layout", verb, team, place.feature, *values, *family)
    return f"`{shlex.join(words)}`"


def _proposal_lines(proposal: Proposal) -> Iterator[str]:
    from proxy.prefix.layouts.layout import Layout, layout_lines
    from proxy.store.sql.settings.layout_rows import ProposalState

    fate = f"proposed {format_time(proposal.made)}"
    if proposal.state is not ProposalState.PROPOSED:
        fate += f", {proposal.state} {format_time(proposal.decided_at)}"
        fate += f" by {proposal.decided_by}" if proposal.decided_by else ""
    yield f"Version {proposal.version}: {fate}"
    try:
        layout = msgspec.json.decode(proposal.moves, type=Layout)
    except msgspec.DecodeError:
        yield f"  {proposal.moves}"
        return
    for line in layout_lines(layout)[1:]:
        yield f"  {line}"


def _feature_warning(team: str, feature: str, called: Sequence[str]) -> str:
    """Warns that the named feature may not be the one that was meant."""
    near = ", ".join(feature_name(name) for name in get_close_matches(feature, called))
    hint = f" Near it: {near}." if near else ""
    return f"There is no call of team {team} with feature {feature_name(feature)} yet.{hint}"


def _active_layout(state: FeatureState) -> str:
    since = f" since {format_time(state.active_from)}" if state.active_from else ""
    return f"layout {state.version}{since}" if state.version else f"no layout{since}"


def _state(state: FeatureState) -> str:
    if state.suspended:
        return f"suspended {format_time(state.suspended_at)}: {state.suspended}"
    return "off" if state.is_off else "planned"


def _families_text(place: LayoutScope) -> str:
    return f"on {place.family}" if place.family else "on all families"
