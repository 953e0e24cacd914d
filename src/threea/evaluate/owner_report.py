"""x."""
NOTICE = "For the owner only - do not release: this page was made by reading the private rows"
def render(scores, evidence): return ""
