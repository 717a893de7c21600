"""Serving of models over HTTP: one process speaks HTTP, another one computes.

The HTTP process imports no torch. A request comes in by one of the `contracts`, `service.py` sends
its texts to the engine process (`engine_process.py`), and `engine.py` computes them together with
the texts of other requests, which `request_queue.py` chooses.
"""
