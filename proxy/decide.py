"""Which routes a call may take, and whether a failed attempt is worth another; pure."""

import difflib

import msgspec

from proxy.call import Call
from proxy.catalog.entries import Catalog, Route
from proxy.errors import NotFound, UpstreamError

#: Endpoints that generate or embed, and so have usage even when the upstream does not say.
GENERATING = frozenset({"chat/completions", "responses", "completions", "embeddings"})
#: Failures that would only repeat on the same route.
_ELSEWHERE = frozenset(
    {"upstream_timeout", "upstream_unauthorized", "upstream_key_missing", "insufficient_quota"}
)


class Patience(msgspec.Struct, frozen=True):
    """How long an upstream is waited for.

    Attributes:
        first_byte: Seconds until the first content byte.
        stall: Seconds between two content bytes.
        retries: Further attempts on the last route.
        longest_pause: Seconds an upstream's retry-after may ask for.
    """

    first_byte: float = 600.0
    stall: float = 300.0
    retries: int = 1
    longest_pause: float = 2.0

    def pause(self, failure: UpstreamError, number: int, routes: int) -> float | None:
        """Seconds to wait before the attempt after ``number``; None if there is to be none.

        The next route is tried at once; the last one again after a pause that doubles.
        """
        if not failure.retryable or number + 1 >= routes + self.retries:
            return None
        if number + 1 < routes:
            return 0.0
        if failure.code in _ELSEWHERE:
            return None
        again = number + 1 - routes
        pause = failure.retry_after if failure.retry_after is not None else 0.25 * 2.0**again
        return pause if pause <= self.longest_pause else None


def routes(call: Call, catalog: Catalog) -> tuple[Route, ...]:
    """The routes of the model the call names, in the order they are tried; at least one.

    Raises:
        NotFound: If the catalog has no such model.
    """
    model = catalog.find(call.model) if call.model else None
    if model is not None:
        return model.routes
    if not call.model or call.endpoint not in GENERATING:
        return (catalog.default,)
    near = difflib.get_close_matches(call.model[:100], list(catalog.models)[:200], n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise NotFound(
        f"The model `{call.model[:100]}` is not in the gateway's catalog.{hint}"
        " GET /v1/models lists what is; whoever runs the gateway can add it in the catalog file.",
        code="model_not_found",
        param="model",
    )
