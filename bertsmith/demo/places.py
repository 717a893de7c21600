"""Where everything of a demo is: its folder in, the paths of its parts out."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Places:
    """The folders and files of a demo."""

    out: Path

    @property
    def text(self) -> Path:
        """The documentation as plain text."""
        return self.out / "documentation.txt"

    @property
    def tokenizer(self) -> Path:
        """The vocabulary."""
        return self.out / "tokenizer"

    @property
    def corpus(self) -> Path:
        """The token ids."""
        return self.out / "corpus"

    @property
    def pretrained(self) -> Path:
        """The pre-trained model."""
        return self.out / "pretrained"

    @property
    def classifier(self) -> Path:
        """The pre-trained model after fine-tuning on the first draw."""
        return self.out / "classifier"

    @property
    def report(self) -> Path:
        """The page."""
        return self.out / "report.html"

    def train(self, draw: int) -> Path:
        """Labelled paragraphs to learn from."""
        return self.out / "question" / ("train.csv" if draw == 0 else f"train-{draw + 1}.csv")

    @property
    def dev(self) -> Path:
        """Labelled paragraphs to choose the best weights by."""
        return self.out / "question" / "dev.csv"

    @property
    def test(self) -> Path:
        """Labelled paragraphs to score on."""
        return self.out / "question" / "test.csv"
