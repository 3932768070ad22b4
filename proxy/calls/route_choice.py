"""The routes that a call may take, in order, each with the reason for a reroute; pure."""

import difflib
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import msgspec

from proxy.calls.eligibility.retry_policy import GENERATING_ENDPOINTS
from proxy.calls.metering.finished_turn import FinishedTurn
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model, Route
from proxy.errors import CallerError, ProxyError, UpstreamError
from proxy.fast_path.small_first.answer_checks import CheckRules
from proxy.providers.openai.responses_request import ReasoningUse
from proxy.records.call import Call
from proxy.records.receipt import ServedBy
from slo.usage import Usage

#: Codes and words by which upstreams say that a prompt is too long.
#: Sources: OpenAI API reference, error codes; Anthropic, errors; vLLM, serving; llama.cpp, build
#: 11549 (2026-11).
_OVERFLOW_CODES = frozenset(
    {"context_length_exceeded", "request_too_large", "string_above_max_length"}
)
_OVERFLOW_MESSAGE = re.compile(
    r"maximum context length|prompt is too long|context window"
    r"|input token count.{0,40}exceeds|longer than the maximum model length"
    r"|exceeds the available context size",
    re.IGNORECASE,
)


#: The longest that is said of models that cannot take a call.
_MAX_SKIPPED_CHARS = 512


def untranslatable_call(why: ProxyError) -> UpstreamError:
    """The failure of a route whose substitute model the call cannot be translated for."""
    error = UpstreamError(
        f"The call could not be translated for another model. {why.message}",
        status=400,
        code="not_carried",
        retryable=False,
    )
    error.untranslatable = " ".join(why.message.encode("ascii", "replace").decode().split())
    return error


class ReplicaTicket(Protocol):
    """A replica that was chosen for one call; it is told how the call goes there."""

    @property
    def name(self) -> str:
        """Name of the replica."""

    @property
    def why(self) -> str:
        """Reason for the order of the replicas, in a few words."""

    @property
    def slots(self) -> int:
        """Calls that it takes at once beside those of other gateways; 0 for none or unknown."""

    def send(self) -> None:
        """Note that the call goes to the replica.

        Raises:
            CallerError: If the call must not go there any more.
        """

    def begin_answer(self) -> None:
        """Note that the answer begins: the prompt is read."""

    def end(
        self, usage: Usage | None, *, is_comparable: bool, turn: FinishedTurn | None = None
    ) -> None:
        """Note that the call is over there, however it ended.

        Args:
            usage: The engine's own report; None where there is none.
            is_comparable: True if the caller's own prompt was sent.
            turn: The turn that was answered; None where it was not, or is no conversation's.
        """


class RouteChoice(msgspec.Struct, frozen=True):
    """A route a call may take.

    Attributes:
        model: The public name of the model it serves.
        reroute_reason: Reason that it is not the first route of the model asked for; "" where it
            is.
        is_last_resort: True if it is taken only once others failed, and not because they are late.
        is_suspect: True if it was left for being slow: because others are late it is taken only if
            its latest calls began, in less time than the call has waited; or once the route in its
            place is overdue.
        replica: Its replica of an engine, once the engine's replicas are in order; else None.
        is_alias: True if the name in the call is an alias of its model, so that the request is
            translated to what that model takes.
        reasoning: Fate of reasoning that the caller of a translated call sends back.
        served_by: The part of the fast path that chose it.
        instead_of: The route of the model asked for, in whose place a small model's is taken.
        checks: Checks that its whole answer must pass; None for none.
    """

    route: Route
    model: str
    reroute_reason: str = ""
    is_last_resort: bool = False
    is_suspect: bool = False
    replica: ReplicaTicket | None = None
    is_alias: bool = False
    reasoning: ReasoningUse = "sealed"
    served_by: ServedBy = ServedBy.NOBODY
    instead_of: Route | None = None
    checks: CheckRules | None = None


class RoutingDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The routing decision for a call before its first attempt.

    Attributes:
        choices: The routes it takes, in order; at least one.
        deadline: Seconds to the first content byte, after which the next route is tried if there
            is one; None for as long as patience lasts.
        level: The fallback level it runs on; 0 for what the caller asked for.
        is_trial: True if it is to show how what was asked for does: a route that has not begun of
            late is tried, too, beside the one in its place.
        skipped: Models that would have been taken and cannot take the call, by name, and why.
    """

    choices: tuple[RouteChoice, ...]
    deadline: float | None = None
    level: int = 0
    is_trial: bool = False
    skipped: Mapping[str, str] = {}


def requested_routes(call: Call, catalog: Catalog) -> tuple[RouteChoice, ...]:
    """The routes of the model the call names, in order, also disabled ones; at least one.

    Raises:
        CallerError: If the catalog has no such model.
    """
    if name := call.path_model:
        return _owning_route(name, catalog)
    model_name = call.model
    model = catalog.find(model_name) if model_name else None
    if model is not None:
        is_alias = catalog.aliases.target(model_name) not in {"", model_name}
        routes = _named_routes(model) if is_alias else model.routes
        return tuple(RouteChoice(route, model.id, is_alias=is_alias) for route in routes)
    if not call.model:
        default = catalog.messages_default if call.speaks_messages else catalog.default
        return (RouteChoice(default, call.model),)
    if (unlisted := catalog.unlisted_model(call.model)) is not None:
        return tuple(RouteChoice(route, unlisted.id) for route in unlisted.routes)
    if call.endpoint not in GENERATING_ENDPOINTS and not catalog.passing.refuses:
        return (RouteChoice(catalog.default, call.model),)
    raise _unknown_model(call.model, catalog)


def _owning_route(name: str, catalog: Catalog) -> tuple[RouteChoice, ...]:
    """The one upstream whose model this is: what one keeps is no other's to show or delete.

    Raises:
        CallerError: If no upstream takes the name.
    """
    model = catalog.find(name) or catalog.unlisted_model(name)
    if model is None:
        raise _unknown_model(name, catalog)
    return (RouteChoice(model.routes[0], ""),)


def _unknown_model(name: str, catalog: Catalog) -> CallerError:
    """The refusal of a model that no upstream is known to have."""
    near = difflib.get_close_matches(name[:100], list(catalog.models)[:200], n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return CallerError(
        f"The model `{name[:100]}` is not in the gateway's catalog.{hint}"
        " GET /v1/models?all=1 lists what is; the gateway's operator can add it in the catalog"
        " file and name a `default_upstream` there for all other names.",
        code="model_not_found",
        param="model",
        status=404,
    )


def substitute_routes(model: Model, why: str) -> tuple[RouteChoice, ...]:
    """The enabled routes of a model that serves a call in place of another."""
    routes = _named_routes(model)
    return tuple(RouteChoice(route, model.id, why) for route in routes if not route.is_disabled)


def fallback_models(call: Call, catalog: Catalog, failure: UpstreamError) -> tuple[Model, ...]:
    """The models that may answer in place of the one asked for, once it failed like this.

    What is too long for one model goes to those with room; what an upstream failed at, to those
    its model names for that. A call that is wrong in itself goes nowhere.
    """
    model = catalog.find(call.model) if call.model else None
    if model is None or call.endpoint not in GENERATING_ENDPOINTS:
        return ()
    if is_overflow(failure):
        names = model.when_too_long
    else:
        names = model.fallbacks if failure.retryable else ()
    return tuple(fallback for name in names if (fallback := catalog.models.get(name)) is not None)


def replica_text(choice: RouteChoice) -> str:
    """The replica that was chosen, and why; "" where there was none to choose."""
    replica = choice.replica
    return "" if replica is None else f"{replica.name}; {replica.why}"


def choice_headers(choice: RouteChoice, replica: str) -> dict[str, str]:
    """Headers that tell the caller why this route was taken.

    Args:
        replica: Its ``replica_text``.
    """
    headers = {}
    if choice.reroute_reason:
        headers["x-thriftgate-fallback"] = choice.reroute_reason
    if replica:
        headers["x-thriftgate-replica"] = replica
    return headers


def skipped_header(skipped: Mapping[str, str]) -> dict[str, str]:
    """The header that says which models cannot take a call, and why."""
    text = "; ".join(f"{model}: {why}" for model, why in skipped.items())
    return {"x-thriftgate-fallback-skipped": text[:_MAX_SKIPPED_CHARS]}


def is_overflow(failure: UpstreamError) -> bool:
    """True if the prompt was too long for the model."""
    if failure.code in _OVERFLOW_CODES:
        return True
    return failure.status in {400, 413, 422} and bool(_OVERFLOW_MESSAGE.search(failure.message))


def _named_routes(model: Model) -> tuple[Route, ...]:
    """The model's routes, each with its name where it would forward the caller's."""
    return tuple(route if route.model else replace(route, model=model.id) for route in model.routes)
