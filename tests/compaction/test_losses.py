from compaction.fold import fold
from compaction.memory import Memory
from compaction.policy import Policy
from tests.fakes.talks import asked, assistant, user

_POLICY = Policy(force=True, once=True, keep_turns=1)
_CODE = "\n".join(f"{n}: def made_{n}_here(): return 0x{n:04}F" for n in range(400))


def read() -> list[bytes]:
    return [user("Read it."), *asked("read_file", {"path": "a/b.py"}, _CODE), assistant("So.")]


def test_what_is_no_longer_sent_is_named():
    found = fold([*read(), user("Now?")], _POLICY, memory=Memory(), names_lost=True)

    sent = b"".join(found.messages).decode()
    assert found.lost
    assert not [name for name in found.lost if name in sent]
    assert len(found.lost) <= 200


def test_nothing_is_lost_where_nothing_was_folded():
    assert not fold([user("Now?")], _POLICY, memory=Memory(), names_lost=True).lost


def seen(raws: list[bytes]) -> tuple[int, int] | None:
    policy = Policy(force=True, keep_turns=1, least=200)
    found = fold(raws, policy, memory=Memory()).evidence
    return None if found is None else (found.needed, found.lost)


def test_a_call_that_needs_what_was_folded_is_counted():
    gone = fold([*read(), user("Now?")], _POLICY, memory=Memory(), names_lost=True).lost
    name = next(each for each in gone if each.startswith("made_"))
    raws = [*read(), user("Now?")]

    assert seen([*raws, *asked("edit", {"name": name}, "ok")]) == (1, 1)
    assert seen([*raws, *asked("edit", {"path": "a/b.py"}, "ok")]) == (1, 0)
    assert seen([*raws, *asked("edit", {"path": "c/d.py"}, "ok")]) == (0, 0)


def test_where_no_call_was_made_there_is_no_evidence():
    assert seen([*read(), user("Now?")]) is None
    assert seen([*read(), user("Now?"), assistant("Well."), user("And?")]) is None
