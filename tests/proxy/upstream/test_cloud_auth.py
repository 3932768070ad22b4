"""Credentials of clouds: found, renewed before they expire, and asked for once by all that wait."""

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from google.auth.credentials import Credentials as Google

from proxy.catalog.entries import Upstream
from proxy.errors import UpstreamError
from proxy.upstream.cloud_auth import (
    AwsCredentials,
    CloudCredentials,
    GoogleCredentials,
    UnsignedRequest,
    cloud_credentials,
)
from proxy.upstream.port import was_never_sent

AWS = Upstream(
    name="aws",
    kind="anthropic-bedrock",
    base_url="http://aws",
    auth="aws",
    aws_region="us-east-1",
    aws_profile="gateway",
)
GOOGLE = Upstream(name="gcp", kind="anthropic-vertex", base_url="http://gcp", auth="google")
REQUEST = UnsignedRequest(
    "POST",
    "http://aws/model/a%3A0/invoke",
    {"host": "aws", "content-type": "application/json", "user-agent": "x", "x-amzn-trace": "t"},
    b"{}",
)


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials but those of a test."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws.ini"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "keys.ini"))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))


def write_process(folder: Path, minutes: float) -> Path:
    """A profile whose credentials come from a program, and live that long; its runs are logged."""
    runs = folder / "runs"
    expires = datetime.now(UTC) + timedelta(minutes=minutes)  # noqa: TID251 - botocore's clock
    script = folder / "keys.py"
    script.write_text(
        f"open({str(runs)!r}, 'a').write('x')\n"
        f"n = len(open({str(runs)!r}).read())\n"
        "import json\n"
        "print(json.dumps({'Version': 1, 'AccessKeyId': f'AKID{n}', 'SecretAccessKey': 's',"
        f" 'SessionToken': 't', 'Expiration': {expires.isoformat()!r}}}))\n"
    )
    (folder / "aws.ini").write_text(
        f"[profile gateway]\ncredential_process = {sys.executable} {script}\n"
    )
    return runs


def test_a_signature_covers_host_type_and_amazons_own_headers(tmp_path: Path) -> None:
    write_process(tmp_path, 60)
    headers = asyncio.run(AwsCredentials(AWS).headers(REQUEST))

    assert set(headers) == {"authorization", "x-amz-date", "x-amz-security-token"}
    assert "Credential=AKID1/" in headers["authorization"]
    assert "/us-east-1/bedrock/aws4_request" in headers["authorization"]
    assert (
        "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-amzn-trace,"
        in headers["authorization"]
    )


def test_a_request_to_mantle_is_signed_for_its_service(tmp_path: Path) -> None:
    write_process(tmp_path, 60)
    url = "https://bedrock-mantle.us-east-1.api.aws/anthropic/v1/messages"
    unsigned = UnsignedRequest("POST", url, {}, b"x" * 600_000)

    headers = asyncio.run(AwsCredentials(AWS).headers(unsigned))

    assert "/bedrock-mantle/aws4_request" in headers["authorization"]


def test_all_calls_that_wait_share_one_search(tmp_path: Path) -> None:
    runs = write_process(tmp_path, 60)
    credentials = AwsCredentials(AWS)

    async def work() -> Any:
        return await asyncio.gather(*(credentials.headers(REQUEST) for _ in range(20)))

    assert len(asyncio.run(work())) == 20
    assert runs.read_text() == "x"


def test_credentials_that_expire_soon_are_renewed_while_calls_go_on(tmp_path: Path) -> None:
    runs = write_process(tmp_path, 12)
    credentials = AwsCredentials(AWS, pause_s=0.0)

    async def work() -> list[str]:
        first, before = await credentials.headers(REQUEST), len(runs.read_text())
        second = await credentials.headers(REQUEST)  # within a quarter of an hour of their end
        assert credentials._search is not None
        await credentials._search
        assert len(runs.read_text()) > before
        third = await credentials.headers(REQUEST)
        return [headers["authorization"].split("/")[0] for headers in (first, second, third)]

    first, second, third = asyncio.run(work())
    assert first == second != third


