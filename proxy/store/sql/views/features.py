"""Planning and compaction of features, as they are set, and the layouts proposed for them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from compaction.policy import CompactionMode
from dashboards.reports import SpendFilter
from proxy.prefix.layouts.layout import Layout, layout_lines
from proxy.records.feature_mode import FeatureStates, LayoutScope
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ledger.compaction_receipts import CompactionReceipts
from proxy.store.sql.rollups.bucket_sums import SumQuery, bucket_sums
from proxy.store.sql.settings.layout_rows import Proposal, ProposalState
from proxy.store.sql.settings.layouts import waiting_proposals
from proxy.store.sql.views.readers import Readers

#: Modes that stake nothing.
_STAKELESS: Final = frozenset({CompactionMode.OFF, CompactionMode.NATIVE})
_DAY_S: Final = 86_400
_HOUR_S: Final = 3_600
_MONTH_S: Final = 30 * _DAY_S
#: Features of all teams that are shown, in order of team and feature.
_MAX_FEATURES: Final = 500
#: Versions of layouts that are shown of all features, the newest.
_MAX_VERSIONS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutVersion:
    """A version of a feature's layout on one family of models.

    Attributes:
        state: ``proposed``, ``approved``, ``rolled back`` or ``withdrawn``.
        made: Time of the proposal, in seconds since the epoch.
        decided_by: Who decided last; "" for nobody.
        saving_nanos: Expected savings in nano-dollars per 1,000 calls; null where unknown, as for
            what was proposed before another layout was approved.
        seen_calls: Calls that the expectation rests on.
        is_early: True if it saves at least so much, for its conversations have hardly ended yet.
    """

    version: int
    state: str
    made: float
    decided_by: str
    decided_at: float | None
    moves: Sequence[str]
    saving_nanos: int | None
    seen_calls: int
    is_early: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLayout:
    """Planning of a feature on one family of models, or on all.

    Attributes:
        mode: ``off``, ``observe``, ``apply`` or ``auto``.
        version: The layout in force; 0 for none.
        suspended: Reason for its suspension; "" for none.
        versions: All versions of its layout, the newest first.
    """

    family: str
    mode: str
    version: int
    suspended: str
    changed_by: str
    versions: Sequence[LayoutVersion]


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthSavings:
    """Savings of a feature by estimate, in nano-dollars; what it cost more is taken off.

    Attributes:
        calls: The calls that they are of.
        planning: Savings by planning.
        compaction: Savings by compaction, resets paid for.
    """

    calls: int
    planning: int
    compaction: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureView:
    """A feature's settings.

    Attributes:
        feature: The feature; "" for calls that name none.
        layouts: Planning on all families, then on those with a layout or a mode of their own.
        compaction: Mode of compaction in force.
        compaction_chosen: Mode that a person chose; null for nobody.
        compaction_why: Reason for a step back; "" for none.
        keep_turns: The last turns that compaction leaves unmodified; null for the usual.
        target_tokens: Tokens that it brings a prompt down to; null for as far as facts go.
        compaction_lost_nanos: Nano-dollars that compaction lost in the last day, where that is as
            much as it may, so that new conversations keep to the strict margin; null elsewhere.
        month: Sums of its calls of the last 30 days; null in the list of features.
    """

    team: str
    team_name: str
    feature: str
    layouts: Sequence[FeatureLayout]
    compaction: str
    compaction_chosen: str | None
    compaction_why: str
    keep_turns: int | None
    target_tokens: int | None
    compaction_lost_nanos: int | None
    month: MonthSavings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturesQuestion:
    """A question for features.

    Attributes:
        compaction: Mode of features without a chosen mode.
        named: Team and name of the one that is asked for, whether it has settings or not.
        stake: Nano-dollars that compaction may lose a feature in a day; 0 where it may none.
        now: Time, in seconds since the epoch.
    """

    teams: frozenset[str] | None
    compaction: CompactionMode
    named: tuple[str, str] | None = None
    stake: int = 0
    now: float = 0.0


def features_view(readers: Readers, question: FeaturesQuestion) -> Sequence[FeatureView]:
    """Features that have a mode or a layout; or the named one alone, if its team exists; blocks."""
    states, chosen = readers.layouts.states(), readers.compactions.all_settings()
    names = readers.team_names()
    proposals = readers.layouts.newest_proposals(_MAX_VERSIONS)
    scopes: defaultdict[tuple[str, str], list[LayoutScope]] = defaultdict(list)
    for scope in states.places:
        scopes[scope.team, scope.feature].append(scope)
    places = scopes.keys() | chosen.features.keys()
    if question.named is not None:
        places = (
            {question.named} if question.named[0] in names or question.named in places else set()
        )
    seen = sorted(place for place in places if question.teams is None or place[0] in question.teams)
    balances = _balances(readers, question)
    views = []
    for team, feature in seen[:_MAX_FEATURES]:
        setting = chosen.of(team, feature)
        every = (LayoutScope(team, feature), *sorted(scopes.get((team, feature), ())))
        layouts = [
            _layout(place, states, proposals.get(place, ())) for place in dict.fromkeys(every)
        ]
        views.append(
            FeatureView(
                team=team,
                team_name=names.get(team, team),
                feature=feature,
                layouts=layouts,
                compaction=setting.effective_mode(question.compaction),
                compaction_chosen=setting.mode,
                compaction_why=setting.why,
                keep_turns=setting.keep_turns,
                target_tokens=setting.target,
                compaction_lost_nanos=_lost_stake(
                    setting.effective_mode(question.compaction),
                    balances.get((team, feature), 0),
                    question.stake,
                ),
                month=_month_savings(readers, question),
            )
        )
    return views


def _balances(readers: Readers, question: FeaturesQuestion) -> Mapping[tuple[str, str], int]:
    """Nano-dollars that compaction saved each feature in the last day; none without a stake."""
    if not question.stake:
        return {}
    receipts = CompactionReceipts(readers.engine)
    return receipts.savings_by_feature(question.now - _DAY_S, question.now)


def _month_savings(readers: Readers, question: FeaturesQuestion) -> MonthSavings | None:
    """The savings of the last 30 days of the feature that is named; None where none is."""
    if question.named is None:
        return None
    team, feature = (frozenset({name}) for name in question.named)
    query = SumQuery(
        place=lambda rows: [],
        addends=lambda rows: {
            "calls": rows.calls,
            "planning": rows.planning_nanos,
            "compaction": rows.compaction_nanos,
        },
        only=SpendFilter(values={"team": team, "feature": feature}),
    )
    end = int(question.now // _HOUR_S + 1) * _HOUR_S
    with read_transaction(readers.engine) as connection:
        sums = bucket_sums(connection, [end - _MONTH_S, end], query)
    totals = next(iter(sums.values()), {})
    return MonthSavings(
        **{name: totals.get(name, 0) for name in ("calls", "planning", "compaction")}
    )


def _lost_stake(mode: CompactionMode, balance: int, stake: int) -> int | None:
    """Nano-dollars lost where compaction waits for it; None where it goes on."""
    is_lost = mode not in _STAKELESS and 0 < stake <= -balance
    return -balance if is_lost else None


def _layout(
    place: LayoutScope, states: FeatureStates, versions: Sequence[Proposal]
) -> FeatureLayout:
    held, waiting = states.of(place), waiting_proposals(versions)
    return FeatureLayout(
        family=place.family,
        mode=str(held.mode),
        version=held.version,
        suspended=held.suspended,
        changed_by=held.changed_by,
        versions=[_version(version, is_waiting=version in waiting) for version in versions],
    )


def _version(proposal: Proposal, *, is_waiting: bool) -> LayoutVersion:
    try:
        layout = msgspec.json.decode(proposal.moves, type=Layout)
    except msgspec.DecodeError:
        layout, lines, saving = Layout(), [proposal.moves], None
    else:
        lines, saving = layout_lines(layout)[1:], layout.saved_nanos
    return LayoutVersion(
        version=proposal.version,
        state=proposal.state,
        made=proposal.made,
        decided_by=proposal.decided_by,
        decided_at=None if proposal.state is ProposalState.PROPOSED else proposal.decided_at,
        moves=lines,
        saving_nanos=saving if is_waiting or proposal.state is not ProposalState.PROPOSED else None,
        seen_calls=layout.calls,
        is_early=layout.is_early,
    )
