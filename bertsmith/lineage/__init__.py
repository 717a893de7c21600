"""The relatives of BERT, here called systems: LSTM, ELMo, Transformer, GPT and T5.

The network of each has a file of its own, such as `gpt.py`, and so have the reading and writing of
its folder (`gpt_folder.py`), its objective (`causal_lm.py`) and its classifier
(`gpt_classifier.py`). `system.py` lists those that are pre-trained on a corpus; the Transformer is
trained on pairs of texts (`translation_run.py`).
"""
