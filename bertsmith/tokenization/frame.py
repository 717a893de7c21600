"""The post-processor that builds BERT's rows: [CLS] A [SEP] and [CLS] A [SEP] B [SEP]."""

from collections.abc import Mapping
from pathlib import Path

from bertsmith.errors import CheckpointError
from bertsmith.tokenization.tokenizer_files import Json


def read_frame(processor: Json, path: Path) -> Json:
    """The names of [CLS] and [SEP] from the post-processor, which must be BERT's."""
    match processor:
        case {"type": "BertProcessing", "cls": [str(cls_token), _], "sep": [str(sep_token), _]}:
            return {"cls_token": cls_token, "sep_token": sep_token}
        case {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": str(cls_token)}},
                _,
                {"SpecialToken": {"id": str(sep_token)}},
            ],
        }:
            if processor | _template(cls_token, sep_token) == processor:
                return {"cls_token": cls_token, "sep_token": sep_token}
    raise CheckpointError(
        f"{path}: its post_processor ({processor.get('type')}) does not build [CLS] A [SEP] and "
        "[CLS] A [SEP] B [SEP]. Choose a BERT checkpoint."
    )


def _template(cls_token: str, sep_token: str) -> Json:
    """BERT's two templates as TemplateProcessing writes them."""

    def special(token: str, type_id: int) -> Json:
        return {"SpecialToken": {"id": token, "type_id": type_id}}

    def sequence(name: str, type_id: int) -> Json:
        return {"Sequence": {"id": name, "type_id": type_id}}

    single = [special(cls_token, 0), sequence("A", 0), special(sep_token, 0)]
    return {"single": single, "pair": [*single, sequence("B", 1), special(sep_token, 1)]}


def frame_object(ids: Mapping[str, int], settings: Json) -> Json:
    """The post-processor that builds [CLS] A [SEP] B [SEP]."""
    frame = (settings["cls_token"], settings["sep_token"])
    return {
        "type": "TemplateProcessing",
        **_template(*frame),
        "special_tokens": {
            token: {"id": token, "ids": [ids[token]], "tokens": [token]} for token in frame
        },
    }
