"""Plan, provision, deploy, measure, collect, tear down."""
