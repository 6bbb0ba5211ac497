"""Layers between endpoints: networks that are raised on both ends of a pair, and taken down."""
