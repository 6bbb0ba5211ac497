"""REACH: SSH sessions to endpoints."""
