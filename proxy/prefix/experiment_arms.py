"""Which conversations are planned, and which are sent unmodified to compare with."""

from hashlib import blake2b

from proxy.prefix.breakpoints.plan import ExperimentArm

_ALL = 1 << 64
_LABEL = b"arm"  # so that no other choice made from the same hash goes along with this one


def assign_arm(conversation: bytes, share: float) -> ExperimentArm:
    """The arm of a conversation: the same in every process, now and later.

    A larger share only adds conversations to the control arm.

    Args:
        conversation: What identifies it.
        share: The part of all conversations that is left alone, from 0 to 1.
    """
    drawn = int.from_bytes(blake2b(conversation, digest_size=8, person=_LABEL).digest(), "big")
    return ExperimentArm.CONTROL if drawn < share * _ALL else ExperimentArm.TREATED
