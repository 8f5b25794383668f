"""Tenon's memory behind the interfaces of other libraries.

Each module imports its library when first used, if at all.
"""
