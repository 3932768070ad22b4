"""Reads an upstream's cloud account: how its requests are signed, and which beta features it takes.

::

    kind                provider   auth without key_env
    anthropic-bedrock   bedrock    aws
    anthropic-vertex    vertex     google
    any other           as said    key
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from proxy.catalog.entries import Auth, Kind
from slo.toml.fields import Field
from slo.toml.table_reader import TableReader, checked_value

#: The provider of each kind that is a cloud's own form of Anthropic's API.
CLOUD_KINDS: Final[Mapping[Kind, str]] = MappingProxyType(
    {"anthropic-bedrock": "bedrock", "anthropic-vertex": "vertex"}
)
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


def cloud_account(table: TableReader, values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an upstream's account, by the values of its table and its kind.

    Faults are added to the table's problems.
    """
    kind, has_key = values["kind"], bool(values["key_env"])
    auth = values["auth"] or ("key" if has_key else _USUAL_AUTH.get(kind, "key"))
    if has_key and auth != "key":
        fix = f'leave out key_env, or auth = "{auth}"'
        table.add_problem("auth", "is beside key_env, which is another way", fix)
    region = values["aws_region"] or _region_of(values["base_url"])
    if auth == "aws" and not region:
        table.problems.append(table.node.problem("has no region to sign for", _FIX_REGION))
    if "betas" in table.nodes and kind not in CLOUD_KINDS:
        what = "says nothing of this kind, which gets all that callers ask for"
        table.add_problem("betas", what, "leave it out", warning=True)
    betas = values["betas"] if "betas" in table.nodes else _BETAS.get(kind)
    return {"auth": auth, "aws_region": region if auth == "aws" else "", "betas": betas}


def beta_features(table: TableReader, field: Field) -> frozenset[str]:
    """The beta features of an array, of whatever name."""
    names = (checked_value(node, str, table.problems) for node in table.elements(field.key))
    return frozenset(filter(None, names))


def _region_of(address: str) -> str:
    """The AWS region that an address names; "" for none."""
    try:
        match = _AWS_HOST.search(urlsplit(address).hostname or "")
    except ValueError:
        return ""
    return match[1] if match else ""
