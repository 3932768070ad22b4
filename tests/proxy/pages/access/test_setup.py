"""Access to the pages as the settings say, with and without an identity provider."""

import asyncio
from typing import Any

import pytest

from proxy.errors import OperatorError
from proxy.pages.access.setup import open_access
from proxy.settings import Settings
from proxy.store.store import Store
from tests.fakes.app_context import AppContextCalls, fake_app_context


def paths(store: Store, **settings: Any) -> set[str]:
    async def run() -> set[str]:
        context = fake_app_context(Settings(**settings), store, AppContextCalls())
        async with open_access(context, lambda: 0.0) as (_, routers):
            return {route.path for router in routers for route in router.routes}  # type: ignore[attr-defined]

    return asyncio.run(run())


def test_without_an_identity_provider_people_sign_in_by_forms(store: Store) -> None:
    assert paths(store) == {"/admin/sign-in", "/admin/sign-out"}


def test_with_an_identity_provider_there_are_its_routes_too(store: Store) -> None:
    result = paths(store, oidc_issuer="https://idp.example", oidc_client_id="gateway")

    assert result > {"/admin/sso", "/admin/sso/callback"}


def test_a_provider_to_which_we_have_no_name_is_refused(store: Store) -> None:
    with pytest.raises(OperatorError, match="needs THRIFTGATE_OIDC_CLIENT_ID, too"):
        paths(store, oidc_issuer="https://idp.example")
