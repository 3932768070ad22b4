"""``thriftgate check``: validates settings, catalog and policies, and warns of likely mistakes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from proxy.cli import session
from proxy.cli.terminal import AsJson
from proxy.records.amounts import quantity

if TYPE_CHECKING:
    from proxy.catalog.catalog import Catalog
    from proxy.settings import Settings
    from slo.policies.file import Policies
    from slo.policies.sinks import Sink

_REDIS_AWAY: Final = "THRIFTGATE_REDIS_URL: Redis cannot be reached, so budgets may refuse calls"
_log = logging.getLogger("thriftgate")


def check(
    *,
    as_json: AsJson = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Do not ask whether PostgreSQL and Redis answer.")
    ] = False,
) -> None:
    """Validate settings and catalog, try the folder, PostgreSQL and Redis; name each fix.

    With --json, what is sound is one document with its notes; problems are texts as without.
    """
    settings = session.settings()
    catalog = session.catalog(settings)
    from proxy.cli.storage_checks import folder_problem

    _check_database_url(settings.database_url)
    policies = session.policies(settings, catalog)
    if why := folder_problem(settings.folder):
        session.fail(why)
    if not offline:
        _check_services(settings)
    if as_json:
        session.terminal.print_json(_document(settings, catalog, policies))
    else:
        _print_findings(settings, catalog, policies)


def _print_findings(settings: Settings, catalog: Catalog, policies: Policies) -> None:
    from proxy.api.connections.connection_limit import descriptor_limit
    from proxy.cli.storage_checks import descriptor_counts
    from proxy.configuration import count_policies
    from slo.toml.problems import report

    if catalog.warnings:
        session.out.print(report(catalog.warnings), soft_wrap=True)
    for why in _all_notes(settings, catalog, policies):
        session.out.print(f"Note: {why}", soft_wrap=True)
    files = descriptor_counts(
        descriptor_limit(), settings.max_calls, settings.connections_per_address
    )
    session.out.print(files, soft_wrap=True)
    summary = (
        f"{quantity(len(catalog.models), 'model')}, {quantity(len(catalog.upstreams), 'upstream')}"
    )
    if settings.policies is not None:
        summary = f"{summary}, {count_policies(policies)}"
    session.out.print(f"Settings and catalog are sound: {summary}.", soft_wrap=True)


def _document(settings: Settings, catalog: Catalog, policies: Policies) -> dict[str, Any]:
    from slo.policies.file import policies_by_kind

    return {
        "sound": True,
        "models": len(catalog.models),
        "upstreams": len(catalog.upstreams),
        "policies": {
            kind.noun: len(of_kind) for kind, of_kind in policies_by_kind(policies).items()
        },
        "warnings": [str(warning) for warning in catalog.warnings],
        "notes": list(_all_notes(settings, catalog, policies)),
    }


def _all_notes(settings: Settings, catalog: Catalog, policies: Policies) -> Iterator[str]:
    """All notes, those on upstreams without a key or credentials first."""
    from proxy.cli.storage_checks import is_simulated

    if is_simulated(settings.folder):
        yield (
            "a simulator answers the calls of this folder (`thriftgate serve --simulated`), and"
            " needs no provider's key."
        )
    elif lacking := upstreams_by_key(catalog)[1]:
        # Few have an account with each, so it is no mistake.
        yield f"no key is set for {', '.join(lacking)}: calls that go there would fail."
    yield from missing_credentials(catalog)
    yield from _notes(settings, catalog, policies)


def _notes(settings: Settings, catalog: Catalog, policies: Policies) -> Iterator[str]:
    from proxy.api.connections.connection_limit import descriptor_limit
    from proxy.cli.storage_checks import low_descriptor_warning, low_space_warning
    from proxy.cli.warnings import (
        assumptions,
        read_accounts,
        unpriced_writes,
    )
    from proxy.pages.policy_warnings import policy_warnings

    if policies.sinks:
        yield from _sink_notes(policies.sinks)
    if policies.reports:
        from proxy.services.reports.report_delivery import configured_senders

        yield from configured_senders(policies.reports, settings)[1]
    has_teams = settings.policies is not None or bool(catalog.team_aliases)
    accounts = read_accounts(settings.ledger_url) if has_teams else None
    yield from policy_warnings(policies, catalog, accounts, now=session.now())
    yield from _engine_notes(settings)
    yield from assumptions(catalog)
    yield from unpriced_writes(catalog, session.now())
    yield from low_space_warning(settings.folder)
    yield from low_descriptor_warning(descriptor_limit(), settings.max_calls)
    yield from _known_keys_notes(settings, policies)


def _engine_notes(settings: Settings) -> Iterator[str]:
    if settings.engines is None:
        return
    from proxy.cli.engines.engine_launch_notes import launch_notes
    from proxy.configuration import read_engines
    from proxy.engines.state.state_file import read_engine_states

    running = [state.profile for state in read_engine_states(settings.folder) if state.is_running]
    for profile in read_engines(settings).values():
        for note in launch_notes(profile, settings.port, running):
            yield f"engine {profile.name}: {note}"


def _check_database_url(url: str) -> None:
    """End the command where this is no address of a database that can be used."""
    if not url:
        return
    from proxy.store.sql.database import open_database

    try:
        open_database(url).dispose()
    except ValueError as error:
        session.fail(f"THRIFTGATE_DATABASE_URL: {error}")


def _check_services(settings: Settings) -> None:
    """End the command where the settings' PostgreSQL or Redis does not answer."""
    problems = []
    if settings.database_url:
        from proxy.store.sql.database import connection_problem

        if why := connection_problem(settings.database_url):
            problems.append(f"THRIFTGATE_DATABASE_URL: the database cannot be reached: {why}")
    if settings.redis_url:
        from proxy.services.budgets.counters import redis_problem

        if why := asyncio.run(redis_problem(settings)):
            problems.append(f"{_REDIS_AWAY}: {why}")
    if problems:
        lines = "\n".join(problems)
        session.fail(f"{lines}\n`thriftgate check --offline` validates everything else.")


