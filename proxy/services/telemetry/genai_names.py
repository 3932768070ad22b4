"""OpenTelemetry's names for spans and metrics of language models; the only place that has them.

All are of status Development, so they change: here, and nowhere else.
Source: open-telemetry/semantic-conventions-genai (2026-11).
"""

from collections.abc import Mapping
from typing import Final

OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"  # those of caches included
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"  # reasoning included
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_write.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
TOKEN_TYPE: Final = "gen_ai.token.type"  # noqa: S105 - a name
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"
HTTP_STATUS: Final = "http.response.status_code"
URL_PATH: Final = "url.path"

#: No standard names a gateway's own facts yet.
CALL_ID: Final = "thriftgate.call_id"
TEAM: Final = "thriftgate.team"
FEATURE: Final = "thriftgate.feature"
OUTCOME: Final = "thriftgate.outcome"
ROUTE: Final = "thriftgate.route"
ATTEMPT: Final = "thriftgate.attempt"
COST_USD: Final = "thriftgate.cost_usd"
REROUTE_REASON: Final = "thriftgate.reroute_reason"
CACHE_MISS: Final = "thriftgate.cache_miss"

OPERATION_DURATION: Final = "gen_ai.client.operation.duration"
TOKEN_USAGE: Final = "gen_ai.client.token.usage"  # noqa: S105 - a name
OPERATION_FIRST_CHUNK: Final = "gen_ai.client.operation.time_to_first_chunk"

#: Bounds of each metric's buckets, in seconds or tokens.
BUCKETS: Final[Mapping[str, tuple[float, ...]]] = {
    OPERATION_DURATION: tuple(0.01 * 2**n for n in range(14)),
    TOKEN_USAGE: tuple(float(4**n) for n in range(14)),
    OPERATION_FIRST_CHUNK: (
        0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.0, 2.5, 5.0, 7.5,
        10.0,
    ),
}  # fmt: skip

_OPERATIONS: Final = {
    "chat/completions": "chat",
    "messages": "chat",
    "responses": "chat",
    "completions": "text_completion",
    "embeddings": "embeddings",
}
_PROVIDERS: Final = (
    ("api.openai.com", "openai"),
    ("api.anthropic.com", "anthropic"),
    (".openai.azure.com", "azure.ai.openai"),
    (".services.ai.azure.com", "azure.ai.inference"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("aiplatform.googleapis.com", "gcp.vertex_ai"),
    (".rep.googleapis.com", "gcp.vertex_ai"),
    ("api.deepseek.com", "deepseek"),
    ("api.groq.com", "groq"),
    ("api.mistral.ai", "mistral_ai"),
    ("api.moonshot.ai", "moonshot_ai"),
    ("api.x.ai", "x_ai"),
)
_AWS_HOSTS: Final = (".amazonaws.com", ".api.aws")


def operation_name(endpoint: str) -> str:
    """The operation of a call, by its path below ``/v1/``; the path where it has no name."""
    return _OPERATIONS.get(endpoint, endpoint)


def provider_name(host: str, upstream: str) -> str:
    """The provider at a host; the upstream's own name where the host is no known provider's."""
    if "bedrock" in host and host.endswith(_AWS_HOSTS):
        return "aws.bedrock"
    return next((name for ending, name in _PROVIDERS if host.endswith(ending)), upstream)
