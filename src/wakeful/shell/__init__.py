"""How every command reads its words, opens a store, asks who speaks, and prints."""
