"""`bertsmith generate`: a text goes in, the text and its continuation come out."""

import json

import pytest
import torch
import transformers
from limits import file_size_limit
from refusals import refuses
from tiny_gpt import build_theirs
from tiny_tokenizers import tiny_byte_bpe, tiny_wordpiece

from bertsmith.cli import main
from bertsmith.errors import CheckpointError, InputError
from bertsmith.lineage.beam_search import BeamSearch
from bertsmith.lineage.generation import Sampling, generate
from bertsmith.lineage.gpt import Gpt, GptConfig
from bertsmith.lineage.gpt_folder import save_gpt
from bertsmith.lineage.gpt_tokenizer import load_text_tokenizer
from bertsmith.lineage.text_generation import TextGenerator


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tokenizer = tiny_wordpiece()
    torch.manual_seed(1)
    config = GptConfig(
        tokenizer.vocab_size, n_embd=36, n_layer=2, n_head=3, n_positions=30,
        bos_token_id=tokenizer.cls_id, eos_token_id=tokenizer.sep_id,
        pad_token_id=tokenizer.pad_id, initializer_range=0.3,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("gpt") / "model"
    save_gpt(Gpt(config), path, tokenizer)
    return path


def test_a_text_is_continued_after_the_start_token(folder):
    generator = TextGenerator.load(folder, "cpu")
    tokenizer, model = generator.tokenizer, generator.model
    prompts = [
        [tokenizer.cls_id, *tokenizer.encode_ids(text)] for text in ("the river runs", "", "sea")
    ]
    expected = generate(model, prompts, 6)
    results = generator(["the river runs", "", "sea"], 6)
    for prompt, ids, result in zip(prompts, expected, results, strict=True):
        assert result.continuation == tokenizer.decode(ids)
        assert result.text == tokenizer.decode(prompt + ids)
        assert result.is_ended == (ids[-1] == tokenizer.sep_id)
        assert result.num_tokens == len(ids) - result.is_ended
    assert results[0].text.startswith("the river runs")


def test_the_line_chooses_tokens_by_its_flags(folder, bertsmith):
    generator = TextGenerator.load(folder, "cpu")

    def run(*flags):
        line = ("generate", folder, "the river", "--device", "cpu", "--max-new-tokens", "7")
        return json.loads(bertsmith(*line, *flags, "--json"))["continuation"]

    def expect(choice):
        return generator(["the river"], 7, choice)[0].continuation

    assert run() == expect(None)
    assert run("--seed", "3") == expect(Sampling(seed=3))
    flags = ("--temperature", "0.7", "--top-k", "9", "--top-p", "0.8")
    assert run(*flags) == expect(Sampling(0.7, 9, 0.8))
    assert run("--beams", "3") == expect(BeamSearch(3))
    assert run("--beams", "3", "--length-penalty", "-2") == expect(BeamSearch(3, -2.0))
    text = bertsmith("generate", folder, "the river", "--device", "cpu", "--max-new-tokens", "7")
    assert text == generator(["the river"], 7)[0].text + "\n"


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (("--beams", "0"), ("--beams", "0", "1 or more")),
        (("--beams", "2", "--top-k", "3"), ("--beams", "--top-k")),
        (("--temperature", "0"), ("--temperature",)),
        (("--temperature", "1e-40"), ("--temperature", "0.0001")),
        (("--length-penalty", "2"), ("--length-penalty", "--beams")),
        (("--max-new-tokens", "0"), ("--max-new-tokens",)),
        (("--max-new-tokens", "40"), ("40", "30", "--max-new-tokens")),
    ],
)
def test_what_cannot_be_is_refused(folder, refused, flags, parts):
    line = refused("generate", folder, "the river", *flags)
    assert all(part in line for part in parts)


def test_by_default_a_text_is_continued_as_far_as_the_model_reads(folder, bertsmith, refused):
    """The model has 30 positions, and no end token is likely enough to come first."""
    generator = TextGenerator.load(folder, "cpu")
    room = generator.longest - len(generator.encode_prompt("the river"))
    line = ("generate", folder, "the river", "--device", "cpu", "--json")
    found = json.loads(bertsmith(*line))
    assert found == json.loads(bertsmith(*line, "--max-new-tokens", str(room)))
    assert found["num_tokens"] == room or found["is_ended"]
    assert "Shorten" in refused("generate", folder, "sea " * 30)


def test_a_model_that_cannot_continue_a_text_names_its_command(refused, tmp_path):
    for kind in ("bert", "model2vec"):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}), encoding="utf-8")
        assert "Its commands are embed" in refused("generate", tmp_path, "the river")


