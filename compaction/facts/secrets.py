"""Keys and passwords that tools or the model wrote down: taken out of what is kept."""

import re
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
#: None of the forms stands in a text without one of these, in small letters.
_KEY_SIGNS: Final = (
    "-----begin", "sk-", "rk-", "pk-", "tg-", "sk_", "rk_", "akia", "asia", "github_pat_",
    "glpat-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "xox", "aiza", "eyj",
)  # fmt: skip
_NAME_SIGNS: Final = (
    "password", "passwd", "apikey", "api_key", "api-key", "secretkey", "secret_key", "secret-key",
    "clientsecret", "client_secret", "client-secret", "accesstoken", "access_token",
    "access-token", "authorization", "bearer",
)  # fmt: skip


def redacted(text: str) -> str:
    """The text with its keys and passwords taken out; as it came where it has none."""
    small = text.lower()
    if any(map(small.__contains__, _KEY_SIGNS)):
        text = _KEYS.sub(GONE, text)
    if any(map(small.__contains__, _NAME_SIGNS)):
        text = _NAMED.sub(rf"\1{GONE}", text)
    return text
