"""A gateway's settings for the simulator, and the simulator behind them."""

import json
import urllib.request
from pathlib import Path

import pytest

from proxy.cli import session
from proxy.cli.testing.simulated_upstream import simulated_upstream
from proxy.configuration import read_catalog
from proxy.settings import Settings

REAL = {
    "THRIFTGATE_DATABASE_URL": "postgresql://ledger.test/real",
    "THRIFTGATE_REDIS_URL": "redis://counters.test/0",
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        folder=tmp_path,
        database_url=REAL["THRIFTGATE_DATABASE_URL"],
        redis_url=REAL["THRIFTGATE_REDIS_URL"],
        catalog=tmp_path / "real.toml",
    )


def test_a_simulated_gateway_shares_no_store_and_no_key_with_the_real_one(settings: Settings):
    shipped = session.shipped_catalog()
    with simulated_upstream(settings, shipped, lambda: 0.0) as redirected:
        catalog = read_catalog(redirected)

    assert redirected.folder == settings.folder / "simulated"
    assert (redirected.database_url, redirected.redis_url) == ("", "")
    assert set(catalog.models) == set(shipped.models)
    for upstream in catalog.upstreams.values():
        assert upstream.base_url.startswith("http://127.0.0.1:")
        assert not upstream.key_env


def test_the_simulator_answers_meanwhile_and_says_that_it_is_one(settings: Settings):
    with simulated_upstream(settings, session.shipped_catalog(), lambda: 0.0) as redirected:
        url = read_catalog(redirected).upstreams["openai"].base_url
        body = {"model": "gpt-5.4-mini", "messages": [{"role": "user", "content": "Hello!"}]}
        request = urllib.request.Request(  # noqa: S310 - our own address
            f"{url}/chat/completions",
            json.dumps(body).encode(),
            {"authorization": "Bearer any", "content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            document = json.loads(answer.read())

    assert "[simulated]" in document["choices"][0]["message"]["content"]


def test_a_folder_that_cannot_be_written_is_an_error(settings: Settings):
    (settings.folder / "simulated").write_text("a file")

    with (
        pytest.raises(FileExistsError),
        simulated_upstream(settings, session.shipped_catalog(), lambda: 0.0),
    ):
        raise AssertionError


def test_a_second_simulated_gateway_leaves_the_catalog_of_the_first(settings: Settings):
    shipped = session.shipped_catalog()
    with simulated_upstream(settings, shipped, lambda: 0.0) as redirected:
        before = read_catalog(redirected).upstreams["openai"].base_url
        with (
            pytest.raises(OSError, match=r"another simulated gateway uses .*THRIFTGATE_FOLDER"),
            simulated_upstream(settings, shipped, lambda: 0.0),
        ):
            raise AssertionError
        after = read_catalog(redirected).upstreams["openai"].base_url

    assert after == before
    with simulated_upstream(settings, shipped, lambda: 0.0):
        pass
