"""Orders the models of ladders behind the requested routes, for when those fail or are late."""

from collections.abc import Iterable

import msgspec

from proxy.calls.eligibility.requirements import call_requirements, missing_on_every_route
from proxy.calls.route_choice import RouteChoice, substitute_routes
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model
from proxy.records.call import Call
from proxy.services.objectives.objective_state import TrackedObjective
from slo.objectives.ladder import CallRequirements


class FallbackOrder:
    """The fallback routes of one catalog's models; the routes of each are made once."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._choices: dict[tuple[str, str, bool], tuple[RouteChoice, ...]] = {}

    def routes(
        self,
        call: Call,
        requested: tuple[RouteChoice, ...],
        tracks: Iterable[TrackedObjective],
        *,
        is_first: bool,
    ) -> tuple[tuple[RouteChoice, ...], dict[str, str]]:
        """The requested routes, then the ladders' models, and the lack of each model skipped.

        A conversation under way falls back only if its routes fail.
        """
        order, skipped, requirements = list(requested), dict[str, str](), None
        models = {choice.model for choice in requested}
        for track in tracks:
            if not track.acts:
                continue
            for entry in track.objective.ladder:
                model = self._catalog.models.get(entry)
                if model is None or entry in models:
                    continue
                models.add(entry)
                requirements = requirements or requirements_of(call, requested)
                if lack := missing_on_every_route(requirements, model):
                    skipped[model.id] = lack
                else:
                    order += self._fallback_routes(track, model, is_last_resort=not is_first)
        return tuple(order), skipped

    def _fallback_routes(
        self, track: TrackedObjective, model: Model, *, is_last_resort: bool
    ) -> tuple[RouteChoice, ...]:
        """The routes of a fallback model, tried after the requested ones."""
        key = (track.name, model.id, is_last_resort)
        choices = self._choices.get(key)
        if choices is None:
            choices = self._choices[key] = tuple(
                msgspec.structs.replace(choice, is_last_resort=is_last_resort)
                for choice in substitute_routes(model, f"{track.name}: in its place")
            )
        return choices


def requirements_of(call: Call, requested: tuple[RouteChoice, ...]) -> CallRequirements:
    """The call's requirements, bound to the region of the model it asks for."""
    return call_requirements(call, requested[0].route.upstream.region)
