"""Removes keys and passwords from the text that compaction keeps."""

import re
from collections.abc import Mapping
from typing import Final

REDACTED: Final = "[secret]"

#: Regular expression for keys in the forms that providers document, each long enough that no
#: reservation number matches. Each begins with letters and looks back, which makes the search fast.
_KEYS: Final = re.compile(
    r"""
      -----BEGIN\ [A-Z ]{0,30}PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]{0,30}PRIVATE\ KEY-----|\Z)
    | [prs](?<=\b.)k-[A-Za-z0-9_-]{20,200}
    | t(?<=\b.)g-[A-Za-z0-9_-]{20,200}
    | [rs](?<=\b.)k_(?:live|test)_[A-Za-z0-9]{16,200}
    | A(?<=\b.)(?:KIA|SIA)[A-Z0-9]{16}\b
    | g(?<=\b.)h[pousr]_[A-Za-z0-9]{30,255}
    | g(?<=\b.)ithub_pat_[A-Za-z0-9_]{30,255}
    | g(?<=\b.)lpat-[A-Za-z0-9_-]{20,200}
    | x(?<=\b.)ox[abeoprs]-[A-Za-z0-9-]{10,250}
    | A(?<=\b.)Iza[A-Za-z0-9_-]{35}
    | e(?<=\b.)yJ(?:[A-Za-z0-9_]|-(?!eyJ)){8,4000}+  # it ends where another begins
      \.eyJ[A-Za-z0-9_-]{8,4000}+\.[A-Za-z0-9_-]{8,4000}
    """,
    re.VERBOSE | re.DOTALL,
)
#: Forms of what is said to be secret; the name stays, so that it is known that there was one. Each
#: form begins with a letter that few words have, and looks back from there: so it is sought
#: quickly. A name may end a longer one, as in PGPASSWORD. What else is called a token or a secret,
#: or what a sentence says that it is, must look like a key: pages have tokens too, and of words
#: there are many. Quotes are escaped where JSON stands in a string of JSON.
_NAMED: Final = re.compile(
    r"""
    ( [BbKkPpSsTtZz]
      (?i:
        (?: assw(?:or)?d
          | ey(?:(?<=apikey)|(?<=api[_-]key)|(?<=secretkey)|(?<=secret[_-]key)
            |(?<=secretaccesskey)|(?<=secret[_-]access[_-]key))
          | ecret(?:(?<=clientsecret)|(?<=client[_-]secret))
          | oken(?:(?<=accesstoken)|(?<=access[_-]token))
        )(?:\\{0,7}["'])?\s{0,3}[=:]\s{0,3}(?:\\{0,7}["'])?
      | assword\s{1,3}is\s{1,3}["'`]?(?=[^\s"',;&<>()\[\]{}|]{0,200}\d)
      | oken(?:(?<![\w-]token)|(?<=authtoken)|(?<=auth[_-]token)|(?<=refreshtoken)
          |(?<=refresh[_-]token)|(?<=session[_-]token)|(?-i:(?<=[A-Z]_TOKEN)))
        (?:\\{0,7}["'])?\s{0,3}[=:]\s{0,3}(?:\\{0,7}["'])?(?=[A-Z0-9._~+/=-]{12})
        (?=[A-Z._~+/-]{0,200}\d)(?=[\d._~+/-]{0,200}[A-Z])
      | (?:ecret|ey(?<=api\ key))
        (?:\\{0,7}["'])?\s{0,3}[=:]\s{0,3}(?:\\{0,7}["'])?(?=[A-Z0-9_+=~]{8})
        (?=[^\s"',;&<>()\[\]{}|\\\d]{0,64}\d)(?=[^\s"',;&<>()\[\]{}|\\A-Z]{0,64}[A-Z])
      | ation(?<=\bauthorization)
        (?:\\{0,7}["'])?\s{0,3}[=:]\s{0,3}(?:\\{0,7}["'])?(?:bearer|basic)\s{1,3}
      | earer(?<=\bbearer)\s{1,3}(?=[A-Z0-9._~+/-]{0,200}\d)
      )
    )
    (?!\[secret\]) (?:[^\s"',;&<>()\[\]{}|\\]|\\(?!\\{0,7}["'])){6,4000}
    """,
    re.VERBOSE,
)
#: Regular expression for the password in a URL.
_LOGIN: Final = re.compile(
    r"""(://[^\s/:@"'<>\\]{0,100}:)(?!\[secret\])[^\s/@"'<>\\]{1,200}(?=@)"""
)
#: Strings, in lower case, of which every text with a key or a named secret holds at least one.
#: Those with a hyphen or an underscore are searched only in texts with that character.
_KEY_SIGNS: Final = {
    "": ("akia", "asia", "xox", "aiza", "eyj"),
    "-": ("-----begin", "sk-", "rk-", "pk-", "tg-", "glpat-"),
    "_": ("sk_", "rk_", "github_pat_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
}
_NAME_SIGNS: Final = {
    "": (
        "password", "passwd", "apikey", "api key", "secret", "accesskey", "token", "authorization",
        "bearer",
    ),
    "-": ("api-key", "access-key"),
    "_": ("api_key", "access_key"),
}  # fmt: skip


def redact_secrets(text: str) -> str:
    """The text without its keys and passwords; unmodified where it has none."""
    small = text.lower()
    if _has_sign(small, _KEY_SIGNS):
        text = _KEYS.sub(REDACTED, text)
    if _has_sign(small, _NAME_SIGNS):
        text = _NAMED.sub(rf"\1{REDACTED}", text)
    return _LOGIN.sub(rf"\1{REDACTED}", text) if "://" in small and "@" in small else text


def _has_sign(small: str, signs: Mapping[str, tuple[str, ...]]) -> bool:
    """True if a text in small letters has one of these."""
    return any(sign in small and any(map(small.__contains__, them)) for sign, them in signs.items())
