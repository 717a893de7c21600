"""Read the cells of tables in HTML, and check that they have only our own markup.

`&lt;` in a cell is read as `<`.
"""

from html.parser import HTMLParser

ALLOWED = {"table", "thead", "tbody", "tr", "th", "td", "div"}
"""Elements of the output in a notebook; any other would be markup in a text, not escaped."""


class TableReader(HTMLParser):
    """Reader of the rows of all tables, and of the lines of text outside of them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.lines: list[str] = []

    def handle_starttag(self, tag, attrs):
        assert tag in ALLOWED
        self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] == "div":
            self.lines.append(data)
        else:
            self.tables[-1][-1][-1] += data


def read_html(html: str) -> TableReader:
    """Read the output in a notebook, and check that all rows of a table are equally long."""
    reader = TableReader()
    reader.feed(html)
    reader.close()
    assert not reader.open
    for rows in reader.tables:
        assert len({len(row) for row in rows}) == 1
    return reader
