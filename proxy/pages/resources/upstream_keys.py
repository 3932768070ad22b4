"""State of each upstream's key: set or missing, last answered or refused, and what to do."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from proxy.catalog.entries import Upstream
from proxy.store.sql.views.setup.upstream_uses import UpstreamUse
from proxy.upstream.cloud_packages import is_package_installed, not_installed

KeyState = Literal["answers", "refused", "unused", "missing", "unknown"]

_UNUSED: Final = UpstreamUse(None, None, 0)
#: Accounts at clouds, which stand in no variable of ours.
_ACCOUNTS: Final = {"aws": "credentials of AWS", "google": "credentials of Google Cloud"}
#: Those that need something done come first.
_ORDER: Final[Sequence[KeyState]] = ("refused", "answers", "unused", "unknown", "missing")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamKeyView:
    """The key of an upstream, without its value; times are in seconds since the epoch.

    Attributes:
        variable: Environment variable that holds the key; for an account at a cloud, its name.
        state: ``answers``, ``refused`` (later than it last answered), ``unused`` in the last 24
            hours, ``missing``, or ``unknown`` while the ledger is away.
        answered: Last time that the upstream answered in the last 24 hours; null for none.
        refused: Last time that it refused the key or the account; null for none.
        refusals: Number of attempts that it so refused.
        fix: Instruction for the operator; "" for none.
    """

    upstream: str
    variable: str
    is_set: bool
    state: KeyState
    answered: float | None
    refused: float | None
    refusals: int
    fix: str


def upstream_keys_view(
    upstreams: Iterable[Upstream],
    with_keys: Collection[str],
    uses: Mapping[str, UpstreamUse] | None,
) -> list[UpstreamKeyView]:
    """The keys of upstreams that need one, those with something to do first.

    Args:
        with_keys: Names of upstreams whose key is set.
        uses: Uses by upstream; None while they are unknown.
    """
    views = list(_views(upstreams, with_keys, uses))
    return sorted(views, key=lambda view: (_ORDER.index(view.state), view.upstream))


def _views(
    upstreams: Iterable[Upstream],
    with_keys: Collection[str],
    uses: Mapping[str, UpstreamUse] | None,
) -> Iterator[UpstreamKeyView]:
    for upstream in upstreams:
        if upstream.needs_credentials:
            is_set = upstream.name in with_keys
            use = _UNUSED if uses is None else uses.get(upstream.name, _UNUSED)
            state = _state(use, is_set=is_set, is_known=uses is not None)
            yield UpstreamKeyView(
                upstream=upstream.name,
                variable=upstream.key_env or _ACCOUNTS[upstream.auth],
                is_set=is_set,
                state=state,
                answered=use.answered,
                refused=use.refused,
                refusals=use.refusals,
                fix=_fix(upstream, state),
            )


def _state(use: UpstreamUse, *, is_set: bool, is_known: bool) -> KeyState:
    if not is_set:
        return "missing"
    if not is_known:
        return "unknown"
    if use.refused is not None and (use.answered is None or use.refused > use.answered):
        return "refused"
    return "unused" if use.answered is None else "answers"


def _fix(upstream: Upstream, state: KeyState) -> str:
    if state == "missing" and not is_package_installed(upstream.auth):
        return f"{not_installed(upstream.auth)}, and restart"
    if state == "missing":
        return f"Set {upstream.key_env} to a key of {upstream.name}, and restart"
    if state != "refused":
        return ""
    if not upstream.key_env:
        return f"Check the rights and the bill of the account at {upstream.name}"
    return f"Set {upstream.key_env} to a valid key, or pay the account's bill, and restart"
