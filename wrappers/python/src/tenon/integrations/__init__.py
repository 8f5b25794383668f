"""Adapters that offer Tenon's memory by the interfaces of other libraries.

Each module imports its library when first used, if at all.
"""
