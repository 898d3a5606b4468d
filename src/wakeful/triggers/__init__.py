"""When: what turns the outside world into events, and says which events wake an agent."""
