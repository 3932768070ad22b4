"""Settings of this process: ``THRIFTGATE_*``, read once, frozen; an unknown name is an error.

The only module that reads the environment.
"""

import ast
import os
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from difflib import get_close_matches
from enum import Enum
from inspect import cleandoc, getsource
from ipaddress import IPv4Network, IPv6Network, ip_network
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError

from compaction.policy import CompactionMode as Compaction
from proxy.errors import OperatorError
from proxy.records.feature_mode import PlanningMode
from slo.duration import parse_duration

PREFIX = "THRIFTGATE_"

#: Read by the tests, not by the gateway.
_FOREIGN = frozenset({"THRIFTGATE_TEST_POSTGRES", "THRIFTGATE_TEST_REDIS"})
#: Settings that were removed, and what takes their place.
_REPLACED = {
    "THRIFTGATE_CACHE_MARKS_ON_CREDIT": "THRIFTGATE_LEARNING_STAKE (US dollars; 0 for false)",
    "THRIFTGATE_COMPACTION_SAFETY": "THRIFTGATE_LEARNING_STAKE (US dollars; 0 for 30)",
}
Origins = tuple[str, ...]
"""Origin of pages: scheme, host and port."""
#: Source: RFC 6454, section 6.2 (2011-12).
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[a-z0-9.:\[\]_-]+|\*")
Networks = tuple[IPv4Network | IPv6Network, ...]
"""Addresses of machines."""
Dollars = Decimal | None
"""An amount in US dollars; None where it is unknown."""
_KINDS = (
    (Networks, "addresses or networks such as 10.0.0.0/8 with commas between them, not all (/0)"),
    (Origins, "origins such as https://app.example.com with commas between them, or *"),
    (Dollars, "an amount"),
    (bool, "true or false"),
    (int, "a whole number"),
    (float, "a number"),
    (SecretStr, "a secret text"),
    (timedelta, "a duration such as 24h, or off"),
)
_LIMITS = {
    "gt": "above {}",
    "ge": "from {}",
    "le": "to {}",
    "min_length": "of {} characters or more",
}


def _strip_secret(secret: object) -> object:
    """A secret without what is around it: those that are kept in files often have a line end."""
    return secret.strip() if isinstance(secret, str) else secret


def _origins(value: object) -> object:
    """The origins in a text, without what would make them equal none that a browser sends."""
    if not isinstance(value, str):
        return value
    origins = tuple(
        origin.strip().rstrip("/").lower() for origin in value.split(",") if origin.strip()
    )
    if not all(map(_ORIGIN.fullmatch, origins)):
        raise ValueError("no origin")
    return origins


def _networks(value: object) -> object:
    """The networks in a text; an address is a network of one.

    Raises:
        ValueError: One is none, or is all addresses, so that anybody's word would count.
    """
    if not isinstance(value, str):
        return value
    networks = tuple(ip_network(part.strip()) for part in value.split(",") if part.strip())
    if any(network.prefixlen == 0 for network in networks):
        raise ValueError("all addresses")
    return networks


def _duration(value: object) -> object:
    """The duration in a text; nothing at all for ``off``."""
    if not isinstance(value, str):
        return value
    seconds = 0.0 if value.strip().lower() in {"", "off"} else parse_duration(value.strip())
    if seconds is None:
        raise ValueError("no duration")
    return timedelta(seconds=seconds)


