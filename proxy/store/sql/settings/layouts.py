"""Layouts in the database: proposals, decisions, and the layouts in force or suspended.

::

    withdrawn ◀──▶ proposed ── approve ──▶ approved ── rollback ──▶ rolled back

What is decided holds for conversations that begin some seconds later, when every process has heard
of it. A suspension holds as soon as it is heard of, until a person resumes. What was rolled back
comes again only if a person approves it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec
from sqlalchemy import Connection, Engine, and_, func, or_, select

from proxy.prefix.guard import ComparisonFinding
from proxy.prefix.layouts.layout import Layout, read_layout
from proxy.records.feature_mode import (
    EVERY_FAMILY,
    FeatureState,
    FeatureStates,
    LayoutScope,
    PlanningMode,
)
from proxy.store.sql import schema
from proxy.store.sql.access.audit_log import AuditedChange, record_change
from proxy.store.sql.database import read_transaction, write_transaction
from proxy.store.sql.ledger.control_arms import ArmMeasurement, Savings
from proxy.store.sql.rows import read_records, record_of
from proxy.store.sql.settings import layout_rows as rows
from proxy.store.sql.settings.layout_rows import Proposal, ProposalState
from proxy.store.sql.settings.locks import APPROVAL_DELAY_S, GUARD, LockedSettings

AUTO: Final = "auto"
"""Name of the approver of a proposal that approves itself."""

_APPROVE: Final = "approve layout"
_MAX_FEATURES = 1_000  # of a team, whose callers name features as they like
#: Versions of layouts among which those are looked for that wait for a decision.
_MAX_PROPOSALS: Final = 1_000


class Layouts:
    """The layouts in one database; every method may block.

    Args:
        features: Most features of a team, each on one family, that may have some.
        mode: Of features for which nobody has chosen one.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        features: int = _MAX_FEATURES,
        mode: PlanningMode = PlanningMode.OBSERVE,
    ) -> None:
        self._engine = engine
        self._mode = mode
        self._features = features

    def changes(self) -> int:
        """Number of changes to the settings so far."""
        with read_transaction(self._engine) as connection:
            return rows.count_changes(connection)

    def states(self) -> FeatureStates:
        """All settings now in force."""
        features, layouts = schema.features, schema.layouts
        same = (features.c[name] == layouts.c[name] for name in ("team", "feature", "family"))
        in_use = or_(*(layouts.c.version == features.c[name] for name in ("version", "former")))
        query = select(layouts).join(features, and_(*same, in_use))
        with read_transaction(self._engine) as connection:
            # Counted first: a change that is made meanwhile is noticed by the next look.
            changes = rows.count_changes(connection)
            state_rows = connection.execute(select(features)).mappings().all()
            moves = {
                (rows.place_of(row), row["version"]): row["moves"]
                for row in connection.execute(query).mappings()
            }
        places = {rows.place_of(row): rows.settings_from_row(row) for row in state_rows}
        return FeatureStates(changes, places, moves, self._mode)

    def proposals(self, place: LayoutScope) -> Sequence[Proposal]:
        """Every version of the place's layout, oldest first."""
        layouts = schema.layouts
        query = select(layouts).where(rows.row_of(layouts, place)).order_by(layouts.c.version)
        return read_records(self._engine, query, Proposal)

    def newest_proposals(self, most: int) -> Mapping[LayoutScope, Sequence[Proposal]]:
        """So many versions of all places' layouts, those that were made last, newest first."""
        query = select(schema.layouts).order_by(schema.layouts.c.made.desc()).limit(most)
        proposals: defaultdict[LayoutScope, list[Proposal]] = defaultdict(list)
        with read_transaction(self._engine) as connection:
            for row in connection.execute(query).mappings():
                proposals[rows.place_of(row)].append(record_of(row, Proposal))
        return proposals

    def propose(self, place: LayoutScope, digest: str, moves: str, now: float) -> Proposal | None:
        """The proposal as it stands now; None where the team has too many features for one more.

        A layout that was proposed before keeps its version; its evidence is renewed while it is
        undecided, and only the newest undecided ones are kept. In ``auto`` mode it is approved at
        once, unless the place is suspended, or a layout was decided on less than a day ago and the
        proposal doesn't save a tenth of the cost; the audit log names ``auto`` as who did it.
        """
        with write_transaction(self._engine) as connection:
            if not self._has_room(connection, place):
                return None
            hold = LockedSettings(connection, place, self._mode)
            version = rows.ensure_proposal(connection, place, digest, moves, now)
            if version.state is not ProposalState.PROPOSED or not hold.is_open(version.moves, now):
                return version
            before = hold.own
            hold.approve(version.version, AUTO, now)
            change = _audit_entry(place, _APPROVE, AUTO, (before, hold.own))
            record_change(connection, change, now)
            return rows.find_proposal(connection, place, version.version)

    def withdraw(self, place: LayoutScope, calls: int, now: float, keep: str = "") -> None:
        """Withdraw undecided layouts that no longer pay; another process may have seen more calls.

        Args:
            calls: Calls by which they were reckoned anew; what more spoke for stays.
            keep: Digest of the layout that pays by now; "" for none.
        """
        undecided = {
            proposal.digest
            for proposal in self.proposals(place)
            if proposal.state is ProposalState.PROPOSED
        }
        if undecided <= {keep}:
            return
        with write_transaction(self._engine) as connection:
            rows.withdraw_proposals(connection, place, calls, keep, now)

    def approve(self, place: LayoutScope, version: int, by: str, now: float) -> FeatureState:
        """Approves the version and returns what holds; a place that only observed now applies.

        Raises:
            ValueError: There is no such version.
        """
        with self._locked_for_decision(place, _APPROVE, by, now) as hold:
            return hold.approve(version, by, now)

    def rollback(self, place: LayoutScope, by: str, now: float) -> FeatureState:
        """Rolls the layout back to the one approved before it, or none; returns what holds.

        The mode that approving it replaced comes back, unless somebody chose another since.

        Raises:
            ValueError: There is no layout to roll back.
        """
        with self._locked_for_decision(place, "roll back layout", by, now) as hold:
            return hold.rollback(by, now)

    def step_back(self, place: LayoutScope, version: int, now: float) -> int | None:
        """Rolls a harmful layout back for the guard; returns the version that holds again.

        None where it holds no more. Nothing else approves itself at the place for a day.
        """
        with self._locked_for_decision(place, "roll back layout", GUARD, now) as hold:
            if hold.own.version != version:
                return None
            return hold.rollback(GUARD, now).version

    def switch(self, place: LayoutScope, mode: PlanningMode, by: str, now: float) -> FeatureState:
        """Sets the place's mode, of all families for one that has none; returns what holds.

        All are locked before any is written: whoever else decides about one waits for no other.
        """
        with write_transaction(self._engine) as connection:
            hold = LockedSettings(connection, place, self._mode)
            before = hold.own
            parts = [
                LockedSettings(connection, family_place, self._mode)
                for family_place in _families_with_own_mode(connection, place)
            ]
            for part in parts:
                part.decide(by, now, mode="")
            state = hold.choose_mode(mode, by, now)
            change = _audit_entry(place, "set layout mode", by, (before, hold.own))
            record_change(connection, change, now)
            return state

    def suspend(self, place: LayoutScope, reason: str, now: float) -> bool:
        """Send the place's prompts unmodified until a person resumes; False if it is so already.

        The reason and the moment of the first suspension stay.
        """
        with write_transaction(self._engine) as connection:
            hold = LockedSettings(connection, place, self._mode)
            if hold.own.suspended:
                return False
            hold.suspend(reason, now)
            return True

    def resume(self, place: LayoutScope, by: str, now: float) -> bool:
        """Plan a suspended place again, and measure it afresh; False if it was not suspended."""
        with self._locked_for_decision(place, "resume layouts", by, now) as hold:
            if not hold.own.suspended:
                return False
            hold.decide(by, now, suspended="", suspended_at=0)
            return True

    @contextmanager
    def _locked_for_decision(
        self, place: LayoutScope, action: str, by: str, now: float
    ) -> Iterator[LockedSettings]:
        """The place, locked; a person's decision about it is written down in the audit log."""
        with write_transaction(self._engine) as connection:
            hold = LockedSettings(connection, place, self._mode)
            before = hold.own
            yield hold
            if hold.own != before:
                change = _audit_entry(place, action, by, (before, hold.own))
                record_change(connection, change, now)

    def _has_room(self, connection: Connection, place: LayoutScope) -> bool:
        """True if the place is known, or its team has few enough for one more."""
        features = schema.features
        is_listed = select(func.count()).where(rows.row_of(features, place))
        listed = select(func.count()).where(features.c.team == place.team)
        return bool(
            connection.execute(is_listed).scalar_one()
            or connection.execute(listed).scalar_one() < self._features
        )


