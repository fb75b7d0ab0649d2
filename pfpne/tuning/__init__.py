"""Tune one's own functions, one for each client: `tune`, and `Search` for those who evaluate themselves.

space.py has the parameters, searches.py the algorithms to choose from, search.py the search with its ask-and-tell
interface, history.py its file, result.py its result, evaluate.py the call `tune`.
"""
