"""Methods as published, which read exposed rows: guarantee `claimed` or `none`. Only this folder may call `expose`."""
