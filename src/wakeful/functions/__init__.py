"""Users' functions, and programs declared as functions: their options, how they are called and retried."""
