"""Stage 2: adapt a model to the learning task."""
