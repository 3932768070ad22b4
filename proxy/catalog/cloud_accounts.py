"""An upstream's fields of accounts in clouds: how its requests are signed, and what it takes.

::

    kind                provider   auth without key_env
    anthropic-bedrock   bedrock    aws
    anthropic-vertex    vertex     google
    any other           as said    key
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from proxy.catalog.entries import Auth, Kind
from slo.toml.table_reader import TableReader, checked_value

#: The provider of each kind that is a cloud's own form of Anthropic's API.
CLOUD_KINDS: Final[Mapping[Kind, str]] = MappingProxyType(
    {"anthropic-bedrock": "bedrock", "anthropic-vertex": "vertex"}
)
_AUTHS: Final[dict[str, Auth]] = {"key": "key", "aws": "aws", "google": "google"}
_USUAL_AUTH: Final[Mapping[Kind, Auth]] = MappingProxyType(
    {"anthropic-bedrock": "aws", "anthropic-vertex": "google"}
)
#: Beta features that Bedrock takes in a body's ``anthropic_beta``; it answers 400 to all others.
#: Some models take fewer. Source: AWS, Bedrock, Messages API; LiteLLM's table of beta features and
#: the refusals that users of Claude Code and CLIProxyAPI report (2026-04 to 2026-10).
_BEDROCK_BETAS: Final = frozenset(
    {
        "compact-2026-01-12",
        "computer-use-2025-01-24",
        "computer-use-2025-11-24",
        "context-1m-2025-08-07",
        "context-management-2025-06-27",
        "dangerous-tool-use-2026-09-03",
        "effort-2025-11-24",
        "fine-grained-tool-streaming-2025-05-14",
        "interleaved-thinking-2025-05-14",
        "mid-conversation-output-config-2026-07-01",
        "mid-conversation-tool-changes-2026-07-01",
        "thinking-binding-controls-2026-08-01",
        "thinking-display-updates-2026-08-18",
        "tool-examples-2025-10-29",
        "tool-search-tool-2025-10-19",
    }
)
#: Beta features that Vertex AI takes. Source: LiteLLM's table of beta features (2026-10).
_VERTEX_BETAS: Final = frozenset(
    {
        "compact-2026-01-12",
        "compact-2026-09-04",
        "computer-use-2025-01-24",
        "computer-use-2025-11-24",
        "context-1m-2025-08-07",
        "context-management-2025-06-27",
        "dangerous-tool-use-2026-09-03",
        "interleaved-thinking-2025-05-14",
        "per-turn-control-2026-07-01",
        "thinking-binding-controls-2026-08-01",
        "thinking-display-updates-2026-08-18",
        "tool-search-tool-2025-10-19",
        "web-search-2025-03-05",
    }
)
_BETAS: Final[Mapping[Kind, frozenset[str]]] = MappingProxyType(
    {"anthropic-bedrock": _BEDROCK_BETAS, "anthropic-vertex": _VERTEX_BETAS}
)
#: The region in the name of one of Bedrock's hosts. Source: AWS, Bedrock endpoints (2026-11).
_AWS_HOST: Final = re.compile(r"bedrock-(?:runtime|mantle)(?:-fips)?\.([a-z]{2}(?:-[a-z]+)+-\d)\.")
_FIX_REGION: Final = 'write aws_region = "us-east-1" or another'


@dataclass(frozen=True, slots=True)
class CloudAccount:
    """The fields of an upstream that are about its account; as ``Upstream`` has them."""

    auth: Auth
    aws_region: str
    aws_profile: str
    betas: frozenset[str] | None


def cloud_fields(table: TableReader, kind: Kind, address: str, *, has_key: bool) -> CloudAccount:
    """The account of an upstream's table; faults are added to the table's problems.

    Args:
        table: The upstream's.
        kind: API that it speaks.
        address: Its address; "" where it is none.
        has_key: True if a variable with its key is named.
    """
    usual = "key" if has_key else _USUAL_AUTH.get(kind, "key")
    auth = _AUTHS.get(table.choice("auth", _AUTHS), usual)
    if has_key and auth != "key":
        fix = f'leave out key_env, or auth = "{auth}"'
        table.add_problem("auth", "is beside key_env, which is another way", fix)
    region = table.text("aws_region", "us-east-1") or _region_of(address)
    if auth == "aws" and not region:
        table.problems.append(table.node.problem("has no region to sign for", _FIX_REGION))
    return CloudAccount(
        auth, region if auth == "aws" else "", table.text("aws_profile") or "", _betas(table, kind)
    )


def _region_of(address: str) -> str:
    """The AWS region that an address names; "" for none."""
    try:
        match = _AWS_HOST.search(urlsplit(address).hostname or "")
    except ValueError:
        return ""
    return match[1] if match else ""


def _betas(table: TableReader, kind: Kind) -> frozenset[str] | None:
    """The beta features of the table, else those that its kind is known to take."""
    if "betas" not in table.nodes:
        return _BETAS.get(kind)
    if kind not in CLOUD_KINDS:
        what = "says nothing of this kind, which gets all that callers ask for"
        table.add_problem("betas", what, "leave it out", warning=True)
    named = (checked_value(node, str, table.problems) for node in table.elements("betas"))
    return frozenset(filter(None, named))
