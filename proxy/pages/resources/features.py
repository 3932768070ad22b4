"""``/api/v1/features``: planning and compaction of each feature, and decisions on them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, get_args

import msgspec
from fastapi import APIRouter
from pydantic import BaseModel, Field

from compaction.policy import CompactionMode
from dashboards.access import Action, Viewer
from proxy.errors import CallerError
from proxy.pages.resources.queries import OptionalCount, store_answer
from proxy.pages.store_questions import StoreQuestions
from proxy.pages.viewing import SignedIn, check_allowed
from proxy.prefix.layouts.layout import Layout, layout_lines
from proxy.records.compaction_settings import FeatureSettings, SettingsSnapshot
from proxy.records.feature_mode import FeatureStates, LayoutScope, PlanningMode
from proxy.store.sql.layout_rows import Proposal, ProposalState
from proxy.store.store import Store

#: Features of all teams that are shown, in order of team and feature.
_MAX_FEATURES: Final = 500
#: Versions of layouts that are shown of all features, the newest.
_MAX_VERSIONS: Final = 1_000

Resumable = Literal["planning", "compaction"]
"""A part of a feature that the gateway stops by itself, and a person resumes."""
RESUMABLE: Final[tuple[Resumable, ...]] = get_args(Resumable)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutVersion:
    """A version of a feature's layout on one family of models.

    Attributes:
        version: Its number.
        state: ``proposed``, ``approved`` or ``rolled back``.
        made: Time of the proposal, in seconds since the epoch.
        decided_by: Who decided last; "" for nobody.
        decided_at: Time of that; null for none.
        moves: Each move of text, in a line.
        saving_nanos: Expected savings in nano-dollars per 1,000 calls; null where unknown.
    """

    version: int
    state: str
    made: float
    decided_by: str
    decided_at: float | None
    moves: Sequence[str]
    saving_nanos: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLayout:
    """Planning of a feature on one family of models, or on all.

    Attributes:
        family: The family; "" for all.
        mode: ``off``, ``observe``, ``apply`` or ``auto``.
        version: The layout in force; 0 for none.
        suspended: Reason for its suspension; "" for none.
        changed_by: Person or part of the gateway that decided last; "" for nobody.
        versions: All versions of its layout, the newest first.
    """

    family: str
    mode: str
    version: int
    suspended: str
    changed_by: str
    versions: Sequence[LayoutVersion]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureView:
    """A feature's settings.

    Attributes:
        team: The team's id.
        team_name: The team's name.
        feature: The feature; "" for calls that name none.
        layouts: Planning on all families, then on those with a layout or a mode of their own.
        compaction: Mode of compaction in force.
        compaction_chosen: Mode that a person chose; null for nobody.
        compaction_why: Reason for a step back; "" for none.
        keep_turns: The last turns that compaction leaves unmodified; null for the usual.
        target_tokens: Tokens that it brings a prompt down to; null for as far as facts go.
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


class ModeRequest(BaseModel):
    """The mode of planning of a feature."""

    mode: PlanningMode
    family: Annotated[str, Field(max_length=200)] = ""


class LayoutDecision(BaseModel):
    """A version of a layout to approve; null rolls the approved one back."""

    version: Annotated[int, Field(ge=1)] | None
    family: Annotated[str, Field(max_length=200)] = ""


class CompactionModeRequest(BaseModel):
    """The mode of compaction of a feature; what is left out stays, null is the usual."""

    mode: CompactionMode
    keep_turns: OptionalCount = Field(default=None, description="Last turns that stay unmodified.")
    target_tokens: OptionalCount = Field(
        default=None, description="Tokens to bring a prompt down to."
    )


