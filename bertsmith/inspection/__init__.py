"""Pages that show the inside of a model: attention, saliency, each layer's guess, vectors."""
