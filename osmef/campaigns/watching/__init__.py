"""What a campaign shows and tells: status, web page, metrics, log and notifications."""
