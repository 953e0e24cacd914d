"""A table's result as Markdown and HTML, with charts."""