def test_minimal_pairs_are_scored_by_the_tokens_before(
    folder, bertsmith, refused, tmp_path, capsys
):
    table, scores = tmp_path / "pairs.csv", tmp_path / "scores.jsonl"
    pairs = [("the river runs", "runs the river"), ("the sea is wide", "the sea is"), ("a", "a")]
    rows = "".join(f"{good},{bad}\n" for good, bad in pairs)
    table.write_text(f"sentence_good,sentence_bad\n{rows}", encoding="utf-8")
    line = ("evaluate", folder, "--minimal-pairs", table, "--device", "cpu")
    report = json.loads(bertsmith(*line, "--scores", scores, "--json"))
    assert report["num_pairs"] == 3 and report["num_identical"] == 1
    generator = TextGenerator.load(folder, "cpu")
    for (good, bad), text in zip(pairs, scores.read_text("utf-8").splitlines(), strict=True):
        found = json.loads(text)
        for sentence, name in ((good, "score_good"), (bad, "score_bad")):
            ids = torch.tensor([generator.encode_prompt(sentence)])
            with torch.no_grad():
                loss = generator.model(ids, labels=ids).loss.item()
            assert found[name] == pytest.approx(-loss * (ids.shape[1] - 1), abs=1e-4)
    assert "accuracy" in bertsmith(*line)
    with pytest.raises(SystemExit), file_size_limit(100):
        main([*map(str, line), "--scores", str(tmp_path / "large.jsonl")])
    printed = capsys.readouterr()
    assert "accuracy" in printed.out and "large.jsonl: cannot be written" in printed.err
    assert "--minimal-pairs" in refused("evaluate", folder, "--data", table)
    report = json.loads(bertsmith(*line, "--max-length", "3", "--json"))
    assert report["num_truncated"] == 2
    assert "--max-length" in refused(*line, "--max-length", "1")
    assert "--precision" in refused(*line, "--precision", "bf16")
    table.write_text("sentence_good,sentence_bad\na,##\n", encoding="utf-8")


