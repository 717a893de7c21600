"""Marked parts make the text again, whatever the spans."""

from hypothesis import given
from hypothesis import strategies as st

from bertsmith.tasks.marks import RIGHT, WRONG, Mark, mark_spans

places = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(sorted)


@given(st.lists(places, max_size=5))
def test_each_span_takes_the_first_free_part_of_its_place(given_places):
    text = "abcdefghijkl"
    spans = [Mark(*place, str(number), RIGHT) for number, place in enumerate(given_places)]
    parts = mark_spans(text, spans)
    assert "".join(part.text for part in parts) == text
    labels = [""] * len(text)
    for start, end, label, _ in spans:
        free = [i for i in range(start, end) if not labels[i]]
        for i in (place for n, place in enumerate(free) if place == free[0] + n):
            labels[i] = label
    assert [part.label for part in parts for _ in part.text] == labels


def test_text_far_from_spans_is_left_out():
    spans = [Mark(4, 5, "model", WRONG), Mark(11, 12, "right", RIGHT), Mark(11, 12, "right", RIGHT)]
    parts = mark_spans("....x......y.......", spans, around=2)
    assert [part.text for part in parts] == ["…..", "x", "..…..", "y", "..…"]
    assert [part.text for part in mark_spans("abcdef", [], around=2)] == ["abcd…"]
