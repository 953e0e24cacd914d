"""Columns that two linked tables have beside their own: a parent's number of children, a child's parent."""

COUNT = "number of children"
"""The parents' column that says how many children they have, up to a public bound."""
PARENT = "parent."
"""How the names of the parent's columns begin beside a child."""
