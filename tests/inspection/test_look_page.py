"""The page of `look` in Chromium: widths, colors, languages, keyboard, and tables."""

import math
import re
from pathlib import Path

import pytest
from browser import find_faults
from tiny_models import save_tiny, write_csv

from bertsmith.data.columns import Columns
from bertsmith.inspection.look import look

SCRIPT = "<script>alert('film')</script>"
ARABIC = "هذا فيلم جيد جدا"
CHINESE = "这部电影很好看。"
EMOJI = "\N{GRINNING FACE}"
JS = Path("bertsmith/inspection/page.js")
CASES = {
    "classify": ("neg", "pos"), "regress": (), "tag": ("O", "B-PER", "I-PER"), "answer": (),
    "choose": (), "masked_lm": (), "": (),
}  # fmt: skip
PAIRS = {"answer": (f"{EMOJI} was a lovely film {SCRIPT}",), "choose": (ARABIC, "a dull story")}


@pytest.fixture
def open_page(browser, tmp_path):
    """Write the page of a look and open it; an error in its script fails the test."""
    if browser is None:
        pytest.skip("needs Chromium")
    faults, contexts = [], []

    def opened(head, text, **options):
        labels = CASES[head]
        folder = save_tiny(tmp_path / (head or "vectors"), *[head][: bool(head)], labels=labels)
        path = look(folder, text, device="cpu", **options).save(tmp_path / f"{head}.html")
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(path.resolve().as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert faults == []


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("head", CASES)
def test_pages_look_right_in_every_width_and_scheme(head, language, browser, tmp_path):
    folder = save_tiny(tmp_path / "model", *[head][: bool(head)], labels=CASES[head])
    text = f"a lovely film [MASK] {EMOJI} {SCRIPT} {ARABIC} {CHINESE}"
    options = {"language": language, "pair": PAIRS.get(head, ())}
    path = look(folder, text, device="cpu", **options).save(tmp_path / "page.html")
    html = path.read_text(encoding="utf-8")
    assert SCRIPT not in html
    assert not re.search(
        r"<(link|iframe|img)\b|\b(src|href)=|url\(|@import|https?://(?!www.w3)", html
    )
    if browser is None:
        pytest.skip("needs Chromium")
    with browser.new_page() as page:
        assert find_faults(page, path) == []


def test_a_long_name_of_a_decision_does_not_make_the_page_wider(browser, tmp_path):
    if browser is None:
        pytest.skip("needs Chromium")
    labels = ("neg", "a label of so many words that no phone shows them in one line " * 2)
    folder = save_tiny(tmp_path / "model", "classify", labels=labels)
    path = look(folder, "a lovely film", device="cpu").save(tmp_path / "page.html")
    with browser.new_page() as page:
        assert find_faults(page, path) == []


def test_a_script_in_a_text_stays_text(open_page):
    page = open_page("classify", f"a film {SCRIPT}", pair=SCRIPT)
    assert page.locator("main script").count() == 0
    assert page.locator("#saliency .passage").all_text_contents() == [f"a film {SCRIPT}", SCRIPT]


def test_what_is_nearly_certain_is_not_shown_as_certain(open_page):
    page = open_page("classify", "a good film")
    shares = [0, 0.0001, 0.004, 0.0996, 0.5, 0.99, 0.996, 0.9996, 1]
    shown = page.evaluate("shares => shares.map(percent)", shares)
    expected = "0 %|< 0.1 %|0.4 %|10 %|50 %|99 %|99.6 %|> 99.9 %|100 %"
    assert [" ".join(text.split()) for text in shown] == expected.split("|")
    first, *_ = page.locator("#lens td").all_text_contents()
    assert re.fullmatch(r"\w+: [\d.]+\s% · \w+: [\d.]+\s%", first)


def test_masks_of_two_texts_have_numbers_of_their_own(open_page):
    page = open_page("masked_lm", "[MASK] film", pair="[MASK] story")
    names = page.locator("#prediction th").all_text_contents()
    assert [name[:9] for name in names] == ["[MASK] 1:"] * 5 + ["[MASK] 2:"] * 5


def test_words_are_merged_on_request(open_page):
    page = open_page("classify", "the films was good")
    tokens = ["[CLS]", "the", "film", "##s", "was", "good", "[SEP]"]
    assert page.locator(".lines .from").all_text_contents() == tokens
    page.check("#words")
    words = ["[CLS]", "the", "films", "was", "good", "[SEP]"]
    assert page.locator(".lines .from").all_text_contents() == words
    size = page.locator(".grid-of-heads canvas").first.evaluate("canvas => canvas.width")
    assert size == len(words)
    assert open_page("classify", "the films", words=True).locator("#words").is_checked()


def test_attention_to_a_word_is_the_sum_over_its_tokens(open_page):
    page = open_page("classify", "the films was good")
    tokens = page.evaluate("Array.from(weightsOf(1, 2))")
    page.check("#words")
    merged = page.evaluate("Array.from(weightsOf(1, 2))")
    rows = [tokens[7 * row : 7 * row + 7] for row in range(7)]
    columns = [[row[0], row[1], row[2] + row[3], *row[4:]] for row in rows]
    mean = [(a + b) / 2 for a, b in zip(columns[2], columns[3], strict=True)]
    expected = [*columns[:2], mean, *columns[4:]]
    assert merged == pytest.approx([x for row in expected for x in row], abs=1e-6)


def test_the_keyboard_reaches_heads_cells_and_words(open_page):
    page = open_page("classify", "a good film")
    assert page.inner_text("#head-name") == "Layer 2, head 1"
    page.locator('.grid-of-heads button[aria-checked="true"]').focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    assert page.inner_text("#head-name") == "Layer 1, head 2"
    assert page.evaluate("document.activeElement.ariaLabel") == "Layer 1, head 2"
    assert page.locator(".statistics tr.chosen th").inner_text() == "Layer 1, head 2"
    page.focus("#large")
    for key in ("ArrowRight", "ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    share = page.evaluate("weightsOf(0, 1)[1 * 5 + 2]")
    assert page.inner_text("#cell").startswith("“a” attends to “good”: ")
    assert page.inner_text("#cell").endswith(page.evaluate("share => percent(share)", share))
    page.locator(".lines .from").nth(2).focus()
    shown = page.locator(".lines .to").all_text_contents()
    shares = page.evaluate("Array.from(weightsOf(0, 1)).slice(10, 15)")
    assert [text.split()[0] for text in shown] == ["[CLS]", "a", "good", "film", "[SEP]"]
    assert ["%" in text for text in shown] == [share >= 0.02 for share in shares]


def test_the_neuron_view_shows_what_attention_comes_from(open_page):
    page = open_page("classify", "a good film")
    page.locator(".lines .from").nth(2).hover()
    assert page.locator("#attending").input_value() == "2"
    names = page.locator(".neurons .name").all_text_contents()
    assert names == ["good", "[CLS]", "a", "good", "film", "[SEP]"]
    shares = page.locator(".neurons .share").all_text_contents()
    expected = page.evaluate("Array.from(weightsOf(1, 0)).slice(10, 15).map(percent)")
    assert shares == expected
    # Of each of five tokens the key and the products, and the query.
    assert page.locator(".strip svg").count() == 11
    numbers = page.evaluate(
        """() => {
          const neurons = data.neurons[0];
          const [queries, keys] = ["query", "key"].map((kind) => vectorsOf(neurons, kind, 3, 5));
          const size = neurons.size;
          return Array.from({ length: 5 }, (_, token) => Array.from({ length: size }, (_, number) =>
            queries[2 * size + number] * keys[token * size + number]).reduce((a, b) => a + b));
        }"""
    )
    scores = [
        float(each) for each in page.locator(".neurons .number:not(.share)").all_inner_texts()
    ]
    assert scores == pytest.approx(numbers, rel=0.01, abs=1e-3)
    softmax = [math.exp(each) / sum(map(math.exp, numbers)) for each in numbers]
    weights = page.evaluate("Array.from(weightsOf(1, 0)).slice(10, 15)")
    assert weights == pytest.approx(softmax, abs=0.02)


def test_the_keyboard_reaches_single_numbers_of_a_head(open_page):
    page = open_page("classify", "a good film")
    page.select_option("#attending", "3")
    page.focus(".neurons")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    readout = page.inner_text("#neurons .readout")
    assert readout.startswith("Number 2, “a”: ")
    query, rest = readout.split(": ")[1].replace("−", "-").split(" × ")
    key, product = rest.split(" = ")
    assert float(query) * float(key) == pytest.approx(float(product), rel=0.02)
    page.locator(".strip").nth(4).hover(position={"x": 1, "y": 5})
    assert page.inner_text("#neurons .readout").startswith("Number 1, “a”: ")
    page.locator("#neurons summary").click()
    rows = page.locator("#neurons tbody tr")
    rows.first.wait_for()  # the table is written once it is opened
    assert rows.count() == 1 + 5 + 5
    assert rows.nth(0).locator("th").inner_text() == "query: film"
    assert rows.nth(0).locator("td").nth(3).inner_text().replace("−", "-") == query.lstrip("+")


def test_the_keyboard_reaches_squares_and_marks(open_page, tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("a good film\nan awful story\na dull film .\n", encoding="utf-8")
    page = open_page("classify", "a good film", data=path)
    page.focus(".shades")
    for key in ("ArrowUp", "ArrowUp", "ArrowRight"):
        page.keyboard.press(key)
    share = page.evaluate("percent(data.statistics.means[1][1])")
    assert page.inner_text("#statistics .readout") == f"Layer 1, head 2: {share}"
    assert page.locator(".shades .pointed").count() == 1
    page.focus("svg.map")
    seen = []
    for _ in range(4):
        page.keyboard.press("ArrowRight")
        seen.append(page.inner_text("#map .readout").split(": ", 1)[1])
    assert seen[2] == seen[3]
    assert set(seen) == {"a good film", "an awful story", "a dull film ."}
    xs = page.evaluate("data.map.points.map(([x]) => x)")
    texts = page.evaluate("data.map.texts")
    assert seen[:3] == [text for _, text in sorted(zip(xs, texts, strict=True))]
    page.keyboard.press("ArrowUp")
    assert page.locator(".map .pointed").count() == 1


def test_each_label_of_the_map_has_a_mark_of_its_own(open_page, tmp_path):
    labels = [f"kind {number}" for number in range(21)]
    rows = [["a good film", label] for label in labels]
    path = write_csv(tmp_path / "texts.csv", ["text", "kind"], *rows)
    page = open_page("", "a good film", data=path, columns=Columns(label_column="kind"))
    marks = page.locator("#map .legend path").evaluate_all("all => all.map(each => each.outerHTML)")
    assert len(marks) == len(set(marks)) == len(labels)


def test_each_picture_has_a_table(open_page):
    page = open_page("classify", "a good film")
    for box in ("saliency", "attention"):
        page.locator(f"#{box} summary").first.click()
        page.wait_for_selector(f"#{box} table tbody tr")
    rows = page.locator("#attention tbody tr").all()
    assert len(rows) == 5
    weights = page.evaluate("Array.from(weightsOf(1, 0)).slice(0, 5)")
    best = ["[CLS]", "a", "good", "film", "[SEP]"][weights.index(max(weights))]
    assert rows[0].locator("td").inner_text().startswith(f"{best} ")
    assert page.locator("#saliency tbody tr").count() == 3


def test_another_decision_is_explained(open_page):
    page = open_page("classify", "a good film")
    before = page.locator("#saliency .unit").first.get_attribute("title")
    page.select_option("#decision", "1")
    assert page.locator("#saliency .unit").first.get_attribute("title") != before


def test_texts_keep_their_direction(open_page):
    page = open_page("classify", ARABIC, pair=CHINESE)
    directions = page.locator("#saliency .passage").evaluate_all(
        "all => all.map(each => each.matches(':dir(rtl)'))"
    )
    assert directions == [True, False]
    assert page.locator("#saliency .passage").all_text_contents() == [ARABIC, CHINESE]


def test_marks_count_characters_and_not_their_halves(open_page):
    page = open_page("answer", "the film ?", pair=PAIRS["answer"])
    answer = page.locator(".bars th").first.inner_text()
    assert page.locator("#prediction mark").inner_text() == answer


def test_statistics_are_sorted_by_a_column(open_page):
    page = open_page("classify", "a good film")
    page.locator(".statistics th button").first.click()
    values = page.locator(".statistics tbody td:nth-child(2)").all_text_contents()
    assert [float(value) for value in values] == sorted(map(float, values), reverse=True)
    header = page.locator(".statistics thead th:nth-child(2)")
    assert header.get_attribute("aria-sort") == "descending"


def test_statistics_are_drawn_for_every_head(open_page):
    page = open_page("classify", "a good film")
    squares = page.locator(".shades i")
    assert squares.count() == 6
    page.select_option("#statistic", "3")
    column = [float(x) for x in page.evaluate("data.statistics.means.map((each) => each[3])")]
    strengths = squares.evaluate_all("all => all.map(x => +x.style.getPropertyValue('--strength'))")
    assert strengths == pytest.approx([x / max(column) for x in column], abs=1e-4)
    squares.nth(4).hover()
    share = page.evaluate("percent(data.statistics.means[4][3])")
    assert page.inner_text("#statistics .readout") == f"Layer 2, head 2: {share}"
    assert page.locator(".shades .chosen").count() == 1
    label = page.locator(".shades").evaluate("grid => grid.ariaLabel")
    assert label == "Where the heads look: first"


def test_the_page_begins_with_a_sentence(open_page):
    page = open_page("classify", "a good film")
    sentence = (
        "classify is a model of the family bert, with 2 layers of 3 heads. The text has 5 tokens."
    )
    assert page.locator("main > .soft").first.inner_text() == sentence


def test_large_counts_have_a_comma(open_page):
    page = open_page("classify", "a good film")
    page.evaluate("() => { data.numAll = 2477; main.replaceChildren(); showHeader(); }")
    assert page.locator("main > .soft").first.inner_text().endswith(" 2,477 tokens.")


def test_unknown_words_and_accents_are_located(open_page):
    page = open_page("classify", "Góod  fílm, good")
    assert page.locator("#saliency .passage").all_text_contents() == ["Góod  fílm, good"]


def test_every_sentence_of_the_page_has_a_chinese_one():
    code = (Path(__file__).parents[2] / JS).read_text(encoding="utf-8")
    table, rest = code.split("const CHINESE = {")[1].split("\n};", 1)
    rest += (Path(__file__).parents[2] / JS).with_name("neurons.js").read_text(encoding="utf-8")
    chinese = set(re.findall(r'^  "(.*?)": ".*[一-鿿]', table, re.MULTILINE))
    assert len(chinese) == table.strip().count("\n") + 1
    said = set(re.findall(r'\btranslate\("([^"]+)"', rest))
    said |= set(re.findall(r'(?:\?|:) "([a-z]+)"\)', rest))
    said |= set(re.findall(r'notice = "([^"]+)"', rest))
    said |= set(re.findall(r'\bnote\("([^"]+)"', rest))
    said |= set(re.findall(r'(?:\?|:|return) "([A-Z][^"]+\.)"', rest))
    named = {"no answer", "replaced", "from", "to", "token", "word"}
    named |= {"the text to itself", "the source to itself"}
    named |= {"the target to itself", "the target to the source"}
    named |= {"entropy", "previous", "next", "first", "separator", "distance"}
    assert said | named == chinese