def _sink_notes(sinks: Sequence[Sink]) -> list[str]:
    """A note on each sink that has no address or secret."""
    from proxy.services.alerts.configured_sinks import configured_sinks, environment_variables
    from proxy.settings import upstream_keys

    return configured_sinks(sinks, upstream_keys(environment_variables(sinks)))[1]


async def warn(settings: Settings, catalog: Catalog, policies: Policies) -> None:
    """Log what ``check`` would note of Redis and known keys."""
    from proxy.services.budgets.counters import redis_problem

    for why in _known_keys_notes(settings, policies):
        _log.warning("%s", why)
    if why := await redis_problem(settings):
        _log.warning("%s: %s", _REDIS_AWAY, why)


def missing_credentials(catalog: Catalog) -> Iterator[str]:
    """Notes on upstreams whose cloud credentials cannot be had; it looks for them, which blocks."""
    from proxy.upstream.cloud_auth import cloud_credentials

    for upstream in catalog.upstreams.values():
        credentials = cloud_credentials(upstream)
        if credentials is not None and (why := credentials.find()):
            yield f"upstreams.{upstream.name} has no credentials, so its calls would fail: {why}"


def upstreams_by_key(catalog: Catalog) -> tuple[list[str], list[str]]:
    """The upstreams that have the key they need, and those without, with the variable to set."""
    from proxy.settings import upstream_keys
    from proxy.upstream.cloud_packages import is_package_installed

    keys = upstream_keys(upstream.key_env for upstream in catalog.upstreams.values())
    having, lacking = [], []
    for upstream in catalog.upstreams.values():
        if not is_package_installed(upstream.auth):
            lacking.append(f"{upstream.name} (a package that `thriftgate check` names)")
        elif not upstream.key_env or upstream.key_env in keys:
            having.append(upstream.name)
        else:
            lacking.append(f"{upstream.name} ({upstream.key_env})")
    return having, lacking


def _known_keys_notes(settings: Settings, policies: Policies) -> list[str]:
    """A note where known keys are to be served and never are; [] where all is well."""
    from proxy.cli.warnings import known_keys_obstacle

    why = known_keys_obstacle(settings, policies)
    return [f"THRIFTGATE_SERVE_KNOWN_KEYS does nothing: {why}"] if why else []
