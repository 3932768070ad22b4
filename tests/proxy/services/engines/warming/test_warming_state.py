"""Names of prompts by whose they are, and bounded memory."""

import msgspec

from proxy.services.engines.warming.warming_state import WarmedReplica, conversation_key, owned_key
from tests.fakes.call_dependencies import KEY, call


def test_a_prompt_of_another_team_or_salt_has_another_name():
    mine = call(b"{}")
    other = call(b"{}", key=msgspec.structs.replace(KEY, team="team_2"))
    salted = call(b"{}", salt="s" * 32)

    assert len({owned_key(owner, b"digest") for owner in (mine, other, salted)}) == 3
    assert owned_key(mine, b"digest") == owned_key(call(b"{ }"), b"digest")


def test_conversation_without_a_name_has_no_key():
    assert conversation_key(call(b"{}"), "") == b""
    assert conversation_key(call(b"{}"), "c") != conversation_key(call(b"{}"), "d")


def test_few_warming_jobs_wait_at_a_replica():
    assert WarmedReplica().jobs.maxlen == 16
