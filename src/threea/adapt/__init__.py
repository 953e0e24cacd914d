"""Stage 2: bend a model to the learning task."""
