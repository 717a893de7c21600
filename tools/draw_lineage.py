"""Draw the figures of docs/lineage.md: six systems and one sentence, in one visual language.

`python tools/draw_lineage.py` writes `docs/lineage/*.svg` and, in Chinese, `docs/zh/lineage/*.svg`.
The sentence is at the bottom, the prediction at the top. Thick lines lead from what a system sees
to one prediction, which is that of the same word in all figures. Numbers in the functions that draw
are pixels, heights counted from the top.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"

WIDTH = 448  # a page of 400 pixels shows it at four fifths, and its letters at 11 pixels or more
COLUMNS = (112, 184, 256, 328, 400)
LEFT = 12
# Width and height of the shapes.
BOX = (64, 30)
VECTOR = (64, 16)
CELL = (48, 42)
HALF_CELL = (44, 28)
BESIDE = 22  # horizontal distance from the middle of a column to a line that passes its cell
PREDICTED = 2
"""Number of the token that all figures predict."""

STYLE = """\
  .card { fill: #fff; stroke: #d5d8e0 } .box { fill: #eef1fd; stroke: #5a67d8 }
  .cell { fill: #fdf3e1; stroke: #a86f0c }
  .gap { fill: #fff; stroke: #5a67d8; stroke-dasharray: 5 3 }
  .predicted { fill: #fbdcdc; stroke: #b82020; stroke-width: 3 }
  text { fill: #1f2430; text-anchor: middle }
  text { font: 15px system-ui, "Noto Sans CJK SC", sans-serif }
  .mono { font-family: ui-monospace, monospace } .small { font-size: 14px }
  .dim { fill: #5b6270; font-size: 14px } .left { text-anchor: start } .bold { font-weight: 600 }
  .thin { stroke: #9aa1b0; stroke-width: 1; fill: none }
  .thick { stroke: #3b47b5; stroke-width: 2.5; fill: none; marker-end: url(#tip) }
  .dashed { stroke-dasharray: 6 4 } .tip { fill: #3b47b5 }
  @media (prefers-color-scheme: dark) {
    .card { fill: #1b1e27; stroke: #3a3f4d } .box { fill: #272c45; stroke: #8f9bff }
    .cell { fill: #3a2f1a; stroke: #e0ab52 } .gap { fill: #1b1e27; stroke: #8f9bff }
    .predicted { fill: #472429; stroke: #f08a8a } text { fill: #eceef4 } .dim { fill: #aab0bf }
    .thin { stroke: #6d7484 } .thick { stroke: #b3bcff } .tip { fill: #b3bcff }
  }"""
TIP = """\
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="4" markerHeight="4" \
orient="auto"><path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>"""


@dataclass(frozen=True)
class Language:
    """The words of the figures in one language; titles and descriptions are by system."""

    folder: Path
    sentence: Sequence[str]
    translation: Sequence[str]
    """What a decoder writes, of which token `PREDICTED` is predicted."""
    titles: dict[str, str]
    descriptions: dict[str, str]
    legend: str
    """Meaning of thick lines; `{}` is the predicted word."""
    legends: dict[str, str]
    """Legends of systems whose figures have more to explain."""
    # The fields below are words in the figures.
    start: str
    text: str
    letters: str
    reads: str
    layers: str
    encoder: str
    decoder: str
    so_far: str
    predicts: str
    mix: str


ENGLISH = Language(
    folder=DOCS / "lineage",
    sentence=("the", "cat", "drank", "the", "milk"),
    translation=("die", "Katze", "trank", "die", "Milch"),
    titles={
        "bert": "BERT: each token sees both sides",
        "gpt": "GPT: each token sees its left side",
        "lstm": "LSTM, GRU: one state, handed from token to token",
        "elmo": "ELMo: two readers, each with one side",
        "transformer": "Transformer: the target sees the whole source",
        "t5": "T5: the target fills the gaps of the source",
    },
    descriptions={
        "bert": "The sentence is “the cat drank the milk”. BERT reads it with [MASK] in place of "
        "“drank”. In each layer each of the five positions sees all five. At [MASK] the model "
        "predicts “drank”.",
        "gpt": "The sentence is “the cat drank the milk”. In each layer a token sees itself and "
        "those to its left. Each token predicts the next one: “the” and “cat” predict “drank”.",
        "lstm": "The sentence is “the cat drank the milk”. A cell reads one token at a time and "
        "hands its state to the next cell on the right. The state after “the cat” predicts "
        "“drank”.",
        "elmo": "The sentence is “the cat drank the milk”. A CNN makes a vector of the letters of "
        "each token. One LSTM reads the vectors from left to right, another from right to left. "
        "The first predicts “drank” after “the cat”, the second before “the milk”. A task reads "
        "a mix of the CNN and both LSTMs.",
        "transformer": "The encoder reads “the cat drank the milk”; each of its tokens sees all "
        "five. The decoder writes “die Katze trank die Milch”. To predict “trank” it sees what it "
        "wrote so far, “die Katze”, and all five encoded tokens of the source.",
        "t5": "The sentence is “the cat drank the milk”, without “cat drank” and “milk”. The "
        "encoder reads “the”, a sentinel X, “the” and a sentinel Y. The decoder writes X, “cat”, "
        "“drank”, Y, “milk”. To predict “drank” it sees what it wrote so far, and the whole "
        "source.",
    },
    legend="Thick lines: what “{}” is predicted from.",
    legends={
        "elmo": "Thick: what “{}” is predicted from. Mix: what a task reads.",
        "transformer": "Thick: what “{}” is predicted from. Dashed: the source.",
        "t5": "Thick: what “{}” is predicted from. Dashed: the source.",
    },
    start="start",
    text="text",
    letters="letters",
    reads="reads",
    layers="each layer",
    encoder="encoder",
    decoder="decoder",
    so_far="so far",
    predicts="predicts",
    mix="mix",
)

CHINESE = Language(
    folder=DOCS / "zh" / "lineage",
    sentence=("小", "猫", "喝", "牛", "奶"),
    translation=("the", "kitten", "drinks", "milk", "[SEP]"),
    titles={
        "bert": "BERT：每个词元看到左右两边",
        "gpt": "GPT：每个词元只看到左边",
        "lstm": "LSTM、GRU：一个状态，逐个词元传下去",
        "elmo": "ELMo：两个读者，各看一边",
        "transformer": "Transformer：目标文本看到整个源文本",
        "t5": "T5：目标文本填补源文本的空缺",
    },
    descriptions={
        "bert": "句子是“小猫喝牛奶”。BERT 读到的句子中，“喝”的位置是 [MASK]。"
        "在每一层，五个位置都看到全部五个位置。模型在 [MASK] 处预测“喝”。",
        "gpt": "句子是“小猫喝牛奶”。在每一层，一个词元看到它自己和左边的词元。"
        "每个词元预测下一个词元：“小猫”预测“喝”。",
        "lstm": "句子是“小猫喝牛奶”。每个单元读一个词元，并把状态传给右边的单元。"
        "读完“小猫”之后的状态预测“喝”。",
        "elmo": "句子是“小猫喝牛奶”。CNN 由每个词元的字节得到一个向量。"
        "一个 LSTM 从左到右读这些向量，另一个从右到左读。"
        "第一个在“小猫”之后预测“喝”，第二个在“牛奶”之前预测“喝”。"
        "下游任务读 CNN 和两个 LSTM 的混合。",
        "transformer": "编码器读“小猫喝牛奶”，每个词元看到全部五个词元。"
        "解码器写出“the kitten drinks milk”。预测“drinks”时，"
        "它看到已经写出的“the kitten”和源文本的全部五个词元。",
        "t5": "句子是“小猫喝牛奶”，缺少“猫喝”和“奶”。"
        "编码器读“小”、哨兵 X、“牛”、哨兵 Y。解码器写出 X、猫、喝、Y、奶。"
        "预测“喝”时，它看到已经写出的词元和整个源文本。",
    },
    legend="粗线：“{}”的预测由此而来。",
    legends={
        "elmo": "粗线：“{}”的预测由此而来。混合：下游任务所读。",
        "transformer": "粗线：“{}”的预测由此而来。虚线：来自源文本。",
        "t5": "粗线：“{}”的预测由此而来。虚线：来自源文本。",
    },
    start="开始",
    text="原文",
    letters="字节",
    reads="读入",
    layers="每一层",
    encoder="编码器",
    decoder="解码器",
    so_far="已写出",
    predicts="预测",
    mix="混合",
)


@dataclass(frozen=True)
class Row:
    """Shapes of one height, each in the middle of a column."""

    columns: Sequence[float]
    y: float
    half_height: float

    def top(self, number: int) -> tuple[float, float]:
        """Return the point where lines leave a shape upwards."""
        return self.columns[number], self.y - self.half_height

    def bottom(self, number: int) -> tuple[float, float]:
        """Return the point where lines reach a shape from below."""
        return self.columns[number], self.y + self.half_height


@dataclass
class Figure:
    """A drawing from the bottom to the top; lines lie below shapes, thick lines above thin ones."""

    system: str
    language: Language
    predicted: str
    """The word that is predicted."""
    height: int
    thin: list[str] = field(default_factory=list)
    thick: list[str] = field(default_factory=list)
    shapes: list[str] = field(default_factory=list)

    def write(self, x: float, y: float, text: str, style: str) -> None:
        """Write a text whose line is centred at `y`."""
        text_style = f' class="{style}"' if style else ""
        self.shapes.append(f'<text{text_style} x="{x:g}" y="{y + 5:g}">{escape(text)}</text>')

    def name(self, y: float, text: str) -> None:
        """Name a row, left of its columns."""
        self.write(LEFT, y, text, "dim left")

    def shape(
        self, x: float, y: float, size: tuple[float, float], style: str, rounding: float = 5
    ) -> None:
        """Draw a rectangle around a point."""
        width, height = size
        self.shapes.append(
            f'<rect class="{style}" x="{x - width / 2:g}" y="{y - height / 2:g}" '
            f'width="{width:g}" height="{height:g}" rx="{rounding:g}"/>'
        )

    def tokens(
        self,
        y: float,
        words: Sequence[str],
        columns: Sequence[float] = COLUMNS,
        styles: dict[int, str] | None = None,
    ) -> Row:
        """Draw a row of tokens in boxes, some in styles of their own."""
        for number, (x, word) in enumerate(zip(columns, words, strict=True)):
            style = (styles or {}).get(number, "box")
            self.shape(x, y, BOX, style)
            self.write(x, y, word, "mono bold" if style == "predicted" else "mono")
        return Row(columns, y, BOX[1] / 2)

    def vectors(self, y: float, columns: Sequence[float] = COLUMNS) -> Row:
        """Draw a row of vectors."""
        for x in columns:
            self.shape(x, y, VECTOR, "box", rounding=VECTOR[1] / 2)
        return Row(columns, y, VECTOR[1] / 2)

    def predictions(self, y: float, words: Sequence[str], predicted: int) -> Row:
        """Draw a row of predicted tokens, one of which stands out."""
        self.name(y, self.language.predicts)
        return self.tokens(y, words, styles={predicted: "predicted"})

    def line(
        self, start: tuple[float, float], end: tuple[float, float], style: str = "thin"
    ) -> None:
        """Draw a straight line between two points, with a tip at the end if it is thick."""
        (x1, y1), (x2, y2) = start, end
        path = f'<path class="{style}" d="M{x1:g} {y1:g} {x2:g} {y2:g}"/>'
        (self.thin if style == "thin" else self.thick).append(path)

    def connect(
        self,
        lower: Row,
        upper: Row,
        sees: Callable[[int, int], bool],
        predicted: int | None = None,
        style: str = "thick",
    ) -> None:
        """Connect shapes above with those below that they see; lines of `predicted` are thick."""
        for above in range(len(upper.columns)):
            for below in range(len(lower.columns)):
                if sees(above, below):
                    line_style = style if above == predicted else "thin"
                    self.line(lower.top(below), upper.bottom(above), line_style)

    def to_svg(self) -> str:
        """Return the file."""
        language = self.language
        title = language.titles[self.system]
        legend = language.legends.get(self.system, language.legend)
        self.write(LEFT, 22, title, "left bold")
        self.write(LEFT, 44, legend.format(self.predicted), "dim left")
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" '
            f'width="{WIDTH}" height="{self.height}" role="img" aria-labelledby="title desc">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="desc">{escape(language.descriptions[self.system])}</desc>',
            f"<style>\n{STYLE}\n</style>",
            TIP,
            f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{self.height - 1}" '
            'rx="8"/>',
            *self.thin,
            *self.thick,
            *self.shapes,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"


def is_same(above: int, below: int) -> bool:
    return above == below


def sees_all(above: int, below: int) -> bool:
    return True


def sees_left(above: int, below: int) -> bool:
    return below <= above


def draw_bert(language: Language) -> Figure:
    """Draw a token that is hidden, and predicted from all others."""
    predicted = language.sentence[PREDICTED]
    figure = Figure("bert", language, predicted, height=346)
    figure.name(320, language.text)
    text = figure.tokens(320, language.sentence, styles={PREDICTED: "gap"})
    figure.name(258, language.reads)
    words = [*language.sentence]
    words[PREDICTED] = "[MASK]"
    read = figure.tokens(258, words)
    figure.connect(text, read, is_same)
    figure.name(202, language.layers)
    vectors = figure.vectors(150)
    figure.connect(read, vectors, sees_all, PREDICTED)
    figure.name(84, language.predicts)
    prediction = figure.tokens(84, [predicted], [COLUMNS[PREDICTED]], {0: "predicted"})
    figure.line(vectors.top(PREDICTED), prediction.bottom(0), "thick")
    return figure


def draw_gpt(language: Language) -> Figure:
    """Draw the tokens that each predict the next from those to the left."""
    reader = PREDICTED - 1
    figure = Figure("gpt", language, language.sentence[PREDICTED], height=290)
    figure.name(264, language.text)
    read = figure.tokens(264, language.sentence)
    figure.name(206, language.layers)
    vectors = figure.vectors(150)
    figure.connect(read, vectors, sees_left, reader)
    predictions = figure.predictions(84, [*language.sentence[1:], "[SEP]"], reader)
    figure.connect(vectors, predictions, is_same, reader)
    return figure


def draw_lstm(language: Language) -> Figure:
    """Draw the cells that hand a state from token to token."""
    reader = PREDICTED - 1
    figure = Figure("lstm", language, language.sentence[PREDICTED], height=264)
    figure.name(238, language.text)
    read = figure.tokens(238, language.sentence)
    figure.name(158, language.layers)
    cells = draw_cells(figure, 158, COLUMNS, CELL, ("LSTM", "GRU"))
    hand_on(figure, cells, CELL, range(len(COLUMNS)), reader)
    for number in range(len(COLUMNS)):
        style = "thick" if number <= reader else "thin"
        figure.line(read.top(number), cells.bottom(number), style)
    predictions = figure.predictions(84, [*language.sentence[1:], "[SEP]"], reader)
    figure.connect(cells, predictions, is_same, reader)
    return figure


def draw_cells(
    figure: Figure,
    y: float,
    columns: Sequence[float],
    size: tuple[float, float],
    lines: Sequence[str],
) -> Row:
    """Draw a row of recurrent cells with the same lines of text in each."""
    for x in columns:
        figure.shape(x, y, size, "cell")
        for number, text in enumerate(lines):
            figure.write(x, y + 16 * (number - (len(lines) - 1) / 2), text, "small")
    return Row(columns, y, size[1] / 2)


def hand_on(
    figure: Figure, cells: Row, size: tuple[float, float], order: Sequence[int], reader: int
) -> None:
    """Draw the lines on which cells hand their state to the next one.

    Args:
        size: width and height of a cell.
        order: the numbers of the cells in the order in which they read.
        reader: the cell that makes the prediction; lines up to it are thick.
    """
    style = "thick"
    for before, after in pairwise(order):
        if before == reader:
            style = "thin"
        direction = 1 if after > before else -1
        start = cells.columns[before] + direction * size[0] / 2
        end = cells.columns[after] - direction * size[0] / 2
        figure.line((start, cells.y), (end, cells.y), style)


def draw_elmo(language: Language) -> Figure:
    """Draw letters, their CNN, an LSTM each way, and the mix of these."""
    figure = Figure("elmo", language, language.sentence[PREDICTED], height=412)
    figure.name(386, language.text)
    text = figure.tokens(386, language.sentence)
    figure.name(344, language.letters)
    draw_letters(figure, 344, language.sentence)
    figure.name(298, "CNN")
    vectors = figure.vectors(298)
    last = len(COLUMNS) - 1
    left, right = ([x + step for x in COLUMNS] for step in (-6, 6))
    rightward = draw_cells(figure, 234, left, HALF_CELL, ("LSTM",))
    leftward = draw_cells(figure, 166, right, HALF_CELL, ("LSTM",))
    figure.name(234, "LSTM →")
    figure.name(166, "← LSTM")
    readers = PREDICTED - 1, PREDICTED + 1
    hand_on(figure, rightward, HALF_CELL, range(last + 1), readers[0])
    hand_on(figure, leftward, HALF_CELL, range(last, -1, -1), readers[1])
    figure.name(84, language.predicts)
    figure.tokens(84, [figure.predicted], [COLUMNS[PREDICTED]], {0: "predicted"})
    figure.tokens(84, [language.mix], [COLUMNS[last]])
    for number, x in enumerate(COLUMNS):
        figure.line(text.top(number), vectors.bottom(number))
        to_rightward, to_leftward = x - 6, x + BESIDE
        figure.line(
            (to_rightward, vectors.top(number)[1]),
            rightward.bottom(number),
            "thick" if number <= readers[0] else "thin",
        )
        figure.line(
            (to_leftward, vectors.top(number)[1]),
            (to_leftward, leftward.y + leftward.half_height),
            "thick" if number >= readers[1] else "thin",
        )
    # What the first LSTM computes passes the second on the left.
    x, end = COLUMNS[readers[0]] - BESIDE, COLUMNS[PREDICTED] - 14
    figure.thick.append(
        f'<path class="thick" d="M{x:g} {rightward.top(0)[1]:g} V140 L{end:g} 99"/>'
    )
    figure.line(leftward.top(readers[1]), (COLUMNS[PREDICTED] + 14, 99), "thick")
    figure.line((COLUMNS[last] - BESIDE, rightward.top(0)[1]), (COLUMNS[last] - 24, 99))
    figure.line(leftward.top(last), (COLUMNS[last] + 6, 99))
    figure.line((COLUMNS[last] + 30, vectors.top(last)[1]), (COLUMNS[last] + 30, 99))
    return figure


def draw_letters(figure: Figure, y: float, words: Sequence[str]) -> None:
    """Draw each token as the bytes that the CNN reads; those of ASCII are letters."""
    for x, word in zip(COLUMNS, words, strict=True):
        letters = [*word] if word.isascii() else [f"{byte:x}" for byte in word.encode()]
        width = 12 * len(letters[0]) if word.isascii() else 21
        for number, letter in enumerate(letters):
            middle = x + width * (number - (len(letters) - 1) / 2)
            figure.shape(middle, y, (width, 20), "box", rounding=0)
            figure.write(middle, y, letter, "mono small")


def draw_decoder(figure: Figure, written: Sequence[str], memory: Row) -> None:
    """Draw a decoder above an encoder's vectors, which it sees by dashed lines."""
    language = figure.language
    figure.name(232, language.so_far)
    so_far = figure.tokens(232, [language.start, *written[:-1]])
    figure.name(146, language.decoder)
    vectors = figure.vectors(146)
    figure.connect(so_far, vectors, sees_left, PREDICTED)
    for number in range(len(memory.columns)):
        figure.line(memory.top(number), vectors.bottom(PREDICTED), "thick dashed")
    predictions = figure.predictions(84, written, PREDICTED)
    figure.connect(vectors, predictions, is_same, PREDICTED)


def draw_transformer(language: Language) -> Figure:
    """Draw an encoder that reads the sentence, and a decoder that writes its translation."""
    figure = Figure("transformer", language, language.translation[PREDICTED], height=426)
    figure.name(400, language.text)
    read = figure.tokens(400, language.sentence)
    figure.name(308, language.encoder)
    memory = figure.vectors(308)
    figure.connect(read, memory, sees_all)
    draw_decoder(figure, language.translation, memory)
    return figure


def draw_t5(language: Language) -> Figure:
    """Draw a sentence with two gaps, and a decoder that writes what is missing."""
    first, *gap, kept, last = language.sentence
    figure = Figure("t5", language, gap[1], height=482)
    figure.name(456, language.text)
    text = figure.tokens(456, language.sentence, styles=dict.fromkeys((1, 2, 4), "gap"))
    figure.name(398, language.reads)
    columns = [COLUMNS[0], (COLUMNS[1] + COLUMNS[2]) / 2, *COLUMNS[3:]]
    read = figure.tokens(398, [first, "<X>", kept, "<Y>"], columns)
    for number, below in ((0, 0), (1, 1), (1, 2), (2, 3), (3, 4)):
        figure.line(text.top(below), read.bottom(number))
    figure.name(308, language.encoder)
    memory = figure.vectors(308, columns)
    figure.connect(read, memory, sees_all)
    draw_decoder(figure, ["<X>", *gap, "<Y>", last], memory)
    return figure


SYSTEMS = (draw_bert, draw_gpt, draw_lstm, draw_elmo, draw_transformer, draw_t5)


def draw_all() -> dict[Path, str]:
    """Return the text of each figure by its file."""
    figures = [draw(language) for language in (ENGLISH, CHINESE) for draw in SYSTEMS]
    return {figure.language.folder / f"{figure.system}.svg": figure.to_svg() for figure in figures}


if __name__ == "__main__":
    for path, text in draw_all().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
