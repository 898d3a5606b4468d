"""Reading what is stored, for code that asks about many nouns: one file a noun. `readers.reader.Reader` is made of them; a noun of `resources` is only handed on."""