def _audit_entry(
    place: LayoutScope, action: str, by: str, states: tuple[FeatureState, FeatureState]
) -> AuditedChange:
    """A decision about a place, with its states before and after."""
    before, after = map(_facts, states)
    family = f" on {place.family}" if place.family else ""
    return AuditedChange(
        who=by,
        action=action,
        subject=f"{place.feature or '(none)'}{family}",
        team=place.team,
        before=before,
        after=after,
    )


def _facts(state: FeatureState) -> dict[str, object]:
    """The values of a state that its audit entry shows."""
    return {
        "mode": None if state.mode is None else state.mode.value,
        "layout": state.version,
        "suspended": state.suspended,
    }


def _families_with_own_mode(connection: Connection, place: LayoutScope) -> list[LayoutScope]:
    """The families with a mode of their own, in order, where the place is all of them."""
    if place.family != EVERY_FAMILY:
        return []
    features = schema.features
    query = select(features).where(
        features.c.team == place.team,
        features.c.feature == place.feature,
        features.c.family != EVERY_FAMILY,
        features.c.mode != "",
    )
    return sorted(map(rows.place_of, connection.execute(query).mappings()))


class UndecidedLayout(msgspec.Struct, frozen=True, kw_only=True):
    """The newest layout of a place, which would hold once approved and saves beside what holds.

    Attributes:
        moves: Number of texts that it moves.
        nanos: Expected savings for 1,000 calls, in nano-dollars.
        calls: Calls that the expectation rests on.
        is_early: True if it saves at least so much, for its conversations have hardly ended yet.
    """

    place: LayoutScope
    version: int
    moves: int
    nanos: int
    calls: int
    is_early: bool
    mode: PlanningMode | None


