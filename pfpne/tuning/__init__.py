"""Tune one's own functions, one for each client: `tune`, and `Search` for those who evaluate themselves.

space.py has the parameters, searches.py the algorithms to choose from, search.py the search that is asked and told,
history.py its file, result.py what comes of it, evaluate.py the call that does it all.
"""
