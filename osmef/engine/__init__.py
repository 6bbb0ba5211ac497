"""Execution of a run: plan, provision, deploy, measure, collect, tear down."""
