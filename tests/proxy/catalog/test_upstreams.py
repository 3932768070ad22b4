import pytest

from proxy.catalog.entries import Upstream
from proxy.catalog.upstreams import upstream
from slo.replica_cost import ReplicaPrice
from slo.toml.nodes import parse_toml
from slo.toml.problems import Problem

GOOD = 'base_url = "http://up/v1"\n'


def read(text: str) -> tuple[Upstream, list[Problem]]:
    problems: list[Problem] = []
    return upstream("up", parse_toml(text, "c.toml"), problems), problems


@pytest.mark.parametrize(
    ("written", "base_url"),
    [
        ("https://up/v1/", "https://up/v1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("http://bücher.example/v1", "http://bücher.example/v1"),
        ("https://up", "https://up"),
        ("https://up/v1/?api-version=3", "https://up/v1?api-version=3"),
    ],
)
def test_an_address_is_kept_with_all_that_is_sent_of_it(written: str, base_url: str) -> None:
    parsed, problems = read(f'base_url = "{written}"')
    assert (parsed.base_url, problems) == (base_url, [])


@pytest.mark.parametrize(
    ("written", "what"),
    [
        ("up/v1", "is no http:// or https:// address"),
        ("ftp://up/v1", "is no http:// or https:// address"),
        ("http://up:99999/v1", "has a host or port that is none"),
        ("http://up:many/v1", "has a host or port that is none"),
        ("http://[::1/v1", "has a host or port that is none"),
        ("http://up:0/v1", "has the port 0, which cannot be connected to"),
        ("http:///v1", "names no host"),
        ("http://a..b/v1", "names no host"),
        ("http://up/v1#here", "has a #fragment, which is never sent"),
        ("http://up/v1?of=é", "holds letters that no path has"),
        ("http://up/v 1", "holds a space or a line end"),
        ("http://u\\np/v1", "holds a space or a line end"),
    ],
)
def test_an_address_that_cannot_be_called_is_reported(written: str, what: str) -> None:
    (problem,) = read(f'kind = "openai"\nbase_url = "{written}"')[1]
    assert (problem.line, problem.where, problem.what) == (2, "base_url", what)
    assert problem.fix
    assert not problem.warning


def test_user_in_an_address_is_warned_about_without_its_password() -> None:
    (problem,) = read('base_url = "http://ann:secret@up/v1"')[1]
    assert problem.warning
    assert "is not sent" in problem.what
    assert "secret" not in str(problem)


@pytest.mark.parametrize(
    ("written", "where", "what"),
    [
        ('headers.a = "x\\ny"', "headers.a", "holds a line end"),
        ('headers.a = "x\\ry"', "headers.a", "holds a line end"),
        ('headers.a = "x\\u0000"', "headers.a", "holds letters that no header can"),
        ('headers.a = "ключ"', "headers.a", "holds letters that no header can"),
        ('headers."a b" = "x"', "headers.a b", "names the header 'a b', which can be none"),
        ('headers."a:" = "x"', "headers.a:", "names the header 'a:', which can be none"),
        ('headers."" = "x"', "headers.", "names the header '', which can be none"),
        ('key_header = "api key"', "key_header", "names the header 'api key', which can be none"),
    ],
)
def test_a_header_that_cannot_be_sent_is_reported(written: str, where: str, what: str) -> None:
    (problem,) = read(GOOD + written)[1]
    assert (problem.line, problem.where, problem.what) == (2, where, what)
    assert problem.fix
    assert not problem.warning


def test_headers_are_sent_as_they_stand() -> None:
    parsed, problems = read(GOOD + 'headers = { "X-Team_1" = "a\\tü; b" }\nkey_header = "Api-Key"')
    assert problems == []
    assert parsed.headers == {"X-Team_1": "a\tü; b"}
    assert parsed.key_header == "api-key"


@pytest.mark.parametrize(
    ("written", "price"),
    [
        ("", None),
        ('price_per_gpu_hour = "2.49"', ReplicaPrice(gpus=1, gpu_hour_nanos=2_490_000_000)),
        (
            'price_per_gpu_hour = "2.49"\ngpus = 8',
            ReplicaPrice(gpus=8, gpu_hour_nanos=2_490_000_000),
        ),
        ("gpus = 4", ReplicaPrice(gpus=4)),
    ],
)
def test_a_machine_is_priced_by_the_hour(written: str, price: ReplicaPrice | None) -> None:
    parsed, problems = read(GOOD + written)

    assert (parsed.replica_price, problems) == (price, [])


@pytest.mark.parametrize(
    ("address", "written", "serves"),
    [
        ("https://a.openai.azure.com/openai/v1", "", True),
        ("https://a.openai.azure.com/openai/deployments/d", "", False),
        ("https://a.openai.azure.com/openai/deployments/d", "serves_responses = true", True),
    ],
)
def test_an_azure_deployment_has_no_responses_unless_it_is_said(
    address: str, written: str, *, serves: bool
) -> None:
    parsed, problems = read(f'base_url = "{address}"\n{written}')

    assert (parsed.serves_responses, problems) == (serves, [])


@pytest.mark.parametrize("gpus", ["-1", "1.5", '"two"', "true", "9999"])
def test_gpus_are_a_whole_number(gpus: str) -> None:
    (problem,) = read(f"{GOOD}gpus = {gpus}")[1]

    assert (problem.where, problem.what) == ("gpus", "is no number of GPUs")


def test_teams_share_a_cache_only_where_the_upstream_says_so() -> None:
    parsed, problems = read(GOOD + "shares_cache = true")

    assert (parsed.shares_cache, problems) == (True, [])
    assert not read(GOOD)[0].shares_cache


def test_hints_are_those_that_schedulers_take() -> None:
    parsed, problems = read(GOOD + 'hints = ["llm-d", "vllm", "vllm"]')
    assert (parsed.hints, problems) == (frozenset({"llm-d", "vllm"}), [])
    assert read(GOOD)[0].hints == frozenset()

    parsed, (problem,) = read(GOOD + 'hints = ["llmd"]')
    assert parsed.hints == frozenset()
    assert (problem.line, problem.what) == (2, 'names "llmd", which is not known')
    assert problem.fix == "did you mean llm-d?"


@pytest.mark.parametrize("kind", ["openai", "anthropic", "gemini"])
def test_an_upstream_speaks_the_api_it_names(kind: str) -> None:
    parsed, problems = read(f'kind = "{kind}"\nbase_url = "https://up.test/v1"')

    assert (parsed.kind, problems) == (kind, [])
