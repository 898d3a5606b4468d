"""Actions on outside services: one file for each. Users import them from `wakeful.actions`.

Each use of an action has a client of its own, because an action may be called in any process and event loop, and nothing closes it.
"""
