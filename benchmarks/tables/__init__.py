"""The tables of `threea benchmark`: which releases are made, and how they are scored."""
