"""WHAT LIES BETWEEN: networks that are raised on both endpoints of a pair, and taken down."""
