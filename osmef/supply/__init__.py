"""Where the programs come from that endpoints run and that OSMeF does not bring."""
