"""Models that no catalog lists: the families their names belong to, and the upstreams they pass to.

A family is a pattern of names. All its members share one entry whose id is the pattern, so that
names callers make up add nothing to any table and become no label of a metric.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from proxy.catalog.entries import Model, Route, Upstream
from proxy.catalog.predecessors import SNAPSHOT, Predecessors

#: Group in which a pattern names the model that a fine-tune was made of.
BASE: Final = "{base}"
#: The longest name that passes; no provider has longer ones.
MAX_NAME_LENGTH: Final = 256
#: A name that a model may have.
MODEL_NAME: Final = re.compile(rf"[!-~]{{1,{MAX_NAME_LENGTH}}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Names that belong together, and what is taken to be true of the models they name.

    Attributes:
        names: A pattern: ``*`` is any text, ``{base}`` the name of another model.
        like: The model whose cache rules and traits they are taken to share; None for unknown.
    """

    names: str
    upstream: Upstream
    like: Route | None = None
    _pattern: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile the pattern."""
        parts = re.split(r"(\*|\{base\})", self.names)
        wild = {"*": ".*", BASE: "(?P<base>[^:/]+)"}
        pattern = re.compile("".join(wild.get(part) or re.escape(part) for part in parts))
        object.__setattr__(self, "_pattern", pattern)

    def match(self, name: str) -> re.Match[str] | None:
        """The match of a name that belongs to the family."""
        return self._pattern.fullmatch(name)

    def model(self) -> Model:
        """The entry that all members share; without a price, which differs among them."""
        return _unpriced_model(self.names, self.upstream, self.like)


def fine_tunes(families: Collection[Family], models: Mapping[str, Model]) -> dict[str, Model]:
    """Entries of fine-tunes by the pattern with the base in place; each takes after its base.

    Its price, too, is taken to be its base's, which the name states; a provider may ask more.
    """
    fine_tuned: dict[str, Model] = {}
    for family in families:
        if BASE not in family.names:
            continue
        for base in models.values():
            route = _route_to(base, family.upstream)
            if route is not None:
                names = family.names.replace(BASE, base.id)
                tuned = replace(route, name=f"{family.upstream.name}/{names}", model="")
                fine_tuned[names] = Model(id=names, routes=(tuned,))
    return fine_tuned


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlistedModels:
    """Upstreams for models that the catalog does not list.

    Attributes:
        tuned: Entries of fine-tunes; see ``fine_tunes``.
        upstreams: Those that may get unlisted names: with the key they need. By name.
        default: Takes the names that no family has; None for refusing them.
        predecessors: Models whose prices newer ones of their lines are taken to have.
        refuses: True if every name that the catalog does not list is refused.
    """

    families: tuple[Family, ...] = ()
    tuned: Mapping[str, Model] = field(default_factory=dict)
    upstreams: Mapping[str, Upstream] = field(default_factory=dict)
    default: Upstream | None = None
    predecessors: Predecessors = field(default_factory=Predecessors)
    refuses: bool = False

    def restrict_to(self, names: Collection[str]) -> "UnlistedModels":
        """The same with these upstreams only."""
        left = {name: upstream for name, upstream in self.upstreams.items() if name in names}
        return replace(self, upstreams=left)

    def model(self, name: str, models: Mapping[str, Model]) -> Model | None:
        """The entry an unlisted name passes by; None where it must be refused.

        Args:
            models: The catalog's, for names that are written with their upstream before them.
        """
        if not MODEL_NAME.fullmatch(name):
            return None
        place, _, rest = name.partition("/")
        if rest and place in self.upstreams:
            return self._model_at_upstream(self.upstreams[place], rest, models)
        model = self._model_by_family(name)
        if model is None and self.default is not None and self.default.name in self.upstreams:
            model = self._at_assumed_price(_unpriced_model("*", self.default), name)
        return model

    def _model_by_family(self, name: str, upstream: Upstream | None = None) -> Model | None:
        for family in self.families:
            if family.upstream.name not in self.upstreams:
                continue
            if upstream is not None and family.upstream.name != upstream.name:
                continue
            if match := family.match(name):
                base = match.groupdict().get("base", "")
                tuned = self._fine_tuned_model(family, base) if base else None
                return tuned or self._at_assumed_price(family.model(), name)
        return None

    def _fine_tuned_model(self, family: Family, base: str) -> Model | None:
        """The entry of a base's fine-tunes, also where the base is a dated snapshot."""
        undated = SNAPSHOT.sub("", base)
        names = (family.names.replace(BASE, alternative) for alternative in (base, undated))
        return next((model for name in names if (model := self.tuned.get(name))), None)

    def _model_at_upstream(
        self, upstream: Upstream, name: str, models: Mapping[str, Model]
    ) -> Model | None:
        """A model by the name that its upstream knows, for ``upstream/name``."""
        listed = models.get(name)
        if listed is not None and (route := _route_to(listed, upstream)) is not None:
            return replace(listed, routes=(replace(route, model=route.model or name),))
        model = self._model_by_family(name, upstream) or self._at_assumed_price(
            _unpriced_model("*", upstream), name
        )
        return replace(model, routes=tuple(replace(route, model=name) for route in model.routes))

    def _at_assumed_price(self, model: Model, name: str) -> Model:
        """The entry of an unlisted name, at the price of its predecessor where it has one."""
        (route,) = model.routes
        return replace(model, routes=(self.predecessors.with_assumed_price(route, (name,)),))


def inherit_from_family(
    route: Route, names: Collection[str], families: Collection[Family]
) -> Route:
    """The route with what its model's family says where the catalog does not.

    A family holds for its own provider, and for every upstream that speaks Anthropic's API.

    Args:
        names: The model's public name and the one its upstream knows.
    """
    for family in families:
        if not _is_akin(route.upstream, family.upstream):
            continue
        if any(family.match(name) for name in names):
            like = family.like
            if like is None:
                return route
            least = route.min_cache_tokens
            return replace(
                route,
                regime=route.regime or like.regime,
                block=route.block if route.regime else like.block,
                min_cache_tokens=like.min_cache_tokens if least is None else least,
                prompt_cache_retention=route.prompt_cache_retention or like.prompt_cache_retention,
                traits=route.traits or like.traits,
            )
    return route


def _is_akin(one: Upstream, other: Upstream) -> bool:
    if one.speaks_messages and other.speaks_messages:
        return True
    return one.kind == other.kind and one.provider == other.provider != ""


def _route_to(model: Model, upstream: Upstream) -> Route | None:
    return next((route for route in model.routes if route.upstream.name == upstream.name), None)


def _unpriced_model(names: str, upstream: Upstream, like: Route | None = None) -> Model:
    """The entry of all models with such names."""
    route = Route(name=f"{upstream.name}/{names}", upstream=upstream)
    if like is not None:
        route = replace(
            route,
            regime=like.regime,
            block=like.block,
            min_cache_tokens=like.min_cache_tokens,
            prompt_cache_retention=like.prompt_cache_retention,
            traits=like.traits,
        )
    return Model(id=names, routes=(route,))
