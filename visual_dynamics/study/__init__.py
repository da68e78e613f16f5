"""Ask people: the paper's two human studies, from making one to scoring its answers."""
