"""Opens the access to the pages as the settings say."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from fastapi import APIRouter

from proxy.app_context import AppContext
from proxy.errors import OperatorError, how_to_install
from proxy.pages.access.known_browsers import KnownBrowsers
from proxy.pages.access.sessions import AdminSessions
from proxy.pages.access.sign_in import PageAccess
from proxy.pages.access.sign_in_limits import AdminToken
from proxy.pages.access.sign_in_methods import SignInMethods
from proxy.pages.store_questions import StoreQuestions

#: Modules of the extra ``sso``.
_EXTRA: Final = frozenset({"authlib", "joserfc"})


@asynccontextmanager
async def open_access(
    context: AppContext, ticks: Callable[[], float]
) -> AsyncIterator[tuple[PageAccess, Sequence[APIRouter]]]:
    """Access to the pages, and the routes to sign in and out; closed afterwards.

    Raises:
        OperatorError: The identity provider's settings cannot be used.
    """
    settings = context.settings
    secret = settings.admin_token.get_secret_value()
    token = AdminToken(secret, ticks) if secret else None
    # Not the pages' own questions: a page must not wait for another's figures to know its viewer.
    ask = StoreQuestions(context.opened)
    sessions = AdminSessions(context.opened.sessions, ask, context.now)
    provider = settings.oidc_name if settings.oidc_issuer else ""
    clocks = (context.now, ticks)
    methods = SignInMethods(
        context.opened.users, ask, token, clocks, KnownBrowsers(context.opened.secret), provider
    )
    access = PageAccess(sessions, methods)
    async with AsyncExitStack() as stack:
        stack.callback(methods.passwords.close)
        routes = [access.router()]
        if provider:
            routes.append(_single_sign_on(context, access, ask, stack))
        yield access, routes


def _single_sign_on(
    context: AppContext, access: PageAccess, ask: StoreQuestions, stack: AsyncExitStack
) -> APIRouter:
    """The routes to sign in at the identity provider, which is closed with the stack."""
    try:
        from proxy.pages.access import identity_provider, single_sign_on  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise OperatorError(
            f"THRIFTGATE_OIDC_ISSUER needs the package authlib: {how_to_install('sso')}."
        ) from None
    settings, opened = context.settings, context.opened
    if not settings.oidc_client_id:
        raise OperatorError("THRIFTGATE_OIDC_ISSUER needs THRIFTGATE_OIDC_CLIENT_ID, too.")
    base = settings.browser_url(settings.port)
    provider = identity_provider.IdentityProvider(
        identity_provider.ProviderSettings(
            issuer=settings.oidc_issuer,
            client_id=settings.oidc_client_id,
            client_secret=settings.oidc_client_secret.get_secret_value(),
            redirect_uri=base + single_sign_on.CALLBACK_PATH,
            groups_claim=settings.oidc_groups_claim,
        ),
        context.now,
    )
    stack.push_async_callback(provider.aclose)
    roles = single_sign_on.parse_group_roles(settings.oidc_roles)
    single = single_sign_on.SingleSignOn(
        provider, roles, (opened.users, opened.teams), ask, opened.secret
    )
    creates = settings.oidc_create_people
    return single_sign_on.router(single, access, context.now, creates_people=creates)
