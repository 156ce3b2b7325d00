"""The database for agents: a server of the Model Context Protocol, and a page that says how to ask.

An answer carries the query that its numbers are from, or says why there is none. Texts of traces are data.
"""
