"""The demo: BERT trained on the documentation of the installed Python packages."""
