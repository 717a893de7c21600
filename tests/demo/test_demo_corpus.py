"""Documentation is read from source, never by importing, and comes out as plain prose."""

import sys
from inspect import cleandoc

import pytest

from bertsmith.demo import corpus
from bertsmith.demo.corpus import (
    STANDARD_LIBRARY,
    installed_libraries,
    prose_paragraphs,
    read_docstrings,
    read_documentation,
)

SENTENCE = "The {} is read from the file and returned as a list of words."
# Importing this would be noticed at once.
HOSTILE = '''"""{doc}"""
raise SystemExit("imported")
class Reader:
    """{method}"""
    async def read(self):
        r"""A method with an invalid \\escape reads the file and returns all that it holds."""
'''


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def docstring(word):
    return f'"""{SENTENCE.format(word)}"""\n'


@pytest.fixture
def libraries(tmp_path):
    """A standard library and two packages in it, one of which must never be imported."""
    site = tmp_path / "lib" / "site-packages"
    hostile = HOSTILE.format(doc=SENTENCE.format("word"), method=SENTENCE.format("line"))
    for name, text in {
        "json/decoder.py": docstring("number"),
        "json/tests/decoder.py": docstring("test"),
        "site-packages/hostile/__init__.py": hostile,
        "site-packages/hostile/_vendor/copy.py": docstring("copy"),
        "site-packages/single.py": docstring("single"),
    }.items():
        write(site.parent / name, text)
    names = {"hostile": site / "hostile", "single": site / "single.py"}
    return {STANDARD_LIBRARY: site.parent, **names}


def test_documentation_is_read_without_importing(libraries):
    before = set(sys.modules)
    documents = read_documentation(libraries, (), seconds=60).documents
    assert {document.library: document.paragraphs for document in documents} == {
        "hostile": (
            SENTENCE.format("word"),
            SENTENCE.format("line"),
            r"A method with an invalid \escape reads the file and returns all that it holds.",
        ),
        "single": (SENTENCE.format("single"),),
        STANDARD_LIBRARY: (SENTENCE.format("number"),),
    }
    assert not {"hostile", "single"} & (set(sys.modules) - before)
    documents = read_documentation(libraries, ["single", "absent"], seconds=60).documents
    assert [document.library for document in documents] == ["single", STANDARD_LIBRARY, "hostile"]


def test_what_is_left_out_is_counted(libraries):
    odd = libraries["odd"] = libraries["hostile"].parent / "odd"
    for name, text in (("python2", "print 'no longer'\n"), ("latin", b"'''\xe9t\xe9'''\n"),
                       ("again", docstring("single") + docstring("word"))):  # fmt: skip
        write(odd / f"{name}.py", text)
    skipped = read_documentation(libraries, (), seconds=60).skipped
    assert skipped["file of tests"] == skipped["file of a vendored copy"] == 1
    assert (skipped["unreadable file"], skipped["paragraph seen before"]) == (2, 1)


def test_this_python_has_documentation():
    libraries = installed_libraries()
    assert read_docstrings(libraries[STANDARD_LIBRARY] / "json" / "decoder.py")
    assert read_docstrings(libraries["numpy"] / "__init__.py")


def test_only_sentences_survive():
    text = """
        Return the sum of array elements over a given axis or axes.

        Parameters
        ----------
        a : array_like
            Elements that are to be summed, given in any order
            that suits the caller.
        axis : None or int, optional
            Short.

        Examples
        --------
        >>> np.sum([0.5, 1.5])
        2.0 is the sum of these elements, of which there are only two.

        .. versionadded:: 1.7 and this directive has more than eight words in it."""
    assert prose_paragraphs(cleandoc(text)) == [
        "Return the sum of array elements over a given axis or axes.",
        "Elements that are to be summed, given in any order that suits the caller.",
    ]


def test_the_items_of_a_list_are_paragraphs():
    text = """
        - The first item of this list has a sentence of ten words.
        - The second item has a sentence that is too long for one line,
          and goes on in a line that begins further to the right.
        - The third item is as long as the second one,
          with a line that is further to the right, too."""
    assert prose_paragraphs(cleandoc(text)) == [
        "The first item of this list has a sentence of ten words.",
        "The second item has a sentence that is too long for one line, and goes on in a line that "
        "begins further to the right.",
        "The third item is as long as the second one, with a line that is further to the right, "
        "too.",
    ]


def test_reading_is_bounded_in_size_and_time(libraries, monkeypatch):
    monkeypatch.setattr(corpus, "ENOUGH_CHARS", 1)
    for name, count in (("large", 40), ("small", 3)):
        libraries[name] = libraries["hostile"].parent / name
        for number in range(count):
            path = libraries[name] / f"part{number}.py"
            write(path, docstring(f"{name}{'x' * number}"))
    read = read_documentation(libraries, ["large", "small"], seconds=60)
    # In turns, so that time that runs out leaves as much of each.
    assert [each.library for each in read.documents][:6].count("small") == 3
    assert read.chars_by_library["large"] > 40 * 60
    # One module is enough for a question, and the rest is left out.
    short = read_documentation(libraries, ["large", "small"], seconds=0)
    assert [each.library for each in short.documents] == ["large", "small"]
    assert short.skipped["file left out for lack of time"] > 40
    monkeypatch.setattr(corpus, "MAX_CHARS_OF_LIBRARY", 500)
    read = read_documentation(libraries, ["large"], seconds=60)
    assert 500 <= read.chars_by_library["large"] < 500 + 120
