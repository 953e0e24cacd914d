"""Describing a table: a schema proposed to its owner, or found through the private table and paid for."""
