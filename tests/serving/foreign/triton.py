"""Triton's client against a server; prints what it gets as JSON.

python triton.py ADDRESS, by a Python that has tritonclient[http].
"""

import json
import sys

import numpy as np
import tritonclient.http as triton

TEXTS = ["a good film", "the story was very dull"]


def infer(client, model, *, is_binary=True, outputs=None, **tensors):
    inputs = []
    for name, texts in tensors.items():
        values = np.array([text.encode() for text in texts], dtype=object)
        tensor = triton.InferInput(name, list(values.shape), "BYTES")
        tensor.set_data_from_numpy(values, binary_data=is_binary)
        inputs.append(tensor)
    requested = None
    if outputs is not None:
        requested = [triton.InferRequestedOutput(name, binary_data=is_binary) for name in outputs]
    return client.infer(model, inputs, outputs=requested, request_id="7")


def listed(array):
    return [one.decode() if isinstance(one, bytes) else one for one in array.tolist()]


def main(address):
    client = triton.InferenceServerClient(address.removeprefix("http://"))
    found = {
        "live": client.is_server_live(),
        "ready": client.is_server_ready(),
        "model_ready": client.is_model_ready("tag"),
        "other_ready": client.is_model_ready("nothing"),
        "server": client.get_server_metadata(),
        "model": client.get_model_metadata("classify"),
    }
    for is_binary in (True, False):
        result = infer(client, "vectors", text=TEXTS, is_binary=is_binary, outputs=["vectors"])
        found[f"vectors_{is_binary}"] = listed(result.as_numpy("vectors"))
        outputs = ["label", "probabilities"]
        result = infer(client, "classify", text=TEXTS, is_binary=is_binary, outputs=outputs)
        found[f"classes_{is_binary}"] = [listed(result.as_numpy(name)) for name in outputs]
    result = infer(client, "classify", text=TEXTS, pair=["lovely", "a film"])
    found["pairs"] = [listed(result.as_numpy(name)) for name in ("label", "probabilities")]
    found["id"] = result.get_response()["id"]
    result = infer(client, "masked_lm", text=["a [MASK] film"])
    found["masks"] = json.loads(listed(result.as_numpy("result"))[0])
    try:
        infer(client, "tag", texts=TEXTS)
    except triton.InferenceServerException as error:
        found["refusal"] = [error.status(), error.message()]
    print(json.dumps(found))


main(sys.argv[1])