class Settings(BaseModel):
    """Each field is the environment variable of the same name in capitals, with the prefix."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    host: str = "127.0.0.1"
    """Host to listen at."""
    port: int = Field(default=8080, ge=0, le=65535)
    """Port to listen on; 0 picks a free one."""
    folder: Path = Path("var/thriftgate")
    """Folder of the journal and the default database."""
    database_url: str = ""
    """SQLAlchemy or ``postgres://`` URL; empty is a SQLite file in the folder."""
    catalog: Path | None = None
    """A TOML file that adds to and overrides the shipped catalog."""
    pass_unlisted_models: bool = True
    """True if models outside the catalog pass to the upstream whose names they match."""
    policies: Path | None = None
    """A TOML file of budgets; none are kept without."""
    engines: Path | None = None
    """A TOML file of profiles of self-hosted engines; none without."""
    region: str = ""
    """Region that the gateway runs in, as in the catalog: replicas there go first."""
    otlp_endpoint: str = Field(default="", pattern=r"^(https?://.+)?$")
    """Base URL of an OTLP collector for traces and GenAI metrics; empty exports none."""
    redis_url: str = ""
    """``redis://…`` where all processes count budgets together; empty is in each alone."""
    private_budgets: bool = False
    """True if several processes on one database may count budgets each for itself."""
    serve_known_keys: Annotated[timedelta, BeforeValidator(_duration)] = timedelta(0)
    """Greatest age of known keys that are served while PostgreSQL is away; off refuses calls."""
    body_limit: int = Field(default=32 * 1024 * 1024, gt=0)
    """Largest request body, in bytes."""
    bodies_limit: int = Field(default=1024 * 1024 * 1024, gt=0)
    """Bytes of all request bodies in flight; a call beyond it gets 503."""
    max_calls: int = Field(default=2000, gt=0)
    """Calls in flight at once; one more gets 503."""
    connections_per_address: int = Field(default=4096, gt=0)
    """Connections that one client address may hold open; a load balancer is one address."""
    trusted_proxies: Annotated[Networks, BeforeValidator(_networks)] = ()
    """Proxies before the gateway, whose X-Forwarded-For or Forwarded says for whom they ask."""
    header_timeout: float = Field(default=10.0, gt=0)
    """Seconds that a client has to send a request's headers."""
    body_min_rate: float = Field(default=1024.0, gt=0)
    """Bytes a second at which a request's body has to arrive, averaged over each window."""
    body_rate_window: float = Field(default=10.0, gt=0)
    """Seconds over which the rate of a request's body is averaged."""
    keep_alive_timeout: int = Field(default=75, gt=0)
    """Seconds for which a client's connection is kept open without a request."""
    connections: int = Field(default=1000, gt=0)
    """Connections open to one upstream at once."""
    connect_timeout: float = Field(default=5.0, gt=0)
    """Seconds to reach an upstream."""
    first_byte_timeout: float = Field(default=600.0, gt=0)
    """Seconds until the first content byte; keep-alives do not count."""
    stall_timeout: float = Field(default=300.0, gt=0)
    """Seconds between two content bytes of a stream."""
    retries: int = Field(default=1, ge=0, le=10)
    """Further attempts on the last route when an upstream fails before its first content byte."""
    retry_wait: float = Field(default=2.0, ge=0)
    """Longest wait for an upstream's retry-after; a longer one is passed on to the caller."""
    shared_provider_state: bool = False
    """True if teams may reach what a provider keeps for all of them, and get tokens of its own."""
    planning: PlanningMode = PlanningMode.AUTO
    """Planning mode of features without one: off, observe, apply or auto."""
    planning_memory_mb: int = Field(default=128, gt=0)
    """Megabytes that planning may remember of prompts; a busy team leaves others an even part."""
    answer_cache_mb: int = Field(default=64, gt=0)
    """Megabytes of answers that may be given again; a busy team leaves others an even part."""
    answer_cache_redis_mb: int = Field(default=256, gt=0)
    """Megabytes of such answers that all gateways keep in Redis, where they have one."""
    compaction: Compaction = Compaction.OFF
    """Compaction mode of features without one: off, trim, facts, facts+recall or native."""
    control_share: float = Field(default=0.05, ge=0, le=1)
    """The part of all conversations that is sent unmodified, to measure savings against."""
    learning_stake: float = Field(default=0.01, ge=0, le=1000)
    """US dollars that planning, and compaction, may each cost a feature more than sent directly
    before it earned that back. One prompt's write surcharge, or one conversation's compaction, may
    be lost where that is more; 0 pays for nothing in advance."""
    own_cost_usd_month: Dollars = Field(default=None, ge=0, le=1_000_000)
    """US dollars a month that running the gateway costs, which savings take off; unknown unset."""
    retention_days: int = Field(default=400, gt=0)
    """Days that receipts and histograms of latencies are kept; sums of calls and costs stay."""
    drain_grace: float = Field(default=20.0, gt=0)
    """Seconds that running calls get to end when the process is told to stop."""
    admin_token: Annotated[SecretStr, BeforeValidator(_strip_secret)] = Field(
        default=SecretStr(""), min_length=24
    )
    """Token that opens the pages at /admin, beside people's passwords and links."""
    public_url: str = Field(default="", pattern=r"(https?://[^/\s]+/?)?")
    """URL at which browsers reach the gateway; without, http with its host and port."""
    oidc_issuer: str = Field(default="", pattern=r"(https?://\S+)?")
    """Issuer of the OpenID Connect provider at which people sign in; none without."""
    oidc_client_id: str = ""
    """Name of the gateway at the provider."""
    oidc_client_secret: Annotated[SecretStr, BeforeValidator(_strip_secret)] = SecretStr("")
    """Secret of the gateway at the provider; empty for a public client."""
    oidc_name: str = "single sign-on"
    """Name of the provider on the sign-in page."""
    oidc_groups_claim: str = "groups"
    """Claim of the provider's token with the groups of a person."""
    oidc_roles: str = ""
    """Roles of groups: ``group=role`` or ``group=role:team``, separated by commas, in order."""
    oidc_create_people: bool = False
    """True if people in a group with a role may sign in though nobody has added them."""
    smtp_url: Annotated[SecretStr, BeforeValidator(_strip_secret)] = SecretStr("")
    """``smtp://USER:PASSWORD@HOST:PORT``, or ``smtps://``, of the server for mails."""
    mail_from: str = ""
    """Address that mails come from."""
    cors_origins: Annotated[Origins, BeforeValidator(_origins)] = ()
    """Other origins whose pages may call /v1/ from a browser; none without."""
    log_calls: bool = False
    """True if every call writes a log line; failures always do."""

    @property
    def learning_stake_nanos(self) -> int:
        """The stake in nano-dollars."""
        return round(self.learning_stake * 1e9)

    @property
    def ledger_url(self) -> str:
        """The URL of the database with the ledger."""
        return self.database_url or f"sqlite:///{self.folder / 'thriftgate.db'}"

    def browser_url(self, port: int) -> str:
        """The URL at which browsers reach the gateway, without a path.

        Args:
            port: Port that it listens on.
        """
        if self.public_url:
            return self.public_url.rstrip("/")
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)  # noqa: S104
        is_bare_v6 = ":" in host and not host.startswith("[")
        return f"http://[{host}]:{port}" if is_bare_v6 else f"http://{host}:{port}"

    @property
    def known_keys_max_age_s(self) -> float:
        """Seconds for which known keys are served; 0 for SQLite, which is never away."""
        is_sqlite = self.ledger_url.startswith("sqlite")
        return 0.0 if is_sqlite else self.serve_known_keys.total_seconds()


