"""Warnings of ``thriftgate check``: settings that are valid and probably a mistake."""

from collections.abc import Iterator

from proxy.calls.eligibility.route_target import route_target
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Route
from proxy.pages.policy_warnings import MAX_NAMED, Accounts, accounts_of, default_upstream
from proxy.settings import Settings
from slo.policies.file import Policies


def known_keys_obstacle(settings: Settings, policies: Policies) -> str:
    """Reason that known keys are not served during an outage of the database; "" if they are."""
    if not settings.serve_known_keys:
        return ""
    if not settings.known_keys_max_age_s:
        return "the ledger is a SQLite file, which is never away"
    if policies.budgets and not settings.redis_url:
        return (
            "budgets are counted in the process, which knows nothing of them at its start. Set"
            " THRIFTGATE_REDIS_URL, where their counters outlive it"
        )
    return ""


def read_accounts(url: str) -> Accounts | None:
    """The teams and keys in the database at this URL; None where they cannot be read.

    It is neither made nor migrated: a SQLite file that is not there yet has none.

    Raises:
        ValueError: It is neither a SQLite file nor PostgreSQL.
    """
    from proxy.store.errors import StoreError
    from proxy.store.sql.access.teams import Teams
    from proxy.store.sql.database import database_exists, open_database

    if not database_exists(url):
        return Accounts()
    engine = open_database(url)
    try:
        return accounts_of(Teams(engine))
    except StoreError:
        return None
    finally:
        engine.dispose()


def assumptions(catalog: Catalog) -> Iterator[str]:
    """Notes on models without an entry, whose traits and prices are assumed from their families."""
    if catalog.assumed:
        more = (
            f" and {len(catalog.assumed) - MAX_NAMED} more"
            if len(catalog.assumed) > MAX_NAMED
            else ""
        )
        yield (
            f"cache rules and traits of {', '.join(catalog.assumed[:MAX_NAMED])}{more} are assumed"
            " from their families; write `regime` and `traits` in the catalog where that is wrong"
        )
    prices = [f"{name} (as {before})" for name, before in catalog.assumed_prices.items()]
    if prices:
        more = f" and {len(prices) - MAX_NAMED} more" if len(prices) > MAX_NAMED else ""
        yield (
            f"prices of {', '.join(prices[:MAX_NAMED])}{more} are assumed from their predecessors;"
            " write `price` in the catalog once they are known"
        )
    if catalog.passing.upstreams:
        names = sorted(
            {family.upstream.name for family in catalog.passing.families}
            | default_upstream(catalog)
        )
        to = [name for name in names if name in catalog.passing.upstreams]
        yield (
            f"models outside the catalog pass to {', '.join(to) or 'no upstream by their names'},"
            " at no known price, fine-tunes at their base model's, and the next versions of a"
            " line's newest listed model at its price, marked as assumed;"
            " THRIFTGATE_PASS_UNLISTED_MODELS=false refuses them"
        )


def unpriced_writes(catalog: Catalog, now: float) -> Iterator[str]:
    """A note on models with a price that leaves out what storing a prompt costs."""
    names = [
        model.id
        for model in catalog.models.values()
        if any(_lacks_price_of_writes(route, model.id, now) for route in model.routes)
    ]
    if names:
        more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        yield (
            f"prices of {', '.join(names[:MAX_NAMED])}{more} leave out cache writes, so no cache"
            " marks are sent to them; write `write_5m` (Anthropic) or `write_30m` (OpenAI) in"
            " `price`"
        )


def _lacks_price_of_writes(route: Route, model: str, now: float) -> bool:
    target = route_target(route, model, now)
    is_priced = target.rates is not None and target.rates.input is not None
    return is_priced and target.regime.takes_marks and not target.regime.writes
