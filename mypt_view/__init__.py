"""Shows episodes as a person wants to see them, on a terminal or in a page: `mypt-view`.

items.py reads (the place to add another kind of source), blocks.py groups what was read and puts
findings where they belong; all else only shows.
"""
