"""From files to a tokenizer: determinism, what is held out, coverage, errors."""

from pathlib import Path

import pytest

from bertsmith.errors import ConfigError, InputError
from bertsmith.tokenization.normalize import Normalizer
from bertsmith.vocabulary.train import TokenizerSettings, train_tokenizer
from bertsmith.vocabulary.wordpiece import RuleName

SYLLABLES = ["ka", "to", "mi", "ru", "sen", "do", "pa", "li", "x"]


def document(seed: int) -> str:
    """A few lines of made-up words, another text for each seed."""
    words = []
    state = seed * 2654435761 % 2**32
    for _ in range(60):
        state = (state * 1664525 + 1013904223) % 2**32
        words.append("".join(SYLLABLES[(state >> shift) % 9] for shift in (8, 13, 19)))
    return " ".join(words) + ".\nÜber " + words[0].title()


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    paths = []
    for number in range(3):
        path = tmp_path / f"texts-{number}.txt"
        path.write_text(
            "\n\n".join(document(100 * number + seed) for seed in range(40)), encoding="utf-8"
        )
        paths.append(str(path))
    return paths


def settings(files: list[str], **changes: object) -> TokenizerSettings:
    options = {"vocab_size": 200, "processes": 1} | changes
    return TokenizerSettings(files=tuple(files), **options)  # type: ignore[arg-type]


def vocab_bytes(files: list[str], tmp_path: Path, **changes: object) -> bytes:
    tokenizer, _, _ = train_tokenizer(settings(files, compare=False, **changes))
    tokenizer.save(tmp_path / "out")
    return (tmp_path / "out" / "vocab.txt").read_bytes()


