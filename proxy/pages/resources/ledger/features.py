"""``/api/v1/features``: planning and compaction of each feature, and decisions on them."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeVar, get_args

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from compaction.policy import CompactionMode
from dashboards.access import Action, Viewer
from proxy.errors import CallerError
from proxy.pages.resources.ledger.queries import OptionalCount, json_response
from proxy.pages.store_questions import StoreQuestions
from proxy.pages.view_formats import json_bytes, view_itself
from proxy.pages.viewing import SignedIn, check_allowed
from proxy.records.feature_mode import LayoutScope, PlanningMode
from proxy.store.sql.views.features import FeaturesQuestion, FeatureView, features_view
from proxy.store.store import Store

T = TypeVar("T")

Resumable = Literal["planning", "compaction"]
"""A part of a feature that the gateway stops by itself, and a person resumes."""
RESUMABLE: Final[tuple[Resumable, ...]] = get_args(Resumable)


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


@dataclass(eq=False)
class FeaturesResource:
    """Settings of features as viewers see and change them.

    Args:
        store: Holds them.
        ask: Asks the store.
        compaction: Mode of features without a chosen mode.
        now: Seconds since the epoch.
    """

    _store: Store
    _ask: StoreQuestions
    _compaction: CompactionMode
    _now: Callable[[], float]

    def question(self, viewer: Viewer) -> FeaturesQuestion:
        """The question for the features of a viewer's teams.

        Raises:
            CallerError: They may see none.
        """
        check_allowed(viewer, Action.SEE_COSTS)
        return FeaturesQuestion(teams=viewer.teams, compaction=self._compaction)

    async def list(self, viewer: Viewer, finish: Callable[[Sequence[FeatureView]], T]) -> T:
        """Features of the viewer's teams that have a mode or a layout, in the form asked for.

        Raises:
            CallerError: They may see none.
            Unready: The database did not answer in time.
        """
        return await self._ask.view("features", features_view, self.question(viewer), finish)

    async def get(self, viewer: Viewer, team: str, feature: str) -> FeatureView:
        """One feature; one that nobody changed yet has the defaults.

        Raises:
            CallerError: They may not see it, or there is no such team.
            Unready: The database did not answer in time.
        """
        check_allowed(viewer, Action.SEE_COSTS, team)
        question = FeaturesQuestion(
            teams=frozenset({team}), compaction=self._compaction, named=(team, feature)
        )
        for view in await self._ask.view("feature", features_view, question, view_itself):
            if view.feature == feature:
                return view
        raise _unknown_team()

    async def set_mode(self, viewer: Viewer, team: str, feature: str, request: ModeRequest) -> None:
        """Sets what planning may do; it holds for conversations that begin from now on.

        Raises:
            CallerError: They may not.
        """
        place, store = await self._place(viewer, team, feature, request.family), self._store
        await store.ask(lambda: store.layouts.switch(place, request.mode, viewer.name, self._now()))

    async def decide(
        self, viewer: Viewer, team: str, feature: str, request: LayoutDecision
    ) -> None:
        """Approves a version of a layout, or rolls the approved one back.

        Raises:
            CallerError: They may not, or there is no such version.
        """
        place, layouts = (
            await self._place(viewer, team, feature, request.family),
            self._store.layouts,
        )
        version, by, now = request.version, viewer.name, self._now()
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
        self, viewer: Viewer, team: str, feature: str, request: CompactionModeRequest
    ) -> None:
        """Sets the mode of compaction, and how far it goes.

        Raises:
            CallerError: They may not.
        """
        await self._place(viewer, team, feature)
        store, given = self._store, request.model_fields_set
        before = (await store.ask(store.compactions.all_settings)).of(team, feature)
        await store.ask(
            lambda: store.compactions.choose(
                (team, feature),
                request.mode,
                viewer.name,
                self._now(),
                keep_turns=request.keep_turns if "keep_turns" in given else before.keep_turns,
                target=request.target_tokens if "target_tokens" in given else before.target,
            )
        )

    def router(self) -> APIRouter:
        """Routes of the API; the feature of calls that name none is ``-``."""
        routes = APIRouter(tags=["features"])
        path = "/features/{team}/{feature}"

        @routes.get("/features", response_model=Sequence[FeatureView])
        async def list_features(viewer: SignedIn) -> Response:
            """Features with a mode or a layout."""
            return json_response(await self.list(viewer, json_bytes))

        @routes.get(path)
        async def get_feature(viewer: SignedIn, team: str, feature: str) -> FeatureView:
            """One feature."""
            return await self.get(viewer, team, feature_from_path(feature))

        @routes.put(f"{path}/mode", status_code=204)
        async def set_mode(viewer: SignedIn, team: str, feature: str, request: ModeRequest) -> None:
            """Sets what planning may do."""
            await self.set_mode(viewer, team, feature_from_path(feature), request)

        @routes.put(f"{path}/layout", status_code=204)
        async def decide(
            viewer: SignedIn, team: str, feature: str, request: LayoutDecision
        ) -> None:
            """Approves a version of a layout; version null rolls back."""
            await self.decide(viewer, team, feature_from_path(feature), request)

        @routes.post(f"{path}/resume", status_code=204)
        async def resume(viewer: SignedIn, team: str, feature: str) -> None:
            """Ends a suspension, or a step back of compaction."""
            await self.resume(viewer, LayoutScope(team, feature_from_path(feature)))

        @routes.put(f"{path}/compaction", status_code=204)
        async def set_compaction(
            viewer: SignedIn, team: str, feature: str, request: CompactionModeRequest
        ) -> None:
            """Sets the mode of compaction, and how far it goes."""
            await self.set_compaction(viewer, team, feature_from_path(feature), request)

        return routes

    async def _place(
        self, viewer: Viewer, team: str, feature: str, family: str = ""
    ) -> LayoutScope:
        """The scope of a change, whose team there is."""
        check_allowed(viewer, Action.CHANGE_TEAM_SETTINGS, team)
        teams = await self._store.ask(self._store.teams.all)
        if all(known_team.id != team for known_team in teams):
            raise _unknown_team()
        return LayoutScope(team, feature, family)


def feature_from_path(given: str) -> str:
    """The feature that a path names; ``-`` is that of calls that name none."""
    return "" if given == "-" else given


def _unknown_team() -> CallerError:
    return CallerError("There is no team of this id.", code="unknown_team", status=404)