@pytest.mark.parametrize("has_old_files", [False, True])
def test_a_published_gpt_2_continues_texts_as_in_transformers(tmp_path, has_old_files, bertsmith):
    """Its tokenizer has one special token, and a text has no start token."""
    bpe = tiny_byte_bpe()
    pieces = [bpe.id_to_token(number) for number in range(5, bpe.vocab_size)]
    vocab = {piece: number for number, piece in enumerate([*pieces, "<|endoftext|>"])}
    library = transformers.GPT2Tokenizer(vocab=vocab, merges=list(bpe.merges))
    library.save_pretrained(tmp_path)
    if has_old_files:
        (tmp_path / "tokenizer.json").unlink()
        (tmp_path / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
        lines = ["#version: 0.2", *map(" ".join, bpe.merges)]
        (tmp_path / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    end = len(vocab) - 1
    theirs = build_theirs(
        seed=4, vocab_size=len(vocab), bos_token_id=end, eos_token_id=end, pad_token_id=None
    )
    theirs.save_pretrained(tmp_path)
    for text in ("The river", " it's 漢字", ""):
        ids = torch.tensor([vocab[piece] for piece in library.tokenize(text)] or [end])[None]
        answer = theirs.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=8,
            pad_token_id=end,
        )  # fmt: skip
        expected = library.decode(answer[0], skip_special_tokens=True)
        line = ("generate", tmp_path, text, "--max-new-tokens", "8", "--device", "cpu", "--json")
        assert json.loads(bertsmith(*line))["text"] == expected


def write_gpt2_vocabulary(folder, bpe, vocab):
    """Write the two files of GPT-2's tokenizer, as they were before tokenizer.json."""
    (folder / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    lines = ["#version: 0.2", *map(" ".join, bpe.merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def tiny_gpt2_vocabulary():
    """Return a BPE, and the ids of its pieces without the five special tokens of RoBERTa."""
    bpe = tiny_byte_bpe()
    pieces = [bpe.id_to_token(number) for number in range(5, bpe.vocab_size)]
    return bpe, {piece: number for number, piece in enumerate([*pieces, "<|endoftext|>"])}


def save_gpt2_with_added_tokens(folder):
    """Save a tokenizer of transformers with two added tokens; return it, its BPE and vocabulary."""
    bpe, vocab = tiny_gpt2_vocabulary()
    library = transformers.GPT2Tokenizer(vocab=vocab, merges=list(bpe.merges))
    library.add_tokens(["<user>", "river runs"])
    library.save_pretrained(folder)
    return library, bpe, vocab


@pytest.mark.parametrize("has_old_files", [False, True])
def test_tokens_added_to_gpt_2_are_found_in_texts_as_in_transformers(tmp_path, has_old_files):
    library, bpe, vocab = save_gpt2_with_added_tokens(tmp_path)
    if has_old_files:  # transformers 4 listed added tokens in tokenizer_config.json
        added = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))["added_tokens"]
        config = json.loads((tmp_path / "tokenizer_config.json").read_text("utf-8"))
        config["added_tokens_decoder"] = {str(token.pop("id")): token for token in added}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
        (tmp_path / "tokenizer.json").unlink()
        write_gpt2_vocabulary(tmp_path, bpe, vocab)
    tokenizer, has_start = load_text_tokenizer(tmp_path)
    assert not has_start
    text = "<user> the river runs down<|endoftext|>who?"
    assert tokenizer.encode_ids(text) == library(text).input_ids


@pytest.mark.parametrize("num_listed", [0, 1, 2])
def test_tokens_that_only_the_config_of_gpt_2_lists_are_found(tmp_path, num_listed):
    """The list of tokenizer.json is completed by that of tokenizer_config.json."""
    library, _, _ = save_gpt2_with_added_tokens(tmp_path)
    root = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))
    config = json.loads((tmp_path / "tokenizer_config.json").read_text("utf-8"))
    config["added_tokens_decoder"] = {
        str(token["id"]): {key: value for key, value in token.items() if key != "id"}
        for token in root["added_tokens"]
    }
    root["added_tokens"] = root["added_tokens"][:num_listed]
    (tmp_path / "tokenizer.json").write_text(json.dumps(root), encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    tokenizer, _ = load_text_tokenizer(tmp_path)
    reopened = transformers.AutoTokenizer.from_pretrained(tmp_path)
    text = "<user> the river runs down<|endoftext|>who?"
    assert tokenizer.encode_ids(text) == reopened(text).input_ids == library(text).input_ids


@pytest.mark.parametrize("is_listed", [True, False])
def test_tokens_added_to_gpt_2_by_early_transformers_keep_their_ids(tmp_path, is_listed):
    """Before 4.34 it wrote added_tokens.json, and named the special ones in another file."""
    bpe, vocab = tiny_gpt2_vocabulary()
    write_gpt2_vocabulary(tmp_path, bpe, vocab)
    end = len(vocab)
    extra = {"<bot>": end + 2, "<user>": end + 1, "river runs": end}
    if not is_listed:  # only named as special, it gets the next id
        extra = {"<bot>": end}
    files = {
        "config.json": {"model_type": "gpt2"},
        "tokenizer_config.json": {"tokenizer_class": "GPT2Tokenizer"},
        "special_tokens_map.json": {"additional_special_tokens": ["<bot>"]},
    }
    if is_listed:
        files["added_tokens.json"] = extra
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    tokenizer, has_start = load_text_tokenizer(tmp_path)
    assert not has_start
    assert {name: tokenizer.token_to_id(name) for name in extra} == extra
    library = transformers.AutoTokenizer.from_pretrained(tmp_path)
    text = "<user> the river runs down<bot><|endoftext|>who?"
    assert tokenizer.encode_ids(text) == library(text).input_ids


ROLES = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


@pytest.mark.parametrize("has_old_files", [False, True])
@pytest.mark.parametrize(
    "settings", [{"add_prefix_space": True}, ROLES, {"pad_token": "[PAD]"}, {"eos_token": "</s>"}]
)
def test_gpt_2_has_the_settings_of_its_tokenizer_config(tmp_path, settings, has_old_files):
    bpe = tiny_byte_bpe()
    pieces = [bpe.id_to_token(number) for number in range(5, bpe.vocab_size)]
    special = [
        token for name, token in settings.items() if name in ROLES and token in ROLES.values()
    ]
    vocab = {piece: number for number, piece in enumerate([*pieces, "<|endoftext|>", *special])}
    library = transformers.GPT2Tokenizer(vocab=vocab, merges=list(bpe.merges), **settings)
    library.save_pretrained(tmp_path)
    if has_old_files:
        config = {"tokenizer_class": "GPT2Tokenizer", **settings}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
        (tmp_path / "tokenizer.json").unlink()
        write_gpt2_vocabulary(tmp_path, bpe, vocab)
    tokenizer, _ = load_text_tokenizer(tmp_path)
    text = "the river<|endoftext|>runs<s> down</s>who? <unk> [PAD]<pad>"
    assert tokenizer.encode_ids(text) == library(text).input_ids
    assert tokenizer.vocab_size == len(library)
    assert tokenizer.sep_token == library.eos_token


@pytest.mark.parametrize("file", ["tokenizer_config.json", "special_tokens_map.json"])
def test_special_tokens_of_gpt_2_keep_the_flags_of_its_config(tmp_path, file):
    """They keep them although no file lists the tokens that were added to the vocabulary."""
    bpe = tiny_byte_bpe()
    pieces = [bpe.id_to_token(number) for number in range(5, bpe.vocab_size)]
    vocab = {piece: number for number, piece in enumerate([*pieces, "<|endoftext|>"])}
    write_gpt2_vocabulary(tmp_path, bpe, vocab)
    flags = ("lstrip", "rstrip", "single_word", "normalized")
    tokens: dict[str, dict[str, object]] = {
        "mask_token": {"content": "<mask>", "lstrip": True},
        "pad_token": {"content": "<pad>", "rstrip": True, "single_word": True},
        "eos_token": {"content": "<|endoftext|>", "lstrip": True, "normalized": True},
    }
    tokens = {name: {**dict.fromkeys(flags, False), **token} for name, token in tokens.items()}
    config: dict[str, object] = {"tokenizer_class": "GPT2Tokenizer"}
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    if file == "tokenizer_config.json":
        config |= {name: {"__type": "AddedToken", **token} for name, token in tokens.items()}
    else:
        (tmp_path / file).write_text(json.dumps(tokens))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer, _ = load_text_tokenizer(tmp_path)
    library = transformers.AutoTokenizer.from_pretrained(tmp_path)
    text = "the <mask> river <pad> runs<pad>down <|endoftext|> who?"
    assert tokenizer.encode_ids(text) == library(text).input_ids
    assert tokenizer.vocab_size == len(library)
    (tmp_path / file).write_text(json.dumps({**config, "pad_token": 3}))
    with refuses(CheckpointError, f"{file}: 'pad_token' is 3"):
        load_text_tokenizer(tmp_path)


def test_gpt_2_reads_as_many_tokens_as_its_tokenizer_config_says(tmp_path):
    write_gpt2_vocabulary(tmp_path, *tiny_gpt2_vocabulary())
    for length, read in ((1024, 1024), (None, 512)):
        config = {"tokenizer_class": "GPT2Tokenizer", "model_max_length": length}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        assert load_text_tokenizer(tmp_path)[0].model_max_length == read


def test_a_single_text_is_not_read_as_many_of_one_letter():
    tokenizer = tiny_wordpiece()
    generator = TextGenerator(
        Gpt(GptConfig(tokenizer.vocab_size, n_embd=12, n_layer=1, n_head=2)), tokenizer
    )
    with refuses(InputError, "a single text"):
        generator("the sea", 3)


def test_a_start_token_outside_the_vocabulary_does_not_count():
    """transformers gives a new GPT the start token 50,256, whatever its vocabulary is."""
    tokenizer = tiny_wordpiece()
    config = GptConfig(
        tokenizer.vocab_size, n_embd=12, n_layer=1, n_head=2, bos_token_id=50_256,
        eos_token_id=50_256,
    )  # fmt: skip
    generator = TextGenerator(Gpt(config), tokenizer)
    assert generator.encode_prompt("sea") == [tokenizer.cls_id, *tokenizer.encode_ids("sea")]
    assert generator(["the sea"], 3)[0].num_tokens == 3


def test_tokens_that_the_tokenizer_lacks_are_not_decoded():
    """An embedding table may have more rows than there are tokens, such as a multiple of 64."""
    tokenizer = tiny_wordpiece()
    model = Gpt(GptConfig(tokenizer.vocab_size + 2, n_embd=12, n_layer=1, n_head=2))
    with torch.no_grad():
        model.final_norm.weight.zero_()
        model.final_norm.bias.fill_(1.0)
        model.word.weight[-1] = 9.0  # the last row is always the likeliest
    result = TextGenerator(model, tokenizer)(["the sea"], 3)[0]
    assert (result.continuation, result.num_tokens, result.is_ended) == ("", 3, False)
    assert result.text == "the sea"


def test_a_damaged_tokenizer_of_gpt_2_is_refused(tmp_path, refused):
    build_theirs().save_pretrained(tmp_path)
    config = {"tokenizer_class": "GPT2Tokenizer"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    assert "merges.txt" in refused("generate", tmp_path, "a text")
    (tmp_path / "tokenizer.json").write_text('{"model": {"vocab": {"a": 3}}}', encoding="utf-8")
    assert "not that of GPT-2" in refused("generate", tmp_path, "a text")
    content = '{"model": {"vocab": null, "merges": []}}'
    (tmp_path / "tokenizer.json").write_text(content, encoding="utf-8")
    assert "not that of GPT-2" in refused("generate", tmp_path, "a text", worded=False)
