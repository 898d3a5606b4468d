"""Where messages can go. Each file is one kind of channel; `wakeful.channels` is where users find them."""
