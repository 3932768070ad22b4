import msgspec

from compaction.policy import Mode, Policy, Prices


def test_modes_are_said_as_people_write_them():
    assert [mode.value for mode in Mode] == ["off", "trim", "facts", "facts+model", "native"]


def test_equal_policies_are_written_alike():
    one, other = (Policy(prices=Prices(read=0.1, write=1.25), window=1000) for _ in range(2))

    assert one == other
    assert msgspec.msgpack.encode(one) == msgspec.msgpack.encode(other)