class FeaturesResource:
    """Settings of features as viewers see and change them.

    Args:
        store: Holds them.
        ask: Asks the store.
        compaction: Mode of features for which nobody chose one.
        now: Seconds since the epoch.
    """

    def __init__(
        self,
        store: Store,
        ask: StoreQuestions,
        compaction: CompactionMode,
        now: Callable[[], float],
    ) -> None:
        self._store = store
        self._ask = ask
        self._compaction = compaction
        self._now = now

    async def list(self, viewer: Viewer) -> Sequence[FeatureView]:
        """Features of the viewer's teams that have a mode or a layout.

        Raises:
            CallerError: They may see none.
            Unready: The database did not answer in time.
        """
        check_allowed(viewer, Action.SEE_COSTS)
        return store_answer(await self._ask("features", lambda: self._read(viewer.teams)))

    async def get(self, viewer: Viewer, team: str, feature: str) -> FeatureView:
        """One feature; one that nobody changed yet has the defaults.

        Raises:
            CallerError: They may not see it, or there is no such team.
            Unready: The database did not answer in time.
        """
        check_allowed(viewer, Action.SEE_COSTS, team)
        place = (team, feature)
        found = store_answer(
            await self._ask("feature", lambda: self._read(frozenset({team}), named=place))
        )
        for each in found:
            if each.feature == feature:
                return each
        raise _unknown_team()

    async def set_mode(self, viewer: Viewer, team: str, feature: str, asked: ModeRequest) -> None:
        """Sets what planning may do; it holds for conversations that begin from now on.

        Raises:
            CallerError: They may not.
        """
        place, store = await self._place(viewer, team, feature, asked.family), self._store
        await store.ask(lambda: store.layouts.switch(place, asked.mode, viewer.name, self._now()))

    async def decide(self, viewer: Viewer, team: str, feature: str, asked: LayoutDecision) -> None:
        """Approves a version of a layout, or rolls the approved one back.

        Raises:
            CallerError: They may not, or there is no such version.
        """
        place, layouts = await self._place(viewer, team, feature, asked.family), self._store.layouts
        version, by, now = asked.version, viewer.name, self._now()
        try:
            await self._store.ask(
                lambda: (
                    layouts.rollback(place, by, now)
                    if version is None
                    else layouts.approve(place, version, by, now)
                )
            )
        except ValueError as error:
            raise CallerError(str(error), code="unknown_layout", status=404) from None

    async def resume(
        self, viewer: Viewer, place: LayoutScope, parts: Collection[Resumable] = RESUMABLE
    ) -> None:
        """Plans a suspended feature again, and compacts one that was stepped back as chosen.

        Args:
            viewer: The person who asks.
            place: The feature, and the family on which it was suspended.
            parts: Parts that are to go on, where they were stopped.

        Raises:
            CallerError: They may not, or none of these was stopped.
        """
        await self._place(viewer, place.team, place.feature)
        store, by, now = self._store, viewer.name, self._now()
        whole, was_stopped = (place.team, place.feature), False
        if "planning" in parts:
            was_stopped |= await store.ask(lambda: store.layouts.resume(place, by, now))
        if "compaction" in parts:
            was_stopped |= await store.ask(lambda: store.compactions.resume(whole, by, now))
        if not was_stopped:
            raise CallerError(
                f"Nothing of it was stopped: {' and '.join(parts)} went on all the time.",
                code="not_suspended",
                status=404,
            )

    async def set_compaction(
        self, viewer: Viewer, team: str, feature: str, asked: CompactionModeRequest
    ) -> None:
        """Sets the mode of compaction, and how far it goes.

        Raises:
            CallerError: They may not.
        """
        await self._place(viewer, team, feature)
        store, given = self._store, asked.model_fields_set
        before = (await store.ask(store.compactions.all_settings)).of(team, feature)
        await store.ask(
            lambda: store.compactions.choose(
                (team, feature),
                asked.mode,
                viewer.name,
                self._now(),
                keep_turns=asked.keep_turns if "keep_turns" in given else before.keep_turns,
                target=asked.target_tokens if "target_tokens" in given else before.target,
            )
        )

    def router(self) -> APIRouter:
        """Routes of the API; the feature of calls that name none is ``-``."""
        routes = APIRouter(tags=["features"])
        path = "/features/{team}/{feature}"

        @routes.get("/features")
        async def list_features(viewer: SignedIn) -> Sequence[FeatureView]:
            """Features with a mode or a layout."""
            return await self.list(viewer)

        @routes.get(path)
        async def get_feature(viewer: SignedIn, team: str, feature: str) -> FeatureView:
            """One feature."""
            return await self.get(viewer, team, feature_from_path(feature))

        @routes.put(f"{path}/mode", status_code=204)
        async def set_mode(viewer: SignedIn, team: str, feature: str, asked: ModeRequest) -> None:
            """Sets what planning may do."""
            await self.set_mode(viewer, team, feature_from_path(feature), asked)

        @routes.put(f"{path}/layout", status_code=204)
        async def decide(viewer: SignedIn, team: str, feature: str, asked: LayoutDecision) -> None:
            """Approves a version of a layout; version null rolls back."""
            await self.decide(viewer, team, feature_from_path(feature), asked)

        @routes.post(f"{path}/resume", status_code=204)
        async def resume(viewer: SignedIn, team: str, feature: str) -> None:
            """Ends a suspension, or a step back of compaction."""
            await self.resume(viewer, LayoutScope(team, feature_from_path(feature)))

        @routes.put(f"{path}/compaction", status_code=204)
        async def set_compaction(
            viewer: SignedIn, team: str, feature: str, asked: CompactionModeRequest
        ) -> None:
            """Sets the mode of compaction, and how far it goes."""
            await self.set_compaction(viewer, team, feature_from_path(feature), asked)

        return routes

    async def _place(
        self, viewer: Viewer, team: str, feature: str, family: str = ""
    ) -> LayoutScope:
        """The scope of a change, whose team there is."""
        check_allowed(viewer, Action.CHANGE_TEAM_SETTINGS, team)
        teams = await self._store.ask(self._store.teams.all)
        if all(each.id != team for each in teams):
            raise _unknown_team()
        return LayoutScope(team, feature, family)

    def _read(
        self, teams: frozenset[str] | None, named: tuple[str, str] | None = None
    ) -> Sequence[FeatureView]:
        """Features of these teams, of all for None; or the named one alone, if its team exists."""
        store = self._store
        standings, chosen = store.layouts.standings(), store.compactions.all_settings()
        names = {each.id: each.name for each in store.teams.all()}
        proposals = store.layouts.newest_proposals(_MAX_VERSIONS)
        places = {(each.team, each.feature) for each in standings.places}
        places |= chosen.features.keys()
        if named is not None:
            places = {named} if named[0] in names or named in places else set()
        seen = sorted(each for each in places if teams is None or each[0] in teams)
        return [
            self._view(place, names, standings, chosen, proposals) for place in seen[:_MAX_FEATURES]
        ]

    def _view(
        self,
        place: tuple[str, str],
        names: Mapping[str, str],
        standings: FeatureStates,
        chosen: SettingsSnapshot,
        proposals: Mapping[LayoutScope, Sequence[Proposal]],
    ) -> FeatureView:
        team, feature = place
        setting: FeatureSettings = chosen.of(team, feature)
        whole = LayoutScope(team, feature)
        families = sorted(each for each in standings.places if each.all_families == whole)
        return FeatureView(
            team=team,
            team_name=names.get(team, team),
            feature=feature,
            layouts=[
                _layout(each, standings, proposals.get(each, ()))
                for each in dict.fromkeys((whole, *families))
            ],
            compaction=setting.effective_mode(self._compaction),
            compaction_chosen=setting.mode,
            compaction_why=setting.why,
            keep_turns=setting.keep_turns,
            target_tokens=setting.target,
        )


def feature_from_path(given: str) -> str:
    """The feature that a path names; ``-`` is that of calls that name none."""
    return "" if given == "-" else given


def _unknown_team() -> CallerError:
    return CallerError("There is no team of this id.", code="unknown_team", status=404)


def _layout(
    place: LayoutScope, standings: FeatureStates, versions: Sequence[Proposal]
) -> FeatureLayout:
    held = standings.of(place)
    return FeatureLayout(
        family=place.family,
        mode=str(held.mode),
        version=held.version,
        suspended=held.suspended,
        changed_by=held.changed_by,
        versions=[_version(each) for each in versions],
    )


def _version(proposal: Proposal) -> LayoutVersion:
    try:
        layout = msgspec.json.decode(proposal.moves, type=Layout)
    except msgspec.DecodeError:
        lines, saving = [proposal.moves], None
    else:
        lines, saving = layout_lines(layout)[1:], sum(move.saving for move in layout.moves)
    return LayoutVersion(
        version=proposal.version,
        state=proposal.state,
        made=proposal.made,
        decided_by=proposal.decided_by,
        decided_at=None if proposal.state is ProposalState.PROPOSED else proposal.decided_at,
        moves=lines,
        saving_nanos=saving,
    )
