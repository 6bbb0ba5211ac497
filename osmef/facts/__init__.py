"""Metadata of endpoints."""
