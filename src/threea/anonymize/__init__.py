"""The only folder that may see rows. Audit this, and you audited the library."""
