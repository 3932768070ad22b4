import pytest

from proxy.tokens.wholeness import is_plain, is_whole

SAID = b'{"role":"user","content":"Show \\"image\\", \\"tools\\" and previous_response_id."}'


def chat(part: bytes) -> bytes:
    return b'{"messages":[' + SAID + b"," + part + b"]}"


def response(rest: bytes) -> bytes:
    return b'{"model":"m","reasoning":{"effort":"low"},' + rest + b"}"


def test_texts_are_whole_and_plain():
    code = b'{"input":["image of a cat","function f() {}","file a form","tools I need"]}'
    for body in (chat(SAID), code, b'{"prompt":"a"}'):
        assert is_whole(body, "chat/completions")
        assert is_plain(body)


@pytest.mark.parametrize(
    "part",
    [
        b'{"type":"image_url","image_url":{"url":"https://a/b"}}',
        b'{"type":"image","source":{}}',
        b'{"type":"input_image","file_id":"file-1"}',
        b'{"type":"input_audio","input_audio":{"data":""}}',
        b'{"role":"assistant","audio":{"id":"audio_1"}}',
        b'{"type":"file","file":{"file_id":"file-1"}}',
        b'{"type":"input_file","file_url":"https://a/b"}',
        b'{"type":"document","source":{}}',
        b'{"type":"video_url"}',
        b'{"type":"web_search_preview"}',
        b'{"type":"file_search"}',
        b'{"type":"code_interpreter"}',
        b'{"type":"computer_use_preview"}',
        b'{"type":"mcp","server_url":"https://a"}',
        b'{"type":"reasoning","encrypted_content":"x"}',
        b'{"type":"video","video":["https://a/b"]}',
        b'{"data_sources":[{"type":"azure_search"}]}',
        b'{"search_parameters":{"mode":"on"}}',
        b'{"plugins":[{"id":"web"}]}',
        b'{"extra_body":{"google":{"cached_content":"cachedContents/1"}}}',
        b'{"type":"shell","environment":{"type":"container_auto"}}',
    ],
)
def test_a_body_with_parts_that_are_no_text_is_neither_whole_nor_text(part):
    assert not is_whole(chat(part), "chat/completions")
    assert not is_plain(chat(part))


@pytest.mark.parametrize(
    "part",
    [
        b'{"tools":[]}',
        b'{"functions":[]}',
        b'{"role":"assistant","tool_calls":[]}',
        b'{"role":"tool","tool_call_id":"c"}',
        b'{"type":"function_call","arguments":"{}"}',
        b'{"type":"function_call_output","output":"x"}',
        b'{"type":"custom_tool_call","input":"x"}',
        b'{"type":"json_schema","json_schema":{}}',
    ],
)
def test_tools_and_schemas_are_whole_and_not_plain(part):
    assert is_whole(chat(part), "chat/completions")
    assert not is_plain(chat(part))


@pytest.mark.parametrize(
    "rest",
    [
        b'"input":"hi"',
        b'"input":null',
        b'"instructions":"Be kind."',
        b'"input":"hi","previous_response_id":null,"conversation": null ,"prompt":null',
        b'"input":[{"role":"user","content":"previous_response_id"}]',
        b'"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]}]',
        b'"input":[{"type":"function_call_output","call_id":"c","output":"x"}]',
    ],
)
def test_a_response_that_says_all_it_asks_is_whole(rest):
    assert is_whole(response(rest), "responses")


@pytest.mark.parametrize(
    "rest",
    [
        b'"input":"hi","previous_response_id":"resp_1"',
        b'"input":"hi","conversation":"conv_1"',
        b'"input":"hi","conversation":{"id":"conv_1"}',
        b'"input":"hi","c\\u006fnversation":"conv_1"',
        b'"prompt":{"id":"pmpt_1"}',
        b'"input":[{"type":"item_reference","id":"msg_1"}]',
        b'"input":[{"type":null,"id":"msg_1"}]',
        b'"input":[{"id":"msg_1"}]',
        b'"input":[{"type":"reasoning","id":"rs_1","summary":[]}]',
        b'"input":["odd"]',
        b'"input":7',
    ],
)
def test_a_response_that_goes_on_from_what_is_kept_is_not_whole(rest):
    assert not is_whole(response(rest), "responses")


def test_a_response_that_is_no_json_is_not_whole():
    assert not is_whole(b"{", "responses")
    assert not is_whole(b'{"x":' + b"[" * 200_000, "responses")


@pytest.mark.parametrize("letter", [b"\\u005f", b"\\u005F", b"\\\\\\u005f"])
def test_a_name_that_is_written_with_escapes_may_be_any(letter):
    part = b'{"type":"image_url","image_url":{"url":"https://a/b"}}'.replace(b"_", letter)

    assert not is_whole(chat(part), "chat/completions")


@pytest.mark.parametrize("text", [b"a \\u003c b", b"caf\\u00e9", b"\\\\u005f", b"\\u0000"])
def test_escapes_of_what_is_no_letter_hide_no_name(text):
    assert is_whole(chat(b'{"role":"user","content":"' + text + b'"}'), "chat/completions")
