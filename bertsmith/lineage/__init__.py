"""The relatives of BERT, here called systems: LSTM, ELMo, Transformer, GPT and T5.

Each has a file for its network, such as `gpt.py`, for reading and writing its folder
(`gpt_folder.py`), for its objective (`causal_lm.py`) and for its classifier (`gpt_classifier.py`).
`system.py` lists the systems that are pre-trained on a corpus; the Transformer is trained on pairs
of texts (`translation_run.py`).
"""
