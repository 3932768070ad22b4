"""Reads an upstream's table of the catalog; checks that its address and headers can be sent."""

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Final, get_args
from urllib.parse import SplitResult, urlsplit

from proxy.catalog import numbers
from proxy.catalog.body_fields import body_fields
from proxy.catalog.cloud_accounts import CLOUD_KINDS, beta_features, cloud_account
from proxy.catalog.entries import CONTINUES, HINTS, Auth, Kind, Upstream
from slo.decimals import whole_number
from slo.replica_cost import ReplicaPrice
from slo.toml.fields import Field, choice_of, flag, keys, read_fields, set_of
from slo.toml.nodes import Node
from slo.toml.problems import Problem
from slo.toml.table_reader import TableReader, checked_value

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
    table = TableReader(node, keys(FIELDS), problems)
    values = read_fields(table, FIELDS)
    del values["discount"]  # of its routes, which read it
    price = ReplicaPrice(gpus=values.pop("gpus"), gpu_hour_nanos=values.pop("price_per_gpu_hour"))
    if {"gpus", "price_per_gpu_hour"} & table.nodes.keys():
        values["replica_price"] = price
    if values["serves_responses"] is None:
        values["serves_responses"] = _AZURE_DEPLOYMENT not in values["base_url"]
    values["provider"] = values["provider"] or CLOUD_KINDS.get(values["kind"], "")
    return Upstream(name=name, **values | cloud_account(table, values))


def _gpus(table: TableReader, field: Field) -> int | None:
    count = whole_number(table.nodes[field.key].value)
    if count is None or not 0 <= count <= _MAX_GPUS:
        fix = f"write a number from 0 to {_MAX_GPUS}; 0 for a machine without any"
        table.add_problem(field.key, "is no number of GPUs", fix)
    return count


def _address(table: TableReader, field: Field) -> str:
    """The address without a slash at its path's end; "" where it is none."""
    base_url = table.get(field.key, str) or ""
    place = table.nodes[field.key]
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


def _key_header(table: TableReader, field: Field) -> str:
    name = (table.text(field.key, field.example) or "").lower()
    if name:
        _check_name(name, table.nodes[field.key], table.problems)
    return name


def _headers(table: TableReader, field: Field) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, node in table.entries(field.key).items():
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


def _discount(table: TableReader, field: Field) -> Fraction:
    return numbers.discount(table.nodes[field.key], table.problems)


def _gpu_price(table: TableReader, field: Field) -> int | None:
    return numbers.nanos(table.nodes[field.key], table.problems)


FIELDS: Final = (
    Field("kind", choice_of(get_args(Kind)), "openai", "the API it speaks, see below"),
    Field("base_url", _address, "", "address up to and including `/v1`; see below", missing=_FIX),
    Field("key_env", str, "", "environment variable with its key", example="PROVIDER_API_KEY"),
    Field("key_header", _key_header, "", "header of the bare key, see below", example="x-api-key"),
    Field("auth", choice_of(get_args(Auth)), None, "`key`, `aws`, `google`, see below", "by kind"),
    Field("aws_region", str, "", "region to sign for", "from the address", example="us-east-1"),
    Field("aws_profile", str, "", "AWS profile with the credentials", "AWS's usual chain"),
    Field("betas", beta_features, None, "list: beta features that callers may use", "the cloud's"),
    Field("headers", _headers, {}, "table, sent with every request"),
    Field("body_fields", body_fields, None, "see [odd fields](#odd-fields-of-an-upstream)"),
    Field("provider", str, "", "whose it is; see [cache rules](#cache-rules)", "the cloud's"),
    Field("region", str, "", "where it binds processing to", example="eu"),
    Field("discount", _discount, "0", "contracted part off list prices, 0 to 1, of its routes"),
    flag("drops_server_tools", "leaves out tools of other providers, see below", default=False),
    flag("asks_usage", "a stream has to be asked for its usage", default=True),
    Field("serves_responses", bool, None, "it has the Responses API; see below", "by address"),
    flag("bills_abandoned", "an answer whose caller left may be billed", default=True),
    flag("shares_cache", "teams may read each other's prompts from its cache", default=False),
    Field("hints", set_of(HINTS), frozenset(), "list: what its scheduler is told, see below"),
    flag("adapts", "only as many calls at once as it begins to answer quickly", default=False),
    Field("continues", choice_of(CONTINUES), "", "how it [goes on](#unbroken-streams) from text"),
    Field("gpus", _gpus, 1, "GPUs of its machine; 0 for none", "1, where a price is set"),
    Field("price_per_gpu_hour", _gpu_price, None, "US dollars, as a string", "unknown"),
)
