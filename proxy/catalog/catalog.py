"""The checked catalog: every listed model, every upstream, and where unlisted names pass."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from proxy.catalog.entries import Model, Route, Upstream
from proxy.catalog.families import SNAPSHOT, UnlistedModels
from slo.toml.problems import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Every model that can be asked for and every upstream that answers.

    Attributes:
        models: By public name, in the order they were written.
        upstreams: By name.
        default: Takes the calls that name no model, at no known price.
        passing: Upstreams for models that it does not list.
        assumed: Models that took traits from their family, which their entries do not state.
        warnings: Problems in the files that do not keep them from being used.
    """

    models: Mapping[str, Model]
    upstreams: Mapping[str, Upstream]
    default: Route
    passing: UnlistedModels = field(default_factory=UnlistedModels)
    assumed: tuple[str, ...] = ()
    warnings: tuple[Problem, ...] = ()

    def find(self, name: str) -> Model | None:
        """The model of this name, or of which this names a dated snapshot; None for neither."""
        model = self.models.get(name)
        if model is None and (snapshot := SNAPSHOT.search(name)):
            model = self.models.get(name[: snapshot.start()])
        return model

    def unlisted_model(self, name: str) -> Model | None:
        """The entry by which a name passes that the catalog does not list; None where none may."""
        return self.passing.model(name, self.models)

    def passing_to(self, names: Collection[str]) -> "Catalog":
        """The catalog whose unlisted models pass to these upstreams only; to none where empty."""
        return replace(self, passing=self.passing.restrict_to(names))

    def refusing_unlisted(self) -> "Catalog":
        """The catalog that passes no model which it does not list, to any endpoint."""
        return replace(self, passing=UnlistedModels(refuses=True))
