"""Recipes under equal terms: each pre-trained and fine-tuned with several seeds, on one page."""