def read(environment: Mapping[str, str] | None = None) -> Settings:
    """The settings of this process.

    Raises:
        OperatorError: If a name with our prefix is unknown or a value has the wrong form.
    """
    names = _environment() if environment is None else environment
    variables = {PREFIX + name.upper() for name in Settings.model_fields} | _FOREIGN
    unknown = sorted(n for n in names if n.upper().startswith(PREFIX) and n not in variables)
    if unknown:
        raise OperatorError(
            f"Unknown setting {', '.join(unknown)}. {_suggestion(unknown[0].upper(), variables)}"
            f"Known: {', '.join(sorted(variables - _FOREIGN))}."
        )
    values = {
        name: names[PREFIX + name.upper()]
        for name in Settings.model_fields
        if PREFIX + name.upper() in names
    }
    if not values.get("admin_token", "").strip():
        values.pop("admin_token", None)  # set to nothing, as files of settings do, is not set
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        lines = (
            _setting_error(str(detail["loc"][0]), detail["input"]) for detail in error.errors()
        )
        raise OperatorError("\n".join(lines)) from None


def _suggestion(name: str, variables: set[str]) -> str:
    """A hint for an unknown name: what replaced it, or one that is spelled nearly so."""
    if name in _REPLACED:
        return f"It was removed: set {_REPLACED[name]} instead. "
    near = get_close_matches(name, variables - _FOREIGN, n=1)
    return f"Did you mean {near[0]}? " if near else ""


def _setting_error(name: str, value: object) -> str:
    """The error for a setting's value: what it must be, and what it is for."""
    field = Settings.model_fields[name]
    needed = " ".join(filter(None, (_kind(field.annotation), _limits(field.metadata))))
    shown = "" if field.annotation is SecretStr else f" (got {value!r})"
    return f"{PREFIX}{name.upper()}: it must be {needed}{shown}. {descriptions().get(name, '')}"


def descriptions() -> dict[str, str]:
    """The docstring of each setting, read from the source; nothing where there is no source.

    That is slow, and only errors need it. Pydantic's ``use_attribute_docstrings`` would do it at
    every import.
    """
    try:
        (model,) = ast.parse(getsource(Settings)).body
    except OSError:
        return {}
    statements = model.body if isinstance(model, ast.ClassDef) else []
    return {
        field.target.id: cleandoc(text.value.value)
        for field, text in pairwise(statements)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _kind(kind: object) -> str:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f"one of {', '.join(member.value for member in kind)}"
    return next((words for annotation, words in _KINDS if annotation is kind), "a text")


def _limits(constraints: Iterable[object]) -> str:
    """The least and the most a number may be."""
    limits: dict[str, object] = {}
    for constraint in constraints:
        limits |= {name: getattr(constraint, name) for name in _LIMITS if hasattr(constraint, name)}
    return " ".join(word.format(limits[name]) for name, word in _LIMITS.items() if name in limits)


def upstream_keys(names: Iterable[str]) -> dict[str, str]:
    """The values of the variables that hold upstreams' keys; unset ones are left out.

    A line end around a key is no part of it: secrets kept in files often have one.
    """
    environment = _environment()
    return {name: key for name in names if (key := environment.get(name, "").strip())}


def engine_environment(secrets: Iterable[str]) -> dict[str, str]:
    """The environment for an engine: ours, without our settings and without these variables.

    Args:
        secrets: Variables that hold providers' keys, which are none of an engine's business.
    """
    hidden = set(secrets)
    return {
        name: value
        for name, value in _environment().items()
        if name not in hidden and not name.upper().startswith(PREFIX)
    }


def _environment() -> Mapping[str, str]:
    return os.environ  # noqa: TID251 - the one place that may
