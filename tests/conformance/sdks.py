"""The SDKs whose own tests run, and what differs between their APIs."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class SdkUnderTest:
    """One SDK, and the upstream that its tests need.

    Attributes:
        name: Of the distribution and of its package.
        base_path: What its base URL ends in; the paths of its resources follow.
        key_variable: Names the upstream's key in the gateway's environment.
        catalog: The gateway's, with ``{url}`` for the upstream's address.
        packages: What its tests need beside pytest, by the folder that each installs.
        arguments: For pytest.
        known_paths: Paths of operations that the SDK reads from earlier answers, by expression.
        beta_folder: Resources below it are those of another version of the API, which
            ``beta_query`` asks for; "" for none.
        ends_streams: Ends a stream of events, after the last one.
    """

    name: str
    base_path: str
    key_variable: str
    catalog: str
    packages: tuple[tuple[str, str], ...]
    arguments: tuple[str, ...]
    known_paths: tuple[tuple[str, str], ...]
    beta_folder: str
    beta_query: str
    ends_streams: bytes


OPENAI: Final = SdkUnderTest(
    name="openai",
    base_path="/v1",
    key_variable="OPENAI_API_KEY",
    catalog='default = "openai"\n\n[upstreams.openai]\nbase_url = "{url}"\n',
    packages=(("pytest-asyncio", "pytest_asyncio"),),
    arguments=(),
    known_paths=(),
    beta_folder="",
    beta_query="",
    ends_streams=b"data: [DONE]\n\n",
)
ANTHROPIC: Final = SdkUnderTest(
    name="anthropic",
    base_path="",
    key_variable="ANTHROPIC_API_KEY",
    catalog=(
        'default = "anthropic"\ndefault_upstream = "anthropic"\n\n'
        '[upstreams.anthropic]\nbase_url = "{url}/v1"\n'
    ),
    packages=(
        ("pytest-asyncio", "pytest_asyncio"),
        ("inline-snapshot", "inline_snapshot"),
        ("http-snapshot", "http_snapshot"),
        ("asttokens", "asttokens"),
        ("executing", "executing"),
        ("respx", "respx"),
    ),
    # The tests of signed webhooks send nothing, and need one more package.
    arguments=("-p", "tests._alias_httpx", "--ignore=tests/api_resources/beta/test_webhooks.py"),
    known_paths=(("batch.results_url", "/v1/messages/batches/{message_batch_id}/results"),),
    beta_folder="beta",
    beta_query="beta=true",
    ends_streams=b"",
)
SDKS: Final = {sdk.name: sdk for sdk in (OPENAI, ANTHROPIC)}
