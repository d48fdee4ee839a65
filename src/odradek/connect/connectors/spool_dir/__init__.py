"""Files that are put into a directory, as the SpoolDir connectors of jcustenborder read them.

settings     what users set, for all formats and for each
source       the connectors, one for each format
task         which file comes next, how far it was read, and what becomes of it then
inbox        the directories: files that wait, that are finished and that have errors
formats      what is in a file: lines, CSV, JSON, or the file as a whole
fields       schemas as the settings write them, and text as values that fit them
"""
