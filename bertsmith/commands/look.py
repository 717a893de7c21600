"""`bertsmith look`: a model and a text → a page that shows the inside of the model."""

from collections.abc import Sequence

from bertsmith.commands.predict import decode_argument
from bertsmith.commands.settings.look import Settings
from bertsmith.data.tables import check_delimiter
from bertsmith.errors import SettingError
from bertsmith.inspection.look import look
from bertsmith.system.counts import count_noun
from bertsmith.system.output_files import PAGE_ENDINGS, lock_outputs


def main(settings: Settings, line: Sequence[str]) -> None:
    """Write the page, and print how many of the text's tokens it shows.

    `line`, the words of the command line, which every command gets, is not needed here.
    """
    if settings.data is not None:
        check_delimiter(settings.columns, settings.data)
    if settings.out.suffix.lower() not in PAGE_ENDINGS:
        raise SettingError("out", settings.out, f"names that end in {' or '.join(PAGE_ENDINGS)}")
    # Locks the page, and refuses one that is the input or a file of the model.
    with lock_outputs({"--out": settings.out}, settings.data, settings.model):
        result = look(
            settings.model,
            decode_argument(settings.text),
            pair=tuple(map(decode_argument, settings.pair)),
            data=settings.data,
            checkpoints=settings.checkpoints,
            without=settings.without,
            words=settings.words,
            language=settings.language,
            columns=settings.columns,
            num_texts=settings.num_texts,
            max_length=settings.max_length,
            device=settings.device,
        )
        result.save(settings.out)
    shown = count_noun(len(result.tokens), "token")
    if result.num_all > len(result.tokens):
        shown = f"{len(result.tokens):,} of {result.num_all:,} tokens"
    print(f"{shown} → {settings.out}")
