"""Pages that show the inside of a model: attention, saliency, predictions of layers, vectors.

`look.py` chooses how a model is looked into: an encoder by `text_look.py`, another model (here
called a system), such as a GPT, by `system_look.py`. The result is a `Look`, which page.py and
page.js show.
"""
