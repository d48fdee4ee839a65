"""Singer taps as sources: programs that write what they read as lines of JSON.

allowed      which taps there are: those that the worker's file names
messages     the lines of a tap: SCHEMA, RECORD and STATE
schemas      JSON Schemas of taps as schemas of Connect, and their values
process      a run of a tap
source       the connector
"""
