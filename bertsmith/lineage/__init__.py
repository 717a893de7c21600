"""The relatives of BERT, here called systems: LSTM, ELMo, Transformer, GPT and T5.

The model of each has a file of its own, such as `gpt.py`, and so have its folder (`gpt_folder.py`)
and its objective (`causal_lm.py`). `system.py` lists them all.
"""
