import json
import time

import pytest

from compaction.reading.redaction import REDACTED, redact_secrets


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
    assert redact_secrets(f"a {secret}") == f"a {REDACTED}"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("password=hunter2!", f"password={REDACTED}"),
        ('{"api_key": "0a1b2c3d"}', f'{{"api_key": "{REDACTED}"}}'),
        ("Authorization: Bearer abc.def-123", f"Authorization: Bearer {REDACTED}"),
        ("curl -H 'bearer a1b2c3d4'", f"curl -H 'bearer {REDACTED}'"),
        ("PGPASSWORD=s3cr3tpass psql", f"PGPASSWORD={REDACTED} psql"),
        ('dbPassword: "s3cr3tpass"', f'dbPassword: "{REDACTED}"'),
        ("my password is hunter2hunter2.", f"my password is {REDACTED}"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUt/K7", f"AWS_SECRET_ACCESS_KEY={REDACTED}"),
        ("X-Api-Key: 9f8e7d6c5b4a", f"X-Api-Key: {REDACTED}"),
        ("token: abcd1234efgh5678", f"token: {REDACTED}"),
        ("GITHUB_TOKEN=abcd1234efgh5678", f"GITHUB_TOKEN={REDACTED}"),
        ("refresh_token=abcd1234efgh5678&x=1", f"refresh_token={REDACTED}&x=1"),
        ("secret: abcd1234efgh", f"secret: {REDACTED}"),
        ("api_key = abcd1234efgh", f"api_key = {REDACTED}"),
        ("API key: ABCD1234EFGH", f"API key: {REDACTED}"),
        ("APP_SECRET='Zq8wLm2Pv9'", f"APP_SECRET='{REDACTED}'"),
        ('{"secret": "Zq8wLm2Pv9"}', f'{{"secret": "{REDACTED}"}}'),
        ("password=C:\\s3cr3tpass x", f"password={REDACTED} x"),
        ("psql postgres://ada:pw@db/orders", f"psql postgres://ada:{REDACTED}@db/orders"),
    ],
)
def test_a_named_secret_is_redacted_and_its_name_stays(text, left):
    assert redact_secrets(text) == left


@pytest.mark.parametrize(
    "fields",
    [
        {"password": "s3cr3tpass", "user": "ada"},
        {"api_key": "pa\\ss-word9", "n": 1},
        {"secret": "Zq8wLm2Pv9", "token": "abcd1234efgh5678"},
        {"Authorization": "Bearer abc.def-123", "accept": "*/*"},
    ],
)
@pytest.mark.parametrize("times", [1, 2, 3, 4])
def test_json_in_a_string_of_json_is_looked_into(fields, times):
    text = json.dumps(fields)
    left = redact_secrets(text)
    for _ in range(times - 1):
        text, left = json.dumps({"body": text}), json.dumps({"body": left})

    assert REDACTED in left
    assert redact_secrets(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "reservation QXM04B of ada_vo_2210 with credit_card_1122334",
        "task-1 risk-averse ask-me 9f86d081884c7d659a2feaa0c55ad015",
        "the bearer of this letter",
        "Forgot your password? Reset it",
        "desk-1234",
        "token count 12, max_tokens=4096, tokens: 123456789012345",
        "next_page_token: CAUQAA1234567890",
        "token: not_yet_known",
        "the secret: patience, and the secret = hard-work",
        "Get your API key: https://console.example/v2/keys, the secret: chapter-12-of-the-book",
        "const secret = process.env.JWT2",
        "Secret: Sauce-Recipe; secret: QXM04B; secret: 1234567890; secrets: abcd1234",
        "my secret is out: room 12345678, and the api key: required",
        "your password is required, a password is never sent",
        "https://shop.example:8080/orders/a@b and git@host.example:22/x",
    ],
)
def test_ids_and_prose_stay(text):
    assert redact_secrets(text) == text


@pytest.mark.parametrize(
    "template",
    ['"{}"', "Bearer {}", "Authorization: Bearer {}", "https://a.example/?t={}&n=1", "x-{}"],
)
def test_signed_tokens_are_taken_out_wherever_they_stand(template):
    token = f"eyJ{'hbGci-Oi_' * 9}.eyJ{'zdWIi-Oi_' * 400}.{'c2ln-bmF_' * 20}"

    assert redact_secrets(template.format(token)) == template.format(REDACTED)


def test_redaction_is_idempotent():
    once = redact_secrets("https://ada:pw12@db/x password=hunter2! token: abcd1234efgh5678")

    assert redact_secrets(once) == once
    assert once.count(REDACTED) == 3


def test_many_beginnings_of_tokens_take_no_time():
    before = time.thread_time()
    redact_secrets("eyJ-" * 100_000 + "password token: " + "://a:" * 20_000 + "@")

    assert time.thread_time() - before < 1
