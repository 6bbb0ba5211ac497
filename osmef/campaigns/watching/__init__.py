"""Observation of a campaign: status, web page, metrics, log and notifications."""
