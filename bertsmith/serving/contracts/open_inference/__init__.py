"""Open Inference (v2), for the clients of Triton, KServe and MLServer, and KServe's first protocol.

The texts of a request are tensors of the datatype BYTES, with an entry for each text. GET
/v2/models/NAME gives the names of these tensors and of those of the answer.
"""