def test_a_search_that_failed_is_not_repeated_at_once(tmp_path: Path) -> None:
    credentials = AwsCredentials(AWS)
    counted = _count_searches(credentials)

    async def work() -> list[BaseException]:
        asks = [credentials.headers(REQUEST) for _ in range(5)]
        return [await asyncio.gather(call, return_exceptions=True) for call in asks]  # type: ignore[misc]

    errors = [results[0] for results in asyncio.run(work())]  # type: ignore[index]

    assert all(isinstance(error, UpstreamError) for error in errors)
    assert (errors[0].status, errors[0].code, errors[0].should_retry) == (
        503,
        "upstream_key_missing",
        False,
    )
    assert "no credentials for aws" in errors[-1].message
    assert "AWS_PROFILE" in errors[-1].message
    assert counted == [1]


def test_a_caller_who_leaves_while_credentials_are_found_has_sent_nothing(tmp_path: Path) -> None:
    write_process(tmp_path, 60)
    credentials = AwsCredentials(AWS)

    async def work() -> None:
        task = asyncio.ensure_future(credentials.headers(REQUEST))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert was_never_sent(caught.value)
        assert (await credentials.headers(REQUEST))["authorization"]

    asyncio.run(work())


@pytest.mark.parametrize(
    ("status", "kind", "expired"),
    [
        (403, "ExpiredTokenException", True),
        (403, "UnrecognizedClientException:http://x", True),
        (403, "AccessDeniedException", False),
        (429, "ThrottlingException", False),
        (200, "", False),
    ],
)
def test_credentials_are_forgotten_where_aws_says_that_they_expired(status, kind, expired) -> None:
    is_forgotten = AwsCredentials(AWS).were_refused(status, {"x-amzn-errortype": kind})

    assert is_forgotten is expired


class ExpiringToken(Google):
    """A token of Google's that expires at once, and is another each time."""

    def __init__(self) -> None:
        super().__init__()
        self.token = "first"
        self.expiry = datetime(2020, 1, 1)  # noqa: DTZ001 - google-auth has them without a zone

    def refresh(self, request: Any) -> None:
        self.token, self.expiry = "second", None


def test_a_token_of_googles_is_renewed_once_it_expired() -> None:
    credentials = GoogleCredentials(GOOGLE)
    credentials._found = ExpiringToken()

    assert asyncio.run(credentials.headers(REQUEST)) == {"authorization": "Bearer second"}
    assert not credentials.were_refused(403, {})
    assert credentials.were_refused(401, {})
    assert not credentials.were_refused(401, {})


def test_missing_credentials_of_googles_are_said_with_what_to_set() -> None:
    with pytest.raises(UpstreamError) as caught:
        asyncio.run(GoogleCredentials(GOOGLE).headers(REQUEST))

    assert "GOOGLE_APPLICATION_CREDENTIALS" in caught.value.message


def test_a_file_that_is_no_account_is_said_by_its_kind_of_error(tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text(json.dumps({"type": "oddity", "secret": "s3cr3t"}))
    why = GoogleCredentials(GOOGLE).find()

    assert "DefaultCredentialsError" in why
    assert "s3cr3t" not in why


@pytest.mark.parametrize(("upstream", "extra"), [(AWS, "bedrock"), (GOOGLE, "vertex")])
def test_a_missing_package_is_said_with_the_extra_to_install(
    upstream: Upstream, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("botocore.session", "google.auth.transport.requests"):
        monkeypatch.setitem(sys.modules, name, None)
    credentials = cloud_credentials(upstream)
    assert credentials is not None

    assert f"'thriftgate[{extra}]'" in credentials.find()


def test_upstreams_with_keys_of_their_own_have_no_account() -> None:
    assert cloud_credentials(Upstream(name="up", kind="openai", base_url="http://up")) is None


def _count_searches(credentials: CloudCredentials) -> list[int]:
    """Counts the searches of these credentials."""
    counted = [0]
    find = credentials.find

    def count() -> str:
        counted[0] += 1
        return find()

    credentials.find = count  # type: ignore[method-assign]
    return counted
