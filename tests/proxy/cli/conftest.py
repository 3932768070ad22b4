"""A folder of the command line's own, as its settings name it."""

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    new_folder = tmp_path / "gateway"
    monkeypatch.setenv("THRIFTGATE_FOLDER", str(new_folder))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return new_folder
