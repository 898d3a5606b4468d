"""The senders that Wakeful knows: how each proves itself, and what its requests say."""
