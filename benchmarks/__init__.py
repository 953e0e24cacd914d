"""Benchmarks of threea: what takes too long, or varies too much, for a test. Results are committed as JSON.

`threea benchmark TABLE` makes the tables (`command.py`, `tables/`, `page/`), `python -m benchmarks` runs the scripts.
Not part of the wheel: clone the repository, and run from its folder.
"""
