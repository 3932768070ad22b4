"""The file of system prompts: bounds, age, and what cannot be read or written."""

import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

from proxy.engines.system_prompt_file import (
    MAX_AGE_S,
    MAX_BYTES,
    MAX_PROMPTS,
    MAX_PROMPTS_OF_TEAM,
    KeptPrompt,
    PromptBody,
    SystemPromptFile,
    bounded_prompts,
)

NOW = 1_790_000_000.0


def prompt(team: str = "team_1", body: bytes = b"{}", **fields: Any) -> KeptPrompt:
    whole: dict[str, Any] = {
        "model": "m",
        "team": team,
        "key": "key_1",
        "feature": "chat",
        "sent": PromptBody("chat/completions", body),
        "calls": 2,
        "weight": 1.5,
        "used_at": NOW,
    }
    return KeptPrompt(**(whole | fields))


def test_prompts_are_read_back_as_they_were_written_by_their_owner_alone(tmp_path: Path):
    file = SystemPromptFile(tmp_path)
    kept = [prompt(), prompt(asked=PromptBody("messages", b"\xff"), regions=("eu",))]
    file.write(kept)

    assert file.read(NOW + 1.0) == kept
    assert (tmp_path / "engines" / "system-prompts.json").stat().st_mode & 0o777 == 0o600


def test_a_prompt_that_was_not_used_for_a_day_is_not_read_back(tmp_path: Path):
    file = SystemPromptFile(tmp_path)
    file.write([prompt(), prompt(used_at=NOW - 2.0)])

    assert file.read(NOW + MAX_AGE_S - 1.0) == [prompt()]


def test_without_prompts_there_is_no_file(tmp_path: Path):
    file = SystemPromptFile(tmp_path)
    file.write([])
    file.write([prompt()])
    file.write([])

    assert list((tmp_path / "engines").iterdir()) == []
    assert file.read(NOW) == []


@pytest.mark.parametrize("content", [b"", b"{", b'{"version":9,"prompts":[]}', b'{"prompts":3}'])
def test_a_file_that_cannot_be_read_holds_nothing(tmp_path: Path, content: bytes):
    file = SystemPromptFile(tmp_path)
    file.write([prompt()])
    (tmp_path / "engines" / "system-prompts.json").write_bytes(content)

    assert file.read(NOW) == []


def test_a_folder_that_takes_no_file_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "engines").write_text("a file in the folder's place")
    file = SystemPromptFile(tmp_path)
    with caplog.at_level(logging.WARNING):
        file.write([prompt()])
        file.write([prompt()])

    assert len(caplog.records) == 1


def test_the_prompts_are_bounded_in_number_by_team_and_in_bytes():
    many = [prompt(f"team_{n % 10}") for n in range(500)]
    own = [prompt() for _ in range(500)]
    large = [prompt(body=b"x" * (MAX_BYTES // 2)) for _ in range(3)]

    assert len(bounded_prompts(many)) == MAX_PROMPTS
    assert len(bounded_prompts(own)) == MAX_PROMPTS_OF_TEAM
    assert len(bounded_prompts(large)) == 2
    assert msgspec.json.encode(bounded_prompts(many[:1]))
