"""The checked catalog: every listed model, every upstream, and the upstreams of unlisted models."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from proxy.catalog.entries import Model, Route, Upstream
from proxy.catalog.families import UnlistedModels
from proxy.catalog.model_aliases import EVERY_TEAM, ModelAliases
from proxy.catalog.predecessors import SNAPSHOT
from slo.toml.problems import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Every model that can be asked for and every upstream that answers.

    Attributes:
        models: By public name, in the order they were written.
        default: Takes the calls that name no model, at no known price.
        passing: Upstreams for models that it does not list.
        team_aliases: Names that mean other models, by the team's name; those of ``EVERY_TEAM``
            hold for teams without their own.
        aliases: Those in force, of the team that ``for_team`` made this catalog for.
        assumed: Models that took traits from their family, which their entries do not state.
        own: Models that only the user's file or the engines list.
    """

    models: Mapping[str, Model]
    upstreams: Mapping[str, Upstream]
    default: Route
    passing: UnlistedModels = field(default_factory=UnlistedModels)
    team_aliases: Mapping[str, ModelAliases] = field(default_factory=dict)
    aliases: ModelAliases = field(default_factory=ModelAliases)
    assumed: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    warnings: tuple[Problem, ...] = ()

    def for_team(self, name: str) -> "Catalog":
        """The catalog as the calls of a team see it: with the team's aliases in force."""
        aliases = self.team_aliases.get(name) or self.team_aliases.get(EVERY_TEAM)
        return self if aliases is None else replace(self, aliases=aliases)

    def find(self, name: str) -> Model | None:
        """The model of this name, or of which this names a dated snapshot; None for neither.

        A name that is an alias is the model that it stands for.
        """
        model = self.models.get(self.aliases.target(name) or name)
        if model is None and (snapshot := SNAPSHOT.search(name)):
            model = self.models.get(name[: snapshot.start()])
        return model

    @property
    def assumed_prices(self) -> dict[str, str]:
        """The predecessor of each listed model that is taken to have its prices, by model."""
        return {
            name: route.assumed_price_of
            for name, model in self.models.items()
            for route in model.routes
            if route.assumed_price_of
        }

    @property
    def providers(self) -> dict[str, str]:
        """The provider of each upstream, by its name; "" where the catalog names none."""
        return {name: upstream.provider for name, upstream in self.upstreams.items()}

    @property
    def messages_default(self) -> Route:
        """Takes the calls of Anthropic's API that name no model, such as batches and files.

        That is an upstream that speaks it, of those that take unlisted models where one does; of
        several the first in Anthropic's own form. Where there is none, it is the default upstream.
        """
        if self.default.upstream.kind == "anthropic":
            return self.default
        for upstreams in (self.passing.upstreams, self.upstreams):
            speaking = [upstream for upstream in upstreams.values() if upstream.speaks_messages]
            if speaking:
                first = min(speaking, key=lambda upstream: upstream.kind != "anthropic")
                return Route(name=first.name, upstream=first)
        return self.default

    def unlisted_model(self, name: str) -> Model | None:
        """The entry by which a name passes that the catalog does not list; None where none may."""
        return self.passing.model(name, self.models)

    def passing_to(self, names: Collection[str]) -> "Catalog":
        """The catalog whose unlisted models pass to these upstreams only; to none where empty."""
        return replace(self, passing=self.passing.restrict_to(names))

    def refusing_unlisted(self) -> "Catalog":
        """The catalog that passes no model which it does not list, to any endpoint."""
        return replace(self, passing=UnlistedModels(refuses=True))
