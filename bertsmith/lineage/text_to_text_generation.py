"""Text-to-text generation: an encoder–decoder and its tokenizer write texts from other texts."""

from collections.abc import Iterable
from pathlib import Path
from typing import Self

from bertsmith.errors import InputError
from bertsmith.lineage.beam_search import BeamSearch
from bertsmith.lineage.encoder_decoder import SOURCES_AT_ONCE, EncoderDecoder, generate_targets
from bertsmith.lineage.encoder_decoder_folders import find_encoder_decoder
from bertsmith.lineage.generation import Sampling, check_list
from bertsmith.lineage.translation import encode_source
from bertsmith.system.hardware import select_device
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.tokenizer import Tokenizer


class TextToTextGenerator:
    """An encoder–decoder with its tokenizer: texts in, texts out."""

    def __init__(self, model: EncoderDecoder, tokenizer: Tokenizer) -> None:
        self.model = model
        self.tokenizer = tokenizer

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> Self:
        """Load a folder, or a model of the Hugging Face hub.

        Raises:
            CheckpointError: there is no such folder, or its model is no encoder–decoder, or it has
                no tokenizer.
            ConfigError: this machine has no such device.
        """
        target = select_device(device)
        folder, directory = find_encoder_decoder(path)
        return cls(folder.load(directory).to(target), load_tokenizer(directory))

    def __call__(
        self,
        texts: Iterable[str],
        max_new_tokens: int = 128,
        decoding: Sampling | BeamSearch | None = None,
    ) -> list[str]:
        """Write a text of at most `max_new_tokens` tokens from each of `texts`.

        Args:
            decoding: as `continue_sequences` takes it; by default the likeliest token each time.

        Raises:
            InputError: `texts` is no list, or a text is longer than the model reads; the message
                then names its number, from 1.
            CheckpointError: the model's output is not a number.
        """
        check_list(texts)
        sources = [encode_source(self.tokenizer, text, self.model.end_id) for text in texts]
        longest = self.model.longest
        for number, source in enumerate(sources, start=1):
            if longest is not None and len(source) > longest:
                raise InputError(
                    f"text {number}: it has {len(source)} tokens, and this model reads {longest}. "
                    "Shorten it, or divide it into sentences."
                )
        # Texts of similar length are computed together.
        order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
        answers = [""] * len(sources)
        for first in range(0, len(order), SOURCES_AT_ONCE):
            group = order[first : first + SOURCES_AT_ONCE]
            targets = generate_targets(
                self.model, [sources[i] for i in group], max_new_tokens, decoding, numbers=group
            )
            for i, ids in zip(group, targets, strict=True):
                # A T5 may generate tokens that its tokenizer lacks, such as sentinels.
                known_ids = [id_ for id_ in ids if id_ < self.tokenizer.vocab_size]
                answers[i] = self.tokenizer.decode(known_ids)
        return answers
