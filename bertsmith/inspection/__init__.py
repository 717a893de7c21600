"""Pages that show the inside of a model: attention, saliency, predictions of layers, vectors."""
