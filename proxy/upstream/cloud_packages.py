"""Checks for the optional packages that sign requests to clouds, without loading them."""

import importlib.util
from collections.abc import Mapping
from typing import Final

from proxy.catalog.entries import Auth
from proxy.errors import how_to_install

#: The package of each way, and the extra of ours that brings it.
_PACKAGES: Final[Mapping[Auth, tuple[str, str]]] = {
    "aws": ("botocore", "bedrock"),
    "google": ("google.auth", "vertex"),
}


def is_package_installed(auth: Auth) -> bool:
    """True if the package is there with which an upstream's requests are proven."""
    if auth not in _PACKAGES:
        return True
    try:
        return importlib.util.find_spec(_PACKAGES[auth][0]) is not None
    except ModuleNotFoundError:
        return False


def not_installed(auth: Auth) -> str:
    """A clause that names the package of a cloud, and tells how to install it."""
    package, extra = _PACKAGES[auth]
    return f"{package} is not installed: {how_to_install(extra)}"
