"""OpenTelemetry's names, and what they are derived from."""

import pytest

from proxy.services.telemetry import genai_names as names
from proxy.services.telemetry.genai_names import BUCKETS, operation_name, provider_name


@pytest.mark.parametrize(
    ("endpoint", "operation"),
    [("messages", "chat"), ("embeddings", "embeddings"), ("audio/speech", "audio/speech")],
)
def test_an_operation_is_named_by_its_path(endpoint, operation):
    assert operation_name(endpoint) == operation


@pytest.mark.parametrize(
    ("host", "provider"),
    [
        ("api.openai.com", "openai"),
        ("x.openai.azure.com", "azure.ai.openai"),
        ("us-east5-aiplatform.googleapis.com", "gcp.vertex_ai"),
        ("aiplatform.eu.rep.googleapis.com", "gcp.vertex_ai"),
        ("bedrock-runtime.us-east-1.amazonaws.com", "aws.bedrock"),
        ("bedrock-mantle.us-east-1.api.aws", "aws.bedrock"),
        ("127.0.0.1", "house"),
    ],
)
def test_a_provider_is_known_by_its_host(host, provider):
    assert provider_name(host, "house") == provider


def test_buckets_are_those_of_the_conventions():
    assert BUCKETS[names.OPERATION_DURATION][0] == 0.01
    assert BUCKETS[names.OPERATION_DURATION][-1] == 81.92
    assert BUCKETS[names.TOKEN_USAGE][-1] == 67_108_864
    assert all(list(bounds) == sorted(bounds) for bounds in BUCKETS.values())
