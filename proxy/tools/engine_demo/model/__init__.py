"""The tiny model of the engine demo: weights, and the text it was trained on."""
