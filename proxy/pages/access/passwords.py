"""Passwords: hashed by Argon2 on a thread of their own, a few at a time."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError

from proxy.errors import CallerError, Unready

T = TypeVar("T")

MIN_CHARS: Final = 12
MAX_CHARS: Final = 256
#: Hashes that wait or are made at once; each takes 19 MiB and about 20 ms of one processor.
_MAX_PENDING: Final = 8
#: Of them of sign-ins from browsers that do not know the person: strangers leave room for others.
_MAX_PENDING_OF_STRANGERS: Final = 6
#: Source: OWASP Password Storage Cheat Sheet, Argon2id (2026-11).
_HASHER: Final = PasswordHasher(
    time_cost=2, memory_cost=19_456, parallelism=1, hash_len=32, salt_len=16, type=Type.ID
)
#: Hash of no password, by the same parameters; names that nobody has take as long as others.
_NOBODYS: Final = (
    "$argon2id$v=19$m=19456,t=2,p=1"
    "$h6MPYrwoX5qmfOQgmXQHkw$3ae7ignw3/VRW+Cs+/S8/gZF8PJV5FjITBO2DgA3D1c"
)


class Passwords:
    """Makes and checks hashes of passwords off the event loop."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="passwords")
        self._pending = 0

    async def hash(self, password: str) -> str:
        """The hash under which a password is kept; raises Unready where too many are made."""
        return await self._run(_MAX_PENDING, _HASHER.hash, password)

    async def matches(self, hashed: str | None, password: str, *, is_known: bool) -> bool:
        """True if this is the password of a hash; None never matches, and takes as long.

        Args:
            is_known: True if it comes from a browser in which the person signed in before.

        Raises:
            Unready: Too many are being hashed.
        """
        most = _MAX_PENDING if is_known else _MAX_PENDING_OF_STRANGERS
        matches = await self._run(most, _matches, hashed or _NOBODYS, password[: MAX_CHARS + 1])
        return matches and hashed is not None

    def is_outdated(self, hashed: str) -> bool:
        """True if the hash was made by other parameters than those of today."""
        return _HASHER.check_needs_rehash(hashed)

    def close(self) -> None:
        """Stop; hashes under way are abandoned."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self, most: int, work: Callable[..., T], *texts: str) -> T:
        if self._pending >= most:
            raise Unready(
                "Too many people are signing in just now; try again in a moment.",
                code="too_many_sign_ins",
                retry_after=2.0,
            )
        self._pending += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, work, *texts)
        finally:
            self._pending -= 1


def check_new_password(password: str, name: str) -> None:
    """Checks that a password is long enough to be kept, and does not say the person's name."""
    if not MIN_CHARS <= len(password) <= MAX_CHARS:
        why = f"A password has {MIN_CHARS} to {MAX_CHARS} characters."
    elif name and name.lower() in password.lower() and len(password) < 2 * MIN_CHARS:
        why = "Choose a password that does not contain your name."
    else:
        return
    raise CallerError(why, code="invalid_password", param="password")


def _matches(hashed: str, password: str) -> bool:
    try:
        return _HASHER.verify(hashed, password)
    except (VerificationError, InvalidHashError):
        return False
