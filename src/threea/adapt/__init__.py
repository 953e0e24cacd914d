"""Stage 2: bend the model to the learning task."""
