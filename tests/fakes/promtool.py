"""Prometheus' own check of what is exported for it."""

import shutil
import subprocess
from pathlib import Path

import pytest

PROMTOOL = shutil.which("promtool")


def promtool(*arguments: str | Path, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """The output of promtool for these arguments and input; skips the test where it is absent."""
    if PROMTOOL is None:
        pytest.skip("promtool is not on the PATH; Debian's package prometheus holds it")
    return subprocess.run(  # noqa: S603 - ours
        [PROMTOOL, *arguments], input=text, capture_output=True, check=False, timeout=60
    )