def waiting_proposals(proposals: Sequence[Proposal]) -> list[Proposal]:
    """The undecided ones whose savings are beside the layout that was approved last."""
    decided = (
        proposal.decided_at for proposal in proposals if proposal.state is ProposalState.APPROVED
    )
    since = max(decided, default=-APPROVAL_DELAY_S) + APPROVAL_DELAY_S
    return [
        proposal
        for proposal in proposals
        if proposal.state is ProposalState.PROPOSED and proposal.made >= since
    ]


def undecided_layouts(layouts: Layouts) -> list[UndecidedLayout]:
    """The layouts proposed last that wait for a decision, by their place; blocks.

    None is of a feature where planning is off or suspended: approving changes nothing there.
    """
    states = layouts.states()
    undecided = []
    for place, proposals in layouts.newest_proposals(_MAX_PROPOSALS).items():
        state, waiting = states.of(place), waiting_proposals(proposals)
        newest = max(waiting, key=lambda proposal: proposal.made, default=None)
        if newest is not None and not state.is_off:
            layout = read_layout(newest.moves) or Layout()
            undecided.append(
                UndecidedLayout(
                    place=place,
                    version=newest.version,
                    moves=len(layout.moves),
                    nanos=layout.saved_nanos,
                    calls=layout.calls,
                    is_early=layout.is_early,
                    mode=state.mode,
                )
            )
    return sorted(undecided, key=lambda layout: layout.place)


class Suspension(msgspec.Struct, frozen=True):
    """A feature that was suspended, and why."""

    place: LayoutScope
    reason: str


def suspend_harmful(
    savings: Savings, layouts: Layouts, measured: ArmMeasurement, now: float
) -> list[Suspension]:
    """The features that are suspended now because planning makes them worse; blocks.

    Each is measured since it was last decided about, for a decision may have mended it.

    Args:
        measured: The arms compared; it counts for features nobody decided about meanwhile.
    """
    states = layouts.states()
    suspended = []
    for comparison in measured.comparisons:
        place = LayoutScope(comparison.team, comparison.feature)
        begun = _measured_from(states, place)
        if states.of(place).is_off or begun > now:
            continue
        since_decision = (
            savings.compare(begun, team=place.team, feature=place.feature)
            if begun > measured.since
            else [comparison]
        )
        for judged in since_decision:
            why = judged.verdict.why
            if judged.verdict.finding is ComparisonFinding.WORSE and layouts.suspend(
                place, why, now
            ):
                suspended.append(Suspension(place, why))
    return suspended


def _measured_from(states: FeatureStates, place: LayoutScope) -> float:
    """Time of the last decision about the feature, on whatever family."""
    return max(
        (
            held.measured_from
            for scope, held in states.places.items()
            if scope.all_families == place
        ),
        default=0.0,
    )
