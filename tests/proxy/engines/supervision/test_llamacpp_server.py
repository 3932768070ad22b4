"""The launcher of llama.cpp's server: its flags, and a real server on the tiny model."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from hypothesis import given

from proxy.engines.adapters.llamacpp import LLAMACPP
from proxy.engines.profiles import Engine, EngineProfile
from proxy.engines.supervision.llamacpp_server import (
    _CHOICES,
    _SWITCHES,
    _VALUES,
    build_parser,
    main,
)
from tests.fakes.engine_profiles import launchable_profiles
from tests.fakes.tiny_engine import DRAFT, NGRAM, needs_wheel, tiny_profile


@given(launchable_profiles())
def test_the_launcher_takes_every_flag_of_any_valid_profile(profile):
    if profile.engine is Engine.LLAMACPP:
        command = LLAMACPP.launch_command(replace(profile, extra_args=()))
        flags = command.argv[len(command.program) :]

        assert build_parser().parse_args(flags) is not None


def test_a_launch_without_a_model_says_so(capfd):
    assert main([]) == 1
    assert "Write --model FILE.gguf" in capfd.readouterr().err


def test_an_unknown_flag_ends_the_launch(capfd):
    with pytest.raises(SystemExit) as ended:
        main(["--model", "m.gguf", "--draft-max", "4"])

    assert ended.value.code == 2
    assert "--draft-max" in capfd.readouterr().err


@needs_wheel
def test_every_flag_sets_an_attribute_that_the_wheel_has():
    import xllamacpp  # noqa: PLC0415 - the extra may be absent

    parameters = xllamacpp.CommonParams()
    paths = [path for path, _ in _VALUES.values()]
    for path in (*paths, *_SWITCHES.values(), *(path for path, *_ in _CHOICES.values())):
        result = parameters
        for name in path.split("."):
            result = getattr(result, name)


@contextmanager
def running(profile: EngineProfile) -> Iterator[subprocess.Popen[bytes]]:
    """A server of the profile, once it is healthy."""
    command = LLAMACPP.launch_command(profile, python=sys.executable)
    with subprocess.Popen(command.argv, stderr=subprocess.PIPE) as process:  # noqa: S603 - it is ours
        try:
            wait_until_healthy(command.health_url, process)
            yield process
        finally:
            process.kill()


def launch(profile: EngineProfile) -> subprocess.CompletedProcess[bytes]:
    """A launch that ends by itself."""
    command = LLAMACPP.launch_command(profile, python=sys.executable)
    return subprocess.run(  # noqa: S603 - it is ours
        command.argv, capture_output=True, timeout=60, check=False
    )


def wait_until_healthy(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, process.stderr and process.stderr.read()
        try:
            with urlopen(url, timeout=5) as answer:  # noqa: S310 - it is http
                if answer.status == 200:
                    return
        except (URLError, ConnectionError):
            time.sleep(0.05)
    raise AssertionError(f"{url} did not answer within 60 s")


def chat(profile: EngineProfile, *texts: str) -> Any:
    """The answer to a conversation; user and assistant take turns."""
    roles = ("user", "assistant") * len(texts)
    body = {
        "model": "tiny",
        "messages": [
            {"role": role, "content": text} for role, text in zip(roles, texts, strict=False)
        ],
        "max_tokens": 60,
        "temperature": 0,
    }
    request = Request(  # noqa: S310 - it is http
        f"{LLAMACPP.urls(profile).base_url}/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urlopen(request, timeout=60) as answer:  # noqa: S310 - it is http
        return json.load(answer)


def metrics(profile: EngineProfile) -> dict[str, float]:
    """The sum of each metric's series."""
    result: dict[str, float] = {}
    url = LLAMACPP.urls(profile).metrics_url
    with urlopen(url, timeout=10) as answer:  # noqa: S310 - it is http
        for line in answer.read().decode().splitlines():
            if match := re.fullmatch(r"([\w:]+)(?:\{.*\})? (\S+)", line):
                result[match[1]] = result.get(match[1], 0.0) + float(match[2])
    return result


@needs_wheel
def test_a_real_server_answers_reuses_a_prefix_and_drafts_with_a_model():
    profile = tiny_profile(DRAFT)
    with running(profile) as process:
        first = chat(profile, "Which plans are there?")
        second = chat(profile, "Which plans are there?")
        counts = metrics(profile)
        process.send_signal(signal.SIGTERM)

        assert process.wait(20) == 0
    text = first["choices"][0]["message"]["content"]
    assert len(text) > 100
    assert second["choices"][0]["message"]["content"] == text
    prompt, cached = (
        second["usage"]["prompt_tokens"],
        second["usage"]["prompt_tokens_details"]["cached_tokens"],
    )
    assert cached == prompt - 1
    names = LLAMACPP.metrics
    for alternatives in (getattr(names, field) for field in names.__dataclass_fields__):
        assert not alternatives or alternatives[0] in counts
    assert counts[names.spec_accepted_tokens[0]] > 0.5 * counts[names.spec_draft_tokens[0]] > 0
    assert counts[names.cached_prompt_tokens[0]] == cached
    assert LLAMACPP.prompt_tokens_exclude_cached
    assert counts[names.prompt_tokens[0]] == 2 * prompt - cached


@needs_wheel
def test_a_real_server_drafts_from_text_that_repeats():
    profile = tiny_profile(NGRAM)
    with running(profile) as process:
        first = chat(profile, "Which plans are there?")
        text = first["choices"][0]["message"]["content"]
        chat(profile, "Which plans are there?", text, "Which plans are there?")
        counts = metrics(profile)
        process.send_signal(signal.SIGINT)

        assert process.wait(20) == 0
    assert counts[LLAMACPP.metrics.spec_draft_tokens[0]] > 0
    assert counts[LLAMACPP.metrics.spec_accepted_tokens[0]] > 0


@needs_wheel
def test_a_model_that_is_absent_ends_the_launch_with_the_reason():
    profile = replace(tiny_profile(), model="/nowhere/model.gguf")
    ended = launch(profile)

    assert ended.returncode == 1
    assert b"The server did not start: " in ended.stderr
    assert b"Check the model's path and the port." in ended.stderr


@needs_wheel
def test_a_port_that_is_taken_ends_the_launch_with_the_reason():
    profile = tiny_profile()
    with socket.socket() as listener:
        listener.bind((profile.host, profile.port))
        listener.listen()
        ended = launch(profile)

    assert ended.returncode == 1
    assert b"Check the model's path and the port." in ended.stderr
