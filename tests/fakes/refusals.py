"""Expects a call to be refused with a status."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from proxy.errors import CallerError


@contextmanager
def refusing(status: int, match: str | None = None) -> Iterator[pytest.ExceptionInfo[CallerError]]:
    """A block that has to raise what the caller fixes, with this status."""
    with pytest.raises(CallerError, match=match) as caught:
        yield caught
    assert caught.value.status == status
