"""KServe's client against a server; prints what it gets as JSON.

python kserve_client.py ADDRESS, by a Python that has kserve.
"""

import asyncio
import json
import sys

from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig

TEXTS = ["a good film", "the story was very dull"]


def request(model, **tensors):
    inputs = [
        InferInput(name, [len(texts)], "BYTES", data=texts) for name, texts in tensors.items()
    ]
    return InferRequest(model, inputs, request_id="7")


async def main(address):
    client = InferenceRESTClient(RESTConfig(protocol="v2", retries=0))
    found = {
        "live": await client.is_server_live(address),
        "ready": await client.is_server_ready(address),
        "model_ready": await client.is_model_ready(address, "tag"),
    }
    for model in ("vectors", "classify"):
        response = await client.infer(address, request(model, text=TEXTS), model_name=model)
        found[model] = {output.name: output.as_numpy().tolist() for output in response.outputs}
        found["id"] = response.id
    try:
        await client.infer(address, request("tag", texts=TEXTS), model_name="tag")
    except Exception as error:
        found["refusal"] = str(error)
    await client.close()
    print(json.dumps(found, default=bytes.decode))


asyncio.run(main(sys.argv[1]))
