"""Users' functions, and programs that are declared as one: what may be set on them, how they are called and tried again."""
