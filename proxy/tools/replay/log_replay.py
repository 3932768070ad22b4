"""A whole log, each call replayed as its own model, in the three ways a gateway may send it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from proxy.catalog.entries import Model
from proxy.errors import OperatorError
from proxy.tools.replay.compaction import CompactedVariant, ReplayedCompaction
from proxy.tools.replay.fast_path.graded_answers import GradedAnswers, GradedTotals
from proxy.tools.replay.fast_path.reused_answers import (
    DEFAULT_TTL_S,
    AnswerReuse,
    ReusedAnswers,
)
from proxy.tools.replay.planning import DEFAULT, PlannedVariant
from proxy.tools.replay.prompts import LineVocabulary, PromptReader
from proxy.tools.replay.recorded_call import RecordedCall
from proxy.tools.replay.run import ModelReplay
from proxy.tools.replay.source import ReasonCount, ReasonCounts
from proxy.tools.replay.unmoved_text import FeatureNote
from proxy.tools.replay.variant_totals import (
    CumulativeCosts,
    FeatureTotals,
    include,
    new_totals,
    sum_of,
)

#: Taken where a call names no model.
DEFAULT_MODEL: Final = "gpt-5.6-terra"
#: The unmodified way, and the three that a gateway has.
WAYS: Final = 4
#: The place of the default among them.
DEFAULT_WAY: Final = 2
#: Models of one log; each holds simulated caches of its own.
_MAX_MODELS: Final = 24
#: Endings of Bedrock's names for models.
_BEDROCK_ENDING: Final = "-v1:0"


class ReplayedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model of the log."""

    model: str
    route: str
    regime: str
    calls: int
    has_price: bool


class LogOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a log's replay.

    Attributes:
        features: The calls by feature, the dearest first; those of models with a price, if any.
        prompt_tokens: Tokens of all prompts by the log's own usage, as far as it has one.
        reused: The calls of each feature that kept answers would have served; none for no feature.
        graded: Graded calls as the rule for small models would have sent them, by pair of models.
        reuse_ttl: Seconds for which an answer is given again.
        curve_calls: Calls up to each point of the curves.
        curves: Cumulative cost of each way at these points; empty where a price is unknown.
    """

    features: tuple[FeatureTotals, ...]
    models: tuple[ReplayedModel, ...]
    unnamed: int
    left_out: tuple[ReasonCount, ...]
    unreadable_answers: tuple[ReasonCount, ...]
    unmoved: tuple[FeatureNote, ...]
    waiting: tuple[FeatureNote, ...] = ()
    compaction: ReplayedCompaction
    prompt_tokens: int = 0
    reused: tuple[ReusedAnswers, ...] = ()
    reuse_ttl: float = DEFAULT_TTL_S
    graded: tuple[GradedTotals, ...] = ()
    curve_calls: tuple[int, ...] = ()
    curves: Sequence[tuple[int, ...]] = ()

    @property
    def calls(self) -> int:
        """All calls of the features."""
        return sum(feature.calls for feature in self.features)


class LogReplay:
    """Replays calls of several models; each is replayed by the first route of its model.

    Args:
        day: The day whose prices are valid, in seconds since the epoch.
        model: The model to replay every call as; None for each as its own.
        reuse: Finds the calls that kept answers would have served.
    """

    def __init__(
        self,
        find_model: Callable[[str], Model | None],
        day: float,
        model: Model | None = None,
        reuse: AnswerReuse | None = None,
    ) -> None:
        self._reuse = reuse or AnswerReuse()
        self._graded = GradedAnswers(find_model, day)
        self._find_model = find_model
        self._day = day
        self._model = model
        self._vocabulary = LineVocabulary()
        self._runs: dict[str, ModelReplay] = {}
        self._known: dict[tuple[str, ...], Model] = {}
        self._calls: Counter[str] = Counter()
        self._costs = CumulativeCosts(WAYS)
        self._unnamed = self._prompt_tokens = 0
        self._left_out = ReasonCounts()
        self._unreadable = ReasonCounts()

    def replay(self, calls: Iterable[tuple[float, RecordedCall]]) -> LogOutcome:
        """Replay the calls, in the order of their times."""
        for now, line in calls:
            try:
                run = self._run(line)
                costs = run.call(line, now)
            except OperatorError as why:
                self._left_out.add(str(why), line.where)
                continue
            self._calls[run.prompt_reader.public] += 1
            self._costs.add(costs, is_answered=line.is_answered)
            if line.grades and (model := self._find_model(run.prompt_reader.public)) is not None:
                self._graded.add(line, model, run.uncached_usage, now)
            self._reuse.add(line, (run.prompt_reader.route,), now, costs[DEFAULT_WAY])
            self._unnamed += not line.models
            self._prompt_tokens += line.prompt_tokens or 0
            if line.answer_problem:
                self._unreadable.add(line.answer_problem, line.where)
        return self._outcome()

    def _run(self, line: RecordedCall) -> ModelReplay:
        """The replay of the call's model."""
        model = self._model or self._known.get(line.models)
        if model is None:
            model = self._resolve(line.models)
            if len(self._known) < _MAX_MODELS:
                self._known[line.models] = model
        run = self._runs.get(model.id)
        if run is None:
            if len(self._runs) >= _MAX_MODELS:
                raise OperatorError(f"it is of a model beyond the first {_MAX_MODELS} of the log")
            run = self._runs[model.id] = self._new_run(model)
        return run

    def _resolve(self, names: tuple[str, ...]) -> Model:
        for name in names or (DEFAULT_MODEL,):
            for spelling in _spellings(name):
                model = self._find_model(spelling)
                if model is not None:
                    return model
        raise OperatorError(
            f"the catalog has no model {names[0][:60]}; --model NAME replays all calls as another"
        )

    def _new_run(self, model: Model) -> ModelReplay:
        reading = PromptReader(model, model.routes[0], self._vocabulary)
        day = self._day
        planned = (PlannedVariant(reading, day, arranges=moves) for moves in (False, True))
        return ModelReplay(reading, (*planned, CompactedVariant(reading, day)), day=day)

    def _outcome(self) -> LogOutcome:
        models = tuple(
            _replayed_model(self._runs[name].prompt_reader, calls)
            for name, calls in self._calls.most_common()
        )
        counted = {model.model for model in models if model.has_price} or set(self._runs)
        totals: dict[str, FeatureTotals] = {}
        for name in counted & set(self._calls):
            for feature in self._runs[name].features():
                whole = totals.setdefault(feature.feature, new_totals(feature.feature, WAYS))
                include(whole, feature)
        features = sorted(totals.values(), key=lambda feature: -(feature.ways[0].nanos or 0))
        layouts = [variant for variant in self._variants() if isinstance(variant, PlannedVariant)]
        compaction = ReplayedCompaction()
        for variant in self._variants():
            if isinstance(variant, CompactedVariant):
                compaction.include(variant.totals)
        defaults = (variant for variant in layouts if variant.name == DEFAULT)
        waiting = (feature for variant in defaults for feature in variant.waiting_features())
        unmoved = (feature for variant in layouts for feature in variant.unmoved_features())
        curve_calls, curves = self._costs.curves(sum_of(features))
        return LogOutcome(
            features=tuple(features),
            models=models,
            unnamed=self._unnamed,
            prompt_tokens=self._prompt_tokens,
            left_out=self._left_out.most_frequent(),
            unreadable_answers=self._unreadable.most_frequent(),
            waiting=tuple(sorted(waiting, key=lambda feature: -feature.calls)),
            unmoved=tuple(sorted(unmoved, key=lambda feature: -feature.calls)),
            compaction=compaction,
            reused=self._reuse.features({f.feature: f.mean_answer_nanos() for f in features}),
            reuse_ttl=self._reuse.ttl,
            graded=self._graded.totals(),
            curve_calls=curve_calls,
            curves=curves,
        )

    def _variants(self) -> Iterator[object]:
        return (variant for run in self._runs.values() for variant in run.variants)


def _spellings(name: str) -> Iterator[str]:
    """A model's name, and without the provider that other gateways write in front of it."""
    yield name
    yield name.rpartition("/")[2]
    yield name.rpartition("/")[2].rpartition(".")[2]
    yield name.removesuffix(_BEDROCK_ENDING).rpartition("anthropic.")[2]
    yield name.partition("@")[0].rpartition("/")[2]  # Vertex AI dates a model behind an @


def _replayed_model(reading: PromptReader, calls: int) -> ReplayedModel:
    route = reading.route
    return ReplayedModel(
        model=reading.public,
        route=route.name,
        regime=route.regime or "",
        calls=calls,
        has_price=route.tariff is not None,
    )
