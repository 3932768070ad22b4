"""Browsers in which a person signed in before, known by a cookie that nothing else reads."""

import hmac
from secrets import token_urlsafe
from typing import Final

from proxy.pages.access.sign_in_limits import digest_text

KEPT_S: Final = 400 * 24 * 3600.0
"""Seconds for which a browser keeps the cookie. Source: RFC 6265bis, section 5.5 (the most)."""
_NONCE_BYTES: Final = 16
#: Characters of a cookie: those of a nonce, a point and a MAC in hexadecimal digits.
_COOKIE_CHARS: Final = 22 + 1 + 64


class KnownBrowsers:
    """Makes the cookies by the installation's secret and knows them again; nothing is kept here.

    Source: OWASP, "Slow Down Online Guessing Attacks with Device Cookies" (2026-11).
    """

    def __init__(self, secret: bytes) -> None:
        self._key = hmac.digest(secret, b"thriftgate known browser", "sha256")

    def new_cookie(self, name: str) -> str:
        """A cookie for a browser in which the person of this name has signed in."""
        nonce = token_urlsafe(_NONCE_BYTES)
        return f"{nonce}.{self._mac(nonce, name)}"

    def browser(self, cookie: str, name: str) -> str:
        """The browser whose cookie this is; "" if this person never signed in there."""
        nonce, _, mac = cookie.partition(".")
        is_ours = len(cookie) == _COOKIE_CHARS and cookie.isascii()
        return nonce if is_ours and hmac.compare_digest(mac, self._mac(nonce, name)) else ""

    def _mac(self, nonce: str, name: str) -> str:
        return hmac.digest(self._key, nonce.encode() + digest_text(name), "sha256").hex()
