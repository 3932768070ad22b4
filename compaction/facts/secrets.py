"""Keys and passwords that tools or the model wrote down: taken out of what is kept."""

import re
from collections.abc import Mapping
from typing import Final

GONE: Final = "[secret]"

#: Forms that providers document, each long enough that no reservation number looks like one.
_KEYS: Final = re.compile(
    r"""
      -----BEGIN\ [A-Z ]{0,30}PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]{0,30}PRIVATE\ KEY-----|\Z)
    | \b(?:sk|tg|rk|pk)-[A-Za-z0-9_-]{20,200}
    | \b[sr]k_(?:live|test)_[A-Za-z0-9]{16,200}
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b
    | \bgh[pousr]_[A-Za-z0-9]{30,255}
    | \bgithub_pat_[A-Za-z0-9_]{30,255}
    | \bglpat-[A-Za-z0-9_-]{20,200}
    | \bxox[abeoprs]-[A-Za-z0-9-]{10,250}
    | \bAIza[A-Za-z0-9_-]{35}
    | \beyJ[A-Za-z0-9_-]{8,4000}\.eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,4000}
    """,
    re.VERBOSE | re.DOTALL,
)
#: What is said to be secret; the name stays, so that it is known that there was one.
_NAMED: Final = re.compile(
    r"""
    ( \b(?:password|passwd|api[_-]?key|secret[_-]?key|client[_-]?secret|access[_-]?token)
      ["']?\s{0,3}[=:]\s{0,3}["']?
    | \bauthorization["']?\s{0,3}[=:]\s{0,3}["']?(?:bearer|basic)\s{1,3}
    | \bbearer\s{1,3}(?=[A-Za-z0-9._~+/-]{0,200}\d)
    )
    (?!\[secret\]) ([^\s"',;&<>()\[\]{}|]{6,4000})
    """,
    re.VERBOSE | re.IGNORECASE,
)
#: None of the forms stands in a text without one of these, in small letters; those that hold a sign
#: are looked for only where that stands.
_KEY_SIGNS: Final = {
    "": ("akia", "asia", "xox", "aiza", "eyj"),
    "-": ("-----begin", "sk-", "rk-", "pk-", "tg-", "glpat-"),
    "_": ("sk_", "rk_", "github_pat_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
}
_NAME_SIGNS: Final = {
    "": (
        "password", "passwd", "apikey", "secretkey", "clientsecret", "accesstoken",
        "authorization", "bearer",
    ),
    "-": ("api-key", "secret-key", "client-secret", "access-token"),
    "_": ("api_key", "secret_key", "client_secret", "access_token"),
}  # fmt: skip


def redacted(text: str) -> str:
    """The text with its keys and passwords taken out; as it came where it has none."""
    small = text.lower()
    if _has(small, _KEY_SIGNS):
        text = _KEYS.sub(GONE, text)
    return _NAMED.sub(rf"\1{GONE}", text) if _has(small, _NAME_SIGNS) else text


def _has(small: str, signs: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether a text in small letters has one of these."""
    return any(sign in small and any(map(small.__contains__, them)) for sign, them in signs.items())
