import pytest

from compaction.facts.secrets import GONE, redacted


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcdefghij0123456789",
        "tg-0123456789abcdefghij01234",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_0123456789abcdefghijabcdefghij012345",
        "xoxb-1234567890-abcdefgh",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIabc cut",
    ],
)
def test_keys_are_taken_out(secret):
    assert redacted(f"a {secret}") == f"a {GONE}"


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("password=hunter2!", f"password={GONE}"),
        ('{"api_key": "0a1b2c3d"}', f'{{"api_key": "{GONE}"}}'),
        ("Authorization: Bearer abc.def-123", f"Authorization: Bearer {GONE}"),
        ("curl -H 'bearer a1b2c3d4'", f"curl -H 'bearer {GONE}'"),
    ],
)
def test_what_is_named_as_a_secret_is_taken_out_and_its_name_stays(said, left):
    assert redacted(said) == left


@pytest.mark.parametrize(
    "said",
    [
        "reservation QXM04B of ada_vo_2210 with credit_card_1122334",
        "task-1 risk-averse ask-me 9f86d081884c7d659a2feaa0c55ad015",
        "the bearer of this letter",
        "Forgot your password? Reset it",
        "desk-1234",
    ],
)
def test_ids_and_prose_stay(said):
    assert redacted(said) == said
