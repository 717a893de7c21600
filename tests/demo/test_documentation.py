"""Documentation is read from source, never by importing, and comes out as plain prose."""

import sys
from inspect import cleandoc

import pytest

from bertsmith.demo import corpus
from bertsmith.demo.corpus import (
    LANGUAGE_REFERENCE,
    STANDARD_LIBRARY,
    Installation,
    prose_paragraphs,
    read_docstrings,
    read_documentation,
    read_strings,
    source_files,
)

SENTENCE = "The {} is read from the file and returned as a list of words."
TOPIC = (
    'The if statement\n****\n\nThe "if" statement is used for conditional execution of one suite.\n'
)
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
def installation(tmp_path):
    """A standard library and two packages, one of which must never be imported."""
    site = tmp_path / "lib" / "site-packages"
    hostile = HOSTILE.format(doc=SENTENCE.format("word"), method=SENTENCE.format("line"))
    for name, text in {
        "json/decoder.py": docstring("number"),
        "json/tests/decoder.py": docstring("test"),
        "pydoc_data/topics.py": f"topics = {{'if': {TOPIC!r}}}",
        "site-packages/hostile/__init__.py": hostile,
        "site-packages/hostile/_vendor/copy.py": docstring("copy"),
        "site-packages/single.py": docstring("single"),
        "site-packages/single-1.0.dist-info/METADATA": "Name: single",
    }.items():
        write(site.parent / name, text)
    return Installation(site.parent, (site,))


def test_documentation_is_read_without_importing(installation):
    before = set(sys.modules)
    found = read_documentation(installation)
    text = {document.library: document.paragraphs for document in found.documents}
    assert text == {
        "hostile": (
            SENTENCE.format("word"),
            SENTENCE.format("line"),
            r"A method with an invalid \escape reads the file and returns all that it holds.",
        ),
        "single": (SENTENCE.format("single"),),
        STANDARD_LIBRARY: (SENTENCE.format("number"),),
        LANGUAGE_REFERENCE: ("The if statement is used for conditional execution of one suite.",),
    }
    assert not {"hostile", "single"} & (set(sys.modules) - before)
    found = read_documentation(installation, first=["single", "absent"])
    libraries = [document.library for document in found.documents]
    assert libraries == ["single", STANDARD_LIBRARY, LANGUAGE_REFERENCE, "hostile"]


def test_what_is_left_out_is_counted(installation):
    odd = installation.site_packages[0] / "odd"
    for name, text in (("python2", "print 'no longer'\n"), ("latin", b"'''\xe9t\xe9'''\n"),
                       ("again", docstring("single") + docstring("word"))):  # fmt: skip
        write(odd / f"{name}.py", text)
    skipped = read_documentation(installation).skipped
    assert skipped["file of tests"] == skipped["file of a vendored copy"] == 1
    assert (skipped["unreadable file"], skipped["paragraph seen before"]) == (2, 1)


def test_this_python_has_documentation():
    found = Installation.current()
    libraries = found.libraries()
    assert read_docstrings(libraries[STANDARD_LIBRARY] / "json" / "decoder.py")
    assert "if" in read_strings(found.standard_library / "pydoc_data" / "topics.py")
    assert "__init__.py" in source_files(libraries["numpy"])


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


def test_reading_is_bounded_in_size_and_time(installation, monkeypatch):
    monkeypatch.setattr(corpus, "ENOUGH_CHARS", 1)
    for number in range(40):
        path = installation.site_packages[0] / "large" / f"part{number}.py"
        write(path, docstring(f"word{'x' * number}"))
    found = read_documentation(installation, max_chars_per_library=500)
    assert 500 <= found.chars_by_library()["large"] < 500 + 120
    found = read_documentation(installation, ["large"], seconds=0)
    # One module is enough for a question, and the rest is left out.
    assert [document.library for document in found.documents].count("large") == 1
    assert "single" not in found.chars_by_library()
    assert found.skipped["file left out for want of time"] > 40
