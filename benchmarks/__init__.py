"""Benchmarks: what takes too long, or varies too much, for a test. Results are committed as JSON."""
