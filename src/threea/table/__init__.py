"""What is public about a table: its schema, cells, codec and dates."""
