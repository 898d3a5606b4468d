"""The readers: how rows of each noun are shown, one file a noun. `stores.reading.Reader` is made of them."""
