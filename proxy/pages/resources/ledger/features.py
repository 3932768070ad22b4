"""``/api/v1/features``: planning and compaction of each feature, and decisions on them."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field
from starlette.responses import Response

from compaction.policy import CompactionMode
from dashboards.access import Action, Viewer
from proxy.errors import CallerError
from proxy.pages.resources.api import Resource
from proxy.pages.resources.ledger.queries import json_response
from proxy.pages.store_questions import StoreQuestions, json_bytes, view_itself
from proxy.pages.viewing import Clock, SignedIn, check_allowed, route
from proxy.records.feature_mode import LayoutScope, PlanningMode
from proxy.store.sql.views.features import FeaturesQuestion, FeatureView, features_view
from proxy.store.store import Store

T = TypeVar("T")

Resumable = Literal["planning", "compaction"]
"""A part of a feature that the gateway stops by itself, and a person resumes."""
RESUMABLE: Final[tuple[Resumable, ...]] = get_args(Resumable)
_PATH: Final = "/features/{team}/{feature}"

FeatureName = Annotated[str, AfterValidator(lambda name: "" if name == "-" else name)]
"""A feature in a path; ``-`` stands for the calls that name no feature."""

OptionalCount = Annotated[
    Annotated[int, Field(ge=1, le=1_000_000_000)] | None,
    BeforeValidator(lambda value: None if value == "" else value),
]
"""A count that a form may leave empty."""


class ModeRequest(BaseModel):
    """The mode of planning of a feature."""

    mode: PlanningMode
    family: Annotated[str, Field(max_length=200)] = ""


class LayoutDecision(BaseModel):
    """A version of a layout to approve; null rolls the approved one back."""

    version: Annotated[int, Field(ge=1)] | None
    family: Annotated[str, Field(max_length=200)] = ""


class CompactionModeRequest(BaseModel):
    """A feature's compaction mode; omitted fields stay unchanged, null resets to the default."""

    mode: CompactionMode
    keep_turns: OptionalCount = Field(default=None, description="Last turns that stay unmodified.")
    target_tokens: OptionalCount = Field(
        default=None, description="Tokens to bring a prompt down to."
    )


@dataclass(eq=False)
class FeaturesResource(Resource):
    """The settings of features, which viewers read and change.

    Args:
        compaction: Compaction mode of features without a mode of their own.
        stake: Nano-dollars that compaction may lose a feature in a day.
    """

    tag = "features"

    _store: Store
    _ask: StoreQuestions
    _compaction: CompactionMode
    _now: Clock
    _stake: int = 0

    @route("GET", "/features", name="list_features", response_model=Sequence[FeatureView])
    async def json(self, viewer: SignedIn) -> Response:
        """Lists features that have a mode or a layout."""
        return json_response(await self.list(viewer, json_bytes))

    async def list(self, viewer: Viewer, finish: Callable[[Sequence[FeatureView]], T]) -> T:
        """Features of the viewer's teams that have a mode or a layout, in the form asked for."""
        check_allowed(viewer, Action.SEE_COSTS)
        question = self._question(viewer.teams)
        return await self._ask.view("features", features_view, question, finish)

    @route("GET", _PATH, name="get_feature")
    async def get(self, viewer: SignedIn, team: str, feature: FeatureName) -> FeatureView:
        """One feature."""
        check_allowed(viewer, Action.SEE_COSTS, team)
        question = self._question(frozenset({team}), (team, feature))
        for view in await self._ask.view("feature", features_view, question, view_itself):
            if view.feature == feature:
                return view
        raise _unknown_team()

    def _question(
        self, teams: frozenset[str] | None, named: tuple[str, str] | None = None
    ) -> FeaturesQuestion:
        return FeaturesQuestion(
            teams=teams,
            compaction=self._compaction,
            named=named,
            stake=self._stake,
            now=self._now(),
        )

    @route("PUT", f"{_PATH}/mode", status_code=204)
    async def set_mode(
        self, viewer: SignedIn, team: str, feature: FeatureName, request: ModeRequest
    ) -> None:
        """Sets the planning mode of a feature."""
        place, store = await self._place(viewer, team, feature, request.family), self._store
        await store.ask(lambda: store.layouts.switch(place, request.mode, viewer.name, self._now()))

    @route("PUT", f"{_PATH}/layout", status_code=204)
    async def decide(
        self, viewer: SignedIn, team: str, feature: FeatureName, request: LayoutDecision
    ) -> None:
        """Approves a version of a layout; `null` rolls the approved version back."""
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

    @route("POST", f"{_PATH}/resume", name="resume", status_code=204)
    async def resume_all(self, viewer: SignedIn, team: str, feature: FeatureName) -> None:
        """Resumes suspended planning and reduced compaction of a feature."""
        await self.resume(viewer, LayoutScope(team, feature))

    async def resume(
        self, viewer: Viewer, place: LayoutScope, parts: Collection[Resumable] = RESUMABLE
    ) -> None:
        """Resumes planning that was suspended, and compaction in the chosen mode if it was reduced.

        Args:
            place: The feature, and the model family on which its planning was suspended.
            parts: The parts to resume.

        Raises:
            CallerError: None of these parts was stopped.
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
                f"Nothing to resume: the gateway has not stopped {' or '.join(parts)} here.",
                code="not_suspended",
                status=404,
            )

    @route("PUT", f"{_PATH}/compaction", status_code=204)
    async def set_compaction(
        self, viewer: SignedIn, team: str, feature: FeatureName, request: CompactionModeRequest
    ) -> None:
        """Sets a feature's compaction mode, the last turns to keep and the target in tokens."""
        await self._place(viewer, team, feature)
        store, fields = self._store, request.model_fields_set
        before = (await store.ask(store.compactions.all_settings)).of(team, feature)
        await store.ask(
            lambda: store.compactions.choose(
                (team, feature),
                request.mode,
                viewer.name,
                self._now(),
                keep_turns=request.keep_turns if "keep_turns" in fields else before.keep_turns,
                target=request.target_tokens if "target_tokens" in fields else before.target,
            )
        )

    async def _place(
        self, viewer: Viewer, team: str, feature: str, family: str = ""
    ) -> LayoutScope:
        """The scope of a change; its team must exist."""
        check_allowed(viewer, Action.CHANGE_TEAM_SETTINGS, team)
        teams = await self._store.ask(self._store.teams.all)
        if all(known_team.id != team for known_team in teams):
            raise _unknown_team()
        return LayoutScope(team, feature, family)


def _unknown_team() -> CallerError:
    return CallerError("There is no team of this id.", code="unknown_team", status=404)
