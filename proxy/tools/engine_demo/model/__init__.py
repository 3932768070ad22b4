"""The tiny model of the engine demo: weights, the text it was trained on, and the training."""
