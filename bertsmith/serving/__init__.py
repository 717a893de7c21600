"""Serving of models over HTTP: one process speaks HTTP, another one (the engine) computes.

The HTTP process imports no torch. A request comes in by one of the `contracts`, each of which has
the routes of another server that clients know, such as OpenAI's. `service.py` sends its texts to
the engine process (`engine_process.py`). There `engine.py` computes them together with the texts of
other requests, which `request_queue.py` chooses.
"""
