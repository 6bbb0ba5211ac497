"""The conductor: dispatch, skip policy and cleanup of a campaign's sessions; systemd and cron."""
