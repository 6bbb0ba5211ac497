"""Campaigns: the same measurements in sessions over weeks."""
