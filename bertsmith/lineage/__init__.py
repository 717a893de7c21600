"""Other systems than BERT, such as GPT and T5; the model of each has a file of its own."""
