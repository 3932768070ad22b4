"""Attaching to engines that others run, as typed at a terminal."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from proxy.cli.engines.engines import engines
from proxy.settings import Settings
from tests.fakes.admission_harness import NOW
from tests.fakes.cli_runner import CommandRunner
from tests.fakes.engine_pages import PAGE
from tests.fakes.free_port import free_port


@contextmanager
def engine(model: str = "house-llm", key: str = "") -> Iterator[str]:
    """An engine's pages on a port, for all or for who has its key; its address."""
    pages = {
        "/v1/models": json.dumps({"data": [{"id": model}]}).encode(),
        "/metrics": PAGE,
        "/version": b'{"version": "0.32.0"}',
    }

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages.get(self.path)
            if key and self.headers["authorization"] != f"Bearer {key}":
                body = None
            self.send_response(404 if body is None else 200)
            self.send_header("content-length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


@pytest.fixture
def runner(tmp_path):
    return CommandRunner(tmp_path, NOW)


def group(terminal):
    return engines(terminal, Settings)


def test_attach_prints_the_table_and_writes_nothing(runner, tmp_path):
    with engine() as one, engine() as other:
        output = runner.said(group, "attach", one, f"{other}/v1/", "--region", "eu")

    assert "Found vllm 0.32.0, which serves house-llm." in output
    assert f'replicas = ["{one}/v1", "{other}/v1"]' in output
    assert 'region = "eu"' in output
    assert not list(tmp_path.glob("*.toml"))


def test_attach_adds_the_table_to_a_file_that_stays_valid(runner, tmp_path):
    file = tmp_path / "engines.toml"
    file.write_text('[engines.a]\nengine = "vllm"\nmodel = "m"\n')
    with engine() as url:
        runner.said(group, "attach", url, "--name", "b", "--write", str(file))
        again = runner.error_of(group, "attach", url, "--name", "b", "--write", str(file))

    assert "[engines.a]" in file.read_text()
    assert file.read_text().count("[engines.b]") == 1
    assert "is not TOML" in again


def test_attach_says_in_json_what_it_found(runner):
    with engine() as url:
        output = json.loads(runner.said(group, "attach", url, "--json"))

    assert (output["engine"], output["models"]) == ("vllm", ["house-llm"])
    assert output["table"].startswith("[engines.house-llm]")


def test_an_address_at_which_nothing_answers_is_named(runner):
    url = f"http://127.0.0.1:{free_port()}"

    assert f"Nothing answers at {url}/v1/models" in runner.error_of(group, "attach", url)


def test_replicas_of_different_models_are_refused(runner):
    with engine() as one, engine("other") as two:
        why = runner.error_of(group, "attach", one, two)

    assert "serves other on vllm" in why
    assert "attach them one by one" in why


def test_an_engine_with_a_key_is_looked_at_with_it_and_the_table_names_its_variable(
    runner, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOUSE_KEY", "s3cret\n")
    file = tmp_path / "engines.toml"
    with engine(key="s3cret") as url:
        without = runner.error_of(group, "attach", url)
        output = runner.said(group, "attach", url, "--key-env", "HOUSE_KEY", "--write", str(file))

    assert "--key-env NAME names the environment variable" in without
    assert "Found vllm 0.32.0, which serves house-llm." in output
    assert "It has no metrics" not in output
    assert 'key_env = "HOUSE_KEY"' in file.read_text()
    assert "s3cret" not in output + file.read_text()


@pytest.mark.parametrize(
    ("name", "why"),
    [("NO_SUCH_KEY", "holds no key"), ("sk-s3cret", "takes the name of an environment variable")],
)
def test_a_variable_that_holds_no_key_ends_the_command_without_repeating_it(runner, name, why):
    with engine() as url:
        output = runner.error_of(group, "attach", url, "--key-env", name)

    assert why in output
    assert name not in output
