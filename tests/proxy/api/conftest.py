"""The loop that tests on the wire run on."""

import pytest


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """The loop that the gateway runs on."""
    return "asyncio", {"use_uvloop": True}
