"""The owner's side: what a release is worth and what it risks. Reads real rows; nothing it says may be released."""
