"""The channels: one file for each kind. Users import them from `wakeful.channels`."""
