import sys

import pytest

from proxy.catalog.entries import Auth
from proxy.upstream.cloud_packages import is_package_installed, not_installed


@pytest.mark.parametrize("auth", ["key", "aws", "google"])
def test_installed_packages_are_found(auth: Auth) -> None:
    assert is_package_installed(auth)


def test_a_cloud_without_its_package_is_said_to_lack_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google", None)
    monkeypatch.delitem(sys.modules, "google.auth", raising=False)

    assert not is_package_installed("google")
    assert is_package_installed("key")


@pytest.mark.parametrize(("auth", "extra"), [("aws", "bedrock"), ("google", "vertex")])
def test_the_extra_that_brings_a_missing_package_is_named(auth: Auth, extra: str) -> None:
    assert f"'thriftgate[{extra}]'" in not_installed(auth)
