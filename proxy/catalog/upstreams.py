"""Reads an upstream's table of the catalog; checks that its address and headers can be sent."""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import SplitResult, urlsplit

from proxy.catalog import numbers
from proxy.catalog.body_fields import body_fields
from proxy.catalog.cloud_accounts import CLOUD_KINDS, cloud_fields
from proxy.catalog.entries import HINTS, Kind, Upstream
from slo.decimals import whole_number
from slo.replica_cost import ReplicaPrice
from slo.toml.nodes import Node
from slo.toml.problems import Problem
from slo.toml.table_reader import TableReader, checked_choice, checked_value

_KINDS: Final[dict[str, Kind]] = {
    "openai": "openai",
    "anthropic": "anthropic",
    "anthropic-bedrock": "anthropic-bedrock",
    "anthropic-vertex": "anthropic-vertex",
    "gemini": "gemini",
}
_KEYS: Final = (
    "kind", "base_url", "key_env", "key_header", "provider", "region", "asks_usage",
    "serves_responses", "drops_server_tools", "bills_abandoned", "headers",
    "body_fields", "shares_cache", "hints", "adapts", "discount", "gpus", "price_per_gpu_hour",
    "auth", "aws_region", "aws_profile", "betas",
)  # fmt: skip
_FIX: Final = 'write base_url = "https://…/v1"'
_MAX_GPUS: Final = 4096
#: In the address of an Azure deployment, which has chat completions and no Responses.
#: Source: Microsoft, Azure OpenAI, Responses API (2026-11).
_AZURE_DEPLOYMENT: Final = "/openai/deployments/"
#: Characters that end a line of a request, or a part of it.
#: Source: RFC 3986, section 2 (2005-01).
_UNSENDABLE: Final = re.compile(r"[\0- \x7f]")
#: Names and values of headers; a value is sent as Latin-1.
#: Source: RFC 9110, sections 5.5 and 5.6.2 (2022-06).
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\t -~\x80-\xff]*")


def upstream(name: str, node: Node, problems: list[Problem]) -> Upstream:
    """Read the upstream of a table; its faults are added to ``problems``."""
    table = TableReader(node, _KEYS, problems)
    if "discount" in table.nodes:
        numbers.discount(table.nodes["discount"], problems)
    kind = _KINDS.get(table.choice("kind", _KINDS), "openai")
    address, key_env = _address(table), table.text("key_env", "PROVIDER_API_KEY") or ""
    account = cloud_fields(table, kind, address, has_key=bool(key_env))
    return Upstream(
        name=name,
        kind=kind,
        base_url=address,
        key_env=key_env,
        key_header=_key_header(table),
        auth=account.auth,
        aws_region=account.aws_region,
        aws_profile=account.aws_profile,
        betas=account.betas,
        provider=table.text("provider") or CLOUD_KINDS.get(kind, ""),
        region=table.text("region", "eu") or "",
        asks_usage=table.flag("asks_usage", default=True),
        serves_responses=table.flag("serves_responses", default=_AZURE_DEPLOYMENT not in address),
        drops_server_tools=table.flag("drops_server_tools", default=False),
        bills_abandoned=table.flag("bills_abandoned", default=True),
        headers=_headers(table),
        body_fields=body_fields(table),
        shares_cache=table.flag("shares_cache", default=False),
        hints=_hints(table),
        adapts=table.flag("adapts", default=False),
        replica_price=_replica_price(table),
    )


def _hints(table: TableReader) -> frozenset[str]:
    nodes = table.elements("hints")
    return frozenset(filter(None, (checked_choice(node, HINTS, table.problems) for node in nodes)))


def _replica_price(table: TableReader) -> ReplicaPrice | None:
    """The price of the machine behind it; None where nothing is said of it."""
    price, gpus = table.nodes.get("price_per_gpu_hour"), table.nodes.get("gpus")
    if price is None and gpus is None:
        return None
    count = whole_number(gpus.value) if gpus is not None else 1
    if count is None or not 0 <= count <= _MAX_GPUS:
        fix = f"write a number from 0 to {_MAX_GPUS}; 0 for a machine without any"
        table.add_problem("gpus", "is no number of GPUs", fix)
    return ReplicaPrice(
        gpus=count or 0,
        gpu_hour_nanos=None if price is None else numbers.nanos(price, table.problems),
    )


def _address(table: TableReader) -> str:
    """The address without a slash at its path's end; "" where it is none."""
    base_url = table.get("base_url", str) or ""
    place = table.nodes.get("base_url", table.node)
    try:
        address = urlsplit(base_url if base_url.startswith(("http://", "https://")) else "")
        faults = list(_address_faults(address, address.port))
    except ValueError:
        fix = f"{_FIX}, a port from 1 to 65535"
        table.problems.append(place.problem("has a host or port that is none", fix))
        return ""
    if _UNSENDABLE.search(base_url):
        faults.append(("holds a space or a line end", "write %20 for a space, or leave it out"))
    table.problems += [place.problem(*fault) for fault in faults]
    if address.username is not None:
        fix = 'write headers = { authorization = "Basic …" }'
        table.problems.append(place.problem("names a user, which is not sent", fix, warning=True))
    return address._replace(path=address.path.rstrip("/")).geturl()


def _address_faults(address: SplitResult, port: int | None) -> Iterator[tuple[str, str]]:
    """The faults of an address, each with its fix."""
    if not address.scheme:
        yield "is no http:// or https:// address", _FIX
    elif not _is_host(address.hostname or ""):
        yield "names no host", _FIX
    if port == 0:
        yield "has the port 0, which cannot be connected to", "write another, or leave it out"
    if address.fragment:
        yield "has a #fragment, which is never sent", "leave it out"
    if not f"{address.path}{address.query}".isascii():
        yield (
            "holds letters that no path has",
            "write them as UTF-8 in % and digits, such as %C3%A9",
        )


def _is_host(name: str) -> bool:
    try:
        return bool(name.encode("idna"))
    except UnicodeError:
        return False


def _key_header(table: TableReader) -> str:
    name = (table.text("key_header", "x-api-key") or "").lower()
    if name:
        _check_name(name, table.nodes["key_header"], table.problems)
    return name


def _headers(table: TableReader) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, node in table.entries("headers").items():
        value = headers[name] = checked_value(node, str, table.problems) or ""
        _check_name(name, node, table.problems)
        if not _VALUE.fullmatch(value):
            table.problems.append(_header_problem(value, node))
    return headers


def _check_name(name: str, node: Node, problems: list[Problem]) -> None:
    if not _NAME.fullmatch(name):
        fix = "write letters, digits and hyphens only"
        problems.append(node.problem(f"names the header {name!r}, which can be none", fix))


def _header_problem(value: str, node: Node) -> Problem:
    """Reason that a header cannot be sent; its value may be a secret and is not shown."""
    if any(letter in value for letter in "\r\n"):
        return node.problem("holds a line end", "write it on one line")
    return node.problem(
        "holds letters that no header can", "write it in Latin letters, or encode it"
    )
