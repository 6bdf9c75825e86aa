"""``logwitness explain``: what a rule says, who states it, what breaks it, and who watches over it.

`pages` reads the rules pages, `transcripts` the small histories that break each check, `topics` brings together what
the installed parts know, `command` prints it.
"""
