"""Stage 1: models fitted to noisy answers only."""
