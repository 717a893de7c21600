"""The page at `/` in Chromium: each head's answer, errors, the key, languages and widths."""

import re
import shlex

import pytest
from browser import FAULTS
from model_server import serving
from tiny_models import save_tiny

from bertsmith.serving.page import content_policy, page_html, page_response

LABEL = "<b>good</b>"
EVIL = "the <b>good</b> film <script>document.title = 'changed'</script>"
EMOJI = "😀 the good film"
FIELDS = {
    "classify": {"text": EVIL},
    "multi_label": {"text": "a good film", "pair": EVIL},
    "regress": {"text": "a good film"},
    "number": {"text": "a good film"},
    "tag": {"text": f"{EMOJI} {EVIL}"},
    "answer": {"question": EVIL, "context": f"{EMOJI} was lovely"},
    "choose": {"text": "the film was", "choices": f"good\n{EVIL}\n\nawful"},
    "masked_lm": {"text": "a [MASK] film was [MASK]"},
    "vectors": {"text": EVIL},
    "embed": {"text": "a good film", "others": f"dull\n{EVIL}\nlovely"},
}


@pytest.fixture
def open_page(browser, server):
    """Open the page of a model; what it should not do is a failure when the test ends."""
    if browser is None:
        pytest.skip("needs Chromium")
    faults, contexts = [], []

    def opened(path="", address=server.address, **options):
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: faults.append(f"script: {error}"))
        page.on("request", lambda request: request.url.startswith(address + "/")
                or faults.append(f"asks {request.url}"))  # fmt: skip
        page.on("console", lambda line: "Failed to load resource" in line.text
                or faults.append(line.text))  # fmt: skip
        page.goto(f"{address}/{path}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not faults


def fill(page, fields):
    page.wait_for_selector("#form:not([hidden])")
    for name, text in fields.items():
        page.fill(f"#field-{name}", text)


def ask(page, fields):
    """Type texts, press Enter, and wait for the answer."""
    fill(page, fields)
    page.press("#field-text, #field-context", "Enter")
    page.wait_for_selector("#tokens p")


def bars(page):
    """Each line of bars: its text and what stands beside it."""
    return [
        (row.locator("th").text_content(), row.locator("td.number").text_content())
        for row in page.locator("#answer tr").all()
    ]


def percent(share):
    return f"{100 * share:.1f}\u00a0%"


@pytest.mark.parametrize("head", FIELDS)
def test_each_head_answers_and_looks_right(head, open_page, server):
    page = open_page(f"models/{head}")
    ask(page, FIELDS[head])
    shown = page.inner_text("#answer")
    # The page shows the command of what it has sent.
    curl, address, option, body = shlex.split(page.inner_text("#curl"))
    assert (curl, option) == ("curl", "-d")
    answer = server.post(address.removeprefix(server.address), body.encode()).json
    if head in ("classify", "multi_label"):
        assert bars(page) == [(row["label"], percent(row["score"])) for row in answer]
    elif head in ("regress", "number"):
        assert float(shown) == pytest.approx(answer[0]["score"], rel=1e-3)
    elif head == "tag":
        text = FIELDS[head]["text"]
        marks = page.locator(".passage mark")
        assert [mark.evaluate("e => e.firstChild.data") for mark in marks.all()] == [
            text[entity["start"] : entity["end"]] for entity in answer
        ]
        assert [name for name, _ in bars(page)] == [
            f"{entity['word']} ({entity['entity_group']})" for entity in answer
        ]
    elif head == "answer":
        best = answer[0]
        context = FIELDS[head]["context"]
        assert page.locator(".headline").text_content() == best["answer"]
        assert page.locator("mark").text_content() == context[best["start"] : best["end"]]
        assert page.locator(".passage").text_content() == context
        assert bars(page) == [(row["answer"], percent(row["score"])) for row in answer]
    elif head == "choose":
        assert [row["choice"] for row in answer if row["index"] == 1] == [EVIL]
        assert bars(page) == [(row["choice"], percent(row["score"])) for row in answer]
    elif head == "masked_lm":
        assert "Hidden word 2" in shown
        rows = [(word["token_str"], percent(word["score"])) for words in answer for word in words]
        assert bars(page) == rows
    elif head == "vectors":
        assert f"{len(answer[0])} numbers; the first are {answer[0][0]:.4f}, " in shown
    else:
        others = FIELDS[head]["others"].split("\n")
        rows = sorted(zip(answer, others, strict=True), reverse=True)
        assert bars(page) == [(other, f"{score:.3f}") for score, other in rows]
    assert page.title() == head
    assert page.locator("main b, main script").count() == 0
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width in (400, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(FAULTS) == []


def test_errors_are_sentences_of_the_server(open_page):
    page = open_page("models/masked_lm")
    fill(page, {"text": "no mask"})
    page.click("#form button.main")
    page.wait_for_selector("#problem:not([hidden])")
    assert "[MASK]" in page.inner_text("#problem")
    page.click("#insert-mask")
    assert page.input_value("#field-text") == "no mask[MASK]"
    page.keyboard.press("Enter")
    page.wait_for_selector("#answer:not([hidden])")
    assert page.locator("#problem").is_hidden()
    page.keyboard.press("Shift+Enter")
    assert page.input_value("#field-text") == "no mask[MASK]\n"


def test_a_model_of_another_name_is_an_error(open_page):
    page = open_page("models/absent")
    page.wait_for_selector("#problem:not([hidden])")
    assert "there is no model 'absent' here" in page.inner_text("#problem")


def test_enter_that_ends_the_input_of_chinese_sends_nothing(open_page):
    page = open_page("models/classify")
    fill(page, {"text": "a good film"})
    sent = []
    page.on("request", lambda request: sent.append(request.url))
    page.locator("#field-text").dispatch_event("keydown", {"key": "Enter", "isComposing": True})
    page.evaluate("() => new Promise(requestAnimationFrame)")
    assert sent == []
    page.keyboard.press("Enter")
    page.wait_for_selector("#answer:not([hidden])")
    assert sent


def test_another_model_is_chosen_from_the_list(open_page, server):
    page = open_page()
    page.wait_for_selector("#form:not([hidden])")
    assert page.locator("#model option").all_text_contents() == list(server.folders)
    page.select_option("#model", "choose")
    page.wait_for_selector("#field-choices")
    assert page.url == f"{server.address}/models/choose"
    fill(page, {"text": "the film was", "choices": "good\nbad"})
    page.press("#field-choices", "Enter")
    assert page.input_value("#field-choices") == "good\nbad\n"
    page.press("#field-choices", "Control+Enter")
    page.wait_for_selector("#answer:not([hidden])")
    assert len(bars(page)) == 2


def test_the_model_that_was_chosen_last_is_shown(open_page):
    page = open_page()
    page.wait_for_selector("#form:not([hidden])")
    held = []
    page.route("**/models/choose/info", lambda route: held.append(route))
    page.select_option("#model", "choose")
    page.select_option("#model", "tag")
    page.wait_for_selector("#name:text-is('tag')")
    with page.expect_response("**/models/choose/info"):
        held[0].continue_()  # the model that was chosen first comes last
    page.evaluate("fetch('health').then(() => null)")
    assert (page.title(), page.input_value("#model")) == ("tag", "tag")


def test_a_prompt_is_chosen_from_those_of_the_model(open_page, server):
    page = open_page("models/embed")
    fill(page, {"text": "a good film"})
    assert page.locator("#field-prompt option").all_text_contents() == ["none", "query"]
    page.select_option("#field-prompt", "query")
    page.press("#field-text", "Enter")
    page.wait_for_selector("#tokens p")
    body = {"inputs": "a good film", "prompt_name": "query"}
    (vector,) = server.post("/models/embed/embed", body).json
    assert f"the first are {vector[0]:.4f}, " in page.inner_text("#answer")
    tokens = page.locator("#tokens code:not(.special)").all_text_contents()
    assert tokens == ["the", "film", "a", "good", "film"]


def test_the_page_is_chinese_in_a_browser_that_is(open_page):
    page = open_page("models/classify", locale="zh-CN")
    ask(page, {"text": "一部好电影", "pair": "مرحبا بالعالم"})
    assert page.locator("html").get_attribute("lang") == "zh"
    assert page.inner_text("#form button.main") == "发送"
    assert "文本分类" in page.inner_text("#about")
    assert "毫秒" in page.inner_text("#figures")
    directions = [
        page.locator(f"#field-{name}").evaluate("e => e.matches(':dir(rtl)')")
        for name in ("text", "pair")
    ]
    assert directions == [False, True]


def test_every_sentence_of_the_page_has_a_chinese_one():
    html = page_html()
    chinese = set(re.findall(r'^  "(.*?)": ".*[一-鿿]', html, re.MULTILINE))
    code = html.split("const CHINESE = {")[1].split("\n};", 1)[1]
    said = set(re.findall(r'\b(?:translate\(|(?:text|lines)\("\w+", )"([^"]+)"', code))
    said |= set(re.findall(r'(?:title|true|null): "([^"]+)"', code))
    said |= set(re.findall(r"data-text>([^<]+)<", html))
    said |= set(re.findall(r'"([A-Z][^"]+\.)"', code))
    assert len(said) > 30
    assert said == chinese


def test_a_server_with_a_key_asks_for_it(open_page, browser, tmp_path):
    folder = save_tiny(tmp_path / "model", "classify", labels=[LABEL, "bad"])
    with serving({"films": folder}, "--api-key", "sésame") as server:
        assert server.get("/").status == 200
        assert server.get("/models/films").status == 200
        for path in ("/docs", "/openapi.json"):
            description = server.get(path)
            assert description.status == 200
            assert b"films" not in description.body
        for path in ("/models", "/info", "/models/films/info"):
            assert server.get(path).status == 401
        assert server.post("/", {"inputs": "a film"}).status == 401
        page = open_page(address=server.address)
        page.wait_for_selector("#key-form:not([hidden])")
        page.keyboard.type("wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("#key-problem:not(:empty)")
        assert page.locator("#form").is_hidden()
        page.fill("#key", "sésame")
        page.keyboard.press("Enter")
        ask(page, {"text": "a good film"})
        assert page.locator("#key-form").is_hidden()
        assert page.locator("#choice").is_hidden()
        assert LABEL in [name for name, _ in bars(page)]
        assert page.inner_text("#curl") == (
            f'curl {server.address}/predict -H "Authorization: Bearer $KEY" '
            '-d \'{"inputs":"a good film"}\''
        )


def test_a_server_that_was_stopped_is_told(open_page, tmp_path):
    with serving({"model": save_tiny(tmp_path / "model", "classify", labels="ab")}) as server:
        page = open_page(address=server.address)
        fill(page, {"text": "a good film"})
    page.click("#form button.main")
    page.wait_for_selector("#problem:not([hidden])")
    assert page.inner_text("#problem") == "The server does not answer. Perhaps it was stopped."


def test_pages_of_many_addresses_are_not_kept():
    for number in range(20):
        page_response(f"<style>a {{}}</style> http://host-{number}")
    assert content_policy.cache_info().currsize <= 4


def test_the_policy_allows_only_the_scripts_of_the_page(server):
    answer = server.get("/")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy and "http" not in policy
    assert server.get("/models/classify").body == answer.body
    assert (
        server.get("/docs")
        .headers["content-security-policy"]
        .startswith("default-src 'none'; script-src 'none'; style-src 'sha256-")
    )