@pytest.mark.parametrize("rule", ["frequency", "likelihood"])
def test_the_same_text_gives_the_same_bytes(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    first = vocab_bytes(files, tmp_path, rule=rule)
    assert vocab_bytes(files[::-1], tmp_path, rule=rule) == first
    # The same documents, in other files and another order.
    documents = "\n\n".join(Path(file).read_text("utf-8") for file in files).split("\n\n")
    whole = tmp_path / "whole.txt"
    whole.write_text("\n\n".join(reversed(documents)), encoding="utf-8")
    assert vocab_bytes([str(whole)], tmp_path, rule=rule) == first


def test_processes_change_no_byte(files: list[str], tmp_path: Path) -> None:
    large = tmp_path / "large.txt"
    line = " ".join(document(seed).replace("\n", " ") for seed in range(300))
    large.write_text("\n\n".join([line] * 30), encoding="utf-8")
    assert large.stat().st_size > 2 << 20  # several batches, so that processes have a part
    alone, together = (
        vocab_bytes([*files, str(large)], tmp_path, processes=processes) for processes in (1, 2)
    )
    assert alone == together


def test_every_word_learnt_from_is_known(files: list[str]) -> None:
    tokenizer, learned, report = train_tokenizer(
        settings(files, character_coverage=1.0, held_out_share=0.0)
    )
    assert learned.skipped_words == 0
    for file in files:
        assert tokenizer.unk_id not in tokenizer.encode_ids(Path(file).read_text("utf-8"))
    assert report.stats == {}
    assert any("--held-out" in note for note in report.notes)


def test_a_share_of_the_documents_is_kept_out_of_learning(files: list[str]) -> None:
    _, _, none = train_tokenizer(settings(files, held_out_share=0.0))
    _, _, some = train_tokenizer(settings(files, held_out_share=0.2))
    _, _, more = train_tokenizer(settings(files, held_out_share=0.5))
    assert 0 < some.held_out_documents < more.held_out_documents < 120
    assert some.stats["bertsmith"].num_words + some.num_words == none.num_words
    assert some.learning.documents == none.learning.documents == 120


def test_held_out_files_are_measured_and_not_learnt(files: list[str], tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("Kato mirusen, 中 kato!", encoding="utf-8")
    tokenizer, _, report = train_tokenizer(settings(files, held_out=(str(other),)))
    ids = tokenizer.encode_ids(other.read_text("utf-8"))
    fit = report.stats["bertsmith"]
    assert fit.num_words == len(Normalizer().words(other.read_text("utf-8"))) == 6
    assert fit.num_pieces == len(ids)
    assert fit.num_unknown == ids.count(tokenizer.unk_id) == 3  # the comma, 中 and !
    assert report.num_words == train_tokenizer(settings(files, held_out_share=0.0))[2].num_words
    assert set(report.stats) == {"bertsmith", "tokenizers library"}


def test_a_held_out_file_is_not_learnt_from_where_files_name_it_too(
    files: list[str], tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(files[0])
    (tmp_path / "link").rename(tmp_path / "other name.txt")
    _, apart, alone = train_tokenizer(settings(files[1:], held_out=(files[0],)))
    for named in (files, [str(tmp_path)]):
        _, learned, report = train_tokenizer(settings(named, held_out=(files[0],)))
        assert learned.tokens == apart.tokens
        assert report.num_words == alone.num_words
        assert report.held_out_documents == 40
        assert report.learning.skipped["held_out_files"] == 1
    with pytest.raises(InputError, match=r"no word to learn from.*1 held_out_files"):
        train_tokenizer(settings([files[0]], held_out=(files[0],)))


def test_a_missing_library_is_said_and_no_error(
    files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    _, _, report = train_tokenizer(settings(files, held_out_share=0.2))
    assert set(report.stats) == {"bertsmith"}
    assert any("not installed" in note for note in report.notes)


def test_a_text_too_small_for_the_vocabulary_is_said(files: list[str]) -> None:
    tokenizer, _, report = train_tokenizer(settings(files, vocab_size=50_000))
    assert tokenizer.vocab_size < 50_000
    assert any(f"{tokenizer.vocab_size:,} tokens, not 50,000" in note for note in report.notes)


def test_case_and_accents_are_kept_on_request(files: list[str]) -> None:
    tokenizer, learned, _ = train_tokenizer(
        settings(files, lowercase=False, character_coverage=1.0, held_out_share=0.0)
    )
    assert {"Ü", "K"} <= set(learned.alphabet)
    assert not tokenizer.lowercase
    lower, learned, _ = train_tokenizer(settings(files, strip_accents=False))
    assert "ü" in learned.alphabet and lower.lowercase


def test_no_words_is_an_error(tmp_path: Path) -> None:
    blank = tmp_path / "blank.txt"
    blank.write_text("\x01\x02\n\n\x03\n", encoding="utf-8")
    with pytest.raises(InputError, match="no word to learn from in 0 documents"):
        train_tokenizer(settings([str(blank)]))


def test_all_documents_held_out_is_an_error(tmp_path: Path) -> None:
    single = tmp_path / "single.txt"
    single.write_text("one document", encoding="utf-8")
    with pytest.raises(InputError, match="held out: 1"):
        train_tokenizer(settings([str(single)], held_out_share=0.999_999))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"min_frequency": 0}, "--min-frequency: found 0, allowed is 1 or more"),
        ({"surplus": -0.1}, "--surplus: found -0.1, allowed is 0 to 10"),
        ({"character_coverage": 1.5}, "--character-coverage: found 1.5"),
        ({"held_out_share": 1.0}, "--held-out-share: found 1.0"),
        ({"processes": 0}, "--processes: found 0"),
        ({"model_max_length": 2}, "--model-max-length: found 2"),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        settings(["a.txt"], **changes)


def test_no_files_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no FILES"):
        settings([])


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "most"), [("frequency", 0.99), ("likelihood", 1.01)])
def test_our_vocabulary_beside_the_library_s(rule: RuleName, most: float, data_dir: Path) -> None:
    _, _, report = train_tokenizer(
        settings(
            [str(data_dir / "enwiki" / "small.txt")],
            held_out=(str(data_dir / "enwiki" / "valid.txt"),),
            vocab_size=8_000,
            rule=rule,
        )
    )
    ours, theirs = report.stats["bertsmith"], report.stats["tokenizers library"]
    assert ours.fertility < most * theirs.fertility
    assert ours.vocabulary_use > theirs.vocabulary_use
    assert ours.unknown_rate < 0.001
