"""Fields of an upstream's account in a cloud."""

import pytest

from proxy.catalog.entries import Upstream
from proxy.catalog.upstreams import upstream
from slo.toml.nodes import parse_toml
from slo.toml.problems import Problem

BEDROCK = 'kind = "anthropic-bedrock"\nbase_url = "https://bedrock-runtime.eu-west-1.amazonaws.com"'
VERTEX = 'kind = "anthropic-vertex"\nbase_url = "https://aiplatform.googleapis.com/v1/projects/p"'


def read(*lines: str) -> tuple[Upstream, list[Problem]]:
    problems: list[Problem] = []
    return upstream("up", parse_toml("\n".join(lines), "c.toml"), problems), problems


def test_bedrock_is_signed_for_the_region_in_its_address():
    parsed, problems = read(BEDROCK)

    assert problems == []
    assert (parsed.auth, parsed.aws_region, parsed.provider) == ("aws", "eu-west-1", "bedrock")
    assert parsed.speaks_messages
    assert parsed.needs_credentials
    assert "context-management-2025-06-27" in (parsed.betas or ())


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("bedrock-runtime.us-east-1.amazonaws.com", "us-east-1"),
        ("bedrock-runtime-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("bedrock-mantle.ap-southeast-2.api.aws", "ap-southeast-2"),
        ("vpce-0a1b.bedrock-runtime.us-west-2.vpce.amazonaws.com", "us-west-2"),
    ],
)
def test_the_region_is_read_off_each_form_of_host(host: str, region: str):
    parsed, _ = read('auth = "aws"', f'base_url = "https://{host}/v1"')

    assert (parsed.kind, parsed.aws_region) == ("openai", region)


def test_a_host_without_a_region_needs_one_stated():
    (problem,) = read(BEDROCK.replace("bedrock-runtime.eu-west-1.amazonaws.com", "proxy.test"))[1]
    stated, problems = read(BEDROCK, 'aws_region = "us-east-1"', 'aws_profile = "gateway"')

    assert problem.what == "has no region to sign for"
    assert "aws_region" in problem.fix
    assert problems == []
    assert (stated.aws_region, stated.aws_profile) == ("us-east-1", "gateway")


def test_vertex_asks_google_for_tokens():
    parsed, problems = read(VERTEX)

    assert problems == []
    assert (parsed.auth, parsed.aws_region, parsed.provider) == ("google", "", "vertex")


def test_a_key_takes_the_place_of_an_account():
    parsed, problems = read(BEDROCK, 'key_env = "AWS_BEARER_TOKEN_BEDROCK"')

    assert (parsed.auth, parsed.aws_region, problems) == ("key", "", [])


def test_a_key_beside_an_account_is_reported():
    (problem,) = read(BEDROCK, 'key_env = "KEY"', 'auth = "aws"')[1]

    assert problem.where == "auth"
    assert "key_env" in problem.what


def test_other_kinds_have_no_account_and_take_all_betas_unless_stated():
    parsed, _ = read('kind = "anthropic"', 'base_url = "https://api.anthropic.com/v1"')
    restricted, problems = read(VERTEX, 'betas = ["context-1m-2025-08-07"]')

    assert (parsed.auth, parsed.betas, parsed.needs_credentials) == ("key", None, False)
    assert (restricted.betas, problems) == (frozenset({"context-1m-2025-08-07"}), [])


def test_an_unknown_way_is_reported_with_those_there_are():
    (problem,) = read(VERTEX, 'auth = "googel"')[1]

    assert "google" in problem.fix


def test_betas_of_another_kind_are_noted():
    lines = ('kind = "anthropic"', 'base_url = "https://a.test/v1"', 'betas = ["x"]')
    (problem,) = read(*lines)[1]

    assert (problem.where, problem.warning) == ("betas", True)
