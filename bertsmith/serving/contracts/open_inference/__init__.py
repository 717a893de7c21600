"""Open Inference (v2), for the clients of Triton, KServe and MLServer, and KServe's first protocol.

A model's texts are tensors of the datatype BYTES with an entry for each text; GET /v2/models/NAME
names them and those of the answer.
"""
